//! The sockets of a `SipListener` on one worker: what comes in goes to the ring of its call's owner,
//! what goes out leaves by this worker's own sockets, or by a connection wherever it lives.
//!
//! Each datagram socket, listening socket and connection is an actor of the kind `sip-transport`.
//! One that reads datagrams or accepts is started again after a panic; a connection ends by it.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker, ready};
use std::time::Duration;

use actix::fut::ActorFuture;
use actix::prelude::*;
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use lineway_wire::sip::message::{Limits, call_id_of};
use lineway_wire::sip::own::{Own, Received, SocketId, Transport};
use lineway_wire::sip::stream::StreamError;
use lineway_wire::units::Millis;

use self::accepting::{Accepting, Port as ListeningPort};
use self::connection::Connection;
use self::datagram::{Datagram, Port as DatagramPort};
use self::link::{Joined, Link, Pushed};
use super::back::{SendError, Way};
use super::ring::Rings;
use crate::metrics::{ActorKind, NodeMetrics, SipListenerMetrics};
use crate::net::Acceptor;
use crate::worker::Worker;

mod accepting;
mod connection;
mod datagram;
mod link;

pub use link::Connections;

/// How long after a panic the actor of a socket is started again.
const AGAIN: Duration = Duration::from_millis(100);

/// Shorter than any start line of SIP: what is shorter is no message (contract 1.1).
const SHORTEST: usize = 12;

/// How often another connection is looked for when one has just ended.
const JOINS: usize = 3;

/// What came of sending.
pub enum Sent {
    /// It left, or waits in a bounded queue of a live connection.
    Done,
    /// It did not.
    Failed(SendError),
    /// A connection is opened first. The message waits for it whether anybody waits for the result
    /// or not.
    Later(LocalBoxFuture<'static, Result<(), SendError>>),
}

/// What a stream gets before it is closed for an error: the bytes of a reply, where one can be made.
pub type Fault = dyn Fn(&StreamError, &Received) -> Option<Bytes>;

/// What the sockets of a node on one worker are made of.
pub struct TransportStart {
    /// What the node counts.
    pub metrics: Arc<NodeMetrics>,
    /// What it counts as a `SipListener`.
    pub counters: Arc<SipListenerMetrics>,
    /// The sockets and names of the node.
    pub own: Rc<Own>,
    /// This worker's datagram sockets, non-blocking.
    pub udp: Vec<(SocketId, std::net::UdpSocket)>,
    /// This worker's listening sockets, non-blocking.
    pub tcp: Vec<(SocketId, std::net::TcpListener)>,
    /// The rings of all workers.
    pub rings: Arc<Rings>,
    /// The connections of the node on all workers.
    pub connections: Arc<Connections>,
    /// Limits of a message.
    pub limits: Limits,
    /// `tcp-idle-timeout-ms`.
    pub tcp_idle: Millis,
    /// How long a connect may take.
    pub connect_timeout: Duration,
    /// Answers a stream that can not be read any further.
    pub fault: Rc<Fault>,
}

/// What all actors of a node on one worker have.
struct Site {
    worker: Rc<Worker>,
    metrics: Arc<NodeMetrics>,
    counters: Arc<SipListenerMetrics>,
    own: Rc<Own>,
    rings: Arc<Rings>,
    connections: Arc<Connections>,
    limits: Limits,
    idle: Option<Duration>,
    connect_timeout: Duration,
    fault: Rc<Fault>,
    /// Nothing is read or accepted any more.
    stopped: Cell<bool>,
}

impl Site {
    /// Starts an actor again that ended by a panic, unless the node is stopped by then.
    fn launch_again(self: &Rc<Self>, launch: impl FnOnce(&Rc<Self>) + 'static) {
        let site = Rc::clone(self);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(AGAIN).await;
            if !site.stopped.get() {
                site.worker.board.metrics.actors().kind(ActorKind::SipTransport).restarted();
                launch(&site);
            }
        });
    }

    /// The owner of a message. One without a Call-ID is nobody's: it is dropped where it came in.
    fn owner(&self, bytes: &[u8]) -> u16 {
        match self.rings.workers() {
            1 => 0,
            _ => call_id_of(bytes).map_or(self.worker.index, |call_id| self.rings.owner(call_id)),
        }
    }
}

/// The task of an actor, for those that have something for it.
#[derive(Debug, Default)]
struct Task(RefCell<Option<Waker>>);

impl Task {
    /// The actor is this task.
    fn is(&self, cx: &TaskContext<'_>) {
        let mut waker = self.0.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.0.borrow() {
            waker.wake_by_ref();
        }
    }
}

/// An actor that does all of its work when its task is polled.
trait Runs: Actor<Context = Context<Self>> {
    /// Does what can be done; `Ready` once it is over.
    fn run(&mut self, cx: &mut TaskContext<'_>) -> Poll<()>;
}

struct Pump;

impl<A: Runs> ActorFuture<A> for Pump {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut A,
        ctx: &mut Context<A>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        ready!(actor.run(cx));
        ctx.stop();
        Poll::Ready(())
    }
}

/// The sockets of one node on one worker, for sending; receiving is the `SipTransport` actors'.
/// Dropped, it [stops](Self::stop).
pub struct Transports {
    site: Rc<Site>,
    datagrams: Vec<Rc<DatagramPort>>,
    listening: Vec<Rc<ListeningPort>>,
}

impl Transports {
    /// Takes over the sockets of a node on this worker and starts to receive.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn start(worker: &Rc<Worker>, start: TransportStart) -> io::Result<Rc<Self>> {
        Self::start_with(worker, start, Vec::new())
    }

    /// As [`start`](Self::start), with listening sockets of another network as well.
    ///
    /// # Errors
    /// The system refuses to watch a socket.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn start_with(
        worker: &Rc<Worker>,
        start: TransportStart,
        acceptors: Vec<(SocketId, Acceptor)>,
    ) -> io::Result<Rc<Self>> {
        let site = Rc::new(Site {
            worker: Rc::clone(worker),
            metrics: start.metrics,
            counters: start.counters,
            own: start.own,
            rings: start.rings,
            connections: start.connections,
            limits: start.limits,
            idle: start.tcp_idle.limit(),
            connect_timeout: start.connect_timeout,
            fault: start.fault,
            stopped: Cell::new(false),
        });
        let datagrams = start.udp.into_iter().map(|(id, socket)| DatagramPort::new(id, socket));
        let datagrams = datagrams.collect::<Result<Vec<_>, _>>()?;
        let listening =
            start.tcp.into_iter().map(|(id, socket)| ListeningPort::of_system(id, socket));
        let mut listening = listening.collect::<Result<Vec<_>, _>>()?;
        let others = acceptors.into_iter();
        listening.extend(others.map(|(id, acceptor)| ListeningPort::new(id, acceptor)));
        for port in &datagrams {
            Datagram::launch(&site, port);
        }
        for port in &listening {
            Accepting::launch(&site, port);
        }
        Ok(Rc::new(Self { site, datagrams, listening }))
    }

    /// Sends one message. Datagrams leave by this worker's own socket of the address; over TCP the
    /// connection of the way is tried first, then one to that address (RFC 3261 18.1.1, 18.2.2),
    /// then a new one where that is allowed.
    pub fn send(&self, way: &Way, bytes: Bytes) -> Sent {
        match way.transport {
            Transport::Udp => {
                let port = self.datagrams.iter().find(|port| port.id == way.socket);
                let sent = port
                    .map_or(Err(SendError::System), |port| port.send(&self.site, way.to, bytes));
                sent.map_or_else(Sent::Failed, |()| Sent::Done)
            }
            Transport::Tcp => self.send_stream(way, bytes),
        }
    }

    fn send_stream(&self, way: &Way, bytes: Bytes) -> Sent {
        let connections = &self.site.connections;
        let offer = |link: &Arc<Link>| match link.push(bytes.clone(), way.close_after) {
            Pushed::Queued => Some(Sent::Done),
            Pushed::Waits => Some(Sent::Later(Box::pin(Arc::clone(link).dialled()))),
            Pushed::Full => Some(Sent::Failed(SendError::Full)),
            Pushed::Gone => None,
        };
        if let Some(sent) =
            way.connection.and_then(|id| connections.get(id)).as_ref().and_then(offer)
        {
            return sent;
        }
        // A connection may end between the look and the push; each time another one is there.
        for _ in 0..JOINS {
            let may_dial = way.may_connect && !self.site.stopped.get();
            match connections.join(self.site.worker.index, way.socket, way.to, may_dial) {
                Ok(Joined::Old(link)) => {
                    if let Some(sent) = offer(&link) {
                        return sent;
                    }
                }
                Ok(Joined::New(link, count)) => {
                    let sent = offer(&link);
                    return match Connection::dial(&self.site, &link, count) {
                        Ok(()) => sent.unwrap_or(Sent::Failed(SendError::NoConnection)),
                        Err(error) => Sent::Failed(error),
                    };
                }
                Err(error) => return Sent::Failed(error),
            }
        }
        Sent::Failed(SendError::NoConnection)
    }

    /// Reads and accepts nothing more. Connections of this worker end once what waits in them is
    /// written; datagrams can still be sent.
    pub fn stop(&self) {
        self.site.stopped.set(true);
        self.datagrams.iter().for_each(|port| port.wake());
        self.listening.iter().for_each(|port| port.close());
        self.site.connections.stop(self.site.worker.index);
    }
}

impl Drop for Transports {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for Transports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transports").field("node", self.site.metrics.name()).finish_non_exhaustive()
    }
}
