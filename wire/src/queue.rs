//! The bytes that wait in one direction of a line.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BytesMut};

/// Where empty buffers come from and used ones go back to.
pub trait Buffers {
    /// An empty buffer with room for a read.
    fn take(&self) -> BytesMut;

    /// Gives a buffer back.
    fn give(&self, buffer: BytesMut);
}

/// Buffers of the allocator, each with room for a few reads: for whoever has no pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unpooled;

impl Buffers for Unpooled {
    fn take(&self) -> BytesMut {
        BytesMut::with_capacity(4 * LEAST_ROOM)
    }

    fn give(&self, _: BytesMut) {}
}

/// A read is not started into less room than this.
const LEAST_ROOM: usize = 4 * 1024;

/// A piece under this many bytes is rather copied than kept in the buffer that it came in.
const SHORT: usize = 16 * 1024;

/// How many buffers one gathered write takes.
pub const GATHERED: usize = 16;

/// Buffers in order. One buffer stays inline, so that a payload that passes through at once
/// allocates nothing; buffers come from the worker's pool and go back to it.
#[derive(Debug, Default)]
pub struct ByteQueue {
    first: Option<BytesMut>,
    /// What does not fit into the first.
    #[expect(
        clippy::box_collection,
        reason = "most queues have one buffer or none: they are smaller"
    )]
    rest: Option<Box<VecDeque<BytesMut>>>,
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
            self.rest.get_or_insert_default().push_back(buffer);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &BytesMut> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    /// Takes the buffer that stands behind the first.
    fn next(&mut self) -> Option<BytesMut> {
        self.rest.as_mut()?.pop_front()
    }

    /// How many buffers wait.
    pub fn buffers(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.as_ref().map_or(0, |rest| rest.len())
    }

    /// Copies a few bytes to the end.
    pub fn append(&mut self, bytes: &[u8], pool: &impl Buffers) {
        self.tail(pool).extend_from_slice(bytes);
        self.filled(bytes.len(), pool);
    }

    /// Takes the first buffer away.
    pub fn pop(&mut self) -> Option<BytesMut> {
        let buffer = self.first.take()?;
        self.first = self.next();
        self.len -= buffer.len();
        Some(buffer)
    }

    /// A buffer at the end of the queue with room for a read: the last one, while it has some.
    /// After the read, [`Self::filled`] tells how much came.
    pub fn tail(&mut self, pool: &impl Buffers) -> &mut BytesMut {
        let last = self.rest.as_ref().and_then(|rest| rest.back()).or(self.first.as_ref());
        if last.is_none_or(|last| last.capacity() - last.len() < LEAST_ROOM) {
            self.push_slot(pool.take());
        }
        match self.rest.as_mut().and_then(|rest| rest.back_mut()) {
            Some(last) => last,
            None => self.first.get_or_insert_with(BytesMut::new),
        }
    }

    /// Tells how many bytes a read put into [`Self::tail`]; with 0 an unused buffer goes back.
    pub fn filled(&mut self, bytes: usize, pool: &impl Buffers) {
        self.len += bytes;
        if bytes == 0 {
            let rest = self.rest.as_mut();
            let unused = match rest.as_ref().and_then(|rest| rest.back()) {
                Some(last) => last.is_empty(),
                None => self.first.as_ref().is_some_and(BytesMut::is_empty),
            };
            let last = |rest: &mut Box<VecDeque<_>>| rest.pop_back();
            if unused && let Some(buffer) = rest.and_then(last).or_else(|| self.first.take()) {
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
        self.rest.as_ref().is_none_or(|rest| rest.is_empty())
    }

    /// The first buffers as slices of one gathered write. Gives how many were filled in.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slot, buffer) in slices.iter_mut().zip(self.iter()) {
            *slot = IoSlice::new(buffer);
            filled += 1;
        }
        filled
    }

    /// Takes `bytes` away at the front; emptied buffers go back to the pool.
    pub fn advance(&mut self, mut bytes: usize, pool: &impl Buffers) {
        debug_assert!(bytes <= self.len, "more bytes were written than waited");
        self.len -= bytes.min(self.len);
        while let Some(first) = &mut self.first {
            if bytes < first.len() {
                first.advance(bytes);
                return;
            }
            bytes -= first.len();
            let next = self.next();
            if let Some(emptied) = std::mem::replace(&mut self.first, next) {
                pool.give(emptied);
            }
        }
        if self.rest.as_ref().is_some_and(|rest| rest.capacity() > GATHERED) {
            self.rest = None;
        }
    }

    /// Throws away what waits.
    pub fn clear(&mut self, pool: &impl Buffers) {
        self.advance(self.len, pool);
    }

    /// Copies the first bytes out, without taking them away; `None` while there are not so many.
    pub fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        if self.len < N {
            return None;
        }
        let mut bytes = [0; N];
        if let Some(first) = self.head().first_chunk() {
            return Some(*first);
        }
        let waiting = self.iter().flat_map(|buffer| buffer.iter());
        for (byte, waits) in bytes.iter_mut().zip(waiting) {
            *byte = *waits;
        }
        Some(bytes)
    }

    /// Moves the first `bytes` to the end of another queue. Long pieces are not copied; a short one
    /// is, into memory of its own size, so that a few bytes that wait for long do not hold a whole
    /// read buffer.
    pub fn move_front(&mut self, mut bytes: usize, other: &mut Self, pool: &impl Buffers) {
        debug_assert!(bytes <= self.len, "more bytes are wanted than wait");
        while bytes > 0
            && let Some(first) = &mut self.first
        {
            let here = bytes.min(first.len());
            if here < SHORT {
                other.copy_in(&first[..here]);
                self.advance(here, pool);
            } else if here < first.len() {
                other.push(first.split_to(here));
                self.len -= here;
            } else if let Some(whole) = self.pop() {
                other.push(whole);
            }
            bytes -= here;
        }
    }

    fn copy_in(&mut self, bytes: &[u8]) {
        self.len += bytes.len();
        let last = self.rest.as_mut().and_then(|rest| rest.back_mut()).or(self.first.as_mut());
        let fits = |last: &&mut BytesMut| {
            last.capacity() - last.len() >= bytes.len() || last.len() + bytes.len() <= SHORT
        };
        if let Some(last) = last.filter(fits) {
            return last.extend_from_slice(bytes);
        }
        self.push_slot(BytesMut::from(bytes));
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
    use super::{ByteQueue, BytesMut, SHORT, Unpooled};

    fn all(queue: &ByteQueue) -> Vec<u8> {
        queue.iter().flat_map(|b| b.iter().copied()).collect()
    }

    #[test]
    fn bytes_come_out_in_order_at_any_step() {
        let pool = Unpooled;
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
        let pool = Unpooled;
        let mut queue = ByteQueue::default();
        queue.tail(&pool).extend_from_slice(b"xy");
        queue.filled(2, &pool);
        queue.tail(&pool).extend_from_slice(b"z");
        queue.filled(1, &pool);
        assert!(queue.is_single());
        assert_eq!(all(&queue), b"xyz");
    }

    #[test]
    fn the_front_moves_long_pieces_whole_and_short_ones_as_copies() {
        let pool = Unpooled;
        let mut queue = ByteQueue::default();
        let long: Vec<u8> = (0..2 * SHORT).map(|i| i as u8).collect();
        queue.push(BytesMut::from("abc"));
        queue.push(BytesMut::from(long.as_slice()));
        let at = queue.iter().nth(1).unwrap().as_ptr();
        let mut moved = ByteQueue::default();
        assert_eq!(queue.peek::<4>(), Some([b'a', b'b', b'c', 0]));
        queue.move_front(1, &mut moved, &pool);
        queue.move_front(2 + SHORT, &mut moved, &pool);
        queue.move_front(5, &mut moved, &pool);
        assert_eq!((moved.len(), queue.len()), (8 + SHORT, SHORT - 5));
        assert_eq!(moved.iter().nth(1).unwrap().as_ptr(), at, "not copied");
        let whole = [b"abc", &long[..SHORT + 5]].concat();
        assert_eq!(all(&moved), whole);
        assert_eq!(all(&queue), &long[SHORT + 5..]);
        assert_eq!(moved.peek::<{ 9 + SHORT }>(), None);
    }

    #[test]
    fn a_read_that_brought_nothing_leaves_no_buffer_behind() {
        let pool = Unpooled;
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
