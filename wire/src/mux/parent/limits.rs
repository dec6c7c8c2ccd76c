//! What a parent may hold, and what happens to children that do not drain (M21 to M25, M31, M32).

use std::collections::BTreeSet;
use std::time::Instant;

use super::{MOST_CONTROL, Parent};
use crate::mux::child::{ChildKey, Inward, Outward, Owed, Owner};
use crate::mux::reason::{ChildEnd, ParentPause};
use crate::queue::Buffers;

/// Children that keep others waiting, or that are waited for.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// Children at their limit, each with its episode (M24).
    full: Vec<Episode>,
    /// Since when all queues together stand at their limit and none drained a byte (M25).
    parent: Option<Instant>,
    /// Children that stand for the reply alone, with a time before which nothing is due (M31). One
    /// that does so no more is found out at that time.
    kept: BTreeSet<(Instant, ChildKey)>,
    /// Children that are gone and have Data left to send (T05).
    linger: BTreeSet<(Instant, ChildKey)>,
}

/// A time in which one child at its limit keeps its parent from being read (M24).
#[derive(Clone, Copy, Debug)]
struct Episode {
    key: ChildKey,
    started: Instant,
    drained: Instant,
}

impl Stalls {
    pub(super) fn keep(&mut self, until: Instant, key: ChildKey) {
        self.kept.insert((until, key));
    }

    pub(super) fn take_kept(&mut self) -> impl Iterator<Item = ChildKey> + use<> {
        std::mem::take(&mut self.kept).into_iter().map(|(_, key)| key)
    }

    pub(super) fn linger(&mut self, until: Instant, key: ChildKey) {
        self.linger.insert((until, key));
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
            && (child.queue.is_empty() || child.queue.len() < self.limits.child_buffer * 7 / 8)
        {
            child.full = false;
            self.stalls.full.retain(|episode| episode.key != key);
        }
        let under = |limit| self.queued == 0 || self.queued < limit * 3 / 4;
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
        } else if self.owed + self.refused.len() > MOST_CONTROL {
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
        let kept = self.stalls.kept.first().map(|(at, _)| *at);
        let linger = self.stalls.linger.first().map(|(at, _)| *at);
        full.chain([parent, kept, linger].into_iter().flatten()).min()
    }

    /// The time that [`Self::next_wake`] named has come.
    pub fn timeout(&mut self, now: Instant, pool: &impl Buffers) {
        self.end_full(now, pool);
        self.end_largest(now, pool);
        self.end_kept(now, pool);
        while self.stalls.linger.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, key)) = self.stalls.linger.pop_first() {
                self.close(key, ChildEnd::Timeout, true, pool);
            }
        }
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

    /// M31: children whose reply does not come.
    fn end_kept(&mut self, now: Instant, pool: &impl Buffers) {
        while let Some((at, key)) = self.stalls.kept.first().copied() {
            if at > now {
                return;
            }
            self.stalls.kept.pop_first();
            let Some(since) = self.children.get(&key).and_then(|child| child.reply_since) else {
                continue;
            };
            let due = since + self.limits.half_close_timeout;
            if due > now {
                // A byte of the reply came since.
                self.stalls.kept.insert((due, key));
            } else {
                self.close(key, ChildEnd::HalfCloseTimeout, false, pool);
            }
        }
    }
}
