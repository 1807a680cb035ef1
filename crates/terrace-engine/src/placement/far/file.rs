use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_env::{Latch, ObjectName, SharedEnv};

use super::ahead::{Asked, PIECE_BYTES};
use super::around::{Around, KeptAs, piece_of};
use super::sequence::Sequences;
use super::tables::{FarName, Mounted};
use super::tails::AskedTail;
use crate::explain::{note, waits};
use crate::table::format::footer::Footer;
use crate::table::{ByteInterval, PlacedBlock, ReadTicket, TableFile};
use crate::{Error, Result};

/// To open a table costs a request for its footer, and more for what the footer names, which stands
/// before it. So the first of them asks for this share of the table: at most what filter and index
/// take of most.
const TAIL_DIVISOR: u64 = 32;
const TAIL_BYTES_MIN: u64 = 64 << 10;
const TAIL_BYTES_MAX: u64 = 1 << 20;

/// Pieces that are read ahead share so much with the one before, so that a block which that one has
/// only the beginning of is whole in one of them.
pub const OVERLAP_BYTES: u64 = 32 << 10;

/// A table in the store, open for reading.
#[derive(Debug)]
pub(super) struct FarFile {
    mounted: Arc<Mounted>,
    env: SharedEnv,
    name: FarName,
    object: ObjectName,
    /// The object's URL.
    path: PathBuf,
    /// The end of the table, from the read of its footer to the first read of something else.
    tail: Latch<Option<Arc<Piece>>>,
    /// Who reads on where an earlier read ended.
    sequences: Latch<Sequences>,
}

/// Bytes of a table that were read before they were asked for.
#[derive(Debug)]
pub(super) struct Piece {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

impl Piece {
    /// The bytes of an interval, if all of it is here.
    pub fn get(&self, interval: ByteInterval) -> Option<Vec<u8>> {
        self.slice(interval).map(<[u8]>::to_vec)
    }

    /// The same where they are.
    pub fn slice(&self, interval: ByteInterval) -> Option<&[u8]> {
        let start = usize::try_from(interval.offset.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(interval.bytes)?;
        self.bytes.get(start..end)
    }
}

impl FarFile {
    pub(super) fn new(mounted: Arc<Mounted>, env: SharedEnv, name: FarName) -> FarFile {
        let object = mounted.object(&name);
        let path = PathBuf::from(format!("{}/{object}", mounted.store.url()));
        let (tail, sequences) = (Latch::default(), Latch::default());
        FarFile { mounted, env, name, object, path, tail, sequences }
    }

    /// The end of the table, which holds the interval; fetched at once if the footer is read.
    fn read_tail(&self, interval: ByteInterval) -> Result<Option<Vec<u8>>> {
        let end = interval.offset + interval.bytes as u64;
        let known = self.tail.lock().clone();
        if let Some(bytes) = known.as_ref().and_then(|tail| tail.get(interval)) {
            return Ok(Some(bytes));
        }
        if end != self.name.bytes {
            *self.tail.lock() = None;
            return Ok(None);
        }
        let tail = Arc::new(self.fetch_tail(interval)?);
        let found = tail.get(interval);
        *self.tail.lock() = Some(tail);
        Ok(found)
    }

    /// The end of the table with all metadata, of which the footer is read: from the local disk, or
    /// else from the store, usually with one request.
    fn fetch_tail(&self, footer: ByteInterval) -> Result<Piece> {
        let (near, table) = (self.mounted.near.as_deref(), self.name.cached_as());
        if let Some(tail) = near.and_then(|near| near.meta.get(table)) {
            return Ok(Piece { offset: tail.offset, bytes: tail.bytes });
        }
        let end = self.name.bytes;
        let fetch = |offset: u64| {
            let got = self.mounted.store.get(&self.object, Some(offset..end));
            let bytes = got.map_err(|error| self.mounted.error_of_read(&self.path, error))?;
            Ok::<Piece, Error>(Piece { offset, bytes })
        };
        let mut tail = match self.asked_tail(footer) {
            Some(tail) => tail,
            None => fetch(footer.offset.min(tail_offset(end)))?,
        };
        // Who reads the footer will judge it.
        let Some(offset) = metadata_offset(&tail.bytes, end) else { return Ok(tail) };
        if offset < tail.offset {
            tail = fetch(offset)?;
        }
        if let Some(near) = near {
            near.meta.keep(table, offset, &tail.bytes[(offset - tail.offset) as usize..]);
        }
        Ok(tail)
    }

    /// The end of the table, if it was asked for before and has the footer. That this failed, at
    /// another time, says nothing of the table.
    fn asked_tail(&self, footer: ByteInterval) -> Option<Piece> {
        let AskedTail { offset, pending } = self.mounted.tails.take(&self.name)?;
        let bytes = pending.wait().ok()?;
        (offset <= footer.offset).then_some(Piece { offset, bytes })
    }

    /// The block at an interval, if the local disk has it, and nobody reads on here.
    fn read_near(&self, interval: ByteInterval, waits: bool) -> Option<Vec<u8>> {
        let near = self.mounted.near.as_ref()?;
        if self.mounted.ahead.holds(self.name.nonce, interval) {
            return None;
        }
        let began = self.env.now();
        let found = near.data.get(self.name.cached_as(), interval, waits)?;
        note(|notes| notes.near());
        waits::waited_for_file(found.len() as u64, began, self.env.now());
        Some(found)
    }

    /// The block at an interval, after all of the table was fetched, if that is to be kept.
    fn read_whole(&self, interval: ByteInterval) -> Option<Vec<u8>> {
        let near = self.mounted.near.as_ref()?;
        let (table, bytes) = (self.name.cached_as(), self.name.bytes);
        if !near.data.wants_whole(table, bytes) {
            return None;
        }
        let began = self.env.now();
        let whole = self.mounted.store.get(&self.object, Some(0..bytes)).ok();
        near.data.put_whole(table, whole.as_deref());
        let whole = Piece { offset: 0, bytes: whole? };
        waits::waited_for_file(whole.bytes.len() as u64, began, self.env.now());
        whole.get(interval)
    }

    /// Begins to read an interval that is not in the tail; what comes after it if somebody goes
    /// through the table, and what is around it if it is a block and there is room near.
    fn ask(&self, interval: ByteInterval, block: Option<&PlacedBlock<'_>>) -> Reading {
        let read = interval.offset..interval.offset + interval.bytes as u64;
        let is_walk = block.is_none_or(PlacedBlock::is_walked_to);
        if let Some(asked) = self.mounted.ahead.take(self.name.nonce, interval) {
            let goes_on = is_walk && self.sequences.lock().passes(&read);
            if let Asked::Pending { offset, .. } = &asked
                && goes_on
            {
                self.ask_behind(offset + PIECE_BYTES);
            }
            if let (true, false, Some(near)) = (block.is_some(), goes_on, &self.mounted.near) {
                near.data.count_asked_for();
            }
            return Reading { asked, goes_on, around: None };
        }
        let worth = match is_walk {
            true => self.sequences.lock().worth_reading(&read),
            false => read.clone(),
        };
        let bytes = worth.end - worth.start;
        let mut piece = worth.start..worth.end.min(self.name.bytes).max(read.end);
        let goes_on = bytes > read.end - read.start && bytes >= PIECE_BYTES;
        if goes_on && worth.start == read.start {
            self.ask_behind(piece.end);
        }
        let around = block.filter(|_| !goes_on).and_then(|block| self.around(block, &piece));
        if let Some(wider) = around.as_ref().and_then(Around::to_ask_for) {
            piece = wider;
        }
        let offset = piece.start;
        let pending = self.mounted.store.begin_get(&self.object, Some(piece));
        Reading { asked: Asked::Pending { offset, pending }, goes_on, around }
    }

    /// What is to be kept near beside a block: of what is read for it anyway, or else of its piece,
    /// which is read for this. Nothing if there is no room.
    fn around(&self, block: &PlacedBlock<'_>, read: &Range<u64>) -> Option<Around> {
        let near = self.mounted.near.as_ref()?;
        let (interval, mut piece) = (block.interval(), piece_of(block.interval()));
        let is_alone = read.end - read.start == interval.bytes as u64;
        if !is_alone {
            piece = read.start..piece.end.min(read.end);
        }
        let blocks = block.around(&piece);
        let bytes = blocks.iter().map(|block| block.bytes).sum();
        let has_room = || {
            let all = ByteInterval { offset: interval.offset, bytes };
            near.data.has_room(self.name.cached_as(), all)
        };
        if bytes == interval.bytes || !has_room() {
            return None;
        }
        let under_way = if is_alone { Some(self.mounted.around.begin()?) } else { None };
        Some(Around { blocks, under_way })
    }

    /// Begins to read the piece behind one that ends at `end`, if the table goes on there.
    fn ask_behind(&self, end: u64) {
        if end < self.name.bytes {
            self.prefetch(ByteInterval { offset: end - OVERLAP_BYTES, bytes: 1 });
        }
    }
}

/// A read under way.
struct Reading {
    asked: Asked,
    /// Somebody goes through the table, and has for a while.
    goes_on: bool,
    /// What else is kept near of what comes.
    around: Option<Around>,
}

/// Where to begin to read the end of a table of `table_bytes`, of which nothing is known.
pub(super) fn tail_offset(table_bytes: u64) -> u64 {
    let wanted = (table_bytes / TAIL_DIVISOR).clamp(TAIL_BYTES_MIN, TAIL_BYTES_MAX);
    table_bytes.saturating_sub(wanted)
}

/// Where the metadata of a table of `table_bytes` begin, if `tail` is its end.
pub(super) fn metadata_offset(tail: &[u8], table_bytes: u64) -> Option<u64> {
    Footer::decode(tail.last_chunk()?, table_bytes).ok().map(|footer| footer.data_bytes)
}

impl FarFile {
    /// Reads intervals. If they are one block, it is kept near unless a long scan reads it.
    fn read_and(&self, intervals: &[ByteInterval], block: Option<&PlacedBlock<'_>>) -> ReadTicket {
        let mut asked = Vec::with_capacity(intervals.len());
        for interval in intervals {
            if let Err(error) = interval.check_inside(self.name.bytes, &self.path) {
                return ReadTicket::ready(Err(error));
            }
            match self.read_tail(*interval) {
                Ok(Some(bytes)) => {
                    let there = Asked::There(Arc::new(Piece { offset: interval.offset, bytes }));
                    let reading = Reading { asked: there, goes_on: false, around: None };
                    asked.push((*interval, reading));
                }
                Ok(None) => asked.push((*interval, self.ask(*interval, block))),
                Err(error) => return ReadTicket::ready(Err(error)),
            }
        }
        let (env, mounted) = (Arc::clone(&self.env), Arc::clone(&self.mounted));
        let (nonce, name) = (self.name.nonce, self.name());
        let table = self.name.cached_as();
        let kept_as = block.map(|block| KeptAs { table, seal: block.seal() });
        ReadTicket::pending(Box::new(move || {
            let began = env.now();
            let mut buffers = Vec::with_capacity(asked.len());
            for (interval, Reading { asked, goes_on, around }) in asked {
                let piece = asked.wait().map_err(|error| mounted.error_of_read(&name, error))?;
                let bytes = piece.get(interval).ok_or_else(|| interval.too_short(&name))?;
                if let Some(kept_as) = kept_as.filter(|_| !goes_on) {
                    mounted.keep(kept_as, interval, around.as_ref(), &piece);
                }
                // What came for the cache alone is there now.
                if around.is_none_or(|around| around.under_way.is_none()) {
                    mounted.ahead.keep_rest(nonce, interval, piece);
                }
                buffers.push(bytes);
            }
            let bytes = buffers.iter().map(|buffer| buffer.len() as u64).sum();
            waits::waited_for_file(bytes, began, env.now());
            Ok(buffers)
        }))
    }
}

impl TableFile for FarFile {
    fn read(&self, intervals: &[ByteInterval]) -> ReadTicket {
        self.read_and(intervals, None)
    }

    fn read_block(&self, block: &PlacedBlock<'_>) -> ReadTicket {
        let interval = block.interval();
        match self.read_near(interval, true).or_else(|| self.read_whole(interval)) {
            Some(bytes) => ReadTicket::ready(Ok(vec![bytes])),
            None => self.read_and(&[interval], Some(block)),
        }
    }

    fn near_blocks(&self) -> Vec<u64> {
        let near = self.mounted.near.as_ref();
        near.map_or_else(Vec::new, |near| near.data.offsets_of(self.name.cached_as()))
    }

    fn age_near_blocks(&self) {
        if let Some(near) = &self.mounted.near {
            near.data.age(self.name.cached_as());
        }
    }

    /// Only what was read ahead, or is kept near, can be had without a request.
    fn try_read(&self, interval: ByteInterval) -> Result<Option<Vec<u8>>> {
        interval.check_inside(self.name.bytes, &self.path)?;
        let tail = self.tail.lock().clone();
        if let Some(bytes) = tail.and_then(|tail| tail.get(interval)) {
            return Ok(Some(bytes));
        }
        if let Some(bytes) = self.mounted.ahead.get(self.name.nonce, interval) {
            return Ok(Some(bytes));
        }
        Ok(self.read_near(interval, false))
    }

    fn prefetch(&self, interval: ByteInterval) {
        let mounted = &self.mounted;
        let near = mounted.near.as_ref();
        if near.is_some_and(|near| near.data.has(self.name.cached_as(), interval.offset)) {
            return;
        }
        mounted.ahead.ask(self.name.nonce, interval, self.name.bytes, |interval| {
            mounted.store.begin_get(&self.object, Some(interval))
        });
    }

    fn is_far(&self) -> bool {
        true
    }

    fn is_near(&self, block: ByteInterval) -> bool {
        let near = self.mounted.near.as_ref();
        near.is_some_and(|near| near.data.has(self.name.cached_as(), block.offset))
            || self.mounted.ahead.holds(self.name.nonce, block)
    }

    fn ask_for(&self, interval: ByteInterval) {
        let range = interval.offset..interval.offset + interval.bytes as u64;
        self.mounted.ahead.ask_for(self.name.nonce, range, |range| {
            self.sequences.lock().begin(&range);
            self.mounted.store.begin_get(&self.object, Some(range))
        });
    }

    fn piece_bytes(&self) -> u64 {
        PIECE_BYTES
    }

    fn bytes(&self) -> u64 {
        self.name.bytes
    }

    fn name(&self) -> PathBuf {
        self.path.clone()
    }
}
