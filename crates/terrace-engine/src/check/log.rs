//! The log.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Epoch, LogPosition, MemtableId, SeqNo};

use super::{Check, Severity};
use crate::survey::{Gap, Piece, Pieces, SegmentSurvey, chain};
use crate::version::Version;
use crate::wal::LogFacts;
use crate::wal::format::{
    BatchBody, ClosingBody, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use crate::{Error, Result, read_ends, read_file};
use terrace_base::limits::is_beyond_bounds;

/// What a check knows of the log.
#[derive(Debug, Default)]
pub(super) struct LogState {
    /// The closing record, if the log ends with one.
    pub closing: Option<ClosingBody>,
    /// Whether the range was closed cleanly, if that is known.
    pub was_closed: Option<bool>,
}

/// What of the log a replay passes over.
#[derive(Debug)]
struct ReplayBounds {
    /// Everything below is settled.
    start: LogPosition,
    /// Memtables whose entries are in tables.
    flushed: BTreeMap<MemtableId, LogPosition>,
}

/// A walk along the chain of segments.
#[derive(Debug, Default)]
struct Walk {
    /// Where the log ends: behind its last good record.
    end: LogPosition,
    /// The segment and the offset of that place.
    end_at: Option<(PathBuf, u64)>,
    /// The log is known to have been durable below this position.
    durable: LogPosition,
    last_seqno: SeqNo,
    /// Whether the manifest says that the log was closed.
    is_closed: bool,
    /// What is settled, if there is a version.
    version: Option<Arc<ReplayBounds>>,
    closing: Option<ClosingBody>,
    /// The epoch of the version, if there is one.
    epoch: Option<Epoch>,
    /// The segment with which the log starts, by the manifest.
    start: Option<terrace_base::FileId>,
    /// Where something is missing with good records behind it, and at which position.
    holes: Vec<(PathBuf, Gap, LogPosition)>,
    /// Damaged headers of begun segments: file, offset, what, base.
    headers: Vec<(PathBuf, u64, String, LogPosition, bool)>,
}

impl Check<'_> {
    pub(super) fn log(&mut self, version: Option<&Version>) -> Result<LogState> {
        let surveys = self.survey_segments(version.map(|version| version.database()))?;
        let Some(version) = version else {
            return self.log_alone(&surveys);
        };
        let facts = version.log_facts();
        let bounds =
            ReplayBounds { start: facts.start.position, flushed: version.flushed().clone() };
        let version_bounds = Some(Arc::new(bounds));
        let mut walk = Walk { durable: facts.durable, version: version_bounds, ..Walk::default() };
        walk.is_closed = version.closed().is_some();
        walk.epoch = Some(version.epoch());
        walk.start = facts.start.segment;
        let chain = match facts.start.segment {
            Some(first) => chain(&surveys, first),
            None => Vec::new(),
        };
        match facts.start.segment {
            Some(first) if chain.is_empty() => {
                let path = self.segment_path(first);
                let text = "the segment with which the log begins is missing or has no header";
                self.damage(&path, 0, text);
            }
            _ => {}
        }
        for (index, segment) in chain.iter().enumerate() {
            let successor = chain.get(index + 1).and_then(|next| next.header());
            self.walk_segment(segment, successor.map(|header| header.base), &mut walk)?;
        }
        self.report.segment_count = chain.len() as u64;
        self.judge_newest_epoch(version, &chain);
        let unreached = self.look_elsewhere(&surveys, &chain, &facts, &mut walk)?;
        self.judge_walk(&walk, unreached);
        let closed = version.closed();
        if let Some(closed) = closed.filter(|closed| *closed < walk.end) {
            let (path, offset) = walk.end_at.clone().unwrap_or_default();
            let text = format!(
                "the log goes on to position {}, but the manifest says that it was closed at \
                 {closed}: the manifest is an old one",
                walk.end
            );
            self.damage(&path, offset, text);
        }
        let was_closed = Some(closed == Some(walk.end));
        Ok(LogState { closing: walk.closing, was_closed })
    }

    /// An open begins a segment of its epoch durably, after its manifest and before any edit of it.
    fn judge_newest_epoch(&mut self, version: &Version, chain: &[&SegmentSurvey]) {
        let is_begun = chain.iter().any(|segment| segment.id.epoch == version.epoch());
        if is_begun || has_no_log(version) {
            return;
        }
        let path = self.dir.to_path_buf();
        let epoch = version.epoch();
        if self.report.edit_count > 1 {
            let text = format!(
                "the log has no segment of epoch {epoch}, but the manifest goes on in it: the \
                 segment is missing or has no header"
            );
            self.damage(&path, 0, text);
        } else {
            let text = format!(
                "the log has no segment of epoch {epoch}: a crash interrupted the last open, or the \
                 segment is missing"
            );
            self.find(Severity::Undecidable, &path, 0, text);
        }
    }

    fn segment_path(&self, id: terrace_base::FileId) -> PathBuf {
        self.listing.segment_path(self.dir, id)
    }

    /// The headers of all segment files.
    fn survey_segments(&mut self, database: Option<u128>) -> Result<Vec<SegmentSurvey>> {
        let mut surveys = Vec::new();
        for (id, _) in self.listing.segments.clone() {
            let path = self.segment_path(id);
            let (bytes, first, last) =
                read_ends(self.env.as_ref(), &path, SEGMENT_HEADER_BYTES as usize)?;
            let survey = SegmentSurvey::read(id, bytes, &first, &last);
            if survey.is_unsupported() {
                return Err(Error::Unsupported(format!(
                    "{} was written by a later version of Terrace; check it with that version",
                    path.display()
                )));
            }
            // A file that is used again gets a greater id, never a lesser one.
            let other = survey.own_header().filter(|header| header.file_id > id);
            if let Some(other) = other.filter(|other| database == Some(other.database)) {
                let text = format!("this is log segment {}, under another name", other.file_id);
                self.damage(&path, 0, text);
            }
            match survey.header() {
                Some(header) if database.is_some_and(|database| header.database != database) => {
                    self.damage(&path, 72, "the segment belongs to another database");
                }
                Some(header) if header.segment_bytes != bytes => {
                    let text = format!("{bytes} bytes instead of {}", header.segment_bytes);
                    self.damage(&path, bytes.min(header.segment_bytes), text);
                    surveys.push(survey);
                }
                _ => surveys.push(survey),
            }
        }
        Ok(surveys)
    }

    /// Reads one segment of the chain, up to where its successor begins.
    fn walk_segment(
        &mut self,
        segment: &SegmentSurvey,
        successor: Option<LogPosition>,
        walk: &mut Walk,
    ) -> Result<()> {
        let Some(header) = segment.header() else { return Ok(()) };
        let path = self.segment_path(segment.id);
        let bytes = read_file(self.env.as_ref(), &path)?;
        self.advance(bytes.len() as u64);
        walk.durable = walk.durable.max(header.durable_below());
        let mut offsets = segment.record_offsets();
        if let Some(end) = successor {
            let length = end.0.checked_sub(header.base.0);
            match length.map(|length| offsets.start + length) {
                Some(end) if end <= offsets.end => offsets.end = end,
                _ => self.damage(&path, 64, "the segment does not reach to where the next begins"),
            }
        }
        let position = |offset: u64| LogPosition(header.base.0 + (offset - SEGMENT_HEADER_BYTES));
        walk.end = header.base;
        walk.end_at = Some((path.clone(), offsets.start));
        let before = self.report.record_count;
        for piece in Pieces::new(&bytes, header.identity, offsets.clone()) {
            match piece {
                Piece::Record { offset, header, body } => {
                    self.record(&path, offset, &header, body, walk);
                    self.count_replayed(position(offset), &header, body, walk);
                    let end = offset + header.padded_bytes();
                    walk.end = position(end);
                    walk.end_at = Some((path.clone(), end));
                }
                // Behind the last record of the last segment nothing need stand.
                Piece::Gap(gap) if gap.end == offsets.end && successor.is_none() => {}
                Piece::Gap(gap) => {
                    let at = position(gap.offset);
                    walk.holes.push((path.clone(), gap, at));
                    walk.end = position(offsets.end.min(bytes.len() as u64));
                }
            }
        }
        let has_records = self.report.record_count > before;
        self.note_headers(segment, has_records, walk);
        Ok(())
    }

    /// The first record of an epoch, and the first edit of its manifest beside the snapshot, come
    /// after its segment was begun durably, and so does the edit that says where the log starts.
    /// Until then a crash may tear a header.
    fn note_headers(&self, segment: &SegmentSurvey, has_records: bool, walk: &mut Walk) {
        let Some(header) = segment.header() else { return };
        let path = self.segment_path(segment.id);
        let begins = segment.begins_an_epoch() || header.predecessor.is_none();
        let goes_on = self.report.edit_count > 1 && walk.epoch == Some(segment.id.epoch);
        // Copies come before the headers that say so.
        let own = header.base.max(header.durable);
        let has_own = has_records && walk.end > own;
        let is_synced = begins && (has_own || goes_on) || walk.start == Some(segment.id);
        for (offset, what) in segment.damaged_headers() {
            walk.headers.push((path.clone(), offset, what, own, is_synced));
        }
    }

    /// Counts the entries of a record that an open would replay.
    fn count_replayed(
        &mut self,
        position: LogPosition,
        header: &RecordHeader,
        body: &[u8],
        walk: &Walk,
    ) {
        let Some(bounds) = &walk.version else { return };
        if header.kind != RecordKind::Batch || position < bounds.start {
            return;
        }
        let Ok(batch) = BatchBody::decode(header, body) else { return };
        let entries = batch.entries().filter_map(|entry| entry.ok());
        let needed = entries.filter(|(memtable, _)| !bounds.flushed.contains_key(memtable));
        self.report.replay_entry_count += needed.count() as u64;
    }

    /// Judges one good record: what it holds decodes, and its numbers go up.
    fn record(
        &mut self,
        path: &Path,
        offset: u64,
        header: &RecordHeader,
        body: &[u8],
        walk: &mut Walk,
    ) {
        self.report.record_count += 1;
        walk.durable = walk.durable.max(header.durable);
        walk.closing = None;
        match header.kind {
            RecordKind::Closing => match ClosingBody::decode(body) {
                Ok(closing) => walk.closing = Some(closing),
                Err(error) => self.damage(path, offset, error.what),
            },
            RecordKind::Batch => {
                if let Err(text) = judge_batch(header, body) {
                    self.damage(path, offset, text);
                }
                if header.first_seqno <= walk.last_seqno {
                    let text = format!(
                        "number {} stands behind number {}",
                        header.first_seqno, walk.last_seqno
                    );
                    self.damage(path, offset, text);
                }
                let count = u64::from(header.seqno_count.max(1));
                walk.last_seqno = SeqNo(header.first_seqno.0.saturating_add(count - 1));
            }
        }
    }

    /// Segments that the chain does not reach: whether they are older, or prepared, or say that
    /// something is missing. Returns how many records stand in those behind its end.
    fn look_elsewhere(
        &mut self,
        surveys: &[SegmentSurvey],
        chain: &[&SegmentSurvey],
        facts: &LogFacts,
        walk: &mut Walk,
    ) -> Result<u64> {
        let last = chain.last().map(|segment| segment.id);
        let first = facts.start.segment;
        let mut unreached = 0;
        for segment in surveys.iter().filter(|one| !chain.iter().any(|link| link.id == one.id)) {
            let path = self.segment_path(segment.id);
            self.advance(segment.bytes);
            let Some(header) = segment.header() else {
                let records = self.orphaned_records(segment, walk)?;
                if records > 0 && last.is_none_or(|last| segment.id > last) {
                    let text = format!(
                        "a segment without a good header; {records} records stand in it: torn by a \
                         crash or damaged"
                    );
                    self.find(Severity::Undecidable, &path, 0, text);
                } else {
                    let text = "a log segment that was prepared and never begun";
                    self.find(Severity::Harmless, &path, 0, text);
                }
                continue;
            };
            if first.is_some_and(|first| segment.id < first) {
                self.find(Severity::Harmless, &path, 0, "a log segment that is needed no more");
                continue;
            }
            if last.is_none_or(|last| segment.id > last) {
                walk.durable = walk.durable.max(header.durable_below());
                let records = self.records_in(segment, header, walk)?;
                unreached += records;
                if facts.start.segment.is_none() && records > 0 {
                    let text =
                        "the log holds records, but the manifest does not say where it begins";
                    self.damage(&path, SEGMENT_HEADER_BYTES, text);
                    continue;
                }
            }
            let text = "a log segment that was cut off with a torn tail";
            self.find(Severity::Harmless, &path, 0, text);
        }
        Ok(unreached)
    }

    /// How many records a segment without a good header of its own holds: they pass their checksums
    /// if what stands in the place of an identity is whole. What they say of the log counts.
    fn orphaned_records(&self, segment: &SegmentSurvey, walk: &mut Walk) -> Result<u64> {
        if segment.headers.iter().all(|header| header.is_ok()) {
            // A former use of the file.
            return Ok(0);
        }
        let bytes = read_file(self.env.as_ref(), &self.segment_path(segment.id))?;
        let second = SegmentHeader::second_offset(segment.bytes) as usize;
        let mut count = 0;
        for (offset, header) in [0, second].into_iter().zip(&segment.headers) {
            if header.is_ok() {
                continue;
            }
            let identity = SegmentHeader::identity_in(bytes.get(offset..).unwrap_or_default());
            for piece in Pieces::new(&bytes, identity, segment.record_offsets()) {
                if let Piece::Record { header, .. } = piece {
                    walk.durable = walk.durable.max(header.durable);
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    /// How many records a segment beside the chain holds; what they say counts.
    fn records_in(
        &self,
        segment: &SegmentSurvey,
        header: &SegmentHeader,
        walk: &mut Walk,
    ) -> Result<u64> {
        let bytes = read_file(self.env.as_ref(), &self.segment_path(segment.id))?;
        let mut count = 0;
        for piece in Pieces::new(&bytes, header.identity, segment.record_offsets()) {
            if let Piece::Record { header, .. } = piece {
                walk.durable = walk.durable.max(header.durable);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Now that it is known how far the log was durable: what is damage, and what may be a torn
    /// tail?
    fn judge_walk(&mut self, walk: &Walk, unreached: u64) {
        let durable = walk.durable;
        for (path, gap, position) in &walk.holes {
            let what = &gap.what;
            if *position < durable {
                let text = format!("{what}; the log was durable up to position {durable}");
                self.damage(path, gap.offset, text);
            } else {
                let text = format!(
                    "{what}; torn by a crash or damaged, above the last position ({durable}) that \
                     is known to have been durable"
                );
                self.find(Severity::Undecidable, path, gap.offset, text);
            }
        }
        for (path, offset, what, base, is_synced) in &walk.headers {
            let severity = if *is_synced || *base < durable {
                Severity::Damage
            } else {
                Severity::Undecidable
            };
            let text = format!("one of the two headers of the segment is not its own: {what}");
            self.find(severity, path, *offset, text);
        }
        let Some((path, offset)) = &walk.end_at else { return };
        if durable > walk.end {
            let text = format!(
                "no valid record here, but the log was durable up to position {durable} (this is \
                 {})",
                walk.end
            );
            self.damage(path, *offset, text);
        } else if unreached > 0 {
            let text = format!(
                "the log ends here; {unreached} records in later segments cannot be reached: torn \
                 by a crash or damaged"
            );
            self.find(Severity::Undecidable, path, *offset, text);
        }
        if !walk.is_closed {
            let text = format!(
                "the log was not closed; above position {durable} a torn record cannot be told \
                 from a damaged one"
            );
            self.find(Severity::Undecidable, path, *offset, text);
        }
    }

    /// Without a manifest: each segment by itself.
    fn log_alone(&mut self, surveys: &[SegmentSurvey]) -> Result<LogState> {
        let mut walk = Walk::default();
        for segment in surveys {
            let path = self.segment_path(segment.id);
            let Some(header) = segment.header() else {
                let text = "a log segment that was prepared and never begun, or has no header";
                self.find(Severity::Undecidable, &path, 0, text);
                continue;
            };
            self.report.segment_count += 1;
            let successor = surveys
                .iter()
                .filter_map(SegmentSurvey::header)
                .filter(|next| next.predecessor == Some(segment.id))
                .max_by_key(|next| next.file_id);
            let end = successor.map(|next| next.base).filter(|end| *end >= header.base);
            walk.last_seqno = SeqNo::ZERO;
            self.walk_segment(segment, end, &mut walk)?;
        }
        walk.end = walk.durable;
        walk.end_at = None;
        self.judge_walk(&walk, 0);
        Ok(LogState { closing: walk.closing, was_closed: None })
    }
}

/// Whether no log has begun: a new range that a crash interrupted, or one fresh from a repair.
fn has_no_log(version: &Version) -> bool {
    version.log_start().segment.is_none()
}

/// What is wrong with the body of a batch.
fn judge_batch(header: &RecordHeader, body: &[u8]) -> std::result::Result<(), String> {
    let batch = BatchBody::decode(header, body).map_err(|error| error.to_string())?;
    let mut count = 0u16;
    for entry in batch.entries() {
        let (_, entry) = entry.map_err(|error| error.to_string())?;
        if is_beyond_bounds(&entry) {
            return Err("an entry beyond the bounds that hold for all writes".to_string());
        }
        count = count.wrapping_add(1);
    }
    if count != header.entry_count {
        return Err(format!("{count} entries instead of {}", header.entry_count));
    }
    Ok(())
}
