//! The task that answers a RouterSocket, whoever decides what it says.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lineway_wire::zmp::broker::Status;
use lineway_wire::zmp::core::Core;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use super::wait::{On, WaitKey, come_again, now};
use super::{Shared, Socket};

/// How many records or completions one step of a socket moves: a lock is held no longer.
pub(super) const BATCH: usize = 256;
/// How many steps one wake has before others on the thread have their turn.
pub(super) const STEPS: usize = 32;

/// What decides. It is polled by a [`Driver`], which knows neither sockets nor rules.
pub(super) trait Machine: Unpin + 'static {
    /// Does what there is to do; true when that was not all.
    fn turn(&mut self, now: Instant, waker: &Waker) -> bool;
    /// When a turn is due, whatever happens until then.
    fn next_deadline(&self) -> Option<Instant>;
    /// Takes nothing more; ends at the deadline at the latest.
    fn stop(&mut self, deadline: Instant);
    /// It was stopped and owes nothing.
    fn is_over(&self) -> bool;
    fn status(&self) -> Status;
}

/// A socket, and the wait of one task for its records and completions.
#[derive(Debug)]
pub(super) struct Watched {
    shared: Arc<Shared>,
    keys: [WaitKey; 2],
}

impl Watched {
    pub(super) fn new(socket: &Socket) -> Self {
        let shared = Arc::clone(socket.shared());
        let keys = shared.step(|state| {
            [On::Readable, On::Completions].map(|on| state.wait(on, Waker::noop(), None))
        });
        Self { shared, keys }
    }

    /// One step, after which the waker is woken by what comes. `None` when the socket is closed.
    pub(super) fn step<R>(&self, waker: &Waker, step: impl FnOnce(&mut Core) -> R) -> Option<R> {
        self.shared.step(|state| {
            if state.closed {
                return None;
            }
            for key in self.keys {
                state.waits.again(key, waker);
            }
            Some(step(&mut state.core))
        })
    }

    /// What the process has queued beside what the socket knows of changed by so much (B-7).
    pub(super) fn moved(&self, by: i64) {
        self.shared.total().moved(by);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.shared.step(|state| self.keys.map(|key| state.waits.remove(key)));
    }
}

/// Whoever answers a RouterSocket: a broker or an echo. It ends when this is dropped, without
/// answering what it has taken; [`Self::stop`] is the orderly way.
#[derive(Debug)]
pub struct Answering {
    status: Arc<Mutex<Status>>,
    stop: watch::Sender<Option<Instant>>,
    task: JoinHandle<()>,
}

impl Answering {
    /// Starts on this thread.
    ///
    /// # Panics
    /// Outside of a tokio `LocalSet`.
    pub(super) fn start(machine: impl Machine) -> Self {
        let status = Arc::new(Mutex::new(machine.status()));
        let (stop, mut stopped) = watch::channel(None);
        let told = async move { stopped.wait_for(Option::is_some).await.ok().and_then(|at| *at) };
        let driver = Driver {
            machine,
            sleep: None,
            stop: Some(Box::pin(told)),
            status: Arc::clone(&status),
        };
        Self { status, stop, task: tokio::task::spawn_local(driver) }
    }

    /// Counters, and how it stands, as of the last turn.
    pub fn status(&self) -> Status {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What reads the status, on any thread and for as long as it likes.
    pub fn reader(&self) -> impl Fn() -> Status + Clone + Send + Sync + 'static {
        let status = Arc::clone(&self.status);
        move || *status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes nothing more from clients, answers what was taken, and gives when that is done, after
    /// `patience` at the latest: what is not answered by then gets ERROR REPLY ESHUTDOWN. The
    /// answers are then on the links of the clients; closing the RouterSocket writes them.
    pub async fn stop(&mut self, patience: Duration) {
        self.stop.send_replace(Some(now() + patience));
        self.ended().await;
    }

    /// Gives when it has ended: after a stop, with one of its sockets, or by a panic. True when it
    /// was in order.
    pub async fn ended(&mut self) -> bool {
        if self.task.is_finished() {
            return true;
        }
        (&mut self.task).await.is_ok()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task.
struct Driver<M> {
    machine: M,
    sleep: Option<(Instant, Pin<Box<Sleep>>)>,
    /// Gives the deadline; `None` once it has.
    stop: Option<Pin<Box<dyn Future<Output = Option<Instant>>>>>,
    status: Arc<Mutex<Status>>,
}

impl<M: Machine> Future for Driver<M> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Some(stop) = &mut this.stop
            && let Poll::Ready(deadline) = stop.as_mut().poll(cx)
        {
            this.stop = None;
            this.machine.stop(deadline.unwrap_or_else(now));
        }
        loop {
            let more = this.machine.turn(now(), cx.waker());
            *this.status.lock().unwrap_or_else(PoisonError::into_inner) = this.machine.status();
            if this.machine.is_over() {
                return Poll::Ready(());
            }
            if more {
                come_again(cx);
                return Poll::Pending;
            }
            if this.poll_sleep(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

impl<M: Machine> Driver<M> {
    /// Ready when the machine's deadline is over.
    fn poll_sleep(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.machine.next_deadline() else {
            self.sleep = None;
            return Poll::Pending;
        };
        if self.sleep.as_ref().is_none_or(|(at, _)| *at != deadline) {
            let at = tokio::time::Instant::from_std(deadline);
            match &mut self.sleep {
                Some((old, sleep)) => {
                    *old = deadline;
                    sleep.as_mut().reset(at);
                }
                None => self.sleep = Some((deadline, Box::pin(tokio::time::sleep_until(at)))),
            }
        }
        match &mut self.sleep {
            Some((_, sleep)) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}
