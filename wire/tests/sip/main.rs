//! SIP messages from outside: those of RFC 4475, random and mutated ones, and what another parser
//! makes of them.

mod beside;
mod mutated;
mod outcomes;
mod random;
mod torture;

#[path = "../../../fuzz/checks/sip.rs"]
mod checks;
#[path = "../../../fuzz/checks/input.rs"]
mod input;
