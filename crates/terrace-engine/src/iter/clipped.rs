use terrace_base::{EntryRef, KeyRange, SeqNo};

use super::{Approach, Cursor, lesser_bound};
use crate::Result;

/// A cursor that shows only the keys within an interval.
#[derive(Debug)]
pub struct ClippedCursor<C> {
    inner: C,
    clip: KeyRange,
    /// Whether the inner cursor stands on a key of the interval.
    stands: bool,
}

impl<C: Cursor> ClippedCursor<C> {
    /// Shows what `inner` shows within `clip`.
    #[must_use]
    pub fn new(inner: C, clip: KeyRange) -> ClippedCursor<C> {
        ClippedCursor { inner, clip, stands: false }
    }

    /// Looks what became of an approach of the inner cursor.
    #[inline]
    fn approached(&mut self, approach: Approach) -> Approach {
        self.stands = false;
        match approach {
            Approach::Stands => Approach::done(self.look()),
            other => other,
        }
    }

    /// Whether the inner cursor stands on a key of the interval.
    #[inline]
    fn look(&mut self) -> bool {
        self.stands = self.inner.key().is_some_and(|key| self.clip.contains(key));
        self.stands
    }

    /// Moves the inner cursor by `act`.
    #[inline]
    fn moved(&mut self, act: impl FnOnce(&mut C, &KeyRange) -> Result<bool>) -> Result<bool> {
        self.stands = false;
        act(&mut self.inner, &self.clip)?;
        Ok(self.look())
    }
}

impl<C: Cursor> Cursor for ClippedCursor<C> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.moved(|inner, clip| inner.seek(key.max(clip.start())))
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        self.moved(|inner, clip| inner.seek_back(lesser_bound(bound, clip.end())))
    }

    fn approach(&mut self, key: &[u8]) -> Result<Approach> {
        let approach = self.inner.approach(key.max(self.clip.start()))?;
        Ok(self.approached(approach))
    }

    fn approach_back(&mut self, bound: Option<&[u8]>) -> Result<Approach> {
        let approach = self.inner.approach_back(lesser_bound(bound, self.clip.end()))?;
        Ok(self.approached(approach))
    }

    fn arrive(&mut self) -> Result<bool> {
        self.moved(|inner, _| inner.arrive())
    }

    fn next(&mut self) -> Result<bool> {
        self.moved(|inner, _| inner.next())
    }

    fn prev(&mut self) -> Result<bool> {
        self.moved(|inner, _| inner.prev())
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        if self.stands { self.inner.entry() } else { None }
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        if self.stands { self.inner.key() } else { None }
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        self.inner.older(seqno)
    }

    fn renew(&mut self, read_point: SeqNo) -> bool {
        self.stands = false;
        self.inner.renew(read_point)
    }
}
