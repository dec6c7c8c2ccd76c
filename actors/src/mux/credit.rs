//! Credit between a child and its parent: payload under way is bounded, whatever a mailbox takes.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use actix::Recipient;
use futures_util::task::AtomicWaker;
use lineway_wire::mux::{ChildEnd, ChildKey, Owner};
use lineway_wire::queue::ByteQueue;

use crate::messages::{Face, ParentSays, ParentWord};

/// Bytes that may be under way in one direction between a child and its parent.
pub(super) const MOST_BYTES: usize = 128 * 1024;

/// Buffers that may be.
pub(super) const MOST_BUFFERS: usize = 256;

/// One direction of a [`Link`].
#[derive(Debug, Default)]
struct UnderWay {
    bytes: AtomicUsize,
    buffers: AtomicUsize,
    /// Its producer has more and no room.
    wanted: AtomicBool,
}

impl UnderWay {
    fn room(&self) -> usize {
        if self.buffers.load(Relaxed) >= MOST_BUFFERS {
            return 0;
        }
        MOST_BYTES.saturating_sub(self.bytes.load(Relaxed))
    }
}

/// The two directions between one child and its parent, both of one worker.
///
/// Toward the parent, the child is the producer, and its bytes are under way until the transport
/// has taken them. Toward the child it is the parent, and bytes are under way until the child's
/// line has taken them.
pub struct Link {
    key: ChildKey,
    to_parent: UnderWay,
    to_child: UnderWay,
    /// The child's actor; another one, once a candidate became part of its main line.
    home: Mutex<Option<Recipient<ParentSays>>>,
    /// The child's task, while it waits for room.
    child: AtomicWaker,
    returns: Arc<Returns>,
}

/// Which way on a [`Link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// From the child to its parent.
    Parent,
    /// From the parent to its child.
    Child,
}

/// What the children of one parent tell it without a message: that they have room again, and that
/// they are on their way to it.
#[derive(Debug, Default)]
pub struct Returns {
    keys: Mutex<Vec<ChildKey>>,
    coming: AtomicUsize,
    parent: AtomicWaker,
}

impl Returns {
    /// The parent's task waits for room of any child.
    pub fn wait(&self, waker: &Waker) {
        self.parent.register(waker);
    }

    /// The children that have room again since this was asked last.
    pub fn take(&self) -> Vec<ChildKey> {
        std::mem::take(&mut *self.keys.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True while a child has a place here and has not joined: a parent does not end under it.
    pub fn expects(&self) -> bool {
        self.coming.load(Relaxed) > 0
    }

    fn has_room(&self, key: ChildKey) {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).push(key);
        self.wake();
    }

    /// The parent gets another turn.
    pub fn wake(&self) {
        self.parent.wake();
    }
}

/// A child that was given a place on a parent and did not join yet. Dropped, it does not come, or
/// is there.
#[derive(Debug)]
pub struct Coming(Arc<Returns>);

impl Coming {
    /// A child of the parent with these returns.
    pub fn new(returns: &Arc<Returns>) -> Self {
        returns.coming.fetch_add(1, Relaxed);
        Self(Arc::clone(returns))
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.0.coming.fetch_sub(1, Relaxed);
        self.0.parent.wake();
    }
}

/// A child joins a parent. Where nobody takes it, because the actor of the parent panicked, the
/// child is told that it is over.
#[derive(Debug)]
pub struct Joining {
    link: Option<Arc<Link>>,
    _coming: Option<Coming>,
}

impl Joining {
    /// A child whose home the link knows.
    pub const fn new(link: Arc<Link>, coming: Option<Coming>) -> Self {
        Self { link: Some(link), _coming: coming }
    }

    /// The parent takes the child.
    pub fn take(mut self) -> Option<Arc<Link>> {
        self.link.take()
    }
}

impl Drop for Joining {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            link.tell(Face::Near, ParentWord::Finish(ChildEnd::Panic));
        }
    }
}

impl Link {
    /// A link on which nothing is under way.
    pub fn new(key: ChildKey, returns: &Arc<Returns>) -> Arc<Self> {
        Arc::new(Self {
            key,
            to_parent: UnderWay::default(),
            to_child: UnderWay::default(),
            home: Mutex::default(),
            child: AtomicWaker::new(),
            returns: Arc::clone(returns),
        })
    }

    /// What the parent says goes to this actor from here on.
    pub fn set_home(&self, home: Recipient<ParentSays>) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = Some(home);
    }

    /// The parent says something to its child.
    pub fn tell(&self, face: Face, says: ParentWord) {
        if let Some(home) = &*self.home.lock().unwrap_or_else(PoisonError::into_inner) {
            home.do_send(ParentSays { key: self.key, face, says });
        }
    }

    const fn way(&self, toward: Toward) -> &UnderWay {
        match toward {
            Toward::Parent => &self.to_parent,
            Toward::Child => &self.to_child,
        }
    }

    /// Bytes under way.
    pub fn under_way(&self, toward: Toward) -> usize {
        self.way(toward).bytes.load(Relaxed)
    }

    /// How many more bytes may go this way. With 0 the producer is told when there is room: the
    /// parent by [`Returns`], the child by its waker.
    pub fn room(&self, toward: Toward) -> usize {
        let way = self.way(toward);
        let room = way.room();
        if room == 0 {
            way.wanted.store(true, Relaxed);
        }
        room
    }

    /// The child's task waits for room towards the parent.
    pub fn wait(&self, waker: &Waker) {
        self.child.register(waker);
    }

    /// Bytes in so many buffers have arrived, or are lost.
    pub fn give_back(&self, toward: Toward, bytes: usize, buffers: usize) {
        let way = self.way(toward);
        way.bytes.fetch_sub(bytes, Relaxed);
        way.buffers.fetch_sub(buffers, Relaxed);
        if way.wanted.load(Relaxed) && way.room() > 0 && way.wanted.swap(false, Relaxed) {
            match toward {
                Toward::Parent => self.child.wake(),
                Toward::Child => self.returns.has_room(self.key),
            }
        }
    }
}

/// A child as its parent has it.
#[derive(Debug)]
pub(super) struct Holder(pub(super) Arc<Link>);

impl Owner for Holder {
    fn room(&self) -> usize {
        self.0.room(Toward::Child)
    }

    fn give_back(&self, bytes: usize, buffers: usize) {
        self.0.give_back(Toward::Parent, bytes, buffers);
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("key", &self.key)
            .field("to_parent", &self.to_parent)
            .field("to_child", &self.to_child)
            .finish_non_exhaustive()
    }
}

/// Payload under way. One that nobody takes, because its message was dropped or its actor
/// panicked, gives its credit back.
#[derive(Debug)]
pub struct Batch {
    payload: ByteQueue,
    link: Arc<Link>,
    toward: Toward,
}

impl Batch {
    /// Sends payload on its way.
    pub fn new(link: &Arc<Link>, toward: Toward, payload: ByteQueue) -> Self {
        let way = link.way(toward);
        way.bytes.fetch_add(payload.len(), Relaxed);
        way.buffers.fetch_add(payload.buffers(), Relaxed);
        Self { payload, link: Arc::clone(link), toward }
    }

    /// Takes the payload; whoever does gives the credit back when it is done with it.
    pub fn take(mut self) -> ByteQueue {
        std::mem::take(&mut self.payload)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.payload.is_empty() {
            self.link.give_back(self.toward, self.payload.len(), self.payload.buffers());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::BytesMut;
    use lineway_wire::mux::ChildKey;
    use lineway_wire::queue::ByteQueue;

    use super::{Batch, Link, MOST_BUFFERS, MOST_BYTES, Returns, Toward};

    fn payload(bytes: usize, buffers: usize) -> ByteQueue {
        let mut queue = ByteQueue::default();
        for _ in 0..buffers {
            queue.push(BytesMut::zeroed(bytes / buffers));
        }
        queue
    }

    #[test]
    fn mux_credit_ends_at_the_mark_and_a_dropped_message_gives_it_back() {
        let returns = Arc::<Returns>::default();
        let link = Link::new(ChildKey(7), &returns);
        let batch = Batch::new(&link, Toward::Child, payload(MOST_BYTES, 4));
        assert_eq!(link.room(Toward::Child), 0);
        assert_eq!(link.room(Toward::Parent), MOST_BYTES);
        drop(batch);
        assert_eq!(link.room(Toward::Child), MOST_BYTES);
        assert_eq!(returns.take(), [ChildKey(7)]);
        assert!(returns.take().is_empty());
    }

    #[test]
    fn mux_credit_is_for_buffers_as_well() {
        let link = Link::new(ChildKey(1), &Arc::default());
        let batch = Batch::new(&link, Toward::Parent, payload(MOST_BUFFERS, MOST_BUFFERS));
        assert_eq!(link.room(Toward::Parent), 0);
        let taken = batch.take();
        assert_eq!(link.under_way(Toward::Parent), MOST_BUFFERS);
        link.give_back(Toward::Parent, taken.len(), taken.buffers());
        assert_eq!(link.room(Toward::Parent), MOST_BYTES);
    }
}
