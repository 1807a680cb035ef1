use terrace_base::{KeyRange, common_prefix_bytes, hint_of};
use terrace_env::{PlantedBug, is_planted};

/// The first bytes of the ends of many intervals, side by side, so that a search among them looks
/// at few cache lines and at hardly any interval itself.
///
/// ```text
///   intervals   [user17, user43)   [user43, user80)        all begin with "user"
///   hints       "17" … "43"        "43" … "80"             eight bytes behind that
/// ```
///
/// What differs in its hints is decided by them. Whoever asks looks at the intervals themselves
/// where hints are alike.
#[derive(Clone, Debug, Default)]
pub struct SpanHints {
    /// What all keys of all intervals begin with.
    prefix: Vec<u8>,
    starts: Vec<u64>,
    /// The greatest number for an interval without an end.
    ends: Vec<u64>,
}

impl SpanHints {
    /// Those of these intervals, in any order.
    #[must_use]
    pub fn of<'a>(spans: impl Iterator<Item = &'a KeyRange> + Clone) -> SpanHints {
        let mut bounds = spans.clone().flat_map(|span| [span.start(), span.end().unwrap_or(b"")]);
        let Some(first) = bounds.next() else { return SpanHints::default() };
        // Whatever lies between two keys begins with what these have in common.
        let common = bounds.map(|bound| common_prefix_bytes(first, bound)).min().unwrap_or(0);
        let hint = |key: &[u8]| u64::from_be_bytes(hint_of(&key[common..]));
        SpanHints {
            prefix: first[..common].to_vec(),
            starts: spans.clone().map(|span| hint(span.start())).collect(),
            ends: spans.map(|span| span.end().map_or(u64::MAX, hint)).collect(),
        }
    }

    /// The indexes of those intervals that may hold `key`, ascending: all that hold it are among
    /// them.
    #[inline]
    pub fn may_hold(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        let rest = key.strip_prefix(self.prefix.as_slice());
        let count = if rest.is_some() { self.starts.len() } else { 0 };
        let hint = u64::from_be_bytes(hint_of(rest.unwrap_or_default()));
        let bounds = self.starts[..count].iter().zip(&self.ends[..count]);
        let leaves_out = is_planted(PlantedBug::LeaveOutTableAtItsEnd);
        let holds = move |(start, end): (&u64, &u64)| {
            (*start <= hint) & (hint <= *end) && !(leaves_out && hint == *end)
        };
        bounds.enumerate().filter(move |(_, bounds)| holds(*bounds)).map(|(index, _)| index)
    }

    /// Of intervals that ascend and are disjoint: those before the first index end at or before
    /// `key`, those from the second on do not.
    #[inline]
    pub fn undecided(&self, key: &[u8]) -> (usize, usize) {
        match key.strip_prefix(self.prefix.as_slice()) {
            Some(rest) => {
                let hint = u64::from_be_bytes(hint_of(rest));
                let leaves_out = is_planted(PlantedBug::LeaveOutTableAtItsEnd);
                let is_before = |end: &u64| *end < hint || (leaves_out && *end == hint);
                let first = self.ends.partition_point(is_before);
                (first, first + self.ends[first..].partition_point(|end| *end == hint))
            }
            None if key < self.prefix.as_slice() => (0, 0),
            None => (self.ends.len(), self.ends.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_env::SeededRng;

    /// A key of which many are alike in their first bytes.
    fn draw_key(random: &mut SeededRng, prefix: &[u8]) -> Vec<u8> {
        let mut key = prefix.to_vec();
        let alike = [0, 0, 6, 8, 9][random.index(5)];
        key.extend(std::iter::repeat_n(b'm', alike));
        key.extend((0..random.index(4)).map(|_| [0, b'a', b'm', b'z', 255][random.index(5)]));
        key
    }

    #[test]
    fn every_interval_that_holds_a_key_may_hold_it() {
        for seed in 0..300 {
            let mut random = SeededRng::new(seed);
            let prefix: &[u8] = if random.one_in(2) { b"keys/" } else { b"" };
            let spans: Vec<KeyRange> = (0..random.index(9))
                .map(|_| {
                    let end = draw_key(&mut random, prefix);
                    KeyRange::new(draw_key(&mut random, prefix), (!random.one_in(8)).then_some(end))
                })
                .collect();
            let hints = SpanHints::of(spans.iter());
            for _ in 0..40 {
                let away: &[u8] = [prefix, b"", b"kex", b"keyz"][random.index(4)];
                let key = draw_key(&mut random, away);
                let may: Vec<usize> = hints.may_hold(&key).collect();
                let holds = spans.iter().enumerate().filter(|(_, span)| span.contains(&key));
                for (index, span) in holds {
                    assert!(may.contains(&index), "seed {seed}: {key:?} lies in {span:?}");
                }
            }
        }
    }

    #[test]
    fn an_interval_that_is_far_from_a_key_is_left_out() {
        let spans = [KeyRange::new("user17", Some(b"user43".to_vec()))];
        let hints = SpanHints::of(spans.iter());
        assert_eq!(hints.may_hold(b"user20").count(), 1);
        assert_eq!(hints.may_hold(b"user16").count(), 0);
        assert_eq!(hints.may_hold(b"user44").count(), 0);
        assert_eq!(hints.may_hold(b"use").count(), 0);
    }

    #[test]
    fn what_is_decided_by_hints_is_right() {
        for seed in 0..300 {
            let mut random = SeededRng::new(seed);
            let prefix: &[u8] = if random.one_in(2) { b"keys/" } else { b"" };
            let mut keys: Vec<Vec<u8>> =
                (0..2 + random.index(20)).map(|_| draw_key(&mut random, prefix)).collect();
            keys.sort();
            keys.dedup();
            let mut spans: Vec<KeyRange> = keys
                .windows(2)
                .map(|pair| KeyRange::new(pair[0].clone(), Some(pair[1].clone())))
                .filter(|_| !random.one_in(4))
                .collect();
            if random.one_in(4)
                && let Some(last) = spans.last_mut()
            {
                *last = KeyRange::new(last.start().to_vec(), None);
            }
            let hints = SpanHints::of(spans.iter());
            for _ in 0..40 {
                let away: &[u8] = [prefix, b"", b"kex", b"keyz"][random.index(4)];
                let key = draw_key(&mut random, away);
                let (first, end) = hints.undecided(&key);
                let is_before = |span: &KeyRange| span.is_before(&key);
                assert!(spans[..first].iter().all(is_before), "seed {seed}: {key:?}");
                assert!(!spans[end..].iter().any(is_before), "seed {seed}: {key:?}");
            }
        }
    }
}
