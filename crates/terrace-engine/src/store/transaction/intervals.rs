//! Sets of intervals of keys, in which those that touch are one.

use std::collections::BTreeMap;
use std::ops::Bound;

use terrace_base::KeyRange;

/// Bytes that an interval takes beside its bounds, about.
const INTERVAL_BYTES: usize = 96;

/// Disjoint intervals that do not touch, in order.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    /// The end of each by its start; no end means past every key.
    ends: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
}

impl Intervals {
    /// Adds the keys of `range`. Cost: O(log n) for each interval that it makes one with.
    pub fn insert(&mut self, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        let mut start = range.start().to_vec();
        let mut end = range.end().map(<[u8]>::to_vec);
        let before = self.ends.range::<[u8], _>((Bound::Unbounded, Bound::Included(&start[..])));
        if let Some((earlier, their_end)) = before.into_iter().next_back()
            && their_end.as_ref().is_none_or(|their_end| *their_end >= start)
        {
            start = earlier.clone();
        }
        loop {
            let mut from =
                self.ends.range::<[u8], _>((Bound::Included(&start[..]), Bound::Unbounded));
            let Some((next, _)) = from.next() else { break };
            if end.as_ref().is_some_and(|end| next > end) {
                break;
            }
            let next = next.clone();
            let their_end = self.ends.remove(&next).flatten();
            self.bytes -= bytes_of(&next, their_end.as_deref());
            end = match (end, their_end) {
                (Some(one), Some(other)) => Some(one.max(other)),
                _ => None,
            };
        }
        self.bytes += bytes_of(&start, end.as_deref());
        self.ends.insert(start, end);
    }

    /// Whether `key` lies in one of them.
    pub fn contain(&self, key: &[u8]) -> bool {
        if self.ends.is_empty() {
            return false;
        }
        let below = (Bound::Unbounded, Bound::Included(key));
        let last = self.ends.range::<[u8], _>(below).next_back();
        last.is_some_and(|(_, end)| end.as_ref().is_none_or(|end| key < end.as_slice()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// About how many bytes of memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The intervals, in order.
    pub fn iter(&self) -> impl Iterator<Item = KeyRange> + '_ {
        self.ends.iter().map(|(start, end)| KeyRange::new(start.clone(), end.clone()))
    }
}

fn bytes_of(start: &[u8], end: Option<&[u8]>) -> usize {
    INTERVAL_BYTES + start.len() + end.map_or(0, <[u8]>::len)
}

#[cfg(test)]
mod tests {
    use terrace_env::SeededRng;

    use super::*;

    fn range(start: u8, end: u8) -> KeyRange {
        KeyRange::new([start], (end < 100).then(|| vec![end]))
    }

    #[test]
    fn intervals_that_touch_or_overlap_become_one() {
        type Bounds = &'static [(u8, u8)];
        let cases: [(Bounds, Bounds); 9] = [
            (&[(1, 3), (5, 7)], &[(1, 3), (5, 7)]),
            (&[(1, 3), (3, 7)], &[(1, 7)]),
            (&[(3, 7), (1, 3)], &[(1, 7)]),
            (&[(1, 3), (5, 7), (2, 6)], &[(1, 7)]),
            (&[(1, 9), (2, 3)], &[(1, 9)]),
            (&[(2, 3), (1, 9)], &[(1, 9)]),
            (&[(2, 3), (4, 5), (6, 100), (1, 4)], &[(1, 5), (6, 100)]),
            (&[(6, 100), (7, 8), (5, 6)], &[(5, 100)]),
            (&[(4, 4), (5, 3)], &[]),
        ];
        for (given, expected) in cases {
            let mut intervals = Intervals::default();
            given.iter().for_each(|(start, end)| intervals.insert(&range(*start, *end)));
            let expected: Vec<_> = expected.iter().map(|(s, e)| range(*s, *e)).collect();
            assert_eq!(intervals.iter().collect::<Vec<_>>(), expected, "{given:?}");
        }
    }

    #[test]
    fn random_intervals_hold_the_keys_of_all_that_were_added() {
        let seed = 17;
        println!("seed {seed}");
        let mut random = SeededRng::new(seed);
        for round in 0..300 {
            let mut intervals = Intervals::default();
            let mut held = [false; 101];
            for _ in 0..random.below(12) {
                let (start, end) = (random.below(100) as u8, random.below(101) as u8);
                intervals.insert(&range(start, end));
                let end = if end < 100 { end } else { 101 };
                (start..end).for_each(|key| held[usize::from(key)] = true);
            }
            for (key, held) in held.iter().enumerate() {
                assert_eq!(intervals.contain(&[key as u8]), *held, "round {round}, key {key}");
            }
            let all: Vec<_> = intervals.iter().collect();
            let apart = |pair: &[KeyRange]| pair[0].end() < Some(pair[1].start());
            assert!(all.windows(2).all(|pair| pair[0].end().is_some() && apart(pair)), "{all:?}");
            let bytes: usize = all.iter().map(|one| bytes_of(one.start(), one.end())).sum();
            assert_eq!(intervals.bytes(), bytes, "round {round}");
        }
    }
}
