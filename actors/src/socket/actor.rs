//! The actors of DEALER and ROUTER.

use std::sync::Arc;

use actix::prelude::*;
use lineway_wire::zmp::SocketKind;
use tokio::sync::mpsc;

use super::handle::{Command, Socket};
use super::{Shared, SocketEnv, SocketOptions, Total};
use crate::metrics::ActorKind;
use crate::spawn;

/// A socket whose actor is still to be started. It can be sent to the thread that it is to live
/// on; its handle may be used before it is there.
#[derive(Debug)]
#[must_use = "a socket that is not started has no connections"]
pub struct Unstarted {
    shared: Arc<Shared>,
    options: SocketOptions,
    commands: mpsc::UnboundedReceiver<Command>,
}

impl Unstarted {
    /// Starts the socket on this thread.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn start(self, env: &SocketEnv) {
        let _ = (env, self);
    }
}

/// What DEALER and ROUTER do alike.
pub(super) struct Engine {}

impl Engine {
    /// A handle, and the socket that is to be started.
    pub(super) fn new(options: SocketOptions, total: Arc<Total>) -> (Socket, Unstarted) {
        let shared = Arc::new(Shared::new(&options, total));
        let (sender, commands) = mpsc::unbounded_channel();
        (Socket::new(Arc::clone(&shared), sender), Unstarted { shared, options, commands })
    }
}
