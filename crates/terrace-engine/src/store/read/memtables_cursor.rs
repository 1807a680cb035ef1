use std::sync::Arc;

use terrace_base::{EntryRef, SeqNo};

use crate::Result;
use crate::iter::{ClippedCursor, Cursor, MergingCursor};
use crate::memtable::{Memtable, MemtableCursor};
use crate::store::view::View;

/// The memtables of one drange, of which some hold keys of others too.
type DrangeCursor = ClippedCursor<MergingCursor<MemtableCursor>>;

/// The keys in all memtables of a view, one drange after the other: of the dranges only the one
/// that the cursor stands in is open, so a short scan touches the memtables of one.
pub struct MemtablesCursor {
    view: Arc<View>,
    read_point: SeqNo,
    /// The drange that the cursor stands in.
    drange: Option<(usize, DrangeCursor)>,
}

impl MemtablesCursor {
    /// A cursor that stands nowhere.
    pub fn new(view: Arc<View>, read_point: SeqNo) -> MemtablesCursor {
        MemtablesCursor { view, read_point, drange: None }
    }

    /// Opens the drange at `index`; stands nowhere if there is none.
    fn enter(&mut self, index: usize) -> Option<&mut DrangeCursor> {
        if self.drange.as_ref().is_none_or(|(current, _)| *current != index) {
            self.drange = self.view.dranges.get(index).map(|drange| {
                let cursor = |memtable: &Arc<Memtable>| memtable.cursor(self.read_point);
                let merged = MergingCursor::new(drange.memtables().map(cursor));
                // Some memtables hold keys of other dranges, too.
                (index, ClippedCursor::new(merged, drange.keys.clone()))
            });
        }
        self.drange.as_mut().map(|(_, cursor)| cursor)
    }

    /// Goes on to the first key of a later drange, as long as the current one does not stand on
    /// one.
    fn skip_forward(&mut self, mut stands: bool) -> Result<bool> {
        while !stands && let Some((index, _)) = self.drange {
            // None of them is opened for nothing: after a freeze most are empty.
            let empty = self.view.dranges[index + 1..].iter().take_while(|one| one.is_empty());
            let later = index + 1 + empty.count();
            stands = self.within(later, |cursor| cursor.seek(b""))?;
        }
        Ok(stands)
    }

    fn skip_back(&mut self, mut stands: bool) -> Result<bool> {
        while !stands && let Some((index, _)) = self.drange {
            let mut earlier = self.view.dranges[..index].iter();
            let Some(previous) = earlier.rposition(|one| !one.is_empty()) else {
                self.drange = None;
                break;
            };
            stands = self.within(previous, |cursor| cursor.seek_back(None))?;
        }
        Ok(stands)
    }

    /// Opens the drange at `index` and moves its cursor by `act`; stands nowhere if there is none.
    #[inline]
    fn within(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut DrangeCursor) -> Result<bool>,
    ) -> Result<bool> {
        match self.enter(index) {
            Some(cursor) => act(cursor),
            None => Ok(false),
        }
    }
}

impl Cursor for MemtablesCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let index = self.view.boundaries.index_of(key);
        let stands = self.within(index, |cursor| cursor.seek(key))?;
        self.skip_forward(stands)
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        let last = self.view.dranges.len() - 1;
        // The keys below a bound that is itself a boundary begin in the drange before it; that one
        // is found empty and gone back from.
        let index = bound.map_or(last, |bound| self.view.boundaries.index_of(bound));
        let stands = self.within(index, |cursor| cursor.seek_back(bound))?;
        self.skip_back(stands)
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        let Some((_, cursor)) = &mut self.drange else { return Ok(false) };
        if cursor.next()? { Ok(true) } else { self.skip_forward(false) }
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        let Some((_, cursor)) = &mut self.drange else { return Ok(false) };
        if cursor.prev()? { Ok(true) } else { self.skip_back(false) }
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.drange.as_ref().and_then(|(_, cursor)| cursor.entry())
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.drange.as_ref().and_then(|(_, cursor)| cursor.key())
    }

    #[inline]
    fn plain_key(&self) -> Option<&[u8]> {
        self.drange.as_ref().and_then(|(_, cursor)| cursor.plain_key())
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        match &mut self.drange {
            Some((_, cursor)) => cursor.older(seqno),
            None => Ok(None),
        }
    }

    fn renew(&mut self, read_point: SeqNo) -> bool {
        self.read_point = read_point;
        self.drange.take_if(|(_, cursor)| !cursor.renew(read_point));
        true
    }
}
