use terrace_base::{common_prefix_bytes, hint_of};

/// Keys that divide all keys into intervals, laid out for the question which one holds a key.
///
/// ```text
///   keys       common/d      common/m      common/t
///   prefix     common/
///   hints      "d" 0 0 …     "m" 0 0 …     "t" 0 0 …     the 8 bytes behind it, as numbers
///   intervals  0          1             2             3
/// ```
/// A search counts the hints below that of the key; whole keys are compared only where hints are
/// equal. `Invariant:` the keys ascend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Boundaries {
    keys: Vec<Vec<u8>>,
    prefix: Vec<u8>,
    hints: Vec<u64>,
}

impl Boundaries {
    /// The boundaries at `keys`, which ascend.
    #[must_use]
    pub fn new(keys: Vec<Vec<u8>>) -> Boundaries {
        debug_assert!(keys.is_sorted_by(|a, b| a < b), "boundaries ascend");
        let prefix = match keys.as_slice() {
            [] => Vec::new(),
            // They ascend, so what the outermost have in common, all have.
            [first, .., last] => first[..common_prefix_bytes(first, last)].to_vec(),
            [only] => only.clone(),
        };
        let hints = keys.iter().map(|key| hint(&key[prefix.len()..])).collect();
        Boundaries { keys, prefix, hints }
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// How many of the boundaries lie at or below `key`: the interval that holds it.
    #[must_use]
    #[inline]
    pub fn index_of(&self, key: &[u8]) -> usize {
        if self.keys.is_empty() {
            return 0;
        }
        let Some(rest) = key.strip_prefix(self.prefix.as_slice()) else {
            return if key < self.prefix.as_slice() { 0 } else { self.keys.len() };
        };
        let sought = hint(rest);
        let mut index = self.hints.iter().filter(|&&hint| hint < sought).count();
        while self.hints.get(index) == Some(&sought) && self.keys[index].as_slice() <= key {
            index += 1;
        }
        index
    }
}

#[inline]
fn hint(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(hint_of(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: hints change nothing. Method: against the plain definition, with keys that end early,
    /// differ late, or lie outside of the common prefix.
    #[test]
    fn the_interval_of_a_key_is_the_number_of_boundaries_at_or_below_it() {
        let sets: &[&[&str]] = &[
            &[],
            &["m"],
            &["user000", "user000000000001", "user0000000000010", "user5", "user500000000"],
            &["a", "a\0", "a\0\0\0\0\0\0\0\0\0", "a\0\0\0\0\0\0\0\0\x01", "b"],
        ];
        for keys in sets {
            let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_bytes().to_vec()).collect();
            let boundaries = Boundaries::new(keys.clone());
            let mut asked: Vec<Vec<u8>> = vec![b"".into(), b"user".into(), b"z".into()];
            for key in &keys {
                asked.push(key.clone());
                asked.push([key, &b"\0"[..]].concat());
                asked.push([key, &b"\xff"[..]].concat());
                asked.push(key[..key.len() - 1].to_vec());
            }
            for key in asked {
                let expected = keys.iter().filter(|boundary| **boundary <= key).count();
                assert_eq!(boundaries.index_of(&key), expected, "{keys:?} {key:?}");
            }
        }
    }
}
