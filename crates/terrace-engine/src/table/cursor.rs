use std::fmt;
use std::sync::Arc;

use terrace_base::{CodecError, EntryKind, EntryRef, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::block_place::BlockPlace;
use super::block_walk::BlockWalk;
use super::format::block::{BlockEntry, BlockView, KeyBuffer};
use super::placed::ReadFor;
use super::reader::{ReadMode, TableReader, entry_ref};
use crate::explain::note;
use crate::iter::{Approach, Cursor, Direction};
use crate::{Error, Result};

/// Number of versions of one key after which a cursor stops walking and searches.
const WALK_VERSIONS_MAX: usize = 8;

/// A [`Cursor`] over one table; see [`TableReader::cursor`].
///
/// Cost of a step: some hundred instructions while it stays in its block, a cache lookup when it
/// leaves it; over many versions of one key a search, not a walk. No allocation: keys are
/// assembled in a buffer of the cursor, values lie in the pinned block. One thread at a time.
pub struct TableCursor {
    reader: Arc<TableReader>,
    read_point: SeqNo,
    mode: ReadMode,
    /// Where the cursor stands, if it does.
    place: Option<BlockPlace>,
    /// The key there.
    key: KeyBuffer,
    /// Where [`Cursor::older`] found its last answer. Apart, since few cursors are asked.
    older: Option<Box<BlockPlace>>,
    /// Of an ingested table: the number of every entry.
    number: Option<SeqNo>,
    /// Up to where the store was asked to have bytes ready.
    ahead: u64,
    /// The key of this table that the cursor has yet to arrive at, and on which way. Apart, since
    /// few cursors have any.
    approached: Option<Box<(Vec<u8>, Direction)>>,
}

impl TableCursor {
    pub(super) fn new(reader: Arc<TableReader>, read_point: SeqNo, mode: ReadMode) -> TableCursor {
        TableCursor {
            number: reader.number,
            reader,
            read_point,
            mode,
            place: None,
            key: KeyBuffer::default(),
            older: None,
            ahead: 0,
            approached: None,
        }
    }

    /// Takes the cursor off its place: whoever has it puts it back, unless there was an error.
    fn lift(&mut self) -> Option<BlockPlace> {
        self.older = None;
        self.approached = None;
        self.place.take()
    }

    /// From an entry that may be too new, goes on to the first that is not, which is the newest
    /// visible one of its key, and stands there.
    #[inline]
    fn settle_forward(&mut self, mut place: BlockPlace) -> Result<()> {
        let mut versions = 0;
        while place.entry.seqno > self.read_point {
            if versions >= WALK_VERSIONS_MAX {
                place.key_to(&mut self.key);
                let sought =
                    BlockPlace::seek(&self.reader, self.mode, self.key.key(), self.read_point)?;
                let Some(sought) = sought else { return Ok(()) };
                if sought.position() <= place.position() {
                    return Err(place.out_of_order(&self.reader));
                }
                place = sought;
                versions = 0;
                continue;
            }
            if !place.step_forward(&self.reader, self.mode)? {
                return Ok(());
            }
            note(|notes| notes.versions(1));
            versions = if place.entry.same_key { versions + 1 } else { 0 };
        }
        if self.mode.ahead_bytes > 0 {
            self.look_ahead(&place);
        }
        self.stand(place);
        Ok(())
    }

    /// Asks for the next blocks when half of those that were asked for lie behind the cursor, or it
    /// has gone somewhere else.
    #[cold]
    fn look_ahead(&mut self, place: &BlockPlace) {
        let next = place.block_index + 1;
        if next >= self.reader.index.block_count() {
            return;
        }
        let (offset, bytes) = (self.reader.index.offset(next), u64::from(self.mode.ahead_bytes));
        if offset + bytes / 2 >= self.ahead || offset + bytes < self.ahead {
            self.ahead = self.reader.prefetch(next, self.mode);
        }
    }

    /// From the oldest version of a key, goes back to the newest visible one of the first key that
    /// has one, and stands there.
    fn settle_back(&mut self, mut place: BlockPlace) -> Result<()> {
        while place.entry.seqno > self.read_point {
            // Even the oldest version is too new.
            match self.leave_key_back(place)? {
                Some(before) => place = before,
                None => return Ok(()),
            }
        }
        let mut versions = 0;
        while place.entry.same_key {
            if versions == WALK_VERSIONS_MAX {
                place.key_to(&mut self.key);
                let sought =
                    BlockPlace::seek(&self.reader, self.mode, self.key.key(), self.read_point)?;
                match sought.filter(|sought| sought.position() <= place.position()) {
                    Some(sought) => place = sought,
                    None => return Err(place.out_of_order(&self.reader)),
                }
                break;
            }
            let mut newer = place.clone();
            if !newer.step_back(&self.reader, self.mode)? {
                return Err(place.out_of_order(&self.reader));
            }
            if newer.entry.seqno > self.read_point {
                break;
            }
            place = newer;
            versions += 1;
            note(|notes| notes.versions(1));
        }
        self.stand(place);
        Ok(())
    }

    /// From any version of a key, goes to the oldest version of the key before it.
    fn leave_key_back(&mut self, mut place: BlockPlace) -> Result<Option<BlockPlace>> {
        let mut versions = 0;
        while place.entry.same_key {
            if versions == WALK_VERSIONS_MAX {
                place.key_to(&mut self.key);
                let sought = BlockPlace::seek(&self.reader, self.mode, self.key.key(), SeqNo::MAX)?;
                match sought.filter(|sought| sought.position() < place.position()) {
                    Some(sought) => place = sought,
                    None => return Err(place.out_of_order(&self.reader)),
                }
                break;
            }
            if !place.step_back(&self.reader, self.mode)? {
                return Err(place.out_of_order(&self.reader));
            }
            versions += 1;
        }
        Ok(place.step_back(&self.reader, self.mode)?.then_some(place))
    }

    #[inline]
    fn stand(&mut self, place: BlockPlace) {
        place.key_to(&mut self.key);
        self.place = Some(place);
    }

    /// The usual step forward: to the next entry of the same block, or to the first of the next
    /// one, if that is the only version of its key that matters. `false` if it is not so simple;
    /// then nothing has moved.
    #[inline]
    fn step_over_one(&mut self) -> Result<bool> {
        let Some(place) = &mut self.place else { return Ok(false) };
        let to = place.entry_index + 1;
        if to >= place.layout.count() {
            return self.step_over_end();
        }
        let decoded = place.layout.view(&place.block).walk_after(&place.entry, to);
        match decoded {
            Ok(entry) if !entry.same_key && entry.seqno <= self.read_point => {
                place.entry = entry;
                place.entry_index = to;
                place.layout.view(&place.block).next_key_to(to, &place.entry, &mut self.key);
                if self.older.is_some() {
                    self.older = None;
                }
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(error) => Err(self.lose(&error)),
        }
    }

    /// The usual step over the end of a block, as [`TableCursor::step_over_one`].
    #[inline(never)]
    fn step_over_end(&mut self) -> Result<bool> {
        let Some(place) = &mut self.place else { return Ok(false) };
        let next = place.block_index + 1;
        if self.mode.ahead_bytes > 0 || next >= self.reader.index.block_count() {
            return Ok(false);
        }
        let block = match self.reader.block(next, self.mode, ReadFor::Walk) {
            Ok(block) => block,
            Err(error) => {
                self.lift();
                return Err(error);
            }
        };
        let parsed = BlockView::parse(&block).and_then(|view| Ok((view.layout(), view.entry(0)?)));
        let (layout, entry) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                self.lift();
                return Err(self.reader.damaged_block(next, &error));
            }
        };
        if entry.same_key || entry.seqno > self.read_point {
            return Ok(false);
        }
        *place = BlockPlace { block_index: next, block, layout, entry_index: 0, entry };
        place.key_to(&mut self.key);
        self.older = None;
        Ok(true)
    }

    /// Whether blocks may be walked without the cursor: it has nothing to do meanwhile.
    #[inline]
    pub(crate) fn may_lend(&self) -> bool {
        self.older.is_none() && self.mode.ahead_bytes == 0
    }

    /// Gives out the rest of its block, as far as all keys are below all of `bounds`, to be walked
    /// without the cursor, if [it may](TableCursor::may_lend). Until it
    /// [has it back](TableCursor::take_back) the cursor stands nowhere. `None` if what is left is
    /// too little.
    pub(crate) fn lend(&mut self, bounds: [Option<&[u8]>; 2]) -> Option<BlockWalk> {
        let end = self.place.as_ref()?.walk_end(bounds)?;
        let (place, key) = (self.place.take()?, std::mem::take(&mut self.key));
        Some(BlockWalk { place, key, end, read_point: self.read_point, number: self.number })
    }

    /// Stands where the walk has come to that was lent.
    pub(crate) fn take_back(&mut self, walk: BlockWalk) {
        self.key = walk.key;
        self.place = Some(walk.place);
    }

    /// The usual step back: to the entry before in the same block, as
    /// [`TableCursor::step_over_one`].
    #[inline]
    fn step_back_in_block(&mut self) -> Result<bool> {
        let Some(place) = &mut self.place else { return Ok(false) };
        // A version of the same key that lies before this one is too new to be stood on.
        let Some(to) = place.entry_index.checked_sub(1) else { return Ok(false) };
        match place.view().entry(to) {
            Ok(entry) if !entry.same_key && entry.seqno <= self.read_point => {
                place.entry = entry;
                place.entry_index = to;
                place.layout.view(&place.block).next_key_to(to, &place.entry, &mut self.key);
                self.older = None;
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(error) => Err(self.lose(&error)),
        }
    }

    #[cold]
    fn approach_far(&mut self, sought: Option<&[u8]>, direction: Direction) -> Result<Approach> {
        let Some(nearest) = self.reader.nearest_key(sought, direction) else {
            return match direction {
                Direction::Forward => self.seek(sought.unwrap_or_default()),
                Direction::Backward => self.seek_back(sought),
            }
            .map(Approach::done);
        };
        self.lift();
        let Some(mut nearest) = nearest else { return Ok(Approach::Nowhere) };
        if direction == Direction::Forward && is_planted(PlantedBug::FarKeySkipped) {
            nearest.push(0);
        }
        let near = Approach::near([&nearest, &[]], direction);
        self.approached = Some(Box::new((nearest, direction)));
        Ok(near)
    }

    /// The error for an entry of the cursor's block that does not decode; the cursor stands nowhere
    /// then.
    #[cold]
    fn lose(&mut self, error: &CodecError) -> Error {
        match self.lift() {
            Some(place) => self.reader.damaged_block(place.block_index, error),
            None => self.reader.damaged_block(0, error),
        }
    }

    /// Goes to the next key, whatever lies between.
    fn next_key(&mut self) -> Result<()> {
        let mut place = self.lift().expect("the cursor stands on a key");
        let mut versions = 0;
        loop {
            if versions == WALK_VERSIONS_MAX {
                // The last place within the key: what follows it is the next key.
                let sought =
                    BlockPlace::seek(&self.reader, self.mode, self.key.key(), SeqNo::ZERO)?;
                let Some(sought) = sought else { return Ok(()) };
                if sought.position() < place.position() {
                    return Err(place.out_of_order(&self.reader));
                }
                place = sought;
                if place.entry.same_key {
                    // A version with the very number zero.
                    if !place.step_forward(&self.reader, self.mode)? {
                        return Ok(());
                    }
                    if place.entry.same_key {
                        return Err(place.out_of_order(&self.reader));
                    }
                }
                break;
            }
            if !place.step_forward(&self.reader, self.mode)? {
                return Ok(());
            }
            if !place.entry.same_key {
                break;
            }
            versions += 1;
            note(|notes| notes.versions(1));
        }
        self.settle_forward(place)
    }
}

impl Cursor for TableCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.lift();
        if self.reader.is_hidden_at(self.read_point) {
            return Ok(false);
        }
        if let Some(place) = BlockPlace::seek(&self.reader, self.mode, key, self.read_point)? {
            self.settle_forward(place)?;
        }
        Ok(self.place.is_some())
    }

    /// A block of a far table costs a request. Where the table knows its keys, it is put off until
    /// somebody wants to see the next one of them.
    #[inline]
    fn approach(&mut self, key: &[u8]) -> Result<Approach> {
        if self.reader.is_far() {
            return self.approach_far(Some(key), Direction::Forward);
        }
        self.seek(key).map(Approach::done)
    }

    #[inline]
    fn approach_back(&mut self, bound: Option<&[u8]>) -> Result<Approach> {
        if self.reader.is_far() {
            return self.approach_far(bound, Direction::Backward);
        }
        self.seek_back(bound).map(Approach::done)
    }

    fn arrive(&mut self) -> Result<bool> {
        let Some(approached) = self.approached.take() else { return Ok(self.place.is_some()) };
        let (mut key, direction) = *approached;
        match direction {
            Direction::Forward => self.seek(&key),
            Direction::Backward => {
                // The bound that lies right behind the key.
                key.push(0);
                self.seek_back(Some(&key))
            }
        }
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        self.lift();
        if self.reader.is_hidden_at(self.read_point) {
            return Ok(false);
        }
        let sought = match bound {
            Some(bound) => BlockPlace::seek(&self.reader, self.mode, bound, SeqNo::MAX)?,
            None => None,
        };
        let before = match sought {
            Some(mut place) => place.step_back(&self.reader, self.mode)?.then_some(place),
            None => {
                BlockPlace::last_before(&self.reader, self.mode, self.reader.index.block_count())?
            }
        };
        if let Some(place) = before {
            self.settle_back(place)?;
        }
        Ok(self.place.is_some())
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        if !self.step_over_one()? {
            self.next_key()?;
        }
        Ok(self.place.is_some())
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        if !self.step_back_in_block()? {
            let place = self.lift().expect("the cursor stands on a key");
            if let Some(place) = self.leave_key_back(place)? {
                self.settle_back(place)?;
            }
        }
        Ok(self.place.is_some())
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        let place = self.place.as_ref()?;
        let found = entry_ref(self.key.key(), &place.entry, &place.block);
        Some(EntryRef { seqno: self.number.unwrap_or(found.seqno), ..found })
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.place.is_some().then(|| self.key.key())
    }

    #[inline]
    fn version(&self) -> Option<(&[u8], SeqNo)> {
        let seqno = self.place.as_ref()?.entry.seqno;
        Some((self.key.key(), self.number.unwrap_or(seqno)))
    }

    #[inline]
    fn plain_key(&self) -> Option<&[u8]> {
        let BlockEntry { kind, expiry, .. } = self.place.as_ref()?.entry;
        (kind == EntryKind::Value && expiry.is_none()).then(|| self.key.key())
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        let Some(place) = &self.place else { return Ok(None) };
        if let Some(number) = self.number {
            // An ingested table has one version of a key.
            let is_older = number < seqno;
            return Ok(if is_older { self.entry() } else { None });
        }
        let Some(below) = seqno.0.checked_sub(1) else { return Ok(None) };
        // A chain of operands is asked for step by step: most often the answer comes right after
        // the last one.
        let last = self.older.take().filter(|older| older.entry.seqno >= seqno);
        let mut found = last.unwrap_or_else(|| Box::new(place.clone()));
        let mut versions = 0;
        let is_ahead = found.entry.seqno >= seqno;
        while is_ahead && found.entry.seqno >= seqno && versions < WALK_VERSIONS_MAX {
            if !found.step_forward(&self.reader, self.mode)? || !found.entry.same_key {
                return Ok(None);
            }
            versions += 1;
        }
        if !is_ahead || found.entry.seqno >= seqno {
            match BlockPlace::seek(&self.reader, self.mode, self.key.key(), SeqNo(below))? {
                Some(sought) => *found = sought,
                None => return Ok(None),
            }
            let mut key = KeyBuffer::default();
            found.key_to(&mut key);
            if key.key() != self.key.key() {
                return Ok(None);
            }
        }
        let found = self.older.insert(found);
        Ok(Some(entry_ref(self.key.key(), &found.entry, &found.block)))
    }

    fn renew(&mut self, read_point: SeqNo) -> bool {
        self.lift();
        self.ahead = 0;
        self.read_point = read_point;
        true
    }
}

impl fmt::Debug for TableCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableCursor").field("entry", &self.entry()).finish_non_exhaustive()
    }
}
