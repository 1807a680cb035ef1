//! Positions in sorted entries, and how they are merged.
//!
//! Two ways through a source, because readers and background jobs want different things:
//!
//! * A [`Cursor`] serves reads at one read point. It stands on *keys*: each source shows at most
//!   one entry a key, the newest at or below the read point, and dead versions never surface. It
//!   goes both ways.
//! * A [`Stream`] serves flushes and compactions. It goes forward over *every version* in internal
//!   order (key ascending, newest first).

mod approach;
mod clipped;
mod head;
mod merging;
mod of_each;
mod parts;
mod streams;

use terrace_base::{EntryKind, EntryRef, SeqNo};

use crate::Result;

pub use approach::{Approach, Direction};
pub use clipped::ClippedCursor;
pub use head::FirstBytes;
pub use merging::MergingCursor;
pub(crate) use of_each::cursor_of_each;
pub use parts::PartsCursor;
pub use streams::{ChainedStream, MergingStream, VecStream};

/// A position on the keys of one source that have a version at or below a read point, which was
/// fixed when the cursor was made or [renewed](Cursor::renew). A new cursor stands nowhere until it
/// is told to seek.
///
/// Entries of every kind but range tombstones surface, tombstones and expired entries included:
/// whoever merges several sources decides what they hide. After an error the cursor stands
/// nowhere, and may seek again.
pub trait Cursor {
    /// Goes to the first key at or above `key`; whether there is one, as for all moves.
    fn seek(&mut self, key: &[u8]) -> Result<bool>;

    /// Goes to the last key below `bound`, or to the last key of all if there is no bound.
    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool>;

    /// Goes to the next key. The cursor must stand on one.
    fn next(&mut self) -> Result<bool>;

    /// Goes to the previous key. The cursor must stand on one.
    fn prev(&mut self) -> Result<bool>;

    /// The newest entry at or below the read point of the key that the cursor stands on; `None`
    /// if it stands nowhere (past an end, or not yet placed).
    fn entry(&self) -> Option<EntryRef<'_>>;

    /// The key of that entry: for less than the whole entry costs, where a cursor knows how.
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|entry| entry.key)
    }

    /// The same, with the entry's number.
    #[inline]
    fn version(&self) -> Option<(&[u8], SeqNo)> {
        self.entry().map(|entry| (entry.key, entry.seqno))
    }

    /// The same, if that entry is a value which lies here and does not expire.
    #[inline]
    fn plain_key(&self) -> Option<&[u8]> {
        let is_plain = |entry: &EntryRef<'_>| entry.kind == EntryKind::Value;
        let entry = self.entry().filter(|entry| is_plain(entry) && entry.expiry.is_none());
        entry.map(|entry| entry.key)
    }

    /// As [`Cursor::seek`], but a source that knows about where it will stand without a look at its
    /// entries may put the rest off until [`Cursor::arrive`]: whoever merges many sources asks most
    /// of them for no entry. Meanwhile it stands nowhere.
    fn approach(&mut self, key: &[u8]) -> Result<Approach> {
        Ok(Approach::done(self.seek(key)?))
    }

    /// As [`Cursor::approach`], for [`Cursor::seek_back`].
    fn approach_back(&mut self, bound: Option<&[u8]>) -> Result<Approach> {
        Ok(Approach::done(self.seek_back(bound)?))
    }

    /// Does what the last approach has put off; whether the cursor stands on a key then.
    fn arrive(&mut self) -> Result<bool> {
        Ok(self.entry().is_some())
    }

    /// The newest entry of the same key with a number below `seqno`, for merge operands that need
    /// what lies under them. Does not move the cursor off its key; a later `entry` answers as
    /// before.
    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>>;

    /// Makes the cursor as good as a new one over the same source: it stands nowhere, holds no
    /// block, and reads at `read_point` from now on. `false` if it cannot; then it must not be used
    /// any more.
    fn renew(&mut self, _read_point: SeqNo) -> bool {
        false
    }
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        (**self).seek(key)
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        (**self).seek_back(bound)
    }

    fn next(&mut self) -> Result<bool> {
        (**self).next()
    }

    fn prev(&mut self) -> Result<bool> {
        (**self).prev()
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        (**self).entry()
    }

    fn key(&self) -> Option<&[u8]> {
        (**self).key()
    }

    fn version(&self) -> Option<(&[u8], SeqNo)> {
        (**self).version()
    }

    fn plain_key(&self) -> Option<&[u8]> {
        (**self).plain_key()
    }

    fn approach(&mut self, key: &[u8]) -> Result<Approach> {
        (**self).approach(key)
    }

    fn approach_back(&mut self, bound: Option<&[u8]>) -> Result<Approach> {
        (**self).approach_back(bound)
    }

    fn arrive(&mut self) -> Result<bool> {
        (**self).arrive()
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        (**self).older(seqno)
    }

    fn renew(&mut self, read_point: SeqNo) -> bool {
        (**self).renew(read_point)
    }
}

/// The lesser of two exclusive ends, of which `None` is above all keys.
#[must_use]
pub fn lesser_bound<'a>(one: Option<&'a [u8]>, other: Option<&'a [u8]>) -> Option<&'a [u8]> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Every version of every key of one source, in internal order. Range tombstones do not surface;
/// they travel beside as fragments.
pub trait Stream {
    /// The entry that the stream stands on; `None` at the end. A new stream stands on its first.
    fn entry(&self) -> Option<EntryRef<'_>>;

    /// Goes to the next entry. The stream must stand on one.
    fn advance(&mut self) -> Result<()>;
}
