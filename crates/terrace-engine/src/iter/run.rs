use terrace_base::{EntryRef, SeqNo};

use super::Cursor;
use crate::Result;
use crate::table::ReadMode;
use crate::version::Run;

/// The keys of a run: its tables one after the other, each opened when it is reached.
pub struct RunCursor {
    run: Run,
    read_point: SeqNo,
    mode: ReadMode,
    /// The table that the cursor stands in.
    table: Option<(usize, Box<dyn Cursor + Send>)>,
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
        self.table = Some((index, table.cursor(self.read_point, self.mode)?));
        Ok(true)
    }

    fn stands(&self) -> bool {
        self.table.as_ref().is_some_and(|(_, cursor)| cursor.entry().is_some())
    }

    /// Goes on to the first key of a later table while the current one shows nothing.
    fn skip_forward(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.table {
            if cursor.entry().is_some() {
                break;
            }
            let next = index + 1;
            if self.enter(next)?
                && let Some((_, cursor)) = &mut self.table
            {
                cursor.seek(b"")?;
            }
        }
        Ok(())
    }

    fn skip_back(&mut self) -> Result<()> {
        while let Some((index, cursor)) = &self.table {
            if cursor.entry().is_some() {
                break;
            }
            let Some(previous) = index.checked_sub(1) else {
                self.table = None;
                break;
            };
            if self.enter(previous)?
                && let Some((_, cursor)) = &mut self.table
            {
                cursor.seek_back(None)?;
            }
        }
        Ok(())
    }
}

impl Cursor for RunCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let index = self.run.first_not_before(key);
        if self.enter(index)?
            && let Some((_, cursor)) = &mut self.table
        {
            cursor.seek(key)?;
        }
        self.skip_forward()
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let tables = self.run.tables();
        let below = |start: &[u8]| bound.is_none_or(|bound| start < bound);
        let count = tables.partition_point(|table| below(table.span().start()));
        let Some(index) = count.checked_sub(1) else {
            self.table = None;
            return Ok(());
        };
        if self.enter(index)?
            && let Some((_, cursor)) = &mut self.table
        {
            cursor.seek_back(bound)?;
        }
        self.skip_back()
    }

    fn next(&mut self) -> Result<()> {
        if let Some((_, cursor)) = self.table.as_mut().filter(|(_, c)| c.entry().is_some()) {
            cursor.next()?;
        }
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        if let Some((_, cursor)) = self.table.as_mut().filter(|(_, c)| c.entry().is_some()) {
            cursor.prev()?;
        }
        self.skip_back()
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        self.table.as_ref().and_then(|(_, cursor)| cursor.entry())
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        if !self.stands() {
            return Ok(None);
        }
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
