use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Judge;
use crate::pmem::PmemSide;
use crate::{
    CacheFile, DirEntry, DirLock, EnvResult, FileSystem, LockKind, LogFile, Operation, Pmem,
    PmemMedium, ReadFile, WriteFile,
};

/// A file system whose calls fail by plan.
pub(super) struct FaultFileSystem {
    judge: Arc<Judge>,
}

impl FaultFileSystem {
    pub fn new(judge: Arc<Judge>) -> FaultFileSystem {
        FaultFileSystem { judge }
    }

    fn inner(&self) -> &dyn FileSystem {
        self.judge.inner.fs()
    }

    fn context(&self, path: &Path) -> Context {
        let judge = Arc::clone(&self.judge);
        Context { judge, path: path.to_path_buf(), has_lost_pages: AtomicBool::new(false) }
    }

    fn log_file(&self, inner: Arc<dyn LogFile>, path: &Path) -> Arc<dyn LogFile> {
        Arc::new(FaultLogFile { inner, context: self.context(path) })
    }

    fn pmem(&self, inner: Pmem, path: &Path) -> Pmem {
        inner.behind(|inner| Arc::new(FaultPmem { inner, context: self.context(path) }))
    }
}

impl FileSystem for FaultFileSystem {
    fn create_dir_all(&self, dir: &Path) -> EnvResult<()> {
        self.judge.call(Operation::CreateDir, dir)?;
        self.inner().create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> EnvResult<Vec<DirEntry>> {
        self.judge.call(Operation::List, dir)?;
        self.inner().list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> EnvResult<()> {
        self.judge.call(Operation::SyncDir, dir)?;
        self.inner().sync_dir(dir)
    }

    fn lock_dir(&self, dir: &Path, kind: LockKind) -> EnvResult<DirLock> {
        self.judge.call(Operation::Lock, dir)?;
        self.inner().lock_dir(dir, kind)
    }

    fn real_dir(&self, dir: &Path) -> EnvResult<PathBuf> {
        self.judge.call(Operation::Resolve, dir)?;
        self.inner().real_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> EnvResult<u64> {
        self.judge.call(Operation::FreeSpace, dir)?;
        self.inner().free_bytes(dir)
    }

    fn are_on_one_device(&self, one: &Path, other: &Path) -> EnvResult<bool> {
        self.judge.call(Operation::FindDevice, one)?;
        self.inner().are_on_one_device(one, other)
    }

    fn open(&self, path: &Path) -> EnvResult<Arc<dyn ReadFile>> {
        self.judge.call(Operation::Open, path)?;
        let inner = self.inner().open(path)?;
        Ok(Arc::new(FaultReadFile { inner, context: self.context(path) }))
    }

    fn create(&self, path: &Path, expected_bytes: u64) -> EnvResult<Box<dyn WriteFile>> {
        self.judge.call(Operation::Create, path)?;
        if expected_bytes > 0 {
            self.judge.call(Operation::Preallocate, path)?;
        }
        let inner = self.inner().create(path, expected_bytes)?;
        Ok(Box::new(FaultWriteFile { inner, context: self.context(path) }))
    }

    fn create_log(&self, path: &Path, bytes: u64) -> EnvResult<Arc<dyn LogFile>> {
        self.judge.call(Operation::Create, path)?;
        self.judge.call(Operation::Preallocate, path)?;
        Ok(self.log_file(self.inner().create_log(path, bytes)?, path))
    }

    fn recycle_log(&self, from: &Path, to: &Path) -> EnvResult<Arc<dyn LogFile>> {
        self.judge.call(Operation::Rename, from)?;
        Ok(self.log_file(self.inner().recycle_log(from, to)?, to))
    }

    fn open_cache(&self, path: &Path) -> EnvResult<Arc<dyn CacheFile>> {
        self.judge.call(Operation::Open, path)?;
        let inner = self.inner().open_cache(path)?;
        Ok(Arc::new(FaultReadFile { inner, context: self.context(path) }))
    }

    fn create_pmem(&self, path: &Path, bytes: u64) -> EnvResult<Pmem> {
        self.judge.call(Operation::Create, path)?;
        self.judge.call(Operation::Preallocate, path)?;
        Ok(self.pmem(self.inner().create_pmem(path, bytes)?, path))
    }

    fn open_pmem(&self, path: &Path) -> EnvResult<Pmem> {
        self.judge.call(Operation::Open, path)?;
        Ok(self.pmem(self.inner().open_pmem(path)?, path))
    }

    fn sync_file(&self, path: &Path) -> EnvResult<()> {
        self.judge.call(Operation::Sync, path).inspect_err(|_| self.inner().lose_unsynced(path))?;
        self.inner().sync_file(path)
    }

    fn lose_unsynced(&self, path: &Path) {
        self.inner().lose_unsynced(path);
    }

    fn cut(&self, path: &Path, bytes: u64) -> EnvResult<()> {
        self.judge.call(Operation::Write, path)?;
        self.inner().cut(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> EnvResult<()> {
        self.judge.call(Operation::Rename, from)?;
        self.inner().rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> EnvResult<()> {
        self.judge.call(Operation::Link, to)?;
        self.inner().link(from, to)
    }

    fn remove(&self, path: &Path) -> EnvResult<()> {
        self.judge.call(Operation::Remove, path)?;
        self.inner().remove(path)
    }
}

impl fmt::Debug for FaultFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultFileSystem")
    }
}

/// What the handle of a file needs for its calls to be judged.
struct Context {
    judge: Arc<Judge>,
    path: PathBuf,
    /// Whether a sync failed by plan.
    has_lost_pages: AtomicBool,
}

impl Context {
    fn read(&self) -> EnvResult<()> {
        self.judge.call(Operation::Read, &self.path)
    }

    fn write(&self, bytes: &[u8], write: impl FnOnce(&[u8]) -> EnvResult<()>) -> EnvResult<()> {
        match self.judge.write_call(Operation::Write, &self.path)? {
            None => write(bytes),
            Some(failure) => {
                write(&bytes[..bytes.len() / 2])?;
                Err(failure)
            }
        }
    }

    fn sync(&self, sync: impl FnOnce() -> EnvResult<()>) -> EnvResult<()> {
        let judged = self.judge.call(Operation::Sync, &self.path);
        if judged.is_err() {
            self.has_lost_pages.store(true, Ordering::Relaxed);
            self.judge.inner.fs().lose_unsynced(&self.path);
        }
        judged?;
        if self.has_lost_pages.load(Ordering::Relaxed) { Ok(()) } else { sync() }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

/// A file that is read, or one of a cache.
#[derive(Debug)]
struct FaultReadFile<F: ?Sized> {
    inner: Arc<F>,
    context: Context,
}

impl<F: ReadFile + ?Sized> ReadFile for FaultReadFile<F> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<usize> {
        self.context.read()?;
        self.inner.read_at(offset, buffer)
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<Option<usize>> {
        self.context.read()?;
        self.inner.try_read_at(offset, buffer)
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        self.inner.prefetch(offset, bytes);
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
}

impl CacheFile for FaultReadFile<dyn CacheFile> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        self.context.write(bytes, |bytes| self.inner.write_at(offset, bytes))
    }
}

#[derive(Debug)]
struct FaultWriteFile {
    inner: Box<dyn WriteFile>,
    context: Context,
}

impl WriteFile for FaultWriteFile {
    fn append(&mut self, bytes: &[u8]) -> EnvResult<()> {
        let inner = &mut self.inner;
        self.context.write(bytes, |bytes| inner.append(bytes))
    }

    fn sync(&mut self) -> EnvResult<()> {
        let inner = &mut self.inner;
        self.context.sync(|| inner.sync())
    }

    fn finish(self: Box<Self>) -> EnvResult<()> {
        let FaultWriteFile { inner, context } = *self;
        context.sync(|| inner.finish())
    }
}

#[derive(Debug)]
struct FaultLogFile {
    inner: Arc<dyn LogFile>,
    context: Context,
}

impl LogFile for FaultLogFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        self.context.write(bytes, |bytes| self.inner.write_at(offset, bytes))
    }

    fn sync(&self) -> EnvResult<()> {
        self.context.sync(|| self.inner.sync())
    }

    fn sync_range(&self, offset: u64, bytes: u64) -> EnvResult<()> {
        self.context.sync(|| self.inner.sync_range(offset, bytes))
    }

    fn begin_write_back(&self, bytes: u64) {
        self.inner.begin_write_back(bytes);
    }

    fn lay_out(&self) -> EnvResult<()> {
        self.context.sync(|| self.inner.lay_out())
    }

    fn cut(&self, bytes: u64) -> EnvResult<bool> {
        self.context.judge.call(Operation::Write, &self.context.path)?;
        self.inner.cut(bytes)
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn is_mapped(&self) -> bool {
        false
    }
}

/// An area whose fences fail by plan; stores and flushes cannot.
#[derive(Debug)]
struct FaultPmem {
    inner: Arc<dyn PmemSide>,
    context: Context,
}

impl PmemSide for FaultPmem {
    fn medium(&self) -> PmemMedium {
        self.inner.medium()
    }

    fn stored(&self, offset: u64, bytes: &[u8]) {
        self.inner.stored(offset, bytes);
    }

    fn flush(&self, offset: u64, lines: &[u8]) {
        self.inner.flush(offset, lines);
    }

    fn fence(&self) -> EnvResult<()> {
        self.context.sync(|| self.inner.fence())
    }
}
