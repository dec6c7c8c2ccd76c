//! The kit that tests actors: it plays the neighbours of any of them, the network and the clock.
//!
//! - [`Peer`] is the far side of a scripted [`Socket`](crate::net::Socket): it offers bytes, takes
//!   them, stalls, half-closes, resets, panics, and sees what the line did.
//! - [`Dials`] is a [`Network`](crate::net::Network) whose connects come out as they are told to.
//! - [`Arrivals`] is an [`Accept`](crate::net::Accept) source of connections and errors.
//! - [`Kit`] is a worker with its supervisor in which all of these meet, on one thread. Under
//!   paused time (`run`, with the feature `testkit`) a wait of an hour takes no time, and
//!   [`Kit::quiet`] returns when nobody has anything left to do.
//! - [`Journal`] keeps the log with virtual times, to be compared between two runs.
//! - [`zmp`] makes and reads the bytes of a DEALER or ROUTER peer.
//! - [`sip`] is a worker that carries SIP over real sockets.
//! - [`settings`] has the documented default of every setting.

mod accept;
mod journal;
mod kit;
mod network;
pub mod settings;
pub mod sip;
mod socket;
pub mod zmp;

pub use accept::Arrivals;
pub use journal::Journal;
pub use kit::Kit;
#[cfg(any(test, feature = "testkit"))]
pub use kit::run;
pub use network::{Dials, Outcome};
pub use socket::{Peer, socket};

/// Some bytes that are not all alike.
pub fn bytes(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 31 % 251) as u8).collect()
}
