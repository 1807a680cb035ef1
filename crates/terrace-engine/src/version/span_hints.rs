use terrace_base::{KeyRange, common_prefix_bytes, hint_of};
use terrace_env::{PlantedBug, is_planted};

/// The first bytes of the ends of many intervals, side by side, so that a search among them looks
/// at few cache lines and at hardly any interval itself.
///
/// ```text
///   intervals   [meta, user17)    [user17, user43)   [user43, user80)    most begin with "user"
///   hints         0  …  "17"        "17" … "43"        "43" … "80"       eight bytes behind that
/// ```
///
/// What differs in its hints is decided by them. Whoever asks looks at the intervals themselves
/// where hints are alike. A few ends that lie far from the others, such as the catalog's beside one
/// large keyspace, do not make all others alike.
#[derive(Clone, Debug, Default)]
pub struct SpanHints {
    /// What all ends begin with but for a few that lie before or behind them.
    prefix: Vec<u8>,
    starts: Vec<u64>,
    /// The greatest number for an interval without an end.
    ends: Vec<u64>,
}

/// On either side one in so many ends may lie far away from the others, and one at least if there
/// are four.
const OUTER_DIVISOR: usize = 8;

impl SpanHints {
    /// Those of these intervals, in any order.
    #[must_use]
    pub fn of<'a>(spans: impl Iterator<Item = &'a KeyRange> + Clone) -> SpanHints {
        let bounds = spans.clone().flat_map(|span| [Some(span.start()), span.end()]);
        let mut bounds: Vec<&[u8]> = bounds.flatten().collect();
        bounds.sort_unstable();
        let outer = if bounds.len() < 4 { 0 } else { (bounds.len() / OUTER_DIVISOR).max(1) };
        // Whatever lies between two keys begins with what these have in common.
        let prefix = match &bounds[outer..bounds.len() - outer] {
            [first, .., last] => first[..common_prefix_bytes(first, last)].to_vec(),
            _ => Vec::new(),
        };
        let mut hints = SpanHints { prefix, ..SpanHints::default() };
        hints.starts = spans.clone().map(|span| hints.hint(span.start())).collect();
        let end = |span: &KeyRange| span.end().map_or(u64::MAX, |end| hints.hint(end));
        hints.ends = spans.map(end).collect();
        hints
    }

    /// The hint of a key: of two keys the greater one has no lesser hint.
    #[inline]
    fn hint(&self, key: &[u8]) -> u64 {
        match key.strip_prefix(self.prefix.as_slice()) {
            Some(rest) => u64::from_be_bytes(hint_of(rest)),
            None if key < self.prefix.as_slice() => 0,
            None => u64::MAX,
        }
    }

    /// The indexes of those intervals that may hold `key`, ascending: all that hold it are among
    /// them.
    #[inline]
    pub fn may_hold(&self, key: &[u8]) -> impl Iterator<Item = usize> {
        let hint = self.hint(key);
        let bounds = self.starts.iter().zip(&self.ends);
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
        let hint = self.hint(key);
        let leaves_out = is_planted(PlantedBug::LeaveOutTableAtItsEnd);
        let is_before = |end: &u64| *end < hint || (leaves_out && *end == hint);
        let first = self.ends.partition_point(is_before);
        let behind = &self.ends[first..];
        // Hardly any are alike.
        let is_decided = behind.first().is_none_or(|end| *end != hint);
        let alike = if is_decided { 0 } else { behind.partition_point(|end| *end == hint) };
        (first, first + alike)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_env::SeededRng;

    /// A key of which many are alike in their first bytes, and a few lie far away.
    fn draw_key(random: &mut SeededRng, prefix: &[u8]) -> Vec<u8> {
        let far = ["catalog", "zoo"][random.index(2)].as_bytes();
        let mut key = if random.one_in(12) { far } else { prefix }.to_vec();
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
    fn one_end_far_away_leaves_the_others_apart() {
        let bounds = ["catalog", "user0000017", "user0000043", "user0000080", "user0000099"];
        let span = |pair: &[&str]| KeyRange::new(pair[0], Some(pair[1].into()));
        let spans: Vec<KeyRange> = bounds.windows(2).map(span).collect();
        let hints = SpanHints::of(spans.iter());
        assert_eq!(hints.undecided(b"user0000050"), (2, 2));
        assert_eq!(hints.may_hold(b"user0000050").collect::<Vec<usize>>(), [2]);
        assert_eq!(hints.may_hold(b"dog").collect::<Vec<usize>>(), [0]);
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
