//! One datagram socket of one worker.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::{Duration, Instant};

use actix::prelude::*;
use bytes::Bytes;
use lineway_wire::sip::own::{Received, SocketId, Transport};
use rustix::io::Errno;
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::time::Sleep;

use super::{Pump, Runs, SHORTEST, Site, Task};
use crate::metrics::ActorKind;
use crate::sip::back::SendError;
use crate::sip::ring::Arrival;
use crate::socket::come_again;
use crate::spawn;
use crate::worker::timers;

/// Datagrams of one turn; then others have theirs.
const BUDGET: usize = 64;

/// What waits for a socket that takes nothing at the moment, in bytes and in datagrams.
const QUEUE: (usize, usize) = (1 << 20, 1024);

/// How long reading rests where the socket only gives errors.
const REST: Duration = Duration::from_millis(50);

/// The largest datagram.
const LARGEST: usize = 65_535;

/// A datagram socket. It outlives its actor, so that a new one can take it over.
pub(super) struct Port {
    pub(super) id: SocketId,
    socket: UdpSocket,
    queue: RefCell<VecDeque<(SocketAddr, Bytes)>>,
    queued: Cell<usize>,
    actor: Task,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        buffer: vec![0; LARGEST].into_boxed_slice(),
        batches: Vec::new(),
    });
}

/// What a thread needs to read datagrams, whichever socket they come from.
struct Scratch {
    buffer: Box<[u8]>,
    /// What came for each owner.
    batches: Vec<Vec<Arrival>>,
}

impl Port {
    pub(super) fn new(id: SocketId, socket: std::net::UdpSocket) -> io::Result<Rc<Self>> {
        socket.set_nonblocking(true)?;
        Ok(Rc::new(Self {
            id,
            socket: UdpSocket::from_std(socket)?,
            queue: RefCell::default(),
            queued: Cell::new(0),
            actor: Task::default(),
        }))
    }

    pub(super) fn wake(&self) {
        self.actor.wake();
    }

    /// Sends a datagram, at once or as soon as the socket takes it.
    pub(super) fn send(&self, site: &Site, to: SocketAddr, bytes: Bytes) -> Result<(), SendError> {
        if self.queue.borrow().is_empty() {
            match self.socket.try_send_to(&bytes, to) {
                Ok(_) => {
                    site.counters.sent(Transport::Udp, 1);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error_of(&error, to)),
            }
        }
        let mut queue = self.queue.borrow_mut();
        if queue.len() >= QUEUE.1 || self.queued.get() + bytes.len() > QUEUE.0 {
            return Err(SendError::Full);
        }
        self.queued.set(self.queued.get() + bytes.len());
        queue.push_back((to, bytes));
        self.actor.wake();
        Ok(())
    }

    /// Sends what waits.
    fn poll_flush(&self, site: &Site, cx: &mut TaskContext<'_>) -> Poll<()> {
        let mut queue = self.queue.borrow_mut();
        while let Some((to, bytes)) = queue.front() {
            match ready!(self.socket.poll_send_to(cx, bytes, *to)) {
                Ok(_) => site.counters.sent(Transport::Udp, 1),
                Err(error) => drop(error_of(&error, *to)),
            }
            self.queued.set(self.queued.get() - bytes.len());
            queue.pop_front();
        }
        Poll::Ready(())
    }
}

fn error_of(error: &io::Error, to: SocketAddr) -> SendError {
    tracing::debug!(%to, %error, "a datagram could not be sent");
    match Errno::from_io_error(error) {
        Some(Errno::MSGSIZE) => SendError::TooLarge,
        _ => SendError::System,
    }
}

/// The actor of a datagram socket: reads it, and sends what had to wait.
pub(super) struct Datagram {
    site: Rc<Site>,
    port: Rc<Port>,
    rest: Option<Pin<Box<Sleep>>>,
}

impl Datagram {
    /// Starts it, and again after a panic.
    pub(super) fn launch(site: &Rc<Site>, port: &Rc<Port>) {
        let datagram = Self { site: Rc::clone(site), port: Rc::clone(port), rest: None };
        let (again, port) = (Rc::clone(site), Rc::clone(port));
        spawn::start(
            ActorKind::SipTransport,
            site.worker.board.metrics.actors(),
            |_| datagram,
            move |_| again.launch_again(move |site| Self::launch(site, &port)),
        );
    }

    /// Reads what waits, up to the budget.
    fn read(&mut self, cx: &mut TaskContext<'_>, scratch: &mut Scratch) {
        let mut now: Option<Instant> = None;
        // One byte above the limit says that it is exceeded.
        let most = self.site.limits.message_bytes.saturating_add(1).min(LARGEST);
        let mut errors = 0;
        for _ in 0..BUDGET {
            let mut buffer = ReadBuf::new(&mut scratch.buffer[..most]);
            let source = match self.port.socket.poll_recv_from(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(Ok(source)) => source,
                Poll::Ready(Err(error)) => {
                    errors += 1;
                    if errors == BUDGET {
                        tracing::warn!(node = %self.site.metrics.name(), %error, "a socket can not be read");
                        let mut rest = Box::pin(tokio::time::sleep(REST));
                        let _ = rest.as_mut().poll(cx);
                        self.rest = Some(rest);
                        return;
                    }
                    continue;
                }
            };
            let bytes = buffer.filled();
            let is_keepalive = bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'));
            if is_keepalive || bytes.len() < SHORTEST {
                if is_keepalive && !bytes.is_empty() {
                    self.site.counters.keepalives.inc();
                }
                continue;
            }
            let received = Received {
                source: SocketAddr::new(source.ip().to_canonical(), source.port()),
                socket: self.port.id,
                transport: Transport::Udp,
                connection: None,
            };
            let owner = self.site.owner(bytes);
            let at = *now.get_or_insert_with(timers::now);
            let arrival = Arrival { bytes: Bytes::copy_from_slice(bytes), received, at };
            scratch.batches[usize::from(owner)].push(arrival);
        }
        self.site.worker.metrics.budget_exhausted();
        come_again(cx);
    }

    /// Gives each owner what came for it; what finds no room is dropped (contract 2.16).
    fn hand_over(&self, scratch: &mut Scratch) {
        let (mut received, mut dropped) = (0, 0);
        for (owner, batch) in scratch.batches.iter_mut().enumerate() {
            if batch.is_empty() {
                continue;
            }
            received += batch.len();
            self.site.rings.of(owner as u16).push_datagrams(batch);
            dropped += batch.len();
            batch.clear();
        }
        if received > 0 {
            self.site.counters.received(Transport::Udp, received as u64);
        }
        if dropped > 0 {
            self.site.counters.overload.inc_by(dropped as u64);
        }
    }
}

impl Actor for Datagram {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Pump);
    }
}

impl Runs for Datagram {
    fn run(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        self.port.actor.is(cx);
        let flushed = self.port.poll_flush(&self.site, cx);
        if self.site.stopped.get() {
            return flushed;
        }
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(cx));
            self.rest = None;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            // A panic may have left something.
            scratch.batches.iter_mut().for_each(Vec::clear);
            scratch.batches.resize_with(usize::from(self.site.rings.workers()), Vec::new);
            self.read(cx, scratch);
            self.hand_over(scratch);
        });
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
