//! The log of a machine that is lost, as whoever goes on from a moment of the range finds it on a
//! volume.
//!
//! ```text
//!   moment: position 100, number 7
//!   ├────────┬────────┬────────┐╌╌╌╌╌╌╌╌┬────────┐
//!   │ 8, 9   │ 10     │ 11..13 │        │ 15     │   number 14 is an ingest's, which the moment
//!   └────────┴────────┴────────┘╌╌╌╌╌╌╌╌┴────────┘   does not hold: what follows on it is not
//!                              ▲ the log ends here   replayed
//! ```
//! Numbers are taken with the place in the log, so they are dense in it, but for what changed the
//! range beside its log. Nothing behind such a change was acknowledged as durable before a moment
//! had the change.

use std::path::PathBuf;

use terrace_base::SeqNo;
use terrace_env::{PlantedBug, is_planted};

use super::local_log::LocalLogStore;
use super::place::LogMedium;
use super::replay::{LogFacts, LogStart, ReadRecord, Replayed, StartedBy, newest_at, replay};
use super::sink::Visit;
use crate::version::VolumeLog;
use crate::{Error, Result};

impl LocalLogStore {
    /// Reads what the volume of this store has of the log behind a moment, and hands it to `visit`,
    /// as far as it follows on the moment. What the replay found then is a log that ends there.
    ///
    /// Errors: `Invalid` if the options name no volume, or if it does not hold that log; those of
    /// [`LogStore::replay`](super::LogStore::replay).
    pub fn replay_behind(
        &self,
        facts: LogFacts,
        moment: VolumeLog,
        visit: &mut Visit<'_>,
    ) -> Result<Replayed> {
        let Some(LogMedium::Volume(volume)) = &self.medium else {
            return Err(not_there("its volume is not named"));
        };
        let own = self.medium.as_ref().map(|medium| medium.segments(facts.database));
        let own = own.filter(|own| !facts.directories.contains(own));
        let own = own.filter(|own| self.env.fs().list(own).is_ok());
        let directories: Vec<PathBuf> = facts.directories.iter().cloned().chain(own).collect();
        let first = newest_at(&self.env, &self.dir, &directories, facts.database, moment.position)?;
        let Some(first) = first else {
            let what = format!("{} holds no segment of it", volume.display());
            return Err(not_there(&what));
        };
        let start = LogStart { segment: Some(first), position: moment.position };
        let facts = LogFacts { start, directories, behind: None, ..facts };
        let mut next = moment.seqno.next();
        let mut end = None;
        let by = StartedBy::Look;
        let mut replayed =
            replay(&self.env, &self.dir, facts, by, &mut |record: ReadRecord<'_>| {
                let follows = record.header.first_seqno == next
                    || is_planted(PlantedBug::VolumeLogOverIngests);
                if end.is_some() || !follows {
                    end.get_or_insert(record.position);
                    return Ok(());
                }
                next = SeqNo(next.0 + u64::from(record.header.seqno_count));
                visit(record)
            })?;
        if replayed.end < moment.position {
            let what = format!(
                "what {} holds of it ends before the newest moment in the object store",
                volume.display()
            );
            return Err(not_there(&what));
        }
        if let Some(end) = end {
            crate::program_log::warn!(
                position = end.0,
                "the log on the volume goes on behind an ingest that the object store does not \
                 have: what was written since is left out"
            );
            replayed.end_at(end);
        }
        Ok(replayed)
    }
}

fn not_there(what: &str) -> Error {
    Error::invalid(format!(
        "the log of the machine that had this database lies on a volume, and {what}: attach the \
         volume, and say where it is mounted (the option log_volume, --log-volume). If it is lost, \
         go on without it (cloud.abandon_log, --abandon-log): then all is lost that was written \
         since the newest moment in the object store"
    ))
}
