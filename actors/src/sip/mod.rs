//! SIP forwarding: transports that carry messages, the router of each worker that runs the script
//! and sends what it decided. What is decided, and how, stands in
//! [`lineway_wire::sip`].
//!
//! A message is handled by the worker that owns its call, hash(Call-ID) mod workers: the transport
//! that received it hands it over through the owner's [`Ring`](ring::Ring).

pub mod auth;
pub mod back;
pub mod dispatcher;
pub mod htable;
pub mod location;
pub mod permissions;
pub mod pike;
pub mod ring;
pub mod router;
pub mod script;
pub mod shared;
pub mod site;
pub mod transaction;
pub mod transport;
pub mod users;
