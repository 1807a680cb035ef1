//! Opening a row: its pages are claimed, its metadata read and checked.

use std::sync::Arc;

use terrace_base::limits::VALUE_BYTES_MAX;
use terrace_base::{CodecError, Corruption, KeyRange, TableUid};

use super::data_pages::DataPages;
use super::fences::joined;
use super::format::{
    ELEMENT_BYTES, Element, Head, ListedPage, METADATA_PLACE, Rest, decode_list_page, page_checksum,
};
use super::reader::{FRONT_BYTES_MAX, RowLocation, RowReader};
use crate::l0::triangle::{Page, Pages};
use crate::range_tombstone::{Fragments, RangeTombstone};
use crate::table::TableProperties;
use crate::table::format::filter::Filter;
use crate::table::format::{FormatError, range_tombstones};
use crate::{Error, Result};

/// Bytes that an entry has at most.
const ENTRY_BYTES_MAX: u64 = (FRONT_BYTES_MAX + VALUE_BYTES_MAX) as u64;

impl RowReader {
    /// Opens a row: claims its pages, reads head and metadata and checks them. Pages of which
    /// nothing is needed when the keys in `consumed` are not (in any order) may be another row's by
    /// now; they are left alone.
    ///
    /// `expected`: the uid and the size in bytes that whoever names the row knows it by.
    /// Cost: reads the metadata once; no page of data is touched.
    ///
    /// Errors: [`Error::Corruption`], also if a page is another row's; [`Error::Unsupported`] for a
    /// later format. All pages are given back then.
    pub fn open(
        pages: &Arc<Pages>,
        location: RowLocation,
        expected: Option<(TableUid, u64)>,
        consumed: &[KeyRange],
    ) -> Result<Arc<RowReader>> {
        RowReader::assemble(pages, location, expected, consumed, &mut |number| pages.claim(number))
    }

    /// As [`RowReader::open`], but with pages that `obtain` has.
    pub(super) fn assemble(
        pages: &Arc<Pages>,
        location: RowLocation,
        expected: Option<(TableUid, u64)>,
        consumed: &[KeyRange],
        obtain: &mut dyn FnMut(u32) -> Result<Page>,
    ) -> Result<Arc<RowReader>> {
        let (head, list, head_pages) = read_head(pages, location, obtain)?;
        let page_bytes = pages.page_bytes();
        let (metadata_count, data_count) = head.page_counts(page_bytes);
        let file_bytes = (head_pages.len() + list.len()) as u64 * page_bytes as u64;
        if let Some((uid, bytes)) = expected
            && (uid, bytes) != (head.uid, file_bytes)
        {
            let detail = format!(
                "this is row {:?} of {file_bytes} bytes, expected was {uid:?} of {bytes}",
                head.uid
            );
            return Err(Corruption::new(pages.path(), pages.offset_of(location.0), detail).into());
        }
        let metadata = read_metadata(pages, &head, &list[..metadata_count as usize], &mut *obtain)?;
        let shift = page_bytes.trailing_zeros();
        let elements_bytes = head.entry_count as usize * ELEMENT_BYTES;
        let mut rest = vec![0; head.metadata_bytes as usize - elements_bytes];
        copy_from(&metadata, shift, elements_bytes, &mut rest);
        let damaged = |error: &CodecError| {
            let at = elements_bytes + error.offset;
            let page = metadata.get(at >> shift).or(metadata.last());
            let offset = page.map_or(0, |page| pages.offset_of(page.number()));
            let detail = format!("{} (byte {at} of the row's metadata)", error.what);
            Error::from(Corruption::new(pages.path(), offset, detail))
        };
        let refused = |error: FormatError| match error {
            FormatError::Damaged(error) => damaged(&error),
            FormatError::Unsupported(text) => {
                Error::Unsupported(format!("{}: {text}", pages.path().display()))
            }
        };
        let rest = Rest::decode(&rest, data_count as usize).map_err(|error| damaged(&error))?;
        let properties = TableProperties::decode(rest.properties).map_err(refused)?;
        let filter = match rest.filter {
            [] => None,
            bytes => Some(Arc::new(Filter::decode(bytes).map_err(|error| damaged(&error))?)),
        };
        let range_tombstones = match rest.range_tombstones {
            [] => Fragments::default(),
            bytes => {
                let all = range_tombstones::decode(bytes).map_err(|error| damaged(&error))?;
                let all = all.into_iter();
                Fragments::new(all.map(|(start, end, seqno)| RangeTombstone { start, end, seqno }))
            }
        };
        if properties.entry_count != u64::from(head.entry_count)
            || properties.range_tombstone_count != range_tombstones.len() as u64
            || (properties.block_count, properties.data_bytes) != (data_count, head.data_bytes)
        {
            return Err(damaged(&CodecError { offset: 0, what: "the counts do not fit the row" }));
        }
        let mut row = RowReader {
            pages: Arc::clone(pages),
            location,
            head,
            head_pages,
            metadata,
            top: Vec::new(),
            base: rest.base,
            prefix: rest.prefix.into(),
            predecessors: rest.predecessors,
            fences: rest.fences,
            range_tombstones: Arc::new(range_tombstones),
            properties,
            filter,
            data: DataPages::new(data_count as usize),
            list,
            shift,
        };
        row.check_elements()?;
        row.obtain_data(consumed, obtain)?;
        Ok(Arc::new(row))
    }

    /// Checks what searches rely on: that bytes and offsets ascend, and that every entry lies in
    /// the data. Cost: a few instructions an element.
    fn check_elements(&mut self) -> Result<()> {
        let mut last: Option<Element> = None;
        let mut top = Vec::with_capacity(self.metadata.len());
        for index in 0..self.len() {
            let element = self.element(index);
            let (fits, entry_bytes) = match last {
                None => (element.offset == 0, 1),
                Some(last) => (
                    last.offset < element.offset && last.bytes <= element.bytes,
                    u64::from(element.offset.saturating_sub(last.offset)),
                ),
            };
            let is_inside = u64::from(element.offset) < self.head.data_bytes;
            if !fits || !is_inside || entry_bytes > ENTRY_BYTES_MAX {
                return Err(self.damaged_element(index, "elements out of order"));
            }
            if (index * ELEMENT_BYTES) & self.page_mask() == 0 {
                top.push(element.bytes);
            }
            last = Some(element);
        }
        if let Some(last) = last
            && self.head.data_bytes - u64::from(last.offset) > ENTRY_BYTES_MAX
        {
            return Err(self.damaged_element(self.len() - 1, "an entry beyond the longest one"));
        }
        self.top = top;
        Ok(())
    }

    /// Obtains the pages of data that are not dead.
    fn obtain_data(
        &self,
        consumed: &[KeyRange],
        obtain: &mut dyn FnMut(u32) -> Result<Page>,
    ) -> Result<()> {
        let consumed = joined(consumed);
        for ordinal in 0..self.data.count() {
            if !self.is_dead(ordinal, &consumed) {
                self.data.hold(ordinal, obtain(self.listed_data(ordinal).number)?);
            }
        }
        Ok(())
    }
}

/// The head, the list of all other pages, and the pages of the head.
fn read_head(
    pages: &Arc<Pages>,
    location: RowLocation,
    obtain: &mut dyn FnMut(u32) -> Result<Page>,
) -> Result<(Head, Vec<ListedPage>, Vec<Page>)> {
    let damaged = |number, error: &CodecError| {
        Error::from(Corruption::from_codec(pages.path(), pages.offset_of(number), error))
    };
    let first = obtain(location.0)?;
    let pages_max = pages.total_pages() as u64;
    let (head, mut list, mut next) =
        Head::decode(&first, pages_max).map_err(|error| match error {
            FormatError::Damaged(error) => damaged(location.0, &error),
            FormatError::Unsupported(text) => {
                Error::Unsupported(format!("{}: {text}", pages.path().display()))
            }
        })?;
    let (metadata, data) = head.page_counts(first.len());
    let listed = (metadata + data) as usize;
    let mut head_pages = vec![first];
    while next != 0 {
        let page = obtain(next)?;
        let missing = listed - list.len();
        let (more, after) = decode_list_page(&page, head.uid, head_pages.len(), missing)
            .map_err(|error| damaged(next, &error))?;
        list.extend(more);
        head_pages.push(page);
        next = after;
    }
    Ok((head, list, head_pages))
}

/// The pages of the metadata, checked.
fn read_metadata(
    pages: &Arc<Pages>,
    head: &Head,
    list: &[ListedPage],
    obtain: &mut dyn FnMut(u32) -> Result<Page>,
) -> Result<Vec<Page>> {
    let mut metadata = Vec::with_capacity(list.len());
    for (ordinal, listed) in list.iter().enumerate() {
        let page = obtain(listed.number)?;
        let place = METADATA_PLACE + (ordinal * page.len()) as u64;
        if page_checksum(head.uid, place, &page) != listed.checksum {
            let offset = pages.offset_of(listed.number);
            let detail = format!("the checksum of page {ordinal} of a row's metadata does not fit");
            return Err(Corruption::new(pages.path(), offset, detail).into());
        }
        metadata.push(page);
    }
    Ok(metadata)
}

/// Copies what lies in `pages` from byte `at` on.
fn copy_from(pages: &[Page], shift: u32, mut at: usize, mut out: &mut [u8]) {
    while !out.is_empty() {
        let from = &pages[at >> shift][at & ((1 << shift) - 1)..];
        let bytes = from.len().min(out.len());
        let (filled, rest) = out.split_at_mut(bytes);
        filled.copy_from_slice(&from[..bytes]);
        out = rest;
        at += bytes;
    }
}
