//! The file of bindings.

use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableDatabase, TableDefinition, TableHandle};

use super::LocationError;
use super::memory::{Key, Memory, SHARDS};
use super::record;

/// What the file is: one entry.
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("lineway");
const FORMAT: &str = "bindings";
/// The version of its keys and records.
const VERSION: u64 = 1;

/// Key to record.
const BINDINGS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bindings");

/// What the library may keep of the file in memory: all of it is in memory already.
const CACHE: usize = 8 << 20;

/// An open file.
#[derive(Debug)]
pub(super) struct File {
    database: Database,
    pub(super) path: PathBuf,
}

impl File {
    /// Opens a file, or makes it.
    pub(super) fn open(path: &Path) -> Result<Self, LocationError> {
        let fault = |cause: redb::Error| LocationError::File {
            path: path.to_owned(),
            cause: Box::new(cause),
        };
        // A broken file has to be an error, not a panic; all of it is read anyway.
        let mut builder = Database::builder();
        let opened = builder.set_cache_size(CACHE).set_check_integrity_on_open(true).create(path);
        let database = opened.map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => LocationError::InUse(path.to_owned()),
            other => fault(other.into()),
        })?;
        let version = version(&database).map_err(|error| match error {
            // Another program's table of this name.
            redb::Error::TableTypeMismatch { .. } => LocationError::Format(path.to_owned()),
            other => fault(other),
        })?;
        if version != VERSION {
            return Err(LocationError::Format(path.to_owned()));
        }
        Ok(Self { database, path: path.to_owned() })
    }

    /// Reads every binding that is not over into memory; gives the addresses that have others.
    pub(super) fn load(&self, memory: &Memory, now: u64) -> Result<Vec<Key>, LocationError> {
        let mut stale = Vec::new();
        let mut load = || -> Result<bool, redb::Error> {
            let read = self.database.begin_read()?;
            for entry in read.open_table(BINDINGS)?.range::<&[u8]>(..)? {
                let (key, value) = entry?;
                let Some(mut bindings) = record::read(value.value()) else { return Ok(false) };
                let (key, all): (Key, _) = (key.value().into(), bindings.len());
                bindings.retain(|binding| binding.is_live(now));
                if bindings.len() < all {
                    stale.push(Key::clone(&key));
                }
                memory.load(key, bindings);
            }
            Ok(true)
        };
        match load() {
            Ok(true) => Ok(stale),
            Ok(false) => Err(LocationError::Format(self.path.clone())),
            Err(cause) => {
                Err(LocationError::File { path: self.path.clone(), cause: Box::new(cause) })
            }
        }
    }

    /// Writes these addresses as they are in memory by now, in one commit.
    pub(super) fn store<'k>(
        &self,
        memory: &Memory,
        keys: impl IntoIterator<Item = &'k Key>,
    ) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        {
            let mut table = write.open_table(BINDINGS)?;
            for key in keys {
                let record = memory.read(key, record::write);
                if record.is_empty() {
                    table.remove(&key[..])?;
                } else {
                    table.insert(&key[..], &record[..])?;
                }
            }
        }
        Ok(write.commit()?)
    }

    /// Writes all that is in memory in the place of what the file has, in one commit.
    pub(super) fn store_all(&self, memory: &Memory) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        write.delete_table(BINDINGS)?;
        {
            let mut table = write.open_table(BINDINGS)?;
            let mut records = Vec::new();
            for shard in 0..SHARDS {
                // The disk must not hold up a shard.
                memory.each_of(shard, |key, bindings| {
                    records.push((Key::clone(key), record::write(bindings)));
                });
                for (key, record) in records.drain(..) {
                    table.insert(&key[..], &record[..])?;
                }
            }
        }
        Ok(write.commit()?)
    }
}

/// The version of a file; a fresh one gets ours, 0 is none of ours.
fn version(database: &Database) -> Result<u64, redb::Error> {
    let read = database.begin_read()?;
    let is_about = |table: redb::UntypedTableHandle| table.name() == ABOUT.name();
    if read.list_tables()?.any(is_about) {
        return Ok(read.open_table(ABOUT)?.get(FORMAT)?.map_or(0, |version| version.value()));
    }
    if read.list_tables()?.next().is_some() || read.list_multimap_tables()?.next().is_some() {
        return Ok(0);
    }
    drop(read);
    let write = database.begin_write()?;
    write.open_table(ABOUT)?.insert(FORMAT, VERSION)?;
    write.open_table(BINDINGS)?;
    write.commit()?;
    Ok(VERSION)
}
