//! SIP with transactions over real sockets: the built program between phones that are plain sockets,
//! write their messages out as text and share no code with it. Tests are named after the rules
//! (`sip_r...`) and cases (`case_s...`) of their contract; `sipp` plays whole calls against it. What
//! `tests/sip` proves without transactions is proved here with them.

#[path = "../common/mod.rs"]
mod common;

#[path = "../sip/kit.rs"]
mod kit;
#[path = "../sip/player.rs"]
mod player;
#[path = "../sip/raw.rs"]
mod raw;

mod stage;

/// The tests that both binaries have run here against a proxy with transactions.
pub(crate) const STATEFUL: bool = true;

mod cases;
mod rules_calls;
mod rules_cancel;
mod rules_choice;
mod rules_forks;
mod rules_hooks;
mod rules_late;
mod rules_registrar;
mod rules_timers;
mod service;
mod sipp;
