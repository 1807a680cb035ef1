//! The memory of an area, and which of its pages are owned: the pointers to it are here only.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, msync, munmap};

use super::{PMEM_PAGE_BYTES, PmemClaimed, assert_area_bytes};
use crate::Latch;

const PAGE_BYTES: usize = PMEM_PAGE_BYTES as usize;

/// The memory of an area.
///
/// Invariants:
/// 1. `base` is aligned to a page and has `bytes` bytes behind it, readable, writable and
///    initialized, until this value is dropped: the heap's, or a shared mapping of a file that is
///    as long, reserved, and locked against everybody else.
/// 2. The bytes of a page are touched by the one [`Pages`] only that claimed it.
pub(crate) struct Memory {
    base: NonNull<u8>,
    bytes: usize,
    backing: Backing,
    claims: Latch<Claims>,
}

enum Backing {
    /// Allocated with [`layout`].
    Heap,
    /// Mapped. The open file carries the lock, which goes when the mapping is gone.
    File(#[allow(dead_code, reason = "held for its lock")] File),
}

// Safety: `base` points to memory that belongs to this value and to no thread. Shared references to
// it give out pages, disjoint ones (invariant 2), and no other access to the bytes.
unsafe impl Send for Memory {}
// Safety: as above.
unsafe impl Sync for Memory {}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, PAGE_BYTES).expect("an area fits the address space")
}

impl Memory {
    /// Zeros of the heap.
    pub fn zeroed(bytes: u64) -> Arc<Memory> {
        assert_area_bytes(bytes);
        let bytes = usize::try_from(bytes).expect("an area fits the address space");
        // Safety: the layout is not empty, by the assertion.
        let base = unsafe { alloc_zeroed(layout(bytes)) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout(bytes)) };
        Arc::new(Memory::new(base, bytes, Backing::Heap))
    }

    /// Maps all of `file`, which is `bytes` long, reserved, and locked through this handle. Says
    /// whether the mapping is one of persistent memory, in which a line that was written back is
    /// durable.
    pub fn of_file(file: File, bytes: u64) -> io::Result<(Arc<Memory>, bool)> {
        assert_area_bytes(bytes);
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let (base, is_persistent) =
            match map(&file, bytes, MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
                Ok(base) => (base, cfg!(target_arch = "x86_64")),
                // No DAX here, or a kernel that does not know it.
                Err(Errno::OPNOTSUPP | Errno::INVAL) => {
                    (map(&file, bytes, MapFlags::SHARED)?, false)
                }
                Err(errno) => return Err(errno.into()),
            };
        Ok((Arc::new(Memory::new(base, bytes, Backing::File(file))), is_persistent))
    }

    fn new(base: NonNull<u8>, bytes: usize, backing: Backing) -> Memory {
        let claims = Latch::new(Claims { words: vec![0; (bytes / PAGE_BYTES).div_ceil(64)] });
        Memory { base, bytes, backing, claims }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Brings all pages into memory for writing, where the kernel can: changes nothing but speed.
    pub fn populate(&self) {
        // Safety: the advice changes no byte and unmaps nothing; the interval is the mapping
        // (invariant 1).
        let advised =
            unsafe { madvise(self.base.as_ptr().cast(), self.bytes, Advice::LinuxPopulateWrite) };
        // A kernel before 5.14 does not know it; the pages come in when they are touched.
        let _ = advised;
    }

    /// Writes the pages of these bytes back to the file, and waits until they are durable. Both
    /// numbers are multiples of a page.
    pub fn sync(&self, offset: usize, bytes: usize) -> io::Result<()> {
        assert!(offset.is_multiple_of(PAGE_BYTES) && self.holds(offset, bytes), "a sync of pages");
        // Safety: the interval lies in the mapping, which outlives the call; the kernel reads the
        // pages and changes none.
        Ok(unsafe { msync(self.base.as_ptr().add(offset).cast(), bytes, MsyncFlags::SYNC) }?)
    }

    /// See [`Pmem::claim`](super::Pmem::claim).
    pub fn claim(memory: &Arc<Memory>, offset: u64, bytes: u64) -> Result<Pages, PmemClaimed> {
        let end = offset.checked_add(bytes);
        assert!(
            bytes > 0
                && offset.is_multiple_of(PMEM_PAGE_BYTES)
                && bytes.is_multiple_of(PMEM_PAGE_BYTES)
                && end.is_some_and(|end| end <= memory.bytes as u64),
            "a claim of {bytes} bytes at {offset} in an area of {}",
            memory.bytes
        );
        // Both lie within the mapping, and so fit.
        let (offset, bytes) = (offset as usize, bytes as usize);
        memory.claims.lock().take(offset / PAGE_BYTES, bytes / PAGE_BYTES)?;
        Ok(Pages { memory: Arc::clone(memory), offset, bytes })
    }

    fn holds(&self, offset: usize, bytes: usize) -> bool {
        offset.checked_add(bytes).is_some_and(|end| end <= self.bytes)
    }
}

fn map(file: &File, bytes: usize, flags: MapFlags) -> Result<NonNull<u8>, Errno> {
    // Safety: the kernel chooses an address at which nothing is mapped.
    let base = unsafe {
        mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)
    }?;
    NonNull::new(base.cast()).ok_or(Errno::NOMEM)
}

impl Drop for Memory {
    fn drop(&mut self) {
        let base = self.base.as_ptr();
        match self.backing {
            // Safety: allocated with this layout, and nobody has a page any more: each `Pages`
            // holds an `Arc` of this value.
            Backing::Heap => unsafe { dealloc(base, layout(self.bytes)) },
            Backing::File(_) => {
                // Safety: this is the mapping and all of it, and nobody has a page any more.
                let unmapped = unsafe { munmap(base.cast(), self.bytes) };
                assert_eq!(unmapped, Ok(()), "a mapping can be given back");
            }
        }
    }
}

/// Which pages have an owner: a bit each.
#[derive(Debug)]
struct Claims {
    words: Vec<u64>,
}

impl Claims {
    /// Takes `count` pages from `first` on, or none.
    fn take(&mut self, first: usize, count: usize) -> Result<(), PmemClaimed> {
        for (word, mask) in masks(first, count) {
            let taken = self.words[word] & mask;
            if taken != 0 {
                let page = word * 64 + taken.trailing_zeros() as usize;
                return Err(PmemClaimed { offset: (page * PAGE_BYTES) as u64 });
            }
        }
        masks(first, count).for_each(|(word, mask)| self.words[word] |= mask);
        Ok(())
    }

    fn give_back(&mut self, first: usize, count: usize) {
        masks(first, count).for_each(|(word, mask)| self.words[word] &= !mask);
    }
}

/// The words in which `count` bits from `first` on lie, each with those of its bits.
fn masks(first: usize, count: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = first + count;
    (first / 64..end.div_ceil(64)).map(move |word| {
        let from = first.max(word * 64) - word * 64;
        let bits = end.min(word * 64 + 64) - word * 64 - from;
        (word, u64::MAX >> (64 - bits) << from)
    })
}

/// Claimed pages: the only way to the bytes of a [`Memory`].
///
/// Invariant: no other value has these pages, from the claim to the drop.
pub(crate) struct Pages {
    memory: Arc<Memory>,
    offset: usize,
    bytes: usize,
}

impl Pages {
    /// Where they begin.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// How many bytes they have. Makes no slice of them.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of the first byte. It stays as long as `self`.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        // Safety: the claim lies in the memory.
        unsafe { self.memory.base.add(self.offset) }
    }

    /// Copies `bytes` to `at`. Panics if they do not fit.
    #[inline]
    pub fn store(&mut self, at: usize, bytes: &[u8]) {
        let target = self.pointer(at, bytes.len());
        // Safety: the interval lies in these pages, which nobody else touches (the claim) and to
        // which no slice exists (`&mut self`); so the source lies elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) }
    }

    /// Stores the eight bytes of `word`, little-endian, at `at` in one step. Panics unless `at` is
    /// a multiple of 8 within the pages.
    #[inline]
    pub fn publish(&mut self, at: usize, word: u64) {
        assert!(at.is_multiple_of(8), "a word is published at a multiple of 8");
        let target = self.pointer(at, 8).cast::<u64>();
        // Safety: as in `store`; the pages and `at` are aligned to 8.
        unsafe { AtomicU64::from_ptr(target) }.store(word.to_le(), Ordering::Release);
    }

    /// A pointer to `bytes` bytes at `at`, which lie in these pages. Panics if they do not.
    #[inline]
    fn pointer(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(
            at.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "beyond the end of a span"
        );
        // Safety: the claim lies in the memory, and the interval in the claim.
        unsafe { self.memory.base.as_ptr().add(self.offset + at) }
    }
}

impl Deref for Pages {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // Safety: the bytes are initialized (invariant 1 of `Memory`) and alive for as long as
        // `self`; they are stored to through `&mut self` only, and by nobody else (the claim).
        unsafe { slice::from_raw_parts(self.pointer(0, self.bytes), self.bytes) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.memory.claims.lock().give_back(self.offset / PAGE_BYTES, self.bytes / PAGE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PMEM_PAGE_BYTES;

    #[test]
    fn a_page_has_one_owner_and_a_failed_claim_takes_none() {
        let memory = Memory::zeroed(200 * PAGE);
        let middle = Memory::claim(&memory, 64 * PAGE, 2 * PAGE).unwrap();
        for (first, count, taken) in [(0, 200, 64), (64, 1, 64), (65, 9, 65), (1, 64, 64)] {
            let claimed = Memory::claim(&memory, first * PAGE, count * PAGE).map(|_| ());
            assert_eq!(claimed, Err(PmemClaimed { offset: taken * PAGE }), "{first} {count}");
        }
        let below = Memory::claim(&memory, 0, 64 * PAGE).unwrap();
        let above = Memory::claim(&memory, 66 * PAGE, 134 * PAGE).unwrap();
        drop(middle);
        assert!(Memory::claim(&memory, 64 * PAGE, 2 * PAGE).is_ok());
        drop((below, above));
        assert!(Memory::claim(&memory, 0, 200 * PAGE).is_ok());
    }

    #[test]
    fn the_next_owner_of_a_page_reads_what_the_last_one_stored() {
        let memory = Memory::zeroed(2 * PAGE);
        let mut first = Memory::claim(&memory, PAGE, PAGE).unwrap();
        assert!(first.iter().all(|&byte| byte == 0));
        first.store(PAGE as usize - 3, b"end");
        first.publish(8, 0x0102);
        let reader = std::thread::spawn(move || first[8]);
        assert_eq!(reader.join().unwrap(), 2);
        let all = Memory::claim(&memory, 0, 2 * PAGE).unwrap();
        assert_eq!(&all[PAGE as usize + 8..][..3], [2, 1, 0]);
        assert_eq!(&all[2 * PAGE as usize - 3..], b"end");
    }

    #[test]
    #[should_panic(expected = "beyond the end of a span")]
    fn a_store_beyond_the_span_is_refused() {
        let memory = Memory::zeroed(2 * PAGE);
        Memory::claim(&memory, 0, PAGE).unwrap().store(PAGE as usize - 1, b"xy");
    }

    #[test]
    #[should_panic(expected = "at a multiple of 8")]
    fn a_word_is_aligned() {
        Memory::claim(&Memory::zeroed(PAGE), 0, PAGE).unwrap().publish(4, 1);
    }

    #[test]
    #[should_panic(expected = "a claim of 8192 bytes at 0 in an area of 4096")]
    fn a_claim_beyond_the_area_is_refused() {
        let _ = Memory::claim(&Memory::zeroed(PAGE), 0, 2 * PAGE);
    }
}
