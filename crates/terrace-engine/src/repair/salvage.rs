//! Tables: whole ones are copied, damaged ones are written anew from what can be read.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::{Entry, EntryRef, KeyRange, LevelNo, SeqNo, compare_internal};
use terrace_env::Latch;
use xxhash_rust::xxh3::Xxh3;

use super::evidence::Evidence;
use super::report::{Loss, LossKind};
use super::values::{InlineStream, SalvagedValues};
use super::{Repair, Target};
use crate::iter::Stream;
use crate::l0::triangle::row::RowReader;
use crate::range_tombstone::Fragments;
use crate::survey::{Gap, SurveyedBlock, TablePart, TableSurvey};
use crate::table::{ByteInterval, OutputTables, TableFile, TableShape, TableStore};
use crate::version::TableMeta;
use crate::{Error, Result};

/// Bytes that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// What became of a table.
pub(super) enum Salvaged {
    /// It was whole, and these hold what it held.
    Whole(Vec<TableMeta>),
    /// These are written from what was left.
    Partly(Vec<TableMeta>),
    /// Nothing was left.
    Lost,
}

/// Losses, noted from streams that are being merged.
pub(super) type Losses = Arc<Latch<Vec<Loss>>>;

impl Repair<'_> {
    /// Salvages a table of the version that the manifest comes to.
    pub(super) fn salvage_table(
        &mut self,
        meta: &TableMeta,
        evidence: &Evidence,
    ) -> Result<Salvaged> {
        if meta.is_in_pages() {
            return self.salvage_row(meta, evidence);
        }
        let Some(location) = evidence.location(meta, &self.listing)? else {
            let file = self.source.join(format!("{}.table", meta.id));
            let losses = losses_of(&meta.span(), Some(meta), file, 0, "the table is missing");
            self.report.losses.extend(losses);
            return Ok(Salvaged::Lost);
        };
        let file = evidence.context.opener.store.open(&location)?;
        if meta.named.is_empty()
            && let Some(copied) = copy_whole(self.target, file.as_ref(), meta)?
        {
            return Ok(Salvaged::Whole(vec![copied]));
        }
        let survey = TableSurvey::open(file, Some(meta.uid))?;
        for (part, gap) in survey.damage.iter().filter(|(part, _)| *part != TablePart::Data) {
            let (name, what) = (survey.file().name(), &gap.what);
            let name = name.display();
            self.report.notes.push(format!("{name}: {part} is damaged ({what}); made anew"));
        }
        let losses: Losses = Arc::default();
        let span = meta.span();
        let tombstones = tombstones_of(&survey, Some(meta), &span, &losses);
        let was_whole = survey.damage.is_empty();
        let stream = SalvageStream::new(Arc::new(survey), Some(meta), Arc::clone(&losses))?;
        let mut stream = InlineStream::new(Box::new(stream), &evidence.values, &losses)?;
        let shape = self.shape_for(meta);
        let mut outputs = self.target.outputs(&shape, &span, &tombstones);
        while let Some(entry) = stream.entry() {
            if span.contains(entry.key) {
                outputs.add(&entry)?;
            }
            stream.advance()?;
        }
        let tables = outputs.finish()?;
        let mut losses = losses.lock();
        let was_whole = was_whole && losses.is_empty();
        self.report.losses.append(&mut losses);
        Ok(match tables.is_empty() {
            _ if was_whole => Salvaged::Whole(tables),
            true => Salvaged::Lost,
            false => Salvaged::Partly(tables),
        })
    }

    /// How the tables are cut that hold what a table held: not at all, unless the values come in
    /// that it pointed to.
    fn shape_for(&self, meta: &TableMeta) -> TableShape {
        let shape = self.target.shape.clone();
        match meta.named.is_empty() {
            true => TableShape { table_bytes: u64::MAX, ..shape },
            false => shape,
        }
    }
}

impl Repair<'_> {
    /// Writes what is live of a row in pages as a table.
    fn salvage_row(&mut self, meta: &TableMeta, evidence: &Evidence) -> Result<Salvaged> {
        let (file, row) = match evidence.row(meta) {
            Ok(found) => found,
            Err(Error::Corruption(damage)) => {
                let losses =
                    losses_of(&meta.span(), Some(meta), damage.file, damage.offset, &damage.detail);
                self.report.losses.extend(losses);
                return Ok(Salvaged::Lost);
            }
            Err(error) => return Err(error),
        };
        let parts = evidence.live_parts(meta);
        let clipped: Vec<Fragments> =
            parts.iter().map(|part| row.range_tombstones().clip(part)).collect();
        let tombstones = Fragments::merge(&clipped);
        let shape = self.shape_for(meta);
        let losses: Losses = Arc::default();
        let all = KeyRange::all();
        let mut outputs = self.target.outputs(&shape, &all, &tombstones);
        for part in &parts {
            // What lies behind damage in this part is lost: where it goes on is not known.
            let mut from = part.start().to_vec();
            let copied =
                copy_entries(&row, part, &evidence.values, &losses, &mut outputs, &mut from);
            if let Err(Error::Corruption(damage)) = &copied {
                let rest = KeyRange::new(from, part.end().map(<[u8]>::to_vec));
                let why = &damage.detail;
                let losses = losses_of(&rest, Some(meta), file.clone(), damage.offset, why);
                self.report.losses.extend(losses);
            } else {
                copied?;
            }
        }
        let tables = outputs.finish()?;
        self.report.losses.append(&mut losses.lock());
        Ok(if tables.is_empty() { Salvaged::Lost } else { Salvaged::Partly(tables) })
    }
}

/// Copies the entries of a part of a row; `from` follows them, so that after an error it says where
/// the keys begin that may be missing.
fn copy_entries(
    row: &Arc<RowReader>,
    part: &KeyRange,
    values: &Arc<SalvagedValues>,
    losses: &Losses,
    outputs: &mut OutputTables<'_>,
    from: &mut Vec<u8>,
) -> Result<()> {
    let mut stream = InlineStream::new(Box::new(row.stream(part)?), values, losses)?;
    while let Some(entry) = stream.entry() {
        from.clear();
        from.extend_from_slice(entry.key);
        outputs.add(&entry)?;
        stream.advance()?;
    }
    Ok(())
}

/// Copies a table byte for byte if it is the one that `meta` describes; else nothing stays.
fn copy_whole(
    target: &Target<'_>,
    file: &dyn TableFile,
    meta: &TableMeta,
) -> Result<Option<TableMeta>> {
    if file.bytes() != meta.bytes {
        return Ok(None);
    }
    let id = target.next_id();
    let mut writer = target.store().create(id, LevelNo(0), meta.bytes)?;
    let mut hash = Xxh3::new();
    let mut offset = 0;
    while offset < meta.bytes {
        let bytes = (meta.bytes - offset).min(COPY_BYTES) as usize;
        let piece = match file.read(&[ByteInterval { offset, bytes }]).wait() {
            Ok(mut buffers) => buffers.pop().unwrap_or_default(),
            Err(Error::Corruption(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        hash.update(&piece);
        writer.append(&piece)?;
        offset += bytes as u64;
    }
    if hash.digest128() != meta.hash {
        return Ok(None);
    }
    let location = writer.finish()?;
    Ok(Some(TableMeta { id, location, shared: false, ..meta.clone() }))
}

/// The range tombstones of a table; if they are lost, everything that they may have covered may
/// show again.
pub(super) fn tombstones_of(
    survey: &TableSurvey,
    meta: Option<&TableMeta>,
    span: &KeyRange,
    losses: &Losses,
) -> Fragments {
    if let Some(tombstones) = &survey.range_tombstones {
        return tombstones.clip(span);
    }
    if meta.is_some_and(|meta| meta.range_tombstone_count == 0) {
        return Fragments::default();
    }
    let damaged = survey.damage.iter().find(|(part, _)| *part == TablePart::RangeTombstones);
    losses.lock().push(Loss {
        kind: LossKind::MayReappear,
        keys: span.clone(),
        numbers: None,
        file: survey.file().name(),
        offset: damaged.map_or(0, |(_, gap)| gap.offset),
        why: "range tombstones are lost".to_string(),
    });
    Fragments::default()
}

/// The losses that come with entries of these keys: values, and deletions if there may be some.
pub(super) fn losses_of(
    keys: &KeyRange,
    meta: Option<&TableMeta>,
    file: PathBuf,
    offset: u64,
    why: &str,
) -> Vec<Loss> {
    let has_deletions =
        meta.is_none_or(|meta| meta.tombstone_count + meta.range_tombstone_count > 0);
    let mut kinds = vec![LossKind::Lost];
    if has_deletions {
        kinds.push(LossKind::MayReappear);
    }
    let loss = |kind| Loss {
        kind,
        keys: keys.clone(),
        numbers: None,
        file: file.clone(),
        offset,
        why: why.to_string(),
    };
    kinds.into_iter().map(loss).collect()
}

/// A stretch of a table: a block that an index or a scan found, or what neither could read.
enum Stretch {
    Block(SurveyedBlock),
    Gap(Gap),
}

impl Stretch {
    fn offset(&self) -> u64 {
        match self {
            Stretch::Block(block) => block.handle.offset,
            Stretch::Gap(gap) => gap.offset,
        }
    }
}

/// Every entry of a table that can be read, in internal order. What cannot is noted as lost.
pub(super) struct SalvageStream {
    survey: Arc<TableSurvey>,
    meta: Option<TableMeta>,
    /// Where the table's keys lie.
    bounds: KeyRange,
    stretches: std::vec::IntoIter<Stretch>,
    entries: std::vec::IntoIter<Entry>,
    current: Option<Entry>,
    /// The last entry handed out, or about to be.
    last: Option<(Vec<u8>, SeqNo)>,
    /// A stretch that could not be read, and whose keys end where the next block begins.
    pending: Vec<(KeyRange, u64, String)>,
    losses: Losses,
}

impl SalvageStream {
    /// Stands on the first entry that can be read.
    pub fn new(
        survey: Arc<TableSurvey>,
        meta: Option<&TableMeta>,
        losses: Losses,
    ) -> Result<SalvageStream> {
        let by_itself = survey.properties.as_ref().map(|properties| properties.bounds());
        let bounds = meta.map(|meta| meta.bounds.clone()).or(by_itself);
        let blocks = survey.blocks.iter().cloned().map(Stretch::Block);
        let gaps = survey.damage.iter().filter(|(part, _)| *part == TablePart::Data);
        let mut stretches: Vec<_> =
            blocks.chain(gaps.map(|(_, gap)| Stretch::Gap(gap.clone()))).collect();
        stretches.sort_by_key(Stretch::offset);
        let is_lost = stretches.is_empty()
            && survey.properties.as_ref().is_none_or(|properties| properties.entry_count > 0)
            && meta.is_none_or(|meta| meta.entry_count > 0);
        let mut stream = SalvageStream {
            survey,
            meta: meta.cloned(),
            bounds: bounds.unwrap_or_else(KeyRange::all),
            stretches: stretches.into_iter(),
            entries: Vec::new().into_iter(),
            current: None,
            last: None,
            pending: Vec::new(),
            losses,
        };
        if is_lost {
            let why = stream.why_nothing();
            stream.pending.push((KeyRange::all(), 0, why));
        }
        stream.advance_any()?;
        Ok(stream)
    }

    fn why_nothing(&self) -> String {
        let first = self.survey.damage.first();
        first.map_or("no block can be found".to_string(), |(part, gap)| {
            format!("{part} is damaged ({}), and no block can be found", gap.what)
        })
    }

    fn advance_any(&mut self) -> Result<()> {
        loop {
            if let Some(entry) = self.entries.next() {
                self.current = Some(entry);
                return Ok(());
            }
            self.current = None;
            let Some(stretch) = self.stretches.next() else {
                self.settle(None);
                return Ok(());
            };
            match stretch {
                Stretch::Gap(gap) => self.pending.push((KeyRange::all(), gap.offset, gap.what)),
                Stretch::Block(block) => self.take_block(&block)?,
            }
        }
    }

    /// Takes the entries of a block, if it can be read and lies behind those before it.
    fn take_block(&mut self, block: &SurveyedBlock) -> Result<()> {
        let content = self.survey.block(block)?.and_then(|content| content.entries());
        let (first, entries) = match content {
            Ok(entries) => match (entries.first().map(|first| first.key.clone()), &self.last) {
                (Some(_), Some((key, seqno))) if !is_after(&entries[0], key, *seqno) => {
                    self.lose(block, "the block is out of order");
                    return Ok(());
                }
                (first, _) => (first, entries),
            },
            Err(error) => {
                self.lose(block, error.what);
                return Ok(());
            }
        };
        self.settle(first.as_deref());
        self.last = entries.last().map(|last| (last.key.clone(), last.seqno));
        self.entries = entries.into_iter();
        Ok(())
    }

    fn lose(&mut self, block: &SurveyedBlock, why: &str) {
        let keys = block.keys.clone().unwrap_or_else(KeyRange::all);
        self.pending.push((keys, block.handle.offset, why.to_string()));
    }

    /// Notes what could not be read before an entry of `next`, or before the end.
    fn settle(&mut self, next: Option<&[u8]>) {
        if self.pending.is_empty() {
            return;
        }
        let start = self.last.as_ref().map_or_else(Vec::new, |(key, _)| key.clone());
        // The versions of one key may lie on both sides.
        let end = next.map(|next| [next, &[0]].concat());
        let between = KeyRange::new(start, end).intersection(&self.bounds);
        let file = self.survey.file().name();
        for (keys, offset, why) in std::mem::take(&mut self.pending) {
            let keys = keys.intersection(&between);
            let losses = losses_of(&keys, self.meta.as_ref(), file.clone(), offset, &why);
            self.losses.lock().extend(losses);
        }
    }
}

fn is_after(entry: &Entry, key: &[u8], seqno: SeqNo) -> bool {
    compare_internal(key, seqno, &entry.key, entry.seqno).is_lt()
}

impl Stream for SalvageStream {
    fn entry(&self) -> Option<EntryRef<'_>> {
        let entry = self.current.as_ref().map(Entry::as_ref)?;
        // An ingested table bears no numbers of its own; see `TableProperties::is_unnumbered`.
        let number = self.meta.as_ref().map(|meta| meta.greatest_seqno);
        let seqno = number.filter(|_| entry.seqno == SeqNo::ZERO).unwrap_or(entry.seqno);
        Some(EntryRef { seqno, ..entry })
    }

    fn advance(&mut self) -> Result<()> {
        self.advance_any()
    }
}
