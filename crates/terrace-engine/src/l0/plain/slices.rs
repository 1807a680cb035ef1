//! Dividing what is live in L0 into slices. Pure.
//!
//! ```text
//!   live     ├──────────────────────────┤          ├─────────┤
//!              ├───────────────┤ ├─────────────┤
//!   below       ├──────┤├──────┤    ├───┤              ├──┤      no slice ends inside of one
//!   slices   [          )[        )[           )   [         )
//!            └─────────── a region ────────────┘
//! ```
//!
//! What is connected by shared keys, or by a table below that both meet, is a *region*. It is
//! divided into slices of about equal bytes, at keys where a table below begins or ends, and
//! between those tables at keys out of the indexes of the live ones. So two slices share no key and
//! no table below, and a slice without an entry has its range tombstones.

use terrace_base::KeyRange;

use crate::l0::CutBounds;
use crate::l0::content::{Content, joined};
use crate::table::Sample;

/// A slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// The keys.
    pub keys: KeyRange,
    /// How many tables count at one key of it, at most.
    pub depth: usize,
}

/// The slices, in the order of their keys; outside of them nothing counts.
///
/// Cost: O(n log n) for n parts, samples and intervals below, and O(n) for each slice.
pub(super) fn slices_of(content: &Content<'_>, bounds: &CutBounds) -> Vec<Slice> {
    let mut slices = Vec::new();
    for region in regions(&content.parts, &bounds.below) {
        let keys = divide(&region, content.samples_within(&region), bounds);
        let starts = std::iter::once(region.start()).chain(keys.iter().map(Vec::as_slice));
        let ends = keys.iter().map(|key| Some(key.as_slice())).chain([region.end()]);
        for (start, end) in starts.zip(ends) {
            let keys = KeyRange::new(start, end.map(<[u8]>::to_vec));
            let depth = content.depth_within(&keys);
            if depth > 0 {
                slices.push(Slice { keys, depth });
            }
        }
    }
    slices
}

/// The intervals that are connected: by keys that parts share, or by an interval below that two of
/// them meet.
fn regions(parts: &[&KeyRange], below: &[(KeyRange, u64)]) -> Vec<KeyRange> {
    let own = joined(parts.iter().copied());
    let is_met = |below: &&KeyRange| {
        let first = own.partition_point(|region| region.is_before(below.start()));
        own.get(first).is_some_and(|region| region.overlaps(below))
    };
    let met = below.iter().map(|(keys, _)| keys).filter(is_met);
    let mut all: Vec<&KeyRange> = own.iter().chain(met).collect();
    all.sort_by(|a, b| a.start().cmp(b.start()));
    joined(all.into_iter())
}

/// The keys that divide a region: ascending, distinct, inside of it and of no interval below.
fn divide(region: &KeyRange, samples: &[Sample], bounds: &CutBounds) -> Vec<Vec<u8>> {
    let first = bounds.below.partition_point(|(keys, _)| keys.is_before(region.start()));
    let below = &bounds.below[first..];
    let below = &below[..below.partition_point(|(keys, _)| !region.is_before(keys.start()))];
    let starts = below.iter().map(|(keys, _)| (keys.start(), 0));
    let ends = below.iter().filter_map(|(keys, bytes)| Some((keys.end()?, *bytes)));
    let samples = samples.iter().map(|(key, bytes)| (key.as_slice(), *bytes));
    let mut points: Vec<(&[u8], u64)> = samples.chain(starts).chain(ends).collect();
    points.sort_unstable();
    let total: u64 = points.iter().map(|(_, bytes)| bytes).sum();
    let target = total / total.div_ceil(bounds.bytes.max(1)).max(1);
    let is_allowed = |key: &[u8]| {
        let index = below.partition_point(|(keys, _)| keys.is_before(key));
        let is_inside = below.get(index).is_some_and(|(keys, _)| keys.start() < key);
        key > region.start() && region.contains(key) && !is_inside
    };
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let (mut since, mut left) = (0, total);
    for (key, bytes) in points {
        since += bytes;
        left -= bytes;
        // A rest that is hardly worth a slice stays with the last one.
        let is_due = since >= target && left > target / 4;
        if is_due && is_allowed(key) && keys.last().is_none_or(|last| last.as_slice() < key) {
            keys.push(key.to_vec());
            since = 0;
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    //! Goal: slices hold everything that counts, share nothing, and are about as large as they
    //! should be. Method: a few by hand, and many drawn at random, judged key by key.

    use terrace_env::SeededRng;

    use super::*;
    use crate::l0::{draw_key, range};

    fn slices(parts: &str, samples: &str, below: &str, bytes: u64) -> Vec<String> {
        let parts: Vec<KeyRange> = parts.split_whitespace().map(range).collect();
        let samples = samples.split_whitespace();
        let samples = samples.map(|key| (key.as_bytes().to_vec(), 10)).collect();
        let below = below.split_whitespace().map(|keys| (range(keys), 10)).collect();
        let content = Content::new(parts.iter(), samples);
        let slices = slices_of(&content, &CutBounds { below, busy: Vec::new(), bytes });
        let text = |bound: &[u8]| bound.escape_ascii().to_string();
        let drawn = slices.iter().map(|slice| {
            let end = slice.keys.end().map(text).unwrap_or_default();
            format!("{}-{end}*{}", text(slice.keys.start()), slice.depth)
        });
        drawn.collect()
    }

    #[test]
    fn what_shares_no_key_is_apart() {
        assert_eq!(slices("a-d b-f m-p", "", "", 100), ["a-f*2", "m-p*1"]);
        assert_eq!(slices("a-d b-f m-p", "", "e-n", 100), ["a-p*2"], "joined by what they meet");
        assert_eq!(slices("a-d m-p", "", "f-h", 100), ["a-d*1", "m-p*1"], "nothing is met");
        assert_eq!(slices("d-f", "", "a-e", 100), ["a-f*1"], "what is met is in it");
        assert_eq!(slices("", "", "a-e", 100), [""; 0]);
    }

    #[test]
    fn slices_end_at_tables_below_or_at_sampled_keys() {
        assert_eq!(slices("a-z", "c g k p", "", 20), ["a-g*1", "g-z*1"]);
        assert_eq!(slices("a-z", "c g k p", "", 1000), ["a-z*1"]);
        assert_eq!(slices("a-z", "c g k p", "", 1), ["a-c*1", "c-g*1", "g-k*1", "k-z*1"]);
        let by_tables = slices("a-z c-y", "c g k p", "b-h h-m", 20);
        assert_eq!(by_tables, ["a-h*2", "h-m*2", "m-z*2"]);
        assert_eq!(slices("a-z", "c g k p", "d-", 1), ["a-c*1", "c-*1"], "one to the end");
    }

    #[test]
    fn tombstones_alone_are_in_a_slice() {
        assert_eq!(slices("a- c-d", "", "", 1), ["a-*2"]);
        assert_eq!(slices("a-", "", "c-e g-k", 10), ["a-e*1", "e-*1"]);
    }

    #[test]
    fn slices_hold_everything_and_share_nothing() {
        for seed in 0..600 {
            let mut random = SeededRng::new(seed);
            let parts: Vec<KeyRange> = (0..random.below(8))
                .map(|_| {
                    let (a, b) = (draw_key(&mut random), draw_key(&mut random));
                    let end = (random.below(9) > 0).then(|| a.clone().max(b.clone()));
                    KeyRange::new(a.min(b), end)
                })
                .collect();
            let samples: Vec<Sample> =
                (0..random.below(40)).map(|_| (draw_key(&mut random), random.below(30))).collect();
            let mut bounds: Vec<Vec<u8>> =
                (0..random.below(12)).map(|_| draw_key(&mut random)).collect();
            bounds.sort();
            bounds.dedup();
            let below = bounds.windows(2).map(|pair| {
                (KeyRange::new(pair[0].clone(), Some(pair[1].clone())), random.below(50))
            });
            let below: Vec<_> = below.collect();
            let below: Vec<_> = below.into_iter().filter(|_| random.below(3) > 0).collect();
            let bytes = 1 + random.below(200);
            let content = Content::new(parts.iter(), samples);
            let bounds = CutBounds { below, busy: Vec::new(), bytes };
            let slices = slices_of(&content, &bounds);
            let name = format!("seed {seed}: {content:?} {bounds:?} {slices:?}");
            check(&parts, &bounds, &slices, &name);
        }
    }

    fn check(parts: &[KeyRange], bounds: &CutBounds, slices: &[Slice], name: &str) {
        for pair in slices.windows(2) {
            assert!(pair[0].keys.is_before(pair[1].keys.start()), "{name}");
        }
        for (keys, _) in &bounds.below {
            let meeting = slices.iter().filter(|slice| slice.keys.overlaps(keys));
            let meeting: Vec<_> = meeting.collect();
            assert!(meeting.len() <= 1, "{name}: {keys:?} is met twice");
            for slice in meeting {
                assert_eq!(slice.keys.intersection(keys), *keys, "{name}: {keys:?} is divided");
            }
        }
        for key in (0..100).flat_map(|key| ["", "+"].map(|more| format!("{key:02}{more}"))) {
            let key = key.as_bytes();
            let depth = parts.iter().filter(|part| part.contains(key)).count();
            let slice = slices.iter().find(|slice| slice.keys.contains(key));
            assert!(depth <= slice.map_or(0, |slice| slice.depth), "{name}: {key:?}");
        }
        for slice in slices {
            let at_starts = parts.iter().map(|part| part.start().max(slice.keys.start()));
            let depths = at_starts.filter(|key| slice.keys.contains(key)).map(|key| {
                parts.iter().filter(|part| !part.is_empty() && part.contains(key)).count()
            });
            assert_eq!(depths.max(), Some(slice.depth), "{name}: {slice:?}");
        }
    }
}
