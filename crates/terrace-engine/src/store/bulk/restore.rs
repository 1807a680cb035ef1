//! Restoring: a range is made out of a copy of one that nobody has open.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{LevelNo, SeqNo};
use terrace_env::{LockKind, SharedEnv};

use crate::check::{l0_of, tables_of_dir};
use crate::ids::FileIds;
use crate::new_dir;
use crate::store::bulk::checkpoint::{CheckpointProgress, of_target};
use crate::store::bulk::copies::{Copies, CopyOptions};
use crate::store::bulk::stored::Stored;
use crate::table::TableStore;
use crate::version::{FeedStore, LocalManifests, TableContext, Version};
use crate::{Error, Result};

/// Makes the range in `to`, which does not exist or is empty, out of the copy in `from`: a
/// checkpoint or a backup. Every table and value file is copied
/// and compared with its hash. On return it is
/// durable. It is a range of its own, and `from` stays as it is.
///
/// Returns the number of bytes of its files. `progress`: as for a checkpoint.
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
    let (version, context) = copy_in(env, from)?;
    let _lock = of_target(to, new_dir::claim(env.as_ref(), to))?;
    let outcome = of_target(to, write(env, to, &version, &context, options, progress));
    if outcome.is_err() {
        new_dir::discard(env.as_ref(), to);
    }
    outcome
}

/// The number of the last write that a copy holds.
///
/// Errors: `Invalid` if it is none, `Corruption`, `Unsupported`, `Io`.
pub fn seqno_of_copy(env: &SharedEnv, dir: &Path) -> Result<SeqNo> {
    let (version, _) = copy_in(env, dir)?;
    Ok(version.greatest_seqno())
}

/// What the copy in `dir` consists of, and what its tables are opened with: it has no log, and
/// nothing elsewhere.
fn copy_in(env: &SharedEnv, dir: &Path) -> Result<(Version, Arc<TableContext>)> {
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
    let version = loaded.fold(dir, l0.as_ref(), &context)?;
    if env.fs().list(dir)?.iter().any(|entry| entry.name.ends_with(".log")) {
        return Err(no_copy("has a log"));
    }
    if version.has_rows_in_pages() || version.has_tables_in_row_directory() {
        return Err(no_copy("has data on another medium"));
    }
    Ok((version, context))
}

fn write(
    env: &SharedEnv,
    to: &Path,
    version: &Version,
    context: &TableContext,
    options: &CopyOptions,
    progress: CheckpointProgress<'_>,
) -> Result<u64> {
    let copies = Copies::new(env, to, options);
    let tables = version.tables().map(|table| Stored::Table(table.meta()));
    let all: Vec<Stored<'_>> = tables.chain(Stored::values_of(version)).collect();
    let total: u64 = all.iter().map(|stored| stored.bytes()).sum();
    let mut done = 0;
    for stored in all {
        let file = stored.open(&context.opener)?;
        copies.copy(&*file, stored, &mut |bytes| progress(done + bytes, total))?;
        done += stored.bytes();
    }
    copies.target.sync(LevelNo(0))?;
    if !progress(total, total) {
        return Err(Error::Cancelled);
    }
    copies.become_range(version.to_snapshot(), &FileIds::of_copy(version.epoch()))?;
    Ok(total)
}
