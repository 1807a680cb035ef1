//! Files are made for segments, used again, and given back.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{FileId, LogPosition};
use terrace_env::atomic::Ordering;
use terrace_env::{LogFile, PlantedBug, is_planted};

use super::segment::{Segment, padded, segment_bytes_for, segment_path};
use super::sink::LocalLog;
use super::sizing::{SEGMENT_BYTES_MIN, Sizing};
use super::tail::{Spare, Tail};
use crate::wal::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Error, Result};

/// A file that nobody needs.
#[derive(Debug)]
pub(in crate::wal) struct Recyclable {
    pub path: PathBuf,
    pub bytes: u64,
    /// Its mapping, if it was a segment in memory: a new one would take the kernel longer than all
    /// that is written to it.
    pub mapped: Option<Arc<dyn LogFile>>,
}

impl Recyclable {
    /// A file that nobody has open.
    pub fn at(path: PathBuf, bytes: u64) -> Recyclable {
        Recyclable { path, bytes, mapped: None }
    }
}

/// What whoever prepares segments knows.
#[derive(Debug)]
pub(super) struct Preparation {
    /// Files that wait to be used again.
    pub recyclable: Vec<Recyclable>,
    /// Files that are value files too, and could not be removed under their names of the log.
    pub named: Vec<Recyclable>,
    pub sizing: Sizing,
}

impl Preparation {
    pub fn new(sizing: Sizing) -> Preparation {
        Preparation { recyclable: Vec::new(), named: Vec::new(), sizing }
    }
}

/// Number of times that a file to be used again may be larger than what is wanted.
const OVERSIZE_MAX: u64 = 4;

impl LocalLog {
    /// The segment that a reserved file becomes; its headers are not written yet. `durable` is the
    /// end of the copies in it.
    pub(super) fn segment(
        &self,
        spare: Spare,
        predecessor: Option<FileId>,
        base: LogPosition,
        durable: LogPosition,
    ) -> Segment {
        let header = SegmentHeader {
            identity: spare.identity,
            file_id: spare.id,
            predecessor,
            base,
            database: self.database,
            segment_bytes: spare.file.bytes(),
            durable,
        };
        let segment = Segment::new(header, spare.file, segment_path(&self.files.dir, spare.id));
        segment.write_by_calls(self.writes_by_calls());
        segment
    }

    /// Keeps a file that nobody needs for a later segment, or deletes it.
    pub(super) fn recycle(&self, file: Recyclable, preparation: &mut Preparation) -> Result<()> {
        let wanted = preparation.sizing.wanted();
        let sizes = wanted.segment_bytes..=wanted.segment_bytes.saturating_mul(OVERSIZE_MAX);
        let waiting = self.tail.lock().spares.len() + preparation.recyclable.len();
        if sizes.contains(&file.bytes)
            && self.files.takes(&file.path, file.bytes)
            && waiting < wanted.kept_count
        {
            preparation.recyclable.push(file);
            self.count_recyclable(preparation);
            return Ok(());
        }
        Ok(self.files.env.fs().remove(&file.path)?)
    }

    /// Reserves a file for a segment that can hold a record of `bytes`, with `reserved_bytes` of
    /// the disk left free. Its name is durable; whether it is new.
    fn reserve(
        &self,
        bytes: usize,
        preparation: &mut Preparation,
        reserved_bytes: u64,
    ) -> Result<(Spare, bool)> {
        let needed = segment_bytes_for(padded(bytes));
        let (spare, is_new) = self.take_file(needed, preparation, reserved_bytes)?;
        if is_new {
            crate::fail_point::fail_point!(self.files.env, "wal::before_prepare_sync");
            spare.file.sync()?;
        }
        self.count_recyclable(preparation);
        self.sync_names()?;
        Ok((spare, is_new))
    }

    /// Some files wait to be used again, or others than before.
    fn count_recyclable(&self, preparation: &Preparation) {
        let bytes = preparation.recyclable.iter().map(|file| file.bytes).sum();
        // Order: relaxed; a figure.
        self.recyclable_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Makes the names of new segments durable.
    pub(super) fn sync_names(&self) -> Result<()> {
        if !is_planted(PlantedBug::SkipLogDirectorySync) {
            self.files.env.fs().sync_dir(&self.files.dir)?;
        }
        Ok(())
    }

    /// A file of at least `needed` bytes, whose name is not durable; whether it is new.
    pub(super) fn take_file(
        &self,
        needed: u64,
        preparation: &mut Preparation,
        reserved_bytes: u64,
    ) -> Result<(Spare, bool)> {
        let segment_bytes = needed.max(preparation.sizing.wanted().segment_bytes);
        let segment_bytes = self.files.whole(segment_bytes);
        let id = self.ids.next();
        let path = segment_path(&self.files.dir, id);
        let free = self.files.env.fs().free_bytes(&self.files.dir)?;
        let recyclable = &mut preparation.recyclable;
        let is_full = free < reserved_bytes.saturating_add(segment_bytes);
        // The next open needs a file too, on a full disk as on any other.
        let leaves_one = reserved_bytes == 0 || recyclable.len() > 1 || free >= segment_bytes;
        let sizes_max = if is_full { u64::MAX } else { segment_bytes.saturating_mul(OVERSIZE_MAX) };
        let reused = match leaves_one {
            true => self.reuse(&path, segment_bytes, sizes_max, recyclable)?,
            false => None,
        };
        let is_new = reused.is_none();
        let file = match reused {
            Some(file) => file,
            None if is_full => return Err(no_space(&path)),
            None => self.files.create(&path, segment_bytes)?,
        };
        let mut identity = self.files.env.random_u128();
        if is_planted(PlantedBug::KeepSegmentIdentity) {
            identity = 7;
        }
        Ok((Spare { id, identity, file, is_warm: false }, is_new))
    }

    /// One of the files that nobody needs, under the name `path`, if one has that size. Its
    /// space is durably its own. What it held is not wanted, synced or not.
    fn reuse(
        &self,
        path: &Path,
        bytes: u64,
        bytes_max: u64,
        recyclable: &mut Vec<Recyclable>,
    ) -> Result<Option<Arc<dyn LogFile>>> {
        for index in 0..recyclable.len() {
            let old = &recyclable[index];
            let fits = (bytes..=bytes_max).contains(&old.bytes);
            if !fits || !self.files.takes(&old.path, old.bytes) {
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

    /// Makes room for a record of `bytes`, unless there is `enough`.
    pub(super) fn make_room_in(&self, bytes: usize, enough: impl Fn(&Tail) -> bool) -> Result<()> {
        let mut preparation = self.prepare_turn.lock();
        if enough(&self.tail.lock()) {
            return Ok(());
        }
        self.measure(&mut preparation);
        let (spare, is_new) = self.reserve(bytes, &mut preparation, self.reserved_bytes)?;
        if is_new && self.lays_out() {
            spare.file.lay_out()?;
        }
        // Segments follow each other in the order of their ids: those that are too small get
        // others.
        let too_small = {
            let mut tail = self.tail.lock();
            let is_next = bytes > 0;
            let too_small =
                if is_next { std::mem::take(&mut tail.spares) } else { VecDeque::new() };
            tail.spares.push_back(spare);
            too_small
        };
        for small in too_small {
            let path = segment_path(&self.files.dir, small.id);
            preparation.recyclable.push(self.files.recyclable(path, small.file));
        }
        self.count_recyclable(&preparation);
        Ok(())
    }

    fn measure(&self, preparation: &mut Preparation) {
        let now = self.files.env.now();
        let end = self.tail.lock().end();
        let wanted = preparation.sizing.measure(end, now);
        self.tail.lock().want(wanted);
    }

    /// Brings the next segment into memory, and takes those out that nobody writes to any more.
    pub(super) fn warm_next(&self) {
        let turn = self.prepare_turn.lock();
        let (next, warm_bytes, left) = {
            let mut tail = self.tail.lock();
            let warm_bytes = tail.warm_bytes;
            let cold = tail.spares.front_mut().filter(|spare| !spare.is_warm);
            let next = cold.map(|spare| {
                spare.is_warm = true;
                Arc::clone(&spare.file)
            });
            let ends = tail.segments.iter().skip(1).map(|next| next.header.base);
            let left = tail.segments.iter().map(Arc::clone).zip(ends);
            (next, warm_bytes, left.collect::<Vec<_>>())
        };
        // What was brought in and is synced before it is written goes to the device twice.
        let was_synced = self.was_synced.swap(false, Ordering::Relaxed);
        if let Some(file) = next.filter(|_| warm_bytes > 0 && !was_synced) {
            file.warm(SEGMENT_HEADER_BYTES + warm_bytes);
        }
        // To write pages back may wait for the disk, and a writer without a segment for this turn.
        // A file that is used again meanwhile is begun to be written a little early.
        drop(turn);
        let is_staying = self.retired.is_usual();
        left.iter().for_each(|(segment, end)| segment.let_go(*end, is_staying));
    }

    /// Gives back what waits to be used, and the unused rest of the last segment if it is much; the
    /// next record finds a small segment then.
    pub(super) fn rest_now(&self) -> Result<()> {
        let now = self.files.env.now();
        let end = self.tail.lock().end();
        {
            let mut preparation = self.prepare_turn.lock();
            preparation.sizing.rest(end, now);
            self.tail.lock().want(preparation.sizing.wanted());
        }
        self.give_back_files()?;
        self.end_segment_early()?;
        let segments: Vec<_> = self.tail.lock().segments.iter().map(Arc::clone).collect();
        segments.iter().for_each(|segment| segment.file.let_go(u64::MAX));
        Ok(())
    }

    /// Cuts the last segment off behind its last record if that gives much back.
    fn end_segment_early(&self) -> Result<()> {
        let is_worth_it = |tail: &Tail| {
            let last = tail.segments.back();
            tail.limit - tail.offset > SEGMENT_BYTES_MIN
                && tail.offset > SEGMENT_HEADER_BYTES
                && last.is_some_and(|last| last.can_end_at(tail.offset))
        };
        if !is_worth_it(&self.tail.lock()) {
            return Ok(());
        }
        // Whoever writes next must not have to wait for a segment.
        self.make_room_in(0, |tail| !tail.spares.is_empty())?;
        // Order: who releases segments has this turn, and so the last one is not cut meanwhile.
        let _turn = self.prepare_turn.lock();
        let (last, offset) = {
            let mut tail = self.tail.lock();
            if !is_worth_it(&tail) {
                return Ok(());
            }
            tail.limit = tail.offset;
            let Some(last) = tail.segments.back().map(Arc::clone) else { return Ok(()) };
            (last, tail.offset)
        };
        // Whoever took a place before may write to it still: that lies below.
        last.end_at(offset)?;
        last.file.sync_range(offset, SEGMENT_HEADER_BYTES)?;
        last.cut(offset)
    }

    /// Deletes what waits to be used, but for one file if the disk is so full that the next open
    /// may not find the space for another.
    pub(super) fn give_back_files(&self) -> Result<()> {
        let mut preparation = self.prepare_turn.lock();
        let spares = std::mem::take(&mut self.tail.lock().spares);
        let spares = spares.into_iter().map(|spare| {
            self.files.recyclable(segment_path(&self.files.dir, spare.id), spare.file)
        });
        let mut unused: Vec<_> = spares.chain(preparation.recyclable.drain(..)).collect();
        self.count_recyclable(&preparation);
        unused.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        let needed = preparation.sizing.wanted().segment_bytes;
        // A file that cannot be removed holds up no other; the next open finds it.
        let mut outcome = Ok(());
        for (index, file) in unused.iter().enumerate() {
            let is_last = index + 1 == unused.len();
            let free = self.files.env.fs().free_bytes(&self.files.dir)?;
            if !is_last || free >= self.reserved_bytes.saturating_add(needed) {
                let removed = self.files.env.fs().remove(&file.path);
                outcome = outcome.and(removed.map_err(Error::from));
            }
        }
        outcome
    }
}

fn no_space(path: &Path) -> Error {
    Error::NoSpace(terrace_env::EnvError::new(
        terrace_env::Operation::Preallocate,
        path,
        std::io::Error::from(std::io::ErrorKind::StorageFull),
    ))
}
