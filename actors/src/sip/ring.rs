//! What transports hand to the worker that owns a call: batches, bounded in bytes and number.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use lineway_wire::sip::own::Received;
use smallvec::SmallVec;

/// Those that wait for room and are woken by one step of the owner.
const WOKEN: usize = 64;

/// One whole message as it came in.
#[derive(Debug)]
pub struct Arrival {
    /// Its bytes.
    pub bytes: Bytes,
    /// Where it came from.
    pub received: Received,
    /// When.
    pub at: Instant,
}

/// What a [`Ring`] holds at most: messages that wait, and those that were taken and are not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingLimits {
    /// Bytes of all messages. One message alone may have more.
    pub bytes: usize,
    /// Messages.
    pub count: usize,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self { bytes: 4 << 20, count: 8192 }
    }
}

/// The inbox of one worker for one node. Any thread pushes, the owner takes. A clone is the same
/// ring.
#[derive(Clone, Debug)]
pub struct Ring {
    limits: RingLimits,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Arrival>,
    /// Of what waits and of what was taken.
    bytes: usize,
    count: usize,
    owner: Option<Waker>,
    /// Those that wait for room, the first of them with ticket `woken`.
    waiting: VecDeque<Waker>,
    woken: u64,
}

/// The place of one source among those that wait for room in a [`Ring`].
#[derive(Debug, Default)]
pub struct RoomWait {
    ticket: Option<u64>,
}

impl Ring {
    /// An empty ring.
    pub fn new(limits: RingLimits) -> Self {
        Self { limits, state: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two halves of a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over a batch in its order and wakes the owner once. Takes what there is room for out
    /// of the front of `batch`; what is left did not fit: the connection that it came by keeps it,
    /// stops reading and waits for [room](Self::poll_room).
    pub fn push(&self, batch: &mut Vec<Arrival>) {
        Self::put(self.lock(), self.limits, batch);
    }

    /// As [`push`](Self::push) for datagrams, where what is left is to be dropped and counted. While
    /// connections wait for room, datagrams get half of it: they would take all that becomes free.
    pub fn push_datagrams(&self, batch: &mut Vec<Arrival>) {
        let state = self.lock();
        let RingLimits { bytes, count } = self.limits;
        let limits = if state.waiting.is_empty() {
            self.limits
        } else {
            RingLimits { bytes: bytes / 2, count: count / 2 }
        };
        Self::put(state, limits, batch);
    }

    fn put(mut state: MutexGuard<'_, State>, limits: RingLimits, batch: &mut Vec<Arrival>) {
        let mut fit = 0;
        for arrival in &*batch {
            let bytes = state.bytes + arrival.bytes.len();
            if state.count > 0 && (state.count >= limits.count || bytes > limits.bytes) {
                break;
            }
            state.bytes = bytes;
            state.count += 1;
            fit += 1;
        }
        if fit == 0 {
            return;
        }
        state.queue.extend(batch.drain(..fit));
        let owner = state.owner.take();
        drop(state);
        if let Some(owner) = owner {
            owner.wake();
        }
    }

    /// Ready when half of the room is free: for a source of which something was left by a push, and
    /// that is polled by one task. Those that wait are woken in their order, some at a time.
    pub fn poll_room(&self, wait: &mut RoomWait, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.has_room(self.limits) {
            wait.ticket = None;
            return Poll::Ready(());
        }
        if wait.ticket.is_none_or(|ticket| ticket < state.woken) {
            wait.ticket = Some(state.woken + state.waiting.len() as u64);
            state.waiting.push_back(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Takes up to `most` messages into `into`; pending, with the waker kept, when there is none.
    /// Their room is given back when the owner has [handled](Self::handled) them.
    pub fn poll_take(
        &self,
        into: &mut Vec<Arrival>,
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut state = self.lock();
        if state.queue.is_empty() {
            match &state.owner {
                Some(owner) if owner.will_wake(cx.waker()) => {}
                _ => state.owner = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        let count = most.min(state.queue.len());
        into.extend(state.queue.drain(..count));
        if state.queue.is_empty() && state.queue.capacity() > self.limits.count / 4 {
            // The memory of a rush is not kept.
            state.queue = VecDeque::new();
        }
        Poll::Ready(())
    }

    /// Gives back the room of what was taken: the sum of its bytes, and how many there were.
    pub fn handled(&self, bytes: usize, count: usize) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        state.count = state.count.saturating_sub(count);
        if state.waiting.is_empty() || !state.has_room(self.limits) {
            return;
        }
        // Whoever is woken may be gone by now. Each step of the owner wakes some, and its last one
        // all, so that none is forgotten.
        let woken = if state.count == 0 { state.waiting.len() } else { WOKEN };
        let woken = woken.min(state.waiting.len());
        state.woken += woken as u64;
        let wakers: SmallVec<[Waker; WOKEN]> = state.waiting.drain(..woken).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How many messages wait or are being handled, and their bytes.
    pub fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.count, state.bytes)
    }

    /// Drops what waits and gives all room back: the owner is gone, or begins again after a panic.
    pub fn clear(&self) {
        let mut state = self.lock();
        let dropped = mem::take(&mut state.queue);
        (state.bytes, state.count) = (0, 0);
        state.woken += state.waiting.len() as u64;
        let wakers = mem::take(&mut state.waiting);
        drop(state);
        drop(dropped);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    const fn has_room(&self, limits: RingLimits) -> bool {
        self.count <= limits.count / 2 && self.bytes <= limits.bytes / 2
    }
}

/// The rings of all workers for one node, and which of them a call belongs to.
#[derive(Debug)]
pub struct Rings {
    rings: Box<[Ring]>,
    seed: u64,
}

impl Rings {
    /// One ring for each worker, at least one. The seed keeps others from choosing Call-IDs that
    /// all belong to one worker.
    pub fn new(workers: u16, limits: RingLimits, seed: u64) -> Self {
        Self { rings: (0..workers.max(1)).map(|_| Ring::new(limits)).collect(), seed }
    }

    /// The owner of a call: hash(Call-ID) mod workers (contract 2.16).
    pub fn owner(&self, call_id: &[u8]) -> u16 {
        if let [_] = *self.rings {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write(call_id);
        (hasher.finish() % self.rings.len() as u64) as u16
    }

    /// The ring of this worker.
    ///
    /// # Panics
    /// There is no such worker.
    pub fn of(&self, worker: u16) -> &Ring {
        &self.rings[usize::from(worker)]
    }

    /// How many workers there are.
    pub fn workers(&self) -> u16 {
        self.rings.len() as u16
    }
}

#[cfg(test)]
mod tests;
