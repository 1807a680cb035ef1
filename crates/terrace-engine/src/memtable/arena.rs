//! One allocation, filled from both ends and addressed by offsets.
//!
//! ```text
//! base (aligned to 64)                                                    base + capacity
//! │ 64 bytes │ entry │ entry │ entry →            free            ← node │ node │ node │
//! │ unused   │ aligned to 8                                          aligned to 64     │
//! ```
//!
//! An offset counts units of 8 bytes from the base, so that 32 bits reach 32 GiB and nothing
//! inside depends on where the arena lies. Offset 0 is nobody's: it means "none".
//!
//! `Invariant:` space is handed out once and never taken back before the arena is dropped.

#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{MmapMut, UncheckedAdvice};
use terrace_env::PmemScratch;
use terrace_env::atomic::{AtomicU64, Ordering};

use super::spare::SpareMemory;

/// Bytes of one unit of an offset.
pub(super) const UNIT_BYTES: usize = 8;
/// Nodes begin on cache lines.
pub(super) const LINE_BYTES: usize = 64;
/// The largest arena that 32-bit offsets address.
pub(super) const ARENA_BYTES_MAX: usize = (u32::MAX as usize + 1) * UNIT_BYTES - LINE_BYTES;

/// A place in the arena, in units of [`UNIT_BYTES`]; 0 is none.
pub(super) type Offset = u32;

/// What an arena lies in. Only the arena touches it, by its address.
pub(super) enum ArenaMemory {
    /// Ordinary memory, from the system.
    Ordinary(MmapMut),
    /// Pages on a medium.
    OnMedium(PmemScratch),
}

impl ArenaMemory {
    fn base(&mut self) -> NonNull<u8> {
        match self {
            ArenaMemory::Ordinary(memory) => NonNull::from(&mut memory[..]).cast(),
            ArenaMemory::OnMedium(pages) => pages.base(),
        }
    }
}

/// See the module's description. Allocating is safe from any thread; what is done with the
/// space is the caller's affair.
pub(super) struct Arena {
    base: NonNull<u8>,
    /// There until the arena is dropped.
    memory: Option<ArenaMemory>,
    /// Where it goes then.
    spares: Option<Arc<SpareMemory>>,
    /// Both ends in one word, so that every allocation sees whether they have met: the first
    /// free unit above the entries in the low half, the lowest unit of the nodes in the high.
    ends: AtomicU64,
    capacity_bytes: usize,
    #[cfg(terrace_loom)]
    witnesses: witness::Witnesses,
}

// Safety: the arena only hands out disjoint space and keeps no reference into it; `ends` is
// atomic and the other fields never change.
unsafe impl Send for Arena {}
// Safety: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena of `capacity_bytes`, rounded up to whole cache lines. Its pages come from the
    /// system and go back there, so that memory is taken only as it fills: an allocator that had
    /// kept the memory of an earlier arena would clear all of it by hand.
    ///
    /// # Panics
    /// If the capacity is beyond [`ARENA_BYTES_MAX`], or the system has no memory left.
    pub(super) fn new(capacity_bytes: usize) -> Arena {
        Arena::reusing(capacity_bytes, None)
    }

    /// As [`Arena::new`], in memory that `spares` have, if there is any: then what is in it is not
    /// zero.
    pub(super) fn reusing(capacity_bytes: usize, spares: Option<&Arc<SpareMemory>>) -> Arena {
        assert!(capacity_bytes <= ARENA_BYTES_MAX, "an arena holds at most 32 GiB");
        let capacity_bytes = Arena::whole(capacity_bytes);
        let memory = spares.and_then(|spares| spares.take(capacity_bytes));
        let mut memory = memory.unwrap_or_else(|| {
            let mapped = MmapMut::map_anon(capacity_bytes);
            ArenaMemory::Ordinary(mapped.expect("there is memory for a memtable"))
        });
        let base = memory.base();
        assert!(base.addr().get().is_multiple_of(LINE_BYTES), "mappings begin on pages");
        let first = LINE_BYTES / UNIT_BYTES;
        let ends = AtomicU64::new(pack(first as u64, (capacity_bytes / UNIT_BYTES) as u64));
        Arena {
            base,
            memory: Some(memory),
            spares: spares.cloned(),
            ends,
            capacity_bytes,
            #[cfg(terrace_loom)]
            witnesses: witness::Witnesses::default(),
        }
    }

    /// The capacity of an arena that is to have `bytes` bytes.
    pub(super) fn whole(bytes: usize) -> usize {
        bytes.next_multiple_of(LINE_BYTES).max(2 * LINE_BYTES)
    }

    /// The bytes between the two ends of the empty arena and the 64 unused ones.
    pub(super) fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Takes `bytes`, rounded up to whole units, from the entries' end. Any thread may call it.
    ///
    /// # Panics
    /// If the arena is full, which a reservation prevents.
    #[inline]
    pub(super) fn allocate_entry(&self, bytes: usize) -> Offset {
        let units = bytes.div_ceil(UNIT_BYTES) as u64;
        let (start, _) =
            self.take(|(start, limit)| (start + units <= limit).then_some((start + units, limit)));
        start as Offset
    }

    /// Takes `bytes`, a multiple of [`LINE_BYTES`], from the nodes' end.
    ///
    /// # Panics
    /// If the arena is full, which a reservation prevents.
    pub(super) fn allocate_node(&self, bytes: usize) -> Offset {
        debug_assert_eq!(bytes % LINE_BYTES, 0, "nodes are whole cache lines");
        let units = (bytes / UNIT_BYTES) as u64;
        let (_, start) =
            self.take(|(limit, start)| (limit + units <= start).then(|| (limit, start - units)));
        (start - units) as Offset
    }

    /// Moves the ends, and returns where they were.
    #[inline]
    fn take(&self, moved: impl Fn((u64, u64)) -> Option<(u64, u64)>) -> (u64, u64) {
        // Order: relaxed is enough, since the space becomes known to others only through an
        // offset that is published with release.
        let taken = self.ends.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |ends| {
            moved(unpack(ends)).map(|(entries, nodes)| pack(entries, nodes))
        });
        unpack(taken.expect("a reservation keeps the arena from being full"))
    }

    /// Whether `bytes` lie between the ends of this arena.
    #[inline]
    pub(super) fn holds(&self, bytes: &[u8]) -> bool {
        let base = self.base.as_ptr().addr();
        let from = bytes.as_ptr().addr();
        from >= base && from + bytes.len() <= base + self.capacity_bytes
    }

    /// Bytes that entries and nodes really take.
    pub(super) fn filled_bytes(&self) -> usize {
        let (entries, nodes) = unpack(self.ends.load(Ordering::Relaxed));
        entries as usize * UNIT_BYTES + (self.capacity_bytes - nodes as usize * UNIT_BYTES)
    }

    /// The address of an offset.
    ///
    /// # Safety
    /// `offset` was handed out by this arena.
    #[inline]
    pub(super) unsafe fn pointer(&self, offset: Offset) -> *mut u8 {
        debug_assert!((offset as usize) * UNIT_BYTES < self.capacity_bytes);
        debug_assert_ne!(offset, 0, "the null offset has no address");
        // Safety: an offset that was handed out lies inside the allocation.
        unsafe { self.base.as_ptr().add(offset as usize * UNIT_BYTES) }
    }

    /// Says that the plain bytes of the entry at `offset` are written now. Models check that no
    /// read of them can come at the same time; else this is nothing.
    #[inline]
    pub(super) fn note_write(&self, offset: Offset) {
        #[cfg(terrace_loom)]
        self.witnesses.write(offset);
        #[cfg(not(terrace_loom))]
        let _ = offset;
    }

    /// Says that the plain bytes of the entry at `offset` are read now.
    #[inline]
    pub(super) fn note_read(&self, offset: Offset) {
        #[cfg(terrace_loom)]
        self.witnesses.read(offset);
        #[cfg(not(terrace_loom))]
        let _ = offset;
    }

    /// Asks the processor for the `lines` cache lines at `offset` without waiting for them.
    #[inline]
    pub(super) fn prefetch(&self, offset: Offset, lines: usize) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        for line in 0..lines {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = offset as usize * UNIT_BYTES + line * LINE_BYTES;
            let pointer = self.base.as_ptr().wrapping_add(at);
            // Safety: a prefetch has no effect that a program can see, at any address.
            unsafe { _mm_prefetch(pointer.cast(), _MM_HINT_T0) };
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = (offset, lines);
    }
}

/// Lets the kernel take these pages when it is short of them; until they are written again, what
/// they hold may become zero. The caller is their only owner.
pub(super) fn may_be_taken(memory: &MmapMut) -> io::Result<()> {
    // Safety: the bytes of memory that is shared with nobody may change; no reference into it is
    // held.
    unsafe { memory.unchecked_advise(UncheckedAdvice::Free) }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let (Some(memory), Some(spares)) = (self.memory.take(), &self.spares) {
            spares.keep(memory, self.filled_bytes());
        }
    }
}

/// For models: which thread may touch which entry's plain bytes when. The model's own cells stand
/// for the bytes, since it does not see these.
#[cfg(terrace_loom)]
mod witness {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex, PoisonError};

    use loom::cell::UnsafeCell;

    use super::Offset;

    #[derive(Default)]
    pub(super) struct Witnesses {
        cells: Mutex<BTreeMap<Offset, Arc<UnsafeCell<()>>>>,
    }

    impl Witnesses {
        fn cell(&self, offset: Offset) -> Arc<UnsafeCell<()>> {
            let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry(offset).or_insert_with(|| Arc::new(UnsafeCell::new(()))))
        }

        pub(super) fn write(&self, offset: Offset) {
            self.cell(offset).with_mut(|_| ());
        }

        pub(super) fn read(&self, offset: Offset) {
            self.cell(offset).with(|_| ());
        }
    }
}

/// The two ends, in units, as one word.
fn pack(entries: u64, nodes: u64) -> u64 {
    nodes << 32 | entries
}

fn unpack(ends: u64) -> (u64, u64) {
    (ends & u64::from(u32::MAX), ends >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_disjoint_and_aligned() {
        let arena = Arena::new(1000);
        assert_eq!(arena.capacity_bytes(), 1024);
        let first = arena.allocate_entry(9);
        let second = arena.allocate_entry(8);
        assert_eq!((first, second), (8, 10));
        let node = arena.allocate_node(192);
        assert_eq!(node as usize * UNIT_BYTES, 1024 - 192);
        // Safety: the offset was just handed out.
        let address = unsafe { arena.pointer(node) };
        assert_eq!(address.addr() % LINE_BYTES, 0);
        assert_eq!(arena.filled_bytes(), 64 + 24 + 192);
    }

    #[test]
    #[should_panic(expected = "from being full")]
    fn the_ends_never_cross() {
        let arena = Arena::new(512);
        arena.allocate_entry(300);
        arena.allocate_node(192);
    }
}
