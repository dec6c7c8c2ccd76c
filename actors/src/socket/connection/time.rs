//! The limits of time of a connection, on one timer that is there only while one of them runs.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use lineway_wire::zmp::connection::handshake_timeout;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{End, PeerConnection, State};

/// How often a connection that is not read is asked for its error, and how long the one that reads
/// beyond its share may get nothing.
const LOOK: Duration = Duration::from_secs(1);

/// When something is over though nothing wakes the connection.
#[derive(Debug)]
pub(super) struct Times {
    /// The handshake.
    pub(super) handshake: Option<Instant>,
    /// Flushing, or parting.
    pub(super) part: Option<Instant>,
    /// Not being read.
    pub(super) look: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Times {
    /// The handshake is to be over by this time.
    pub(super) const fn new(handshake: Instant) -> Self {
        Self { handshake: Some(handshake), part: None, look: None, timer: None }
    }

    /// Looks again in a while.
    pub(super) fn look_soon(&mut self) {
        self.look.get_or_insert_with(|| Instant::now() + LOOK);
    }

    /// True while the timer is there.
    #[cfg(test)]
    pub(super) const fn is_armed(&self) -> bool {
        self.timer.is_some()
    }

    /// Sets the timer for what is over first.
    pub(super) fn arm(&mut self, cx: &mut Context<'_>) {
        let Some(next) = [self.handshake, self.part, self.look].into_iter().flatten().min() else {
            self.timer = None;
            return;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(next)));
        if timer.deadline() != next {
            timer.as_mut().reset(next);
        }
        if timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

impl PeerConnection {
    /// Does what is due.
    pub(super) fn mind_the_time(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.times.part) {
            if let State::Flushing(why) = self.state {
                self.over(why, None, None);
            }
            self.state = State::Over;
        }
        if due(self.times.handshake) && self.end.is_none() {
            self.times.handshake = None;
            if matches!(self.state, State::Open) {
                self.late = true;
            } else {
                self.end = Some(End::Fault(handshake_timeout()));
            }
        }
        if due(self.times.look) {
            self.times.look = None;
            self.reader.stalls();
            if let Some(error) = self.stream.take_error() {
                self.broke(&error);
            }
        }
    }
}
