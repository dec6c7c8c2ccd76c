//! The server side of a transaction and the choice between its branches (contract 2.5 to 2.11).

use std::time::Instant;

use bytes::Bytes;

use super::{Kind, Options, Timing};

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

/// One request with all of its branches.
///
/// Branches come in legs: those that are added up to [`Transaction::seal`] run side by side; a
/// failure route may add another leg.
#[derive(Debug)]
pub struct Transaction<R> {
    replies: Vec<R>,
}

impl<R> Transaction<R> {
    /// A transaction that begins.
    pub fn new(start: TransactionStart, now: Instant) -> Self {
        todo!()
    }

    // ---- branches ------------------------------------------------------------------------------

    /// The index that the next branch gets (R86, R97): it is taken by [`Transaction::add`].
    pub fn next_index(&self) -> u16 {
        todo!()
    }
    /// Adds a branch to the leg; `None` once it is cancelled (R95) or has its final.
    pub fn add(&mut self) -> Option<u16> {
        todo!()
    }
    /// The leg has all of its branches. With none that could be sent nothing follows: the owner
    /// answers the error (contract 2.14).
    pub fn seal(&mut self) {
        todo!()
    }
    /// How many branches of the leg were sent and are not over.
    pub fn open(&self) -> usize {
        todo!()
    }
    /// A branch says something.
    pub fn hear(&mut self, branch: u16, says: Says<R>, now: Instant) {
        todo!()
    }
    /// The failure route did nothing: the winner goes up (R88, R91).
    pub fn decline(&mut self, now: Instant) {
        todo!()
    }
    /// What becomes of the finals of earlier legs once there is another (`t_drop_replies`): all are
    /// forgotten (the default, R94), those of the last leg, or none.
    pub fn drop_replies(&mut self, which: char) {
        todo!()
    }
    /// The status of each branch of the leg that has its final, in order, and whether it is one
    /// that timed out (`t_grep_status`, `t_any_timeout`, `t_any_replied`).
    pub fn finals(&self) -> impl Iterator<Item = (u16, u16, bool)> + '_ {
        std::iter::empty()
    }

    // ---- the caller's side ---------------------------------------------------------------------

    /// The request came once more: the bytes that are sent again, if any (R32, R33, R49).
    pub fn again(&mut self) -> Option<Bytes> {
        todo!()
    }
    /// Its ACK came; whether it ends here (R42): not that of a 2xx which was relayed.
    pub fn ack(&mut self, now: Instant) -> bool {
        todo!()
    }
    /// The caller cancels. Whether there was something to cancel (the reason phrase of the 200).
    pub fn cancel(&mut self, now: Instant) -> bool {
        todo!()
    }
    /// Whether a reply of this status may still go up: one final, but any 2xx to an INVITE (R147, R148).
    pub fn may_reply(&self, code: u16) -> bool {
        todo!()
    }
    /// A reply has left towards the caller: these bytes. `local`: it was made here. A final that the script
    /// made ends the transaction: branches that are open are cancelled.
    pub fn replied(&mut self, code: u16, bytes: Bytes, local: bool, now: Instant) {
        todo!()
    }
    /// The status that went up last; 0 when none did.
    pub fn status(&self) -> u16 {
        todo!()
    }
    /// The caller has cancelled it (`t_is_canceled`).
    pub fn is_cancelled(&self) -> bool {
        todo!()
    }
    /// The owner gives it up without a reply (`t_release`): it is over after the wait.
    pub fn release(&mut self, now: Instant) {
        todo!()
    }

    // ---- time and what is to be done -----------------------------------------------------------

    /// Other times, from here on.
    pub fn retime(&mut self, timing: Timing) {
        todo!()
    }
    /// The reply that is to be sent again at this time (R41), until there is nothing. Also ends the
    /// wait for an ACK and the wait of what is done ([`Do::Over`]).
    pub fn due(&mut self, now: Instant) -> Option<Bytes> {
        todo!()
    }
    /// When [`Transaction::due`] has something to do.
    pub fn wake(&self) -> Option<Instant> {
        todo!()
    }
    /// What is to be done, in order, until there is nothing.
    pub fn poll(&mut self) -> Option<Do<R>> {
        todo!()
    }
}
