//! The cut map: which rows of L0 still count at each key.
//!
//! # Why
//! A cut that took whole rows would have to take all rows that are connected by shared keys, most
//! often all of L0, and everything below them. A cut that takes a key slice out of the rows leaves
//! rows behind that count at some keys and not at others. A row is a sorted file that nobody
//! writes to again, so what is gone from it is noted beside it.
//!
//! # How
//! One ordered map says it for all rows: key interval → newest consumed row. **Row r is live at key
//! k iff r > map(k)**; where the map says nothing, every row is live.
//!
//! ```text
//!   keys         a       e       i       m       q
//!   row 9        ├───────────────────────┤             ═══ live   ··· consumed
//!                ════════════════════════
//!   row 8        ├───────────────────────────────┤
//!                ════════········════════════════
//!   row 5            ├───────────────────────────┤
//!                    ····················════════
//!   map                  [e … i) → 8
//!                [a …  e) → 5    [i …  m) → 5
//! ```
//!
//! A cut sets one interval. Neighbours that say the same are joined, and an interval that speaks
//! about no row that is left is dropped, so the map is as small as what it has to say.
//!
//! # Why newer stays above older at every key
//! Take any key k. By the invariants of L0 (see the [room's door](super)), what a newer row holds
//! of k is newer.
//! 1. *A cut takes the oldest.* A cut over k *through* row n takes whatever is live at k of all
//!    rows up to n. So the rows that are live at k after it are exactly those above n: it took the
//!    older part of k's rows, and all of it.
//! 2. *What comes later is above n.* Row ids are given at installation, in its order, and n was
//!    installed when the cut was picked. A row that is installed while the cut runs has a greater
//!    id: it is live, and newer than all that went down.
//! 3. *Nothing changes under a running cut.* Two jobs that would take the same rows at the same key
//!    never run at once ([`Taken`](crate::compaction::pick::Taken)). A row that is merged within
//!    L0 out of others is made of what was live of them, has the id of the newest, and no cut that
//!    takes one of them runs meanwhile; so a map that is set before or after says the right thing
//!    about it.
//! 4. *What went down lies below.* The outputs go to no deeper level than the first that holds
//!    anything in the slice, and all tables of that level in the slice take part. Whoever reads in
//!    a version reads the rows by the map of the same version: one edit changes both.
//! 5. *Never backwards.* Setting an interval only raises what the map says, in whatever order the
//!    edits of disjoint cuts come. A consumed row never comes to life again.
//!
//! A row goes when none of its tables is live anywhere; only then does its file go.

use std::fmt;
use std::sync::Arc;

use terrace_base::{KeyRange, RowId};

/// In these keys all rows up to one are consumed.
#[derive(Clone, PartialEq, Eq)]
pub struct CutInterval {
    /// The keys.
    pub slice: KeyRange,
    /// The newest consumed row.
    pub through: RowId,
}

impl fmt::Debug for CutInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} → {:?}", self.slice, self.through)
    }
}

/// Where something in a row counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Live {
    /// At all its keys.
    Everywhere,
    /// Within these intervals, which ascend, do not touch and are not empty.
    Within(Arc<[KeyRange]>),
    /// Nowhere.
    Nowhere,
}

impl Live {
    /// The keys of `span`, within which this was asked, that count.
    #[must_use]
    pub fn parts<'a>(&'a self, span: &'a KeyRange) -> &'a [KeyRange] {
        match self {
            Live::Everywhere => std::slice::from_ref(span),
            Live::Within(parts) => parts,
            Live::Nowhere => &[],
        }
    }
}

/// Key interval → newest consumed row. Immutable; clones share it.
#[derive(Clone, PartialEq, Eq)]
pub struct CutMap {
    /// Ascending, disjoint, not empty; neighbours that touch differ.
    intervals: Arc<[CutInterval]>,
}

impl Default for CutMap {
    fn default() -> CutMap {
        CutMap { intervals: Arc::new([]) }
    }
}

impl CutMap {
    /// Whether every row is live everywhere.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The intervals, ascending and disjoint.
    #[must_use]
    pub fn intervals(&self) -> &[CutInterval] {
        &self.intervals
    }

    /// The newest row that is consumed at `key`; row 0, which there never is, if none is.
    /// Cost: O(log n), no allocation.
    #[must_use]
    pub fn through(&self, key: &[u8]) -> RowId {
        let index = self.intervals.partition_point(|one| one.slice.is_before(key));
        match self.intervals.get(index) {
            Some(one) if one.slice.start() <= key => one.through,
            _ => RowId(0),
        }
    }

    /// Whether `row` is live anywhere within `span`, which is not empty.
    #[must_use]
    pub fn is_live(&self, row: RowId, span: &KeyRange) -> bool {
        self.live(row, span) != Live::Nowhere
    }

    /// Where `row` is live within `span`, which is not empty.
    #[must_use]
    pub fn live(&self, row: RowId, span: &KeyRange) -> Live {
        let is_consumed = |one: &&CutInterval| one.through >= row;
        let mut consumed = self.overlapping(span).iter().filter(is_consumed).peekable();
        if consumed.peek().is_none() {
            return Live::Everywhere;
        }
        let parts = span.outside_of(consumed.map(|one| &one.slice));
        if parts.is_empty() { Live::Nowhere } else { Live::Within(parts.into()) }
    }

    /// The map after a cut: within its slice all rows up to its last are consumed, and whatever
    /// was consumed before.
    #[must_use]
    pub fn after(&self, cut: &CutInterval) -> CutMap {
        if cut.slice.is_empty() {
            return self.clone();
        }
        let mut out: Vec<CutInterval> = Vec::with_capacity(self.intervals.len() + 2);
        // What of the slice no interval of the map speaks about yet.
        let mut unsaid = Some(cut.slice.clone());
        let mut put = |slice: KeyRange, through: RowId| match out.last_mut() {
            _ if slice.is_empty() => {}
            Some(last) if last.through == through && last.slice.end() == Some(slice.start()) => {
                last.slice = last.slice.hull(&slice);
            }
            _ => out.push(CutInterval { slice, through }),
        };
        for one in self.intervals.iter() {
            if let Some(left) = unsaid.take() {
                put(before(&left, one.slice.start()), cut.through);
                unsaid =
                    one.slice.end().map(|end| from(&left, end)).filter(|rest| !rest.is_empty());
            }
            put(before(&one.slice, cut.slice.start()), one.through);
            let shared = one.slice.intersection(&cut.slice);
            put(shared, one.through.max(cut.through));
            if let Some(end) = cut.slice.end() {
                put(from(&one.slice, end), one.through);
            }
        }
        if let Some(rest) = unsaid {
            put(rest, cut.through);
        }
        CutMap { intervals: out.into() }
    }

    /// The map without the intervals that speak about no row that is left. `concerns` says whether
    /// there is a row up to the given one that holds anything in the interval.
    #[must_use]
    pub fn without_idle(&self, concerns: impl Fn(&CutInterval) -> bool) -> CutMap {
        if self.intervals.iter().all(&concerns) {
            return self.clone();
        }
        CutMap { intervals: self.intervals.iter().filter(|one| concerns(one)).cloned().collect() }
    }

    /// The intervals that share a key with `range`.
    fn overlapping(&self, range: &KeyRange) -> &[CutInterval] {
        let first = self.intervals.partition_point(|one| one.slice.is_before(range.start()));
        let rest = &self.intervals[first..];
        &rest[..rest.partition_point(|one| !range.is_before(one.slice.start()))]
    }
}

/// The part of `range` below `key`.
fn before(range: &KeyRange, key: &[u8]) -> KeyRange {
    range.intersection(&KeyRange::new("", Some(key.to_vec())))
}

/// The part of `range` from `key` on.
fn from(range: &KeyRange, key: &[u8]) -> KeyRange {
    range.intersection(&KeyRange::new(key, None))
}

impl fmt::Debug for CutMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.intervals.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the map says of every key and row what a list of consumed rows for each key says.
    //! Method: drawings, and cuts drawn at random beside that list.

    use std::collections::{BTreeMap, BTreeSet};
    use std::fmt::Write as _;

    use terrace_env::SeededRng;

    use super::*;
    use crate::l0::range;
    use crate::tests::specimens::assert_as_drawn;

    fn row(word: &str) -> RowId {
        RowId(word.parse().expect("a number"))
    }

    const KEYS: &[u8] = b"abcdefghijklmnop";

    /// The rows, newest first: where they are live, where they are consumed; and the map.
    fn draw(map: &CutMap, rows: &[(RowId, KeyRange)]) -> String {
        let mut out = String::from("        abcdefghijklmnop\n");
        for (id, span) in rows {
            let live = map.live(*id, span);
            let letter = |key: &u8| match span.contains(&[*key]) {
                false => ' ',
                true if live.parts(span).iter().any(|part| part.contains(&[*key])) => '=',
                true => '.',
            };
            let drawn: String = KEYS.iter().map(letter).collect();
            let _ = writeln!(out, "row {:<3} {}", id.0, drawn.trim_end());
        }
        for one in map.intervals() {
            let _ = writeln!(out, "{one:?}");
        }
        out
    }

    /// Each case of the file: a comment, lines `row ID RANGE` (newest first) and `cut RANGE
    /// THROUGH`, `goes ID`, `tidy`, `----`, and the drawing up to the next empty line.
    #[test]
    fn cuts_look_as_drawn() {
        assert_as_drawn("l0/testdata/cut_map.txt", |input| {
            let mut map = CutMap::default();
            let mut rows = Vec::new();
            for line in input.lines() {
                match line.split_whitespace().collect::<Vec<_>>()[..] {
                    ["row", id, span] => rows.push((row(id), range(span))),
                    ["cut", slice, through] => {
                        map =
                            map.after(&CutInterval { slice: range(slice), through: row(through) });
                    }
                    ["tidy"] => {
                        map = map.without_idle(|one| {
                            rows.iter()
                                .any(|(id, span)| *id <= one.through && span.overlaps(&one.slice))
                        });
                    }
                    ["goes", id] => rows.retain(|(other, _)| *other != row(id)),
                    _ => assert!(line.starts_with('#'), "{line:?} is no step"),
                }
            }
            draw(&map, &rows)
        });
    }

    /// A key of at most two letters out of three, so that many are neighbours and prefixes.
    fn short_key(random: &mut SeededRng) -> Vec<u8> {
        (0..random.below(3)).map(|_| random.pick(b"\0b\xff")).collect()
    }

    fn draw_range(random: &mut SeededRng) -> KeyRange {
        let start = short_key(random);
        KeyRange::new(start, (random.below(4) > 0).then(|| short_key(random)))
    }

    fn all_keys() -> Vec<Vec<u8>> {
        let one = b"\0b\xff".map(|letter| vec![letter]);
        let two =
            one.iter().flat_map(|key| b"\0b\xff".map(|letter| [&key[..], &[letter]].concat()));
        let three = two.clone().map(|key| [&key[..], b"\0"].concat());
        let mut keys: Vec<Vec<u8>> = two.chain(three).chain(one.clone()).collect();
        keys.push(Vec::new());
        keys.sort();
        keys
    }

    #[test]
    fn the_map_says_what_a_list_for_each_key_says() {
        for seed in 0..if cfg!(miri) { 5 } else { 500 } {
            let mut random = SeededRng::new(seed);
            let mut map = CutMap::default();
            // The consumed rows of each key.
            let mut model: BTreeMap<Vec<u8>, BTreeSet<u64>> =
                all_keys().into_iter().map(|key| (key, BTreeSet::new())).collect();
            for step in 0..8 {
                let cut = CutInterval {
                    slice: draw_range(&mut random),
                    through: RowId(1 + random.below(9)),
                };
                map = map.after(&cut);
                for (_, consumed) in model.iter_mut().filter(|(key, _)| cut.slice.contains(key)) {
                    consumed.extend(1..=cut.through.0);
                }
                check(&map, &model, &mut random, &format!("seed {seed}, step {step}, {cut:?}"));
            }
        }
    }

    fn check(
        map: &CutMap,
        model: &BTreeMap<Vec<u8>, BTreeSet<u64>>,
        random: &mut SeededRng,
        name: &str,
    ) {
        for (key, consumed) in model {
            let greatest = consumed.last().copied().unwrap_or(0);
            assert_eq!(map.through(key), RowId(greatest), "{name}: {key:?} of {map:?}");
        }
        assert!(map.intervals().iter().all(|one| !one.slice.is_empty()), "{name}: {map:?}");
        for pair in map.intervals().windows(2) {
            assert!(pair[0].slice.is_before(pair[1].slice.start()), "{name}: {map:?}");
            let touches = pair[0].slice.end() == Some(pair[1].slice.start());
            assert!(!touches || pair[0].through != pair[1].through, "{name}: not joined {map:?}");
        }
        let span = draw_range(random);
        if span.is_empty() {
            return;
        }
        let id = RowId(1 + random.below(10));
        let live = map.live(id, &span);
        let parts = live.parts(&span);
        for (key, consumed) in model {
            let expected = span.contains(key) && !consumed.contains(&id.0);
            let found = parts.iter().any(|part| part.contains(key));
            assert_eq!(found, expected, "{name}: {id:?} at {key:?} in {span:?} of {map:?}");
        }
        assert!(parts.iter().all(|part| !part.is_empty()), "{name}");
        assert!(parts.windows(2).all(|pair| pair[0].end() < Some(pair[1].start())), "{name}");
        let is_whole = model.iter().all(|(key, own)| !span.contains(key) || !own.contains(&id.0));
        // A hole between two keys of the model can only be seen by the map.
        assert!(is_whole || live != Live::Everywhere, "{name}");
    }

    #[test]
    fn the_order_of_cuts_does_not_matter() {
        for seed in 0..if cfg!(miri) { 5 } else { 300 } {
            let mut random = SeededRng::new(seed);
            let cuts: Vec<CutInterval> = (0..6)
                .map(|_| CutInterval {
                    slice: draw_range(&mut random),
                    through: RowId(1 + random.below(5)),
                })
                .collect();
            let forward = cuts.iter().fold(CutMap::default(), |map, cut| map.after(cut));
            let backward = cuts.iter().rev().fold(CutMap::default(), |map, cut| map.after(cut));
            assert_eq!(forward, backward, "seed {seed}: {cuts:?}");
            let again =
                forward.intervals().iter().fold(CutMap::default(), |map, one| map.after(one));
            assert_eq!(again, forward, "seed {seed}: its intervals make the map");
        }
    }
}
