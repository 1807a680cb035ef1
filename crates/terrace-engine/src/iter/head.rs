use std::cmp::Ordering;

use terrace_base::{EntryRef, SeqNo};

/// What comparing two entries needs to know of one, most often: kept beside a source, it saves a
/// look at what the source stands on.
#[derive(Clone, Copy, Default)]
pub(super) struct Head {
    /// The first bytes of the key, big-endian, filled up with zeros.
    bytes: u128,
    key_bytes: usize,
    pub(super) seqno: SeqNo,
}

impl Head {
    pub(super) const BYTES: usize = size_of::<u128>();

    #[inline]
    pub(super) fn of(entry: &EntryRef<'_>) -> Head {
        let bytes = match entry.key.first_chunk() {
            Some(bytes) => *bytes,
            None => {
                let mut bytes = [0; Head::BYTES];
                bytes[..entry.key.len()].copy_from_slice(entry.key);
                bytes
            }
        };
        Head { bytes: u128::from_be_bytes(bytes), key_bytes: entry.key.len(), seqno: entry.seqno }
    }

    /// Of a key that is at or behind these first bytes.
    #[inline]
    pub(super) fn near(bytes: u128) -> Head {
        Head { bytes, key_bytes: usize::MAX, seqno: SeqNo::MAX }
    }

    /// How the first bytes of the keys compare.
    #[inline]
    pub(super) fn compare_bytes(&self, other: &Head) -> Ordering {
        self.bytes.cmp(&other.bytes)
    }

    /// How the keys compare, if the heads can tell.
    #[inline]
    pub(super) fn compare(&self, other: &Head) -> Option<Ordering> {
        let order = self.bytes.cmp(&other.bytes);
        if order.is_ne() {
            return Some(order);
        }
        // Of two short keys with the same head, the shorter one is the beginning of the other.
        let is_short = self.key_bytes.max(other.key_bytes) <= Head::BYTES;
        is_short.then(|| self.key_bytes.cmp(&other.key_bytes))
    }
}

#[cfg(test)]
mod tests {
    use terrace_base::EntryKind;

    use super::*;

    #[test]
    fn heads_compare_as_keys_do() {
        let long = vec![7; Head::BYTES + 1];
        let keys: [&[u8]; 8] =
            [b"", &[0], &[0, 0], &[1], &long[..Head::BYTES - 1], &long[..Head::BYTES], &long, &[8]];
        let (seqno, kind) = (SeqNo(1), EntryKind::Value);
        let entry = |key| EntryRef { key, seqno, kind, expiry: None, value: b"" };
        for one in keys {
            for other in keys {
                let compared = Head::of(&entry(one)).compare(&Head::of(&entry(other)));
                assert!(compared.is_none_or(|order| order == one.cmp(other)), "{one:?} {other:?}");
                assert!(compared.is_some() || one.len().max(other.len()) > Head::BYTES);
            }
        }
    }
}
