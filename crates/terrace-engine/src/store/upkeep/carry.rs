//! The waterline of a range: where it should stand, and what lies on its wrong side.
//!
//! The line moves only while no compaction runs: a job asks once where its outputs go, and writes
//! the values of what goes into the object store into its tables. A compaction that would begin
//! meanwhile waits for the end of those that run.

use std::sync::Arc;

use terrace_base::{KeyRange, LevelNo};

use crate::compaction::pick::{self, Compaction, Served, Taken};
use crate::placement::LevelBytes;
use crate::store::Inner;
use crate::version::{TableMeta, Version};

/// Of the bytes that the range may take on the local disk so many percent are for its levels, its
/// values and L0; the rest is for what jobs write before they delete.
const FOR_TABLES_PERCENT: u64 = 90;

impl Inner {
    /// Moves the waterline to where it should stand. Whether compactions may begin: not while it
    /// wants to move and one runs.
    pub(super) fn keep_line(&self, taken: &Taken) -> bool {
        let Some(cloud) = &self.options.cloud else { return true };
        let far = &self.context.opener.far;
        if cloud.first_level.is_some() || !far.is_mounted() {
            return true;
        }
        let version = self.versions.current();
        let (levels, beside) = local_bytes_of(&version);
        let room = (cloud.local_bytes / 100 * FOR_TABLES_PERCENT)
            .saturating_sub(self.options.log_bytes_max)
            .saturating_sub(beside);
        let wanted = far.line().wanted(&levels, room);
        if wanted != far.line().first_far() {
            if taken.job_count() > 0 {
                return false;
            }
            far.line().put_at(wanted);
        }
        true
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

/// The bytes of the levels, and what L0 and the value files take beside them.
fn local_bytes_of(version: &Arc<Version>) -> (LevelBytes, u64) {
    let mut levels = LevelBytes::default();
    for (level, run) in version.runs() {
        levels[usize::from(level.0) - 1] = run.bytes();
    }
    let rows: u64 = version.l0().live().iter().map(|live| live.table.meta().bytes).sum();
    let values: u64 = version.values().iter().map(|file| file.meta().bytes).sum();
    (levels, rows + values)
}
