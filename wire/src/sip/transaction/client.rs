//! One branch: the client transaction of a request that was sent on (contract 2.4, 2.6, 2.8, 2.10).

use std::time::Instant;

use super::{Kind, Options, Packed, Timing};

mod repeat;
#[cfg(test)]
mod tests;

use repeat::{Repeat, after};

/// The last final of what could not be waited for (R38).
const TIMED_OUT: u16 = 408;

/// The final of what was given up (`cancel-b-method` 0).
const GONE: u16 = 487;

/// What a branch begins with.
#[derive(Clone, Copy, Debug)]
pub struct ClientStart {
    /// Of which method.
    pub kind: Kind,
    /// The transport delivers by itself: nothing is retransmitted.
    pub reliable: bool,
    /// Its times.
    pub timing: Timing,
    /// What the router has set.
    pub options: Options,
    /// When its transaction began: the lifetime counts from there.
    pub born: Instant,
}

/// What is to be done about a reply to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The ACK of this branch is sent, at once and before anything else (R43, R45).
    pub ack: bool,
    /// The CANCEL of this branch is sent, for the first time or again (R56, R67).
    pub cancel: bool,
    /// What the transaction hears of it.
    pub pass: Pass,
}

/// What a transaction hears of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// A provisional other than 100, repeated or not (R51).
    Provisional,
    /// A 2xx; each copy of one to an INVITE (R46), the first one to others.
    Success,
    /// The first final of 300 and above.
    Failure,
    /// Nothing: a 100 (R52), a copy, a provisional of a cancelled branch or after the final, another
    /// final behind the first.
    Nothing,
}

/// What a branch that is not wanted any more does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelling {
    /// Its CANCEL is sent.
    Now,
    /// Its CANCEL follows the first provisional (R56, R67).
    Later,
    /// It is over, as if it had answered 487 (`cancel-b-method` 0).
    Gone,
    /// It is over already, is no INVITE, or was cancelled before.
    Nothing,
}

/// What the time asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// The request is sent again, the same bytes (R34).
    Request,
    /// The CANCEL is sent again (R58).
    Cancel,
    /// The branch has no final and waits no longer: the transaction hears [`super::Says::Timeout`].
    Timeout {
        /// It had a provisional.
        spoke: bool,
        /// Its CANCEL is sent (R39).
        cancel: bool,
    },
}

/// What became of the CANCEL.
#[derive(Clone, Copy, Debug)]
enum Cancel {
    /// Nobody asked for it.
    None,
    /// It waits for a provisional (R56).
    Waits,
    /// It has left, and is sent again up to that time.
    Sent { again: Option<Repeat>, until: Instant },
    /// It has its final reply.
    Answered,
}

/// The client transaction of one branch, from the moment that its request left.
///
/// ```text
///  sent ──1xx──► proceeding ──────► ended by a final reply
///   │                │                  ▲
///   └─── timer ──────┴──► ended here ───┘ (a 2xx may still come)
/// ```
///
/// Beside that runs its CANCEL. It is owed by an INVITE without a final reply that nobody waits
/// for any more: it was cancelled, its transaction is settled, or it was ended here. It leaves once
/// the branch has spoken, and is repeated until it has its own final reply (R58).
#[derive(Clone, Debug)]
pub struct Client {
    kind: Kind,
    reliable: bool,
    timing: Packed,
    options: Options,
    born: Instant,
    /// The request is sent again.
    request: Option<Repeat>,
    cancel: Cancel,
    deadline: Option<Instant>,
    /// A provisional came.
    proceeding: bool,
    /// A final came.
    answered: bool,
    settled: bool,
    /// The final, made here or received.
    ended: Option<u16>,
    /// Up to when copies of its 2xx pass, with `rfc6026` (timer M of RFC 6026 7.2).
    accepted: Option<Instant>,
}

impl Client {
    /// A branch whose request has left.
    pub fn new(start: ClientStart, now: Instant) -> Self {
        let ClientStart { kind, reliable, timing, options, born } = start;
        let mut client = Self {
            kind,
            reliable,
            timing: timing.into(),
            options,
            born,
            request: (!reliable).then(|| Repeat::new(&timing, now)),
            cancel: Cancel::None,
            deadline: None,
            proceeding: false,
            answered: false,
            settled: false,
            ended: None,
            accepted: None,
        };
        client.wait(now);
        client
    }

    /// A reply to the request.
    pub fn reply(&mut self, code: u16, now: Instant) -> Heard {
        match code {
            0..100 => Heard { ack: false, cancel: false, pass: Pass::Nothing },
            100..200 => self.provisional(code, now),
            _ => self.last(code, now),
        }
    }

    fn provisional(&mut self, code: u16, now: Instant) -> Heard {
        let is_first = !std::mem::replace(&mut self.proceeding, true);
        let mut heard = Heard { ack: false, cancel: false, pass: Pass::Nothing };
        match self.kind {
            _ if self.answered => {}
            Kind::Invite if self.is_unwanted() => {
                self.request = None;
                heard.cancel = self.send_cancel(now);
            }
            Kind::Other if self.is_over() => {}
            kind => {
                match kind {
                    Kind::Invite => {
                        self.request = None;
                        self.wait(now);
                    }
                    Kind::Other if is_first => {
                        if let Some(request) = &mut self.request {
                            request.slow(&self.timing.open(), now);
                        }
                    }
                    Kind::Other => {}
                }
                if code > 100 {
                    heard.pass = Pass::Provisional;
                }
            }
        }
        heard
    }

    fn last(&mut self, code: u16, now: Instant) -> Heard {
        let is_success = code < 300;
        let is_first = !std::mem::replace(&mut self.answered, true);
        let before = self.ended;
        self.stop();
        if is_success || before.is_none() {
            self.ended = Some(code);
        }
        let passes = match (self.kind, is_success) {
            (Kind::Invite, true) => self.accepts(now),
            // RFC 4320 4.2: what comes late is of no use to anybody.
            (Kind::Other, true) => is_first && (before.is_none() || !self.options.rfc4320),
            (_, false) => before.is_none(),
        };
        let pass = match (passes, is_success) {
            (false, _) => Pass::Nothing,
            (true, true) => Pass::Success,
            (true, false) => Pass::Failure,
        };
        Heard { ack: self.kind == Kind::Invite && !is_success, cancel: false, pass }
    }

    /// Whether this 2xx to an INVITE passes: each one, with `rfc6026` up to 64 T1 after the first.
    fn accepts(&mut self, now: Instant) -> bool {
        let m = self.timing.open().t1.saturating_mul(64);
        let until = *self.accepted.get_or_insert_with(|| after(now, m));
        !self.options.rfc6026 || now < until
    }

    /// A reply to the CANCEL of this branch: a final one ends its retransmission, a provisional one
    /// slows it down. It goes nowhere.
    pub fn cancel_answered(&mut self, code: u16, now: Instant) {
        match &mut self.cancel {
            Cancel::Sent { .. } if code >= 200 => self.cancel = Cancel::Answered,
            Cancel::Sent { again, until } => {
                if let Some(repeat) = again {
                    repeat.slow(&self.timing.open(), now);
                }
                *again = again.filter(|again| again.next() < *until);
            }
            Cancel::None | Cancel::Waits | Cancel::Answered => {}
        }
    }

    /// The transaction does not want it any more: the caller cancelled, another branch has won.
    /// Without a provisional it goes by `cancel-b-method`; where the CANCEL leaves at once (2), the
    /// request is not sent again.
    pub fn cancel(&mut self, now: Instant) -> Cancelling {
        let is_open = self.ended.is_none() && matches!(self.cancel, Cancel::None);
        if self.kind == Kind::Other || !is_open {
            return Cancelling::Nothing;
        }
        match self.options.cancel_b_method {
            _ if self.proceeding => {}
            0 => {
                self.stop();
                self.cancel = Cancel::Waits;
                self.ended = Some(GONE);
                return Cancelling::Gone;
            }
            2 => self.request = None,
            _ => {
                self.cancel = Cancel::Waits;
                return Cancelling::Later;
            }
        }
        self.send_cancel(now);
        Cancelling::Now
    }

    /// Whether a CANCEL leaves: the first one, or once more where one may be lost.
    fn send_cancel(&mut self, now: Instant) -> bool {
        match self.cancel {
            Cancel::Answered => return false,
            Cancel::Sent { .. } => return !self.reliable,
            Cancel::None | Cancel::Waits => {}
        }
        let until = after(now, self.timing.open().fr);
        let again = (!self.reliable).then(|| Repeat::new(&self.timing.open(), now));
        self.cancel = Cancel::Sent { again: again.filter(|again| again.next() < until), until };
        self.deadline = self.deadline.map(|deadline| deadline.min(until));
        true
    }

    /// The branch is part of a transaction that has its final: timers that would make one stop, but
    /// a CANCEL that is owed stays owed (R67).
    pub fn settle(&mut self) {
        self.settled = true;
        self.stop();
    }

    /// Other times, from here on (`t_set_fr` in a reply route): what it waits for begins anew, but
    /// the wait behind its CANCEL gets no longer.
    pub fn retime(&mut self, timing: Timing, now: Instant) {
        self.timing = timing.into();
        if let Some(before) = self.deadline {
            self.wait(now);
            if matches!(self.cancel, Cancel::Sent { .. } | Cancel::Answered) {
                self.deadline = self.deadline.map(|deadline| deadline.min(before));
            }
        }
    }

    /// What is due, until there is nothing.
    pub fn due(&mut self, now: Instant) -> Option<Due> {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Some(self.time_out(now));
        }
        if self.request.as_mut().is_some_and(|request| request.due(&self.timing.open(), now)) {
            return Some(Due::Request);
        }
        let Cancel::Sent { again, until } = &mut self.cancel else { return None };
        let is_due = again.as_mut().is_some_and(|again| again.due(&self.timing.open(), now));
        *again = again.filter(|again| again.next() < *until);
        is_due.then_some(Due::Cancel)
    }

    fn time_out(&mut self, now: Instant) -> Due {
        self.stop();
        self.ended = Some(TIMED_OUT);
        let spoke = self.proceeding;
        let is_owed = matches!(self.cancel, Cancel::None | Cancel::Waits);
        let cancel = self.kind == Kind::Invite && spoke && is_owed && self.send_cancel(now);
        Due::Timeout { spoke, cancel }
    }

    /// When it wants to send something again: the worker's wheel.
    pub fn wake(&self) -> Option<Instant> {
        let again = match &self.cancel {
            Cancel::Sent { again, .. } => again.as_ref(),
            Cancel::None | Cancel::Waits | Cancel::Answered => None,
        };
        self.request.iter().chain(again).map(Repeat::next).min()
    }

    /// When it waits no longer for a final reply: the supervisor's deadline.
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// A provisional or final reply came.
    pub const fn spoke(&self) -> bool {
        self.proceeding || self.answered
    }

    /// The status of the final reply, made here or received; `None` while there is none. A 2xx
    /// takes the place of another.
    pub const fn ended(&self) -> Option<u16> {
        self.ended
    }

    /// It was cancelled, whether or not the CANCEL has left.
    pub const fn is_cancelled(&self) -> bool {
        !matches!(self.cancel, Cancel::None)
    }

    /// It has its final, or its transaction has.
    const fn is_over(&self) -> bool {
        self.settled || self.ended.is_some()
    }

    /// Nobody waits for its final reply.
    const fn is_unwanted(&self) -> bool {
        self.is_over() || self.is_cancelled()
    }

    /// Waits for the final reply from here on (R38, R40), as long as the transaction may live.
    fn wait(&mut self, now: Instant) {
        let Timing { fr, fr_inv, max_inv, max_noninv, .. } = self.timing.open();
        let (wait, life) = match self.kind {
            Kind::Invite if self.proceeding => (fr_inv, max_inv),
            Kind::Invite => (fr, max_inv),
            Kind::Other => (fr, max_noninv),
        };
        self.deadline = Some(after(now, wait).min(after(self.born, life)));
    }

    /// Whether the transaction's lifetime is over at this time.
    pub fn is_past_its_life(&self, now: Instant) -> bool {
        let Timing { max_inv, max_noninv, .. } = self.timing.open();
        let life = if self.kind == Kind::Invite { max_inv } else { max_noninv };
        now >= after(self.born, life)
    }

    /// The request is not sent again, and its final not waited for.
    const fn stop(&mut self) {
        self.request = None;
        self.deadline = None;
    }
}
