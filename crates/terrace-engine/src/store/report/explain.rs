//! Explained reads: the same path as any read, with a recorder that takes notes.

use std::sync::Arc;

use terrace_base::{KeyRange, SeqNo};

use crate::cloud::CloudCost;
use crate::explain::{GetExplanation, Recorder, Recording, ScanEnd, ScanExplanation, Source};
use crate::store::read::begin::At;
use crate::store::read::get::GetOptions;
use crate::store::read::iterator::{Iter, IterOptions};
use crate::store::report::slow::GetPurpose;
use crate::store::view::View;
use crate::store::{Inner, Snapshot, Store};
use crate::{Error, Result};

impl Store {
    /// Reads `key` as [`Store::get`] does, and says what the read met on its way and why it
    /// answered as it did.
    ///
    /// Cost: that of the read, some ten looks at the clock and as many allocations.
    /// Errors: as [`Store::get`].
    pub fn explain_get(&self, key: &[u8]) -> Result<GetExplanation> {
        self.inner.explain_get(key, At::Now)
    }

    /// Walks up to `limit` keys of `range` as an iterator does, from the last one if `reverse` is
    /// set, and says where the keys came from and what was stepped over.
    ///
    /// Cost: that of the walk, and two looks at the clock for each step of each source.
    /// Errors: as [`Store::iter`].
    pub fn explain_scan(
        &self,
        range: KeyRange,
        limit: u64,
        reverse: bool,
    ) -> Result<ScanExplanation> {
        self.inner.explain_scan(range, limit, reverse, |options| self.iter(options))
    }
}

impl Snapshot {
    /// As [`Store::explain_get`], of what the key was.
    pub fn explain_get(&self, key: &[u8]) -> Result<GetExplanation> {
        self.inner().explain_get(key, At::Number(self.seqno()))
    }

    /// As [`Store::explain_scan`], of what the keys were.
    pub fn explain_scan(
        &self,
        range: KeyRange,
        limit: u64,
        reverse: bool,
    ) -> Result<ScanExplanation> {
        self.inner().explain_scan(range, limit, reverse, |options| self.iter(options))
    }
}

impl Inner {
    /// Begins to take notes. A thread explains one operation at a time, so nobody does already.
    pub(super) fn begin_recording(&self) -> Result<Recording> {
        Recording::begin(&self.env)
            .ok_or_else(|| Error::invalid("an explanation was asked for within another one"))
    }

    /// What a read asked of the object store, and about what that costs; `None` if it asked
    /// nothing.
    fn cost_of(&self, notes: &Recorder) -> Option<CloudCost> {
        let tier = self.cloud.as_ref().filter(|_| notes.requests.requests() > 0)?;
        Some(CloudCost::new(notes.requests, &tier.prices()))
    }

    fn explain_get(&self, key: &[u8], at: At) -> Result<GetExplanation> {
        let (mode, mut explained) = (GetOptions::default().mode(), None);
        let purpose = GetPurpose::Explanation(&mut explained);
        // An entry of a kind that cannot be answered from is a verdict here, not a failure.
        match self.get_at(key, at, mode, purpose, |_, _| ()) {
            Ok(_) | Err(Error::Unsupported(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(explained.expect("a read that went to its end has left its explanation"))
    }

    /// What was noted while `key` was read in `view`.
    pub(in crate::store) fn explanation(
        &self,
        view: &View,
        key: &[u8],
        read_point: SeqNo,
        mut notes: Recorder,
    ) -> GetExplanation {
        notes.finish();
        let us = notes.us();
        let totals = notes.totals();
        let cloud = self.cost_of(&notes);
        let mut steps = notes.steps;
        let mut deepest = None;
        for step in &mut steps {
            match &mut step.source {
                Source::Table { level: 0, row, id, .. } => {
                    *row = row_of(view, id);
                    deepest = Some(0);
                }
                Source::Table { level, .. } | Source::Level { level, .. } => {
                    deepest = Some(*level);
                }
                Source::Row { .. } => deepest = Some(0),
                Source::Memtable { .. } | Source::Memtables { .. } | Source::ValueFile { .. } => {}
            }
        }
        let l0 = (!view.version.l0().tables().is_empty()).then_some(0);
        let runs = view.version.runs().filter(|(_, run)| !run.is_empty());
        let levels = l0.into_iter().chain(runs.map(|(level, _)| level.0));
        let interval = view.boundaries.index_of(key);
        let drange = &view.dranges[interval];
        let before = view.dranges[..interval].iter().map(|other| other.active().count());
        GetExplanation {
            key: key.to_vec(),
            read_point: read_point.0,
            drange: before.sum(),
            drange_count: view.active().count(),
            duplicates: drange.active().count(),
            drange_start: drange.keys.start().to_vec(),
            drange_end: drange.keys.end().map(<[u8]>::to_vec),
            steps,
            unasked_levels: levels.filter(|level| Some(*level) > deepest).collect(),
            totals,
            cloud,
            verdict: notes.verdict,
            us,
        }
    }

    fn explain_scan(
        &self,
        range: KeyRange,
        limit: u64,
        reverse: bool,
        open: impl FnOnce(IterOptions) -> Result<Iter>,
    ) -> Result<ScanExplanation> {
        let recording = self.begin_recording()?;
        let mut iter = open(IterOptions { range: range.clone(), ..IterOptions::default() })?;
        let (mut key_count, mut bytes) = (0, 0);
        if limit > 0 {
            if reverse { iter.seek_back(None) } else { iter.seek_to_first() }?;
        }
        while let Some(entry) = iter.entry() {
            key_count += 1;
            bytes += (entry.key.len() + entry.value.len()) as u64;
            if key_count == limit {
                break;
            }
            if reverse { iter.prev() } else { iter.next() }?;
        }
        let ended_by = if key_count == limit { ScanEnd::Limit } else { ScanEnd::Interval };
        let mut notes = recording.end();
        notes.finish();
        let cloud = self.cost_of(&notes);
        Ok(notes.into_scan(ScanExplanation {
            start: range.start().to_vec(),
            end: range.end().map(<[u8]>::to_vec),
            reverse,
            limit,
            read_point: iter.seqno().0,
            key_count,
            bytes,
            range_tombstone_count: iter.range_tombstone_count() as u64,
            cloud,
            ended_by,
            ..ScanExplanation::default()
        }))
    }
}

/// The row of L0 that the table with this id belongs to.
fn row_of(view: &View, id: &str) -> Option<u64> {
    let rows = view.version.l0().rows().iter();
    let mut holding = rows.filter(|row| has_table(&row.tables, id));
    holding.next().map(|row| row.meta.id.0)
}

fn has_table(tables: &[Arc<crate::version::Table>], id: &str) -> bool {
    tables.iter().any(|table| table.meta().id.to_string() == id)
}
