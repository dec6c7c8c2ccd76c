//! SIP over real sockets: the built program between phones that are plain sockets, write their
//! messages out as text and share no code with it. Tests are named after the rules (`sip_r...`) and
//! cases (`case_s...`) of their contract; `sipp` plays whole calls against it.

#[path = "../common/mod.rs"]
mod common;

mod kit;
mod player;
mod raw;

/// The tests that both binaries have run here against a proxy that stores nothing.
pub(crate) const STATEFUL: bool = false;

mod cases;
mod cases_edits;
mod cases_streams;
mod local;
mod rules_replies;
mod rules_requests;
mod rules_routing;
mod rules_transport;
mod scripts;
mod sipp;
mod stateless;
