use std::sync::Arc;

use terrace_env::Latch;
use terrace_env::atomic::{AtomicU64, Ordering};

use crate::l0::triangle::Page;

/// A row's pages of data, by their places among them: each from when the row has it until it gives
/// it up.
///
/// ```text
///   place      0     1     2     3     4     5
///            ┌─────┬─────┬─────┬─────┬─────┬─────┐
///   page     │  #7 │  -  │  -  │ #21 │ #22 │ #23 │      1 and 2 were cut
///   checked  │  1  │  1  │  0  │  1  │  0  │  0  │
///            └─────┴─────┴─────┴─────┴─────┴─────┘
/// ```
/// Any number of threads may look while one gives up. Who has taken a page keeps it: it is free
/// again when the last of them lets go.
pub(super) struct DataPages {
    /// Latched for as long as it takes to count a holder. (Shared references that are swapped whole
    /// would make a look cheaper, and giving up dearer by far: a cut gives up a thousand.)
    slots: Vec<Latch<Option<Arc<Page>>>>,
    /// A bit for each page whose checksum was found to fit.
    checked: Vec<AtomicU64>,
}

impl DataPages {
    /// Room for `count` pages, none of which is there.
    pub fn new(count: usize) -> DataPages {
        DataPages {
            slots: (0..count).map(|_| Latch::default()).collect(),
            checked: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// How many there were in the beginning.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Takes one.
    pub fn hold(&self, place: usize, page: Page) {
        *self.slots[place].lock() = Some(Arc::new(page));
    }

    /// One of them, if it is there.
    #[inline]
    pub fn get(&self, place: usize) -> Option<Arc<Page>> {
        self.slots[place].lock().clone()
    }

    /// Whether one is there.
    pub fn has(&self, place: usize) -> bool {
        self.slots[place].lock().is_some()
    }

    /// Those that are there.
    pub fn held(&self) -> impl Iterator<Item = Arc<Page>> {
        (0..self.count()).filter_map(|place| self.get(place))
    }

    /// Lets go of one. Whether it was there.
    pub fn give_up(&self, place: usize) -> bool {
        // The page goes back to the container, which has a latch of its own.
        let page = self.slots[place].lock().take();
        page.is_some()
    }

    /// Whether the checksum of one is known to fit.
    #[inline]
    pub fn is_checked(&self, place: usize) -> bool {
        // Order: relaxed, since the bit says something about bytes that never change.
        self.checked[place / 64].load(Ordering::Relaxed) & (1 << (place % 64)) != 0
    }

    /// Its checksum was found to fit.
    pub fn note_checked(&self, place: usize) {
        self.checked[place / 64].fetch_or(1 << (place % 64), Ordering::Relaxed);
    }

    /// Bytes of memory, beside what it is itself.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&self.slots[..]) + size_of_val(&self.checked[..])
    }
}
