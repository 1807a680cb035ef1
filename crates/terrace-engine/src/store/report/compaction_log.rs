//! The last compactions, each by itself: sums hide how long the longest one was.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_base::LevelNo;
use terrace_env::Latch;

use crate::compaction::CompactionOutcome;
use crate::compaction::pick::Compaction;
use crate::events::{Event, EventKind, Listener};
use crate::l0::CutEnd;
use crate::nanos;
use crate::store::Store;

/// Number of records that are kept: at some 100 bytes each, less than half a mebibyte.
const RECORDS_MAX: usize = 4096;

/// A compaction that merged tables and was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CompactionRecord {
    /// Number of compactions of the range that ended before it since the open.
    pub number: u64,
    /// The level that it took its input from: 0 for a cut.
    pub from: u8,
    /// The level that it wrote to.
    pub to: u8,
    /// Bytes read, about: those from above, and those that they met.
    pub read_bytes: u64,
    /// Bytes that it took out of other levels than the one that it wrote to, whether or not it had
    /// to read all of them.
    pub taken_in_bytes: u64,
    /// Bytes that lay in the level that it wrote to.
    pub met_bytes: u64,
    /// Bytes written to tables.
    pub written_bytes: u64,
    /// Bytes of files that large values went to.
    pub value_bytes: u64,
    /// Bytes of values that it read in value files, and wrote to tables.
    pub in_place_bytes: u64,
    /// Number of entries that it dropped.
    pub dropped_entry_count: u64,
    /// Number of values that the compaction filter dropped.
    pub filtered_dropped_count: u64,
    /// Number of values that the compaction filter changed.
    pub filtered_changed_count: u64,
    /// Whether it was done again without the filter, since a snapshot was in its way.
    pub filter_was_set_aside: bool,
    /// For a cut: why it read no more and no fewer bytes.
    pub cut_end: Option<CutEnd>,
    /// How long it took, from the plan to the installed version.
    pub micros: u64,
}

/// The last compactions of a range, oldest first.
#[derive(Debug, Default)]
pub struct CompactionLog {
    /// The number that the next compaction gets.
    next: AtomicU64,
    records: Latch<VecDeque<CompactionRecord>>,
}

impl CompactionLog {
    /// The record of `done`, which ended just now and `took` this long.
    pub fn record(
        &self,
        done: &Compaction,
        outcome: &CompactionOutcome,
        took: Duration,
    ) -> CompactionRecord {
        let from = done.inputs.iter().map(|input| input.level).min().unwrap_or(LevelNo(0));
        let met_bytes = done.bytes_from(done.output_level);
        let input_bytes: u64 = done.inputs.iter().map(|one| one.bytes_within(&done.slice)).sum();
        CompactionRecord {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            from: from.0,
            to: done.output_level.0,
            read_bytes: outcome.read_bytes,
            taken_in_bytes: input_bytes - met_bytes,
            met_bytes,
            written_bytes: outcome.written_bytes,
            value_bytes: outcome.values.iter().map(|file| file.bytes).sum(),
            in_place_bytes: outcome.in_place_bytes,
            dropped_entry_count: outcome.dropped_entries,
            filtered_dropped_count: outcome.filtered.dropped,
            filtered_changed_count: outcome.filtered.changed,
            filter_was_set_aside: outcome.filtered.set_aside > 0,
            cut_end: done.cut_end,
            micros: nanos(took) / 1000,
        }
    }

    /// All that are kept.
    pub fn list(&self) -> Vec<CompactionRecord> {
        let mut records: Vec<_> = self.records.lock().iter().copied().collect();
        // Two that ended at the same time may have been noted in the other order.
        records.sort_unstable_by_key(|record| record.number);
        records
    }
}

impl Listener for CompactionLog {
    fn on(&self, event: &Event) {
        let EventKind::CompactionEnded(record) = &event.kind else { return };
        let mut records = self.records.lock();
        if records.len() == RECORDS_MAX {
            records.pop_front();
        }
        records.push_back(*record);
    }
}

impl Store {
    /// The last 4,096 compactions that merged tables since the open, in the order in which they
    /// ended.
    #[must_use]
    pub fn compactions(&self) -> Vec<CompactionRecord> {
        self.inner.meters.compaction_log.list()
    }
}
