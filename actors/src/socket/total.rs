//! What all sockets of the process have queued together (`total-queue-bytes`, B-7).

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// The bytes that every socket of the process has queued, and the limit above which reading stops.
#[derive(Debug)]
pub struct Total {
    limit: i64,
    used: AtomicI64,
}

impl Total {
    /// A total with this limit in bytes; 0 = none.
    pub fn new(limit: u64) -> Self {
        let limit = if limit == 0 { i64::MAX } else { i64::try_from(limit).unwrap_or(i64::MAX) };
        Self { limit, used: AtomicI64::new(0) }
    }

    /// So much more is queued, or less.
    pub fn moved(&self, delta: i64) {
        self.used.fetch_add(delta, Relaxed);
    }

    /// What is queued.
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed).max(0).cast_unsigned()
    }

    /// True while nothing may be read.
    pub fn is_over(&self) -> bool {
        self.used.load(Relaxed) > self.limit
    }
}
