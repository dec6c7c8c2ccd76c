//! Candidates of one weight.

use slab::Slab;

/// The place of a peer in the scheduler's slab.
pub(super) type Slot = usize;

const NOWHERE: usize = usize::MAX;

/// One connection of the scheduler.
#[derive(Debug)]
pub(super) struct Peer<K> {
    pub(super) key: K,
    /// The group of its weight and kind.
    pub(super) group: usize,
    /// The order of identifiers.
    pub(super) rank: u64,
    /// Of one that is no candidate.
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
}

/// The larger accumulator, then the smaller rank. One number, so that no branch depends on what
/// nobody can foretell.
const fn order(accumulator: i64, rank: u64) -> i128 {
    ((accumulator as i128) << 64) | (!rank as i128)
}

/// A candidate in the heap of its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Less what its group has gained.
    accumulator: i64,
    rank: u64,
    pub(super) slot: Slot,
}

impl Candidate {
    const fn is_before(&self, other: &Self) -> bool {
        order(self.accumulator, self.rank) > order(other.accumulator, other.rank)
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
    /// The candidates, the next winner first.
    heap: Vec<Candidate>,
}

impl Group {
    pub(super) const fn new(weight: i64, router: bool) -> Self {
        Self { weight, router, members: 0, sum: 0, heap: Vec::new() }
    }

    /// Who wins a run of this group alone.
    pub(super) fn head(&self) -> Option<&Candidate> {
        self.heap.first()
    }

    /// What the head comes to in its next run, after `runs`; the largest one wins.
    pub(super) fn bid(&self, runs: i64) -> i128 {
        self.heap
            .first()
            .map_or(i128::MIN, |head| order(head.accumulator + self.weight * (runs + 1), head.rank))
    }

    /// The accumulator of a member after `runs`.
    pub(super) fn accumulator<K>(&self, peer: &Peer<K>, runs: i64) -> i64 {
        match self.heap.get(peer.place) {
            Some(candidate) => candidate.accumulator + self.weight * runs,
            None => peer.accumulator,
        }
    }

    /// The head pays the sum of a run.
    pub(super) fn pay<K>(&mut self, peers: &mut Slab<Peer<K>>, sum: i64) {
        if let Some(head) = self.heap.first_mut() {
            head.accumulator -= sum;
            self.sink(peers, 0);
        }
    }

    /// A member is a candidate from here on.
    pub(super) fn join<K>(&mut self, peers: &mut Slab<Peer<K>>, slot: Slot, runs: i64) {
        let Peer { accumulator, rank, .. } = peers[slot];
        let accumulator = accumulator - self.weight * runs;
        self.sum += self.weight;
        self.heap.push(Candidate { accumulator, rank, slot });
        self.rise(peers, self.heap.len() - 1);
    }

    /// A candidate is none from here on.
    pub(super) fn leave<K>(&mut self, peers: &mut Slab<Peer<K>>, slot: Slot, runs: i64) {
        let peer = &mut peers[slot];
        let place = std::mem::replace(&mut peer.place, NOWHERE);
        let candidate = self.heap.swap_remove(place);
        peer.accumulator = candidate.accumulator + self.weight * runs;
        self.sum -= self.weight;
        if place < self.heap.len() {
            let place = self.rise(peers, place);
            self.sink(peers, place);
        }
    }

    /// The runs are to be counted from 0 again.
    pub(super) fn fold(&mut self, runs: i64) {
        for candidate in &mut self.heap {
            candidate.accumulator += self.weight * runs;
        }
    }

    /// The peers have other ranks, in the same order.
    pub(super) fn renumber<K>(&mut self, peers: &Slab<Peer<K>>) {
        for candidate in &mut self.heap {
            candidate.rank = peers[candidate.slot].rank;
        }
    }

    /// Moves what is at `place` towards the head. Where it is then.
    fn rise<K>(&mut self, peers: &mut Slab<Peer<K>>, mut place: usize) -> usize {
        let candidate = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if !candidate.is_before(&self.heap[parent]) {
                break;
            }
            self.put(peers, place, self.heap[parent]);
            place = parent;
        }
        self.put(peers, place, candidate);
        place
    }

    /// Moves what is at `place` away from the head. A head that has paid goes far: all the way down
    /// by the better children, then up to where it belongs.
    fn sink<K>(&mut self, peers: &mut Slab<Peer<K>>, mut place: usize) {
        let candidate = self.heap[place];
        while let Some([left, right]) = self.heap.get(2 * place + 1..2 * place + 3) {
            let child = 2 * place + 1 + usize::from(right.is_before(left));
            self.put(peers, place, self.heap[child]);
            place = child;
        }
        if let Some(&only) = self.heap.get(2 * place + 1) {
            self.put(peers, place, only);
            place = 2 * place + 1;
        }
        self.heap[place] = candidate;
        self.rise(peers, place);
    }

    fn put<K>(&mut self, peers: &mut Slab<Peer<K>>, place: usize, candidate: Candidate) {
        self.heap[place] = candidate;
        peers[candidate.slot].place = place;
    }
}
