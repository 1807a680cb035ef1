//! Counts of reads, for which threads do not fight: each counts in its own [`Place`].

use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::{LEVEL_MAX, LevelNo};

use crate::explain::places::Place;

const LEVELS: usize = LEVEL_MAX.0 as usize + 1;

/// What a table said that was asked for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Its filter, or its trie, denied the key.
    FilteredOut,
    /// It had an entry.
    Found,
    /// It had none, although its filter had not denied the key.
    FalsePositive,
    /// It had none, and has no filter.
    Missing,
}

/// The counts of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelReads {
    /// Number of tables whose filter, or trie, denied the key.
    pub filtered_out: u64,
    /// Number of tables that had an entry of the key.
    pub found: u64,
    /// Number of tables that had no entry although their filter had not denied the key.
    pub false_positives: u64,
    /// Number of tables that had neither an entry of the key nor a filter.
    pub missing: u64,
}

/// The counts of a range's reads.
#[derive(Debug)]
pub struct ReadCounters {
    places: Box<[ThreadCounts]>,
}

/// One thread's counts. Two cache lines, since processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadCounts {
    gets: AtomicU64,
    scans: AtomicU64,
    scanned: AtomicU64,
    hidden: AtomicU64,
    levels: [[AtomicU64; 4]; LEVELS],
}

/// The counts of the calling thread.
#[derive(Clone, Copy, Debug)]
pub struct MyCounts<'a> {
    place: Place,
    counts: &'a ThreadCounts,
}

impl Default for ReadCounters {
    fn default() -> ReadCounters {
        ReadCounters { places: (0..Place::COUNT).map(|_| ThreadCounts::default()).collect() }
    }
}

impl ReadCounters {
    /// The place in which the calling thread counts.
    #[inline]
    pub fn mine(&self) -> MyCounts<'_> {
        let place = Place::mine();
        MyCounts { place, counts: &self.places[place.index()] }
    }

    fn sum(&self, of: impl Fn(&ThreadCounts) -> &AtomicU64) -> u64 {
        self.places.iter().map(|place| of(place).load(Ordering::Relaxed)).sum()
    }

    /// Keys read one by one.
    pub fn gets(&self) -> u64 {
        self.sum(|place| &place.gets)
    }

    /// Iterators that have gone.
    pub fn scans(&self) -> u64 {
        self.sum(|place| &place.scans)
    }

    /// Keys that these showed, and that they stepped over.
    pub fn scanned(&self) -> (u64, u64) {
        (self.sum(|place| &place.scanned), self.sum(|place| &place.hidden))
    }

    /// What the tables of a level were asked.
    pub fn level(&self, level: LevelNo) -> LevelReads {
        let read =
            |asked: Asked| self.sum(|place| &place.levels[usize::from(level.0)][asked as usize]);
        LevelReads {
            filtered_out: read(Asked::FilteredOut),
            found: read(Asked::Found),
            false_positives: read(Asked::FalsePositive),
            missing: read(Asked::Missing),
        }
    }
}

impl MyCounts<'_> {
    /// A key was read.
    #[inline]
    pub fn got(&self) {
        self.place.add(&self.counts.gets, 1);
    }

    /// A table was asked for a key.
    #[inline]
    pub fn asked(&self, level: LevelNo, what: Asked) {
        self.place.add(&self.counts.levels[usize::from(level.0)][what as usize], 1);
    }

    /// An iterator was dropped that had shown `shown` keys and stepped over `hidden` ones.
    pub fn scanned(&self, shown: u64, hidden: u64) {
        self.place.add(&self.counts.scans, 1);
        self.place.add(&self.counts.scanned, shown);
        self.place.add(&self.counts.hidden, hidden);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_by_more_threads_than_there_are_places() {
        let counters = ReadCounters::default();
        let count = || {
            for level in 0..1000_u32 {
                counters.mine().got();
                counters.mine().asked(LevelNo((level % 7) as u8), Asked::Found);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..Place::COUNT + 19 {
                scope.spawn(count);
            }
        });
        count();
        assert_eq!(counters.gets(), (Place::COUNT as u64 + 20) * 1000);
        let found: u64 = (0..7).map(|level| counters.level(LevelNo(level)).found).sum();
        assert_eq!(found, counters.gets());
    }
}
