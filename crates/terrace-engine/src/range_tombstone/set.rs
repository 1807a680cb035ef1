use std::collections::VecDeque;
use std::sync::Arc;

use terrace_base::SeqNo;
use terrace_env::Latch;
use terrace_env::atomic::{AtomicUsize, Ordering};

use super::{Fragments, RangeTombstone};
use crate::swap::{ArcSwap, Guard};

/// Newcomers that a reader takes in one turn at the latch.
const TURN_TOMBSTONES: usize = 1024;

/// The range tombstones of one memtable: a set that grows while it is read.
///
/// An insert only puts the tombstone into a queue. The next reader brings the fragments up to
/// date, outside the latch, and all later ones share them until the next insert. As fragments
/// grow by parts, n inserts with a read after each cost O(n log² n) in all, not O(n²).
///
/// **What readers may rely on**: a read that begins after inserts were done, and were made known
/// to it, finds what they inserted; it may find younger tombstones, too.
///
/// If there are no tombstones a question costs one atomic load; so memtables without range
/// deletes, which are most, pay nothing for them.
pub struct RangeTombstoneSet {
    /// How many were inserted. Changed under the latch.
    inserted: AtomicUsize,
    /// Those that `view` does not have yet, in the order they came.
    queue: Latch<VecDeque<Arc<Owned>>>,
    /// Replaced under the latch.
    view: ArcSwap<View>,
    empty: Arc<Fragments>,
}

/// The tombstones that were inserted first, up to a number.
struct View {
    inserted: usize,
    fragments: Arc<Fragments>,
}

/// A range tombstone that owns its bounds, which lie one after the other.
struct Owned {
    bounds: Box<[u8]>,
    start_bytes: usize,
    seqno: SeqNo,
}

impl RangeTombstoneSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> RangeTombstoneSet {
        let empty = Arc::new(Fragments::default());
        let view = View { inserted: 0, fragments: Arc::clone(&empty) };
        RangeTombstoneSet {
            inserted: AtomicUsize::new(0),
            queue: Latch::new(VecDeque::new()),
            view: ArcSwap::from_pointee(view),
            empty,
        }
    }

    /// Inserts the delete of the keys from `start` up to, not including, `end`. Numbers may come
    /// in any order; an interval without keys is left out; the same tombstone may come twice.
    /// Cost: a copy and a short latch, whatever the size of the set.
    pub fn insert(&self, start: &[u8], end: &[u8], seqno: SeqNo) {
        if end <= start {
            return;
        }
        let bounds = [start, end].concat().into_boxed_slice();
        let tombstone = Arc::new(Owned { bounds, start_bytes: start.len(), seqno });
        let mut queue = self.queue.lock();
        queue.push_back(tombstone);
        let inserted = self.inserted.load(Ordering::Relaxed) + 1;
        // Order: release, so that whoever sees the count finds the tombstone in the queue or in
        // a view.
        self.inserted.store(inserted, Ordering::Release);
    }

    /// Whether nothing was inserted: one atomic load.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inserted.load(Ordering::Acquire) == 0
    }

    /// The newest number at or below `read_point` of a tombstone that covers `key`.
    /// Cost: one atomic load if the set is empty, else O(log² n) and a share of the work that
    /// the last inserts left.
    #[inline]
    #[must_use]
    pub fn newest_covering(&self, key: &[u8], read_point: SeqNo) -> Option<SeqNo> {
        if self.is_empty() {
            return None;
        }
        self.up_to_date().fragments.newest_covering(key, read_point)
    }

    /// All that was inserted so far. Cost: as [`RangeTombstoneSet::newest_covering`].
    #[must_use]
    pub fn snapshot(&self) -> Arc<Fragments> {
        if self.is_empty() {
            return Arc::clone(&self.empty);
        }
        Arc::clone(&self.up_to_date().fragments)
    }

    fn up_to_date(&self) -> Guard<Arc<View>> {
        let inserted = self.inserted.load(Ordering::Acquire);
        loop {
            let view = self.view.load();
            if view.inserted >= inserted {
                return view;
            }
            self.advance_view();
        }
    }

    /// Brings the view forward by a turn's worth. Whoever comes second with the same work throws
    /// it away: nobody waits for anybody.
    fn advance_view(&self) {
        let queue = self.queue.lock();
        let base = self.view.load_full();
        let newcomers: Vec<Arc<Owned>> = queue.iter().take(TURN_TOMBSTONES).cloned().collect();
        drop(queue);
        let tombstones: Vec<_> = newcomers.iter().map(|owned| owned.tombstone()).collect();
        let fragments = Arc::new(base.fragments.with(&tombstones));
        let view = View { inserted: base.inserted + newcomers.len(), fragments };

        let mut queue = self.queue.lock();
        if self.view.load().inserted == base.inserted {
            self.view.store(Arc::new(view));
            queue.drain(..newcomers.len());
        }
        // What goes is freed after the latch: `base` holds the old view, `newcomers` the drained.
        drop(queue);
    }
}

impl Default for RangeTombstoneSet {
    fn default() -> RangeTombstoneSet {
        RangeTombstoneSet::new()
    }
}

impl Owned {
    fn tombstone(&self) -> RangeTombstone<'_> {
        let (start, end) = self.bounds.split_at(self.start_bytes);
        RangeTombstone { start, end, seqno: self.seqno }
    }
}
