//! Memtables of hot dranges, merged in memory: `drange/merging.rs` says which.
//!
//! What is merged stays in the place of its oldest source, below everything that is frozen later,
//! and its records stay in the log: a crash loses nothing, and replays them. It is flushed like any
//! other frozen memtable when it is not worth keeping any more, and with everything that is asked
//! to be flushed.

use std::sync::Arc;

use terrace_base::LogPosition;
use terrace_env::{PlantedBug, is_planted};

use crate::Result;
use crate::compaction::{Retained, Retention};
use crate::drange::merging::{Bounds, Candidate, choose};
use crate::drange::{Frozen, SampledStream, WriteSample};
use crate::events::{EventKind, MergeRecord};
use crate::iter::Stream;
use crate::memtable::{LoggedByNumber, LoggedValue, Memtable};
use crate::process::PoolName;
use crate::range_tombstone::Fragments;
use crate::store::Inner;
use crate::store::turns::FlushTurn;
use crate::store::upkeep::flush::{greatest_of, merged_stream, sampled_before};
use crate::store::view::View;

/// What a merged memtable may need beyond what its sources take: nodes are filled less when keys
/// come in order.
const SLACK_BYTES: usize = 64 << 10;

impl Inner {
    /// Merges those of the memtables of `batch`, which are frozen, in their order, that are worth
    /// it. What is left to be flushed, in order; and the writes in what was merged.
    pub(super) fn merge_hot(
        &self,
        _turn: &FlushTurn,
        batch: Vec<Arc<Frozen>>,
        spacing: u64,
    ) -> Result<(Vec<Arc<Frozen>>, Vec<WriteSample>)> {
        let mut samples = Vec::new();
        if !self.options.memtable_merging {
            return Ok((batch, samples));
        }
        let dranges = by_drange(&batch);
        let candidates: Vec<Candidate> =
            dranges.iter().map(|own| candidate_of(own, &batch)).collect();
        let chosen = choose(&candidates, &self.merging_bounds());
        let mut left = batch;
        for (own, _) in dranges.iter().zip(chosen).filter(|(_, is_chosen)| *is_chosen) {
            self.wait_visible(own)?;
            let Some((merged, sample)) = self.merge(own, spacing)? else { continue };
            self.put_in_place_of(own, &merged);
            left.retain(|frozen| !own.iter().any(|source| Arc::ptr_eq(source, frozen)));
            samples.push(sample);
        }
        Ok((left, samples))
    }

    fn merging_bounds(&self) -> Bounds {
        let memtable_bytes = self.options.memtable_bytes as u64;
        let memory = self.process.memory();
        // Two memtables of each range are always allowed, and are for what comes and goes.
        let spare = memory.memtable_bytes_max().saturating_sub(2 * memtable_bytes);
        let is_short =
            memory.pool(PoolName::Memtables).used_bytes() > memory.memtable_bytes_max() / 2;
        let log_end = self.sequencer.finished().1.0;
        Bounds {
            bytes: if is_short { 0 } else { (memtable_bytes / 2).min(spare / 2) },
            log_from: LogPosition(log_end.saturating_sub(self.options.log_bytes_max / 2)),
        }
    }

    /// Waits until every entry of these memtables is published: what hides older versions is known
    /// to every reader that comes.
    fn wait_visible(&self, sources: &[Arc<Frozen>]) -> Result<()> {
        let greatest = greatest_of(sources);
        self.sequencer.wait_until(|| self.sequencer.visible() >= greatest || self.is_poisoned());
        self.check_healthy()
    }

    /// One memtable with what readers may still ask for of these, and a sample of the writes that
    /// were not merged before; `None` if it does not come out smaller.
    fn merge(
        &self,
        sources: &[Arc<Frozen>],
        spacing: u64,
    ) -> Result<Option<(Arc<Frozen>, WriteSample)>> {
        let (snapshots, now) = self.read_points.list(self.env.wall_time());
        let rules = Retention::new(snapshots, Vec::new(), now, Fragments::default())
            .with_operator(self.merge_operator.clone());
        let mut merging = merged_stream(sources);
        let mut sampled = SampledStream::new(&mut merging, sampled_before(sources), spacing);
        let mut retained = Retained::new(&mut sampled, &rules)?;
        let bytes: usize = sources.iter().map(|source| source.memtable.used_bytes()).sum();
        let memtable = Memtable::new(self.ids.next_memtable(), bytes + SLACK_BYTES);
        let logged = LoggedByNumber::of(sources.iter().map(|source| &*source.memtable));
        while let Some(entry) = retained.entry() {
            let seqno = entry.seqno;
            let kept = logged.get(seqno).map(|at| LoggedValue { seqno, at });
            let listed = if kept.is_some() { LoggedValue::BYTES } else { 0 };
            let needed = Memtable::space_for(entry.key.len(), entry.value.len()) + listed;
            let Some(mut reservation) = memtable.reserve(needed) else { return Ok(None) };
            memtable.insert(&mut reservation, entry);
            memtable.note_logged(&mut reservation, kept);
            drop(reservation);
            retained.advance()?;
        }
        let dropped = retained.dropped();
        let begin = sources.iter().map(|source| source.begin).min().unwrap_or_default();
        let end = sources.iter().map(|source| source.end).max().unwrap_or_default();
        let merged = Frozen {
            keys: sources[0].keys.clone(),
            begin: if is_planted(PlantedBug::MergedLetsTheLogGo) { end } else { begin },
            end,
            covers: sources.iter().flat_map(|source| source.covers.iter().copied()).collect(),
            is_merged: true,
            memtable: Arc::new(memtable),
        };
        let kept_bytes = merged.memtable.used_bytes() as u64;
        self.tell(EventKind::MemtablesMerged(MergeRecord {
            memtable_count: sources.len() as u64,
            dropped_count: dropped,
            kept_bytes,
        }));
        Ok(Some((Arc::new(merged), sampled.finish())))
    }

    /// Shows readers the merged memtable instead of its sources.
    fn put_in_place_of(&self, sources: &[Arc<Frozen>], merged: &Arc<Frozen>) {
        self.change_view(true, |view: &View| {
            let mut dranges = view.dranges.clone();
            for drange in &mut dranges {
                let count = drange.frozen.len();
                let is_source =
                    |frozen: &Arc<Frozen>| sources.iter().any(|one| Arc::ptr_eq(one, frozen));
                drange.frozen.retain(|frozen| !is_source(frozen));
                if drange.frozen.len() < count {
                    let place = drange.frozen.partition_point(|frozen| frozen.age() > merged.age());
                    drange.frozen.insert(place, Arc::clone(merged));
                }
            }
            (dranges, Arc::clone(&view.version))
        });
    }
}

/// The memtables of each drange, in their order.
fn by_drange(batch: &[Arc<Frozen>]) -> Vec<Vec<Arc<Frozen>>> {
    let mut dranges: Vec<Vec<Arc<Frozen>>> = Vec::new();
    for frozen in batch {
        match dranges.iter_mut().find(|own| own[0].keys == frozen.keys) {
            Some(own) => own.push(Arc::clone(frozen)),
            None => dranges.push(vec![Arc::clone(frozen)]),
        }
    }
    dranges
}

fn candidate_of(own: &[Arc<Frozen>], batch: &[Arc<Frozen>]) -> Candidate {
    let sum = |is_merged: bool, of: fn(&Memtable) -> u64| -> u64 {
        let some = own.iter().filter(|frozen| frozen.is_merged == is_merged);
        some.map(|frozen| of(&frozen.memtable)).sum()
    };
    let bytes = |memtable: &Memtable| memtable.used_bytes() as u64;
    let keys = &own[0].keys;
    let shares_keys = batch.iter().any(|other| other.keys != *keys && other.keys.overlaps(keys));
    Candidate {
        fresh_bytes: sum(false, bytes),
        fresh_entries: sum(false, Memtable::entry_count),
        fresh_keys: sum(false, Memtable::key_count),
        merged_bytes: sum(true, bytes),
        begin: own.iter().map(|frozen| frozen.begin).min().unwrap_or_default(),
        is_entangled: shares_keys || own.iter().any(|one| one.memtable.has_range_tombstones()),
    }
}
