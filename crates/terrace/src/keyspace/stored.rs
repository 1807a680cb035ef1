//! Keyspaces and type tags: what stands in front of a caller's key in the tree.
//!
//! ```text
//!   keyspace  2  big-endian, so that a keyspace is one interval of the tree
//!   type tag  1  0 for plain values; others are for collections to come
//!   key          the caller's
//! ```
//!
//! A keyspace is a prefix and never a second tree: all share the log, the memtables and the levels,
//! so a batch and a snapshot span them. Keyspace 0 is the default.

use std::ops::Bound;

use terrace_base::KeyRange as OwnedRange;

use crate::view::{KeyRange, RangeEnd};

/// Bytes in front of a caller's key.
pub const PREFIX_BYTES: usize = 3;

/// The type tag of plain values.
const PLAIN: u8 = 0;

/// The number of a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct KeyspaceNo(pub u16);

/// Keys up to this length are prefixed on the stack: all of it is cleared and moved once, for
/// short ones too.
const INLINE_BYTES: usize = 112;

/// A key as the tree stores it.
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

/// Room for a key as the tree stores it, where it is put together and stays: a [`StoredKey`] is
/// moved as a whole at least once.
pub struct StoredPlace {
    inline: [u8; INLINE_BYTES],
    long: Vec<u8>,
}

impl StoredPlace {
    #[inline]
    pub fn new() -> StoredPlace {
        StoredPlace { inline: [0; INLINE_BYTES], long: Vec::new() }
    }
}

impl KeyspaceNo {
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

    /// As [`KeyspaceNo::stored`], put together in `place`.
    #[inline]
    pub fn stored_in<'p>(self, key: &[u8], place: &'p mut StoredPlace) -> &'p [u8] {
        let prefix = self.prefix();
        match place.inline.get_mut(..PREFIX_BYTES + key.len()) {
            Some(stored) => {
                stored[..PREFIX_BYTES].copy_from_slice(&prefix);
                stored[PREFIX_BYTES..].copy_from_slice(key);
                stored
            }
            None => {
                place.long = [&prefix[..], key].concat();
                &place.long
            }
        }
    }

    /// The stored interval of a caller's interval.
    pub fn stored_range(self, range: &impl KeyRange) -> OwnedRange {
        let (start, end) = range.bounds();
        let stored = |key: &[u8], more: &[u8]| [&self.prefix()[..], key, more].concat();
        let start = match start {
            Bound::Included(key) => stored(key, &[]),
            // The least key above another one is that with a zero behind it.
            Bound::Excluded(key) => stored(key, &[0]),
            Bound::Unbounded => self.prefix().to_vec(),
        };
        let end = match end {
            RangeEnd::Before(key) => stored(key, &[]),
            RangeEnd::With(key) => stored(key, &[0]),
            // A keyspace's prefix does not end in 0xff, so what begins with it has an end.
            RangeEnd::WithPrefix(key) => {
                let inside = OwnedRange::prefix(&stored(key, &[]));
                inside.end().map_or_else(|| self.end().to_vec(), <[u8]>::to_vec)
            }
            RangeEnd::Open => self.end().to_vec(),
        };
        OwnedRange::new(start, Some(end))
    }

    /// The interval of everything in the keyspace, of whatever type.
    pub fn whole(self) -> OwnedRange {
        let start = self.0.to_be_bytes().to_vec();
        let end = self.0.checked_add(1).map(|next| next.to_be_bytes().to_vec());
        OwnedRange::new(start, end)
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
    use crate::view::Prefix;

    #[test]
    fn keyspaces_are_disjoint_intervals_in_their_order() {
        for (lower, upper) in [(0, 1), (255, 256), (65534, 65535)] {
            let (lower, upper) = (KeyspaceNo(lower), KeyspaceNo(upper));
            assert!(lower.stored_range(&(..)).is_before(upper.stored_range(&(..)).start()));
            assert!(lower.whole().is_before(upper.whole().start()), "{lower:?} {upper:?}");
        }
        let range = KeyspaceNo(7).stored_range(&("b".."d"));
        assert!(range.contains(KeyspaceNo(7).stored(b"c").as_slice()));
        assert!(!range.contains(KeyspaceNo(7).stored(b"d").as_slice()));
        assert!(!range.contains(KeyspaceNo(8).stored(b"c").as_slice()));
    }

    #[test]
    fn every_kind_of_range_takes_the_keys_that_it_should() {
        let keys: [&[u8]; 6] = [b"", b"a", b"a\0", b"b", b"\xff", b"\xff\xff"];
        let taken = |range: &OwnedRange| {
            let is_taken = |key: &&&[u8]| range.contains(KeyspaceNo(9).stored(key).as_slice());
            keys.iter().filter(is_taken).count()
        };
        let of = |range: OwnedRange| taken(&range);
        let no = KeyspaceNo(9);
        assert_eq!(of(no.stored_range(&(..))), 6);
        assert_eq!(of(no.stored_range(&("a".."b"))), 2);
        assert_eq!(of(no.stored_range(&("a"..="b"))), 3);
        assert_eq!(of(no.stored_range(&("b"..))), 3);
        assert_eq!(of(no.stored_range(&(.."a"))), 1);
        assert_eq!(of(no.stored_range(&(..="a"))), 2);
        assert_eq!(of(no.stored_range(&("b".."a"))), 0);
        assert_eq!(of(no.stored_range(&Prefix("a"))), 2);
        assert_eq!(of(no.stored_range(&Prefix(""))), 6);
        assert_eq!(of(no.stored_range(&Prefix([0xff]))), 2);
        assert_eq!(of(no.stored_range(&(Bound::Excluded("a"), Bound::Included("b")))), 2);
        assert_eq!(of(no.stored_range(&OwnedRange::new("a", None))), 5);
    }

    #[test]
    fn bounds_are_taken_apart() {
        assert_eq!(split(&[]), (0, Some(&b""[..])));
        assert_eq!(split(KeyspaceNo(7).stored(b"k").as_slice()), (7, Some(&b"k"[..])));
        assert_eq!(split(&KeyspaceNo(7).end()), (7, None));
    }

    #[test]
    fn long_keys_are_stored_whole() {
        let long = vec![9; 60_000];
        assert_eq!(KeyspaceNo(1).stored(&long).as_slice(), [&[0, 1, 0], &long[..]].concat());
    }
}
