//! The actors of DEALER and ROUTER: they own what a socket listens on, dials and waits for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use actix::fut::ActorFuture;
use actix::prelude::*;
use lineway_wire::zmp::SocketKind;
use tokio::sync::mpsc;

use super::engine::Engine;
use super::handle::{Command, Socket};
use super::transport::Listening;
use super::{Shared, SocketEnv, SocketOptions, Total};
use crate::messages::ConnectionSays;
use crate::metrics::ActorKind;
use crate::spawn;

/// A socket whose actor is still to be started. It can be sent to the thread that it is to live
/// on; its handle may be used before it is there. Dropped, it closes the socket.
#[derive(Debug)]
#[must_use = "a socket that is not started has no connections"]
pub struct Unstarted {
    life: Life,
    options: SocketOptions,
    commands: mpsc::UnboundedReceiver<Command>,
}

impl Unstarted {
    /// The first handle, and what is to be started.
    pub(super) fn new(options: SocketOptions, total: Arc<Total>) -> (Socket, Self) {
        let shared = Arc::new(Shared::new(&options, total));
        let (sender, commands) = mpsc::unbounded_channel();
        let socket = Socket::new(Arc::clone(&shared), sender);
        (socket, Self { life: Life(shared), options, commands })
    }

    /// Starts the socket on this thread.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn start(self, env: &SocketEnv) {
        self.start_on(env, Vec::new());
    }

    /// Starts the socket on this thread, with what it listens on from the first: acceptors of
    /// another network, for instance.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn start_on(self, env: &SocketEnv, listening: Vec<Listening>) {
        let Self { life, options, commands } = self;
        let kind = options.core.kind;
        let mut engine = Engine::new(life, options, env.clone(), commands);
        for listening in listening {
            engine.listen(listening, None);
        }
        let actors = &env.actors;
        match kind {
            SocketKind::Dealer => {
                let actor = DealerSocket { engine };
                spawn::start(ActorKind::DealerSocket, actors, |_| actor, |_| {});
            }
            SocketKind::Router => {
                let actor = RouterSocket { engine };
                spawn::start(ActorKind::RouterSocket, actors, |_| actor, |_| {});
            }
        }
    }
}

/// Closes the socket with its actor, however that ends: nobody waits for one that is not there.
#[derive(Debug)]
pub(super) struct Life(pub(super) Arc<Shared>);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.end(super::wait::now());
    }
}

/// The actor of a DEALER.
#[derive(Debug)]
pub struct DealerSocket {
    engine: Engine,
}

/// The actor of a ROUTER.
#[derive(Debug)]
pub struct RouterSocket {
    engine: Engine,
}

macro_rules! actor {
    ($actor:ident) => {
        impl Actor for $actor {
            type Context = Context<Self>;

            fn started(&mut self, ctx: &mut Self::Context) {
                self.engine.begin(ctx.address().recipient());
                ctx.spawn(Running);
            }
        }

        impl Handler<ConnectionSays> for $actor {
            type Result = ();

            fn handle(&mut self, says: ConnectionSays, _: &mut Self::Context) {
                self.engine.connection_says(says);
            }
        }

        impl ActorFuture<$actor> for Running {
            type Output = ();

            fn poll(
                self: Pin<&mut Self>,
                actor: &mut $actor,
                ctx: &mut Context<$actor>,
                cx: &mut TaskContext<'_>,
            ) -> Poll<()> {
                ready!(actor.engine.poll(cx));
                ctx.stop();
                Poll::Ready(())
            }
        }
    };
}

/// The life of a socket; polled behind its mailbox.
struct Running;

actor!(DealerSocket);
actor!(RouterSocket);
