//! Backups: copies of a database in a directory, each of one moment, that share what they have in
//! common.
//!
//! ```text
//!   BACKUPS/000001-1795526400/   a database as it was: tables, a manifest, CURRENT
//!           000002-1795612800/   the next one: what did not change has a second name here
//!           │      └ seconds since 1970
//!           └ ascending
//! ```
//! # Why whole directories
//! Each backup can be checked, looked at read-only, and restored by itself; deleting one takes
//! nothing away from another, since the file system counts the names. There is no catalog that
//! could be lost. On a file system without hard links each backup takes its whole size.
//!
//! # Invariants
//! 1. A backup is whole or no backup: `CURRENT` comes last, after everything it leads to is
//!    durable, and goes first. What was left half-way is removed by the next backup.
//! 2. A backup shares no bytes with the database that it is of, unless asked to.
//! 3. Every byte was compared with its checksum when it was copied.

mod name;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use terrace_base::SeqNo;
use terrace_engine::store::{CopyOptions, restore, seqno_of_copy};
use terrace_engine::{Error as EngineError, check};
use terrace_env::{RealEnv, SharedEnv};

use crate::{CheckDepth, CheckReport, CheckpointReport, Db, Error, Result};

/// A directory of backups of one database.
///
/// ```
/// use terrace::{Backups, Db};
///
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// let db = Db::open(directory.path().join("shop"))?;
/// let backups = Backups::open(directory.path().join("backups"))?;
/// db.put("1", "1 bicycle")?;
/// let first = backups.create(&db)?.backup;
/// db.put("2", "1 bell")?;
/// backups.create(&db)?;
///
/// let restored = directory.path().join("as it was");
/// backups.restore(first.number, &restored)?;
/// let restored = Db::open(restored)?;
/// assert!(restored.contains_key("1")? && !restored.contains_key("2")?);
///
/// // The newest seven are enough.
/// assert_eq!(backups.keep_newest(7)?, 0);
/// # Ok(())
/// # }
/// ```
///
/// One process at a time makes, restores or deletes in a directory; who comes second waits for
/// nothing and is told so by the kind `Locked`, or by `Invalid` where both want to make one.
#[derive(Debug)]
pub struct Backups {
    env: SharedEnv,
    dir: PathBuf,
}

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Its number: a later backup has a greater one.
    pub number: u32,
    /// When it was made, to a second.
    pub created_at: SystemTime,
    /// The number of the last write that it holds.
    pub seqno: SeqNo,
    /// Bytes of its files, those included that it shares with others.
    pub bytes: u64,
    /// Where it lies. It can be opened for reading; opened for writing it would be a backup no
    /// more.
    pub dir: PathBuf,
}

/// What making a backup came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupReport {
    /// The backup.
    pub backup: Backup,
    /// Bytes that were copied: the others are shared with an earlier one.
    pub copied_bytes: u64,
    /// Tables that are shared.
    pub shared_table_count: u64,
}

/// How a backup is made.
///
/// ```
/// use terrace::BackupOptions;
///
/// const GENTLE: BackupOptions = BackupOptions::new().bytes_per_second(20 << 20);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BackupOptions {
    is_full: bool,
    links: bool,
    bytes_per_second: Option<u64>,
}

impl BackupOptions {
    /// A backup that shares with the one before it what both have, as fast as the disks allow.
    #[must_use]
    pub const fn new() -> BackupOptions {
        BackupOptions { is_full: false, links: false, bytes_per_second: None }
    }

    /// Copies everything anew, and shares nothing: what has been damaged in an earlier backup is
    /// whole in this one.
    #[must_use]
    pub const fn full(self) -> BackupOptions {
        BackupOptions { is_full: true, ..self }
    }

    /// Shares bytes with the database itself where both lie on one file system: it costs hardly any
    /// time or space, and damage to the one is damage to the other.
    #[must_use]
    pub const fn link(self) -> BackupOptions {
        BackupOptions { links: true, ..self }
    }

    /// Copies no more than this on average, so that the disk has time for others.
    #[must_use]
    pub const fn bytes_per_second(self, bytes: u64) -> BackupOptions {
        BackupOptions { bytes_per_second: Some(bytes), ..self }
    }
}

impl Backups {
    /// The backups in `dir`, which is made if it is missing. Errors: `Io`.
    pub fn open(dir: impl AsRef<Path>) -> Result<Backups> {
        Backups::open_in(RealEnv::new(), dir)
    }

    /// As [`Backups::open`], in an environment of the caller's.
    #[doc(hidden)]
    pub fn open_in(env: SharedEnv, dir: impl AsRef<Path>) -> Result<Backups> {
        let dir = dir.as_ref().to_path_buf();
        env.fs().create_dir_all(&dir).map_err(EngineError::from)?;
        Ok(Backups { env, dir })
    }

    /// All backups, the oldest first. Cost: a look at the manifest of each.
    ///
    /// Errors: `Corruption` (the manifest of one is damaged; [`Backups::delete`] takes its number
    /// all the same), `Io`.
    pub fn list(&self) -> Result<Vec<Backup>> {
        let whole = self.directories()?.into_iter().filter(|one| one.is_whole);
        whole.map(|one| self.describe(one)).collect()
    }

    /// Makes a backup of everything that was acknowledged before the call, as
    /// [`BackupOptions::new`] says. Writers and readers go on.
    ///
    /// Errors: those of [`Db::checkpoint`].
    pub fn create(&self, db: &Db) -> Result<BackupReport> {
        self.create_with(db, &BackupOptions::new(), |_, _| true)
    }

    /// As [`Backups::create`]; `progress` is called with the bytes of tables that the backup has
    /// and those that it will have, and ends the work by `false`.
    pub fn create_with(
        &self,
        db: &Db,
        options: &BackupOptions,
        mut progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<BackupReport> {
        let directories = self.directories()?;
        directories.iter().filter(|one| !one.is_whole).try_for_each(|one| self.remove(one))?;
        let newest = directories.iter().rev().find(|one| one.is_whole);
        let number = directories.iter().map(|one| one.number).max().unwrap_or(0) + 1;
        let created_at = Duration::from_millis(self.env.wall_time().0).as_secs();
        let dir = self.dir.join(name::of(number, created_at));
        let copy = CopyOptions {
            earlier: newest.filter(|_| !options.is_full).map(|one| one.dir.clone()),
            shares_source: options.links,
            bytes_per_second: options.bytes_per_second,
        };
        let report = db.store().checkpoint_with(&dir, &copy, &mut progress)?;
        self.env.fs().sync_dir(&self.dir).map_err(EngineError::from)?;
        let CheckpointReport { copied_bytes, linked_count, .. } = report;
        let backup = self.describe(Directory { number, created_at, dir, is_whole: true })?;
        Ok(BackupReport { backup, copied_bytes, shared_table_count: linked_count })
    }

    /// Makes a database of a backup in `target`, which does not exist or is empty.
    ///
    /// Errors: `NotFound` (there is no backup of this number), `Invalid` (`target` is not empty),
    /// `Corruption`, `NoSpace`, `Io`. After an error `target` holds no database.
    pub fn restore(&self, number: u32, target: impl AsRef<Path>) -> Result<()> {
        self.restore_with(number, target, &BackupOptions::new(), |_, _| true)
    }

    /// As [`Backups::restore`]; of the options the rate counts. `progress` as for
    /// [`Backups::create_with`].
    pub fn restore_with(
        &self,
        number: u32,
        target: impl AsRef<Path>,
        options: &BackupOptions,
        mut progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<()> {
        let from = self.whole(number)?;
        let copy =
            CopyOptions { bytes_per_second: options.bytes_per_second, ..CopyOptions::default() };
        restore(&self.env, &from.dir, target.as_ref(), &copy, &mut progress)?;
        Ok(())
    }

    /// Reads everything in a backup, and says what is damaged.
    ///
    /// Errors: `NotFound` (there is no backup of this number), `Io`.
    pub fn verify(&self, number: u32) -> Result<CheckReport> {
        self.verify_with(number, |_, _| ())
    }

    /// As [`Backups::verify`]; `progress` is called with the bytes checked and the bytes in all.
    pub fn verify_with(
        &self,
        number: u32,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<CheckReport> {
        let one = self.whole(number)?;
        let report = check::check_dir(&self.env, &one.dir, CheckDepth::Full, &mut progress)?;
        Ok(CheckReport::new(report))
    }

    /// Deletes a backup, also a damaged one. What it shares with others stays theirs.
    ///
    /// Errors: `NotFound` (there is no backup of this number), `Io`.
    pub fn delete(&self, number: u32) -> Result<()> {
        self.remove(&self.whole(number)?)
    }

    /// Deletes all backups but the `count` newest; how many were deleted.
    pub fn keep_newest(&self, count: usize) -> Result<usize> {
        let mut whole: Vec<_> = self.directories()?;
        whole.retain(|one| one.is_whole);
        let surplus = whole.len().saturating_sub(count);
        whole[..surplus].iter().try_for_each(|one| self.remove(one))?;
        Ok(surplus)
    }

    /// What is named as backups are, by number.
    fn directories(&self) -> Result<Vec<Directory>> {
        let listed = self.env.fs().list(&self.dir).map_err(EngineError::from)?;
        let mut directories = Vec::new();
        for entry in listed.iter().filter(|entry| entry.is_dir) {
            let Some((number, created_at)) = name::read(&entry.name) else { continue };
            let dir = self.dir.join(&entry.name);
            let files = self.env.fs().list(&dir).map_err(EngineError::from)?;
            let is_whole = files.iter().any(|file| file.name == "CURRENT");
            directories.push(Directory { number, created_at, dir, is_whole });
        }
        directories.sort_by_key(|one| one.number);
        Ok(directories)
    }

    fn whole(&self, number: u32) -> Result<Directory> {
        let mut directories = self.directories()?.into_iter();
        directories.find(|one| one.is_whole && one.number == number).ok_or_else(|| {
            Error::not_found(format!("there is no backup {number} in {}", self.dir.display()))
        })
    }

    fn describe(&self, one: Directory) -> Result<Backup> {
        let seqno = seqno_of_copy(&self.env, &one.dir)?;
        let files = self.env.fs().list(&one.dir).map_err(EngineError::from)?;
        Ok(Backup {
            number: one.number,
            created_at: SystemTime::UNIX_EPOCH + Duration::from_secs(one.created_at),
            seqno,
            bytes: files.iter().map(|file| file.bytes).sum(),
            dir: one.dir,
        })
    }

    /// Removes a directory with its files, `CURRENT` first and durably: after a power cut it must
    /// not be there without what it leads to.
    fn remove(&self, one: &Directory) -> Result<()> {
        let fs = self.env.fs();
        let mut files = fs.list(&one.dir).map_err(EngineError::from)?;
        files.sort_by_key(|file| file.name != "CURRENT");
        for file in files.iter().filter(|file| !file.is_dir) {
            fs.remove(&one.dir.join(&file.name)).map_err(EngineError::from)?;
            if file.name == "CURRENT" {
                fs.sync_dir(&one.dir).map_err(EngineError::from)?;
            }
        }
        fs.remove_dir(&one.dir).map_err(EngineError::from)?;
        Ok(())
    }
}

/// A directory that is named as a backup.
#[derive(Clone, Debug)]
struct Directory {
    number: u32,
    created_at: u64,
    dir: PathBuf,
    is_whole: bool,
}

#[cfg(test)]
mod tests;
