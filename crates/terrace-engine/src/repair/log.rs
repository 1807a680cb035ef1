//! The log: every record that can be read becomes a row.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{EntryRef, Epoch, FileId, KeyRange, LogPosition, MemtableId, SeqNo};

use super::Repair;
use super::evidence::Evidence;
use super::report::{Loss, LossKind};
use crate::iter::Stream;
use crate::memtable::Memtable;
use crate::placement::Role;
use crate::survey::{Piece, Pieces, SegmentSurvey};
use crate::version::{TableMeta, Version};
use crate::wal::format::{
    BatchBody, ClosingBody, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use crate::{Result, read_file};
use terrace_base::limits::is_beyond_bounds;

/// What was salvaged from a log.
#[derive(Debug, Default)]
pub(super) struct SalvagedLog {
    /// Rows, oldest first.
    pub rows: Vec<Vec<TableMeta>>,
    /// The greatest number in it.
    pub greatest_seqno: SeqNo,
}

/// A walk over the segments.
struct LogWalk<'a> {
    evidence: &'a Evidence,
    version: Option<&'a Version>,
    settled: LogPosition,
    memtable: Arc<Memtable>,
    out: SalvagedLog,
    /// The last number of the last record.
    last_seqno: Option<SeqNo>,
    /// Where something is missing; its numbers show with the next record.
    missing: Option<Missing>,
    /// Where the last record ends.
    end: LogPosition,
    /// The log was durable below.
    durable: LogPosition,
    /// The epoch that the last record closed, if it is a closing record.
    closed: Option<Epoch>,
    /// What proves that a part of the last segment is gone.
    lost_part: Option<Missing>,
}

/// A place where records are missing.
struct Missing {
    file: PathBuf,
    offset: u64,
    /// The position from which on records are missing; 0 for a whole segment, which no crash takes
    /// away.
    position: LogPosition,
    why: String,
}

impl Missing {
    fn new(file: &Path, offset: u64, position: LogPosition, why: &str) -> Missing {
        Missing { file: file.to_path_buf(), offset, position, why: why.to_string() }
    }
}

impl Repair<'_> {
    /// Salvages the records that the version needs, or all of them if there is none.
    pub(super) fn salvage_log(
        &mut self,
        version: Option<&Version>,
        evidence: &Evidence,
    ) -> Result<SalvagedLog> {
        let first = version.and_then(|version| version.log_start().segment);
        let chain = live_segments(evidence, first);
        let facts = version.map(Version::log_facts);
        let facts = facts.as_ref();
        let mut walk = LogWalk {
            evidence,
            version,
            settled: facts
                .map_or(evidence.settled, |facts| facts.start.position.max(facts.settled)),
            memtable: self.memtable(self.options.memtable_bytes),
            out: SalvagedLog::default(),
            last_seqno: None,
            missing: None,
            end: LogPosition(0),
            durable: facts.map_or(evidence.durable, |facts| facts.durable),
            closed: None,
            lost_part: None,
        };
        let first = first.or(evidence.log_segment);
        let mut lost = first.filter(|first| !chain.iter().any(|(id, _)| id == first));
        let (source, listing) = (self.source, self.listing.clone());
        let note_lost = |lost: Option<FileId>, walk: &mut LogWalk<'_>| {
            let Some(lost) = lost else { return };
            let path = listing.segment_path(source, lost);
            let why = "the segment is missing or has no header";
            walk.note_missing(&path, 0, LogPosition(0), why);
        };
        let mut before: Option<LogPosition> = None;
        for (index, (id, segment)) in chain.iter().enumerate() {
            let successor = chain.get(index + 1).and_then(|(_, next)| next.own_header());
            let Some(header) = segment.own_header() else { continue };
            if lost.is_some_and(|lost| lost < *id) {
                note_lost(lost.take(), &mut walk);
            }
            if before.is_some_and(|end| end < header.base) {
                let path = listing.segment_path(self.source, segment.id);
                walk.note_missing(&path, 0, LogPosition(0), "the segment before it is missing");
            }
            self.walk_segment(segment, header, successor.map(|next| next.base), &mut walk)?;
            before = successor.map(|next| next.base);
        }
        note_lost(lost, &mut walk);
        // A stranger's manifest names a stranger's directory.
        let is_own = |dir: &Path| {
            evidence.database.is_none_or(|database| Role::Segments.is_of(dir, database))
        };
        for missing in listing.missing_log.iter().filter(|dir| is_own(dir)) {
            walk.note_missing(missing, 0, LogPosition(0), &Role::Segments.missing_text());
        }
        self.end_walk(&mut walk);
        self.write_row(&mut walk, None)?;
        Ok(walk.out)
    }

    fn memtable(&self, arena_bytes: usize) -> Arc<Memtable> {
        let id = self.target.next_id();
        Arc::new(Memtable::new(MemtableId { epoch: id.epoch, counter: id.counter }, arena_bytes))
    }

    fn walk_segment(
        &mut self,
        segment: &SegmentSurvey,
        header: &SegmentHeader,
        successor: Option<LogPosition>,
        walk: &mut LogWalk<'_>,
    ) -> Result<()> {
        let path = self.listing.segment_path(self.source, segment.id);
        let bytes = read_file(self.env.as_ref(), &path)?;
        self.advance(bytes.len() as u64)?;
        walk.end = walk.end.max(header.base);
        let mut offsets = segment.record_offsets();
        let mut is_cut = false;
        if let Some(end) = successor {
            let length = end.0.saturating_sub(header.base.0);
            let end = offsets.start.saturating_add(length);
            is_cut = end > offsets.end;
            offsets.end = offsets.end.min(end);
        }
        walk.durable = walk.durable.max(header.durable_below());
        for piece in Pieces::new(&bytes, header.identity, offsets.clone()) {
            match piece {
                Piece::Gap(gap) if gap.end == offsets.end && successor.is_none() => {}
                Piece::Gap(gap) => {
                    let end = LogPosition(header.base.0 + (gap.end - SEGMENT_HEADER_BYTES));
                    if end <= walk.settled {
                        // All of it is in tables; what number comes next is unknown.
                        walk.last_seqno = None;
                    } else {
                        let at = header.base.0 + (gap.offset - SEGMENT_HEADER_BYTES);
                        walk.note_missing(&path, gap.offset, LogPosition(at), &gap.what);
                    }
                }
                Piece::Record { offset, header: record, body } => {
                    let at = LogPosition(header.base.0 + (offset - SEGMENT_HEADER_BYTES));
                    self.take_record(&path, offset, at, &record, body, walk)?;
                }
            }
        }
        if successor.is_none() && walk.closed.is_none() {
            let begins = header.predecessor.is_none_or(|before| before.epoch < segment.id.epoch);
            // In doubt, with the manifest of a later time, it was.
            let own = header.base.max(header.durable);
            let has_gone_on = walk.version.is_some() || walk.end > own;
            let is_synced = own < walk.durable || (begins && has_gone_on);
            let lost = segment.lost_part(is_synced);
            walk.lost_part = lost.map(|(at, what)| Missing::new(&path, at, walk.end, &what));
        }
        if is_cut {
            let at = LogPosition(header.base.0 + (offsets.end - SEGMENT_HEADER_BYTES));
            walk.note_missing(&path, offsets.end, at, "the segment is cut short");
        }
        Ok(())
    }

    fn take_record(
        &mut self,
        path: &Path,
        offset: u64,
        position: LogPosition,
        header: &RecordHeader,
        body: &[u8],
        walk: &mut LogWalk<'_>,
    ) -> Result<()> {
        walk.end = LogPosition(position.0 + header.padded_bytes());
        walk.durable = walk.durable.max(header.durable);
        walk.closed = None;
        if header.kind == RecordKind::Closing {
            walk.closed = ClosingBody::decode(body).ok().map(|closing| closing.manifest.epoch);
            return Ok(());
        }
        let count = u64::from(header.seqno_count.max(1));
        let last = SeqNo(header.first_seqno.0.saturating_add(count - 1));
        if position >= walk.settled {
            self.judge_numbers(header.first_seqno, walk);
            let decoded = decode_batch(header, body);
            let Some(entries) = decoded else {
                let why = "a record that was written wrongly";
                let numbers = Some((header.first_seqno, last));
                self.lose_log(&Missing::new(path, offset, position, why), numbers);
                walk.last_seqno = Some(last);
                return Ok(());
            };
            for (memtable, entry) in entries {
                if !walk.is_flushed(memtable) {
                    self.insert(&entry, walk)?;
                }
            }
            self.report.record_count += 1;
            walk.out.greatest_seqno = walk.out.greatest_seqno.max(last);
        } else {
            // Everything here is in tables.
            walk.missing = None;
        }
        walk.last_seqno = Some(last);
        Ok(())
    }

    /// Compares the number of a record to that of the one before it: numbers have no gaps, so what
    /// is missing between the two shows.
    fn judge_numbers(&mut self, first: SeqNo, walk: &mut LogWalk<'_>) {
        let missing = walk.missing.take();
        if let (Some(missing), None) = (&missing, walk.last_seqno) {
            // Tables may hold greater numbers than the first records that are needed: flushes of
            // other memtables. So numbers prove nothing here.
            self.lose_log(missing, None);
            return;
        }
        let before = walk.last_seqno.or_else(|| {
            // The first record that is needed follows what tables hold, or overlaps it.
            walk.version.map(|version| version.greatest_seqno())
        });
        let Some(before) = before else { return };
        if first.0 > before.0.saturating_add(1) {
            let missing = missing.unwrap_or_else(|| {
                Missing::new(self.source, 0, LogPosition(0), "numbers are missing in the log")
            });
            self.lose_log(&missing, Some((before.next(), SeqNo(first.0 - 1))));
        }
    }

    /// What stands at the end of the log.
    fn end_walk(&mut self, walk: &mut LogWalk<'_>) {
        let missing = walk.missing.take();
        let is_short = walk.durable > walk.end;
        // With the record of a clean close behind it, a gap is below what was durable.
        let is_below = missing.as_ref().is_some_and(|missing| {
            missing.position < walk.durable.max(walk.settled) || missing.position == LogPosition(0)
        });
        // Without a manifest nobody knows whether it was a crash that ended the log.
        let newest = self.listing.newest_epoch();
        let is_closed = walk.closed.is_some_and(|epoch| epoch >= newest);
        let is_open_end = walk.version.is_none() && !is_closed;
        let lost_part = walk.lost_part.take();
        if is_short || is_below || is_open_end || lost_part.is_some() {
            let missing = missing.or(lost_part).unwrap_or_else(|| {
                if !is_short {
                    let why = format!(
                        "without a manifest nobody knows whether it went on behind position {}",
                        walk.end
                    );
                    return Missing::new(self.source, 0, walk.end, &why);
                }
                let why = format!(
                    "it can be read up to position {}, but was durable up to {}",
                    walk.end, walk.durable
                );
                Missing::new(self.source, 0, walk.end, &why)
            });
            self.lose_log(&missing, None);
        } else if let Some(Missing { file, offset, why, .. }) = missing {
            let text = format!(
                "{} at offset {offset}: {why}: torn by a crash or damaged; it was not known to be \
                 durable",
                file.display()
            );
            self.report.notes.push(text);
        }
        if walk.closed.is_none() {
            let text = format!(
                "the log was not closed: what stood above position {} is unknown",
                walk.end
            );
            self.report.notes.push(text);
        }
    }

    /// A lost part of the log may have touched any key.
    fn lose_log(&mut self, missing: &Missing, numbers: Option<(SeqNo, SeqNo)>) {
        for kind in [LossKind::Lost, LossKind::MayReappear] {
            self.report.losses.push(Loss {
                kind,
                keys: KeyRange::all(),
                numbers,
                file: missing.file.clone(),
                offset: missing.offset,
                why: format!("part of the log: {}", missing.why),
            });
        }
    }

    fn insert(&mut self, entry: &EntryRef<'_>, walk: &mut LogWalk<'_>) -> Result<()> {
        let bytes = Memtable::space_for(entry.key.len(), entry.value.len());
        if walk.memtable.reserve(bytes).is_none() {
            let arena_bytes = self.options.memtable_bytes.max(Memtable::arena_bytes_for(bytes));
            let fresh = self.memtable(arena_bytes);
            self.write_row(walk, Some(fresh))?;
        }
        if let Some(mut reservation) = walk.memtable.reserve(bytes) {
            walk.memtable.insert(&mut reservation, *entry);
            self.report.log_entry_count += 1;
        }
        Ok(())
    }

    /// Writes the memtable as a row, and goes on with `next`.
    fn write_row(&mut self, walk: &mut LogWalk<'_>, next: Option<Arc<Memtable>>) -> Result<()> {
        let memtable = &walk.memtable;
        if !memtable.is_empty() {
            let tombstones = memtable.range_tombstones();
            let shape = self.target.shape.clone();
            let slice = KeyRange::all();
            let mut outputs = self.target.outputs(&shape, &slice, &tombstones);
            let mut stream = memtable.stream();
            let mut last: Option<(Vec<u8>, SeqNo)> = None;
            while let Some(entry) = stream.entry() {
                // A damaged range may hold one record twice.
                let is_new = last.as_ref().is_none_or(|(key, seqno)| {
                    (key.as_slice(), *seqno) != (entry.key, entry.seqno)
                });
                if is_new {
                    outputs.add(&entry)?;
                    last = Some((entry.key.to_vec(), entry.seqno));
                }
                stream.advance()?;
            }
            let tables = outputs.finish()?;
            walk.out.rows.push(tables);
        }
        if let Some(next) = next {
            walk.memtable = next;
        }
        Ok(())
    }
}

impl LogWalk<'_> {
    fn note_missing(&mut self, path: &Path, offset: u64, position: LogPosition, why: &str) {
        if self.missing.is_none() {
            self.missing = Some(Missing::new(path, offset, position, why));
        }
    }

    fn is_flushed(&self, memtable: MemtableId) -> bool {
        match self.version {
            Some(version) => version.flushed().contains_key(&memtable),
            None => self.evidence.flushed.contains_key(&memtable),
        }
    }
}

fn decode_batch<'a>(
    header: &RecordHeader,
    body: &'a [u8],
) -> Option<Vec<(MemtableId, EntryRef<'a>)>> {
    let batch = BatchBody::decode(header, body).ok()?;
    let entries: Vec<_> = batch.entries().collect::<std::result::Result<_, _>>().ok()?;
    let is_sound = entries.len() as u16 == header.entry_count
        && !entries.iter().any(|(_, entry)| is_beyond_bounds(entry));
    is_sound.then_some(entries)
}

/// The segments that count, oldest first: from the youngest back, each the predecessor of the next;
/// where one is missing, on with the one before it. With `first`, only from there on.
fn live_segments(evidence: &Evidence, first: Option<FileId>) -> Vec<&(FileId, SegmentSurvey)> {
    let database = evidence.database;
    let counts = |segment: &SegmentSurvey| {
        let header = segment.own_header();
        header.is_some_and(|header| database.is_none_or(|known| known == header.database))
    };
    let all: Vec<_> = evidence.segments.iter().filter(|(_, segment)| counts(segment)).collect();
    let mut live = Vec::new();
    let mut current = all.last().copied();
    while let Some(segment) = current.filter(|(id, _)| first.is_none_or(|first| *id >= first)) {
        live.push(segment);
        let (id, survey) = segment;
        let header = survey.own_header();
        let before = header.and_then(|header| header.predecessor);
        let base = header.map_or(LogPosition(0), |header| header.base);
        current = before.and_then(|before| {
            let older = all.iter().rev().copied().filter(|(other, _)| other < id);
            let older = older.filter(|(other, _)| *other <= before);
            let fits = |survey: &SegmentSurvey| {
                survey.own_header().is_some_and(|header| header.base <= base)
            };
            older.into_iter().find(|(_, survey)| fits(survey))
        });
    }
    live.reverse();
    live
}
