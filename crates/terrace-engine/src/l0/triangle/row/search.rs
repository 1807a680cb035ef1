//! Searches over the elements of a row.

use std::cmp::Ordering;
use std::ops::Range;

use terrace_base::{KeyRange, SeqNo, hint_of};

use super::format::Element;
use super::hints::SearchTrail;
use super::reader::{Gone, RowReader};
use crate::Result;
use crate::explain::{PagesSearch, note};
use crate::iter::{Approach, Direction};
use crate::l0::RowSearch;
use crate::table::PinnedEntry;

/// Which of the versions of a key a search is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// The first, that is the newest.
    Key,
    /// The first at or below this number.
    AtOrBelow(SeqNo),
    /// None: what comes after the last.
    PastKey,
}

/// A key as the elements of a row show it.
enum Target {
    /// All keys of the row are above it.
    Below,
    /// It has the row's prefix, and these bytes follow.
    At(u64),
    /// All keys of the row are below it.
    Above,
}

impl RowSearch for RowReader {
    fn search_key(
        &self,
        key: &[u8],
        read_point: SeqNo,
        trail: &mut SearchTrail,
    ) -> Result<Option<PinnedEntry>> {
        let within = trail.within(self.uid(), self.len());
        let index = self.lower_bound_within(key, within.clone())?;
        trail.note(self, index);
        note(|notes| notes.searched_pages(PagesSearch::new(&within, self.len())));
        self.get_at(index, key, read_point)
    }
}

impl RowReader {
    #[inline]
    fn target(&self, key: &[u8]) -> Target {
        match key.strip_prefix(&*self.prefix) {
            Some(suffix) => Target::At(u64::from_be_bytes(hint_of(suffix))),
            None if key < &*self.prefix => Target::Below,
            None => Target::Above,
        }
    }

    /// How many elements of `within` satisfy `holds`, which holds for a first part of them: as an
    /// index.
    pub(super) fn partition(
        &self,
        within: Range<usize>,
        holds: impl Fn(&Element) -> bool,
    ) -> usize {
        let Range { mut start, mut end } = within;
        while start < end {
            let middle = start + (end - start) / 2;
            if holds(&self.element(middle)) {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }

    /// As [`RowReader::partition`], for what depends on an element's bytes only. Cost: of the pages
    /// of elements one is touched.
    #[inline]
    fn partition_bytes(&self, within: Range<usize>, holds: impl Fn(u64) -> bool) -> usize {
        if within.is_empty() {
            return within.start;
        }
        let shift = self.elements_shift();
        let (first_page, last_page) = (within.start >> shift, (within.end - 1) >> shift);
        let later = &self.top[first_page + 1..=last_page];
        let page = first_page + later.partition_point(|bytes| holds(*bytes));
        let (start, end) = (within.start.max(page << shift), within.end.min((page + 1) << shift));
        let (elements, _) = self.metadata[page].as_chunks::<16>();
        let in_page = start - (page << shift)..end - (page << shift);
        start
            + elements[in_page].partition_point(|element| {
                let [bytes @ .., _, _, _, _, _, _, _, _] = *element;
                holds(u64::from_be_bytes(bytes))
            })
    }

    /// The elements of `within` that may be of `key`, as their bytes say; an empty interval is
    /// where they would stand.
    #[inline]
    pub(super) fn tied(&self, key: &[u8], within: Range<usize>) -> Range<usize> {
        let target = match self.target(key) {
            Target::At(target) => target,
            Target::Below => return within.start..within.start,
            Target::Above => return within.end..within.end,
        };
        let first = self.partition_bytes(within.clone(), |bytes| bytes < target);
        self.tied_from(target, first..within.end)
    }

    /// The elements at the start of `within` that have these bytes, and no element has lesser ones.
    #[inline]
    fn tied_from(&self, target: u64, within: Range<usize>) -> Range<usize> {
        let is_tied = |index: usize| index < within.end && self.element(index).bytes == target;
        let first = within.start;
        if !is_tied(first) {
            return first..first;
        }
        if !is_tied(first + 1) {
            return first..first + 1;
        }
        first..self.partition_bytes(first + 2..within.end, |bytes| bytes <= target)
    }

    /// The first element of `within` that does not stand before (`key`, `bound`), or its end.
    #[inline]
    pub(super) fn search(&self, key: &[u8], bound: Bound, within: Range<usize>) -> Result<usize> {
        self.search_tied(key, bound, self.tied(key, within))
    }

    /// As [`RowReader::search`] for the key itself, when the answer is at or above `from`, and most
    /// often near it: cost O(log of the distance) where bytes tell keys apart.
    pub(super) fn lower_bound_from(&self, key: &[u8], from: usize) -> Result<usize> {
        let target = match self.target(key) {
            Target::At(target) => target,
            Target::Below => return Ok(from),
            Target::Above => return Ok(self.len()),
        };
        let (mut low, mut step) = (from, 1);
        while low + step < self.len() && self.element(low + step).bytes < target {
            low += step;
            step *= 2;
        }
        let end = self.len().min(low + step);
        let first = self.partition_bytes(low.min(end)..end, |bytes| bytes < target);
        self.search_tied(key, Bound::Key, self.tied_from(target, first..self.len()))
    }

    /// Finishes a search among elements that all have the key's bytes.
    #[inline]
    pub(super) fn search_tied(
        &self,
        key: &[u8],
        bound: Bound,
        tied: Range<usize>,
    ) -> Result<usize> {
        let Range { start: mut low, end: mut high } = tied;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.is_below(middle, key, bound)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Whether an element stands before (`key`, `bound`).
    #[inline]
    fn is_below(&self, index: usize, key: &[u8], bound: Bound) -> Result<bool> {
        let compared = self.front(index, |entry, bytes| match entry.key(bytes).cmp(key) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => match bound {
                Bound::Key => false,
                Bound::AtOrBelow(seqno) => entry.seqno > seqno,
                Bound::PastKey => true,
            },
        })?;
        Ok(compared.unwrap_or_else(|gone| self.is_gone_below(gone, key)))
    }

    /// Whether entries that lie in a page that is gone have keys below `key`. All of the page's
    /// keys are consumed and `key` is not, so that it lies on one side of all of them; or it is the
    /// very start of what is consumed.
    #[cold]
    fn is_gone_below(&self, gone: Gone, key: &[u8]) -> bool {
        key > self.low_of(gone.0).as_slice()
    }

    /// A key at or below those of all entries that lie in a page, wholly or in part: known from the
    /// metadata alone, and the better, the more the elements' bytes tell.
    pub(super) fn low_of(&self, page: usize) -> Vec<u8> {
        let index = self.touching(Gone(page)).start;
        let own = self.key_near(index);
        let fence = self.fences.of(self.element(index).offset as usize >> self.shift);
        if own.as_slice() < fence { fence.to_vec() } else { own }
    }

    /// The elements whose entries lie in a page, wholly or in part.
    fn touching(&self, Gone(page): Gone) -> Range<usize> {
        let (start, end) = ((page as u64) << self.shift, ((page as u64) + 1) << self.shift);
        let all = 0..self.len();
        let after = self.partition(all.clone(), |element| u64::from(element.offset) <= start);
        // The first entry begins with the data, so there is one that begins at or before the page.
        after - 1..self.partition(all, |element| u64::from(element.offset) < end)
    }

    /// The first element behind those in a page that is gone.
    #[cold]
    pub(super) fn after_gone(&self, gone: Gone) -> usize {
        self.touching(gone).end
    }

    /// The first of the elements in a page that is gone.
    #[cold]
    pub(super) fn before_gone(&self, gone: Gone) -> usize {
        self.touching(gone).start
    }

    /// The elements whose bytes lie between those of the first key of `range` and those of its end.
    pub(super) fn elements_within(&self, range: &KeyRange) -> Range<usize> {
        let all = 0..self.len();
        let first = match self.target(range.start()) {
            Target::Below => 0,
            Target::Above => self.len(),
            Target::At(target) => self.partition_bytes(all.clone(), |bytes| bytes <= target),
        };
        let end = match range.end().map(|end| self.target(end)) {
            Some(Target::Below) => 0,
            Some(Target::At(target)) => self.partition_bytes(all, |bytes| bytes < target),
            Some(Target::Above) | None => self.len(),
        };
        first..end.max(first)
    }

    /// What an element, which there is, says of its key and of those behind it in a direction.
    #[inline]
    pub(super) fn approach(&self, index: usize, direction: Direction) -> Approach {
        Approach::near([&self.prefix, &self.element(index).bytes.to_be_bytes()], direction)
    }

    /// What an element says of its key: a key at or below it.
    pub(super) fn key_near(&self, index: usize) -> Vec<u8> {
        let bytes = self.element(index).bytes.to_be_bytes();
        // A shorter key is padded with zeros.
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        [&*self.prefix, &bytes[..used]].concat()
    }

    /// About where the entries from `key` on begin in the data.
    pub(super) fn offset_near(&self, key: &[u8]) -> u64 {
        let index = match self.target(key) {
            Target::Below => return 0,
            Target::Above => return self.head.data_bytes,
            Target::At(target) => self.partition_bytes(0..self.len(), |bytes| bytes < target),
        };
        if index == self.len() {
            return self.head.data_bytes;
        }
        let next = (index + 1 < self.len()).then(|| self.element(index + 1));
        if next.is_none_or(|next| next.bytes > self.element(index).bytes) {
            return u64::from(self.element(index).offset);
        }
        // Where bytes tell nothing apart, the fences still do.
        let pages = self.fences.pages_around(key);
        let (low, high) = ((pages.start as u64) << self.shift, (pages.end as u64) << self.shift);
        u64::from(self.element(index).offset).clamp(low, high.min(self.head.data_bytes))
    }
}
