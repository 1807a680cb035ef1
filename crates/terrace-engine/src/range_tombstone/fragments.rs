use std::fmt;
use std::sync::Arc;

use terrace_base::{KeyRange, SeqNo};

use super::RangeTombstone;
use super::part::Part;

/// A fixed set of range tombstones, ready to be asked what covers a key.
///
/// Immutable; cloning copies a few pointers. Holds its tombstones in O(log n) parts of very
/// different sizes (usually one), so that a set that grows is never built again as a whole.
#[derive(Clone, Default)]
pub struct Fragments {
    /// The largest first.
    parts: Vec<Arc<Part>>,
}

/// An interval of keys that the same tombstones cover; see [`Fragments::around`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment<'a> {
    /// The first key; `None` means from the least key on.
    pub start: Option<&'a [u8]>,
    /// The first key above; `None` means past every key.
    pub end: Option<&'a [u8]>,
    /// The newest number, at or below the read point, that covers these keys.
    pub newest: Option<SeqNo>,
}

impl Fragments {
    /// About how many bytes of memory they take.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.iter().map(|some| 64 + some.start.len() + some.end.len()).sum()
    }

    /// The fragments of these tombstones, in any order; empty ones are left out.
    /// Cost: O(n log n) time and space, however they overlap.
    #[must_use]
    pub fn new<'a>(tombstones: impl IntoIterator<Item = RangeTombstone<'a>>) -> Fragments {
        let tombstones: Vec<_> =
            tombstones.into_iter().filter(|tombstone| !tombstone.is_empty()).collect();
        if tombstones.is_empty() {
            return Fragments::default();
        }
        Fragments { parts: vec![Arc::new(Part::new(&tombstones))] }
    }

    /// The tombstones of all of `several` together. Cost: as [`Fragments::new`].
    #[must_use]
    pub fn merge<'a>(several: impl IntoIterator<Item = &'a Fragments>) -> Fragments {
        let parts: Vec<&Arc<Part>> = several.into_iter().flat_map(|some| &some.parts).collect();
        match parts[..] {
            [only] => Fragments { parts: vec![Arc::clone(only)] },
            _ => Fragments::new(parts.iter().flat_map(|part| part.iter())),
        }
    }

    /// The tombstones as far as they lie in `range`. Cost: as [`Fragments::new`].
    #[must_use]
    pub fn clip(&self, range: &KeyRange) -> Fragments {
        let clipped = self.iter().map(|tombstone| RangeTombstone {
            start: tombstone.start.max(range.start()),
            end: range.end().map_or(tombstone.end, |end| end.min(tombstone.end)),
            ..tombstone
        });
        Fragments::new(clipped)
    }

    /// These tombstones and more. Builds a new part of the newcomers and of those parts that are
    /// not much larger, so that n tombstones that come one by one cost O(n log² n) in all.
    pub(super) fn with(&self, newcomers: &[RangeTombstone<'_>]) -> Fragments {
        let mut tombstones: Vec<_> =
            newcomers.iter().filter(|tombstone| !tombstone.is_empty()).copied().collect();
        if tombstones.is_empty() {
            return self.clone();
        }
        let mut kept = self.parts.len();
        while let Some(last) = kept.checked_sub(1).map(|index| &self.parts[index])
            && last.len() <= 2 * tombstones.len()
        {
            kept -= 1;
            tombstones.extend(last.iter());
        }
        let mut parts = self.parts[..kept].to_vec();
        parts.push(Arc::new(Part::new(&tombstones)));
        Fragments { parts }
    }

    /// Whether there is no tombstone.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many tombstones there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// The newest number at or below `read_point` of a tombstone that covers `key`: versions of
    /// the key with lower numbers are deleted at that read point.
    /// Cost: O(log² n), no allocation.
    #[must_use]
    pub fn newest_covering(&self, key: &[u8], read_point: SeqNo) -> Option<SeqNo> {
        self.around(key, read_point).newest
    }

    /// The keys around `key` of which the same tombstones are known to cover all, and the newest
    /// number among these: a scan asks once and goes on until `end`. Neighbours may have the same
    /// number.
    /// Cost: O(log² n), no allocation.
    #[must_use]
    pub fn around(&self, key: &[u8], read_point: SeqNo) -> Fragment<'_> {
        let mut around = Fragment { start: None, end: None, newest: None };
        for part in &self.parts {
            let above = part.bounds_at_or_below(key);
            if let Some(below) = above.checked_sub(1) {
                around.start = around.start.max(Some(part.bound(below)));
                if above <= part.fragment_count() {
                    around.newest = around.newest.max(part.newest_over(below, read_point));
                }
            }
            if above <= part.fragment_count() {
                let end = part.bound(above);
                around.end = Some(around.end.map_or(end, |other| other.min(end)));
            }
        }
        around
    }

    /// The tombstones, ordered by start, and for one start the newest first. They may overlap.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { parts: self.parts.iter().map(|part| (&**part, 0)).collect() }
    }

    /// The intervals between neighbouring bounds that something covers, in order, each with all
    /// numbers that cover it, descending. For tools and tests: the numbers add up to O(n²).
    #[must_use]
    pub fn to_fragments(&self) -> Vec<(KeyRange, Vec<SeqNo>)> {
        let whole = Fragments::merge([self]);
        let Some(part) = whole.parts.first() else { return Vec::new() };
        (0..part.fragment_count())
            .map(|index| {
                let end = part.bound(index + 1).to_vec();
                (KeyRange::new(part.bound(index), Some(end)), part.all_over(index))
            })
            .filter(|(_, seqnos)| !seqnos.is_empty())
            .collect()
    }

    #[cfg(test)]
    pub(super) fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// How many numbers the trees keep in all.
    #[cfg(test)]
    pub(super) fn kept_seqno_count(&self) -> usize {
        self.parts.iter().map(|part| part.kept_seqno_count()).sum()
    }
}

impl fmt::Debug for Fragments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// See [`Fragments::iter`].
pub struct Iter<'a> {
    /// Each part with the index of its next tombstone. There are few, so that a search through
    /// all of them for the least is no worse than a heap.
    parts: Vec<(&'a Part, usize)>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = RangeTombstone<'a>;

    fn next(&mut self) -> Option<RangeTombstone<'a>> {
        let heads = self.parts.iter().enumerate();
        let heads =
            heads.filter_map(|(at, (part, index))| part.tombstone(*index).map(|head| (head, at)));
        let (head, at) =
            heads.min_by(|(a, _), (b, _)| a.start.cmp(b.start).then(b.seqno.cmp(&a.seqno)))?;
        self.parts[at].1 += 1;
        Some(head)
    }
}

impl<'a> IntoIterator for &'a Fragments {
    type Item = RangeTombstone<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}
