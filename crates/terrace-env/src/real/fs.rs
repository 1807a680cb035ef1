use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, RenameFlags, fsync, renameat_with, statvfs};
use rustix::io::{Errno, retry_on_intr};

use super::dir_lock;
use super::files::{RealReadFile, RealWriteFile};
use super::log_file;
use super::pmem;
use crate::{
    CacheFile, DirEntry, DirLock, EnvError, EnvResult, FileSystem, LockKind, LogFile, Operation,
    Pmem, ReadFile, WriteFile,
};

/// The file systems of the machine.
#[derive(Debug)]
pub(super) struct RealFileSystem;

/// Names the call that failed.
pub(super) fn failed(operation: Operation, path: &Path) -> impl Fn(io::Error) -> EnvError {
    move |error| EnvError::new(operation, path, error)
}

impl FileSystem for RealFileSystem {
    fn create_dir_all(&self, dir: &Path) -> EnvResult<()> {
        create_dir_all(dir).map_err(failed(Operation::CreateDir, dir))
    }

    fn list(&self, dir: &Path) -> EnvResult<Vec<DirEntry>> {
        list(dir).map_err(failed(Operation::List, dir))
    }

    fn sync_dir(&self, dir: &Path) -> EnvResult<()> {
        sync_dir(dir).map_err(failed(Operation::SyncDir, dir))
    }

    fn lock_dir(&self, dir: &Path, kind: LockKind) -> EnvResult<DirLock> {
        dir_lock::lock(dir, kind).map_err(failed(Operation::Lock, dir))
    }

    fn real_dir(&self, dir: &Path) -> EnvResult<PathBuf> {
        real_dir(dir).map_err(failed(Operation::Resolve, dir))
    }

    fn free_bytes(&self, dir: &Path) -> EnvResult<u64> {
        let space = retry_on_intr(|| statvfs(dir))
            .map_err(|errno| failed(Operation::FreeSpace, dir)(errno.into()))?;
        // What an ordinary user may take; the rest is reserved for root.
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn are_on_one_device(&self, one: &Path, other: &Path) -> EnvResult<bool> {
        let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
        let device = |path| device(path).map_err(failed(Operation::FindDevice, path));
        Ok(device(one)? == device(other)?)
    }

    fn open(&self, path: &Path) -> EnvResult<Arc<dyn ReadFile>> {
        Ok(Arc::new(RealReadFile::open(path)?))
    }

    fn create(&self, path: &Path, expected_bytes: u64) -> EnvResult<Box<dyn WriteFile>> {
        Ok(Box::new(RealWriteFile::create(path, expected_bytes)?))
    }

    fn create_log(&self, path: &Path, bytes: u64) -> EnvResult<Arc<dyn LogFile>> {
        log_file::create(path, bytes)
    }

    fn recycle_log(&self, from: &Path, to: &Path) -> EnvResult<Arc<dyn LogFile>> {
        rename_to_new(from, to).map_err(failed(Operation::Rename, from))?;
        log_file::open(to)
    }

    fn open_cache(&self, path: &Path) -> EnvResult<Arc<dyn CacheFile>> {
        Ok(Arc::new(RealReadFile::open_cache(path)?))
    }

    fn create_pmem(&self, path: &Path, bytes: u64) -> EnvResult<Pmem> {
        pmem::create(path, bytes)
    }

    fn open_pmem(&self, path: &Path) -> EnvResult<Pmem> {
        pmem::open(path)
    }

    fn sync_file(&self, path: &Path) -> EnvResult<()> {
        let sync = || fs::OpenOptions::new().write(true).open(path)?.sync_data();
        sync().map_err(failed(Operation::Sync, path))
    }

    fn cut(&self, path: &Path, bytes: u64) -> EnvResult<()> {
        cut(path, bytes).map_err(failed(Operation::Write, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> EnvResult<()> {
        fs::rename(from, to).map_err(failed(Operation::Rename, from))
    }

    fn link(&self, from: &Path, to: &Path) -> EnvResult<()> {
        fs::hard_link(from, to).map_err(failed(Operation::Link, to))
    }

    fn remove_dir(&self, dir: &Path) -> EnvResult<()> {
        fs::remove_dir(dir).map_err(failed(Operation::Remove, dir))
    }

    fn remove(&self, path: &Path) -> EnvResult<()> {
        fs::remove_file(path).map_err(failed(Operation::Remove, path))
    }
}

fn create_dir_all(dir: &Path) -> io::Result<()> {
    match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => return Err(Errno::NOTDIR.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if dir.parent().is_some_and(|parent| !parent.as_os_str().is_empty()) {
        create_dir_all(parent)?;
    }
    match fs::create_dir(dir) {
        Ok(()) => {}
        // Somebody else was faster, and may not have synced it yet.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        Err(error) => return Err(error),
    }
    sync_dir(parent)
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    let file = fs::File::open(dir)?;
    if !file.metadata()?.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    Ok(retry_on_intr(|| fsync(&file))?)
}

fn cut(path: &Path, bytes: u64) -> io::Result<()> {
    let file = fs::OpenOptions::new().write(true).open(path)?;
    if file.metadata()?.len() > bytes { file.set_len(bytes) } else { Ok(()) }
}

fn real_dir(dir: &Path) -> io::Result<PathBuf> {
    let found = fs::canonicalize(dir)?;
    if fs::metadata(&found)?.is_dir() { Ok(found) } else { Err(Errno::NOTDIR.into()) }
}

fn list(dir: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // Removed since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let is_dir = metadata.is_dir();
        let bytes = if is_dir { 0 } else { metadata.size() };
        entries.push(DirEntry { name: entry.file_name().to_string_lossy().into(), bytes, is_dir });
    }
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(entries)
}

/// Renames a file unless the new name exists.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // The file system cannot check in the same step.
        Err(Errno::INVAL | Errno::NOSYS) => {
            if to.try_exists()? {
                return Err(Errno::EXIST.into());
            }
            fs::rename(from, to)
        }
        Err(errno) => Err(errno.into()),
    }
}
