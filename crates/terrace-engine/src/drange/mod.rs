//! Dranges: the sub-intervals of a range that own memtables.
//!
//! # Why
//! One memtable for a whole range makes all its writers meet in one place. A drange has its own
//! active memtable, so that writers of different dranges touch no common data, and memtables stay
//! small enough for the processor's caches.
//!
//! *Source:* Nova-LSM (SIGMOD 2021), §4.1. *Differs:* a range has one drange until its first
//! memtable is full, and is then divided by the keys in it ([`Memtable::dividing_keys`]); from then
//! on each flush takes a sample of the writes ([`SampledStream`]), and [`balance`] judges whether
//! the range is to be divided otherwise. The manifest keeps the boundaries. All active memtables of
//! a range share one allowance and are frozen together, so that one flush writes one row over all
//! keys, and a reorganisation costs nothing but the freeze that it waits for: no memtable of one
//! generation is older than one of another. How many duplicates a hot key has is not kept: an open
//! begins with one of each, and the first flush that says otherwise gives them back (decision 22).
//!
//! # Duplicates
//! A key that is written more often than a drange's fair share cannot be divided. Its interval has
//! several dranges instead, each with its own active memtable, and a write goes to any of them.
//! They freeze together, like everything else, and are flushed together: they are one *set*. Which
//! of a set holds the newest version of a key its numbers say, and nothing else: so a read asks all
//! of a set before it goes on to an older one, and a conditional write holds them all.
//!
//! ```text
//!   key h     active   [h1 h4 h5] [h3 h6] [h2 h7]     a set: h7 is the newest
//!             frozen   [h0]                           an older one: every number in it is lower
//! ```
//!
//! # Invariants
//! 1. The dranges of a range cover every key; two of them have the same keys, or none in common.
//! 2. A writer holds its dranges shared, in their order, from before it takes its sequence numbers
//!    until its entries are inserted, one of each interval that it writes to; a freeze and a
//!    conditional write hold all of an interval exclusively. So an exclusive holder meets no
//!    half-done write.
//! 3. The view that readers see names a drange's new memtable before anyone can write to it.
//! 4. Of a frozen set none is flushed, or merged, without the others.

pub mod balance;
mod boundaries;
mod division;
pub mod merging;
mod sample;

use std::sync::Arc;

use terrace_base::{KeyRange, LogPosition, MemtableId};
use terrace_env::atomic::{AtomicU32, Ordering};
use terrace_env::{Env, Hold};

use crate::memtable::Memtable;

pub use boundaries::Boundaries;
pub use division::Division;
pub use sample::{SampledStream, WriteSample};

/// What a drange writes to.
#[derive(Debug)]
pub struct Active {
    /// The active memtable.
    pub memtable: Arc<Memtable>,
    /// No record of the memtable stands below this position.
    pub begin: LogPosition,
    /// The memtables of earlier opens whose entries a replay put into this one.
    pub replayed: Vec<MemtableId>,
}

impl Active {
    /// With a memtable that holds nothing yet; all its records will stand at or above `begin`.
    #[must_use]
    pub fn new(memtable: Arc<Memtable>, begin: LogPosition) -> Active {
        Active { memtable, begin, replayed: Vec::new() }
    }

    /// What this becomes when it takes no more entries: all its records stand below `end`. `keys`
    /// hold all of its keys.
    #[must_use]
    pub fn into_frozen(self, keys: KeyRange, end: LogPosition) -> Frozen {
        let mut covers = self.replayed;
        covers.push(self.memtable.id());
        Frozen { memtable: self.memtable, keys, begin: self.begin, end, covers, is_merged: false }
    }
}

/// One drange.
#[derive(Debug)]
pub struct Drange {
    /// Its keys.
    pub keys: KeyRange,
    /// Its active memtable, under the hold that writers share.
    pub active: Hold<Active>,
}

/// A memtable that takes no more entries, and waits to be flushed or was merged ([`merging`]).
#[derive(Debug)]
pub struct Frozen {
    /// The memtable.
    pub memtable: Arc<Memtable>,
    /// All its keys lie in here: the keys of the drange that it was the active one of.
    pub keys: KeyRange,
    /// None of its records stands below this position of the log.
    pub begin: LogPosition,
    /// None of its records stands at or above this position of the log.
    pub end: LogPosition,
    /// The memtables whose entries are in it: itself, and those of earlier opens; or those that
    /// were merged into it.
    pub covers: Vec<MemtableId>,
    /// Whether it was merged in memory, and stays there as long as that pays.
    pub is_merged: bool,
}

impl Frozen {
    /// Orders memtables by their age, the oldest first: at no key does one hold anything older than
    /// what one before it holds there, duplicates apart, of which each may.
    #[must_use]
    pub fn age(&self) -> (LogPosition, MemtableId) {
        (self.end, self.memtable.id())
    }

    /// Whether this and `other`, another one, were the memtables of duplicates: of one set.
    #[must_use]
    pub fn is_beside(&self, other: &Frozen) -> bool {
        self.end == other.end && self.keys == other.keys
    }
}

/// Which of several duplicates a write goes to: drawn when it first meets some, and kept, so that
/// the room that was made for it is where it looks for it.
#[derive(Debug, Default)]
pub struct DuplicateChoice(Option<u32>);

/// All dranges of a range, in key order, duplicates side by side.
#[derive(Debug)]
pub struct DrangeMap {
    division: Division,
    dranges: Vec<Arc<Drange>>,
    turns: Turns,
}

/// How many writes have met duplicates. Two cache lines of its own, since processors fetch them in
/// pairs: what stands beside it is read by all writers.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Turns(AtomicU32);

/// The golden ratio of 2³², made odd: multiples of it are spread evenly, and so are those of every
/// second, every third turn and so on, whatever other hot keys are written to in between.
const TURN_STEP: u32 = 0x9e37_79b9;

impl DrangeMap {
    /// Divides all keys by `division`; `active` makes what each drange writes to, in order.
    pub fn new(env: &dyn Env, division: Division, mut active: impl FnMut() -> Active) -> Self {
        let waits = env.waits();
        let mut dranges = Vec::with_capacity(division.drange_count());
        let ends = division.boundaries().keys();
        for (interval, duplicates) in division.duplicates().enumerate() {
            let start = interval.checked_sub(1).map_or(&[][..], |before| &ends[before]);
            let keys = KeyRange::new(start, ends.get(interval).cloned());
            for _ in 0..duplicates {
                let active = waits.hold(active());
                dranges.push(Arc::new(Drange { keys: keys.clone(), active }));
            }
        }
        DrangeMap { division, dranges, turns: Turns::default() }
    }

    /// How the keys are divided.
    #[must_use]
    pub fn division(&self) -> &Division {
        &self.division
    }

    /// Where the keys are divided.
    #[must_use]
    pub fn boundaries(&self) -> &Arc<Boundaries> {
        self.division.boundaries()
    }

    /// The dranges, in key order, duplicates side by side.
    #[must_use]
    pub fn list(&self) -> &[Arc<Drange>] {
        &self.dranges
    }

    /// The interval that holds `key`.
    #[must_use]
    #[inline]
    pub fn interval_of(&self, key: &[u8]) -> usize {
        self.boundaries().index_of(key)
    }

    /// The intervals that share a key with `range`, which is not empty.
    #[must_use]
    pub fn intervals_of(&self, range: &KeyRange) -> std::ops::Range<usize> {
        let first = self.interval_of(range.start());
        let last = self.boundaries().keys().partition_point(|start| !range.is_before(start));
        first..last.max(first) + 1
    }

    /// The keys of an interval.
    #[must_use]
    pub fn keys_of(&self, interval: usize) -> &KeyRange {
        &self.dranges[self.division.dranges_of(interval).start].keys
    }

    /// Index of the drange in which a write that has this `turn` writes to `interval`: its only
    /// one, as a rule, or one of the duplicates, each as often as any other.
    #[must_use]
    #[inline]
    pub fn choose(&self, interval: usize, turn: &mut DuplicateChoice) -> usize {
        if !self.division.has_duplicates() {
            return interval;
        }
        let dranges = self.division.dranges_of(interval);
        if dranges.len() == 1 {
            return dranges.start;
        }
        let turn = *turn.0.get_or_insert_with(|| self.turns.0.fetch_add(1, Ordering::Relaxed));
        let spread = u64::from(turn.wrapping_mul(TURN_STEP));
        dranges.start + ((spread * dranges.len() as u64) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use terrace_base::Epoch;
    use terrace_env::{SimEnv, SimOptions};

    use super::*;

    fn map(env: &dyn Env, duplicates: &[usize]) -> DrangeMap {
        let keys = (1..duplicates.len()).map(|at| vec![at as u8]).collect();
        DrangeMap::new(env, Division::new(Boundaries::new(keys), duplicates), || {
            let id = MemtableId { epoch: Epoch(1), counter: 1 };
            Active::new(Arc::new(Memtable::new(id, 1 << 12)), LogPosition(0))
        })
    }

    /// Goal: duplicates have even shares of the writes, also of those that come in a pattern.
    /// Method: one hot key is written to in every step, another one in every second, and so on.
    #[test]
    fn writes_are_spread_evenly_over_duplicates() {
        SimEnv::run(SimOptions::new(1), |env| {
            let map = map(env.as_ref(), &[1, 4, 1, 3, 7]);
            let mut hits = vec![0usize; map.list().len()];
            for step in 0..8400 {
                for (interval, every) in [(0, 1), (1, 1), (3, 2), (4, 5)] {
                    if step % every == 0 {
                        hits[map.choose(interval, &mut DuplicateChoice::default())] += 1;
                    }
                }
            }
            for (interval, writes) in [(0, 8400), (1, 8400), (3, 4200), (4, 1680)] {
                let dranges = map.division().dranges_of(interval);
                let even = writes / dranges.len();
                for hits in &hits[dranges] {
                    assert!(hits.abs_diff(even) <= 2 + even / 20, "{interval}: {hits} of {even}");
                }
            }
            assert_eq!(hits[5], 0);
        });
    }

    #[test]
    fn a_write_keeps_its_turn() {
        SimEnv::run(SimOptions::new(1), |env| {
            let map = map(env.as_ref(), &[1, 5]);
            for _ in 0..20 {
                let mut turn = DuplicateChoice::default();
                let chosen = map.choose(1, &mut turn);
                assert!((0..20).all(|_| map.choose(1, &mut turn) == chosen));
            }
        });
    }

    #[test]
    fn the_intervals_of_a_range_share_keys_with_it() {
        SimEnv::run(SimOptions::new(1), |env| {
            let map = map(env.as_ref(), &[1, 2, 1]);
            let cases: [(&[u8], Option<&[u8]>, _); 6] = [
                (&[], None, 0..3),
                (&[], Some(&[1]), 0..1),
                (&[0], Some(&[1, 0]), 0..2),
                (&[1], Some(&[2]), 1..2),
                (&[1, 7], Some(&[1, 8]), 1..2),
                (&[1, 7], None, 1..3),
            ];
            for (start, end, expected) in cases {
                let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
                assert_eq!(map.intervals_of(&range), expected, "{range:?}");
            }
            assert_eq!(map.keys_of(2), &KeyRange::new([2], None));
        });
    }
}
