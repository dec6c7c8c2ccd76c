//! The parents of one worker, and which of them takes the next child (M10 to M13).

use std::time::{Duration, Instant};

use super::cids::LAST_CID;

/// When a parent takes children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `timer`: until it is so old.
    Timer(Duration),
    /// `counter`: until it was given so many.
    Counter(u32),
    /// `fixed-connections-count`: so many parents share the children.
    Fixed(u32),
}

impl Mode {
    /// How many children one parent takes in its life, at most.
    pub const fn most_children(self) -> u32 {
        match self {
            Self::Counter(capacity) if capacity < LAST_CID => capacity,
            _ => LAST_CID,
        }
    }

    /// When a parent that was made at this time is exhausted by its age (M11).
    pub fn exhausted_at(self, made: Instant) -> Option<Instant> {
        match self {
            Self::Timer(duration) => Some(made + duration),
            Self::Counter(_) | Self::Fixed(_) => None,
        }
    }
}

/// One parent in the pool: which slot, and which of those that stood there in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParentId {
    slot: usize,
    generation: u64,
}

/// Chooses a parent for each child. `P` is whatever reaches a parent.
///
/// ```text
///   free --make--> taking --exhausted (M11, M12)--> free (the parent lives on by itself)
///     ^               |
///     +-----gone------+
/// ```
#[derive(Debug)]
pub struct Pool<P> {
    mode: Mode,
    slots: Vec<Slot<P>>,
    generation: u64,
    /// The next child makes all parents (M13).
    first: bool,
    /// The slot that is looked at first (M13).
    turn: usize,
}

#[derive(Debug)]
struct Slot<P> {
    generation: u64,
    parent: Option<Taking<P>>,
}

#[derive(Debug)]
struct Taking<P> {
    parent: P,
    made: Instant,
    /// Children that it was given so far.
    given: u32,
    /// Of these, the ones that live.
    live: u32,
}

impl<P> Pool<P> {
    /// A pool without parents.
    pub fn new(mode: Mode) -> Self {
        let slots = match mode {
            Mode::Fixed(count) => count.max(1) as usize,
            Mode::Timer(_) | Mode::Counter(_) => 1,
        };
        let slots = (0..slots).map(|_| Slot { generation: 0, parent: None }).collect();
        Self { mode, slots, generation: 0, first: true, turn: 0 }
    }

    /// As without parents from here on; gives those that there were. What is told of these later is
    /// not for their heirs.
    pub fn start_over(&mut self) -> Vec<P> {
        self.first = true;
        self.turn = 0;
        let taking = self.slots.iter_mut().filter_map(|slot| slot.parent.take());
        taking.map(|taking| taking.parent).collect()
    }

    /// When its parents take children.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Gives the next child to a parent. `make` makes one, for the free slot that it is called
    /// with: for all of them with the first child, otherwise for the one slot
    /// that the child goes to (M13). Gives the parent that this child was the last one for, too
    /// (M11): it is exhausted from here on.
    pub fn give(
        &mut self,
        now: Instant,
        mut make: impl FnMut(ParentId) -> P,
    ) -> (ParentId, &P, bool) {
        self.let_go_old(now);
        let first = std::mem::take(&mut self.first);
        let at = self.next_slot();
        for slot in 0..self.slots.len() {
            if self.slots[slot].parent.is_none() && (slot == at || first) {
                self.generation += 1;
                let generation = self.generation;
                let parent = make(ParentId { slot, generation });
                self.slots[slot] = Slot {
                    generation,
                    parent: Some(Taking { parent, made: now, given: 0, live: 0 }),
                };
            }
        }
        self.turn = (at + 1) % self.slots.len();
        let most = self.mode.most_children();
        let slot = &mut self.slots[at];
        let id = ParentId { slot: at, generation: slot.generation };
        let taking = slot.parent.as_mut();
        #[expect(clippy::expect_used, reason = "made above where it was free")]
        let taking = taking.expect("the chosen slot has a parent");
        taking.given += 1;
        taking.live += 1;
        (id, &taking.parent, taking.given >= most)
    }

    /// The slot with the fewest live children; of equal ones, the next in turn (M13).
    fn next_slot(&self) -> usize {
        let count = self.slots.len();
        // A dead slot comes before one whose parent has no child.
        let live = |at: &usize| self.slots[*at].parent.as_ref().map_or(0, |taking| 1 + taking.live);
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        // The first of equal ones stays.
        in_turn.min_by_key(live).unwrap_or(0)
    }

    /// A parent that is too old takes no further child (M11).
    fn let_go_old(&mut self, now: Instant) {
        for slot in &mut self.slots {
            let old = |taking: &Taking<P>| {
                self.mode.exhausted_at(taking.made).is_some_and(|at| now >= at)
            };
            if slot.parent.as_ref().is_some_and(old) {
                slot.parent = None;
            }
        }
    }

    /// A child of this parent is gone.
    pub fn child_gone(&mut self, id: ParentId) {
        if let Some(taking) = self.taking(id) {
            taking.live = taking.live.saturating_sub(1);
        }
    }

    /// This parent takes no further child: it is exhausted, drained, or gone.
    pub fn let_go(&mut self, id: ParentId) {
        if self.taking(id).is_some() {
            self.slots[id.slot].parent = None;
        }
    }

    fn taking(&mut self, id: ParentId) -> Option<&mut Taking<P>> {
        let slot = self.slots.get_mut(id.slot)?;
        slot.parent.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// The parents that take children.
    pub fn parents(&self) -> impl Iterator<Item = &P> {
        self.slots.iter().filter_map(|slot| slot.parent.as_ref()).map(|taking| &taking.parent)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Mode, ParentId, Pool};
    use crate::mux::LAST_CID;

    /// Gives a child; tells its slot, and whether a parent was made for it.
    fn give(pool: &mut Pool<usize>, now: Instant) -> (ParentId, Vec<usize>) {
        let mut made = Vec::new();
        let (id, parent, _) = pool.give(now, |id| {
            made.push(id.slot);
            id.slot
        });
        assert_eq!(*parent, id.slot);
        (id, made)
    }

    #[test]
    fn mux_m13_the_first_child_makes_all_parents_and_equal_ones_take_turns() {
        let (mut pool, now) = (Pool::new(Mode::Fixed(3)), Instant::now());
        let (first, made) = give(&mut pool, now);
        assert_eq!((first.slot, made), (0, vec![0, 1, 2]));
        let given: Vec<_> = (0..5).map(|_| give(&mut pool, now)).collect();
        assert!(given.iter().all(|(_, made)| made.is_empty()));
        assert_eq!(given.iter().map(|(id, _)| id.slot).collect::<Vec<_>>(), [1, 2, 0, 1, 2]);
        for (id, _) in given.iter().filter(|(id, _)| id.slot == 1) {
            pool.child_gone(*id);
        }
        let next: Vec<_> = (0..3).map(|_| give(&mut pool, now).0.slot).collect();
        assert_eq!(next, [1, 1, 2]);
    }

    #[test]
    fn mux_m13_a_dead_slot_is_refilled_by_the_next_child_and_no_more_than_n_exist() {
        let (mut pool, now) = (Pool::new(Mode::Fixed(2)), Instant::now());
        let ids: Vec<_> = (0..4).map(|_| give(&mut pool, now).0).collect();
        pool.let_go(ids[0]);
        assert_eq!(pool.parents().count(), 1);
        let (id, made) = give(&mut pool, now);
        assert_eq!((id.slot, made), (0, vec![0]));
        assert_ne!(id, ids[0]);
        pool.let_go(ids[0]);
        pool.child_gone(ids[2]);
        assert_eq!(pool.parents().count(), 2, "what is told of the dead one is not for its heir");
        assert_eq!(give(&mut pool, now).0.slot, 0);
    }

    #[test]
    fn mux_m13_a_pool_that_starts_over_makes_all_parents_and_hears_nothing_of_the_old_ones() {
        let (mut pool, now) = (Pool::new(Mode::Fixed(2)), Instant::now());
        let old: Vec<_> = (0..3).map(|_| give(&mut pool, now).0).collect();
        assert_eq!(pool.start_over(), [0, 1]);
        assert_eq!(pool.parents().count(), 0);
        let (first, made) = give(&mut pool, now);
        assert_eq!((first.slot, made), (0, vec![0, 1]));
        for id in old {
            pool.child_gone(id);
            pool.let_go(id);
        }
        assert_eq!(pool.parents().count(), 2);
        assert_eq!(give(&mut pool, now).0.slot, 1, "the first one has its child still");
    }

    #[test]
    fn mux_m11_timer_counts_from_the_making_of_a_parent() {
        let mut pool = Pool::new(Mode::Timer(Duration::from_millis(100)));
        let now = Instant::now();
        let (first, made) = give(&mut pool, now);
        assert_eq!(made, [0]);
        let (second, made) = give(&mut pool, now + Duration::from_millis(99));
        assert_eq!((second, made), (first, vec![]));
        let (third, made) = give(&mut pool, now + Duration::from_millis(100));
        assert_ne!(third, first);
        assert_eq!(made, [0]);
        assert_eq!(
            pool.mode().exhausted_at(now),
            Some(now + Duration::from_millis(100)),
            "M12: also when no child comes"
        );
    }

    #[test]
    fn mux_m11_counter_counts_closed_children_as_well() {
        let (mut pool, now) = (Pool::new(Mode::Counter(2)), Instant::now());
        let (first, parent, last) = pool.give(now, |_| 'a');
        assert_eq!((*parent, last), ('a', false));
        pool.child_gone(first);
        let (second, _, last) = pool.give(now, |_| 'b');
        assert_eq!((second, last), (first, true));
        pool.let_go(first);
        let (third, parent, _) = pool.give(now, |_| 'c');
        assert_eq!(*parent, 'c');
        assert_ne!(third, first);
    }

    #[test]
    fn mux_m09_no_mode_gives_the_last_number() {
        for mode in [Mode::Fixed(1), Mode::Timer(Duration::MAX), Mode::Counter(u32::MAX)] {
            assert_eq!(mode.most_children(), LAST_CID);
        }
        assert_eq!(Mode::Counter(5).most_children(), 5);
    }
}
