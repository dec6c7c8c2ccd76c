//! Connections as everybody reaches them: by number or by address, from any worker. The connection
//! itself lives on one worker, whose actor writes what others queue in its [`Link`].

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dashmap::{DashMap, Entry};
use lineway_wire::sip::own::{ConnectionId, SocketId};
use tokio::sync::Notify;

use crate::listener::{LineCount, LineLimit};
use crate::metrics::SipConnectionEnd;
use crate::sip::back::SendError;
use crate::worker::timers;

/// What waits to be written to one connection, in bytes. One message alone may have more.
const MOST: usize = 512 << 10;

/// For so long at most nobody is dialled again who refused: a peer that sends much, ends its connection
/// and listens nowhere would have one dial for each reply.
pub(super) const REFUSED: Duration = Duration::from_millis(200);

/// Addresses that are kept as refusing.
const MOST_REFUSED: usize = 16 << 10;

/// The answer to a keepalive (R141, RFC 5626 4.4.1).
const PONG: Bytes = Bytes::from_static(b"\r\n");

/// The own socket and the address of the other side.
type Key = (SocketId, SocketAddr);

/// The TCP connections of one node on all workers.
#[derive(Debug)]
pub struct Connections {
    most: u32,
    count: LineLimit,
    next: AtomicU32,
    by_id: DashMap<ConnectionId, Arc<Link>>,
    /// Those that a request may be sent by.
    by_remote: DashMap<Key, Arc<Link>>,
    refused: Mutex<Refused>,
}

/// Who refused a connect since `since`; all are forgotten together.
#[derive(Debug, Default)]
struct Refused {
    since: Option<Instant>,
    keys: HashSet<Key>,
}

impl Refused {
    /// Forgets what is too old.
    fn age(&mut self, now: Instant) {
        if self.since.is_some_and(|since| now.saturating_duration_since(since) >= REFUSED) {
            *self = Self::default();
        }
    }
}

/// What there is for a message to an address.
pub(super) enum Joined {
    /// A connection, which may be being dialled.
    Old(Arc<Link>),
    /// None was there: it is to be dialled.
    New(Arc<Link>, LineCount),
}

impl Connections {
    /// At most so many connections, in both directions (`max-connections`). Their numbers begin
    /// with `first`, which is random so that a restart does not find another's connection by an old
    /// `;i=`.
    pub fn new(most: u32, first: u32) -> Self {
        Self {
            most,
            count: LineLimit::default(),
            next: AtomicU32::new(first),
            by_id: DashMap::new(),
            by_remote: DashMap::new(),
            refused: Mutex::default(),
        }
    }

    /// How many there are, those that are being dialled included.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// A place for one more.
    pub(super) fn place(&self) -> Option<LineCount> {
        self.count.take(Some(self.most.into()))
    }

    /// The connection of this number.
    pub(super) fn get(&self, id: ConnectionId) -> Option<Arc<Link>> {
        self.by_id.get(&id).map(|link| Arc::clone(&link))
    }

    /// Enters a connection that was accepted.
    pub(super) fn enter(&self, worker: u16, socket: SocketId, remote: SocketAddr) -> Arc<Link> {
        let link = self.link(worker, (socket, remote), Phase::Open);
        self.by_remote.insert(link.key, Arc::clone(&link));
        link
    }

    /// The connection to this address; where there is none, one that is to be dialled. All that
    /// want to go there meanwhile wait for that one.
    pub(super) fn join(
        &self,
        worker: u16,
        socket: SocketId,
        remote: SocketAddr,
        may_dial: bool,
    ) -> Result<Joined, SendError> {
        let key = (socket, remote);
        if let Some(link) = self.by_remote.get(&key)
            && link.is_usable()
        {
            return Ok(Joined::Old(Arc::clone(&link)));
        }
        if !may_dial {
            return Err(SendError::NoConnection);
        }
        if self.has_refused(&key) {
            return Err(SendError::Refused);
        }
        let entry = self.by_remote.entry(key);
        if let Entry::Occupied(entry) = &entry
            && entry.get().is_usable()
        {
            return Ok(Joined::Old(Arc::clone(entry.get())));
        }
        let count = self.place().ok_or(SendError::Full)?;
        let link = self.link(worker, key, Phase::Dialling);
        entry.insert(Arc::clone(&link));
        Ok(Joined::New(link, count))
    }

    /// The other side of this link refused the connect.
    pub(super) fn refused(&self, link: &Link) {
        let now = timers::now();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.age(now);
        if refused.keys.len() < MOST_REFUSED {
            refused.since.get_or_insert(now);
            refused.keys.insert(link.key);
        }
    }

    fn has_refused(&self, key: &Key) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.since.is_some() && {
            refused.age(timers::now());
            refused.keys.contains(key)
        }
    }

    fn link(&self, worker: u16, key: Key, phase: Phase) -> Arc<Link> {
        loop {
            let id = ConnectionId(self.next.fetch_add(1, Relaxed));
            if let Entry::Vacant(entry) = self.by_id.entry(id) {
                let state = State { phase, ..State::default() };
                let (state, up) = (Mutex::new(state), Notify::new());
                let link = Arc::new(Link { id, worker, key, state, up });
                entry.insert(Arc::clone(&link));
                return link;
            }
        }
    }

    /// No further request is sent by it; replies find it by its number.
    pub(super) fn retire(&self, link: &Link) {
        self.by_remote.remove_if(&link.key, |_, other| other.id == link.id);
    }

    /// It is over.
    pub(super) fn leave(&self, link: &Link) {
        self.by_id.remove(&link.id);
        self.retire(link);
    }

    /// Ends the connections of a worker once what waits in them is written.
    pub(super) fn stop(&self, worker: u16) {
        for link in self.by_id.iter().filter(|link| link.worker == worker) {
            link.finish(SipConnectionEnd::Drain);
        }
    }
}

/// One connection, as others reach it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) id: ConnectionId,
    worker: u16,
    key: Key,
    state: Mutex<State>,
    /// It is up, or it failed.
    up: Notify,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    queue: VecDeque<Piece>,
    /// Of what waits and of what is being written.
    bytes: usize,
    /// Final replies that were sent by it.
    answered: u64,
    /// Nothing more is taken; it ends for this reason once all is written.
    last: Option<SipConnectionEnd>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Dialling,
    Open,
    /// It is over; why, if it never was up.
    Gone(Option<SendError>),
}

/// Bytes that are to be written.
#[derive(Debug)]
pub(super) struct Piece {
    /// What is left of them.
    pub(super) bytes: Bytes,
    /// It is a message, not the answer to a keepalive.
    pub(super) is_message: bool,
}

/// What became of a message for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It waits to be written.
    Queued,
    /// It waits for the connection to be up.
    Waits,
    /// Too much waits already.
    Full,
    /// The connection takes nothing any more.
    Gone,
}

/// How a connection stands with what is to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// There is room for answers to what would be read.
    pub(super) room: bool,
    /// Final replies that were sent by it.
    pub(super) answered: u64,
    /// Nothing comes any more: it ends for this reason.
    pub(super) last: Option<SipConnectionEnd>,
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two halves of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of the other side.
    pub(super) const fn remote(&self) -> SocketAddr {
        self.key.1
    }

    /// The own socket.
    pub(super) const fn socket(&self) -> SocketId {
        self.key.0
    }

    fn is_usable(&self) -> bool {
        let state = self.lock();
        state.last.is_none() && !matches!(state.phase, Phase::Gone(_))
    }

    /// Has a message written, and the connection closed behind it where that is said.
    pub(super) fn push(&self, bytes: Bytes, close_after: bool) -> Pushed {
        let mut state = self.lock();
        let pushed = match state.phase {
            Phase::Gone(_) => return Pushed::Gone,
            _ if state.last.is_some() => return Pushed::Gone,
            _ if state.bytes > 0 && state.bytes + bytes.len() > MOST => return Pushed::Full,
            Phase::Dialling => Pushed::Waits,
            Phase::Open => Pushed::Queued,
        };
        state.answered += u64::from(is_final(&bytes));
        if close_after {
            state.last = Some(SipConnectionEnd::Script);
        }
        state.queue(bytes, true);
        wake(state);
        pushed
    }

    /// Answers a keepalive.
    pub(super) fn pong(&self) {
        self.lock().queue(PONG, false);
    }

    /// Has these last words written, and ends.
    pub(super) fn finish_with(&self, words: Option<Bytes>, why: SipConnectionEnd) {
        let mut state = self.lock();
        if let Some(words) = words {
            state.queue(words, true);
        }
        state.last.get_or_insert(why);
        wake(state);
    }

    /// Ends once all is written.
    pub(super) fn finish(&self, why: SipConnectionEnd) {
        self.finish_with(None, why);
    }

    /// For the actor: `written` bytes have left, and up to `most` pieces come to be written next.
    pub(super) fn take(
        &self,
        written: usize,
        into: &mut VecDeque<Piece>,
        most: usize,
        cx: &Context<'_>,
    ) -> Standing {
        let mut state = self.lock();
        state.bytes -= written.min(state.bytes);
        let count = most.saturating_sub(into.len()).min(state.queue.len());
        into.extend(state.queue.drain(..count));
        if state.queue.is_empty() {
            // An idle connection keeps no memory of a rush.
            state.queue = VecDeque::new();
        }
        state.writer.get_or_insert_with(|| cx.waker().clone());
        Standing { room: state.bytes <= MOST / 2, answered: state.answered, last: state.last }
    }

    /// It is up.
    pub(super) fn is_up(&self) {
        self.lock().phase = Phase::Open;
        self.up.notify_waiters();
    }

    /// It is over, and why, if it never was up. Gives how many messages are lost.
    pub(super) fn is_gone(&self, failed: Option<SendError>) -> usize {
        let mut state = self.lock();
        if matches!(state.phase, Phase::Gone(_)) {
            return 0;
        }
        state.phase = Phase::Gone(failed);
        state.bytes = 0;
        let lost = std::mem::take(&mut state.queue);
        let writer = state.writer.take();
        drop((state, writer));
        self.up.notify_waiters();
        lost.len()
    }

    /// Waits until it is known whether the connection is up.
    pub(super) async fn dialled(self: Arc<Self>) -> Result<(), SendError> {
        loop {
            let changed = self.up.notified();
            match self.lock().phase {
                Phase::Dialling => {}
                Phase::Open | Phase::Gone(None) => return Ok(()),
                Phase::Gone(Some(error)) => return Err(error),
            }
            changed.await;
        }
    }
}

impl State {
    fn queue(&mut self, bytes: Bytes, is_message: bool) {
        self.bytes += bytes.len();
        self.queue.push_back(Piece { bytes, is_message });
    }
}

/// Whether a message is a reply that ends its request.
fn is_final(message: &[u8]) -> bool {
    let status = message.strip_prefix(b"SIP/2.0 ").and_then(<[u8]>::first);
    status.is_some_and(|digit| *digit != b'1')
}

/// Wakes the actor, which takes what is there; once until it did.
fn wake(mut state: MutexGuard<'_, State>) {
    let writer = state.writer.take();
    drop(state);
    if let Some(writer) = writer {
        writer.wake();
    }
}
