//! The persistent cache: what is read of tables in an object store, kept on the local disk.
//!
//! # Why
//! A request to an object store takes milliseconds and costs money, and memory holds little of what
//! lies there. So the local disk keeps two things of tables below the waterline: what says where
//! anything is in them (index, filter, properties), of every table, always; and the blocks that are
//! read, as many as fit.
//!
//! # Picture
//! ```text
//!   <range>/cache/<table>.meta       one for each far table       meta/   goes with its table
//!   <range>/cache/bucket-<n>.data    slots of one block each      data/   the block read longest
//!                                                                         ago goes first
//! ```
//!
//! # Invariants
//! 1. The cache changes no answer: what it gives was written for this place of this table, which
//!    its checksum covers, or it gives nothing. A table's number is random and never used again, so
//!    nothing here is ever out of date; it is only of no use once the table is gone.
//! 2. The cache causes no error: a file that is lost, cut, rotten or another database's is a miss,
//!    and one that cannot be written is not filled.
//! 3. Nothing waits until it is durable; what a crash spoils is a miss after it.
//! 4. Blocks never displace metadata.
//!
//! *Source:* RocksMash (TACO 2022), section 3.2 (MetaCache and DataCache).
//!
//! Begin at `format.rs` (bytes, pure), `data/slots.rs` (which block goes, pure), then
//! `data/mod.rs` and `meta/mod.rs`.

mod data;
pub mod format;
mod meta;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::{CacheFile, SharedEnv};

pub use data::{DataCache, DataCacheOptions, DataCacheStats};
pub use meta::{MetaCache, MetaCacheStats, TableTail};

use crate::process::MemoryPool;

/// The directory of the cache, inside that of its range.
pub const CACHE_DIRECTORY: &str = "cache";

/// The persistent cache of a range. Any number of threads may use it at once.
#[derive(Debug)]
pub struct PersistentCache {
    /// What says where anything is in each table.
    pub meta: MetaCache,
    /// Blocks that were read.
    pub data: DataCache,
}

/// What the cache has done since the open, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PersistentCacheStats {
    /// Of metadata.
    pub meta: MetaCacheStats,
    /// Of blocks.
    pub data: DataCacheStats,
}

impl PersistentCache {
    /// The cache in the range directory `range` of this database, with what it held. Makes nothing
    /// yet: a cache that is not used takes no space.
    #[must_use]
    pub fn open(
        env: &SharedEnv,
        range: &Path,
        database: u128,
        data: DataCacheOptions,
        memory: &MemoryPool,
    ) -> PersistentCache {
        let dir = Arc::new(CacheDirectory::new(env, range.join(CACHE_DIRECTORY)));
        let found = dir.list();
        let meta = MetaCache::open(&dir, &found);
        PersistentCache { meta, data: DataCache::open(&dir, database, data, memory, &found) }
    }

    /// The same without metadata: a baseline.
    #[must_use]
    pub fn without_metadata(self) -> PersistentCache {
        let mut cache = self;
        cache.meta.end_use();
        cache
    }

    /// Keeps nothing of a table that no version names any more.
    pub fn forget(&self, table: u128) {
        self.meta.forget(table);
        self.data.forget(table);
    }

    /// What it has done, and what it holds.
    #[must_use]
    pub fn stats(&self) -> PersistentCacheStats {
        PersistentCacheStats { meta: self.meta.stats(), data: self.data.stats() }
    }
}

/// The directory in which the cache lies: made when the first file is.
#[derive(Debug)]
struct CacheDirectory {
    env: SharedEnv,
    path: PathBuf,
}

/// A file that an open has found.
#[derive(Clone, Debug)]
struct FoundFile {
    name: String,
    bytes: u64,
}

impl CacheDirectory {
    fn new(env: &SharedEnv, path: PathBuf) -> CacheDirectory {
        CacheDirectory { env: Arc::clone(env), path }
    }

    /// What is there; nothing if it cannot be read.
    fn list(&self) -> Vec<FoundFile> {
        let entries = match self.env.fs().list(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.is_not_found() => return Vec::new(),
            Err(error) => {
                crate::program_log::warn!(%error, "the persistent cache begins empty");
                return Vec::new();
            }
        };
        let files = entries.into_iter().filter(|entry| !entry.is_dir);
        files.map(|entry| FoundFile { name: entry.name, bytes: entry.bytes }).collect()
    }

    fn make(&self) -> crate::Result<()> {
        Ok(self.env.fs().create_dir_all(&self.path)?)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Removes a file; one that is gone, or stays, is no error.
    fn remove(&self, name: &str) {
        match self.env.fs().remove(&self.file(name)) {
            Err(error) if !error.is_not_found() => {
                crate::program_log::debug!(%error, "a file of the persistent cache stays");
            }
            _ => {}
        }
    }
}

/// Whether all of `bytes` was read from `at` on, and no read failed. `None` if it would have to
/// wait for the disk, and `waits` forbids that.
fn read_whole(file: &dyn CacheFile, at: u64, bytes: &mut [u8], waits: bool) -> Option<bool> {
    let count = match waits {
        true => file.read_at(at, bytes).map(Some),
        false => file.try_read_at(at, bytes),
    };
    match count {
        Ok(count) => Some(count? == bytes.len()),
        Err(error) => {
            failed("a read", &error.into());
            Some(false)
        }
    }
}

/// A pass over a file of the cache that failed, which is a miss and no more.
fn failed(what: &'static str, error: &crate::Error) {
    crate::program_log::warn!(%error, what, "the persistent cache");
}
