use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{Corruption, SeqNo, WallTime};

use super::{CloudTier, StoreMoment, mirror};
use crate::cloud::format::{CheckpointObject, Extent};
use crate::cloud::{
    CheckpointName, Checkpoints, CloudNames, CloudStore, FedState, Removal, find_databases,
};
use crate::options::{CloudOptions, Options};
use crate::process::Process;
use crate::store::bulk::checkpoint::{CheckpointProgress, CheckpointReport};
use crate::store::follow::{Follower, version_in_store};
use crate::version::format::{decode_edit, encode_edit};
use crate::version::{Version, VersionEdit};
use crate::{Error, Result};

/// A clone says to the owner so often that it is still there.
const RENEW_EVERY: Duration = Duration::from_secs(60);

/// A database in an object store, for whoever has nothing but the store: on any machine, beside its
/// owner or without one. Any number of threads and processes may use it at once.
pub struct CloudDatabase {
    process: Arc<Process>,
    tier: Arc<CloudTier>,
    pub(super) store: Arc<CloudStore>,
    pub(super) names: CloudNames,
}

/// A checkpoint of a database in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloudCheckpoint {
    /// Its name.
    pub name: CheckpointName,
    /// When it was made, by the clock of whoever made it.
    pub at: WallTime,
    /// It holds everything that was written up to this number, and nothing after it.
    pub seqno: SeqNo,
    /// Tables and value files that it needs.
    pub file_count: u64,
    /// Bytes of all of them. Other checkpoints and the database itself may need the same ones.
    pub file_bytes: u64,
}

/// The databases in the store at `url`, by their ids, in ascending order.
///
/// Cost: a list, or two for each database.
/// Errors: no store has such a URL; the environment's.
pub fn databases_in(process: &Arc<Process>, url: &str) -> Result<Vec<u128>> {
    let tier = CloudTier::new(process.env(), Some(CloudOptions::as_it_is(url)));
    find_databases(tier.store()?)
}

impl CloudDatabase {
    /// The database of this id in the store at `url`, or the only one that is there. Nothing is
    /// read of it yet.
    ///
    /// Errors: `Invalid` if there is none, or several and none is named; the environment's.
    pub fn open(
        process: &Arc<Process>,
        url: &str,
        database: Option<u128>,
    ) -> Result<CloudDatabase> {
        let tier = CloudTier::new(process.env(), Some(CloudOptions::as_it_is(url)));
        let store = Arc::clone(tier.store()?);
        let names = CloudNames::new(choose_database(&store, database)?);
        Ok(CloudDatabase { process: Arc::clone(process), tier, store, names })
    }

    /// That of an owner.
    ///
    /// Errors: those of the store's URL.
    pub(super) fn of_owner(
        process: &Arc<Process>,
        tier: &Arc<CloudTier>,
        names: CloudNames,
    ) -> Result<CloudDatabase> {
        let (process, tier) = (Arc::clone(process), Arc::clone(tier));
        let store = Arc::clone(tier.store()?);
        Ok(CloudDatabase { process, tier, store, names })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u128 {
        self.names.database()
    }

    /// The URL of the store.
    #[must_use]
    pub fn url(&self) -> &str {
        self.tier.url()
    }

    /// Opens it at a moment, to be read; as [`Follower::open_store`].
    pub fn follow(&self, moment: StoreMoment, options: Options) -> Result<Follower> {
        Follower::open_store(&self.process, self.url(), Some(self.id()), moment, options)
    }

    /// Its checkpoints, in the order in which they were begun.
    ///
    /// Cost: a reading of the feed, and up to three requests for each pin.
    /// Errors: `Corruption`, `Unsupported`; the environment's.
    pub fn checkpoints(&self) -> Result<Vec<CloudCheckpoint>> {
        let all = Checkpoints::new(&self.store, self.names).list()?;
        all.iter().map(|checkpoint| self.describe(checkpoint)).collect()
    }

    /// Makes a checkpoint of the newest moment that the owner has fed. It costs no byte of tables:
    /// those that it needs stay in the store, until it is removed.
    ///
    /// Cost: three readings of the feed, a list, and a few requests for each pin that is there.
    /// Errors: `Invalid` (one of that name is there, or it is an archive's; no database),
    /// `Unsupported` (the owner does not mirror the database, or has fed no moment yet), `Outdated`
    /// (it took so long that the owner has given it up); `Corruption`; the environment's. After an
    /// error there is no such checkpoint, unless the store did not answer.
    pub fn make_checkpoint(&self, name: CheckpointName) -> Result<CloudCheckpoint> {
        if name.is_of_archive() {
            return Err(Error::invalid(format!(
                "{name} is a name for the checkpoints of an archive, which the owner makes: choose \
                 another one"
            )));
        }
        self.describe(&self.make(name)?)
    }

    /// As [`CloudDatabase::make_checkpoint`], whatever it is called.
    pub(super) fn make(&self, name: CheckpointName) -> Result<CheckpointObject> {
        let env = self.process.env();
        let at_ms = env.wall_time().0;
        Checkpoints::new(&self.store, self.names).make(env.random_u128(), name, at_ms, |state| {
            let edits = whole_edits(state, &self.place())?;
            Ok(encode_edit(&self.version_of(&edits)?.to_snapshot()))
        })
    }

    /// Removes the checkpoint of that name; whether there was one. What only it needed is deleted
    /// by the owner, some time later.
    ///
    /// Errors: the environment's; it may be removed then, or not.
    pub fn remove_checkpoint(&self, name: &CheckpointName) -> Result<bool> {
        let removal = Checkpoints::new(&self.store, self.names).remove(name)?;
        Ok(removal == Removal::Removed)
    }

    /// Makes a database of its own in `dir`, which does not exist or is empty, out of what this one
    /// was at a moment. On return it is durable, lies in the directory alone, and opens like any
    /// other.
    ///
    /// Cost: all tables are read from the store, each compared with what is known of its bytes.
    /// Errors: those of [`Follower::open_store`] and of [`Store::checkpoint`], but for those of its
    /// flush. After an error `dir` holds no database.
    ///
    /// [`Store::checkpoint`]: crate::store::Store::checkpoint
    pub fn clone_to(
        &self,
        moment: StoreMoment,
        dir: &Path,
        options: Options,
        progress: CheckpointProgress<'_>,
    ) -> Result<CheckpointReport> {
        let mut follower = self.follow(moment, options)?;
        let store = follower.store().clone();
        let env = self.process.env();
        let mut renewed = env.now();
        let mut lost = None;
        let copied = store.copy_to(dir, &mut |done, total| {
            if env.now().saturating_sub(renewed) >= RENEW_EVERY {
                renewed = env.now();
                if let Err(error @ Error::Outdated(_)) = follower.catch_up() {
                    lost = Some(error);
                    return false;
                }
            }
            progress(done, total)
        });
        match lost {
            Some(error) => Err(error),
            None => copied.map(|report| CheckpointReport { as_of: follower.gathered(), ..report }),
        }
    }

    /// The version that edits of the store make.
    fn version(&self, edits: &[Vec<u8>]) -> Result<Version> {
        self.version_of(&decode_edits(edits, &self.place())?)
    }

    pub(super) fn version_of(&self, edits: &[VersionEdit]) -> Result<Version> {
        version_in_store(&self.process, &self.tier, self.names, edits)
    }

    /// What messages call it.
    pub(super) fn place(&self) -> PathBuf {
        place_of(&self.store, self.names)
    }

    fn describe(&self, checkpoint: &CheckpointObject) -> Result<CloudCheckpoint> {
        let version = self.version(std::slice::from_ref(&checkpoint.snapshot))?;
        let tables = version.tables().map(|table| table.meta().bytes);
        let values = version.values().iter().map(|file| file.meta().bytes);
        let files: Vec<u64> = tables.chain(values).collect();
        Ok(CloudCheckpoint {
            name: checkpoint.name.clone(),
            at: WallTime(checkpoint.at_ms),
            seqno: version.greatest_seqno(),
            file_count: files.len() as u64,
            file_bytes: files.iter().sum(),
        })
    }
}

impl fmt::Debug for CloudDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloudDatabase({})", self.place().display())
    }
}

/// What readers call a database in a store.
pub(super) fn place_of(store: &CloudStore, names: CloudNames) -> PathBuf {
    PathBuf::from(format!("{}/{:032x}", store.url(), names.database()))
}

/// Edits of the store; `place` is what messages call the database. Errors: `Corruption`.
pub(super) fn decode_edits(edits: &[Vec<u8>], place: &Path) -> Result<Vec<VersionEdit>> {
    let decoded = edits.iter().map(|edit| decode_edit(edit));
    decoded
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| Corruption::from_codec(place, 0, &error).into())
}

/// The edits of what was fed, if they lead to one moment of a database that is all in the store.
///
/// Errors: `Unsupported` if they do not; `Corruption`.
pub(super) fn whole_edits(state: &FedState, place: &Path) -> Result<Vec<VersionEdit>> {
    let edits = decode_edits(&state.edits, place)?;
    let missing = mirror::count_missing(&edits);
    let what = match (missing, state.mark.extent()) {
        (0, Extent::Some) => "its entries are not of one moment".to_string(),
        (0, _) => return Ok(edits),
        (count, _) => format!("{count} of its files lie on the machine of its owner alone"),
    };
    Err(Error::Unsupported(format!(
        "{} does not have all of the database: {what}. Let its owner mirror it (the option \
         `cloud.mirror`, `terrace serve --cloud-mirror`), and try again a moment later",
        place.display()
    )))
}

/// The database that is meant: the one of this id, or the only one that is there.
///
/// Errors: `Invalid` if there is none, or several and none is named; the environment's.
pub fn choose_database(store: &CloudStore, asked: Option<u128>) -> Result<u128> {
    if let Some(database) = asked {
        return Ok(database);
    }
    let found = find_databases(store)?;
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Error::invalid(format!("{} holds no database; check the URL", store.url()))),
        several => {
            let ids: Vec<String> = several.iter().map(|id| format!("{id:032x}")).collect();
            Err(Error::invalid(format!(
                "{} holds several databases; say which one is meant: {}",
                store.url(),
                ids.join(", ")
            )))
        }
    }
}
