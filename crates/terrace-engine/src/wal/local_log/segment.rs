//! One file of the log, and how a record gets into it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{FileId, LogPosition};
use terrace_env::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_env::{LogFile, PlantedBug, is_planted};

use crate::Result;
use crate::wal::format::{RECORD_ALIGNMENT, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::wal::sink::{LogPlace, LogTarget, Record, is_mostly};

/// One segment that this log writes.
#[derive(Debug)]
pub(super) struct Segment {
    pub header: SegmentHeader,
    pub file: Arc<dyn LogFile>,
    pub path: PathBuf,
    /// Whether the headers are written.
    is_begun: AtomicBool,
    /// Whether they are durable by themselves, whatever was synced behind them: a replay may begin
    /// at the base. Only a flush changes this, before its edit: what the manifest names by it and
    /// what is released by it afterwards must be the same, so a sync in between leaves it alone.
    is_begun_durably: AtomicBool,
    /// Whether records are written by calls, since little is written between two syncs.
    is_called: AtomicBool,
    /// Whether it was taken out of this process's memory.
    is_let_go: AtomicBool,
    /// What the large values in its records would take in a value file.
    large_bytes: AtomicU64,
}

impl Segment {
    /// A segment of which nothing is written yet.
    pub fn new(header: SegmentHeader, file: Arc<dyn LogFile>, path: PathBuf) -> Segment {
        let (is_begun, is_begun_durably, is_called, is_let_go) = Default::default();
        let large_bytes = AtomicU64::new(0);
        Segment {
            header,
            file,
            path,
            is_begun,
            is_begun_durably,
            is_called,
            is_let_go,
            large_bytes,
        }
    }

    pub fn position(&self, offset: u64) -> LogPosition {
        LogPosition(self.header.base.0 + (offset - SEGMENT_HEADER_BYTES))
    }

    /// Up to where in the file it may hold records below `position`, which is above its base.
    pub fn offset_below(&self, position: LogPosition) -> u64 {
        let bytes = position.0 - self.header.base.0;
        self.records_end().min(SEGMENT_HEADER_BYTES + bytes)
    }

    /// What the large values in its records so far would take in a value file.
    pub fn large_bytes(&self) -> u64 {
        self.large_bytes.load(Ordering::Relaxed)
    }

    /// Where records end at the latest.
    pub fn records_end(&self) -> u64 {
        SegmentHeader::second_offset(self.header.segment_bytes)
    }

    pub fn is_begun(&self) -> bool {
        self.is_begun.load(Ordering::Acquire)
    }

    pub fn is_begun_durably(&self) -> bool {
        self.is_begun_durably.load(Ordering::Acquire)
    }

    /// Writes both headers, unless that is done. Called by whoever rotates the log, while
    /// nobody takes a place in it, or by the writer of the first record; never by two at once.
    pub fn begin(&self) -> Result<()> {
        if self.is_begun() {
            return Ok(());
        }
        for offset in [0, self.records_end()] {
            self.file.write_at(offset, &self.header.encode(offset))?;
        }
        self.is_begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes both headers, which are written, durable.
    pub fn sync_headers(&self) -> Result<()> {
        if !self.is_begun_durably() {
            self.file.sync_range(0, SEGMENT_HEADER_BYTES)?;
            // One that was cut early has its second header before, and durably.
            if self.file.bytes() >= self.header.segment_bytes {
                self.file.sync_range(self.records_end(), SEGMENT_HEADER_BYTES)?;
            }
            self.note_begun_durably();
        }
        Ok(())
    }

    /// Whoever began the segment has synced all of the file.
    pub fn note_begun_durably(&self) {
        self.is_begun_durably.store(true, Ordering::Release);
    }

    /// Whether a replay that needs nothing below `from` may begin with this segment: whatever is
    /// durable behind its headers makes them so.
    pub fn may_begin_at(&self, from: LogPosition) -> bool {
        let base = self.header.base;
        let is_durable = self.is_begun_durably() || is_planted(PlantedBug::ReleaseAtLooseHeader);
        base < from || base == from && is_durable
    }

    /// Says whether records are written by calls from now on.
    pub fn write_by_calls(&self, is_called: bool) {
        if self.is_called.load(Ordering::Relaxed) != is_called {
            self.is_called.store(is_called, Ordering::Relaxed);
        }
    }

    /// Writers have gone on to another segment; the records of this one end at `end`. What is
    /// likely to stay as a value file begins to be written to the disk, so that the flush that
    /// names it need not wait for all of it.
    pub fn let_go(&self, end: LogPosition, is_staying: bool) {
        if self.is_let_go.swap(true, Ordering::Relaxed) {
            return;
        }
        self.file.let_go(u64::MAX);
        if is_staying && is_mostly(self.large_bytes(), end.0 - self.header.base.0) {
            self.file.begin_write_back(self.offset_below(end));
        }
    }

    /// Writes a second header behind the last record, which ends at `offset`: with it the segment
    /// is whole also if it is [cut](Segment::cut) there. False if that would give nothing back.
    pub fn end_at(&self, offset: u64) -> Result<bool> {
        if !self.can_end_at(offset) {
            return Ok(false);
        }
        let segment_bytes = offset + SEGMENT_HEADER_BYTES;
        let header = SegmentHeader { segment_bytes, ..self.header };
        self.file.write_at(offset, &header.encode(offset))?;
        Ok(true)
    }

    /// Whether the space behind a header at `offset` can be given back: never in persistent memory,
    /// which stays mapped as a whole.
    pub fn can_end_at(&self, offset: u64) -> bool {
        offset + SEGMENT_HEADER_BYTES <= self.records_end() && self.file.medium().is_none()
    }

    /// Gives back what lies behind the header that [`Segment::end_at`] wrote there, and that is
    /// durable.
    pub fn cut(&self, offset: u64) -> Result<()> {
        self.file.cut(offset + SEGMENT_HEADER_BYTES)?;
        Ok(())
    }
}

/// Records of at least this size are written by one call: a file that is mapped takes that by a
/// system call, of which it should need one only.
pub(super) const WHOLE_BYTES: usize = 2048;

impl LogTarget for Segment {
    fn append(&self, place: &LogPlace, record: &Record<'_>) -> Result<()> {
        if place.offset == SEGMENT_HEADER_BYTES {
            self.begin()?;
        }
        if record.large_bytes > 0 {
            self.large_bytes.fetch_add(record.large_bytes, Ordering::Relaxed);
        }
        let header = record.header();
        let mut offset = place.offset;
        let encoded = header.encode(self.header.identity, offset, record.body);
        let body_bytes = record.body.iter().map(|piece| piece.len()).sum::<usize>();
        let is_called = body_bytes >= WHOLE_BYTES || self.is_called.load(Ordering::Relaxed);
        if is_called && self.file.medium().is_none() {
            let mut whole = Vec::with_capacity(encoded.len() + body_bytes);
            whole.extend_from_slice(&encoded);
            record.body.iter().for_each(|piece| whole.extend_from_slice(piece));
            return Ok(self.file.write_by_call(offset, &whole)?);
        }
        self.file.write_at(offset, &encoded)?;
        offset += encoded.len() as u64;
        for piece in record.body {
            self.file.write_at(offset, piece)?;
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

/// Bytes that a record of `bytes` takes in a segment.
pub(super) fn padded(bytes: usize) -> u64 {
    bytes.next_multiple_of(RECORD_ALIGNMENT) as u64
}

/// Bytes that a segment needs for `record_bytes` of records.
pub(super) fn segment_bytes_for(record_bytes: u64) -> u64 {
    2 * SEGMENT_HEADER_BYTES + record_bytes
}

/// The path of the segment with this id.
pub(in crate::wal) fn segment_path(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.log"))
}

/// The id of a segment's file, if it is one.
pub(in crate::wal) fn segment_id(name: &str) -> Option<FileId> {
    FileId::parse(name.strip_suffix(".log")?)
}
