//! Counts of reads, for which threads do not fight.
//!
//! # Why
//! A get from memory takes a microsecond. A counter that all threads add to costs a tenth of that
//! as soon as two of them read, because its cache line travels between them. So each thread has a
//! *place* of its own, cache lines that nobody else writes to, and adds by a load and a store. The
//! few threads that find no free place share one, and add atomically.
//!
//! # Invariants
//! 1. A place is one live thread's, but for the shared one. A thread gives its place back when it
//!    ends, and the next owner sees all that it had counted.
//! 2. Sums are exact once the threads are quiet, and never go back.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::{LEVEL_MAX, LevelNo};

/// How many threads count alone. The last place is for all the others.
const PLACES: usize = 64;

/// The place of the threads that have none of their own.
const SHARED: u8 = PLACES as u8;

/// Not asked for yet.
const UNKNOWN: u8 = u8::MAX;

const LEVELS: usize = LEVEL_MAX.0 as usize + 1;

/// Which places belong to a thread of this process, a bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static PLACE: Cell<u8> = const { Cell::new(UNKNOWN) };
    /// Apart from the number, so that asking for it needs no look at whether it was dropped.
    static CLAIM: Claim = Claim::new();
}

/// A thread's right to a place.
struct Claim(Option<u8>);

impl Claim {
    fn new() -> Claim {
        // Order: acquire, so that the counts of the place's last owner are seen.
        let claimed = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            let free = taken.trailing_ones();
            (free < u64::BITS).then(|| taken | 1 << free)
        });
        Claim(claimed.ok().map(|before| before.trailing_ones() as u8))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        PLACE.set(SHARED);
        if let Some(place) = self.0 {
            TAKEN.fetch_and(!(1 << place), Ordering::Release);
        }
    }
}

#[inline]
fn my_place() -> u8 {
    let place = PLACE.get();
    if place == UNKNOWN { claim_place() } else { place }
}

#[cold]
fn claim_place() -> u8 {
    let claimed = CLAIM.try_with(|claim| claim.0).ok().flatten();
    let place = claimed.unwrap_or(SHARED);
    PLACE.set(place);
    place
}

/// What a table said that was asked for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Its filter denied the key.
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
    /// Number of tables whose filter denied the key.
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
    place: &'a ThreadCounts,
    is_shared: bool,
}

impl Default for ReadCounters {
    fn default() -> ReadCounters {
        ReadCounters { places: (0..=PLACES).map(|_| ThreadCounts::default()).collect() }
    }
}

impl ReadCounters {
    /// The place in which the calling thread counts.
    #[inline]
    pub fn mine(&self) -> MyCounts<'_> {
        let place = my_place();
        MyCounts { place: &self.places[usize::from(place)], is_shared: place == SHARED }
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
    #[inline]
    fn add(&self, counter: &AtomicU64, amount: u64) {
        if self.is_shared {
            counter.fetch_add(amount, Ordering::Relaxed);
        } else {
            // Nobody else stores here.
            counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
        }
    }

    /// A key was read.
    #[inline]
    pub fn got(&self) {
        self.add(&self.place.gets, 1);
    }

    /// A table was asked for a key.
    #[inline]
    pub fn asked(&self, level: LevelNo, what: Asked) {
        self.add(&self.place.levels[usize::from(level.0)][what as usize], 1);
    }

    /// An iterator was dropped that had shown `shown` keys and stepped over `hidden` ones.
    pub fn scanned(&self, shown: u64, hidden: u64) {
        self.add(&self.place.scans, 1);
        self.add(&self.place.scanned, shown);
        self.add(&self.place.hidden, hidden);
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
            for _ in 0..PLACES + 20 {
                scope.spawn(count);
            }
        });
        count();
        assert_eq!(counters.gets(), (PLACES as u64 + 21) * 1000);
        let found: u64 = (0..7).map(|level| counters.level(LevelNo(level)).found).sum();
        assert_eq!(found, counters.gets());
    }

    #[test]
    fn a_thread_has_one_place_and_gives_it_back() {
        let place = my_place();
        assert_eq!(my_place(), place);
        // Other tests have threads too: places come back, or these would be used up.
        for _ in 0..1000 {
            std::thread::scope(|scope| {
                scope.spawn(my_place);
            });
        }
        assert!(TAKEN.load(Ordering::Relaxed).count_ones() < 64);
    }
}
