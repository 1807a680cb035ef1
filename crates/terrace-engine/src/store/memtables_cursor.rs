use std::sync::Arc;

use terrace_base::{EntryRef, SeqNo};

use super::view::View;
use crate::Result;
use crate::iter::{ClippedCursor, Cursor, MergingCursor};

/// The keys in all memtables of a view, one drange after the other: of the dranges only the one
/// that the cursor stands in is open, so a short scan touches the memtables of one.
pub struct MemtablesCursor {
    view: Arc<View>,
    read_point: SeqNo,
    /// The drange that the cursor stands in.
    drange: Option<(usize, ClippedCursor<MergingCursor>)>,
}

impl MemtablesCursor {
    /// A cursor that stands nowhere.
    pub fn new(view: Arc<View>, read_point: SeqNo) -> MemtablesCursor {
        MemtablesCursor { view, read_point, drange: None }
    }

    /// Opens the drange at `index`; stands nowhere if there is none.
    fn enter(&mut self, index: usize) -> Option<&mut ClippedCursor<MergingCursor>> {
        if self.drange.as_ref().is_none_or(|(current, _)| *current != index) {
            self.drange = self.view.dranges.get(index).map(|drange| {
                let cursor = |memtable: &Arc<_>| {
                    Box::new(crate::memtable::Memtable::cursor(memtable, self.read_point))
                        as Box<dyn Cursor + Send>
                };
                let merged = MergingCursor::new(drange.memtables().map(cursor).collect());
                // Some memtables hold keys of other dranges, too.
                (index, ClippedCursor::new(merged, drange.keys.clone()))
            });
        }
        self.drange.as_mut().map(|(_, cursor)| cursor)
    }

    /// Goes on to the first key of a later drange while the current one shows nothing.
    fn skip_forward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.drange {
            if cursor.entry().is_some() {
                break;
            }
            let next = index + 1;
            if let Some(cursor) = self.enter(next) {
                cursor.seek(b"")?;
            }
        }
        Ok(())
    }

    fn skip_back(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.drange {
            if cursor.entry().is_some() {
                break;
            }
            let Some(previous) = index.checked_sub(1) else {
                self.drange = None;
                break;
            };
            if let Some(cursor) = self.enter(previous) {
                cursor.seek_back(None)?;
            }
        }
        Ok(())
    }

    fn standing(&mut self) -> Option<&mut ClippedCursor<MergingCursor>> {
        let (_, cursor) = self.drange.as_mut()?;
        cursor.entry().is_some().then_some(cursor)
    }
}

impl Cursor for MemtablesCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let index = self.view.boundaries.index_of(key);
        if let Some(cursor) = self.enter(index) {
            cursor.seek(key)?;
        }
        self.skip_forward()
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let last = self.view.dranges.len() - 1;
        // The keys below a bound that is itself a boundary begin in the drange before it; that one
        // is found empty and gone back from.
        let index = bound.map_or(last, |bound| self.view.boundaries.index_of(bound));
        if let Some(cursor) = self.enter(index) {
            cursor.seek_back(bound)?;
        }
        self.skip_back()
    }

    fn next(&mut self) -> Result<()> {
        if let Some(cursor) = self.standing() {
            cursor.next()?;
        }
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        if let Some(cursor) = self.standing() {
            cursor.prev()?;
        }
        self.skip_back()
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        self.drange.as_ref().and_then(|(_, cursor)| cursor.entry())
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        match self.standing() {
            Some(cursor) => cursor.older(seqno),
            None => Ok(None),
        }
    }
}
