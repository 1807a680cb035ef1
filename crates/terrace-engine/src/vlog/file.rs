use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::{Corruption, FileId, TableUid};
use terrace_env::SetOnce;
use terrace_env::atomic::{AtomicBool, Ordering};

use super::format::{
    CHECKSUM_BYTES, DirectorySegment, RECORDS_PER_FRAME, check_frame, frame_bytes, place_in,
};
use super::log_segment::judge_segment;
use super::{FetchedValue, Frame, ValueFileMeta, ValueHome, ValueName, ValuePointer, ValueWindows};
use crate::cache::BlockCache;
use crate::table::{ByteInterval, ReadMode, TableFile};
use crate::version::TableContext;
use crate::{Error, Result};

/// Entries above this many bytes are not cached: to read them anew costs little beside their bytes,
/// and one of them would take the place of many others.
const CACHED_BYTES_MAX: usize = 64 << 10;

/// A live value file: what versions know of it, and its reader once it has been opened.
///
/// Opened at the first use and then kept open. Dropping the last reference to a file that an
/// installed edit removed hands it to the reclaim queue, as a table's is.
pub struct ValueFile {
    meta: ValueFileMeta,
    context: Arc<TableContext>,
    reader: SetOnce<Arc<Reader>>,
    removed: AtomicBool,
}

impl ValueFile {
    /// The file that `meta` describes; not opened yet.
    #[must_use]
    pub fn new(meta: ValueFileMeta, context: Arc<TableContext>) -> ValueFile {
        ValueFile { meta, context, reader: SetOnce::new(), removed: AtomicBool::new(false) }
    }

    /// What the version knows of it.
    #[must_use]
    pub fn meta(&self) -> &ValueFileMeta {
        &self.meta
    }

    /// Whether a file is the one that `meta` describes, as far as its ends and its directory tell.
    #[must_use]
    pub fn is_of(file: Arc<dyn TableFile>, meta: &ValueFileMeta) -> bool {
        ValueFile::judge(&file, meta).is_ok()
    }

    /// As [`ValueFile::is_of`]; says in what it is another one. Errors: `Corruption`, and what
    /// reading gives.
    pub fn judge(file: &Arc<dyn TableFile>, meta: &ValueFileMeta) -> Result<()> {
        if meta.home == ValueHome::Log {
            return judge_segment(file, meta);
        }
        Reader::open(Arc::clone(file), meta).map(|_| ())
    }

    /// Whether values of a segment lie in it.
    #[must_use]
    pub fn holds(&self, segment: FileId) -> bool {
        self.meta.holds(segment)
    }

    /// The value that `pointer` names, which was written under `key`.
    ///
    /// Cost: one read, unless the block cache has the value; in a rewritten file also a look into
    /// its places, which the block cache keeps.
    /// Errors: `NeedsIo` if `mode` forbids to wait, and it would have to; `Corruption`, which names
    /// the file and the place.
    pub fn read(&self, key: &[u8], pointer: &ValuePointer, mode: ReadMode) -> Result<FetchedValue> {
        self.reader(mode)?.value(key, pointer, &self.context.opener.cache, mode)
    }

    /// Opens it now, unless that is done: whoever keeps it can read it from here on, whatever
    /// becomes of its name. May wait for the disk.
    pub(crate) fn open(&self) -> Result<()> {
        self.reader(ReadMode::BLOCK).map(|_| ())
    }

    /// As [`ValueFile::read`], for a walk that goes on from value to value, with what it has read
    /// of value files so far. The cache is not asked, and keeps nothing, but where the walk jumps
    /// about in a log segment.
    ///
    /// Cost: one read for several values that lie one behind the other.
    pub fn read_on(
        &self,
        key: &[u8],
        pointer: &ValuePointer,
        mode: ReadMode,
        windows: &mut ValueWindows,
    ) -> Result<FetchedValue> {
        if !mode.waits {
            return self.read(key, pointer, mode);
        }
        let cache = &self.context.opener.cache;
        self.reader(mode)?.value_in_walk(key, pointer, cache, mode, windows)
    }

    /// Has the value that `pointer` names read into the system's pages, and does not wait for it;
    /// to learn where it is, it may. Errors: as [`ValueFile::read`].
    pub fn ask_for(&self, key: &[u8], pointer: &ValuePointer) -> Result<()> {
        let reader = self.reader(ReadMode::BLOCK)?;
        let cache = &self.context.opener.cache;
        let offset = reader.place_of(pointer.name, cache, ReadMode::BLOCK)?;
        reader.file.prefetch(ByteInterval { offset, bytes: reader.bytes_of(key, pointer) });
        Ok(())
    }

    /// Where the entry of a value stands. May wait for the disk.
    pub(super) fn place_of(&self, name: ValueName) -> Result<u64> {
        self.reader(ReadMode::BLOCK)?.place_of(name, &self.context.opener.cache, ReadMode::BLOCK)
    }

    /// Where its values end. May wait for the disk.
    pub(super) fn entries_end(&self) -> Result<u64> {
        Ok(self.reader(ReadMode::BLOCK)?.entries_end)
    }

    /// Bytes of the file as they are. May wait for the disk.
    pub(super) fn read_raw(&self, interval: ByteInterval) -> Result<Vec<u8>> {
        self.reader(ReadMode::BLOCK)?.read(interval, ReadMode::BLOCK)
    }

    /// What the file is called in an error. Errors: it cannot be opened.
    pub fn name(&self) -> Result<PathBuf> {
        Ok(self.reader(ReadMode::BLOCK)?.name())
    }

    fn reader(&self, mode: ReadMode) -> Result<&Arc<Reader>> {
        match self.reader.get() {
            Some(reader) => Ok(reader),
            None if mode.waits => {
                let opened =
                    Reader::open(self.context.opener.open_values(&self.meta)?, &self.meta)?;
                // Another thread may have been faster.
                Ok(self.reader.get_or_set(Arc::new(opened)))
            }
            None => Err(Error::NeedsIo),
        }
    }

    /// Marks the file as removed by an edit that is durable: it goes with the last reference.
    pub(crate) fn mark_removed(&self) {
        if !self.removed.swap(true, Ordering::AcqRel) {
            self.context.reclaim.count(&self.meta.location, self.meta.bytes);
        }
    }
}

impl ValueFile {
    /// Hands the file to the reclaim queue while views may still read it: a planted bug.
    pub(crate) fn delete_early(&self) {
        self.context.reclaim.add(self.meta.location.clone().into());
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        if self.removed.load(Ordering::Acquire) {
            self.context.reclaim.add_counted(self.meta.location.clone(), self.meta.bytes);
        }
    }
}

impl fmt::Debug for ValueFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "values {}", self.meta.id)
    }
}

/// An open value file.
pub(super) struct Reader {
    file: Arc<dyn TableFile>,
    uid: TableUid,
    home: ValueHome,
    entries_end: u64,
    /// Of a rewritten file: where the frames of each segment begin.
    moved: Option<Vec<Moved>>,
}

/// Where the places of one segment's values are.
struct Moved {
    segment: FileId,
    /// Offset of the first frame.
    frames: u64,
    count: u64,
    /// The first offset of each frame.
    fences: Vec<u64>,
}

impl Reader {
    pub(super) fn open(file: Arc<dyn TableFile>, meta: &ValueFileMeta) -> Result<Reader> {
        let damage = |offset: u64, what: &str| Corruption::new(file.name(), offset, what);
        if meta.home == ValueHome::Log {
            // What its headers say is needed for no value: each pointer has a checksum.
            let (uid, home, entries_end) = (meta.uid, meta.home, meta.bytes);
            return Ok(Reader { file, uid, home, entries_end, moved: None });
        }
        if file.bytes() != meta.bytes {
            return Err(
                damage(0, "the value file has another length than the manifest says").into()
            );
        }
        let Frame { uid, id, footer, segments } = Frame::read(file.as_ref())?;
        if (uid, id) != (meta.uid, meta.id) {
            return Err(damage(0, "the value file is another one than the manifest names").into());
        }
        let held = segments.iter().map(|one| (one.id, one.count, one.bytes));
        if !held.eq(meta.segments.iter().map(|one| (one.id, one.count, one.bytes))) {
            let what = "the value file holds other segments than the manifest says";
            return Err(damage(footer.directory, what).into());
        }
        let entries_end = footer.entries_end;
        let moved = footer.is_rewritten.then(|| lay_out(entries_end, segments));
        Ok(Reader { file, uid, home: meta.home, entries_end, moved })
    }

    /// Bytes that a value takes with what stands before it.
    #[inline]
    fn bytes_of(&self, key: &[u8], pointer: &ValuePointer) -> usize {
        self.home.stored_bytes(key.len(), pointer.bytes as usize)
    }

    /// The value that `pointer` names; see [`ValueFile::read`]. What the cache has was checked when
    /// it was read.
    fn value(
        &self,
        key: &[u8],
        pointer: &ValuePointer,
        cache: &BlockCache,
        mode: ReadMode,
    ) -> Result<FetchedValue> {
        let value_bytes = pointer.bytes as usize;
        let entry_bytes = self.bytes_of(key, pointer);
        if !mode.fills_cache || entry_bytes > CACHED_BYTES_MAX || cache.capacity_bytes() == 0 {
            let entry = self.entry(key, pointer, cache, mode)?;
            return Ok(FetchedValue::read(entry, value_bytes));
        }
        let place = self.place_of(pointer.name, cache, mode)?;
        if let Some(entry) = cache.get(self.uid, place)
            && entry.len() == entry_bytes
            && entry[self.home.front_bytes()..entry_bytes - value_bytes] == *key
        {
            return Ok(FetchedValue::cached(entry, value_bytes));
        }
        let entry: Arc<[u8]> = self.entry_at(place, key, pointer, mode)?.into();
        cache.insert(self.uid, place, Arc::clone(&entry));
        Ok(FetchedValue::cached(entry, value_bytes))
    }

    /// The same for a walk; see [`ValueFile::read_on`].
    pub(super) fn value_in_walk(
        &self,
        key: &[u8],
        pointer: &ValuePointer,
        cache: &BlockCache,
        mode: ReadMode,
        windows: &mut ValueWindows,
    ) -> Result<FetchedValue> {
        let value_bytes = pointer.bytes as usize;
        let bytes = self.bytes_of(key, pointer);
        let place = self.place_in_walk(pointer.name, cache, mode, windows)?;
        if place.checked_add(bytes as u64).is_none_or(|end| end > self.entries_end) {
            return Err(self.damage(place, "a value that ends behind all values").into());
        }
        let (window, from) = match windows.find(self.uid, place, bytes) {
            Some(found) => found,
            // Neighbours in a log segment were written one after the other, and most often have
            // keys that are far apart: what lies behind the value is read if the walk goes there.
            None if self.home == ValueHome::Log && !windows.goes_on(self.uid, place) => {
                windows.pass(self.uid, place + bytes as u64);
                return self.value(key, pointer, cache, mode);
            }
            None => {
                let left = self.entries_end - place;
                let wanted = windows.bytes_to_read(self.uid, place, bytes) as u64;
                let interval = ByteInterval { offset: place, bytes: wanted.min(left) as usize };
                let window = match self.read(interval, mode) {
                    // What cannot be read may be the rest of it.
                    Err(Error::Io(_) | Error::Corruption(_)) if interval.bytes > bytes => {
                        self.read(ByteInterval { bytes, ..interval }, mode)?
                    }
                    read => read?,
                };
                let window = Arc::new(window);
                windows.keep(self.uid, place, Arc::clone(&window));
                (window, 0)
            }
        };
        self.check_entry(place, &window[from..from + bytes], key, pointer)?;
        Ok(FetchedValue::within(window, from + bytes, value_bytes))
    }

    /// The whole entry of the value that `pointer` names, checked, of which the value is the end.
    pub(super) fn entry(
        &self,
        key: &[u8],
        pointer: &ValuePointer,
        cache: &BlockCache,
        mode: ReadMode,
    ) -> Result<Vec<u8>> {
        let place = self.place_of(pointer.name, cache, mode)?;
        self.entry_at(place, key, pointer, mode)
    }

    fn entry_at(
        &self,
        place: u64,
        key: &[u8],
        pointer: &ValuePointer,
        mode: ReadMode,
    ) -> Result<Vec<u8>> {
        let bytes = self.bytes_of(key, pointer);
        let entry = self.read(ByteInterval { offset: place, bytes }, mode)?;
        self.check_entry(place, &entry, key, pointer)?;
        Ok(entry)
    }

    /// Errors: what stands at `place` is not the value of this name and key.
    fn check_entry(
        &self,
        place: u64,
        entry: &[u8],
        key: &[u8],
        pointer: &ValuePointer,
    ) -> Result<()> {
        match self.home.decode(entry, pointer) {
            Ok(found) if found.key == key => Ok(()),
            Ok(_) => Err(self.damage(place, "a value of another key").into()),
            Err(what) => Err(self.damage(place, what).into()),
        }
    }

    /// Where the entry of a value stands.
    fn place_of(&self, name: ValueName, cache: &BlockCache, mode: ReadMode) -> Result<u64> {
        let Some(frame) = self.frame_of(name)? else { return Ok(name.offset) };
        let records = self.records_of(frame, cache, mode)?;
        self.place_in(&records, frame.offset, name)
    }

    /// The same for a walk, whose next value most often has its place in the same frame.
    fn place_in_walk(
        &self,
        name: ValueName,
        cache: &BlockCache,
        mode: ReadMode,
        windows: &mut ValueWindows,
    ) -> Result<u64> {
        let Some(frame) = self.frame_of(name)? else { return Ok(name.offset) };
        let records = match windows.frame(self.uid, frame.offset) {
            Some(records) => records,
            None => {
                let records = self.records_of(frame, cache, mode)?;
                windows.keep_frame(self.uid, frame.offset, Arc::clone(&records));
                records
            }
        };
        self.place_in(&records, frame.offset, name)
    }

    /// Where the frame lies that has the place of a value; none if values lie where their names
    /// say.
    fn frame_of(&self, name: ValueName) -> Result<Option<ByteInterval>> {
        let Some(moved) = &self.moved else { return Ok(None) };
        let index = moved.binary_search_by_key(&name.segment, |one| one.segment);
        let Some(one) = index.ok().map(|index| &moved[index]) else {
            let what = format!("no value of segment {} is in the file", name.segment);
            return Err(self.damage(self.entries_end, &what).into());
        };
        let Some(frame) = one.fences.partition_point(|fence| *fence <= name.offset).checked_sub(1)
        else {
            return Err(self.damage(one.frames, "a value has no place in the file").into());
        };
        let offset = one.frames + (frame * frame_bytes(RECORDS_PER_FRAME)) as u64;
        let left = one.count - (frame * RECORDS_PER_FRAME) as u64;
        let records = left.min(RECORDS_PER_FRAME as u64) as usize;
        Ok(Some(ByteInterval { offset, bytes: frame_bytes(records) }))
    }

    /// The places in a frame.
    fn records_of(
        &self,
        frame: ByteInterval,
        cache: &BlockCache,
        mode: ReadMode,
    ) -> Result<Arc<[u8]>> {
        let offset = frame.offset;
        if let Some(records) = cache.get(self.uid, offset) {
            return Ok(records);
        }
        let stored = self.read(frame, mode)?;
        let records = check_frame(&stored, self.uid, offset)
            .map_err(|error| self.damage(offset, error.what))?;
        let records: Arc<[u8]> = records.into();
        if mode.fills_cache {
            cache.insert(self.uid, offset, Arc::clone(&records));
        }
        Ok(records)
    }

    fn place_in(&self, records: &[u8], frame: u64, name: ValueName) -> Result<u64> {
        let place = place_in(records, name.offset);
        place.ok_or_else(|| self.damage(frame, "a value has no place in the file").into())
    }

    fn read(&self, interval: ByteInterval, mode: ReadMode) -> Result<Vec<u8>> {
        let end = interval.offset.checked_add(interval.bytes as u64);
        if end.is_none_or(|end| end > self.file.bytes()) {
            return Err(interval.too_short(&self.name()).into());
        }
        if mode.waits {
            return Ok(self.file.read(&[interval]).wait()?.pop().unwrap_or_default());
        }
        self.file.try_read(interval)?.ok_or(Error::NeedsIo)
    }

    fn name(&self) -> PathBuf {
        self.file.name()
    }

    fn damage(&self, offset: u64, what: &str) -> Corruption {
        Corruption::new(self.name(), offset, what)
    }
}

/// Where the frames of each segment begin, if those of the first one begin at `offset`.
fn lay_out(mut offset: u64, segments: Vec<DirectorySegment>) -> Vec<Moved> {
    let moved = segments.into_iter().map(|one| {
        let frames = offset;
        offset += one.places_bytes();
        Moved { segment: one.id, frames, count: one.count, fences: one.fences }
    });
    moved.collect()
}

const _: () = assert!(CHECKSUM_BYTES < RECORDS_PER_FRAME);

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.name())
    }
}
