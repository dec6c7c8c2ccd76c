//! The admin interface: metrics, health, the live lines, and a status page for a person.
//!
//! It runs on a thread and a runtime of its own and only reads what others keep, so it answers
//! while every worker is busy, and no request of its reaches a payload. What it can not know by
//! itself comes in as the functions of [`Context`].

mod body;
mod connection;
mod guard;
mod json;
mod negotiate;
mod nodes;
mod query;
mod reserve;
mod routes;
mod server;
mod sip;
mod sockets;

use std::io;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::BoxFuture;
use lineway_actors::registry::{LineId, Registry};
use lineway_actors::settings::Plan;

pub use negotiate::Format;
pub use server::Server;
pub(crate) use sockets::routing_id;

/// What a service shows of itself.
#[derive(Clone)]
pub struct Context {
    /// The program's version.
    pub version: &'static str,
    /// When the service started.
    pub started: Instant,
    /// The live lines.
    pub registry: Registry,
    /// The plan that runs: after a reload another one.
    pub plan: Arc<dyn Fn() -> Arc<Plan> + Send + Sync>,
    /// Every metric as text.
    pub metrics: Arc<dyn Fn(Format) -> String + Send + Sync>,
    /// Whether every event loop runs; what stands still otherwise, one text each.
    pub live: Arc<dyn Fn() -> Result<(), Vec<String>> + Send + Sync>,
    /// Whether every node can serve; what can not otherwise.
    pub ready: Arc<dyn Fn() -> Result<(), Vec<NotReady>> + Send + Sync>,
    /// Asks for the end of a line, with the reason `admin` (L08).
    pub close: Arc<dyn Fn(LineId) -> BoxFuture<'static, CloseOutcome> + Send + Sync>,
    /// Counts an error of `accept` on the admin socket.
    pub accept_error: Arc<dyn Fn(&io::Error) + Send + Sync>,
}

/// What is not ready, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    /// A node's name; `None` for the service as a whole.
    pub node: Option<Arc<str>>,
    /// The text for people.
    pub reason: String,
}

/// What became of the wish to close a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseOutcome {
    /// The line was told; it ends soon.
    Accepted,
    /// There is no such line (any more).
    Unknown,
    /// Nobody could be told: the service is stopping, or the line's worker does not answer.
    Unavailable,
}

#[cfg(test)]
mod tests;
