//! Who gets the next record of a DEALER: smooth weighted turns, bit by bit as written in 2.2.

use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use super::core::Weight;

/// Peers and their accumulators.
#[derive(Debug)]
pub struct Scheduler<K> {
    peers: PhantomData<K>,
}

impl<K> Default for Scheduler<K> {
    fn default() -> Self {
        Self { peers: PhantomData }
    }
}

#[allow(clippy::unimplemented, unused_variables)]
impl<K: Copy + Eq + Hash> Scheduler<K> {
    /// A connection became ready: its accumulator begins at 0 (D-S3). `routing_id`, `endpoint` and
    /// the order of these calls are its identifier, which breaks ties. Replaces one with the same key.
    pub fn insert(
        &mut self,
        key: K,
        routing_id: Bytes,
        endpoint: Arc<str>,
        router: bool,
        weight: Weight,
    ) {
        unimplemented!()
    }

    /// The connection ended: its accumulator is gone (D-S3). False when it is unknown.
    pub fn remove(&mut self, key: K) -> bool {
        unimplemented!()
    }

    /// Its weight changed; the accumulator stays. With 0 it is no candidate.
    pub fn set_weight(&mut self, key: K, weight: Weight) {
        unimplemented!()
    }

    /// It can not take a record: it is no candidate, and its accumulator stands still (D-S1).
    pub fn exclude(&mut self, key: K) {
        unimplemented!()
    }

    /// It can take a record again.
    pub fn include(&mut self, key: K) {
        unimplemented!()
    }

    /// Chooses the peer of one record among all candidates, or among the ROUTERs. `accepts` is
    /// asked for the winner; one that refuses is left out for this record and the rest is tried
    /// again. Only the run whose winner accepts counts (D-S1).
    pub fn select(&mut self, routers_only: bool, accepts: impl FnMut(K) -> bool) -> Option<K> {
        unimplemented!()
    }

    /// Whom the rule names among all peers of positive weight, excluded ones too, without a run
    /// (D-N2). Looks at every peer.
    pub fn preferred(&self, routers_only: bool) -> Option<K> {
        unimplemented!()
    }

    /// There is a candidate.
    pub fn has_candidate(&self, routers_only: bool) -> bool {
        unimplemented!()
    }

    /// The accumulator of a peer.
    pub fn accumulator(&self, key: K) -> Option<i64> {
        unimplemented!()
    }

    /// How many peers there are, candidates or not.
    pub fn len(&self) -> usize {
        unimplemented!()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        unimplemented!()
    }
}
