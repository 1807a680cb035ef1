//! A file of a range that copies take: a table or a value file.

use std::sync::Arc;

use terrace_base::LevelNo;
use xxhash_rust::xxh3::Xxh3;

use crate::Result;
use crate::cache::BlockCache;
use crate::table::{
    LocalTableStore, TableFile, TableLocation, TableReader, TableStore, TableWriter,
};
use crate::version::{TableMeta, TableOpener, Version};
use crate::vlog::{SegmentDamage, SegmentVerifier, ValueFile, ValueFileMeta, ValueHome};

/// What a version names as a file.
#[derive(Clone, Copy)]
pub(in crate::store) enum Stored<'a> {
    Table(&'a TableMeta),
    Values(&'a ValueFileMeta),
}

/// Compares the bytes of a file, as they come, with what the version knows of them.
pub(in crate::store) enum Verifier {
    /// By one hash of all.
    Hash { wanted: u128, hash: Box<Xxh3> },
    /// By the checksum of each record: the version has no hash of a log segment.
    Records(SegmentVerifier),
}

impl Verifier {
    /// Takes the next bytes. Errors: what is wrong, if that is known already.
    pub fn add(&mut self, bytes: &[u8]) -> std::result::Result<(), SegmentDamage> {
        match self {
            Verifier::Hash { hash, .. } => hash.update(bytes),
            Verifier::Records(verifier) => verifier.add(bytes)?,
        }
        Ok(())
    }

    /// Errors: what is wrong.
    pub fn finish(self) -> std::result::Result<(), SegmentDamage> {
        let what = "the bytes are not those that were written";
        match self {
            Verifier::Hash { wanted, hash } if hash.digest128() == wanted => Ok(()),
            Verifier::Hash { .. } => Err(SegmentDamage { offset: 0, what }),
            Verifier::Records(verifier) => verifier.finish(),
        }
    }
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

    /// Whether the log has not given back yet what is unused behind its records.
    pub fn is_to_be_cut(self, opener: &TableOpener) -> Result<bool> {
        match self {
            Stored::Values(meta) if meta.home == ValueHome::Log => {
                Ok(self.open(opener)?.bytes() > meta.bytes)
            }
            _ => Ok(false),
        }
    }

    /// What tells whether its bytes are those that were written.
    pub fn verifier(self) -> Verifier {
        match self {
            Stored::Values(meta) if meta.home == ValueHome::Log => {
                Verifier::Records(SegmentVerifier::new(meta))
            }
            Stored::Table(TableMeta { hash, .. }) | Stored::Values(ValueFileMeta { hash, .. }) => {
                Verifier::Hash { wanted: *hash, hash: Box::new(Xxh3::new()) }
            }
        }
    }

    /// Whether a file of `bytes` bytes may be it. A log segment may have something unused behind
    /// its records.
    pub fn may_have(self, bytes: u64) -> bool {
        match self {
            Stored::Values(meta) if meta.home == ValueHome::Log => bytes >= meta.bytes,
            _ => bytes == self.bytes(),
        }
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
