//! The actors of transactions: a [`SipTransaction`] for each request that is handled with state, a
//! main line, and a [`SipBranch`] for each place that it was sent to, a child line.
//!
//! ```text
//!   SipRouter ── Relay, Again, Acked, Cancelled ─► SipTransaction ── CancelBranch, Settle, End ─► SipBranch
//!       │                                                      ◄────── BranchSays ───────────
//!       └──────────────────────────── Replied ───────────────────────────────────────────────►
//! ```
//!
//! What they decide stands in [`lineway_wire::sip::transaction`]. All of one call live on one worker;
//! a message that was handed to one of them holds its call (`Hold`) until it is done, so that
//! what comes behind it stays behind it (contract 2.16).

mod begin;
mod branch;
mod home;
mod legs;
mod main_line;
mod messages;
mod request;
mod routes;

#[cfg(test)]
mod tests;

pub use branch::SipBranch;
pub use main_line::SipTransaction;

pub(super) use begin::{Begin, First};
pub(super) use home::{BranchEntry, Hold};
pub(crate) use home::{Entry, Home};
pub(super) use legs::{Asked, RelayWay};
pub(super) use messages::{Acked, Again, Cancelled, Relay, Release, Replied, ReplyWith, Times};
