//! The actor of one physical connection of a socket: its handshake, its records, its end.
//!
//! ```text
//! Shaking ──(the peer's READY is right)──> Attaching ──(own READY written, the socket takes it)──>
//! Open ──(the socket says close)──> Flushing ──(all is written)──┐
//!    └──(a fault, an error of the transport, the peer's end)─────┴──> Parting ──> over
//! ```
//!
//! A connection that parts is over for its socket. What is left to do is that its last words reach
//! the peer: a socket that is closed with unread bytes sends a reset, which would destroy them.

mod ending;
mod io;
mod time;

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use actix::fut::ActorFuture;
use actix::prelude::*;
use bytes::BytesMut;
use lineway_wire::zmp::connection::{Connection, ConnectionOptions, Event, Next};
use lineway_wire::zmp::core::{Attaching, ConnectionId, Disconnected, Origin};
use lineway_wire::zmp::encode::Writer;
use lineway_wire::zmp::frame::{ErrorCode, ProtocolError};
use lineway_wire::zmp::{Charge, Inbound};
use tokio::time::Instant;

use self::io::Scratch;
use self::time::Times;
use super::wait::come_again;
use super::{Reader, Shared, Stream, Total};
use crate::messages::{ConnectionSays, ConnectionWord, Disconnect};
use crate::metrics::{ActorKind, ActorMetrics};
use crate::spawn;

/// Rounds of one turn, each at most one read and what it takes to write a batch: then others have
/// theirs.
const ROUNDS: usize = 16;

/// Small records and control frames after which a turn ends with its round: one read can bring
/// thousands of them.
const HANDLED: usize = 1024;

/// What a connection takes from its socket to write at once, in bytes, or one record: the rest waits
/// in the socket's queue.
const BATCH: usize = 64 << 10;

/// The second connection of a link did not come in time (1.3).
const LANE_MISSING: ProtocolError = ProtocolError {
    code: ErrorCode::Internal,
    what: "the other connection of the link is missing",
};

/// What a connection is made of.
#[derive(Debug)]
pub struct ConnectionStart {
    /// The connection, which is up.
    pub stream: Stream,
    /// Who speaks on it, and how.
    pub options: ConnectionOptions,
    /// Its number.
    pub id: ConnectionId,
    /// Where it came from.
    pub origin: Origin,
    /// The local address.
    pub local: Arc<str>,
    /// The peer's address.
    pub remote: Arc<str>,
    /// `HANDSHAKE_IVL`.
    pub handshake_interval: Duration,
    /// `RCVHWM` of the link in bytes; 0 = no limit.
    pub receive_hwm: Charge,
    /// The socket.
    pub shared: Arc<Shared>,
    /// What all sockets have queued.
    pub total: Arc<Total>,
    /// Who hears of it.
    pub says: Recipient<ConnectionSays>,
}

/// Where a connection stands; see the module.
#[derive(Debug)]
enum State {
    Shaking,
    Attaching(Box<Attaching>),
    Open,
    Flushing(Disconnected),
    Parting { thrown_away: u64, said: bool },
    Over,
}

/// How a connection comes to its end.
#[derive(Debug)]
enum End {
    /// The peer's stream ended in order.
    Ended,
    /// The peer broke the protocol.
    Fault(ProtocolError),
    /// The peer says that this side did.
    Accused,
    /// The transport broke.
    Broken,
}

/// One physical connection of a DEALER or ROUTER.
#[derive(Debug)]
pub struct PeerConnection {
    id: ConnectionId,
    origin: Origin,
    local: Arc<str>,
    remote: Arc<str>,
    shared: Arc<Shared>,
    says: Recipient<ConnectionSays>,
    stream: Stream,
    own: lineway_wire::zmp::SocketKind,
    wire: Connection,
    /// Bytes that were read and are no whole frame yet, or wait for room.
    input: BytesMut,
    /// The last read ended in a large part.
    behind_large: bool,
    /// `None` while nothing is to be written.
    writer: Option<Writer>,
    state: State,
    /// How it ends, once what was received before is with the socket.
    end: Option<End>,
    times: Times,
    reader: Reader,
    receive_hwm: Charge,
    /// The receive limit has no room.
    blocked: bool,
    /// The link has connections that are not there yet.
    incomplete: bool,
    /// The limit of the handshake is over, and the link may be complete by now.
    late: bool,
    /// The socket has more to write than there was room for, or was not asked yet.
    more: bool,
    /// The peer takes nothing any more; what it sent is still there to be read.
    deaf: bool,
    /// The charge of what was written and not told yet.
    written: Charge,
    /// The charge of what the socket has taken off its queue.
    taken: Charge,
    /// The charge of what the socket was given.
    given: Charge,
    /// What was read of a record that is not whole, without `input`.
    open: u64,
    /// Records that were in a writer whose peer took no more.
    lost: u64,
    /// The socket has taken it.
    attached: bool,
    /// The socket knows that it is over.
    ended: bool,
}

impl PeerConnection {
    /// Starts the actor of a connection.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub fn start(start: ConnectionStart, actors: &ActorMetrics) -> Addr<Self> {
        spawn::start(ActorKind::PeerConnection, actors, |_| Self::new(start), |_| {})
    }

    fn new(start: ConnectionStart) -> Self {
        let own = start.options.kind;
        Self {
            id: start.id,
            origin: start.origin,
            local: start.local,
            remote: start.remote,
            shared: start.shared,
            says: start.says,
            stream: start.stream,
            own,
            wire: Connection::new(start.options),
            input: BytesMut::new(),
            behind_large: false,
            writer: None,
            state: State::Shaking,
            end: None,
            times: Times::new(Instant::now() + start.handshake_interval),
            reader: Reader::new(&start.total),
            receive_hwm: start.receive_hwm,
            blocked: false,
            incomplete: false,
            late: false,
            more: false,
            deaf: false,
            written: 0,
            taken: 0,
            given: 0,
            open: 0,
            lost: 0,
            attached: false,
            ended: false,
        }
    }

    /// Moves what can be moved. `Ready` once everything is over.
    fn turn(&mut self, cx: &mut TaskContext<'_>, scratch: &mut Scratch) -> Poll<()> {
        scratch.lend(&mut self.writer);
        self.mind_the_time();
        let mut again = true;
        scratch.handled = 0;
        for round in 0..ROUNDS {
            again = match self.state {
                State::Shaking | State::Attaching(_) | State::Open => {
                    self.round(cx, scratch, round == 0)
                }
                State::Flushing(why) => self.flush(cx, scratch, why, round == 0),
                State::Parting { .. } => self.part(cx, scratch),
                State::Over => false,
            };
            if !again || scratch.handled > HANDLED {
                break;
            }
        }
        scratch.take_back(&mut self.writer);
        if matches!(self.state, State::Over) {
            return Poll::Ready(());
        }
        if again {
            come_again(cx);
        }
        self.times.arm(cx);
        Poll::Pending
    }

    /// One read, one step of the socket, and what it takes to write what that gave. True when
    /// another round may move more.
    fn round(&mut self, cx: &mut TaskContext<'_>, scratch: &mut Scratch, first: bool) -> bool {
        let read = self.read(cx, scratch);
        if !read && self.deaf {
            self.end.get_or_insert(End::Broken);
        }
        let (stood, given) = (self.blocked, self.given);
        self.decode(scratch);
        // There is room again, and more to be read.
        let mut again = read || (stood && !self.blocked);
        if matches!(self.state, State::Open) {
            let news = !scratch.turn.received.is_empty()
                || self.written > 0
                || (self.more && self.room() > 0)
                || self.blocked != stood;
            if first || news {
                again |= self.exchange(cx, scratch);
                if mem::take(&mut self.late) && self.incomplete {
                    self.end.get_or_insert(End::Fault(LANE_MISSING));
                }
            }
        }
        self.hold(self.given > given);
        again |= self.write(cx);
        again |= self.attach();
        if !read && let Some(end) = self.end.take() {
            self.finish(end);
            return true;
        }
        // Nobody comes again to a connection that was just told to close.
        again || self.end.is_some() || matches!(self.state, State::Flushing(_))
    }

    /// Takes out of `input` what is whole.
    fn decode(&mut self, scratch: &mut Scratch) {
        while matches!(self.state, State::Shaking | State::Open) && self.end.is_none() {
            let before = self.input.len();
            let next = self.wire.next(&mut self.input, self.receive_hwm, self.taken);
            self.open += (before - self.input.len()) as u64;
            match next {
                Ok(Next::Event(event)) => {
                    self.open = 0;
                    self.take(event, scratch);
                }
                Ok(Next::NeedsMore) => {
                    self.blocked = false;
                    break;
                }
                Ok(Next::Blocked) => {
                    self.blocked = true;
                    break;
                }
                Err(error) => self.end = Some(End::Fault(error)),
            }
        }
        if self.input.is_empty() {
            // An empty buffer would keep the memory of the last one.
            self.input = BytesMut::new();
        }
        while let Some(bytes) = self.wire.output() {
            self.writer().push_bytes(bytes);
        }
    }

    /// Counts what is held of a record that is not whole. Records that were `given` to the socket are
    /// counted there.
    fn hold(&mut self, given: bool) {
        self.reader.holds(self.open + self.input.len() as u64);
        if given {
            self.reader.finished();
        }
    }

    fn take(&mut self, event: Event, scratch: &mut Scratch) {
        match event {
            Event::Hello { kind, .. } => self.say(ConnectionWord::Hello(kind)),
            Event::Established { kind, routing_id, max_message_size, lane } => {
                self.incomplete = self.own.lanes_with(kind) > 1;
                self.state = State::Attaching(Box::new(Attaching {
                    connection: self.id,
                    peer: kind,
                    routing_id,
                    peer_max_message_size: max_message_size,
                    lane,
                    origin: self.origin.clone(),
                    local: Arc::clone(&self.local),
                    remote: Arc::clone(&self.remote),
                }));
            }
            Event::Inbound(inbound) => {
                if let Inbound::Record(_, record) = &inbound {
                    self.given += record.charge();
                }
                scratch.handled += 1;
                scratch.turn.received.push(inbound);
            }
            Event::Error { code, reason } => {
                let reason = reason.escape_ascii();
                tracing::debug!(connection = self.id.0, remote = %self.remote, code, %reason,
                    "the peer ends the connection");
                self.end = Some(End::Accused);
            }
        }
    }

    /// Joins the socket, once the own READY is written (1.5).
    fn attach(&mut self) -> bool {
        if self.has_output() || self.deaf || self.end.is_some() {
            return false;
        }
        match mem::replace(&mut self.state, State::Open) {
            State::Attaching(attaching) => {
                let now = Instant::now().into_std();
                match self.shared.with(|core| core.attach(now, *attaching)) {
                    Ok(()) => {
                        if !self.incomplete {
                            self.times.handshake = None;
                        }
                        self.attached = true;
                        self.more = true;
                        self.say(ConnectionWord::Ready);
                    }
                    Err(rejection) => {
                        self.over(Disconnected::Handshake, None, Some(rejection));
                        self.begin_parting();
                    }
                }
                true
            }
            state => {
                self.state = state;
                false
            }
        }
    }

    /// One step of the socket: it gets what was received and written, and gives what is to be
    /// written.
    fn exchange(&mut self, cx: &TaskContext<'_>, scratch: &mut Scratch) -> bool {
        let room = self.room();
        let turn = &mut scratch.turn;
        turn.written = mem::take(&mut self.written);
        turn.blocked = self.blocked;
        turn.room = room;
        turn.taken = self.taken;
        turn.receive_hwm = self.receive_hwm;
        (turn.more, turn.ready, turn.close) = (false, false, None);
        let now = Instant::now().into_std();
        let result = self.shared.turn(now, self.id, turn, cx.waker());
        turn.received.clear();
        let unblocked = self.blocked && turn.taken > self.taken;
        self.taken = turn.taken;
        self.receive_hwm = turn.receive_hwm;
        self.more = turn.more;
        if turn.ready && mem::take(&mut self.incomplete) {
            self.times.handshake = None;
        }
        let close = turn.close.take();
        if self.deaf {
            turn.outgoing.clear();
        } else if !turn.outgoing.is_empty() {
            let writer = self.writer.get_or_insert_default();
            turn.outgoing.drain(..).for_each(|outgoing| writer.push(outgoing));
        }
        if let Err(error) = result {
            self.end.get_or_insert(End::Fault(error));
        } else if let (State::Open, Some(closing)) = (&self.state, close) {
            self.close(closing);
        }
        unblocked
    }

    /// How many bytes more may be written: while a batch is on its way, none.
    fn room(&self) -> usize {
        if self.has_output() || self.deaf { 0 } else { BATCH }
    }

    fn say(&self, says: ConnectionWord) {
        self.says.do_send(ConnectionSays { connection: self.id, says });
    }

    fn has_output(&self) -> bool {
        self.writer.as_ref().is_some_and(|writer| !writer.is_empty())
    }

    fn writer(&mut self) -> &mut Writer {
        self.writer.get_or_insert_default()
    }
}

impl Actor for PeerConnection {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.spawn(Pump);
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        // Dropped before its end: its actor panicked, or its runtime ends.
        self.over(Disconnected::Unknown, None, None);
    }
}

/// Moves bytes and records whenever the actor is woken: by its stream, its socket or the clock.
struct Pump;

impl ActorFuture<PeerConnection> for Pump {
    type Output = ();

    fn poll(
        self: Pin<&mut Self>,
        actor: &mut PeerConnection,
        ctx: &mut Context<PeerConnection>,
        cx: &mut TaskContext<'_>,
    ) -> Poll<()> {
        ready!(Scratch::with(|scratch| actor.turn(cx, scratch)));
        ctx.stop();
        Poll::Ready(())
    }
}

// The pump is polled behind every message.

impl Handler<Disconnect> for PeerConnection {
    type Result = ();

    fn handle(&mut self, disconnect: Disconnect, _: &mut Self::Context) {
        self.over(disconnect.why, None, None);
        self.state = State::Over;
    }
}

#[cfg(test)]
pub(super) mod tests;
