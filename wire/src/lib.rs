//! The protocols of Lineway as pure state machines: bytes and events in, bytes and events out.
//!
//! No I/O, no clock and no actor lives here; time is an argument. `lineway-actors` gives these
//! machines sockets and life. Each rule of a contract is decided here once and proved here
//! without a socket.

#![forbid(unsafe_code)]

pub mod dial;
pub mod fisher;
pub mod line;
pub mod mux;
pub mod queue;
pub mod select;
pub mod sip;
pub mod tester;
pub mod units;
pub mod weighted;
pub mod wheel;
pub mod zmp;
