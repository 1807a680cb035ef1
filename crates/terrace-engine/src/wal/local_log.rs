//! The log in local files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{FileId, LogPosition};
use terrace_env::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_env::{Latch, LogFile, Mutex, PlantedBug, PmemMedium, SharedEnv, is_planted};

use super::format::{RECORD_ALIGNMENT, SEGMENT_HEADER_BYTES, SegmentHeader};
use super::place::{SegmentFiles, settle};
use super::replay::{LogFacts, LogStart, Replayed, SegmentSpan, replay};
use super::sink::{LogPlace, LogSink, LogStore, LogTarget, Record, Visit};
use crate::version::FileIds;
use crate::{Error, Result};

/// The logs of one directory.
#[derive(Clone, Debug)]
pub struct LocalLogStore {
    /// The outside world.
    pub env: SharedEnv,
    /// The range's directory, which exists.
    pub dir: PathBuf,
    /// Bytes of a segment. A record that is larger gets a segment of its own size.
    pub segment_bytes: u64,
    /// The directory of the medium that new segments go to, if that is not the range's: persistent
    /// memory, or what stands in for it.
    pub medium: Option<PathBuf>,
}

impl LogStore for LocalLogStore {
    fn replay(&self, facts: LogFacts, visit: &mut Visit<'_>) -> Result<Replayed> {
        replay(&self.env, &self.dir, facts, visit)
    }

    fn settle(&self, database: u128, replayed: &Replayed) -> Result<Vec<PathBuf>> {
        settle(self, database, replayed)
    }

    fn begin(
        &self,
        database: u128,
        ids: &Arc<FileIds>,
        replayed: &Replayed,
        reserved_bytes: u64,
    ) -> Result<Arc<dyn LogSink>> {
        Ok(Arc::new(LocalLog::open(self, database, ids, replayed, reserved_bytes)?))
    }
}

/// The log is rotated at a freeze if it holds so large a share of a segment that a sync would have
/// to write: less is synced sooner than a segment is prepared.
const ROTATION_SHARE: u64 = 8;

/// How many files of deleted segments wait to be used again.
const RECYCLED_FILES_MAX: usize = 2;

/// A range's log as segment files. See the room's door for the picture.
#[derive(Debug)]
pub struct LocalLog {
    files: SegmentFiles,
    /// Where segments of earlier opens are: see [`SegmentFile::directory`](super::SegmentFile).
    directories: Vec<PathBuf>,
    /// The database that the log belongs to.
    database: u128,
    /// Bytes of the file system that stay free: with less, no segment is added.
    reserved_bytes: u64,
    ids: Arc<FileIds>,
    tail: Latch<Tail>,
    durable: AtomicU64,
    /// Whether records were synced since the last segment was prepared.
    was_synced: AtomicBool,
    /// One sync at a time; guards what has been synced.
    sync_turn: Mutex<()>,
    /// One preparation at a time; guards the files that wait to be used again.
    prepare_turn: Mutex<Vec<Recyclable>>,
}

/// Where the next record goes.
#[derive(Debug)]
struct Tail {
    /// Oldest first; the last one is written to.
    segments: VecDeque<Arc<Segment>>,
    /// Segments that were left by earlier opens, oldest first; read only.
    replayed: VecDeque<SegmentSpan>,
    /// The offset of the next record in the last segment.
    offset: u64,
    /// Reserved, to become the next segment.
    spare: Option<Spare>,
    /// Bytes of the records in the last segment that were written through its mapping.
    mapped_bytes: u64,
    /// How much of the next segment is worth bringing into memory before it is used: what the last
    /// full one took that way. Writers that have to do it wait for each other's pages, and all who
    /// come after them in the append order for them.
    warm_bytes: u64,
}

#[derive(Debug)]
struct Spare {
    id: FileId,
    identity: u128,
    file: Arc<dyn LogFile>,
}

/// A file that nobody needs.
#[derive(Debug)]
pub(super) struct Recyclable {
    pub path: PathBuf,
    pub bytes: u64,
    /// Its mapping, if it was a segment in memory: a new one would take the kernel longer than all
    /// that is written to it.
    pub mapped: Option<Arc<dyn LogFile>>,
}

/// One segment that this log writes.
#[derive(Debug)]
struct Segment {
    header: SegmentHeader,
    file: Arc<dyn LogFile>,
    path: PathBuf,
    /// Whether the headers are written.
    is_begun: AtomicBool,
    /// Whether they are durable by themselves, whatever was synced behind them: a replay may begin
    /// at the base. Only a flush changes this, before its edit: what the manifest names by it and
    /// what is released by it afterwards must be the same, so a sync in between leaves it alone.
    is_begun_durably: AtomicBool,
}

impl Segment {
    fn position(&self, offset: u64) -> LogPosition {
        LogPosition(self.header.base.0 + (offset - SEGMENT_HEADER_BYTES))
    }

    /// Where records end at the latest.
    fn records_end(&self) -> u64 {
        SegmentHeader::second_offset(self.header.segment_bytes)
    }

    /// Writes both headers, unless that is done. Called by whoever rotates the log, while
    /// nobody takes a place in it, or by the writer of the first record; never by two at once.
    fn begin(&self) -> Result<()> {
        if self.is_begun.load(Ordering::Acquire) {
            return Ok(());
        }
        for offset in [0, self.records_end()] {
            self.file.write_at(offset, &self.header.encode(offset))?;
        }
        self.is_begun.store(true, Ordering::Release);
        Ok(())
    }

    /// Makes both headers, which are written, durable.
    fn sync_headers(&self) -> Result<()> {
        if !self.is_begun_durably.load(Ordering::Acquire) {
            for offset in [0, self.records_end()] {
                self.file.sync_range(offset, SEGMENT_HEADER_BYTES)?;
            }
            self.is_begun_durably.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Whether a replay that needs nothing below `from` may begin with this segment: whatever is
    /// durable behind its headers makes them so.
    fn may_begin_at(&self, from: LogPosition) -> bool {
        let base = self.header.base;
        base < from || base == from && self.is_begun_durably.load(Ordering::Acquire)
    }
}

/// Records of at least this size are written by one call: a file that is mapped takes that by a
/// system call, of which it should need one only.
const WHOLE_BYTES: usize = 2048;

impl LogTarget for Segment {
    fn append(&self, place: &LogPlace, record: &Record<'_>) -> Result<()> {
        if place.offset == SEGMENT_HEADER_BYTES {
            self.begin()?;
        }
        let header = record.header();
        let mut offset = place.offset;
        let encoded = header.encode(self.header.identity, offset, record.body);
        let body_bytes = record.body.iter().map(|piece| piece.len()).sum::<usize>();
        if body_bytes >= WHOLE_BYTES && self.file.medium().is_none() {
            let whole = [&[&encoded[..]], record.body].concat().concat();
            return Ok(self.file.write_at(offset, &whole)?);
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
fn padded(bytes: usize) -> u64 {
    bytes.next_multiple_of(RECORD_ALIGNMENT) as u64
}

/// Bytes that a segment needs for `record_bytes` of records.
fn segment_bytes_for(record_bytes: u64) -> u64 {
    2 * SEGMENT_HEADER_BYTES + record_bytes
}

/// The path of the segment with this id.
pub(super) fn segment_path(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.log"))
}

/// The id of a segment's file, if it is one.
pub(super) fn segment_id(name: &str) -> Option<FileId> {
    FileId::parse(name.strip_suffix(".log")?)
}

impl LocalLog {
    /// Syncs what was read, and begins a segment whose header says durably where the log goes on,
    /// so that a torn tail is cut off for ever; then deletes the files that belong to no segment of
    /// the chain.
    fn open(
        store: &LocalLogStore,
        database: u128,
        ids: &Arc<FileIds>,
        replayed: &Replayed,
        reserved_bytes: u64,
    ) -> Result<LocalLog> {
        let env = &store.env;
        let files = SegmentFiles::new(store, database);
        let kept = &replayed.segments[..replayed.segments.len() - replayed.empty_count];
        for segment in kept {
            // What was read may be in the kernel's pages only, and is now to be built upon.
            env.fs().sync_file(&replayed.path(segment.file))?;
        }
        let end = kept.last().map_or(replayed.end, |last| last.end);
        let log = LocalLog {
            database,
            reserved_bytes: files.reserved_bytes(reserved_bytes),
            ids: Arc::clone(ids),
            tail: Latch::new(Tail {
                segments: VecDeque::new(),
                replayed: kept.iter().copied().collect(),
                offset: 0,
                spare: None,
                mapped_bytes: 0,
                warm_bytes: 0,
            }),
            durable: AtomicU64::new(end.0),
            was_synced: AtomicBool::new(false),
            sync_turn: env.waits().mutex(()),
            prepare_turn: env.waits().mutex(Vec::new()),
            files,
            directories: replayed.directories.clone(),
        };
        let emptied = replayed.segments[kept.len()..].iter().map(|segment| segment.file);
        let mut unused: Vec<Recyclable> = replayed
            .stale
            .iter()
            .copied()
            .chain(emptied)
            .map(|file| Recyclable { path: replayed.path(file), bytes: file.bytes, mapped: None })
            .collect();
        // A process that was killed may not have synced the size of a file that it had made: what
        // is used again below is not synced once more.
        for file in &unused {
            env.fs().sync_file(&file.path)?;
        }
        log.begin(kept.last().map(|last| last.file.id), end, &mut unused)?;
        for file in unused {
            log.recycle(file, &mut log.prepare_turn.lock())?;
        }
        Ok(log)
    }

    /// Begins the first segment of this open, in one of the files that nobody needs if it can: a
    /// full disk must not keep a range from being opened.
    fn begin(
        &self,
        predecessor: Option<FileId>,
        base: LogPosition,
        unused: &mut Vec<Recyclable>,
    ) -> Result<()> {
        let spare = self.reserve(0, unused, 0)?;
        let segment = Arc::new(self.segment(spare, predecessor, base));
        segment.begin()?;
        if !is_planted(PlantedBug::SkipTailCut) {
            segment.sync_headers()?;
        }
        let mut tail = self.tail.lock();
        tail.segments.push_back(segment);
        tail.offset = SEGMENT_HEADER_BYTES;
        Ok(())
    }

    /// The segment that a reserved file becomes; its headers are not written yet.
    fn segment(&self, spare: Spare, predecessor: Option<FileId>, base: LogPosition) -> Segment {
        let header = SegmentHeader {
            identity: spare.identity,
            file_id: spare.id,
            predecessor,
            base,
            database: self.database,
            segment_bytes: spare.file.bytes(),
        };
        let path = segment_path(&self.files.dir, spare.id);
        let (is_begun, is_begun_durably) = Default::default();
        Segment { header, file: spare.file, path, is_begun, is_begun_durably }
    }

    /// Makes the spare file the segment that the next record goes to, if there is one that holds a
    /// record of `need` bytes.
    fn go_on(&self, tail: &mut Tail, need: u64) -> Option<Arc<Segment>> {
        if !tail.spare_fits(need) {
            return None;
        }
        let spare = tail.spare.take()?;
        let before = tail.segments.back().map(|last| last.header.file_id);
        let segment = Arc::new(self.segment(spare, before, tail.end()));
        tail.segments.push_back(Arc::clone(&segment));
        tail.offset = SEGMENT_HEADER_BYTES;
        tail.warm_bytes = std::mem::take(&mut tail.mapped_bytes);
        Some(segment)
    }

    /// Keeps a file that nobody needs for a later segment, or deletes it.
    fn recycle(&self, file: Recyclable, recyclable: &mut Vec<Recyclable>) -> Result<()> {
        if file.bytes == self.files.segment_bytes
            && self.files.takes(&file.path, file.bytes)
            && recyclable.len() < RECYCLED_FILES_MAX
        {
            recyclable.push(file);
            return Ok(());
        }
        Ok(self.files.env.fs().remove(&file.path)?)
    }

    /// Reserves a file for a segment that can hold a record of `bytes`, with `reserved_bytes` of
    /// the disk left free.
    fn reserve(
        &self,
        bytes: usize,
        recyclable: &mut Vec<Recyclable>,
        reserved_bytes: u64,
    ) -> Result<Spare> {
        let segment_bytes = segment_bytes_for(padded(bytes)).max(self.files.segment_bytes);
        let segment_bytes = self.files.whole(segment_bytes);
        let id = self.ids.next();
        let path = segment_path(&self.files.dir, id);
        let fs = self.files.env.fs();
        let free = fs.free_bytes(&self.files.dir)?;
        // The next open needs a file too, on a full disk as on any other.
        let leaves_one = reserved_bytes == 0 || recyclable.len() > 1 || free >= segment_bytes;
        let reused = match leaves_one {
            true => self.reuse(&path, segment_bytes, recyclable)?,
            false => None,
        };
        let file = match reused {
            Some(file) => file,
            None if free < reserved_bytes.saturating_add(segment_bytes) => {
                return Err(no_space(&path));
            }
            None => self.files.create(&path, segment_bytes)?,
        };
        if !is_planted(PlantedBug::SkipLogDirectorySync) {
            fs.sync_dir(&self.files.dir)?;
        }
        let mut identity = self.files.env.random_u128();
        if is_planted(PlantedBug::KeepSegmentIdentity) {
            identity = 7;
        }
        Ok(Spare { id, identity, file })
    }

    /// One of the files that nobody needs, under the name `path`, if one has at least `bytes`
    /// bytes. Its space is durably its own. What it held is not wanted, synced or not.
    fn reuse(
        &self,
        path: &Path,
        bytes: u64,
        recyclable: &mut Vec<Recyclable>,
    ) -> Result<Option<Arc<dyn LogFile>>> {
        for index in 0..recyclable.len() {
            let old = &recyclable[index];
            if old.bytes < bytes || !self.files.takes(&old.path, old.bytes) {
                continue;
            }
            let mut old = recyclable.swap_remove(index);
            if let Some(file) = self.files.recycle(&mut old, path)? {
                return Ok(Some(file));
            }
            recyclable.insert(index, old);
        }
        Ok(None)
    }

    fn make_room_in(&self, bytes: usize, enough: impl Fn(&Tail) -> bool) -> Result<()> {
        let mut recyclable = self.prepare_turn.lock();
        if enough(&self.tail.lock()) {
            return Ok(());
        }
        let spare = self.reserve(bytes, &mut recyclable, self.reserved_bytes)?;
        let warm_bytes = self.tail.lock().warm_bytes;
        // What was brought in and is synced before it is written goes to the device twice.
        if warm_bytes > 0 && !self.was_synced.swap(false, Ordering::Relaxed) {
            spare.file.warm(SEGMENT_HEADER_BYTES + warm_bytes);
        }
        let too_small = self.tail.lock().spare.replace(spare);
        if let Some(small) = too_small {
            let path = segment_path(&self.files.dir, small.id);
            recyclable.push(self.files.recyclable(path, small.file));
        }
        Ok(())
    }

    fn rotation_bytes_min(&self) -> u64 {
        self.files.segment_bytes / ROTATION_SHARE
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
            let is_loose = *end == base && !segment.is_begun_durably.load(Ordering::Acquire);
            base < through && (*end > durable || is_loose)
        };
        let unsynced = tail.segments.iter().zip(ends).filter(is_unsynced);
        unsynced.map(|(segment, _)| Arc::clone(segment)).collect()
    }
}

#[cfg(test)]
impl LocalLog {
    /// A log that writes to the first of `files` and has the second one in spare, for models and
    /// tests. `uses` is the number of uses of files before these.
    pub(super) fn of_files(files: Vec<Arc<dyn LogFile>>, uses: u64) -> LocalLog {
        let env: SharedEnv = terrace_env::RealEnv::new();
        let ids = Arc::new(FileIds::new(terrace_base::Epoch(1), uses));
        let dir = PathBuf::new();
        let store = LocalLogStore { env, dir, segment_bytes: 0, medium: None };
        let waits = terrace_env::WaitFactory::real();
        let mut spares = files
            .into_iter()
            .zip(u128::from(uses) + 1..)
            .map(|(file, identity)| Spare { id: ids.next(), identity, file });
        let Some(Spare { id, identity, file }) = spares.next() else { panic!("no file") };
        let base = LogPosition(0);
        let header = SegmentHeader {
            identity,
            file_id: id,
            predecessor: None,
            base,
            database: 0,
            segment_bytes: file.bytes(),
        };
        let (is_begun, is_begun_durably) = Default::default();
        let first = Segment { header, file, path: PathBuf::new(), is_begun, is_begun_durably };
        let segments = VecDeque::from([Arc::new(first)]);
        let offset = SEGMENT_HEADER_BYTES;
        let (replayed, mapped_bytes, warm_bytes) = Default::default();
        let tail =
            Tail { segments, replayed, offset, spare: spares.next(), mapped_bytes, warm_bytes };
        drop(spares);
        LocalLog {
            files: SegmentFiles::new(&store, 0),
            directories: Vec::new(),
            database: 0,
            reserved_bytes: 0,
            ids,
            tail: Latch::new(tail),
            durable: AtomicU64::new(0),
            was_synced: AtomicBool::new(false),
            sync_turn: waits.mutex(()),
            prepare_turn: waits.mutex(Vec::new()),
        }
    }
}

fn no_space(path: &Path) -> Error {
    Error::NoSpace(terrace_env::EnvError::new(
        terrace_env::Operation::Preallocate,
        path,
        std::io::Error::from(std::io::ErrorKind::StorageFull),
    ))
}

impl Tail {
    fn fits(&self, need: u64) -> bool {
        self.segments.back().is_some_and(|last| self.offset + need <= last.records_end())
    }

    fn spare_fits(&self, need: u64) -> bool {
        self.spare.as_ref().is_some_and(|spare| segment_bytes_for(need) <= spare.file.bytes())
    }

    fn end(&self) -> LogPosition {
        self.segments.back().map_or(LogPosition(0), |last| last.position(self.offset))
    }

    /// Bytes of records that a sync would have to write; 0 if the last segment holds none.
    fn unsynced_bytes(&self, durable: LogPosition) -> u64 {
        match self.offset {
            SEGMENT_HEADER_BYTES => 0,
            _ => self.end().0.saturating_sub(durable.0),
        }
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
        self.was_synced.store(true, Ordering::Relaxed);
        for segment in self.unsynced(through) {
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
            let is_worth_it = tail.unsynced_bytes(self.durable()) >= self.rotation_bytes_min();
            let segment = if is_worth_it { self.go_on(&mut tail, 0) } else { None };
            (segment, tail.end())
        };
        if let Some(segment) = segment {
            segment.begin()?;
        }
        Ok(end)
    }

    fn begin_at(&self, from: LogPosition) -> Result<bool> {
        let begun = {
            let tail = self.tail.lock();
            tail.segments.iter().find(|segment| segment.header.base == from).map(Arc::clone)
        };
        let begun = begun.filter(|segment| segment.is_begun.load(Ordering::Acquire));
        begun.map_or(Ok(false), |segment| segment.sync_headers().map(|()| true))
    }

    fn release(&self, from: LogPosition) -> Result<()> {
        // What stood below is durable in tables.
        self.durable.fetch_max(from.0, Ordering::AcqRel);
        let mut recyclable = self.prepare_turn.lock();
        let mut released = Vec::new();
        {
            let mut tail = self.tail.lock();
            let own = tail.segments.front().map(|first| first.header.base);
            let is_own = own.is_some_and(|base| base <= from);
            while tail.replayed.front().is_some_and(|oldest| is_own || oldest.end < from) {
                let SegmentSpan { file, .. } = tail.replayed.pop_front().expect("just looked at");
                let path = segment_path(&self.directories[file.directory], file.id);
                released.push(Recyclable { path, bytes: file.bytes, mapped: None });
            }
            while tail.segments.len() > 1 && tail.segments[1].may_begin_at(from) {
                let segment = tail.segments.pop_front().expect("more than one");
                let file = Arc::clone(&segment.file);
                released.push(self.files.recyclable(segment.path.clone(), file));
            }
        }
        // A file that cannot be removed holds up no other; the next open finds it.
        let mut outcome = Ok(());
        for file in released {
            outcome = outcome.and(self.recycle(file, &mut recyclable));
        }
        outcome
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

    fn medium(&self) -> Option<PmemMedium> {
        self.tail.lock().segments.back().and_then(|segment| segment.file.medium())
    }

    fn wants_preparation(&self) -> bool {
        self.tail.lock().spare.is_none()
    }

    fn prepare(&self) -> Result<()> {
        self.make_room_in(0, |tail| tail.spare.is_some())
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
}
