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

mod ending;
mod io;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use actix::prelude::*;
use bytes::BytesMut;
use lineway_wire::sip::own::{Received, SocketId, Transport};
use lineway_wire::sip::stream::Framer;
use lineway_wire::wheel::Key;

use super::link::{Link, Piece};
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

/// How long replies are waited for when the peer has ended its side.
const OWING: Duration = Duration::from_secs(4);

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
        if error == SendError::Refused {
            self.site.connections.refused(&self.link);
        }
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
            Stage::Owing { .. } if done && standing.answered >= self.requests => {
                self.begin_parting(SipConnectionEnd::Peer, now, true);
                true
            }
            Stage::Open if handed && standing.last.is_none() && standing.room => {
                self.read(cx, now) || wrote
            }
            _ => wrote,
        }
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

    fn received(&self) -> Received {
        Received {
            source: self.link.remote(),
            socket: self.link.socket(),
            transport: Transport::Tcp,
            connection: Some(self.link.id),
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

fn error_of(error: &std::io::Error) -> SendError {
    use std::io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionRefused
        | Kind::ConnectionReset
        | Kind::HostUnreachable
        | Kind::NetworkUnreachable
        | Kind::NetworkDown
        | Kind::NotConnected => SendError::Refused,
        Kind::TimedOut => SendError::Timeout,
        _ => SendError::System,
    }
}

#[cfg(test)]
mod tests;
