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

#[path = "../sip/cases.rs"]
mod again_cases;
#[path = "../sip/cases_edits.rs"]
mod again_cases_edits;
#[path = "../sip/cases_streams.rs"]
mod again_cases_streams;
#[path = "../sip/rules_requests.rs"]
mod again_rules_requests;
#[path = "../sip/rules_routing.rs"]
mod again_rules_routing;
#[path = "../sip/rules_transport.rs"]
mod again_rules_transport;
#[path = "../sip/sipp.rs"]
mod again_sipp;

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
