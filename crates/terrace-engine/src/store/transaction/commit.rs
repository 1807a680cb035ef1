//! The commit of a transaction: look, and write under the same holds.

use std::sync::Arc;

use terrace_base::{EntryKind, KeyRange, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::changes::Look;
use super::conflict::Conflict;
use super::read_set::ReadSet;
use crate::batch::WriteBatch;
use crate::drange::{DrangeMap, DuplicateChoice};
use crate::store::gate::ledger::{Cause, WriteTimer};
use crate::store::write::commit::Commit;
use crate::store::write::commit::Promise;
use crate::store::write::conditional::hold_all;
use crate::store::write::routing::{PerDrange, Placement};
use crate::store::{Inner, Store, WriteOptions};
use crate::table::ReadMode;
use crate::{Error, Result};

/// How often blocks are fetched without holding anybody up, before they are fetched under the
/// holds.
const LOOKS_AHEAD: u32 = 2;

impl Store {
    /// Writes a batch atomically if nothing that `reads` names was written since its snapshot; the
    /// number of the last entry. See the module's page for what is promised.
    ///
    /// An empty batch asks whether what was read is still so; the answer is the newest number that
    /// readers see, at which it still is.
    ///
    /// The call returns only when what it wrote, or what it conflicts with, is published: who
    /// begins anew reads it.
    ///
    /// Errors: `Conflict` (nothing was written), those of [`Store::write`], those of reading
    /// tables; `NeedsIo` if `wait` is off and a table that was written since is not in memory.
    pub fn write_if_unchanged(
        &self,
        reads: &ReadSet,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<SeqNo> {
        let watch = self.inner.watch_write();
        let written = self.inner.commit_transaction(reads, batch, options);
        if let Err(error) = &written {
            self.inner.meters.troubles.write_failed(error);
        }
        if !matches!(written, Err(Error::WouldBlock | Error::NeedsIo)) {
            self.inner.write_ended(&watch, batch);
        }
        written
    }
}

/// What a commit rests on, and how far it was looked through.
struct Basis<'a> {
    reads: &'a ReadSet,
    ranges: Vec<KeyRange>,
    /// Up to this number nothing of it was written.
    since: SeqNo,
    /// Whether a look may wait for the disk.
    wait: bool,
    looks_ahead: u32,
}

/// What a look under holds found.
enum Held {
    Unchanged,
    Changed(Conflict),
    /// Blocks that are not in memory have to be looked into.
    NeedsBlocks,
}

impl Basis<'_> {
    fn new(reads: &ReadSet, wait: bool) -> Basis<'_> {
        let forgets = is_planted(PlantedBug::CommitForgetsIntervals);
        let ranges = if forgets { Vec::new() } else { reads.ranges() };
        Basis { reads, ranges, since: reads.seqno(), wait, looks_ahead: 0 }
    }

    /// Looks for changes without holds. What is found to be as it was need not be looked through
    /// again, and is in memory.
    fn look_ahead(&mut self, inner: &Inner) -> Result<Option<Conflict>> {
        self.looks_ahead += 1;
        // Order: the number before the view, which then holds all up to it.
        let (through, _) = inner.sequencer.finished();
        let view = inner.view.load_full();
        let mode = if self.wait { ReadMode::BLOCK } else { ReadMode::NO_WAIT };
        let look = Look { view: &view, since: self.since, mode };
        let change = look.first_change(self.reads, &self.ranges);
        let change = change.map_err(|error| inner.or_closed(error))?;
        if change.is_none() {
            self.since = self.since.max(through);
        }
        Ok(change)
    }

    /// Looks for changes while all that is concerned is held.
    fn look_held(&self, inner: &Inner) -> Result<Held> {
        let is_last_resort = self.wait && self.looks_ahead > LOOKS_AHEAD;
        let mode = if is_last_resort { ReadMode::BLOCK } else { ReadMode::NO_WAIT };
        let view = inner.view.load();
        let look = Look { view: &view, since: self.since, mode };
        match look.first_change(self.reads, &self.ranges) {
            Ok(None) => Ok(Held::Unchanged),
            Ok(Some(change)) => Ok(Held::Changed(change)),
            Err(Error::NeedsIo) if self.wait => Ok(Held::NeedsBlocks),
            Err(error) => Err(error),
        }
    }
}

impl Inner {
    fn commit_transaction(
        &self,
        reads: &ReadSet,
        batch: &WriteBatch,
        options: &WriteOptions,
    ) -> Result<SeqNo> {
        reads.check_is_of(self)?;
        self.log()?;
        self.check_healthy()?;
        self.check_operands(batch)?;
        let promise = self.promise(options)?;
        if promise.waits_for_disk() && !options.wait {
            return Err(Error::WouldBlock);
        }
        let mut basis = Basis::new(reads, options.wait);
        let mut timer = self.begin_timer(batch.memtable_bytes());
        let mut turn = DuplicateChoice::default();
        // The holds are to be short: a long walk is mostly done before them.
        let mut looks_ahead = !basis.ranges.is_empty();
        loop {
            if std::mem::take(&mut looks_ahead)
                && let Some(change) = basis.look_ahead(self)?
            {
                return self.refuse_commit(&mut timer, change, promise);
            }
            self.gate_pass(&mut timer, batch.memtable_bytes(), options.wait)?;
            let map = self.dranges.load();
            Placement::check(batch, &map)?;
            let holds = hold_all(&map, touched(&map, &basis, batch), &mut timer);
            if !Arc::ptr_eq(&map, &self.dranges.load()) {
                continue;
            }
            self.check_healthy()?;
            match basis.look_held(self)? {
                Held::Unchanged => {}
                Held::Changed(change) => {
                    drop(holds);
                    return self.refuse_commit(&mut timer, change, promise);
                }
                Held::NeedsBlocks => {
                    looks_ahead = true;
                    continue;
                }
            }
            if batch.is_empty() {
                let visible = self.sequencer.visible();
                drop(holds);
                timer.wait(Cause::Publication, || self.wait_published(visible, promise))?;
                return Ok(visible);
            }
            match self.commit_held(&map, &holds, batch, &mut turn)? {
                Commit::Done(taken) => {
                    drop(holds);
                    timer.precedence = None;
                    self.meters.counters.user_bytes(batch.payload_bytes(), batch.len());
                    self.acknowledge(&mut timer, &taken, promise)?;
                    return Ok(taken.last_seqno);
                }
                Commit::NeedsRoom(room) => {
                    drop(holds);
                    self.make_room(&mut timer, &map, room, options.wait)?;
                }
            }
        }
    }

    /// Answers a conflict, once what it rests on is published.
    #[cold]
    fn refuse_commit(
        &self,
        timer: &mut WriteTimer<'_>,
        change: Conflict,
        promise: Promise,
    ) -> Result<SeqNo> {
        let published =
            timer.wait(Cause::Publication, || self.wait_published(change.seqno, promise));
        match published {
            Ok(()) => Err(Error::Conflict(Box::new(change))),
            // Of this transaction nothing was written, so its outcome is known.
            Err(Error::Unknown(reason)) => Err(Error::Poisoned(reason)),
            Err(error) => Err(error),
        }
    }
}

/// Indexes of the dranges that a transaction read from, or writes to, all duplicates.
fn touched(map: &DrangeMap, basis: &Basis<'_>, batch: &WriteBatch) -> PerDrange<usize> {
    let division = map.division();
    let mut indexes = PerDrange::new();
    if division.interval_count() == 1 {
        indexes.extend(division.dranges_of(0));
        return indexes;
    }
    for key in basis.reads.keys() {
        indexes.extend(division.dranges_of(map.interval_of(key)));
    }
    for range in &basis.ranges {
        indexes.extend(map.intervals_of(range).flat_map(|interval| division.dranges_of(interval)));
    }
    for entry in batch.entries(SeqNo::ZERO) {
        if entry.kind == EntryKind::RangeTombstone {
            let range = KeyRange::new(entry.key, Some(entry.value.to_vec()));
            let intervals = map.intervals_of(&range);
            indexes.extend(intervals.flat_map(|interval| division.dranges_of(interval)));
        } else {
            indexes.extend(division.dranges_of(map.interval_of(entry.key)));
        }
    }
    indexes
}
