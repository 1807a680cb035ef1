//! A file mapped for writing: the only unsafe code of this crate.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr;

use memmap2::{Advice, MmapRaw};

use crate::fs::assert_within_log;

/// The smallest page of any machine that Linux runs on.
const PAGE_BYTES: usize = 4096;

/// The whole of a log file, mapped shared and writable.
///
/// Invariants:
/// 1. The file is as long as the mapping, and all of it is reserved, for as long as the mapping
///    lives: nothing in Terrace cuts a log file or punches holes into it. So no access can hit a
///    page without a place behind it.
/// 2. No reference into the mapping exists, here or elsewhere; bytes go in by pointer only.
#[derive(Debug)]
pub(super) struct Mapping {
    pages: MmapRaw,
}

impl Mapping {
    /// Maps the first `bytes` bytes of `file`, which are all there and reserved, and touches each
    /// page, so that later writes find it in memory.
    pub fn of(file: &File, bytes: u64) -> io::Result<Mapping> {
        let pages = MmapRaw::map_raw(file)?;
        let mapping = Mapping { pages };
        if mapping.bytes() != bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if mapping.pages.advise(Advice::PopulateWrite).is_err() {
            // A kernel before 5.14.
            mapping.touch();
        }
        Ok(mapping)
    }

    /// The size.
    pub fn bytes(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Copies `bytes` to `offset`. Panics if they do not fit.
    #[inline]
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert_within_log(offset, bytes, self.bytes());
        // Safety: the assertion keeps the copy inside the mapping, which lives as long as `self`
        // (invariant 1: its pages are backed). The source is a Rust slice and cannot overlap it,
        // because no reference into the mapping exists (invariant 2). Threads that write at the
        // same time write disjoint bytes: that is the contract of `LogFile::write_at`.
        unsafe {
            let target = self.pages.as_mut_ptr().add(offset as usize);
            ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
    }

    /// Writes to each page what it holds, before any other thread knows the mapping.
    fn touch(&self) {
        for offset in (0..self.pages.len()).step_by(PAGE_BYTES) {
            // Safety: `offset` is inside the mapping, whose pages are backed (invariant 1), and
            // this thread is the only one that has the mapping yet. Volatile, so that the write
            // of what was read is not left out.
            unsafe {
                let byte = self.pages.as_mut_ptr().add(offset);
                ptr::write_volatile(byte, ptr::read_volatile(byte));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touching_changes_nothing() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &[7; 10_000]).unwrap();
        let mapping = Mapping::of(&file, 10_000).unwrap();
        mapping.touch();
        mapping.write(9_999, b"x");
        drop(mapping);
        let mut bytes = vec![0; 10_000];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0).unwrap();
        assert!(bytes[..9_999].iter().all(|&byte| byte == 7));
        assert_eq!(bytes[9_999], b'x');
        assert!(Mapping::of(&file, 10_001).is_err());
    }
}
