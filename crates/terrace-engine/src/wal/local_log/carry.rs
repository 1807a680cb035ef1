//! An open writes the end of the log again before it builds on it.
//!
//! ```text
//!   segment 7           segment 8                     segment 7      segment 9
//!  ┌───────────────┐   ┌───────────────┐             ┌───────────   ┌───────────────────┐
//!  │ h │ r │ s │ s │ → │ h │ t │ t ▒   │     ─►      │ h │ r │   →  │ h │ s │ s │ t │ t │ …
//!  └───────────────┘   └───────────────┘             └───────────   └───────────────────┘
//!          ▲ known to be durable up to here                  base of 9
//! ```
//! What a replay read above the position that is known to be durable may be in the kernel's pages
//! only, and a sync of them may do nothing: if one failed before, the kernel takes these pages for
//! clean. So they are copied into a new file. Each record keeps its position, and so nothing else
//! that names one changes.
//!
//! The copies are durable before a header says that they are there, and how far they go; and of
//! several new segments the first one, with which the chain turns to them, gets its headers last. A
//! crash before that leaves the log as it was.
//!
//! Many small segments, as opens leave that write little, are carried together in the same way.

use std::sync::Arc;

use terrace_base::{Corruption, FileId, LogPosition};
use terrace_env::{PlantedBug, is_planted};

use super::room::Preparation;
use super::segment::{Segment, segment_bytes_for};
use super::sink::LocalLog;
use super::sizing::SEGMENT_BYTES_MIN;
use super::tail::Spare;
use crate::Result;
use crate::wal::format::{RecordHeader, SEGMENT_HEADER_BYTES};
use crate::wal::replay::{Replayed, SegmentSpan, records_between};

/// Bytes of the pieces in which copies are written.
const PIECE_BYTES: usize = 256 << 10;

/// Segments that hold no more than this together are small.
const SMALL_BYTES: u64 = 64 << 10;

/// How many small segments there may be.
const SMALL_COUNT: usize = 8;

/// From which position on the log is to be written again, if these segments are what was found: the
/// end of the last one, if nothing is. What is no file, as `is_file` says, lies on persistent
/// memory, and is durable by its own means.
pub(super) fn carried_from(
    found: &[SegmentSpan],
    durable: LogPosition,
    is_file: impl Fn(&SegmentSpan) -> bool,
) -> LogPosition {
    let (Some(first), Some(last)) = (found.first(), found.last()) else { return durable };
    let end = last.end;
    let is_file = |span: &&SegmentSpan| is_file(span);
    let in_doubt = found.iter().filter(is_file).any(|span| span.end > durable);
    let from = if in_doubt { durable.clamp(first.base, end) } else { end };
    let loose = found.iter().filter(is_file).find(|span| is_loose(span, durable));
    let from = loose.map_or(from, |span| from.min(span.base));
    let is_small = |span: &&SegmentSpan| end.0 - span.base.0 <= SMALL_BYTES;
    let small: Vec<_> = found.iter().rev().take_while(is_small).take_while(is_file).collect();
    match small.last() {
        Some(oldest) if small.len() > SMALL_COUNT => from.min(oldest.base),
        _ => from,
    }
}

/// Whether the header of this segment, which says that copies in it are durable, may not be so
/// itself.
pub(super) fn is_loose(span: &SegmentSpan, durable: LogPosition) -> bool {
    span.copied > LogPosition(0) && durable <= span.copied
}

/// Segments that hold copies, oldest first, and where the last record of each ends in it.
pub(super) type Carried = Vec<(Arc<Segment>, u64)>;

/// Copies on their way into segments.
struct Carrier<'a> {
    log: &'a LocalLog,
    preparation: &'a mut Preparation,
    predecessor: Option<FileId>,
    /// Where the next copy goes, and where all end.
    position: LogPosition,
    end: LogPosition,
    carried: Carried,
    /// What is not written yet, and ends where the last segment's records do.
    piece: Vec<u8>,
}

impl LocalLog {
    /// Makes segments that begin at `from`, behind `predecessor`, and hold what was found there, at
    /// least one; they are durable, and the chain leads to them.
    pub(super) fn carry(
        &self,
        replayed: &Replayed,
        found: &[SegmentSpan],
        from: LogPosition,
        preparation: &mut Preparation,
    ) -> Result<Carried> {
        let end = found.last().map_or(replayed.end, |last| last.end);
        let before = found.iter().take_while(|span| span.base < from).last().or(found.first());
        let mut carrier = Carrier {
            log: self,
            preparation,
            predecessor: before.map(|span| span.file.id),
            position: from,
            end,
            carried: Vec::new(),
            piece: Vec::new(),
        };
        let outcome = carrier.copy(replayed, found);
        let carried = carrier.carried;
        if outcome.is_err() {
            for (segment, _) in &carried {
                self.files.env.fs().remove(&segment.path)?;
            }
        }
        outcome.map(|()| carried)
    }
}

impl Carrier<'_> {
    fn copy(&mut self, replayed: &Replayed, found: &[SegmentSpan]) -> Result<()> {
        let env = &self.log.files.env;
        self.begin_segment(0)?;
        for span in found {
            if span.end <= self.position {
                continue;
            }
            let path = replayed.path(span.file);
            let place = (self.position.max(span.base), span.end);
            let at = records_between(
                env,
                &path,
                span,
                self.log.database,
                place,
                &mut |header, body| self.add(header, body),
            )?;
            if at != span.end {
                let detail = "the segment was replayed a moment ago, and cannot be read any more";
                return Err(Corruption::new(path, 0, detail).into());
            }
        }
        self.write()?;
        self.make_durable()
    }

    fn begin_segment(&mut self, record_bytes: u64) -> Result<()> {
        self.write()?;
        // Some room to go on, but no larger than others if it can be helped.
        let left = self.end.0 - self.position.0;
        let bytes_max = self.log.files.segment_bytes;
        let room = if left > 0 { SEGMENT_BYTES_MIN } else { 0 };
        let needed = segment_bytes_for(left + room).min(bytes_max);
        let needed = needed.max(segment_bytes_for(record_bytes));
        let (spare, _): (Spare, bool) = self.log.take_file(needed, self.preparation, 0)?;
        let before = self.carried.last().map(|(segment, _)| segment.header.file_id);
        // The one whose headers come last says what is durable then.
        let says_so = left > 0 && self.carried.is_empty();
        let durable = if says_so { self.end } else { LogPosition(0) };
        let before = before.or(self.predecessor);
        let segment = self.log.segment(spare, before, self.position, durable);
        // It has its size durably before anything in it says which that is. (A process that was
        // killed may not have synced that of a file that it had made.)
        let synced = segment.file.sync();
        self.carried.push((Arc::new(segment), SEGMENT_HEADER_BYTES));
        Ok(synced?)
    }

    /// Adds one record, which stands behind the one before.
    fn add(&mut self, header: &RecordHeader, body: &[u8]) -> Result<()> {
        let bytes = header.padded_bytes();
        let (segment, offset) = self.carried.last().expect("one is begun");
        if offset + bytes > segment.records_end() {
            self.begin_segment(bytes)?;
        }
        let (segment, offset) = self.carried.last_mut().expect("one is begun");
        let encoded = header.encode(segment.header.identity, *offset, &[body]);
        let end = self.piece.len() + bytes as usize;
        self.piece.extend_from_slice(&encoded);
        self.piece.extend_from_slice(body);
        self.piece.resize(end, 0);
        *offset += bytes;
        self.position.0 += bytes;
        if self.piece.len() >= PIECE_BYTES { self.write() } else { Ok(()) }
    }

    /// Writes what was added.
    fn write(&mut self) -> Result<()> {
        if let Some((segment, offset)) = self.carried.last().filter(|_| !self.piece.is_empty()) {
            segment.file.write_by_call(offset - self.piece.len() as u64, &self.piece)?;
            self.piece.clear();
        }
        Ok(())
    }

    fn make_durable(&mut self) -> Result<()> {
        if self.position != self.carried[0].0.header.base {
            for (segment, _) in &self.carried {
                segment.file.sync()?;
            }
        }
        self.log.sync_names()?;
        for (segment, _) in self.carried.iter().rev() {
            segment.begin()?;
            if !is_planted(PlantedBug::SkipTailCut) {
                segment.file.sync()?;
                segment.note_begun_durably();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::SegmentFile;
    use terrace_base::Epoch;

    fn span(counter: u64, base: u64, end: u64) -> SegmentSpan {
        let id = FileId { epoch: Epoch(1), counter };
        let file = SegmentFile { id, bytes: 1 << 20, directory: 0 };
        let (base, end) = (LogPosition(base), LogPosition(end));
        SegmentSpan { file, base, end, holds_batches: true, copied: LogPosition(0) }
    }

    fn from_of(found: &[SegmentSpan], durable: u64) -> LogPosition {
        carried_from(found, LogPosition(durable), |span| span.file.directory == 0)
    }

    #[test]
    fn what_is_not_known_to_be_durable_is_carried() {
        let found = [span(1, 0, 100_000), span(2, 100_000, 150_000)];
        for (durable, from) in [(0, 0), (70_000, 70_000), (120_000, 120_000), (160_000, 150_000)] {
            assert_eq!(from_of(&found, durable), LogPosition(from));
        }
        assert_eq!(from_of(&[], 7), LogPosition(7));
    }

    #[test]
    fn copies_are_carried_again_as_long_as_nothing_behind_them_is_known_to_be_durable() {
        let mut found = [span(1, 0, 100_000), span(2, 80_000, 150_000)];
        (found[0].end, found[1].copied) = (found[1].base, LogPosition(120_000));
        for (durable, from) in [(80_000, 80_000), (120_000, 80_000), (120_001, 120_001)] {
            assert_eq!(from_of(&found, durable), LogPosition(from));
        }
    }

    #[test]
    fn what_lies_on_persistent_memory_stays_there() {
        let mut found = [span(1, 0, 100_000), span(2, 100_000, 150_000)];
        found.iter_mut().for_each(|span| span.file.directory = 1);
        assert_eq!(from_of(&found, 0), LogPosition(150_000));
    }

    #[test]
    fn many_small_segments_are_carried_together_and_few_are_left() {
        let mut found = vec![span(0, 0, 100_000)];
        for index in 1..=8 {
            let base = found.last().expect("there is one").end.0;
            found.push(span(index, base, base + 1000));
        }
        assert_eq!(from_of(&found, 108_000), LogPosition(108_000));
        found.push(span(9, 108_000, 109_000));
        assert_eq!(from_of(&found, 109_000), LogPosition(100_000));
    }
}
