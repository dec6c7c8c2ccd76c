//! Maps whose keys this socket counts up itself.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers that nobody else chooses: their hash need not resist anybody.
pub(super) type Counted<V> = HashMap<u64, V, BuildHasherDefault<CountingHasher>>;

/// Spreads numbers that count up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountingHasher(u64);

impl Hasher for CountingHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // An odd factor keeps neighbours apart in the low bits and mixes the high ones.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}
