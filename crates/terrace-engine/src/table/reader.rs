use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::{
    CodecError, Corruption, EntryKind, EntryRef, Expiry, KeyRange, SeqNo, TableUid,
};

use super::block_index::BlockIndex;
use super::compression::decompress;
use super::cursor::TableCursor;
use super::format::block::{BlockEntry, BlockView};
use super::format::filter::Filter;
use super::format::footer::{FOOTER_BYTES, Footer, Handle};
use super::format::frame::{self, Compression, TRAILER_BYTES};
use super::format::properties::TableProperties;
use super::format::{BLOCK_BYTES_MAX, FormatError, META_BYTES_MAX, range_tombstones};
use super::mashmeta::MashMeta;
use super::placed::{PlacedBlock, ReadFor};
use super::store::{ByteInterval, ReadTicket, TableFile};
use super::stream::TableStream;
use crate::cache::{BlockCache, BlockPeek, BlockSlots};
use crate::explain::{BlockRead, note};
use crate::l0::triangle::Page;
use crate::l0::triangle::row::format::RowEntry;
use crate::range_tombstone::{Fragments, RangeTombstone};
use crate::{Error, Result};

/// How blocks are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMode {
    /// Whether the read may block until the bytes are there. If not, it answers
    /// [`Error::NeedsIo`] if they are neither cached nor readable at once.
    pub waits: bool,
    /// Whether the cache keeps what was read.
    pub fills_cache: bool,
    /// How many bytes before a cursor that goes forward the store is asked to have ready; 0 for
    /// none.
    pub ahead_bytes: u32,
}

impl ReadMode {
    /// It may block.
    pub const BLOCK: ReadMode = ReadMode { waits: true, fills_cache: true, ahead_bytes: 0 };
    /// It does not block.
    pub const NO_WAIT: ReadMode = ReadMode { waits: false, ..ReadMode::BLOCK };
}

/// One table, open for reading: its filter, index, range tombstones and properties in memory, its
/// data blocks behind the cache. Any number of threads may read at once; nothing in it changes.
pub struct TableReader {
    pub(super) file: Arc<dyn TableFile>,
    cache: Arc<BlockCache>,
    /// Where the cached ones of its blocks are; none if the cache keeps none.
    pub(super) slots: Arc<BlockSlots>,
    pub(super) footer: Footer,
    pub(super) index: BlockIndex,
    pub(super) filter: Option<Arc<Filter>>,
    filter_damage: Option<Corruption>,
    range_tombstones: Arc<Fragments>,
    properties: TableProperties,
    /// The number of every entry, if the table was ingested: its entries bear none of their own.
    pub(super) number: Option<SeqNo>,
}

/// An entry whose value lies in a cached block or in a page of persistent memory, which stays there
/// for as long as this lives.
#[derive(Clone, Debug)]
pub struct PinnedEntry {
    holder: Holder,
    seqno: SeqNo,
    expiry: Option<Expiry>,
    value_at: u32,
    value_end: u32,
    kind: EntryKind,
}

/// What keeps the value of a [`PinnedEntry`].
#[derive(Clone, Debug)]
enum Holder {
    Block(Arc<[u8]>),
    Page(Arc<Page>),
}

impl PinnedEntry {
    /// An entry of a block, which is in memory.
    #[inline]
    fn of_block(block: Arc<[u8]>, entry: &BlockEntry) -> PinnedEntry {
        let value = entry.value_place();
        PinnedEntry {
            holder: Holder::Block(block),
            seqno: entry.seqno,
            expiry: entry.expiry,
            value_at: value.start,
            value_end: value.end,
            kind: entry.kind,
        }
    }

    /// An entry of a row, whose value lies in `page` at `value`.
    #[inline]
    pub(crate) fn in_page(page: Arc<Page>, entry: &RowEntry, value: Range<u32>) -> PinnedEntry {
        PinnedEntry {
            holder: Holder::Page(page),
            seqno: entry.seqno,
            expiry: entry.expiry,
            value_at: value.start,
            value_end: value.end,
            kind: entry.kind,
        }
    }

    /// An entry of a row, with a copy of its value.
    pub(crate) fn copied(value: Arc<[u8]>, entry: &RowEntry) -> PinnedEntry {
        PinnedEntry {
            // Values are shorter than 4 GiB.
            value_end: value.len() as u32,
            holder: Holder::Block(value),
            seqno: entry.seqno,
            expiry: entry.expiry,
            value_at: 0,
            kind: entry.kind,
        }
    }

    /// When it was written.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.seqno
    }

    /// What it says.
    #[must_use]
    pub fn kind(&self) -> EntryKind {
        self.kind
    }

    /// When it turns into a tombstone.
    #[must_use]
    pub fn expiry(&self) -> Option<Expiry> {
        self.expiry
    }

    /// The value, the pointer or the operand.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &[u8] {
        let bytes: &[u8] = match &self.holder {
            Holder::Block(block) => block,
            Holder::Page(page) => page,
        };
        &bytes[self.value_at as usize..self.value_end as usize]
    }

    /// The whole entry; `key` is the key that was asked for.
    #[must_use]
    pub fn entry<'a>(&'a self, key: &'a [u8]) -> EntryRef<'a> {
        EntryRef {
            key,
            seqno: self.seqno,
            kind: self.kind,
            expiry: self.expiry,
            value: self.value(),
        }
    }
}

/// An entry of a block with its key.
#[inline]
pub(super) fn entry_ref<'a>(key: &'a [u8], entry: &BlockEntry, block: &'a [u8]) -> EntryRef<'a> {
    EntryRef {
        key,
        seqno: entry.seqno,
        kind: entry.kind,
        expiry: entry.expiry,
        value: entry.value(block),
    }
}

impl TableReader {
    /// Opens a table that was not ingested, or whose entries' numbers do not matter; see
    /// [`TableReader::open_numbered`].
    pub fn open(
        file: Arc<dyn TableFile>,
        cache: Arc<BlockCache>,
        expected: Option<(TableUid, u64)>,
    ) -> Result<Arc<TableReader>> {
        TableReader::open_numbered(file, cache, expected, None)
    }

    /// Opens a table: reads and verifies everything but its data blocks.
    ///
    /// `number`: what the entries of an ingested table are numbered with, which the table itself
    /// does not know ([`TableProperties::is_unnumbered`]); not heeded for any other.
    ///
    /// `expected`: the identity and the size in bytes that whoever names the table knows it by.
    /// Cost: two reads; memory as [`TableReader::memory_bytes`] reports.
    ///
    /// Errors: [`Error::Corruption`]; [`Error::Unsupported`] for a newer format; the store's. A
    /// damaged filter is no error, since reads are right without it: it is logged, left out, and
    /// reported by [`TableReader::filter_damage`] and [`TableReader::verify`].
    pub fn open_numbered(
        file: Arc<dyn TableFile>,
        cache: Arc<BlockCache>,
        expected: Option<(TableUid, u64)>,
        number: Option<SeqNo>,
    ) -> Result<Arc<TableReader>> {
        let footer = read_footer(&*file, expected)?;
        let parts = read_parts(&*file, &footer)?;
        let part = Part { file: &*file, uid: footer.uid, handle: footer.properties };
        let properties = TableProperties::decode(part.open(&parts.properties)?)
            .map_err(|error| part.refuse(error))?;
        let part = Part { handle: footer.index, ..part };
        let index = BlockIndex::decode(part.open(&parts.index)?, &footer)
            .map_err(|error| part.damaged(&error))?;
        let part = Part { handle: footer.range_tombstones, ..part };
        let range_tombstones = match &parts.range_tombstones {
            None => Arc::new(Fragments::default()),
            Some(frame) => Arc::new(part.range_tombstones(frame)?),
        };
        let has_other_keys = |trie: &MashMeta| trie.key_count() != properties.key_count;
        if properties.block_count != index.block_count() as u64
            || index.trie().is_some_and(has_other_keys)
            || properties.range_tombstone_count != range_tombstones.len() as u64
        {
            let part = Part { handle: footer.properties, ..part };
            let what = "the counts do not fit the table";
            return Err(part.damaged(&CodecError { offset: 0, what }).into());
        }
        let lists: u64 = properties.lists.iter().map(|frame| u64::from(frame.bytes)).sum();
        if lists != footer.names.bytes {
            let part = Part { handle: footer.properties, ..part };
            let what = "the lists of names do not fill their place";
            return Err(part.damaged(&CodecError { offset: 0, what }).into());
        }
        let part = Part { handle: footer.filter, ..part };
        let (filter, filter_damage) = match &parts.filter {
            None => (None, None),
            Some(frame) => match part.filter(frame) {
                Ok(filter) => (Some(Arc::new(filter)), None),
                Err(damage) => {
                    crate::program_log::warn!(%damage, "a filter is damaged; reads go on without it");
                    (None, Some(damage))
                }
            },
        };
        let slot_count = if cache.capacity_bytes() == 0 { 0 } else { index.block_count() };
        Ok(Arc::new(TableReader {
            file,
            cache,
            slots: Arc::new(BlockSlots::new(slot_count)),
            footer,
            index,
            filter,
            filter_damage,
            range_tombstones,
            number: number.filter(|_| properties.is_unnumbered()),
            properties,
        }))
    }

    /// Opens the same file once more.
    pub(super) fn reopen(&self, expected: Option<(TableUid, u64)>) -> Result<Arc<TableReader>> {
        TableReader::open(Arc::clone(&self.file), Arc::clone(&self.cache), expected)
    }

    /// The table's own identity.
    #[must_use]
    pub fn uid(&self) -> TableUid {
        self.footer.uid
    }

    /// What is known about the table as a whole.
    #[must_use]
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The range tombstones.
    #[must_use]
    pub fn range_tombstones(&self) -> &Arc<Fragments> {
        &self.range_tombstones
    }

    /// What is wrong with the filter, if it was left out for damage.
    #[must_use]
    pub fn filter_damage(&self) -> Option<&Corruption> {
        self.filter_damage.as_ref()
    }

    /// What to call the table in a report.
    #[must_use]
    pub fn name(&self) -> PathBuf {
        self.file.name()
    }

    /// The size of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// How many blocks its slots hold that the cache does not: none, unless another thread is at
    /// work.
    #[must_use]
    pub fn stray_block_count(&self) -> usize {
        self.cache.stray_count(&self.slots, self.footer.uid, |block| self.index.offset(block))
    }

    /// Bytes of memory that the open table holds, its cached blocks not counted.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<TableReader>()
            + self.index.memory_bytes()
            + self.slots.memory_bytes()
            + self.filter.as_ref().map_or(0, |filter| filter.memory_bytes())
            + self.range_tombstones.memory_bytes()
    }

    /// Whether the table may hold entries of a key with this
    /// [`filter_hash`](super::filter_hash); `true` if there is no filter. Never `false` for a key
    /// that has an entry. Range tombstones are not asked.
    ///
    /// Cost: one cache miss.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// The filter, if there is one, and a whole one.
    #[must_use]
    #[inline]
    pub fn filter(&self) -> Option<&Arc<Filter>> {
        self.filter.as_ref()
    }

    /// The newest entry of `key` at or below `read_point`, tombstones and expired entries
    /// included. Does not ask the filter: a caller with many tables hashes the key once and asks
    /// [`TableReader::may_contain`] first. Does not apply range tombstones.
    ///
    /// Cost, with the block in the cache: a search of the index, a lookup, a search of the block;
    /// no allocation and no copy. Errors: [`Error::NeedsIo`] (only in
    /// [`ReadMode::waits`]), [`Error::Corruption`], the store's.
    #[inline]
    pub fn get(
        &self,
        key: &[u8],
        read_point: SeqNo,
        mode: ReadMode,
    ) -> Result<Option<PinnedEntry>> {
        match self.block_of(key, read_point) {
            Some(block_index) => self.get_in(block_index, key, read_point, mode),
            None => Ok(None),
        }
    }

    /// As [`TableReader::get`], in the block that [`TableReader::block_of`] found.
    #[inline]
    pub fn get_in(
        &self,
        block_index: usize,
        key: &[u8],
        read_point: SeqNo,
        mode: ReadMode,
    ) -> Result<Option<PinnedEntry>> {
        if self.is_hidden_at(read_point) {
            return Ok(None);
        }
        let block = self.block(block_index, mode, ReadFor::Key)?;
        let found = BlockView::parse(&block)
            .and_then(|view| view.seek(key, read_point))
            .map_err(|error| self.damaged_block(block_index, &error))?;
        Ok(found.same_key.map(|entry| PinnedEntry::of_block(block, &self.numbered(entry))))
    }

    /// Index of the only block that can hold the newest entry of `key` at or below `read_point`;
    /// none if it is known that there is none. No I/O.
    #[must_use]
    #[inline]
    pub fn block_of(&self, key: &[u8], read_point: SeqNo) -> Option<usize> {
        self.index.find(key, read_point)
    }

    /// Whether a trie of all keys stands in the place of filter and index: a get of a key that is
    /// not there reads nothing then.
    #[must_use]
    #[inline]
    pub fn has_trie(&self) -> bool {
        self.footer.has_trie
    }

    /// A look at a block that is in the cache, of which the cache is not told; to be let go soon.
    #[must_use]
    #[inline]
    pub fn peek(&self, block_index: usize) -> Option<BlockPeek<'_>> {
        self.slots.peek(block_index)
    }

    /// A cursor over the keys that have a version at or below `read_point`. It stands nowhere yet.
    ///
    /// What it reads goes into the block cache, which keeps a long scan from displacing what is
    /// read often.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, read_point: SeqNo, mode: ReadMode) -> TableCursor {
        TableCursor::new(Arc::clone(self), read_point, mode)
    }

    /// Every version of every key, or of those in `range`: for flushes and compactions. Stands on
    /// its first entry. Reads large intervals ahead and leaves the block cache alone.
    pub fn stream(self: &Arc<Self>, range: Option<&KeyRange>) -> Result<TableStream> {
        TableStream::new(Arc::clone(self), range)
    }

    /// About `count` keys of the table, ascending, each with the bytes of data between it and the
    /// one before: where a job could be divided. No I/O.
    pub fn samples(&self, count: usize) -> impl Iterator<Item = (Cow<'_, [u8]>, u64)> {
        let blocks = self.index.block_count();
        let stride = blocks.div_ceil(count.max(1)).max(1);
        (0..blocks).step_by(stride).map(move |first| {
            let last = (first + stride).min(blocks) - 1;
            let end = self.index.handle(last);
            (self.index.separator(last), end.offset + end.bytes - self.index.offset(first))
        })
    }

    /// Up to `count` keys between blocks, behind the first key of `range` and below its end:
    /// ascending. No I/O.
    #[must_use]
    pub fn keys_within(&self, range: &KeyRange, count: usize) -> Vec<Vec<u8>> {
        let blocks = self.index.block_count();
        let seek = |key: &[u8]| self.index.seek(key, SeqNo::MAX);
        let (first, end) = (seek(range.start()), range.end().map_or(blocks, seek));
        let separators = (first..end.min(blocks)).map(|block| self.index.separator(block));
        let is_in = |key: &Cow<'_, [u8]>| key.as_ref() > range.start() && range.contains(key);
        let mut keys: Vec<Cow<'_, [u8]>> = separators.filter(is_in).collect();
        keys.dedup();
        let stride = keys.len().div_ceil(count.max(1)).max(1);
        keys.into_iter().skip(stride / 2).step_by(stride).map(Cow::into_owned).collect()
    }

    /// The keys of the blocks that the store keeps near, as intervals above one key and through
    /// another: ascending.
    #[must_use]
    pub fn near_keys(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let index = &self.index;
        let keys = |offset: u64| {
            let block = index.block_at(offset)?;
            let above = block.checked_sub(1).map(|before| index.separator(before).into_owned());
            Some((above.unwrap_or_default(), index.separator(block).into_owned()))
        };
        self.file.near_blocks().into_iter().filter_map(keys).collect()
    }

    /// The keys of the blocks that were read in this table and are cached still, as
    /// [`TableReader::near_keys`] gives them; neighbours are one interval.
    #[must_use]
    pub fn read_keys(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.keys_of(|block| self.slots.is_kept(block))
    }

    /// The same of blocks that anybody has read, in this table or where it is open besides.
    ///
    /// Cost: a look-up in the cache for each block, if it holds anything.
    #[must_use]
    pub fn cached_keys(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        if self.cache.used_bytes() == 0 {
            return Vec::new();
        }
        self.keys_of(|block| self.cache.was_read(self.footer.uid, self.index.offset(block)))
    }

    fn keys_of(&self, is_meant: impl Fn(usize) -> bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let separator = |block: usize| self.index.separator(block).into_owned();
        let mut keys = Vec::new();
        let mut block = 0;
        while block < self.index.block_count() {
            let first = block;
            while block < self.index.block_count() && is_meant(block) {
                block += 1;
            }
            if let Some(last) = block.checked_sub(1).filter(|last| *last >= first) {
                let above = first.checked_sub(1).map(separator).unwrap_or_default();
                keys.push((above, separator(last)));
            }
            // What ended the stretch, if anything did, is not meant.
            block += 1;
        }
        keys
    }

    /// What the store keeps near of the table is to go first: what a compaction makes of it takes
    /// its place.
    pub fn age_near_blocks(&self) {
        self.file.age_near_blocks();
    }

    /// About how many bytes of data lie within `range`, to a block. No I/O.
    #[must_use]
    pub fn bytes_within(&self, range: &KeyRange) -> u64 {
        let offset = |block: usize| match block.checked_sub(1) {
            None => 0,
            Some(before) => {
                let before = self.index.handle(before.min(self.index.block_count() - 1));
                before.offset + before.bytes
            }
        };
        if self.index.block_count() == 0 {
            return 0;
        }
        let end =
            range.end().map_or(self.index.block_count(), |end| self.index.seek(end, SeqNo::MAX));
        offset(end).saturating_sub(offset(self.index.seek(range.start(), SeqNo::MAX)))
    }

    /// Whether all entries are too new: an ingested table has one number.
    #[inline]
    pub(super) fn is_hidden_at(&self, read_point: SeqNo) -> bool {
        self.number.is_some_and(|number| number > read_point)
    }

    /// An entry as it counts.
    #[inline]
    pub(super) fn numbered(&self, entry: BlockEntry) -> BlockEntry {
        let mut entry = entry;
        entry.seqno = self.number.unwrap_or(entry.seqno);
        entry
    }

    /// A data block, from the cache or from the file.
    #[inline]
    pub(super) fn block(
        &self,
        block_index: usize,
        mode: ReadMode,
        read_for: ReadFor,
    ) -> Result<Arc<[u8]>> {
        let place = || (self.footer.uid, self.index.offset(block_index));
        match self.cache.get_at(&self.slots, block_index, place) {
            Some(block) => {
                note(|notes| notes.block(self.describe(block_index, block.len(), true)));
                Ok(block)
            }
            None => self.read_block(block_index, mode, read_for),
        }
    }

    /// What an explanation says of a block of `bytes` decoded bytes.
    fn describe(&self, block_index: usize, bytes: usize, was_cached: bool) -> BlockRead {
        let file_bytes = self.index.handle(block_index).bytes;
        let bytes = bytes as u64;
        // Where compression does not pay, a block is stored as it is.
        let is_compressed = file_bytes < bytes + TRAILER_BYTES as u64;
        let index = block_index as u64;
        BlockRead { index, was_cached, is_near: false, file_bytes, bytes, is_compressed }
    }

    #[cold]
    fn read_block(
        &self,
        block_index: usize,
        mode: ReadMode,
        read_for: ReadFor,
    ) -> Result<Arc<[u8]>> {
        let handle = self.index.handle(block_index);
        let interval = interval_of(handle);
        let frame = match mode.waits {
            true => {
                let placed = PlacedBlock::new(self, block_index, read_for);
                only_one(&*self.file, interval, self.file.read_block(&placed))?
            }
            false => self.file.try_read(interval)?.ok_or(Error::NeedsIo)?,
        };
        let block = self.decode_block(handle, &frame)?;
        note(|notes| notes.block(self.describe(block_index, block.len(), false)));
        if mode.fills_cache {
            let place = (self.footer.uid, handle.offset);
            self.cache.insert_at(&self.slots, block_index, place, Arc::clone(&block));
        }
        Ok(block)
    }

    /// Asks the store to have the blocks ready that begin at `block_index`, as many as the mode
    /// says; where that ends.
    #[cold]
    pub(super) fn prefetch(&self, block_index: usize, mode: ReadMode) -> u64 {
        let first = self.index.handle(block_index);
        let last = self.index.handle(self.index.block_count() - 1);
        let end = (first.offset + u64::from(mode.ahead_bytes)).min(last.offset + last.bytes);
        let bytes = usize::try_from(end - first.offset).unwrap_or(usize::MAX);
        self.file.prefetch(ByteInterval { offset: first.offset, bytes });
        end
    }

    /// Verifies and decodes a frame of a data block into memory of its own.
    fn decode_block(&self, handle: Handle, frame: &[u8]) -> Result<Arc<[u8]>> {
        let damaged = |error| self.damaged(handle.offset, &error);
        let (compression, payload) =
            frame::open(frame, self.footer.uid, handle.offset).map_err(damaged)?;
        if compression == Compression::None {
            return Ok(Arc::from(payload));
        }
        let (bytes, compressed) =
            frame::split_compressed(payload, BLOCK_BYTES_MAX).map_err(damaged)?;
        let mut block: Arc<[u8]> = std::iter::repeat_n(0, bytes).collect();
        let target = Arc::get_mut(&mut block).expect("nobody else knows the new block");
        decompress(compression, compressed, target)
            .map_err(|error| self.unreadable(handle.offset, error))?;
        Ok(block)
    }

    /// A decoder's complaint about the data block with this index.
    #[cold]
    pub(super) fn damaged_block(&self, block_index: usize, error: &CodecError) -> Error {
        self.damaged(self.index.handle(block_index).offset, error)
    }

    /// A codec's complaint about what lies at `offset`.
    #[cold]
    pub(super) fn unreadable(&self, offset: u64, error: FormatError) -> Error {
        match error {
            FormatError::Damaged(error) => self.damaged(offset, &error),
            FormatError::Unsupported(text) => {
                Error::NoCodec(format!("{}: {text}", self.file.name().display()))
            }
        }
    }

    /// A decoder's complaint about what lies at `offset`.
    #[cold]
    pub(super) fn damaged(&self, offset: u64, error: &CodecError) -> Error {
        // The decoder counts within decoded bytes, which say nothing about the file.
        let detail = format!("{} (byte {} of the decoded block)", error.what, error.offset);
        Corruption::new(self.file.name(), offset, detail).into()
    }
}

impl fmt::Debug for TableReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableReader")
            .field("file", &self.file)
            .field("uid", &self.footer.uid)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

pub(super) fn interval_of(handle: Handle) -> ByteInterval {
    // A handle was checked to lie inside its file and to be small.
    ByteInterval { offset: handle.offset, bytes: handle.bytes as usize }
}

/// Reads one interval, waiting for it.
pub(super) fn read_one(file: &dyn TableFile, interval: ByteInterval) -> Result<Vec<u8>> {
    only_one(file, interval, file.read(&[interval]))
}

fn only_one(file: &dyn TableFile, interval: ByteInterval, read: ReadTicket) -> Result<Vec<u8>> {
    let mut buffers = read.wait()?;
    match buffers.pop() {
        Some(buffer) if buffer.len() == interval.bytes => Ok(buffer),
        _ => Err(interval.too_short(&file.name()).into()),
    }
}

fn unsupported(file: &dyn TableFile, text: &str) -> Error {
    Error::Unsupported(format!("{}: {text}", file.name().display()))
}

fn read_footer(file: &dyn TableFile, expected: Option<(TableUid, u64)>) -> Result<Footer> {
    let file_bytes = file.bytes();
    if let Some((_, bytes)) = expected
        && bytes != file_bytes
    {
        let detail = format!("the table has {file_bytes} bytes, expected were {bytes}");
        return Err(Corruption::new(file.name(), file_bytes.min(bytes), detail).into());
    }
    let Some(offset) = file_bytes.checked_sub(FOOTER_BYTES as u64) else {
        let detail = format!("{file_bytes} bytes are too few for a table");
        return Err(Corruption::new(file.name(), 0, detail).into());
    };
    let bytes = read_one(file, ByteInterval { offset, bytes: FOOTER_BYTES })?;
    let bytes = bytes.first_chunk().expect("a read returns as many bytes as were asked for");
    let footer = Footer::decode(bytes, file_bytes).map_err(|error| match error {
        FormatError::Damaged(error) => {
            Error::from(Corruption::from_codec(file.name(), offset, &error))
        }
        FormatError::Unsupported(text) => unsupported(file, &text),
    })?;
    if let Some((uid, _)) = expected
        && uid != footer.uid
    {
        let detail = format!("this is table {:?}, expected was {uid:?}", footer.uid);
        return Err(Corruption::new(file.name(), offset, detail).into());
    }
    for handle in [footer.filter, footer.index, footer.range_tombstones, footer.properties] {
        if handle.bytes > (META_BYTES_MAX + TRAILER_BYTES) as u64 {
            let detail = format!("a part of {} bytes is beyond the bound", handle.bytes);
            return Err(Corruption::new(file.name(), handle.offset, detail).into());
        }
    }
    Ok(footer)
}

/// The frames of everything but data blocks.
struct Parts {
    filter: Option<Vec<u8>>,
    index: Vec<u8>,
    range_tombstones: Option<Vec<u8>>,
    properties: Vec<u8>,
}

/// One of these frames: where it lies, for opening it and for naming it in an error.
#[derive(Clone, Copy)]
struct Part<'a> {
    file: &'a dyn TableFile,
    uid: TableUid,
    handle: Handle,
}

impl Part<'_> {
    fn open<'f>(&self, frame: &'f [u8]) -> std::result::Result<&'f [u8], Corruption> {
        frame::open_plain(frame, self.uid, self.handle.offset).map_err(|error| self.damaged(&error))
    }

    fn range_tombstones(&self, frame: &[u8]) -> std::result::Result<Fragments, Corruption> {
        let decoded =
            range_tombstones::decode(self.open(frame)?).map_err(|error| self.damaged(&error))?;
        let decoded = decoded.into_iter();
        Ok(Fragments::new(decoded.map(|(start, end, seqno)| RangeTombstone { start, end, seqno })))
    }

    fn filter(&self, frame: &[u8]) -> std::result::Result<Filter, Corruption> {
        Filter::decode(self.open(frame)?).map_err(|error| self.damaged(&error))
    }

    fn damaged(&self, error: &CodecError) -> Corruption {
        Corruption::from_codec(self.file.name(), self.handle.offset, error)
    }

    fn refuse(&self, error: FormatError) -> Error {
        match error {
            FormatError::Damaged(error) => self.damaged(&error).into(),
            FormatError::Unsupported(text) => unsupported(self.file, &text),
        }
    }
}

fn read_parts(file: &dyn TableFile, footer: &Footer) -> Result<Parts> {
    let handles = [footer.filter, footer.index, footer.range_tombstones, footer.properties];
    let intervals: Vec<ByteInterval> =
        handles.into_iter().filter(|handle| !handle.is_none()).map(interval_of).collect();
    let mut frames = file.read(&intervals).wait()?.into_iter();
    let mut next = |handle: Handle| match frames.next() {
        Some(frame) if frame.len() as u64 == handle.bytes => Ok(frame),
        _ => Err(Error::from(interval_of(handle).too_short(&file.name()))),
    };
    let filter = if footer.filter.is_none() { None } else { Some(next(footer.filter)?) };
    let index = next(footer.index)?;
    let range_tombstones =
        if footer.range_tombstones.is_none() { None } else { Some(next(footer.range_tombstones)?) };
    let properties = next(footer.properties)?;
    Ok(Parts { filter, index, range_tombstones, properties })
}
