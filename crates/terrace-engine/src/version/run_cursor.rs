use terrace_base::{EntryRef, SeqNo};

use super::KeysCursor;
use super::Run;
use crate::Result;
use crate::iter::Cursor;
use crate::table::ReadMode;

/// The keys of a run: its tables one after the other, each opened when it is reached.
pub struct RunCursor {
    run: Run,
    read_point: SeqNo,
    mode: ReadMode,
    /// The table that the cursor stands in.
    table: Option<(usize, KeysCursor)>,
}

impl RunCursor {
    /// A cursor over `run`.
    #[must_use]
    pub fn new(run: Run, read_point: SeqNo, mode: ReadMode) -> RunCursor {
        RunCursor { run, read_point, mode, table: None }
    }

    /// Enters the table at `index`; `false` if there is none.
    fn enter(&mut self, index: usize) -> Result<bool> {
        if self.table.as_ref().is_some_and(|(current, _)| *current == index) {
            return Ok(true);
        }
        self.table = None;
        let Some(table) = self.run.tables().get(index) else { return Ok(false) };
        self.table = Some((index, table.keys_cursor(self.read_point, self.mode)?));
        Ok(true)
    }

    /// Goes on to the first key of a later table, as long as the current one does not stand on one.
    #[cold]
    fn skip_forward(&mut self, mut stands: bool) -> Result<bool> {
        while !stands && let Some((index, _)) = self.table {
            stands = self.enter(index + 1)? && self.in_table(|cursor| cursor.seek(b""))?;
        }
        Ok(stands)
    }

    fn skip_back(&mut self, mut stands: bool) -> Result<bool> {
        while !stands && let Some((index, _)) = self.table {
            let Some(previous) = index.checked_sub(1) else {
                self.table = None;
                break;
            };
            stands = self.enter(previous)? && self.in_table(|cursor| cursor.seek_back(None))?;
        }
        Ok(stands)
    }

    /// Moves the cursor of the current table by `act`.
    #[inline]
    fn in_table(&mut self, act: impl FnOnce(&mut KeysCursor) -> Result<bool>) -> Result<bool> {
        match &mut self.table {
            Some((_, cursor)) => act(cursor),
            None => Ok(false),
        }
    }
}

impl Cursor for RunCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let index = self.run.first_not_before(key);
        let stands = self.enter(index)? && self.in_table(|cursor| cursor.seek(key))?;
        self.skip_forward(stands)
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        let tables = self.run.tables();
        let below = |start: &[u8]| bound.is_none_or(|bound| start < bound);
        let count = tables.partition_point(|table| below(table.span().start()));
        let Some(index) = count.checked_sub(1) else {
            self.table = None;
            return Ok(false);
        };
        let stands = self.enter(index)? && self.in_table(|cursor| cursor.seek_back(bound))?;
        self.skip_back(stands)
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        let stands = self.in_table(|cursor| cursor.next())?;
        if stands { Ok(true) } else { self.skip_forward(false) }
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        let stands = self.in_table(|cursor| cursor.prev())?;
        if stands { Ok(true) } else { self.skip_back(false) }
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.table.as_ref().and_then(|(_, cursor)| cursor.entry())
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        match &mut self.table {
            Some((_, cursor)) => cursor.older(seqno),
            None => Ok(None),
        }
    }
}

impl std::fmt::Debug for RunCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunCursor over {} tables", self.run.tables().len())
    }
}
