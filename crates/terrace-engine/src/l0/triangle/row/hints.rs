//! Cross-row hints: where one row's search ended tells an older row where to begin.
//!
//! Each element of a row has a hint: for its key k, which older row is asked next (the newest
//! *predecessor* that is live at k and among whose keys k lies), and the index there of the first
//! element with a key at or above k.
//!
//! ```text
//!   newer row      10 ──── 17 ── 23          sought: 12, which is not there: it would stand
//!                   │       ╲     ╲          before the element i = 17
//!   predecessor  8 ─┴─ 13 ── 15 ── 30        12 lies between the hints of i-1 and i:
//!                │     └───────┘             at or above 8|13's hint of 10, at or below that of 17
//! ```
//!
//! # Why the narrowed interval holds the answer
//! Let key(i) be the key of element i of the newer row, and low(k) the index of the predecessor's
//! first element with a key at or above k, its count if there is none. Keys of a row never descend,
//! so low never descends either. A search for k ended at i: key(i-1) < k ≤ key(i), as far as there
//! are these elements. So
//!
//! ```text
//!   low(key(i-1))  ≤  low(k)  ≤  low(key(i))
//! ```
//!
//! and a hint of element j into this predecessor *is* low(key(j)). Each side holds by itself: where
//! one of the two elements is missing, or its hint is into another row, the interval is open there.
//!
//! Nothing in this depends on what is live or consumed, then or since: low is about the elements of
//! an immutable row, and rows keep their elements when their pages go. Liveness only decides which
//! row a hint is worth most for. Nor does it depend on the row being *next*: bounds for one row
//! that come from several newer ones all hold, so the narrowest counts; and a row that was left out
//! (its keys do not reach k, it is gone, it is searched by other means) breaks no chain but its
//! own.
//!
//! Hints are advisory: a row is found by its uid, and one that no hint names is searched as a
//! whole.
//!
//! *Source:* TriangleKV §3.4. *Differs:* there hints are into the row just before, so that a row in
//! between that does not reach the key, or a row that is gone, ends the chain; and the lower hint
//! is included by a rule of its own, since the index says nothing about which rows it holds for.

use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;
use terrace_base::TableUid;
use terrace_env::Latch;

use super::format::{ENTRIES_MAX, PREDECESSORS_MAX};

/// Where a key stands in one of a row's predecessors, in 32 bits; or that nothing is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hint(u32);

impl Hint {
    /// Nothing is known.
    pub const NONE: Hint = Hint(u32::MAX);

    /// The first element at or above the key has this index (the count of elements if there is
    /// none) in the predecessor with this place in the list.
    ///
    /// # Panics
    /// If there can be no such predecessor or no such index.
    #[must_use]
    pub fn new(predecessor: usize, index: usize) -> Hint {
        assert!(predecessor < PREDECESSORS_MAX && index <= ENTRIES_MAX, "a hint has 32 bits");
        Hint((predecessor as u32) << 24 | index as u32)
    }

    /// The place in the list of predecessors, and the index in that row.
    #[must_use]
    pub fn get(self) -> Option<(usize, usize)> {
        let (predecessor, index) = ((self.0 >> 24) as usize, (self.0 & 0x00ff_ffff) as usize);
        (predecessor < PREDECESSORS_MAX).then_some((predecessor, index))
    }

    /// The stored form.
    #[must_use]
    pub fn to_stored(self) -> u32 {
        self.0
    }

    /// The inverse of [`Hint::to_stored`].
    #[must_use]
    pub fn from_stored(stored: u32) -> Hint {
        Hint(stored)
    }
}

impl fmt::Debug for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some((predecessor, index)) => write!(f, "{predecessor}:{index}"),
            None => f.write_str("none"),
        }
    }
}

/// A row whose search has ended, as far as hints go.
pub trait Hinting {
    /// The hint of an element; [`Hint::NONE`] if there is no such element.
    fn hint(&self, index: usize) -> Hint;

    /// The rows that hints point into.
    fn predecessors(&self) -> &[TableUid];
}

/// What the searches for one key in newer rows tell about older ones.
///
/// Usual size: a few rows, without an allocation.
#[derive(Clone, Debug, Default)]
pub struct SearchTrail {
    /// Looked through from the end: most hints are into the row that is asked next.
    bounds: SmallVec<[Bounds; 4]>,
}

/// The index that is sought in one row is at least `low`, and at most `high` if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    row: TableUid,
    low: usize,
    high: usize,
}

impl SearchTrail {
    /// Forgets everything: for another key.
    pub fn clear(&mut self) {
        self.bounds.clear();
    }

    /// Notes that `index` is the first element of `row` at or above the key (its count if there is
    /// none).
    #[inline]
    pub fn note(&mut self, row: &impl Hinting, index: usize) {
        if let Some((predecessor, high)) = row.hint(index).get()
            && let Some(uid) = row.predecessors().get(predecessor)
        {
            let bounds = self.bounds_of(*uid);
            bounds.high = bounds.high.min(high);
        }
        if let Some(before) = index.checked_sub(1)
            && let Some((predecessor, low)) = row.hint(before).get()
            && let Some(uid) = row.predecessors().get(predecessor)
        {
            let bounds = self.bounds_of(*uid);
            bounds.low = bounds.low.max(low);
        }
    }

    fn bounds_of(&mut self, row: TableUid) -> &mut Bounds {
        let index = match self.bounds.iter().rposition(|bounds| bounds.row == row) {
            Some(index) => index,
            None => {
                self.bounds.push(Bounds { row, low: 0, high: usize::MAX });
                self.bounds.len() - 1
            }
        };
        &mut self.bounds[index]
    }

    /// Among which elements of a row with `count` of them the key has to be searched: the index of
    /// the first at or above it lies in the interval or is its end.
    #[must_use]
    #[inline]
    pub fn within(&self, row: TableUid, count: usize) -> Range<usize> {
        match self.bounds.iter().rfind(|bounds| bounds.row == row) {
            // Bounds that cannot be come from a damaged writer's hints: they are only advice.
            Some(bounds) if bounds.low <= bounds.high.min(count) => {
                bounds.low..bounds.high.min(count)
            }
            _ => 0..count,
        }
    }
}

/// The [`SearchTrail`] that cursors over several rows of one scan share, which seek one after the
/// other, the newest row's first.
///
/// Cost: a short latch a seek, which nobody else wants.
#[derive(Debug, Default)]
pub struct SeekTrail(Latch<SeekState>);

#[derive(Debug, Default)]
struct SeekState {
    key: Vec<u8>,
    trail: SearchTrail,
}

impl SeekTrail {
    /// Among which elements of a row a cursor has to search for `key`.
    #[must_use]
    pub fn within(&self, key: &[u8], row: TableUid, count: usize) -> Range<usize> {
        let mut state = self.0.lock();
        if state.key != key {
            state.trail.clear();
            state.key.clear();
            state.key.extend_from_slice(key);
        }
        state.trail.within(row, count)
    }

    /// Notes where a cursor's search for `key` ended.
    pub fn note(&self, key: &[u8], row: &impl Hinting, index: usize) {
        let mut state = self.0.lock();
        if state.key == key {
            state.trail.note(row, index);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the narrowed interval holds the answer, whatever the hints name.
    //! Method: stacks of random sorted rows with hints into any of the older ones, or none; every
    //! key searched through all rows, or through some, beside a plain binary search.

    use super::*;
    use terrace_env::SeededRng;

    struct Row {
        uid: TableUid,
        keys: Vec<u8>,
        hints: Vec<Hint>,
        predecessors: Vec<TableUid>,
    }

    impl Row {
        fn low(&self, key: u8) -> usize {
            self.keys.partition_point(|other| *other < key)
        }
    }

    impl Hinting for Row {
        fn hint(&self, index: usize) -> Hint {
            self.hints.get(index).copied().unwrap_or(Hint::NONE)
        }

        fn predecessors(&self) -> &[TableUid] {
            &self.predecessors
        }
    }

    /// Rows, the newest first, whose hints are right but may be into any older row.
    fn stack(rng: &mut SeededRng) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for number in 0..rng.index(7) + 2 {
            let alphabet = rng.pick(&[4, 40, 250]);
            let mut keys: Vec<u8> = (0..rng.index(60)).map(|_| rng.index(alphabet) as u8).collect();
            keys.sort_unstable();
            let none_in = rng.pick(&[2, 5, 1000]);
            let strays = rng.one_in(2);
            let hint = |key: &u8| {
                if rows.is_empty() || rng.one_in(none_in) {
                    return Hint::NONE;
                }
                let predecessor = if strays { rng.index(rows.len()) } else { 0 };
                Hint::new(predecessor, rows[predecessor].low(*key))
            };
            let hints = keys.iter().map(hint).collect();
            let predecessors = rows.iter().map(|row| row.uid).collect();
            rows.insert(0, Row { uid: TableUid(number as u128), keys, hints, predecessors });
        }
        rows
    }

    #[test]
    fn a_narrowed_interval_always_holds_the_answer_of_a_whole_search() {
        let (mut narrowed, mut searches) = (0, 0);
        for seed in 0..400 {
            let mut rng = SeededRng::new(seed);
            let rows = stack(&mut rng);
            let left_out = rng.pick(&[2, 4, 1000]);
            for key in 0..=251 {
                let mut trail = SearchTrail::default();
                let shared = SeekTrail::default();
                for row in &rows {
                    if rng.one_in(left_out) {
                        continue;
                    }
                    let within = trail.within(row.uid, row.keys.len());
                    let low = row.low(key);
                    let context = format!("seed {seed}, key {key}, row {:?}", row.uid);
                    assert!(within.start <= low && low <= within.end, "{context}: {within:?}");
                    assert!(within.end <= row.keys.len(), "{context}: {within:?}");
                    assert_eq!(shared.within(&[key], row.uid, row.keys.len()), within, "{context}");
                    narrowed += usize::from(within.len() < row.keys.len());
                    searches += 1;
                    trail.note(row, low);
                    shared.note(&[key], row, low);
                }
            }
        }
        assert!(narrowed * 3 > searches, "{narrowed} of {searches} searches were narrowed");
    }

    #[test]
    fn a_trail_of_another_key_is_not_followed() {
        let older = Row {
            uid: TableUid(1),
            keys: vec![1, 5, 9],
            hints: vec![Hint::NONE; 3],
            predecessors: Vec::new(),
        };
        let newer = Row {
            uid: TableUid(2),
            keys: vec![4, 6],
            hints: vec![Hint::new(0, 1), Hint::new(0, 2)],
            predecessors: vec![older.uid],
        };
        let trail = SeekTrail::default();
        assert_eq!(trail.within(&[5], newer.uid, 2), 0..2);
        trail.note(&[5], &newer, 1);
        assert_eq!(trail.within(&[5], older.uid, 3), 1..2);
        assert_eq!(trail.within(&[7], older.uid, 3), 0..3, "another key");
        trail.note(&[5], &newer, 1);
        assert_eq!(trail.within(&[7], older.uid, 3), 0..3, "a late note about the key before");
    }

    #[test]
    fn forged_hints_are_no_advice() {
        let uid = TableUid(1);
        let forged = Row {
            uid: TableUid(2),
            keys: vec![1, 2, 3],
            hints: vec![Hint::new(0, 9), Hint::new(0, 2), Hint::new(200, 1)],
            predecessors: vec![uid],
        };
        let mut trail = SearchTrail::default();
        trail.note(&forged, 1);
        assert_eq!(trail.within(uid, 5), 0..5, "turned round");
        trail.clear();
        trail.note(&forged, 2);
        assert_eq!(trail.within(uid, 5), 2..5, "a predecessor that is not in the list");
        trail.clear();
        trail.note(&forged, 0);
        assert_eq!(trail.within(uid, 5), 0..5, "beyond the end");
    }

    #[test]
    fn hints_round_trip_and_one_value_is_none() {
        for (predecessor, index) in [(0, 0), (7, 12345), (254, ENTRIES_MAX)] {
            let hint = Hint::new(predecessor, index);
            assert_eq!(hint.get(), Some((predecessor, index)));
            assert_eq!(Hint::from_stored(hint.to_stored()), hint);
        }
        assert_eq!(Hint::NONE.get(), None);
        assert_eq!(Hint::from_stored(255 << 24).get(), None);
    }
}
