use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::Epoch;
use terrace_env::SharedEnv;

use super::sink::LocalLog;
use crate::Result;
use crate::ids::FileIds;
use crate::wal::follow::{LogMark, ReadOn, read_on};
use crate::wal::place::{LogMedium, Strangers, set_aside_others, settle, where_they_are};
use crate::wal::replay::{LogFacts, Replayed, StartedBy, replay};
use crate::wal::sink::{LogSink, LogStore, Visit};

/// The logs of one directory.
#[derive(Clone, Debug)]
pub struct LocalLogStore {
    /// The outside world.
    pub env: SharedEnv,
    /// The range's directory, which exists.
    pub dir: PathBuf,
    /// Bytes of a segment at the most. A record that is larger gets a segment of its own size.
    pub segment_bytes: u64,
    /// Where new segments go, if that is not the range's directory.
    pub medium: Option<LogMedium>,
}

impl LocalLogStore {
    /// As [`LogStore::settle`], of a database whose owner is known by other means: segments of an
    /// earlier one that were not replayed are no reason to refuse it.
    /// [`LocalLogStore::set_aside_others`] moves them.
    pub fn settle_over(&self, database: u128, replayed: &Replayed) -> Result<Vec<PathBuf>> {
        settle(self, database, replayed, Strangers::SetAside)
    }

    /// Moves such segments out of the way, once nobody else writes the database.
    ///
    /// Errors: the environment's.
    pub fn set_aside_others(
        &self,
        database: u128,
        epoch: Epoch,
        replayed: &Replayed,
    ) -> Result<()> {
        set_aside_others(self, database, epoch, replayed)
    }
}

impl LogStore for LocalLogStore {
    fn replay(&self, facts: LogFacts, visit: &mut Visit<'_>) -> Result<Replayed> {
        let directories = where_they_are(self, facts.directories, facts.database)?;
        let facts = LogFacts { directories, ..facts };
        replay(&self.env, &self.dir, facts, StartedBy::Manifest, visit)
    }

    fn read_on(
        &self,
        facts: &LogFacts,
        mark: Option<LogMark>,
        bytes_max: u64,
        visit: &mut Visit<'_>,
    ) -> Result<ReadOn> {
        read_on(self.env.as_ref(), &self.dir, facts, mark, bytes_max, visit)
    }

    fn settle(&self, database: u128, replayed: &Replayed) -> Result<Vec<PathBuf>> {
        settle(self, database, replayed, Strangers::Refused)
    }

    fn begin(
        &self,
        database: u128,
        ids: &Arc<FileIds>,
        replayed: &Replayed,
        reserved_bytes: u64,
    ) -> Result<Arc<dyn LogSink>> {
        Ok(Arc::new(LocalLog::open(self, database, ids, replayed, reserved_bytes)?))
    }
}
