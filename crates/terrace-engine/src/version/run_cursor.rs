use terrace_base::{EntryRef, KeyRange, SeqNo};

use super::KeysCursor;
use super::Run;
use crate::Result;
use crate::iter::{Approach, Cursor, Direction};
use crate::l0::RowTables;
use crate::table::{ReadMode, TableCursor};

/// Sorted and disjoint tables that a [`RunCursor`] goes through.
#[derive(Clone, Debug)]
pub enum RunTables {
    /// Those of a level.
    Level(Run),
    /// Those of a row of L0, as far as they count.
    Row(RowTables),
}

impl RunTables {
    fn len(&self) -> usize {
        match self {
            RunTables::Level(run) => run.tables().len(),
            RunTables::Row(row) => row.tables().len(),
        }
    }

    /// How many tables come before the first whose interval is not `passed`.
    fn count_passed(&self, passed: impl Fn(&KeyRange) -> bool) -> usize {
        match self {
            RunTables::Level(run) => run.tables().partition_point(|table| passed(table.span())),
            RunTables::Row(row) => row.tables().partition_point(|one| passed(one.table.span())),
        }
    }

    /// Index of the first table that does not end at or before `key`.
    fn first_not_before(&self, key: &[u8]) -> usize {
        match self {
            RunTables::Level(run) => run.first_not_before(key),
            RunTables::Row(_) => self.count_passed(|span| span.is_before(key)),
        }
    }

    /// The interval of the table at `index`, if there is one.
    fn span(&self, index: usize) -> Option<&KeyRange> {
        match self {
            RunTables::Level(run) => run.tables().get(index).map(|table| table.span()),
            RunTables::Row(row) => row.tables().get(index).map(|live| live.table.span()),
        }
    }

    /// How many tables begin below `bound`.
    fn count_below(&self, bound: Option<&[u8]>) -> usize {
        self.count_passed(|span| bound.is_none_or(|bound| span.start() < bound))
    }

    /// A cursor over the table at `index`, if there is one.
    fn cursor(
        &self,
        index: usize,
        read_point: SeqNo,
        mode: ReadMode,
    ) -> Result<Option<KeysCursor>> {
        let cursor = match self {
            RunTables::Level(run) => {
                run.tables().get(index).map(|table| table.keys_cursor(read_point, mode))
            }
            RunTables::Row(row) => {
                row.tables().get(index).map(|live| live.cursor(read_point, mode))
            }
        };
        cursor.transpose()
    }
}

/// The keys of a run: its tables one after the other, each opened when it is reached.
pub struct RunCursor {
    tables: RunTables,
    read_point: SeqNo,
    mode: ReadMode,
    /// The table that the cursor stands in.
    table: Option<(usize, KeysCursor)>,
    /// What it has yet to do to arrive.
    put_off: Option<PutOff>,
}

/// How a cursor that is near its key arrives.
#[derive(Clone, Copy, Debug)]
enum PutOff {
    /// As that of its table does, and on from there.
    InTable(Direction),
    /// At the first key of the table at this index, or at the last one, or beyond it.
    Table(usize, Direction),
}

impl RunCursor {
    /// A cursor over these tables.
    #[must_use]
    pub fn new(tables: RunTables, read_point: SeqNo, mode: ReadMode) -> RunCursor {
        RunCursor { tables, read_point, mode, table: None, put_off: None }
    }

    /// Enters the table at `index`; `false` if there is none.
    fn enter(&mut self, index: usize) -> Result<bool> {
        if self.table.as_ref().is_some_and(|(current, _)| *current == index) {
            return Ok(true);
        }
        self.table = None;
        let cursor = self.tables.cursor(index, self.read_point, self.mode)?;
        self.table = cursor.map(|cursor| (index, cursor));
        Ok(self.table.is_some())
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

    /// The cursor over the current table, as [`KeysCursor::in_blocks`].
    #[inline]
    pub(crate) fn in_blocks(&mut self) -> Option<&mut TableCursor> {
        self.table.as_mut().and_then(|(_, cursor)| cursor.in_blocks())
    }

    /// Moves the cursor of the current table by `act`.
    #[inline]
    fn in_table(&mut self, act: impl FnOnce(&mut KeysCursor) -> Result<bool>) -> Result<bool> {
        match &mut self.table {
            Some((_, cursor)) => act(cursor),
            None => Ok(false),
        }
    }

    /// Puts it off to enter the table at `index`, if there is one: all of it lies beyond what is
    /// sought.
    fn put_off_to(&mut self, index: Option<usize>, direction: Direction) -> Approach {
        let table = index.and_then(|index| self.tables.span(index).map(|span| (index, span)));
        let Some((index, span)) = table else { return Approach::Nowhere };
        self.put_off = Some(PutOff::Table(index, direction));
        let nearest = match direction {
            Direction::Forward => span.start(),
            // The keys lie below it, so none has first bytes above its own.
            Direction::Backward => span.end().unwrap_or(&[u8::MAX; 32]),
        };
        Approach::near([nearest, &[]], direction)
    }

    /// Goes near a key in the table at `index`, or in the one beyond it.
    fn approach_in(
        &mut self,
        index: usize,
        direction: Direction,
        approach: impl FnOnce(&mut KeysCursor) -> Result<Approach>,
    ) -> Result<Approach> {
        self.enter(index)?;
        let Some((_, cursor)) = &mut self.table else { return Ok(Approach::Nowhere) };
        let approach = approach(cursor)?;
        match approach {
            Approach::Stands => {}
            Approach::Near(_) => self.put_off = Some(PutOff::InTable(direction)),
            Approach::Nowhere => {
                let beyond = match direction {
                    Direction::Forward => Some(index + 1),
                    Direction::Backward => index.checked_sub(1),
                };
                return Ok(self.put_off_to(beyond, direction));
            }
        }
        Ok(approach)
    }

    /// Stands in no table, and has nothing to arrive at.
    fn leave(&mut self) {
        self.table = None;
        self.put_off = None;
    }
}

impl Cursor for RunCursor {
    fn approach(&mut self, key: &[u8]) -> Result<Approach> {
        self.put_off = None;
        let index = self.tables.first_not_before(key);
        if self.tables.span(index).is_some_and(|span| span.start() <= key) {
            return self.approach_in(index, Direction::Forward, |cursor| cursor.approach(key));
        }
        self.leave();
        Ok(self.put_off_to(Some(index), Direction::Forward))
    }

    fn approach_back(&mut self, bound: Option<&[u8]>) -> Result<Approach> {
        self.put_off = None;
        let index = self.tables.count_below(bound).checked_sub(1);
        let is_beyond = |span: &KeyRange| bound.is_some_and(|bound| span.is_before(bound));
        match index {
            Some(index) if !self.tables.span(index).is_none_or(is_beyond) => {
                let approach = |cursor: &mut KeysCursor| cursor.approach_back(bound);
                self.approach_in(index, Direction::Backward, approach)
            }
            _ => {
                self.leave();
                Ok(self.put_off_to(index, Direction::Backward))
            }
        }
    }

    fn arrive(&mut self) -> Result<bool> {
        let Some(put_off) = self.put_off.take() else { return Ok(self.entry().is_some()) };
        let (stands, direction) = match put_off {
            PutOff::InTable(direction) => (self.in_table(KeysCursor::arrive)?, direction),
            PutOff::Table(index, direction) => {
                let stands = self.enter(index)?
                    && self.in_table(|cursor| match direction {
                        Direction::Forward => cursor.seek(b""),
                        Direction::Backward => cursor.seek_back(None),
                    })?;
                (stands, direction)
            }
        };
        match direction {
            Direction::Forward => self.skip_forward(stands),
            Direction::Backward => self.skip_back(stands),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.put_off = None;
        let index = self.tables.first_not_before(key);
        let stands = self.enter(index)? && self.in_table(|cursor| cursor.seek(key))?;
        self.skip_forward(stands)
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        self.put_off = None;
        let Some(index) = self.tables.count_below(bound).checked_sub(1) else {
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

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.table.as_ref().and_then(|(_, cursor)| cursor.key())
    }

    #[inline]
    fn version(&self) -> Option<(&[u8], SeqNo)> {
        self.table.as_ref().and_then(|(_, cursor)| cursor.version())
    }

    #[inline]
    fn plain_key(&self) -> Option<&[u8]> {
        self.table.as_ref().and_then(|(_, cursor)| cursor.plain_key())
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        match &mut self.table {
            Some((_, cursor)) => cursor.older(seqno),
            None => Ok(None),
        }
    }

    fn renew(&mut self, read_point: SeqNo) -> bool {
        self.read_point = read_point;
        self.put_off = None;
        // A table that cannot be used again is opened again when it is reached.
        self.table.take_if(|(_, cursor)| !cursor.renew(read_point));
        true
    }
}

impl std::fmt::Debug for RunCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RunCursor over {} tables", self.tables.len())
    }
}
