//! File descriptors that lines may use, so that the rest of the service always has some (T02).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// Descriptors that are left for the admin interface, name servers, logs and the like.
pub const RESERVED: i64 = 32;

/// The descriptors of the process that lines may still take.
#[derive(Clone, Debug)]
pub struct Descriptors {
    free: Arc<AtomicI64>,
}

impl Descriptors {
    /// So many for lines.
    pub fn new(free: i64) -> Self {
        Self { free: Arc::new(AtomicI64::new(free.max(2))) }
    }

    /// What the process' limit leaves: raises the soft limit to the hard one, then takes off those
    /// that are open and [`RESERVED`].
    pub fn of_process() -> Self {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        if limit.current != limit.maximum {
            let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
            if setrlimit(Resource::Nofile, raised).is_ok() {
                limit = getrlimit(Resource::Nofile);
            }
        }
        let most = limit.current.map_or(i64::MAX / 2, |n| i64::try_from(n).unwrap_or(i64::MAX / 2));
        let open = std::fs::read_dir("/proc/self/fd").map_or(16, Iterator::count);
        Self::new(most - i64::try_from(open).unwrap_or(0) - RESERVED)
    }

    /// Takes `count` descriptors until the permit is dropped; `None` when they are not there.
    pub fn take(&self, count: u16) -> Option<Permit> {
        let wanted = i64::from(count);
        self.free
            .fetch_update(Relaxed, Relaxed, |free| (free >= wanted).then_some(free - wanted))
            .ok()
            .map(|_| Permit { free: Arc::clone(&self.free), count: wanted })
    }

    /// How many are left.
    pub fn free(&self) -> i64 {
        self.free.load(Relaxed)
    }
}

/// Descriptors in use by one line.
#[derive(Debug)]
pub struct Permit {
    free: Arc<AtomicI64>,
    count: i64,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.free.fetch_add(self.count, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Descriptors;

    #[test]
    fn tcp_t02_a_permit_is_refused_when_descriptors_are_out_and_comes_back_when_dropped() {
        let descriptors = Descriptors::new(5);
        let first = descriptors.take(2);
        let second = descriptors.take(2);
        assert!(first.is_some() && second.is_some());
        assert!(descriptors.take(2).is_none());
        drop(first);
        assert_eq!(descriptors.free(), 3);
        assert!(descriptors.take(2).is_some());
    }
}
