use std::borrow::Cow;
use std::sync::Arc;

use terrace_base::{CodecError, Corruption, EntryRef, FileId, SeqNo, compare_internal};
use xxhash_rust::xxh3::Xxh3;

use super::format::block::BlockView;
use super::format::filter::filter_hash;
use super::format::names::NameLists;
use super::format::properties::TableProperties;
use super::mashmeta::MashMeta;
use super::reader::{TableReader, entry_ref, interval_of, read_one};
use super::store::ByteInterval;
use super::store::READ_AHEAD_BYTES;
use super::stream::{OpenBlock, Pieces};
use crate::Result;

/// What a full check of a table went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// Bytes read: the whole file.
    pub bytes: u64,
    /// Data blocks.
    pub block_count: u64,
    /// Entries.
    pub entry_count: u64,
    /// XXH3-128 of the whole file.
    pub hash: u128,
}

impl TableReader {
    /// Checks everything: reads the whole file again and verifies every checksum, the order of the
    /// entries, the separators of the index, that the filter denies no key, that the properties
    /// and the lists of names are those of the entries, and, if given, the hash of the whole file.
    ///
    /// Cost: reads and decodes the whole table, past the cache; memory for two intervals of
    /// 256 KiB beside a second copy of the index and the filter, and eight to sixteen bytes a
    /// pointer. Errors: [`Error::Corruption`]
    /// (the first damage found), [`Error::Unsupported`], the store's.
    ///
    /// [`Error::Corruption`]: crate::Error::Corruption
    /// [`Error::Unsupported`]: crate::Error::Unsupported
    pub fn verify(&self, expected_hash: Option<u128>) -> Result<VerifyReport> {
        // What is in memory was verified when it was read: check what the file holds now.
        let fresh = self.reopen(Some((self.uid(), self.file_bytes())))?;
        if let Some(damage) = fresh.filter_damage() {
            return Err(damage.clone().into());
        }
        let mut check = Check::new(&fresh);
        let mut hash = Xxh3::new();
        let blocks = 0..fresh.index.block_count();
        let mut pieces = Pieces::new(Arc::clone(&fresh), blocks);
        let mut block = OpenBlock::default();
        while pieces.next_piece()? {
            hash.update(&pieces.piece);
            while pieces.next_block_in_piece(&mut block)? {
                check
                    .block(block.index, block.bytes(&pieces))
                    .map_err(|error| fresh.damaged_block(block.index, &error))?;
            }
        }
        check
            .properties()
            .map_err(|error| fresh.damaged(fresh.footer.properties.offset, &error))?;
        check.lists()?;
        let entry_count = check.found.entry_count;
        let mut offset = fresh.footer.data_bytes;
        let bytes = fresh.file_bytes();
        while offset < bytes {
            let piece_bytes = (bytes - offset).min(READ_AHEAD_BYTES);
            let interval = ByteInterval { offset, bytes: piece_bytes as usize };
            hash.update(&read_one(&*fresh.file, interval)?);
            offset += piece_bytes;
        }
        let hash = hash.digest128();
        if let Some(expected) = expected_hash
            && expected != hash
        {
            let detail = format!("the hash of the table is {hash:032x}, not {expected:032x}");
            return Err(Corruption::new(fresh.name(), 0, detail).into());
        }
        let block_count = fresh.index.block_count() as u64;
        Ok(VerifyReport { bytes, block_count, entry_count, hash })
    }
}

/// What has been seen of a table so far.
struct Check<'a> {
    reader: &'a TableReader,
    found: TableProperties,
    names: NameLists,
    key: Vec<u8>,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
}

impl Check<'_> {
    fn new(reader: &TableReader) -> Check<'_> {
        let stored = reader.properties();
        // What the entries do not say is taken as it stands.
        let (created, lists) = (stored.created, stored.lists.clone());
        let found = TableProperties { created, lists, ..TableProperties::default() };
        let (key, last_key, names) = (Vec::new(), Vec::new(), NameLists::default());
        Check { reader, found, names, key, last_key, last_seqno: SeqNo::ZERO }
    }

    fn block(&mut self, block_index: usize, bytes: &[u8]) -> std::result::Result<(), CodecError> {
        let error = |what| Err(CodecError { offset: 0, what });
        let view = BlockView::parse(bytes)?;
        view.check_layout()?;
        let mut key = std::mem::take(&mut self.key);
        for entry_index in 0..view.count() {
            let entry = view.entry(entry_index)?;
            view.key_into(entry_index, &entry, &mut key);
            if entry_index == 0 && block_index > 0 {
                let (separator, seqno) = self.separator(block_index - 1);
                if compare_internal(&separator, seqno, &key, entry.seqno).is_ge() {
                    return error("the separator before the block is not below its entries");
                }
            }
            self.entry(entry_ref(&key, &entry, bytes), entry.same_key)?;
            let trie = self.reader.index.trie();
            let is_found = |trie: &MashMeta| trie.find(&key, entry.seqno) == Some(block_index);
            if !trie.is_none_or(is_found) {
                return error("the trie does not know a key of the block, or in another");
            }
        }
        self.key = key;
        let (separator, seqno) = self.separator(block_index);
        if compare_internal(&self.last_key, self.last_seqno, &separator, seqno).is_gt() {
            return error("the separator of the block is below its last entry");
        }
        Ok(())
    }

    /// A separator as a place in internal order: the number 0 comes after every version.
    fn separator(&self, block_index: usize) -> (Cow<'_, [u8]>, SeqNo) {
        let index = &self.reader.index;
        let seqno = index.goes_on_after(block_index).unwrap_or(SeqNo::ZERO);
        (index.separator(block_index), seqno)
    }

    fn entry(
        &mut self,
        entry: EntryRef<'_>,
        same_key: bool,
    ) -> std::result::Result<(), CodecError> {
        let error = |what| Err(CodecError { offset: 0, what });
        let is_first = self.found.entry_count == 0;
        let is_new_key = is_first || self.last_key != entry.key;
        let order = compare_internal(&self.last_key, self.last_seqno, entry.key, entry.seqno);
        if !is_first && order.is_ge() {
            return error("entries out of order");
        }
        if same_key == is_new_key {
            return error("an entry is wrongly marked as having the same key as the one before");
        }
        if is_new_key {
            if !self.reader.may_contain(filter_hash(entry.key)) {
                return error("the filter denies a key of the block");
            }
            if is_first {
                self.found.smallest = entry.key.to_vec();
            }
            self.found.key_count += 1;
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        self.last_seqno = entry.seqno;
        if let Some(pointer) = self.found.count(entry) {
            self.names.add(pointer.name);
        }
        Ok(())
    }

    /// Compares what was found to the stored properties.
    fn properties(&mut self) -> std::result::Result<(), CodecError> {
        let mut has_bounds = self.found.entry_count > 0;
        self.found.largest.clone_from(&self.last_key);
        for range_tombstone in self.reader.range_tombstones().iter() {
            let (start, end) = (range_tombstone.start, range_tombstone.end);
            self.found.count_range_tombstone_bounds(start, end, has_bounds);
            self.found.count_seqno(range_tombstone.seqno);
            self.found.range_tombstone_count += 1;
            has_bounds = true;
        }
        self.found.block_count = self.reader.index.block_count() as u64;
        self.found.data_bytes = self.reader.footer.data_bytes;
        if self.found == *self.reader.properties() {
            Ok(())
        } else {
            let what = "the properties are not those of the entries";
            Err(CodecError { offset: 0, what })
        }
    }

    /// Compares the values that entries point to with the lists of them, if there are lists.
    /// Segments and counts are those of the properties, which were compared before.
    fn lists(&mut self) -> Result<()> {
        if !self.reader.has_lists() {
            return Ok(());
        }
        let mut found = std::mem::take(&mut self.names).into_sorted().into_iter();
        for place in self.reader.list_places() {
            let frame = read_one(&*self.reader.file, interval_of(place.handle))?;
            let lists = self.reader.lists_in(&place, &frame)?;
            for (listed, (segment, pointed)) in lists.iter().zip(found.by_ref()) {
                if *listed != pointed {
                    let detail = differing(segment, listed, &pointed);
                    let name = self.reader.name();
                    return Err(Corruption::new(name, place.handle.offset, detail).into());
                }
            }
        }
        Ok(())
    }
}

/// In what the list of a segment differs from what entries point to.
fn differing(segment: FileId, listed: &[u64], pointed: &[u64]) -> String {
    let (lacks, extra) = (beyond(pointed, listed), beyond(listed, pointed));
    format!(
        "the list of the values of segment {segment} lacks {} that entries point to{} and has {} \
         that none points to{}: garbage collection goes by it; `terrace repair` goes by the entries \
         and loses nothing",
        lacks.len(),
        first_of(&lacks),
        extra.len(),
        first_of(&extra),
    )
}

/// What of `all`, which ascend, is not in `others`, which ascend too.
fn beyond(all: &[u64], others: &[u64]) -> Vec<u64> {
    let mut others = others.iter().copied().peekable();
    let mut left = Vec::new();
    for offset in all {
        while others.next_if(|other| other < offset).is_some() {}
        if others.next_if_eq(offset).is_none() {
            left.push(*offset);
        }
    }
    left
}

/// The first of some offsets, to be told.
fn first_of(offsets: &[u64]) -> String {
    offsets.first().map_or_else(String::new, |first| format!(" (the first at offset {first})"))
}
