//! Checkpoints: an openable copy of the range at one moment, made by hard links.
//!
//! # How
//! ```text
//!   hold every drange ─► freeze all ─► give the holds back ─► flush those ─► pin the version
//!                                                                                 │
//!   target: LOCK ─► links to its files (copies, where links do not reach) ◄───────┘
//!               ─► sync ─► manifest ─► CURRENT, renamed into place
//! ```
//! A flush takes less than it seems: what was written is in memory, and has to go into tables some
//! time. A copy of the log's tail would have to be read, cut at the moment and given checksums of
//! its own, and would make the checkpoint's first open slow; a flush leaves no log at all.
//!
//! # Invariants
//! 1. *One moment.* The memtables are frozen while no write is under way, so they end at one
//!    number, and no batch stands in them by half. The caller has the turn of flushes from before
//!    the freeze until the version is pinned: nothing younger gets into that version. Compactions
//!    may; they change where entries lie, never what is there.
//! 2. *Apart.* The pinned version keeps its files until they are linked. From then on the
//!    two directories have names of their own for bytes that nobody changes; each deletes its own.
//! 3. *Whole or nothing.* `CURRENT` comes last, after everything it leads to is durable: a
//!    directory that was left half-way has none, and no open takes it for a range. After an error
//!    it is empty.
//! 4. *Its own range.* A checkpoint has its own database identity, so that no log segment of the
//!    one fits the other, and an epoch above that of every file it names. Tables need neither:
//!    their checksums rest on their own identity, which travels with the bytes.
//!
//! What fails in the target, a sync included, says nothing about the source, which goes on.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{FileId, LevelNo, LogPosition, RowId, SeqNo, WallTime};
use terrace_env::{EnvError, Operation, PlantedBug, is_planted};

use crate::ids::FileIds;
use crate::l0::CutMap;
use crate::memtable::Memtable;
use crate::new_dir;
use crate::store::bulk::copies::{Copies, CopyOptions};
use crate::store::bulk::stored::Stored;
use crate::store::cloud::TakeMoment;
use crate::store::{Inner, Store};
use crate::table::{LocalTableStore, TableStore};
use crate::version::{RowMeta, TableMeta, Version, VersionEdit};
use crate::{Error, Result};

/// Called with the bytes of tables that the checkpoint has and those that it will have; `false`
/// ends it.
pub type CheckpointProgress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// What a checkpoint is made of: everything up to a number, and nothing after it.
struct Pinned {
    seqno: SeqNo,
    version: Arc<Version>,
    /// What lies beside the tables.
    memtables: Vec<Arc<Memtable>>,
}

/// What a checkpoint consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The moment: it holds everything that was written up to this number, and nothing after it.
    pub seqno: SeqNo,
    /// Tables and value files that share their bytes with the source, or with an earlier copy.
    pub linked_count: u64,
    /// Those that were copied: links do not reach there, or it was not to share their bytes.
    pub copied_count: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Bytes of all of them.
    pub table_bytes: u64,
    /// The time of a state out of an archive: everything that was written until then is in it, by
    /// the clock of the database's owner. `None` of others, and if no log was read for it.
    pub as_of: Option<WallTime>,
}

impl Store {
    /// Makes a copy of the range at one moment in `dir`, which does not exist or is empty.
    /// Everything acknowledged before the call is in it. Writers wait while memtables are frozen,
    /// not for the flush that follows, and not for the copy.
    ///
    /// On return it is durable, and opens like any other range; deleting the one leaves the other.
    /// Cost: a flush and a name for each table, or a copy of it on another file system.
    ///
    /// Errors: `Invalid` (`dir` is not empty), `Locked`, `Cancelled` (by `progress`), `NoSpace`,
    /// `Io`, `Corruption` (a table that had to be copied is damaged), and those of
    /// [`Store::flush`]. After an error `dir` holds no range; the source is as it was.
    pub fn checkpoint(
        &self,
        dir: &Path,
        progress: CheckpointProgress<'_>,
    ) -> Result<CheckpointReport> {
        let by_links = CopyOptions { shares_source: true, ..CopyOptions::default() };
        self.checkpoint_with(dir, &by_links, progress)
    }

    /// As [`Store::checkpoint`]; `options` say what it shares its bytes with.
    pub fn checkpoint_with(
        &self,
        dir: &Path,
        options: &CopyOptions,
        progress: CheckpointProgress<'_>,
    ) -> Result<CheckpointReport> {
        let inner = &self.inner;
        inner.log()?;
        let _work = inner.begin_work()?;
        inner.check_healthy()?;
        inner.write_into(dir, options, progress, || inner.poison_if_sync_failed(inner.pin_moment()))
    }

    /// As [`Store::checkpoint`], of a range in an object store that was opened to be read: all
    /// tables are copied, and what was read of its log becomes a row.
    pub(in crate::store) fn copy_to(
        &self,
        dir: &Path,
        progress: CheckpointProgress<'_>,
    ) -> Result<CheckpointReport> {
        let inner = &self.inner;
        let _work = inner.begin_work()?;
        inner.write_into(dir, &CopyOptions::default(), progress, || {
            let dranges = inner.dranges.load();
            let active = dranges.list().iter().map(|drange| drange.active.shared());
            let memtables = active.map(|active| Arc::clone(&active.memtable));
            let memtables = memtables.filter(|memtable| !memtable.is_empty()).collect();
            let (seqno, version) = (inner.sequencer.finished().0, inner.versions.current());
            Ok(Pinned { seqno, version, memtables })
        })
    }
}

impl Inner {
    /// Writes a range into `dir`, which is empty again after an error.
    fn write_into(
        &self,
        dir: &Path,
        options: &CopyOptions,
        progress: CheckpointProgress<'_>,
        pin: impl FnOnce() -> Result<Pinned>,
    ) -> Result<CheckpointReport> {
        // Held until what was written is complete or gone.
        let _lock = of_target(dir, new_dir::claim(self.env.as_ref(), dir))?;
        let outcome = pin().and_then(|pinned| {
            let copies = Copies::new(&self.env, dir, options);
            of_target(dir, self.write_checkpoint(copies, &pinned, progress))
        });
        if outcome.is_err() {
            new_dir::discard(self.env.as_ref(), dir);
        }
        outcome
    }

    /// A version that holds everything up to a number, and nothing after it.
    fn pin_moment(&self) -> Result<Pinned> {
        let pinned = |seqno| {
            let (version, memtables) = (self.versions.current(), Vec::new());
            Ok(Pinned { seqno, version, memtables })
        };
        if is_planted(PlantedBug::CheckpointMissesTheLog) {
            return pinned(self.sequencer.finished().0);
        }
        let _caller_waits = self.io.hurry_flushes();
        self.at_moment(|(seqno, _)| pinned(seqno))
    }

    /// As the versions hand themselves over, of one that holds everything up to a number, and
    /// nothing after it.
    pub(in crate::store) fn with_moment(&self, take: TakeMoment<'_>) -> Result<()> {
        let taken = self.at_moment(|moment| {
            self.versions.with_snapshot(&mut |snapshot: &VersionEdit, version: &Arc<Version>| {
                take(snapshot, version, moment);
            })
        });
        self.poison_if_sync_failed(taken)
    }

    /// Flushes all that was written until now, and acts before anything younger can be flushed.
    fn at_moment<T>(&self, act: impl FnOnce((SeqNo, LogPosition)) -> Result<T>) -> Result<T> {
        let turn = self.turns.flush.lock();
        let (moment, frozen) = self.with_all_held(|all| {
            let frozen = self.freeze_held(all)?;
            Ok((self.sequencer.finished(), frozen))
        })?;
        self.flush_these(&turn, frozen, |except| self.oldest_position(except))?;
        act(moment)
    }

    fn write_checkpoint(
        &self,
        copies: Copies<'_>,
        pinned: &Pinned,
        progress: CheckpointProgress<'_>,
    ) -> Result<CheckpointReport> {
        let Pinned { seqno, version, memtables } = pinned;
        let mut report = CheckpointReport { seqno: *seqno, ..CheckpointReport::default() };
        let mut snapshot = snapshot_of(version);
        let levels = version.runs().flat_map(|(_, run)| run.tables());
        let levels = levels.map(|table| (Stored::Table(table.meta()), None));
        let live = version.l0().live().iter();
        let live = live.map(|live| (Stored::Table(live.table.meta()), Some(live)));
        let forgets_values = is_planted(PlantedBug::CheckpointForgetsValues);
        let values = Stored::values_of(version).filter(|_| !forgets_values);
        let values = values.map(|file| (file, None));
        let all: Vec<_> = live.chain(levels).chain(values).collect();
        let total_bytes = all.iter().map(|(stored, _)| stored.bytes()).sum();
        for (stored, live) in all {
            if !progress(report.table_bytes, total_bytes) {
                return Err(Error::Cancelled);
            }
            // A close waits for this.
            self.check_open()?;
            if let Some(live) = live.filter(|live| live.table.meta().is_in_pages()) {
                let written = self.write_row(&copies.target, live)?;
                replace_table(&mut snapshot, live.table.meta().id, written);
                report.copied_count += 1;
                report.copied_bytes += stored.bytes();
                report.table_bytes += stored.bytes();
                continue;
            }
            if copies.share_with_earlier(stored) || self.share_with_source(&copies, stored)? {
                report.linked_count += 1;
            } else {
                let file = stored.open(&self.context.opener)?;
                copies.copy(&*file, stored, &mut |done| {
                    progress(report.table_bytes + done, total_bytes)
                })?;
                report.copied_count += 1;
                report.copied_bytes += stored.bytes();
            }
            report.table_bytes += stored.bytes();
        }
        let ids = FileIds::of_copy(version.epoch());
        if !memtables.is_empty() {
            let row = self.write_memtables(&copies.target, memtables, ids.next())?;
            if let Some(table) = &row {
                report.copied_count += 1;
                report.copied_bytes += table.bytes;
                report.table_bytes += table.bytes;
            }
            add_row(&mut snapshot, version, row, *seqno);
        }
        if is_planted(PlantedBug::CheckpointForgetsAFile) {
            snapshot.tree.rows_added.pop();
        }
        copies.target.sync(LevelNo(0))?;
        // The last moment: what follows makes a range of it.
        if !progress(total_bytes, total_bytes) {
            return Err(Error::Cancelled);
        }
        copies.become_range(snapshot, &ids)?;
        Ok(report)
    }

    /// Gives the file a second name, if it may have one and links reach. One that is still to be
    /// cut may not: a copy does not change.
    fn share_with_source(&self, copies: &Copies<'_>, stored: Stored<'_>) -> Result<bool> {
        if !copies.options().shares_source || stored.is_to_be_cut(&self.context.opener)? {
            return Ok(false);
        }
        self.context.opener.store.link(stored.location(), &copies.path_of(stored))
    }
}

/// What is live of the version, with all its tables side by side.
fn snapshot_of(version: &Version) -> VersionEdit {
    let mut snapshot = version.to_snapshot();
    snapshot.media = None;
    // A copy has no part in the store.
    snapshot.range.cloud = None;
    let tree = &mut snapshot.tree;
    keep_live(&mut tree.rows_added, version.l0().consumed());
    for meta in tree.tables_mut() {
        meta.location = LocalTableStore::location_of(meta.id);
        meta.shared = false;
    }
    for meta in &mut snapshot.values.added {
        meta.location = LocalTableStore::location_of_values(meta.id);
    }
    snapshot
}

/// Adds a row of one table above all others, which holds the entries up to a number.
fn add_row(snapshot: &mut VersionEdit, version: &Version, row: Option<TableMeta>, seqno: SeqNo) {
    let tree = &mut snapshot.tree;
    let id = version.next_row();
    tree.rows_added.extend(row.map(|table| RowMeta { id, tables: vec![table] }));
    tree.next_row = Some(RowId(id.0 + 1));
    tree.greatest_seqno = Some(seqno);
}

/// Leaves out the tables of rows that are consumed everywhere. Their rows may be there for the sake
/// of another table, and go when of that one nothing is written.
fn keep_live(rows: &mut Vec<RowMeta>, consumed: &CutMap) {
    for row in &mut *rows {
        row.tables.retain(|table| consumed.is_live(row.id, &table.span()));
    }
    rows.retain(|row| !row.tables.is_empty());
}

/// Puts `written` in the place of the table of L0 with this id; a row without a table goes.
fn replace_table(snapshot: &mut VersionEdit, id: FileId, written: Option<TableMeta>) {
    for row in &mut snapshot.tree.rows_added {
        if let Some(index) = row.tables.iter().position(|table| table.id == id) {
            row.tables.splice(index..=index, written.clone());
        }
    }
    snapshot.tree.rows_added.retain(|row| !row.tables.is_empty());
}

/// What a failure in the target means: a sync that failed there leaves the source alone.
pub(super) fn of_target<T>(dir: &Path, outcome: Result<T>) -> Result<T> {
    outcome.map_err(|error| match error {
        Error::Poisoned(reason) => {
            Error::Io(EnvError::new(Operation::Sync, dir, std::io::Error::other(reason)))
        }
        error => error,
    })
}

#[cfg(test)]
mod tests {
    use terrace_base::KeyRange;

    use super::*;
    use crate::l0::CutInterval;
    use crate::version::TreeEdit;

    fn table(counter: u64, start: &str, end: &str) -> TableMeta {
        TableMeta { bounds: KeyRange::new(start, Some(end.into())), ..TableMeta::sample(counter) }
    }

    #[test]
    fn a_row_that_counts_in_one_table_brings_no_other_along() {
        let cut = |start: &str, end: &str| CutInterval {
            slice: KeyRange::new(start, Some(end.into())),
            through: RowId(2),
        };
        let cuts = CutMap::default().after(&cut("a", "d")).after(&cut("e", "z"));
        let row = |id, tables| RowMeta { id: RowId(id), tables };
        let mut rows = vec![
            row(1, vec![table(1, "m", "p")]),
            row(2, vec![table(2, "c", "g"), table(3, "m", "p")]),
            row(3, vec![table(4, "m", "p")]),
        ];
        keep_live(&mut rows, &cuts);
        assert_eq!(rows, [row(2, vec![table(2, "c", "g")]), row(3, vec![table(4, "m", "p")])]);
        // If it has no key between the cuts, nothing is written of it, and so nothing is left of
        // the row.
        let mut snapshot = VersionEdit::from(TreeEdit { rows_added: rows, ..TreeEdit::default() });
        replace_table(&mut snapshot, table(2, "c", "g").id, None);
        assert_eq!(snapshot.tree.rows_added, [row(3, vec![table(4, "m", "p")])]);
    }
}
