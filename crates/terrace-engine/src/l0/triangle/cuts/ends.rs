//! Where slices may end, and where they must.

use std::collections::VecDeque;

use terrace_base::KeyRange;

use super::compare;
use crate::l0::CutEnd;
use crate::l0::content::{Content, joined};

/// Intervals that ascend in which something counts, and no slice ends between them for another
/// reason than its bytes.
#[derive(Debug)]
pub(super) struct Stretch {
    pub counts: VecDeque<KeyRange>,
    /// Why slices do not go on behind it.
    pub end: CutEnd,
}

/// Where a slice may end: before this key, or nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub key: Option<Vec<u8>>,
    /// About how many bytes lie before it; only differences mean something.
    pub before: u64,
}

/// Whether an interval of a list, which ascend and are disjoint, shares a key with `keys`.
pub(super) fn meets(list: &[KeyRange], keys: &KeyRange) -> bool {
    let place = list.partition_point(|one| one.is_before(keys.start()));
    list.get(place).is_some_and(|one| one.overlaps(keys))
}

/// Intervals, which ascend and are disjoint, each as wide as the intervals below that it meets.
pub(super) fn with_met(own: &[KeyRange], below: &[(KeyRange, u64)]) -> Vec<KeyRange> {
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
pub(super) fn divided(mut all: Vec<KeyRange>, key: &[u8]) -> (Vec<KeyRange>, Vec<KeyRange>) {
    let mut later = all.split_off(all.partition_point(|keys| keys.is_before(key)));
    if let Some(keys) = later.first_mut().filter(|keys| keys.start() < key) {
        all.push(KeyRange::new(keys.start(), Some(key.to_vec())));
        *keys = KeyRange::new(key, keys.end().map(<[u8]>::to_vec));
    }
    (all, later)
}

/// The intervals of `counts`, which ascend, parted where slices must end. What follows behind the
/// last of them begins at `limit`, or there is nothing.
pub(super) fn stretches_of(
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
pub(super) fn ends_of<'a>(
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
