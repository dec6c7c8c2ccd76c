//! Candidates of one weight.

use slab::Slab;

/// The place of a peer in the scheduler's slab.
pub(super) type Slot = usize;

/// What `gained` is folded into the entries at. A sum of accumulators grows by at most 10,000 for
/// each selection, so this happens once in some hundred million selections and `i64` never ends.
const FOLD: i64 = if cfg!(test) { 1 << 12 } else { 1 << 40 };

const NOWHERE: usize = usize::MAX;

/// One connection of the scheduler.
#[derive(Debug)]
pub(super) struct Peer<K> {
    pub(super) key: K,
    /// The group of its weight and kind.
    pub(super) group: usize,
    /// The order of identifiers.
    pub(super) rank: u64,
    /// Of a candidate: less what its group has gained.
    pub(super) accumulator: i64,
    /// It can not take a record.
    pub(super) excluded: bool,
    /// In the heap of its group; `NOWHERE` for one that is no candidate.
    place: usize,
}

impl<K> Peer<K> {
    pub(super) const fn new(key: K, group: usize, rank: u64) -> Self {
        Self { key, group, rank, accumulator: 0, excluded: false, place: NOWHERE }
    }

    pub(super) const fn is_candidate(&self) -> bool {
        self.place != NOWHERE
    }

    /// Its turn is before that of another one of the same group.
    const fn is_before(&self, other: &Self) -> bool {
        self.accumulator > other.accumulator
            || (self.accumulator == other.accumulator && self.rank < other.rank)
    }
}

/// Peers of one weight and kind.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) weight: i64,
    pub(super) router: bool,
    /// Peers of this weight, candidates or not.
    pub(super) members: usize,
    /// The weights of its candidates together.
    pub(super) sum: i64,
    /// What each of its candidates has gained.
    pub(super) gained: i64,
    /// The candidates, the next winner first.
    pub(super) heap: Vec<Slot>,
}

impl Group {
    pub(super) const fn new(weight: i64, router: bool) -> Self {
        Self { weight, router, members: 0, sum: 0, gained: 0, heap: Vec::new() }
    }

    /// Every candidate gains its weight.
    pub(super) fn gain<K>(&mut self, peers: &mut Slab<Peer<K>>) {
        self.gained += self.weight;
        if self.gained >= FOLD {
            for &slot in &self.heap {
                peers[slot].accumulator += self.gained;
            }
            self.gained = 0;
        }
    }

    /// The head pays the sum of a run.
    pub(super) fn pay<K>(&mut self, peers: &mut Slab<Peer<K>>, sum: i64) {
        peers[self.heap[0]].accumulator -= sum;
        self.sink(peers, 0);
    }

    pub(super) fn join<K>(&mut self, peers: &mut Slab<Peer<K>>, slot: Slot) {
        peers[slot].accumulator -= self.gained;
        self.sum += self.weight;
        self.heap.push(slot);
        self.rise(peers, self.heap.len() - 1);
    }

    pub(super) fn leave<K>(&mut self, peers: &mut Slab<Peer<K>>, slot: Slot) {
        let peer = &mut peers[slot];
        peer.accumulator += self.gained;
        let place = std::mem::replace(&mut peer.place, NOWHERE);
        self.sum -= self.weight;
        self.heap.swap_remove(place);
        if place < self.heap.len() {
            let place = self.rise(peers, place);
            self.sink(peers, place);
        }
    }

    /// Moves what is at `place` towards the head. Where it is then.
    fn rise<K>(&mut self, peers: &mut Slab<Peer<K>>, mut place: usize) -> usize {
        let slot = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if !peers[slot].is_before(&peers[self.heap[parent]]) {
                break;
            }
            self.put(peers, place, self.heap[parent]);
            place = parent;
        }
        self.put(peers, place, slot);
        place
    }

    /// Moves what is at `place` away from the head.
    fn sink<K>(&mut self, peers: &mut Slab<Peer<K>>, mut place: usize) {
        let slot = self.heap[place];
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len()
                && peers[self.heap[child + 1]].is_before(&peers[self.heap[child]])
            {
                child += 1;
            }
            if !peers[self.heap[child]].is_before(&peers[slot]) {
                break;
            }
            self.put(peers, place, self.heap[child]);
            place = child;
        }
        self.put(peers, place, slot);
    }

    fn put<K>(&mut self, peers: &mut Slab<Peer<K>>, place: usize, slot: Slot) {
        self.heap[place] = slot;
        peers[slot].place = place;
    }
}
