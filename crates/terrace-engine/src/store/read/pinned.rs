//! Values by reference: a get that copies nothing.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use terrace_base::{EntryRef, Expiry, SeqNo};

use crate::Result;
use crate::memtable::{Memtable, PinnedVersion};
use crate::store::{GetOptions, Item, Store};
use crate::table::PinnedEntry;
use crate::vlog::FetchedValue;

/// Where an entry was found.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    /// In this memtable.
    Memtable(&'a Arc<Memtable>),
    /// In the block of a table.
    Table(&'a PinnedEntry),
    /// In the value log: this is the value, in memory of its own.
    Fetched(&'a FetchedValue),
    /// Nowhere: it was folded from merge operands.
    Folded,
}

/// A value where it lies, in a memtable or in a cached block, which stays in memory for as long as
/// this lives: keep it briefly. A short value is a copy.
pub struct PinnedItem {
    pin: Pin,
    expiry: Option<Expiry>,
    seqno: SeqNo,
}

/// A value of up to this many bytes is copied: that costs less than to hold on to where it lies.
const INLINE_BYTES: usize = 24;

enum Pin {
    /// A copy of a short value.
    Inline {
        len: u8,
        bytes: [u8; INLINE_BYTES],
    },
    Memtable(PinnedVersion),
    Table(PinnedEntry),
    Fetched(FetchedValue),
    /// A value in memory of its own.
    Owned(Box<[u8]>),
}

impl Pin {
    #[inline]
    fn inline(value: &[u8]) -> Option<Pin> {
        let len = value.len();
        if len > INLINE_BYTES {
            return None;
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..len].copy_from_slice(value);
        Some(Pin::Inline { len: len as u8, bytes })
    }
}

impl PinnedItem {
    #[inline]
    pub(in crate::store) fn new(source: Origin<'_>, entry: &EntryRef<'_>) -> PinnedItem {
        let pin = match (Pin::inline(entry.value), source) {
            (Some(pin), _) => pin,
            (None, Origin::Memtable(memtable)) => {
                Pin::Memtable(PinnedVersion::new(memtable, entry))
            }
            (None, Origin::Table(pinned)) => Pin::Table(pinned.clone()),
            (None, Origin::Fetched(value)) => Pin::Fetched(value.clone()),
            (None, Origin::Folded) => Pin::Owned(entry.value.into()),
        };
        PinnedItem { pin, expiry: entry.expiry, seqno: entry.seqno }
    }

    /// A copy of a value, which holds on to nothing.
    #[must_use]
    #[inline]
    pub fn copy(value: &[u8], expiry: Option<Expiry>, seqno: SeqNo) -> PinnedItem {
        let pin = Pin::inline(value).unwrap_or_else(|| Pin::Owned(value.into()));
        PinnedItem { pin, expiry, seqno }
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

impl From<Item> for PinnedItem {
    fn from(item: Item) -> PinnedItem {
        let pin = Pin::Owned(item.value.into_boxed_slice());
        PinnedItem { pin, expiry: item.expiry, seqno: item.seqno }
    }
}

impl Deref for PinnedItem {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.pin {
            Pin::Memtable(version) => version,
            Pin::Table(entry) => entry.value(),
            Pin::Fetched(value) => value.bytes(),
            Pin::Owned(value) => value,
            Pin::Inline { len, bytes } => &bytes[..usize::from(*len)],
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
        self.get_pinned_with(key, options, |_, pinned| pinned)
    }

    /// What `take` makes of the entry and its pinned value, where [`Store::get_pinned`] would give
    /// the value. Cheaper than to look at the answer, which is moved on its way back.
    #[inline]
    pub fn get_pinned_with<T>(
        &self,
        key: &[u8],
        options: &GetOptions,
        take: impl FnOnce(&EntryRef<'_>, PinnedItem) -> T,
    ) -> Result<Option<T>> {
        self.get_from(key, options, |origin, entry| take(entry, PinnedItem::new(origin, entry)))
    }
}
