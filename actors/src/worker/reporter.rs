//! What a worker has for the supervisor, in batches.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::messages::{Report, Reports};
use crate::supervisor::SupervisorHandle;

/// Reports of this time go in one message. Short against every deadline that is watched, long
/// against the wake-up of a sleeping thread.
const GATHER: Duration = Duration::from_millis(5);

/// Gathers reports; they leave in order, in one message for all of a turn and more.
#[derive(Debug)]
pub struct Reporter {
    worker: u16,
    supervisor: SupervisorHandle,
    pending: RefCell<Vec<Report>>,
    flusher: RefCell<Option<Waker>>,
    sent: Cell<u64>,
}

impl Reporter {
    pub(super) fn new(worker: u16, supervisor: SupervisorHandle) -> Self {
        Self {
            worker,
            supervisor,
            pending: RefCell::default(),
            flusher: RefCell::default(),
            sent: Cell::new(0),
        }
    }

    /// Adds a report to the next message.
    pub fn report(&self, report: Report) {
        self.pending.borrow_mut().push(report);
        if let Some(flusher) = self.flusher.borrow_mut().take() {
            flusher.wake();
        }
    }

    /// Sends what is gathered at once.
    pub fn flush(&self) {
        let reports = std::mem::take(&mut *self.pending.borrow_mut());
        if !reports.is_empty() {
            self.sent.set(self.sent.get() + 1);
            self.supervisor.send(Reports {
                worker: self.worker,
                reports,
            });
        }
    }

    /// Throws away what is gathered: a full account follows.
    pub fn forget(&self) {
        self.pending.borrow_mut().clear();
    }

    /// How many messages were sent.
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Sends the reports; the worker spawns this once.
    pub(super) async fn drive(self: Rc<Self>) {
        loop {
            std::future::poll_fn(|cx| {
                if self.pending.borrow().is_empty() {
                    *self.flusher.borrow_mut() = Some(cx.waker().clone());
                    Poll::Pending
                } else {
                    Poll::Ready(())
                }
            })
            .await;
            tokio::time::sleep(GATHER).await;
            self.flush();
        }
    }
}
