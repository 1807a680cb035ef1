//! Counts what an execution allocates, for the bound that each target has.
//!
//! A library cannot choose its program's allocator, so programs that want the count say
//! ```
//! #[global_allocator]
//! static ALLOCATOR: terrace_fuzz::allocation::Counting = terrace_fuzz::allocation::Counting;
//! ```
//! Without it every count is 0 and no bound is ever broken. Counts are of one thread: what a target
//! does on other threads is not in them.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted for threads that ask for it.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static IS_COUNTING: Cell<bool> = const { Cell::new(false) };
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

/// Runs `work` and returns what it returned with the most bytes that it held at a time, beyond what
/// it found.
pub fn peak_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    LIVE_BYTES.set(0);
    PEAK_BYTES.set(0);
    IS_COUNTING.set(true);
    let result = work();
    IS_COUNTING.set(false);
    (result, usize::try_from(PEAK_BYTES.get()).unwrap_or(0))
}

/// Counts `bytes` that another thread held at most, as if this one had.
pub fn add_peak(bytes: usize) {
    let live = LIVE_BYTES.get() + isize::try_from(bytes).unwrap_or(isize::MAX / 2);
    PEAK_BYTES.set(PEAK_BYTES.get().max(live));
}

fn count(bytes: isize) {
    // A thread that is ending has no counters any more.
    let is_counting = IS_COUNTING.try_with(Cell::get).unwrap_or(false);
    if is_counting {
        let live = LIVE_BYTES.get() + bytes;
        LIVE_BYTES.set(live);
        PEAK_BYTES.set(PEAK_BYTES.get().max(live));
    }
}

// Safety: hands every call through to the system's allocator, and counts beside it without
// allocating: the counters are plain cells that need neither initialisation nor destruction.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // Safety: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // Safety: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // Safety: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // While the bytes are moved, both are there.
        count(bytes as isize);
        count(-(layout.size() as isize));
        // Safety: as the caller promised.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
