//! What scans have spent on rows of L0, and the cuts that they have paid for with it.
//!
//! Of the scans that are timed anyway, each is taken for as many as there are for one of them. The
//! rows are charged with what of its time a cut would spare, about. What is scanned is what ought
//! to be merged, so the charge stands where the scan began.

use std::time::Duration;

use crate::compaction::ScanCosts;
use crate::compaction::levels::LevelShape;
use crate::compaction::pick::{self, Compaction, Taken};
use crate::explain::{SAMPLE_EVERY, ScanWatch};
use crate::store::Inner;
use crate::store::report::slow::SCAN_WEIGHT;
use crate::version::Version;

/// A longer scan counts as one of this length: it leaves the keys at which it began, and what it
/// waits for is no work that a cut would spare.
const SCAN_MAX: Duration = Duration::from_millis(1);

/// What a scan costs at least, so that one is never free where the clock is coarse.
const SCAN_MIN: Duration = Duration::from_micros(1);

/// A scan that merges so many rows takes twice as long as without them, about. By count of
/// instructions it is 2 or 3 rows of an eighth of the keys each, and 7 of a fiftieth.
const ROWS_PER_DOUBLING: usize = 4;

/// After so many charges somebody looks whether a cut is paid for.
const CHARGES_PER_LOOK: u32 = 32;

/// What scans have spent, and when somebody looks at it next.
#[derive(Debug, Default)]
pub struct ScanCharges {
    costs: ScanCosts,
    /// Number of charges since the last look.
    unseen: u32,
}

impl Inner {
    /// Charges the rows that a scan had to merge, which was timed and has ended.
    pub(in crate::store) fn charge_scan(&self, watch: &ScanWatch) {
        let Some(place) = &watch.place else { return };
        if self.log.is_read_only() || self.is_closing() {
            return;
        }
        let view = self.view.load();
        let live = view.version.l0().content().live_at(place);
        // Of a row one table at most reaches a key.
        let rows = live.iter().filter(|one| one.table.span().contains(place)).count();
        if rows == 0 {
            return;
        }
        let busy = watch.busy.clamp(SCAN_MIN, SCAN_MAX) * (SAMPLE_EVERY / SCAN_WEIGHT);
        let share = rows as f64 / (rows + ROWS_PER_DOUBLING) as f64;
        let is_due = {
            let mut charges = self.jobs.scan_charges.lock();
            charges.costs.add(place, busy.mul_f64(share));
            charges.unseen += 1;
            let is_due = charges.unseen >= CHARGES_PER_LOOK || self.shape.scan_price_percent == 0;
            if is_due {
                charges.unseen = 0;
            }
            is_due
        };
        if is_due {
            self.schedule_compaction();
        }
    }

    /// The cut that scans have paid for, if there is one. One into the object store is not made for
    /// them: it costs more than work.
    pub(super) fn paid_by_scans(
        &self,
        version: &Version,
        shape: &LevelShape,
        taken: &Taken,
    ) -> Option<Compaction> {
        let research = &self.options.research;
        if research.l0_cut_all || research.l0_matrix {
            return None;
        }
        let charges = self.jobs.scan_charges.lock();
        let chosen = pick::of_scanned(version, shape, taken, &charges.costs)?;
        let is_far = self.context.opener.far.takes(chosen.output_level);
        (!is_far).then_some(chosen)
    }

    /// A cut has taken its slice out of the rows: what scans spent there is settled.
    pub(super) fn settle_scans(&self, cut: &Compaction) {
        if cut.through.is_some() {
            self.jobs.scan_charges.lock().costs.forget(&cut.slice);
        }
    }
}
