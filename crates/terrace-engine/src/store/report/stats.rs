//! What a range has done, and what it holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::{LEVEL_MAX, LevelNo};
use terrace_env::PmemMedium;

use crate::events::{Event, EventKind, Listener};
use crate::explain::{LevelReads, MyCounts, ReadCounters};
use crate::lookup_index::LookupIndexStats;
use crate::nanos;
use crate::process::{BackgroundIo, IoClass, MemoryStats};
use crate::store::gate::ledger::StallStats;
use crate::store::lookups::KeyBounds;
use crate::store::report::cloud_stats::CloudStats;
use crate::store::report::compaction_log::CompactionRecord;
use crate::store::report::cut_stats::{CutCounters, CutStats};
use crate::store::report::l0_stats::L0Stats;
use crate::store::report::read_stats::{Counted, ReadStats};
use crate::store::report::troubles::{FailedWorkStats, SnapshotStats};
use crate::store::report::value_stats::{ValueCounters, ValueLogStats};
use crate::store::{Inner, Store};
use crate::version::{OpenTable, Table, Version};

const LEVELS: usize = LEVEL_MAX.0 as usize + 1;

/// Counts since the range was opened. What reads add to is apart, since it must cost nothing;
/// writes and background work have slower things to do than to share a cache line.
#[derive(Debug, Default)]
pub struct Counters {
    reads: ReadCounters,
    levels: [LevelCounters; LEVELS],
    writes: AtomicU64,
    write_bytes: AtomicU64,
    flushes: AtomicU64,
    flush_bytes: AtomicU64,
    compactions: AtomicU64,
    cuts: CutCounters,
    moves: AtomicU64,
    compaction_read_bytes: AtomicU64,
    compaction_write_bytes: AtomicU64,
    dropped_entries: AtomicU64,
    filtered_dropped: AtomicU64,
    filtered_changed: AtomicU64,
    filters_set_aside: AtomicU64,
    log_syncs: AtomicU64,
    merged_memtables: AtomicU64,
    merged_away: AtomicU64,
    unflushed_bytes: AtomicU64,
    values: ValueCounters,
    l0_medium_bytes: AtomicU64,
}

/// What flushes and compactions into one level came to, in bytes.
#[derive(Debug, Default)]
struct LevelCounters {
    taken_in: AtomicU64,
    moved_in: AtomicU64,
    rewritten: AtomicU64,
    written: AtomicU64,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Counters {
    pub fn user_bytes(&self, bytes: usize, entries: usize) {
        add(&self.writes, entries as u64);
        add(&self.write_bytes, bytes as u64);
    }

    /// The reads that the calling thread counts.
    #[inline]
    pub fn my_reads(&self) -> MyCounts<'_> {
        self.reads.mine()
    }

    fn put_into(&self, level: LevelNo, bytes: u64) {
        let level = &self.levels[usize::from(level.0)];
        add(&level.taken_in, bytes);
        add(&level.written, bytes);
        add(&self.flushes, 1);
        add(&self.flush_bytes, bytes);
    }

    pub fn log_synced(&self) {
        add(&self.log_syncs, 1);
    }

    /// What was read for cuts.
    pub fn cut_stats(&self) -> CutStats {
        self.cuts.stats()
    }

    fn compacted(&self, done: &CompactionRecord) {
        let level = &self.levels[usize::from(done.to)];
        add(&level.taken_in, done.taken_in_bytes);
        add(&level.rewritten, done.met_bytes);
        add(&level.written, done.written_bytes);
        add(&self.compactions, 1);
        add(&self.compaction_read_bytes, done.read_bytes);
        add(&self.compaction_write_bytes, done.written_bytes);
        add(&self.dropped_entries, done.dropped_entry_count);
        add(&self.filtered_dropped, done.filtered_dropped_count);
        add(&self.filtered_changed, done.filtered_changed_count);
        add(&self.filters_set_aside, u64::from(done.filter_was_set_aside));
        self.values.written(done.value_bytes);
        self.values.brought(done.in_place_bytes);
    }

    /// A scan asked for so many values before it came to them.
    pub(in crate::store) fn values_asked_ahead(&self, count: u64) {
        self.values.asked_ahead(count);
    }
}

impl Listener for Counters {
    fn on(&self, event: &Event) {
        match &event.kind {
            EventKind::FlushEnded(flush) => {
                self.put_into(LevelNo(0), flush.row_bytes);
                self.values.written(flush.value_bytes);
                add(&self.l0_medium_bytes, flush.medium_bytes);
            }
            // It counts as a flush: of data that passed no memtable.
            EventKind::Ingested { level, bytes, value_bytes } => {
                self.put_into(LevelNo(*level), *bytes);
                self.values.written(*value_bytes);
            }
            EventKind::MemtablesMerged(merge) => {
                add(&self.merged_memtables, merge.memtable_count);
                add(&self.merged_away, merge.dropped_count);
                add(&self.unflushed_bytes, merge.kept_bytes);
            }
            EventKind::Cut(cut) => self.cuts.add(cut.l0_bytes, cut.below_bytes),
            EventKind::CompactionEnded(done) => self.compacted(done),
            EventKind::ValuesKept(record) => self.values.kept(record),
            EventKind::Moved(done) => {
                add(&self.moves, 1);
                add(&self.levels[usize::from(done.to)].moved_in, done.bytes);
            }
            _ => {}
        }
    }
}

/// One level.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
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
    /// Bytes that came into it since the open: of flushes for L0, else of tables of the levels
    /// above that were merged into it; and of ingests.
    pub taken_in_bytes: u64,
    /// Bytes of tables that came down as they were.
    pub moved_in_bytes: u64,
    /// Bytes of its own tables that were read to merge others in.
    pub rewritten_bytes: u64,
    /// Bytes that were written into it.
    pub written_bytes: u64,
    /// Bytes written for each that came in, those of moves included: how often what it takes is
    /// written here. 0 if nothing came in.
    pub write_amplification: f64,
    /// Number of times that the filter of a table denied a key.
    pub filtered_out_count: u64,
    /// Number of times that a table that was searched had an entry of the key.
    pub found_count: u64,
    /// Number of times that a table had no entry of the key, although its filter had not denied it.
    pub false_positive_count: u64,
    /// Number of times that a table without a filter had no entry of the key.
    pub missing_count: u64,
}

/// The limit of what background work may write, which ranges of a process share, and what this
/// range has waited for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BackgroundIoStats {
    /// Bytes a second; `None` if there is no limit.
    pub limit_bytes_per_second: Option<u64>,
    /// Microseconds that flushes waited for it.
    pub flush_wait_us: u64,
    /// Microseconds that compactions waited for it, all threads together.
    pub compaction_wait_us: u64,
}

impl BackgroundIoStats {
    fn of(io: &BackgroundIo) -> BackgroundIoStats {
        let waited_us = |class| nanos(io.waited(class)) / 1000;
        BackgroundIoStats {
            limit_bytes_per_second: io.limit().bytes_per_second(),
            flush_wait_us: waited_us(IoClass::Flush),
            compaction_wait_us: waited_us(IoClass::Compaction),
        }
    }
}

/// What a range has done since it was opened, and what it holds now.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StoreStats {
    /// Entries written.
    pub write_count: u64,
    /// Bytes of keys and values written.
    pub write_bytes: u64,
    /// Keys read one by one.
    pub get_count: u64,
    /// Number of iterators that were dropped.
    pub scan_count: u64,
    /// Number of keys that those iterators showed.
    pub scanned_count: u64,
    /// Number of dead keys that those iterators stepped over.
    pub scan_hidden_count: u64,
    /// Tables searched for each key that was read one by one, beyond their filters: the price of
    /// having more than one place to look. 0 if none was read.
    pub read_amplification: f64,
    /// What a get and a scan touched on average.
    pub reads: ReadStats,
    /// Bytes of all tables for each byte of the deepest level that holds any: about how much more
    /// space is taken than what is alive would need. 1 if there are no tables.
    pub space_amplification: f64,
    /// Bytes appended to the log.
    pub log_write_bytes: u64,
    /// What persistent memory the log is written to, by the name of its kind; `None` if that is
    /// ordinary files.
    pub log_medium: Option<&'static str>,
    /// Bytes of the log that a replay would read.
    pub log_live_bytes: u64,
    /// Syncs of the log.
    pub log_sync_count: u64,
    /// Flushes, and ingests, which are flushes of data that passed no memtable.
    pub flush_count: u64,
    /// Bytes written by flushes and ingests.
    pub flush_bytes: u64,
    /// Bytes among `flush_bytes` that went to L0's own medium, where it has one: persistent memory,
    /// or what stands in for it. The others went to the range's directory.
    pub l0_medium_bytes: u64,
    /// Number of compactions that merged tables.
    pub compaction_count: u64,
    /// Number of compactions among them that took a cut out of L0.
    pub cut_count: u64,
    /// Compactions that only moved a table down.
    pub move_count: u64,
    /// Bytes read by compactions.
    pub compaction_read_bytes: u64,
    /// Bytes written by compactions.
    pub compaction_write_bytes: u64,
    /// Entries that compactions dropped.
    pub dropped_entry_count: u64,
    /// Values that the compaction filter dropped.
    pub filtered_dropped_count: u64,
    /// Values that the compaction filter changed.
    pub filtered_changed_count: u64,
    /// Compactions that were done again without the filter, since a snapshot was in its way or the
    /// filter failed.
    pub filter_set_aside_count: u64,
    /// Bytes of memtables, active and frozen.
    pub memtable_bytes: u64,
    /// Memtables that wait to be flushed.
    pub frozen_memtable_count: u64,
    /// Number of memtables that were made by merging those of hot dranges, and are kept in memory.
    pub merged_memtable_count: u64,
    /// Bytes of these merged memtables.
    pub merged_memtable_bytes: u64,
    /// Number of memtables that were merged since the open.
    pub memtable_merge_count: u64,
    /// Number of dead versions that these merges dropped.
    pub merged_away_count: u64,
    /// Bytes of live versions that these merges kept from being flushed, counted at each merge.
    pub unflushed_bytes: u64,
    /// What the lookup index holds, if there is one.
    pub lookup_index: Option<LookupIndexStats>,
    /// What the value log holds, and what was done for it.
    pub value_log: ValueLogStats,
    /// What lies in the object store, if the range has one.
    pub cloud: Option<CloudStats>,
    /// Rows of L0.
    pub l0_row_count: u64,
    /// Key intervals in which some of them are consumed by cuts.
    pub l0_consumed_count: u64,
    /// What L0 is, and what cuts took out of it.
    pub l0: L0Stats,
    /// The levels that hold anything, L0 first.
    pub levels: Vec<LevelStats>,
    /// Bytes of filters and indexes of open tables.
    pub table_memory_bytes: u64,
    /// Number of look-ups in the block cache that found their block.
    pub cache_hit_count: u64,
    /// Number of look-ups in the block cache that did not find their block.
    pub cache_miss_count: u64,
    /// Bytes in the block cache (all ranges of the process).
    pub cache_bytes: u64,
    /// Bytes that the block cache may hold.
    pub cache_limit_bytes: u64,
    /// Number of threads that compact (all ranges of the process).
    pub background_thread_count: u64,
    /// The limit of what flushes and compactions may write, and what they waited for it.
    pub background_io: BackgroundIoStats,
    /// What writers were delayed by.
    pub stalls: StallStats,
    /// Numbers of writes that were refused or failed, by the cause. Callers that asked not to wait
    /// are not among them.
    pub refused_writes: BTreeMap<&'static str, u64>,
    /// What background work has failed, by its kind.
    pub failed_work: BTreeMap<&'static str, FailedWorkStats>,
    /// What is read at a moment of the past.
    pub snapshots: SnapshotStats,
    /// What memory is taken for (all ranges of the process).
    pub memory: MemoryStats,
}

impl StoreStats {
    /// Bytes written to tables for each byte that users wrote: the price of keeping order. The
    /// log is not in it; ingests are, though what they bring does not count as written by users.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let written = self.flush_bytes + self.compaction_write_bytes;
        written as f64 / self.write_bytes.max(1) as f64
    }

    /// Bytes of tables that were written to the range's directory: what a disk below a faster L0
    /// has to take. The log is not in it.
    #[must_use]
    pub fn disk_table_bytes(&self) -> u64 {
        self.flush_bytes + self.compaction_write_bytes - self.l0_medium_bytes
    }

    /// Bytes written to files since the open: log, flushes, compactions, value files.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        let of_values = self.value_log.written_bytes + self.value_log.rewritten_bytes;
        self.log_write_bytes + self.flush_bytes + self.compaction_write_bytes + of_values
    }
}

impl Store {
    /// How many evicted blocks are kept beside the block cache: none, if nobody is at work. For
    /// tests.
    #[must_use]
    pub fn stray_block_count(&self) -> usize {
        let view = self.inner.view.load_full();
        let strays = |table: &Arc<Table>| {
            let blocks = table.open_table().and_then(OpenTable::blocks);
            blocks.map_or(0, |reader| reader.stray_block_count())
        };
        view.version.tables().map(strays).sum()
    }

    /// What the range has done since it was opened, and what it holds now. Cheap enough to be
    /// asked every second.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.inner.stats()
    }
}

impl Inner {
    fn stats(&self) -> StoreStats {
        self.count_memory();
        let counters = &self.meters.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let view = self.view.load_full();
        let memtables = view.memtables();
        let frozen = view.frozen();
        let merged_memtable_count = frozen.iter().filter(|frozen| frozen.is_merged).count();
        let cache = self.process.cache();
        let levels = counters.levels_of(&view.version);
        let get_count = counters.reads.gets();
        let (scanned_count, scan_hidden_count) = counters.reads.scanned();
        let scan_count = counters.reads.scans();
        let counted = Counted {
            levels: &levels,
            gets: get_count,
            scans: scan_count,
            shown: scanned_count,
            hidden: scan_hidden_count,
        };
        let reads = ReadStats::of(&counted, &self.meters.read_samples.sampled());
        StoreStats {
            write_count: read(&counters.writes),
            write_bytes: read(&counters.write_bytes),
            get_count,
            scan_count,
            scanned_count,
            scan_hidden_count,
            read_amplification: read_amplification(&levels, get_count),
            reads,
            space_amplification: space_amplification(&levels),
            log_write_bytes: self.log.written_bytes(self.sequencer.finished().1),
            log_medium: self.log().ok().and_then(|log| log.medium()).map(PmemMedium::name),
            log_live_bytes: self.log().map_or(0, |log| log.live_bytes()),
            log_sync_count: read(&counters.log_syncs),
            flush_count: read(&counters.flushes),
            flush_bytes: read(&counters.flush_bytes),
            l0_medium_bytes: read(&counters.l0_medium_bytes),
            compaction_count: read(&counters.compactions),
            cut_count: counters.cuts.stats().count,
            move_count: read(&counters.moves),
            compaction_read_bytes: read(&counters.compaction_read_bytes),
            compaction_write_bytes: read(&counters.compaction_write_bytes),
            dropped_entry_count: read(&counters.dropped_entries),
            filtered_dropped_count: read(&counters.filtered_dropped),
            filtered_changed_count: read(&counters.filtered_changed),
            filter_set_aside_count: read(&counters.filters_set_aside),
            memtable_bytes: memtables.iter().map(|memtable| memtable.used_bytes() as u64).sum(),
            frozen_memtable_count: (frozen.len() - merged_memtable_count) as u64,
            merged_memtable_count: merged_memtable_count as u64,
            merged_memtable_bytes: view.merged_bytes as u64,
            memtable_merge_count: read(&counters.merged_memtables),
            merged_away_count: read(&counters.merged_away),
            unflushed_bytes: read(&counters.unflushed_bytes),
            lookup_index: self.lookups.as_ref().map(KeyBounds::stats),
            value_log: counters.values.stats(&view.version, &self.shape.values),
            cloud: self.cloud_stats(&view.version),
            l0_row_count: view.version.l0().rows().len() as u64,
            l0_consumed_count: view.version.l0().consumed().intervals().len() as u64,
            l0: self.l0_stats(&view.version),
            levels,
            table_memory_bytes: view.version.tables().map(|table| table.memory_bytes()).sum(),
            cache_hit_count: cache.hits(),
            cache_miss_count: cache.misses(),
            cache_bytes: cache.used_bytes(),
            cache_limit_bytes: cache.capacity_bytes(),
            background_thread_count: self.process.pool().compaction_threads() as u64,
            background_io: BackgroundIoStats::of(&self.io),
            stalls: self.meters.ledger.stats(),
            refused_writes: self.meters.troubles.refused(),
            failed_work: self.failed_work(),
            snapshots: self.snapshot_stats(),
            memory: self.process.memory().stats(),
        }
    }
}

impl Counters {
    /// The levels that hold anything, or have been written or asked since the open.
    fn levels_of(&self, version: &Version) -> Vec<LevelStats> {
        let l0 = (LevelNo(0), version.l0().tables());
        let deeper = version.runs().map(|(level, run)| (level, run.tables()));
        let all = std::iter::once(l0).chain(deeper);
        let stats = all.map(|(level, tables)| {
            let done = &self.levels[usize::from(level.0)];
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let (taken_in_bytes, moved_in_bytes) = (read(&done.taken_in), read(&done.moved_in));
            let (rewritten_bytes, written_bytes) = (read(&done.rewritten), read(&done.written));
            let asked: LevelReads = self.reads.level(level);
            LevelStats {
                level: level.0,
                table_count: tables.len() as u64,
                bytes: tables.iter().map(|table| table.meta().bytes).sum(),
                entry_count: tables.iter().map(|table| table.meta().entry_count).sum(),
                tombstone_count: tables.iter().map(|table| table.meta().tombstone_count).sum(),
                taken_in_bytes,
                moved_in_bytes,
                rewritten_bytes,
                written_bytes,
                write_amplification: share(written_bytes, taken_in_bytes + moved_in_bytes),
                filtered_out_count: asked.filtered_out,
                found_count: asked.found,
                false_positive_count: asked.false_positives,
                missing_count: asked.missing,
            }
        });
        stats.filter(|level| level.table_count + level.written_bytes + level.asked() > 0).collect()
    }
}

impl LevelStats {
    /// How many times a table of the level was asked for a key.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.filtered_out_count + self.searched()
    }

    /// How many times a table of the level was searched, its filter not having denied the key.
    #[must_use]
    pub fn searched(&self) -> u64 {
        self.found_count + self.false_positive_count + self.missing_count
    }
}

/// `part` for each of `whole`; 0 if there is none.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn read_amplification(levels: &[LevelStats], get_count: u64) -> f64 {
    share(levels.iter().map(LevelStats::searched).sum(), get_count)
}

fn space_amplification(levels: &[LevelStats]) -> f64 {
    let deepest = levels.iter().rev().map(|level| level.bytes).find(|bytes| *bytes > 0);
    match deepest {
        Some(deepest) => share(levels.iter().map(|level| level.bytes).sum(), deepest),
        None => 1.0,
    }
}
