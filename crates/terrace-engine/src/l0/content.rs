//! What counts in L0, as far as a division into slices needs to know it. Pure.

use terrace_base::KeyRange;

use super::LiveTable;
use crate::table::Sample;

/// Keys of one table that are looked at, at most.
const SAMPLES_PER_TABLE: usize = 64;
/// Number of samples of all tables that a division looks at, if there are not very many tables.
pub(super) const SAMPLES_MAX: usize = 1024;

/// What counts in L0, as far as a division needs to know it.
#[derive(Debug)]
pub(super) struct Content<'a> {
    /// Where tables count, sorted by their start; none is empty.
    pub(super) parts: Vec<&'a KeyRange>,
    /// Keys, sorted, each with the bytes of one table between it and the one before it.
    pub(super) samples: Vec<Sample>,
}

impl<'a> Content<'a> {
    /// That of these tables, with about `samples_max` samples, and two of each at least. A table
    /// that is not open yet has all its bytes at its first key.
    pub(super) fn of(live: &'a [LiveTable], samples_max: usize) -> Content<'a> {
        let mut samples = Vec::new();
        let per_table = (samples_max / live.len().max(1)).clamp(2, SAMPLES_PER_TABLE);
        for one in live {
            let inside = one.table.samples(per_table);
            if inside.is_empty() {
                let bytes = one.bytes();
                samples.extend(one.parts().first().map(|part| (part.start().to_vec(), bytes)));
            }
            let counts = |key: &[u8]| one.parts().iter().any(|part| part.contains(key));
            samples.extend(inside.into_iter().filter(|(key, _)| counts(key)));
        }
        Content::new(live.iter().flat_map(LiveTable::parts), samples)
    }

    /// The same for whoever wants no slices.
    pub(super) fn without_samples(live: &'a [LiveTable]) -> Content<'a> {
        Content::new(live.iter().flat_map(LiveTable::parts), Vec::new())
    }

    pub(super) fn new(
        parts: impl Iterator<Item = &'a KeyRange>,
        mut samples: Vec<Sample>,
    ) -> Content<'a> {
        let mut parts: Vec<&KeyRange> = parts.filter(|part| !part.is_empty()).collect();
        parts.sort_by(|a, b| a.start().cmp(b.start()));
        samples.sort_unstable();
        Content { parts, samples }
    }

    /// How many tables count at one key within `keys`, at most.
    pub(super) fn depth_within(&self, keys: &KeyRange) -> usize {
        // Where those end that reach past the present start.
        let mut open: Vec<Option<&[u8]>> = Vec::new();
        let mut depth = 0;
        for part in self.parts.iter().filter(|part| part.overlaps(keys)) {
            let start = part.start().max(keys.start());
            open.retain(|end| end.is_none_or(|end| start < end));
            open.push(part.end());
            depth = depth.max(open.len());
        }
        depth
    }

    /// The samples within `range`.
    pub(super) fn samples_within(&self, range: &KeyRange) -> &[Sample] {
        let first = self.samples.partition_point(|(key, _)| key.as_slice() < range.start());
        let rest = &self.samples[first..];
        &rest[..rest.partition_point(|(key, _)| !range.is_before(key))]
    }
}

/// The hulls of those intervals that share keys, of a list that is sorted by start.
pub(super) fn joined<'a>(sorted: impl Iterator<Item = &'a KeyRange>) -> Vec<KeyRange> {
    let mut joined: Vec<KeyRange> = Vec::new();
    for next in sorted {
        match joined.last_mut() {
            Some(last) if last.overlaps(next) => *last = last.hull(next),
            _ => joined.push(next.clone()),
        }
    }
    joined
}
