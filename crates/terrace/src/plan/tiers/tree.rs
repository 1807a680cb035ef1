//! What the tree of a plan looks like: its levels, and which records are in which. Pure.
//!
//! ```text
//!   writes ago        0 ……… memory ……… L0 ………………… L5 ………………………………… L6
//!   a level serves    the records that were last written so long ago
//! ```
//! A record is served by the first level that has it, and how deep that is says how long ago it was
//! written. What is written often stays on top: that is why the levels above the waterline serve
//! more than their share of the bytes, and why blocks of an upper level are worth more in a cache.
//! Likewise a write goes down to a level only if none came after it for as long as the levels above
//! reach back.

use terrace_base::LEVEL_MAX;
use terrace_engine::compaction::levels::LevelShape;
use terrace_engine::options::Options as EngineOptions;
use terrace_engine::placement::{LevelBytes, LocalRoom, Waterline};

use super::super::{ENTRY_BYTES, PlannedLevel, levels_of};
use super::hits::{Held, Popularity};
use crate::Options;
use crate::keyspace::OperatorTable;

/// The level behind the last one.
pub(super) const BELOW_ALL: u8 = LEVEL_MAX.0 + 1;

/// Of the local bytes so many percent are for levels, values and L0.
const FOR_TABLES_PERCENT: u64 = 90;
/// What a trie takes of what filter and index would, in percent.
const TRIE_PERCENT: f64 = 40.0;
/// What an index has for each block, about.
const INDEX_ENTRY_BYTES: f64 = 28.0;
/// The size of a block.
const BLOCK_BYTES: f64 = 4096.0;
/// Memtables that are frozen and not flushed yet, and half of the active one.
const MEMTABLES_HELD: f64 = 1.5;

/// A tree at its usual size.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// An entry with its key.
    pub entry_bytes: f64,
    pub records: f64,
    /// How many entries a memtable takes.
    pub memtable_entries: f64,
    /// Rows of L0 that a cut takes.
    pub rows_per_cut: f64,
    pub table_bytes: f64,
    /// What the log takes, about.
    pub log_bytes: f64,
    /// Bytes of keys that metadata of far tables take for each entry.
    pub meta_entry_bytes: f64,
    /// Those below L0, from the top.
    pub levels: Vec<PlannedLevel>,
    shape: LevelShape,
    /// The most that the log takes.
    pub log_bytes_max: u64,
}

/// How many writes ago a record was written that is in memory, in L0 or in a level.
#[derive(Clone, Debug)]
pub(super) struct Ages {
    /// Whether anything is written: if not, the levels hold any records.
    are_written: bool,
    memory: f64,
    l0: f64,
    /// What a cut out of L0 reaches back.
    pub cut: f64,
    /// Of each level below L0 but the last, which has everything that is older.
    pub levels: Vec<f64>,
}

impl Tree {
    /// The tree that these options make of so many bytes.
    pub fn of(options: &Options, data_bytes: u64, entry_bytes: u64) -> Tree {
        let engine = options.engine(&OperatorTable::default());
        let shape = LevelShape::of(&engine);
        let in_memory = entry_bytes + ENTRY_BYTES;
        let filter_bytes = f64::from(engine.table.filter_bits_per_key) / 8.0;
        let block_entries = (BLOCK_BYTES / entry_bytes as f64).max(1.0);
        let EngineOptions { memtable_bytes, log_bytes_max, .. } = engine;
        Tree {
            entry_bytes: entry_bytes as f64,
            records: (data_bytes / entry_bytes).max(1) as f64,
            memtable_entries: (memtable_bytes as f64 / in_memory as f64).max(1.0),
            rows_per_cut: engine.l0_rows_per_cut as f64,
            table_bytes: engine.table_bytes as f64,
            log_bytes: (MEMTABLES_HELD * memtable_bytes as f64).min(log_bytes_max as f64),
            meta_entry_bytes: (filter_bytes + INDEX_ENTRY_BYTES / block_entries) * TRIE_PERCENT
                / 100.0,
            levels: levels_of(data_bytes, &shape),
            shape,
            log_bytes_max,
        }
    }

    /// How many entries a block has.
    pub fn block_entries(&self) -> f64 {
        (BLOCK_BYTES / self.entry_bytes).max(1.0)
    }

    pub fn block_bytes(&self) -> f64 {
        self.block_entries() * self.entry_bytes
    }

    /// The ages of what is where if records are written as often as `popularity` says.
    pub fn ages(&self, popularity: &Popularity, are_written: bool) -> Ages {
        let memory = self.memtable_entries * MEMTABLES_HELD;
        // Between two cuts L0 grows from nothing to what a cut takes.
        let l0 = memory + self.memtable_entries * self.rows_per_cut / 2.0;
        let mut distinct = popularity.distinct(l0);
        let above_last = &self.levels[..self.levels.len().saturating_sub(1)];
        let ages = above_last.iter().map(|level| {
            distinct += level.bytes as f64 / self.entry_bytes;
            popularity.operations_of(distinct)
        });
        let levels = ages.collect();
        let cut = self.memtable_entries * self.rows_per_cut;
        Ages { are_written, memory, l0, cut, levels }
    }

    /// What L0 holds on average.
    pub fn l0_bytes(&self, popularity: &Popularity, ages: &Ages) -> f64 {
        match ages.are_written {
            true => {
                (popularity.distinct(ages.l0) - popularity.distinct(ages.memory)).max(0.0)
                    * self.entry_bytes
            }
            false => 0.0,
        }
    }

    /// What L0 and each level serve, if the line stands at `first_far`.
    pub fn held(&self, popularity: &Popularity, ages: &Ages, first_far: u8) -> Vec<Held> {
        let between = |from: f64, to: f64| -> Vec<f64> {
            let shares = popularity.bins.iter().map(|bin| bin.share);
            shares.map(|share| (-share * from).exp() - (-share * to).exp()).collect()
        };
        let entries_of = |level: &PlannedLevel| level.bytes as f64 / self.entry_bytes;
        let l0 = between(ages.memory, ages.l0);
        let l0_entries = popularity.bins.iter().zip(&l0).map(|(bin, held)| bin.records * held);
        let l0_entries = if ages.are_written { l0_entries.sum() } else { 0.0 };
        let mut all = vec![Held { entries: l0_entries, served: l0, is_far: false, replaced: 0.0 }];
        let mut from = ages.l0;
        let above_last: f64 = self.levels.iter().rev().skip(1).map(entries_of).sum();
        for (index, level) in self.levels.iter().enumerate() {
            let to = ages.levels.get(index).copied().unwrap_or(f64::INFINITY);
            let entries = entries_of(level);
            let served = match (ages.are_written, ages.levels.len() == index) {
                (true, _) => between(from, to),
                (false, true) => {
                    vec![(1.0 - above_last / self.records).max(0.0); popularity.bins.len()]
                }
                (false, false) => vec![entries / self.records; popularity.bins.len()],
            };
            let is_far = level.level >= first_far;
            all.push(Held { served, entries, is_far, replaced: 0.0 });
            from = to;
        }
        if !ages.are_written {
            all[0].served.fill(0.0);
        }
        all
    }

    /// What metadata of the levels from `first_far` on take on the local disk.
    pub fn metadata_bytes(&self, first_far: u8) -> f64 {
        self.far_bytes(first_far) / self.entry_bytes * self.meta_entry_bytes
    }

    /// What the levels from `first_far` on hold.
    pub fn far_bytes(&self, first_far: u8) -> f64 {
        self.levels
            .iter()
            .filter(|level| level.level >= first_far)
            .map(|level| level.bytes as f64)
            .sum()
    }

    /// What the levels above `first_far` hold.
    pub fn near_bytes(&self, first_far: u8) -> f64 {
        self.far_bytes(0) - self.far_bytes(first_far)
    }

    /// Where the line comes to stand, of a tree that grows, with so many local bytes of which
    /// blocks may have `cache_bytes` for themselves.
    pub fn first_far(&self, local_bytes: u64, cache_bytes: u64) -> u8 {
        let mut levels: LevelBytes = [0; LEVEL_MAX.0 as usize];
        for level in &self.levels {
            levels[usize::from(level.level) - 1] = level.bytes;
        }
        let mut line = BELOW_ALL;
        // What of the metadata is near depends on the line, which only rises by them.
        loop {
            let wanted = Waterline::below_all()
                .wanted(&levels, &self.room(local_bytes, cache_bytes, self.metadata_bytes(line)));
            if wanted >= line {
                // Above the first level there is nothing that could lie there.
                return line.max(self.levels.first().map_or(line, |level| level.level));
            }
            line = wanted;
        }
    }

    fn room(&self, local_bytes: u64, cache_bytes: u64, metadata_bytes: f64) -> LocalRoom {
        let bytes = (local_bytes / 100 * FOR_TABLES_PERCENT)
            .saturating_sub(self.log_bytes_max)
            .saturating_sub(metadata_bytes as u64)
            .saturating_sub(cache_bytes);
        let all: u64 = self.levels.iter().map(|level| level.bytes).sum();
        LocalRoom {
            bytes,
            l0_bytes: self.shape.level_bytes_base.min(all),
            cut_bytes: self.shape.cut_bytes,
            job_bytes: self.table_bytes as u64 * (self.shape.level_ratio + 1),
        }
    }
}
