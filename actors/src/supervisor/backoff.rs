//! When a long-lived actor is started again.

use std::time::{Duration, Instant};

/// The first delay.
const FIRST: Duration = Duration::from_millis(100);
/// The longest delay.
const LONGEST: Duration = Duration::from_secs(5);
/// Who lived so long has recovered.
const RECOVERED: Duration = Duration::from_secs(60);

/// The delays of one actor: 100 ms, doubling to 5 s, from the beginning after a minute of life.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    delay: Option<Duration>,
    /// When it was, or will be, started again.
    start: Option<Instant>,
}

impl Backoff {
    /// It died: when to start it again.
    pub(crate) fn died(&mut self, now: Instant) -> Instant {
        let lived = self.start.map(|start| now.saturating_duration_since(start));
        let delay = match (self.delay, lived) {
            (Some(delay), Some(lived)) if lived < RECOVERED => (delay * 2).min(LONGEST),
            _ => FIRST,
        };
        self.delay = Some(delay);
        let start = now + delay;
        self.start = Some(start);
        start
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Backoff, RECOVERED};

    #[test]
    fn the_delay_doubles_to_five_seconds_and_begins_again_after_a_minute_of_life() {
        let mut now = Instant::now();
        let mut backoff = Backoff::default();
        let mut delays = Vec::new();
        for _ in 0..8 {
            let start = backoff.died(now);
            delays.push((start - now).as_millis());
            now = start;
        }
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        now += Duration::from_millis(59_999);
        let start = backoff.died(now);
        assert_eq!((start - now).as_millis(), 5000);
        now = start + RECOVERED;
        assert_eq!((backoff.died(now) - now).as_millis(), 100);
    }
}
