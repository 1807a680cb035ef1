//! Which slice of the triangle is cut next. Pure.
//!
//! A cut takes one key slice out of all rows, the *right-angle side* of the triangle:
//!
//! ```text
//!               cut last      cut longest ago
//!                   │         │
//!   newest  row 9   ├─────────────────────────┤  what a slice holds grows with the time since it
//!           row 8   ├─────────────────────────┤  was cut, so the rows make a triangle (here cut
//!           row 7      ╎├─────────────────────┤  off at both ends, since cuts go round)
//!           row 6          ╎├─────────────────┤
//!           row 5                 ├───────────┤
//!           row 4                 ├───╎          the next cut: from here as far as it is large
//!                                 └───┘          enough
//!   L1      ├──┤├──────┤ ├───┤├───┤├──┤  ├────┤  it ends where a table begins or ends, or in a gap
//! ```
//!
//! # How
//! 1. *Turn.* The next slice begins where the oldest row that is left begins to count: that is
//!    where no cut has been for the longest time. From there on slices follow each other to the end
//!    of the keys, and then from the first key on. Nothing has to be remembered: the rows say it.
//! 2. *Size.* A slice reaches as far as it holds `min` bytes, and not beyond `max`. What counts is
//!    what a cut reads: what is live of the rows in it, and the tables that it meets below.
//! 3. *Ends.* A slice ends in no table below, so that no table is written twice for one key;
//!    between tables it ends at a key of a row. Where nothing lies below, only that.
//! 4. *Search.* Sampled keys say about how far a slice reaches. How many bytes it really has the
//!    rows are asked, some times for each slice; and for more keys, if between two of them it grows
//!    from too small to too large.
//! 5. *Rests.* What would be too small, before a place where a slice must end, goes with the slice
//!    before it; and if both are too much for one, they are evened out.
//!
//! Slices are worked out one by one, as they are asked for. Each is within the bounds, but for
//! those that [`CutEnd`] names. Below `min` are slices at the end of the keys, where the turn
//! begins, beside what a job has taken, before a gap in the rows under which tables lie that no row
//! meets (they would be rewritten for nothing), and before what cannot be divided and is too large
//! to go with them. Where nothing but range tombstones is left, that is all of a slice between two
//! such places. Beyond `max` is what cannot be divided: a table that is larger, or the versions of
//! one key.
//!
//! *Source:* TriangleKV (TPDS 2022), §3.2, where the bounds are ½·AF·S and AF·S for the ratio AF of
//! levels and tables of S bytes. *Differs:* there a slice begins at a table's end always, and when
//! L1 is empty nothing is said.

mod ends;
mod search;

use std::cmp::Ordering;
use std::collections::VecDeque;

use terrace_base::KeyRange;

use self::ends::{End, Stretch, divided, ends_of, stretches_of, with_met};
use self::search::{Judged, Search};
use crate::l0::content::{Content, joined};
use crate::l0::{CutBounds, CutEnd};

/// How many bytes a cut takes: the rows' and those of the tables that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutSize {
    /// A slice reaches as far as it holds this number of bytes.
    pub min: u64,
    /// It holds no more than this.
    pub max: u64,
}

/// What the rows are asked.
pub(in crate::l0) trait Rows {
    /// How many bytes count within `keys`.
    fn bytes_within(&self, keys: &KeyRange) -> u64;

    /// Some keys behind the first of `keys` and below its end at which it could be divided: none
    /// only if the rows know of none.
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

/// The slices that are left of a turn. They share no key and no interval below, and outside of
/// them, and of what jobs have taken, nothing counts.
#[derive(Debug)]
pub(in crate::l0) struct CutTurn {
    size: CutSize,
    /// Where something counts, the next one first.
    stretches: VecDeque<Stretch>,
    /// Where slices may end, ascending.
    ends: Vec<End>,
    /// The intervals below that something counts in, ascending.
    below: Vec<KeyRange>,
    /// For each of these intervals, the bytes of it and of those before it.
    below_bytes: Vec<u64>,
    /// How far the next slice reaches, if that was looked at.
    ahead: Option<Reach>,
}

/// How far a slice reaches.
#[derive(Clone, Copy, Debug)]
struct Reach {
    /// The place of its end.
    end: usize,
    bytes: u64,
}

/// What is before what, where `None` is behind everything.
fn compare(a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    a.is_none().cmp(&b.is_none()).then_with(|| a.cmp(&b))
}

impl CutTurn {
    /// The turn whose first slice begins at or before `first`.
    ///
    /// Cost: O(n log n) for n parts, samples and intervals below.
    pub fn new(content: Content<'_>, first: &[u8], bounds: &CutBounds, size: CutSize) -> CutTurn {
        let busy = with_met(&joined(bounds.busy.iter()), &bounds.below);
        let live = joined(content.parts.iter().copied());
        let free: Vec<KeyRange> = live.iter().flat_map(|keys| keys.outside_of(&busy)).collect();
        let earlier = with_met(&free, &bounds.below);
        let is_met = |one: &&(KeyRange, u64)| ends::meets(&earlier, &one.0);
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
        CutTurn { size, stretches, ends, below, below_bytes, ahead: None }
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

    /// How far a slice from `start` reaches, if it goes no further than `until`: as far as it is
    /// within the bounds, or else as far as it is too small, or else no further than it must.
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

    /// The reach of a slice from `start` when the next one is taken care of, if that would be too
    /// small.
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

#[cfg(test)]
mod tests;
