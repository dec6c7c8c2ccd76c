//! Transactions (contract 2): what a request that was sent on has to go through until one final
//! reply is up. Pure: time is an argument, what is to be done comes out as values.
//!
//! ```text
//!  caller ── request, copies, ACK, CANCEL ──► Transaction ── Cancel ──► Client (one for each branch)
//!         ◄─ Relay, Local, Challenge ──────  (server side,  ◄── Says ──   retransmissions, ACK,
//!                                             fork, choice)               CANCEL, fr timers
//! ```
//!
//! A [`Transaction`] never sees bytes of branches, a [`Client`] knows nothing of its siblings; their
//! owners build and send what they ask for ([`ack`], [`cancel`](cancel()), [`reply_headers`]).
//! [`Table`] finds both for what comes in.

mod client;
mod local;
mod server;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use client::{Cancelling, Client, ClientStart, Due, Heard, Pass};
pub use local::{TRYING, Tag, ack, cancel, core_of, reply_headers};
pub use server::{CancelWhy, Do, Says, Transaction, TransactionStart};
pub use table::{Ended, Found, Table, TransactionId};

/// The times of a transaction (contract 2.4). A copy for each, since a script may change them
/// (`t_set_fr`, `t_set_retr`, `t_set_max_lifetime`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// `fr_timer`: no reply at all on a branch; the wait for an ACK; the life of a CANCEL of ours.
    pub fr: Duration,
    /// `fr_inv_timer`: an INVITE branch after a provisional; each provisional starts it anew.
    pub fr_inv: Duration,
    /// `retr_timer1`: the first interval of retransmission; it doubles.
    pub t1: Duration,
    /// `retr_timer2`: where it stops doubling.
    pub t2: Duration,
    /// `wt_timer`: how long a transaction that is done absorbs what comes late.
    pub wt: Duration,
    /// `max_inv_lifetime`: the end of an INVITE's branches, counted from the transaction's start.
    pub max_inv: Duration,
    /// `max_noninv_lifetime`: the same for all others.
    pub max_noninv: Duration,
}

/// The same in the least room, to the millisecond: each branch has a copy.
#[derive(Clone, Copy, Debug)]
struct Packed([u32; 7]);

impl Packed {
    fn open(self) -> Timing {
        let Self([fr, fr_inv, t1, t2, wt, max_inv, max_noninv]) = self;
        let time = |millis: u32| Duration::from_millis(millis.into());
        Timing {
            fr: time(fr),
            fr_inv: time(fr_inv),
            t1: time(t1),
            t2: time(t2),
            wt: time(wt),
            max_inv: time(max_inv),
            max_noninv: time(max_noninv),
        }
    }
}

impl From<Timing> for Packed {
    fn from(timing: Timing) -> Self {
        let Timing { fr, fr_inv, t1, t2, wt, max_inv, max_noninv } = timing;
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Self([fr, fr_inv, t1, t2, wt, max_inv, max_noninv].map(millis))
    }
}

/// What a router has set for all of its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `relay-503`: a 503 goes up as it is.
    pub relay_503: bool,
    /// `prefer-real-replies`: what was received wins against what was made here for want of it.
    pub prefer_real_replies: bool,
    /// `cancel-b-method`: what a CANCEL does to a branch without a reply (contract 2.8).
    pub cancel_b_method: u8,
    /// `rfc6026`: the Accepted state with its timers L and M; copies of an INVITE after its 2xx are
    /// absorbed in silence.
    pub rfc6026: bool,
    /// `rfc4320`: no 408 for what is no INVITE, and no late finals.
    pub rfc4320: bool,
}

/// The two kinds of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// INVITE.
    Invite,
    /// Any other method.
    Other,
}
