//! The accept loop of one listening socket on one worker.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use actix::fut::ActorFuture;
use actix::prelude::*;
use ipnet::IpNet;
use tokio::time::{Instant, Sleep};

use crate::health::NodeHealth;
use crate::line::{Chain, End};
use crate::messages::{ActorName, Retire, ServeAnew};
use crate::metrics::{AcceptError, ActorKind, Refused};
use crate::net::{Acceptor, Socket};
use crate::settings::{NodeSettings, TcpListenerSettings};
use crate::worker::Worker;

/// Connections accepted in one turn; then lines have theirs.
const BUDGET: usize = 64;

/// How long accepting rests when there is no room for another line.
const FULL: Duration = Duration::from_millis(50);

/// How long accepting rests when descriptors or memory are out: at first, and at most (T02). A
/// queue of clients that have left may need a few rounds, all within a second.
const REST: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(150)];

/// At most one log line about a rest in this time.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// Why a node is not ready where accepting rests (T02).
const DESCRIPTORS_OUT: &str = "out of file descriptors";

/// The live lines of one node over all workers, for `max-lines`.
#[derive(Clone, Debug, Default)]
pub struct LineLimit {
    live: Arc<AtomicU64>,
}

/// One live line of a node; dropped with the line.
#[derive(Debug)]
pub struct LineCount {
    live: Arc<AtomicU64>,
}

impl LineLimit {
    /// Counts one more line, unless `most` are there already.
    pub fn take(&self, most: Option<u64>) -> Option<LineCount> {
        let most = most.unwrap_or(u64::MAX);
        self.live
            .fetch_update(Relaxed, Relaxed, |live| (live < most).then(|| live + 1))
            .ok()
            .map(|_| LineCount { live: Arc::clone(&self.live) })
    }
}

impl Drop for LineCount {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Relaxed);
    }
}

/// Which sources may connect: `whitelist` and `blacklist`.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    white: Vec<IpNet>,
    black: Vec<IpNet>,
}

impl Sources {
    /// The lists of a listener.
    pub fn new(settings: &TcpListenerSettings) -> Self {
        Self { white: settings.whitelist.clone(), black: settings.blacklist.clone() }
    }

    /// Whether this source is refused, and by which list. A v4-mapped address is its IPv4 address.
    pub fn refuse(&self, source: IpAddr) -> Option<Refused> {
        let source = source.to_canonical();
        if self.black.iter().any(|net| net.contains(&source)) {
            return Some(Refused::Blacklist);
        }
        let listed = self.white.is_empty() || self.white.iter().any(|net| net.contains(&source));
        (!listed).then_some(Refused::NotWhitelisted)
    }
}

/// A listening socket that outlives its actor, so that a new actor can take it over.
pub type SharedAcceptor = Rc<RefCell<Acceptor>>;

/// What a listener works for.
#[derive(Clone, Debug)]
pub struct Serving {
    /// The chain that its lines go through.
    pub chain: Rc<Chain>,
    /// The place of its address among those of the node.
    pub place: u32,
    /// The lines of the node.
    pub limit: LineLimit,
}

impl Serving {
    /// The name of the listener's actor on this worker.
    pub fn name(&self, worker: u16) -> ActorName {
        let node = Some(Arc::clone(&self.chain.entry.plan.name));
        ActorName { worker, kind: ActorKind::Listener, node, place: self.place }
    }
}

/// Where a listener finds what it works for; a reload puts something else there.
pub type ServingSlot = Rc<RefCell<Serving>>;

/// The actor of one listening socket on one worker (T01): makes main lines, here.
pub struct Listener {
    worker: Rc<Worker>,
    slot: ServingSlot,
    serving: Serving,
    sources: Sources,
    max_lines: Option<u64>,
    health: NodeHealth,
    acceptor: SharedAcceptor,
    rest: Pin<Box<Sleep>>,
    resting: bool,
    failures: u32,
    warned: Option<Instant>,
    retiring: bool,
}

impl Listener {
    /// Accepts on this socket for what is in the slot.
    pub fn new(worker: &Rc<Worker>, slot: ServingSlot, acceptor: SharedAcceptor) -> Self {
        let serving = slot.borrow().clone();
        let node = &serving.chain.entry.plan.name;
        let health = worker.board.health.node(node, worker.index, serving.place);
        let mut listener = Self {
            worker: Rc::clone(worker),
            slot,
            serving: serving.clone(),
            sources: Sources::default(),
            max_lines: None,
            health,
            acceptor,
            rest: Box::pin(tokio::time::sleep_until(Instant::now())),
            resting: false,
            failures: 0,
            warned: None,
            retiring: false,
        };
        listener.switch(serving);
        listener
    }

    fn switch(&mut self, serving: Serving) {
        if let NodeSettings::TcpListener(settings) = &serving.chain.entry.plan.settings {
            self.sources = Sources::new(settings);
            self.max_lines = settings.max_lines;
        }
        let name = serving.name(self.worker.index);
        if serving.chain.retired.get().is_some() {
            // The node's part may be that of another listener already.
        } else if name == self.serving.name(self.worker.index) {
            // Between two reloads the node may have been away.
            self.health.enter();
        } else if let Some(node) = &name.node {
            self.health = self.worker.board.health.node(node, name.worker, name.place);
            if self.failures > 0 {
                self.health.not_ready(DESCRIPTORS_OUT);
            }
        }
        self.acceptor.borrow().answers(serving.chain.answers());
        self.serving = serving;
        if self.failures == 0 {
            self.health.ready();
        }
    }

    fn rest(&mut self, time: Duration) {
        self.resting = true;
        self.rest.as_mut().reset(Instant::now() + time);
    }

    /// Takes up what a reload put into the slot.
    fn look_at_slot(&mut self) {
        let slot = self.slot.borrow();
        if !Rc::ptr_eq(&slot.chain, &self.serving.chain) {
            let serving = slot.clone();
            drop(slot);
            self.switch(serving);
        }
    }

    /// Accepts and rests, until there is nothing to accept.
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.look_at_slot();
        for _ in 0..BUDGET {
            if self.resting {
                ready!(self.rest.as_mut().poll(cx));
                self.resting = false;
            }
            let Some(count) = self.serving.limit.take(self.max_lines) else {
                self.rest(FULL);
                continue;
            };
            let Some(descriptors) =
                self.worker.board.descriptors.take(self.serving.chain.descriptors())
            else {
                self.out_of(AcceptError::Emfile, "descriptors are out");
                continue;
            };
            let accepted = if self.retiring {
                self.acceptor.borrow_mut().accept_waiting(cx)
            } else {
                self.acceptor.borrow_mut().poll_accept(cx)
            };
            match accepted {
                Poll::Pending if self.retiring => return Poll::Ready(()),
                Poll::Pending => {
                    // Nobody waits, and nothing was out: a node that nobody is sent to because it
                    // is not ready must not wait for a client to be ready again.
                    self.recovered();
                    return Poll::Pending;
                }
                Poll::Ready(Ok((socket, peer))) => {
                    self.recovered();
                    self.open(socket, peer, descriptors, count);
                }
                Poll::Ready(Err(error)) => {
                    let kind = AcceptError::of(&error);
                    if kind.is_exhaustion() {
                        self.out_of(kind, &error.to_string());
                    } else {
                        self.serving.chain.entry.metrics.accept_error(kind);
                        if kind == AcceptError::Other {
                            // It may be there to stay.
                            self.rest(REST[0]);
                        }
                    }
                }
            }
        }
        self.worker.metrics.budget_exhausted();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn open(
        &self,
        socket: Socket,
        peer: SocketAddr,
        descriptors: crate::descriptors::Permit,
        count: LineCount,
    ) {
        if let Some(why) = self.sources.refuse(peer.ip()) {
            self.serving.chain.entry.metrics.refused(why);
            return;
        }
        let near = End::Socket(socket);
        let (descriptors, count) = (Some(descriptors), Some(count));
        self.worker.open_main_line(&self.serving.chain, near, Some(peer), descriptors, count);
    }

    /// Accepting rests and is tried again, later each time; one log line for a whole outage (T02).
    fn out_of(&mut self, error: AcceptError, cause: &str) {
        self.serving.chain.entry.metrics.accept_error(error);
        if self.failures == 0 {
            self.health.not_ready(DESCRIPTORS_OUT);
        }
        // Where clients come and go at the limit, each of them is an outage of its own.
        let now = Instant::now();
        if self.warned.is_none_or(|at| now.duration_since(at) >= WARN_EVERY) {
            self.warned = Some(now);
            let node = &self.serving.chain.entry.plan.name;
            tracing::warn!(%node, worker = self.worker.index, cause, "accepting rests");
        }
        self.failures = self.failures.saturating_add(1);
        self.rest((REST[0] * self.failures.min(16)).min(REST[1]));
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.failures) > 0 {
            tracing::debug!(node = %self.serving.chain.entry.plan.name, "accepting again");
            self.health.ready();
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("node", &self.serving.chain.entry.plan.name)
            .finish_non_exhaustive()
    }
}

impl Actor for Listener {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Accepting);
    }
}

struct Accepting;

impl ActorFuture<Listener> for Accepting {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut Listener,
        ctx: &mut Context<Listener>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        ready!(actor.poll_accept(cx));
        ctx.stop();
        Poll::Ready(())
    }
}

impl Handler<Retire> for Listener {
    type Result = ();

    fn handle(&mut self, retire: Retire, ctx: &mut Self::Context) {
        self.retiring = true;
        if !retire.accept_waiting {
            ctx.stop();
        }
    }
}

impl Handler<ServeAnew> for Listener {
    type Result = ();

    fn handle(&mut self, _: ServeAnew, _: &mut Self::Context) {
        self.look_at_slot();
    }
}

#[cfg(test)]
mod tests;
