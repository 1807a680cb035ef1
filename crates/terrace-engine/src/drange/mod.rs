//! Dranges: the sub-intervals of a range that own memtables.
//!
//! # Why
//! One memtable for a whole range makes all its writers meet in one place. A drange has its own
//! active memtable, so that writers of different dranges touch no common data, and memtables stay
//! small enough for the processor's caches.
//!
//! *Source:* Nova-LSM (SIGMOD 2021), §4.1.
//! *Differs:* a range has one drange until its first memtable is full, and is then divided by the
//! keys in it ([`Memtable::dividing_keys`]); from then on each flush takes a sample of the writes
//! ([`SampledStream`]), and [`balance`] judges whether the range is to be divided otherwise. The
//! manifest keeps the boundaries. All active memtables of a range share one allowance and are frozen
//! together, so that one flush writes one row over all keys, and a reorganisation costs nothing but
//! the freeze that it waits for: no memtable of one generation is older than one of another. Hot
//! keys are not duplicated, and the lookup index is not built.
//!
//! # Invariants
//! 1. The dranges of a range are disjoint and cover every key.
//! 2. A writer holds its dranges shared, in key order, from before it takes its sequence numbers
//!    until its entries are inserted; a freeze and a conditional write hold them exclusively. So
//!    an exclusive holder meets no half-done write.
//! 3. The view that readers see names a drange's new memtable before anyone can write to it.

pub mod balance;
mod boundaries;
pub mod merging;
mod sample;

use std::sync::Arc;

use terrace_base::{KeyRange, LogPosition, MemtableId};
use terrace_env::{Env, Hold};

use crate::memtable::Memtable;

pub use boundaries::Boundaries;
pub use sample::{SampledStream, WriteSample};

/// What a drange writes to.
#[derive(Debug)]
pub struct Active {
    /// The active memtable.
    pub memtable: Arc<Memtable>,
    /// No record of the memtable stands below this position.
    pub begin: LogPosition,
    /// The memtables of earlier opens whose entries a replay put into this one.
    pub replayed: Vec<MemtableId>,
}

impl Active {
    /// With a memtable that holds nothing yet; all its records will stand at or above `begin`.
    #[must_use]
    pub fn new(memtable: Arc<Memtable>, begin: LogPosition) -> Active {
        Active { memtable, begin, replayed: Vec::new() }
    }

    /// What this becomes when it takes no more entries: all its records stand below `end`. `keys`
    /// hold all of its keys.
    #[must_use]
    pub fn into_frozen(self, keys: KeyRange, end: LogPosition) -> Frozen {
        let mut covers = self.replayed;
        covers.push(self.memtable.id());
        Frozen { memtable: self.memtable, keys, begin: self.begin, end, covers, is_merged: false }
    }
}

/// One drange.
#[derive(Debug)]
pub struct Drange {
    /// Its keys.
    pub keys: KeyRange,
    /// Its active memtable, under the hold that writers share.
    pub active: Hold<Active>,
}

/// A memtable that takes no more entries, and waits to be flushed or was merged ([`merging`]).
#[derive(Debug)]
pub struct Frozen {
    /// The memtable.
    pub memtable: Arc<Memtable>,
    /// All its keys lie in here: the keys of the drange that it was the active one of.
    pub keys: KeyRange,
    /// No record of it stands below this position,
    pub begin: LogPosition,
    /// nor at or above this one.
    pub end: LogPosition,
    /// The memtables whose entries are in it: itself, and those of earlier opens; or those that were
    /// merged into it.
    pub covers: Vec<MemtableId>,
    /// Whether it was merged in memory, and stays there as long as that pays.
    pub is_merged: bool,
}

impl Frozen {
    /// Orders memtables by their age, the oldest first: at no key does one hold anything older than
    /// what one before it holds there.
    #[must_use]
    pub fn age(&self) -> (LogPosition, MemtableId) {
        (self.end, self.memtable.id())
    }
}

/// All dranges of a range, in key order.
#[derive(Debug)]
pub struct DrangeMap {
    boundaries: Arc<Boundaries>,
    dranges: Vec<Arc<Drange>>,
}

impl DrangeMap {
    /// Divides all keys at `boundaries`; `active` makes what each drange writes to, in key order.
    pub fn new(env: &dyn Env, boundaries: Boundaries, mut active: impl FnMut() -> Active) -> Self {
        let waits = env.waits();
        let keys = boundaries.keys();
        let starts = std::iter::once(&[][..]).chain(keys.iter().map(Vec::as_slice));
        let dranges = starts.enumerate().map(|(index, start)| {
            let keys = KeyRange::new(start, keys.get(index).cloned());
            Arc::new(Drange { keys, active: waits.hold(active()) })
        });
        DrangeMap { dranges: dranges.collect(), boundaries: Arc::new(boundaries) }
    }

    /// Where the keys are divided.
    #[must_use]
    pub fn boundaries(&self) -> &Arc<Boundaries> {
        &self.boundaries
    }

    /// The dranges, in key order.
    #[must_use]
    pub fn list(&self) -> &[Arc<Drange>] {
        &self.dranges
    }

    /// Index of the drange that holds `key`.
    #[must_use]
    #[inline]
    pub fn index_of(&self, key: &[u8]) -> usize {
        self.boundaries.index_of(key)
    }

    /// Indexes of the dranges that share a key with `range`.
    #[must_use]
    pub fn indexes_of(&self, range: &KeyRange) -> std::ops::Range<usize> {
        let first = self.index_of(range.start());
        let after = self.dranges.partition_point(|d| !range.is_before(d.keys.start()));
        first..after.max(first)
    }
}
