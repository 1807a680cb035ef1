//! Restoring: a range is made out of a copy of one that nobody has open.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{Corruption, Epoch, LevelNo, LogPosition, SeqNo};
use terrace_env::{LockKind, SharedEnv};

use crate::check::{l0_of, tables_of_dir};
use crate::ids::FileIds;
use crate::new_dir;
use crate::store::bulk::checkpoint::{CheckpointProgress, of_target};
use crate::store::bulk::copies::{Copies, CopyOptions};
use crate::table::TableStore;
use crate::version::{FeedStore, LocalManifests, LogEdit, Version, fold, manifest_path};
use crate::wal::LogStart;
use crate::{Error, Result};

/// Makes the range in `to`, which does not exist or is empty, out of the copy in `from`: a
/// checkpoint or a backup. Every table is copied and compared with its hash. On return it is
/// durable. It is a range of its own, and `from` stays as it is.
///
/// Returns the number of bytes of its tables. `progress`: as for a checkpoint.
///
/// Errors: `Invalid` (`from` is no such copy; `to` is not empty), `Locked`, `Corruption`,
/// `Cancelled`, `NoSpace`, `Io`. After an error `to` holds no range.
pub fn restore(
    env: &SharedEnv,
    from: &Path,
    to: &Path,
    options: &CopyOptions,
    progress: CheckpointProgress<'_>,
) -> Result<u64> {
    let _source = env.fs().lock_dir(from, LockKind::Shared)?;
    let version = version_of(env, from)?;
    let _lock = of_target(to, new_dir::claim(env.as_ref(), to))?;
    let outcome = of_target(to, write(env, from, to, &version, options, progress));
    if outcome.is_err() {
        new_dir::discard(env.as_ref(), to);
    }
    outcome
}

/// The number of the last write that a copy holds.
///
/// Errors: `Invalid` if it is none, `Corruption`, `Unsupported`, `Io`.
pub fn seqno_of_copy(env: &SharedEnv, dir: &Path) -> Result<SeqNo> {
    Ok(version_of(env, dir)?.greatest_seqno())
}

/// What a copy consists of: it has no log, and nothing elsewhere.
fn version_of(env: &SharedEnv, dir: &Path) -> Result<Version> {
    let feeds = LocalManifests { env: Arc::clone(env), dir: dir.to_path_buf() };
    let no_copy = |what: &str| {
        Error::invalid(format!(
            "{} {what}; name the directory of a backup or a checkpoint that was not opened for \
             writing since",
            dir.display()
        ))
    };
    let loaded = feeds.load()?.ok_or_else(|| no_copy("holds no database"))?;
    let context = tables_of_dir(env, dir);
    let l0 = l0_of(env, &context);
    let version = fold(&loaded.edits, l0.as_ref(), &context).map_err(|(index, misfit)| {
        let path = manifest_path(dir, loaded.end.id);
        Error::from(Corruption::new(path, 0, format!("edit {index} does not fit: {misfit}")))
    })?;
    if env.fs().list(dir)?.iter().any(|entry| entry.name.ends_with(".log")) {
        return Err(no_copy("has a log"));
    }
    if version.has_rows_in_pages() || version.has_tables_in_row_directory() {
        return Err(no_copy("has data on another medium"));
    }
    Ok(version)
}

fn write(
    env: &SharedEnv,
    from: &Path,
    to: &Path,
    version: &Version,
    options: &CopyOptions,
    progress: CheckpointProgress<'_>,
) -> Result<u64> {
    let context = tables_of_dir(env, from);
    let mut copies = Copies::new(env, to, options);
    let total: u64 = version.tables().map(|table| table.meta().bytes).sum();
    let mut done = 0;
    for table in version.tables() {
        let meta = table.meta();
        let file = context.opener.open_file(meta)?;
        copies.copy(&*file, meta, &mut |bytes| progress(done + bytes, total))?;
        done += meta.bytes;
    }
    copies.target.sync(LevelNo(0))?;
    if !progress(total, total) {
        return Err(Error::Cancelled);
    }
    let mut snapshot = version.to_snapshot();
    let epoch = Epoch(version.epoch().0 + 1);
    snapshot.range.epoch = Some(epoch);
    snapshot.range.database = Some(env.random_u128());
    let start = Some(LogStart { segment: None, position: LogPosition(0) });
    snapshot.log = LogEdit { start, ..LogEdit::default() };
    let feeds = LocalManifests { env: Arc::clone(env), dir: to.to_path_buf() };
    drop(feeds.begin(FileIds::new(epoch, 0).next(), &snapshot)?);
    Ok(total)
}
