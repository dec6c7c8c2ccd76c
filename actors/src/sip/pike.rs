//! Who floods (`KSR.pike`): requests of each source in a window of time.
//!
//! A source is an IPv4 address, or the /64 of an IPv6 one, since a single client has all of that. It
//! is blocked while this window or the one before it has more than the limit, so a flood ends its
//! own block one quiet window later. The number of sources is bounded: when all places are taken
//! and none is free again, a source that is not known passes.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dashmap::DashMap;

/// When a source floods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PikeLimits {
    /// Requests of one source in a window.
    pub requests: u32,
    /// The window.
    pub window: Duration,
    /// Sources that are watched at a time.
    pub sources: usize,
}

impl Default for PikeLimits {
    fn default() -> Self {
        Self { requests: 30, window: Duration::from_secs(2), sources: 100_000 }
    }
}

/// What a request of a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One to handle.
    Passes,
    /// The first one above the limit: worth a line in the log.
    Detected,
    /// One more of a source that floods.
    Blocked,
}

/// The sources. Any thread.
#[derive(Debug)]
pub struct Pike {
    start: Instant,
    sources: DashMap<IpAddr, Count>,
    /// The window in which old sources were last swept out: once in each is enough.
    swept: AtomicU64,
}

impl Default for Pike {
    fn default() -> Self {
        Self { start: Instant::now(), sources: DashMap::new(), swept: AtomicU64::new(0) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Count {
    window: u64,
    requests: u32,
    before: u32,
    known: bool,
}

impl Pike {
    /// Counts a request.
    pub fn check(&self, source: IpAddr, limits: PikeLimits, now: Instant) -> Verdict {
        let window = self.window(limits.window, now);
        let source = network(source);
        if let Some(mut count) = self.sources.get_mut(&source) {
            return count.one_more(window, limits.requests);
        }
        if self.sources.len() >= limits.sources && !self.sweep(window) {
            return Verdict::Passes;
        }
        let fresh = Count { window, requests: 0, before: 0, known: false };
        self.sources.entry(source).or_insert(fresh).one_more(window, limits.requests)
    }

    fn window(&self, length: Duration, now: Instant) -> u64 {
        let passed = now.saturating_duration_since(self.start).as_millis();
        let length = length.as_millis().max(1);
        u64::try_from(passed / length).unwrap_or(u64::MAX)
    }

    /// Lets sources go that have been quiet for a window; whether there is a place again.
    fn sweep(&self, window: u64) -> bool {
        if self.swept.fetch_max(window, Ordering::Relaxed) >= window {
            return false;
        }
        let before = self.sources.len();
        self.sources.retain(|_, count| count.window.saturating_add(1) >= window);
        self.sources.len() < before
    }
}

impl Count {
    fn one_more(&mut self, window: u64, most: u32) -> Verdict {
        if window > self.window {
            self.before = if window == self.window + 1 { self.requests } else { 0 };
            self.window = window;
            self.requests = 0;
        }
        self.requests = self.requests.saturating_add(1);
        let floods = self.requests > most || self.before > most;
        let was_known = std::mem::replace(&mut self.known, floods);
        match (floods, was_known) {
            (false, _) => Verdict::Passes,
            (true, false) => Verdict::Detected,
            (true, true) => Verdict::Blocked,
        }
    }
}

/// The source that an address belongs to.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PikeLimits =
        PikeLimits { requests: 3, window: Duration::from_secs(2), sources: 2 };

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn checks(pike: &Pike, source: &str, count: usize, after: f32) -> Vec<Verdict> {
        let now = pike.start + Duration::from_secs_f32(after);
        (0..count).map(|_| pike.check(address(source), LIMITS, now)).collect()
    }

    #[test]
    fn a_source_above_the_limit_is_detected_once_and_then_blocked() {
        let pike = Pike::default();
        assert_eq!(checks(&pike, "10.0.0.1", 3, 0.1), [Verdict::Passes; 3]);
        assert_eq!(
            checks(&pike, "10.0.0.1", 3, 0.2),
            [Verdict::Detected, Verdict::Blocked, Verdict::Blocked]
        );
        assert_eq!(checks(&pike, "10.0.0.2", 1, 0.2), [Verdict::Passes], "another source");
    }

    #[test]
    fn a_block_ends_after_a_quiet_window() {
        let pike = Pike::default();
        checks(&pike, "10.0.0.1", 5, 0.1);
        assert_eq!(checks(&pike, "10.0.0.1", 1, 2.1), [Verdict::Blocked]);
        assert_eq!(checks(&pike, "10.0.0.1", 1, 4.1), [Verdict::Passes]);
        checks(&pike, "10.0.0.1", 2, 4.2);
        assert_eq!(checks(&pike, "10.0.0.1", 1, 4.3), [Verdict::Detected], "a second flood");
    }

    #[test]
    fn a_long_silence_forgets_the_last_window() {
        let pike = Pike::default();
        checks(&pike, "10.0.0.1", 5, 0.1);
        assert_eq!(checks(&pike, "10.0.0.1", 1, 60.0), [Verdict::Passes]);
    }

    #[test]
    fn an_ipv6_source_is_its_network() {
        let pike = Pike::default();
        checks(&pike, "2001:db8::1", 3, 0.1);
        assert_eq!(checks(&pike, "2001:db8::ffff:1", 1, 0.1), [Verdict::Detected]);
        assert_eq!(checks(&pike, "2001:db8:0:1::1", 1, 0.1), [Verdict::Passes]);
        assert_eq!(network(address("::ffff:10.0.0.1")), address("10.0.0.1"));
    }

    #[test]
    fn sources_are_bounded_and_old_ones_make_room() {
        let pike = Pike::default();
        checks(&pike, "10.0.0.1", 1, 0.1);
        checks(&pike, "10.0.0.2", 1, 0.1);
        assert_eq!(checks(&pike, "10.0.0.3", 9, 0.1), [Verdict::Passes; 9], "not watched");
        assert_eq!(pike.sources.len(), 2);
        assert_eq!(checks(&pike, "10.0.0.3", 4, 6.1).last(), Some(&Verdict::Detected));
        assert_eq!(pike.sources.len(), 1);
    }
}
