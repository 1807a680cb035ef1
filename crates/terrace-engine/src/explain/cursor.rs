use terrace_base::{EntryRef, SeqNo};

use super::recorder::note;
use crate::Result;
use crate::iter::Cursor;

/// A source of a scan that is being explained: it says when it works. `at` is its place among the
/// sources of its view, in the order of [`Recorder::begin_sources`](super::Recorder).
pub(crate) fn observed(inner: impl Cursor + Send + 'static, at: usize) -> Box<dyn Cursor + Send> {
    let mut first = 0;
    note(|recorder| first = recorder.first_source());
    Box::new(ObservedCursor { inner, source: first + at })
}

/// A cursor that says when it works.
struct ObservedCursor<C> {
    inner: C,
    source: usize,
}

impl<C: Cursor> ObservedCursor<C> {
    fn move_by(
        &mut self,
        is_step: bool,
        step: impl FnOnce(&mut C) -> Result<bool>,
    ) -> Result<bool> {
        note(|recorder| recorder.enter(self.source));
        let moved = step(&mut self.inner);
        let stands = matches!(moved, Ok(true));
        note(|recorder| recorder.leave(is_step, stands));
        moved
    }
}

impl<C: Cursor> Cursor for ObservedCursor<C> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.move_by(false, |cursor| cursor.seek(key))
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        self.move_by(false, |cursor| cursor.seek_back(bound))
    }

    fn next(&mut self) -> Result<bool> {
        self.move_by(true, |cursor| cursor.next())
    }

    fn prev(&mut self) -> Result<bool> {
        self.move_by(true, |cursor| cursor.prev())
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        self.inner.entry()
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        note(|recorder| recorder.enter(self.source));
        let older = self.inner.older(seqno);
        // It stands on the key that it stood on before.
        note(|recorder| recorder.leave(false, false));
        older
    }
}
