//! MuxClient and MuxServer: many children over few parents (contract "mux").
//!
//! ```text
//!   client ==[ main line ]              [ child line ]==> server
//!                 |  Payload, Pause, InputEnded   |
//!                 v                               v
//!            [ MuxParent ]==== transport ====[ MuxParent ]
//! ```
//!
//! A parent is a line of its own kind of actor: one of its ends, or both, is a [`Mux`], the place
//! where its children stand. A child is a line whose one end is a [`Stream`], its place on a
//! parent. Between the two, typed messages carry batches of payload; how much may be under way is
//! bounded by credit, and not by a mailbox.

mod credit;
mod end;
mod parent;
mod parents;
mod stream;

pub use credit::{Batch, Coming, Joining, Link, Returns};
pub use end::Mux;
pub use parent::{Again, MuxParent};
pub use parents::{Membership, Parents};
pub use stream::{Heard, Stream};

#[cfg(test)]
mod tests;
