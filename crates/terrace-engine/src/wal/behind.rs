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

use terrace_base::{LogPosition, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::local_log::LocalLogStore;
use super::place::LogMedium;
use super::replay::{LogFacts, LogStart, ReadRecord, Replayed, StartedBy, newest_at, replay};
use super::sink::Visit;
use crate::placement::entries_of;
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
        let Some(medium @ LogMedium::Volume(volume)) = &self.medium else {
            return Err(not_there("its volume is not named"));
        };
        let mut directories = facts.directories.clone();
        let own = medium.segments(facts.database);
        if !directories.contains(&own) && entries_of(self.env.as_ref(), &own)?.is_some() {
            directories.push(own);
        }
        let first = newest_at(&self.env, &self.dir, &directories, facts.database, moment.position)?;
        let Some(first) = first else {
            return Err(not_there(&format!("{} holds no segment of it", volume.display())));
        };
        if first.epoch < moment.epoch {
            let what = format!("what {} holds of it is of an earlier owner", volume.display());
            return Err(not_there(&what));
        }
        let start = LogStart { segment: Some(first), position: moment.position };
        // What the log itself says of that is enough: it may be one that has fallen behind.
        let durable = LogPosition(0);
        let facts = LogFacts { start, durable, directories, behind: None, ..facts };
        let mut follower = Follower { next: moment.seqno.next(), gap: None };
        let mut take_next = |record: ReadRecord<'_>| match follower.follows(&record) {
            true => visit(record),
            false => Ok(()),
        };
        let by = StartedBy::Look;
        let mut replayed = replay(&self.env, &self.dir, facts, by, &mut take_next)?;
        if replayed.end < moment.position {
            let what = format!(
                "what {} holds of it ends before the newest moment in the object store",
                volume.display()
            );
            return Err(not_there(&what));
        }
        replayed.note_durable(moment.position);
        if let Some(Gap { position, expected, found }) = follower.gap {
            crate::program_log::warn!(
                position = position.0,
                expected = expected.0,
                found = found.0,
                "the log on the volume goes on behind an ingest that the object store does not \
                 have: what was written since is left out"
            );
            replayed.end_at(position);
        }
        Ok(replayed)
    }
}

/// Tells which records follow on a moment without a change beside the log in between.
struct Follower {
    next: SeqNo,
    gap: Option<Gap>,
}

/// Where the numbers of the log have a gap.
#[derive(Clone, Copy)]
struct Gap {
    position: LogPosition,
    expected: SeqNo,
    found: SeqNo,
}

impl Follower {
    fn follows(&mut self, record: &ReadRecord<'_>) -> bool {
        let (position, found) = (record.position, record.header.first_seqno);
        if self.gap.is_none() && found != self.next && !is_planted(PlantedBug::VolumeLogOverIngests)
        {
            self.gap = Some(Gap { position, expected: self.next, found });
        }
        self.next = SeqNo(found.0 + u64::from(record.header.seqno_count));
        self.gap.is_none()
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
