//! Claims: which range directory the data belong to that a database has on a medium.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use terrace_base::{Corruption, PreambleError};
use terrace_env::{DirLock, LockKind, SharedEnv};

use super::format::{ClaimBytes, decode_claim, encode_claim};
use crate::{Error, Result, read_file};

const CLAIM: &str = "CLAIM";
const NEXT_CLAIM: &str = "CLAIM.next";

/// What the directory of a database's claim on a medium is called.
fn claim_directory_name(database: u128) -> String {
    format!("terrace-{database:032x}.claim")
}

/// How an open came to a medium, for the error that refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The manifest names it: data of this range are there, or of the one that it was copied from.
    Named,
    /// The options name it for what comes from now on.
    Wanted,
}

/// The claims of one range on media. Each is locked until this is dropped.
pub(crate) struct Claims {
    env: SharedEnv,
    database: u128,
    /// The real name of the range's directory.
    owner: PathBuf,
    is_read_only: bool,
    held: BTreeMap<PathBuf, DirLock>,
}

impl Claims {
    /// No claims yet, of the range in `dir`, which exists and which the caller has locked.
    pub fn new(env: &SharedEnv, dir: &Path, database: u128, is_read_only: bool) -> Result<Claims> {
        let owner = env.fs().real_dir(dir)?;
        let env = SharedEnv::clone(env);
        Ok(Claims { env, database, owner, is_read_only, held: BTreeMap::new() })
    }

    /// Whether this is the range's own directory, which is under the lock of the range.
    pub fn is_own(&self, medium: &Path) -> Result<bool> {
        Ok(self.real_medium(medium)?.as_deref() == Some(&self.owner))
    }

    /// Locks what this database has on a medium, if it is claimed, before anything there is read.
    /// Writes nothing. A medium that is not there has nothing to be locked; whoever needs it says
    /// so.
    ///
    /// Errors: `Invalid` if it belongs to another range, `Locked` if somebody uses it, `Corruption`
    /// if its claim is damaged; the environment's.
    pub fn enter(&mut self, medium: &Path) -> Result<()> {
        self.take_if(medium, Wish::Named, |claimed| claimed.is_some())
    }

    /// As [`Claims::enter`], before anything there is changed; claims it if nobody does.
    ///
    /// Errors: `Invalid` if it belongs to another range, `Locked` if somebody uses it, `Corruption`
    /// if its claim is damaged; the environment's.
    pub fn take(&mut self, medium: &Path, wish: Wish) -> Result<()> {
        assert!(!self.is_read_only, "who only reads claims nothing");
        self.take_if(medium, wish, |_| true)
    }

    fn take_if(
        &mut self,
        medium: &Path,
        wish: Wish,
        is_due: impl FnOnce(Option<&Path>) -> bool,
    ) -> Result<()> {
        let Some(medium) = self.real_medium(medium)? else { return Ok(()) };
        if medium == self.owner || self.held.contains_key(&medium) {
            return Ok(());
        }
        let dir = medium.join(claim_directory_name(self.database));
        // Before the lock, too: whoever holds it may be the range that this one was copied from.
        let before = self.read(&dir)?;
        self.require_own(&medium, before.as_deref(), wish)?;
        if !is_due(before.as_deref()) {
            return Ok(());
        }
        let lock = self.lock(&dir)?;
        let claimed = self.read(&dir)?;
        self.require_own(&medium, claimed.as_deref(), wish)?;
        if claimed.is_none() {
            self.write(&dir)?;
        }
        self.held.insert(medium, lock);
        Ok(())
    }

    /// Claims what this database has on a medium, whoever claimed it before; who that was, if
    /// anybody can tell. Nothing happens, and there is no answer, if the medium is not there or the
    /// range's own directory.
    ///
    /// Errors: `Locked` if somebody uses it; the environment's.
    pub fn take_over(&mut self, medium: &Path) -> Result<Option<Option<PathBuf>>> {
        let before = self.lock_of_anybody(medium)?;
        self.write_over(medium)?;
        Ok(before)
    }

    /// The first half of [`Claims::take_over`]: locks what this database has on a medium, whoever
    /// claimed it.
    pub fn lock_of_anybody(&mut self, medium: &Path) -> Result<Option<Option<PathBuf>>> {
        let Some(medium) = self.real_medium(medium)? else { return Ok(None) };
        if medium == self.owner || self.held.contains_key(&medium) {
            return Ok(None);
        }
        let dir = medium.join(claim_directory_name(self.database));
        let lock = self.lock(&dir)?;
        let before = match self.read(&dir) {
            // Nobody can tell.
            Err(Error::Corruption(_)) => None,
            before => before?,
        };
        self.held.insert(medium, lock);
        Ok(Some(before))
    }

    /// The second half: what was locked is claimed, unless it is already.
    pub fn write_over(&mut self, medium: &Path) -> Result<()> {
        let Some(medium) = self.real_medium(medium)? else { return Ok(()) };
        let dir = medium.join(claim_directory_name(self.database));
        let is_due = self.held.contains_key(&medium)
            && !matches!(self.read(&dir), Ok(Some(owner)) if owner == self.owner);
        if is_due { self.write(&dir) } else { Ok(()) }
    }

    /// The one name of a medium; `None` if it is no directory.
    fn real_medium(&self, medium: &Path) -> Result<Option<PathBuf>> {
        match self.env.fs().real_dir(medium) {
            Ok(medium) => Ok(Some(medium)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) if error.source.kind() == std::io::ErrorKind::NotADirectory => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn lock(&self, dir: &Path) -> Result<DirLock> {
        let kind = if self.is_read_only { LockKind::Shared } else { LockKind::Exclusive };
        if !self.is_read_only {
            self.env.fs().create_dir_all(dir)?;
        }
        self.env.fs().lock_dir(dir, kind).map_err(|error| {
            if error.is_locked() {
                return Error::Locked(format!(
                    "{} is in use ({}): another range has the data of this database on that medium \
                     open; stop it first",
                    dir.display(),
                    error.source
                ));
            }
            error.into()
        })
    }

    fn require_own(&self, medium: &Path, claimed: Option<&Path>, wish: Wish) -> Result<()> {
        let Some(other) = claimed.filter(|claimed| *claimed != self.owner) else { return Ok(()) };
        let (medium, other, own) = (medium.display(), other.display(), self.owner.display());
        Err(Error::invalid(match wish {
            Wish::Named => format!(
                "what the database in {own} has on {medium} belongs to {other}, of which {own} is a \
                 copy, or which was moved. If it was moved, or if nobody will use {other} any more, run \
                 terrace adopt --data {own}. To have a copy that can be opened beside it, make one with \
                 terrace checkpoint"
            ),
            Wish::Wanted => format!(
                "what this database would have on {medium} belongs to {other}, of which {own} is a \
                 copy. Name another directory for the log and for L0; if {other} is gone for good, \
                 delete {medium}/terrace-{:032x}.* instead",
                self.database
            ),
        }))
    }

    /// The range directory that a claim names; `None` if there is no claim.
    fn read(&self, dir: &Path) -> Result<Option<PathBuf>> {
        let path = dir.join(CLAIM);
        let bytes = match read_file(self.env.as_ref(), &path) {
            Ok(bytes) => bytes,
            Err(Error::Io(error)) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = |detail: &str| {
            let own = self.owner.display();
            let detail = format!(
                "{detail}, so it does not say which range directory the data of this database on the \
                 medium belong to. If that is {own}, run terrace adopt --data {own}"
            );
            Error::from(Corruption::new(&path, 0, detail))
        };
        match decode_claim(&bytes) {
            Ok(claim) if claim.database == self.database => {
                Ok(Some(PathBuf::from(OsStr::from_bytes(claim.path))))
            }
            Ok(_) => Err(damaged("the claim names another database")),
            Err(PreambleError::Codec(error)) => Err(damaged(error.what)),
            Err(PreambleError::Unsupported) => Err(Error::Unsupported(format!(
                "{} was written by a later version of Terrace; open the database with that version",
                path.display()
            ))),
        }
    }

    /// Makes the claim name this range, durably.
    fn write(&self, dir: &Path) -> Result<()> {
        let fs = self.env.fs();
        let next = dir.join(NEXT_CLAIM);
        match fs.remove(&next) {
            // A crash came between this and the renaming.
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let mut file = fs.create(&next, 0)?;
        let path = self.owner.as_os_str().as_bytes();
        file.append(&encode_claim(ClaimBytes { database: self.database, path }))?;
        file.finish()?;
        fs.rename(&next, &dir.join(CLAIM))?;
        fs.sync_dir(dir)?;
        Ok(())
    }
}
