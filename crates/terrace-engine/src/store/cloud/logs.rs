use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::LogPosition;
use terrace_env::Latch;

use crate::cloud::format::Author;
use crate::cloud::{CloudLog, CloudNames, LogObjects, LogRun};
use crate::events::{Listeners, OpenStep};
use crate::ids::FileIds;
use crate::store::cloud::{Archive, CloudTier, LogOnVolume, OutlivingLog};
use crate::store::open::progress::LogMeter;
use crate::version::{LogBehind, StoreLog};
use crate::wal::{
    LocalLogStore, LogFacts, LogMark, LogMedium, LogSink, LogStore, ReadOn, Record, Replayed, Visit,
};
use crate::{Error, Result};

/// The log of a range: the local one, and the one that outlives the machine, if it has one.
///
/// Where the local log has begun, it is the one that counts. Where it has not, because another
/// machine's is lost, the records that the store has behind its newest moment are replayed, and
/// written to the new local log before anything else is; or the log is found on the volume that it
/// lay on, and goes on there. From then on it is an open like any other.
/// A crash before the manifest names that log leaves the range as it was taken over, and the next
/// open reads the store once more.
pub struct CloudLogs {
    tier: Arc<CloudTier>,
    local: LocalLogStore,
    listeners: Listeners,
    /// What the replay of this open has found.
    found: Latch<Found>,
}

/// What a replay has found of the log that outlives the machine.
#[derive(Debug, Default)]
struct Found {
    /// The records in the store, if they were replayed.
    run: Option<LogRun>,
    /// Where the replay began.
    from: LogPosition,
}

impl CloudLogs {
    /// Puts the store of `tier` behind the log of a directory. Listeners hear how far the records
    /// in the store were read.
    pub fn new(tier: &Arc<CloudTier>, local: LocalLogStore, listeners: Listeners) -> CloudLogs {
        CloudLogs { tier: Arc::clone(tier), local, listeners, found: Latch::default() }
    }

    fn objects(&self, database: u128) -> Result<LogObjects> {
        Ok(LogObjects::new(self.tier.store()?, CloudNames::new(database)))
    }

    /// In whose name the log is fenced, if this open writes anything.
    fn author(&self) -> Option<Author> {
        self.tier.author()
    }

    /// Whether the log on a volume is given up.
    fn abandons_log(&self) -> bool {
        self.tier.options().is_some_and(|options| options.abandon_log)
    }

    /// Makes the log of this open one that outlives the machine, if the options want that.
    fn begin_outliving(&self, database: u128, found: &Found) -> Result<()> {
        let (Some(options), Some(author)) = (self.tier.options(), self.author()) else {
            return Ok(());
        };
        let waits = self.local.env.waits();
        let is_on_volume = matches!(self.local.medium, Some(LogMedium::Volume(_)));
        if is_on_volume && options.mirror.is_some() {
            let log = LogOnVolume::new(&waits, author.epoch, found.from);
            self.tier.set_log(OutlivingLog::OnVolume(log));
        } else if let Some(LogBehind::OnVolume(_)) = self.tier.log_before() {
            self.tier.keep_log_before(found.from);
        }
        let Some(interval) = options.log else { return Ok(()) };
        let objects = self.objects(database)?;
        let next = match &found.run {
            Some(run) => run.next(),
            None => {
                let newest = self.tier.log_before().and_then(LogBehind::in_store);
                LogRun::take(&objects, newest.unwrap_or(StoreLog::NONE), author, |_| ())?.next()
            }
        };
        let log = CloudLog::new(&waits, objects, author, next, interval);
        self.tier.set_log(OutlivingLog::InStore(Box::new(log)));
        let (store, names) = (self.tier.store()?, CloudNames::new(database));
        self.tier.set_archive(Archive::new(&waits, store, names, options.archive));
        Ok(())
    }

    /// Replays what the store has behind a moment, after a local log that has not begun.
    fn replay_from_store(
        &self,
        facts: LogFacts,
        (moment, author): (StoreLog, Author),
        visit: &mut Visit<'_>,
    ) -> Result<Replayed> {
        let database = facts.database;
        let mut replayed = self.local.replay(facts, visit)?;
        let mut meter = LogMeter::new(&self.local.env, &self.listeners, OpenStep::FetchLog);
        let run = LogRun::take(&self.objects(database)?, moment, author, |bytes| meter.add(bytes))?;
        run.replay(visit)?;
        replayed.end = run.end();
        self.found.lock().run = Some(run);
        Ok(replayed)
    }
}

impl LogStore for CloudLogs {
    fn replay(&self, facts: LogFacts, visit: &mut Visit<'_>) -> Result<Replayed> {
        self.found.lock().from = facts.start.position;
        match (facts.behind, self.author()) {
            (Some(LogBehind::InStore(moment)), Some(author)) => {
                self.replay_from_store(facts, (moment, author), visit)
            }
            (Some(LogBehind::OnVolume(_)), Some(_)) if self.abandons_log() => {
                self.local.replay(facts, visit)
            }
            (Some(LogBehind::OnVolume(moment)), Some(_)) => {
                self.local.replay_behind(facts, moment, visit)
            }
            _ => self.local.replay(facts, visit),
        }
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

    /// Errors: also `Invalid` if the log is to go to the store, and lies in several directories.
    fn settle(&self, database: u128, replayed: &Replayed) -> Result<Vec<PathBuf>> {
        let directories = match self.tier.decides_owner() {
            true => self.local.settle_over(database, replayed)?,
            false => self.local.settle(database, replayed)?,
        };
        let goes_to_store = self.tier.options().is_some_and(|options| options.log.is_some());
        match directories.first().filter(|_| goes_to_store) {
            Some(elsewhere) => Err(Error::invalid(format!(
                "cloud.log needs the log in the database's own directory, and a part of it is still \
                 in {}: open the database once without cloud.log and close it, and try again",
                elsewhere.display()
            ))),
            None => Ok(directories),
        }
    }

    fn begin(
        &self,
        database: u128,
        ids: &Arc<FileIds>,
        replayed: &Replayed,
        reserved_bytes: u64,
    ) -> Result<Arc<dyn LogSink>> {
        let found = std::mem::take(&mut *self.found.lock());
        if self.tier.decides_owner() {
            self.local.set_aside_others(database, ids.epoch(), replayed)?;
        }
        let log = match &found.run {
            None => self.local.begin(database, ids, replayed, reserved_bytes)?,
            Some(run) => {
                let at_moment = Replayed { end: run.from(), ..replayed.clone() };
                let log = self.local.begin(database, ids, &at_moment, reserved_bytes)?;
                copy(run, log.as_ref())?;
                log
            }
        };
        self.begin_outliving(database, &found)?;
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
