use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Corruption, FileId, LevelNo};
use terrace_env::{PlantedBug, ReadFile, SharedEnv, WriteFile, is_planted};

use super::buffers::Buffers;
use super::store::{Adopted, ByteInterval, ReadTicket, TableFile, TableStore, TableWriter};
use crate::explain::waits;
use crate::placement::TableLocation;
use crate::{Error, Result};

const EXTENSION: &str = ".table";
const VALUES_EXTENSION: &str = ".values";

/// The tables of one range in one local directory, each a file `<FileId>.table`, and its value
/// files, `<FileId>.values`.
///
/// A location is the file's name. Other names in the directory are left alone. Reads complete in
/// line: a ticket is ready when it is returned.
pub struct LocalTableStore {
    env: SharedEnv,
    dir: PathBuf,
    buffers: Arc<Buffers>,
}

impl LocalTableStore {
    /// The tables in `dir`, which exists.
    #[must_use]
    pub fn new(env: SharedEnv, dir: PathBuf) -> LocalTableStore {
        LocalTableStore { env, dir, buffers: Arc::default() }
    }

    /// The location of the table with this id.
    #[must_use]
    pub fn location_of(id: FileId) -> TableLocation {
        TableLocation::new(format!("{id}{EXTENSION}"))
    }

    /// The location of the value file with this id.
    #[must_use]
    pub fn location_of_values(id: FileId) -> TableLocation {
        TableLocation::new(format!("{id}{VALUES_EXTENSION}"))
    }

    fn create_file(&self, name: String, expected_bytes: u64) -> Result<Box<dyn TableWriter>> {
        let path = self.dir.join(&name);
        let file = Some(self.env.fs().create(&path, expected_bytes)?);
        let env = Arc::clone(&self.env);
        Ok(Box::new(LocalTableWriter { env, path, name, file, is_finished: false }))
    }

    /// The file at a location. Errors: [`Error::Corruption`] for a location that this store never
    /// gave, so that a forged manifest cannot name files outside the directory.
    fn path(&self, location: &TableLocation) -> Result<PathBuf> {
        let name = std::str::from_utf8(location.bytes()).ok();
        match name.filter(|name| parse_name(name).is_some()) {
            Some(name) => Ok(self.dir.join(name)),
            None => {
                let detail = format!("{location:?} is not the name of a table in this directory");
                Err(Corruption::new(&self.dir, 0, detail).into())
            }
        }
    }
}

/// Whether a file system that refuses a second name in this way may well take a copy: the name lies
/// on another one, it knows no links, or the file has all the links that it can have.
fn cannot_link(kind: ErrorKind) -> bool {
    use ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(kind, CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

fn parse_name(name: &str) -> Option<FileId> {
    let stem = name.strip_suffix(EXTENSION).or_else(|| name.strip_suffix(VALUES_EXTENSION));
    FileId::parse(stem?)
}

impl fmt::Debug for LocalTableStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalTableStore").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl TableStore for LocalTableStore {
    fn create(
        &self,
        id: FileId,
        _level: LevelNo,
        expected_bytes: u64,
    ) -> Result<Box<dyn TableWriter>> {
        let mut name = format!("{id}{EXTENSION}");
        if is_planted(PlantedBug::ReuseFileName) {
            let counter = 1_000_000 + id.counter % 16;
            name = format!("{}{EXTENSION}", FileId { counter, ..id });
            let _ = self.env.fs().remove(&self.dir.join(&name));
        }
        self.create_file(name, expected_bytes)
    }

    fn create_values(&self, id: FileId, expected_bytes: u64) -> Result<Box<dyn TableWriter>> {
        self.create_file(format!("{id}{VALUES_EXTENSION}"), expected_bytes)
    }

    fn adopt_values(&self, id: FileId, file: &Path) -> Result<Option<Adopted>> {
        let location = LocalTableStore::location_of_values(id);
        match self.env.fs().link(file, &self.path(&location)?) {
            Ok(()) => Ok(Some(Adopted { location, is_new: true })),
            // Ids are given once: a flush that failed has left the name.
            Err(error) if error.source.kind() == ErrorKind::AlreadyExists => {
                Ok(Some(Adopted { location, is_new: false }))
            }
            Err(error) if cannot_link(error.source.kind()) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn sync(&self, _level: LevelNo) -> Result<()> {
        if is_planted(PlantedBug::SkipDirectorySync) {
            return Ok(());
        }
        Ok(self.env.fs().sync_dir(&self.dir)?)
    }

    fn open(&self, location: &TableLocation) -> Result<Arc<dyn TableFile>> {
        let path = self.path(location)?;
        let file = self.env.fs().open(&path)?;
        let (env, buffers) = (Arc::clone(&self.env), Arc::clone(&self.buffers));
        Ok(Arc::new(LocalTableFile::new(env, path, file, buffers)))
    }

    fn link(&self, location: &TableLocation, to: &Path) -> Result<bool> {
        match self.env.fs().link(&self.path(location)?, to) {
            Ok(()) => Ok(true),
            Err(error) if cannot_link(error.source.kind()) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn delete(&self, location: &TableLocation) -> Result<()> {
        match self.env.fs().remove(&self.path(location)?) {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn list(&self) -> Result<Vec<(FileId, TableLocation)>> {
        let entries = self.env.fs().list(&self.dir)?;
        let mut tables: Vec<(FileId, TableLocation)> = entries
            .into_iter()
            .filter(|entry| !entry.is_dir)
            .filter_map(|entry| {
                parse_name(&entry.name).map(|id| (id, TableLocation::new(entry.name)))
            })
            .collect();
        tables.sort_unstable_by_key(|(id, _)| *id);
        Ok(tables)
    }
}

struct LocalTableWriter {
    env: SharedEnv,
    path: PathBuf,
    name: String,
    /// There until [`TableWriter::finish`].
    file: Option<Box<dyn WriteFile>>,
    is_finished: bool,
}

impl TableWriter for LocalTableWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.file {
            Some(file) => Ok(file.append(bytes)?),
            None => Err(Error::Closed),
        }
    }

    fn finish(mut self: Box<Self>) -> Result<TableLocation> {
        let Some(file) = self.file.take() else { return Err(Error::Closed) };
        file.finish()?;
        self.is_finished = true;
        Ok(TableLocation::new(std::mem::take(&mut self.name)))
    }
}

impl Drop for LocalTableWriter {
    fn drop(&mut self) {
        // An abandoned table gives its space back at once: it may be abandoned for lack of space.
        // If that fails, or this thread is already unwinding, the next open collects it.
        if self.is_finished || std::thread::panicking() {
            return;
        }
        drop(self.file.take());
        if let Err(error) = self.env.fs().remove(&self.path) {
            crate::program_log::debug!(%error, "an abandoned table is left to the next open");
        }
    }
}

#[derive(Debug)]
pub(super) struct LocalTableFile {
    env: SharedEnv,
    path: PathBuf,
    file: Arc<dyn ReadFile>,
    /// Those of all tables of the store.
    buffers: Arc<Buffers>,
}

impl LocalTableFile {
    pub(super) fn new(
        env: SharedEnv,
        path: PathBuf,
        file: Arc<dyn ReadFile>,
        buffers: Arc<Buffers>,
    ) -> LocalTableFile {
        LocalTableFile { env, path, file, buffers }
    }

    fn read_interval(&self, interval: ByteInterval) -> Result<Vec<u8>> {
        interval.check_inside(self.file.bytes(), &self.path)?;
        let mut buffer = self.buffers.take(interval.bytes);
        let mut filled = 0;
        while filled < buffer.len() {
            let offset = interval.offset + filled as u64;
            match self.file.read_at(offset, &mut buffer[filled..])? {
                0 => return Err(interval.too_short(&self.path).into()),
                bytes => filled += bytes,
            }
        }
        Ok(buffer)
    }
}

impl TableFile for LocalTableFile {
    fn read(&self, intervals: &[ByteInterval]) -> ReadTicket {
        let began = self.env.now();
        let read: Result<Vec<Vec<u8>>> =
            intervals.iter().map(|interval| self.read_interval(*interval)).collect();
        let buffers = read.iter().flatten();
        let bytes = buffers.map(|buffer| buffer.len() as u64).sum();
        waits::waited_for_file(bytes, began, self.env.now());
        ReadTicket::ready(read)
    }

    fn try_read(&self, interval: ByteInterval) -> Result<Option<Vec<u8>>> {
        interval.check_inside(self.file.bytes(), &self.path)?;
        let mut buffer = vec![0; interval.bytes];
        let mut filled = 0;
        while filled < buffer.len() {
            let offset = interval.offset + filled as u64;
            match self.file.try_read_at(offset, &mut buffer[filled..])? {
                None => return Ok(None),
                Some(0) => return Err(interval.too_short(&self.path).into()),
                Some(bytes) => filled += bytes,
            }
        }
        Ok(Some(buffer))
    }

    fn prefetch(&self, interval: ByteInterval) {
        self.file.prefetch(interval.offset, interval.bytes as u64);
    }

    fn give_back(&self, buffer: Vec<u8>) {
        self.buffers.give_back(buffer);
    }

    fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    fn name(&self) -> PathBuf {
        self.path.clone()
    }
}
