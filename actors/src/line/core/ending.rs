//! How a line ends: what it owes before, and who is waited for.

use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use lineway_wire::line::{Direction, EarlyEnd, FinishReason};

use super::{Line, ROUNDS};
use crate::line::end::End;
use crate::line::pool::Pool;
use crate::registry::LineState;
use lineway_wire::queue::ByteQueue;

/// How often a connection that nobody reads is asked whether its peer has reset it.
const LOOK: Duration = Duration::from_secs(1);

/// How long a peer that still sends is read before its connection is closed: closing one with
/// unread bytes sends a reset, which destroys what was delivered and not yet read.
const DISCARD: Duration = Duration::from_secs(2);

impl Line {
    /// Asks connections that are not read whether their peer has reset them.
    pub(super) fn look(&mut self, now: Instant) {
        let unread = |end: &End, direction: Direction| {
            end.is_socket()
                && (self.flows[direction as usize].paused.paused() || !self.ends.reads(direction))
        };
        if !unread(&self.near, Direction::Upstream) && !unread(&self.far, Direction::Downstream) {
            self.look_at = None;
            return;
        }
        let at = *self.look_at.get_or_insert(now + LOOK);
        if now < at {
            return;
        }
        self.look_at = Some(now + LOOK);
        for (broken, direction) in [
            (self.near.take_error(), Direction::Upstream),
            (self.far.take_error(), Direction::Downstream),
        ] {
            if broken.is_some() {
                self.source_broke(direction);
            }
        }
    }

    /// Decides whether the line is over.
    pub(super) fn judge(&mut self, now: Instant) {
        if self.over.is_some() {
            return;
        }
        let queued = [self.flows[0].queue.len(), self.flows[1].queue.len()];
        // The time that the far side has to be up bounds it.
        let mut delivers_once_up = false;
        if !self.far.is_up() {
            let waiting = queued[0] + self.stages.held() + self.far.unsent();
            delivers_once_up = waiting > 0 && self.left_orderly();
            let cancelled = self.ends.early_end(waiting) == Some(EarlyEnd::Cancel);
            let owed = queued[1] > 0 && self.ends.delivers(Direction::Downstream);
            let closing = self.ends.closing() && !delivers_once_up;
            if (cancelled || closing) && !owed {
                self.over = self.ends.over([0, 0]).or(Some(FinishReason::PeerFinished));
                return;
            }
        }
        self.over = self.ends.over(queued);
        // A choice has a limit of its own, and what it waits for is not the client.
        let races = matches!(self.far, End::Race(_));
        if self.over.is_none() && !races && self.idle.expired(now) {
            self.over = Some(FinishReason::Idle);
        }
        if self.over.is_none() && self.own_limit.is_some_and(|at| now >= at) {
            self.over = Some(FinishReason::Timeout);
        }
        if self.over.is_none() && self.ends.closing() && !delivers_once_up {
            let until = *self.linger_until.get_or_insert(now + self.chain.linger);
            if now >= until {
                self.over = Some(self.ends.reason().unwrap_or(FinishReason::Timeout));
            }
        }
        if self.over.is_none() && self.far.is_up() {
            self.view.set_state(if self.ends.closing() {
                LineState::Closing
            } else if self.ends.half_closed() {
                LineState::HalfClosed
            } else {
                LineState::Open
            });
        }
    }

    /// True when the near end is a place on a parent that was closed, which is no reset: what came
    /// before is delivered once the far side is up (M19, M20, L09).
    fn left_orderly(&self) -> bool {
        let closed = match &self.near {
            End::Stream(stream) => stream.closed(),
            _ => None,
        };
        self.ends.reason().is_none() && closed == Some(FinishReason::PeerFinished)
    }

    /// The source of a direction broke: nothing goes back to it (L03).
    pub(super) fn source_broke(&mut self, direction: Direction) {
        self.ends.source_broke(direction);
        self.sink(direction).other_end_broke();
        self.flows[direction.reverse() as usize].queue.clear(&self.worker.pool);
    }

    /// True while a line that is over still reads its peers: a client whose server stopped reading,
    /// for a short while; both sides of a line that was ended from the middle, what is there.
    pub(super) fn still_discards(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        if !self.discards {
            return false;
        }
        let until = *self.discard_until.get_or_insert(now + DISCARD);
        let pool = &self.worker.pool;
        let goes_on = match self.over {
            Some(FinishReason::PeerFinished) => discard(&mut self.near, cx, pool) != Left::End,
            Some(FinishReason::Admin) => {
                let left = [discard(&mut self.near, cx, pool), discard(&mut self.far, cx, pool)];
                left.contains(&Left::More)
            }
            _ => false,
        };
        self.discards = goes_on && now < until;
        self.discards
    }
}

/// What a peer still has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// It has ended.
    End,
    /// Nothing at the moment.
    Nothing,
    /// More than one turn takes; the line is woken again.
    More,
}

/// Throws away what a peer sends.
fn discard(end: &mut End, cx: &mut Context<'_>, pool: &Pool) -> Left {
    if !end.is_socket() {
        return Left::End;
    }
    let mut dropped = ByteQueue::default();
    for _ in 0..ROUNDS {
        match end.poll_read(cx, &mut dropped, pool) {
            Poll::Ready(Ok(read)) if read > 0 => dropped.clear(pool),
            Poll::Ready(_) => return Left::End,
            Poll::Pending => return Left::Nothing,
        }
    }
    cx.waker().wake_by_ref();
    Left::More
}
