//! Checking a range's directory: every byte that counts is read and judged.
//!
//! # Why
//! An open stops at the first damage, reads find damage when somebody asks for just that key, and
//! what nobody reads rots in silence. A check reads everything, goes on behind what is damaged, and
//! also works where a damaged manifest or log refuses the open.
//!
//! ```text
//!   CURRENT ──► manifest ──► version ──► tables     each table is the one that was written:
//!      │            ▲  │                            blocks, filter, index, properties, hash
//!      │     closes │  │ closed, start, flushed
//!      │            │  ▼
//!   names ───────► log: chain of segments           each record, and what the durable marks say
//!                                     value files     each value, and what tables point to
//! ```
//!
//! # Judgement
//! * **Damage**: bytes are not what was written, or something is missing.
//! * **Undecidable**: what a crash leaves above the last known durable position looks like damage.
//!   It was never promised to last; a check says where it is.
//! * **Harmless**: files that belong to nothing, left by interrupted jobs; the next open deletes
//!   them.
//!
//! Names that are not ours are ignored. Nothing is written, not even a lock file.
//!
//! Start with [`check_dir`]; [`check_table`] is what a check of an open range shares with it.

mod log;
mod manifest;
mod report;
mod tables;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::{DirLock, LockKind, SharedEnv};

use crate::survey::Listing;
use crate::version::{TableContext, Version};
use crate::{Error, Result};

pub use report::{CheckReport, Finding, Severity};
pub use tables::check_table;
pub(crate) use tables::{context as tables_of_dir, l0 as l0_of, mount_far};
pub(crate) use values::{check_pointers, check_value_files};

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CheckDepth {
    /// Manifest and log; of each table its size, footer, index, filter and properties.
    Quick,
    /// Everything.
    #[default]
    Full,
}

/// Called with the bytes checked so far and the bytes in all.
pub type CheckProgress<'a> = &'a mut dyn FnMut(u64, u64);

/// Checks the range in `dir`, which nobody has open for writing.
///
/// Errors: those that are no damage: `Invalid` (there is no range), `Locked`, `Unsupported`
/// (written by a later version), `Io`.
pub fn check_dir(
    env: &SharedEnv,
    dir: &Path,
    depth: CheckDepth,
    progress: CheckProgress<'_>,
) -> Result<CheckReport> {
    let _lock = share_lock(env, dir)?;
    check_locked_dir(env, dir, depth, progress)
}

/// As [`check_dir`], for whoever holds the lock of the directory.
pub(crate) fn check_locked_dir(
    env: &SharedEnv,
    dir: &Path,
    depth: CheckDepth,
    progress: CheckProgress<'_>,
) -> Result<CheckReport> {
    let listing = Listing::read(env.as_ref(), dir)?;
    if listing.is_empty() {
        return Err(Error::invalid(format!("{} holds no database; check the path", dir.display())));
    }
    let total_bytes = listing.bytes();
    let report = CheckReport { foreign_count: listing.foreign_count, ..CheckReport::default() };
    let context = tables::context(env, dir);
    let mut check =
        Check { env, dir, depth, listing, context, report, progress, done_bytes: 0, total_bytes };
    check.run()?;
    check.report.findings.sort_by_key(|finding| finding.severity);
    Ok(check.report)
}

/// Shares the lock of a directory with other readers. Where there is no lock file nobody can have
/// the range open, and none is made.
pub(crate) fn share_lock(env: &SharedEnv, dir: &Path) -> Result<Option<DirLock>> {
    let listed = env.fs().list(dir).map_err(|error| {
        if error.is_not_found() {
            return Error::invalid(format!("{} does not exist; check the path", dir.display()));
        }
        error.into()
    })?;
    if !listed.iter().any(|entry| entry.name == "LOCK") {
        return Ok(None);
    }
    env.fs().lock_dir(dir, LockKind::Shared).map(Some).map_err(|error| {
        if error.is_locked() {
            return Error::Locked(format!(
                "{} is in use ({}); stop whoever has it open first",
                dir.display(),
                error.source
            ));
        }
        error.into()
    })
}

/// A check under way.
struct Check<'a> {
    env: &'a SharedEnv,
    dir: &'a Path,
    depth: CheckDepth,
    listing: Listing,
    context: Arc<TableContext>,
    report: CheckReport,
    progress: CheckProgress<'a>,
    done_bytes: u64,
    total_bytes: u64,
}

impl Check<'_> {
    fn run(&mut self) -> Result<()> {
        let manifest = self.manifest()?;
        let version = manifest.version.clone();
        let log = self.log(version.as_ref())?;
        self.compare_closing(&manifest, &log);
        match &version {
            Some(version) => {
                self.tables_of(version)?;
                self.values_of(version)?;
            }
            None => {
                self.tables_alone()?;
                self.values_alone()?;
            }
        }
        self.report.was_closed = log.was_closed;
        Ok(())
    }

    /// A file of the directory.
    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    fn damage(&mut self, path: &Path, offset: u64, text: impl Into<String>) {
        self.find(Severity::Damage, path, offset, text);
    }

    fn find(&mut self, severity: Severity, path: &Path, offset: u64, text: impl Into<String>) {
        self.report.findings.push(Finding::at(severity, path, offset, text));
    }

    fn advance(&mut self, bytes: u64) {
        self.done_bytes += bytes;
        (self.progress)(self.done_bytes.min(self.total_bytes), self.total_bytes);
    }

    /// Opens the rows in pages. What does not open is found when it is checked.
    fn open_rows(&mut self, version: &Version) -> Result<()> {
        if !version.has_rows_in_pages() {
            return Ok(());
        }
        let container = &self.context.opener.container;
        let opened = match &version.media().container {
            None => Ok(false),
            Some(place) => container.open(place, version.database()),
        };
        if tables::unless_damaged(opened, None, &mut self.report)? != Some(true) {
            return Ok(());
        }
        for live in version.l0().live() {
            let keys = live.table.meta().span();
            tables::unless_damaged(container.open_row(live), Some(keys), &mut self.report)?;
        }
        Ok(())
    }

    /// Every table of a version, and the tables of none.
    fn tables_of(&mut self, version: &Version) -> Result<()> {
        let mut live: Vec<_> = Vec::new();
        self.open_rows(version)?;
        mount_far(self.env, &self.context, version)?;
        for table in version.tables() {
            let meta = table.meta();
            live.push(meta.id);
            if !version.needs(table) {
                continue;
            }
            check_table(&self.context, meta, self.depth, &mut self.report)?;
            self.advance(meta.bytes);
        }
        live.sort_unstable();
        let duplicates = live.windows(2).filter(|pair| pair[0] == pair[1]).count();
        if duplicates > 0 {
            let path = self.path("CURRENT");
            self.damage(&path, 0, format!("{duplicates} tables stand twice in the version"));
        }
        for (id, bytes) in self.listing.tables.clone() {
            if live.binary_search(&id).is_err() {
                let path = self.path(format!("{id}.table"));
                let text = "belongs to nothing: left by an interrupted job";
                self.find(Severity::Harmless, &path, 0, text);
                self.advance(bytes);
            }
        }
        Ok(())
    }
}
