//! The memory of memtables that have gone, for those to come.
//!
//! A page that is touched for the first time costs a fault, some microseconds on a virtual machine: with
//! large values that is a fifth of what a put costs. What lies here the kernel may take whenever it is
//! short of memory (`MADV_FREE`); what it did not need is used again without a fault.

use std::fmt;

use memmap2::MmapMut;
use terrace_env::Latch;

use super::arena::{Arena, may_be_taken};

/// The memory of arenas of one store, all of one size. See the module's description.
pub struct SpareMemory {
    arena_bytes: usize,
    spare: Latch<Spare>,
}

#[derive(Default)]
struct Spare {
    arenas: Vec<(MmapMut, usize)>,
    /// How much of them was filled: no more than one of them is large.
    filled_bytes: usize,
}

/// So many arenas are kept at most, however little was in them.
const ARENAS_MAX: usize = 64;

impl SpareMemory {
    /// For arenas of `arena_bytes`; others are not kept.
    #[must_use]
    pub fn new(arena_bytes: usize) -> SpareMemory {
        SpareMemory { arena_bytes: Arena::whole(arena_bytes), spare: Latch::default() }
    }

    /// The memory of an earlier arena of so many bytes, whatever is in it.
    pub(super) fn take(&self, arena_bytes: usize) -> Option<MmapMut> {
        if arena_bytes != self.arena_bytes {
            return None;
        }
        let (mut memory, filled_bytes) = {
            let mut spare = self.spare.lock();
            let found = spare.arenas.pop()?;
            spare.filled_bytes -= found.1;
            found
        };
        if cfg!(debug_assertions) {
            // Nobody may rely on fresh memory's zeros.
            let rest = memory.len().saturating_sub(filled_bytes);
            memory[..filled_bytes].fill(0xa5);
            memory[rest..].fill(0xa5);
        }
        Some(memory)
    }

    /// Keeps the memory of an arena of which so many bytes were filled.
    pub(super) fn keep(&self, memory: MmapMut, filled_bytes: usize) {
        let fits = |spare: &Spare| {
            spare.arenas.len() < ARENAS_MAX && spare.filled_bytes + filled_bytes <= self.arena_bytes
        };
        if memory.len() != self.arena_bytes || !fits(&self.spare.lock()) {
            return;
        }
        if may_be_taken(&memory).is_err() {
            return;
        }
        let mut spare = self.spare.lock();
        if fits(&spare) {
            spare.filled_bytes += filled_bytes;
            spare.arenas.push((memory, filled_bytes));
        }
    }
}

impl fmt::Debug for SpareMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spare = self.spare.lock();
        f.debug_struct("SpareMemory")
            .field("arenas", &spare.arenas.len())
            .field("filled_bytes", &spare.filled_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 64 << 10;

    fn memory(bytes: usize) -> MmapMut {
        MmapMut::map_anon(bytes).expect("there is memory")
    }

    fn kept(spares: &SpareMemory) -> usize {
        spares.spare.lock().arenas.len()
    }

    #[test]
    fn one_large_arena_is_kept_or_several_that_were_hardly_used() {
        let spares = SpareMemory::new(BYTES);
        spares.keep(memory(BYTES / 2), 1);
        assert_eq!(kept(&spares), 0, "of another size");
        spares.keep(memory(BYTES), BYTES - 8);
        spares.keep(memory(BYTES), 9);
        assert_eq!(kept(&spares), 1);
        spares.keep(memory(BYTES), 8);
        assert_eq!(kept(&spares), 2);
        assert!(spares.take(BYTES / 2).is_none());
        assert!(spares.take(BYTES).is_some() && spares.take(BYTES).is_some());
        assert!(spares.take(BYTES).is_none());
        (0..2 * ARENAS_MAX).for_each(|_| spares.keep(memory(BYTES), 0));
        assert_eq!(kept(&spares), ARENAS_MAX);
    }
}
