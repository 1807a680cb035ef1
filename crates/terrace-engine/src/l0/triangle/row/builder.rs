use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use terrace_base::limits::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use terrace_base::{
    EntryKind, EntryRef, KeyRange, SeqNo, TableUid, WallTime, common_prefix_bytes,
    compare_internal, hint_of,
};
use xxhash_rust::xxh3::Xxh3;

use super::fences::Fences;
use super::format::{
    DATA_BYTES_MAX, ELEMENT_BYTES, ENTRIES_MAX, Element, Head, ListedPage, METADATA_PLACE,
    PREDECESSORS_MAX, Rest, RowEntry, encode_list_page, page_checksum,
};
use super::hints::Hint;
use super::reader::{RowLocation, RowReader};
use crate::l0::triangle::{Page, Pages};
use crate::range_tombstone::{Fragments, RangeTombstone};
use crate::table::format::filter::{self, Filter};
use crate::table::format::range_tombstones;
use crate::table::{BuiltTable, TableProperties, expired_from, filter_hash};
use crate::{Error, Result};

/// What a call to a [`RowBuilder`] brings.
pub type RowResult<T> = std::result::Result<T, RowError>;

/// Why a row was not built. Its pages are given back when the builder is dropped.
#[derive(Debug)]
#[non_exhaustive]
pub enum RowError {
    /// There are not enough free pages. Nothing is wrong: a cut frees some.
    NoPages,
    /// The row has as many entries or bytes as a row can: see [`RowBuilder::is_full`].
    TooLarge,
    /// Something failed.
    Failed(Error),
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowError::NoPages => f.write_str("L0 has not enough free pages for the row"),
            RowError::TooLarge => f.write_str("a row cannot have more entries or bytes"),
            RowError::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RowError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RowError::NoPages | RowError::TooLarge => None,
            RowError::Failed(error) => Some(error),
        }
    }
}

impl From<Error> for RowError {
    fn from(error: Error) -> RowError {
        RowError::Failed(error)
    }
}

/// An older row, which hints may point into.
#[derive(Clone, Debug)]
pub struct Predecessor {
    /// The row.
    pub row: Arc<RowReader>,
    /// Where it is live, if not everywhere: intervals that ascend and do not touch.
    pub parts: Option<Arc<[KeyRange]>>,
}

/// A finished row.
#[derive(Debug)]
pub struct BuiltRow {
    /// What versions will know of it. `bytes` are those of its pages, and `hash` is that of data
    /// and metadata, one behind the other.
    pub meta: BuiltTable,
    /// The row, open, with its pages.
    pub reader: Arc<RowReader>,
}

/// Writes one row, front to back.
///
/// Entries come in internal order. Pages are taken as they are needed, and all given back if the
/// builder is dropped before it has finished. Memory: sixteen bytes an entry, eight a key if there
/// is to be a filter, the fences, a page. No allocation for each entry. One thread from the first
/// entry to the last, since a fence covers what its own thread flushed.
pub struct RowBuilder {
    pages: Arc<Pages>,
    uid: TableUid,
    data: PageWriter,
    hash: Xxh3,
    elements: Vec<Element>,
    /// Bits of filter for each key, and the keys' hashes; none are kept for no bits.
    filter_bits_per_key: u32,
    key_hashes: Vec<u64>,
    /// Pairs of an element and of the bytes of the prefix behind which the bytes of keys stand from
    /// that element on, ascending and descending.
    prefixes: Vec<(usize, usize)>,
    fences: Fences,
    walk: Walk,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    last_seqno: SeqNo,
    base: SeqNo,
    front: Vec<u8>,
    /// The neighbouring keys up to the last one that are deleted, and the most there were of such.
    tombstone_run: u64,
    tombstone_run_max: u64,
    expiring_count: u64,
    properties: TableProperties,
    /// The most entries, and the most bytes of data.
    limits: (usize, u64),
}

impl RowBuilder {
    /// Begins a row. `uid` is random and was never used before; `created` is now. `predecessors`,
    /// the newest first, are the older rows in the state that the row will join; those beyond 255
    /// get no hints.
    #[must_use]
    pub fn new(
        pages: &Arc<Pages>,
        uid: TableUid,
        created: WallTime,
        predecessors: Vec<Predecessor>,
    ) -> RowBuilder {
        RowBuilder {
            pages: Arc::clone(pages),
            uid,
            data: PageWriter::new(pages, uid, 0),
            hash: Xxh3::new(),
            elements: Vec::new(),
            filter_bits_per_key: 0,
            key_hashes: Vec::new(),
            prefixes: Vec::new(),
            fences: Fences::default(),
            walk: Walk::new(predecessors),
            first_key: Vec::new(),
            last_key: Vec::new(),
            last_seqno: SeqNo::ZERO,
            base: SeqNo::ZERO,
            front: Vec::new(),
            tombstone_run: 0,
            tombstone_run_max: 0,
            expiring_count: 0,
            properties: TableProperties { created, ..TableProperties::default() },
            limits: (ENTRIES_MAX, DATA_BYTES_MAX),
        }
    }

    /// With a filter of this number of bits for each distinct key: as
    /// [`TableOptions::filter_bits_per_key`](crate::table::TableOptions::filter_bits_per_key), 0
    /// for none.
    #[must_use]
    pub fn with_filter(mut self, bits_per_key: u32) -> RowBuilder {
        self.filter_bits_per_key = bits_per_key.min(filter::BITS_PER_KEY_MAX);
        self
    }

    /// With lower bounds than a row's own.
    #[cfg(test)]
    pub(super) fn with_limits(mut self, entries_max: usize, data_bytes_max: u64) -> RowBuilder {
        self.limits = (entries_max, data_bytes_max);
        self
    }

    /// Adds the next entry in internal order. After an error the builder is of no use.
    ///
    /// Errors: [`RowError::NoPages`], [`RowError::TooLarge`]; a predecessor's damage.
    ///
    /// # Panics
    /// If the entry does not come after the one before, is a range tombstone, or exceeds the bounds
    /// on keys and values: the caller's mistake, and a row must not be built from it.
    pub fn add(&mut self, entry: EntryRef<'_>) -> RowResult<()> {
        assert!(entry.kind != EntryKind::RangeTombstone, "range tombstones lie beside the entries");
        assert!(entry.key.len() <= STORED_KEY_BYTES_MAX, "the key is too long");
        assert!(entry.value.len() <= VALUE_BYTES_MAX, "the value is too long");
        let is_first = self.elements.is_empty();
        let same_key = !is_first && self.last_key == entry.key;
        assert!(
            is_first
                || compare_internal(&self.last_key, self.last_seqno, entry.key, entry.seqno)
                    .is_lt(),
            "entries come in internal order"
        );
        if is_first {
            self.base = entry.seqno;
        }
        self.front.clear();
        RowEntry::encode_front(entry, self.base, same_key, &mut self.front);
        let offset = self.data.bytes;
        let entry_bytes = (self.front.len() + entry.value.len()) as u64;
        let (entries_max, data_bytes_max) = self.limits;
        if self.elements.len() == entries_max || offset + entry_bytes > data_bytes_max {
            return Err(RowError::TooLarge);
        }
        self.data.append(&self.front, &mut self.hash)?;
        self.data.append(entry.value, &mut self.hash)?;
        let page = (offset / self.pages.page_bytes() as u64) as usize;
        self.fences.add(page, (!is_first).then_some(&self.last_key), entry.key);
        let hint = match self.elements.last() {
            Some(last) if same_key => last.hint,
            _ => self.walk.hint(entry.key)?,
        };
        if !same_key {
            self.begin_key(&entry, is_first);
        }
        let bytes = match self.elements.last() {
            Some(last) if same_key => last.bytes,
            _ => self.bytes_behind_prefix(entry.key),
        };
        // Less than 2^32, as it lies below the end of the data.
        self.elements.push(Element { bytes, offset: offset as u32, hint });
        self.last_seqno = entry.seqno;
        self.expiring_count += u64::from(entry.expiry.is_some());
        let _pointer = self.properties.count(entry);
        Ok(())
    }

    fn begin_key(&mut self, entry: &EntryRef<'_>, is_first: bool) {
        self.properties.key_count += 1;
        if self.filter_bits_per_key > 0 {
            self.key_hashes.push(filter_hash(entry.key));
        }
        if is_first {
            self.first_key.extend_from_slice(entry.key);
        }
        // The newest entry of a key comes first: it says whether the key is deleted.
        let is_tombstone = entry.kind == EntryKind::Tombstone;
        self.tombstone_run = if is_tombstone { self.tombstone_run + 1 } else { 0 };
        self.tombstone_run_max = self.tombstone_run_max.max(self.tombstone_run);
        self.last_key.clear();
        self.last_key.extend_from_slice(entry.key);
    }

    /// The first bytes of `key`, which becomes that of the next element, behind the prefix that all
    /// keys have so far; notes if that is shorter now.
    fn bytes_behind_prefix(&mut self, key: &[u8]) -> u64 {
        let prefix_bytes = match self.prefixes.last() {
            Some((_, before)) => common_prefix_bytes(&self.first_key[..*before], key),
            None => key.len(),
        };
        if self.prefixes.last().is_none_or(|(_, before)| prefix_bytes < *before) {
            self.prefixes.push((self.elements.len(), prefix_bytes));
        }
        u64::from_be_bytes(hint_of(&key[prefix_bytes..]))
    }

    /// Puts the bytes of all elements behind the prefix that all keys have; returns its length.
    fn settle_prefix(&mut self) -> usize {
        let Some((_, shortest)) = self.prefixes.last().copied() else { return 0 };
        let mut end = self.elements.len();
        for (start, before) in self.prefixes.iter().rev().copied() {
            // What the longer prefix had more comes before what stood behind it.
            let more = u64::from_be_bytes(hint_of(&self.first_key[shortest..before]));
            let shift = 8 * (before - shortest).min(8) as u32;
            for element in &mut self.elements[start..end] {
                element.bytes = more | element.bytes.checked_shr(shift).unwrap_or(0);
            }
            end = start;
        }
        shortest
    }

    /// The key of the last entry, if there is one.
    #[must_use]
    pub fn last_key(&self) -> Option<&[u8]> {
        (!self.is_empty()).then_some(self.last_key.as_slice())
    }

    /// Whether nothing has been added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Whether the next new key ought to begin another row: three quarters of what a row can hold
    /// are used, so that the versions of the present key still fit.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let (entries_max, data_bytes_max) = self.limits;
        self.elements.len() >= entries_max / 4 * 3 || self.data.bytes >= data_bytes_max / 4 * 3
    }

    /// How many bytes of pages the row would have if it were finished now with no range tombstones,
    /// or a few more.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        // What surrounds the keys that properties, prefix and the end of the fences have.
        const REST_BYTES: usize = 256;
        let keys_bytes = 2 * self.first_key.len() + 3 * self.last_key.len();
        let filter_bytes = match self.key_hashes.len() {
            0 => 0,
            keys => filter::encoded_bytes(keys, self.filter_bits_per_key),
        };
        let metadata_bytes = self.elements.len() * ELEMENT_BYTES
            + filter_bytes
            + self.fences.estimated_bytes()
            + self.walk.rows.len() * size_of::<TableUid>()
            + keys_bytes
            + REST_BYTES;
        let page_bytes = self.pages.page_bytes();
        let data_pages = self.data.bytes.div_ceil(page_bytes as u64) as usize;
        let listed = data_pages + metadata_bytes.div_ceil(page_bytes);
        ((listed + Head::list_pages(listed, page_bytes).len()) * page_bytes) as u64
    }

    /// Writes the rest and makes the row durable; `None` if it is empty, and there are no range
    /// tombstones. No version names it yet, and so nothing does.
    ///
    /// Errors: [`RowError::NoPages`]; [`RowError::TooLarge`] if the metadata outgrow 4 GiB;
    /// [`Error::Poisoned`] if it could not be made durable.
    pub fn finish(mut self, tombstones: &Fragments) -> RowResult<Option<BuiltRow>> {
        if self.is_empty() && tombstones.is_empty() {
            return Ok(None);
        }
        let data_bytes = self.data.bytes;
        self.data.finish(&mut self.hash)?;
        let data_pages = self.data.listed.len();
        self.fences.finish(data_pages, &self.last_key);
        self.properties.block_count = data_pages as u64;
        self.properties.data_bytes = data_bytes;
        self.finish_bounds(tombstones);

        let mut metadata = PageWriter::new(&self.pages, self.uid, METADATA_PLACE);
        let prefix_bytes = self.settle_prefix();
        for element in &self.elements {
            metadata.append(&element.encode(), &mut self.hash)?;
        }
        let rest = self.encode_rest(prefix_bytes, tombstones);
        metadata.append(&rest, &mut self.hash)?;
        if metadata.bytes > u64::from(u32::MAX) {
            return Err(RowError::TooLarge);
        }
        metadata.finish(&mut self.hash)?;
        let head = Head {
            uid: self.uid,
            entry_count: self.elements.len() as u32,
            metadata_bytes: metadata.bytes,
            data_bytes,
        };
        let mut list = metadata.listed;
        list.extend_from_slice(&self.data.listed);
        let head_pages = write_head(&self.pages, &head, &list)?;
        // Everything was flushed as it was stored. Nothing names the row before a version edit
        // does, so this is the only order that there is.
        self.pages.fence()?;
        let location = RowLocation(head_pages[0].number());
        let reader = self.open(location, [head_pages, metadata.pages])?;
        let properties = reader.properties().clone();
        assert_eq!(properties, self.properties, "a row reads otherwise than it was written");
        let meta = BuiltTable {
            location: location.encode(),
            uid: self.uid,
            bytes: reader.file_bytes(),
            hash: self.hash.digest128(),
            tombstone_run: self.tombstone_run_max,
            expired_from: expired_from(&properties, self.expiring_count),
            properties,
        };
        Ok(Some(BuiltRow { meta, reader }))
    }

    /// Opens the row from the very pages that it was written to.
    fn open(&mut self, location: RowLocation, others: [Vec<Page>; 2]) -> Result<Arc<RowReader>> {
        let data = std::mem::take(&mut self.data.pages);
        let written = others.into_iter().flatten().chain(data);
        let mut written: BTreeMap<u32, Page> = written.map(|page| (page.number(), page)).collect();
        let path = self.pages.path();
        RowReader::assemble(&self.pages, location, None, &[], &mut |number| {
            written.remove(&number).ok_or_else(|| {
                let detail = "a row that was just written names another page";
                let offset = self.pages.offset_of(number);
                terrace_base::Corruption::new(path, offset, detail).into()
            })
        })
    }

    fn encode_rest(&self, prefix_bytes: usize, tombstones: &Fragments) -> Vec<u8> {
        let mut encoded_tombstones = Vec::new();
        if !tombstones.is_empty() {
            let mut all: Vec<RangeTombstone<'_>> = tombstones.iter().collect();
            all.sort_unstable_by_key(|one| (one.start, Reverse(one.seqno), one.end));
            range_tombstones::put_count(&mut encoded_tombstones, all.len());
            for RangeTombstone { start, end, seqno } in all {
                let out = &mut encoded_tombstones;
                range_tombstones::put_range_tombstone(out, start, end, seqno);
            }
        }
        let mut properties = Vec::new();
        self.properties.encode(&mut properties);
        let mut filter = Vec::new();
        if !self.key_hashes.is_empty() {
            Filter::build(&self.key_hashes, self.filter_bits_per_key).encode(&mut filter);
        }
        let rest = Rest {
            base: self.base,
            prefix: &self.first_key[..prefix_bytes],
            predecessors: self.walk.rows.iter().map(|(row, ..)| row.row.uid()).collect(),
            fences: self.fences.clone(),
            range_tombstones: &encoded_tombstones,
            properties: &properties,
            filter: &filter,
        };
        let mut out = Vec::new();
        rest.encode(&mut out);
        out
    }

    /// Takes the keys' bounds and the range tombstones into the properties.
    fn finish_bounds(&mut self, tombstones: &Fragments) {
        let properties = &mut self.properties;
        let mut has_bounds = properties.entry_count > 0;
        properties.smallest.clone_from(&self.first_key);
        properties.largest.clone_from(&self.last_key);
        for tombstone in tombstones {
            let (start, end) = (tombstone.start, tombstone.end);
            properties.count_range_tombstone_bounds(start, end, has_bounds);
            properties.count_seqno(tombstone.seqno);
            properties.range_tombstone_count += 1;
            has_bounds = true;
        }
    }
}

impl fmt::Debug for RowBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowBuilder")
            .field("uid", &self.uid)
            .field("entries", &self.elements.len())
            .field("estimated_bytes", &self.estimated_bytes())
            .finish_non_exhaustive()
    }
}

/// Pages that are filled one after the other: the data's or the metadata's.
struct PageWriter {
    from: Arc<Pages>,
    uid: TableUid,
    /// Where the first page lies, for checksums.
    place: u64,
    /// What the present page holds.
    image: Vec<u8>,
    /// How many bytes were appended.
    bytes: u64,
    pages: Vec<Page>,
    listed: Vec<ListedPage>,
}

impl PageWriter {
    fn new(from: &Arc<Pages>, uid: TableUid, place: u64) -> PageWriter {
        let (pages, listed) = (Vec::new(), Vec::new());
        PageWriter {
            from: Arc::clone(from),
            uid,
            place,
            image: Vec::new(),
            bytes: 0,
            pages,
            listed,
        }
    }

    fn append(&mut self, mut bytes: &[u8], hash: &mut Xxh3) -> RowResult<()> {
        self.bytes += bytes.len() as u64;
        while !bytes.is_empty() {
            let room = self.from.page_bytes() - self.image.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.image.extend_from_slice(now);
            bytes = later;
            if self.image.len() == self.from.page_bytes() {
                hash.update(&self.image);
                self.write()?;
            }
        }
        Ok(())
    }

    /// Writes what is left.
    fn finish(&mut self, hash: &mut Xxh3) -> RowResult<()> {
        hash.update(&self.image);
        if !self.image.is_empty() {
            self.image.resize(self.from.page_bytes(), 0);
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> RowResult<()> {
        let mut page = take_pages(&self.from, 1)?.remove(0);
        page.store(0, &self.image);
        let place = self.place + (self.listed.len() * self.image.len()) as u64;
        let checksum = page_checksum(self.uid, place, &self.image);
        self.listed.push(ListedPage { number: page.number(), checksum });
        self.pages.push(page);
        self.image.clear();
        Ok(())
    }
}

fn take_pages(pages: &Arc<Pages>, count: usize) -> RowResult<Vec<Page>> {
    pages.take(count).ok_or(RowError::NoPages)
}

fn write_head(pages: &Arc<Pages>, head: &Head, list: &[ListedPage]) -> RowResult<Vec<Page>> {
    let page_bytes = pages.page_bytes();
    let parts = Head::list_pages(list.len(), page_bytes);
    let mut head_pages = take_pages(pages, parts.len())?;
    for (index, part) in parts.enumerate() {
        let next = head_pages.get(index + 1).map_or(0, Page::number);
        let image = match index {
            0 => head.encode(&list[part], next, page_bytes),
            _ => encode_list_page(head.uid, index, &list[part], next, page_bytes),
        };
        head_pages[index].store(0, &image);
    }
    Ok(head_pages)
}

/// The way of a row's keys along its predecessors: forward only, so that all hints together cost
/// about one pass over the bytes of their elements.
struct Walk {
    /// The newest first; how far each was passed, and the part of it that the keys have reached.
    rows: Vec<(Predecessor, usize, usize)>,
}

impl Walk {
    fn new(mut predecessors: Vec<Predecessor>) -> Walk {
        predecessors.truncate(PREDECESSORS_MAX);
        Walk { rows: predecessors.into_iter().map(|row| (row, 0, 0)).collect() }
    }

    /// The hint of `key`, which is above all keys before.
    fn hint(&mut self, key: &[u8]) -> Result<Hint> {
        for (ordinal, (predecessor, passed, part)) in self.rows.iter_mut().enumerate() {
            let row = &predecessor.row;
            let is_within =
                row.key_bounds().is_some_and(|(first, last)| first <= key && key <= last);
            if !is_within {
                continue;
            }
            if let Some(parts) = &predecessor.parts {
                *part += parts[*part..].iter().take_while(|one| one.is_before(key)).count();
                if parts.get(*part).is_none_or(|one| !one.contains(key)) {
                    continue;
                }
            }
            *passed = row.lower_bound_from(key, *passed)?;
            return Ok(Hint::new(ordinal, *passed));
        }
        Ok(Hint::NONE)
    }
}
