//! The mux (contract "mux", M01 to M32): many children over few parents, each child with its own
//! backpressure.
//!
//! ```text
//!              join, payload, pause          transmit
//!   lines  ------------------------> Parent ----------> transport
//!          <------------------------        <----------
//!             deliveries, events             receive
//! ```

mod child;
mod cids;
mod frame;
mod kept;
mod parent;
mod pool;
mod reason;

pub use child::{ChildKey, Owner};
pub use cids::{Cids, LAST_CID, LEASE, lease_behind};
pub use frame::{HALF_CLOSE, HEADER_BYTES, Header, MOST_SENT, MOST_WAITING};
pub use kept::{Kept, KeptPlace, MOST_KEPT};
pub use parent::{Counts, Event, Limits, MOST_CONTROL, Parent, Side};
pub use pool::{Mode, ParentId, Pool};
pub use reason::{ChildEnd, Dropped, FrameKind, ParentPause};
