//! Keyspaces and type tags: what stands in front of a caller's key in the tree.
//!
//! ```text
//!   keyspace  2  big-endian, so that a keyspace is one interval of the tree
//!   type tag  1  0 for plain values; others are for collections to come
//!   key          the caller's
//! ```
//!
//! A keyspace is a prefix and never a second tree: a batch may not span two, but all share the
//! log, the memtables and the levels. Keyspace 0 is the default.

use terrace_base::KeyRange;

/// Bytes in front of a caller's key.
pub const PREFIX_BYTES: usize = 3;

/// The type tag of plain values.
const PLAIN: u8 = 0;

/// The number of a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Keyspace(pub u16);

/// Keys up to this length are prefixed on the stack.
const INLINE_BYTES: usize = 256;

/// A key as the tree stores it.
#[expect(clippy::large_enum_variant, reason = "short keys stay on the stack on purpose")]
pub enum StoredKey {
    Inline { bytes: [u8; INLINE_BYTES], len: usize },
    Heap(Vec<u8>),
}

impl StoredKey {
    pub fn as_slice(&self) -> &[u8] {
        match self {
            StoredKey::Inline { bytes, len } => &bytes[..*len],
            StoredKey::Heap(bytes) => bytes,
        }
    }
}

impl Keyspace {
    pub fn prefix(self) -> [u8; PREFIX_BYTES] {
        let [high, low] = self.0.to_be_bytes();
        [high, low, PLAIN]
    }

    /// The least stored key above all plain values of the keyspace.
    pub fn end(self) -> [u8; PREFIX_BYTES] {
        let [high, low] = self.0.to_be_bytes();
        [high, low, PLAIN + 1]
    }

    /// The stored form of a caller's key; no allocation for short ones.
    #[inline]
    pub fn stored(self, key: &[u8]) -> StoredKey {
        let prefix = self.prefix();
        let len = PREFIX_BYTES + key.len();
        if len > INLINE_BYTES {
            return StoredKey::Heap([&prefix[..], key].concat());
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..PREFIX_BYTES].copy_from_slice(&prefix);
        bytes[PREFIX_BYTES..len].copy_from_slice(key);
        StoredKey::Inline { bytes, len }
    }

    /// The stored form of an exclusive upper bound; none means the end of the keyspace.
    pub fn stored_end(self, end: Option<&[u8]>) -> Vec<u8> {
        match end {
            Some(end) => [&self.prefix()[..], end].concat(),
            None => self.end().to_vec(),
        }
    }

    /// The stored interval of a caller's interval.
    pub fn stored_range(self, range: &KeyRange) -> KeyRange {
        let start = [&self.prefix()[..], range.start()].concat();
        KeyRange::new(start, Some(self.stored_end(range.end())))
    }
}

/// A bound of stored keys as callers see it: the keyspace, and the key; no key for the end of the
/// keyspace.
pub fn split(stored: &[u8]) -> (u16, Option<&[u8]>) {
    let byte = |index| stored.get(index).copied().unwrap_or_default();
    let keyspace = u16::from_be_bytes([byte(0), byte(1)]);
    let is_plain = byte(2) == PLAIN;
    (keyspace, is_plain.then(|| stored.get(PREFIX_BYTES..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyspaces_are_disjoint_intervals_in_their_order() {
        for (lower, upper) in [(0, 1), (255, 256), (65534, 65535)] {
            let lower = Keyspace(lower).stored_range(&KeyRange::all());
            let upper = Keyspace(upper).stored_range(&KeyRange::all());
            assert!(lower.is_before(upper.start()), "{lower:?} {upper:?}");
        }
        let range = Keyspace(7).stored_range(&KeyRange::new("b", Some(b"d".to_vec())));
        assert!(range.contains(Keyspace(7).stored(b"c").as_slice()));
        assert!(!range.contains(Keyspace(7).stored(b"d").as_slice()));
        assert!(!range.contains(Keyspace(8).stored(b"c").as_slice()));
    }

    #[test]
    fn bounds_are_taken_apart() {
        assert_eq!(split(&[]), (0, Some(&b""[..])));
        assert_eq!(split(Keyspace(7).stored(b"k").as_slice()), (7, Some(&b"k"[..])));
        assert_eq!(split(&Keyspace(7).end()), (7, None));
    }

    #[test]
    fn long_keys_are_stored_whole() {
        let long = vec![9; 60_000];
        assert_eq!(Keyspace(1).stored(&long).as_slice(), [&[0, 1, 0], &long[..]].concat());
    }
}
