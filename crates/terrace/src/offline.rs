use std::path::Path;

pub use terrace_engine::check::CheckDepth;
use terrace_engine::check::check_dir;
pub use terrace_engine::store::Adopted;
use terrace_env::{RealEnv, SharedEnv};

use crate::keyspace::OperatorTable;
use crate::{CheckReport, Options, RepairReport, Result};

/// Reads everything in a directory that nobody has open for writing, and says what is damaged. Goes
/// on behind damage, also where it refuses an open. Writes nothing.
///
/// `progress` is called with the bytes checked and the bytes in all. Memory: one log segment or one
/// manifest, and some blocks. Errors: those that are no damage: `Invalid` (no database there),
/// `Locked`, `Unsupported` (written by a later version), `Io`.
pub fn check(
    dir: impl AsRef<Path>,
    depth: CheckDepth,
    mut progress: impl FnMut(u64, u64),
) -> Result<CheckReport> {
    let env: SharedEnv = RealEnv::new();
    Ok(CheckReport::new(check_dir(&env, dir.as_ref(), depth, &mut progress)?))
}

/// Salvages what is left of the database in `dir` into a new one in `target`, which does not exist
/// or is empty. Never writes in `dir`; holds no value that was never written; the report covers
/// every key that is missing, old, or may show again though it was deleted.
///
/// `progress` is called with the bytes read and the bytes in all, and ends the repair by `false`.
/// `options` say how tables are built, and, if there is no manifest to say it, where rows of L0 are
/// to be looked for outside of `dir`. Errors: `Invalid` (no database there; `target` is not empty),
/// `Locked`, `Unsupported`, `Cancelled`, `NoSpace`, `Io`. After an error `target` holds no
/// database.
pub fn repair(
    dir: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &Options,
    mut progress: impl FnMut(u64, u64) -> bool,
) -> Result<RepairReport> {
    let env: SharedEnv = RealEnv::new();
    let (dir, target) = (dir.as_ref(), target.as_ref());
    let options = options.engine(&OperatorTable::default());
    let report = terrace_engine::repair::repair(&env, dir, target, &options, &mut progress)?;
    Ok(RepairReport::new(report))
}

/// Makes the database in `dir` the owner of what it has on other media: its log
/// ([`Layout::log_path`], [`Layout::log_volume`]) and L0 ([`Layout::l0`]). Needed after the
/// directory was moved or copied: such data belong to the directory that they were written for, and
/// an open from another one is refused. The directory that owned them before is refused from then
/// on. Changes nothing else.
///
/// Returns what was taken over; nothing, if everything is in `dir`. Errors: `Invalid` (no database
/// there), `Locked` (this database, or the one that owns the data, is open), `Corruption` (the
/// manifest is damaged), `NoSpace`, `Io`.
///
/// [`Layout::log_path`]: crate::Layout::log_path
/// [`Layout::log_volume`]: crate::Layout::log_volume
/// [`Layout::l0`]: crate::Layout::l0
pub fn adopt(dir: impl AsRef<Path>) -> Result<Vec<Adopted>> {
    let env: SharedEnv = RealEnv::new();
    Ok(terrace_engine::store::adopt(&env, dir.as_ref())?)
}
