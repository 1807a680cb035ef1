//! Values by reference: a get that copies nothing.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use terrace_base::{EntryRef, Expiry, SeqNo};

use crate::Result;
use crate::memtable::{Memtable, PinnedVersion};
use crate::store::{GetOptions, Store};
use crate::table::PinnedEntry;

/// Where an entry was found.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// In this memtable.
    Memtable(&'a Arc<Memtable>),
    /// In the block of a table.
    Table(&'a PinnedEntry),
    /// Nowhere: it was folded from merge operands.
    Folded,
}

/// A value where it lies, in a memtable or in a cached block, which stays in memory for as long as
/// this lives: keep it briefly.
pub struct PinnedItem {
    pin: Pin,
    expiry: Option<Expiry>,
    seqno: SeqNo,
}

enum Pin {
    Memtable(PinnedVersion),
    Table(PinnedEntry),
    /// A value in memory of its own.
    Folded(Box<[u8]>),
}

impl PinnedItem {
    pub(in crate::store) fn new(source: Origin<'_>, entry: &EntryRef<'_>) -> PinnedItem {
        let pin = match source {
            Origin::Memtable(memtable) => Pin::Memtable(PinnedVersion::new(memtable, entry)),
            Origin::Table(pinned) => Pin::Table(pinned.clone()),
            Origin::Folded => Pin::Folded(entry.value.into()),
        };
        PinnedItem { pin, expiry: entry.expiry, seqno: entry.seqno }
    }

    /// When it goes, if ever.
    #[must_use]
    pub fn expiry(&self) -> Option<Expiry> {
        self.expiry
    }

    /// When it was written.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.seqno
    }
}

impl Deref for PinnedItem {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.pin {
            Pin::Memtable(version) => version,
            Pin::Table(entry) => entry.value(),
            Pin::Folded(value) => value,
        }
    }
}

impl AsRef<[u8]> for PinnedItem {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PinnedItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedItem({})", self.escape_ascii())
    }
}

impl Store {
    /// The value of `key` now, by reference; `None` if there is none. Cost: as
    /// [`Store::get`], without the allocation and the copy.
    pub fn get_pinned(&self, key: &[u8], options: &GetOptions) -> Result<Option<PinnedItem>> {
        self.get_from(key, options, PinnedItem::new)
    }
}
