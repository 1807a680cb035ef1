use terrace_base::{EntryRef, KeyRange, SeqNo};

use super::Cursor;
use crate::Result;

/// A cursor that shows only the keys within an interval.
#[derive(Debug)]
pub struct ClippedCursor<C> {
    inner: C,
    clip: KeyRange,
}

impl<C: Cursor> ClippedCursor<C> {
    /// Shows what `inner` shows within `clip`.
    #[must_use]
    pub fn new(inner: C, clip: KeyRange) -> ClippedCursor<C> {
        ClippedCursor { inner, clip }
    }
}

impl<C: Cursor> Cursor for ClippedCursor<C> {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.inner.seek(key.max(self.clip.start()))
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let bound = match (bound, self.clip.end()) {
            (Some(bound), Some(end)) => Some(bound.min(end)),
            (bound, end) => bound.or(end),
        };
        self.inner.seek_back(bound)
    }

    fn next(&mut self) -> Result<()> {
        self.inner.next()
    }

    fn prev(&mut self) -> Result<()> {
        self.inner.prev()
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        self.inner.entry().filter(|entry| self.clip.contains(entry.key))
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        self.inner.older(seqno)
    }
}
