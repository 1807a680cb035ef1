//! Repair: what is left of a damaged range, as a new range.
//!
//! # Why
//! Damage refuses an open, or the reads of some keys. The right answer is a backup; where there is
//! none, everything that can still be read should be saved, and nothing that was never written may
//! be added. What was lost must be said: a repair that keeps silent turns damage into lies.
//!
//! # How
//! The damaged directory is only read; the new one is written beside it.
//!
//! * **By the manifest**, if it is whole: the tables that it names keep their levels. Whole ones
//!   are copied byte for byte, damaged ones are written anew from the blocks that can be read, and
//!   the records of the log become rows of L0 on top.
//! * **By number**, if it is not: every table, every row of L0 in pages and every record of the log
//!   that can be found is merged into one run. For each key the greatest sequence number wins, so
//!   that no older value hides a newer one. What had been replaced but not yet deleted, or written
//!   over, cannot be told from what counts: deleted keys may show again. `container.rs` has how
//!   pages are told apart.
//!
//! ```text
//!   manifest whole                         manifest lost
//!     L0 rows ◄── log                        tables        ┐
//!     L1 … L6 ◄── table for table            rows in pages ┼─► merge by (key, number) ──► L6
//!                                            log           ┘
//! ```
//!
//! Values in value files come into the tables that pointed to them (`values.rs`).
//!
//! `CURRENT` is written last: a directory that was left half-way has none and is refused by every
//! open. The new range has an identity of its own and carries a stamp
//! ([`Repaired`]).
//!
//! # Invariants
//! 1. Nothing that fails its checksum reaches the new range.
//! 2. Each place where something was lost gives a [`Loss`] that covers every key that it concerns.
//! 3. Nothing in the damaged directory is written.
//!
//! Start with [`repair`], then `evidence.rs` for what is trusted.

mod container;
mod evidence;
mod log;
mod merge;
mod report;
mod salvage;
mod target;
mod values;

use std::path::Path;
use std::sync::Arc;

use terrace_base::{Epoch, KeyRange, LEVEL_MAX, LevelNo, LogPosition, RowId, SeqNo};
use terrace_env::SharedEnv;

use crate::check::share_lock;
use crate::options::Options;
use crate::survey::Listing;
use crate::version::{
    RangeEdit, Repaired, RowMeta, Table, TableMeta, TreeEdit, Version, VersionEdit,
};
use crate::wal::LogStart;
use crate::{Error, Result};

use evidence::{Evidence, find_log};
use salvage::Salvaged;
use target::Target;

pub use report::{Basis, Loss, LossKind, RepairReport};

/// Called with the bytes read so far and the bytes in all; `false` ends the repair.
pub type RepairProgress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// Salvages the range in `source` into a new one in `target`, which does not exist or is empty.
/// `options` say how tables are built, and, if there is no manifest to say it, where rows of L0 are
/// to be looked for outside of `source`.
///
/// Errors: `Invalid` (nothing to repair; `target` is not empty), `Locked`, `Unsupported`,
/// `Cancelled`, `NoSpace`, `Io`. After an error `target` holds no range.
pub fn repair(
    env: &SharedEnv,
    source: &Path,
    target: &Path,
    options: &Options,
    progress: RepairProgress<'_>,
) -> Result<RepairReport> {
    options.validate()?;
    let _lock = share_lock(env, source)?;
    let mut listing = Listing::read(env.as_ref(), source)?;
    if listing.is_empty() {
        let text = format!("{} holds no database; check the path", source.display());
        return Err(Error::invalid(text));
    }
    find_log(env, source, &mut listing)?;
    let target = Target::create(env, target, options)?;
    let mut repair = Repair {
        env,
        source,
        total_bytes: listing.bytes(),
        listing,
        target: &target,
        options,
        report: RepairReport::default(),
        progress,
        done_bytes: 0,
    };
    let outcome = repair.run().and_then(|snapshot| target.finish(&snapshot));
    let report = repair.report;
    match outcome {
        Ok(()) => Ok(report.tidied()),
        Err(error) => {
            target.discard();
            Err(error)
        }
    }
}

/// A repair under way.
struct Repair<'a> {
    env: &'a SharedEnv,
    source: &'a Path,
    listing: Listing,
    target: &'a Target<'a>,
    options: &'a Options,
    report: RepairReport,
    progress: RepairProgress<'a>,
    done_bytes: u64,
    total_bytes: u64,
}

impl Repair<'_> {
    /// Salvages everything; the edit that makes the new version.
    fn run(&mut self) -> Result<VersionEdit> {
        let evidence = Evidence::gather(self.env, self.source, &self.listing)?;
        self.report.notes.extend(evidence.notes.iter().cloned());
        let mut snapshot = match &evidence.version {
            Some(version) => self.by_manifest(version, &evidence)?,
            None => self.by_number(&evidence)?,
        };
        let followed = evidence.values.counts();
        (self.report.value_count, self.report.lost_value_count) = (followed.found, followed.lost);
        let (id, keys) = evidence.range.clone();
        snapshot.is_snapshot = true;
        snapshot.range.database = Some(self.target.database());
        snapshot.range.identity = Some((id, keys));
        snapshot.range.epoch = Some(Epoch(1));
        snapshot.log.start = Some(LogStart { segment: None, position: LogPosition(0) });
        snapshot.range.repaired = Some(Repaired {
            at_ms: self.env.wall_time().0,
            source_database: evidence.database.unwrap_or(0),
            is_incomplete: !self.report.is_complete(),
        });
        Ok(snapshot)
    }

    /// Notes progress. Errors: the caller wants no more.
    fn advance(&mut self, bytes: u64) -> Result<()> {
        self.done_bytes += bytes;
        let go_on = (self.progress)(self.done_bytes.min(self.total_bytes), self.total_bytes);
        if go_on { Ok(()) } else { Err(Error::Cancelled) }
    }

    /// Keeps levels and rows.
    fn by_manifest(&mut self, version: &Version, evidence: &Evidence) -> Result<VersionEdit> {
        self.report.basis = Basis::Manifest;
        let merge_operator = version.merge_operator().map(str::to_string);
        let mut edit = VersionEdit::from(RangeEdit { merge_operator, ..RangeEdit::default() });
        let mut greatest_seqno = version.greatest_seqno();
        let consumed = version.l0().consumed();
        for row in version.l0().rows().iter().rev() {
            let counts = |span: &KeyRange| consumed.is_live(row.meta.id, span);
            let tables = row.tables.iter().filter(|table| counts(table.span()));
            let tables: Vec<_> = tables.cloned().collect();
            let mut kept = Vec::new();
            for table in self.salvage_tables(&tables, evidence)? {
                // What is left of a damaged one may be all consumed.
                if counts(&table.span()) {
                    kept.push(table);
                } else {
                    self.target.remove_table(&table)?;
                }
            }
            if !kept.is_empty() {
                edit.tree.rows_added.push(RowMeta { id: row.meta.id, tables: kept });
            }
        }
        edit.tree.cuts = consumed.intervals().to_vec();
        for (level, run) in version.runs() {
            let tables = self.salvage_tables(run.tables(), evidence)?;
            edit.tree.tables_added.extend(tables.into_iter().map(|table| (level, table)));
        }
        let mut next_row = version.next_row();
        let log = self.salvage_log(Some(version), evidence)?;
        greatest_seqno = greatest_seqno.max(log.greatest_seqno);
        for tables in log.rows {
            edit.tree.rows_added.push(RowMeta { id: next_row, tables });
            next_row = RowId(next_row.0 + 1);
        }
        edit.tree.next_row = Some(next_row);
        edit.tree.greatest_seqno = Some(greatest_seqno);
        Ok(edit)
    }

    /// Salvages the tables of a row or a run, in their order.
    fn salvage_tables(
        &mut self,
        tables: &[Arc<Table>],
        evidence: &Evidence,
    ) -> Result<Vec<TableMeta>> {
        let mut salvaged = Vec::new();
        for table in tables {
            let meta = table.meta();
            let outcome = self.salvage_table(meta, evidence)?;
            self.advance(meta.bytes)?;
            match outcome {
                Salvaged::Whole(metas) => {
                    self.report.whole_table_count += 1;
                    salvaged.extend(metas);
                }
                Salvaged::Partly(metas) => {
                    self.report.rewritten_table_count += 1;
                    salvaged.extend(metas);
                }
                Salvaged::Lost => self.report.lost_table_count += 1,
            }
        }
        Ok(salvaged)
    }

    /// Merges everything that can be found.
    fn by_number(&mut self, evidence: &Evidence) -> Result<VersionEdit> {
        self.report.basis = Basis::Number;
        let log = self.salvage_log(None, evidence)?;
        let merged = self.merge_all(evidence, &log)?;
        for table in log.rows.iter().flatten() {
            self.target.remove_table(table)?;
        }
        let greatest = merged.iter().map(|table| table.greatest_seqno).max();
        let greatest_seqno =
            greatest.unwrap_or(SeqNo::ZERO).max(log.greatest_seqno).max(evidence.greatest_seqno);
        let deepest: LevelNo = LEVEL_MAX;
        let tree = TreeEdit {
            tables_added: merged.into_iter().map(|table| (deepest, table)).collect(),
            next_row: Some(RowId(1)),
            greatest_seqno: Some(greatest_seqno),
            ..TreeEdit::default()
        };
        let merge_operator = evidence.merge_operator.clone();
        let range = RangeEdit { merge_operator, ..RangeEdit::default() };
        Ok(VersionEdit { range, ..VersionEdit::from(tree) })
    }
}
