//! Going on with a database that was written from another directory: that directory is lost, or
//! this one has fallen behind it.
//!
//! # What is taken
//! What the feed in the store comes to, which is one moment of the database with all of its files
//! in the store; and the records behind it, if the store has the log too, or it lies on a volume
//! that is there (`logs.rs`). A log on the disk of the lost machine is nobody's any more: numbers
//! and log positions go on behind it, so that what this directory writes is never taken for
//! something older.
//!
//! # A directory that has fallen behind
//! It may hold entries that the store never got. All of its files get a second name in a directory
//! below it, before anything goes on: nothing is lost, and nothing of it is in the database. Its
//! tables that the feed names are used where they lie.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::LogPosition;
use terrace_env::{Env, SharedEnv};

use super::LeftOut;
use super::database::{place_of, whole_edits};
use super::mirror::is_mirrored_as;
use crate::cloud::format::Extent;
use crate::cloud::{CloudFeed, CloudNames, CloudStore, FedState, find_databases};
use crate::ids::file_id_in;
use crate::options::CloudOptions;
use crate::table::{LocalTableStore, TableStore};
use crate::version::{CloudEdit, FeedAuthors, FeedPosition, LoadedFeed, LogBehind, VersionEdit};
use crate::wal::LogStart;
use crate::{Error, Result};

/// What an open has taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakeOver {
    /// Where the files of the directory lie that were not part of what was taken; none if it was
    /// empty.
    pub set_aside: Option<PathBuf>,
    /// What of those files is nowhere else, as far as that is known.
    pub left_out: Option<LeftOut>,
}

/// The database that an empty directory is to go on with, and what the feed comes to; `None` if
/// the store has none, so that a new one begins.
///
/// Errors: `Invalid` (several, and none is named; none of that name); those of reading a feed.
pub fn choose(
    store: &Arc<CloudStore>,
    options: &CloudOptions,
) -> Result<Option<(CloudNames, FedState)>> {
    let asked = options.database;
    let ids = asked.map_or_else(|| find_databases(store), |id| Ok(vec![id]))?;
    let mut found = Vec::new();
    for names in ids.into_iter().map(CloudNames::new) {
        // One without a snapshot was never finished.
        if let Some(state) = CloudFeed::read(store, names)? {
            found.push((names, state));
        }
    }
    match (found.len(), asked) {
        (0, Some(id)) => Err(Error::invalid(format!(
            "{} holds no database {id:032x}; list those that are there",
            store.url()
        ))),
        (0 | 1, _) => Ok(found.pop()),
        (_, _) => {
            let ids = found.iter().map(|(names, _)| format!("{:032x}", names.database()));
            Err(Error::invalid(format!(
                "{} holds several databases: say which one to go on with, or choose another URL \
                 for a new one: {}",
                store.url(),
                ids.collect::<Vec<_>>().join(", ")
            )))
        }
    }
}

/// Refuses a database that somebody may still have open, unless the options say that nobody has.
pub fn require_closed(store: &CloudStore, state: &FedState, options: &CloudOptions) -> Result<()> {
    if options.take_over || state.mark.extent() == Extent::Closed {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the database in {} was not closed: its owner may be running, or was lost. Close it there. \
         If it is lost, take the database over (the option `cloud.take_over`, `--take-over`): it \
         goes on from the newest moment in the store, and whoever still has it open can write no \
         more",
        store.url()
    )))
}

/// What the feed comes to, as a directory has it that goes on from there.
///
/// Errors: `Unsupported` if the store does not have all files; `Corruption`.
pub fn loaded(store: &CloudStore, names: CloudNames, state: &FedState) -> Result<LoadedFeed> {
    let mut edits = whole_edits(state, &place_of(store, names))?;
    let position = edits.iter().map(log_end).max().unwrap_or_default();
    // The log that outlives the machine goes on exactly at the moment.
    let position = LogBehind::newest_in(&edits).map_or(position, |log| log.position());
    for edit in &mut edits {
        edit.log = Default::default();
        edit.media = None;
    }
    let author = state.mark.nonce();
    if let Some(last) = edits.last_mut() {
        last.log.start = Some(LogStart { segment: None, position });
        let authors = FeedAuthors { own: author, before: author };
        last.range.cloud = Some(CloudEdit { authors, url: store.url().to_string() });
    }
    Ok(LoadedFeed { edits, end: FeedPosition::default(), is_torn: false })
}

/// The log position behind all that an edit speaks of.
fn log_end(edit: &VersionEdit) -> LogPosition {
    let log = &edit.log;
    let flushed = log.memtables_flushed.iter().map(|(_, end)| *end);
    let start = log.start.map(|start| start.position);
    flushed.chain(start).chain(log.closed).max().unwrap_or_default()
}

/// Gives all files of a directory a second name in one below it, and removes its log, which is not
/// the database's any more; where they are.
///
/// Crash safety: until the manifest of the new owner counts, a directory that was set aside is
/// still behind, and is set aside once more, with what is left of it.
///
/// Errors: `Unsupported` if some of its files lie elsewhere; the environment's.
pub fn set_aside(env: &dyn Env, dir: &Path, local: &LoadedFeed) -> Result<PathBuf> {
    let media = local.edits.iter().filter_map(|edit| edit.media.as_ref());
    if media.clone().any(|media| *media != Default::default()) {
        return Err(Error::Unsupported(format!(
            "some files of the database in {} lie on a medium of their own: choose an empty \
             directory to go on with what lies in the store; this one is left as it is",
            dir.display()
        )));
    }
    let epoch = local.edits.iter().filter_map(|edit| edit.range.epoch).max().unwrap_or_default();
    let target = dir.join(format!("set-aside-{:06}", epoch.0));
    let fs = env.fs();
    fs.create_dir_all(&target)?;
    let entries = fs.list(dir)?;
    let there: Vec<String> = fs.list(&target)?.into_iter().map(|entry| entry.name).collect();
    let files = || entries.iter().filter(|entry| !entry.is_dir && is_of_range(&entry.name));
    for entry in files().filter(|entry| !there.contains(&entry.name)) {
        fs.link(&dir.join(&entry.name), &target.join(&entry.name))?;
    }
    fs.sync_dir(&target)?;
    fs.sync_dir(dir)?;
    for entry in files().filter(|entry| entry.name.ends_with(".log")) {
        fs.remove(&dir.join(&entry.name))?;
    }
    fs.sync_dir(dir)?;
    Ok(target)
}

/// Whether a file of this name is part of a range.
fn is_of_range(name: &str) -> bool {
    name == "CURRENT" || file_id_in(name).is_some()
}

/// Tables that this directory has, too, are read here.
pub fn use_local_tables(env: &SharedEnv, dir: &Path, edits: &mut [VersionEdit]) -> Result<()> {
    let store = LocalTableStore::new(Arc::clone(env), dir.to_path_buf());
    let here: BTreeMap<_, _> = store.list()?.into_iter().collect();
    for meta in edits.iter_mut().flat_map(|edit| edit.tree.tables_mut()) {
        let location = LocalTableStore::location_of(meta.id);
        let may_be = here.get(&meta.id) == Some(&location) && is_mirrored_as(meta);
        if may_be && store.open(&location)?.bytes() == meta.bytes {
            meta.location = location;
        }
    }
    Ok(())
}

/// The reason why the directory is not opened: it has fallen behind what the store has. `left_out`
/// tells what is here alone.
pub fn is_behind(dir: &Path, url: &str, left_out: &str) -> Error {
    Error::Fenced(format!(
        "the database in {} is an older copy: what lies in {url} was written from elsewhere \
         since.{left_out} Open the directory that wrote it last; this one is left as it is. If that one is lost, go \
         on here from what the store has (the option `cloud.take_over`, `--take-over`): what only \
         this directory has is set aside then",
        dir.display()
    ))
}

/// The reason why a directory cannot go on from a store that has a part of the database only.
pub fn of_incomplete(error: Error) -> Error {
    match error {
        Error::Unsupported(what) => Error::Unsupported(format!(
            "{what}. Until then only the directory of its owner can be opened; a new database needs \
             another URL"
        )),
        error => error,
    }
}
