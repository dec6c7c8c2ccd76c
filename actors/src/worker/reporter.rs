//! What a worker has for the supervisor, in batches.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::messages::{Report, Snapshot};
use crate::supervisor::{Outbox, SupervisorHandle};

/// Reports of this time go in one message: a line that came and went within it costs the supervisor
/// nothing. Short against every deadline that is watched and for people who look, long
/// against the wake-up of a sleeping thread.
const GATHER: Duration = Duration::from_millis(5);

/// Gathers reports; they leave in order, in one message for all of a turn and more.
pub struct Reporter {
    outbox: RefCell<Outbox>,
    flusher: RefCell<Option<Waker>>,
}

impl Reporter {
    pub(super) fn new(worker: u16, supervisor: SupervisorHandle) -> Self {
        Self { outbox: RefCell::new(Outbox::new(worker, supervisor)), flusher: RefCell::default() }
    }

    /// Adds a report to the next message.
    pub fn report(&self, report: Report) {
        self.outbox.borrow_mut().push(report);
        if let Some(flusher) = self.flusher.borrow_mut().take() {
            flusher.wake();
        }
    }

    /// Tells the whole truth about the worker; what was gathered is part of it.
    pub fn snapshot(&self, snapshot: Snapshot) {
        self.outbox.borrow_mut().snapshot(snapshot);
    }

    /// Sends the reports; the worker spawns this once.
    pub(super) async fn drive(self: Rc<Self>) {
        loop {
            std::future::poll_fn(|cx| {
                if self.outbox.borrow().is_empty() {
                    *self.flusher.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
            .await;
            tokio::time::sleep(GATHER).await;
            self.outbox.borrow_mut().flush();
        }
    }
}
