use std::fmt;
use std::sync::Arc;

use terrace_base::{EntryRef, SeqNo};

use super::hints::SeekTrail;
use super::reader::{LoadedEntry, RowReader};
use super::search::Bound;
use crate::Result;
use crate::explain::note;
use crate::iter::{Approach, Cursor, Direction};

/// Number of versions of one key after which a cursor stops walking and searches.
const WALK_VERSIONS_MAX: usize = 8;

/// A [`Cursor`] over one row; see [`RowReader::cursor`].
///
/// Places are indexes, so a step is the next element and its entry: no search, and no copy unless
/// the entry lies in several pages. Over many versions of one key a search, not a walk. It keeps
/// the page that it stands on. One thread at a time.
pub struct RowCursor {
    row: Arc<RowReader>,
    read_point: SeqNo,
    trail: Option<Arc<SeekTrail>>,
    loaded: LoadedEntry,
    /// Whether the cursor stands on the loaded entry.
    stands: bool,
    /// What it has yet to arrive at: this element or one behind it, or one before it.
    approached: Option<(usize, Direction)>,
    /// Where [`Cursor::older`] found its last answer, if it has one.
    older: LoadedEntry,
    has_older: bool,
}

impl RowCursor {
    pub(super) fn new(
        row: Arc<RowReader>,
        read_point: SeqNo,
        trail: Option<Arc<SeekTrail>>,
    ) -> RowCursor {
        RowCursor {
            row,
            read_point,
            trail,
            loaded: LoadedEntry::default(),
            stands: false,
            approached: None,
            older: LoadedEntry::default(),
            has_older: false,
        }
    }

    /// Takes the cursor off its place.
    fn lift(&mut self) {
        self.stands = false;
        self.approached = None;
        self.has_older = false;
    }

    /// The row's first element at or above `key`; uses and leaves a trail, if there is one.
    fn lower_bound(&self, key: &[u8]) -> Result<usize> {
        let Some(trail) = &self.trail else { return self.row.lower_bound(key) };
        let within = trail.within(key, self.row.uid(), self.row.len());
        let index = self.row.lower_bound_within(key, within)?;
        trail.note(key, &*self.row, index);
        Ok(index)
    }

    /// From `index` goes on to the first entry that is not too new, and stands there. Before it
    /// lies no visible version of its key.
    fn settle_forward(&mut self, mut index: usize) -> Result<()> {
        let mut versions = 0;
        while index < self.row.len() {
            if let Err(gone) = self.row.load(index, &mut self.loaded)? {
                index = self.row.after_gone(gone);
                continue;
            }
            if self.loaded.entry.seqno <= self.read_point {
                self.stands = true;
                return Ok(());
            }
            note(|notes| notes.versions(1));
            versions = if self.loaded.entry.same_key { versions + 1 } else { 0 };
            index += 1;
            if versions >= WALK_VERSIONS_MAX {
                let bound = Bound::AtOrBelow(self.read_point);
                index = self.row.search(self.loaded.key(), bound, index..self.row.len())?;
                versions = 0;
            }
        }
        Ok(())
    }

    /// Goes to the last key below the element `end` that has a visible version, and stands on the
    /// newest of these. No key goes on across `end`.
    fn settle_back(&mut self, mut end: usize) -> Result<()> {
        while let Some(mut index) = end.checked_sub(1) {
            if let Err(gone) = self.row.load(index, &mut self.loaded)? {
                end = self.row.before_gone(gone);
                continue;
            }
            if self.loaded.entry.seqno > self.read_point {
                // Even the oldest version is too new.
                end = self.key_start()?;
                continue;
            }
            let mut versions = 0;
            while self.loaded.entry.same_key {
                if versions == WALK_VERSIONS_MAX {
                    let bound = Bound::AtOrBelow(self.read_point);
                    index = self.row.search(self.loaded.key(), bound, 0..index)?;
                    break;
                }
                let Some(newer) = index.checked_sub(1) else {
                    return Err(self.row.out_of_order(index));
                };
                if self.row.load(newer, &mut self.loaded)?.is_err()
                    || self.loaded.entry.seqno > self.read_point
                {
                    break;
                }
                index = newer;
                versions += 1;
                note(|notes| notes.versions(1));
            }
            let is_there =
                self.loaded.index == index || self.row.load(index, &mut self.loaded)?.is_ok();
            if is_there {
                self.stands = true;
                return Ok(());
            }
            // Given up between two looks at it, so nobody wants it.
            end = index;
        }
        Ok(())
    }

    /// The first element of the key whose entry is loaded.
    fn key_start(&mut self) -> Result<usize> {
        let mut index = self.loaded.index;
        let mut versions = 0;
        while self.loaded.entry.same_key {
            if versions == WALK_VERSIONS_MAX {
                return self.row.search(self.loaded.key(), Bound::Key, 0..index);
            }
            let Some(newer) = index.checked_sub(1) else {
                return Err(self.row.out_of_order(index));
            };
            if self.row.load(newer, &mut self.loaded)?.is_err() {
                break;
            }
            index = newer;
            versions += 1;
        }
        Ok(index)
    }

    /// Goes to the next key, whatever lies between.
    fn next_key(&mut self) -> Result<()> {
        let mut index = self.loaded.index + 1;
        let mut versions = 0;
        while index < self.row.len() {
            if let Err(gone) = self.row.load(index, &mut self.loaded)? {
                index = self.row.after_gone(gone);
                break;
            }
            if !self.loaded.entry.same_key {
                if self.loaded.entry.seqno <= self.read_point {
                    self.stands = true;
                    return Ok(());
                }
                break;
            }
            index += 1;
            versions += 1;
            note(|notes| notes.versions(1));
            if versions == WALK_VERSIONS_MAX {
                let within = index..self.row.len();
                index = self.row.search(self.loaded.key(), Bound::PastKey, within)?;
                break;
            }
        }
        self.settle_forward(index)
    }
}

impl Cursor for RowCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.approach(key)?;
        self.arrive()
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        self.approach_back(bound)?;
        self.arrive()
    }

    /// Touches no page of data, unless elements tie with the key.
    fn approach(&mut self, key: &[u8]) -> Result<Approach> {
        self.lift();
        let index = self.lower_bound(key)?;
        if index == self.row.len() {
            return Ok(Approach::Nowhere);
        }
        self.approached = Some((index, Direction::Forward));
        Ok(self.row.approach(index, Direction::Forward))
    }

    /// As [`RowCursor::approach`].
    fn approach_back(&mut self, bound: Option<&[u8]>) -> Result<Approach> {
        self.lift();
        let end = match bound {
            Some(bound) => self.lower_bound(bound)?,
            None => self.row.len(),
        };
        let Some(last) = end.checked_sub(1) else { return Ok(Approach::Nowhere) };
        self.approached = Some((end, Direction::Backward));
        Ok(self.row.approach(last, Direction::Backward))
    }

    fn arrive(&mut self) -> Result<bool> {
        match self.approached.take() {
            Some((index, Direction::Forward)) => self.settle_forward(index)?,
            Some((end, Direction::Backward)) => self.settle_back(end)?,
            None => {}
        }
        Ok(self.stands)
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        assert!(self.stands, "the cursor stands on a key");
        self.lift();
        self.next_key()?;
        Ok(self.stands)
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        assert!(self.stands, "the cursor stands on a key");
        self.lift();
        let start = self.key_start()?;
        self.settle_back(start)?;
        Ok(self.stands)
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.stands.then(|| self.loaded.entry.entry(self.loaded.bytes()))
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        if !self.stands {
            return Ok(None);
        }
        let Some(below) = seqno.0.checked_sub(1) else { return Ok(None) };
        let end = self.row.len();
        // A chain of operands is asked for step by step: most often the answer comes right after
        // the last one.
        let last = self.has_older && self.older.entry.seqno >= seqno;
        let from = if last { self.older.index } else { self.loaded.index };
        self.has_older = false;
        let bound = Bound::AtOrBelow(SeqNo(below));
        let mut index = from + 1;
        let walk_end = if last || self.loaded.entry.seqno >= seqno {
            index + WALK_VERSIONS_MAX
        } else {
            // It is this entry, or one before.
            index = self.row.search(self.loaded.key(), bound, 0..from)?;
            index
        };
        loop {
            if index >= end || self.row.load(index, &mut self.older)?.is_err() {
                return Ok(None);
            }
            if self.older.entry.seqno <= SeqNo(below) {
                break;
            }
            index += 1;
            if !self.older.entry.same_key {
                return Ok(None);
            }
            if index >= walk_end {
                index = self.row.search(self.loaded.key(), bound, index..end)?;
                if index >= end || self.row.load(index, &mut self.older)?.is_err() {
                    return Ok(None);
                }
                break;
            }
        }
        if self.older.key() != self.loaded.key() {
            return Ok(None);
        }
        self.has_older = true;
        Ok(Some(self.older.entry.entry(self.older.bytes())))
    }
}

impl fmt::Debug for RowCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCursor").field("entry", &self.entry()).finish_non_exhaustive()
    }
}
