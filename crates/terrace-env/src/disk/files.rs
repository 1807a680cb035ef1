use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Device;
use crate::pmem::PmemSide;
use crate::{
    CacheFile, DirEntry, DirLock, EnvResult, FileSystem, Latch, LockKind, LogFile, PMEM_PAGE_BYTES,
    Pmem, PmemMedium, ReadFile, WriteFile,
};

/// A file system on the emulated device.
pub(super) struct DiskFileSystem {
    device: Arc<Device>,
}

impl DiskFileSystem {
    pub fn new(device: Arc<Device>) -> DiskFileSystem {
        DiskFileSystem { device }
    }

    /// The inner file system, for a call that costs an operation.
    fn on_names(&self) -> &dyn FileSystem {
        self.device.operation();
        self.device.inner.fs()
    }

    fn log_file(&self, inner: Arc<dyn LogFile>) -> Arc<dyn LogFile> {
        Arc::new(DiskLogFile { inner, device: Arc::clone(&self.device) })
    }

    /// Only an area in the kernel's pages has a disk below it.
    pub(super) fn pmem(&self, inner: Pmem) -> Pmem {
        if inner.medium() == PmemMedium::File {
            inner.behind(|inner| Arc::new(DiskPmem::new(inner, Arc::clone(&self.device))))
        } else {
            inner
        }
    }
}

impl FileSystem for DiskFileSystem {
    fn create_dir_all(&self, dir: &Path) -> EnvResult<()> {
        self.on_names().create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> EnvResult<Vec<DirEntry>> {
        self.on_names().list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> EnvResult<()> {
        match self.device.is_elsewhere(dir) {
            true => self.device.inner.fs().sync_dir(dir),
            false => self.on_names().sync_dir(dir),
        }
    }

    fn lock_dir(&self, dir: &Path, kind: LockKind) -> EnvResult<DirLock> {
        self.on_names().lock_dir(dir, kind)
    }

    fn real_dir(&self, dir: &Path) -> EnvResult<PathBuf> {
        self.device.inner.fs().real_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> EnvResult<u64> {
        self.device.inner.fs().free_bytes(dir)
    }

    fn are_on_one_device(&self, one: &Path, other: &Path) -> EnvResult<bool> {
        let is_device_same = self.device.is_elsewhere(one) == self.device.is_elsewhere(other);
        Ok(is_device_same && self.device.inner.fs().are_on_one_device(one, other)?)
    }

    fn open(&self, path: &Path) -> EnvResult<Arc<dyn ReadFile>> {
        if self.device.is_elsewhere(path) {
            return self.device.inner.fs().open(path);
        }
        let inner = self.on_names().open(path)?;
        Ok(Arc::new(DiskReadFile { inner, device: Arc::clone(&self.device) }))
    }

    fn create(&self, path: &Path, expected_bytes: u64) -> EnvResult<Box<dyn WriteFile>> {
        if self.device.is_elsewhere(path) {
            return self.device.inner.fs().create(path, expected_bytes);
        }
        let inner = self.on_names().create(path, expected_bytes)?;
        Ok(Box::new(DiskWriteFile { inner, device: Arc::clone(&self.device) }))
    }

    fn create_log(&self, path: &Path, bytes: u64) -> EnvResult<Arc<dyn LogFile>> {
        Ok(self.log_file(self.on_names().create_log(path, bytes)?))
    }

    fn recycle_log(&self, from: &Path, to: &Path) -> EnvResult<Arc<dyn LogFile>> {
        Ok(self.log_file(self.on_names().recycle_log(from, to)?))
    }

    fn open_cache(&self, path: &Path) -> EnvResult<Arc<dyn CacheFile>> {
        if self.device.is_elsewhere(path) {
            return self.device.inner.fs().open_cache(path);
        }
        let inner = self.on_names().open_cache(path)?;
        Ok(Arc::new(DiskReadFile { inner, device: Arc::clone(&self.device) }))
    }

    fn create_pmem(&self, path: &Path, bytes: u64) -> EnvResult<Pmem> {
        Ok(self.pmem(self.on_names().create_pmem(path, bytes)?))
    }

    fn open_pmem(&self, path: &Path) -> EnvResult<Pmem> {
        Ok(self.pmem(self.on_names().open_pmem(path)?))
    }

    fn sync_file(&self, path: &Path) -> EnvResult<()> {
        self.device.inner.fs().sync_file(path)?;
        self.device.sync();
        Ok(())
    }

    fn lose_unsynced(&self, path: &Path) {
        self.device.inner.fs().lose_unsynced(path);
    }

    fn cut(&self, path: &Path, bytes: u64) -> EnvResult<()> {
        self.device.inner.fs().cut(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> EnvResult<()> {
        self.on_names().rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> EnvResult<()> {
        self.on_names().link(from, to)
    }

    fn remove(&self, path: &Path) -> EnvResult<()> {
        match self.device.is_elsewhere(path) {
            true => self.device.inner.fs().remove(path),
            false => self.on_names().remove(path),
        }
    }
}

impl fmt::Debug for DiskFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskFileSystem")
    }
}

/// A file that is read, or one of a cache.
struct DiskReadFile<F: ?Sized> {
    inner: Arc<F>,
    device: Arc<Device>,
}

impl<F: ReadFile + ?Sized> ReadFile for DiskReadFile<F> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<usize> {
        let count = self.inner.read_at(offset, buffer)?;
        self.device.read(count);
        Ok(count)
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<Option<usize>> {
        if !self.device.try_read(buffer.len()) {
            return Ok(None);
        }
        self.inner.try_read_at(offset, buffer)
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }
}

impl CacheFile for DiskReadFile<dyn CacheFile> {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        self.inner.write_at(offset, bytes)?;
        self.device.write(bytes.len(), 1);
        Ok(())
    }
}

impl<F: fmt::Debug + ?Sized> fmt::Debug for DiskReadFile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

struct DiskWriteFile {
    inner: Box<dyn WriteFile>,
    device: Arc<Device>,
}

impl WriteFile for DiskWriteFile {
    fn append(&mut self, bytes: &[u8]) -> EnvResult<()> {
        self.inner.append(bytes)?;
        self.device.write(bytes.len(), 1);
        Ok(())
    }

    fn sync(&mut self) -> EnvResult<()> {
        self.inner.sync()?;
        self.device.sync();
        Ok(())
    }

    fn finish(self: Box<Self>) -> EnvResult<()> {
        let DiskWriteFile { inner, device } = *self;
        inner.finish()?;
        device.sync();
        Ok(())
    }
}

impl fmt::Debug for DiskWriteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

struct DiskLogFile {
    inner: Arc<dyn LogFile>,
    device: Arc<Device>,
}

impl LogFile for DiskLogFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        self.inner.write_at(offset, bytes)?;
        self.device.write(bytes.len(), u64::from(!self.inner.is_mapped()));
        Ok(())
    }

    fn write_by_call(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        self.inner.write_by_call(offset, bytes)?;
        self.device.write(bytes.len(), 1);
        Ok(())
    }

    fn sync(&self) -> EnvResult<()> {
        self.inner.sync()?;
        self.device.sync();
        Ok(())
    }

    fn warm(&self, bytes: u64) {
        self.inner.warm(bytes);
    }

    fn let_go(&self, bytes: u64) {
        self.inner.let_go(bytes);
    }

    fn begin_write_back(&self, bytes: u64) {
        self.inner.begin_write_back(bytes);
    }

    fn lay_out(&self) -> EnvResult<()> {
        self.inner.lay_out()?;
        // A log file fits the address space.
        self.device.write(self.inner.bytes() as usize, 1);
        self.device.sync();
        Ok(())
    }

    fn cut(&self, bytes: u64) -> EnvResult<bool> {
        self.inner.cut(bytes)
    }

    fn sync_range(&self, offset: u64, bytes: u64) -> EnvResult<()> {
        self.inner.sync_range(offset, bytes)?;
        self.device.sync_some();
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.inner.bytes()
    }

    fn is_mapped(&self) -> bool {
        self.inner.is_mapped()
    }
}

impl fmt::Debug for DiskLogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// An area in the kernel's pages: its fences write the flushed ones to the device.
struct DiskPmem {
    inner: Arc<dyn PmemSide>,
    device: Arc<Device>,
    /// The numbers of the pages that were flushed since a fence took them.
    flushed: Latch<BTreeSet<u64>>,
}

impl DiskPmem {
    fn new(inner: Arc<dyn PmemSide>, device: Arc<Device>) -> DiskPmem {
        DiskPmem { inner, device, flushed: Latch::default() }
    }
}

impl PmemSide for DiskPmem {
    fn medium(&self) -> PmemMedium {
        self.inner.medium()
    }

    fn stored(&self, offset: u64, bytes: &[u8]) {
        self.inner.stored(offset, bytes);
    }

    fn flush(&self, offset: u64, lines: &[u8]) {
        self.inner.flush(offset, lines);
        let end = (offset + lines.len() as u64).div_ceil(PMEM_PAGE_BYTES);
        self.flushed.lock().extend(offset / PMEM_PAGE_BYTES..end);
    }

    fn fence(&self) -> EnvResult<()> {
        let flushed = std::mem::take(&mut *self.flushed.lock());
        self.device.write(flushed.len() * PMEM_PAGE_BYTES as usize, 0);
        self.inner.fence()?;
        self.device.sync();
        Ok(())
    }
}

impl fmt::Debug for DiskPmem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
