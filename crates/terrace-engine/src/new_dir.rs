//! A directory that becomes a range: taken while it is empty, given up by deleting what was
//! written.

use std::path::Path;

use terrace_env::{DirLock, Env, LockKind};

use crate::{Error, Result};

/// Makes the directory if need be, and locks it. Errors: `Invalid` if it holds anything, `Locked`.
pub(crate) fn claim(env: &dyn Env, dir: &Path) -> Result<DirLock> {
    env.fs().create_dir_all(dir)?;
    // Before, so that no lock file is left in somebody else's directory; and under the lock, since
    // another one may have had it until now.
    require_empty(env, dir)?;
    let lock = env.fs().lock_dir(dir, LockKind::Exclusive).map_err(|error| {
        if error.is_locked() {
            Error::Locked(format!("{} is in use ({})", dir.display(), error.source))
        } else {
            error.into()
        }
    })?;
    require_empty(env, dir)?;
    Ok(lock)
}

fn require_empty(env: &dyn Env, dir: &Path) -> Result<()> {
    let listed = env.fs().list(dir)?;
    match listed.iter().find(|entry| entry.name != "LOCK") {
        None => Ok(()),
        Some(entry) => Err(Error::invalid(format!(
            "{} is not empty ({} is there); name a directory that does not exist",
            dir.display(),
            entry.name
        ))),
    }
}

/// Deletes what was written into a claimed directory, `CURRENT` first and durably. What cannot be
/// deleted is left: without `CURRENT` it is no range.
pub(crate) fn discard(env: &dyn Env, dir: &Path) {
    let Ok(listed) = env.fs().list(dir) else { return };
    if listed.iter().any(|entry| entry.name == "CURRENT") {
        let removed = env.fs().remove(&dir.join("CURRENT"));
        // Order: a power cut that takes the other names and leaves this one would leave a damaged
        // range.
        if let Err(error) = removed.and_then(|()| env.fs().sync_dir(dir)) {
            crate::program_log::warn!(%error, "a directory that was given up is left");
            return;
        }
    }
    let others = listed.iter().filter(|entry| entry.name != "CURRENT" && entry.name != "LOCK");
    for entry in others.filter(|entry| !entry.is_dir) {
        if let Err(error) = env.fs().remove(&dir.join(&entry.name)) {
            crate::program_log::warn!(%error, "a file of a directory that was given up is left");
        }
    }
}
