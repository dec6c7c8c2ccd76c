//! Submitting records and waiting for what becomes of them (2.3, 2.5).

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lineway_wire::zmp::core::{
    Attempt, Completion, CompletionId, Outcome, Submit, Submitted, Target, WaiterId,
};
use lineway_wire::zmp::outcome::{Errno, RequestResult};
use lineway_wire::zmp::{Record, RoutingId};

use super::error::{RequestError, SendError, TERMINATED};
use super::handle::Socket;
use super::shared::{Shared, State};
use super::wait::{On, WaitKey, Waiting, now};

impl Socket {
    /// DONTWAIT (D-D1).
    pub(super) fn try_submit(
        &self,
        target: Target<'_>,
        record: Record,
        submit: Submit,
        context: u64,
    ) -> Result<Submitted, SendError> {
        let now = now();
        let tried = self.shared.with(|core| core.try_submit(now, target, record, submit, context));
        tried.map_err(SendError::from)
    }

    /// NONE (D-N1): waits for admission within `send_timeout`, which is looked up once.
    pub(super) async fn submit(
        &self,
        target: Option<&RoutingId>,
        record: Record,
        submit: Submit,
    ) -> Result<Submitted, SendError> {
        let mut record = Some(record);
        let mut admission =
            Admission { shared: &self.shared, wait: None, endless: false, linkless: None };
        poll_fn(|cx| admission.poll(cx, target, submit, &mut record)).await
    }

    /// A request whose completion goes to this call alone (D-R1).
    pub(super) async fn ask_peer(
        &self,
        target: Option<&RoutingId>,
        record: Record,
        timeout: Option<Duration>,
    ) -> Result<Record, RequestError> {
        let submit = Submit::Request { timeout, claim: true };
        let id = self.submit(target, record, submit).await?;
        let completion = match id {
            Some(id) => Claim::new(&self.shared, id).completion().await,
            None => None,
        };
        let failed = |result, errno, parts| RequestError::Failed { result, errno, parts };
        match completion.map(|completion| completion.outcome) {
            Some(Outcome::Request { result: RequestResult::Ok, parts: Some(record), .. }) => {
                Ok(record)
            }
            Some(Outcome::Request { result: RequestResult::Ok, .. }) => Ok(Record::new("")),
            Some(Outcome::Request { result, errno, parts }) => Err(failed(result, errno, parts)),
            Some(Outcome::Writable | Outcome::Removed) | None => {
                Err(failed(RequestResult::Terminated, Errno::ESHUTDOWN, None))
            }
        }
    }
}

/// How long a call that waits for ever waits for an id that has no link.
const WITHOUT_LINK: Duration = Duration::from_secs(1);

/// How often such a call looks whether its id has one.
const LOOK: Duration = Duration::from_millis(200);

/// One call that waits for the admission of its record. Dropped, it leaves nothing behind: its
/// record was taken whole, or not at all.
struct Admission<'a> {
    shared: &'a Shared,
    wait: Option<(WaiterId, WaitKey)>,
    endless: bool,
    /// The id that an endless call waits for was last seen without a link.
    linkless: Option<Instant>,
}

impl Admission<'_> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        target: Target<'_>,
        submit: Submit,
        slot: &mut Option<Record>,
    ) -> Poll<Result<Submitted, SendError>> {
        let Some(record) = slot.take() else {
            unreachable!("a future that is over is not polled again");
        };
        let now = now();
        let shared = self.shared;
        shared.step(|state| {
            let attempt = match self.wait {
                None => {
                    let (attempt, waiter) = state.core.begin(now, target, record, submit, 0);
                    if let Some(waiter) = waiter {
                        let timeout = state.timing.send_timeout;
                        self.endless = timeout.is_none() && target.is_some();
                        let first = if self.endless { Some(LOOK) } else { timeout };
                        let key = state.wait(On::Waiter(waiter), cx.waker(), limit(now, first));
                        self.wait = Some((waiter, key));
                    }
                    attempt
                }
                Some((waiter, key)) => {
                    state.waits.again(key, cx.waker());
                    state.core.again(now, waiter, record)
                }
            };
            let result = match (attempt, self.wait) {
                (Attempt::Done(submitted), _) => Ok(submitted),
                (Attempt::Failed(refused), _) => Err(Box::new(refused).into()),
                (Attempt::Waits(record), Some((waiter, key))) => {
                    if !self.is_over(state, key, target, now) {
                        *slot = Some(record);
                        return Poll::Pending;
                    }
                    Err(SendError::new(record, state.core.give_up(waiter)))
                }
                (Attempt::Waits(record), None) => Err(SendError::new(record, TERMINATED)),
            };
            if let Some((_, key)) = self.wait.take() {
                state.waits.remove(key);
            }
            Poll::Ready(result)
        })
    }

    fn is_over(
        &mut self,
        state: &mut State,
        key: WaitKey,
        target: Target<'_>,
        now: Instant,
    ) -> bool {
        let over = state.waits.is_over(key, now);
        if !self.endless {
            return over;
        }
        if target.is_some_and(|id| state.core.has_link(id)) {
            self.linkless = None;
        } else {
            let since = *self.linkless.get_or_insert(now);
            if now.saturating_duration_since(since) >= WITHOUT_LINK {
                return true;
            }
        }
        if over {
            state.wait_on(key, now + LOOK);
        }
        false
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if let Some((waiter, key)) = self.wait {
            self.shared.step(|state| {
                state.waits.remove(key);
                state.core.forget(waiter);
            });
        }
    }
}

/// A completion that goes to one call alone. Dropped, nobody takes it.
pub(super) struct Claim<'a> {
    shared: &'a Shared,
    id: CompletionId,
    taken: bool,
}

impl<'a> Claim<'a> {
    pub(super) const fn new(shared: &'a Shared, id: CompletionId) -> Self {
        Self { shared, id, taken: false }
    }

    /// The completion; `None` when the socket is closed first.
    pub(super) async fn completion(mut self) -> Option<Completion> {
        let id = self.id;
        let mut waiting = Waiting::new(self.shared, On::Completion(id), |_| None);
        let take = |state: &mut State| state.core.claimed(id);
        let completion = poll_fn(|cx| waiting.poll(cx, take)).await.ok();
        self.taken = completion.is_some();
        completion
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.taken {
            self.shared.with(|core| core.disclaim(self.id));
        }
    }
}

/// When a wait that begins at this time ends.
pub(super) fn limit(now: Instant, timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| now.checked_add(timeout))
}
