//! The bindings in memory.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lineway_wire::sip::registrar::{Binding, Refusal};

/// So many that a sweep of one is short with a million bindings.
pub(super) const SHARDS: usize = 512;

/// An address of record of a table: the table's name behind its length, then the address.
pub(super) type Key = Arc<[u8]>;

/// The key of an address.
pub(super) fn key(table: &[u8], aor: &[u8]) -> Key {
    let length = (table.len() as u64).to_be_bytes();
    [&length[..], table, aor].concat().into()
}

/// All bindings. No lock is held while another one is taken.
pub(super) struct Memory {
    random: RandomState,
    shards: Box<[Mutex<Shard>]>,
    /// Room that is taken.
    bindings: AtomicUsize,
    /// The shard that a sweep begins with.
    next: AtomicUsize,
}

#[derive(Default)]
struct Shard {
    addresses: HashMap<Key, Box<[Binding]>>,
    /// None of its bindings is over before; `u64::MAX` for none. A refresh leaves it behind.
    earliest: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            random: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            bindings: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
        }
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("bindings", &self.bindings()).finish_non_exhaustive()
    }
}

impl Memory {
    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.random.hash_one(key) as usize % SHARDS])
    }

    /// Puts what `change` makes of the bindings of an address in their place, and gives what it
    /// gives. Where it says that bindings came, all must not be more than `most` then.
    pub(super) fn change<T>(
        &self,
        key: &Key,
        most: usize,
        change: impl FnOnce(&[Binding]) -> Result<(Vec<Binding>, bool, T), Refusal>,
    ) -> Result<T, Refusal> {
        let mut shard = self.shard(key);
        let old = shard.addresses.get(key).map_or(&[][..], |old| old);
        let before = old.len();
        let (bindings, grows, given) = change(old)?;
        self.take(before, bindings.len(), if grows { most } else { usize::MAX })?;
        shard.put(key, bindings);
        Ok(given)
    }

    /// Takes room for what comes, gives back that of what goes.
    fn take(&self, before: usize, after: usize, most: usize) -> Result<(), Refusal> {
        let change = |held: usize| {
            let held = held.saturating_sub(before) + after;
            (after <= before || held <= most).then_some(held)
        };
        let taken = self.bindings.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        taken.map(|_| ()).map_err(|_| Refusal::FULL)
    }

    /// What a file had.
    pub(super) fn load(&self, key: Key, bindings: Vec<Binding>) {
        self.bindings.fetch_add(bindings.len(), Ordering::Relaxed);
        self.shard(&key).put(&key, bindings);
    }

    pub(super) fn read<T>(&self, key: &[u8], read: impl FnOnce(&[Binding]) -> T) -> T {
        let shard = self.shard(key);
        read(shard.addresses.get(key).map_or(&[][..], |bindings| bindings))
    }

    /// Removes an address; how many bindings it had.
    pub(super) fn remove(&self, key: &[u8]) -> usize {
        let removed = self.shard(key).addresses.remove(key).map_or(0, |bindings| bindings.len());
        self.bindings.fetch_sub(removed, Ordering::Relaxed);
        removed
    }

    /// Removes bindings that are over, and gives how many. It ends behind a shard when it has
    /// looked at `budget` addresses.
    pub(super) fn sweep(&self, now: u64, budget: usize, changed: &mut Vec<Key>) -> usize {
        let first = self.next.load(Ordering::Relaxed);
        let (mut looked, mut expired) = (0, 0);
        for place in first..first + SHARDS {
            let mut shard = lock(&self.shards[place % SHARDS]);
            if shard.earliest > now {
                continue;
            }
            looked += shard.addresses.len();
            let swept = shard.sweep(now, changed);
            drop(shard);
            self.bindings.fetch_sub(swept, Ordering::Relaxed);
            expired += swept;
            if looked >= budget {
                self.next.store((place + 1) % SHARDS, Ordering::Relaxed);
                break;
            }
        }
        expired
    }

    /// How many there are.
    pub(super) fn bindings(&self) -> usize {
        self.bindings.load(Ordering::Relaxed)
    }

    /// Shows every address of one of [`SHARDS`].
    pub(super) fn each_of(&self, shard: usize, mut see: impl FnMut(&Key, &[Binding])) {
        for (key, bindings) in &lock(&self.shards[shard]).addresses {
            see(key, bindings);
        }
    }
}

impl Shard {
    fn put(&mut self, key: &Key, bindings: Vec<Binding>) {
        if bindings.is_empty() {
            self.addresses.remove(key);
            return;
        }
        self.earliest = self.earliest.min(earliest(&bindings));
        let bindings = bindings.into_boxed_slice();
        match self.addresses.get_mut(key) {
            Some(there) => *there = bindings,
            None => {
                self.addresses.insert(Arc::clone(key), bindings);
            }
        }
    }

    fn sweep(&mut self, now: u64, changed: &mut Vec<Key>) -> usize {
        let mut swept = 0;
        self.earliest = u64::MAX;
        self.addresses.retain(|key, bindings| {
            let over = bindings.iter().filter(|binding| !binding.is_live(now)).count();
            if over > 0 {
                swept += over;
                changed.push(Arc::clone(key));
                let live = bindings.iter().filter(|binding| binding.is_live(now)).cloned();
                *bindings = live.collect();
            }
            self.earliest = self.earliest.min(earliest(bindings));
            !bindings.is_empty()
        });
        swept
    }
}

/// When the first of them is over.
fn earliest(bindings: &[Binding]) -> u64 {
    bindings.iter().map(|binding| binding.expires).min().unwrap_or(u64::MAX)
}

/// A shard is whole at every step, so a panic beside it spoils nothing.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
