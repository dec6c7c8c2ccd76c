//! The bytes that wait in one direction of a line.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BytesMut};

use super::pool::Pool;

/// A read is not started into less room than this.
const LEAST_ROOM: usize = 4 * 1024;

/// How many buffers one gathered write takes.
pub(super) const GATHERED: usize = 16;

/// Buffers in order. One buffer stays inline, so that a payload that passes through at once
/// allocates nothing; buffers come from the worker's pool and go back to it.
#[derive(Debug, Default)]
pub struct ByteQueue {
    first: Option<BytesMut>,
    rest: VecDeque<BytesMut>,
    len: usize,
}

impl ByteQueue {
    /// Bytes that wait.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when no byte waits.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a buffer at the end; an empty one takes no place.
    pub fn push(&mut self, buffer: BytesMut) {
        if buffer.is_empty() {
            return;
        }
        self.len += buffer.len();
        self.push_slot(buffer);
    }

    fn push_slot(&mut self, buffer: BytesMut) {
        if self.first.is_none() {
            self.first = Some(buffer);
        } else {
            self.rest.push_back(buffer);
        }
    }

    /// How many buffers wait.
    pub fn buffers(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Copies a few bytes to the end.
    pub fn append(&mut self, bytes: &[u8], pool: &Pool) {
        self.tail(pool).extend_from_slice(bytes);
        self.filled(bytes.len(), pool);
    }

    /// Takes the first buffer away.
    pub fn pop(&mut self) -> Option<BytesMut> {
        let buffer = self.first.take()?;
        self.first = self.rest.pop_front();
        self.len -= buffer.len();
        Some(buffer)
    }

    /// A buffer at the end of the queue with room for a read: the last one, while it has some.
    /// After the read, [`Self::filled`] tells how much came.
    pub fn tail(&mut self, pool: &Pool) -> &mut BytesMut {
        let last = self.rest.back().or(self.first.as_ref());
        if last.is_none_or(|last| last.capacity() - last.len() < LEAST_ROOM) {
            self.push_slot(pool.take());
        }
        match self.rest.back_mut() {
            Some(last) => last,
            None => self.first.get_or_insert_with(BytesMut::new),
        }
    }

    /// Tells how many bytes a read put into [`Self::tail`]; with 0 an unused buffer goes back.
    pub fn filled(&mut self, bytes: usize, pool: &Pool) {
        self.len += bytes;
        if bytes == 0 {
            let unused = match self.rest.back() {
                Some(last) => last.is_empty(),
                None => self.first.as_ref().is_some_and(BytesMut::is_empty),
            };
            if unused && let Some(buffer) = self.rest.pop_back().or_else(|| self.first.take()) {
                pool.give(buffer);
            }
        }
    }

    /// The first buffer's bytes; empty when nothing waits.
    pub fn head(&self) -> &[u8] {
        self.first.as_deref().unwrap_or_default()
    }

    /// True when all that waits stands in one buffer.
    pub fn is_single(&self) -> bool {
        self.rest.is_empty()
    }

    /// The first buffers as slices of one gathered write. Gives how many were filled in.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slot, buffer) in slices.iter_mut().zip(self.first.iter().chain(&self.rest)) {
            *slot = IoSlice::new(buffer);
            filled += 1;
        }
        filled
    }

    /// Takes `bytes` away at the front; emptied buffers go back to the pool.
    pub fn advance(&mut self, mut bytes: usize, pool: &Pool) {
        debug_assert!(bytes <= self.len, "more bytes were written than waited");
        self.len -= bytes.min(self.len);
        while let Some(first) = &mut self.first {
            if bytes < first.len() {
                first.advance(bytes);
                return;
            }
            bytes -= first.len();
            let next = self.rest.pop_front();
            if let Some(emptied) = std::mem::replace(&mut self.first, next) {
                pool.give(emptied);
            }
        }
        if self.rest.capacity() > GATHERED {
            self.rest = VecDeque::new();
        }
    }

    /// Throws away what waits.
    pub fn clear(&mut self, pool: &Pool) {
        self.advance(self.len, pool);
    }

    /// Moves all that waits to the end of another queue.
    pub fn move_to(&mut self, other: &mut Self) {
        while let Some(buffer) = self.pop() {
            other.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteQueue, BytesMut, Pool};

    fn all(queue: &ByteQueue) -> Vec<u8> {
        queue.first.iter().chain(&queue.rest).flat_map(|b| b.iter().copied()).collect()
    }

    #[test]
    fn bytes_come_out_in_order_at_any_step() {
        let pool = Pool::new();
        let mut queue = ByteQueue::default();
        for part in ["ab", "", "cde", "f"] {
            queue.push(BytesMut::from(part));
        }
        assert_eq!((queue.len(), queue.is_single()), (6, false));
        queue.advance(3, &pool);
        assert_eq!((all(&queue), queue.head()), (b"def".to_vec(), b"de".as_slice()));
        queue.advance(3, &pool);
        assert!(queue.is_empty());
        assert!(queue.first.is_none());
    }

    #[test]
    fn a_read_fills_the_last_buffer_before_it_takes_another() {
        let pool = Pool::new();
        let mut queue = ByteQueue::default();
        queue.tail(&pool).extend_from_slice(b"xy");
        queue.filled(2, &pool);
        queue.tail(&pool).extend_from_slice(b"z");
        queue.filled(1, &pool);
        assert!(queue.is_single());
        assert_eq!(all(&queue), b"xyz");
    }

    #[test]
    fn a_read_that_brought_nothing_leaves_no_buffer_behind() {
        let pool = Pool::new();
        let mut queue = ByteQueue::default();
        queue.tail(&pool);
        queue.filled(0, &pool);
        assert!(queue.first.is_none());
        queue.push(BytesMut::from("a"));
        queue.tail(&pool);
        queue.filled(0, &pool);
        assert_eq!((all(&queue), queue.is_single()), (b"a".to_vec(), true));
    }
}
