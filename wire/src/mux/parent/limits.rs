//! What a parent may hold, and what happens to children that do not drain (M21 to M25, M31, M32).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{Event, Parent};
use crate::mux::child::{ChildKey, Inward, Outward, Owed, Owner};
use crate::mux::reason::{ChildEnd, ParentPause};
use crate::queue::Buffers;

/// A limit that is looked at again and again is not looked at more often than this.
const LEAST_WAIT: Duration = Duration::from_millis(1);

/// Children that keep others waiting, or that are waited for.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// Children at their limit, each with its episode (M24).
    full: Vec<Episode>,
    /// Since when all queues together stand at their limit and none drained a byte (M25).
    parent: Option<Instant>,
    /// Children that stand for the reply alone (M31), and children that are done with and have
    /// something left to send (T05); each with a time before which nothing is due.
    timed: BTreeSet<(Instant, ChildKey)>,
    /// Children of which something happened that a limit counts from, at a time that the next call
    /// with a time tells.
    untimed: Vec<ChildKey>,
}

/// A time in which one child at its limit keeps its parent from being read (M24).
#[derive(Clone, Copy, Debug)]
struct Episode {
    key: ChildKey,
    started: Instant,
    drained: Instant,
}

impl Stalls {
    /// Something happened that a limit of this child counts from.
    pub(super) fn happened(&mut self, key: ChildKey) {
        self.untimed.push(key);
    }

    /// Who stands at its limit.
    pub(super) fn full_keys(&self) -> impl Iterator<Item = ChildKey> {
        self.full.iter().map(|episode| episode.key)
    }

    /// Who stands under a limit of time.
    pub(super) fn timed_keys(&self) -> impl Iterator<Item = (Instant, ChildKey)> {
        self.timed.iter().copied()
    }

    /// True when a limit of this child is about to get its time.
    pub(super) fn is_untimed(&self, key: ChildKey) -> bool {
        self.untimed.contains(&key)
    }

    /// Nobody is kept waiting by children that do not drain.
    pub(super) fn clear(&mut self) {
        self.full.clear();
        self.parent = None;
    }

    /// Bytes of this child were delivered.
    pub(super) fn drained(&mut self, now: Instant, key: ChildKey) {
        if let Some(since) = &mut self.parent {
            *since = now;
        }
        if let Some(episode) = self.full.iter_mut().find(|episode| episode.key == key) {
            episode.drained = now;
        }
    }
}

impl<T: Owner> Parent<T> {
    /// The queue of this child grew.
    pub(super) fn filled(&mut self, now: Instant, key: ChildKey) {
        if let Some(child) = self.children.get_mut(&key)
            && !child.full
            && child.queue.len() >= self.limits.child_buffer
        {
            child.full = true;
            self.stalls.full.push(Episode { key, started: now, drained: now });
        }
        if self.limits.parent_buffer.is_some_and(|limit| self.queued >= limit) {
            self.stalls.parent.get_or_insert(now);
        }
    }

    /// So many bytes left the queue of this child, delivered or lost.
    pub(super) fn undelivered(&mut self, key: ChildKey, bytes: usize) {
        self.queued -= bytes;
        if let Some(child) = self.children.get_mut(&key)
            && child.full
            && child.queue.len() < part(self.limits.child_buffer, 8)
        {
            child.full = false;
            self.stalls.full.retain(|episode| episode.key != key);
        }
        let under = |limit| self.queued < part(limit, 4);
        if self.limits.parent_buffer.is_some_and(under) {
            self.stalls.parent = None;
        }
        self.judge_reading();
    }

    /// Owes FlowPause or FlowResume, if what the peer knows is not true any more (M21, M23).
    pub(super) fn mind_flow(&mut self, key: ChildKey) {
        let above_half = self.limits.parent_buffer.is_some_and(|limit| self.queued > limit / 2);
        let Some(child) = self.children.get_mut(&key) else {
            return;
        };
        if child.inward != Inward::Flowing || child.outward == Outward::Closing {
            // Nothing is to come that could be paused.
            if std::mem::take(&mut child.told_paused) {
                self.paused -= 1;
            }
            self.settle(key, Owed::FLOW);
            return;
        }
        let wants = child.local_paused
            || child.queue.len() >= self.limits.child_resume
            // M25: while much waits, only who has nothing left gets more.
            || (child.told_paused && above_half && !child.queue.is_empty());
        if wants == child.told_paused {
            self.settle(key, Owed::FLOW);
        } else {
            self.owe(key, Owed::FLOW);
        }
    }

    /// Decides whether the transport is to be read (M24, M25, M32).
    pub(super) fn judge_reading(&mut self) {
        let pause = if !self.stalls.full.is_empty() {
            Some(ParentPause::ChildBuffer)
        } else if self.stalls.parent.is_some() {
            Some(ParentPause::ParentBuffer)
        } else if self.is_control_full() {
            Some(ParentPause::Control)
        } else {
            None
        };
        if let Some(pause) = pause
            && self.pause != Some(pause)
        {
            self.counts.pauses[pause as usize] += 1;
        }
        self.pause = pause;
    }

    /// When [`Self::timeout`] is wanted, if at all.
    pub fn next_wake(&self) -> Option<Instant> {
        let stall = self.limits.child_stall;
        let full = self.stalls.full.iter().map(|e| (e.drained + stall).min(e.started + 3 * stall));
        let parent = self.stalls.parent.map(|since| since + stall);
        let timed = self.stalls.timed.first().map(|(at, _)| *at);
        full.chain([parent, timed].into_iter().flatten()).min()
    }

    /// The time that [`Self::next_wake`] named has come.
    pub fn timeout(&mut self, now: Instant, pool: &impl Buffers) {
        self.end_full(now, pool);
        self.end_largest(now, pool);
        self.happened_by(now);
        self.end_timed(now, pool);
    }

    /// M24: one dead reader never freezes the rest for good.
    fn end_full(&mut self, now: Instant, pool: &impl Buffers) {
        let stall = self.limits.child_stall;
        let late = |e: &&Episode| now >= (e.drained + stall).min(e.started + 3 * stall);
        while let Some(key) = self.stalls.full.iter().find(late).map(|episode| episode.key) {
            self.stalls.full.retain(|episode| episode.key != key);
            if let Some(child) = self.children.get_mut(&key) {
                child.full = false;
            }
            self.close(key, ChildEnd::Overflow, true, pool);
            self.judge_reading();
        }
    }

    /// M25: nobody drains, so whoever holds most is ended.
    fn end_largest(&mut self, now: Instant, pool: &impl Buffers) {
        if self.stalls.parent.is_none_or(|at| now < at + self.limits.child_stall) {
            return;
        }
        let largest = self.children.iter().max_by_key(|(key, child)| (child.queue.len(), **key));
        let Some(key) = largest.map(|(key, _)| *key) else {
            return;
        };
        self.stalls.parent = Some(now);
        self.close(key, ChildEnd::Stalled, true, pool);
        self.judge_reading();
    }

    /// Ends children whose reply does not come (M31), and those that can not send what is left of
    /// them (T05).
    fn end_timed(&mut self, now: Instant, pool: &impl Buffers) {
        let timeout = self.limits.half_close_timeout;
        while let Some((_, key)) = self.stalls.timed.first().copied().filter(|(at, _)| *at <= now) {
            self.unwake(key);
            let Some(child) = self.children.get(&key) else {
                continue;
            };
            match child.reply_since {
                None => {
                    self.drop_unsent(key, pool);
                    self.close(key, ChildEnd::Timeout, false, pool);
                }
                // Nobody can answer what was not sent.
                Some(_) if child.is_unsent() => self.wake(key, now + timeout.max(LEAST_WAIT)),
                // A byte of the reply came since.
                Some(since) if since + timeout > now => self.wake(key, since + timeout),
                Some(_) => self.close(key, ChildEnd::HalfCloseTimeout, false, pool),
            }
        }
    }

    /// The child stands for the reply alone from here on (M31).
    pub(super) fn keep(&mut self, now: Instant, key: ChildKey) {
        if let Some(child) = self.children.get_mut(&key) {
            child.reply_since = Some(now);
            self.events.push_back(Event::Kept(key));
            self.wake(key, now + self.limits.half_close_timeout);
        }
    }

    /// It does so no more.
    pub(super) fn keep_no_more(&mut self, key: ChildKey) {
        let child = self.children.get_mut(&key);
        if child.is_some_and(|child| child.reply_since.take().is_some()) {
            self.unwake(key);
            self.events.push_back(Event::KeptNoMore(key));
        }
    }

    /// Everybody who stands for the reply alone, oldest first.
    pub(super) fn all_kept(&self) -> Vec<ChildKey> {
        let kept = |key: &ChildKey| self.children.get(key).is_some_and(|c| c.reply_since.is_some());
        self.stalls.timed.iter().map(|(_, key)| *key).filter(kept).collect()
    }

    /// What [happened](Stalls::happened) since the last call with a time happened by this time.
    pub(super) fn happened_by(&mut self, now: Instant) {
        while let Some(key) = self.stalls.untimed.pop() {
            let Some(child) = self.children.get_mut(&key) else {
                continue;
            };
            if child.reply_since.is_some() {
                child.reply_since = Some(now);
                self.wake(key, now + self.limits.half_close_timeout);
            } else if child.lingers() && child.wake.is_none() {
                self.wake(key, now + self.limits.linger);
            }
        }
    }

    fn wake(&mut self, key: ChildKey, at: Instant) {
        self.unwake(key);
        if let Some(child) = self.children.get_mut(&key) {
            child.wake = Some(at);
            self.stalls.timed.insert((at, key));
        }
    }

    pub(super) fn unwake(&mut self, key: ChildKey) {
        let child = self.children.get_mut(&key);
        if let Some(at) = child.and_then(|child| child.wake.take()) {
            self.stalls.timed.remove(&(at, key));
        }
    }
}

/// All but one of so many parts, rounded up: 7/8 and 3/4 of a limit (M24, M25).
const fn part(limit: usize, parts: usize) -> usize {
    limit - limit / parts
}
