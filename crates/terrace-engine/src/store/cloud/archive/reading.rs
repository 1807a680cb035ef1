use std::sync::Arc;

use terrace_base::{Epoch, FileId, LogPosition, WallTime};
use terrace_env::{Latch, SharedEnv};

use super::{Base, Bases};
use crate::cloud::{
    CheckpointName, Checkpoints, CloudNames, CloudStore, LogObjects, LogPoint, LogRun,
};
use crate::ids::FileIds;
use crate::store::cloud::database::place_of;
use crate::version::{LogEdit, StoreLog, VersionEdit};
use crate::wal::{LogFacts, LogMark, LogSink, LogStart, LogStore, ReadOn, Replayed, Visit};
use crate::{Error, Result};

/// The oldest base of an archive, and the log behind it; `None` if there is no archive.
///
/// Errors: `Corruption`, `Unsupported`; the environment's.
pub fn oldest_base(checkpoints: &Checkpoints) -> Result<Option<(CheckpointName, StoreLog)>> {
    let bases = Bases::find(checkpoints)?;
    Ok(bases.oldest().map(|base| (base.name.clone(), base.log)))
}

/// The state of a database at a point, out of its archive, for whoever only reads it: the base is
/// what its feed comes to, and this is the log behind it.
#[derive(Debug)]
pub struct ArchivedLog {
    env: SharedEnv,
    store: Arc<CloudStore>,
    names: CloudNames,
    point: LogPoint,
    /// The records behind the base that was chosen.
    run: Latch<Option<Arc<LogRun>>>,
}

impl ArchivedLog {
    /// That of the database with these names.
    pub fn new(
        env: &SharedEnv,
        store: &Arc<CloudStore>,
        names: CloudNames,
        point: LogPoint,
    ) -> ArchivedLog {
        let (env, store) = (Arc::clone(env), Arc::clone(store));
        ArchivedLog { env, store, names, point, run: Latch::new(None) }
    }

    /// When the last records of the state were gathered; `None` if there are none behind the base.
    pub fn gathered(&self) -> Option<WallTime> {
        self.run.lock().as_ref()?.gathered()
    }

    /// Reads the log behind the newest base that has nothing behind the point; what the feed comes
    /// to at that base, and the number of the feed at which it was made.
    ///
    /// Errors: `Invalid` (there is no archive, or it does not reach back so far; the point lies in
    /// the future), `Outdated` (the archive has let go of this meanwhile); `Corruption`,
    /// `Unsupported`; the environment's.
    pub fn find(&self, checkpoints: &Checkpoints) -> Result<(VersionEdit, u64)> {
        let place = place_of(&self.store, self.names);
        let (place, point) = (place.display(), self.point);
        if matches!(point, LogPoint::Time(time) if time > self.env.wall_time()) {
            let text = format!("{point} lies in the future; ask for an earlier state");
            return Err(Error::invalid(text));
        }
        let bases = Bases::find(checkpoints)?;
        let Some(oldest) = bases.oldest() else {
            return Err(Error::invalid(format!(
                "{place} has no archive: let its owner keep one (the option `cloud.archive`, \
                 `--cloud-archive`)"
            )));
        };
        if !oldest.is_before(point) {
            return Err(Error::invalid(format!(
                "the archive of {place} begins at {:#} and number {}, after {point}; ask for a later \
                 state",
                oldest.at, oldest.seqno.0
            )));
        }
        let base = bases.before(point).expect("the oldest one is before it");
        let run = LogRun::read(&LogObjects::new(&self.store, self.names), base.log, point)?;
        // Nothing was collected meanwhile if the base is still there.
        let there = match checkpoints.at(base.pin)? {
            Some(checkpoint) => Base::of(&checkpoint)?.map(|(_, edit)| (edit, checkpoint.from)),
            None => None,
        };
        let Some((edit, from)) = there else {
            return Err(Error::Outdated(format!(
                "the archive of {place} has let go of {point} meanwhile; ask for a later state"
            )));
        };
        *self.run.lock() = Some(Arc::new(run));
        // The log goes on exactly at the moment, whatever the owner's memtables were called.
        let start = Some(LogStart { segment: None, position: base.log.position });
        let log = LogEdit { start, ..LogEdit::default() };
        Ok((VersionEdit { log, ..edit }, from))
    }
}

impl LogStore for ArchivedLog {
    fn replay(&self, _facts: LogFacts, _visit: &mut Visit<'_>) -> Result<Replayed> {
        Ok(Replayed::default())
    }

    /// Hands everything over at the first call, and nothing later: what was is what it was.
    fn read_on(
        &self,
        _facts: &LogFacts,
        mark: Option<LogMark>,
        _bytes_max: u64,
        visit: &mut Visit<'_>,
    ) -> Result<ReadOn> {
        // It may be read again, for which no latch may be held.
        let run = self.run.lock().clone();
        let (Some(run), None) = (run, mark) else {
            return Ok(ReadOn::To { mark, is_whole: true });
        };
        let mut position = run.from();
        run.replay(&mut |record| {
            position = LogPosition(record.position.0 + record.header.padded_bytes());
            visit(record)
        })?;
        // There are no segments: that it was read is all that it says.
        let segment = FileId { epoch: Epoch(0), counter: 0 };
        Ok(ReadOn::To { mark: Some(LogMark { segment, identity: 0, position }), is_whole: true })
    }

    fn begin(
        &self,
        _database: u128,
        _ids: &Arc<FileIds>,
        _replayed: &Replayed,
        _reserved_bytes: u64,
    ) -> Result<Arc<dyn LogSink>> {
        Err(Error::ReadOnly)
    }
}
