//! A file mapped for writing.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use memmap2::{Advice, MmapRaw, UncheckedAdvice};

use crate::fs::assert_within_log;

/// The smallest page of any machine that Linux runs on.
const PAGE_BYTES: usize = 4096;

/// The whole of a log file, mapped shared and writable.
///
/// Invariants:
/// 1. The file has at least `end` bytes, all of them reserved, for as long as the mapping lives:
///    only [`Mapping::lower_end`] comes before a cut, and nothing in Terrace punches holes into a
///    log file. No byte at or behind `end` is written. So no access can hit a page without a place
///    behind it.
/// 2. No reference into the mapping exists, here or elsewhere; bytes go in by pointer only.
#[derive(Debug)]
pub(super) struct Mapping {
    pages: MmapRaw,
    /// Where the file ends.
    end: AtomicU64,
    /// Pages below are in memory, or were skipped by what writes past the mapping.
    populated_end: AtomicUsize,
}

/// Bytes of pages that are brought in at a time, just before they are written: few enough that
/// whoever does it is not held up, many enough that few do.
const POPULATED_BYTES: usize = 64 * PAGE_BYTES;

/// How much is brought in by one call ahead of need.
const WARMED_BYTES: usize = 256 * PAGE_BYTES;

impl Mapping {
    /// Maps the first `bytes` bytes of `file`, which are all there and reserved.
    pub fn of(file: &File, bytes: u64) -> io::Result<Mapping> {
        let pages = MmapRaw::map_raw(file)?;
        let end = AtomicU64::new(pages.len() as u64);
        let mapping = Mapping { pages, end, populated_end: AtomicUsize::new(0) };
        if mapping.bytes() != bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(mapping)
    }

    /// The size.
    pub fn bytes(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// From now on the file is to be cut behind `bytes`. The caller knows that nobody writes
    /// there any more.
    pub fn lower_end(&self, bytes: u64) {
        self.end.fetch_min(bytes, Ordering::Relaxed);
    }

    /// Takes the whole pages of the first `bytes` out of this process's memory: they are the
    /// file's, which keeps what they hold.
    pub fn let_go(&self, bytes: u64) {
        let bytes = self.bytes().min(bytes) as usize / PAGE_BYTES * PAGE_BYTES;
        // Safety: the mapping is shared and of a file, so its pages are only unmapped: what was
        // stored is in the kernel's pages, and the next access maps the same ones again. No
        // reference into them exists (invariant 2).
        let _ = unsafe { self.pages.unchecked_advise_range(UncheckedAdvice::DontNeed, 0, bytes) };
    }

    /// Copies `bytes` to `offset`. Panics if they do not fit.
    #[inline]
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert_within_log(offset, bytes, self.bytes());
        let end = offset as usize + bytes.len();
        if end > self.populated_end.load(Ordering::Relaxed) {
            self.populate(offset as usize, end);
        }
        // Safety: the assertion keeps the copy inside the mapping, which lives as long as `self`
        // (invariant 1: its pages are backed). The source is a Rust slice and cannot overlap it,
        // because no reference into the mapping exists (invariant 2). Threads that write at the
        // same time write disjoint bytes: that is the contract of `LogFile::write_at`.
        unsafe {
            let target = self.pages.as_mut_ptr().add(offset as usize);
            ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
    }

    /// Brings the pages of the first `bytes` into memory, some at a time, so that others can change
    /// their mappings in between.
    pub fn warm(&self, bytes: u64) {
        let bytes = self.bytes().min(bytes) as usize;
        for start in (0..bytes).step_by(WARMED_BYTES) {
            let count = WARMED_BYTES.min(bytes - start);
            // A kernel before 5.14 does not know the advice.
            let _ = self.pages.advise_range(Advice::PopulateWrite, start, count);
        }
        self.populated_end.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Writes the pages of these bytes back, and waits until they are durable.
    pub fn sync(&self, offset: u64, bytes: u64) -> io::Result<()> {
        assert!(offset + bytes <= self.bytes(), "a sync beyond the end of a log file");
        self.pages.flush_range(offset as usize, bytes as usize)
    }

    /// Brings the pages of a write, and those after it, into memory together: cheaper than a fault
    /// for each. Without it, each is brought in when it is written.
    #[cold]
    fn populate(&self, from: usize, end: usize) {
        let start = from / PAGE_BYTES * PAGE_BYTES;
        let wanted_end = (end + POPULATED_BYTES).min(self.bytes() as usize).max(end);
        if self.populated_end.fetch_max(wanted_end, Ordering::Relaxed) < wanted_end {
            // A kernel before 5.14 does not know the advice.
            let _ = self.pages.advise_range(Advice::PopulateWrite, start, wanted_end - start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn populating_changes_nothing() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &[7; 10_000]).unwrap();
        let mapping = Mapping::of(&file, 10_000).unwrap();
        mapping.populate(5_000, 5_001);
        mapping.warm(9_000);
        mapping.write(9_999, b"x");
        drop(mapping);
        let mut bytes = vec![0; 10_000];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        assert!(bytes[..9_999].iter().all(|&byte| byte == 7));
        assert_eq!(bytes[9_999], b'x');
        assert!(Mapping::of(&file, 10_001).is_err());
    }
}
