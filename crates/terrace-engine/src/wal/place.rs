//! Where segments lie: in the range's directory, or in one of its own on a medium for the log.
//!
//! ```text
//!   <range>/<FileId>.log                                  ordinary files
//!   <medium>/terrace-<database>.segments/<FileId>.log     mapped as persistent memory, or
//!                                                         ordinary files on a volume
//! ```
//! New segments go where the options say. Old ones stay where they are until they are released, so
//! a log may lie in several directories: the manifest names those beside the range's own, each
//! before the first file is in it and until an open finds none there. A replay reads all of them,
//! and none of them may be missing: the end of the log would be where that one begins. One that is
//! gone from its place may be on the medium of the options, which is mounted elsewhere then.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::Epoch;
use terrace_env::{DirEntry, Env, LogFile, PMEM_PAGE_BYTES, PmemLogFile, SharedEnv};

use super::local_log::{LocalLogStore, Recyclable, segment_id};
use super::replay::Replayed;
use crate::options::Options;
use crate::placement::{Role, entries_of, require_medium};
use crate::{Error, Result};

/// Where segments go that do not go into the range's directory. In each there is a directory of the
/// database's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogMedium {
    /// Persistent memory, or what stands in for it.
    Memory(PathBuf),
    /// A volume with ordinary files, which may outlive the machine.
    Volume(PathBuf),
}

impl LogMedium {
    /// That of these options, if they name one.
    #[must_use]
    pub fn of(options: &Options) -> Option<LogMedium> {
        let memory = options.log_path.clone().map(LogMedium::Memory);
        memory.or_else(|| options.log_volume.clone().map(LogMedium::Volume))
    }

    /// The directory that the options name.
    #[must_use]
    pub fn path(&self) -> &Path {
        let (LogMedium::Memory(path) | LogMedium::Volume(path)) = self;
        path
    }

    /// Where the segments of a database lie on it.
    pub(super) fn segments(&self, database: u128) -> PathBuf {
        self.path().join(Role::Segments.name(database))
    }

    /// The option that names it.
    fn option(&self) -> &'static str {
        match self {
            LogMedium::Memory(_) => "log_path",
            LogMedium::Volume(_) => "log_volume",
        }
    }
}

/// What is in a directory that the manifest of a database names. Errors: `Corruption` if there is
/// none, or if it is no directory of the database's log.
pub(super) fn named_entries(env: &dyn Env, dir: &Path, database: u128) -> Result<Vec<DirEntry>> {
    Role::Segments.require_of(dir, database)?;
    entries_of(env, dir)?.ok_or_else(|| Role::Segments.missing(dir))
}

/// The directories beside the range's own that the manifest names, as they are now: one that is
/// gone lies on the medium of the options, if that has the log of this database. A volume may be
/// mounted somewhere else than before.
///
/// Errors: the environment's. A directory that is nowhere is left as it is named.
pub(super) fn where_they_are(
    store: &LocalLogStore,
    mut named: Vec<PathBuf>,
    database: u128,
) -> Result<Vec<PathBuf>> {
    let Some(here) = store.medium.as_ref().map(|medium| medium.segments(database)) else {
        return Ok(named);
    };
    let is_there = |dir: &Path| Ok::<bool, Error>(entries_of(store.env.as_ref(), dir)?.is_some());
    if named.contains(&here) || !is_there(&here)? {
        return Ok(named);
    }
    for dir in &mut named {
        if Role::Segments.is_of(dir, database) && !is_there(dir)? {
            crate::program_log::warn!(
                before = %dir.display(),
                now = %here.display(),
                "the log lies on a medium that is mounted elsewhere now"
            );
            *dir = here;
            break;
        }
    }
    Ok(named)
}

/// What becomes of segments that the manifest does not know, where the log goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strangers {
    /// They are a reason not to open the database: its manifest may be an old copy.
    Refused,
    /// They were left by an earlier owner, and go out of the way.
    SetAside,
}

/// Decides where the log goes on; see [`LogStore::settle`](super::LogStore::settle).
pub(super) fn settle(
    store: &LocalLogStore,
    database: u128,
    replayed: &Replayed,
    strangers: Strangers,
) -> Result<Vec<PathBuf>> {
    let env = store.env.as_ref();
    let is_used = |index: usize| replayed.files().any(|file| file.directory == index);
    let mut directories = Vec::new();
    for (index, dir) in replayed.directories.iter().enumerate().skip(1) {
        if is_used(index) {
            directories.push(dir.clone());
        } else {
            // What was deleted in it must not come back, for nobody will look there.
            env.fs().sync_dir(dir)?;
        }
    }
    let Some(medium) = &store.medium else { return Ok(directories) };
    require_medium(env, medium.option(), medium.path())?;
    let wanted = medium.segments(database);
    if !directories.contains(&wanted) {
        env.fs().create_dir_all(&wanted)?;
        let is_segment = |entry: &DirEntry| segment_id(&entry.name).is_some();
        let is_refused = strangers == Strangers::Refused;
        if is_refused && env.fs().list(&wanted)?.iter().any(is_segment) {
            return Err(Error::invalid(format!(
                "{} holds segments of this database, and its manifest does not name that directory: \
                 give {} as it was given before, or, if the database is an old copy, move the \
                 segments away",
                wanted.display(),
                medium.option()
            )));
        }
        directories.push(wanted);
    }
    Ok(directories)
}

/// Moves segments out of the way that no replay has found, from the directory where the log goes on
/// after a take-over: records in them count no more, and are not deleted.
///
/// Errors: the environment's. The next call goes on.
pub(super) fn set_aside_others(
    store: &LocalLogStore,
    database: u128,
    epoch: Epoch,
    replayed: &Replayed,
) -> Result<()> {
    let Some(medium) = &store.medium else { return Ok(()) };
    let (fs, dir) = (store.env.fs(), medium.segments(database));
    if replayed.directories.contains(&dir) {
        return Ok(());
    }
    let mut names: Vec<String> = fs.list(&dir)?.into_iter().map(|entry| entry.name).collect();
    names.retain(|name| segment_id(name).is_some());
    if names.is_empty() {
        return Ok(());
    }
    let aside = dir.with_extension(format!("set-aside-{:06}", epoch.0));
    fs.create_dir_all(&aside)?;
    for name in names {
        fs.rename(&dir.join(&name), &aside.join(&name))?;
    }
    fs.sync_dir(&aside)?;
    fs.sync_dir(&dir)?;
    crate::program_log::warn!(
        aside = %aside.display(),
        "segments of an earlier owner's log that the database does not need were set aside"
    );
    Ok(())
}

/// Where new segments go, and what they are made of.
#[derive(Clone, Debug)]
pub(super) struct SegmentFiles {
    pub env: SharedEnv,
    pub dir: PathBuf,
    /// Bytes of a segment, unless a record needs more.
    pub segment_bytes: u64,
    /// Whether they are mapped as persistent memory.
    is_memory: bool,
    /// Whether they lie on a medium of their own.
    is_apart: bool,
}

impl SegmentFiles {
    /// Those that `store` asks for, in a range of this database.
    pub fn new(store: &LocalLogStore, database: u128) -> SegmentFiles {
        let LocalLogStore { env, dir, segment_bytes, medium } = store.clone();
        let is_memory = matches!(medium, Some(LogMedium::Memory(_)));
        let is_apart = medium.is_some();
        let dir = medium.map_or(dir, |medium| medium.segments(database));
        let files = SegmentFiles { env, dir, segment_bytes, is_memory, is_apart };
        SegmentFiles { segment_bytes: files.whole(segment_bytes), ..files }
    }

    /// Whether new segments are mapped as persistent memory.
    pub fn is_memory(&self) -> bool {
        self.is_memory
    }

    /// Whether they lie where value files do, so that one of them may become one.
    pub fn may_retire(&self) -> bool {
        !self.is_apart
    }

    /// The size of a file for `bytes` bytes.
    pub fn whole(&self, bytes: u64) -> u64 {
        if self.is_memory { bytes.next_multiple_of(PMEM_PAGE_BYTES) } else { bytes }
    }

    /// Bytes that stay free where segments go, if those of the range's file system are these: a
    /// medium of the log's own has to have room for what the next open needs, and for nothing else.
    pub fn reserved_bytes(&self, of_range: u64) -> u64 {
        if self.is_apart { self.segment_bytes } else { of_range }
    }

    /// Whether a file of `bytes` bytes may become a segment here.
    pub fn takes(&self, path: &Path, bytes: u64) -> bool {
        path.parent() == Some(&self.dir) && self.whole(bytes) == bytes
    }

    /// Makes a file of the given size.
    pub fn create(&self, path: &Path, bytes: u64) -> Result<Arc<dyn LogFile>> {
        let fs = self.env.fs();
        if self.is_memory {
            let pmem = fs.create_pmem(path, bytes)?;
            return Ok(PmemLogFile::over(pmem, &self.env.waits()));
        }
        Ok(fs.create_log(path, bytes)?)
    }

    /// What is kept of a segment that was released.
    pub fn recyclable(&self, path: PathBuf, file: Arc<dyn LogFile>) -> Recyclable {
        let bytes = file.bytes();
        Recyclable { path, bytes, mapped: self.is_memory.then_some(file) }
    }

    /// Uses a file again, under another name; `None` if somebody still has it mapped: whoever wrote
    /// the last record, and has not let go of it yet.
    pub fn recycle(&self, old: &mut Recyclable, to: &Path) -> Result<Option<Arc<dyn LogFile>>> {
        let (fs, from) = (self.env.fs(), &old.path);
        if !self.is_memory {
            return Ok(Some(fs.recycle_log(from, to)?));
        }
        if let Some(file) = &mut old.mapped {
            let Some(own) = Arc::get_mut(file) else { return Ok(None) };
            own.forget();
            fs.rename(from, to)?;
            return Ok(old.mapped.take());
        }
        match fs.open_pmem(from) {
            Err(error) if error.is_locked() => return Ok(None),
            mapped => drop(mapped?),
        }
        // Nobody maps it from here on: it is no segment any more.
        drop(fs.recycle_log(from, to)?);
        Ok(Some(PmemLogFile::over(fs.open_pmem(to)?, &self.env.waits())))
    }
}
