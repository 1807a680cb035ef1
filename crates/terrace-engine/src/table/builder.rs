use std::fmt;
use std::sync::Arc;

use terrace_base::limits::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use terrace_base::{EntryKind, EntryRef, Expiry, SeqNo, TableUid, WallTime, compare_internal};
use xxhash_rust::xxh3::Xxh3;

use super::compression::Compressor;
use super::format::block::BlockView;
use super::format::block_builder::BlockBuilder;
use super::format::filter::{self, Filter, filter_hash};
use super::format::footer::{FOOTER_BYTES, Footer};
use super::format::frame::{self, Compression, TRAILER_BYTES};
use super::format::index::{IndexBuilder, shortest_separator};
use super::format::names::{ListFrame, NameLists, encode_lists};
use super::format::properties::TableProperties;
use super::format::{BLOCK_TARGET_BYTES_MAX, META_BYTES_MAX, range_tombstones};
use super::heat::{HotBlocks, KeptIn};
use super::mashmeta::{MashMeta, MashMetaBuilder};
use super::store::{ByteInterval, TableWriter};
use crate::placement::TableLocation;
use crate::range_tombstone::RangeTombstone;
use crate::vlog::ValuePointer;
use crate::{Error, Result};

/// Bytes are handed to the store in pieces of at least this size: few system calls, and the piece
/// is still in the second-level cache when it is hashed and written.
const WRITE_BYTES: usize = 128 * 1024;

/// How tables are built. Readers need none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Target size of a data block before compression, in bytes; 64 B to 1 MiB (values outside are
    /// moved to the nearer end). Default 4 KiB, which serves gets best where the data exceeds the
    /// block cache. Larger: less index, faster scans and better compression; smaller: fewer bytes
    /// read, verified and cached for one get.
    pub block_bytes: usize,
    /// Bits of filter for each distinct key; 0 (no filter) to 48. Default 10: about 1 % of the
    /// gets for absent keys search a block in vain; each 5 bits more take it to a tenth.
    pub filter_bits_per_key: u32,
    /// How data blocks are compressed. One that does not shrink by an eighth is stored as it is.
    /// Default none: the processor is dearer than the disk; deep levels may choose otherwise.
    pub compression: Compression,
    /// Whether a [trie of all keys](super::mashmeta) stands in the place of filter and index where
    /// it is smaller. Default no: it takes a search longer than they do, and less memory. Tables
    /// for an object store have it.
    pub trie: bool,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            block_bytes: 4096,
            filter_bits_per_key: 10,
            compression: Compression::None,
            trie: false,
        }
    }
}

/// A finished table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltTable {
    /// Where its store put it.
    pub location: TableLocation,
    /// Its identity.
    pub uid: TableUid,
    /// The size of the file.
    pub bytes: u64,
    /// XXH3-128 of the whole file.
    pub hash: u128,
    /// What is known about it.
    pub properties: TableProperties,
    /// The longest run of neighbouring keys whose newest entry is a tombstone.
    pub tombstone_run: u64,
    /// When the last of its entries expires, if all of them expire and it holds nothing else.
    pub expired_from: Option<WallTime>,
}

/// Writes one table, front to back.
///
/// Entries come in internal order; range tombstones may come at any time. Memory: a few blocks, the
/// index, eight bytes a distinct key and as much a pointer to a value, the range tombstones; with a
/// trie two bytes more for each of its nodes. No allocation for each entry.
pub struct TableBuilder {
    writer: Box<dyn TableWriter>,
    uid: TableUid,
    options: TableOptions,
    /// Finished bytes that the writer has not been given yet.
    out: Vec<u8>,
    /// Bytes that the writer has been given.
    written_bytes: u64,
    hash: Xxh3,
    block: BlockBuilder,
    /// A block before its compression.
    plain: Vec<u8>,
    compressor: Compressor,
    index: IndexBuilder,
    separator: Vec<u8>,
    /// Beside index and hashes, as long as it may be smaller than filter and index.
    trie: Option<MashMetaBuilder>,
    key_hashes: Vec<u64>,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
    /// Start, end, number.
    range_tombstones: Vec<(Vec<u8>, Vec<u8>, SeqNo)>,
    range_tombstone_bytes: usize,
    /// The values that are pointed to.
    names: NameLists,
    /// The neighbouring keys up to the last one that are deleted, and the most there were of such.
    tombstone_run: u64,
    tombstone_run_max: u64,
    /// How many entries expire.
    expiring_count: u64,
    /// Which of its blocks will be read, if somebody knows.
    hot: Option<Arc<HotBlocks>>,
    /// The separator before the block.
    block_above: Vec<u8>,
    properties: TableProperties,
}

impl TableBuilder {
    /// Begins a table. `uid` is random and was never used before; `created` is now.
    #[must_use]
    pub fn new(
        writer: Box<dyn TableWriter>,
        uid: TableUid,
        options: &TableOptions,
        created: WallTime,
    ) -> TableBuilder {
        let options = TableOptions {
            block_bytes: options.block_bytes.clamp(64, BLOCK_TARGET_BYTES_MAX),
            filter_bits_per_key: options.filter_bits_per_key.min(filter::BITS_PER_KEY_MAX),
            ..*options
        };
        TableBuilder {
            writer,
            uid,
            options,
            out: Vec::with_capacity(WRITE_BYTES * 2),
            written_bytes: 0,
            hash: Xxh3::new(),
            block: BlockBuilder::default(),
            plain: Vec::new(),
            compressor: Compressor::new(options.compression),
            index: IndexBuilder::default(),
            separator: Vec::new(),
            trie: options.trie.then(MashMetaBuilder::default),
            key_hashes: Vec::new(),
            last_key: Vec::new(),
            last_seqno: SeqNo::ZERO,
            range_tombstones: Vec::new(),
            range_tombstone_bytes: 0,
            names: NameLists::default(),
            tombstone_run: 0,
            tombstone_run_max: 0,
            expiring_count: 0,
            hot: None,
            block_above: Vec::new(),
            properties: TableProperties { created, ..TableProperties::default() },
        }
    }

    /// The same; the writer is told which blocks will be read.
    #[must_use]
    pub fn with_hot(self, hot: Option<Arc<HotBlocks>>) -> TableBuilder {
        TableBuilder { hot, ..self }
    }

    /// Adds the next entry in internal order. Errors: the writer's; the table is then of no use.
    ///
    /// # Panics
    /// If the entry does not come after the one before, is a range tombstone, or exceeds the
    /// bounds on keys and values: the caller's mistake, and a table must not be built from it.
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        assert!(entry.kind != EntryKind::RangeTombstone, "range tombstones lie beside the entries");
        assert!(entry.key.len() <= STORED_KEY_BYTES_MAX, "the key is too long");
        assert!(entry.value.len() <= VALUE_BYTES_MAX, "the value is too long");
        let is_first = self.properties.entry_count == 0;
        let same_key = !is_first && self.last_key == entry.key;
        assert!(
            is_first
                || compare_internal(&self.last_key, self.last_seqno, entry.key, entry.seqno)
                    .is_lt(),
            "entries come in internal order"
        );
        if !self.block.try_add(entry, same_key, self.options.block_bytes) {
            if same_key {
                self.separator.clone_from(&self.last_key);
            } else {
                shortest_separator(&self.last_key, entry.key, &mut self.separator);
            }
            self.finish_block(same_key.then_some(self.last_seqno))?;
            let added = self.block.try_add(entry, same_key, self.options.block_bytes);
            assert!(added, "an empty block takes any entry");
        }
        if !same_key {
            self.properties.key_count += 1;
            if is_first {
                self.properties.smallest = entry.key.to_vec();
            }
            // The newest entry of a key comes first: it says whether the key is deleted.
            let is_tombstone = entry.kind == EntryKind::Tombstone;
            self.tombstone_run = if is_tombstone { self.tombstone_run + 1 } else { 0 };
            self.tombstone_run_max = self.tombstone_run_max.max(self.tombstone_run);
            if self.options.filter_bits_per_key > 0 {
                self.key_hashes.push(filter_hash(entry.key));
            }
            if let Some(trie) = &mut self.trie {
                trie.add(entry.key);
            }
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        self.last_seqno = entry.seqno;
        self.expiring_count += u64::from(entry.expiry.is_some());
        if let Some(pointer) = self.properties.count(entry) {
            self.names.add(pointer.name);
        }
        Ok(())
    }

    /// Adds a range tombstone; they may come in any order and may overlap.
    ///
    /// # Panics
    /// If it deletes no keys, or a bound is too long.
    pub fn add_range_tombstone(&mut self, range_tombstone: RangeTombstone<'_>) {
        let RangeTombstone { start, end, seqno } = range_tombstone;
        assert!(start < end, "a range tombstone deletes keys");
        assert!(start.len().max(end.len()) <= STORED_KEY_BYTES_MAX, "the bound is too long");
        self.range_tombstone_bytes += start.len() + end.len() + 16;
        self.properties.count_seqno(seqno);
        self.properties.range_tombstone_count += 1;
        self.range_tombstones.push((start.to_vec(), end.to_vec(), seqno));
    }

    /// Whether nothing has been added. An empty table cannot be finished.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.properties.entry_count == 0 && self.range_tombstones.is_empty()
    }

    /// About how large the file would be if it were finished now, in bytes.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        let beside_bytes = self.range_tombstone_bytes + self.names.estimated_bytes();
        let meta_bytes = self.filter_and_index_bytes() + beside_bytes;
        let pending_bytes = self.out.len() + self.block.estimated_bytes();
        self.written_bytes + (pending_bytes + meta_bytes + FOOTER_BYTES) as u64
    }

    /// Writes the rest and makes the content durable (the name is made durable by
    /// [`TableStore::sync`](super::TableStore::sync)).
    ///
    /// Errors: the writer's; [`Error::Invalid`] if the index, the filter, the range tombstones or a
    /// list of names outgrow what a reader takes (256 MiB each).
    ///
    /// # Panics
    /// If the table is empty.
    pub fn finish(mut self) -> Result<BuiltTable> {
        assert!(!self.is_empty(), "a table holds something");
        if !self.block.is_empty() {
            self.separator.clone_from(&self.last_key);
            self.finish_block(None)?;
        }
        self.properties.block_count = self.index.count();
        self.properties.data_bytes = self.offset();
        self.finish_bounds();

        let trie = self.smaller_trie();
        let has_trie = trie.is_some();
        let (filter_bytes, index_bytes) = match trie {
            Some(payload) => (0, self.write_meta(|out| out.extend_from_slice(&payload))?),
            None => {
                let filter_bytes = self.write_filter()?;
                let index = std::mem::take(&mut self.index);
                (filter_bytes, self.write_meta(|out| index.encode(out))?)
            }
        };
        let range_tombstones = std::mem::take(&mut self.range_tombstones);
        let range_tombstone_bytes = self.write_range_tombstones(range_tombstones)?;
        let names_bytes = self.write_names()?;
        let properties = std::mem::take(&mut self.properties);
        let properties_bytes = self.write_meta(|out| {
            let start = out.len();
            properties.encode(out);
            let read = TableProperties::decode(&out[start..]);
            assert_eq!(read.as_ref(), Ok(&properties), "what a reader finds");
        })?;
        let frame_bytes =
            [filter_bytes, index_bytes, range_tombstone_bytes, names_bytes, properties_bytes];
        let footer = Footer::lay_out(self.uid, properties.data_bytes, frame_bytes);
        let footer = footer.with_trie(has_trie);
        assert_eq!(footer.offset(), self.offset(), "the frames lie back to back");
        footer.encode(&mut self.out);
        assert!(self.is_footer_read_back(&footer), "{footer:?} is not what a reader finds");
        self.write_out()?;
        let location = self.writer.finish()?;
        Ok(BuiltTable {
            location,
            uid: self.uid,
            bytes: self.written_bytes,
            hash: self.hash.digest128(),
            tombstone_run: self.tombstone_run_max,
            expired_from: expired_from(&properties, self.expiring_count),
            properties,
        })
    }

    /// Where the next byte will lie in the file.
    fn offset(&self) -> u64 {
        self.written_bytes + self.out.len() as u64
    }

    /// Closes the data block; its separator stands in `self.separator`.
    fn finish_block(&mut self, goes_on_after: Option<SeqNo>) -> Result<()> {
        let offset = self.offset();
        let start = self.out.len();
        let mut compression = Compression::None;
        if self.compressor.is_none() {
            self.block.finish(&mut self.out);
            debug_assert!(self.ends_as_added(&self.out[start..]), "a block lost its last entry");
        } else {
            self.plain.clear();
            self.block.finish(&mut self.plain);
            debug_assert!(self.ends_as_added(&self.plain), "a block lost its last entry");
            compression = self.compressor.compress(&self.plain, &mut self.out);
            if compression == Compression::None {
                self.out.extend_from_slice(&self.plain);
            }
            self.plain.shrink_to(BLOCK_TARGET_BYTES_MAX);
        }
        frame::seal(&mut self.out, start, compression, self.uid, offset);
        let frame_bytes = (self.out.len() - start) as u64;
        self.index.add(frame_bytes, &self.separator, goes_on_after);
        if let Some(mut trie) = self.trie.take() {
            trie.end_block(frame_bytes, goes_on_after);
            let goes_on = trie.may_become_smaller_than(self.filter_and_index_bytes());
            self.trie = goes_on.then_some(trie);
        }
        if let Some(hot) = &self.hot {
            if hot.heat.touches(&self.block_above, &self.separator) {
                let bytes = self.out.len() - start;
                match &hot.kept {
                    KeptIn::Near => self.writer.keep_near(ByteInterval { offset, bytes }),
                    KeptIn::Cache(cache) => {
                        let plain = match self.compressor.is_none() {
                            true => &self.out[start..start + bytes - TRAILER_BYTES],
                            false => &self.plain[..],
                        };
                        cache.insert(self.uid, offset, Arc::from(plain));
                    }
                }
            }
            self.block_above.clone_from(&self.separator);
        }
        if self.out.len() >= WRITE_BYTES {
            self.write_out()?;
        }
        Ok(())
    }

    /// Whether the footer that ends what is about to be written reads as it should.
    fn is_footer_read_back(&self, footer: &Footer) -> bool {
        let read = self.out.last_chunk().map(|bytes| Footer::decode(bytes, self.offset()));
        read.is_some_and(|read| read.as_ref() == Ok(footer))
    }

    /// Whether a block that is about to be written ends, to a reader, with the entry that was added
    /// last.
    fn ends_as_added(&self, block: &[u8]) -> bool {
        let Ok(view) = BlockView::parse(block) else { return false };
        let index = view.count() - 1;
        let Ok(last) = view.entry(index) else { return false };
        let mut key = Vec::new();
        view.key_into(index, &last, &mut key);
        last.seqno == self.last_seqno && key == self.last_key
    }

    fn write_out(&mut self) -> Result<()> {
        self.hash.update(&self.out);
        self.writer.append(&self.out)?;
        self.written_bytes += self.out.len() as u64;
        self.out.clear();
        self.out.shrink_to(WRITE_BYTES * 2);
        Ok(())
    }

    /// Writes a block that is not a data block; returns the bytes of its frame.
    fn write_meta(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<u64> {
        let offset = self.offset();
        let start = self.out.len();
        encode(&mut self.out);
        let payload_bytes = self.out.len() - start;
        if payload_bytes > META_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a part of a table has {payload_bytes} bytes; at most {META_BYTES_MAX} can be read"
            )));
        }
        frame::seal(&mut self.out, start, Compression::None, self.uid, offset);
        Ok((payload_bytes + TRAILER_BYTES) as u64)
    }

    /// About how many bytes filter and index take so far.
    fn filter_and_index_bytes(&self) -> usize {
        let filter_bytes = match self.options.filter_bits_per_key {
            0 => 0,
            bits => filter::encoded_bytes(self.key_hashes.len(), bits),
        };
        self.index.estimated_bytes() + filter_bytes
    }

    /// The payload of the trie, if the table is to have it.
    fn smaller_trie(&mut self) -> Option<Vec<u8>> {
        let trie = self.trie.take().filter(|_| self.properties.key_count > 0)?;
        let payload = trie.finish();
        let data_bytes = self.properties.data_bytes;
        debug_assert!(MashMeta::decode(&payload, data_bytes).is_ok(), "a trie is read back");
        (payload.len() < self.filter_and_index_bytes()).then_some(payload)
    }

    fn write_filter(&mut self) -> Result<u64> {
        if self.key_hashes.is_empty() {
            return Ok(0);
        }
        let hashes = std::mem::take(&mut self.key_hashes);
        let filter = Filter::build(&hashes, self.options.filter_bits_per_key);
        drop(hashes);
        self.write_meta(|out| filter.encode(out))
    }

    fn write_range_tombstones(&mut self, mut all: Vec<(Vec<u8>, Vec<u8>, SeqNo)>) -> Result<u64> {
        if all.is_empty() {
            return Ok(0);
        }
        all.sort_unstable_by(|(a_start, a_end, a_seqno), (b_start, b_end, b_seqno)| {
            a_start.cmp(b_start).then(b_seqno.cmp(a_seqno)).then(a_end.cmp(b_end))
        });
        self.write_meta(|out| {
            range_tombstones::put_count(out, all.len());
            for (start, end, seqno) in &all {
                range_tombstones::put_range_tombstone(out, start, end, *seqno);
            }
        })
    }

    /// Writes the lists of names, and says in the properties where they are.
    fn write_names(&mut self) -> Result<u64> {
        let before = self.offset();
        let lists = std::mem::take(&mut self.names).into_sorted();
        for (segments, payload) in encode_lists(&lists) {
            let frame_bytes = self.write_meta(|out| out.extend_from_slice(&payload))?;
            // At most `META_BYTES_MAX` and a trailer.
            self.properties.lists.push(ListFrame { segments, bytes: frame_bytes as u32 });
        }
        Ok(self.offset() - before)
    }

    /// Takes the last key and the range tombstones into the bounds.
    fn finish_bounds(&mut self) {
        let properties = &mut self.properties;
        let mut has_bounds = properties.entry_count > 0;
        properties.largest.clone_from(&self.last_key);
        for (start, end, _) in &self.range_tombstones {
            properties.count_range_tombstone_bounds(start, end, has_bounds);
            has_bounds = true;
        }
    }
}

impl fmt::Debug for TableBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableBuilder")
            .field("uid", &self.uid)
            .field("options", &self.options)
            .field("estimated_bytes", &self.estimated_bytes())
            .finish_non_exhaustive()
    }
}

/// The moment from which on all that a table says is expired.
pub(crate) fn expired_from(properties: &TableProperties, expiring_count: u64) -> Option<WallTime> {
    let all_expire =
        expiring_count == properties.entry_count && properties.range_tombstone_count == 0;
    let (_, latest) = properties.expiries.filter(|_| all_expire)?;
    Some(latest.time())
}

impl TableProperties {
    /// Takes an entry into the counts; the pointer that it is, if it is one. What should be a
    /// pointer and is none names nothing: it is damage of its own key, told to who reads it.
    pub(crate) fn count(&mut self, entry: EntryRef<'_>) -> Option<ValuePointer> {
        let mut found = None;
        self.count_seqno(entry.seqno);
        self.entry_count += 1;
        self.raw_key_bytes += entry.key.len() as u64;
        self.raw_value_bytes += entry.value.len() as u64;
        match entry.kind {
            EntryKind::Tombstone => self.tombstone_count += 1,
            EntryKind::MergeOperand => self.merge_operand_count += 1,
            EntryKind::ValuePointer => {
                if let Ok(pointer) = ValuePointer::decode(entry.value) {
                    self.named.add(&pointer, entry.key.len());
                    found = Some(pointer);
                }
            }
            EntryKind::Value | EntryKind::RangeTombstone => {}
        }
        if let Some(expiry) = entry.expiry {
            let (least, greatest): (Expiry, Expiry) = self.expiries.unwrap_or((expiry, expiry));
            self.expiries = Some((least.min(expiry), greatest.max(expiry)));
        }
        found
    }

    /// Takes the number of an entry or range tombstone in, before it is counted.
    pub(crate) fn count_seqno(&mut self, seqno: SeqNo) {
        if self.entry_count == 0 && self.range_tombstone_count == 0 {
            self.least_seqno = seqno;
            self.greatest_seqno = seqno;
        }
        self.least_seqno = self.least_seqno.min(seqno);
        self.greatest_seqno = self.greatest_seqno.max(seqno);
    }

    /// Takes the interval of a range tombstone into the bounds, of which there may be none yet.
    pub(crate) fn count_range_tombstone_bounds(
        &mut self,
        start: &[u8],
        end: &[u8],
        has_bounds: bool,
    ) {
        if !has_bounds || start < self.smallest.as_slice() {
            self.smallest = start.to_vec();
        }
        // An exclusive end at an inclusive largest key adds nothing.
        if !has_bounds || end > self.largest.as_slice() {
            self.largest = end.to_vec();
            self.largest_is_exclusive = true;
        }
    }
}
