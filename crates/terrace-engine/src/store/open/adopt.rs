//! Taking over what a database has on media, on purpose: after its directory was moved.

use std::path::{Path, PathBuf};

use terrace_env::{LockKind, SharedEnv};

use crate::placement::Claims;
use crate::version::{FeedStore, LocalManifests, VersionEdit};
use crate::{Error, Result};

/// A medium whose data belong to this range from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adopted {
    /// The medium: the directory that the manifest names.
    pub medium: PathBuf,
    /// The range directory that they belonged to, if anything says so.
    pub owner_before: Option<PathBuf>,
}

/// Makes the range in `dir` the owner of what its manifest names on media: after the directory was
/// moved, or in place of a range that nobody will open again. That other one is refused from then
/// on. Changes nothing but the claims.
///
/// Errors: `Invalid` (no database there), `Locked` (the range is open, or the one that has the
/// data), `Corruption` (the manifest is damaged), `NoSpace`, `Io`.
pub fn adopt(env: &SharedEnv, dir: &Path) -> Result<Vec<Adopted>> {
    let missing = || {
        let dir = dir.display();
        Error::invalid(format!("{dir} holds no database; check the path"))
    };
    let _lock = env.fs().lock_dir(dir, LockKind::Exclusive).map_err(|error| {
        if error.is_not_found() {
            return missing();
        }
        if error.is_locked() {
            let text = format!("{} is in use ({}); stop it first", dir.display(), error.source);
            return Error::Locked(text);
        }
        error.into()
    })?;
    let manifests = LocalManifests { env: SharedEnv::clone(env), dir: dir.to_path_buf() };
    let loaded = manifests.load()?.ok_or_else(missing)?;
    let database = last(&loaded.edits, |edit| edit.range.database).ok_or_else(missing)?;
    let media = last(&loaded.edits, |edit| edit.media.clone()).unwrap_or_default();
    let mut claims = Claims::new(env, dir, database, false)?;
    let mut adopted = Vec::new();
    for medium in media.named(database) {
        if let Some(owner_before) = claims.take_over(&medium)? {
            adopted.push(Adopted { medium, owner_before });
        }
    }
    Ok(adopted)
}

/// What the last edit says that says anything: a field of a version is what was said of it last.
fn last<T>(edits: &[VersionEdit], field: impl Fn(&VersionEdit) -> Option<T>) -> Option<T> {
    edits.iter().rev().find_map(field)
}
