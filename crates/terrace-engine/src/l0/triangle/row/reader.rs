use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{CodecError, Corruption, KeyRange, SeqNo, TableUid};

use super::cursor::RowCursor;
use super::data_pages::DataPages;
use super::fences::{Fences, joined};
use super::format::{ELEMENT_BYTES, Element, Head, ListedPage, RowEntry, page_checksum};
use super::hints::{Hint, Hinting, SeekTrail};
use super::search::Bound;
use super::stream::RowStream;
use crate::l0::triangle::{Page, Pages};
use crate::placement::Form;
use crate::range_tombstone::Fragments;
use crate::table::format::filter::Filter;
use crate::table::{PinnedEntry, TableLocation, TableProperties};
use crate::{Error, Result};

/// Bytes that the front of an entry, all but its value, has at most.
pub(super) const FRONT_BYTES_MAX: usize = STORED_KEY_BYTES_MAX + 32;

/// Where a row lies: the number of its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowLocation(pub u32);

impl RowLocation {
    /// As versions and the manifest keep it.
    #[must_use]
    pub fn encode(self) -> TableLocation {
        TableLocation::of_page(self.0)
    }

    /// The inverse of [`RowLocation::encode`]; `None` if it is not the location of a row.
    #[must_use]
    pub fn decode(location: &TableLocation) -> Option<RowLocation> {
        match location.form() {
            Form::Page(number) => Some(RowLocation(number)),
            Form::File => None,
        }
    }
}

/// One row, open for reading where it lies. Any number of threads may read at once.
///
/// Keys that are consumed are not asked for: what is answered about them, nothing or what was
/// there, depends on which pages are gone. In memory there are the fences, the filter, a word for
/// each page of elements, and a few for each page of data.
pub struct RowReader {
    pub(super) pages: Arc<Pages>,
    pub(super) location: RowLocation,
    pub(super) head: Head,
    /// The pages of metadata and data, as the head lists them.
    pub(super) list: Vec<ListedPage>,
    pub(super) head_pages: Vec<Page>,
    pub(super) metadata: Vec<Page>,
    /// Of each page of elements the first one's bytes.
    pub(super) top: Vec<u64>,
    pub(super) base: SeqNo,
    pub(super) prefix: Box<[u8]>,
    pub(super) predecessors: Vec<TableUid>,
    pub(super) fences: Fences,
    pub(super) range_tombstones: Arc<Fragments>,
    pub(super) properties: TableProperties,
    pub(super) filter: Option<Arc<Filter>>,
    /// Its pages of data.
    pub(super) data: DataPages,
    /// A page has 2^shift bytes.
    pub(super) shift: u32,
}

/// A page of data that was given back, by its place among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone(pub(super) usize);

/// What a look at an element brought.
enum Looked {
    /// It is a visible version of the key.
    Found(PinnedEntry),
    /// It is of the key, and too new.
    TooNew,
    /// It is of another key, or gone.
    Another,
}

impl Looked {
    fn found(self) -> Option<PinnedEntry> {
        match self {
            Looked::Found(entry) => Some(entry),
            Looked::TooNew | Looked::Another => None,
        }
    }
}

/// An entry as a cursor or a stream stands on it: in a page, or copied if it lies in several.
#[derive(Debug)]
pub(super) struct LoadedEntry {
    pub(super) index: usize,
    pub(super) entry: RowEntry,
    page: Option<(usize, Arc<Page>)>,
    /// Where the entry lies in the page; if it is not copied.
    place: Option<Range<usize>>,
    copied: Vec<u8>,
}

impl Default for LoadedEntry {
    fn default() -> LoadedEntry {
        let entry = RowEntry {
            seqno: SeqNo::ZERO,
            expiry: None,
            key_at: 0,
            key_end: 0,
            value_at: 0,
            kind: terrace_base::EntryKind::Value,
            same_key: false,
        };
        LoadedEntry { index: usize::MAX, entry, page: None, place: None, copied: Vec::new() }
    }
}

impl LoadedEntry {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match (&self.place, &self.page) {
            (Some(place), Some((_, page))) => &page[place.clone()],
            _ => &self.copied,
        }
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.entry.key(self.bytes())
    }
}

impl RowReader {
    /// As [`Fences::is_dead`].
    pub(super) fn is_dead(&self, page: usize, consumed: &[KeyRange]) -> bool {
        self.fences.is_dead(page, consumed, || self.low_of(page))
    }

    /// Gives back every page of which nothing is needed when the keys in `consumed` (in any order)
    /// are not. Who still stands on one of them keeps it until it lets go. Returns how many pages
    /// were given up by this call.
    ///
    /// The caller promises that a durable edit consumed them, and that nobody will ask for them
    /// again: that no version is pinned at which they are live.
    pub fn release(&self, consumed: &[KeyRange]) -> usize {
        self.release_newly(consumed, consumed)
    }

    /// As [`RowReader::release`], when all but the keys in `newly` had been given back before: so
    /// it costs what these need.
    pub fn release_newly(&self, consumed: &[KeyRange], newly: &[KeyRange]) -> usize {
        let consumed = joined(consumed);
        let mut released = 0;
        for keys in newly.iter().filter(|keys| !keys.is_empty()) {
            let first = self.fences.pages_around(keys.start()).start;
            // The first entry of which a page holds a byte may begin far before it.
            let reaches = |page: &usize| {
                !keys.is_before(self.fences.of(*page)) || !keys.is_before(&self.low_of(*page))
            };
            for page in (first..self.fences.page_count()).take_while(reaches) {
                if self.data.has(page) && self.is_dead(page, &consumed) {
                    released += usize::from(self.data.give_up(page));
                }
            }
        }
        released
    }

    /// The row's own identity.
    #[must_use]
    pub fn uid(&self) -> TableUid {
        self.head.uid
    }

    /// Where it lies.
    #[must_use]
    pub fn location(&self) -> RowLocation {
        self.location
    }

    /// How many entries it has.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.head.entry_count as usize
    }

    /// Whether it has no entries, but range tombstones only.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is known about the row as a whole; data blocks are its pages of data.
    #[must_use]
    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// Whether a key may have an entry; `hash` is its [`filter_hash`](crate::table::filter_hash).
    /// `true` if there is no filter. Never `false` for a key that has one. Cost: one cache line.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// The filter, if there is one.
    #[must_use]
    #[inline]
    pub fn filter(&self) -> Option<&Arc<Filter>> {
        self.filter.as_ref()
    }

    /// The range tombstones. Gets, cursors and streams do not apply them.
    #[must_use]
    pub fn range_tombstones(&self) -> &Arc<Fragments> {
        &self.range_tombstones
    }

    /// The smallest and the largest key of an entry; `None` if there are no entries.
    #[must_use]
    pub fn key_bounds(&self) -> Option<(&[u8], &[u8])> {
        self.fences.bounds()
    }

    /// The bytes of all pages that it was written in, those that are gone included.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        ((self.head_pages.len() + self.list.len()) as u64) << self.shift
    }

    /// The bytes of the pages that it has.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let data = self.data.held().count();
        ((self.head_pages.len() + self.metadata.len() + data) as u64) << self.shift
    }

    /// Bytes of memory that the open row holds beside its pages.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        // A page: its claim, its ticket, and two counts.
        let page_bytes = size_of::<Page>() + 16;
        let pages = self.head_pages.len() + self.list.len();
        size_of::<RowReader>()
            + pages * (page_bytes + size_of::<ListedPage>() + size_of::<usize>())
            + size_of_val(&self.top[..])
            + self.data.memory_bytes()
            + self.fences.memory_bytes()
            + self.filter.as_ref().map_or(0, |filter| filter.memory_bytes())
            + size_of_val(&self.predecessors[..])
            + self.range_tombstones.memory_bytes()
    }

    /// The index of the first element with a key at or above `key`; [`RowReader::len`] if there is
    /// none. Cost: a search over the elements, and one entry for each doubling of those that share
    /// their bytes with `key`.
    #[inline]
    pub fn lower_bound(&self, key: &[u8]) -> Result<usize> {
        self.search(key, Bound::Key, 0..self.len())
    }

    /// As [`RowReader::lower_bound`], when it is known to be in `within` or its end; see
    /// [`SearchTrail::within`](super::SearchTrail::within).
    #[inline]
    pub fn lower_bound_within(&self, key: &[u8], within: Range<usize>) -> Result<usize> {
        self.search(key, Bound::Key, within)
    }

    /// The key of an element, which there is; `None` if its page is gone.
    pub fn key(&self, index: usize) -> Result<Option<Vec<u8>>> {
        Ok(self.front(index, |entry, bytes| entry.key(bytes).to_vec())?.ok())
    }

    /// The newest entry of `key` at or below `read_point`, tombstones and expired entries included.
    /// Range tombstones are not applied, and the filter is not asked.
    ///
    /// Cost: as [`RowReader::lower_bound`]; no copy if the entry lies in one page. Errors:
    /// [`Error::Corruption`].
    pub fn get(&self, key: &[u8], read_point: SeqNo) -> Result<Option<PinnedEntry>> {
        let tied = self.tied(key, 0..self.len());
        let index = match tied.len() {
            0 => return Ok(None),
            // Most often one entry is left, and the look at it is the comparison.
            1 => tied.start,
            _ => self.search_tied(key, Bound::AtOrBelow(read_point), tied)?,
        };
        Ok(self.look(index, key, read_point)?.found())
    }

    /// As [`RowReader::get`], when `index` is the [lower bound](RowReader::lower_bound) of `key`.
    pub fn get_at(
        &self,
        index: usize,
        key: &[u8],
        read_point: SeqNo,
    ) -> Result<Option<PinnedEntry>> {
        match self.look(index, key, read_point)? {
            Looked::TooNew => {
                let within = index + 1..self.len();
                let index = self.search(key, Bound::AtOrBelow(read_point), within)?;
                Ok(self.look(index, key, read_point)?.found())
            }
            looked => Ok(looked.found()),
        }
    }

    /// Looks whether an element, if there is one, is of a visible version of `key`.
    #[inline]
    fn look(&self, index: usize, key: &[u8], read_point: SeqNo) -> Result<Looked> {
        if index >= self.len() {
            return Ok(Looked::Another);
        }
        let place = self.place(index);
        let entry_bytes = (place.end - place.start) as usize;
        let at = place.start as usize & self.page_mask();
        if at + entry_bytes > self.page_bytes() {
            return self.look_across(index, key, read_point);
        }
        let page = self.page((place.start >> self.shift) as usize)?;
        let Some(page) = page else { return Ok(Looked::Another) };
        let bytes = &page[at..at + entry_bytes];
        let entry = RowEntry::decode(bytes, self.base)
            .map_err(|error| self.damaged_entry(index, &error))?;
        Ok(match entry.key(bytes) == key {
            true if entry.seqno <= read_point => {
                let value = at as u32 + entry.value_at..(at + entry_bytes) as u32;
                Looked::Found(PinnedEntry::in_page(page, &entry, value))
            }
            true => Looked::TooNew,
            false => Looked::Another,
        })
    }

    /// As [`RowReader::look`], for an entry that lies in several pages.
    fn look_across(&self, index: usize, key: &[u8], read_point: SeqNo) -> Result<Looked> {
        match self.front(index, |entry, bytes| (entry.key(bytes) == key).then_some(*entry))? {
            Ok(Some(entry)) if entry.seqno <= read_point => {
                Ok(self.pin(index, &entry)?.map_or(Looked::Another, Looked::Found))
            }
            Ok(Some(_)) => Ok(Looked::TooNew),
            Ok(None) | Err(Gone(_)) => Ok(Looked::Another),
        }
    }

    /// Pins the entry with this index, which was decoded. Cost: a copy if it lies in several pages.
    fn pin(&self, index: usize, entry: &RowEntry) -> Result<Option<PinnedEntry>> {
        let place = self.place(index);
        let value = place.start + u64::from(entry.value_at)..place.end;
        let value_bytes = (value.end - value.start) as usize;
        // An empty value may lie behind the last page.
        let start = if value_bytes > 0 { value.start } else { place.start };
        let at = start as usize & self.page_mask();
        if at + value_bytes <= self.page_bytes() {
            let page = self.page((start >> self.shift) as usize)?;
            let Some(page) = page else { return Ok(None) };
            let value = at as u32..(at + value_bytes) as u32;
            return Ok(Some(PinnedEntry::in_page(page, entry, value)));
        }
        let mut copy: Arc<[u8]> = std::iter::repeat_n(0, value_bytes).collect();
        let target = Arc::get_mut(&mut copy).expect("nobody else knows the new copy");
        match self.gather(value.start, target)? {
            Ok(()) => Ok(Some(PinnedEntry::copied(copy, entry))),
            Err(Gone(_)) => Ok(None),
        }
    }

    /// A cursor over the keys that have a version at or below `read_point`. It stands nowhere yet.
    /// Keys whose pages are gone it passes over. `trail`: what it shares with the cursors over
    /// other rows of the same scan.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, read_point: SeqNo, trail: Option<Arc<SeekTrail>>) -> RowCursor {
        RowCursor::new(Arc::clone(self), read_point, trail)
    }

    /// Every version of every key in `range`: for cuts. Stands on its first entry. Checks each page
    /// that it reads, whether it was checked before or not, and passes over keys whose pages are
    /// gone.
    pub fn stream(self: &Arc<Self>, range: &KeyRange) -> Result<RowStream> {
        RowStream::new(Arc::clone(self), range)
    }

    /// About `count` keys of the row, ascending, each with the bytes of data between it and the one
    /// before, those of gone pages included: where a job could be divided. Touches no page.
    pub fn samples(&self, count: usize) -> impl Iterator<Item = (&[u8], u64)> {
        let pages = self.data.count();
        let stride = pages.div_ceil(count.max(1)).max(1);
        (0..pages).step_by(stride).map(move |first| {
            let end = (first + stride).min(pages);
            let end_byte = ((end as u64) << self.shift).min(self.head.data_bytes);
            (self.fences.of(end), end_byte - ((first as u64) << self.shift))
        })
    }

    /// Up to about twice `count` keys behind the first of `range` and below its end, at which a job
    /// could be divided: keys as far as elements have them, and fences. None only where both tell
    /// no keys apart. Touches no page of data.
    #[must_use]
    pub fn keys_within(&self, range: &KeyRange, count: usize) -> Vec<Vec<u8>> {
        let spread = |all: Range<usize>| {
            let stride = all.len().div_ceil(count.max(1)).max(1);
            all.skip(stride / 2).step_by(stride)
        };
        let elements = self.elements_within(range);
        // The one behind them may stand for a part of the end.
        let last = (elements.end < self.len()).then_some(elements.end);
        let keys = spread(elements).chain(last).map(|index| self.key_near(index));
        let pages = spread(self.fences.within(range));
        let mut keys: Vec<Vec<u8>> =
            keys.chain(pages.map(|page| self.fences.of(page).to_vec())).collect();
        keys.retain(|key| key.as_slice() > range.start() && range.contains(key));
        keys
    }

    /// About how many bytes of data lie within `range`, to a page, those of gone pages included.
    /// Touches no page of data.
    #[must_use]
    pub fn bytes_within(&self, range: &KeyRange) -> u64 {
        let end = range.end().map_or(self.head.data_bytes, |end| self.offset_near(end));
        end.saturating_sub(self.offset_near(range.start()))
    }

    #[inline]
    pub(super) fn page_bytes(&self) -> usize {
        1 << self.shift
    }

    #[inline]
    pub(super) fn page_mask(&self) -> usize {
        self.page_bytes() - 1
    }

    /// An element, which there is.
    #[inline]
    pub(super) fn element(&self, index: usize) -> Element {
        let (elements, _) = self.metadata[index >> self.elements_shift()].as_chunks();
        Element::decode(&elements[index & ((1 << self.elements_shift()) - 1)])
    }

    /// A page has 2^this elements.
    #[inline]
    pub(super) fn elements_shift(&self) -> u32 {
        self.shift - ELEMENT_BYTES.trailing_zeros()
    }

    /// Where an entry lies in the data.
    #[inline]
    pub(super) fn place(&self, index: usize) -> Range<u64> {
        let end = match index + 1 {
            next if next < self.len() => u64::from(self.element(next).offset),
            _ => self.head.data_bytes,
        };
        u64::from(self.element(index).offset)..end
    }

    /// A page of metadata or data, as the head lists it, and how many there are.
    pub(super) fn listed(&self, index: usize) -> ListedPage {
        self.list[index]
    }

    pub(super) fn listed_count(&self) -> usize {
        self.list.len()
    }

    /// Whether the head lists these pages from the one with index `start` on.
    pub(super) fn is_listed(&self, start: usize, pages: &[ListedPage]) -> bool {
        self.list.get(start..start + pages.len()) == Some(pages)
    }

    pub(super) fn listed_data(&self, ordinal: usize) -> ListedPage {
        self.list[self.metadata.len() + ordinal]
    }

    /// A page of data, if it is not gone. Checks it at the first use.
    #[inline]
    pub(super) fn page(&self, ordinal: usize) -> Result<Option<Arc<Page>>> {
        let page = self.data.get(ordinal);
        if !self.data.is_checked(ordinal)
            && let Some(page) = &page
        {
            self.check_page(ordinal, page)?;
        }
        Ok(page)
    }

    /// A page of data and its checksum, whether it was checked before or not; `false` if it is
    /// gone.
    pub(super) fn recheck_page(&self, ordinal: usize) -> Result<bool> {
        match self.data.get(ordinal) {
            Some(page) => self.check_page(ordinal, &page).map(|()| true),
            None => Ok(false),
        }
    }

    #[cold]
    pub(super) fn check_page(&self, ordinal: usize, page: &Page) -> Result<()> {
        let place = (ordinal as u64) << self.shift;
        if page_checksum(self.head.uid, place, page) != self.listed_data(ordinal).checksum {
            let detail =
                format!("the checksum of page {ordinal} of row {:?} does not fit", self.uid());
            let offset = self.pages.offset_of(page.number());
            return Err(Corruption::new(self.pages.path(), offset, detail).into());
        }
        self.data.note_checked(ordinal);
        Ok(())
    }

    /// Copies data from `at` on.
    pub(super) fn gather(
        &self,
        mut at: u64,
        mut out: &mut [u8],
    ) -> Result<std::result::Result<(), Gone>> {
        while !out.is_empty() {
            let ordinal = (at >> self.shift) as usize;
            let page = self.page(ordinal)?;
            let Some(page) = page else { return Ok(Err(Gone(ordinal))) };
            let from = &page[at as usize & self.page_mask()..];
            let bytes = from.len().min(out.len());
            let (filled, rest) = out.split_at_mut(bytes);
            filled.copy_from_slice(&from[..bytes]);
            out = rest;
            at += bytes as u64;
        }
        Ok(Ok(()))
    }

    /// Runs `read` on an entry and its bytes, of which the value may be missing.
    #[inline]
    pub(super) fn front<T>(
        &self,
        index: usize,
        read: impl FnOnce(&RowEntry, &[u8]) -> T,
    ) -> Result<std::result::Result<T, Gone>> {
        let place = self.place(index);
        let ordinal = (place.start >> self.shift) as usize;
        let page = self.page(ordinal)?;
        let Some(page) = page else { return Ok(Err(Gone(ordinal))) };
        let from = &page[place.start as usize & self.page_mask()..];
        let entry_bytes = (place.end - place.start) as usize;
        let front = &from[..entry_bytes.min(from.len())];
        match RowEntry::decode(front, self.base) {
            Ok(entry) => Ok(Ok(read(&entry, front))),
            Err(error) if front.len() == entry_bytes => Err(self.damaged_entry(index, &error)),
            Err(_) => self.long_front(index, read),
        }
    }

    /// As [`RowReader::front`], for one that lies in several pages.
    #[cold]
    fn long_front<T>(
        &self,
        index: usize,
        read: impl FnOnce(&RowEntry, &[u8]) -> T,
    ) -> Result<std::result::Result<T, Gone>> {
        let place = self.place(index);
        let mut front = vec![0; FRONT_BYTES_MAX.min((place.end - place.start) as usize)];
        if let Err(gone) = self.gather(place.start, &mut front)? {
            return Ok(Err(gone));
        }
        let entry = RowEntry::decode(&front, self.base)
            .map_err(|error| self.damaged_entry(index, &error))?;
        Ok(Ok(read(&entry, &front)))
    }

    /// Loads an entry; says which page is missing if one is gone, and then what is loaded is
    /// none, as it is after an error.
    #[inline]
    pub(super) fn load(
        &self,
        index: usize,
        loaded: &mut LoadedEntry,
    ) -> Result<std::result::Result<(), Gone>> {
        loaded.index = usize::MAX;
        let place = self.place(index);
        let entry_bytes = (place.end - place.start) as usize;
        let (ordinal, at) =
            ((place.start >> self.shift) as usize, place.start as usize & self.page_mask());
        if at + entry_bytes <= self.page_bytes() {
            if loaded.page.as_ref().is_none_or(|(held, _)| *held != ordinal) {
                let page = self.page(ordinal)?;
                let Some(page) = page else { return Ok(Err(Gone(ordinal))) };
                loaded.page = Some((ordinal, page));
            }
            loaded.place = Some(at..at + entry_bytes);
        } else {
            loaded.place = None;
            loaded.copied.resize(entry_bytes, 0);
            if let Err(gone) = self.gather(place.start, &mut loaded.copied)? {
                return Ok(Err(gone));
            }
        }
        loaded.entry = RowEntry::decode(loaded.bytes(), self.base)
            .map_err(|error| self.damaged_entry(index, &error))?;
        loaded.index = index;
        Ok(Ok(()))
    }

    /// A decoder's complaint about an entry.
    #[cold]
    pub(super) fn damaged_entry(&self, index: usize, error: &CodecError) -> Error {
        let place = self.place(index);
        let page = self.listed_data((place.start >> self.shift) as usize).number;
        let offset = self.pages.offset_of(page) + (place.start as usize & self.page_mask()) as u64;
        let detail = format!("{} (byte {} of an entry)", error.what, error.offset);
        Corruption::new(self.pages.path(), offset, detail).into()
    }

    #[cold]
    pub(super) fn damaged_element(&self, index: usize, what: &str) -> Error {
        let page = self.list[index >> self.elements_shift()].number;
        let in_page = (index * ELEMENT_BYTES) & self.page_mask();
        let offset = self.pages.offset_of(page) + in_page as u64;
        Corruption::new(self.pages.path(), offset, what).into()
    }

    #[cold]
    pub(crate) fn damaged_metadata(&self, what: &str) -> Error {
        let offset = self.pages.offset_of(self.location.0);
        Corruption::new(self.pages.path(), offset, what).into()
    }

    /// A search that ought to have gone on in one direction and did not.
    #[cold]
    pub(super) fn out_of_order(&self, index: usize) -> Error {
        self.damaged_entry(index, &CodecError { offset: 0, what: "entries out of order" })
    }
}

impl Hinting for RowReader {
    #[inline]
    fn hint(&self, index: usize) -> Hint {
        if index < self.len() { self.element(index).hint } else { Hint::NONE }
    }

    fn predecessors(&self) -> &[TableUid] {
        &self.predecessors
    }
}

impl fmt::Debug for RowReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowReader")
            .field("location", &self.location)
            .field("uid", &self.head.uid)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}
