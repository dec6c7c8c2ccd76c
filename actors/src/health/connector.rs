//! When a node that connects onward is not ready.

use std::time::{Duration, Instant};

/// How long connects have to fail, and how far back an attempt counts.
const WINDOW: Duration = Duration::from_secs(30);
/// So many failed connects are needed.
const FAILURES: usize = 3;

/// Whether connects of a node come through (M-22).
///
/// It is not ready once three connects or more failed and none succeeded for 30 s; it is ready
/// again as soon as one succeeds, or when none was tried for 30 s: then nothing is known. A race of
/// candidates may fail many times at once, which says no more than one failure.
#[derive(Debug, Default)]
pub struct ConnectorHealth {
    /// The first failure since the last success.
    since: Option<Instant>,
    /// The last failure.
    last: Option<Instant>,
    failures: usize,
}

impl ConnectorHealth {
    /// A connect succeeded.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// A connect failed: refused, unreachable, too late, or its name did not resolve. One that was
    /// cancelled says nothing.
    pub fn failed(&mut self, now: Instant) {
        if !self.tried(now) {
            *self = Self::default();
        }
        self.since.get_or_insert(now);
        self.last = Some(now);
        self.failures = self.failures.saturating_add(1);
    }

    /// Whether connects come through.
    ///
    /// # Errors
    /// The text for people: none does.
    pub fn ready(&self, now: Instant) -> Result<(), &'static str> {
        let long = self.since.is_some_and(|since| now.saturating_duration_since(since) >= WINDOW);
        if self.tried(now) && self.failures >= FAILURES && long {
            Err("no connect succeeded for 30 s")
        } else {
            Ok(())
        }
    }

    /// True when a failure is not long ago.
    fn tried(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.saturating_duration_since(last) < WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::ConnectorHealth;

    struct Clock(Instant);

    impl Clock {
        fn at(&self, seconds: u64) -> Instant {
            self.0 + Duration::from_secs(seconds)
        }
    }

    #[test]
    fn case_m22_failures_without_a_success_for_30_s_are_not_ready() {
        let clock = Clock(Instant::now());
        let mut health = ConnectorHealth::default();
        assert!(health.ready(clock.at(0)).is_ok());
        for second in [0, 10, 20] {
            health.failed(clock.at(second));
            assert!(health.ready(clock.at(second)).is_ok());
        }
        assert!(health.ready(clock.at(29)).is_ok());
        assert!(health.ready(clock.at(30)).is_err());
        health.succeeded();
        assert!(health.ready(clock.at(31)).is_ok());
    }

    #[test]
    fn case_m22_a_race_that_fails_at_once_is_not_an_outage() {
        let clock = Clock(Instant::now());
        let mut health = ConnectorHealth::default();
        for _ in 0..64 {
            health.failed(clock.at(0));
        }
        assert!(health.ready(clock.at(0)).is_ok());
        assert!(health.ready(clock.at(31)).is_ok(), "none was tried for 30 s");
    }

    #[test]
    fn case_m22_slow_failures_keep_it_down_and_silence_lifts_it() {
        let clock = Clock(Instant::now());
        let mut health = ConnectorHealth::default();
        for second in [0, 22, 42, 62] {
            health.failed(clock.at(second));
        }
        assert!(health.ready(clock.at(62)).is_err());
        assert!(health.ready(clock.at(91)).is_err());
        assert!(health.ready(clock.at(92)).is_ok());
        health.failed(clock.at(100));
        assert!(health.ready(clock.at(100)).is_ok());
    }
}
