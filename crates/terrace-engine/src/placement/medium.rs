//! Directories that are not the database's own: what options and manifests name, and may be gone.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use terrace_env::{DirEntry, Env};

use crate::l0::triangle::is_container_of;
use crate::table::is_row_directory_of;
use crate::wal::is_log_directory_of;

use crate::version::Media;
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

/// The media that a manifest of this database names, in their order, each once. What no database of this
/// id can have is not among them: a manifest that names it is refused where it is opened.
pub(crate) fn media_of(database: u128, media: &Media) -> BTreeSet<PathBuf> {
    let mut named = Vec::new();
    if let Some(container) = media.container.as_ref().filter(|it| is_container_of(Path::new(&it.path), database)) {
        named.extend(container.medium());
    }
    let row_directory = media.row_directory.as_deref().map(Path::new);
    let row_directory = row_directory.filter(|path| is_row_directory_of(path, database));
    named.extend(row_directory.and_then(Path::parent));
    let log_directories = media.log_directories.iter().map(Path::new);
    let log_directories = log_directories.filter(|path| is_log_directory_of(path, database));
    named.extend(log_directories.filter_map(Path::parent));
    named.into_iter().map(Path::to_path_buf).collect()
}
