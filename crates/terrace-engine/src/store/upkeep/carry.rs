//! The waterline of a range: where it should stand, and what lies on its wrong side.
//!
//! The line moves only while no compaction runs: a job asks once where its outputs go, and writes
//! the values of what goes into the object store into its tables. A compaction that would begin
//! meanwhile waits for the end of those that run.

use terrace_base::{KeyRange, LevelNo};

use crate::compaction::levels::LevelShape;
use crate::compaction::pick::{self, Compaction, Served, Taken};
use crate::options::CloudOptions;
use crate::placement::{LevelBytes, LocalRoom};
use crate::store::Inner;
use crate::store::gate::LocalSpace;
use crate::store::view::View;
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
        let levels = bytes_of_levels(&version);
        let wanted =
            far.line().wanted(&levels, &self.room_of(options, local_bytes, &version, &levels));
        if wanted != far.line().first_far() {
            if taken.job_count() > 0 {
                return false;
            }
            far.line().put_at(wanted);
        }
        true
    }

    /// What of the local bytes is for L0 and these levels.
    fn room_of(
        &self,
        options: &CloudOptions,
        local_bytes: u64,
        version: &Version,
        levels: &LevelBytes,
    ) -> LocalRoom {
        let of_log = if self.options.log_is_apart() { 0 } else { self.options.log_bytes_max };
        let bytes = (local_bytes / 100 * FOR_TABLES_PERCENT)
            .saturating_sub(of_log)
            .saturating_sub(self.cached_metadata() + options.cache_bytes.unwrap_or(0))
            .saturating_sub(local_values(version));
        // As large as L0 gets before it is cut, unless the tree is smaller than that itself.
        let usual = self.shape.level_bytes_base.min(levels.iter().sum());
        LocalRoom {
            bytes,
            l0_bytes: local_rows(version).max(usual),
            cut_bytes: self.shape.cut_bytes,
            job_bytes: self.options.table_bytes * (self.shape.level_ratio + 1),
        }
    }

    /// What metadata of far tables take on the local disk.
    fn cached_metadata(&self) -> u64 {
        self.context.opener.far.near().map_or(0, |near| near.meta.bytes())
    }

    /// What the log takes on the local disk: nothing, if it lies on a medium of its own.
    pub(in crate::store) fn local_log_bytes(&self) -> u64 {
        match self.options.log_is_apart() {
            true => 0,
            false => self.log().map_or(0, |log| log.held_bytes() + log.spare_bytes()),
        }
    }

    /// What the range takes on the local disk, if that has a bound; but for cached blocks, which go
    /// when others need the room.
    pub(in crate::store) fn local_space(&self, view: &View) -> Option<LocalSpace> {
        let options = self.cloud.as_ref()?.options()?;
        let version = &view.version;
        let in_levels: u64 = version.runs().map(|(_, run)| run.local_bytes()).sum();
        let in_rows = local_rows(version);
        let in_log = self.local_log_bytes();
        // They are flushed before the log gives back what it has of them.
        let frozen = self.waiting_bytes(view);
        let of_jobs = self.jobs.local_output_bytes() + frozen;
        // Jobs that run may read them, and readers.
        let removed = self.context.reclaim.local_bytes();
        let sinks = in_rows > 0 || in_levels > 0 && options.first_level.is_none();
        Some(LocalSpace {
            bytes: in_log
                + in_rows
                + in_levels
                + local_values(version)
                + of_jobs
                + removed
                + self.cached_metadata(),
            bytes_max: options.local_bytes?,
            drains: sinks || removed > 0 && self.jobs.any_reads(),
        })
    }

    /// Whether the bytes that the range may take on the local disk have a bound.
    pub(super) fn bounds_local_bytes(&self) -> bool {
        let options = self.cloud.as_ref().and_then(|tier| tier.options());
        options.is_some_and(|options| options.local_bytes.is_some())
    }

    /// About how many bytes a compaction writes to the local disk.
    pub(super) fn local_output_bytes(&self, chosen: &Compaction) -> u64 {
        let goes_far = self.context.opener.far.takes(chosen.output_level);
        if goes_far || chosen.is_move() && self.stays_in_place(chosen) {
            return 0;
        }
        chosen.inputs.iter().map(|input| input.bytes_within(&chosen.slice)).sum()
    }

    /// The compaction that is most due: what the tree needs first, and then what lies on the wrong
    /// side of the waterline.
    pub(super) fn due(
        &self,
        version: &Version,
        taken: &Taken,
        served: Served,
    ) -> Option<Compaction> {
        let local = self.local_space(&self.view.load());
        let lacks_room = |local: LocalSpace| local.bytes + local_rows(version) > local.bytes_max;
        let shape =
            LevelShape { l0_lacks_room: local.is_some_and(lacks_room), ..self.shape.clone() };
        // What there is of L0 may be too little to be cut otherwise.
        let all_of_l0 = || {
            let is_tight = local.is_some_and(|local| local.is_tight());
            is_tight.then(|| pick::forced(version, &shape, LevelNo(0), &KeyRange::all()))?
        };
        let is_free = |chosen: &Compaction| taken.is_free(chosen);
        pick::pick(version, &shape, taken, served)
            .or_else(|| self.misplaced(version).filter(is_free))
            .or_else(|| all_of_l0().filter(is_free))
            .or_else(|| self.paid_by_scans(version, &shape, taken))
            .or_else(|| self.rested(version, &shape, taken))
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

/// What L0 takes on the local disk, with what is consumed and still there.
fn local_rows(version: &Version) -> u64 {
    let rows = version.l0().tables().iter().map(|table| table.meta());
    rows.filter(|meta| !meta.location.is_far()).map(|meta| meta.bytes).sum()
}

/// What the value files take there.
fn local_values(version: &Version) -> u64 {
    version.values().local().map(|meta| meta.bytes).sum()
}
