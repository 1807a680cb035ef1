use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::LogPosition;
use terrace_env::Latch;

use crate::cloud::format::Author;
use crate::cloud::{CloudLog, CloudNames, LogObjects, LogRun};
use crate::ids::FileIds;
use crate::options::CloudOptions;
use crate::store::cloud::CloudTier;
use crate::version::StoreLog;
use crate::wal::{
    LocalLogStore, LogFacts, LogMark, LogSink, LogStore, ReadOn, ReadRecord, Record, Replayed,
    Visit,
};
use crate::{Error, Result};

/// The log of a range: the local one, and the one in its object store, if it has one there.
///
/// Where the local log has begun, it is the one that counts. Where it has not, because another
/// machine's is lost, the records that the store has behind its newest moment are replayed, and
/// written to the new local log before anything else is: from then on it is an open like any other.
/// A crash before the manifest names that log leaves the range as it was taken over, and the next
/// open reads the store once more.
pub struct CloudLogs {
    tier: Arc<CloudTier>,
    local: LocalLogStore,
    /// What the replay of this open has read from the store.
    run: Latch<Option<LogRun>>,
}

impl CloudLogs {
    /// Puts the store of `tier` behind the log of a directory.
    pub fn new(tier: &Arc<CloudTier>, local: LocalLogStore) -> CloudLogs {
        CloudLogs { tier: Arc::clone(tier), local, run: Latch::default() }
    }

    fn objects(&self, database: u128) -> Result<LogObjects> {
        Ok(LogObjects::new(self.tier.store()?, CloudNames::new(database)))
    }

    /// In whose name the log is fenced, if this open writes anything.
    fn author(&self) -> Option<Author> {
        self.tier.author()
    }

    /// How often an object goes there, if the options want the log in the store.
    fn interval(&self) -> Option<Duration> {
        self.tier.options().and_then(|options: &CloudOptions| options.log)
    }

    /// Makes this open the one that writes the log in the store, if the options want one.
    fn begin_in_store(&self, database: u128, run: Option<&LogRun>) -> Result<()> {
        let (Some(interval), Some(author)) = (self.interval(), self.author()) else {
            return Ok(());
        };
        let objects = self.objects(database)?;
        let next = match run {
            Some(run) => run.next(),
            None => {
                let newest = self.tier.log_before().unwrap_or(StoreLog::NONE);
                LogRun::take(&objects, newest, author)?.next()
            }
        };
        let waits = self.local.env.waits();
        self.tier.set_log(CloudLog::new(&waits, objects, author, next, interval));
        Ok(())
    }
}

impl LogStore for CloudLogs {
    fn replay(&self, facts: LogFacts, visit: &mut Visit<'_>) -> Result<Replayed> {
        let in_store = facts.in_store.zip(self.author());
        let database = facts.database;
        let mut replayed = self.local.replay(facts, visit)?;
        let Some((moment, author)) = in_store else { return Ok(replayed) };
        let run = LogRun::take(&self.objects(database)?, moment, author)?;
        run.visit(&mut |file, buffer, record| {
            visit(ReadRecord {
                position: record.position,
                file,
                offset: record.offset,
                header: &record.header,
                buffer,
                body: record.body,
            })
        })?;
        replayed.end = run.end();
        *self.run.lock() = Some(run);
        Ok(replayed)
    }

    fn read_on(
        &self,
        facts: &LogFacts,
        mark: Option<LogMark>,
        bytes_max: u64,
        visit: &mut Visit<'_>,
    ) -> Result<ReadOn> {
        self.local.read_on(facts, mark, bytes_max, visit)
    }

    fn settle(&self, database: u128, replayed: &Replayed) -> Result<Vec<PathBuf>> {
        self.local.settle(database, replayed)
    }

    fn begin(
        &self,
        database: u128,
        ids: &Arc<FileIds>,
        replayed: &Replayed,
        reserved_bytes: u64,
    ) -> Result<Arc<dyn LogSink>> {
        let run = self.run.lock().take();
        let log = match &run {
            None => self.local.begin(database, ids, replayed, reserved_bytes)?,
            Some(run) => {
                let at_moment = Replayed { end: run.from(), ..replayed.clone() };
                let log = self.local.begin(database, ids, &at_moment, reserved_bytes)?;
                copy(run, log.as_ref())?;
                log
            }
        };
        self.begin_in_store(database, run.as_ref())?;
        Ok(log)
    }
}

/// Writes what was read from the store to the local log, where each record keeps its position, and
/// makes it durable there.
fn copy(run: &LogRun, log: &dyn LogSink) -> Result<()> {
    run.visit(&mut |_, buffer, record| {
        let header = &record.header;
        let body = &buffer[record.body];
        let place = loop {
            if let Some(place) = log.take(header.bytes as usize) {
                break place;
            }
            log.make_room(header.bytes as usize)?;
        };
        let is_same = place.position == record.position;
        if !is_same {
            return Err(misplaced(place.position, record.position));
        }
        let copied = Record {
            kind: header.kind,
            first_seqno: header.first_seqno,
            seqno_count: header.seqno_count,
            entry_count: u32::from(header.entry_count),
            durable: log.durable(),
            large_bytes: 0,
            body: &[body],
        };
        place.target.append(&place, &copied)
    })?;
    log.sync(run.end())
}

fn misplaced(at: LogPosition, of_record: LogPosition) -> Error {
    Error::Poisoned(format!(
        "a record of position {} from the object store got position {} in the local log",
        of_record.0, at.0
    ))
}

impl fmt::Debug for CloudLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloudLogs").field("local", &self.local).finish_non_exhaustive()
    }
}
