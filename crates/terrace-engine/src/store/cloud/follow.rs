use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use terrace_base::{Epoch, FileId};
use terrace_env::{Mutex, SharedEnv};

use super::database::{decode_edits, place_of, whole_edits};
use super::{ArchivedLog, mirror};
use crate::cloud::format::Extent;
use crate::cloud::{
    CheckpointName, Checkpoints, CloudFeed, CloudNames, CloudStore, FedState, LogPoint,
    PIN_STILL_MAX, ReaderPin, pin_and_read,
};
use crate::ids::FileIds;
use crate::version::{
    FeedMark, FeedNews, FeedPosition, FeedStore, LoadedFeed, Version, VersionEdit, VersionFeed,
};
use crate::wal::{LogFacts, LogMark, LogSink, LogStore, ReadOn, Replayed, Visit};
use crate::{Error, Result};

/// What a reader of a store sees of a database there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreMoment {
    /// The newest moment that its owner has fed, and those after it.
    #[default]
    Newest,
    /// What a checkpoint has.
    Checkpoint(CheckpointName),
    /// The state at a point, out of the archive that the owner keeps.
    Archived(LogPoint),
}

/// The feed of a database as a reader follows it that has nothing but the store. A pin there sees
/// to it that no table goes which the reader shows.
#[derive(Debug)]
pub struct StoreFeed {
    env: SharedEnv,
    store: Arc<CloudStore>,
    names: CloudNames,
    moment: StoreMoment,
    archived: Option<Arc<ArchivedLog>>,
    reading: Mutex<Option<Reading>>,
}

#[derive(Debug)]
struct Reading {
    pin: ReaderPin,
    renewed: Duration,
    /// Where the reader is; `None` at a state that never changes.
    fed: Option<crate::cloud::FeedMark>,
    /// What the reader calls that.
    shown: FeedMark,
    /// The number of the feed up to which it has read.
    number: u64,
    /// Versions that somebody may look at still, and their numbers.
    versions: Vec<(u64, Weak<Version>)>,
}

/// A reader's state at the feed's moment, and how it is called.
struct Read {
    pin: ReaderPin,
    edits: Vec<VersionEdit>,
    fed: Option<crate::cloud::FeedMark>,
    number: u64,
    shown: FeedMark,
}

impl StoreFeed {
    /// The feed of the database with these names, at `moment`.
    #[must_use]
    pub fn new(
        env: &SharedEnv,
        store: &Arc<CloudStore>,
        names: CloudNames,
        moment: StoreMoment,
    ) -> StoreFeed {
        let (env, store) = (Arc::clone(env), Arc::clone(store));
        let reading = env.waits().mutex(None);
        let archived = match &moment {
            StoreMoment::Archived(point) => Some(ArchivedLog::new(&env, &store, names, *point)),
            StoreMoment::Newest | StoreMoment::Checkpoint(_) => None,
        };
        StoreFeed { env, store, names, moment, archived: archived.map(Arc::new), reading }
    }

    /// The log that goes on behind what the feed comes to, at a state out of an archive.
    #[must_use]
    pub fn archived(&self) -> Option<Arc<ArchivedLog>> {
        self.archived.clone()
    }

    /// What the reader calls the database.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        place_of(&self.store, self.names)
    }

    /// Reads the moment anew, with a new pin; `None` if there is no database.
    fn begin(&self) -> Result<Option<Read>> {
        let nonce = self.env.random_u128();
        let Some((mut pin, state)) = pin_and_read(&self.store, self.names, nonce)? else {
            return Ok(None);
        };
        let read = self.read(&state);
        if read.is_err() {
            // The first error says more; the owner drops the pin some time later.
            drop(pin.release());
        }
        let (edits, number, fed) = read?;
        pin.narrow(number)?;
        let shown = self.mark(&state, number);
        Ok(Some(Read { pin, edits, fed, number, shown }))
    }

    /// What is shown of what the feed comes to, and at which number.
    fn read(
        &self,
        state: &FedState,
    ) -> Result<(Vec<VersionEdit>, u64, Option<crate::cloud::FeedMark>)> {
        let checkpoints = Checkpoints::new(&self.store, self.names);
        let name = match &self.moment {
            StoreMoment::Newest => {
                let edits = whole_edits(state, &self.dir())?;
                return Ok((edits, state.mark.number(), Some(state.mark.clone())));
            }
            StoreMoment::Archived(_) => {
                let archived = self.archived.as_ref().expect("there is one for such a moment");
                let (edit, from) = archived.find(&checkpoints)?;
                return Ok((vec![edit], from, None));
            }
            StoreMoment::Checkpoint(name) => name,
        };
        let checkpoint = checkpoints.find(name)?;
        let checkpoint = checkpoint.ok_or_else(|| {
            Error::invalid(format!(
                "there is no checkpoint {name} in {}; list those that are there",
                self.dir().display()
            ))
        })?;
        Ok((decode_edits(&[checkpoint.snapshot], &self.dir())?, checkpoint.from, None))
    }

    fn mark(&self, state: &FedState, number: u64) -> FeedMark {
        let id = FileId { epoch: state.mark.epoch(), counter: 0 };
        FeedMark { end: FeedPosition { id, bytes: number }, identity: state.mark.nonce() }
    }

    /// What has come since the last time. Errors: also `Outdated` if the pin was dropped.
    fn go_on(&self, reading: &mut Reading) -> Result<Option<FeedNews>> {
        let nothing = FeedNews { begins_anew: false, edits: Vec::new(), mark: reading.shown };
        let now = self.env.now();
        if now.saturating_sub(reading.renewed) >= PIN_STILL_MAX / 10 {
            reading.pin.renew()?;
            reading.renewed = now;
        }
        let Some(fed) = &reading.fed else { return Ok(Some(nothing)) };
        let Some(state) = CloudFeed::read_on(&self.store, self.names, fed)? else {
            return Ok(None);
        };
        if !reading.pin.counts(state.mark.collected()) {
            return Err(Error::Outdated("the reader's pin counts no more".to_string()));
        }
        let edits = decode_edits(&state.edits, &self.dir())?;
        // What is not whole is looked at again when it has gone on.
        let is_whole = state.mark.extent() != Extent::Some && mirror::count_missing(&edits) == 0;
        if !is_whole || edits.is_empty() {
            return Ok(Some(nothing));
        }
        let number = state.mark.number();
        let shown = self.mark(&state, number);
        let begins_anew = state.begins_anew;
        (reading.fed, reading.number, reading.shown) = (Some(state.mark), number, shown);
        Ok(Some(FeedNews { begins_anew, edits, mark: shown }))
    }
}

impl Drop for StoreFeed {
    fn drop(&mut self) {
        let Some(reading) = &mut *self.reading.lock() else { return };
        if let Err(error) = reading.pin.release() {
            let pin = reading.pin.number();
            crate::program_log::debug!(pin, %error, "a reader's pin was not released");
        }
    }
}

impl FeedStore for StoreFeed {
    fn load(&self) -> Result<Option<LoadedFeed>> {
        let news = self.news(None)?;
        Ok(news.map(|FeedNews { edits, mark, .. }| LoadedFeed {
            edits,
            end: mark.end,
            is_torn: false,
        }))
    }

    /// Errors: also `Unsupported` if the store does not have all of the database, or not of one
    /// moment, when nothing was read before; `Invalid` if there is no such checkpoint.
    fn news(&self, mark: Option<FeedMark>) -> Result<Option<FeedNews>> {
        let mut reading = self.reading.lock();
        if let Some(there) = reading.as_mut().filter(|there| Some(there.shown) == mark) {
            match self.go_on(there) {
                // The pin was dropped: what is shown may go, and all is read anew.
                Err(Error::Outdated(_)) => {}
                outcome => return outcome,
            }
        }
        let Some(Read { pin, edits, fed, number, shown }) = self.begin()? else { return Ok(None) };
        let versions = reading.take().map(|before| before.versions).unwrap_or_default();
        let renewed = self.env.now();
        *reading = Some(Reading { pin, renewed, fed, shown, number, versions });
        Ok(Some(FeedNews { begins_anew: true, edits, mark: shown }))
    }

    /// The pin holds what is shown, and what was shown before and somebody looks at still.
    fn shows(&self, version: &Arc<Version>) {
        let mut reading = self.reading.lock();
        let Some(reading) = reading.as_mut() else { return };
        let number = reading.number;
        reading.versions.retain(|(_, version)| version.strong_count() > 0);
        reading.versions.push((number, Arc::downgrade(version)));
        let oldest = reading.versions.iter().map(|(number, _)| *number).min().unwrap_or(number);
        // Without an answer the pin holds more than it has to, until the next time.
        if let Err(error) = reading.pin.narrow(oldest) {
            let pin = reading.pin.number();
            crate::program_log::debug!(pin, %error, "a reader's pin was not narrowed");
        }
    }

    fn next_epoch(&self, epoch: Epoch) -> Result<Epoch> {
        Ok(Epoch(epoch.0 + 1))
    }

    fn begin(&self, _id: FileId, _snapshot: &VersionEdit) -> Result<Box<dyn VersionFeed>> {
        Err(Error::ReadOnly)
    }
}

/// The log of a range of which only the tables are there.
#[derive(Debug)]
pub struct NoLog;

impl LogStore for NoLog {
    fn replay(&self, _facts: LogFacts, _visit: &mut Visit<'_>) -> Result<Replayed> {
        Ok(Replayed::default())
    }

    fn read_on(
        &self,
        _facts: &LogFacts,
        _mark: Option<LogMark>,
        _bytes_max: u64,
        _visit: &mut Visit<'_>,
    ) -> Result<ReadOn> {
        Ok(ReadOn::To { mark: None, is_whole: true })
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
