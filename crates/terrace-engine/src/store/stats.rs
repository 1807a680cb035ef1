//! What a range has done, and what it holds.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use super::{Inner, Store};
use crate::compaction::CompactionOutcome;

/// Counts since the range was opened.
#[derive(Debug, Default)]
pub struct Counters {
    writes: AtomicU64,
    write_bytes: AtomicU64,
    gets: AtomicU64,
    flushes: AtomicU64,
    flush_bytes: AtomicU64,
    compactions: AtomicU64,
    moves: AtomicU64,
    compaction_read_bytes: AtomicU64,
    compaction_write_bytes: AtomicU64,
    dropped_entries: AtomicU64,
    log_syncs: AtomicU64,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Counters {
    pub fn user_bytes(&self, bytes: usize, entries: usize) {
        add(&self.writes, entries as u64);
        add(&self.write_bytes, bytes as u64);
    }

    pub fn got(&self) {
        add(&self.gets, 1);
    }

    pub fn flushed(&self, bytes: u64) {
        add(&self.flushes, 1);
        add(&self.flush_bytes, bytes);
    }

    pub fn moved(&self) {
        add(&self.moves, 1);
    }

    pub fn log_synced(&self) {
        add(&self.log_syncs, 1);
    }

    pub fn compacted(&self, outcome: &CompactionOutcome) {
        add(&self.compactions, 1);
        add(&self.compaction_read_bytes, outcome.read_bytes);
        add(&self.compaction_write_bytes, outcome.written_bytes);
        add(&self.dropped_entries, outcome.dropped_entries);
    }
}

/// One level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LevelStats {
    /// Its number.
    pub level: u8,
    /// How many tables it has.
    pub table_count: u64,
    /// Bytes of its tables.
    pub bytes: u64,
    /// Entries in its tables.
    pub entry_count: u64,
    /// Tombstones among them.
    pub tombstone_count: u64,
}

/// What writers waited for, in microseconds since the range was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StallStats {
    /// For memtables to be flushed.
    pub memtable_us: u64,
    /// For L0 to be compacted.
    pub l0_us: u64,
    /// For the pace that L0's rows set.
    pub paced_us: u64,
    /// How many writes waited.
    pub stall_count: u64,
}

/// What a range has done since it was opened, and what it holds now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoreStats {
    /// Entries written.
    pub write_count: u64,
    /// Bytes of keys and values written.
    pub write_bytes: u64,
    /// Keys read one by one.
    pub get_count: u64,
    /// Bytes appended to the log.
    pub log_write_bytes: u64,
    /// Bytes of the log that a replay would read.
    pub log_live_bytes: u64,
    /// Syncs of the log.
    pub log_sync_count: u64,
    /// Flushes, and the bytes that they wrote to L0.
    pub flush_count: u64,
    /// Bytes written by flushes.
    pub flush_bytes: u64,
    /// Compactions that merged tables.
    pub compaction_count: u64,
    /// Compactions that only moved a table down.
    pub move_count: u64,
    /// Bytes read by compactions.
    pub compaction_read_bytes: u64,
    /// Bytes written by compactions.
    pub compaction_write_bytes: u64,
    /// Entries that compactions dropped.
    pub dropped_entry_count: u64,
    /// Bytes of memtables, active and frozen.
    pub memtable_bytes: u64,
    /// Memtables that wait to be flushed.
    pub frozen_memtable_count: u64,
    /// Rows of L0.
    pub l0_row_count: u64,
    /// The levels that hold anything, L0 first.
    pub levels: Vec<LevelStats>,
    /// Bytes of filters and indexes of open tables.
    pub table_memory_bytes: u64,
    /// Block cache: look-ups that found their block,
    pub cache_hit_count: u64,
    /// and that did not.
    pub cache_miss_count: u64,
    /// Bytes in the block cache (all ranges of the process).
    pub cache_bytes: u64,
    /// What writers waited for.
    pub stalls: StallStats,
}

impl StoreStats {
    /// Bytes written to tables for each byte that users wrote: the price of keeping order. The
    /// log is not in it.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let written = self.flush_bytes + self.compaction_write_bytes;
        written as f64 / self.write_bytes.max(1) as f64
    }
}

impl StoreStats {
    /// Bytes written to files since the open: log, flushes, compactions.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.log_write_bytes + self.flush_bytes + self.compaction_write_bytes
    }
}

impl Store {
    /// What the range has done since it was opened, and what it holds now. Cheap enough to be
    /// asked every second.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.inner.stats()
    }
}

impl Inner {
    fn stats(&self) -> StoreStats {
        let counters = &self.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let view = self.view.load_full();
        let memtables = view.dranges.iter().flat_map(|drange| drange.memtables());
        let (memtable_us, l0_us, paced_us, stall_count) = self.gate.totals();
        let cache = self.process.cache();
        StoreStats {
            write_count: read(&counters.writes),
            write_bytes: read(&counters.write_bytes),
            get_count: read(&counters.gets),
            log_write_bytes: self.sequencer.finished().1.0 - self.recovery.log_end.0,
            log_live_bytes: self.log().map_or(0, |log| log.live_bytes()),
            log_sync_count: read(&counters.log_syncs),
            flush_count: read(&counters.flushes),
            flush_bytes: read(&counters.flush_bytes),
            compaction_count: read(&counters.compactions),
            move_count: read(&counters.moves),
            compaction_read_bytes: read(&counters.compaction_read_bytes),
            compaction_write_bytes: read(&counters.compaction_write_bytes),
            dropped_entry_count: read(&counters.dropped_entries),
            memtable_bytes: memtables.map(|memtable| memtable.used_bytes() as u64).sum(),
            frozen_memtable_count: view.frozen_count() as u64,
            l0_row_count: view.version.l0.rows().len() as u64,
            levels: levels_of(&view.version),
            table_memory_bytes: view.version.tables().map(|table| table.memory_bytes()).sum(),
            cache_hit_count: cache.hits(),
            cache_miss_count: cache.misses(),
            cache_bytes: cache.used_bytes(),
            stalls: StallStats { memtable_us, l0_us, paced_us, stall_count },
        }
    }
}

fn levels_of(version: &crate::version::Version) -> Vec<LevelStats> {
    let l0 = (0u8, version.l0.tables());
    let deeper = version.runs().map(|(level, run)| (level.0, run.tables()));
    std::iter::once(l0)
        .chain(deeper)
        .filter(|(_, tables)| !tables.is_empty())
        .map(|(level, tables)| LevelStats {
            level,
            table_count: tables.len() as u64,
            bytes: tables.iter().map(|table| table.meta().bytes).sum(),
            entry_count: tables.iter().map(|table| table.meta().entry_count).sum(),
            tombstone_count: tables.iter().map(|table| table.meta().tombstone_count).sum(),
        })
        .collect()
}

impl fmt::Display for StoreStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(f, "since the open")?;
        writeln!(
            f,
            "  written        {} entries, {:.1} MiB",
            self.write_count,
            mib(self.write_bytes)
        )?;
        writeln!(f, "  read           {} keys one by one", self.get_count)?;
        writeln!(
            f,
            "  log            {:.1} MiB appended, {} syncs, {:.1} MiB live",
            mib(self.log_write_bytes),
            self.log_sync_count,
            mib(self.log_live_bytes)
        )?;
        writeln!(f, "  flushes        {}, {:.1} MiB", self.flush_count, mib(self.flush_bytes))?;
        writeln!(
            f,
            "  compactions    {} and {} moves, {:.1} MiB read, {:.1} MiB written, {} entries dropped",
            self.compaction_count,
            self.move_count,
            mib(self.compaction_read_bytes),
            mib(self.compaction_write_bytes),
            self.dropped_entry_count
        )?;
        writeln!(
            f,
            "  write amplification {:.2} (tables; the log adds 1)",
            self.write_amplification()
        )?;
        writeln!(
            f,
            "  stalls         {} writes; flushes {} us, L0 {} us, paced {} us",
            self.stalls.stall_count,
            self.stalls.memtable_us,
            self.stalls.l0_us,
            self.stalls.paced_us
        )?;
        writeln!(f, "now")?;
        writeln!(
            f,
            "  memtables      {:.1} MiB, {} waiting to be flushed",
            mib(self.memtable_bytes),
            self.frozen_memtable_count
        )?;
        writeln!(
            f,
            "  block cache    {:.1} MiB, {} hits, {} misses; filters and indexes {:.1} MiB",
            mib(self.cache_bytes),
            self.cache_hit_count,
            self.cache_miss_count,
            mib(self.table_memory_bytes)
        )?;
        writeln!(f, "  level  tables         MiB      entries   tombstones")?;
        for level in &self.levels {
            writeln!(
                f,
                "  L{}     {:6} {:11.1} {:12} {:12}",
                level.level,
                level.table_count,
                mib(level.bytes),
                level.entry_count,
                level.tombstone_count
            )?;
        }
        Ok(())
    }
}
