use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::{FileId, LogPosition, SeqNo};
use terrace_env::PmemMedium;

use super::follow::{LogMark, ReadOn};
use super::format::{RecordHeader, RecordKind};
use super::replay::{LogFacts, LogStart, ReadRecord, Replayed};
use crate::ids::FileIds;
use crate::{Error, Result};

/// The log sink seam, as an open sees it: where a range's records lie.
///
/// Local directories stand behind it, on disks and on persistent memory; the memory and the disks
/// of other nodes and cloud volumes will.
pub trait LogStore: Send + Sync + fmt::Debug {
    /// Reads the log from where `facts` say, and hands each record to `visit`, in the append
    /// order. Writes nothing.
    ///
    /// Errors: `Corruption` if something is missing or damaged below the position up to which the
    /// log is known to have been durable, by its own records or by `facts`; what is damaged above
    /// is a torn tail, and reading ends there.
    fn replay(&self, facts: LogFacts, visit: &mut Visit<'_>) -> Result<Replayed>;

    /// Reads the log of a range that somebody has open: hands the records behind `mark`, or from
    /// where `facts` say, to `visit`, in the append order, as far as they are complete, until they
    /// have `bytes_max` bytes. All that was acknowledged before the call is among them, if the
    /// outcome is whole and that bound was not met. Writes nothing. A record may be handed over
    /// again by the next call after an error.
    ///
    /// Errors: `Unsupported` if this log cannot be read by others; `Corruption`, which may come of
    /// what the writer did meanwhile: then the manifest has gone on.
    fn read_on(
        &self,
        _facts: &LogFacts,
        _mark: Option<LogMark>,
        _bytes_max: u64,
        _visit: &mut Visit<'_>,
    ) -> Result<ReadOn> {
        let text = "a secondary cannot follow a log of this kind; read the database in its process";
        Err(Error::Unsupported(text.to_string()))
    }

    /// Decides where the log goes on after what a replay found, and makes that place. Returns what
    /// the manifest has to name durably before [`LogStore::begin`]: the directories beside the
    /// range's own in which segments lie, or will.
    ///
    /// Errors: `Invalid` if the place is not there.
    fn settle(&self, _database: u128, _replayed: &Replayed) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    /// Goes on after what a replay found (for a new range: after nothing), with what was read
    /// durable and a torn tail cut off for ever. The epoch of `ids` has been raised durably.
    /// `reserved_bytes` of the medium stay free, unless the log could not go on at all then.
    fn begin(
        &self,
        database: u128,
        ids: &Arc<FileIds>,
        replayed: &Replayed,
        reserved_bytes: u64,
    ) -> Result<Arc<dyn LogSink>>;
}

/// Takes the records of a replay.
pub type Visit<'a> = dyn FnMut(ReadRecord<'_>) -> Result<()> + 'a;

/// The log sink seam, as writers see it: where a range's records go. All methods may be called by
/// many threads at once.
pub trait LogSink: Send + Sync + fmt::Debug {
    /// Takes the next place in the append order for a record of `bytes` (header and body), or
    /// nothing if there is no room right now. Neither waits nor fails: it is called in the step
    /// that also takes the record's sequence numbers. A place that was taken must be written.
    fn take(&self, bytes: usize) -> Option<LogPlace>;

    /// Makes room for a record of `bytes`, so that a [`LogSink::take`] has something to take;
    /// another thread may be faster, so the caller tries in a loop. Errors:
    /// [`Error::NoSpace`](crate::Error::NoSpace) if the disk is full.
    fn make_room(&self, bytes: usize) -> Result<()>;

    /// Where the next record will stand.
    fn end(&self) -> LogPosition;

    /// Makes durable every record below `through`, all of which the caller knows to be written.
    /// After an error the log is in doubt and must not be synced again.
    fn sync(&self, through: LogPosition) -> Result<()>;

    /// Everything below this position is durable, here or, where it was released, in tables.
    fn durable(&self) -> LogPosition;

    /// Has the next record begin a new segment, if that is worth it, so that [`LogSink::begin_at`]
    /// is cheap there, and what is left may be [retired](LogSink::retire); returns the end. No
    /// record is under way: the caller holds every drange.
    fn rotate(&self) -> Result<LogPosition> {
        Ok(self.end())
    }

    /// Makes it durable that a replay may begin at `from`, whatever becomes of the records below,
    /// which tables are about to hold. Costs a few pages. False if the log was not rotated there:
    /// then it has to be synced up to there instead. After an error the log is in doubt.
    fn begin_at(&self, _from: LogPosition) -> Result<bool> {
        Ok(false)
    }

    /// Where a replay that needs the records from `from` on has to start. Everything below `from`
    /// has been synced, or the log [begins](LogSink::begin_at) there.
    fn start_at(&self, from: LogPosition) -> LogStart;

    /// Records below `from` are needed no more: a durable version edit says so.
    fn release(&self, from: LogPosition) -> Result<()>;

    /// Whether segments of this log may ever be [retired](LogSink::retire).
    fn may_retire(&self) -> bool {
        false
    }

    /// The segments that are written no more and hold records at or above `from`, oldest first, as
    /// far as this open began them as files on a disk. A log that has no files has none.
    fn finished(&self, _from: LogPosition) -> Vec<FinishedSegment> {
        Vec::new()
    }

    /// Takes care that the file of a [finished](LogSink::finished) segment is never written again:
    /// it is to be a value file too. The log deletes it under its own name, as any other, when it
    /// needs it no more, and gives its unused end back then.
    fn retire(&self, _segment: &FinishedSegment) {}

    /// The file of a segment that was to be [retired](LogSink::retire) cannot have a second name,
    /// and so none can: it is used again as ever, and no other is offered.
    fn refuse(&self, _segment: FileId) {}

    /// Whether the log still has a segment, so that memtables may have values in it, or its name
    /// for a [retired](LogSink::retire) one may come back after a crash.
    fn keeps(&self, _segment: FileId) -> bool {
        false
    }

    /// Bytes from the oldest kept record to the end.
    fn live_bytes(&self) -> u64;

    /// Bytes of the medium that are taken for the kept records, the unused rest of segments
    /// included.
    fn held_bytes(&self) -> u64 {
        self.live_bytes()
    }

    /// Bytes of the medium that wait to be taken for the next records.
    fn spare_bytes(&self) -> u64 {
        0
    }

    /// What the log is written to, if that is persistent memory, or stands in for it.
    fn medium(&self) -> Option<PmemMedium> {
        None
    }

    /// Whether [`LogSink::prepare`] has something to do.
    fn wants_preparation(&self) -> bool {
        false
    }

    /// Prepares ahead of need what the next records will take, so that no writer has to. Called by
    /// a background job.
    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    /// Gives back what is kept for the next records: none came for a while. One may come at any
    /// time. After an error other than [`Error::NoSpace`](crate::Error::NoSpace) the log is in
    /// doubt.
    fn rest(&self) -> Result<()> {
        Ok(())
    }

    /// No record follows in this open: writes what lets [`LogSink::give_back`] cut the log off
    /// behind the last one. Called before the last sync, which makes that durable.
    fn seal(&self) -> Result<()> {
        Ok(())
    }

    /// Gives back what is taken for records that will not come, after [`LogSink::seal`] and the
    /// last sync.
    fn give_back(&self) -> Result<()> {
        Ok(())
    }
}

/// Where one record goes.
#[derive(Clone, Debug)]
pub struct LogPlace {
    /// The record's place in the append order.
    pub position: LogPosition,
    /// Where the record after it will stand.
    pub end: LogPosition,
    /// What the sink calls the place; means something to `target` only.
    pub offset: u64,
    /// Takes the record.
    pub target: Arc<dyn LogTarget>,
}

/// A segment of the log to which nothing is added any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedSegment {
    /// Its id.
    pub id: FileId,
    /// Where its file is.
    pub path: PathBuf,
    /// Drawn for this use of the file.
    pub identity: u128,
    /// The position of its first record.
    pub base: LogPosition,
    /// Where its records end.
    pub end: LogPosition,
    /// What the large values in it would take in a value file, whether or not they are wanted.
    pub large_bytes: u64,
}

/// What stays as a value file has at least this share of large values in its records, in percent.
/// What else is in it takes space until the segment is rewritten, which copies what lives; what is
/// copied out takes the disk's time now, and the log uses the file again. With less, what else is
/// in it comes near what the bound on space allows to be dead in all, and writers pay for that.
const LARGE_PERCENT_MIN: u64 = 85;

/// Whether so many bytes of large values are most of these bytes of records.
pub(super) fn is_mostly(large_bytes: u64, all: u64) -> bool {
    all > 0 && large_bytes * 100 >= all * LARGE_PERCENT_MIN
}

impl FinishedSegment {
    /// Bytes of its records.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        self.end.0 - self.base.0
    }

    /// Bytes of its file through the last record.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.record_bytes() + super::format::SEGMENT_HEADER_BYTES
    }

    /// Whether it is worth to stay as a value file, if so many bytes of its large values live.
    #[must_use]
    pub fn may_stay(&self, large_bytes: u64) -> bool {
        is_mostly(large_bytes, self.record_bytes())
    }

    /// Where the byte at a position of the log lies in the file, if it lies there.
    #[must_use]
    #[inline]
    pub fn offset_of(&self, position: LogPosition) -> Option<u64> {
        let is_here = self.base <= position && position < self.end;
        is_here.then(|| position.0 - self.base.0 + super::format::SEGMENT_HEADER_BYTES)
    }
}

/// The part of a sink that takes records: a segment, or a connection.
pub trait LogTarget: Send + Sync + fmt::Debug {
    /// Writes a record to its place. On return it survives a killed process (buffered), and is
    /// complete: no later write touches its bytes.
    fn append(&self, place: &LogPlace, record: &Record<'_>) -> Result<()>;
}

/// A record on its way to the log: what its header says, and its body in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// What it is for.
    pub kind: RecordKind,
    /// The number of its first entry.
    pub first_seqno: SeqNo,
    /// How many numbers it takes.
    pub seqno_count: u32,
    /// How many entries it holds.
    pub entry_count: u32,
    /// The log is known to be durable below this position.
    pub durable: LogPosition,
    /// What the large values in it, which may stay in the log, would take in a value file.
    pub large_bytes: u64,
    /// The body, in pieces.
    pub body: &'a [&'a [u8]],
}

impl Record<'_> {
    /// The record's header.
    ///
    /// # Panics
    /// If it is longer than a record [may be](super::format::RECORD_BYTES_MAX), which whoever takes
    /// its place has to rule out first.
    #[must_use]
    pub fn header(&self) -> RecordHeader {
        let bytes = u32::try_from(self.bytes()).expect("its length was checked");
        RecordHeader {
            bytes,
            first_seqno: self.first_seqno,
            durable: self.durable,
            seqno_count: self.seqno_count,
            entry_count: self.entry_count as u16,
            kind: self.kind,
        }
    }

    /// Bytes of header and body, before padding.
    #[must_use]
    pub fn bytes(&self) -> usize {
        super::format::RECORD_HEADER_BYTES
            + self.body.iter().map(|piece| piece.len()).sum::<usize>()
    }
}
