//! The actors of Lineway: every line, listener and the supervisor, and the kit that tests them.
//!
//! This crate gives the state machines of `lineway-wire` sockets, time and mailboxes. It reads no
//! file, parses no command line and creates no thread: it calls neither `Arbiter::new` nor
//! `System::current`, so a whole system of actors runs in one tokio `LocalSet` under paused time.

pub mod descriptors;
pub mod dns;
pub mod fisher;
pub mod health;
pub mod line;
pub mod listener;
pub mod messages;
pub mod metrics;
pub mod mux;
pub mod net;
pub mod registry;
pub mod service;
pub mod settings;
pub mod sip;
pub mod socket;
pub mod spawn;
pub mod supervisor;
pub mod testkit;
pub mod worker;

pub use lineway_wire as wire;
