use std::cmp::Ordering;

use smallvec::SmallVec;
use terrace_base::SeqNo;

/// The first 32 bytes of a key, filled up with zeros: they compare as the keys do, as far as they
/// differ.
///
/// So many because keys of one tree begin alike: with three bytes of the keyspace, a word and a
/// number with zeros before it, what tells neighbours from each other lies behind the first 16.
///
/// They are words, since two sources most often differ in the first or second of those in which
/// the keys of a tree differ at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstBytes {
    /// Big-endian, so that words compare as bytes do.
    words: [u64; 4],
}

/// The bytes of one half.
const HALF: usize = size_of::<u128>();

impl FirstBytes {
    /// How many bytes of a key they are.
    pub(super) const COUNT: usize = 2 * HALF;

    /// Those of `key`.
    #[inline]
    pub fn of(key: &[u8]) -> FirstBytes {
        let (Some(high), Some(last)) = (key.first_chunk(), key.last_chunk()) else {
            return FirstBytes::of_short(key);
        };
        let behind = match key[HALF..].first_chunk() {
            Some(low) => u128::from_be_bytes(*low),
            // What of the last 16 bytes lies behind the first 16, moved to the front.
            None => {
                let known = (key.len() - HALF) as u32 * u8::BITS;
                u128::from_be_bytes(*last).checked_shl(u128::BITS - known).unwrap_or(0)
            }
        };
        FirstBytes::of_halves(u128::from_be_bytes(*high), behind)
    }

    /// Those of a key of less than 16 bytes.
    fn of_short(key: &[u8]) -> FirstBytes {
        let mut bytes = [0; HALF];
        bytes[..key.len()].copy_from_slice(key);
        FirstBytes::of_halves(u128::from_be_bytes(bytes), 0)
    }

    #[inline]
    fn of_halves(high: u128, low: u128) -> FirstBytes {
        let words = [high >> u64::BITS, high, low >> u64::BITS, low];
        FirstBytes { words: words.map(|word| word as u64) }
    }

    /// The shortest key that has these: the keys below it are those whose first bytes are less.
    pub fn least_key(self) -> SmallVec<[u8; FirstBytes::COUNT]> {
        let mut bytes = SmallVec::from_buf([0; FirstBytes::COUNT]);
        for (part, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(self.words) {
            part.copy_from_slice(&word.to_be_bytes());
        }
        let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
        bytes.truncate(bytes.len() - zeros);
        bytes
    }

    /// The least or the greatest that a key can have which begins with `parts`, one behind the
    /// other: what is not known of it is this byte each.
    pub(super) fn beginning(parts: [&[u8]; 2], unknown: u8) -> FirstBytes {
        let mut bytes = [unknown; FirstBytes::COUNT];
        let mut left = bytes.as_mut_slice();
        for part in parts {
            let known = part.len().min(left.len());
            let (filled, rest) = left.split_at_mut(known);
            filled.copy_from_slice(&part[..known]);
            left = rest;
        }
        FirstBytes::of(&bytes)
    }
}

impl Ord for FirstBytes {
    #[inline]
    fn cmp(&self, other: &FirstBytes) -> Ordering {
        for (own, other) in self.words.iter().zip(&other.words) {
            if own != other {
                return if own < other { Ordering::Less } else { Ordering::Greater };
            }
        }
        Ordering::Equal
    }
}

impl PartialOrd for FirstBytes {
    #[inline]
    fn partial_cmp(&self, other: &FirstBytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What comparing two entries needs to know of one, most often: kept beside a source, it saves a
/// look at what the source stands on.
#[derive(Clone, Copy, Default)]
pub(super) struct Head {
    pub(super) bytes: FirstBytes,
    key_bytes: usize,
    pub(super) seqno: SeqNo,
}

impl Head {
    #[inline]
    pub(super) fn of(key: &[u8], seqno: SeqNo) -> Head {
        Head { bytes: FirstBytes::of(key), key_bytes: key.len(), seqno }
    }

    /// Of a key that is at or behind these first bytes.
    #[inline]
    pub(super) fn near(bytes: FirstBytes) -> Head {
        Head { bytes, key_bytes: usize::MAX, seqno: SeqNo::MAX }
    }

    /// How the keys compare, if the heads can tell.
    #[inline]
    pub(super) fn compare(&self, other: &Head) -> Option<Ordering> {
        match self.bytes.cmp(&other.bytes) {
            Ordering::Equal => self.compare_alike(other),
            order => Some(order),
        }
    }

    /// The same of keys whose first bytes are alike.
    #[inline]
    pub(super) fn compare_alike(&self, other: &Head) -> Option<Ordering> {
        // Of two short keys, the shorter one is the beginning of the other.
        let is_short = self.key_bytes.max(other.key_bytes) <= FirstBytes::COUNT;
        is_short.then(|| self.key_bytes.cmp(&other.key_bytes))
    }
}

#[cfg(test)]
mod tests {
    use terrace_env::SeededRng;

    use super::*;

    fn head(key: &[u8]) -> Head {
        Head::of(key, SeqNo(1))
    }

    fn assert_compare(one: &[u8], other: &[u8]) {
        let compared = head(one).compare(&head(other));
        assert!(compared.is_none_or(|order| order == one.cmp(other)), "{one:?} {other:?}");
        let is_long = one.len().max(other.len()) > FirstBytes::COUNT;
        assert!(compared.is_some() || is_long, "{one:?} {other:?}");
    }

    /// Two keys that begin alike, of two bytes of which one is what keys are filled up with.
    fn draw_alike(seed: u64) -> [Vec<u8>; 2] {
        let mut random = SeededRng::new(seed);
        let common = random.index(40);
        [(); 2].map(|()| {
            let mut key = vec![1; common];
            key.extend((0..random.index(8)).map(|_| random.index(2) as u8));
            key
        })
    }

    #[test]
    fn heads_compare_as_keys_do() {
        let long = [7; FirstBytes::COUNT + 1];
        let lengths = [HALF - 1, HALF, HALF + 1, FirstBytes::COUNT - 1, FirstBytes::COUNT];
        let mut keys: Vec<&[u8]> = vec![b"", &[0], &[0, 0], &[1], &long, &[8]];
        keys.extend(lengths.map(|length| &long[..length]));
        for one in &keys {
            keys.iter().for_each(|other| assert_compare(one, other));
        }
        for seed in 0..2_000 {
            let [one, other] = draw_alike(seed);
            assert_compare(&one, &other);
        }
    }

    #[test]
    fn keys_below_the_least_one_are_those_whose_first_bytes_are() {
        for seed in 0..2_000 {
            let [key, other] = draw_alike(seed);
            let bytes = FirstBytes::of(&other);
            let is_below = key.as_slice() < &*bytes.least_key();
            assert_eq!(is_below, FirstBytes::of(&key) < bytes, "seed {seed}: {key:?} {other:?}");
        }
    }

    #[test]
    fn all_keys_lie_within_the_beginnings_of_theirs() {
        for seed in 0..500 {
            let mut random = SeededRng::new(seed);
            let key: Vec<u8> = (0..random.index(40)).map(|_| random.next_u64() as u8).collect();
            let (known, cut) = (random.index(key.len() + 1), random.index(key.len() + 1));
            let parts = [&key[..known.min(cut)], &key[known.min(cut)..known]];
            let [least, greatest] = [0, u8::MAX].map(|byte| FirstBytes::beginning(parts, byte));
            let own = FirstBytes::of(&key);
            assert!(least <= own && own <= greatest, "seed {seed}: {key:?}");
        }
    }
}
