use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{FileId, LevelNo};
use terrace_env::{EnvError, Latch, Operation};

use super::store::{ByteInterval, ReadTicket, TableFile, TableStore, TableWriter};
use crate::Result;
use crate::placement::TableLocation;

/// Tables in memory: for tests, and for a database that is to leave nothing behind.
///
/// A location is the id's text. What is written is there until it is deleted; open tables stay
/// readable even then. An abandoned table leaves nothing.
#[derive(Default)]
pub struct MemoryTableStore {
    tables: Arc<Latch<BTreeMap<FileId, Arc<Vec<u8>>>>>,
}

impl MemoryTableStore {
    /// A store without tables.
    #[must_use]
    pub fn new() -> MemoryTableStore {
        MemoryTableStore::default()
    }

    /// Bytes of all tables.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tables.lock().values().map(|table| table.len() as u64).sum()
    }
}

impl fmt::Debug for MemoryTableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryTableStore({} tables)", self.tables.lock().len())
    }
}

fn id_at(location: &TableLocation) -> Option<FileId> {
    FileId::parse(std::str::from_utf8(location.bytes()).ok()?)
}

fn location_of(id: FileId) -> TableLocation {
    TableLocation::new(id.to_string())
}

impl TableStore for MemoryTableStore {
    fn create(
        &self,
        id: FileId,
        _level: LevelNo,
        expected_bytes: u64,
    ) -> Result<Box<dyn TableWriter>> {
        let _ = expected_bytes;
        Ok(Box::new(MemoryTableWriter { tables: Arc::clone(&self.tables), id, bytes: Vec::new() }))
    }

    fn sync(&self, _level: LevelNo) -> Result<()> {
        Ok(())
    }

    fn open(&self, location: &TableLocation) -> Result<Arc<dyn TableFile>> {
        let name = PathBuf::from(format!("memory:{location:?}"));
        let table = id_at(location).and_then(|id| self.tables.lock().get(&id).cloned());
        match table {
            Some(bytes) => Ok(Arc::new(MemoryTableFile { name, bytes })),
            None => {
                let source = std::io::Error::from(std::io::ErrorKind::NotFound);
                Err(EnvError::new(Operation::Open, &name, source).into())
            }
        }
    }

    fn link(&self, _: &TableLocation, _: &Path) -> Result<bool> {
        Ok(false)
    }

    fn delete(&self, location: &TableLocation) -> Result<()> {
        let table = id_at(location).and_then(|id| self.tables.lock().remove(&id));
        drop(table);
        Ok(())
    }

    fn list(&self) -> Result<Vec<(FileId, TableLocation)>> {
        Ok(self.tables.lock().keys().map(|id| (*id, location_of(*id))).collect())
    }
}

struct MemoryTableWriter {
    tables: Arc<Latch<BTreeMap<FileId, Arc<Vec<u8>>>>>,
    id: FileId,
    bytes: Vec<u8>,
}

impl TableWriter for MemoryTableWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<TableLocation> {
        let bytes = Arc::new(std::mem::take(&mut self.bytes));
        self.tables.lock().insert(self.id, bytes);
        Ok(location_of(self.id))
    }
}

/// The bytes of a table in memory, open for reading.
pub struct MemoryTableFile {
    name: PathBuf,
    bytes: Arc<Vec<u8>>,
}

impl fmt::Debug for MemoryTableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryTableFile({:?}, {} bytes)", self.name, self.bytes.len())
    }
}

impl MemoryTableFile {
    /// A table file of these bytes, which errors will call `name`.
    #[must_use]
    pub fn new(name: impl Into<PathBuf>, bytes: Vec<u8>) -> MemoryTableFile {
        MemoryTableFile { name: name.into(), bytes: Arc::new(bytes) }
    }

    fn read_interval(&self, interval: ByteInterval) -> Result<Vec<u8>> {
        interval.check_inside(self.bytes.len() as u64, &self.name)?;
        let start = interval.offset as usize;
        Ok(self.bytes[start..start + interval.bytes].to_vec())
    }
}

impl TableFile for MemoryTableFile {
    fn read(&self, intervals: &[ByteInterval]) -> ReadTicket {
        ReadTicket::ready(intervals.iter().map(|interval| self.read_interval(*interval)).collect())
    }

    fn try_read(&self, interval: ByteInterval) -> Result<Option<Vec<u8>>> {
        self.read_interval(interval).map(Some)
    }

    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn name(&self) -> PathBuf {
        self.name.clone()
    }
}
