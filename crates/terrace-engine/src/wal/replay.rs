//! Reading a log back.
//!
//! Segments form a chain: each header names the segment before it and the position where that one
//! ends. The chain starts at the segment that the manifest names; at each step the successor is
//! the segment that names the current one as its predecessor, and if several do, the youngest: an
//! older one was cut off together with a torn tail.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Checksum, CodecError, Corruption, Epoch, FileId, LogPosition, PreambleError};
use terrace_env::{Env, PlantedBug, ReadFile, SharedEnv, is_planted};

use super::format::{
    ClosingBody, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader, RecordKind,
    SEGMENT_HEADER_BYTES, SegmentHeader, next_likely_record,
};
use super::local_log::{segment_id, segment_path};
use super::place::named_entries;
use super::sink::Visit;
use crate::survey::SegmentSurvey;
use crate::version::LogBehind;
use crate::{Error, Result, read_up_to, read_up_to_into};

/// Where a replay starts: what the manifest says of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LogStart {
    /// The segment that holds the oldest record still needed; none before the first open.
    pub segment: Option<FileId>,
    /// Everything below is settled.
    pub position: LogPosition,
}

/// What the manifest knows of the log.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LogFacts {
    /// The database that the log belongs to.
    pub database: u128,
    /// The epoch of the manifest: segments of an earlier one were there before it.
    pub epoch: Epoch,
    /// Where a replay starts.
    pub start: LogStart,
    /// Below, all entries are in tables, at or behind the start: no record is handed over.
    pub settled: LogPosition,
    /// The log was synced below this position, or the manifest would not say what it says: what is
    /// missing below is damage, and no torn tail.
    pub durable: LogPosition,
    /// The directories beside the range's own in which segments may lie.
    pub directories: Vec<PathBuf>,
    /// Segments that are value files too, and the bytes of each that stay: their files are never
    /// used again.
    pub retired: BTreeMap<FileId, u64>,
    /// The log that goes on from the start, of a machine that is lost, if the one of this directory
    /// has not begun: then no record of a segment in this directory counts.
    pub behind: Option<LogBehind>,
}

/// A record that a replay read.
#[derive(Clone, Debug)]
pub struct ReadRecord<'a> {
    /// Its place in the append order.
    pub position: LogPosition,
    /// The file that it stands in, for reports.
    pub file: &'a Path,
    /// Where in that file.
    pub offset: u64,
    /// Its header.
    pub header: &'a RecordHeader,
    /// What was read together; whoever wants the body for longer keeps it.
    pub buffer: &'a Arc<Vec<u8>>,
    /// Where its body stands in there.
    pub body: Range<usize>,
}

impl<'a> ReadRecord<'a> {
    /// Its body.
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        &self.buffer[self.body.clone()]
    }
}

/// What a replay found, beside the records it handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// The segments of the chain, oldest first.
    pub segments: Vec<SegmentSpan>,
    /// How many of the last of them hold no batch: a log that goes on before them loses nothing.
    pub empty_count: usize,
    /// Segment files that belong to no chain: prepared and never used, or cut off.
    pub stale: Vec<SegmentFile>,
    /// Where the last complete record ends.
    pub end: LogPosition,
    /// The log is known to have been durable below this position.
    pub durable: LogPosition,
    /// As `durable`, but as far as others say that than headers of the copies themselves: those may
    /// not be durable.
    pub settled: LogPosition,
    /// Where reading stopped before the end of what had been written, if it did.
    pub torn: Option<TornTail>,
    /// The last segment, if one of its headers is that of another use of the file: a crash may have
    /// torn it, unless something says that the segment was begun durably.
    pub half_begun: Option<FileId>,
    /// What the last record says, if the log was closed.
    pub closing: Option<ClosingBody>,
    /// Where the log lies: the range's directory, and those that the manifest names.
    pub directories: Vec<PathBuf>,
    /// Segments that are value files too, and the bytes of each that stay, as the manifest says.
    pub retired: BTreeMap<FileId, u64>,
}

impl Replayed {
    /// Something says that the log was durable below.
    pub(super) fn note_durable(&mut self, durable: LogPosition) {
        self.durable = self.durable.max(durable);
        self.settled = self.settled.max(durable);
    }

    /// What the header of a segment says of that.
    fn note_header(&mut self, header: &SegmentHeader) {
        self.note_durable(header.durable_before());
        self.durable = self.durable.max(header.durable);
    }

    /// The log ends at a position, where a record begins: what stands behind it is not part of it.
    /// The first segment stays, for there the log goes on.
    pub(super) fn end_at(&mut self, end: LogPosition) {
        let kept = self.segments.iter().skip(1).take_while(|span| span.base < end).count() + 1;
        let dropped = self.segments.drain(kept.min(self.segments.len())..);
        self.stale.extend(dropped.map(|span| span.file));
        if let Some(last) = self.segments.last_mut() {
            last.end = last.end.min(end);
        }
        self.end = end;
        self.durable = self.durable.min(end);
        self.settled = self.settled.min(end);
        (self.empty_count, self.torn, self.half_begun, self.closing) = (0, None, None, None);
    }

    /// Every segment file that was found.
    pub(super) fn files(&self) -> impl Iterator<Item = SegmentFile> + '_ {
        self.segments.iter().map(|span| span.file).chain(self.stale.iter().copied())
    }

    /// The path of a file that was found.
    pub(super) fn path(&self, file: SegmentFile) -> PathBuf {
        segment_path(&self.directories[file.directory], file.id)
    }

    /// The path of the segment with this id, if it was found.
    #[must_use]
    pub fn path_of(&self, id: FileId) -> Option<PathBuf> {
        self.files().find(|file| file.id == id).map(|file| self.path(file))
    }
}

/// A file that holds a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentFile {
    /// Its id.
    pub id: FileId,
    /// Its size.
    pub bytes: u64,
    /// In which of the log's directories it is: 0 is the range's own, the others follow in the
    /// order in which the manifest names them.
    pub directory: usize,
}

/// One segment of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSpan {
    /// Its file.
    pub file: SegmentFile,
    /// The position of its first record.
    pub base: LogPosition,
    /// Where its last record ends.
    pub end: LogPosition,
    /// Whether one of its records is a batch.
    pub holds_batches: bool,
    /// Where the copies in it end, if an open made any.
    pub copied: LogPosition,
}

/// A place where a crash tore the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TornTail {
    /// The segment.
    pub segment: FileId,
    /// The offset of the first byte that is not a complete record.
    pub offset: u64,
    /// Records that stand behind that place and are dropped with it (none was acknowledged as
    /// durable).
    pub dropped_records: u64,
}

/// A segment file with a valid header.
pub(super) struct Found {
    pub header: SegmentHeader,
    pub directory: usize,
    pub path: PathBuf,
    pub file: Arc<dyn ReadFile>,
}

impl Found {
    /// Whether it is the first segment of an open, which had synced the log before it up to its
    /// base.
    fn begins_an_epoch(&self) -> bool {
        let before = self.header.predecessor;
        before.is_some_and(|before| before.epoch < self.header.file_id.epoch)
    }

    fn file(&self) -> SegmentFile {
        let (id, bytes) = (self.header.file_id, self.file.bytes());
        SegmentFile { id, bytes, directory: self.directory }
    }

    /// Its records from `from` on, wherever they stand.
    fn records_behind(&self, buffers: &mut Buffers, from: u64) -> Result<Vec<RecordHeader>> {
        records_behind(self.file.as_ref(), buffers, self.header.identity, from)
    }

    /// What its two headers say.
    fn survey(&self) -> Result<SegmentSurvey> {
        let header = |offset| read_up_to(self.file.as_ref(), offset, SEGMENT_HEADER_BYTES as usize);
        let bytes = self.file.bytes();
        let (first, last) = (header(0)?, header(SegmentHeader::second_offset(bytes))?);
        Ok(SegmentSurvey::read(self.header.file_id, bytes, &first, &last))
    }
}

/// A segment file without a valid header: not begun, or half begun when a process died, or
/// damaged.
struct Doubtful {
    id: FileId,
    directory: usize,
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    /// What stands in the places of the identity.
    identities: Vec<u128>,
}

impl Doubtful {
    fn file(&self) -> SegmentFile {
        SegmentFile { id: self.id, bytes: self.file.bytes(), directory: self.directory }
    }

    /// Its records, which still pass their checksums if one of the identities is whole.
    fn records(&self, buffers: &mut Buffers) -> Result<Vec<RecordHeader>> {
        let mut records = Vec::new();
        for identity in &self.identities {
            let file = self.file.as_ref();
            records.extend(records_behind(file, buffers, *identity, SEGMENT_HEADER_BYTES)?);
        }
        Ok(records)
    }
}

/// What the segment files of a directory are, each kind by id.
#[derive(Default)]
struct Files {
    begun: Vec<Found>,
    doubtful: Vec<Doubtful>,
    /// Recycled and not begun again: they still have the header of their former use.
    idle: Vec<SegmentFile>,
}

impl Files {
    /// Adds the file of the segment with this id in `dir`.
    fn add(
        &mut self,
        env: &dyn Env,
        directory: usize,
        dir: &Path,
        id: FileId,
        database: u128,
    ) -> Result<()> {
        let path = segment_path(dir, id);
        let file = env.fs().open(&path)?;
        match read_header(file.as_ref(), &path, id, database)? {
            HeaderRead::Begun(header) if header.database != database => {
                let detail = "the segment belongs to another database";
                return Err(Corruption::new(path, 72, detail).into());
            }
            HeaderRead::Begun(header) => self.begun.push(Found { header, directory, path, file }),
            HeaderRead::Idle => {
                self.idle.push(SegmentFile { id, bytes: file.bytes(), directory });
            }
            HeaderRead::Doubtful(identities) => {
                self.doubtful.push(Doubtful { id, directory, path, file, identities });
            }
        }
        Ok(())
    }

    /// The manifest says where the log begins before the first record is written: records that it
    /// does not know of mean that what it said is lost, and must not go the way of stale segments.
    /// Those of an epoch before the manifest's were left by another owner.
    fn refuse_unknown_records(&self, epoch: Epoch, buffers: &mut Buffers) -> Result<()> {
        let mut holders = Vec::new();
        for segment in self.begun.iter().filter(|one| one.header.file_id.epoch >= epoch) {
            if !segment.records_behind(buffers, SEGMENT_HEADER_BYTES)?.is_empty() {
                holders.push(&segment.path);
            }
        }
        for segment in self.doubtful.iter().filter(|one| one.id.epoch >= epoch) {
            if !segment.records(buffers)?.is_empty() {
                holders.push(&segment.path);
            }
        }
        let Some(path) = holders.first() else { return Ok(()) };
        let detail = "the log holds records, but the manifest does not say where it begins";
        Err(Corruption::new(path, SEGMENT_HEADER_BYTES, detail).into())
    }
}

/// A segment is read in windows of this size, or of a record if that is longer: large enough that a
/// call costs nothing, small enough that the bytes are still in the cache when they are looked at.
/// The segments of tests are small.
const WINDOW_BYTES: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// The memory that windows are read into: used again as soon as nobody keeps what was read into it
/// before. So a replay holds one of them, and those that its visitor keeps.
#[derive(Default)]
pub(super) struct Buffers {
    used: Vec<Arc<Vec<u8>>>,
}

impl Buffers {
    /// Up to `bytes` bytes of a file from `offset` on.
    fn read(&mut self, file: &dyn ReadFile, offset: u64, bytes: usize) -> Result<Arc<Vec<u8>>> {
        let is_free = |buffer: &mut Arc<Vec<u8>>| Arc::get_mut(buffer).is_some();
        let free = self.used.iter_mut().position(is_free);
        let mut buffer = free.map(|index| self.used.swap_remove(index)).unwrap_or_default();
        let free = Arc::get_mut(&mut buffer).expect("nobody else knows it");
        read_up_to_into(free, file, offset, bytes)?;
        self.used.push(Arc::clone(&buffer));
        Ok(buffer)
    }
}

/// A part of a segment.
pub(super) struct Window<'a> {
    file: &'a dyn ReadFile,
    buffers: &'a mut Buffers,
    /// Where in the file it begins.
    start: u64,
    pub bytes: Arc<Vec<u8>>,
    /// How much is read at once, unless a record is longer.
    bytes_min: usize,
}

impl<'a> Window<'a> {
    fn new(file: &'a dyn ReadFile, buffers: &'a mut Buffers) -> Window<'a> {
        Window::of(file, buffers, WINDOW_BYTES)
    }

    /// Reads at least `bytes_min` bytes at once.
    pub fn of(file: &'a dyn ReadFile, buffers: &'a mut Buffers, bytes_min: usize) -> Window<'a> {
        Window { file, buffers, start: 0, bytes: Arc::default(), bytes_min }
    }

    /// Where in the file it ends.
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// What it holds from `offset` of the file on.
    pub fn from(&self, offset: u64) -> &[u8] {
        let index = offset.checked_sub(self.start).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.bytes.get(index..)).unwrap_or_default()
    }

    /// Moves on to `offset`; whether the file has as much as a record's header there.
    fn move_to(&mut self, offset: u64) -> Result<bool> {
        self.bytes = self.buffers.read(self.file, offset, self.bytes_min)?;
        self.start = offset;
        Ok(self.bytes.len() >= RECORD_HEADER_BYTES)
    }

    /// Moves on if need be, so that `bytes` bytes from `offset` on lie inside, or as far as the
    /// file goes.
    pub fn cover(&mut self, offset: u64, bytes: usize) -> Result<()> {
        if self.from(offset).len() < bytes {
            self.bytes = self.buffers.read(self.file, offset, self.bytes_min.max(bytes))?;
            self.start = offset;
        }
        Ok(())
    }

    /// Moves on if need be, so that what stands at `offset` lies inside as far as the length that
    /// it gives says, or as the file goes; where in the window that is.
    pub fn reach(&mut self, offset: u64) -> Result<usize> {
        let mut bytes = self.bytes_min;
        loop {
            let index = (offset - self.start) as usize;
            let rest = self.bytes.get(index..).unwrap_or_default();
            let length = rest.get(4..8).and_then(|word| word.try_into().ok());
            let length = length.map_or(0, |word| u32::from_le_bytes(word) as usize);
            let needed = length.max(RECORD_HEADER_BYTES);
            let has_all = self.end() >= self.file.bytes();
            // The file may end before it should.
            let is_tried = self.start == offset && self.bytes.len() < bytes;
            if rest.len() >= needed || has_all || is_tried {
                return Ok(index);
            }
            bytes = bytes.max(needed);
            self.bytes = self.buffers.read(self.file, offset, bytes)?;
            self.start = offset;
        }
    }
}

/// Who says with which segment a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartedBy {
    /// The manifest, which names it once it was begun durably.
    Manifest,
    /// A look at the segments that there are.
    Look,
}

/// Reads the log in `dir`; see [`LogStore::replay`](super::LogStore::replay).
pub(super) fn replay(
    env: &SharedEnv,
    dir: &Path,
    facts: LogFacts,
    started_by: StartedBy,
    visit: &mut Visit<'_>,
) -> Result<Replayed> {
    let start = facts.start;
    let mut buffers = Buffers::default();
    let directories: Vec<_> = [dir.to_path_buf()].into_iter().chain(facts.directories).collect();
    let files = find_segments(env.as_ref(), &directories, facts.database)?;
    let chain = chain_of(&files.begun, start);
    let mut replayed = Replayed {
        end: start.position,
        durable: facts.durable,
        settled: facts.durable,
        directories,
        retired: facts.retired,
        ..Replayed::default()
    };
    match start.segment {
        Some(id) if chain.is_empty() => {
            let detail =
                "the log segment that the manifest names is missing or has no valid header";
            return Err(Corruption::new(segment_path(dir, id), 0, detail).into());
        }
        None if facts.behind.is_none() => {
            files.refuse_unknown_records(facts.epoch, &mut buffers)?;
        }
        _ => {}
    }
    let settled = start.position.max(facts.settled);
    for (index, segment) in chain.iter().enumerate() {
        let successor = chain.get(index + 1).map(|next| next.header.base);
        if !read_segment(segment, &mut buffers, successor, settled, &mut replayed, visit)? {
            break;
        }
    }
    judge_tail(&files, &chain, &mut buffers, &mut replayed, started_by)?;
    let kept: Vec<SegmentFile> = replayed.segments.iter().map(|segment| segment.file).collect();
    let begun = files.begun.iter().map(Found::file);
    let doubtful = files.doubtful.iter().map(Doubtful::file);
    let all = begun.chain(doubtful).chain(files.idle.iter().copied());
    replayed.stale = all.filter(|file| !kept.contains(file)).collect();
    replayed.stale.sort();
    // The first one is named by the manifest and stays. The log does not go on below what is
    // settled: a replay would take what is written there for something older.
    let ends = replayed.segments.iter().skip(1).rev();
    let is_empty = |span: &&SegmentSpan| !span.holds_batches && span.base >= settled;
    replayed.empty_count = ends.take_while(is_empty).count();
    Ok(replayed)
}

/// Every segment file in these directories, of which the first is the range's own.
fn find_segments(env: &dyn Env, directories: &[PathBuf], database: u128) -> Result<Files> {
    let mut files = Files::default();
    let mut ids = BTreeSet::new();
    for (directory, dir) in directories.iter().enumerate() {
        let entries = match directory {
            0 => env.fs().list(dir)?,
            _ => named_entries(env, dir, database)?,
        };
        for entry in entries {
            let Some(id) = segment_id(&entry.name).filter(|_| !entry.is_dir) else { continue };
            if !ids.insert(id) {
                let detail = "the log has two segments of this name, in two directories";
                return Err(Corruption::new(segment_path(dir, id), 0, detail).into());
            }
            files.add(env, directory, dir, id, database)?;
        }
    }
    files.begun.sort_by_key(|segment| segment.header.file_id);
    files.doubtful.sort_by_key(|segment| segment.id);
    Ok(files)
}

/// The segment to begin with for the records from a position on, of those in `dir` and
/// `directories`: the newest one that begins there or before.
///
/// One that holds the record and was cut off is older than the one that it was cut off by. One that
/// holds copies of it had all of them durably before it got a header. And while a segment was only
/// half begun, nothing was written behind the ones before it.
pub(super) fn newest_at(
    env: &SharedEnv,
    dir: &Path,
    directories: &[PathBuf],
    database: u128,
    position: LogPosition,
) -> Result<Option<FileId>> {
    let all: Vec<_> = [dir.to_path_buf()].into_iter().chain(directories.iter().cloned()).collect();
    let files = find_segments(env.as_ref(), &all, database)?;
    let mut buffers = Buffers::default();
    for segment in files.begun.iter().rev().filter(|segment| segment.header.base <= position) {
        let is_whole = segment.survey()?.lost_part(true).is_none();
        if is_whole || !segment.records_behind(&mut buffers, SEGMENT_HEADER_BYTES)?.is_empty() {
            return Ok(Some(segment.header.file_id));
        }
    }
    Ok(None)
}

/// What the headers of a segment file say.
pub(super) enum HeaderRead {
    Begun(SegmentHeader),
    /// Both are of another use of the file.
    Idle,
    /// None is good; what stands in the places of the identity.
    Doubtful(Vec<u128>),
}

/// The header of the segment with this id: the first, or else the second.
///
/// A file that is used again gets a greater id. So a header of ours that names a greater one than
/// the file's name is in the wrong place, and what should be here is missing.
pub(super) fn read_header(
    file: &dyn ReadFile,
    path: &Path,
    id: FileId,
    database: u128,
) -> Result<HeaderRead> {
    let mut first_damage = None;
    let mut identities = Vec::new();
    for offset in [0, SegmentHeader::second_offset(file.bytes())] {
        let bytes = read_up_to(file, offset, SEGMENT_HEADER_BYTES as usize)?;
        match SegmentHeader::decode(&bytes, offset) {
            Ok(header) if header.file_id == id => {
                if let Some(damage) = first_damage {
                    crate::program_log::warn!(
                        file = %path.display(), %damage,
                        "the header of a log segment is damaged; its second copy is used"
                    );
                }
                return Ok(HeaderRead::Begun(header));
            }
            Ok(header) if header.file_id > id && header.database == database => {
                let detail = format!("this is log segment {}, under another name", header.file_id);
                return Err(Corruption::new(path, offset, detail).into());
            }
            Ok(_) => {}
            Err(PreambleError::Codec(error)) => {
                identities.push(SegmentHeader::identity_in(&bytes));
                first_damage = Some(error);
            }
            Err(PreambleError::Unsupported) => {
                return Err(Error::Unsupported(format!(
                    "{} was written by a later version of Terrace; open it with that version",
                    path.display()
                )));
            }
        }
    }
    Ok(if identities.is_empty() { HeaderRead::Idle } else { HeaderRead::Doubtful(identities) })
}

/// The chain from `start` on.
pub(super) fn chain_of(begun: &[Found], start: LogStart) -> Vec<&Found> {
    let mut chain: Vec<&Found> = Vec::new();
    let Some(first) = start.segment else { return chain };
    let mut current = begun.iter().find(|segment| segment.header.file_id == first);
    while let Some(segment) = current {
        chain.push(segment);
        let id = segment.header.file_id;
        let successors = begun
            .iter()
            .filter(|next| next.header.predecessor == Some(id) && next.header.file_id > id);
        current = successors.max_by_key(|next| next.header.file_id);
    }
    chain
}

/// Hands over the records of one segment; whether it is complete up to its successor.
fn read_segment(
    segment: &Found,
    buffers: &mut Buffers,
    successor: Option<LogPosition>,
    settled: LogPosition,
    replayed: &mut Replayed,
    visit: &mut Visit<'_>,
) -> Result<bool> {
    let header = &segment.header;
    let fits = match replayed.segments.is_empty() {
        true => header.base <= settled,
        false => header.base == replayed.end,
    };
    if !fits {
        let detail = "the segment does not begin where the one before it ends";
        return Err(Corruption::new(&segment.path, 0, detail).into());
    }
    let mut window = Window::new(segment.file.as_ref(), buffers);
    let mut offset = SEGMENT_HEADER_BYTES;
    let mut position = header.base;
    let mut holds_batches = false;
    replayed.note_header(header);
    replayed.closing = None;
    while successor.is_none_or(|end| position < end) {
        let at = window.reach(offset)?;
        let rest = window.bytes.get(at..).unwrap_or_default();
        let Ok((record, body)) = decode_record(rest, header.identity, offset) else { break };
        let end = SegmentHeader::second_offset(segment.file.bytes());
        let is_last = offset + record.padded_bytes() == end;
        if is_last && is_planted(PlantedBug::OffByOneAtLogTail) {
            break;
        }
        replayed.note_durable(record.durable);
        replayed.closing = None;
        match record.kind {
            RecordKind::Closing => {
                let closing = ClosingBody::decode(body);
                let closing =
                    closing.map_err(|e| Corruption::from_codec(&segment.path, offset, &e))?;
                replayed.closing = Some(closing);
            }
            RecordKind::Batch => {
                holds_batches = true;
                if position >= settled {
                    let (file, header, buffer) = (&*segment.path, &record, &window.bytes);
                    let start = at + RECORD_HEADER_BYTES;
                    let body = start..start + body.len();
                    visit(ReadRecord { position, file, offset, header, buffer, body })?;
                }
            }
        }
        offset += record.padded_bytes();
        position.0 += record.padded_bytes();
    }
    replayed.end = position;
    let (file, base) = (segment.file(), header.base);
    let copied = header.durable;
    replayed.segments.push(SegmentSpan { file, base, end: position, holds_batches, copied });
    Ok(successor == Some(position))
}

/// The record at the beginning of `rest`, which stands at `offset`.
pub(super) fn decode_record(
    rest: &[u8],
    identity: u128,
    offset: u64,
) -> std::result::Result<(RecordHeader, &[u8]), CodecError> {
    if is_planted(PlantedBug::SkipChecksum) && rest.len() >= RECORD_HEADER_BYTES {
        let length = u32::from_le_bytes([rest[4], rest[5], rest[6], rest[7]]) as usize;
        if (RECORD_HEADER_BYTES..=rest.len()).contains(&length) {
            let mut believed = rest[..length].to_vec();
            let checksum = Checksum::at(identity, offset).bytes(&believed[4..]).finish();
            believed[..4].copy_from_slice(&checksum.to_le_bytes());
            let (header, _) = RecordHeader::decode(&believed, identity, offset)?;
            return Ok((header, &rest[RECORD_HEADER_BYTES..length]));
        }
    }
    RecordHeader::decode(rest, identity, offset)
}

/// Decides whether what stands behind the end of the log is a torn tail or damage.
///
/// A segment with a damaged header counts too: its records still pass their checksums if the
/// identity is whole, and say how far the log was durable.
fn judge_tail(
    files: &Files,
    chain: &[&Found],
    buffers: &mut Buffers,
    replayed: &mut Replayed,
    started_by: StartedBy,
) -> Result<()> {
    let Some(last) = replayed.segments.last().copied() else { return Ok(()) };
    let offset = SEGMENT_HEADER_BYTES + (last.end.0 - last.base.0);
    let mut place = (PathBuf::new(), offset);
    let mut dropped_records = 0;
    let mut surveys = Vec::new();
    for segment in files.begun.iter().filter(|segment| segment.header.file_id >= last.file.id) {
        replayed.note_header(&segment.header);
        let is_last = segment.header.file_id == last.file.id;
        if is_last {
            place.0.clone_from(&segment.path);
        }
        let from = if is_last { offset } else { SEGMENT_HEADER_BYTES };
        surveys.push((segment, segment.survey()?));
        // An open that was cut short may have left copies of what was read.
        let is_behind = segment.header.base >= replayed.end || is_last;
        for record in segment.records_behind(buffers, from)? {
            replayed.note_durable(record.durable);
            dropped_records += u64::from(is_behind);
        }
    }
    for segment in files.doubtful.iter().filter(|segment| segment.id > last.file.id) {
        let durable = segment.records(buffers)?.into_iter().map(|record| record.durable).max();
        let durable = durable.unwrap_or_default();
        if durable > replayed.end {
            place = (segment.path.clone(), 0);
        }
        replayed.note_durable(durable);
    }
    if replayed.durable > replayed.end {
        let detail = format!(
            "nothing valid here, but the log was durable up to position {} (it is readable up to {})",
            replayed.durable, replayed.end
        );
        return Err(Corruption::new(place.0, place.1, detail).into());
    }
    if replayed.closing.is_none() {
        for (segment, survey) in &surveys {
            refuse_lost_part(segment, survey, &last, replayed, started_by)?;
        }
    }
    if dropped_records > 0 || replayed.segments.len() < chain.len() {
        replayed.torn = Some(TornTail { segment: last.file.id, offset, dropped_records });
    }
    Ok(())
}

/// Refuses an end of the log at, or before, a segment of which a part is gone: what said how far
/// the log was durable may have stood in it.
fn refuse_lost_part(
    segment: &Found,
    survey: &SegmentSurvey,
    last: &SegmentSpan,
    replayed: &mut Replayed,
    started_by: StartedBy,
) -> Result<()> {
    let SegmentHeader { file_id, predecessor, .. } = segment.header;
    // Copies come before the headers that say so.
    let own = segment.header.base.max(segment.header.durable);
    let is_last = file_id == last.file.id;
    let begins = segment.begins_an_epoch() || predecessor.is_none();
    // The first record of an epoch comes after its segment was begun durably, and so does the edit
    // that says where the log starts.
    let is_start = replayed.segments.first().is_some_and(|first| first.file.id == file_id);
    let is_named = is_start && started_by == StartedBy::Manifest;
    let is_begun = is_named || (begins && last.end > own);
    let is_synced = is_last && (own < replayed.settled || is_begun);
    if let Some((offset, what)) = survey.lost_part(is_synced) {
        let detail = format!("{what}, and the log was not closed: its end may be gone");
        return Err(Corruption::new(&segment.path, offset, detail).into());
    }
    if is_last && survey.lost_part(true).is_some() {
        replayed.half_begun = Some(file_id);
    }
    Ok(())
}

/// Hands over every record of a segment that was replayed, closing records too, between two
/// positions, of which the second one is where its last record ends; up to where that went well.
pub(super) fn records_between(
    env: &SharedEnv,
    path: &Path,
    span: &SegmentSpan,
    database: u128,
    (from, to): (LogPosition, LogPosition),
    visit: &mut dyn FnMut(&RecordHeader, &[u8]) -> Result<()>,
) -> Result<LogPosition> {
    let file = env.fs().open(path)?;
    let HeaderRead::Begun(header) = read_header(file.as_ref(), path, span.file.id, database)?
    else {
        return Ok(span.base);
    };
    let mut buffers = Buffers::default();
    let mut window = Window::new(file.as_ref(), &mut buffers);
    let mut position = from;
    while position < to {
        let offset = SEGMENT_HEADER_BYTES + (position.0 - span.base.0);
        if window.end() < offset {
            window.move_to(offset)?;
        }
        let at = window.reach(offset)?;
        let rest = window.bytes.get(at..).unwrap_or_default();
        let Ok((record, body)) = decode_record(rest, header.identity, offset) else { break };
        visit(&record, body)?;
        position.0 += record.padded_bytes();
    }
    Ok(position)
}

/// The records in a segment file from `from` on, wherever they stand.
fn records_behind(
    file: &dyn ReadFile,
    buffers: &mut Buffers,
    identity: u128,
    from: u64,
) -> Result<Vec<RecordHeader>> {
    let mut found = Vec::new();
    let mut window = Window::new(file, buffers);
    let mut offset = from.next_multiple_of(RECORD_ALIGNMENT as u64);
    loop {
        if let Some(at) = next_likely_record(window.from(offset), 0) {
            offset += at;
            let at = window.reach(offset)?;
            let rest = window.bytes.get(at..).unwrap_or_default();
            match RecordHeader::decode(rest, identity, offset) {
                Ok((header, _)) => {
                    offset += header.padded_bytes();
                    found.push(header);
                }
                Err(_) => offset += RECORD_ALIGNMENT as u64,
            }
            continue;
        }
        // Nothing more in here, but for a header that the window ends in.
        offset = offset.max(window.end().saturating_sub(RECORD_HEADER_BYTES as u64 - 1));
        offset = offset.next_multiple_of(RECORD_ALIGNMENT as u64);
        if !window.move_to(offset)? {
            return Ok(found);
        }
    }
}
