//! What a scan leaves to the next one.
//!
//! # Why
//! A short scan costs what its cursors cost: for each source some memory, and a count of owners
//! that all scanning threads change. So a scan that ends leaves its cursors to the next one of its
//! thread, which takes them if it has the same sources: in the same view, the same memtables, rows
//! and levels. It reads at its own number, and from its own key on.
//!
//! # Invariants
//! 1. What is left holds no block, and stands nowhere.
//! 2. It is of the current view: whoever replaces the view, or closes, has it dropped. So nothing
//!    lives longer for it than until the view changes. *Order:* who leaves something looks under
//!    the latch whether its view is current; who replaces the view takes the latches afterwards.
//!
//! Memory: some kilobytes for each thread that scans, of sixteen at most.

use std::sync::atomic::Ordering;

use terrace_base::SeqNo;
use terrace_env::{Latch, PlantedBug, WaitFactory, is_planted};

use super::open_scan::OpenScan;
use crate::explain::{Place, is_recording};
use crate::store::Inner;
use crate::store::view::View;

/// How many scans are kept at most. Threads share places if there are more of them.
const PLACES: usize = if cfg!(terrace_loom) { 2 } else { 16 };

/// In cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct SparePlace(Latch<Option<Box<OpenScan>>>);

/// What scans have left, by the places of their threads.
pub(in crate::store) struct SpareScans {
    places: Box<[SparePlace]>,
}

impl SpareScans {
    /// Nothing. In a simulation all threads share one place, so that what they find depends on
    /// nothing but its seed.
    pub fn new(waits: &WaitFactory) -> SpareScans {
        let count = if waits.is_simulated() { 1 } else { PLACES };
        SpareScans { places: (0..count).map(|_| SparePlace::default()).collect() }
    }

    fn mine(&self) -> &SparePlace {
        &self.places[Place::mine().index() % self.places.len()]
    }

    /// Takes what a scan of this thread has left, if that is of a current view.
    fn take(&self, is_current: impl Fn(&View) -> bool) -> Option<Box<OpenScan>> {
        let left = self.mine().0.lock().take()?;
        let is_current = is_current(&left.view) || is_planted(PlantedBug::SpareOfOldView);
        is_current.then_some(left)
    }

    /// Leaves something to the next scan of this thread, unless its view is no longer current.
    fn leave(&self, left: Box<OpenScan>, is_current: impl Fn(&View) -> bool) {
        // What was there, or what is not wanted, goes when the latch is free.
        let _gone = {
            let mut place = self.mine().0.lock();
            match is_current(&left.view) {
                true => place.replace(left),
                false => Some(left),
            }
        };
    }

    /// How many threads would find something.
    pub fn count(&self) -> usize {
        self.places.iter().filter(|place| place.0.lock().is_some()).count()
    }

    /// Drops all that was left.
    fn clear(&self) {
        for place in &self.places {
            let gone = place.0.lock().take();
            drop(gone);
        }
    }
}

impl Inner {
    /// What an ended scan of this thread has left of the current view.
    pub(super) fn take_spare_scan(&self) -> Option<Box<OpenScan>> {
        // Whoever explains a scan is told what it opens.
        if is_recording() {
            return None;
        }
        self.spare_scans.take(|view| self.view.is_current(view))
    }

    /// Leaves what an ended scan, which read at `read_point`, has open to the next one of this
    /// thread.
    pub(super) fn leave_spare_scan(&self, mut scan: Box<OpenScan>, read_point: SeqNo) {
        if !scan.rest(read_point) {
            return;
        }
        self.spare_scans.leave(scan, |view| {
            // Order: a close counts as a removal before it drops what was left.
            let removals = self.removals.load(Ordering::Acquire);
            self.view.is_current(view) && view.removals == removals
        });
    }

    /// Drops what scans have left: the view was replaced, or the range closes.
    pub(in crate::store) fn drop_spare_scans(&self) {
        if !is_planted(PlantedBug::SpareOfOldView) {
            self.spare_scans.clear();
        }
    }
}

impl std::fmt::Debug for SpareScans {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SpareScans of {} threads", self.count())
    }
}
