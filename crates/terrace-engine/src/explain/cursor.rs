use terrace_base::{EntryRef, SeqNo};

use super::recorder::{is_recording, note};
use crate::Result;
use crate::iter::Cursor;

/// The sources of a scan, each of which says when it works, if the scan is being explained; else
/// the sources as they are.
pub(crate) fn observed(sources: Vec<Box<dyn Cursor + Send>>) -> Vec<Box<dyn Cursor + Send>> {
    if !is_recording() {
        return sources;
    }
    let mut first = 0;
    note(|recorder| first = recorder.first_source());
    let wrap = |(at, inner)| Box::new(ObservedCursor { inner, source: first + at });
    sources.into_iter().enumerate().map(|each| wrap(each) as Box<dyn Cursor + Send>).collect()
}

/// A cursor that says when it works.
struct ObservedCursor {
    inner: Box<dyn Cursor + Send>,
    source: usize,
}

impl ObservedCursor {
    fn move_by(
        &mut self,
        is_step: bool,
        step: impl FnOnce(&mut (dyn Cursor + Send)) -> Result<bool>,
    ) -> Result<bool> {
        note(|recorder| recorder.enter(self.source));
        let moved = step(&mut *self.inner);
        let stands = matches!(moved, Ok(true));
        note(|recorder| recorder.leave(is_step, stands));
        moved
    }
}

impl Cursor for ObservedCursor {
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
        self.inner.older(seqno)
    }
}
