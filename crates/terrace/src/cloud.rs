use std::fmt;
use std::path::Path;

use terrace_base::{SeqNo, WallTime};
use terrace_engine::Error as EngineError;
use terrace_engine::cloud::{CheckpointName, LogPoint};
pub use terrace_engine::store::{CloudCheckpoint, LiveReason, WhyLive};
use terrace_engine::store::{CloudDatabase as EngineDatabase, StoreMoment, databases_in};
use terrace_env::{RealEnv, SharedEnv};

use crate::keyspace::OperatorTable;
use crate::{CheckpointReport, Options, Result, Secondary};

/// A database in an object store, for whoever has nothing but the store: on any machine, beside the
/// process that owns the database, or when that is gone. Made by [`Options::open_cloud`].
///
/// The owner is a [`Db`](crate::Db) with [`Layout::cloud`](crate::Layout::cloud). If it mirrors its
/// upper levels (`CloudOptions::mirror`), the store has one moment of the whole database after the
/// other, and those can be read, kept as checkpoints and copied from here. Without a mirror this
/// answers `Unsupported`.
///
/// ```
/// use std::time::Duration;
/// use terrace::{CloudMoment, CloudOptions, Layout, Options};
///
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let url = format!("file://{}", directory.path().join("store").display());
/// // The owner:
/// let mut cloud = CloudOptions::new(&url, 1 << 30);
/// cloud.mirror = Some(Duration::from_secs(60));
/// let layout = Layout::default().cloud(cloud);
/// let db = Options::new().layout(layout).open(directory.path().join("fruit"))?;
/// db.put("apple", "red")?;
/// db.close()?;
///
/// // Elsewhere:
/// let database = Options::new().open_cloud(&url, None)?;
/// let secondary = database.open()?;
/// assert!(secondary.get("apple")?.is_some_and(|color| color == "red"));
/// database.make_checkpoint("monday")?;
/// let monday = CloudMoment::Checkpoint("monday".to_string());
/// database.clone_to(directory.path().join("copy"), &monday, |_, _| true)?;
/// # Ok(())
/// # }
/// ```
///
/// Any number of threads and processes may use it at once.
pub struct CloudDatabase {
    database: EngineDatabase,
    options: Options,
}

/// Which state of a database in an object store is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloudMoment {
    /// The newest moment that its owner has stored, and later ones as they come.
    #[default]
    Newest,
    /// What the checkpoint of this name has.
    Checkpoint(String),
    /// What had been written at this time, by its owner's clock, out of the archive that the owner
    /// keeps (`CloudOptions::archive`): about a second may be missing at the end, as much as the
    /// owner gathers before it stores it.
    Time(WallTime),
    /// What had been written up to this sequence number, out of that archive; no batch by half.
    Number(SeqNo),
}

impl CloudMoment {
    fn of_engine(&self) -> Result<StoreMoment> {
        Ok(match self {
            CloudMoment::Newest => StoreMoment::Newest,
            CloudMoment::Checkpoint(name) => StoreMoment::Checkpoint(named(name)?),
            CloudMoment::Time(time) => StoreMoment::Archived(LogPoint::Time(*time)),
            CloudMoment::Number(number) => StoreMoment::Archived(LogPoint::Number(*number)),
        })
    }
}

impl Options {
    /// The databases in the object store at `url`, by their ids, in ascending order.
    ///
    /// Cost: a request, or two for each database.
    /// Errors: `Invalid` (no store has such a URL), `Unsupported` (the program was built without
    /// such stores), `Io`.
    pub fn cloud_databases(&self, url: &str) -> Result<Vec<u128>> {
        self.validate()?;
        Ok(databases_in(&self.process_for(RealEnv::new())?, url)?)
    }

    /// The database in the object store at `url` that has this id; without an id, the only one that
    /// is there. Nothing is read of it yet.
    ///
    /// Errors: `Invalid` (no store has such a URL; no database there, or several and no id),
    /// `Unsupported` (the program was built without such stores), `Io`.
    pub fn open_cloud(&self, url: &str, id: Option<u128>) -> Result<CloudDatabase> {
        self.open_cloud_in(RealEnv::new(), url, id)
    }

    /// As [`Options::open_cloud`], in an environment of the caller's, unless there is one that is
    /// shared.
    #[doc(hidden)]
    pub fn open_cloud_in(
        &self,
        env: SharedEnv,
        url: &str,
        id: Option<u128>,
    ) -> Result<CloudDatabase> {
        self.validate()?;
        let database = EngineDatabase::open(&self.process_for(env)?, url, id)?;
        Ok(CloudDatabase { database, options: self.clone() })
    }
}

impl CloudDatabase {
    /// Its id, which its objects' names begin with, as 32 hexadecimal digits.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.database.id()
    }

    /// Opens it to be read, at the newest moment that its owner has stored; [`Secondary::catch_up`]
    /// goes on to a newer one. A note in the store keeps what is shown, as long as that is called
    /// every few minutes: after a quarter of an hour without it, reads may answer `Outdated`.
    ///
    /// Cost: some ten requests; tables are opened when they are read.
    /// Errors: `Invalid` (no such database; a merge operator that this program does not know),
    /// `Unsupported` (its owner does not mirror it; of a later version), `Corruption`, `Io`.
    pub fn open(&self) -> Result<Secondary> {
        self.open_at(&CloudMoment::Newest)
    }

    /// Opens a checkpoint of it to be read, which never changes.
    ///
    /// Cost and errors: as of [`CloudDatabase::open`]; also `Invalid` if there is no such
    /// checkpoint.
    pub fn open_checkpoint(&self, name: &str) -> Result<Secondary> {
        self.open_at(&CloudMoment::Checkpoint(name.to_string()))
    }

    /// Opens it at some moment to be read. A state out of the archive never changes; if the archive
    /// does not have exactly that one, it is the newest one before it that it has, and a snapshot's
    /// number says which.
    ///
    /// Cost: as of [`CloudDatabase::open`]. A state out of the archive also costs up to three
    /// requests for each checkpoint, and the log that leads to it, up to half a gigabyte, which is
    /// in memory then.
    /// Errors: as of [`CloudDatabase::open`]; also `Invalid` if there is no such checkpoint or no
    /// archive, or it does not reach back so far; `Outdated` if the archive lets go of the state
    /// meanwhile.
    pub fn open_at(&self, moment: &CloudMoment) -> Result<Secondary> {
        let moment = moment.of_engine()?;
        Secondary::over(&self.options, |engine| self.database.follow(moment, engine))
    }

    /// Its checkpoints in the store, in the order in which they were begun.
    ///
    /// Cost: up to three requests for each, and for each reader.
    /// Errors: `Corruption`, `Unsupported`, `Io`.
    pub fn checkpoints(&self) -> Result<Vec<CloudCheckpoint>> {
        Ok(self.database.checkpoints()?)
    }

    /// Makes a checkpoint of the newest moment that its owner has stored. It copies no table: those
    /// that it needs stay in the store, until it is removed. A name has up to 100 letters, digits,
    /// `.`, `_` and `-`.
    ///
    /// Cost: some ten requests, and up to three for each checkpoint and each reader.
    /// Errors: `Invalid` (the name; there is one of that name; no such database), `Unsupported`
    /// (its owner does not mirror it), `Outdated` (it took so long that the owner has given it up),
    /// `Corruption`, `Io`. After an error there is no such checkpoint, unless the store did not
    /// answer.
    pub fn make_checkpoint(&self, name: &str) -> Result<CloudCheckpoint> {
        Ok(self.database.make_checkpoint(named(name)?)?)
    }

    /// Removes a checkpoint; whether there was one. What only it needed is deleted by the owner,
    /// some time later.
    ///
    /// Errors: `Invalid` (the name), `Io`; it may be removed then, or not.
    pub fn remove_checkpoint(&self, name: &str) -> Result<bool> {
        Ok(self.database.remove_checkpoint(&named(name)?)?)
    }

    /// Makes a database of its own in `dir`, which does not exist or is empty, out of a moment of
    /// this one. It needs no store, and opens like any database. `progress` is
    /// called with the bytes of tables that it has and those that it will have, and ends the work
    /// by `false`.
    ///
    /// Cost: all tables are read from the store, and each compared with its checksums.
    /// Errors: those of [`CloudDatabase::open_at`]; `Invalid` (`dir` is not empty), `Cancelled`,
    /// `NoSpace`. After an error `dir` holds no database.
    pub fn clone_to(
        &self,
        dir: impl AsRef<Path>,
        moment: &CloudMoment,
        mut progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<CheckpointReport> {
        let options = self.options.engine(&OperatorTable::default());
        Ok(self.database.clone_to(moment.of_engine()?, dir.as_ref(), options, &mut progress)?)
    }

    /// Says who needs an object in the store: `object` is its name, with the database's id in front
    /// or without. What nobody needs is deleted by the owner, some time later.
    ///
    /// Cost: some five requests, and up to three for each checkpoint and each reader.
    /// Errors: `Invalid` (no object has such a name; no such database), `Corruption`,
    /// `Unsupported`, `Io`.
    pub fn why_live(&self, object: &str) -> Result<WhyLive> {
        Ok(self.database.why_live(object)?)
    }
}

impl fmt::Debug for CloudDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.database.fmt(f)
    }
}

fn named(name: &str) -> Result<CheckpointName> {
    CheckpointName::new(name).ok_or_else(|| {
        let text = format!(
            "{name:?} is no name of a checkpoint: it has up to 100 letters, digits, `.`, `_` and \
             `-`, and does not begin with a dot"
        );
        EngineError::invalid(text).into()
    })
}
