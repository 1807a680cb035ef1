use std::fmt;

/// A half-open interval of keys in bytewise order: `start <= key < end`; no `end` means that it
/// reaches past every key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    #[must_use]
    pub fn all() -> KeyRange {
        KeyRange { start: Vec::new(), end: None }
    }

    /// The keys from `start` up to, not including, `end`. An `end` at or below `start` gives an
    /// empty interval.
    #[must_use]
    pub fn new(start: impl Into<Vec<u8>>, end: Option<Vec<u8>>) -> KeyRange {
        KeyRange { start: start.into(), end }
    }

    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        KeyRange { start: prefix.to_vec(), end: successor_of_prefix(prefix) }
    }

    /// The inclusive lower end.
    #[must_use]
    pub fn start(&self) -> &[u8] {
        &self.start
    }

    /// The exclusive upper end; `None` means past every key.
    #[must_use]
    pub fn end(&self) -> Option<&[u8]> {
        self.end.as_deref()
    }

    /// Whether no key lies inside.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Whether `key` lies inside.
    #[must_use]
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && !self.is_before(key)
    }

    /// Whether the whole interval lies below `key`.
    #[must_use]
    #[inline]
    pub fn is_before(&self, key: &[u8]) -> bool {
        self.end.as_ref().is_some_and(|end| match (end.first_chunk::<3>(), key.first_chunk()) {
            // Asked for every key of a scan, without a call: a keyspace ends in its first bytes.
            (Some(end), Some(key)) if end != key => end < key,
            _ => end.as_slice() <= key,
        })
    }

    /// Whether the two intervals share a key.
    #[must_use]
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        !self.is_empty()
            && !other.is_empty()
            && !self.is_before(&other.start)
            && !other.is_before(&self.start)
    }

    /// The keys in both intervals (possibly none).
    #[must_use]
    pub fn intersection(&self, other: &KeyRange) -> KeyRange {
        let start = self.start.clone().max(other.start.clone());
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.min(b).clone()),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        KeyRange { start, end }
    }

    /// The smallest interval that holds both; an empty one adds nothing.
    #[must_use]
    pub fn hull(&self, other: &KeyRange) -> KeyRange {
        if self.is_empty() {
            return other.clone();
        }
        if other.is_empty() {
            return self.clone();
        }
        let end = match (&self.end, &other.end) {
            (Some(a), Some(b)) => Some(a.max(b).clone()),
            _ => None,
        };
        KeyRange { start: self.start.clone().min(other.start.clone()), end }
    }

    /// The keys of this interval that lie in none of `others`, which are sorted by their starts and
    /// may share keys, as intervals that ascend and do not touch. Cost: O(others), and what is
    /// returned.
    ///
    /// ```
    /// # use terrace_base::KeyRange;
    /// let range = |start: &str, end: &str| KeyRange::new(start, Some(end.into()));
    /// let others = [range("a", "c"), range("e", "h"), range("g", "i")];
    /// let outside = range("b", "k").outside_of(&others);
    /// assert_eq!(outside, [range("c", "e"), range("i", "k")]);
    /// ```
    #[must_use]
    pub fn outside_of<'a>(&self, others: impl IntoIterator<Item = &'a KeyRange>) -> Vec<KeyRange> {
        let mut outside = Vec::new();
        let mut start = Some(self.start.as_slice());
        for other in others.into_iter().filter(|other| !other.is_empty()) {
            let Some(from) = start.filter(|from| !self.is_before(from)) else { break };
            if self.is_before(&other.start) {
                break;
            }
            if from < other.start.as_slice() {
                outside.push(KeyRange::new(from, Some(other.start.clone())));
            }
            start = other.end().map(|end| end.max(from));
        }
        let rest = start.map(|from| KeyRange::new(from, self.end.clone()));
        outside.extend(rest.filter(|rest| !rest.is_empty()));
        outside
    }
}

/// The smallest key above every key that begins with `prefix`; none if all its bytes are 0xff.
fn successor_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut successor = prefix[..=last].to_vec();
    successor[last] += 1;
    Some(successor)
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[\"{}\", ", self.start.escape_ascii())?;
        match &self.end {
            Some(end) => write!(f, "\"{}\")", end.escape_ascii()),
            None => f.write_str("…)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: &str, end: &str) -> KeyRange {
        KeyRange::new(start, Some(end.into()))
    }

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(KeyRange::prefix(b"ab").end(), Some(&b"ac"[..]));
        assert_eq!(KeyRange::prefix(b"a\xff").end(), Some(&b"b"[..]));
        assert_eq!(KeyRange::prefix(b"\xff\xff").end(), None);
        assert_eq!(KeyRange::prefix(b""), KeyRange::all());
    }

    #[test]
    fn intervals_are_half_open() {
        let range = range("b", "d");
        assert!(!range.contains(b"a") && range.contains(b"b"));
        assert!(range.contains(b"czz") && !range.contains(b"d"));
        assert!(range.is_before(b"d") && !range.is_before(b"c"));
        for (end, before, after) in
            [("long b", "long a", "long c"), ("long", "lonf ", "long "), ("longer", "long", "lonh")]
        {
            let range = KeyRange::new("", Some(end.into()));
            assert!(!range.is_before(before.as_bytes()), "{before} is not behind {end}");
            assert!(range.is_before(after.as_bytes()) && range.is_before(end.as_bytes()));
        }
    }

    #[test]
    fn neighbours_do_not_overlap() {
        assert!(!range("a", "b").overlaps(&range("b", "c")));
        assert!(range("a", "c").overlaps(&range("b", "d")));
        assert!(!range("b", "a").overlaps(&KeyRange::all()));
        assert!(range("a", "b").overlaps(&KeyRange::all()));
    }

    #[test]
    fn hull_and_intersection() {
        assert_eq!(range("a", "b").hull(&range("c", "d")), range("a", "d"));
        assert_eq!(range("a", "c").intersection(&range("b", "d")), range("b", "c"));
        assert!(range("a", "b").intersection(&range("c", "d")).is_empty());
        assert_eq!(KeyRange::all().intersection(&range("a", "b")), range("a", "b"));
        assert_eq!(range("c", "b").hull(&range("x", "y")), range("x", "y"));
    }
}
