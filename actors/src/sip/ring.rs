//! What transports hand to the worker that owns a call: batches, bounded in bytes and number.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use lineway_wire::sip::own::Received;

/// One whole message as it came in.
#[derive(Debug)]
pub struct Arrival {
    /// Its bytes.
    pub bytes: Bytes,
    /// Where it came from.
    pub received: Received,
    /// When.
    pub at: Instant,
}

/// The inbox of one worker for one node. Any thread pushes, the owner takes.
#[derive(Clone, Debug)]
pub struct Ring {
    _inner: Arc<()>,
}

impl Ring {
    /// With these limits.
    pub fn new(_most_bytes: usize, _most: usize) -> Self {
        unimplemented!()
    }
    /// Hands over a batch in its order and wakes the owner once. Takes what there is room for out
    /// of the front of `batch`; what is left did not fit (datagrams of it are dropped and counted,
    /// a connection stops reading and is woken when there is room).
    pub fn push(&self, _batch: &mut Vec<Arrival>) {
        unimplemented!()
    }
    /// Ready when there is room again after a push that left something.
    pub fn poll_room(&self, _cx: &mut Context<'_>) -> Poll<()> {
        unimplemented!()
    }
    /// Takes up to `most` messages into `into`; pending, with the waker kept, when there is none.
    /// Their room is given back when the owner has handled them: [`Ring::handled`].
    pub fn poll_take(
        &self,
        _into: &mut Vec<Arrival>,
        _most: usize,
        _cx: &mut Context<'_>,
    ) -> Poll<()> {
        unimplemented!()
    }
    /// Gives back the room of what was taken: bytes and number.
    pub fn handled(&self, _bytes: usize, _count: usize) {
        unimplemented!()
    }
}
