use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::{DiskImage, InodeId};
use super::io::{Io, PendingWrite, SimDisk};
use super::pmem;
use crate::fs::LOCK_FILE;
use crate::pmem::{assert_area_bytes, is_area_bytes};
use crate::{
    CacheFile, DirEntry, DirLock, EnvError, EnvResult, FileSystem, LockKind, LogFile, Operation,
    Pmem, ReadFile, WriteFile,
};

/// The file system of a simulation.
pub(super) struct SimFileSystem {
    disk: Arc<SimDisk>,
}

impl SimFileSystem {
    pub fn new(disk: Arc<SimDisk>) -> SimFileSystem {
        SimFileSystem { disk }
    }

    fn handle(&self, path: &Path, inode: InodeId) -> Handle {
        Handle { disk: Arc::clone(&self.disk), path: path.to_path_buf(), inode }
    }

    /// Maps an open file as persistent memory.
    fn map(&self, path: &Path, inode: InodeId, bytes: u64) -> EnvResult<Pmem> {
        let Some(content) = self.disk.map(inode, bytes) else {
            self.disk.close(inode);
            let source = io::Error::new(io::ErrorKind::WouldBlock, "the area is mapped");
            return Err(EnvError::new(Operation::Lock, path, source));
        };
        Ok(pmem::over(&self.disk, path, inode, &content))
    }

    fn log_file(&self, path: &Path, inode: InodeId, bytes: u64) -> Arc<dyn LogFile> {
        Arc::new(SimLogFile { file: self.handle(path, inode), bytes: AtomicU64::new(bytes) })
    }
}

impl FileSystem for SimFileSystem {
    fn create_dir_all(&self, dir: &Path) -> EnvResult<()> {
        self.disk.mutate(Io::new(Operation::CreateDir, dir), |disk| disk.create_dir_all(dir))
    }

    fn list(&self, dir: &Path) -> EnvResult<Vec<DirEntry>> {
        self.disk.look(Io::new(Operation::List, dir), |disk| disk.list(dir))
    }

    fn sync_dir(&self, dir: &Path) -> EnvResult<()> {
        let io = Io::new(Operation::SyncDir, dir);
        self.disk.mutate_and_sync(io, |disk| disk.check_dir(dir), |disk, ()| disk.sync_dir(dir))
    }

    fn lock_dir(&self, dir: &Path, kind: LockKind) -> EnvResult<DirLock> {
        let path = dir.join(LOCK_FILE);
        self.disk.mutate(Io::new(Operation::Lock, dir), |disk| {
            let inode = match disk.open(&path) {
                Ok((inode, _)) => inode,
                Err(_) => disk.create(&path, 0)?,
            };
            disk.close(inode);
            Ok(())
        })?;
        if !self.disk.try_lock(dir, kind) {
            let source = io::Error::new(io::ErrorKind::WouldBlock, "held in this simulation");
            return Err(EnvError::new(Operation::Lock, dir, source));
        }
        Ok(DirLock::new(Box::new(Lock { disk: Arc::clone(&self.disk), dir: dir.to_path_buf() })))
    }

    /// A simulated file system has neither links between directories nor a directory to begin at.
    fn real_dir(&self, dir: &Path) -> EnvResult<PathBuf> {
        self.disk.look(Io::new(Operation::Resolve, dir), |disk| {
            disk.check_dir(dir)?;
            Ok(dir.components().collect())
        })
    }

    fn free_bytes(&self, dir: &Path) -> EnvResult<u64> {
        self.disk.look(Io::new(Operation::FreeSpace, dir), |disk| {
            disk.check_dir(dir)?;
            Ok(disk.free_bytes())
        })
    }

    /// There is but one.
    fn are_on_one_device(&self, one: &Path, other: &Path) -> EnvResult<bool> {
        for path in [one, other] {
            let io = Io::new(Operation::FindDevice, path);
            self.disk.look(io, |disk| disk.check_exists(path))?;
        }
        Ok(true)
    }

    fn open(&self, path: &Path) -> EnvResult<Arc<dyn ReadFile>> {
        let (inode, bytes) =
            self.disk.look(Io::new(Operation::Open, path), |disk| disk.open(path))?;
        Ok(Arc::new(SimReadFile { file: self.handle(path, inode), bytes }))
    }

    fn create(&self, path: &Path, expected_bytes: u64) -> EnvResult<Box<dyn WriteFile>> {
        let io = Io { count: expected_bytes, ..Io::new(Operation::Create, path) };
        let inode = self
            .disk
            .mutate(io, |disk| disk.create(path, expected_bytes))
            .map_err(blame_preallocation)?;
        Ok(Box::new(SimWriteFile { file: self.handle(path, inode), bytes: 0 }))
    }

    fn create_log(&self, path: &Path, bytes: u64) -> EnvResult<Arc<dyn LogFile>> {
        let io = Io { count: bytes, ..Io::new(Operation::Create, path) };
        let inode = self
            .disk
            .mutate(io, |disk| {
                let inode = disk.create(path, bytes)?;
                disk.resize_inode(inode, bytes)?;
                Ok(inode)
            })
            .map_err(blame_preallocation)?;
        Ok(self.log_file(path, inode, bytes))
    }

    fn recycle_log(&self, from: &Path, to: &Path) -> EnvResult<Arc<dyn LogFile>> {
        let (inode, bytes) = self.disk.mutate(Io::new(Operation::Rename, from), |disk| {
            disk.rename(from, to, false)?;
            disk.open(to)
        })?;
        Ok(self.log_file(to, inode, bytes))
    }

    fn open_cache(&self, path: &Path) -> EnvResult<Arc<dyn CacheFile>> {
        let (inode, bytes) = self.disk.mutate(Io::new(Operation::Open, path), |disk| {
            if disk.has_file(path) { disk.open(path) } else { Ok((disk.create(path, 0)?, 0)) }
        })?;
        Ok(Arc::new(SimReadFile { file: self.handle(path, inode), bytes }))
    }

    fn create_pmem(&self, path: &Path, bytes: u64) -> EnvResult<Pmem> {
        assert_area_bytes(bytes);
        let io = Io { count: bytes, ..Io::new(Operation::Create, path) };
        let inode = self
            .disk
            .mutate(io, |disk| {
                let inode = disk.create(path, bytes)?;
                disk.resize_inode(inode, bytes)?;
                disk.make_pmem(inode, true);
                Ok(inode)
            })
            .map_err(blame_preallocation)?;
        self.map(path, inode, bytes)
    }

    fn open_pmem(&self, path: &Path) -> EnvResult<Pmem> {
        let (inode, bytes) = self.disk.look(Io::new(Operation::Open, path), |disk| {
            let (inode, bytes) = disk.open(path)?;
            if !is_area_bytes(bytes) {
                disk.close(inode);
                return Err(io::Error::new(io::ErrorKind::InvalidData, "no area has this size"));
            }
            disk.make_pmem(inode, false);
            Ok((inode, bytes))
        })?;
        self.map(path, inode, bytes)
    }

    fn sync_file(&self, path: &Path) -> EnvResult<()> {
        let open = |disk: &mut DiskImage| {
            let (inode, _) = disk.open(path)?;
            disk.close(inode);
            Ok(inode)
        };
        self.disk.mutate_and_sync(Io::new(Operation::Sync, path), open, |disk, inode| {
            disk.sync_inode(inode);
            Ok(())
        })
    }

    fn lose_unsynced(&self, path: &Path) {
        self.disk.lose_unsynced(path);
    }

    fn cut(&self, path: &Path, bytes: u64) -> EnvResult<()> {
        let io = Io { count: bytes, ..Io::new(Operation::Write, path) };
        self.disk.mutate(io, |disk| {
            let (inode, present) = disk.open(path)?;
            let cut = if present > bytes { disk.cut_inode(inode, bytes) } else { Ok(()) };
            disk.close(inode);
            cut
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> EnvResult<()> {
        let io = Io::new(Operation::Rename, from);
        self.disk.mutate(io, |disk| disk.rename(from, to, true)).map(|_| ())
    }

    fn link(&self, from: &Path, to: &Path) -> EnvResult<()> {
        self.disk.mutate(Io::new(Operation::Link, to), |disk| disk.link(from, to))
    }

    fn remove(&self, path: &Path) -> EnvResult<()> {
        self.disk.mutate(Io::new(Operation::Remove, path), |disk| disk.unlink(path))
    }
}

impl fmt::Debug for SimFileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimFileSystem")
    }
}

/// A file that does not fit fails where its space is reserved.
fn blame_preallocation(error: EnvError) -> EnvError {
    let operation = if error.is_no_space() { Operation::Preallocate } else { error.operation };
    EnvError { operation, ..error }
}

/// The lock of a directory, held.
struct Lock {
    disk: Arc<SimDisk>,
    dir: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.disk.unlock(&self.dir);
    }
}

/// An open file.
struct Handle {
    disk: Arc<SimDisk>,
    /// The name under which it was opened.
    path: PathBuf,
    inode: InodeId,
}

impl Handle {
    fn write(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        let io = Io::write(&self.path, PendingWrite { inode: self.inode, offset, bytes });
        self.disk.mutate(io, |disk| disk.write_inode(self.inode, offset, bytes))
    }

    fn sync(&self) -> EnvResult<()> {
        self.sync_by(|disk| disk.sync_inode(self.inode))
    }

    fn sync_by(&self, sync: impl FnOnce(&mut DiskImage)) -> EnvResult<()> {
        let io = Io::new(Operation::Sync, &self.path);
        let after = |disk: &mut DiskImage, ()| {
            sync(disk);
            Ok(())
        };
        self.disk.mutate_and_sync(io, |_| Ok(()), after)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.disk.close(self.inode);
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

#[derive(Debug)]
struct SimReadFile {
    file: Handle,
    bytes: u64,
}

impl SimReadFile {
    fn io(&self, offset: u64, buffer: &[u8]) -> Io<'_> {
        let io = Io::new(Operation::Read, &self.file.path);
        Io { offset, count: buffer.len() as u64, ..io }
    }
}

impl ReadFile for SimReadFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<usize> {
        let io = self.io(offset, buffer);
        self.file.disk.look(io, |disk| Ok(disk.read_inode(self.file.inode, offset, buffer)))
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<Option<usize>> {
        if self.file.disk.draw_read_miss() {
            return self.file.disk.look(self.io(offset, buffer), |_| Ok(None));
        }
        self.read_at(offset, buffer).map(Some)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl CacheFile for SimReadFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        self.file.write(offset, bytes)
    }
}

#[derive(Debug)]
struct SimWriteFile {
    file: Handle,
    bytes: u64,
}

impl WriteFile for SimWriteFile {
    fn append(&mut self, bytes: &[u8]) -> EnvResult<()> {
        self.file.write(self.bytes, bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> EnvResult<()> {
        self.file.sync()
    }

    fn finish(self: Box<Self>) -> EnvResult<()> {
        let inode = self.file.inode;
        let io = Io::new(Operation::Sync, &self.file.path);
        self.file.disk.mutate_and_sync(
            io,
            |disk| {
                disk.give_back_reserve(inode);
                Ok(())
            },
            |disk, ()| {
                disk.sync_inode(inode);
                Ok(())
            },
        )
    }
}

#[derive(Debug)]
struct SimLogFile {
    file: Handle,
    bytes: AtomicU64,
}

impl LogFile for SimLogFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        crate::fs::assert_within_log(offset, bytes, self.bytes());
        self.file.write(offset, bytes)
    }

    fn sync(&self) -> EnvResult<()> {
        self.file.sync()
    }

    fn sync_range(&self, offset: u64, bytes: u64) -> EnvResult<()> {
        assert!(offset + bytes <= self.bytes(), "a sync beyond the end of a log file");
        let inode = self.file.inode;
        self.file.sync_by(|disk| disk.sync_range_of_inode(inode, offset, bytes))
    }

    fn cut(&self, bytes: u64) -> EnvResult<bool> {
        let before = self.bytes.fetch_min(bytes, Ordering::Relaxed);
        assert!(bytes <= before, "a log file is cut, and does not grow");
        let inode = self.file.inode;
        let io = Io { count: bytes, ..Io::new(Operation::Write, &self.file.path) };
        self.file.disk.mutate(io, |disk| disk.cut_inode(inode, bytes))?;
        Ok(true)
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_mapped(&self) -> bool {
        self.file.disk.mapped_logs()
    }
}
