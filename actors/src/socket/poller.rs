//! Levels of readiness that are watched (2.8).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use lineway_wire::zmp::core::Readiness;
use lineway_wire::zmp::outcome::{ConfigError, ConfigResult, Errno};

use super::Shared;
use super::shared::State;
use super::wait::{On, WaitKey};

/// Watches levels of readiness of one socket (D-P1 to D-P5).
#[derive(Debug)]
pub struct Poller {
    shared: Arc<Shared>,
    interest: Readiness,
    key: Option<WaitKey>,
}

impl Poller {
    pub(super) fn new(shared: &Arc<Shared>, interest: Readiness) -> Result<Self, ConfigError> {
        shared.step(|state| {
            if interest.completion && std::mem::replace(&mut state.completions_watched, true) {
                return Err(ConfigError::new(ConfigResult::InvalidState, Errno::EBUSY));
            }
            Ok(())
        })?;
        Ok(Self { shared: Arc::clone(shared), interest, key: None })
    }

    /// Those of the levels that are there; pending while none is, and woken as soon as one is,
    /// whichever thread caused it (D-P4). A closed socket is ready with none.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Readiness> {
        let Self { shared, interest, key } = self;
        shared.step(|state| {
            let there = both(*interest, state);
            if there != Readiness::default() || state.closed {
                if let Some(key) = key.take() {
                    state.waits.remove(key);
                }
                return Poll::Ready(there);
            }
            match *key {
                Some(key) => state.waits.again(key, cx.waker()),
                None => *key = Some(state.wait(On::levels(*interest), cx.waker(), None)),
            }
            Poll::Pending
        })
    }

    /// Waits until one of the levels is there.
    pub async fn ready(&mut self) -> Readiness {
        poll_fn(|cx| self.poll_ready(cx)).await
    }
}

fn both(interest: Readiness, state: &State) -> Readiness {
    let now = state.core.readiness();
    Readiness {
        input: interest.input && now.input,
        output: interest.output && now.output,
        completion: interest.completion && now.completion,
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.shared.step(|state| {
            if let Some(key) = self.key {
                state.waits.remove(key);
            }
            if self.interest.completion {
                state.completions_watched = false;
            }
        });
    }
}
