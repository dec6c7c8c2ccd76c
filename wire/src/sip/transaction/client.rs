//! One branch: the client transaction of a request that was sent on (contract 2.4, 2.6, 2.8, 2.10).

use std::time::Instant;

use super::{Kind, Options, Timing};

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

/// The client transaction of one branch, from the moment that its request left.
#[derive(Clone, Debug)]
pub struct Client {}

impl Client {
    /// A branch whose request has left.
    pub fn new(start: ClientStart, now: Instant) -> Self {
        todo!()
    }
    /// A reply to the request.
    pub fn reply(&mut self, code: u16, now: Instant) -> Heard {
        todo!()
    }
    /// A reply to the CANCEL of this branch: a final one ends its retransmission. It goes nowhere.
    pub fn cancel_answered(&mut self, code: u16, now: Instant) {
        todo!()
    }
    /// The transaction does not want it any more: the caller cancelled, another branch has won.
    pub fn cancel(&mut self, now: Instant) -> Cancelling {
        todo!()
    }
    /// The branch is part of a transaction that has its final: timers that would make one stop, but
    /// a CANCEL that is owed stays owed (R67).
    pub fn settle(&mut self) {
        todo!()
    }
    /// Other times, from here on (`t_set_fr` in a reply route).
    pub fn retime(&mut self, timing: Timing, now: Instant) {
        todo!()
    }
    /// What is due, until there is nothing.
    pub fn due(&mut self, now: Instant) -> Option<Due> {
        todo!()
    }
    /// When it wants to send something again: the worker's wheel.
    pub fn wake(&self) -> Option<Instant> {
        todo!()
    }
    /// When it waits no longer for a final reply: the supervisor's deadline.
    pub fn deadline(&self) -> Option<Instant> {
        todo!()
    }
    /// A provisional or final reply came.
    pub fn spoke(&self) -> bool {
        todo!()
    }
    /// The status of the final reply, made here or received; `None` while there is none.
    pub fn ended(&self) -> Option<u16> {
        todo!()
    }
    /// It was cancelled, whether or not the CANCEL has left.
    pub fn is_cancelled(&self) -> bool {
        todo!()
    }
}
