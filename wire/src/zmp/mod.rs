//! DEALER and ROUTER sockets on the ZMP wire (contract `dealer-router`).
//!
//! [`connection`] turns the bytes of one connection into records and back; [`core`] is one socket:
//! who gets the next record, what waits, what was asked and is still to be answered. Neither knows
//! a clock, a socket of the system or an actor.

pub mod broker;
pub mod connection;
mod control;
pub mod core;
mod decoder;
pub mod encode;
pub mod endpoint;
pub mod flow;
pub mod frame;
mod handshake;
pub mod monitor;
pub mod outcome;
pub mod record;
pub mod scheduler;
pub mod status;
#[cfg(test)]
mod tester;

pub use decoder::MOST_PARTS;
pub use record::{Charge, Inbound, Kind, Lane, Outgoing, Record, RoutingId, Sequence, SocketKind};
