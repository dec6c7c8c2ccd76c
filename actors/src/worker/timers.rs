//! The timers of one worker: one wheel and one sleep for all of its lines.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Instant;

use lineway_wire::wheel::{Key, Wheel};
use tokio::time::Instant as TokioInstant;

/// Wakes lines at the times that they asked for.
#[derive(Debug)]
pub struct Timers {
    inner: RefCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    wheel: Wheel<Waker>,
    /// When the driver wakes by itself.
    sleeps_until: Option<Instant>,
    driver: Option<Waker>,
}

impl Default for Timers {
    fn default() -> Self {
        let wheel = Wheel::new(now());
        Self { inner: RefCell::new(Inner { wheel, sleeps_until: None, driver: None }) }
    }
}

/// The time of this turn; virtual time under a paused clock.
pub fn now() -> Instant {
    TokioInstant::now().into_std()
}

impl Timers {
    /// Wakes `waker` at `deadline`, once.
    pub fn set(&self, deadline: Instant, waker: &Waker) -> Key {
        let mut inner = self.inner.borrow_mut();
        let key = inner.wheel.insert(deadline, waker.clone());
        if inner.sleeps_until.is_none_or(|until| deadline < until)
            && let Some(driver) = inner.driver.take()
        {
            driver.wake();
        }
        key
    }

    /// Takes a timer back; harmless when it has fired.
    pub fn cancel(&self, key: Key) {
        self.inner.borrow_mut().wheel.cancel(key);
    }

    /// How many timers are set.
    pub fn len(&self) -> usize {
        self.inner.borrow().wheel.len()
    }

    /// True when no timer is set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the driver is to look again.
    #[cfg(test)]
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        self.inner.borrow().wheel.next_wake()
    }

    /// Fires the timers; the worker spawns this once.
    pub(super) async fn drive(self: Rc<Self>) {
        let sleep = tokio::time::sleep_until(TokioInstant::now());
        tokio::pin!(sleep);
        let mut fired = Vec::new();
        std::future::poll_fn::<(), _>(|cx| {
            loop {
                let mut inner = self.inner.borrow_mut();
                inner.wheel.expire(now(), &mut fired);
                inner.sleeps_until = inner.wheel.next_wake();
                inner.driver = Some(cx.waker().clone());
                let until = inner.sleeps_until;
                drop(inner);
                for waker in fired.drain(..) {
                    waker.wake();
                }
                let Some(until) = until else {
                    return Poll::Pending;
                };
                sleep.as_mut().reset(TokioInstant::from_std(until));
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
            }
        })
        .await;
    }
}
