//! One listening socket of one worker.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use actix::prelude::*;
use lineway_wire::sip::own::SocketId;
use tokio::time::{Instant, Sleep};

use super::connection::Connection;
use super::{Pump, Runs, Site, Task};
use crate::metrics::{AcceptError, ActorKind};
use crate::net::Acceptor;
use crate::socket::come_again;
use crate::spawn;

/// Connections accepted in one turn; then others have theirs.
const BUDGET: usize = 64;

/// How long accepting rests where there is no room for another connection.
const FULL: Duration = Duration::from_millis(50);

/// How long accepting rests when descriptors or memory are out: at first, and at most.
const REST: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(150)];

/// At most one log line about a rest in this time.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// A listening socket. It outlives its actor, so that a new one can take it over.
pub(super) struct Port {
    id: SocketId,
    /// `None` once the node is stopped.
    acceptor: RefCell<Option<Acceptor>>,
    actor: Task,
    warned: Cell<Option<Instant>>,
}

impl Port {
    pub(super) fn new(id: SocketId, acceptor: Acceptor) -> Rc<Self> {
        let (actor, warned) = (Task::default(), Cell::new(None));
        Rc::new(Self { id, acceptor: RefCell::new(Some(acceptor)), actor, warned })
    }

    /// Takes over a socket of the system.
    pub(super) fn of_system(id: SocketId, socket: std::net::TcpListener) -> io::Result<Rc<Self>> {
        socket.set_nonblocking(true)?;
        Ok(Self::new(id, Acceptor::Tcp(tokio::net::TcpListener::from_std(socket)?)))
    }

    /// Closes it: who waits to be accepted is refused.
    pub(super) fn close(&self) {
        self.acceptor.take();
        self.actor.wake();
    }
}

/// The actor of a listening socket: makes connections, here.
pub(super) struct Accepting {
    site: Rc<Site>,
    port: Rc<Port>,
    rest: Option<Pin<Box<Sleep>>>,
    failures: u32,
}

impl Accepting {
    /// Starts it, and again after a panic.
    pub(super) fn launch(site: &Rc<Site>, port: &Rc<Port>) {
        let (site, port) = (Rc::clone(site), Rc::clone(port));
        let accepting =
            Self { site: Rc::clone(&site), port: Rc::clone(&port), rest: None, failures: 0 };
        let actors = site.worker.board.metrics.actors().clone();
        spawn::start(
            ActorKind::SipTransport,
            &actors,
            |_| accepting,
            move |_| site.launch_again(move |site| Self::launch(site, &port)),
        );
    }

    fn rest(&mut self, time: Duration) {
        self.rest = Some(Box::pin(tokio::time::sleep(time)));
    }

    /// Accepting rests and is tried again, later each time; one log line for a whole outage (T02).
    fn out_of(&mut self, error: AcceptError, cause: &str) {
        self.site.metrics.accept_error(error);
        let now = Instant::now();
        if self.port.warned.get().is_none_or(|at| now.duration_since(at) >= WARN_EVERY) {
            self.port.warned.set(Some(now));
            let node = self.site.metrics.name();
            tracing::warn!(%node, worker = self.site.worker.index, cause, "accepting rests");
        }
        self.failures = self.failures.saturating_add(1);
        self.rest((REST[0] * self.failures.min(16)).min(REST[1]));
    }
}

impl Runs for Accepting {
    fn run(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.port.actor.is(cx);
        for _ in 0..BUDGET {
            if self.site.stopped.get() {
                return Poll::Ready(());
            }
            if let Some(rest) = &mut self.rest {
                ready!(rest.as_mut().poll(cx));
                self.rest = None;
            }
            let Some(count) = self.site.connections.place() else {
                self.rest(FULL);
                continue;
            };
            let Some(descriptor) = self.site.worker.board.descriptors.take(1) else {
                self.out_of(AcceptError::Emfile, "descriptors are out");
                continue;
            };
            let accepted = match &mut *self.port.acceptor.borrow_mut() {
                Some(acceptor) => acceptor.poll_accept(cx),
                None => return Poll::Ready(()),
            };
            match accepted {
                Poll::Pending => {
                    self.failures = 0;
                    return Poll::Pending;
                }
                Poll::Ready(Ok((socket, peer))) => {
                    self.failures = 0;
                    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                    let held = (count, descriptor);
                    Connection::accepted(&self.site, self.port.id, socket, peer, held);
                }
                Poll::Ready(Err(error)) => {
                    let kind = AcceptError::of(&error);
                    if kind.is_exhaustion() {
                        self.out_of(kind, &error.to_string());
                    } else {
                        self.site.metrics.accept_error(kind);
                        if kind == AcceptError::Other {
                            // It may be there to stay.
                            self.rest(REST[0]);
                        }
                    }
                }
            }
        }
        self.site.worker.metrics.budget_exhausted();
        come_again(cx);
        Poll::Pending
    }
}

impl Actor for Accepting {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Pump);
    }
}
