//! Idle times of a line (T06).

use std::time::{Duration, Instant};

/// The idle times that hold for one line; `None` = off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdleLimits {
    /// Until the first bytes in either direction.
    pub initial: Option<Duration>,
    /// After them.
    pub active: Option<Duration>,
}

impl IdleLimits {
    /// The limits of two nodes of one chain: the shorter one holds.
    #[must_use]
    pub fn shorter(self, other: Self) -> Self {
        let min = |a: Option<Duration>, b: Option<Duration>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self { initial: min(self.initial, other.initial), active: min(self.active, other.active) }
    }
}

/// When a line has been idle too long.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    limits: IdleLimits,
    since: Instant,
    moved: bool,
}

impl Idle {
    /// A line that began at `now` and moved nothing.
    pub const fn new(limits: IdleLimits, now: Instant) -> Self {
        Self { limits, since: now, moved: false }
    }

    /// Bytes moved, in either direction; true if they are the first.
    pub fn moved(&mut self, now: Instant) -> bool {
        self.since = now;
        !std::mem::replace(&mut self.moved, true)
    }

    /// The time counts from here on, though nothing moved: what the line waited for was not its peers.
    pub const fn begins(&mut self, now: Instant) {
        self.since = now;
    }

    /// When the line is over unless something moves before.
    pub fn deadline(&self) -> Option<Instant> {
        let limit = if self.moved { self.limits.active } else { self.limits.initial };
        limit.and_then(|limit| self.since.checked_add(limit))
    }

    /// True when the limit is over.
    pub fn expired(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| now >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Idle, IdleLimits};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn tcp_t06_the_initial_limit_holds_until_the_first_bytes_then_the_active_one() {
        let limits = IdleLimits { initial: Some(SECOND * 5), active: Some(SECOND * 300) };
        let start = Instant::now();
        let mut idle = Idle::new(limits, start);
        assert!(!idle.expired(start + Duration::from_millis(4999)));
        assert!(idle.expired(start + SECOND * 5));
        assert!(idle.moved(start + SECOND * 4));
        assert!(!idle.expired(start + SECOND * 303));
        assert!(idle.expired(start + SECOND * 304));
    }

    #[test]
    fn tcp_t06_zero_is_off_for_each() {
        let start = Instant::now();
        let mut idle = Idle::new(IdleLimits { initial: None, active: Some(SECOND) }, start);
        assert_eq!(idle.deadline(), None);
        idle.moved(start);
        assert_eq!(idle.deadline(), Some(start + SECOND));
    }

    #[test]
    fn tcp_t06_the_shorter_limit_of_a_chain_holds() {
        let near = IdleLimits { initial: Some(SECOND), active: Some(SECOND * 9) };
        let far = IdleLimits { initial: None, active: Some(SECOND * 3) };
        let both = near.shorter(far);
        assert_eq!(both, IdleLimits { initial: Some(SECOND), active: Some(SECOND * 3) });
    }
}
