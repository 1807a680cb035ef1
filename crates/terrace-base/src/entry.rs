use std::cmp::Ordering;
use std::fmt;

use crate::{Expiry, SeqNo};

/// What an entry says about its key. The values are persistent: they stand in logs and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// The key has this value.
    Value = 1,
    /// The key is deleted.
    Tombstone = 2,
    /// Every key from the entry's key up to, not including, its value is deleted.
    RangeTombstone = 3,
    /// A merge operator turns the next older value and this operand into the key's value.
    MergeOperand = 4,
    /// The key has a value, which lies in the value log; the entry's value is the pointer.
    ValuePointer = 5,
}

impl EntryKind {
    /// The kind with this stored byte.
    #[must_use]
    pub fn from_stored(byte: u8) -> Option<EntryKind> {
        Some(match byte {
            1 => EntryKind::Value,
            2 => EntryKind::Tombstone,
            3 => EntryKind::RangeTombstone,
            4 => EntryKind::MergeOperand,
            5 => EntryKind::ValuePointer,
            _ => return None,
        })
    }
}

/// One version of one key, borrowed. For a range tombstone `key` is the start of the deleted
/// interval and `value` its exclusive end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// The user key, ordered bytewise.
    pub key: &'a [u8],
    /// When it was written, in the order of its range.
    pub seqno: SeqNo,
    /// What it says.
    pub kind: EntryKind,
    /// When it turns into a tombstone, if ever.
    pub expiry: Option<Expiry>,
    /// The value, the pointer, the operand or the end key; empty for a tombstone.
    pub value: &'a [u8],
}

impl EntryRef<'_> {
    /// A copy that owns its bytes.
    #[must_use]
    pub fn to_entry(&self) -> Entry {
        Entry {
            key: self.key.to_vec(),
            seqno: self.seqno,
            kind: self.kind,
            expiry: self.expiry,
            value: self.value.to_vec(),
        }
    }
}

impl fmt::Debug for EntryRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.value[..self.value.len().min(32)];
        write!(f, "\"{}\"{:?} {:?}", self.key.escape_ascii(), self.seqno, self.kind)?;
        write!(f, " \"{}\"", shown.escape_ascii())?;
        if let Some(expiry) = self.expiry {
            write!(f, " until {}", expiry.time().0)?;
        }
        Ok(())
    }
}

/// One version of one key, owned; see [`EntryRef`].
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The user key.
    pub key: Vec<u8>,
    /// When it was written.
    pub seqno: SeqNo,
    /// What it says.
    pub kind: EntryKind,
    /// When it turns into a tombstone, if ever.
    pub expiry: Option<Expiry>,
    /// The value, the pointer, the operand or the end key.
    pub value: Vec<u8>,
}

impl Entry {
    /// The entry, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> EntryRef<'_> {
        EntryRef {
            key: &self.key,
            seqno: self.seqno,
            kind: self.kind,
            expiry: self.expiry,
            value: &self.value,
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

/// The order of entries everywhere: keys ascending bytewise, and for one key the newest first.
///
/// ```
/// use std::cmp::Ordering;
/// use terrace_base::{SeqNo, compare_internal};
///
/// assert_eq!(compare_internal(b"a", SeqNo(1), b"b", SeqNo(9)), Ordering::Less);
/// assert_eq!(compare_internal(b"a", SeqNo(9), b"a", SeqNo(1)), Ordering::Less);
/// ```
#[must_use]
pub fn compare_internal(a: &[u8], a_seqno: SeqNo, b: &[u8], b_seqno: SeqNo) -> Ordering {
    a.cmp(b).then_with(|| b_seqno.cmp(&a_seqno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_kinds_round_trip_and_others_are_refused() {
        for byte in 0..=u8::MAX {
            if let Some(kind) = EntryKind::from_stored(byte) {
                assert_eq!(kind as u8, byte);
            } else {
                assert!(byte == 0 || byte > 5);
            }
        }
    }
}
