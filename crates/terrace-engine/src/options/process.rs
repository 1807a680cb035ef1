//! What the ranges of one process share.

use super::require;
use crate::Result;

/// The options of a process. Each start may choose them anew.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// Bytes of memory that all parts together may take, at least `cache_bytes` and 64 KiB. The
    /// default is 2 GiB. Memtables have what the others leave: near the limit the gate slows
    /// writers down, and at it they wait for a flush. Two memtables of each range are always
    /// allowed. A larger limit lets writers go on longer beside slow flushes; a smaller one leaves
    /// more to the kernel's page cache.
    pub memory_bytes: u64,
    /// Bytes of the cache for blocks of tables. The default is 256 MiB, and 0 is none. A larger
    /// cache saves reads, and a smaller one leaves more of `memory_bytes` to memtables.
    pub cache_bytes: u64,
    /// The number of threads that flush memtables, at least 1, which is the default. One more
    /// thread prepares log segments. More of them help several ranges that flush at the same time.
    pub flush_threads: usize,
    /// The number of threads that compact. The default is 0, which picks the number of cores, at
    /// most 4. More of them keep up with more writes, and take processor time from the writers.
    pub compaction_threads: usize,
    /// How many bytes a second flushes and compactions may write into tables, at least 64 KiB. The
    /// default is none: as many as they can. What is read for them is about as much again. With
    /// less, reads and other programs have more of the disk, and what is dead takes space for
    /// longer. What holds writers up does not obey it, nor does what a caller waits for, but
    /// compactions that were asked for.
    pub background_io_limit: Option<u64>,
    /// The number of threads that an open replays the log with, the one that opens included, at
    /// most 8. The default is 0, which picks the number of cores. The others end with the replay.
    /// More than two or three bring little: one reads, and a memtable has one writer at a time.
    /// *Source:* Nova-LSM (SIGMOD 2021), section 4.5.
    pub recovery_threads: usize,
}

impl Default for ProcessOptions {
    fn default() -> ProcessOptions {
        ProcessOptions {
            memory_bytes: 2 << 30,
            cache_bytes: 256 << 20,
            flush_threads: 1,
            compaction_threads: 0,
            background_io_limit: None,
            recovery_threads: 0,
        }
    }
}

/// More threads than that find nothing to do in a replay.
const RECOVERY_THREADS_MAX: usize = 8;

impl ProcessOptions {
    /// The number of threads that an open replays the log with, on a machine with this many cores.
    #[must_use]
    pub fn recovery_thread_count(&self, cores: usize) -> usize {
        match self.recovery_threads {
            0 => cores.clamp(1, RECOVERY_THREADS_MAX),
            count => count,
        }
    }

    /// Says what is wrong with the options, and what would be right.
    pub fn validate(&self) -> Result<()> {
        require(
            self.memory_bytes >= self.cache_bytes.saturating_add(64 << 10),
            "memory_bytes must be at least cache_bytes and 64 KiB",
        )?;
        require(
            self.recovery_threads <= RECOVERY_THREADS_MAX,
            "recovery_threads must be at most 8",
        )?;
        validate_io_limit(self.background_io_limit)
    }
}

/// With less, a single piece of a table would wait for seconds.
const IO_LIMIT_MIN: u64 = 64 << 10;

/// Says what is wrong with a limit of bytes a second, and what would be right.
pub(crate) fn validate_io_limit(bytes_per_second: Option<u64>) -> Result<()> {
    require(
        bytes_per_second.is_none_or(|limit| limit >= IO_LIMIT_MIN),
        "background_io_limit must be at least 64 KiB a second",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn a_cache_needs_memory() {
        assert!(ProcessOptions::default().validate().is_ok());
        let too_large = ProcessOptions { cache_bytes: 2 << 30, ..ProcessOptions::default() };
        assert!(matches!(too_large.validate(), Err(Error::Invalid(_))));
        let too_many = ProcessOptions { recovery_threads: 9, ..ProcessOptions::default() };
        assert!(matches!(too_many.validate(), Err(Error::Invalid(_))));
        let limit = Some(65_535);
        let slow = ProcessOptions { background_io_limit: limit, ..ProcessOptions::default() };
        assert!(matches!(slow.validate(), Err(Error::Invalid(_))));
    }
}
