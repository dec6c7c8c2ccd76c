//! When a node that connects onward is not ready.

use std::time::{Duration, Instant};

/// How far back it looks.
const WINDOW: Duration = Duration::from_secs(30);
/// So many failed connects are needed.
const FAILURES: usize = 3;

/// Whether connects of a node come through (M-22).
///
/// It is not ready once three connects failed and none succeeded over the last 30 s; it is ready
/// again as soon as one succeeds, or when none was tried for 30 s: then nothing is known.
#[derive(Debug, Default)]
pub struct ConnectorHealth {
    succeeded: Option<Instant>,
    /// The last failures, oldest first.
    failed: [Option<Instant>; FAILURES],
    down: bool,
}

impl ConnectorHealth {
    /// A connect succeeded.
    pub fn succeeded(&mut self, now: Instant) {
        self.succeeded = Some(now);
        self.down = false;
    }

    /// A connect failed: refused, unreachable, too late, or its name did not resolve. One that was
    /// cancelled says nothing.
    pub fn failed(&mut self, now: Instant) {
        if !self.tried(now) {
            self.down = false;
        }
        self.failed.rotate_left(1);
        self.failed[FAILURES - 1] = Some(now);
        self.down |= self.fails(now);
    }

    /// Whether connects come through.
    ///
    /// # Errors
    /// The text for people: none does.
    pub fn ready(&self, now: Instant) -> Result<(), &'static str> {
        if self.tried(now) && (self.down || self.fails(now)) {
            Err("no connect succeeded for 30 s")
        } else {
            Ok(())
        }
    }

    /// True when there was an attempt in the window.
    fn tried(&self, now: Instant) -> bool {
        within(self.failed[FAILURES - 1], now) || within(self.succeeded, now)
    }

    /// True when the window has enough failures and no success.
    fn fails(&self, now: Instant) -> bool {
        within(self.failed[0], now) && !within(self.succeeded, now)
    }
}

fn within(time: Option<Instant>, now: Instant) -> bool {
    time.is_some_and(|time| now.saturating_duration_since(time) < WINDOW)
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
    fn case_m22_three_failures_and_no_success_in_30_s_are_not_ready() {
        let clock = Clock(Instant::now());
        let mut health = ConnectorHealth::default();
        assert!(health.ready(clock.at(0)).is_ok());
        health.failed(clock.at(0));
        health.failed(clock.at(1));
        assert!(health.ready(clock.at(1)).is_ok());
        health.failed(clock.at(2));
        assert!(health.ready(clock.at(2)).is_err());
        health.succeeded(clock.at(3));
        assert!(health.ready(clock.at(3)).is_ok());
    }

    #[test]
    fn case_m22_a_success_counts_for_30_s() {
        let clock = Clock(Instant::now());
        let mut health = ConnectorHealth::default();
        health.succeeded(clock.at(0));
        for second in 20..=29 {
            health.failed(clock.at(second));
            assert!(health.ready(clock.at(second)).is_ok());
        }
        assert!(health.ready(clock.at(30)).is_err());
    }

    #[test]
    fn case_m22_slow_failures_keep_it_down_and_silence_lifts_it() {
        let clock = Clock(Instant::now());
        let mut health = ConnectorHealth::default();
        for second in [0, 1, 2, 22, 42, 62] {
            health.failed(clock.at(second));
        }
        assert!(health.ready(clock.at(62)).is_err());
        assert!(health.ready(clock.at(91)).is_err());
        assert!(health.ready(clock.at(92)).is_ok());
        health.failed(clock.at(100));
        assert!(health.ready(clock.at(100)).is_ok());
    }

    #[test]
    fn three_failures_far_apart_are_ready() {
        let clock = Clock(Instant::now());
        let mut health = ConnectorHealth::default();
        for second in [0, 20, 40, 60, 80] {
            health.failed(clock.at(second));
            assert!(health.ready(clock.at(second)).is_ok());
        }
    }
}
