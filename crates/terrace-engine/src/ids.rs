//! The ids that an open gives out. Versions, the log and L0 name files by them.

use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::{Epoch, FileId, MemtableId};

/// The id that the name of a file begins with, whatever the file is.
pub fn file_id_in(name: &str) -> Option<FileId> {
    FileId::parse(name.split_once('.').map_or(name, |(stem, _)| stem))
}

/// Gives out the ids of files and memtables of one epoch. The epoch has been raised durably, so
/// no id was ever given out before.
#[derive(Debug)]
pub struct FileIds {
    epoch: Epoch,
    files: AtomicU64,
    memtables: AtomicU64,
}

impl FileIds {
    /// Ids of `epoch`, of which `files_taken` have been used for the manifest that raised it.
    #[must_use]
    pub fn new(epoch: Epoch, files_taken: u64) -> FileIds {
        FileIds { epoch, files: AtomicU64::new(files_taken), memtables: AtomicU64::new(0) }
    }

    /// Ids of a copy of a range of this epoch: none of them is that of a file which is copied.
    #[must_use]
    pub fn of_copy(epoch: Epoch) -> FileIds {
        FileIds::new(Epoch(epoch.0 + 1), 0)
    }

    /// The epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// A file id that was never used before.
    pub fn next(&self) -> FileId {
        self.next_block(1)
    }

    /// The first of `count` consecutive file ids that were never used before.
    pub fn next_block(&self, count: u64) -> FileId {
        let first = self.files.fetch_add(count, Ordering::Relaxed);
        FileId { epoch: self.epoch, counter: first + 1 }
    }

    /// A memtable id that was never used before, greater than all given out.
    pub fn next_memtable(&self) -> MemtableId {
        let counter = self.memtables.fetch_add(1, Ordering::Relaxed) + 1;
        MemtableId { epoch: self.epoch, counter }
    }
}
