//! Where the phones are: the bindings of all addresses of record (contract 5).
//!
//! Everything is in memory, in shards with a short lock each, so that any worker saves and looks up
//! without waiting. With `redb:FILE` one thread writes beside them what became of the addresses that
//! changed:
//!
//! ```text
//!  save, remove, sweep ──► Memory ──────────────┐ as it is then
//!           └── key ──► Queue (a set) ──► writer thread ──► file, a commit each half second
//! ```
//!
//! The set holds each address once, so a slow disk costs no memory and no worker's time; the thread
//! writes the state of the moment. A file is open once in a process: chains that name the same one
//! have the same bindings, and so has a chain that a reload builds anew.

mod file;
mod memory;
mod opened;
mod record;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use lineway_wire::sip::registrar::{self, Binding, Origin, Refusal, Register, Rules, Update};

use crate::settings::Location;
use memory::{Key, Memory};
use writer::Writer;

/// Bindings that a sweep looks at before it leaves the rest to the next one, about.
const SWEEP: usize = 8192;

/// Why bindings can not be kept in a file.
#[derive(Debug, thiserror::Error)]
pub enum LocationError {
    /// It can not be opened, made or read.
    #[error("the file of bindings {} can not be used: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: Box<redb::Error>,
    },
    /// Somebody else has it.
    #[error("the file of bindings {} is open in another process", .0.display())]
    InUse(PathBuf),
    /// It was made by something else, or by another version.
    #[error("{} is no file of bindings of this version", .0.display())]
    Format(PathBuf),
    /// It was open here a moment ago and its last changes are still being written.
    #[error("the file of bindings {} is still being closed", .0.display())]
    Closing(PathBuf),
    /// The thread that writes it can not be started.
    #[error("no thread for the file of bindings {}: {cause}", .path.display())]
    Thread {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
}

/// The bindings. Any thread.
#[derive(Debug)]
pub struct Locations {
    memory: Arc<Memory>,
    clock: Clock,
    ruid: AtomicU64,
    /// The last field: it writes what is left when it is dropped.
    writer: Option<Writer>,
}

impl Default for Locations {
    /// In memory alone.
    fn default() -> Self {
        Self::new(Arc::default(), Clock::start(), None)
    }
}

impl Locations {
    /// Opens what the setting names: none but memory, or the file with what it holds, which another
    /// chain of this process may have open already. Takes as long as the file is long.
    ///
    /// # Errors
    /// [`LocationError`].
    pub fn open(location: &Location) -> Result<Arc<Self>, LocationError> {
        match location {
            Location::Memory => Ok(Arc::default()),
            Location::Redb(path) => opened::open(path),
        }
    }

    fn new(memory: Arc<Memory>, clock: Clock, writer: Option<Writer>) -> Self {
        // A second makes fewer than a million, so that no start gives one out again.
        let ruid = AtomicU64::new(clock.unix << 20);
        Self { memory, clock, ruid, writer }
    }

    /// Does what a REGISTER asks for; gives what that was, without the bindings, and the header lines
    /// of its 200. There are at most `most` bindings in all tables.
    ///
    /// # Errors
    /// [`Refusal`]: nothing changed.
    pub fn save(
        &self,
        table: &[u8],
        register: &Register,
        origin: Origin,
        rules: &Rules,
        most: usize,
        now: Instant,
    ) -> Result<(Update, Vec<Bytes>), Refusal> {
        let now = self.clock.seconds(now);
        let numbers = register.contacts() as u64;
        let origin = Origin { ruid: self.ruid.fetch_add(numbers, Ordering::Relaxed), ..origin };
        let key = memory::key(table, &register.aor);
        let done = self.memory.change(&key, most, |old| {
            let mut update = register.update(old, &origin, rules, now)?;
            let lines = registrar::lines(register, &update.bindings, now);
            let bindings = std::mem::take(&mut update.bindings);
            Ok((bindings, update.made > 0, (update, lines)))
        })?;
        let Update { made, refreshed, removed, expired, .. } = done.0;
        if made + refreshed + removed + expired > 0 {
            self.changed([key]);
        }
        Ok(done)
    }

    /// Reads the bindings of an address, which may be none and may be over by the second that is
    /// given with them. Their shard waits meanwhile.
    pub fn read<T>(
        &self,
        table: &[u8],
        aor: &[u8],
        now: Instant,
        read: impl FnOnce(&[Binding], u64) -> T,
    ) -> T {
        let now = self.clock.seconds(now);
        self.memory.read(&memory::key(table, aor), |bindings| read(bindings, now))
    }

    /// Removes all bindings of an address; gives how many there were.
    pub fn remove(&self, table: &[u8], aor: &[u8]) -> usize {
        let key = memory::key(table, aor);
        let removed = self.memory.remove(&key);
        if removed > 0 {
            self.changed([key]);
        }
        removed
    }

    /// Lets go of bindings that are over, and gives how many. Each call does a bounded piece of work
    /// and goes on where the last one stopped; once a second is enough.
    pub fn sweep(&self, now: Instant) -> usize {
        let mut changed = Vec::new();
        let expired = self.memory.sweep(self.clock.seconds(now), SWEEP, &mut changed);
        if expired > 0 {
            self.changed(changed);
        }
        expired
    }

    /// How many bindings there are.
    pub fn bindings(&self) -> usize {
        self.memory.bindings()
    }

    /// Waits until everything up to here is in the file; false where that took longer than `limit`.
    /// True at once without a file.
    pub fn flush(&self, limit: Duration) -> bool {
        self.writer.as_ref().is_none_or(|writer| writer.flush(limit))
    }

    fn changed(&self, keys: impl IntoIterator<Item = Key>) {
        if let Some(writer) = &self.writer {
            writer.changed(keys);
        }
    }
}

/// Seconds since the Unix epoch by the clock that never jumps.
#[derive(Clone, Copy, Debug)]
struct Clock {
    at: Instant,
    unix: u64,
}

impl Clock {
    fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { at: Instant::now(), unix: unix.as_secs() }
    }

    fn seconds(&self, now: Instant) -> u64 {
        self.unix.saturating_add(now.saturating_duration_since(self.at).as_secs())
    }
}

#[cfg(test)]
mod tests;
