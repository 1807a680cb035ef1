//! Media: directories that are not the range's own, which options and manifests name, and which may
//! be gone.

use std::io::ErrorKind;
use std::path::Path;

use terrace_base::Corruption;
use terrace_env::{DirEntry, Env};

use crate::{Error, Result};

/// What a database has on a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Segments of the log: a directory.
    Segments,
    /// Tables of L0's rows: a directory.
    Rows,
    /// The container of L0: a file.
    Container,
    /// Memtables: a file that loses its name as soon as it is mapped.
    Memtables,
}

impl Role {
    /// What it is called there. The name bears the database's id, so that many databases can share
    /// a medium.
    pub fn name(self, database: u128) -> String {
        let what = match self {
            Role::Segments => "segments",
            Role::Rows => "tables",
            Role::Container => "rows",
            Role::Memtables => "memtables",
        };
        format!("terrace-{database:032x}.{what}")
    }

    /// Whether this database can have it at `path`: a manifest that names another one is not
    /// believed, so that a forged one cannot have other files deleted.
    pub fn is_of(self, path: &Path, database: u128) -> bool {
        path.file_name().is_some_and(|name| *name == *self.name(database))
    }

    /// What it is to whoever misses it.
    fn noun(self) -> &'static str {
        match self {
            Role::Segments => "a directory of the log",
            Role::Rows => "the directory with the tables of L0",
            Role::Container => "the container of L0",
            Role::Memtables => "the memory of memtables",
        }
    }

    /// What is said if the manifest names it, something is in it, and it is not there.
    pub fn missing_text(self) -> String {
        format!(
            "{} is missing: what was written last is lost with it. If its medium can be mounted again, do \
             that, and say where if that is another place than before. If it was in a file system in memory, a power cut emptied that; repair the range, or \
             restore it",
            self.noun()
        )
    }

    /// As [`Role::missing_text`], of the one at `path`.
    pub fn missing(self, path: &Path) -> Error {
        Corruption::new(path, 0, self.missing_text()).into()
    }

    /// The error for a manifest that says something lies there and not where that is.
    pub fn unnamed(self, dir: &Path) -> Error {
        let detail =
            format!("something lies in {}, but the manifest does not say where it is", self.noun());
        Corruption::new(dir, 0, detail).into()
    }

    /// Errors: `Corruption` unless this database can have it at `path`.
    pub fn require_of(self, path: &Path, database: u128) -> Result<()> {
        if self.is_of(path, database) {
            return Ok(());
        }
        let noun = self.noun();
        let detail = format!("the manifest names this as {noun}, but it is another database's");
        Err(Corruption::new(path, 0, detail).into())
    }
}

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
