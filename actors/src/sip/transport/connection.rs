//! One TCP connection that carries SIP.
//!
//! ```text
//! Dialling ──(up)──> Open ──(the peer's end)──> Owing ──(its requests are answered)──┐
//!    │                └──(a fault, a last word, idle)───────────────────────────────┴─> Parting ──> Over
//!    └──(it fails)─────────────────────────────────────────────────────────────────────────────────> Over
//! ```
//!
//! A connection that parts takes nothing more to write. What is left to do is that its last words
//! reach the peer: a socket that is closed with unread bytes sends a reset, which would destroy them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::{Duration, Instant};

use actix::prelude::*;
use bytes::{Buf, Bytes, BytesMut};
use lineway_wire::sip::own::{Received, SocketId, Transport};
use lineway_wire::sip::stream::{Framed, Framer, StreamError, StreamFault};
use lineway_wire::wheel::Key;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::link::{Link, Piece, Standing};
use super::{Pump, Runs, Site};
use crate::descriptors::Permit;
use crate::listener::LineCount;
use crate::metrics::{ActorKind, SipConnectionEnd};
use crate::net::{ConnectOptions, Connecting, Early, Socket};
use crate::settings::SocketSettings;
use crate::sip::back::SendError;
use crate::sip::ring::{Arrival, RoomWait};
use crate::socket::come_again;
use crate::spawn;
use crate::worker::timers;

/// Rounds of one turn, each at most one read and one write; then others have theirs.
const ROUNDS: usize = 16;

/// What one read takes at most, in bytes.
const READ: usize = 16 << 10;

/// Pieces of one gathered write.
const GATHERED: usize = 64;

/// A message that is less than this part of the buffer that it came in is copied out of it, so that
/// one that waits keeps no more than this many times its size.
const SHARE: usize = 4;

/// How long replies are waited for when the peer has ended its side.
const OWING: Duration = Duration::from_secs(4);

/// How long the peer may take nothing while something is to be written.
const STALL: Duration = Duration::from_secs(30);

/// How long the peer has to end its side after the own one has ended.
const PARTING: Duration = Duration::from_secs(2);

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        buffer: vec![0; READ].into_boxed_slice(),
        batches: Vec::new(),
    });
}

/// What a connection needs only while it has its turn.
struct Scratch {
    buffer: Box<[u8]>,
    /// What came for each owner.
    batches: Vec<Vec<Arrival>>,
}

/// Where a connection stands; see the module.
enum Stage {
    Dialling { connecting: Connecting, until: Instant },
    Open,
    Owing { until: Instant },
    Parting { why: SipConnectionEnd, until: Instant, shut: bool, peer_ended: bool },
    Over,
}

/// What did not fit into its owner's ring.
struct Held {
    owner: u16,
    batch: Vec<Arrival>,
    wait: RoomWait,
}

/// The actor of a connection.
pub(super) struct Connection {
    site: Rc<Site>,
    link: Arc<Link>,
    stage: Stage,
    /// `None` until it is up.
    socket: Option<Socket>,
    framer: Framer,
    /// Bytes that were read and are no whole message yet.
    input: BytesMut,
    held: Vec<Held>,
    writing: VecDeque<Piece>,
    /// Bytes that were written, and the link does not know of yet.
    written: usize,
    /// Requests that came.
    requests: u64,
    /// When a message or keepalive passed last, or some of one was written.
    active: Instant,
    /// Since when the peer takes nothing.
    stalled: Option<Instant>,
    timer: Option<(Instant, Key)>,
    _held: (LineCount, Permit),
}

impl Connection {
    /// Takes over a connection that was accepted.
    pub(super) fn accepted(
        site: &Rc<Site>,
        socket: SocketId,
        stream: Socket,
        peer: SocketAddr,
        held: (LineCount, Permit),
    ) {
        let link = site.connections.enter(site.worker.index, socket, peer);
        site.counters.accepted.inc();
        site.counters.open.inc();
        Self::start(site, &link, Stage::Open, Some(stream), held);
    }

    /// Dials for a link that is new.
    ///
    /// # Errors
    /// What can be said at once; the link is over then.
    pub(super) fn dial(
        site: &Rc<Site>,
        link: &Arc<Link>,
        count: LineCount,
    ) -> Result<(), SendError> {
        let begin = || {
            let permit = site.worker.board.descriptors.take(1).ok_or(SendError::Full)?;
            let source = site.own.socket(link.socket()).map(|socket| socket.address.ip());
            let options = ConnectOptions {
                socket: SocketSettings::default(),
                source: source.filter(|ip| !ip.is_unspecified()),
                fastopen: false,
                keepalive: true,
            };
            let nothing = Early { bytes: &[], in_syn: false, asks: false };
            let connecting = site.worker.network.connect(link.remote(), &options, nothing);
            Ok((connecting.map_err(|error| error_of(&error))?.0, permit))
        };
        match begin() {
            Ok((connecting, permit)) => {
                let until = timers::now() + site.connect_timeout;
                let stage = Stage::Dialling { connecting, until };
                Self::start(site, link, stage, None, (count, permit));
                Ok(())
            }
            Err(error) => {
                site.connections.leave(link);
                link.is_gone(Some(error));
                Err(error)
            }
        }
    }

    fn start(
        site: &Rc<Site>,
        link: &Arc<Link>,
        stage: Stage,
        socket: Option<Socket>,
        held: (LineCount, Permit),
    ) {
        let connection = Self {
            site: Rc::clone(site),
            link: Arc::clone(link),
            stage,
            socket,
            framer: Framer::new(site.limits),
            input: BytesMut::new(),
            held: Vec::new(),
            writing: VecDeque::new(),
            written: 0,
            requests: 0,
            active: timers::now(),
            stalled: None,
            timer: None,
            _held: held,
        };
        let actors = site.worker.board.metrics.actors();
        spawn::start(ActorKind::SipTransport, actors, |_| connection, |_| {});
    }

    /// The connection is up, or failed.
    fn poll_dial(&mut self, cx: &mut TaskContext<'_>, now: Instant) {
        let Stage::Dialling { connecting, .. } = &mut self.stage else {
            return;
        };
        match connecting.poll(cx) {
            Poll::Pending => {}
            Poll::Ready(Ok(socket)) => {
                self.socket = Some(socket);
                self.stage = Stage::Open;
                self.active = now;
                self.site.counters.dialled.inc();
                self.site.counters.open.inc();
                self.link.is_up();
            }
            Poll::Ready(Err(error)) => {
                let to = self.link.remote();
                tracing::debug!(%to, %error, "connect failed");
                self.dial_failed(error_of(&error));
            }
        }
    }

    fn dial_failed(&mut self, error: SendError) {
        self.stage = Stage::Over;
        self.site.connections.leave(&self.link);
        self.link.is_gone(Some(error));
    }

    /// Writes what waits, hands over what did not fit, reads once. True when another round may move
    /// more.
    fn round(&mut self, cx: &mut TaskContext<'_>, now: Instant) -> bool {
        let (standing, wrote) = match self.write(cx, now) {
            Ok(written) => written,
            Err(error) => {
                self.broke(&error);
                return true;
            }
        };
        let handed = self.hand_over(cx);
        let done = handed && self.writing.is_empty();
        match self.stage {
            _ if done && standing.last.is_some() => {
                self.begin_parting(standing.last.unwrap_or(SipConnectionEnd::Drain), now, false);
                true
            }
            Stage::Owing { .. } if done && standing.sent >= self.requests => {
                self.begin_parting(SipConnectionEnd::Peer, now, true);
                true
            }
            Stage::Open if handed && standing.last.is_none() && standing.room => {
                self.read(cx, now) || wrote
            }
            _ => wrote,
        }
    }

    /// One gathered write. Says how the link stands, and whether something was written.
    fn write(&mut self, cx: &mut TaskContext<'_>, now: Instant) -> io::Result<(Standing, bool)> {
        let written = mem::take(&mut self.written);
        let standing = self.link.take(written, &mut self.writing, GATHERED, cx);
        let Some(socket) = self.socket.as_mut().filter(|_| !self.writing.is_empty()) else {
            return Ok((standing, false));
        };
        let mut slices = [IoSlice::new(&[]); GATHERED];
        let mut filled = 0;
        for (slice, piece) in slices.iter_mut().zip(&self.writing) {
            *slice = IoSlice::new(&piece.bytes);
            filled += 1;
        }
        let polled = match &slices[..filled] {
            [slice] => Pin::new(socket).poll_write(cx, slice),
            slices => Pin::new(socket).poll_write_vectored(cx, slices),
        };
        match polled {
            Poll::Pending => {
                self.stalled.get_or_insert(now);
                Ok((standing, false))
            }
            Poll::Ready(Ok(0)) => Err(io::ErrorKind::WriteZero.into()),
            Poll::Ready(Ok(bytes)) => {
                self.stalled = None;
                self.active = now;
                self.written = bytes;
                self.advance(bytes);
                Ok((standing, true))
            }
            Poll::Ready(Err(error)) => Err(error),
        }
    }

    /// So many bytes were written.
    fn advance(&mut self, mut bytes: usize) {
        let mut sent = 0;
        while let Some(piece) = self.writing.front_mut() {
            if bytes < piece.bytes.len() {
                piece.bytes.advance(bytes);
                break;
            }
            bytes -= piece.bytes.len();
            sent += u64::from(piece.is_message);
            self.writing.pop_front();
        }
        if self.writing.is_empty() {
            // An idle connection keeps no memory of a rush.
            self.writing = VecDeque::new();
        }
        self.site.counters.sent(Transport::Tcp, sent);
    }

    /// Gives owners what did not fit into their rings. False while something is left.
    fn hand_over(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let rings = &self.site.rings;
        self.held.retain_mut(|Held { owner, batch, wait }| {
            let ring = rings.of(*owner);
            while !batch.is_empty() {
                if ring.poll_room(wait, cx).is_pending() {
                    return true;
                }
                let before = batch.len();
                ring.push(batch);
                if batch.len() == before {
                    // Its first message needs more than what is free.
                    come_again(cx);
                    return true;
                }
            }
            false
        });
        self.held.is_empty()
    }

    /// Reads once and takes out what is whole. True when there may be more.
    fn read(&mut self, cx: &mut TaskContext<'_>, now: Instant) -> bool {
        let Some(socket) = self.socket.as_mut() else {
            return false;
        };
        let input = &mut self.input;
        let read = SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch.buffer);
            ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
            input.extend_from_slice(buffer.filled());
            Poll::Ready(io::Result::Ok(buffer.filled().len()))
        });
        match read {
            Poll::Pending => return false,
            Poll::Ready(Err(error)) => self.broke(&error),
            Poll::Ready(Ok(0)) => {
                self.input = BytesMut::new();
                // Nobody hears a request on it, but replies to what came may.
                self.site.connections.retire(&self.link);
                self.stage = Stage::Owing { until: now + OWING };
            }
            Poll::Ready(Ok(_)) => {
                if let Err(error) = SCRATCH.with_borrow_mut(|scratch| self.frame(now, scratch)) {
                    self.fault(&error);
                }
            }
        }
        true
    }

    /// Cuts what was read into messages and hands them over.
    fn frame(&mut self, now: Instant, scratch: &mut Scratch) -> Result<(), StreamError> {
        let batches = &mut scratch.batches;
        // A panic may have left something.
        batches.iter_mut().for_each(Vec::clear);
        batches.resize_with(usize::from(self.site.rings.workers()), Vec::new);
        let received = self.received();
        let buffer = self.input.capacity();
        let mut count = 0;
        let result = loop {
            match self.framer.next(&mut self.input) {
                Ok(Framed::Message(bytes)) => {
                    let owner = self.site.owner(&bytes);
                    self.requests += u64::from(is_request(&bytes));
                    count += 1;
                    let small = bytes.len() < buffer / SHARE;
                    let bytes = if small { Bytes::copy_from_slice(&bytes) } else { bytes };
                    batches[usize::from(owner)].push(Arrival { bytes, received, at: now });
                }
                Ok(Framed::Ping) => {
                    self.active = now;
                    self.site.counters.keepalives.inc();
                    self.link.pong();
                }
                Ok(Framed::NeedsMore) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if self.input.is_empty() {
            // An empty buffer would keep the memory of the last one.
            self.input = BytesMut::new();
        } else if self.input.len() < buffer / SHARE {
            self.input = BytesMut::from(&self.input[..]);
        }
        if count > 0 {
            self.active = now;
            self.site.counters.received(Transport::Tcp, count);
        }
        for (owner, batch) in (0..).zip(batches).filter(|(_, batch)| !batch.is_empty()) {
            self.site.rings.of(owner).push(batch);
            if !batch.is_empty() {
                let (batch, wait) = (mem::take(batch), RoomWait::default());
                self.held.push(Held { owner, batch, wait });
            }
        }
        result
    }

    fn received(&self) -> Received {
        Received {
            source: self.link.remote(),
            socket: self.link.socket(),
            transport: Transport::Tcp,
            connection: Some(self.link.id),
        }
    }

    /// Nothing that follows can be told apart: an answer where one can be given, and the end.
    fn fault(&mut self, error: &StreamError) {
        let why = match error.fault {
            StreamFault::NoLength => SipConnectionEnd::NoLength,
            StreamFault::BadLength => SipConnectionEnd::BadLength,
            StreamFault::TooLarge => SipConnectionEnd::TooLarge,
            StreamFault::NotSip => SipConnectionEnd::NotSip,
        };
        let (remote, node) = (self.link.remote(), self.site.metrics.name());
        tracing::debug!(%node, %remote, %error, "a connection can not be read any further");
        self.input = BytesMut::new();
        self.site.connections.retire(&self.link);
        self.link.finish_with((self.site.fault)(error, &self.received()), why);
    }

    fn broke(&mut self, error: &io::Error) {
        tracing::debug!(remote = %self.link.remote(), %error, "connection lost");
        self.over(SipConnectionEnd::Error);
    }

    /// Nothing more is taken to be written; the own side ends, in order.
    fn begin_parting(&mut self, why: SipConnectionEnd, now: Instant, peer_ended: bool) {
        self.site.connections.leave(&self.link);
        self.link.is_gone(None);
        self.stage = Stage::Parting { why, until: now + PARTING, shut: false, peer_ended };
    }

    /// Ends the own side and waits for the peer's end. True when another round may move more.
    fn part(&mut self, cx: &mut TaskContext<'_>) -> bool {
        let Stage::Parting { why, shut, peer_ended, .. } = &mut self.stage else {
            return false;
        };
        let why = *why;
        let Some(socket) = self.socket.as_mut() else {
            self.over(why);
            return true;
        };
        if !*shut {
            match Pin::new(&mut *socket).poll_shutdown(cx) {
                Poll::Pending => return false,
                Poll::Ready(Ok(())) if !*peer_ended => *shut = true,
                Poll::Ready(_) => {
                    self.over(why);
                    return true;
                }
            }
        }
        let read = SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(&mut scratch.buffer);
            ready!(Pin::new(socket).poll_read(cx, &mut buffer))?;
            Poll::Ready(io::Result::Ok(buffer.filled().len()))
        });
        match read {
            Poll::Pending => return false,
            Poll::Ready(Ok(0) | Err(_)) => self.over(why),
            Poll::Ready(Ok(_)) => {}
        }
        true
    }

    /// It is over, at once.
    fn over(&mut self, why: SipConnectionEnd) {
        let was_up = self.socket.take().is_some();
        self.stage = Stage::Over;
        self.site.connections.leave(&self.link);
        let lost = self.link.is_gone(None) + self.writing.len();
        self.writing.clear();
        if was_up {
            self.site.counters.closed(why);
            let (remote, node) = (self.link.remote(), self.site.metrics.name());
            tracing::debug!(%node, %remote, reason = why.as_str(), lost, "connection closed");
        }
    }

    /// When something has to happen without anybody else.
    fn deadline(&self) -> Option<Instant> {
        let stalled = self.stalled.map(|since| since + STALL);
        match self.stage {
            Stage::Dialling { until, .. } | Stage::Parting { until, .. } => Some(until),
            Stage::Open => {
                let idle = self.site.idle.map(|time| self.active + time);
                idle.into_iter().chain(stalled).min()
            }
            Stage::Owing { until } => Some(stalled.map_or(until, |stalled| stalled.min(until))),
            Stage::Over => None,
        }
    }

    /// Does what is due.
    fn mind_the_time(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.stage {
            Stage::Dialling { .. } => self.dial_failed(SendError::Timeout),
            Stage::Parting { why, .. } => self.over(why),
            Stage::Open | Stage::Owing { .. } if self.stalled.is_some() => {
                self.over(SipConnectionEnd::Idle);
            }
            Stage::Open => self.begin_parting(SipConnectionEnd::Idle, now, false),
            Stage::Owing { .. } => self.begin_parting(SipConnectionEnd::Peer, now, true),
            Stage::Over => {}
        }
    }

    /// Has the task polled at its deadline. One that moved to later is looked at when it fires.
    fn arm(&mut self, now: Instant, cx: &TaskContext<'_>) {
        let timers = &self.site.worker.timers;
        let Some(deadline) = self.deadline() else {
            return;
        };
        match self.timer {
            Some((at, _)) if now < at && at <= deadline => {}
            timer => {
                if let Some((_, key)) = timer {
                    timers.cancel(key);
                }
                self.timer = Some((deadline, timers.set(deadline, cx.waker())));
            }
        }
    }
}

impl Runs for Connection {
    fn run(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        let now = timers::now();
        self.mind_the_time(now);
        self.poll_dial(cx, now);
        let mut again = true;
        for _ in 0..ROUNDS {
            again = match self.stage {
                Stage::Dialling { .. } => false,
                Stage::Open | Stage::Owing { .. } => self.round(cx, now),
                Stage::Parting { .. } => self.part(cx),
                Stage::Over => return Poll::Ready(()),
            };
            if !again {
                break;
            }
        }
        if again {
            self.site.worker.metrics.budget_exhausted();
            come_again(cx);
        }
        self.arm(now, cx);
        Poll::Pending
    }
}

impl Actor for Connection {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Pump);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some((_, key)) = self.timer {
            self.site.worker.timers.cancel(key);
        }
        // Dropped before its end: its actor panicked, or its runtime ends.
        match self.stage {
            Stage::Over => {}
            Stage::Dialling { .. } => self.dial_failed(SendError::System),
            _ => self.over(SipConnectionEnd::Panic),
        }
    }
}

fn is_request(message: &[u8]) -> bool {
    !message.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"SIP/2.0 "))
}

fn error_of(error: &io::Error) -> SendError {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::NotConnected => SendError::Refused,
        io::ErrorKind::TimedOut => SendError::Timeout,
        _ => SendError::System,
    }
}

#[cfg(test)]
mod tests;
