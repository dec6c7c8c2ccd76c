//! Lines: one actor for each, which holds both of its ends and moves the bytes between them.
//!
//! ```text
//!            near end                                  far end
//!   client ==[ Socket ]==> stages ==> queue ==[ Socket ]==> server      upstream
//!          <==[ Socket ]== queue <== stages <==[ Socket ]==             downstream
//! ```
//!
//! A payload passes within one turn of the actor: read into a pooled buffer, written from it. It
//! crosses no mailbox. What the sink does not take waits in the queue; at the high-water mark the
//! source is not read any more (T04).

mod chain;
mod child_line;
mod core;
mod dialing;
mod echo;
mod end;
mod main_line;
mod pool;
mod stage;
mod tester;
mod waiter;

pub use chain::{Chain, Node, NodeRole};
pub use child_line::{ChildLine, Maker};
pub(crate) use core::OWN_LIMIT;
pub use core::{Line, LineParts};
pub use end::{End, EndError};
pub use lineway_wire::queue::ByteQueue;
pub use main_line::MainLine;
pub use pool::Pool;
pub use stage::{Stage, StageOut, Stages};
pub use tester::{TesterClient, TesterOutcome, Testers};

#[cfg(test)]
mod tests;
