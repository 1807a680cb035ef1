//! Freezing: active memtables become frozen ones, which wait to be flushed.
//!
//! The active memtables of a range share one allowance, `memtable_bytes`. Each begins with half of
//! its share and is given more in steps, so that a hot drange gets what the others leave. When
//! nothing is left, all are frozen together, at one position of the log: one flush writes them as
//! one row over all keys, and the log from there on is all that is not in tables. Duplicates are
//! dranges like any other here.
//!
//! ```text
//!   dranges     0        1        2        3
//!   active    [███   ] [██    ] [█████████] [█     ]    together at most memtable_bytes
//!   frozen    [██████████] [██████] [████] [███████]    one set, one row of L0
//!   frozen    [███████ the memtable before the range was divided ████████]
//! ```
//! A range is divided when its first memtable is full, in the turn that freezes it, and divided
//! otherwise in any later freeze if `balance.rs` has found that the writes are not spread evenly.
//! What was frozen before is then listed in every drange that it has keys of.

use std::sync::Arc;

use smallvec::SmallVec;
use terrace_base::LogPosition;
use terrace_env::ExclusiveHold;

use crate::Result;
use crate::drange::{Active, Boundaries, Division, Drange, DrangeMap, Frozen};
use crate::ids::FileIds;
use crate::memtable::{Memtable, SpareMemory};
use crate::options::Options;
use crate::store::Inner;
use crate::store::turns::FreezeTurn;
use crate::store::upkeep::all_held::AllHeld;

/// What a batch lacks in memtables: (index of the drange, bytes).
pub(in crate::store) type Lacks = SmallVec<[(usize, usize); 1]>;

/// What a drange begins with beside the nodes of an empty tree, at least.
const BYTES_MIN: usize = 4 << 10;

/// Number of steps in which a memtable's share of the allowance is given out.
const STEPS_PER_SHARE: usize = 8;

/// A memtable for one of `dranges` dranges, with room for `bytes`.
pub(in crate::store) fn fresh_memtable(
    options: &Options,
    ids: &FileIds,
    spares: &Arc<SpareMemory>,
    dranges: usize,
    bytes: usize,
) -> Arc<Memtable> {
    let arena_bytes = options.memtable_bytes.max(Memtable::arena_bytes_for(bytes));
    let first_bytes = match dranges {
        1 => options.memtable_bytes,
        count => options.memtable_bytes / count / 2,
    };
    let limit_bytes = first_bytes.max(Memtable::arena_bytes_for(bytes.max(BYTES_MIN)));
    Arc::new(Memtable::reusing(ids.next_memtable(), arena_bytes, limit_bytes, spares))
}

impl Inner {
    /// Sees to it that a batch which found no room in memtables of `map` may find it next time.
    pub(in crate::store) fn make_memtable_room(
        &self,
        map: &Arc<DrangeMap>,
        lacks: &Lacks,
    ) -> Result<()> {
        {
            let turn = self.turns.freeze.lock();
            if !Arc::ptr_eq(map, &self.dranges.load()) || self.give_out(map, lacks) {
                return Ok(());
            }
            let divides = map.list().len() == 1 && self.options.drange_boundaries.is_empty();
            match divides.then(|| self.boundaries_for(map)).filter(|b| !b.keys().is_empty()) {
                Some(boundaries) => self.divide(map, boundaries.into(), &turn)?,
                None => self.freeze(map, lacks, &turn)?,
            }
        }
        self.schedule_flush();
        Ok(())
    }

    /// Freezes every active memtable that is not empty.
    pub(in crate::store) fn freeze_all(&self) -> Result<()> {
        let turn = self.turns.freeze.lock();
        self.freeze(&self.dranges.load_full(), &Lacks::new(), &turn)
    }

    /// If the log takes more space than it should, freezes the memtables that hold its oldest
    /// segment.
    pub(super) fn bound_log(&self) -> Result<()> {
        if !self.is_log_long()? {
            return Ok(());
        }
        let oldest = self.oldest_position(&[]);
        let segment_end = oldest.0 + self.options.log_segment_bytes;
        {
            let turn = self.turns.freeze.lock();
            let map = self.dranges.load_full();
            if map.list().iter().any(|drange| drange.active.shared().begin.0 < segment_end) {
                self.freeze(&map, &Lacks::new(), &turn)?;
            }
        }
        self.schedule_flush();
        Ok(())
    }

    /// A memtable for each of `dranges` dranges, with room for what is lacking.
    pub(super) fn fresh_memtables(&self, dranges: usize, lacks: &Lacks) -> Vec<Arc<Memtable>> {
        let lack_of = |index| lacks.iter().find(|(lacking, _)| *lacking == index);
        let bytes_of = |index| lack_of(index).map_or(0, |(_, bytes)| *bytes);
        let Inner { options, ids, spares, .. } = self;
        let fresh = |index| fresh_memtable(options, ids, spares, dranges, bytes_of(index));
        (0..dranges).map(fresh).collect()
    }

    /// Gives memtables what they lack out of the allowance; whether it was enough. The caller has
    /// the turn.
    fn give_out(&self, map: &DrangeMap, lacks: &Lacks) -> bool {
        let view = self.view.load();
        let active: Vec<&Arc<Memtable>> = view.active().collect();
        let given: usize = active.iter().map(|memtable| memtable.limit_bytes()).sum();
        let mut left_bytes = self.options.memtable_bytes.saturating_sub(given);
        let step_bytes = self.options.memtable_bytes / map.list().len() / STEPS_PER_SHARE;
        lacks.iter().all(|(index, bytes)| {
            let memtable = active[*index];
            let limit_bytes = memtable.limit_bytes();
            let Some(lack_bytes) = (memtable.used_bytes() + bytes).checked_sub(limit_bytes) else {
                return true;
            };
            let more_bytes = lack_bytes.max(step_bytes).min(left_bytes);
            left_bytes -= more_bytes;
            memtable.raise_limit(limit_bytes + more_bytes);
            memtable.limit_bytes() - limit_bytes >= lack_bytes
        })
    }

    /// Freezes every active memtable that is not empty; what takes their place has room for what is
    /// lacking.
    fn freeze(&self, map: &DrangeMap, lacks: &Lacks, turn: &FreezeTurn) -> Result<()> {
        if let Some(division) = self.balance.take_next(map.division()) {
            return self.divide(map, division, turn);
        }
        // Before anyone is held up.
        let fresh = self.fresh_memtables(map.list().len(), lacks);
        self.swap_all(&mut AllHeld::of(map, turn), fresh)
    }

    /// Where a range that has one drange is to be divided: where it was divided before, or else so
    /// that the keys in its memtable are spread evenly.
    fn boundaries_for(&self, map: &DrangeMap) -> Boundaries {
        let known = self.versions.current().drange_boundaries().to_vec();
        if !known.is_empty() {
            return Boundaries::new(known);
        }
        let memtable = Arc::clone(&map.list()[0].active.shared().memtable);
        Boundaries::new(memtable.dividing_keys(self.options.drange_count(self.env.parallelism())))
    }

    /// Freezes every active memtable that is not empty, and divides the range as `division` says
    /// from there on.
    pub(in crate::store) fn divide(
        &self,
        map: &DrangeMap,
        division: Division,
        turn: &FreezeTurn,
    ) -> Result<()> {
        let fresh = self.fresh_memtables(division.drange_count(), &Lacks::new());
        let mut unused = fresh.iter().cloned();
        let mut all = AllHeld::of(map, turn);
        let end = self.rotate_log()?;
        let divided = DrangeMap::new(self.env.as_ref(), division, || {
            Active::new(unused.next().expect("one was made for each drange"), end)
        });
        // Nobody writes to what stays behind: the map that names it is not the range's any more.
        let left = std::iter::repeat(Arc::clone(&fresh[0]));
        let frozen = exchange(map, &mut all, left, end).into_iter().flatten().collect();
        self.replace_view(false, |view| view.divided(&divided, fresh, frozen));
        // Order: readers see the new memtables before anyone can write to them. Writers that have
        // the old map find, once they share the hold, that it is not the map any more.
        self.dranges.store(Arc::new(divided));
        self.balance.begin_anew();
        self.end_generation(&all);
        drop(all);
        Ok(())
    }

    /// Rotates the log. A new segment whose header could not be written breaks the chain of
    /// segments, so nothing may be written behind it: the range is poisoned, as by any write to the
    /// log that fails.
    fn rotate_log(&self) -> Result<LogPosition> {
        self.log()?.rotate().inspect_err(|error| {
            self.poison(&format!("writing to the log failed: {error}"));
        })
    }

    /// Makes the `fresh` memtables the active ones, all at one position of the log. The old ones
    /// join the frozen ones, but for those that are empty.
    pub(super) fn swap_all(&self, all: &mut AllHeld<'_>, fresh: Vec<Arc<Memtable>>) -> Result<()> {
        let end = self.rotate_log()?;
        let frozen = exchange(&self.dranges.load(), all, fresh, end);
        self.end_generation(all);
        self.balance.count(&frozen);
        self.change_view(false, |view| {
            let mut dranges = view.dranges.clone();
            let fresh = all.holds.iter().map(|active| Arc::clone(&active.memtable));
            let mut exchanged = fresh.zip(frozen);
            for drange in &mut dranges {
                drange.exchange(&mut exchanged);
            }
            (dranges, Arc::clone(&view.version))
        });
        Ok(())
    }
}

/// Puts the `fresh` memtables, whose records will all stand at or above `end`, in the place of the
/// active ones; for each drange the memtable that is frozen thereby, if it holds anything.
fn exchange(
    map: &DrangeMap,
    all: &mut AllHeld<'_>,
    fresh: impl IntoIterator<Item = Arc<Memtable>>,
    end: LogPosition,
) -> Vec<Option<Arc<Frozen>>> {
    let begins_late = all.holds.iter().find(|active| active.begin > end);
    assert!(begins_late.is_none(), "a memtable begins behind {end}, where it is frozen");
    let held = all.holds.iter_mut().zip(map.list());
    let swap = |((active, drange), fresh): ((&mut ExclusiveHold<'_, Active>, &Arc<Drange>), _)| {
        let old = std::mem::replace(&mut **active, Active::new(fresh, end));
        (!old.memtable.is_empty()).then(|| Arc::new(old.into_frozen(drange.keys.clone(), end)))
    };
    held.zip(fresh).map(swap).collect()
}
