//! The metadata cache: the end of each far table, in which its index, filter and properties lie,
//! as a file on the local disk.
//!
//! It is written when the table is, before anybody names the table, and goes when nobody needs the
//! table any more. Nothing else displaces it: a table that is opened costs a read of a local file,
//! and a request only if that file is lost, or the table was written on another machine. Then the
//! file is made from what the request has brought.
//!
//! *Source:* RocksMash (TACO 2022), section 3.2, MetaCache.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_env::Latch;

use super::format::{decode_meta, encode_meta};
use super::{CacheDirectory, FoundFile, failed};
use crate::Result;
use crate::explain::text::{bytes, count};

const EXTENSION: &str = ".meta";

/// The end of a table, from an offset on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTail {
    /// Where it begins in the table.
    pub offset: u64,
    /// All bytes from there on.
    pub bytes: Vec<u8>,
}

/// What the metadata cache has done since the open, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MetaCacheStats {
    /// Tables whose metadata were there when they were opened.
    pub hits: u64,
    /// Tables whose metadata cost a request.
    pub misses: u64,
    /// Files that were not what was written there.
    pub damaged: u64,
    /// Tables whose metadata are there.
    pub table_count: u64,
    /// Bytes on the disk.
    pub bytes: u64,
}

impl fmt::Display for MetaCacheStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = |number: u64| count(number, "table", "tables");
        write!(f, "of {}, {}", tables(self.table_count), bytes(self.bytes))?;
        if self.misses > 0 {
            write!(f, "; of {} it was fetched", tables(self.misses))?;
        }
        Ok(())
    }
}

/// The metadata of far tables on the local disk. Any number of threads may use it at once.
#[derive(Debug)]
pub struct MetaCache {
    dir: Arc<CacheDirectory>,
    /// Whether it keeps anything: not, with a baseline.
    is_used: bool,
    files: Latch<Files>,
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
}

/// The files that are here.
#[derive(Debug, Default)]
struct Files {
    /// The bytes of that of each table.
    by_table: BTreeMap<u128, u64>,
    /// The sum of these, which the gate asks for again and again.
    bytes: u64,
    /// Tables whose file somebody writes or removes at the moment, without the latch: nobody else
    /// touches it. Whether the table was forgotten meanwhile.
    busy: BTreeMap<u128, bool>,
}

impl Files {
    fn insert(&mut self, table: u128, bytes: u64) {
        let before = self.by_table.insert(table, bytes).unwrap_or(0);
        self.bytes += bytes - before;
    }

    /// Whether the caller is to write the file of a table: it is not there, and nobody is at it.
    fn begin_write(&mut self, table: u128) -> bool {
        let is_free = !self.by_table.contains_key(&table) && !self.busy.contains_key(&table);
        if is_free {
            self.busy.insert(table, false);
        }
        is_free
    }

    /// The file of a table was written; whether it stays.
    fn end_write(&mut self, table: u128, bytes: u64) -> bool {
        if self.busy.get(&table) == Some(&true) {
            return false;
        }
        self.busy.remove(&table);
        self.insert(table, bytes);
        true
    }

    /// Whether the caller is to remove the file of a table: it is there. Who writes it removes it.
    fn begin_removal(&mut self, table: u128) -> bool {
        if let Some(is_forgotten) = self.busy.get_mut(&table) {
            *is_forgotten = true;
            return false;
        }
        let Some(bytes) = self.by_table.remove(&table) else { return false };
        self.bytes -= bytes;
        self.busy.insert(table, true);
        true
    }
}

impl MetaCache {
    pub(super) fn open(dir: &Arc<CacheDirectory>, found: &[FoundFile]) -> MetaCache {
        let table = |name: &str| u128::from_str_radix(name.strip_suffix(EXTENSION)?, 16).ok();
        let mut files = Files::default();
        for file in found {
            if let Some(table) = table(&file.name).filter(|table| name_of(*table) == file.name) {
                files.insert(table, file.bytes);
            }
        }
        MetaCache {
            dir: Arc::clone(dir),
            is_used: true,
            files: Latch::new(files),
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
            damaged: AtomicU64::default(),
        }
    }

    /// From now on it keeps nothing, and has nothing: a baseline.
    pub(super) fn end_use(&mut self) {
        self.is_used = false;
        self.retain(|_| false);
    }

    /// The end of a table, if it is here. One read of a file.
    #[must_use]
    pub fn get(&self, table: u128) -> Option<TableTail> {
        let found = self.read(table);
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps the end of a table, unless it is here.
    pub fn keep(&self, table: u128, offset: u64, tail: &[u8]) {
        // Several readers that open a table at the same time have all fetched it.
        let is_free = self.is_used && self.files.lock().begin_write(table);
        if !is_free {
            return;
        }
        let stays = match self.write(table, &encode_meta(table, offset, tail)) {
            Ok(bytes) => self.files.lock().end_write(table, bytes),
            Err(error) => {
                failed("metadata of a table", &error);
                false
            }
        };
        if !stays {
            self.remove(table);
        }
    }

    /// Removes the file of a table, which is the caller's. What there is of one that failed would
    /// be in the way of the next attempt.
    fn remove(&self, table: u128) {
        self.dir.remove(&name_of(table));
        self.files.lock().busy.remove(&table);
    }

    /// Whether the metadata of a table are here, as far as is known without reading them.
    #[must_use]
    pub fn has(&self, table: u128) -> bool {
        self.files.lock().by_table.contains_key(&table)
    }

    /// Nothing of a table is wanted any more.
    pub fn forget(&self, table: u128) {
        let is_there = self.files.lock().begin_removal(table);
        if is_there {
            self.remove(table);
        }
    }

    /// Of the tables here, only those are wanted for which `is_wanted` holds.
    pub fn retain(&self, is_wanted: impl Fn(u128) -> bool) {
        let all: Vec<u128> = self.files.lock().by_table.keys().copied().collect();
        all.into_iter().filter(|table| !is_wanted(*table)).for_each(|table| self.forget(table));
    }

    /// Bytes that it takes on the disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.lock().bytes
    }

    /// What it has done, and what it holds.
    #[must_use]
    pub fn stats(&self) -> MetaCacheStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let table_count = self.files.lock().by_table.len() as u64;
        MetaCacheStats {
            hits: of(&self.hits),
            misses: of(&self.misses),
            damaged: of(&self.damaged),
            table_count,
            bytes: self.bytes(),
        }
    }

    fn read(&self, table: u128) -> Option<TableTail> {
        if !self.has(table) {
            return None;
        }
        let read = self.read_file(table);
        let decoded = read.as_ref().ok().and_then(|file| decode_meta(file, table).ok());
        let Some((offset, tail)) = decoded else {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = &read {
                failed("metadata of a table", error);
            }
            self.forget(table);
            return None;
        };
        Some(TableTail { offset, bytes: tail.to_vec() })
    }

    fn read_file(&self, table: u128) -> Result<Vec<u8>> {
        let file = self.dir.env.fs().open(&self.dir.file(&name_of(table)))?;
        // A file of the cache was written from memory, or is none of ours: then it does not decode.
        let mut bytes = vec![0; usize::try_from(file.bytes()).unwrap_or(0)];
        let count = file.read_at(0, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    fn write(&self, table: u128, bytes: &[u8]) -> Result<u64> {
        self.dir.make()?;
        let name = name_of(table);
        self.dir.remove(&name);
        let mut file = self.dir.env.fs().create(&self.dir.file(&name), 0)?;
        file.append(bytes)?;
        file.finish()?;
        Ok(bytes.len() as u64)
    }
}

fn name_of(table: u128) -> String {
    format!("{table:032x}{EXTENSION}")
}
