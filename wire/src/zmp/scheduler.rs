//! Who gets the next record of a DEALER: smooth weighted turns, bit by bit as 2.2 has them.
//!
//! The rule adds to every candidate and takes from one. Candidates of one weight gain the same in
//! each run, so it is enough to count the runs: a group of one weight has a heap of what each of its
//! candidates has beside that. A selection looks at the head of each group and moves one candidate
//! down its heap: O(groups + log n).

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use slab::Slab;

use self::group::{Group, Peer, Slot};
use super::core::Weight;

mod group;
#[cfg(test)]
mod tests;

/// After so many runs they are folded into the accumulators and counted from 0 again, long before
/// their product with a weight could leave an `i64`.
const MOST_RUNS: i64 = if cfg!(test) { 100 } else { 1 << 32 };

/// The identifier of a peer: its order breaks ties.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    routing_id: Bytes,
    endpoint: Arc<str>,
    attached: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Runs {
    routers: i64,
    others: i64,
}

impl Runs {
    const fn of(self, group: &Group) -> i64 {
        if group.router { self.routers } else { self.others }
    }
}

/// Peers and their accumulators.
#[derive(Debug)]
pub struct Scheduler<K> {
    peers: Slab<Peer<K>>,
    by_key: HashMap<K, (Slot, Name)>,
    by_name: BTreeMap<Name, Slot>,
    groups: Slab<Group>,
    /// Runs since the last fold in which ROUTERs, and in which others took part.
    runs: Runs,
    attached: u64,
    /// Empty outside of a selection; kept for its memory.
    refused: Vec<Slot>,
}

impl<K> Default for Scheduler<K> {
    fn default() -> Self {
        Self {
            peers: Slab::new(),
            by_key: HashMap::new(),
            by_name: BTreeMap::new(),
            groups: Slab::new(),
            runs: Runs::default(),
            attached: 0,
            refused: Vec::new(),
        }
    }
}

impl<K: Copy + Eq + Hash> Scheduler<K> {
    /// A connection became ready: its accumulator begins at 0 (D-S3). `routing_id`, `endpoint` and
    /// the order of these calls are its identifier, which breaks ties. Replaces one with the same
    /// key.
    pub fn insert(
        &mut self,
        key: K,
        routing_id: Bytes,
        endpoint: Arc<str>,
        router: bool,
        weight: Weight,
    ) {
        self.remove(key);
        self.attached += 1;
        let name = Name { routing_id, endpoint, attached: self.attached };
        let rank = self.rank_for(&name);
        let group = self.group_of(weight, router);
        let slot = self.peers.insert(Peer::new(key, group, rank));
        self.by_key.insert(key, (slot, name.clone()));
        self.by_name.insert(name, slot);
        self.join(slot);
    }

    /// The connection ended: its accumulator is gone (D-S3). False when it is unknown.
    pub fn remove(&mut self, key: K) -> bool {
        let Some((slot, name)) = self.by_key.remove(&key) else { return false };
        self.leave(slot);
        let peer = self.peers.remove(slot);
        self.by_name.remove(&name);
        self.leave_group(peer.group);
        true
    }

    /// Its weight changed; the accumulator stays. With 0 it is no candidate.
    pub fn set_weight(&mut self, key: K, weight: Weight) {
        let Some(slot) = self.slot(key) else { return };
        self.leave(slot);
        let old = self.peers[slot].group;
        let router = self.groups[old].router;
        self.peers[slot].group = self.group_of(weight, router);
        self.leave_group(old);
        self.join(slot);
    }

    /// It can not take a record: it is no candidate, and its accumulator stands still (D-S1).
    pub fn exclude(&mut self, key: K) {
        let Some(slot) = self.slot(key) else { return };
        self.leave(slot);
        self.peers[slot].excluded = true;
    }

    /// It can take a record again.
    pub fn include(&mut self, key: K) {
        let Some(slot) = self.slot(key) else { return };
        self.peers[slot].excluded = false;
        self.join(slot);
    }

    /// Chooses the peer of one record among all candidates, or among the ROUTERs. `accepts` is
    /// asked for the winner; one that refuses is left out for this record and the rest is tried
    /// again. Only the run whose winner accepts counts (D-S1).
    pub fn select(&mut self, routers_only: bool, mut accepts: impl FnMut(K) -> bool) -> Option<K> {
        let mut chosen = None;
        while let Some((group, slot, sum)) = self.winner(routers_only) {
            let key = self.peers[slot].key;
            if accepts(key) {
                self.groups[group].pay(&mut self.peers, sum);
                self.count_run(routers_only);
                chosen = Some(key);
                break;
            }
            self.leave(slot);
            self.refused.push(slot);
        }
        while let Some(slot) = self.refused.pop() {
            self.join(slot);
        }
        chosen
    }

    /// Whom the rule names among all peers of positive weight, excluded ones too, without a run
    /// (D-N2). Looks at every peer.
    pub fn preferred(&self, routers_only: bool) -> Option<K> {
        let candidates = self.peers.iter().filter(|(_, peer)| {
            let group = &self.groups[peer.group];
            group.weight > 0 && (group.router || !routers_only)
        });
        let best = candidates.max_by_key(|(slot, peer)| {
            let group = &self.groups[peer.group];
            (self.accumulator_at(*slot) + group.weight, std::cmp::Reverse(peer.rank))
        });
        best.map(|(_, peer)| peer.key)
    }

    /// There is a candidate.
    pub fn has_candidate(&self, routers_only: bool) -> bool {
        self.candidates(routers_only).any(|(_, group)| group.head().is_some())
    }

    /// The accumulator of a peer.
    pub fn accumulator(&self, key: K) -> Option<i64> {
        self.slot(key).map(|slot| self.accumulator_at(slot))
    }

    /// How many peers there are, candidates or not.
    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.peers.is_empty()
    }

    fn slot(&self, key: K) -> Option<Slot> {
        self.by_key.get(&key).map(|(slot, _)| *slot)
    }

    /// Groups whose candidates take part in a run.
    fn candidates(&self, routers_only: bool) -> impl Iterator<Item = (usize, &Group)> {
        self.groups.iter().filter(move |(_, group)| group.router || !routers_only)
    }

    /// Who wins a run, its group, and the sum of all weights in it.
    fn winner(&self, routers_only: bool) -> Option<(usize, Slot, i64)> {
        let (mut sum, mut best, mut winner) = (0, i128::MIN, None);
        for (index, group) in self.candidates(routers_only) {
            sum += group.sum;
            let bid = group.bid(self.runs.of(group));
            winner = if bid > best { Some(index) } else { winner };
            best = best.max(bid);
        }
        let index = winner?;
        Some((index, self.groups[index].head()?.slot, sum))
    }

    /// Every candidate of a run has gained its weight.
    fn count_run(&mut self, routers_only: bool) {
        self.runs.routers += 1;
        self.runs.others += i64::from(!routers_only);
        if self.runs.routers >= MOST_RUNS {
            for (_, group) in &mut self.groups {
                group.fold(self.runs.of(group));
            }
            self.runs = Runs::default();
        }
    }

    fn accumulator_at(&self, slot: Slot) -> i64 {
        let peer = &self.peers[slot];
        let group = &self.groups[peer.group];
        group.accumulator(peer, self.runs.of(group))
    }

    /// Makes a candidate of a peer that may be one and is none.
    fn join(&mut self, slot: Slot) {
        let peer = &self.peers[slot];
        let group = &mut self.groups[peer.group];
        if group.weight > 0 && !peer.excluded && !peer.is_candidate() {
            group.join(&mut self.peers, slot, self.runs.of(group));
        }
    }

    /// The peer is no candidate; its accumulator stays.
    fn leave(&mut self, slot: Slot) {
        let peer = &self.peers[slot];
        if peer.is_candidate() {
            let group = &mut self.groups[peer.group];
            group.leave(&mut self.peers, slot, self.runs.of(group));
        }
    }

    /// The group of a new member.
    fn group_of(&mut self, weight: Weight, router: bool) -> usize {
        let weight = i64::from(weight.get());
        let known = self
            .groups
            .iter()
            .find(|(_, group)| group.weight == weight && group.router == router)
            .map(|(index, _)| index);
        let index = known.unwrap_or_else(|| self.groups.insert(Group::new(weight, router)));
        self.groups[index].members += 1;
        index
    }

    fn leave_group(&mut self, index: usize) {
        self.groups[index].members -= 1;
        if self.groups[index].members == 0 {
            self.groups.remove(index);
        }
    }

    /// A number between those of the neighbours of a new name, so that ties need not compare bytes.
    fn rank_for(&mut self, name: &Name) -> u64 {
        let rank = |(_, slot): (&Name, &Slot)| self.peers[*slot].rank;
        let below = self.by_name.range(..name).next_back().map_or(0, rank);
        let above = self
            .by_name
            .range((Bound::Excluded(name), Bound::Unbounded))
            .next()
            .map_or(u64::MAX, rank);
        let between = below + (above - below) / 2;
        if between > below { between } else { self.spread_ranks(name) }
    }

    /// Numbers all peers afresh in equal distances, and says that of a new name.
    fn spread_ranks(&mut self, new: &Name) -> u64 {
        let distance = u64::MAX / (self.peers.len() as u64 + 2);
        let mut rank = 0;
        let mut of_new = None;
        for (name, &slot) in &self.by_name {
            rank += distance;
            if of_new.is_none() && new < name {
                of_new = Some(rank);
                rank += distance;
            }
            self.peers[slot].rank = rank;
        }
        for (_, group) in &mut self.groups {
            group.renumber(&self.peers);
        }
        of_new.unwrap_or(rank + distance)
    }
}
