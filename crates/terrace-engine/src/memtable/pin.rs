//! A value in a memtable, held without a copy.

#![allow(unsafe_code)]

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use terrace_base::EntryRef;

use super::Memtable;

/// The value of an entry of a memtable, which stays in memory for as long as this lives.
///
/// `Invariant:` `value` lies in the arena of `memtable`, in an entry that is published: its bytes
/// never change, and lie where they are until the arena is dropped.
pub struct PinnedVersion {
    value: NonNull<[u8]>,
    memtable: Arc<Memtable>,
}

// Safety: a shared reference to bytes that do not change, and its owner, which is both.
unsafe impl Send for PinnedVersion {}
// Safety: as above.
unsafe impl Sync for PinnedVersion {}

impl PinnedVersion {
    /// Pins the value of an entry that `memtable` answered with.
    ///
    /// # Panics
    /// If the entry is not one of this memtable.
    #[must_use]
    #[inline]
    pub fn new(memtable: &Arc<Memtable>, entry: &EntryRef<'_>) -> PinnedVersion {
        let arena = memtable.tree().arena();
        assert!(arena.holds(entry.value), "the entry is another memtable's");
        PinnedVersion { value: NonNull::from(entry.value), memtable: Arc::clone(memtable) }
    }
}

impl Deref for PinnedVersion {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // Safety: the invariant of the type; `memtable` keeps the arena.
        unsafe { self.value.as_ref() }
    }
}

impl fmt::Debug for PinnedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedVersion of {} bytes in {:?}", self.len(), self.memtable.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::{EntryKind, Epoch, MemtableId, SeqNo};

    fn memtable(value: &[u8]) -> Arc<Memtable> {
        let id = MemtableId { epoch: Epoch(1), counter: 1 };
        let memtable = Arc::new(Memtable::new(id, 64 << 10));
        let (seqno, kind) = (SeqNo(1), EntryKind::Value);
        let bytes = Memtable::space_for(1, value.len());
        let mut reservation = memtable.reserve(bytes).expect("it is empty");
        memtable.insert(&mut reservation, EntryRef { key: b"k", seqno, kind, expiry: None, value });
        drop(reservation);
        memtable
    }

    #[test]
    fn a_pinned_value_outlives_every_other_handle() {
        for value in [&b""[..], b"value"] {
            let memtable = memtable(value);
            let entry = memtable.newest(b"k").expect("it was inserted");
            let pinned = PinnedVersion::new(&memtable, &entry);
            drop(memtable);
            assert_eq!(&*pinned, value);
        }
    }

    #[test]
    #[should_panic(expected = "another memtable's")]
    fn a_value_from_elsewhere_is_refused() {
        let (one, other) = (memtable(b"1"), memtable(b"2"));
        let entry = other.newest(b"k").expect("it was inserted");
        drop(PinnedVersion::new(&one, &entry));
    }
}
