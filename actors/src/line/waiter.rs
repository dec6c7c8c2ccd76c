//! Who is to be woken when an end that is no socket can go on.

use std::task::{Context, Poll, Waker};

/// The one task that waits for something, if it waits.
#[derive(Debug)]
pub(super) struct Waiter(Option<Waker>);

impl Waiter {
    /// A place where nobody waits.
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// The task waits, until the next [`Self::wake`].
    pub(super) fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.0 = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Wakes the task that waits.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}
