//! DEALER and ROUTER sockets (contract `dealer-router`): handles for any thread, and the actors
//! that give a socket its connections.
//!
//! ```text
//!   application handles (any thread)     Dealer, Router
//!            \  lock, decide, unlock, wake
//!             Shared { Core }                          one lock, no I/O under it (X-1)
//!            /        |
//!   DealerSocket    PeerConnection                     actors: sockets, timers, life
//!   RouterSocket    one for each physical connection
//! ```
//!
//! What a socket decides is [`Core`](lineway_wire::zmp::core::Core); nothing here knows a rule of
//! it. Handles need no runtime of their own: their futures are woken by the thread of the actors,
//! which also keeps their limits of time.

mod actor;
mod answering;
pub mod broker;
mod connection;
mod dealer;
pub mod echo;
mod engine;
mod error;
mod handle;
mod inproc;
mod monitor;
mod options;
mod poller;
mod reply;
mod router;
mod shared;
mod submit;
mod total;
mod transport;
mod wait;

pub use actor::{DealerSocket, RouterSocket, Unstarted};
pub use answering::Answering;
pub use connection::{ConnectionStart, PeerConnection};
pub use dealer::Dealer;
pub use error::{RecvIntoError, ReplyError, RequestError, SendError};
pub use handle::Socket;
pub use inproc::{Inproc, InprocConnecting, InprocListener};
pub use monitor::Monitor;
pub use options::{SocketEnv, SocketOptions, Timing, random_routing_id};
pub use poller::Poller;
pub use reply::ReplyToken;
pub use router::{Received, Router};
pub use shared::Shared;
pub use total::{Reader, Total};
pub use transport::{Arrived, Listening, Stream, dial};
pub(crate) use wait::come_again;
