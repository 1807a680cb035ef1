use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use terrace_base::{Corruption, EntryRef, FileId, KeyRange, SeqNo};

use super::TableMeta;
use crate::cache::BlockCache;
use crate::iter::{Cursor, Stream};
use crate::l0::triangle::Container;
use crate::l0::triangle::row::{RowCursor, RowReader, RowStream};
use crate::placement::{FarTables, RowDirectory};
use crate::range_tombstone::Fragments;
use crate::table::{
    Filter, NamesBySegment, ReadMode, TableCursor, TableFile, TableReader, TableStore, TableStream,
};
use crate::vlog::ValueFileMeta;
use crate::{Error, Result};

/// Opens what versions and plans name, whatever its form.
#[derive(Debug)]
pub struct TableOpener {
    /// Where tables lie.
    pub store: Arc<dyn TableStore>,
    /// Where their blocks are kept.
    pub cache: Arc<BlockCache>,
    /// Where rows of L0 are that lie in pages.
    pub container: Arc<Container>,
    /// Where tables of L0 are that lie in a directory of their own, as `store` knows too.
    pub rows: Arc<RowDirectory>,
    /// Where tables below the waterline are, as `store` knows too.
    pub far: Arc<FarTables>,
}

impl TableOpener {
    /// Opens the file of a table. Errors: [`Error::Corruption`] also if it is not there.
    pub fn open_file(&self, meta: &TableMeta) -> Result<Arc<dyn TableFile>> {
        self.store.open(&meta.location).map_err(|error| match error {
            Error::Io(error) if error.is_not_found() => {
                let detail = format!("table {} is missing, but the manifest names it", meta.id);
                Corruption::new(error.path, 0, detail).into()
            }
            error => error,
        })
    }

    /// Opens a value file for its reader. Errors: as [`TableOpener::open_file`].
    pub fn open_values(&self, meta: &ValueFileMeta) -> Result<Arc<dyn TableFile>> {
        self.store.open(&meta.location).map_err(|error| match error {
            Error::Io(error) if error.is_not_found() => {
                let detail =
                    format!("value file {} is missing, but the manifest names it", meta.id);
                Corruption::new(error.path, 0, detail).into()
            }
            error => error,
        })
    }

    /// Opens a table. Errors: as [`TableOpener::open_file`], and what its reader gives.
    pub fn open(&self, meta: &TableMeta) -> Result<OpenTable> {
        if meta.is_in_pages() {
            return self.container.row(meta).map(OpenTable::Row);
        }
        let file = self.open_file(meta)?;
        let (cache, expected) = (Arc::clone(&self.cache), Some((meta.uid, meta.bytes)));
        let number = Some(meta.greatest_seqno);
        TableReader::open_numbered(file, cache, expected, number).map(OpenTable::Blocks)
    }
}

/// A table that is open, of any form. Clones share it.
#[derive(Clone)]
pub enum OpenTable {
    /// A file of blocks.
    Blocks(Arc<TableReader>),
    /// A row in pages.
    Row(Arc<RowReader>),
}

impl OpenTable {
    /// The reader, if it is a file of blocks.
    #[must_use]
    pub fn blocks(&self) -> Option<&TableReader> {
        match self {
            OpenTable::Blocks(reader) => Some(reader),
            OpenTable::Row(_) => None,
        }
    }

    /// The filter, if there is one.
    #[must_use]
    #[inline]
    pub fn filter(&self) -> Option<&Arc<Filter>> {
        match self {
            OpenTable::Blocks(reader) => reader.filter(),
            OpenTable::Row(row) => row.filter(),
        }
    }

    /// The range tombstones.
    #[must_use]
    pub fn range_tombstones(&self) -> &Arc<Fragments> {
        match self {
            OpenTable::Blocks(reader) => reader.range_tombstones(),
            OpenTable::Row(row) => row.range_tombstones(),
        }
    }

    /// A cursor over the keys that have a version at or below `read_point`.
    #[must_use]
    pub fn cursor(&self, read_point: SeqNo, mode: ReadMode) -> OpenCursor {
        match self {
            OpenTable::Blocks(reader) => OpenCursor::Blocks(reader.cursor(read_point, mode)),
            OpenTable::Row(row) => OpenCursor::Row(row.cursor(read_point, None)),
        }
    }

    /// Every version of every key of `range`, for compactions.
    pub fn stream(&self, range: &KeyRange) -> Result<OpenStream> {
        match self {
            OpenTable::Blocks(reader) => {
                reader.stream(Some(range)).map(|stream| OpenStream::Blocks(Box::new(stream)))
            }
            OpenTable::Row(row) => row.stream(range).map(OpenStream::Row),
        }
    }

    /// The values of these segments that it points to, as [`TableReader::named_values`] gives them;
    /// `None` if only its entries tell.
    pub fn named_values(&self, segments: &BTreeSet<FileId>) -> Result<Option<NamesBySegment>> {
        match self {
            OpenTable::Blocks(reader) => reader.named_values(segments),
            OpenTable::Row(_) => Ok(None),
        }
    }

    /// About `count` keys, ascending, each with the bytes of data between it and the one before. No
    /// I/O.
    #[must_use]
    pub fn samples(&self, count: usize) -> Vec<(Vec<u8>, u64)> {
        match self {
            OpenTable::Blocks(reader) => {
                reader.samples(count).map(|(key, bytes)| (key.into_owned(), bytes)).collect()
            }
            OpenTable::Row(row) => {
                row.samples(count).map(|(key, bytes)| (key.to_vec(), bytes)).collect()
            }
        }
    }

    /// Up to about `count` keys behind the first of `range` and below its end at which it could be
    /// divided: none only if it knows of none. No I/O.
    #[must_use]
    pub fn keys_within(&self, range: &KeyRange, count: usize) -> Vec<Vec<u8>> {
        match self {
            OpenTable::Blocks(reader) => reader.keys_within(range, count),
            OpenTable::Row(row) => row.keys_within(range, count),
        }
    }

    /// About how many bytes of data lie within `range`. No I/O.
    #[must_use]
    pub fn bytes_within(&self, range: &KeyRange) -> u64 {
        match self {
            OpenTable::Blocks(reader) => reader.bytes_within(range),
            OpenTable::Row(row) => row.bytes_within(range),
        }
    }

    /// Bytes of memory that it holds beside cached blocks.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        match self {
            OpenTable::Blocks(reader) => reader.memory_bytes() as u64,
            OpenTable::Row(row) => row.memory_bytes() as u64,
        }
    }
}

impl fmt::Debug for OpenTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenTable::Blocks(reader) => write!(f, "{:?}", reader.name()),
            OpenTable::Row(row) => write!(f, "row {:?}", row.uid()),
        }
    }
}

/// A cursor over a table of any form.
pub enum OpenCursor {
    /// Over a file of blocks.
    Blocks(TableCursor),
    /// Over a row in pages.
    Row(RowCursor),
}

impl Cursor for OpenCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        match self {
            OpenCursor::Blocks(cursor) => cursor.seek(key),
            OpenCursor::Row(cursor) => cursor.seek(key),
        }
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        match self {
            OpenCursor::Blocks(cursor) => cursor.seek_back(bound),
            OpenCursor::Row(cursor) => cursor.seek_back(bound),
        }
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        match self {
            OpenCursor::Blocks(cursor) => cursor.next(),
            OpenCursor::Row(cursor) => cursor.next(),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        match self {
            OpenCursor::Blocks(cursor) => cursor.prev(),
            OpenCursor::Row(cursor) => cursor.prev(),
        }
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        match self {
            OpenCursor::Blocks(cursor) => cursor.entry(),
            OpenCursor::Row(cursor) => cursor.entry(),
        }
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        match self {
            OpenCursor::Blocks(cursor) => cursor.older(seqno),
            OpenCursor::Row(cursor) => cursor.older(seqno),
        }
    }

    fn renew(&mut self, read_point: SeqNo) -> bool {
        match self {
            OpenCursor::Blocks(cursor) => cursor.renew(read_point),
            OpenCursor::Row(cursor) => cursor.renew(read_point),
        }
    }
}

/// A stream over a table of any form.
pub enum OpenStream {
    /// Over a file of blocks.
    Blocks(Box<TableStream>),
    /// Over a row in pages.
    Row(RowStream),
}

impl Stream for OpenStream {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        match self {
            OpenStream::Blocks(stream) => stream.entry(),
            OpenStream::Row(stream) => stream.entry(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            OpenStream::Blocks(stream) => stream.advance(),
            OpenStream::Row(stream) => stream.advance(),
        }
    }
}
