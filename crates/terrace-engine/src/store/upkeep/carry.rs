//! The waterline of a range: where it should stand, and what lies on its wrong side.
//!
//! The line moves only while no compaction runs: a job asks once where its outputs go, and writes
//! the values of what goes into the object store into its tables. A compaction that would begin
//! meanwhile waits for the end of those that run.

use terrace_base::{KeyRange, LevelNo};

use crate::compaction::pick::{self, Compaction, Served, Taken};
use crate::placement::LevelBytes;
use crate::store::Inner;
use crate::store::gate::LocalSpace;
use crate::version::{TableMeta, Version};

/// Of the bytes that the range may take on the local disk so many percent are for its levels, its
/// values and L0; the rest is for what jobs write before they delete.
const FOR_TABLES_PERCENT: u64 = 90;

impl Inner {
    /// Moves the waterline to where it should stand. Whether compactions may begin: not while it
    /// wants to move and one runs.
    pub(super) fn keep_line(&self, taken: &Taken) -> bool {
        let Some(options) = self.cloud.as_ref().and_then(|tier| tier.options()) else {
            return true;
        };
        let (None, Some(local_bytes)) = (options.first_level, options.local_bytes) else {
            return true;
        };
        let far = &self.context.opener.far;
        let version = self.versions.current();
        let room = (local_bytes / 100 * FOR_TABLES_PERCENT)
            .saturating_sub(self.options.log_bytes_max)
            .saturating_sub(beside_levels(&version));
        let wanted = far.line().wanted(&bytes_of_levels(&version), room);
        if wanted != far.line().first_far() {
            if taken.job_count() > 0 {
                return false;
            }
            far.line().put_at(wanted);
        }
        true
    }

    /// What the range takes on the local disk beside a log of this size, if that has a bound.
    pub(in crate::store) fn local_space(
        &self,
        version: &Version,
        log_bytes: u64,
    ) -> Option<LocalSpace> {
        let bytes_max = self.cloud.as_ref()?.options()?.local_bytes?;
        let in_levels: u64 = version.runs().map(|(_, run)| run.local_bytes()).sum();
        let fill = version.l0().policy().fill();
        Some(LocalSpace {
            bytes: log_bytes + in_levels + beside_levels(version),
            bytes_max,
            drains: in_levels > 0 || fill.used >= fill.start,
        })
    }

    /// The compaction that is most due: what the tree needs first, and then what lies on the wrong
    /// side of the waterline.
    pub(super) fn due(
        &self,
        version: &Version,
        taken: &Taken,
        served: Served,
    ) -> Option<Compaction> {
        pick::pick(version, &self.shape, taken, served)
            .or_else(|| self.misplaced(version).filter(|chosen| taken.is_free(chosen)))
    }

    /// Tables on the wrong side of the waterline, to be written anew.
    fn misplaced(&self, version: &Version) -> Option<Compaction> {
        if !self.context.opener.far.is_mounted() {
            return None;
        }
        let store = &self.context.opener.store;
        pick::in_place(version, &KeyRange::all(), |level, meta: &TableMeta| {
            !store.keeps(&meta.location, level)
        })
    }

    /// Whether the inputs may become tables of the output level as they are, as far as it matters
    /// where they lie.
    pub(super) fn stays_in_place(&self, chosen: &Compaction) -> bool {
        let store = &self.context.opener.store;
        let level = chosen.output_level;
        chosen.inputs.iter().all(|input| store.keeps(&input.table.meta().location, level))
    }

    /// Pointers to values from this size on stay pointers in what a job writes into a level, if
    /// that is not for all of them.
    pub(super) fn pointers_from(&self, version: &Version, level: LevelNo) -> Option<u64> {
        if self.context.opener.far.takes(level) {
            return (!version.values().is_empty()).then_some(u64::MAX);
        }
        crate::compaction::pointers_from(level, self.options.value_log.as_ref())
    }
}

/// The bytes of the levels.
fn bytes_of_levels(version: &Version) -> LevelBytes {
    let mut levels = LevelBytes::default();
    for (level, run) in version.runs() {
        levels[usize::from(level.0) - 1] = run.bytes();
    }
    levels
}

/// What L0 and the value files take.
fn beside_levels(version: &Version) -> u64 {
    let rows = version.l0().live().iter().map(|live| live.table.meta());
    let rows: u64 = rows.filter(|meta| !meta.location.is_far()).map(|meta| meta.bytes).sum();
    let values: u64 = version.values().local().map(|meta| meta.bytes).sum();
    rows + values
}
