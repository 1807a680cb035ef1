use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;
use terrace_base::{KeyRange, LogPosition, MemtableId, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::Inner;
use super::current::Numbered;
use super::read_points::SnapshotPause;
use crate::drange::{Boundaries, DrangeMap, Frozen};
use crate::memtable::Memtable;
use crate::version::Version;

/// Everything that a read needs, immutable: each drange's memtables, and the version.
#[derive(Debug)]
pub struct View {
    /// Where the keys are divided.
    pub boundaries: Arc<Boundaries>,
    /// One for each interval between boundaries.
    pub dranges: Vec<DrangeView>,
    /// Bytes of the memtables that wait to be flushed.
    pub frozen_bytes: usize,
    /// Bytes of the memtables that were merged in memory.
    pub merged_bytes: usize,
    /// The rows and tables.
    pub version: Arc<Version>,
    /// How many changes before it let go of something: a later view with a greater count no longer
    /// names all that this one keeps alive.
    pub removals: u64,
    /// How many changes before it put into effect what a filter did: a read that began with an
    /// earlier view sees something else in this one.
    pub filterings: u64,
    /// The number of views before it.
    pub number: u64,
}

impl Numbered for View {
    #[inline]
    fn number(&self) -> u64 {
        self.number
    }
}

/// The memtables of one drange, or of one and its duplicates.
#[derive(Clone, Debug)]
pub struct DrangeView {
    /// Its keys.
    pub keys: KeyRange,
    /// Takes entries.
    pub active: Arc<Memtable>,
    /// So do these, of its duplicates.
    pub duplicates: Vec<Arc<Memtable>>,
    /// Take no more entries, newest first; those of a set side by side.
    pub frozen: Vec<Arc<Frozen>>,
    /// Whether any memtables are of one set: then the first one that has an entry of a key need not
    /// have the newest. [`View::new`] sets it.
    pub has_sets: bool,
    /// For each of the frozen ones, the least number in it and in the newer ones.
    least: Vec<SeqNo>,
}

impl DrangeView {
    /// With the active memtables of a drange and its duplicates, at least one.
    pub fn new(
        keys: KeyRange,
        active: impl IntoIterator<Item = Arc<Memtable>>,
        frozen: Vec<Arc<Frozen>>,
    ) -> DrangeView {
        let mut all = active.into_iter();
        let active = all.next().expect("a drange has an active memtable");
        DrangeView {
            keys,
            active,
            duplicates: all.collect(),
            frozen,
            has_sets: false,
            least: Vec::new(),
        }
    }

    /// The memtables that take entries.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.duplicates)
    }

    /// Whether `memtable` takes entries.
    pub fn is_active(&self, memtable: &Arc<Memtable>) -> bool {
        self.active().any(|active| Arc::ptr_eq(active, memtable))
    }

    /// Whether no memtable holds anything. What is published before the call counts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memtables().all(|memtable| memtable.is_empty())
    }

    /// Finds out whether there are sets, and from which frozen memtable on keys of some age may be
    /// found.
    fn rank(&mut self) {
        let has_frozen_sets = self.frozen.windows(2).any(|pair| pair[0].is_beside(&pair[1]));
        self.has_sets = !self.duplicates.is_empty() || has_frozen_sets;
        let mut least = SeqNo::MAX;
        let frozen = self.frozen.iter();
        self.least.clear();
        self.least.extend(frozen.map(|frozen| {
            least = least.min(frozen.memtable.least_indexed());
            least
        }));
    }

    /// The memtables that may hold versions of a key that has none at or above `limit`, newest
    /// first, where none are of one set.
    #[inline]
    pub fn memtables_below(&self, limit: SeqNo) -> impl Iterator<Item = &Arc<Memtable>> {
        let is_searched = limit == SeqNo::MAX || self.active.least_indexed() < limit;
        let active = is_searched.then_some(&self.active);
        let skipped = self.least.partition_point(|least| *least >= limit);
        active.into_iter().chain(self.frozen[skipped..].iter().map(|frozen| &frozen.memtable))
    }

    /// The memtables that [`DrangeView::memtables_below`] leaves out.
    pub fn memtables_skipped(&self, limit: SeqNo) -> impl Iterator<Item = &Arc<Memtable>> {
        let searched: Vec<_> = self.memtables_below(limit).map(|memtable| memtable.id()).collect();
        self.memtables().filter(move |memtable| !searched.contains(&memtable.id()))
    }

    /// The memtables: those that take entries, and the others, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.active().chain(self.frozen.iter().map(|frozen| &frozen.memtable))
    }

    /// The memtables by sets, newest first: every number in a set is greater than any in a later
    /// one.
    pub fn sets(&self) -> impl Iterator<Item = SmallVec<[&Arc<Memtable>; 4]>> {
        let frozen = self.frozen.chunk_by(|one, other| one.is_beside(other));
        let frozen = frozen.map(|set| set.iter().map(|one| &one.memtable).collect());
        std::iter::once(self.active().collect()).chain(frozen)
    }

    /// Takes the next of `fresh` for each active memtable, and what it froze to.
    pub fn exchange(
        &mut self,
        fresh: &mut impl Iterator<Item = (Arc<Memtable>, Option<Arc<Frozen>>)>,
    ) {
        for (active, (fresh, frozen)) in
            std::iter::once(&mut self.active).chain(&mut self.duplicates).zip(fresh)
        {
            *active = fresh;
            if let Some(frozen) = frozen {
                self.frozen.insert(0, frozen);
            }
        }
    }
}

impl View {
    /// A view that lets go of nothing.
    #[must_use]
    pub fn new(
        boundaries: Arc<Boundaries>,
        dranges: Vec<DrangeView>,
        version: Arc<Version>,
    ) -> View {
        let mut view = View {
            boundaries,
            dranges,
            frozen_bytes: 0,
            merged_bytes: 0,
            version,
            removals: 0,
            filterings: 0,
            number: 0,
        };
        let touch = |pair: &[DrangeView]| pair[0].keys.end() == Some(pair[1].keys.start());
        assert!(view.dranges.windows(2).all(touch), "a key lies between dranges, or in two");
        view.dranges.iter_mut().for_each(DrangeView::rank);
        for frozen in view.frozen() {
            let bytes = frozen.memtable.used_bytes();
            *if frozen.is_merged { &mut view.merged_bytes } else { &mut view.frozen_bytes } +=
                bytes;
        }
        view
    }

    /// What readers see once the range is divided as `map` is: its empty memtables are the active
    /// ones, and `frozen` join those that wait. A memtable that holds keys of several intervals is
    /// listed in each.
    #[must_use]
    pub fn divided(
        &self,
        map: &DrangeMap,
        active: Vec<Arc<Memtable>>,
        frozen: Vec<Arc<Frozen>>,
    ) -> View {
        let mut waiting = self.frozen();
        waiting.extend(frozen);
        waiting.sort_by_key(|frozen| std::cmp::Reverse(frozen.age()));
        let mut active = active.into_iter();
        let division = map.division();
        let dranges = division.duplicates().enumerate().map(|(interval, duplicates)| {
            let keys = map.keys_of(interval).clone();
            let overlap = waiting.iter().filter(|frozen| frozen.keys.overlaps(&keys));
            let frozen = overlap.cloned().collect();
            DrangeView::new(keys, active.by_ref().take(duplicates), frozen)
        });
        View::new(Arc::clone(map.boundaries()), dranges.collect(), Arc::clone(&self.version))
    }

    /// The drange that holds `key`.
    #[must_use]
    #[inline]
    pub fn drange_for(&self, key: &[u8]) -> &DrangeView {
        &self.dranges[self.boundaries.index_of(key)]
    }

    /// The memtables that take entries, one for each drange, in their order.
    pub fn active(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        self.dranges.iter().flat_map(DrangeView::active)
    }

    /// Every memtable, each once; one that holds newer versions of a key before one with older
    /// ones, duplicates apart.
    #[must_use]
    pub fn memtables(&self) -> Vec<Arc<Memtable>> {
        let active = self.active().map(Arc::clone);
        let mut frozen = self.frozen();
        frozen.reverse();
        active.chain(frozen.iter().map(|frozen| Arc::clone(&frozen.memtable))).collect()
    }

    /// A number that nothing in memtables and L0 is below.
    #[must_use]
    pub fn least_seqno(&self) -> SeqNo {
        let memtables = self.memtables();
        let memtables = memtables.iter().filter_map(|memtable| memtable.least_seqno());
        let rows = self.version.l0().live().iter().map(|live| live.table.meta().least_seqno);
        memtables.chain(rows).min().unwrap_or(SeqNo::MAX)
    }

    /// The most memtables of one drange that wait to be flushed; those of a set count as one.
    #[must_use]
    pub fn waiting_count_max(&self) -> usize {
        let waiting = |drange: &DrangeView| {
            let sets = drange.frozen.chunk_by(|one, other| one.is_beside(other));
            sets.filter(|set| !set[0].is_merged).count()
        };
        self.dranges.iter().map(waiting).max().unwrap_or(0)
    }

    /// The position below which no memtable that takes no more entries has a record, those in
    /// `except` apart.
    #[must_use]
    pub fn oldest_frozen(&self, except: &[MemtableId]) -> Option<LogPosition> {
        let frozen = self.frozen();
        let needed = frozen.iter().filter(|frozen| !except.contains(&frozen.memtable.id()));
        needed.map(|frozen| frozen.begin).min()
    }

    /// Every memtable that takes no more entries, oldest first.
    #[must_use]
    pub fn frozen(&self) -> Vec<Arc<Frozen>> {
        let mut frozen: Vec<_> =
            self.dranges.iter().flat_map(|drange| drange.frozen.iter().cloned()).collect();
        frozen.sort_by_key(|frozen| frozen.age());
        frozen.dedup_by_key(|frozen| frozen.memtable.id());
        if is_planted(PlantedBug::FlushNewestFirst) {
            frozen.reverse();
        }
        frozen
    }
}

impl Inner {
    /// Publishes the view that `change` makes out of the current one: (dranges, version). If
    /// `removes` is set, the old view keeps something alive that the new one does not name.
    pub(super) fn change_view(
        &self,
        removes: bool,
        change: impl FnOnce(&View) -> (Vec<DrangeView>, Arc<Version>),
    ) {
        self.replace_view(removes, |view| {
            let (dranges, version) = change(view);
            View::new(Arc::clone(&view.boundaries), dranges, version)
        });
    }

    /// As [`Inner::change_view`], for a change of the dranges too.
    pub(super) fn replace_view(&self, removes: bool, change: impl FnOnce(&View) -> View) {
        self.replace_view_after_pause(removes, None, change);
    }

    /// Publishes a view with the outcome of a compaction. With a pause of the snapshots that is
    /// what a filter did: the pause ends when readers see it.
    pub(super) fn show_compaction(&self, version: &Arc<Version>, pause: Option<SnapshotPause>) {
        self.replace_view_after_pause(true, pause, |view| {
            let dranges = view.dranges.clone();
            View::new(Arc::clone(&view.boundaries), dranges, Arc::clone(version))
        });
    }

    fn replace_view_after_pause(
        &self,
        removes: bool,
        pause: Option<SnapshotPause>,
        change: impl FnOnce(&View) -> View,
    ) {
        let is_filtering = pause.is_some();
        let next = |old: &View, number| {
            let removals = old.removals + u64::from(removes);
            let filterings = old.filterings + u64::from(is_filtering);
            View { removals, filterings, number, ..change(old) }
        };
        let old =
            self.view.replace(next, |next| self.removals.store(next.removals, Ordering::Release));
        // Before anything else: whoever waits to take a snapshot need not wait for what follows.
        drop(pause);
        self.drop_spare_scans();
        // Not under the latch: memtables and open files may go with it.
        drop(old);
        if removes {
            self.settle_lookups();
        }
        self.update_ruling();
    }

    /// The position below which no memtable has a record, those in `except` apart: a replay that
    /// does not need those may start there. Holds each drange shared for a moment.
    pub(super) fn oldest_position(&self, except: &[MemtableId]) -> LogPosition {
        // Order: active ones first. A memtable that is frozen meanwhile is met twice; the other
        // way about it would be met in neither place, and its records would be given up.
        let early = is_planted(PlantedBug::LookAtFrozenFirst).then(|| self.view.load_full());
        let map = self.dranges.load_full();
        let active = map.list().iter().map(|drange| drange.active.shared().begin).min();
        if is_planted(PlantedBug::AdvanceLogStartTooFar) {
            return self.sequencer.finished().1;
        }
        let view = early.unwrap_or_else(|| self.view.load_full());
        let oldest = view.oldest_frozen(except).into_iter().chain(active).min();
        oldest.expect("a range has at least one drange")
    }
}
