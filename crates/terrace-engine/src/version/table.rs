use std::fmt;
use std::sync::Arc;

use terrace_base::{KeyRange, SeqNo};
use terrace_env::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_env::{Latch, SetOnce};

use super::{OpenTable, TableMeta, TableOpener};
use crate::explain::note;
use crate::iter::{ClippedCursor, Cursor, cursor_of_each};
use crate::process::{Charge, MemoryPool};
use crate::table::{ReadMode, TableCursor, TableLocation};
use crate::{Error, Result};

/// What the tables of a range share.
#[derive(Debug)]
pub struct TableContext {
    /// Where they lie, and how they are opened.
    pub opener: Arc<TableOpener>,
    /// Where they go when nothing names them any more.
    pub reclaim: ReclaimQueue,
    /// What open tables hold in memory beside their blocks.
    pub memory: MemoryPool,
    /// Whether the metadata of an open table in an object store stay in memory. A baseline reads
    /// them again for each look into the table.
    pub far_metadata_stay: bool,
}

/// Tables that no version names any more, waiting to be deleted by a background job; and how much
/// of the local disk is taken by what the newest version does not name, which waits here or is
/// still read.
#[derive(Debug, Default)]
pub struct ReclaimQueue {
    waiting: Latch<Vec<Removed>>,
    local_bytes: AtomicU64,
}

/// A table, or a value file, that no version names any more.
#[derive(Debug)]
pub struct Removed {
    /// Where it lies.
    pub location: TableLocation,
    /// How many of the removed bytes on the local disk it has.
    local_bytes: u64,
}

impl ReclaimQueue {
    /// A file of so many bytes was removed by an edit. If it lies on the local disk, it counts
    /// there until it is deleted.
    pub(crate) fn count(&self, location: &TableLocation, bytes: u64) {
        // Order: relaxed, as below; a figure that no memory depends on.
        self.local_bytes.fetch_add(local_bytes(location, bytes), Ordering::Relaxed);
    }

    /// Bytes of files on the local disk that were removed by edits and are not deleted yet.
    #[must_use]
    pub fn local_bytes(&self) -> u64 {
        self.local_bytes.load(Ordering::Relaxed)
    }

    /// Adds a file that was counted, and that nobody reads any more.
    pub(crate) fn add_counted(&self, location: TableLocation, bytes: u64) {
        let local_bytes = local_bytes(&location, bytes);
        self.add(Removed { location, local_bytes });
    }

    /// Takes all that wait.
    pub fn take(&self) -> Vec<Removed> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// It is deleted, and counts no more.
    pub fn deleted(&self, removed: Removed) {
        self.local_bytes.fetch_sub(removed.local_bytes, Ordering::Relaxed);
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Adds a table: also one whose deletion failed and is to be tried again.
    pub fn add(&self, removed: Removed) {
        self.waiting.lock().push(removed);
    }
}

impl From<TableLocation> for Removed {
    /// One that nobody has counted.
    fn from(location: TableLocation) -> Removed {
        Removed { location, local_bytes: 0 }
    }
}

/// How many of a file's bytes lie on the local disk.
fn local_bytes(location: &TableLocation, bytes: u64) -> u64 {
    if location.is_far() { 0 } else { bytes }
}

/// A live table: what versions know of it, and its reader once it has been opened.
///
/// Opened at the first use and then kept open. Dropping the last reference to a table that an
/// installed edit removed hands its file to the [`ReclaimQueue`].
pub struct Table {
    meta: TableMeta,
    span: KeyRange,
    context: Arc<TableContext>,
    reader: SetOnce<OpenTable>,
    /// Whether each look into it opens it anew: a baseline.
    opens_anew: bool,
    memory: Charge,
    removed: AtomicBool,
}

impl Table {
    /// The table that `meta` describes; not opened yet.
    #[must_use]
    pub fn new(meta: TableMeta, context: Arc<TableContext>) -> Table {
        let span = meta.span();
        let reader = SetOnce::new();
        let memory = context.memory.charge(0);
        let opens_anew = !context.far_metadata_stay && meta.location.is_far();
        let removed = AtomicBool::new(false);
        Table { meta, span, context, reader, opens_anew, memory, removed }
    }

    /// What the version knows of it.
    #[must_use]
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// The keys that it speaks for.
    #[must_use]
    pub fn span(&self) -> &KeyRange {
        &self.span
    }

    /// The open table. Errors: [`Error::NeedsIo`] if it is not open yet and `mode` forbids to wait;
    /// what opening gives.
    #[inline]
    pub fn reader(&self, mode: ReadMode) -> Result<&OpenTable> {
        match self.reader.get() {
            Some(reader) if !self.opens_anew => Ok(reader),
            _ => self.open(mode),
        }
    }

    /// The open table, if it is open.
    #[must_use]
    #[inline]
    pub fn open_table(&self) -> Option<&OpenTable> {
        self.reader.get()
    }

    #[cold]
    fn open(&self, mode: ReadMode) -> Result<&OpenTable> {
        if !mode.waits {
            return Err(Error::NeedsIo);
        }
        note(|notes| notes.opened());
        let opened = self.context.opener.open(&self.meta)?;
        // Another thread may have been faster.
        let reader = self.reader.get_or_set(opened);
        self.memory.set(reader.memory_bytes());
        Ok(reader)
    }

    /// As [`Table::cursor`], of a kind whose steps need no call through a pointer where the table
    /// is a file of blocks that speaks for all of its keys, as nearly all are.
    pub fn keys_cursor(&self, read_point: SeqNo, mode: ReadMode) -> Result<KeysCursor> {
        match self.reader(mode)? {
            OpenTable::Blocks(reader) if self.meta.clip == KeyRange::all() => {
                Ok(KeysCursor::Blocks(reader.cursor(read_point, mode)))
            }
            _ => self.cursor(read_point, mode).map(KeysCursor::Other),
        }
    }

    /// A cursor over the keys that the table speaks for.
    pub fn cursor(&self, read_point: SeqNo, mode: ReadMode) -> Result<Box<dyn Cursor + Send>> {
        let cursor = self.reader(mode)?.cursor(read_point, mode);
        if self.meta.clip == KeyRange::all() {
            return Ok(Box::new(cursor));
        }
        Ok(Box::new(ClippedCursor::new(cursor, self.meta.clip.clone())))
    }

    /// About how many bytes of it lie within `range`; all of them if it is not open yet. No I/O.
    #[must_use]
    pub fn bytes_within(&self, range: &KeyRange) -> u64 {
        let is_whole = self.span.start() >= range.start()
            && match (self.span.end(), range.end()) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(own), Some(end)) => own <= end,
            };
        match self.reader.get().filter(|_| !is_whole) {
            Some(reader) => reader.bytes_within(range),
            None => self.meta.bytes,
        }
    }

    /// Keys at which it could be divided, as [`OpenTable::samples`] gives them; none if it is not
    /// open yet. No I/O.
    #[must_use]
    pub fn samples(&self, count: usize) -> Vec<(Vec<u8>, u64)> {
        self.reader.get().map(|reader| reader.samples(count)).unwrap_or_default()
    }

    /// Bytes of memory that the open table holds beside cached blocks.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.reader.get().map_or(0, OpenTable::memory_bytes)
    }

    /// Marks the table as removed by an edit that is durable: the file goes with the last
    /// reference.
    pub(super) fn mark_removed(&self) {
        if !self.removed.swap(true, Ordering::AcqRel) && self.goes_with_its_table() {
            self.context.reclaim.count(&self.meta.location, self.meta.bytes);
        }
    }

    /// Whether the file is deleted once the table is removed.
    fn goes_with_its_table(&self) -> bool {
        // The pages of a row go back by themselves.
        !self.meta.shared && !self.meta.is_in_pages()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.removed.load(Ordering::Acquire) && self.goes_with_its_table() {
            self.context.reclaim.add_counted(self.meta.location.clone(), self.meta.bytes);
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.meta.id, self.span)
    }
}

/// A cursor over a table, or over those of its keys that count.
pub enum KeysCursor {
    /// Over a file of blocks that speaks for all of its keys.
    Blocks(TableCursor),
    /// Over one of another form, or of which a part is hidden.
    Other(Box<dyn Cursor + Send>),
}

cursor_of_each!(KeysCursor: Blocks, Other);

impl KeysCursor {
    /// The cursor itself, where a call through a pointer is not needed.
    #[inline]
    pub(crate) fn in_blocks(&mut self) -> Option<&mut TableCursor> {
        match self {
            KeysCursor::Blocks(cursor) => Some(cursor),
            KeysCursor::Other(_) => None,
        }
    }
}
