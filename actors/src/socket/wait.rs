//! Who waits for what: the wakers of one socket, and their limits of time.

use std::collections::{BTreeSet, HashMap};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lineway_wire::zmp::core::{CompletionId, Readiness, WaiterId, Wake};
use slab::Slab;
use smallvec::SmallVec;

use super::shared::State;
use super::{Shared, Timing};

/// Who is woken after a step; few in all but rare cases.
pub(super) type Wakers = SmallVec<[Waker; 4]>;

/// What somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum On {
    /// A record to take.
    Readable,
    /// A completion of the queue.
    Completions,
    /// This completion, which goes to nobody else.
    Completion(CompletionId),
    /// The admission of a record.
    Waiter(WaiterId),
    /// An event of the monitor.
    Monitor,
    /// Everything queued is written.
    Drained,
    /// One of these levels (2.8).
    Levels { input: bool, output: bool, completion: bool },
}

impl On {
    /// Waits for one of these levels.
    pub(super) const fn levels(wanted: Readiness) -> Self {
        let Readiness { input, output, completion } = wanted;
        Self::Levels { input, output, completion }
    }
}

#[derive(Debug)]
struct Wait {
    on: On,
    /// `None` once it was woken, until it waits again.
    waker: Option<Waker>,
    limit: Option<Instant>,
    over: bool,
}

/// The number of a wait; used again when the wait is over.
pub(super) type WaitKey = usize;

/// The waits of one socket. Every wait is woken once for each of its edges, and ends only when it
/// is removed: one that was woken and does not look takes nothing from another.
#[derive(Debug, Default)]
pub(super) struct Waits {
    entries: Slab<Wait>,
    by_cause: HashMap<On, SmallVec<[WaitKey; 1]>>,
    limits: BTreeSet<(Instant, WaitKey)>,
    levels: usize,
}

impl Waits {
    /// Begins to wait, until `limit` at most.
    pub(super) fn add(&mut self, on: On, waker: &Waker, limit: Option<Instant>) -> WaitKey {
        let key = self.entries.insert(Wait { on, waker: Some(waker.clone()), limit, over: false });
        self.by_cause.entry(on).or_default().push(key);
        if let Some(limit) = limit {
            self.limits.insert((limit, key));
        }
        self.levels += usize::from(matches!(on, On::Levels { .. }));
        key
    }

    /// Waits on, with this waker.
    pub(super) fn again(&mut self, key: WaitKey, waker: &Waker) {
        if let Some(wait) = self.entries.get_mut(key) {
            match &wait.waker {
                Some(known) if known.will_wake(waker) => {}
                _ => wait.waker = Some(waker.clone()),
            }
        }
    }

    /// Waits on, until another limit.
    pub(super) fn extend(&mut self, key: WaitKey, limit: Instant) {
        if let Some(wait) = self.entries.get_mut(key) {
            if let Some(old) = wait.limit.replace(limit) {
                self.limits.remove(&(old, key));
            }
            wait.over = false;
            self.limits.insert((limit, key));
        }
    }

    /// True when its time is over.
    pub(super) fn is_over(&self, key: WaitKey, now: Instant) -> bool {
        let over = |wait: &Wait| wait.over || wait.limit.is_some_and(|limit| limit <= now);
        self.entries.get(key).is_some_and(over)
    }

    /// Nobody waits any more.
    pub(super) fn remove(&mut self, key: WaitKey) {
        let Some(wait) = self.entries.try_remove(key) else {
            return;
        };
        if let Some(keys) = self.by_cause.get_mut(&wait.on) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.by_cause.remove(&wait.on);
            }
        }
        if let Some(limit) = wait.limit {
            self.limits.remove(&(limit, key));
        }
        self.levels -= usize::from(matches!(wait.on, On::Levels { .. }));
    }

    /// Takes the wakers of those that wait for this.
    pub(super) fn take(&mut self, on: On, wakers: &mut Wakers) {
        for key in self.by_cause.get(&on).into_iter().flatten() {
            wakers.extend(self.entries.get_mut(*key).and_then(|wait| wait.waker.take()));
        }
    }

    /// True when somebody waits for levels.
    pub(super) const fn has_levels(&self) -> bool {
        self.levels > 0
    }

    /// Takes the wakers of those that wait for one of the levels that are there (D-P4).
    pub(super) fn take_levels(&mut self, now: Readiness, wakers: &mut Wakers) {
        // Every set of levels that somebody can wait for, in a fixed order.
        for set in 1..8_u8 {
            let wanted = |level: u8| set & level != 0;
            let [input, output, completion] = [1, 2, 4].map(wanted);
            if input && now.input || output && now.output || completion && now.completion {
                self.take(On::Levels { input, output, completion }, wakers);
            }
        }
    }

    /// Takes the wakers of those whose time is over.
    pub(super) fn expire(&mut self, now: Instant, wakers: &mut Wakers) {
        while let Some((limit, key)) = self.limits.first().copied()
            && limit <= now
        {
            self.limits.remove(&(limit, key));
            if let Some(wait) = self.entries.get_mut(key) {
                wait.over = true;
                wait.limit = None;
                wakers.extend(wait.waker.take());
            }
        }
    }

    /// When the next wait is over.
    pub(super) fn next_limit(&self) -> Option<Instant> {
        self.limits.first().map(|(limit, _)| *limit)
    }

    /// Takes every waker: the socket has ended.
    pub(super) fn take_all(&mut self, wakers: &mut Wakers) {
        wakers.extend(self.entries.iter_mut().filter_map(|(_, wait)| wait.waker.take()));
    }
}

impl TryFrom<Wake> for On {
    type Error = Wake;

    /// What a wake of the core means for waits; those of connections and of the timer are none.
    fn try_from(wake: Wake) -> Result<Self, Wake> {
        match wake {
            Wake::Readable => Ok(Self::Readable),
            Wake::Completions => Ok(Self::Completions),
            Wake::Completion(id) => Ok(Self::Completion(id)),
            Wake::Waiter(id) => Ok(Self::Waiter(id)),
            Wake::Monitor => Ok(Self::Monitor),
            Wake::Drained => Ok(Self::Drained),
            Wake::Connection(_) | Wake::Timer => Err(wake),
        }
    }
}

/// Why a wait ended without what it was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Its time is over.
    Over,
    /// The socket is closed.
    Closed,
}

/// One call that waits to take something. Dropped, it has taken nothing.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    shared: &'a Shared,
    on: On,
    timeout: fn(&Timing) -> Option<Duration>,
    key: Option<WaitKey>,
}

impl<'a> Waiting<'a> {
    /// `timeout` is looked up when the wait begins; `None` = for ever.
    pub(super) const fn new(
        shared: &'a Shared,
        on: On,
        timeout: fn(&Timing) -> Option<Duration>,
    ) -> Self {
        Self { shared, on, timeout, key: None }
    }

    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut State) -> Option<T>,
    ) -> Poll<Result<T, Ended>> {
        let Self { shared, on, timeout, key } = self;
        shared.step(|state| {
            let result = if let Some(taken) = take(state) {
                Ok(taken)
            } else if state.closed {
                Err(Ended::Closed)
            } else {
                let now = now();
                let key = *key.get_or_insert_with(|| {
                    let limit = timeout(&state.timing).and_then(|time| now.checked_add(time));
                    state.wait(*on, cx.waker(), limit)
                });
                state.waits.again(key, cx.waker());
                if !state.waits.is_over(key, now) {
                    return Poll::Pending;
                }
                Err(Ended::Over)
            };
            if let Some(key) = key.take() {
                state.waits.remove(key);
            }
            Poll::Ready(result)
        })
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.step(|state| state.waits.remove(key));
        }
    }
}

/// The time, which a test may have stopped.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Has the task polled again, but not before the runtime has looked at its sockets and timers: it
/// runs up to 61 tasks between two looks, which would be as many turns of whoever is always busy.
pub(crate) fn come_again(cx: &mut Context<'_>) {
    let again = std::pin::pin!(tokio::task::yield_now());
    let pending = again.poll(cx);
    debug_assert!(pending.is_pending(), "it yields once");
}
