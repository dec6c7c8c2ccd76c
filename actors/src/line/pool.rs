//! The read buffers of one worker.

use std::cell::RefCell;

use bytes::BytesMut;
use lineway_wire::queue::Buffers;

/// The size of one buffer, in bytes.
pub(super) const BUFFER: usize = 64 * 1024;

/// How many unused buffers a worker keeps.
const KEPT: usize = 16;

/// Read buffers of one worker: an idle line holds none, and a payload in steady state allocates
/// none.
#[derive(Debug, Default)]
pub struct Pool {
    free: RefCell<Vec<BytesMut>>,
}

impl Pool {
    /// A pool without buffers; they are made as they are needed.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many unused buffers there are.
    pub fn len(&self) -> usize {
        self.free.borrow().len()
    }

    /// True when there is no unused buffer.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees the unused buffers over `keep`.
    pub fn shrink(&self, keep: usize) {
        self.free.borrow_mut().truncate(keep);
    }
}

impl Buffers for Pool {
    /// An empty buffer of the one size that the pool has.
    fn take(&self) -> BytesMut {
        self.free.borrow_mut().pop().unwrap_or_else(|| BytesMut::with_capacity(BUFFER))
    }

    /// Gives a buffer back. Buffers of other sizes, and more than are kept, are freed.
    fn give(&self, mut buffer: BytesMut) {
        buffer.clear();
        let mut free = self.free.borrow_mut();
        // Wins back the room in front of bytes that were written out; a buffer that others still
        // share would be copied, so only whole ones pass.
        if free.len() < KEPT && buffer.try_reclaim(BUFFER) {
            free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Buf, BytesMut};

    use super::{BUFFER, Buffers, Pool};

    #[test]
    fn a_buffer_comes_back_whole_after_it_was_written_out() {
        let pool = Pool::new();
        let mut buffer = pool.take();
        buffer.extend_from_slice(&vec![1; BUFFER]);
        buffer.advance(BUFFER);
        pool.give(buffer);
        assert_eq!(pool.len(), 1);
        let buffer = pool.take();
        assert_eq!((buffer.len(), buffer.capacity()), (0, BUFFER));
    }

    #[test]
    fn buffers_of_other_sizes_are_not_kept() {
        let pool = Pool::new();
        pool.give(BytesMut::from("small"));
        assert!(pool.is_empty());
    }
}
