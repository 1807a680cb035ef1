//! Directories that are not the database's own: what options and manifests name, and may be gone.

use std::io::ErrorKind;
use std::path::Path;

use terrace_env::{DirEntry, Env};

use crate::{Error, Result};

/// What is in a directory; `None` if there is none. Errors: the environment's.
pub(crate) fn entries_of(env: &dyn Env, dir: &Path) -> Result<Option<Vec<DirEntry>>> {
    match env.fs().list(dir) {
        Ok(entries) => Ok(Some(entries)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) if error.source.kind() == ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Errors: `Invalid` unless the medium that this option names is a directory; the environment's.
pub(crate) fn require_medium(env: &dyn Env, option: &str, medium: &Path) -> Result<()> {
    if entries_of(env, medium)?.is_some() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{option} {} is no directory; make it, or mount what it is for",
        medium.display()
    )))
}
