//! The mux (contract "mux", M01 to M32): many children over few parents, each child with its own
//! backpressure.

mod cids;
mod reason;

pub use cids::{Cids, LAST_CID, LEASE, lease_behind};
pub use reason::{ChildEnd, Dropped, FrameKind, ParentPause};
