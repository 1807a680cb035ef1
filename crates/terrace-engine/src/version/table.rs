use std::fmt;
use std::sync::Arc;

use terrace_base::{Corruption, KeyRange, SeqNo};
use terrace_env::Latch;
use terrace_env::atomic::{AtomicBool, Ordering};

use super::TableMeta;
use crate::cache::BlockCache;
use crate::explain::note;
use crate::iter::{ClippedCursor, Cursor};
use crate::process::{Charge, MemoryPool};
use crate::swap::ArcSwapOption;
use crate::table::{ReadMode, TableFile, TableLocation, TableReader, TableStore};
use crate::{Error, Result};

/// What the tables of a range share.
#[derive(Debug)]
pub struct TableContext {
    /// Where they lie.
    pub store: Arc<dyn TableStore>,
    /// Where their blocks are kept.
    pub cache: Arc<BlockCache>,
    /// Where they go when nothing names them any more.
    pub reclaim: ReclaimQueue,
    /// What open tables hold in memory beside their blocks.
    pub memory: MemoryPool,
}

impl TableContext {
    /// Opens a table that a version names. Errors: [`Error::Corruption`] also if it is not there.
    pub fn open(&self, meta: &TableMeta) -> Result<Arc<dyn TableFile>> {
        self.store.open(&meta.location).map_err(|error| match error {
            Error::Io(error) if error.is_not_found() => {
                let detail = format!("table {} is missing, but the manifest names it", meta.id);
                Corruption::new(error.path, 0, detail).into()
            }
            error => error,
        })
    }
}

/// Tables that no version names any more, waiting to be deleted by a background job.
#[derive(Debug, Default)]
pub struct ReclaimQueue {
    waiting: Latch<Vec<TableLocation>>,
}

impl ReclaimQueue {
    /// Takes all that wait.
    pub fn take(&self) -> Vec<TableLocation> {
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Adds a table: also one whose deletion failed and is to be tried again.
    pub fn add(&self, location: TableLocation) {
        self.waiting.lock().push(location);
    }
}

/// A live table: what versions know of it, and its reader once it has been opened.
///
/// Opened at the first use and then kept open. Dropping the last reference to a table that an
/// installed edit removed hands its file to the [`ReclaimQueue`].
pub struct Table {
    meta: TableMeta,
    span: KeyRange,
    context: Arc<TableContext>,
    reader: ArcSwapOption<TableReader>,
    memory: Charge,
    removed: AtomicBool,
}

impl Table {
    /// The table that `meta` describes; not opened yet.
    #[must_use]
    pub fn new(meta: TableMeta, context: Arc<TableContext>) -> Table {
        let span = meta.span();
        let reader = ArcSwapOption::empty();
        let memory = context.memory.charge(0);
        Table { meta, span, context, reader, memory, removed: AtomicBool::new(false) }
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

    /// The open table. Errors: [`Error::NeedsIo`] if it is not open yet and `mode` forbids to wait.
    pub fn reader(&self, mode: ReadMode) -> Result<Arc<TableReader>> {
        if let Some(reader) = &*self.reader.load() {
            return Ok(Arc::clone(reader));
        }
        if mode == ReadMode::NoWait {
            return Err(Error::NeedsIo);
        }
        note(|notes| notes.opened());
        let file = self.context.open(&self.meta)?;
        let expected = Some((self.meta.uid, self.meta.bytes));
        let reader = TableReader::open_numbered(
            file,
            Arc::clone(&self.context.cache),
            expected,
            Some(self.meta.greatest_seqno),
        )?;
        self.reader.store(Some(Arc::clone(&reader)));
        self.memory.set(reader.memory_bytes() as u64);
        Ok(reader)
    }

    /// Runs `read` on the open table.
    #[inline]
    pub fn with_reader<T>(
        &self,
        mode: ReadMode,
        read: impl FnOnce(&TableReader) -> Result<T>,
    ) -> Result<T> {
        match &*self.reader.load() {
            Some(reader) => read(reader),
            None => read(&*self.reader(mode)?),
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
        let reader = self.reader.load();
        match reader.as_ref().filter(|_| !is_whole) {
            Some(reader) => reader.bytes_within(range),
            None => self.meta.bytes,
        }
    }

    /// Keys at which it could be divided, as [`TableReader::samples`] gives them; none if it is not
    /// open yet. No I/O.
    #[must_use]
    pub fn samples(&self, count: usize) -> Vec<(Vec<u8>, u64)> {
        let reader = self.reader.load();
        let samples = reader.iter().flat_map(|reader| reader.samples(count));
        samples.map(|(key, bytes)| (key.to_vec(), bytes)).collect()
    }

    /// Bytes of memory that the open table holds beside cached blocks.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.reader.load().as_ref().map_or(0, |reader| reader.memory_bytes() as u64)
    }

    /// Marks the table as removed by an edit that is durable: the file goes with the last
    /// reference.
    pub(super) fn mark_removed(&self) {
        self.removed.store(true, Ordering::Release);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.removed.load(Ordering::Acquire) && !self.meta.shared {
            self.context.reclaim.add(self.meta.location.clone());
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.meta.id, self.span)
    }
}
