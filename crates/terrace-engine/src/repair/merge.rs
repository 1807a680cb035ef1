//! Without a manifest: everything that can be found, merged by key and number.

use std::sync::Arc;

use terrace_base::{EntryRef, KeyRange, SeqNo, WallTime};

use super::Repair;
use super::container::{FoundRow, FoundRowStream};
use super::evidence::Evidence;
use super::log::SalvagedLog;
use super::report::{Loss, LossKind};
use super::salvage::{Losses, SalvageStream, losses_of, tombstones_of};
use super::values::InlineStream;
use crate::compaction::{Retained, Retention};
use crate::iter::{MergingStream, Stream};
use crate::l0::Live;
use crate::l0::triangle::row::RowReader;
use crate::range_tombstone::Fragments;
use crate::survey::TableSurvey;
use crate::table::LocalTableStore;
use crate::version::TableMeta;
use crate::{Error, Result};

/// A table or a row in pages to be merged.
struct RepairInput {
    content: Content,
    /// Where its keys lie.
    span: KeyRange,
    /// Where it counts, if it is a table of a row that is consumed elsewhere.
    parts: Option<Arc<[KeyRange]>>,
}

/// What a source reads.
enum Content {
    Table(Arc<TableSurvey>, Option<Box<TableMeta>>),
    Row(Arc<RowReader>),
}

impl Content {
    fn stream(self, losses: Losses) -> Result<Box<dyn Stream + Send>> {
        Ok(match self {
            Content::Table(survey, meta) => {
                Box::new(SalvageStream::new(survey, meta.as_deref(), losses)?)
            }
            Content::Row(row) => Box::new(FoundRowStream::new(row, losses)?),
        })
    }
}

impl Repair<'_> {
    /// Merges every table of the damaged range that was not replaced, the rows that lie in pages,
    /// and those of its log.
    pub(super) fn merge_all(
        &mut self,
        evidence: &Evidence,
        log: &SalvagedLog,
    ) -> Result<Vec<TableMeta>> {
        let losses: Losses = Arc::default();
        let mut tombstones = Vec::new();
        let mut sources = self.sources(evidence, &losses, &mut tombstones)?;
        for table in log.rows.iter().flatten() {
            let survey = TableSurvey::open(self.target.open(table)?, Some(table.uid))?;
            tombstones.push(tombstones_of(&survey, Some(table), &table.bounds, &losses));
            let content = Content::Table(Arc::new(survey), Some(Box::new(table.clone())));
            sources.push(RepairInput { content, span: table.bounds.clone(), parts: None });
        }
        for FoundRow { row, parts } in self.find_rows(evidence)? {
            tombstones.push(Fragments::clone(row.range_tombstones()));
            let span = row.properties().bounds();
            sources.push(RepairInput { content: Content::Row(row), span, parts });
        }
        let rules = Retention::new(
            Vec::new(),
            // All there is takes part, so nothing older can be below.
            vec![KeyRange::all()],
            // Nothing is judged to be expired.
            WallTime(0),
            Fragments::merge(&tombstones),
        );
        let mut streams: Vec<Box<dyn Stream + Send>> = Vec::new();
        for run in into_runs(sources) {
            let run = Box::new(RunStream::new(run, Arc::clone(&losses))?);
            streams.push(Box::new(InlineStream::new(run, &evidence.values, &losses)?));
        }
        let mut merged = Distinct::new(MergingStream::new(streams));
        let mut retained = Retained::new(&mut merged, &rules)?;
        let (slice, surviving) = (KeyRange::all(), rules.surviving_tombstones());
        let shape = self.target.shape.clone();
        let mut outputs = self.target.outputs(&shape, &slice, &surviving);
        let mut count = 0u32;
        while let Some(entry) = retained.entry() {
            outputs.add(&entry)?;
            retained.advance()?;
            count = count.wrapping_add(1);
            if count.is_multiple_of(4096) && !(self.progress)(self.done_bytes, self.total_bytes) {
                return Err(Error::Cancelled);
            }
        }
        let tables = outputs.finish()?;
        self.report.losses.append(&mut losses.lock());
        Ok(tables)
    }

    /// The tables to be merged, opened.
    fn sources(
        &mut self,
        evidence: &Evidence,
        losses: &Losses,
        tombstones: &mut Vec<Fragments>,
    ) -> Result<Vec<RepairInput>> {
        let mut sources = Vec::new();
        for (id, bytes) in self.listing.tables.clone() {
            self.advance(bytes)?;
            if evidence.removed.contains(&id) {
                continue;
            }
            let parts = match evidence.live(id) {
                Live::Everywhere => None,
                Live::Within(parts) => Some(parts),
                Live::Nowhere => continue,
            };
            let location = LocalTableStore::location_of(id);
            let file = evidence.context.opener.store.open(&location)?;
            let meta = evidence.metas.get(&id);
            let survey = TableSurvey::open(file, meta.map(|meta| meta.uid))?;
            let known = meta.map(|meta| meta.bounds.clone());
            let by_itself = survey.properties.as_ref().map(|properties| properties.bounds());
            let span = known.or(by_itself).unwrap_or_else(KeyRange::all);
            tombstones.push(tombstones_of(&survey, meta, &span, losses));
            match survey.damage.is_empty() {
                true => self.report.whole_table_count += 1,
                false => self.report.rewritten_table_count += 1,
            }
            self.report.losses.push(Loss {
                kind: LossKind::MayReappear,
                keys: span.clone(),
                numbers: None,
                file: self.source.join(format!("{id}.table")),
                offset: 0,
                why: "without a manifest nobody knows whether the table still counted".into(),
            });
            let content = Content::Table(Arc::new(survey), meta.cloned().map(Box::new));
            sources.push(RepairInput { content, span, parts });
        }
        for (id, meta) in &evidence.metas {
            let is_gone = !meta.is_in_pages() && self.listing.table_bytes(*id).is_none();
            if is_gone && !evidence.removed.contains(id) {
                self.report.lost_table_count += 1;
                let file = self.source.join(format!("{id}.table"));
                let lost = losses_of(&meta.span(), Some(meta), file, 0, "the table is missing");
                self.report.losses.extend(lost);
            }
        }
        Ok(sources)
    }
}

/// Divides tables into as few runs as their overlaps allow, so that few are open at a time.
fn into_runs(mut sources: Vec<RepairInput>) -> Vec<Vec<RepairInput>> {
    sources.sort_by(|a, b| a.span.start().cmp(b.span.start()));
    let mut runs: Vec<Vec<RepairInput>> = Vec::new();
    for source in sources {
        let fits = |run: &&mut Vec<RepairInput>| {
            run.last().is_some_and(|last| last.span.is_before(source.span.start()))
        };
        match runs.iter_mut().find(fits) {
            Some(run) => run.push(source),
            None => runs.push(vec![source]),
        }
    }
    runs
}

/// The entries of tables that lie one behind the other.
struct RunStream {
    waiting: std::vec::IntoIter<RepairInput>,
    current: Option<Box<dyn Stream + Send>>,
    /// Where the current one counts, if not everywhere.
    parts: Option<Arc<[KeyRange]>>,
    losses: Losses,
}

impl RunStream {
    fn new(run: Vec<RepairInput>, losses: Losses) -> Result<RunStream> {
        let mut stream = RunStream { waiting: run.into_iter(), current: None, parts: None, losses };
        stream.settle()?;
        Ok(stream)
    }

    fn settle(&mut self) -> Result<()> {
        loop {
            while self.is_consumed()
                && let Some(current) = &mut self.current
            {
                current.advance()?;
            }
            if self.entry().is_some() {
                return Ok(());
            }
            let Some(next) = self.waiting.next() else {
                self.current = None;
                return Ok(());
            };
            let losses = Arc::clone(&self.losses);
            self.parts = next.parts;
            self.current = Some(next.content.stream(losses)?);
        }
    }

    /// Whether it stands on an entry that does not count any more.
    fn is_consumed(&self) -> bool {
        let (Some(parts), Some(entry)) = (&self.parts, self.entry()) else { return false };
        !parts.iter().any(|part| part.contains(entry.key))
    }
}

impl Stream for RunStream {
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.current.as_ref()?.entry()
    }

    fn advance(&mut self) -> Result<()> {
        if let Some(current) = &mut self.current {
            current.advance()?;
        }
        self.settle()
    }
}

/// Leaves out what another table or the log holds too.
struct Distinct<'a> {
    input: MergingStream<'a>,
    last: Option<(Vec<u8>, SeqNo)>,
}

impl<'a> Distinct<'a> {
    fn new(input: MergingStream<'a>) -> Distinct<'a> {
        let mut distinct = Distinct { input, last: None };
        distinct.remember();
        distinct
    }

    fn remember(&mut self) {
        self.last = self.input.entry().map(|entry| (entry.key.to_vec(), entry.seqno));
    }
}

impl Stream for Distinct<'_> {
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.input.entry()
    }

    fn advance(&mut self) -> Result<()> {
        loop {
            self.input.advance()?;
            let is_same = match (self.input.entry(), &self.last) {
                (Some(entry), Some((key, seqno))) => {
                    entry.key == key.as_slice() && entry.seqno == *seqno
                }
                _ => false,
            };
            if !is_same {
                self.remember();
                return Ok(());
            }
        }
    }
}
