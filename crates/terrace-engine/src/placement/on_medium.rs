//! What an open does with something that may lie on a medium: the same steps, whatever it is.
//!
//! ```text
//!   named    the manifest says where it is
//!   opened   if anything live lies there; it keeps its place then
//!   chosen   else it goes where the options say. What is at the place before is cleared while the
//!            manifest names that: nobody would look there afterwards
//!   made     as soon as a manifest is durable that names the new place
//! ```
//! The directories of the log take the same steps behind a seam of their own,
//! [`LogStore`](crate::wal::LogStore): they are several, each with files that leave it one by one.

use std::path::{Path, PathBuf};

use super::Role;
use crate::Result;

/// Something of a range that may lie on a medium. There is one in a range.
pub(crate) trait OnMedium {
    /// Where it is, as the manifest keeps it.
    type Place: Clone + PartialEq;

    /// What it is.
    const ROLE: Role;

    /// Whether it is open. It is opened or made once.
    fn is_open(&self) -> bool;

    /// The path of a place, and the same as the manifest names it if that is on a medium and not in
    /// the range's own directory.
    fn path<'p>(&self, place: &'p Self::Place) -> (PathBuf, Option<&'p Path>);

    /// Opens what is at a place; `false` if nothing is there.
    fn open(&self, place: &Self::Place, database: u128) -> Result<bool>;

    /// Opens what is at a place and holds nothing that is needed, if it can go on being used as it
    /// is; else it is made anew.
    fn open_empty(&self, place: &Self::Place, database: u128) -> Result<()>;

    /// Removes what is at a place, in which nothing is needed. What is gone is no error.
    fn clear(&self, place: &Self::Place) -> Result<()>;

    /// Makes it at a place, durably, and opens it.
    fn create(&self, place: &Self::Place, database: u128) -> Result<()>;

    /// Opens what the manifest of the range in `dir` names, since something live is in it.
    ///
    /// Errors: [`Error::Corruption`](crate::Error::Corruption) if it is not there, or cannot be of
    /// this database.
    fn open_named(&self, named: Option<&Self::Place>, dir: &Path, database: u128) -> Result<()> {
        let place = named.ok_or_else(|| Self::ROLE.unnamed(dir))?;
        let (path, on_medium) = self.path(place);
        if let Some(named) = on_medium {
            Self::ROLE.require_of(named, database)?;
        }
        if self.open(place, database)? { Ok(()) } else { Err(Self::ROLE.missing(&path)) }
    }

    /// Decides that it is where it is `wanted` from now on, unless something live is in it: `named`
    /// is where the manifest says that it is, and becomes where the next one says so.
    fn choose(
        &self,
        named: &mut Option<Self::Place>,
        wanted: Option<Self::Place>,
        database: u128,
    ) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        let Some(before) = std::mem::replace(named, wanted) else { return Ok(()) };
        if named.as_ref() == Some(&before) {
            return self.open_empty(&before, database);
        }
        // What a forged manifest names is not cleared.
        let may_go = self.path(&before).1.is_none_or(|path| Self::ROLE.is_of(path, database));
        if may_go { self.clear(&before) } else { Ok(()) }
    }

    /// Makes it where the manifest says, which is durable, unless it is open.
    fn make(&self, named: Option<&Self::Place>, database: u128) -> Result<()> {
        match named {
            Some(place) if !self.is_open() => self.create(place, database),
            _ => Ok(()),
        }
    }
}
