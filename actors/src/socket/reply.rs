//! Replies that are owed (3.5).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use lineway_wire::zmp::Record;
use lineway_wire::zmp::core::{Refused, ReplyId, WaiterId};
use lineway_wire::zmp::outcome::SubmitResult;

use super::error::{ReplyError, TERMINATED};
use super::shared::Shared;
use super::submit::limit;
use super::wait::{On, WaitKey, now};

/// The reply that a request is owed. Dropped, it is not given: the requester finds out by its
/// timeout, and the socket counts it.
#[derive(Debug)]
pub struct ReplyToken {
    shared: Arc<Shared>,
    id: ReplyId,
    owed: bool,
}

impl ReplyToken {
    pub(super) fn new(shared: &Arc<Shared>, id: ReplyId) -> Self {
        Self { shared: Arc::clone(shared), id, owed: true }
    }

    /// Its number, never used twice by its socket (R-P4).
    pub const fn id(&self) -> ReplyId {
        self.id
    }

    /// Answers; waits within `send_timeout` for room on the link that the requester has then
    /// (R-P2). A future that is dropped before it is over gives the reply up.
    ///
    /// # Errors
    /// The record comes back, and the token where the reply is still owed: no room in time
    /// (BACKPRESSURED), too large (EMSGSIZE). Without a token it is owed no more: the requester was
    /// removed (`NOT_FOUND`), or the socket is closed.
    pub async fn reply(self, record: impl Into<Record>) -> Result<(), ReplyError> {
        let mut slot = Some(record.into());
        let mut answer = Answer { token: &self, wait: None };
        let given = poll_fn(|cx| answer.poll(cx, &mut slot)).await;
        drop(answer);
        self.given(given)
    }

    /// Answers, if the link of the requester takes it at once.
    ///
    /// # Errors
    /// As [`Self::reply`].
    pub fn try_reply(self, record: impl Into<Record>) -> Result<(), ReplyError> {
        let given = self.shared.with(|core| core.try_reply(self.id, record.into()));
        self.given(given)
    }

    fn given(mut self, given: Result<(), Box<Refused>>) -> Result<(), ReplyError> {
        let Err(refused) = given else {
            self.owed = false;
            return Ok(());
        };
        let Refused { record, error, .. } = *refused;
        let over = matches!(error.result, SubmitResult::NotFound | SubmitResult::Terminated);
        self.owed = !over;
        Err(ReplyError { error, record, token: (!over).then_some(self) })
    }
}

impl Drop for ReplyToken {
    fn drop(&mut self) {
        if self.owed {
            self.shared.with(|core| core.abandon_reply(self.id));
        }
    }
}

/// A reply that waits for room.
struct Answer<'a> {
    token: &'a ReplyToken,
    wait: Option<(WaiterId, WaitKey)>,
}

impl Answer<'_> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        slot: &mut Option<Record>,
    ) -> Poll<Result<(), Box<Refused>>> {
        let Some(record) = slot.take() else {
            unreachable!("a future that is over is not polled again");
        };
        let (id, now, wait) = (self.token.id, now(), &mut self.wait);
        self.token.shared.step(|state| {
            let Err(mut refused) = state.core.try_reply(id, record) else {
                return Poll::Ready(Ok(()));
            };
            if refused.error.result != SubmitResult::Backpressured {
                return Poll::Ready(Err(refused));
            }
            if state.closed {
                refused.error = TERMINATED;
                return Poll::Ready(Err(refused));
            }
            let over = if let Some((_, key)) = *wait {
                state.waits.again(key, cx.waker());
                state.waits.is_over(key, now)
            } else {
                let limit = limit(now, state.timing.send_timeout);
                let waiter = state.core.wait_reply(id);
                let key = state.wait(On::Waiter(waiter), cx.waker(), limit);
                *wait = Some((waiter, key));
                limit.is_some_and(|limit| limit <= now)
            };
            if over {
                return Poll::Ready(Err(refused));
            }
            *slot = Some(refused.record);
            Poll::Pending
        })
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if let Some((waiter, key)) = self.wait {
            self.token.shared.step(|state| {
                state.waits.remove(key);
                state.core.forget(waiter);
            });
        }
    }
}
