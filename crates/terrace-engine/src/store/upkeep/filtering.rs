//! What a filter did is put into effect beside readers.
//!
//! A snapshot reads at its number in whichever view is current, so it must find the same there
//! before and after. Versions that it needs are kept for it by retention; what a filter drops or
//! changes is the newest version, and keeps its number, so a snapshot that sees that number would
//! see the change. Hence the rule:
//!
//! ```text
//!   job   plan ─── merge, filter ───► outcome      pause ───── install ────► the new view
//!                                     least: 40    no snapshot               readers see it,
//!                                                  at 40 or above            the pause ends
//! ```
//!
//! The pause is granted under the latch that snapshots are registered under, and none is registered
//! until the view has changed. So each snapshot is either below everything that the filter touched,
//! or taken after it took effect. If a snapshot is in the way and stays, the job is done once more
//! without the filter. So is one whose filter failed; but whoever waits for exactly that compaction
//! is told of the failure.
//!
//! Iterators need no pause: one that began before keeps its view (`read/iterator.rs`). Gets have
//! one view each.

use std::time::Duration;

use terrace_base::{FileId, KeyRange};

use super::compact::{Merged, Running};
use crate::compaction::filter::{Filtered, PlanFilter};
use crate::compaction::pick::{self, Compaction};
use crate::events::EventKind;
use crate::store::read_points::SnapshotPause;
use crate::store::{Inner, Work};
use crate::version::{TableMeta, Version};
use crate::{Error, Result};

/// How often an installation looks for a moment without a snapshot that is in its way. Those of
/// transactions live for less than one look, and the work of a whole job is at stake.
const PAUSE_LOOKS: u32 = 20;

/// The time from one look to the next.
const PAUSE_LOOK_EVERY: Duration = Duration::from_millis(2);

/// The most compactions that go without the filter at a time.
const RESTS_MAX: u32 = 64;

/// How often a compaction of everything begins anew, because others went without the filter.
const ROUNDS_MAX: u32 = 3;

/// How long compactions go without the filter, after it failed or snapshots were in its way: each
/// time that costs a job's work, so where snapshots are always held it must not be tried each time.
#[derive(Debug, Default)]
pub struct FilterRests {
    /// Number of compactions that still go without.
    left: u32,
    /// Number of those that went without after the last failure; 0 if none failed since a success.
    last: u32,
    /// Number of compactions that have ended without the filter, though there is one.
    unfiltered_count: u64,
}

/// From when on tables are new to whoever wants a filter to be asked about all that was there.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilterMark {
    /// Tables below are older.
    before: FileId,
    unfiltered_count: u64,
}

impl FilterRests {
    /// Whether the next compaction has the filter.
    fn may_filter(&mut self) -> bool {
        let may = self.left == 0;
        self.left = self.left.saturating_sub(1);
        may
    }

    /// A snapshot was in the way, or the filter failed.
    fn failed(&mut self) {
        self.last = (2 * self.last).clamp(1, RESTS_MAX);
        self.left = self.last;
    }

    /// What the filter did is in effect.
    fn succeeded(&mut self) {
        (self.left, self.last) = (0, 0);
    }
}

impl Inner {
    /// Merges the inputs of a compaction, and asks the filter if there is one and it may be asked;
    /// with a pause of the snapshots, if it did anything. `is_wanted`: somebody waits for exactly
    /// this compaction, so that it is tried however often it failed before.
    pub(super) fn merge_filtered(
        &self,
        chosen: &Compaction,
        version: &Version,
        is_wanted: bool,
    ) -> Result<(Merged, Option<SnapshotPause>)> {
        let filter = self.filter_of_job(chosen);
        if filter.is_some() && !is_wanted && !self.jobs.filter_rests.lock().may_filter() {
            let merged = self.merge_tables(chosen, version, None)?;
            self.jobs.filter_rests.lock().unfiltered_count += 1;
            return Ok((merged, None));
        }
        let merged = match self.merge_tables(chosen, version, filter) {
            // The tree must not wait for a filter that fails: in the end writers would.
            Err(failure @ Error::Filter(_)) if !is_wanted => {
                let (error, retry_after) = (failure.to_string(), Duration::ZERO);
                self.tell(EventKind::WorkFailed { work: Work::Compaction, error, retry_after });
                return self.merge_unfiltered(chosen, version);
            }
            merged => merged?,
        };
        let Some(least) = merged.outcome.filtered.least else { return Ok((merged, None)) };
        for _ in 0..PAUSE_LOOKS {
            if let Some(pause) = self.read_points.pause_snapshots(least) {
                self.jobs.filter_rests.lock().succeeded();
                return Ok((merged, Some(pause)));
            }
            if self.jobs.is_cancelled() {
                self.discard(&merged.outcome);
                return Err(Error::Closed);
            }
            self.env.sleep(PAUSE_LOOK_EVERY);
        }
        self.discard(&merged.outcome);
        self.merge_unfiltered(chosen, version)
    }

    /// Merges the inputs of a compaction without the filter, which rests for a while.
    fn merge_unfiltered(
        &self,
        chosen: &Compaction,
        version: &Version,
    ) -> Result<(Merged, Option<SnapshotPause>)> {
        self.jobs.filter_rests.lock().failed();
        let mut merged = self.merge_tables(chosen, version, None)?;
        self.jobs.filter_rests.lock().unfiltered_count += 1;
        merged.outcome.filtered = Filtered { set_aside: 1, ..Filtered::default() };
        Ok((merged, None))
    }

    /// A moment, for [`Inner::filter_since`].
    pub(super) fn filter_mark(&self) -> FilterMark {
        let unfiltered_count = self.jobs.filter_rests.lock().unfiltered_count;
        FilterMark { before: self.ids.next(), unfiltered_count }
    }

    /// Sees to it that the filter is asked about what is in tables of levels within `range` and has
    /// been there since before `mark`: it has been asked about tables that were written since,
    /// unless a compaction in the background went without it. Then all is done again, a few times.
    pub(super) fn filter_since(&self, mut mark: FilterMark, range: &KeyRange) -> Result<()> {
        for _ in 0..ROUNDS_MAX {
            self.filter_older_than(mark.before, range)?;
            let next = self.filter_mark();
            if next.unfiltered_count == mark.unfiltered_count {
                break;
            }
            mark = next;
        }
        Ok(())
    }

    /// How the plan of a compaction calls for the filter, if it does.
    fn filter_of_job(&self, chosen: &Compaction) -> Option<PlanFilter> {
        let filter = self.options.compaction_filter.0.as_ref()?;
        // A tombstone in L0 would not be smaller by much, and live on.
        if chosen.output_level.0 == 0 {
            return None;
        }
        let above = self.read_points.newest_snapshot().unwrap_or_default();
        let is_shown = |table: &TableMeta| table.greatest_seqno > above;
        if !chosen.inputs.iter().any(|input| is_shown(input.table.meta())) {
            return None;
        }
        Some(PlanFilter { name: filter.name().to_string(), above })
    }

    /// Writes those tables of levels within `range` anew that are older than `before`: what a
    /// filter has not been asked about since. Waits for jobs in its way.
    fn filter_older_than(&self, before: FileId, range: &KeyRange) -> Result<()> {
        loop {
            self.check_healthy()?;
            let ticket = self.changed.ticket();
            let above = self.read_points.newest_snapshot().unwrap_or_default();
            let is_meant = |_, meta: &TableMeta| meta.id < before && meta.greatest_seqno > above;
            let mut is_blocked = false;
            let job = Running::begin(self, |version, taken| {
                let chosen = pick::in_place(version, range, is_meant)?;
                is_blocked = !taken.is_free(&chosen);
                (!is_blocked).then_some(chosen)
            });
            match job {
                Some(job) => self.compact(&job.chosen, &job.version, true)?,
                None if is_blocked => self.wait_for_change(ticket, Duration::from_millis(100)),
                None => return Ok(()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_in_whose_way_snapshots_are_is_tried_ever_more_rarely() {
        let mut rests = FilterRests::default();
        let without = |rests: &mut FilterRests| {
            let mut count = 0;
            while !rests.may_filter() {
                count += 1;
            }
            count
        };
        let mut seen = Vec::new();
        for _ in 0..9 {
            seen.push(without(&mut rests));
            rests.failed();
        }
        assert_eq!(seen, [0, 1, 2, 4, 8, 16, 32, 64, 64]);
        rests.succeeded();
        assert_eq!(without(&mut rests), 0);
    }
}
