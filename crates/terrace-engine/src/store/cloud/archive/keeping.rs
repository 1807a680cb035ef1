use std::sync::Arc;
use std::time::Duration;

use terrace_base::WallTime;
use terrace_env::{Latch, Mutex, PlantedBug, WaitFactory, is_planted};

use super::{Base, Bases};
use crate::Result;
use crate::cloud::format::CheckpointObject;
use crate::cloud::{CheckpointName, Checkpoints, CloudNames, CloudStore, KeptNumbers};
use crate::version::StoreLog;

/// The archive of a database as its owner keeps it, or leaves it as it was.
#[derive(Debug)]
pub struct Archive {
    checkpoints: Checkpoints,
    /// How far back it reaches; `None` if this owner keeps none.
    keep: Option<Duration>,
    /// `None` while it is not known which bases there are. Held while the store is asked.
    bases: Mutex<Option<Bases>>,
    /// As of the last call, for whoever must not wait.
    told: Latch<Told>,
}

#[derive(Clone, Debug, Default)]
struct Told {
    base_count: usize,
    oldest: Option<Base>,
}

/// What an archive has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ArchiveStats {
    /// How far back it is to reach, in milliseconds.
    pub keep_ms: u64,
    /// Checkpoints that it consists of, beside the log.
    pub base_count: u64,
    /// Since when any state can be had, in milliseconds since 1970; `None` before the first one is
    /// there.
    pub since_ms: Option<u64>,
    /// The number of the first such state.
    pub since_number: Option<u64>,
    /// Objects of the log that are there for it, up to the newest moment.
    pub log_objects: u64,
}

impl Archive {
    /// That of the database with these names.
    pub fn new(
        waits: &WaitFactory,
        store: &Arc<CloudStore>,
        names: CloudNames,
        keep: Option<Duration>,
    ) -> Archive {
        let checkpoints = Checkpoints::new(store, names);
        Archive { checkpoints, keep, bases: waits.mutex(None), told: Latch::default() }
    }

    /// Makes a base if one is due behind the newest moment in the feed, which says `fed` of the
    /// log, and removes those that are not needed any more; from which objects on the log has to
    /// stay. `make` makes a checkpoint of that moment. `is_last`: the database closes, and what the
    /// log has not got is in that moment alone.
    ///
    /// Cost: nothing to speak of, unless there is a base to make or to remove; a few requests for
    /// each pin at the first call.
    /// Errors: those of `make`; the environment's. Then the next call looks for the bases anew.
    pub fn keep_up(
        &self,
        fed: Option<StoreLog>,
        (now, is_last): (WallTime, bool),
        make: impl FnOnce(CheckpointName) -> Result<CheckpointObject>,
    ) -> Result<KeptNumbers> {
        let mut known = self.bases.lock();
        // What failed may have come to something all the same.
        let mut bases = match known.take() {
            Some(bases) => bases,
            None => Bases::find(&self.checkpoints)?,
        };
        if let Some(keep) = self.keep {
            let is_due =
                |log: &StoreLog| bases.lack(log, now, keep) || is_last && !bases.are_at(log);
            if let Some(log) = fed.filter(is_due) {
                let made = make(Base::name_of(&log))?;
                match Base::of(&made)? {
                    Some((base, _)) => bases.add(base),
                    // Somebody else has the database, and has no log.
                    None => self.checkpoints.remove_at(made.pin)?,
                }
            }
            while let Some(base) = bases.outlived(now, keep) {
                self.checkpoints.remove_at(base.pin)?;
                bases.drop_oldest();
            }
        }
        let oldest = bases.oldest().cloned();
        let first = oldest.as_ref().map_or(u64::MAX, |base| base.log.number);
        *self.told.lock() = Told { base_count: bases.count(), oldest };
        *known = Some(bases);
        if is_planted(PlantedBug::ArchiveMissesObjects) {
            return Ok(KeptNumbers::NONE);
        }
        Ok(KeptNumbers { of_earlier: first, own: self.keep.map_or(u64::MAX, |_| first) })
    }

    /// What it has come to, if the newest moment says `fed` of the log; `None` if this owner keeps
    /// none.
    pub fn stats(&self, fed: Option<StoreLog>) -> Option<ArchiveStats> {
        let keep_ms = self.keep?.as_millis() as u64;
        let Told { base_count, oldest } = self.told.lock().clone();
        let end = fed.map_or(0, |log| log.number);
        Some(ArchiveStats {
            keep_ms,
            base_count: base_count as u64,
            since_ms: oldest.as_ref().map(|base| base.at.0),
            since_number: oldest.as_ref().map(|base| base.seqno.0),
            log_objects: oldest.map_or(0, |base| end.saturating_sub(base.log.number)),
        })
    }
}
