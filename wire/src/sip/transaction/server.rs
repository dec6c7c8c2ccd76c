//! The server side of a transaction and the choice between its branches (contract 2.5 to 2.11).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Kind, Options, Packed, Timing};
use crate::sip::fork::{Final, Fork, Keep, Outcome, Winner};

/// What a transaction begins with.
#[derive(Clone, Copy, Debug)]
pub struct TransactionStart {
    /// Of which method.
    pub kind: Kind,
    /// The transport of the caller delivers by itself.
    pub reliable: bool,
    /// Its times.
    pub timing: Timing,
    /// What the router has set.
    pub options: Options,
    /// Its CANCEL was there before it (contract 2.1).
    pub cancelled: bool,
}

/// What a branch says. `R` is a reply as the owner stores it.
#[derive(Clone, Debug)]
pub enum Says<R> {
    /// A provisional that may go up.
    Provisional(u16, R),
    /// A 2xx.
    Success(u16, R),
    /// The branch's final of 300 and above.
    Failure(u16, R),
    /// It waited long enough: a 408 in the choice, or 487 for a transaction that was cancelled.
    Timeout {
        /// It had a provisional.
        spoke: bool,
    },
    /// It was given up before it spoke: a 487 in the choice.
    Gone,
    /// Its request could not be sent: it never wins.
    Unsent,
}

/// Why a branch is not wanted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelWhy {
    /// Another branch has answered (R65).
    Answered,
    /// Another branch has a 6xx (R74), or the script has replied.
    Refused,
    /// The caller does not want it (R53).
    Caller,
}

/// What the owner of a transaction has to do.
#[derive(Clone, Debug)]
pub enum Do<R> {
    /// The reply of a branch goes up without our Via.
    Relay {
        /// Which.
        branch: u16,
        /// Its status.
        code: u16,
        /// It.
        reply: R,
    },
    /// A reply that is made here goes up: 408, 487, or 500 in place of a 503 (R38, R62, R79).
    Local {
        /// The status.
        code: u16,
        /// The reason phrase.
        reason: &'static str,
    },
    /// A reply that is made here goes up with the challenges of all of these (R76, R77).
    Challenge {
        /// 401 or 407.
        code: u16,
        /// The branches' replies in order of their index.
        replies: Vec<R>,
    },
    /// This branch is not wanted any more.
    Cancel {
        /// Which.
        branch: u16,
        /// Why.
        why: CancelWhy,
    },
    /// The final of the transaction is up or decided: the branch's timers stop ([`super::Client::settle`]).
    Settle,
    /// All branches of the leg have failed. The owner asks the failure route of the winner, if one
    /// is armed; then it adds branches, has replied, or calls [`Transaction::decline`].
    Failed {
        /// The winner.
        branch: u16,
        /// Its status.
        code: u16,
    },
    /// It is done with: its owner ends.
    Over,
}

impl<R> Do<R> {
    const fn is_final(&self) -> bool {
        match self {
            Self::Relay { code, .. } => *code >= 200,
            Self::Local { .. } | Self::Challenge { .. } => true,
            _ => false,
        }
    }
}

/// One request with all of its branches.
///
/// Branches come in legs: those that are added up to [`Transaction::seal`] run side by side; a
/// failure route may add another leg. What the caller has been told:
///
/// ```text
///            a final is up                        ACK, fr                wt
///   ┌──────┐ that wants an ACK ┌─────────────┐            ┌─────────┐        ┌──────┐
///   │ Open │──────────────────▶│ Unconfirmed │───────────▶│ Waiting │───────▶│ Over │
///   └──────┘                   └─────────────┘            └─────────┘        └──────┘
///      │                        │ again at T1 doubling to T2   ▲ │ an INVITE's 2xx passes
///      │ any other final, none  └──┘                           │ └──┘
///      └───────────────────────────────────────────────────────┘
/// ```
#[derive(Debug)]
pub struct Transaction<R> {
    kind: Kind,
    reliable: bool,
    cancelled: bool,
    /// What goes up is settled.
    decided: bool,
    /// The owner was told to send a final, and has not.
    owed: bool,
    /// Its ACK ends here.
    acked_here: bool,
    /// The status that went up last; 0 for none.
    status: u16,
    options: Options,
    timing: Packed,
    born: Instant,
    phase: Phase,
    /// The reply that went up last.
    last: Bytes,
    fork: Fork<R>,
    todo: VecDeque<Do<R>>,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No final is up.
    Open,
    /// A final waits for its ACK, and is sent again.
    Unconfirmed { next: Option<Instant>, interval: Duration, until: Instant },
    /// Absorbs what comes late.
    Waiting { until: Instant },
    /// Done with.
    Over,
}

/// The shortest interval of retransmission: a time of zero makes no endless work.
const SHORTEST: Duration = Duration::from_millis(1);

impl<R> Transaction<R> {
    /// A transaction that begins. One that was cancelled before is answered at once.
    pub fn new(start: TransactionStart, now: Instant) -> Self {
        let TransactionStart { kind, reliable, timing, options, cancelled } = start;
        let mut transaction = Self {
            kind,
            reliable,
            cancelled: false,
            decided: false,
            owed: false,
            acked_here: false,
            status: 0,
            options,
            timing: timing.into(),
            born: now,
            phase: Phase::Open,
            last: Bytes::new(),
            fork: Fork::new(options.prefer_real_replies),
            todo: VecDeque::new(),
        };
        if cancelled {
            transaction.cancel(now);
        }
        transaction
    }

    // ---- branches ------------------------------------------------------------------------------

    /// The index that the next branch gets (R86, R97): it is taken by [`Transaction::add`].
    pub fn next_index(&self) -> u16 {
        self.fork.len()
    }

    /// Adds a branch to the leg, also to one that was sealed and runs; behind a leg that has failed
    /// it begins another one. `None` once the transaction is cancelled (R95) or has its final, and
    /// for a leg that a 6xx has ended.
    pub fn add(&mut self) -> Option<u16> {
        if self.cancelled || self.decided { None } else { self.fork.add() }
    }

    /// The leg has all of its branches. With none that could be sent nothing follows: the owner
    /// answers the error (contract 2.14).
    pub fn seal(&mut self) {
        if !self.decided && self.fork.outcome() == Outcome::Open {
            self.fork.seal();
            self.tell_failed();
        }
    }

    /// How many branches of the leg were sent and are not over.
    pub fn open(&self) -> usize {
        self.fork.open()
    }

    /// A branch says something.
    pub fn hear(&mut self, branch: u16, says: Says<R>, now: Instant) {
        if matches!(self.phase, Phase::Over) {
            return;
        }
        match says {
            Says::Provisional(code, reply) => {
                if !self.decided && self.fork.may_ring(branch) {
                    self.todo.push_back(Do::Relay { branch, code, reply });
                }
            }
            Says::Success(code, reply) => self.success(branch, code, reply, now),
            Says::Failure(code, reply) => {
                self.failure(branch, code, Some(reply), false);
            }
            Says::Timeout { .. } => self.failure(branch, self.made_here(), None, true),
            Says::Gone => self.failure(branch, 487, None, false),
            Says::Unsent => {
                if self.fork.unsent(branch) {
                    self.tell_failed();
                }
            }
        }
    }

    /// R46, R50, R64, R75, R84, R147: every 2xx to an INVITE, one to others.
    fn success(&mut self, branch: u16, code: u16, reply: R, now: Instant) {
        if branch >= self.fork.len() {
            return;
        }
        if self.kind == Kind::Other && self.decided {
            return self.ended(branch);
        }
        if self.is_late(now) {
            return self.release(now);
        }
        self.todo.push_back(Do::Relay { branch, code, reply });
        let todo = &mut self.todo;
        self.fork.answer(branch, code, |branch| {
            if self.kind == Kind::Invite {
                todo.push_back(Do::Cancel { branch, why: CancelWhy::Answered });
            }
        });
        self.decide(now);
    }

    fn failure(&mut self, branch: u16, code: u16, reply: Option<R>, timed_out: bool) {
        if self.decided {
            return self.ended(branch);
        }
        if !self.fork.fail(branch, Final { code, reply, timed_out }) {
            return;
        }
        if matches!(code, 600..=699) && self.kind == Kind::Invite {
            let todo = &mut self.todo;
            self.fork.refuse(|lost| {
                todo.push_back(Do::Cancel { branch: lost, why: CancelWhy::Refused });
            });
        }
        self.tell_failed();
    }

    /// A final of no interest.
    fn ended(&mut self, branch: u16) {
        self.fork.unsent(branch);
    }

    /// The status of what is made here for want of a final (R38, R62, R83).
    const fn made_here(&self) -> u16 {
        if self.cancelled { 487 } else { 408 }
    }

    fn tell_failed(&mut self) {
        if let Outcome::Failed(branch) = self.fork.outcome()
            && !self.decided
            && !self.fork.came_to_nothing()
        {
            let code = self.fork.code(branch).unwrap_or_default();
            self.todo.push_back(Do::Failed { branch, code });
        }
    }

    /// The failure route did nothing: the winner goes up (R88, R91).
    pub fn decline(&mut self, now: Instant) {
        if self.decided {
            return;
        }
        let up = match self.fork.take() {
            None => return,
            // Nobody waits for it, or nobody may hear of it (RFC 4320 4.2).
            Some(Winner::Reply(_, 408, _) | Winner::Made(_)) if self.is_silent() => None,
            Some(_) if self.is_late(now) => None,
            Some(Winner::Made(_)) if self.cancelled => {
                Some(Do::Local { code: 487, reason: "Request Terminated" })
            }
            Some(Winner::Made(487)) => Some(Do::Local { code: 487, reason: "Request Terminated" }),
            Some(Winner::Made(code)) => Some(Do::Local { code, reason: "Request Timeout" }),
            Some(Winner::Reply(_, 503, _)) if !self.options.relay_503 => {
                Some(Do::Local { code: 500, reason: "Service Unavailable" })
            }
            Some(Winner::Reply(branch, code, reply)) => Some(Do::Relay { branch, code, reply }),
            Some(Winner::Challenges(code, replies)) => Some(Do::Challenge { code, replies }),
        };
        self.todo.extend(up);
        self.decide(now);
    }

    /// No 408 for what is no INVITE (RFC 4320 4.2).
    fn is_silent(&self) -> bool {
        self.options.rfc4320 && self.kind == Kind::Other
    }

    /// The caller of what is no INVITE has given it up: finals are of no use (RFC 4320 4.2).
    fn is_late(&self, now: Instant) -> bool {
        self.is_silent() && now >= self.born + self.timing.open().t1 * 64
    }

    /// What becomes of the finals of earlier legs once there is another (`t_drop_replies`): all are
    /// forgotten (`a`, the default, R94), those of the last leg (`l`), or none (`n`). It holds for
    /// the next leg.
    pub fn drop_replies(&mut self, which: char) {
        self.fork.keep(match which {
            'n' => Keep::All,
            'l' => Keep::AllButLast,
            _ => Keep::Nothing,
        });
    }

    /// The branches whose finals count in the choice, in order: index, status, and whether it is
    /// one that timed out (`t_grep_status`, `t_any_timeout`, `t_any_replied`).
    pub fn finals(&self) -> impl Iterator<Item = (u16, u16, bool)> + '_ {
        self.fork.finals()
    }

    /// Whether there is a failure that [`decline`](Self::decline) would send up.
    pub fn has_failed(&self) -> bool {
        !self.decided && matches!(self.fork.outcome(), Outcome::Failed(_))
    }

    // ---- the caller's side ---------------------------------------------------------------------

    /// The request came once more: the bytes that are sent again, if any (R32, R33, R49).
    pub fn again(&mut self) -> Option<Bytes> {
        let is_accepted = self.kind == Kind::Invite && matches!(self.status, 200..=299);
        let silent = self.status == 0
            || matches!(self.phase, Phase::Over)
            || (is_accepted && self.options.rfc6026);
        (!silent).then(|| self.last.clone())
    }

    /// Its ACK came; whether it ends here (R42): not that of a 2xx which was relayed.
    pub fn ack(&mut self, now: Instant) -> bool {
        if let Phase::Unconfirmed { until, .. } = self.phase {
            let wait = now + self.timing.open().wt;
            // Timer L (RFC 6026 7.1).
            let is_accepted = self.options.rfc6026 && matches!(self.status, 200..=299);
            self.phase = Phase::Waiting { until: if is_accepted { wait.max(until) } else { wait } };
        }
        self.acked_here
    }

    /// The caller cancels. Whether there was something to cancel (the reason phrase of the 200).
    /// Without effect on what is no INVITE (RFC 3261 9.2) or has its final (R61).
    pub fn cancel(&mut self, now: Instant) -> bool {
        if self.kind == Kind::Other || self.decided {
            return false;
        }
        self.cancelled = true;
        let todo = &mut self.todo;
        self.fork.cancel(|branch| {
            todo.push_back(Do::Cancel { branch, why: CancelWhy::Caller });
        });
        let open = self.fork.open() > 0;
        // With finals there, the choice answers it.
        if !open && self.fork.finals().next().is_none() {
            self.todo.push_back(Do::Local { code: 487, reason: "Request canceled" });
            self.decide(now);
        }
        open
    }

    /// Whether a reply of this status may still go up: one final, but any 2xx to an INVITE (R147,
    /// R148). What the owner is told to send may.
    pub fn may_reply(&self, code: u16) -> bool {
        let is_success = self.kind == Kind::Invite && matches!(code, 200..=299);
        let is_owed = self.owed && code >= 200;
        !matches!(self.phase, Phase::Over) && (!self.decided || is_success || is_owed)
    }

    /// A reply has left towards the caller: these bytes. `local`: it was made here. A final that the script
    /// made ends the transaction: branches that are open are cancelled, stored replies forgotten (R90).
    pub fn replied(&mut self, code: u16, bytes: Bytes, local: bool, now: Instant) {
        let is_success = matches!(code, 200..=299);
        let stands = matches!(self.phase, Phase::Over)
            || (self.status >= 200 && !(is_success && self.kind == Kind::Invite))
            || (code < 200 && self.decided);
        if stands {
            return;
        }
        let is_copy = matches!(self.status, 200..=299);
        self.status = code;
        self.last = bytes;
        if code < 200 {
            return;
        }
        self.abandon(now);
        self.owed = false;
        if !is_copy {
            self.phase = self.confirm(code, local, now);
        }
    }

    /// Where a final leads to.
    fn confirm(&mut self, code: u16, local: bool, now: Instant) -> Phase {
        let Timing { t1, fr, wt, .. } = self.timing.open();
        let is_success = matches!(code, 200..=299);
        // Timer L, and M below (RFC 6026 7.1, 7.2).
        let accepted = (is_success && self.options.rfc6026).then_some(now + t1 * 64);
        if self.kind == Kind::Other {
            return Phase::Waiting { until: now + wt };
        }
        if is_success && !local {
            // R47: its sender does that.
            return Phase::Waiting { until: accepted.map_or(now + wt, |end| end.max(now + wt)) };
        }
        self.acked_here = true;
        let interval = t1.max(SHORTEST);
        // A 2xx is sent again whatever it travels by (13.3.1.4).
        let next = (is_success || !self.reliable).then_some(now + interval);
        Phase::Unconfirmed { next, interval, until: accepted.unwrap_or(now + fr) }
    }

    /// Its final waits for its ACK.
    pub const fn awaits_ack(&self) -> bool {
        matches!(self.phase, Phase::Unconfirmed { .. })
    }
    /// The status that went up last; 0 when none did.
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The caller has cancelled it (`t_is_canceled`).
    pub const fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// The owner gives it up without a reply (`t_release`): it is over after the wait.
    pub fn release(&mut self, now: Instant) {
        self.abandon(now);
    }

    /// Nothing of the branches goes up: those that are open are cancelled.
    fn abandon(&mut self, now: Instant) {
        if self.decided {
            return;
        }
        let todo = &mut self.todo;
        self.fork.abandon(|branch| {
            if self.kind == Kind::Invite {
                todo.push_back(Do::Cancel { branch, why: CancelWhy::Refused });
            }
        });
        self.decide(now);
    }

    /// What goes up is settled. Should it never get there, the wait runs from here.
    fn decide(&mut self, now: Instant) {
        if self.decided {
            return;
        }
        self.decided = true;
        self.owed = self.todo.iter().any(Do::is_final);
        self.phase = Phase::Waiting { until: now + self.timing.open().wt };
        self.todo.retain(|todo| !matches!(todo, Do::Failed { .. }));
        self.todo.push_back(Do::Settle);
    }

    // ---- time and what is to be done -----------------------------------------------------------

    /// Its times, to the millisecond.
    pub fn timing(&self) -> Timing {
        self.timing.open()
    }
    /// Other times, from here on.
    pub fn retime(&mut self, timing: Timing) {
        self.timing = timing.into();
    }

    /// The reply that is to be sent again at this time (R41), until there is nothing. Also ends the
    /// wait for an ACK and the wait of what is done ([`Do::Over`]), and what nobody has ended before
    /// its lifetime is over.
    pub fn due(&mut self, now: Instant) -> Option<Bytes> {
        let end = self.end();
        loop {
            match &mut self.phase {
                Phase::Open if now >= end => self.expire(now),
                Phase::Unconfirmed { until, .. } if now >= *until => {
                    self.phase = Phase::Waiting { until: *until + self.timing.open().wt };
                }
                Phase::Unconfirmed { next: Some(next), interval, .. } if now >= *next => {
                    *interval = (*interval * 2).min(self.timing.open().t2).max(SHORTEST);
                    *next = now + *interval;
                    return Some(self.last.clone());
                }
                Phase::Waiting { until } if now >= *until => {
                    self.phase = Phase::Over;
                    self.todo.push_back(Do::Over);
                }
                _ => return None,
            }
        }
    }

    /// Until when it may be without a final: its branches are over by their lifetime, what a script
    /// does behind that has its own limits.
    fn end(&self) -> Instant {
        let life = match self.kind {
            Kind::Invite => self.timing.open().max_inv,
            Kind::Other => self.timing.open().max_noninv,
        };
        self.born + life + self.timing.open().fr
    }

    fn expire(&mut self, now: Instant) {
        self.decline(now);
        if self.decided {
            return;
        }
        if !self.is_silent() {
            let code = self.made_here();
            let reason = if self.cancelled { "Request Terminated" } else { "Request Timeout" };
            self.todo.push_back(Do::Local { code, reason });
        }
        self.abandon(now);
    }

    /// When [`Transaction::due`] has something to do.
    pub fn wake(&self) -> Option<Instant> {
        match self.phase {
            Phase::Open => Some(self.end()),
            Phase::Unconfirmed { next, until, .. } => {
                Some(next.map_or(until, |next| next.min(until)))
            }
            Phase::Waiting { until } => Some(until),
            Phase::Over => None,
        }
    }

    /// What is to be done, in order, until there is nothing.
    pub fn poll(&mut self) -> Option<Do<R>> {
        self.todo.pop_front()
    }
}

#[cfg(test)]
mod tests;
