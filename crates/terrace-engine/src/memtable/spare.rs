//! The memory of memtables: of those that have gone, for those to come, or that of an area on a
//! medium.
//!
//! A page that is touched for the first time costs a fault, some microseconds on a virtual machine:
//! with large values that is a fifth of what a put costs. What lies here the kernel may take
//! whenever it is short of memory (`MADV_FREE`); what it did not need is used again without a
//! fault.
//!
//! ```text
//!   area on a medium  │ slot 0: active memtable │ slot 1: frozen one │  a claim each (NoveLSM)
//! ```

use std::fmt;

use memmap2::MmapMut;
use terrace_env::atomic::{AtomicU64, Ordering};
use terrace_env::{Latch, PMEM_PAGE_BYTES, Pmem, PmemMedium};

use super::arena::{Arena, ArenaMemory, may_be_taken};

/// The memory of arenas of one store, all of one size. See the module's description.
pub struct SpareMemory {
    arena_bytes: usize,
    spare: Latch<Spare>,
    /// Where arenas are; their number is what fits.
    area: Option<Pmem>,
    /// How many found no room there.
    elsewhere_count: AtomicU64,
}

#[derive(Default)]
struct Spare {
    arenas: Vec<(MmapMut, usize)>,
    /// How much of them was filled: no more than one of them is large.
    filled_bytes: usize,
}

/// Number of arenas that are kept at most, however little was in them.
const ARENAS_MAX: usize = 64;

impl SpareMemory {
    /// For arenas of `arena_bytes`; others are not kept.
    #[must_use]
    pub fn new(arena_bytes: usize) -> SpareMemory {
        SpareMemory {
            arena_bytes: Arena::whole(arena_bytes),
            spare: Latch::default(),
            area: None,
            elsewhere_count: AtomicU64::new(0),
        }
    }

    /// For arenas of `arena_bytes` in `area`, of [`SpareMemory::area_bytes`]. What finds no room
    /// there, since somebody still reads an earlier one, is in ordinary memory.
    #[must_use]
    pub fn on_medium(arena_bytes: usize, area: Pmem) -> SpareMemory {
        SpareMemory { area: Some(area), ..SpareMemory::new(arena_bytes) }
    }

    /// The size of an area for `arenas` arenas.
    #[must_use]
    pub fn area_bytes(arena_bytes: usize, arenas: u64) -> u64 {
        slot_bytes(Arena::whole(arena_bytes)) * arenas
    }

    /// What arenas are on, if it is no ordinary memory, and how many found no room there.
    #[must_use]
    pub fn medium(&self) -> Option<(PmemMedium, u64)> {
        let elsewhere_count = self.elsewhere_count.load(Ordering::Relaxed);
        self.area.as_ref().map(|area| (area.medium(), elsewhere_count))
    }

    /// Memory for an arena of `arena_bytes` bytes, whatever is in it, if there is any here.
    pub(super) fn take(&self, arena_bytes: usize) -> Option<ArenaMemory> {
        if let Some(area) = &self.area {
            let on_medium = self.take_slot(area, arena_bytes);
            if on_medium.is_none() {
                self.elsewhere_count.fetch_add(1, Ordering::Relaxed);
            }
            return on_medium;
        }
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
        Some(ArenaMemory::Ordinary(memory))
    }

    /// A slot of the area in which nobody is.
    fn take_slot(&self, area: &Pmem, arena_bytes: usize) -> Option<ArenaMemory> {
        if arena_bytes != self.arena_bytes {
            return None;
        }
        let slot_bytes = slot_bytes(self.arena_bytes);
        let mut slots = 0..area.bytes() / slot_bytes;
        let free = slots.find_map(|slot| area.claim(slot * slot_bytes, slot_bytes).ok())?;
        Some(ArenaMemory::OnMedium(free.into_scratch()))
    }

    /// Gives back what is kept here.
    pub fn give_back(&self) {
        let kept = std::mem::take(&mut *self.spare.lock());
        drop(kept);
    }

    /// Keeps the memory of an arena of which `filled_bytes` bytes were filled.
    pub(super) fn keep(&self, memory: ArenaMemory, filled_bytes: usize) {
        // That on a medium is free again when it is dropped.
        let ArenaMemory::Ordinary(memory) = memory else { return };
        let fits = |spare: &Spare| {
            spare.arenas.len() < ARENAS_MAX && spare.filled_bytes + filled_bytes <= self.arena_bytes
        };
        if self.area.is_some() || memory.len() != self.arena_bytes || !fits(&self.spare.lock()) {
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

fn slot_bytes(arena_bytes: usize) -> u64 {
    (arena_bytes as u64).next_multiple_of(PMEM_PAGE_BYTES)
}

impl fmt::Debug for SpareMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spare = self.spare.lock();
        f.debug_struct("SpareMemory")
            .field("arenas", &spare.arenas.len())
            .field("filled_bytes", &spare.filled_bytes)
            .field("area", &self.area)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use terrace_env::{Env, SimEnv, SimOptions};

    use super::*;

    const BYTES: usize = 64 << 10;

    fn memory(bytes: usize) -> ArenaMemory {
        ArenaMemory::Ordinary(MmapMut::map_anon(bytes).expect("there is memory"))
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

    #[test]
    fn an_area_has_room_for_its_arenas_and_others_are_elsewhere() {
        SimEnv::run(SimOptions::new(70), |env| {
            let bytes = SpareMemory::area_bytes(BYTES, 2);
            let area = env.fs().create_pmem(Path::new("/area"), bytes).unwrap();
            let spares = SpareMemory::on_medium(BYTES, area);
            let first = spares.take(BYTES).expect("the area is empty");
            let second = spares.take(BYTES).expect("one slot is left");
            assert!(spares.take(BYTES).is_none());
            spares.keep(first, 1);
            assert!(spares.take(BYTES).is_some());
            assert!(spares.take(BYTES / 2).is_none(), "of another size");
            assert_eq!(spares.medium(), Some((PmemMedium::Simulated, 2)));
            drop(second);
        });
    }
}
