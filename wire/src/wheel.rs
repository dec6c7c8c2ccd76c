//! Timers that are set and cancelled far more often than they fire: a hierarchical timer wheel.
//!
//! Time is an argument; an owner sleeps until [`Wheel::next_wake`] and calls [`Wheel::expire`].

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use slab::Slab;

/// Bits of a tick that one level looks at.
const BITS: u32 = 6;
/// Slots of one level.
const SLOTS: usize = 1 << BITS;
/// Levels: together they span 2^48 ms, some 8900 years.
const LEVELS: usize = 8;
/// The last tick that has a place.
const LAST: u64 = (1 << (BITS * LEVELS as u32)) - 1;
/// No entry.
const NONE: u32 = u32::MAX;
/// The level of entries whose time had come before they were set.
const DUE: u8 = LEVELS as u8;
/// Room for this many entries is kept when the wheel is empty.
const KEPT: usize = 1024;

/// Names one timer of one wheel, and no later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    index: u32,
    generation: NonZeroU64,
}

#[derive(Debug)]
struct Entry<T> {
    item: T,
    tick: u64,
    generation: NonZeroU64,
    prev: u32,
    next: u32,
    level: u8,
    slot: u8,
}

/// A hierarchical timer wheel with ticks of one millisecond.
///
/// Setting and cancelling cost the same however many timers there are. A timer never fires before
/// its deadline; deadlines are rounded up to the next tick.
///
/// Level `n` holds the timers whose tick first differs from the current one in the `n`th group of
/// six bits, counted from below. So every occupied slot lies ahead of the current tick, and the
/// lowest occupied level holds the earliest timers:
///
/// ```text
/// level 0   |.......now..x....|   each slot is one tick
/// level 1   |..now.....x......|   each slot is 64 ticks, spread over level 0 when they begin
/// level 2   |now...........x..|   each slot is 4096 ticks
/// ```
#[derive(Debug)]
pub struct Wheel<T> {
    start: Instant,
    /// Every timer up to this tick has fired, but for those in `due`.
    now: u64,
    entries: Slab<Entry<T>>,
    heads: Box<[[u32; SLOTS]; LEVELS]>,
    occupied: [u64; LEVELS],
    due: u32,
    generation: NonZeroU64,
}

impl<T> Wheel<T> {
    /// An empty wheel whose first tick is `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            start: now,
            now: 0,
            entries: Slab::new(),
            heads: Box::new([[NONE; SLOTS]; LEVELS]),
            occupied: [0; LEVELS],
            due: NONE,
            generation: NonZeroU64::MIN,
        }
    }

    /// How many timers are set.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when no timer is set.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets a timer. One whose deadline is over fires with the next [`Self::expire`].
    pub fn insert(&mut self, deadline: Instant, item: T) -> Key {
        let generation = self.generation;
        self.generation = generation.saturating_add(1);
        let tick = self.tick_after(deadline);
        let entry = Entry { item, tick, generation, prev: NONE, next: NONE, level: 0, slot: 0 };
        let index = self.entries.insert(entry) as u32;
        self.link(index);
        Key { index, generation }
    }

    /// Takes a timer back; `None` when it has fired or was cancelled.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let entry = self.entries.get(key.index as usize)?;
        if entry.generation != key.generation {
            return None;
        }
        self.unlink(key.index);
        let item = self.entries.remove(key.index as usize).item;
        self.shrink();
        Some(item)
    }

    /// When [`Self::expire`] should be called next; `None` while no timer is set.
    ///
    /// Never later than the earliest deadline rounded up to a tick. It can be earlier: timers that
    /// are far away are sorted again on the way.
    pub fn next_wake(&self) -> Option<Instant> {
        if self.due != NONE {
            return Some(self.start);
        }
        self.next_slot().map(|(.., tick)| self.start + Duration::from_millis(tick))
    }

    /// Moves every timer whose deadline is over at `now` to the end of `fired`, tick by tick.
    pub fn expire(&mut self, now: Instant, fired: &mut Vec<T>) {
        let millis = now.saturating_duration_since(self.start).as_millis();
        let target = u64::try_from(millis).unwrap_or(LAST).min(LAST);
        let due = std::mem::replace(&mut self.due, NONE);
        self.fire(due, fired);
        while let Some((level, slot, tick)) = self.next_slot() {
            if tick > target {
                break;
            }
            self.now = tick;
            let head = std::mem::replace(&mut self.heads[level][slot], NONE);
            self.occupied[level] &= !(1 << slot);
            self.fire(head, fired);
        }
        self.now = self.now.max(target);
        self.shrink();
    }

    /// Fires the timers of a list that was taken out of its slot, or sorts them again.
    fn fire(&mut self, head: u32, fired: &mut Vec<T>) {
        let mut index = head;
        while index != NONE {
            let entry = &self.entries[index as usize];
            let next = entry.next;
            if entry.tick <= self.now {
                fired.push(self.entries.remove(index as usize).item);
            } else {
                self.link(index);
            }
            index = next;
        }
    }

    /// The occupied slot whose time comes first: level, slot, first tick.
    fn next_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.occupied.iter().position(|slots| *slots != 0)?;
        let slot = self.occupied[level].trailing_zeros();
        let shift = BITS * level as u32;
        let above = self.now >> (shift + BITS) << (shift + BITS);
        Some((level, slot as usize, above | u64::from(slot) << shift))
    }

    /// The first tick that is not before the deadline.
    fn tick_after(&self, deadline: Instant) -> u64 {
        let nanos = deadline.saturating_duration_since(self.start).as_nanos();
        u64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(LAST).min(LAST)
    }

    fn link(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        let head = if entry.tick <= self.now {
            entry.level = DUE;
            &mut self.due
        } else {
            let level = (entry.tick ^ self.now).ilog2() / BITS;
            let slot = (entry.tick >> (BITS * level)) as usize % SLOTS;
            entry.level = level as u8;
            entry.slot = slot as u8;
            self.occupied[level as usize] |= 1 << slot;
            &mut self.heads[level as usize][slot]
        };
        entry.prev = NONE;
        entry.next = std::mem::replace(head, index);
        let next = entry.next;
        if next != NONE {
            self.entries[next as usize].prev = index;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Entry { prev, next, level, slot, .. } = self.entries[index as usize];
        if next != NONE {
            self.entries[next as usize].prev = prev;
        }
        if prev != NONE {
            self.entries[prev as usize].next = next;
        } else if level == DUE {
            self.due = next;
        } else {
            self.heads[usize::from(level)][usize::from(slot)] = next;
            if next == NONE {
                self.occupied[usize::from(level)] &= !(1 << slot);
            }
        }
    }

    /// Gives the memory of a burst back.
    fn shrink(&mut self) {
        if self.entries.is_empty() && self.entries.capacity() > KEPT {
            self.entries = Slab::new();
        }
    }
}

#[cfg(test)]
mod tests;
