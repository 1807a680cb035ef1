//! Between which keys the entries of each page lie: what of a row can be given back, or is not
//! there.
//!
//! ```text
//!   keys    a   c   f │ g   k │   m   n │ q  s      entries of pages 0 … 3
//!   fences  a         f       k         n      s    at or above all before, at or below all behind
//! ```
//!
//! So which pages are [dead](Fences::is_dead) follows from what is consumed and from the metadata,
//! and from nothing that the pages themselves hold: a row that is opened anew finds out which of
//! its pages may be another row's by now without a look at them. Pages are given back by the same
//! judgement, on no more consumed keys than a later opening knows of; so what a row claims is its
//! own.

use std::ops::Range;

use terrace_base::{ByteReader, CodecError, KeyRange, put_bytes, put_varint};

use crate::table::format::index::shortest_separator;

/// The fences of a row's pages of data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fences {
    /// The distinct fences and, if there is any, the largest key, back to back.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<u32>,
    /// For each page which of them is its own.
    of_page: Vec<u32>,
}

impl Fences {
    /// Notes that an entry begins in `page`, or that it is the first: `last` is the key before it.
    pub fn add(&mut self, page: usize, last: Option<&[u8]>, key: &[u8]) {
        if page < self.of_page.len() {
            return;
        }
        match last {
            // All but the pages up to this one lie behind the entry before.
            Some(last) if last < key => {
                let mut fence = Vec::new();
                shortest_separator(last, key, &mut fence);
                self.push(&fence);
            }
            _ => self.push(key),
        }
        self.of_page.resize(page + 1, self.ends.len() as u32 - 1);
    }

    /// Ends the fences of `data_pages` pages.
    pub fn finish(&mut self, data_pages: usize, largest: &[u8]) {
        if data_pages == 0 {
            return;
        }
        if self.of_page.len() < data_pages {
            // In the last pages no entry begins.
            self.push(largest);
            self.of_page.resize(data_pages, self.ends.len() as u32 - 1);
        }
        self.push(largest);
    }

    fn push(&mut self, fence: &[u8]) {
        self.bytes.extend_from_slice(fence);
        let end = u32::try_from(self.bytes.len()).expect("fences are part of a row's keys");
        self.ends.push(end);
    }

    /// Bytes that [`Fences::encode`] appends at most, the largest key apart.
    #[must_use]
    pub fn estimated_bytes(&self) -> usize {
        // Two lengths, which have at most five bytes each.
        self.bytes.len() + 10 * self.ends.len()
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for group in self.of_page.chunk_by(|a, b| a == b) {
            put_varint(out, group.len() as u64);
            put_bytes(out, self.fence(group[0] as usize));
        }
        if let Some(last) = self.ends.len().checked_sub(1) {
            put_bytes(out, self.fence(last));
        }
    }

    /// Decodes the fences of `data_pages` pages.
    pub fn decode(reader: &mut ByteReader<'_>, data_pages: usize) -> Result<Fences, CodecError> {
        let mut fences = Fences::default();
        if data_pages == 0 {
            return Ok(fences);
        }
        while fences.of_page.len() < data_pages {
            let pages = reader.varint_usize()?;
            if pages == 0 || pages > data_pages - fences.of_page.len() {
                return Err(reader.error("fences of more pages than there are"));
            }
            fences.push_decoded(reader)?;
            let fence = fences.ends.len() as u32 - 1;
            fences.of_page.extend(std::iter::repeat_n(fence, pages));
        }
        fences.push_decoded(reader)?;
        Ok(fences)
    }

    fn push_decoded(&mut self, reader: &mut ByteReader<'_>) -> Result<(), CodecError> {
        let fence = reader.bytes()?;
        if self.ends.len().checked_sub(1).is_some_and(|last| self.fence(last) > fence) {
            return Err(reader.error("fences out of order"));
        }
        if self.bytes.len() + fence.len() > u32::MAX as usize {
            return Err(reader.error("fences of more bytes than a row's keys have"));
        }
        self.push(fence);
        Ok(())
    }

    fn fence(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    /// How many pages of data there are.
    #[must_use]
    pub fn page_count(&self) -> usize {
        self.of_page.len()
    }

    /// Entries that begin in `page` have no key below, and those that begin before none above. The
    /// count of pages gives the largest key.
    ///
    /// # Panics
    /// If there is no such page, or no page at all.
    #[must_use]
    pub fn of(&self, page: usize) -> &[u8] {
        match self.of_page.get(page) {
            Some(fence) => self.fence(*fence as usize),
            None => {
                assert!(page == self.of_page.len(), "a page of the row");
                self.fence(self.ends.len() - 1)
            }
        }
    }

    /// The smallest and the largest key of an entry.
    #[must_use]
    pub fn bounds(&self) -> Option<(&[u8], &[u8])> {
        let is_some = !self.of_page.is_empty();
        is_some.then(|| (self.of(0), self.of(self.of_page.len())))
    }

    /// The pages in which entries with keys from `key` on, or those just below, may begin.
    #[must_use]
    pub fn pages_around(&self, key: &[u8]) -> Range<usize> {
        let first = self.of_page.partition_point(|fence| self.fence(*fence as usize) < key);
        let end = self.of_page.partition_point(|fence| self.fence(*fence as usize) <= key);
        first.saturating_sub(1)..end
    }

    /// The pages whose fences lie behind the first key of `range` and below its end.
    #[must_use]
    pub fn within(&self, range: &KeyRange) -> Range<usize> {
        let first = self.of_page.partition_point(|at| self.fence(*at as usize) <= range.start());
        let end = self
            .of_page
            .partition_point(|at| range.contains(self.fence(*at as usize).max(range.start())));
        first..end.max(first)
    }

    /// Whether nothing of `page` is needed when the keys in `consumed` (ascending, disjoint and not
    /// touching) are not: whether it holds no byte of an entry with another key. `low` is at or
    /// below the keys of all entries of which the page holds a byte.
    ///
    /// Once true it stays so as `consumed` grows, and it depends on nothing else that can change.
    /// Cost: two searches.
    #[must_use]
    pub fn is_dead<Low: AsRef<[u8]>>(
        &self,
        page: usize,
        consumed: &[KeyRange],
        low: impl FnOnce() -> Low,
    ) -> bool {
        let last = self.of(page + 1);
        let place = consumed.partition_point(|interval| interval.is_before(last));
        let interval = consumed.get(place).filter(|interval| interval.contains(last));
        interval.is_some_and(|interval| interval.start() <= low().as_ref())
    }

    /// Bytes of memory that they hold.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + 4 * (self.ends.len() + self.of_page.len())
    }
}

/// Intervals as [`Fences::is_dead`] wants them: ascending, disjoint and not touching.
#[must_use]
pub fn joined(intervals: &[KeyRange]) -> Vec<KeyRange> {
    let mut sorted: Vec<&KeyRange> =
        intervals.iter().filter(|interval| !interval.is_empty()).collect();
    sorted.sort_by_key(|interval| interval.start());
    let mut joined: Vec<KeyRange> = Vec::new();
    for interval in sorted {
        match joined.last_mut() {
            Some(last) if last.end().is_none_or(|end| interval.start() <= end) => {
                *last = last.hull(interval);
            }
            _ => joined.push(interval.clone()),
        }
    }
    joined
}
