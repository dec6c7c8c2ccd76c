//! What happens to a socket, as a stream of events (4.6).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use lineway_wire::zmp::monitor::Event;
use lineway_wire::zmp::outcome::{ConfigError, ConfigResult, Errno};

use super::Shared;
use super::wait::{On, WaitKey};

/// How many events wait to be taken at most.
const CAPACITY: usize = 10_000;

/// The events of one socket. Those that find the queue full are dropped; nothing waits for whoever
/// watches.
#[derive(Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
    key: Option<WaitKey>,
}

impl Monitor {
    pub(super) fn new(shared: &Arc<Shared>, mask: u32) -> Result<Self, ConfigError> {
        shared.step(|state| {
            if std::mem::replace(&mut state.monitored, true) {
                return Err(ConfigError::new(ConfigResult::Busy, Errno::EBUSY));
            }
            state.core.set_monitor(mask, CAPACITY);
            Ok(())
        })?;
        Ok(Self { shared: Arc::clone(shared), key: None })
    }

    /// The next event, if one is there.
    pub fn try_next(&self) -> Option<Event> {
        self.shared.step(|state| state.core.next_event())
    }

    /// The next event; `None` once the socket is over and every event is taken.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let Self { shared, key } = self;
        shared.step(|state| {
            let event = state.core.next_event();
            if event.is_none() && !state.over {
                match *key {
                    Some(key) => state.waits.again(key, cx.waker()),
                    None => *key = Some(state.wait(On::Monitor, cx.waker(), None)),
                }
                return Poll::Pending;
            }
            Poll::Ready(event)
        })
    }
}

impl Stream for Monitor {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_event(cx)
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.shared.step(|state| {
            if let Some(key) = self.key {
                state.waits.remove(key);
            }
            state.monitored = false;
            state.core.set_monitor(0, 0);
            while state.core.next_event().is_some() {}
        });
    }
}
