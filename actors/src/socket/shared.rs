//! One socket behind one lock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use lineway_wire::zmp::Charge;
use lineway_wire::zmp::core::{ConnectionId, Core, Turn, Wake};
use lineway_wire::zmp::frame::ProtocolError;

use crate::metrics::HandshakeFailure;

use super::wait::{On, WaitKey, Waits, Wakers};
use super::{SocketOptions, Timing, Total};

/// The socket that handles and actors share: every step takes its lock once, does no I/O under it,
/// and wakes whoever is to be told when it has let go.
#[derive(Debug)]
pub struct Shared {
    state: Mutex<State>,
    total: Arc<Total>,
}

/// What is behind the lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) core: Core,
    pub(super) waits: Waits,
    pub(super) timing: Timing,
    /// The socket takes nothing more.
    pub(super) closed: bool,
    /// Its actor has ended: nothing happens to it any more.
    pub(super) over: bool,
    /// Somebody watches its events.
    pub(super) monitored: bool,
    /// Somebody watches completions (D-P5).
    pub(super) completions_watched: bool,
    /// The real endpoint of the last bind or connect.
    pub(super) last_endpoint: Option<Arc<str>>,
    connections: HashMap<ConnectionId, Waker>,
    /// Connections whose handshake failed, by why.
    handshakes_failed: [u64; HandshakeFailure::ALL.len()],
    timer: Option<Waker>,
    /// What [`Total`] knows of this socket.
    queued: Charge,
    /// Kept for its memory.
    wakes: Vec<Wake>,
    /// Who is woken when the lock is let go.
    pub(super) woken: Wakers,
}

impl Shared {
    /// A socket without connections.
    pub fn new(options: &SocketOptions, total: Arc<Total>) -> Self {
        let state = State {
            core: Core::new(options.core.clone()),
            waits: Waits::default(),
            timing: options.timing(),
            closed: false,
            over: false,
            monitored: false,
            completions_watched: false,
            last_endpoint: None,
            connections: HashMap::new(),
            handshakes_failed: Default::default(),
            timer: None,
            queued: 0,
            wakes: Vec::new(),
            woken: Wakers::new(),
        };
        Self { state: Mutex::new(state), total }
    }

    /// One step of the socket. Whoever is to be told of it is woken before this returns.
    pub fn with<R>(&self, step: impl FnOnce(&mut Core) -> R) -> R {
        self.step(|state| step(&mut state.core))
    }

    /// One exchange of a connection with its socket; `waker` is woken when there is more.
    ///
    /// # Errors
    /// As [`Core::turn`].
    pub fn turn(
        &self,
        now: Instant,
        connection: ConnectionId,
        turn: &mut Turn,
        waker: &Waker,
    ) -> Result<(), ProtocolError> {
        self.step(|state| {
            match state.connections.get_mut(&connection) {
                Some(known) if known.will_wake(waker) => {}
                Some(known) => known.clone_from(waker),
                None => {
                    state.connections.insert(connection, waker.clone());
                }
            }
            state.core.turn(now, connection, turn)
        })
    }

    /// Counts a connection whose handshake failed.
    pub(super) fn handshake_failed(&self, why: HandshakeFailure) {
        self.lock().handshakes_failed[why as usize] += 1;
    }

    /// Connections whose handshake failed, in the order of [`HandshakeFailure::ALL`].
    pub fn handshakes_failed(&self) -> [u64; HandshakeFailure::ALL.len()] {
        self.look(|state| state.handshakes_failed)
    }

    /// A connection of this number will not come again.
    pub fn forget(&self, connection: ConnectionId) {
        self.lock().connections.remove(&connection);
    }

    /// Where what is queued is counted for the whole process.
    pub(super) const fn total(&self) -> &Arc<Total> {
        &self.total
    }

    /// One step on everything that is behind the lock.
    pub(super) fn step<R>(&self, step: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = step(&mut state);
        let moved = state.settle();
        let woken = std::mem::take(&mut state.woken);
        drop(state);
        if moved != 0 {
            self.total.moved(moved);
        }
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// A look that changes nothing.
    pub(super) fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.lock())
    }

    /// Ends what is over at this time, and tells when the next thing is; `waker` is woken when that
    /// comes nearer.
    pub(super) fn tick(&self, now: Instant, waker: &Waker) -> Option<Instant> {
        self.step(|state| {
            if state.core.next_deadline().is_some_and(|at| at <= now) {
                state.core.expire(now);
            }
            state.waits.expire(now, &mut state.woken);
            state.timer = Some(waker.clone());
            state.next_time()
        })
    }

    /// The socket takes nothing more; what waits learns it. What is queued is still written.
    pub(crate) fn close(&self, now: Instant) {
        self.step(|state| {
            if !std::mem::replace(&mut state.closed, true) {
                state.core.close(now);
                state.waits.take_all(&mut state.woken);
            }
        });
    }

    /// Nothing will happen to the socket any more.
    pub(super) fn end(&self, now: Instant) {
        self.close(now);
        self.step(|state| {
            state.over = true;
            state.waits.take_all(&mut state.woken);
        });
    }

    /// A panic under the lock is a fault of the step that had it; the others go on.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Begins to wait, until `limit` at most.
    pub(super) fn wait(&mut self, on: On, waker: &Waker, limit: Option<Instant>) -> WaitKey {
        if limit.is_some_and(|limit| self.next_time().is_none_or(|next| limit < next)) {
            self.woken.extend(self.timer.clone());
        }
        self.waits.add(on, waker, limit)
    }

    /// Lets a wait go on, until another limit.
    pub(super) fn wait_on(&mut self, key: WaitKey, limit: Instant) {
        if self.next_time().is_none_or(|next| limit < next) {
            self.woken.extend(self.timer.clone());
        }
        self.waits.extend(key, limit);
    }

    fn next_time(&self) -> Option<Instant> {
        let next = [self.core.next_deadline(), self.waits.next_limit()];
        next.into_iter().flatten().min()
    }

    /// Finds out whom a step concerns; tells by how much it changed what is queued.
    fn settle(&mut self) -> i64 {
        let mut wakes = std::mem::take(&mut self.wakes);
        self.core.take_wakes(&mut wakes);
        for wake in wakes.drain(..) {
            match On::try_from(wake) {
                Ok(on) => self.waits.take(on, &mut self.woken),
                Err(Wake::Connection(id)) => self.woken.extend(self.connections.get(&id).cloned()),
                Err(_) => self.woken.extend(self.timer.clone()),
            }
        }
        self.wakes = wakes;
        if self.waits.has_levels() {
            self.waits.take_levels(self.core.readiness(), &mut self.woken);
        }
        let queued = self.core.queued();
        queued.cast_signed() - std::mem::replace(&mut self.queued, queued).cast_signed()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.total.moved(-state.queued.cast_signed());
    }
}
