//! Flushes: frozen memtables become one row of L0.

use std::sync::Arc;

use terrace_base::{MemtableId, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::{Inner, Store};
use crate::compaction::{Retained, Retention};
use crate::drange::Frozen;
use crate::fail_point::fail_point;
use crate::iter::{MergingStream, Stream};
use crate::l0::FlushInput;
use crate::memtable::Memtable;
use crate::range_tombstone::Fragments;
use crate::version::VersionEdit;
use crate::{Error, Result};

/// One flush merges at most this many memtables' worth of bytes.
const MEMTABLES_PER_FLUSH: usize = 4;

impl Store {
    /// Freezes every memtable and waits until all of them are in L0.
    ///
    /// Errors: `ReadOnly`, `Closed`, `Poisoned`, and whatever writing tables gives.
    pub fn flush(&self) -> Result<()> {
        let inner = &self.inner;
        inner.log()?;
        inner.check_healthy()?;
        inner.freeze_all()?;
        inner.heed(inner.flush_frozen())?;
        inner.schedule_compaction();
        Ok(())
    }
}

impl Inner {
    /// Freezes every active memtable that is not empty.
    pub(super) fn freeze_all(&self) -> Result<()> {
        let map = self.dranges.load_full();
        for drange in map.list() {
            let mut active = drange.active.exclusive();
            if !active.memtable.is_empty() {
                let bytes = self.options.memtable_bytes;
                let fresh = Arc::new(Memtable::new(self.ids.next_memtable(), bytes));
                self.swap_active(drange, &mut active, fresh)?;
            }
        }
        Ok(())
    }

    /// If the log takes more space than it should, freezes the memtables that hold its oldest segment.
    pub(super) fn bound_log(&self) -> Result<()> {
        let log = self.log()?;
        if log.held_bytes() <= self.options.log_bytes_max {
            return Ok(());
        }
        let oldest = self.oldest_position(&[]);
        let segment_end = oldest.0 + self.options.log_segment_bytes;
        let map = self.dranges.load_full();
        for drange in map.list() {
            let mut active = drange.active.exclusive();
            if active.begin.0 < segment_end {
                let bytes = self.options.memtable_bytes;
                let fresh = Arc::new(Memtable::new(self.ids.next_memtable(), bytes));
                self.swap_active(drange, &mut active, fresh)?;
            }
        }
        self.schedule_flush();
        Ok(())
    }

    /// Flushes until no memtable is frozen.
    pub(super) fn flush_frozen(&self) -> Result<()> {
        while self.flush_some()? {}
        Ok(())
    }

    /// Flushes the oldest frozen memtables as one row; `false` if there are none.
    fn flush_some(&self) -> Result<bool> {
        let _turn = self.flush_turn.lock();
        let batch = self.oldest_frozen();
        if batch.is_empty() {
            return Ok(false);
        }
        self.wait_settled(&batch)?;
        fail_point!(self.env, "flush::before_absorb");
        let (row, bytes) = self.absorb(&batch)?;
        fail_point!(self.env, "flush::before_install");
        let ids: Vec<MemtableId> = batch.iter().map(|frozen| frozen.memtable.id()).collect();
        let log = self.log()?;
        // A write that failed, and poisoned the range meanwhile, leaves a gap that nobody has synced
        // before the next memtable: the manifest must not say that the log was durable there.
        let log_start = log.start_at(self.oldest_position(&ids).min(log.durable()));
        let covered =
            batch.iter().flat_map(|frozen| frozen.covers.iter().map(|id| (*id, frozen.end)));
        let greatest = batch.iter().filter_map(|frozen| frozen.memtable.greatest_seqno()).max();
        let current = self.versions.current();
        if is_planted(PlantedBug::ReleaseLogEarly) {
            log.release(log_start.position)?;
        }
        let edit = VersionEdit {
            rows_added: row.into_iter().collect(),
            memtables_flushed: covered.collect(),
            log_start: Some(log_start),
            greatest_seqno: Some(greatest.unwrap_or(SeqNo::ZERO).max(current.greatest_seqno)),
            ..VersionEdit::default()
        };
        self.versions.install(edit, |version| {
            self.change_view(true, |view| {
                let mut dranges = view.dranges.clone();
                for drange in &mut dranges {
                    drange.frozen.retain(|frozen| !ids.contains(&frozen.memtable.id()));
                    let needed = drange.frozen.iter().map(|frozen| frozen.begin).min();
                    let start = log_start.position;
                    debug_assert!(needed.is_none_or(|begin| begin >= start), "{needed:?} {start}");
                }
                (dranges, Arc::clone(version))
            });
        })?;
        fail_point!(self.env, "flush::after_install");
        self.counters.flushed(bytes);
        log.release(log_start.position)?;
        fail_point!(self.env, "wal::after_release");
        self.changed.notify();
        self.schedule_compaction();
        Ok(true)
    }

    /// The oldest frozen memtables, as many as one flush takes.
    fn oldest_frozen(&self) -> Vec<Arc<Frozen>> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for frozen in self.view.load().frozen() {
            bytes += frozen.memtable.used_bytes();
            let bytes_max = match is_planted(PlantedBug::FlushNewestFirst) {
                true => 0,
                false => self.options.memtable_bytes * MEMTABLES_PER_FLUSH,
            };
            if !batch.is_empty() && bytes > bytes_max {
                break;
            }
            batch.push(frozen);
        }
        batch
    }

    /// Waits until every entry of these memtables is published, and syncs the log through them, so
    /// that tables never hold what the log may still lose.
    fn wait_settled(&self, batch: &[Arc<Frozen>]) -> Result<()> {
        let end = batch.iter().map(|frozen| frozen.end).max().unwrap_or_default();
        let greatest = batch.iter().filter_map(|frozen| frozen.memtable.greatest_seqno()).max();
        let greatest = greatest.unwrap_or(SeqNo::ZERO);
        let is_finished = || {
            let finished = self.sequencer.finished();
            finished.0 >= greatest && finished.1 >= end
        };
        self.sequencer.wait_until(|| is_finished() || self.is_poisoned());
        if self.is_poisoned() {
            return Err(Error::Poisoned(self.poison_reason()));
        }
        if !is_planted(PlantedBug::InstallBeforeLogSync) || self.syncs_before_publication() {
            self.sync_log(greatest, end)?;
        }
        self.sequencer.wait_until(|| self.sequencer.visible() >= greatest || self.is_poisoned());
        Ok(())
    }

    /// Writes the merged entries of these memtables as a row.
    fn absorb(&self, batch: &[Arc<Frozen>]) -> Result<(Option<crate::version::RowMeta>, u64)> {
        let (snapshots, now) = self.read_points.list(self.env.wall_time());
        let fragments: Vec<_> =
            batch.iter().map(|frozen| frozen.memtable.range_tombstones()).collect();
        let tombstones = Fragments::merge(fragments.iter().map(|some| &**some));
        let rules = Retention::new(snapshots, Vec::new(), now, tombstones);
        let streams = batch
            .iter()
            .map(|frozen| Box::new(frozen.memtable.stream()) as Box<dyn Stream + Send>)
            .collect();
        let mut merged = MergingStream::new(streams);
        let mut retained = Retained::new(&mut merged, &rules)?;
        let row = self.l0.absorb(FlushInput {
            entries: &mut retained,
            tombstones: &rules.surviving_tombstones(),
            expected_bytes: batch.iter().map(|frozen| frozen.memtable.used_bytes() as u64).sum(),
        })?;
        let bytes = row.as_ref().map_or(0, crate::version::RowMeta::bytes);
        Ok((row, bytes))
    }
}
