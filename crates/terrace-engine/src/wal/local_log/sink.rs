//! The log as writers see it.

use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::{FileId, LogPosition};
use terrace_env::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_env::{Latch, Mutex, PlantedBug, PmemMedium, is_planted};

use super::retire::Retired;
use super::room::{Preparation, Recyclable};
use super::segment::{Segment, WHOLE_BYTES, padded, segment_path};
use super::tail::Tail;
use crate::Result;
use crate::ids::FileIds;
use crate::wal::format::SEGMENT_HEADER_BYTES;
use crate::wal::place::SegmentFiles;
use crate::wal::replay::{LogStart, SegmentSpan};
use crate::wal::sink::{FinishedSegment, LogPlace, LogSink, LogTarget};

/// The log is rotated at a freeze if it holds so large a share of a segment that a sync would have
/// to write: less is synced sooner than a segment is prepared.
const ROTATION_SHARE: u64 = 8;

/// If a sync finds no more than this, records are written by calls: each sync writes all of what a
/// mapping made dirty, in units that are larger than a page.
const SYNCED_BYTES_LITTLE: u64 = 128 << 10;

/// If a sync finds no more than this, new segments are laid out with zeros. That writes each byte
/// twice, and spares each sync the change of metadata by which blocks become written ones: some
/// 12 KiB in the journal.
const LAID_OUT_BYTES_MAX: u64 = 12 << 10;

/// A range's log as segment files. See the room's door for the picture.
#[derive(Debug)]
pub struct LocalLog {
    pub(super) files: SegmentFiles,
    /// Where segments of earlier opens are: see
    /// [`SegmentFile::directory`](crate::wal::SegmentFile).
    pub(super) directories: Vec<PathBuf>,
    /// The database that the log belongs to.
    pub(super) database: u128,
    /// Segments that are value files too.
    pub(super) retired: Retired,
    /// Bytes of the file system that stay free: with less, no segment is added.
    pub(super) reserved_bytes: u64,
    pub(super) ids: Arc<FileIds>,
    pub(super) tail: Latch<Tail>,
    pub(super) durable: AtomicU64,
    /// Whether records were synced since the last segment was prepared.
    pub(super) was_synced: AtomicBool,
    /// How much the last sync found to do; as much as can be before the first one.
    pub(super) synced_bytes: AtomicU64,
    /// One sync at a time; guards what has been synced.
    pub(super) sync_turn: Mutex<()>,
    /// One preparation at a time.
    pub(super) prepare_turn: Mutex<Preparation>,
    /// Bytes of the files that wait to be used again, as of the last preparation.
    pub(super) recyclable_bytes: AtomicU64,
}

impl LocalLog {
    /// Makes the spare file the segment that the next record goes to, if there is one that holds a
    /// record of `need` bytes.
    fn go_on(&self, tail: &mut Tail, need: u64) -> Option<Arc<Segment>> {
        if !tail.spare_fits(need) {
            return None;
        }
        let spare = tail.spares.pop_front()?;
        let before = tail.segments.back().map(|last| last.header.file_id);
        let segment = Arc::new(self.segment(spare, before, tail.end(), LogPosition(0)));
        tail.go_on_in(Arc::clone(&segment), SEGMENT_HEADER_BYTES, self.files.segment_bytes);
        tail.warm_bytes = std::mem::take(&mut tail.mapped_bytes);
        Some(segment)
    }

    /// Unsynced bytes from which on a rotation is worth a segment.
    fn rotation_bytes_min(&self, tail: &Tail) -> u64 {
        let bytes = tail.segments.back().map_or(0, |last| last.header.segment_bytes);
        bytes.min(self.files.segment_bytes) / ROTATION_SHARE
    }

    /// The segments that a sync through `through` must cover: those with records that are not
    /// durable, and those without any, since the chain goes on behind them: where the log was
    /// rotated, and the first record was too large for the new segment.
    fn unsynced(&self, through: LogPosition) -> Vec<Arc<Segment>> {
        let durable = self.durable();
        let tail = self.tail.lock();
        let ends = tail.segments.iter().skip(1).map(|next| next.header.base);
        let ends = ends.chain(std::iter::once(LogPosition(u64::MAX)));
        let is_unsynced = |(segment, end): &(&Arc<Segment>, LogPosition)| {
            let base = segment.header.base;
            let is_loose = *end == base && !segment.is_begun_durably();
            base < through && (*end > durable || is_loose)
        };
        let unsynced = tail.segments.iter().zip(ends).filter(is_unsynced);
        unsynced.map(|(segment, _)| Arc::clone(segment)).collect()
    }

    /// Notes how much this sync has to do, so that what follows is written in the way that costs
    /// less; and if it is much, takes it out of this process's memory.
    fn judge_sync(&self, through: LogPosition, segments: &[Arc<Segment>]) {
        // A release may have made more durable since this sync looked.
        let bytes = through.0.saturating_sub(self.durable().0);
        self.synced_bytes.store(bytes, Ordering::Relaxed);
        self.was_synced.store(true, Ordering::Relaxed);
        let is_called = self.writes_by_calls();
        segments.iter().for_each(|segment| segment.write_by_calls(is_called));
        if !is_called {
            segments.iter().for_each(|segment| segment.file.let_go(segment.offset_below(through)));
        }
    }

    /// Whether records are written by calls: the last sync found [little](SYNCED_BYTES_LITTLE).
    pub(super) fn writes_by_calls(&self) -> bool {
        self.synced_bytes.load(Ordering::Relaxed) <= SYNCED_BYTES_LITTLE
    }

    /// Whether new segments are [laid out](LAID_OUT_BYTES_MAX).
    pub(super) fn lays_out(&self) -> bool {
        self.synced_bytes.load(Ordering::Relaxed) <= LAID_OUT_BYTES_MAX
    }

    /// Takes the segments out of the tail that hold no record from `from` on.
    fn take_released(&self, from: LogPosition) -> Vec<Recyclable> {
        let mut released = Vec::new();
        let mut tail = self.tail.lock();
        let own = tail.segments.front().map(|first| first.header.base);
        let is_own = own.is_some_and(|base| base <= from);
        while tail.replayed.front().is_some_and(|oldest| is_own || oldest.end < from) {
            let SegmentSpan { file, .. } = tail.replayed.pop_front().expect("just looked at");
            let path = segment_path(&self.directories[file.directory], file.id);
            released.push(Recyclable::at(path, file.bytes));
        }
        while tail.segments.len() > 1 && tail.segments[1].may_begin_at(from) {
            let segment = tail.segments.pop_front().expect("more than one");
            let file = Arc::clone(&segment.file);
            released.push(self.files.recyclable(segment.path.clone(), file));
        }
        released
    }
}

impl LogSink for LocalLog {
    fn take(&self, bytes: usize) -> Option<LogPlace> {
        let need = padded(bytes);
        let mut tail = self.tail.lock();
        if !tail.fits(need) {
            self.go_on(&mut tail, need)?;
        }
        let segment = tail.segments.back()?;
        let offset = tail.offset;
        let (position, end) = (segment.position(offset), segment.position(offset + need));
        let target = Arc::clone(segment) as Arc<dyn LogTarget>;
        tail.offset += need;
        tail.mapped_bytes += if bytes < WHOLE_BYTES { need } else { 0 };
        Some(LogPlace { position, end, offset, target })
    }

    fn make_room(&self, bytes: usize) -> Result<()> {
        let need = padded(bytes);
        self.make_room_in(bytes, |tail| tail.fits(need) || tail.spare_fits(need))
    }

    fn end(&self) -> LogPosition {
        self.tail.lock().end()
    }

    fn sync(&self, through: LogPosition) -> Result<()> {
        if self.durable() >= through {
            return Ok(());
        }
        let _turn = self.sync_turn.lock();
        if self.durable() >= through {
            return Ok(());
        }
        let segments = self.unsynced(through);
        self.judge_sync(through, &segments);
        for segment in segments {
            let synced = segment.file.sync();
            if synced.is_err() && is_planted(PlantedBug::RetryFailedSync) {
                segment.file.sync()?;
                continue;
            }
            synced?;
        }
        self.durable.fetch_max(through.0, Ordering::AcqRel);
        Ok(())
    }

    fn durable(&self) -> LogPosition {
        LogPosition(self.durable.load(Ordering::Acquire))
    }

    fn rotate(&self) -> Result<LogPosition> {
        let (segment, end) = {
            let mut tail = self.tail.lock();
            let bytes_min = self.rotation_bytes_min(&tail);
            let is_worth_it = tail.unsynced_bytes(self.durable()) >= bytes_min
                || self.may_retire() && tail.may_stay(bytes_min);
            let segment = if is_worth_it { self.go_on(&mut tail, 0) } else { None };
            (segment, tail.end())
        };
        if let Some(segment) = segment {
            segment.begin()?;
        }
        Ok(end)
    }

    fn begin_at(&self, from: LogPosition) -> Result<bool> {
        // Order: a segment is ended early under this turn, which moves its second header. Whoever
        // needs a segment waits for two syncs of a page, and only where no spare is left.
        let _turn = self.prepare_turn.lock();
        let begun = {
            let tail = self.tail.lock();
            tail.segments.iter().find(|segment| segment.header.base == from).map(Arc::clone)
        };
        let begun = begun.filter(|segment| segment.is_begun());
        begun.map_or(Ok(false), |segment| segment.sync_headers().map(|()| true))
    }

    fn release(&self, from: LogPosition) -> Result<()> {
        // What stood below is durable in tables.
        self.durable.fetch_max(from.0, Ordering::AcqRel);
        let mut preparation = self.prepare_turn.lock();
        self.let_go_of(self.take_released(from), &mut preparation)
    }

    fn start_at(&self, from: LogPosition) -> LogStart {
        let tail = self.tail.lock();
        let replayed = tail.replayed.iter().map(|segment| (segment.base, segment.file.id));
        let replayed = replayed.map(|(base, id)| (base < from, id));
        let own = tail.segments.iter().map(|s| (s.may_begin_at(from), s.header.file_id));
        let mut holding = None;
        for (may_begin, id) in replayed.chain(own) {
            if holding.is_none() || may_begin {
                holding = Some(id);
            }
        }
        LogStart { segment: holding, position: from }
    }

    fn may_retire(&self) -> bool {
        self.files.may_retire() && !self.retired.is_refused()
    }

    fn finished(&self, from: LogPosition) -> Vec<FinishedSegment> {
        self.finished_segments(from)
    }

    fn retire(&self, segment: &FinishedSegment) {
        self.retired.add(segment);
    }

    fn refuse(&self, segment: FileId) {
        self.retired.refuse(segment);
    }

    fn keeps(&self, segment: FileId) -> bool {
        if self.retired.contains(segment) {
            return true;
        }
        let tail = self.tail.lock();
        tail.replayed.iter().any(|span| span.file.id == segment)
            || tail.segments.iter().any(|one| one.header.file_id == segment)
    }

    fn medium(&self) -> Option<PmemMedium> {
        self.tail.lock().segments.back().and_then(|segment| segment.file.medium())
    }

    fn wants_preparation(&self) -> bool {
        self.tail.lock().wants_spare()
    }

    fn prepare(&self) -> Result<()> {
        while self.wants_preparation() {
            self.make_room_in(0, |tail| !tail.wants_spare())?;
        }
        self.warm_next();
        Ok(())
    }

    fn rest(&self) -> Result<()> {
        self.rest_now()
    }

    fn seal(&self) -> Result<()> {
        let (last, offset) = {
            let mut tail = self.tail.lock();
            let Some(last) = tail.segments.back().map(Arc::clone) else { return Ok(()) };
            tail.limit = tail.offset;
            (last, tail.offset)
        };
        last.end_at(offset)?;
        Ok(())
    }

    fn give_back(&self) -> Result<()> {
        let (last, offset) = {
            let tail = self.tail.lock();
            (tail.segments.back().map(Arc::clone), tail.offset)
        };
        if let Some(last) = last.filter(|last| last.can_end_at(offset)) {
            last.cut(offset)?;
        }
        self.give_back_files()
    }

    fn live_bytes(&self) -> u64 {
        let tail = self.tail.lock();
        let replayed = tail.replayed.front().map(|segment| segment.base);
        let own = tail.segments.front().map(|segment| segment.header.base);
        let first = replayed.or(own).unwrap_or_default();
        tail.end().0 - first.0
    }

    fn held_bytes(&self) -> u64 {
        let tail = self.tail.lock();
        let replayed: u64 = tail.replayed.iter().map(|segment| segment.file.bytes).sum();
        replayed + tail.segments.iter().map(|segment| segment.file.bytes()).sum::<u64>()
    }

    fn spare_bytes(&self) -> u64 {
        let spares: u64 = self.tail.lock().spares.iter().map(|spare| spare.file.bytes()).sum();
        // Order: relaxed; a figure.
        spares + self.recyclable_bytes.load(Ordering::Relaxed)
    }
}
