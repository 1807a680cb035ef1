//! Which slice of the triangle is cut next. Pure.
//!
//! A cut takes one key slice out of all rows, the *right-angle side* of the triangle:
//!
//! ```text
//!               cut last      cut longest ago
//!                   │         │
//!   newest  row 9   ├─────────────────────────┤        what a slice holds grows with the time since it
//!           row 8   ├─────────────────────────┤        was cut, so the rows make a triangle (here cut off
//!           row 7      ╎├─────────────────────┤        at both ends, since the cuts go round)
//!           row 6          ╎├─────────────────┤
//!           row 5                 ├───────────┤
//!           row 4                 ├───╎                the next cut: from here as far as it is large
//!                                 └───┘                enough
//!   L1      ├──┤├──────┤ ├───┤├───┤├──┤  ├────┤        it ends where a table begins or ends, or in a gap
//! ```
//!
//! # How
//! 1. *Turn.* The next slice begins where the oldest row that is left begins to count: that is where no cut
//!    has been for the longest time. From there on slices follow each other to the end of the keys, and
//!    then from the first key on. Nothing has to be remembered: the rows say it.
//! 2. *Size.* A slice reaches as far as it holds `min` bytes, and not beyond `max`. What counts is what a
//!    cut reads: what is live of the rows in it, and the tables that it meets below.
//! 3. *Ends.* A slice ends in no table below, so that no table is written twice for one key; between
//!    tables it ends at a key of a row. Where nothing lies below, only that.
//! 4. *Search.* Sampled keys say about how far a slice reaches. How many bytes it really has the rows are
//!    asked, some times for each slice; and for more keys, if between two of them it grows from too small to
//!    too large.
//! 5. *Rests.* What would be too small, before a place where a slice must end, goes with the slice before
//!    it; and if both are too much for one, they are evened out.
//!
//! Slices are worked out one by one, as they are asked for. Each is within the bounds, but for those that
//! [`CutEnd`] names. Below `min` are slices at the end of the keys, where the turn begins, beside what a job
//! has taken, before a gap in the rows under which tables lie that no row meets (they would be rewritten for
//! nothing), and before what cannot be divided and is too large to go with them. Where nothing but range
//! tombstones is left, that is all of a slice between two such places. Beyond `max` is what cannot be
//! divided: a table that is larger, or the versions of one key.
//!
//! *Source:* TriangleKV (TPDS 2022), §3.2, where the bounds are ½·AF·S and AF·S for the ratio AF of levels
//! and tables of S bytes. *Differs:* there a slice begins at a table's end always, and when L1 is empty
//! nothing is said.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

use terrace_base::KeyRange;

use crate::l0::content::{Content, joined};
use crate::l0::{CutBounds, CutEnd};

/// How many bytes a cut takes: the rows' and those of the tables that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutSize {
    /// A slice reaches as far as it holds so many.
    pub min: u64,
    /// It holds no more than this.
    pub max: u64,
}

/// What the rows are asked.
pub(in crate::l0) trait Rows {
    /// How many bytes count within `keys`.
    fn bytes_within(&self, keys: &KeyRange) -> u64;

    /// Some keys behind the first of `keys` and below its end at which it could be divided: none only
    /// if the rows know of none.
    fn keys_within(&self, keys: &KeyRange) -> Vec<Vec<u8>>;
}

/// A slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::l0) struct Slice {
    /// Its keys.
    pub keys: KeyRange,
    /// Why it ends where it does.
    pub end: CutEnd,
}

/// The slices that are left of a turn. They share no key and no interval below, and outside of them, and
/// of what jobs have taken, nothing counts.
#[derive(Debug)]
pub(in crate::l0) struct Turn {
    size: CutSize,
    /// Where something counts, the next one first.
    stretches: VecDeque<Stretch>,
    /// Where slices may end, ascending.
    ends: Vec<End>,
    /// The intervals below that something counts in, ascending,
    below: Vec<KeyRange>,
    /// and how many bytes they and those before them have.
    below_bytes: Vec<u64>,
    /// How far the next slice reaches, if that was looked at.
    ahead: Option<Reach>,
}

/// Intervals that ascend in which something counts, and no slice ends between them for another reason
/// than its bytes.
#[derive(Debug)]
struct Stretch {
    counts: VecDeque<KeyRange>,
    /// Why slices do not go on behind it.
    end: CutEnd,
}

/// Where a slice may end: before this key, or nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End {
    key: Option<Vec<u8>>,
    /// About how many bytes lie before it; only differences mean something.
    before: u64,
}

/// How far a slice reaches.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// The place of its end.
    end: usize,
    bytes: u64,
}

/// What is said about an end.
enum Judged {
    /// By so many bytes too near,
    Near(u64),
    /// or too far.
    Far(u64),
    Fits,
}

/// What is before what, where `None` is behind everything.
fn compare(a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    a.is_none().cmp(&b.is_none()).then_with(|| a.cmp(&b))
}

impl Turn {
    /// The turn whose first slice begins at or before `first`.
    ///
    /// Cost: O(n log n) for n parts, samples and intervals below.
    pub fn new(content: Content<'_>, first: &[u8], bounds: &CutBounds, size: CutSize) -> Turn {
        let busy = with_met(&joined(bounds.busy.iter()), &bounds.below);
        let live = joined(content.parts.iter().copied());
        let free: Vec<KeyRange> = live.iter().flat_map(|keys| keys.outside_of(&busy)).collect();
        let earlier = with_met(&free, &bounds.below);
        let is_met = |one: &&(KeyRange, u64)| meets(&earlier, &one.0);
        let (met, unmet): (Vec<_>, Vec<_>) = bounds.below.iter().partition(is_met);
        let unmet: Vec<KeyRange> = unmet.into_iter().map(|(keys, _)| keys.clone()).collect();
        let (below, bytes): (Vec<KeyRange>, Vec<u64>) = met.into_iter().cloned().unzip();
        // A slice has all of an interval below.
        let around = below.get(below.partition_point(|keys| keys.is_before(first)));
        let start = around.map_or(first, |keys| keys.start().min(first));
        let (earlier, later) = divided(earlier, start);
        let ends = ends_of(content, earlier.iter().chain(&later), below.iter().zip(&bytes));
        let mut stretches = stretches_of(later, None, &busy, &unmet);
        stretches.extend(stretches_of(earlier, Some(start), &busy, &unmet));
        let sums = std::iter::once(0).chain(bytes.iter().scan(0, |sum, bytes| {
            *sum += bytes;
            Some(*sum)
        }));
        let below_bytes = sums.collect();
        Turn { size, stretches, ends, below, below_bytes, ahead: None }
    }

    /// The next slice.
    ///
    /// Cost: `rows` are asked about two to ten times.
    pub fn next(&mut self, rows: &(impl Rows + ?Sized)) -> Option<Slice> {
        let stretch = self.stretches.front()?;
        let first = stretch.counts.front().expect("no stretch is empty");
        let until = stretch.counts.back().and_then(KeyRange::end).map(<[u8]>::to_vec);
        let (start, wall) = (first.start().to_vec(), stretch.end);
        let reach = match self.ahead.take() {
            Some(known) => known,
            None => self.reach(rows, &start, until.as_deref()),
        };
        let reach = self.with_rest(rows, &start, until.as_deref(), reach);
        let end = self.ends[reach.end].key.clone();
        let why = match reach.bytes {
            bytes if bytes > self.size.max => CutEnd::Undivided,
            bytes if bytes >= self.size.min => CutEnd::InBounds,
            _ if end == until => wall,
            _ => CutEnd::BeforeUndivided,
        };
        self.pass(end.as_deref());
        Some(Slice { keys: KeyRange::new(start, end), end: why })
    }

    /// Goes on behind `end`.
    fn pass(&mut self, end: Option<&[u8]>) {
        let stretch = self.stretches.front_mut().expect("the slice was in it");
        let is_over = |keys: &KeyRange| compare(keys.end(), end).is_le();
        while stretch.counts.front().is_some_and(is_over) {
            stretch.counts.pop_front();
        }
        match stretch.counts.front_mut() {
            None => drop(self.stretches.pop_front()),
            Some(keys) => {
                let start = end.unwrap_or_default().max(keys.start());
                *keys = KeyRange::new(start, keys.end().map(<[u8]>::to_vec));
            }
        }
    }

    /// How many bytes a slice has that is nowhere in the middle of an interval below.
    fn bytes(&self, rows: &(impl Rows + ?Sized), start: &[u8], end: Option<&[u8]>) -> u64 {
        let before = self.below.partition_point(|keys| keys.is_before(start));
        let through = self.below.partition_point(|keys| compare(Some(keys.start()), end).is_lt());
        let of_below = self.below_bytes[through.max(before)] - self.below_bytes[before];
        let keys = KeyRange::new(start, end.map(<[u8]>::to_vec));
        of_below + rows.bytes_within(&keys)
    }

    /// The interval below that `key` lies in.
    fn interval_at(&self, key: &[u8]) -> Option<&KeyRange> {
        let place = self.below.partition_point(|keys| keys.is_before(key));
        self.below.get(place).filter(|keys| keys.contains(key))
    }

    /// The first of the ends behind `key`.
    fn first_behind(&self, key: &[u8]) -> usize {
        self.ends.partition_point(|end| compare(end.key.as_deref(), Some(key)).is_le())
    }

    /// The place of an end that there is.
    fn place(&self, key: Option<&[u8]>) -> usize {
        self.ends.partition_point(|end| compare(end.key.as_deref(), key).is_lt())
    }

    /// How far a slice from `start` reaches, if it goes no further than `until`: as far as it is within the
    /// bounds, or else as far as it is too small, or else no further than it must.
    fn reach(&mut self, rows: &(impl Rows + ?Sized), start: &[u8], until: Option<&[u8]>) -> Reach {
        let CutSize { min, max } = self.size;
        // A little more, so that not every guess that is too low is asked about.
        let aim = min + max.saturating_sub(min) / 8;
        let large = min + max.saturating_sub(min) / 2;
        let mut search = Search::new(self, start, until, aim);
        let (mut near, mut far, mut fits) = (0, 0, None);
        loop {
            let found = search.narrow(self, |turn, end| {
                let bytes = turn.bytes(rows, start, turn.ends[end].key.as_deref());
                let reach = Reach { end, bytes };
                if bytes < min {
                    near = bytes;
                    return Judged::Near(aim - bytes);
                }
                if bytes <= max {
                    fits = Some(reach);
                }
                if bytes > large {
                    far = bytes;
                    return Judged::Far(bytes - aim);
                }
                Judged::Fits
            });
            if found || fits.is_some() {
                return fits.expect("what was found fits");
            }
            if !search.refine(self, rows) {
                break;
            }
        }
        match search.near() {
            Some(end) => Reach { end, bytes: near },
            None => Reach { end: search.candidates.end, bytes: far },
        }
    }

    /// The reach of a slice from `start` when the next one is taken care of, if that would be too small.
    fn with_rest(
        &mut self,
        rows: &(impl Rows + ?Sized),
        start: &[u8],
        until: Option<&[u8]>,
        reach: Reach,
    ) -> Reach {
        let CutSize { min, max } = self.size;
        let end = self.ends[reach.end].key.clone();
        let Some(middle) = end.as_deref().filter(|end| Some(*end) != until) else { return reach };
        if !(min..=max).contains(&reach.bytes) {
            return reach;
        }
        let next = self.reach(rows, middle, until);
        if next.bytes >= min {
            self.ahead = Some(next);
            return reach;
        }
        let rest = self.ends[next.end].key.clone();
        let rest = rest.as_deref();
        let bytes = self.bytes(rows, start, rest);
        if bytes <= max {
            return Reach { end: next.end, bytes };
        }
        let half = bytes / 2;
        let mut search = Search::new(self, start, rest, half);
        let mut found = None;
        loop {
            let is_found = search.narrow(self, |turn, end| {
                let key = turn.ends[end].key.as_deref();
                let bytes = turn.bytes(rows, start, key);
                let others = key.map_or(0, |key| turn.bytes(rows, key, rest));
                if bytes < min || others > max {
                    return Judged::Near(half.saturating_sub(bytes));
                }
                if bytes > max || others < min {
                    return Judged::Far(bytes.saturating_sub(half));
                }
                found = Some(Reach { end, bytes });
                Judged::Fits
            });
            if is_found || !search.refine(self, rows) {
                // What was looked at ahead is not what comes next then.
                return found.unwrap_or(Reach { end: self.place(Some(middle)), ..reach });
            }
        }
    }
}

/// The search for an end.
struct Search {
    start: Vec<u8>,
    /// The first of the ends that are looked at, and the one behind the last.
    all: Range<usize>,
    /// Those before are too near, those behind too far.
    candidates: Range<usize>,
    /// About which value of [`End::before`] is looked for.
    target: u64,
}

/// So often the next guess follows from what the last one was too near or too far by; then halves are
/// taken.
const GUESSES: usize = 4;

impl Search {
    /// Among the ends behind `start`, up to `until`, one that has about `aim` bytes before it.
    fn new(turn: &Turn, start: &[u8], until: Option<&[u8]>, aim: u64) -> Search {
        let all = turn.first_behind(start)..turn.place(until) + 1;
        let before = all.start.checked_sub(1).map_or(0, |last| turn.ends[last].before);
        let (start, candidates) = (start.to_vec(), all.clone());
        Search { start, all, candidates, target: before.saturating_add(aim) }
    }

    /// The last end that is too near.
    fn near(&self) -> Option<usize> {
        (self.candidates.start > self.all.start).then(|| self.candidates.start - 1)
    }

    /// Looks whether one of the candidates fits; if not, none is left, and the one behind them, if it is one
    /// of all, was the last to be found too far.
    fn narrow(&mut self, turn: &Turn, mut judge: impl FnMut(&Turn, usize) -> Judged) -> bool {
        for round in 0.. {
            let Range { start, end } = self.candidates;
            if start >= end {
                break;
            }
            let ends = &turn.ends[start..end];
            let guess = match round < GUESSES {
                true => ends.partition_point(|end| end.before < self.target),
                false => ends.len() / 2,
            };
            let guess = start + guess.min(ends.len() - 1);
            let before = turn.ends[guess].before;
            match judge(turn, guess) {
                Judged::Fits => return true,
                Judged::Near(by) => {
                    self.target = before.saturating_add(by);
                    self.candidates.start = guess + 1;
                }
                Judged::Far(by) => {
                    self.target = before.saturating_sub(by);
                    self.candidates.end = guess;
                }
            }
        }
        false
    }

    /// Asks `rows` for more ends between the last one that is too near and the first one that is too far.
    /// Whether there are any.
    fn refine(&mut self, turn: &mut Turn, rows: &(impl Rows + ?Sized)) -> bool {
        let place = self.candidates.start;
        if place >= self.all.end {
            return false;
        }
        let left = match self.near() {
            Some(near) => {
                turn.ends[near].key.clone().expect("only the last end is behind all keys")
            }
            None => self.start.clone(),
        };
        let between = KeyRange::new(left, turn.ends[place].key.clone());
        if turn.interval_at(between.start()).is_some_and(|keys| keys.hull(&between) == *keys) {
            return false;
        }
        let mut keys = rows.keys_within(&between);
        keys.retain(|key| {
            let is_inside = turn.interval_at(key).is_some_and(|keys| keys.start() < key.as_slice());
            key.as_slice() > between.start() && between.contains(key) && !is_inside
        });
        keys.sort_unstable();
        keys.dedup();
        let count = keys.len() as u64;
        let before = place.checked_sub(1).map_or(0, |last| turn.ends[last].before);
        let step = (turn.ends[place].before - before) / (count + 1);
        let ends = keys
            .into_iter()
            .zip(1..)
            .map(|(key, nth)| End { key: Some(key), before: before + step * nth });
        turn.ends.splice(place..place, ends);
        self.candidates = place..place + count as usize;
        self.all.end += count as usize;
        count > 0
    }
}

/// Whether an interval of a list, which ascend and are disjoint, shares a key with `keys`.
fn meets(list: &[KeyRange], keys: &KeyRange) -> bool {
    let place = list.partition_point(|one| one.is_before(keys.start()));
    list.get(place).is_some_and(|one| one.overlaps(keys))
}

/// Intervals, which ascend and are disjoint, each as wide as the intervals below that it meets.
fn with_met(own: &[KeyRange], below: &[(KeyRange, u64)]) -> Vec<KeyRange> {
    let sticks_out = |keys: &&KeyRange| {
        let met = own.get(own.partition_point(|one| one.is_before(keys.start())));
        met.filter(|one| one.overlaps(keys))
            .is_some_and(|one| keys.start() < one.start() || compare(keys.end(), one.end()).is_gt())
    };
    let met = below.iter().map(|(keys, _)| keys).filter(sticks_out);
    let mut all: Vec<&KeyRange> = own.iter().chain(met).collect();
    all.sort_by(|a, b| a.start().cmp(b.start()));
    joined(all.into_iter())
}

/// The intervals up to `key`, and those from there on.
fn divided(mut all: Vec<KeyRange>, key: &[u8]) -> (Vec<KeyRange>, Vec<KeyRange>) {
    let mut later = all.split_off(all.partition_point(|keys| keys.is_before(key)));
    if let Some(keys) = later.first_mut().filter(|keys| keys.start() < key) {
        all.push(KeyRange::new(keys.start(), Some(key.to_vec())));
        *keys = KeyRange::new(key, keys.end().map(<[u8]>::to_vec));
    }
    (all, later)
}

/// The intervals of `counts`, which ascend, parted where slices must end. What follows behind the last of
/// them begins at `limit`, or there is nothing.
fn stretches_of(
    counts: Vec<KeyRange>,
    limit: Option<&[u8]>,
    busy: &[KeyRange],
    unmet: &[KeyRange],
) -> VecDeque<Stretch> {
    let mut stretches = VecDeque::new();
    let mut open = VecDeque::new();
    let mut rest = counts.into_iter().peekable();
    while let Some(keys) = rest.next() {
        let next = rest.peek().map(KeyRange::start);
        let gap_end = next.or(limit).map(<[u8]>::to_vec);
        let gap = keys.end().map(|end| KeyRange::new(end, gap_end));
        let has = |others: &[KeyRange]| gap.as_ref().is_some_and(|gap| meets(others, gap));
        let end = match next {
            _ if has(busy) => Some(CutEnd::BesideJob),
            None => Some(CutEnd::EndOfTurn),
            Some(_) => has(unmet).then_some(CutEnd::BeforeGap),
        };
        open.push_back(keys);
        if let Some(end) = end {
            stretches.push_back(Stretch { counts: std::mem::take(&mut open), end });
        }
    }
    stretches
}

/// The keys where slices may end, in and behind intervals that ascend: where the parts and `below`
/// begin and end, and at samples; inside of nothing below.
fn ends_of<'a>(
    content: Content<'_>,
    counts: impl Iterator<Item = &'a KeyRange>,
    below: impl Iterator<Item = (&'a KeyRange, &'a u64)> + Clone,
) -> Vec<End> {
    let owned = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
    let counts: Vec<&KeyRange> = counts.collect();
    // What lies below has its bytes at its end, and a sample those of the keys before it.
    let samples = content.samples.into_iter().map(|(key, bytes)| (Some(key), bytes));
    let starts = below.clone().map(|(keys, _)| (owned(Some(keys.start())), 0));
    let ends = below.clone().map(|(keys, bytes)| (owned(keys.end()), *bytes));
    let of_counts = counts.iter().map(|keys| (owned(keys.end()), 0));
    let part_starts = content.parts.iter().map(|part| (owned(Some(part.start())), 0));
    let part_ends = content.parts.iter().map(|part| (owned(part.end()), 0));
    let all = samples.chain(starts).chain(ends).chain(of_counts).chain(part_starts);
    let mut all: Vec<(Option<Vec<u8>>, u64)> = all.chain(part_ends).collect();
    // Most of it is sorted.
    all.sort_by(|a, b| compare(a.0.as_deref(), b.0.as_deref()));
    let mut counts = counts.into_iter().peekable();
    let mut below = below.map(|(keys, _)| keys).peekable();
    let mut ends: Vec<End> = Vec::new();
    let mut before = 0;
    for (key, bytes) in all {
        let at = key.as_deref();
        while counts.next_if(|keys| compare(keys.end(), at).is_lt()).is_some() {}
        while below.next_if(|keys| compare(keys.end(), at).is_le()).is_some() {}
        let is_behind_start = |keys: &&KeyRange| compare(Some(keys.start()), at).is_lt();
        if !counts.peek().is_some_and(is_behind_start) {
            continue;
        }
        before += bytes;
        if below.peek().is_some_and(is_behind_start) {
            continue;
        }
        match ends.last_mut().filter(|last| last.key == key) {
            Some(last) => last.before = before,
            None => ends.push(End { key, before }),
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    //! Goal: slices hold all that counts, share nothing, come in the order of their turns, and have as many
    //! bytes as they should, but for those that are named. Method: drawings, and rows and tables drawn at
    //! random, judged key by key.

    use std::cell::Cell;
    use std::fmt::Write as _;

    use super::*;
    use crate::compaction::split::Sample;
    use crate::l0::range;

    const KEYS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";

    fn number(word: &str) -> u64 {
        word.parse().expect("a number")
    }

    /// A row: its entries, ascending, and where it counts.
    struct Row {
        id: u64,
        parts: Vec<KeyRange>,
        entries: Vec<(Vec<u8>, u64)>,
    }

    /// What there is to divide: rows, the newest first, and what lies below.
    struct Given {
        rows: Vec<Row>,
        /// Of the keys of entries those that are sampled; all if none are named.
        sampled: Vec<Vec<u8>>,
        below: Vec<(KeyRange, u64)>,
        busy: Vec<KeyRange>,
        size: CutSize,
    }

    impl Rows for Given {
        fn bytes_within(&self, keys: &KeyRange) -> u64 {
            let of_row = |row: &Row| -> u64 {
                let counts = |key: &[u8]| row.parts.iter().any(|part| part.contains(key));
                let is_in = |(key, _): &&(Vec<u8>, u64)| keys.contains(key) && counts(key);
                row.entries.iter().filter(is_in).map(|(_, bytes)| bytes).sum()
            };
            self.rows.iter().map(of_row).sum()
        }

        /// The middle one of each row.
        fn keys_within(&self, keys: &KeyRange) -> Vec<Vec<u8>> {
            let of_row = |row: &Row| {
                let is_in = |key: &&Vec<u8>| key.as_slice() > keys.start() && keys.contains(key);
                let all: Vec<_> = row.entries.iter().map(|(key, _)| key).filter(is_in).collect();
                all.get(all.len() / 2).copied().cloned()
            };
            self.rows.iter().filter_map(of_row).collect()
        }
    }

    impl Given {
        /// Where the oldest row begins to count.
        fn first(&self) -> &[u8] {
            let of_oldest = self.rows.last().into_iter().flat_map(|row| &row.parts);
            of_oldest.map(KeyRange::start).min().unwrap_or_default()
        }

        /// Where the turn begins: a slice has all of an interval below.
        fn turn_start(&self) -> &[u8] {
            let around = self.below.iter().find(|(keys, _)| keys.contains(self.first()));
            around.map_or(self.first(), |(keys, _)| keys.start())
        }

        /// As a table says it: with the bytes since the sample before.
        fn samples(&self) -> Vec<Sample> {
            let mut samples = Vec::new();
            for row in &self.rows {
                let mut since = 0;
                for (key, bytes) in &row.entries {
                    if self.sampled.is_empty() || self.sampled.contains(key) {
                        samples.push((key.clone(), since));
                        since = 0;
                    }
                    since += bytes;
                }
            }
            samples
        }

        fn turn(&self) -> Turn {
            let parts = self.rows.iter().flat_map(|row| &row.parts);
            let content = Content::new(parts, self.samples());
            let (below, busy) = (self.below.clone(), self.busy.clone());
            let bounds = CutBounds { below, busy, bytes: u64::MAX };
            Turn::new(content, self.first(), &bounds, self.size)
        }

        fn slices(&self) -> Vec<Slice> {
            let mut turn = self.turn();
            std::iter::from_fn(|| turn.next(self)).collect()
        }

        fn counts_within(&self, keys: &KeyRange) -> bool {
            self.rows.iter().any(|row| row.parts.iter().any(|part| part.overlaps(keys)))
        }

        /// Bytes below that a slice meets.
        fn below_of(&self, slice: &KeyRange) -> u64 {
            let met = self.below.iter().filter(|(keys, _)| keys.overlaps(slice));
            met.map(|(_, bytes)| bytes).sum()
        }

        fn bytes_of(&self, slice: &KeyRange) -> u64 {
            self.bytes_within(slice) + self.below_of(slice)
        }

        /// What a job has taken, with what that meets below.
        fn busy_with_met(&self) -> Vec<KeyRange> {
            let widened = self.busy.iter().map(|busy| {
                let met = self.below.iter().filter(|(keys, _)| keys.overlaps(busy));
                met.fold(busy.clone(), |busy, (keys, _)| busy.hull(keys))
            });
            widened.collect()
        }
    }

    fn read(input: &str) -> Given {
        let size = CutSize { min: 1, max: u64::MAX };
        let (below, busy) = (Vec::new(), Vec::new());
        let mut given = Given { rows: Vec::new(), sampled: Vec::new(), below, busy, size };
        for line in input.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["size", min, max] => {
                    given.size = CutSize { min: number(min), max: number(max) };
                }
                ["below", keys, bytes] => given.below.push((range(keys), number(bytes))),
                ["busy", keys] => given.busy.push(range(keys)),
                ["sampled", keys] => given.sampled = keys.bytes().map(|key| vec![key]).collect(),
                ["row", id, ref words @ ..] => {
                    let (entries, parts): (Vec<&str>, Vec<&str>) =
                        words.iter().partition(|word| word.contains('='));
                    let entries = entries.into_iter().flat_map(|word| {
                        let (keys, bytes) = word.split_once('=').expect("KEYS=BYTES");
                        keys.bytes().map(move |key| (vec![key], number(bytes)))
                    });
                    let mut entries: Vec<_> = entries.collect();
                    entries.sort();
                    let parts = parts.into_iter().map(range).collect();
                    given.rows.push(Row { id: number(id), parts, entries });
                }
                _ => assert!(line.starts_with('#'), "{line:?} is no line of a case"),
            }
        }
        given
    }

    /// The rows, what lies below, and the slices by their turns.
    fn draw(given: &Given) -> String {
        let line = |name: &str, letter: &dyn Fn(&[u8]) -> char| {
            let drawn: String = KEYS.iter().map(|key| letter(&[*key])).collect();
            let drawn = format!("{name:<8}{drawn}");
            format!("{}\n", drawn.trim_end())
        };
        let mut out = format!("        {}\n", str::from_utf8(KEYS).expect("letters"));
        for Row { id, parts, .. } in &given.rows {
            let counts = |key: &[u8]| parts.iter().any(|part| part.contains(key));
            out += &line(&format!("row {id}"), &|key| if counts(key) { '=' } else { ' ' });
        }
        let starts = |key: &[u8]| given.below.iter().any(|(keys, _)| keys.start() == key);
        let is_in = |key: &[u8]| given.below.iter().any(|(keys, _)| keys.contains(key));
        let below = |key: &[u8]| match (starts(key), is_in(key)) {
            (true, _) => '[',
            (_, true) => '-',
            _ => ' ',
        };
        out += &line("below", &below);
        if !given.busy.is_empty() {
            let is_in = |key: &[u8]| given.busy.iter().any(|keys| keys.contains(key));
            out += &line("busy", &|key| if is_in(key) { 'x' } else { ' ' });
        }
        for (turn, slice) in given.slices().iter().enumerate() {
            let letter = |key: &[u8]| if slice.keys.contains(key) { '^' } else { ' ' };
            let drawn = line(&format!("cut {}", turn + 1), &letter);
            let (rows, below) = (given.bytes_within(&slice.keys), given.below_of(&slice.keys));
            let why = match slice.end {
                CutEnd::InBounds => String::new(),
                end => format!(", {}", end.name()),
            };
            let _ = writeln!(out, "{:<36}{rows} and {below} below{why}", drawn.trim_end());
        }
        out
    }

    /// Each case of the file: a comment, lines `size MIN MAX`, `below KEYS BYTES`, `busy KEYS`, `sampled
    /// KEYS` and `row ID PARTS.. KEYS=BYTES..` (newest first; each of the keys has so many bytes), `----`,
    /// and the drawing up to the next empty line.
    #[test]
    fn slices_look_as_drawn() {
        let expected = include_str!("../testdata/cuts.txt");
        let mut actual = String::new();
        for case in expected.split_inclusive("\n\n") {
            let (input, _) = case.split_once("----\n").expect("a case has an input and a drawing");
            let _ = write!(actual, "{input}----\n{}\n", draw(&read(input)));
        }
        assert!(actual == expected, "the drawings are now\n{actual}");
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            (self.0 >> 33) % bound
        }

        fn key(&mut self) -> Vec<u8> {
            format!("{:02}", self.below(100)).into_bytes()
        }

        fn ascending_keys(&mut self, count: u64) -> Vec<Vec<u8>> {
            let mut keys: Vec<Vec<u8>> = (0..count).map(|_| self.key()).collect();
            keys.sort();
            keys.dedup();
            keys
        }

        /// Some of the intervals between keys, the last of which may have no end.
        fn ranges(&mut self, count: u64, one_in: u64) -> Vec<KeyRange> {
            let keys = self.ascending_keys(count);
            let ends = keys.iter().skip(1).cloned().map(Some).chain([None]);
            let all = keys.iter().zip(ends).map(|(start, end)| KeyRange::new(start.clone(), end));
            let all: Vec<KeyRange> = all.collect();
            all.into_iter().filter(|_| self.below(one_in) > 0).collect()
        }

        fn given(&mut self) -> Given {
            let rows = (0..1 + self.below(6)).rev().map(|id| {
                // Neighbours may touch, as parts do not.
                let mut parts = self.ranges(8, 3);
                parts.dedup_by(|next, last| {
                    let touches = last.end() == Some(next.start());
                    if touches {
                        *last = last.hull(next);
                    }
                    touches
                });
                // Some keys are consumed.
                let entries = self.ascending_keys(30).into_iter();
                let entries: Vec<_> = entries.map(|key| (key, self.below(30))).collect();
                Row { id, parts, entries }
            });
            let mut rows: Vec<Row> = rows.collect();
            rows.retain(|row| !row.parts.is_empty());
            let sampled = match self.below(3) {
                0 => Vec::new(),
                1 => self.ascending_keys(3),
                _ => self.ascending_keys(30),
            };
            let mut below = self.ranges(16, 3);
            if self.below(4) == 0 {
                below.clear();
            }
            let below = below.into_iter().map(|keys| (keys, 1 + self.below(60))).collect();
            let busy = if self.below(3) == 0 { self.ranges(4, 2) } else { Vec::new() };
            let max = 1 + self.below(400);
            // The bounds need not be that far from each other.
            let min = if self.below(4) == 0 { 1 + self.below(max) } else { max.div_ceil(2) };
            Given { rows, sampled, below, busy, size: CutSize { min, max } }
        }
    }

    #[test]
    fn slices_hold_everything_share_nothing_and_take_turns() {
        let (mut within, mut others) = (0, 0);
        for seed in 0..if cfg!(miri) { 5 } else { 2000 } {
            let given = Random(seed).given();
            let slices = given.slices();
            let rows = given.rows.iter().map(|row| (row.id, &row.parts, &row.entries));
            let name = format!(
                "seed {seed}: {:?} {:?} {:?} {:?} {:?} {slices:?}",
                rows.collect::<Vec<_>>(),
                given.sampled,
                given.below,
                given.busy,
                given.size
            );
            check_shares(&given, &slices, &name);
            check_turns(&given, &slices, &name);
            for turn in 0..slices.len() {
                check_size(&given, &slices, turn, &name);
            }
            let is_within = |slice: &&Slice| slice.end == CutEnd::InBounds;
            within += slices.iter().filter(is_within).count();
            others += slices.iter().filter(|slice| !is_within(slice)).count();
        }
        assert!(cfg!(miri) || within > 2000, "{within} slices were within the bounds");
        assert!(cfg!(miri) || others > 2000, "{others} were not");
    }

    fn check_shares(given: &Given, slices: &[Slice], name: &str) {
        let slices: Vec<&KeyRange> = slices.iter().map(|slice| &slice.keys).collect();
        let busy = given.busy_with_met();
        for (index, slice) in slices.iter().enumerate() {
            assert!(!slice.is_empty() && given.counts_within(slice), "{name}: {slice:?}");
            let others = &slices[index + 1..];
            assert!(others.iter().all(|other| !other.overlaps(slice)), "{name}: {slice:?}");
            assert!(busy.iter().all(|busy| !busy.overlaps(slice)), "{name}: {slice:?}");
        }
        for (keys, _) in &given.below {
            let meeting: Vec<_> = slices.iter().filter(|slice| slice.overlaps(keys)).collect();
            assert!(meeting.len() <= 1, "{name}: {keys:?} is met twice");
            for slice in meeting {
                assert_eq!(slice.intersection(keys), *keys, "{name}: {keys:?} is divided");
            }
        }
        let is_in = |key: &[u8]| slices.iter().any(|slice| slice.contains(key));
        let is_busy = |key: &[u8]| busy.iter().any(|busy| busy.contains(key));
        for key in (0..100).flat_map(|key| ["", "+"].map(|more| format!("{key:02}{more}"))) {
            let key = key.as_bytes();
            let counts = given.counts_within(&KeyRange::new(key, Some([key, &[0]].concat())));
            assert!(!counts || is_busy(key) || is_in(key), "{name}: {key:?} is in no slice");
        }
        let is_endless = given.counts_within(&KeyRange::new("99++", None))
            && busy.iter().all(|busy| busy.end().is_some());
        assert!(!is_endless || slices.iter().any(|slice| slice.end().is_none()), "{name}");
    }

    fn check_turns(given: &Given, slices: &[Slice], name: &str) {
        let Some(first) = slices.first() else { return };
        let is_busy = given.busy_with_met().iter().any(|busy| busy.contains(given.first()));
        let begins = first.keys.contains(given.first());
        assert!(begins || is_busy, "{name}: not where the oldest row counts");
        let is_round = |pair: &&[Slice]| pair[1].keys.start() < pair[0].keys.start();
        let turns = slices.windows(2).filter(is_round).count();
        assert!(turns <= 1, "{name}: they go round once");
        let last = slices.last().expect("there is a first");
        assert!(turns == 0 || last.keys.start() < first.keys.start(), "{name}");
    }

    /// Judges the bytes of a slice. Why it is not within the bounds, if it is not, is found out again.
    fn check_size(given: &Given, slices: &[Slice], turn: usize, name: &str) {
        let Slice { keys, end } = &slices[turn];
        let bytes = given.bytes_of(keys);
        let name = format!("{name}: {keys:?} of {bytes}, {end:?}");
        if bytes > given.size.max {
            assert_eq!(*end, CutEnd::Undivided, "{name}");
            let counts = |keys: &KeyRange| given.counts_within(keys);
            let divided =
                divisions(given, keys).find(|(left, right)| counts(left) && counts(right));
            assert_eq!(divided, None, "{name}");
            return;
        }
        if bytes >= given.size.min {
            assert_eq!(*end, CutEnd::InBounds, "{name}");
            return;
        }
        // What counts next, if no slice must end before it.
        let next = slices.get(turn + 1).filter(|next| !is_apart(given, keys, &next.keys));
        match (end, next) {
            (CutEnd::BeforeUndivided, Some(next)) => {
                let mut piece = divisions(given, &next.keys).map(|(left, _)| left);
                let piece = piece.find(|left| given.counts_within(left));
                let piece = piece.unwrap_or_else(|| next.keys.clone());
                let both = KeyRange::new(keys.start(), piece.end().map(<[u8]>::to_vec));
                assert!(given.bytes_of(&both) > given.size.max, "{name}: {piece:?} would fit");
            }
            (CutEnd::EndOfTurn | CutEnd::BeforeGap | CutEnd::BesideJob, None) => {
                let behind = keys.end().map(|end| {
                    let next = slices.get(turn + 1).filter(|next| next.keys.start() >= end);
                    KeyRange::new(end, next.map(|next| next.keys.start().to_vec()))
                });
                let is_in = |keys: &KeyRange| behind.as_ref().is_some_and(|gap| gap.overlaps(keys));
                let is_busy = given.busy_with_met().iter().any(is_in);
                let has_below = given.below.iter().any(|(keys, _)| is_in(keys));
                match end {
                    CutEnd::BesideJob => assert!(is_busy, "{name}"),
                    CutEnd::BeforeGap => assert!(has_below, "{name}"),
                    _ => {
                        let later = slices.get(turn + 1..).unwrap_or_default().iter();
                        let mut later = later.take_while(|_| keys.start() >= given.turn_start());
                        assert!(!later.any(|later| later.keys.start() > keys.start()), "{name}");
                    }
                }
            }
            _ => panic!("{name}, before {next:?}"),
        }
        // With the slice before it, it makes neither one slice nor two.
        let before = turn.checked_sub(1).map(|before| &slices[before].keys);
        let Some(before) = before.filter(|before| !is_apart(given, before, keys)) else { return };
        let both = before.hull(keys);
        assert!(given.bytes_of(&both) > given.size.max, "{name} fits to {before:?}");
        let is_within =
            |keys: &KeyRange| (given.size.min..=given.size.max).contains(&given.bytes_of(keys));
        let evened =
            divisions(given, &both).find(|(left, right)| is_within(left) && is_within(right));
        assert_eq!(evened, None, "{name} and {before:?} could be evened out");
    }

    /// Whether a slice must end between two that follow each other.
    fn is_apart(given: &Given, left: &KeyRange, right: &KeyRange) -> bool {
        let Some(end) = left.end().filter(|end| *end <= right.start()) else { return true };
        let gap = KeyRange::new(end, Some(right.start().to_vec()));
        let first = given.turn_start();
        let is_turn = left.start() < first && first <= right.start();
        let is_met = given.below.iter().any(|(keys, _)| keys.overlaps(&gap));
        is_turn || is_met || given.busy_with_met().iter().any(|busy| busy.overlaps(&gap))
    }

    /// The two sides of each key at which a slice could be divided: where a part or an interval below
    /// begins or ends, or at the key of an entry; in no interval below.
    fn divisions(given: &Given, slice: &KeyRange) -> impl Iterator<Item = (KeyRange, KeyRange)> {
        let parts = given.rows.iter().flat_map(|row| &row.parts);
        let ranges = parts.chain(given.below.iter().map(|(keys, _)| keys));
        let bounds = ranges.flat_map(|keys| [Some(keys.start()), keys.end()]).flatten();
        let entries = given.rows.iter().flat_map(|row| &row.entries);
        let entries = entries.map(|(key, _)| key.as_slice());
        let is_inside = |key: &[u8]| {
            given.below.iter().any(|(keys, _)| keys.contains(key) && keys.start() < key)
        };
        let is_in = |key: &&[u8]| *key > slice.start() && slice.contains(key) && !is_inside(key);
        let mut keys: Vec<Vec<u8>> =
            bounds.chain(entries).filter(is_in).map(<[u8]>::to_vec).collect();
        keys.sort();
        keys.dedup();
        let sides = keys.into_iter().map(|key| {
            let left = KeyRange::new(slice.start(), Some(key.clone()));
            (left, KeyRange::new(key, slice.end().map(<[u8]>::to_vec)))
        });
        sides.collect::<Vec<_>>().into_iter()
    }

    /// Slices that are asked for later are those that are asked for at once, and few questions are asked for
    /// each: rows with many keys, of which few are sampled.
    #[test]
    fn a_slice_takes_few_questions() {
        struct Asked<'a>(&'a Given, Cell<u64>);
        impl Rows for Asked<'_> {
            fn bytes_within(&self, keys: &KeyRange) -> u64 {
                self.1.set(self.1.get() + 1);
                self.0.bytes_within(keys)
            }

            fn keys_within(&self, keys: &KeyRange) -> Vec<Vec<u8>> {
                self.0.keys_within(keys)
            }
        }
        let mut random = Random(1);
        let key = |number: u64| format!("{number:04}").into_bytes();
        let rows = (0..6).map(|id| {
            let entries = (0..1000).map(|number| (key(number), 50 + random.below(100))).collect();
            Row { id, parts: vec![KeyRange::all()], entries }
        });
        let sampled = (0..40).map(|number| key(25 * number)).collect();
        let size = CutSize { min: 12_000, max: 24_000 };
        let (below, busy) = (Vec::new(), Vec::new());
        let given = Given { rows: rows.collect(), sampled, below, busy, size };
        let slices = given.slices();
        assert!((25..=50).contains(&slices.len()), "{slices:?}");
        assert!(slices.iter().all(|slice| slice.end == CutEnd::InBounds), "{slices:?}");
        let asked = Asked(&given, Cell::new(0));
        let mut turn = given.turn();
        for slice in &slices {
            assert_eq!(turn.next(&asked).as_ref(), Some(slice));
            assert!(asked.1.replace(0) <= 10, "{slice:?}");
        }
        assert_eq!(turn.next(&asked), None);
    }
}
