//! The fisher (contract "fisher", C01 to C20 and S01 to S08): several candidates for one line, the
//! first that proves itself with `FISH!` wins.
//!
//! The race itself is the general [`Selection`](crate::select::Selection); here is what is the
//! fisher's own: the two markers, what a candidate's reply may hold, and what waits for the choice.

mod client;
mod marker;
mod server;

use std::time::Duration;

pub use client::{Answer, Candidate, Fisher, Loss, NoRoom};
pub use marker::{Marker, Step};
pub use server::{Probing, Verdict};

/// The length of both markers, in bytes.
pub const MARKER_LEN: usize = 5;

/// What the client sends first on every candidate.
pub const PROBE: [u8; MARKER_LEN] = *b"FISH?";

/// What the server answers once the probe is there and right.
pub const REPLY: [u8; MARKER_LEN] = *b"FISH!";

/// How long a selection may take (C04, C13).
pub const SELECTION_LIMIT: Duration = Duration::from_secs(5);

/// How long a line may take to complete its probe (S08).
pub const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of the application that may wait for the choice (C05).
pub const QUEUE_BYTES: usize = 2 * 1024 * 1024;

/// Buffers of the application that may wait for the choice (C05).
pub const QUEUE_BUFFERS: usize = 1024;

/// Bytes that may come with the reply, the marker not counted (C09, C16).
pub const BODY_BYTES: usize = 2 * 1024 * 1024;
