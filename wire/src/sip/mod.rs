//! SIP forwarding as pure state machines: messages and their edits, the way of one hop, replies
//! that need no state. Section numbers in the docs are those of RFC 3261 unless they say otherwise;
//! `R5` is the fifth of the observable rules of SIP forwarding.

pub mod branch;
pub mod breadth;
pub mod digest;
pub mod draft;
mod fork;
pub mod forward;
pub mod hop;
#[cfg(test)]
pub(crate) mod kit;
pub mod locate;
pub mod lumps;
pub mod maxfwd;
pub mod message;
pub mod nat;
pub mod own;
pub mod probe;
pub mod registrar;
pub mod reply;
pub mod rewrite;
pub mod rr;
pub mod sanity;
pub mod siputils;
pub mod sl;
pub mod stream;
pub mod strict;
pub mod textops;
pub mod transaction;
