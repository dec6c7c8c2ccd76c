//! EchoServer: ends a chain and sends back what it gets, with backpressure.

use std::task::{Context, Poll, Waker};

use lineway_wire::line::{Water, WaterMarks};

use super::queue::ByteQueue;

/// What was sent in and is not yet taken back.
#[derive(Debug)]
pub struct Echo {
    held: ByteQueue,
    water: Water,
    full: bool,
    ended: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Default for Echo {
    fn default() -> Self {
        Self {
            held: ByteQueue::default(),
            water: Water::new(WaterMarks::default()),
            full: false,
            ended: false,
            reader: None,
            writer: None,
        }
    }
}

impl Echo {
    /// Takes what waits in `queue`, unless too much waits to be taken back.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        queue: &mut ByteQueue,
    ) -> Poll<usize> {
        if self.full {
            self.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let taken = queue.len();
        queue.move_to(&mut self.held);
        self.look();
        if let Some(waker) = self.reader.take_if(|_| taken > 0) {
            waker.wake();
        }
        Poll::Ready(taken)
    }

    /// Gives everything back.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, queue: &mut ByteQueue) -> Poll<usize> {
        let given = self.held.len();
        if given == 0 && !self.ended {
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.held.move_to(queue);
        self.look();
        if let Some(waker) = self.writer.take_if(|_| !self.full) {
            waker.wake();
        }
        Poll::Ready(given)
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn look(&mut self) {
        let _ = self.water.level(self.held.len());
        self.full = self.water.room(self.held.len()) == 0;
    }
}
