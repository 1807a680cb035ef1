use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::memory::Pages;
use super::{PmemScratch, PmemSide};

const LINE_BYTES: usize = super::PMEM_LINE_BYTES as usize;

/// Pages of an area that belong to this value alone: their bytes, to be read as a slice and stored
/// to by the methods. Dropping it gives the claim back; what was stored stays.
///
/// Offsets count from the beginning of the span. A method panics if an interval leaves it.
pub struct PmemSpan {
    pages: Pages,
    side: Arc<dyn PmemSide>,
}

impl PmemSpan {
    pub(super) fn new(pages: Pages, side: Arc<dyn PmemSide>) -> PmemSpan {
        PmemSpan { pages, side }
    }

    /// The same pages as plain memory, of which nothing is to survive.
    #[must_use]
    pub fn into_scratch(self) -> PmemScratch {
        PmemScratch::new(self.pages)
    }

    /// Where in the area the span begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.pages.offset() as u64
    }

    /// Its size in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a claim is of at least one page")]
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Copies `bytes` to `at`. They may become durable at any time from here on, each aligned word
    /// of 8 bytes by itself and in any order; they are durable after a flush and a fence.
    #[inline]
    pub fn store(&mut self, at: usize, bytes: &[u8]) {
        self.pages.store(at, bytes);
        self.side.stored(self.offset() + at as u64, bytes);
    }

    /// Stores `word`, little-endian, at `at`, a multiple of 8, in one step: a crash leaves all of
    /// it or what was there. Ordered after the stores before it for whoever reads the span later,
    /// and after what was fenced before it for a crash.
    #[inline]
    pub fn publish(&mut self, at: usize, word: u64) {
        self.pages.publish(at, word);
        self.side.stored(self.offset() + at as u64, &word.to_le_bytes());
    }

    /// Begins to write back the lines that touch the `bytes` at `at`: they are durable after this
    /// thread's next [`Pmem::fence`](super::Pmem::fence). What is stored to them in between may be,
    /// or not.
    ///
    /// Cost: an instruction a line; for a `File` area a short latch.
    #[inline]
    pub fn flush(&self, at: usize, bytes: usize) {
        let end = at.checked_add(bytes).filter(|&end| end <= self.len());
        let end = end.expect("a flush within the span");
        if bytes > 0 {
            // A span has whole lines, as it has whole pages.
            let (start, end) = (at / LINE_BYTES * LINE_BYTES, end.next_multiple_of(LINE_BYTES));
            self.side.flush(self.offset() + start as u64, &self.pages[start..end]);
        }
    }
}

// Threads share what one of them has stored.
const _: fn() = || {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<PmemSpan>();
};

impl Deref for PmemSpan {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.pages
    }
}

impl fmt::Debug for PmemSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PmemSpan({}+{} of {:?})", self.offset(), self.len(), self.side)
    }
}
