//! Where the next record goes.

use std::collections::VecDeque;
use std::sync::Arc;

use terrace_base::{FileId, LogPosition};
use terrace_env::LogFile;

use super::segment::{Segment, segment_bytes_for};
use super::sizing::Wanted;
use crate::wal::format::SEGMENT_HEADER_BYTES;
use crate::wal::replay::SegmentSpan;
use crate::wal::sink::is_mostly;

#[derive(Debug)]
pub(super) struct Tail {
    /// Oldest first; the last one is written to.
    pub segments: VecDeque<Arc<Segment>>,
    /// Segments that were left by earlier opens, oldest first; read only.
    pub replayed: VecDeque<SegmentSpan>,
    /// The offset of the next record in the last segment.
    pub offset: u64,
    /// Where records of the last segment end at the latest.
    pub limit: u64,
    /// Reserved, to become the next segments.
    pub spares: VecDeque<Spare>,
    /// How many there should be.
    pub spare_count: usize,
    /// There should be spares once the last segment is used up to here.
    pub prepared_from: u64,
    /// Bytes of the records in the last segment that were written through its mapping.
    pub mapped_bytes: u64,
    /// How much of the next segment is worth bringing into memory before it is used: what the last
    /// full one took that way. Writers that have to do it wait for each other's pages, and all who
    /// come after them in the append order for them.
    pub warm_bytes: u64,
}

/// A file that is reserved for a segment.
#[derive(Debug)]
pub(super) struct Spare {
    pub id: FileId,
    pub identity: u128,
    pub file: Arc<dyn LogFile>,
    /// Whether it was brought into memory.
    pub is_warm: bool,
}

impl Tail {
    /// The tail of a log without a segment.
    pub fn empty() -> Tail {
        Tail {
            segments: VecDeque::new(),
            replayed: VecDeque::new(),
            offset: 0,
            limit: 0,
            spares: VecDeque::new(),
            spare_count: 1,
            prepared_from: 0,
            mapped_bytes: 0,
            warm_bytes: 0,
        }
    }

    /// Goes on in this segment, which holds records up to `offset`. `wanted`: of segments from now
    /// on.
    pub fn go_on_in(&mut self, segment: Arc<Segment>, offset: u64, wanted_bytes_max: u64) {
        self.offset = offset;
        self.limit = segment.records_end();
        // What lasts for long needs no spare yet.
        let is_largest = segment.header.segment_bytes >= wanted_bytes_max;
        self.prepared_from = if is_largest { 0 } else { self.limit / 2 };
        self.segments.push_back(segment);
    }

    pub fn fits(&self, need: u64) -> bool {
        self.offset + need <= self.limit
    }

    pub fn spare_fits(&self, need: u64) -> bool {
        let next = self.spares.front();
        next.is_some_and(|spare| segment_bytes_for(need) <= spare.file.bytes())
    }

    pub fn end(&self) -> LogPosition {
        self.segments.back().map_or(LogPosition(0), |last| last.position(self.offset))
    }

    /// Bytes of records that a sync would have to write; 0 if the last segment holds none.
    pub fn unsynced_bytes(&self, durable: LogPosition) -> u64 {
        match self.offset {
            SEGMENT_HEADER_BYTES => 0,
            _ => self.end().0.saturating_sub(durable.0),
        }
    }

    /// Whether the last segment would be worth to stay as a value file if it ended here: values
    /// have to be copied out of one that is still written to.
    pub fn may_stay(&self, bytes_min: u64) -> bool {
        let Some(last) = self.segments.back() else { return false };
        let (large_bytes, all) = (last.large_bytes(), self.offset - SEGMENT_HEADER_BYTES);
        large_bytes >= bytes_min && is_mostly(large_bytes, all)
    }

    /// Whether it is time to prepare another segment.
    pub fn wants_spare(&self) -> bool {
        self.spares.len() < self.spare_count && self.offset >= self.prepared_from
    }

    pub fn want(&mut self, wanted: Wanted) {
        self.spare_count = wanted.spare_count;
    }
}
