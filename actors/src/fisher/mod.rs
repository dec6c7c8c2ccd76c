//! ConnectionFisherClient and ConnectionFisherServer (contract "fisher").
//!
//! ```text
//!                        far end: Race              before the choice
//!   client ==[ MainLine ]- - - - - - - -┐
//!                 ▲  Est, Proved, Lost  │ makes
//!                 │                     ▼
//!              ChildLine      ChildLine      ChildLine     each: FISH? -> [ stages ] -> [ Socket ]
//!
//!   client ==[ MainLine: stages of the winner, its Socket ]==> server     after it
//! ```
//!
//! A candidate is a line of its own, with an actor of its own. The winner's actor hands over what
//! it holds and ends, so that a payload takes no hop after the choice.

mod fishing;
mod handover;
mod race;
mod server;

pub use fishing::Fishing;
pub use handover::{Berth, Handover, Tenure};
pub use race::{Outcome, Race};
pub use server::FisherServer;

#[cfg(test)]
mod tests;
