//! A file of a range that copies take: a table or a value file.

use std::sync::Arc;

use terrace_base::LevelNo;

use crate::Result;
use crate::cache::BlockCache;
use crate::table::{
    LocalTableStore, TableFile, TableLocation, TableReader, TableStore, TableWriter,
};
use crate::version::{TableMeta, TableOpener, Version};
use crate::vlog::{ValueFile, ValueFileMeta, ValueHome};

/// What a version names as a file.
#[derive(Clone, Copy)]
pub(super) enum Stored<'a> {
    Table(&'a TableMeta),
    Values(&'a ValueFileMeta),
}

impl<'a> Stored<'a> {
    /// The value files of a version.
    pub fn values_of(version: &'a Version) -> impl Iterator<Item = Stored<'a>> {
        version.values().iter().map(|file| Stored::Values(file.meta()))
    }

    pub fn bytes(self) -> u64 {
        match self {
            Stored::Table(meta) => meta.bytes,
            Stored::Values(meta) => meta.bytes,
        }
    }

    pub fn hash(self) -> u128 {
        match self {
            Stored::Table(meta) => meta.hash,
            Stored::Values(meta) => meta.hash,
        }
    }

    /// Whether the version knows the hash of its bytes. Of a log segment it does not: each pointer
    /// has a checksum.
    pub fn has_hash(self) -> bool {
        !matches!(self, Stored::Values(ValueFileMeta { home: ValueHome::Log, .. }))
    }

    /// Where it lies in the source.
    pub fn location(self) -> &'a TableLocation {
        match self {
            Stored::Table(meta) => &meta.location,
            Stored::Values(meta) => &meta.location,
        }
    }

    /// Where it lies in a copy.
    pub fn location_in_copy(self) -> TableLocation {
        match self {
            Stored::Table(meta) => LocalTableStore::location_of(meta.id),
            Stored::Values(meta) => LocalTableStore::location_of_values(meta.id),
        }
    }

    pub fn open(self, opener: &TableOpener) -> Result<Arc<dyn TableFile>> {
        match self {
            Stored::Table(meta) => opener.open_file(meta),
            Stored::Values(meta) => opener.open_values(meta),
        }
    }

    pub fn create(self, target: &LocalTableStore) -> Result<Box<dyn TableWriter>> {
        match self {
            Stored::Table(meta) => target.create(meta.id, LevelNo(0), meta.bytes),
            Stored::Values(meta) => target.create_values(meta.id, meta.bytes),
        }
    }

    /// Whether a file is the one that is meant, by its identity. Its frame is read and verified,
    /// not what it holds.
    pub fn is(self, file: Arc<dyn TableFile>) -> bool {
        match self {
            Stored::Table(meta) => {
                let no_cache = Arc::new(BlockCache::new(0));
                TableReader::open(file, no_cache, Some((meta.uid, meta.bytes))).is_ok()
            }
            Stored::Values(meta) => ValueFile::is_of(file, meta),
        }
    }
}
