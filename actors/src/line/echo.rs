//! EchoServer: ends a chain and sends back what it gets, with backpressure.

use std::task::{Context, Poll};

use lineway_wire::line::{Water, WaterMarks};

use super::waiter::Waiter;
use lineway_wire::queue::ByteQueue;

/// What was sent in and is not yet taken back.
#[derive(Debug)]
pub struct Echo {
    held: ByteQueue,
    water: Water,
    full: bool,
    ended: bool,
    reader: Waiter,
    writer: Waiter,
}

impl Default for Echo {
    fn default() -> Self {
        Self {
            held: ByteQueue::default(),
            water: Water::new(WaterMarks::default()),
            full: false,
            ended: false,
            reader: Waiter::new(),
            writer: Waiter::new(),
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
            return self.writer.wait(cx);
        }
        let taken = queue.len();
        queue.move_to(&mut self.held);
        self.look();
        if taken > 0 {
            self.reader.wake();
        }
        Poll::Ready(taken)
    }

    /// Gives everything back.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, queue: &mut ByteQueue) -> Poll<usize> {
        let given = self.held.len();
        if given == 0 && !self.ended {
            return self.reader.wait(cx);
        }
        self.held.move_to(queue);
        self.look();
        if !self.full {
            self.writer.wake();
        }
        Poll::Ready(given)
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
        self.reader.wake();
    }

    fn look(&mut self) {
        let _ = self.water.level(self.held.len());
        self.full = self.water.room(self.held.len()) == 0;
    }
}
