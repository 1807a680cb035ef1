//! The last compactions, each by itself: sums hide how long the longest one was.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use terrace_base::LevelNo;
use terrace_env::Latch;

use crate::compaction::CompactionOutcome;
use crate::compaction::pick::Compaction;
use crate::l0::CutEnd;
use crate::nanos;
use crate::store::Store;

/// So many of them are kept: at the 48 bytes of each less than a quarter of a mebibyte.
const RECORDS_MAX: usize = 4096;

/// A compaction that merged tables and was installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CompactionRecord {
    /// How many compactions of the range ended before it since the open.
    pub number: u64,
    /// The level that it took its input from: 0 for a cut.
    pub from: u8,
    /// The level that it wrote to.
    pub to: u8,
    /// Bytes read, about: those from above, and those that they met.
    pub read_bytes: u64,
    /// Bytes of these that lay in the level that it wrote to.
    pub met_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// For a cut: why it read no more and no fewer bytes.
    pub cut_end: Option<CutEnd>,
    /// How long it took, from the plan to the installed version.
    pub micros: u64,
}

/// The last compactions of a range, oldest first.
#[derive(Debug, Default)]
pub struct CompactionLog {
    records: Latch<(u64, VecDeque<CompactionRecord>)>,
}

impl CompactionLog {
    /// Notes that `done` ended, which took so long.
    pub fn note(&self, done: &Compaction, outcome: &CompactionOutcome, took: Duration) {
        let from = done.inputs.iter().map(|input| input.level).min().unwrap_or(LevelNo(0));
        let met_bytes = match from < done.output_level {
            true => done.bytes_from(done.output_level),
            false => 0,
        };
        let mut records = self.records.lock();
        let number = records.0;
        records.0 += 1;
        if records.1.len() == RECORDS_MAX {
            records.1.pop_front();
        }
        records.1.push_back(CompactionRecord {
            number,
            from: from.0,
            to: done.output_level.0,
            read_bytes: outcome.read_bytes,
            met_bytes,
            written_bytes: outcome.written_bytes,
            cut_end: done.cut_end,
            micros: nanos(took) / 1000,
        });
    }

    /// All that are kept.
    pub fn list(&self) -> Vec<CompactionRecord> {
        self.records.lock().1.iter().copied().collect()
    }
}

impl Store {
    /// The last 4,096 compactions that merged tables since the open, in the order in which they
    /// ended.
    #[must_use]
    pub fn compactions(&self) -> Vec<CompactionRecord> {
        self.inner.compaction_log.list()
    }
}
