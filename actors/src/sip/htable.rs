//! Tables that the scripts of all workers share (`KSR.htable`, `$sht`): a name, keys and values,
//! bounded in entries and bytes.
//!
//! A table is there from its first entry on. An entry stays until it is removed or, where it has
//! been given an end, until that; what is over is gone when it is asked for, and all of it is swept
//! out when the table is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry as Place;

/// The most tables of a node.
const MOST_TABLES: usize = 256;
/// The longest name of a table, and the longest key.
const LONGEST_KEY: usize = 1024;
/// The longest value.
const LONGEST_VALUE: usize = 64 * 1024;
/// What an entry may have on average, key and value: a table of n entries holds at most n times
/// this.
const BYTES_OF_ENTRY: usize = 1024;

/// A value of a table or of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datum {
    /// A number.
    Int(i64),
    /// A text of any bytes.
    Text(Bytes),
}

impl Datum {
    /// The bytes that it holds on to.
    pub fn size(&self) -> usize {
        match self {
            Self::Int(_) => size_of::<i64>(),
            Self::Text(text) => text.len(),
        }
    }
}

/// Why something can not be put into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are 256 tables.
    #[error("there are too many tables")]
    Tables,
    /// The table has as many entries, or as many bytes, as it may have.
    #[error("the table is full (max-htable-entries)")]
    Full,
    /// A key above 1 KiB or a value above 64 KiB.
    #[error("the key or the value is too long")]
    TooLong,
}

/// All tables of a node.
#[derive(Debug, Default)]
pub struct Tables {
    tables: DashMap<Bytes, Arc<Table>>,
}

impl Tables {
    /// The value of a key.
    pub fn get(&self, table: &[u8], key: &[u8], now: Instant) -> Option<Datum> {
        self.table(table)?.read(key, now, |entry| entry.value.clone())
    }

    /// Sets a key in a table of at most `most` entries. An end that it had stays.
    ///
    /// # Errors
    /// [`Refused`]; what was there stays.
    pub fn set(
        &self,
        table: &[u8],
        key: &[u8],
        value: Datum,
        most: usize,
        now: Instant,
    ) -> Result<(), Refused> {
        self.change(table, key, most, now, |_| value)
    }

    /// Adds to the number of a key, 0 where there is none, and gives the sum. No two workers get
    /// the same one.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn add(
        &self,
        table: &[u8],
        key: &[u8],
        step: i64,
        most: usize,
        now: Instant,
    ) -> Result<i64, Refused> {
        let mut sum = 0;
        self.change(table, key, most, now, |old| {
            sum = match old {
                Some(Datum::Int(number)) => number.saturating_add(step),
                _ => step,
            };
            Datum::Int(sum)
        })?;
        Ok(sum)
    }

    /// Lets a key end after `left`; false where there is no such key.
    pub fn expire(&self, table: &[u8], key: &[u8], left: Duration, now: Instant) -> bool {
        let Some(table) = self.table(table) else { return false };
        let Some(mut entry) = table.entries.get_mut(key) else { return false };
        entry.ends = now.checked_add(left);
        true
    }

    /// How long a key has left; `None` without the key, `Some(None)` without an end.
    pub fn left(&self, table: &[u8], key: &[u8], now: Instant) -> Option<Option<Duration>> {
        let left = |entry: &Entry| entry.ends.map(|ends| ends.saturating_duration_since(now));
        self.table(table)?.read(key, now, left)
    }

    /// Removes a key; false where there is no such table.
    pub fn remove(&self, table: &[u8], key: &[u8]) -> bool {
        let Some(table) = self.table(table) else { return false };
        if let Some((key, entry)) = table.entries.remove(key) {
            table.give_back(1, key.len() + entry.value.size());
        }
        true
    }

    /// Whether a key of the table passes the test; walks over all of them.
    pub fn any_key(&self, table: &[u8], now: Instant, test: impl Fn(&[u8]) -> bool) -> bool {
        let Some(table) = self.table(table) else { return false };
        let mut entries = table.entries.iter();
        entries.any(|entry| !entry.is_over(now) && test(entry.key()))
    }

    fn table(&self, name: &[u8]) -> Option<Arc<Table>> {
        self.tables.get(name).map(|table| Arc::clone(&table))
    }

    fn change(
        &self,
        name: &[u8],
        key: &[u8],
        most: usize,
        now: Instant,
        change: impl FnOnce(Option<&Datum>) -> Datum,
    ) -> Result<(), Refused> {
        if name.len() > LONGEST_KEY || key.len() > LONGEST_KEY {
            return Err(Refused::TooLong);
        }
        let table = match self.table(name) {
            Some(table) => table,
            None if self.tables.len() >= MOST_TABLES => return Err(Refused::Tables),
            None => Arc::clone(&self.tables.entry(Bytes::copy_from_slice(name)).or_default()),
        };
        table.change(key, most, now, change)
    }
}

#[derive(Debug, Default)]
struct Table {
    entries: DashMap<Bytes, Entry>,
    /// Room that is taken; it is taken before an entry goes in and given back after it is out.
    count: AtomicUsize,
    bytes: AtomicUsize,
}

#[derive(Debug)]
struct Entry {
    value: Datum,
    ends: Option<Instant>,
}

impl Entry {
    fn is_over(&self, now: Instant) -> bool {
        self.ends.is_some_and(|ends| ends <= now)
    }
}

impl Table {
    fn read<T>(&self, key: &[u8], now: Instant, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        let entry = self.entries.get(key)?;
        if !entry.is_over(now) {
            return Some(read(&entry));
        }
        drop(entry);
        if let Some((key, entry)) = self.entries.remove_if(key, |_, entry| entry.is_over(now)) {
            self.give_back(1, key.len() + entry.value.size());
        }
        None
    }

    fn change(
        &self,
        key: &[u8],
        most: usize,
        now: Instant,
        change: impl FnOnce(Option<&Datum>) -> Datum,
    ) -> Result<(), Refused> {
        // A shard's lock must not be held over a sweep, which takes all of them.
        if !self.entries.contains_key(key) && self.is_full(most) {
            self.sweep(now);
        }
        let most_bytes = most.saturating_mul(BYTES_OF_ENTRY);
        match self.entries.entry(Bytes::copy_from_slice(key)) {
            Place::Occupied(mut there) => {
                let over = there.get().is_over(now);
                let value = change((!over).then(|| &there.get().value));
                let (old, new) = (there.get().value.size(), value.size());
                check_length(new)?;
                take(&self.bytes, new.saturating_sub(old), most_bytes)?;
                self.give_back(0, old.saturating_sub(new));
                let entry = there.get_mut();
                entry.ends = entry.ends.filter(|_| !over);
                entry.value = value;
            }
            Place::Vacant(free) => {
                let value = change(None);
                check_length(value.size())?;
                take(&self.count, 1, most)?;
                if let Err(refused) = take(&self.bytes, key.len() + value.size(), most_bytes) {
                    self.give_back(1, 0);
                    return Err(refused);
                }
                free.insert(Entry { value, ends: None });
            }
        }
        Ok(())
    }

    fn is_full(&self, most: usize) -> bool {
        let most_bytes = most.saturating_mul(BYTES_OF_ENTRY);
        self.count.load(Ordering::Relaxed) >= most
            || self.bytes.load(Ordering::Relaxed) >= most_bytes
    }

    fn sweep(&self, now: Instant) {
        self.entries.retain(|key, entry| {
            let stays = !entry.is_over(now);
            if !stays {
                self.give_back(1, key.len() + entry.value.size());
            }
            stays
        });
    }

    fn give_back(&self, count: usize, bytes: usize) {
        self.count.fetch_sub(count, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn check_length(value: usize) -> Result<(), Refused> {
    if value > LONGEST_VALUE { Err(Refused::TooLong) } else { Ok(()) }
}

/// Takes room where there is enough of it.
fn take(held: &AtomicUsize, more: usize, most: usize) -> Result<(), Refused> {
    let grow = |held: usize| held.checked_add(more).filter(|held| more == 0 || *held <= most);
    let taken = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
    taken.map(|_| ()).map_err(|_| Refused::Full)
}

#[cfg(test)]
mod tests;
