use std::fmt;
use std::ptr::NonNull;

use super::memory::Pages;

/// Pages of an area that belong to this value alone, as plain memory: for what is as large as the
/// medium is, and need not be found again. Nothing of it is flushed, and after a restart nobody
/// knows what is in it. From [`PmemSpan::into_scratch`](super::PmemSpan::into_scratch); dropping it
/// gives the claim back.
///
/// It gives out its address and no slice: whoever reads and writes there answers for the order of
/// that, as with any allocation.
pub struct PmemScratch {
    pages: Pages,
}

impl PmemScratch {
    pub(super) fn new(pages: Pages) -> PmemScratch {
        PmemScratch { pages }
    }

    /// The address of its first byte, aligned to a page, and valid for [`PmemScratch::len`] bytes,
    /// which are initialized, until the value is dropped.
    #[must_use]
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.pages.base()
    }

    /// Its size in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a claim is of at least one page")]
    pub fn len(&self) -> usize {
        self.pages.bytes()
    }
}

impl fmt::Debug for PmemScratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PmemScratch({}+{})", self.pages.offset(), self.len())
    }
}

#[cfg(test)]
mod tests {
    use crate::pmem::memory::Memory;
    use crate::pmem::{PMEM_PAGE_BYTES, PmemScratch};

    #[test]
    fn it_is_the_pages_of_its_claim_and_gives_them_back() {
        let memory = Memory::zeroed(3 * PMEM_PAGE_BYTES);
        let claim = |at: u64| Memory::claim(&memory, at * PMEM_PAGE_BYTES, PMEM_PAGE_BYTES);
        let [first, second] = [0, 2].map(|at| PmemScratch::new(claim(at).unwrap()));
        assert_eq!(second.base().addr().get() - first.base().addr().get(), 2 * first.len());
        assert!(claim(2).is_err());
        drop(second);
        assert!(claim(2).is_ok());
    }
}
