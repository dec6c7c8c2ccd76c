//! Retransmission of one message (17.1.1.2, 17.1.2.2), to the instant.

use std::time::{Duration, Instant};

use crate::sip::transaction::Timing;

/// The shortest interval: one of nothing would send without end.
const SHORTEST: Duration = Duration::from_millis(1);

/// What is longer than any transaction, for times that no clock can show.
const LONG: Duration = Duration::from_secs(100 * 365 * 86_400);

/// That much later.
pub(super) fn after(at: Instant, wait: Duration) -> Instant {
    at.checked_add(wait).unwrap_or_else(|| at + LONG)
}

/// An interval in whole milliseconds, never of nothing.
fn millis(time: Duration) -> u32 {
    u32::try_from(time.max(SHORTEST).as_millis()).unwrap_or(u32::MAX)
}

fn time(millis: u32) -> Duration {
    Duration::from_millis(millis.into())
}

/// When a message is sent again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeat {
    next: Instant,
    /// In milliseconds.
    interval: u32,
}

impl Repeat {
    /// Of a message that leaves at this time: T1 later for the first time, then doubling up to T2
    /// (R34, R37).
    pub(super) fn new(timing: &Timing, now: Instant) -> Self {
        let interval = millis(timing.t1.min(timing.t2));
        Self { next: after(now, time(interval)), interval }
    }
    /// From here on at T2 (R36).
    pub(super) fn slow(&mut self, timing: &Timing, now: Instant) {
        self.interval = millis(timing.t2);
        self.next = after(now, time(self.interval));
    }
    pub(super) const fn next(&self) -> Instant {
        self.next
    }
    /// Whether it is sent again at this time; what was missed meanwhile is not made up for.
    pub(super) fn due(&mut self, timing: &Timing, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        self.interval = self.interval.saturating_mul(2).min(millis(timing.t2));
        self.next = after(self.next, time(self.interval));
        if self.next <= now {
            self.next = after(now, time(self.interval));
        }
        true
    }
}
