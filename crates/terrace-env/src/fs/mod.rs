//! Files: what the engine asks of a file system, and nothing more.
//!
//! Four kinds of file, by use: a [`ReadFile`] is read at offsets, a [`WriteFile`] is written once
//! from front to back, a [`LogFile`] is preallocated and written at offsets by many threads, and a
//! [`CacheFile`] is read and written at offsets by many threads and never synced. A [`Pmem`] is the
//! memory of a file, read and written by the processor itself.
//! Content becomes durable by the file's `sync`, names by [`FileSystem::sync_dir`]; neither
//! implies the other. A failed sync leaves the file's bytes in doubt: it must not be retried.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{EnvResult, Pmem, PmemMedium};

/// The file inside a directory that carries its lock.
pub(crate) const LOCK_FILE: &str = "LOCK";

/// A file system. Paths name files below directories that the caller created.
pub trait FileSystem: Send + Sync + fmt::Debug {
    /// Makes a directory and its missing parents, durably. One that exists is no error.
    fn create_dir_all(&self, dir: &Path) -> EnvResult<()>;

    /// The entries of a directory, ordered by name.
    fn list(&self, dir: &Path) -> EnvResult<Vec<DirEntry>>;

    /// Makes durable every creation, rename, link and removal in `dir` so far.
    fn sync_dir(&self, dir: &Path) -> EnvResult<()>;

    /// Takes the lock of an existing directory, for as long as the [`DirLock`] lives: one
    /// exclusive holder, or any number of shared ones. Does not wait:
    /// [`EnvError::is_locked`](crate::EnvError::is_locked) if it is taken. The lock of a killed
    /// process is free. The lock is carried by a file named `LOCK` in the directory, which stays
    /// and is listed.
    fn lock_dir(&self, dir: &Path, kind: LockKind) -> EnvResult<DirLock>;

    /// The one name of an existing directory that begins at the root and has no links and no dots
    /// in it: two paths mean the same directory exactly if their real names are equal.
    fn real_dir(&self, dir: &Path) -> EnvResult<PathBuf>;

    /// Bytes that can still be written to the file system that holds `dir`.
    fn free_bytes(&self, dir: &Path) -> EnvResult<u64>;

    /// Whether two existing files or directories lie on one device, and so share its bandwidth.
    fn are_on_one_device(&self, one: &Path, other: &Path) -> EnvResult<bool>;

    /// Opens a file for reading.
    fn open(&self, path: &Path) -> EnvResult<Arc<dyn ReadFile>>;

    /// Creates a file; one that exists is an error. With `expected_bytes` above 0 the space is
    /// reserved first, so that a full disk shows here; what is left over is given back at
    /// [`WriteFile::finish`].
    fn create(&self, path: &Path, expected_bytes: u64) -> EnvResult<Box<dyn WriteFile>>;

    /// Creates a log file of exactly `bytes` bytes, reserved and touched, so that later writes
    /// neither fail for lack of space nor wait for it. One that exists is an error.
    fn create_log(&self, path: &Path, bytes: u64) -> EnvResult<Arc<dyn LogFile>>;

    /// Opens an existing log file for writing under a new name, which is an error if it exists;
    /// its old content stays until it is overwritten. This is how a segment is recycled.
    fn recycle_log(&self, from: &Path, to: &Path) -> EnvResult<Arc<dyn LogFile>>;

    /// Opens the file of a cache, with what it holds, or makes an empty one.
    fn open_cache(&self, path: &Path) -> EnvResult<Arc<dyn CacheFile>>;

    /// Creates the file of an area of persistent memory, of exactly `bytes` bytes (whole pages,
    /// above 0; panics otherwise), reserved, zeroed, durable but for its name, and maps it. One
    /// that exists is an error. See [`Pmem`].
    fn create_pmem(&self, path: &Path, bytes: u64) -> EnvResult<Pmem>;

    /// Maps the file of an area, all of it, with what was stored so far; what was not fenced before
    /// a crash may be there and go in the next one. Fails if it is mapped already
    /// ([`EnvError::is_locked`](crate::EnvError::is_locked)), or if its size is no area's.
    fn open_pmem(&self, path: &Path) -> EnvResult<Pmem>;

    /// Makes durable what an existing file holds: after a crash its bytes may have been found in
    /// the kernel's pages only. The handle that wrote them is gone, so there is no other way.
    fn sync_file(&self, path: &Path) -> EnvResult<()>;

    /// Cuts an existing file off behind its first `bytes`, and gives the rest back; one that is not
    /// longer stays as it is. Nobody writes there any more. After a crash it has the old size or
    /// the new one.
    fn cut(&self, path: &Path, bytes: u64) -> EnvResult<()>;

    /// For simulated disks: a sync of this file has failed, and the kernel takes its pages for
    /// clean. They show what was written until the power fails, and no later sync writes them, but
    /// one after they were written again.
    fn lose_unsynced(&self, _path: &Path) {}

    /// Gives a file another name in one atomic step, replacing what had that name.
    fn rename(&self, from: &Path, to: &Path) -> EnvResult<()>;

    /// Gives a file a second name. One that exists is an error.
    fn link(&self, from: &Path, to: &Path) -> EnvResult<()>;

    /// Removes a name. Open readers go on reading.
    fn remove(&self, path: &Path) -> EnvResult<()>;

    /// Removes an empty directory. The default leaves it where it is: it takes no space to speak
    /// of.
    fn remove_dir(&self, dir: &Path) -> EnvResult<()> {
        let _ = dir;
        Ok(())
    }
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: String,
    /// Size of the file in bytes; 0 for a directory.
    pub bytes: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// How a directory is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// For readers: any number at once.
    Shared,
    /// For a writer: alone.
    Exclusive,
}

/// The lock of a directory; dropping it gives the lock back.
pub struct DirLock {
    _held: Box<dyn Send + Sync>,
}

impl DirLock {
    /// A lock that is held for as long as `held` lives.
    #[must_use]
    pub fn new(held: Box<dyn Send + Sync>) -> DirLock {
        DirLock { _held: held }
    }
}

impl fmt::Debug for DirLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DirLock")
    }
}

/// A file that is read at offsets, by any number of threads at once.
pub trait ReadFile: Send + Sync + fmt::Debug {
    /// Fills `buffer` from `offset`, or less at the end of the file; returns how many bytes.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<usize>;

    /// As [`ReadFile::read_at`], but only if no device has to be waited for: `None` if one would.
    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<Option<usize>>;

    /// Begins to read these bytes into the kernel's pages, if that can be had; waits for nothing.
    /// The default does nothing.
    fn prefetch(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }

    /// The size of the file in bytes when it was opened.
    fn bytes(&self) -> u64;
}

/// A new file that is written once, from front to back, by one thread.
pub trait WriteFile: Send + fmt::Debug {
    /// Appends `bytes`. After an error the file is of no use and should be removed.
    fn append(&mut self, bytes: &[u8]) -> EnvResult<()>;

    /// Makes what was appended durable (not the file's name: see [`FileSystem::sync_dir`]).
    fn sync(&mut self) -> EnvResult<()>;

    /// Gives back reserved space that was not used, and syncs.
    fn finish(self: Box<Self>) -> EnvResult<()>;
}

/// A preallocated file that many threads write at disjoint offsets.
///
/// A write is in the kernel's pages when the call returns: it survives a killed process. Real
/// files are mapped where the file system makes that safe, and written by `pwrite` elsewhere.
pub trait LogFile: Send + Sync + fmt::Debug {
    /// Writes `bytes` at `offset`; both ends lie within [`LogFile::bytes`]. Callers never write
    /// one byte from two threads at once.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()>;

    /// As [`LogFile::write_at`], by one system call if the file has any: for whoever syncs soon. A
    /// sync writes all of a folio that the mapping made dirty, which may be many pages, and of what
    /// a call wrote its blocks only.
    fn write_by_call(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        self.write_at(offset, bytes)
    }

    /// Makes durable everything that was written before the call.
    fn sync(&self) -> EnvResult<()>;

    /// Makes durable what was written to the `bytes` at `offset` before the call, which lie within
    /// [`LogFile::bytes`]. Cost: of a mapped file only the pages of these bytes are written back;
    /// of another one, all.
    fn sync_range(&self, offset: u64, bytes: u64) -> EnvResult<()>;

    /// Brings the first `bytes` into memory for writing, so that no write has to: for a job, ahead
    /// of the first one. Changes nothing but speed; what is synced before it is written may go to
    /// the device twice then.
    fn warm(&self, _bytes: u64) {}

    /// Takes the first `bytes` out of this process's memory, as far as they are whole pages; the
    /// kernel keeps them, and a later write brings its page back. For what hardly anybody writes to
    /// any more, and for what is about to be written to the disk: the kernel would take a page that
    /// was written through a mapping out of it then, each by itself.
    fn let_go(&self, _bytes: u64) {}

    /// Begins to write what was written to the first `bytes` to the disk, and does not wait until
    /// it is there (a device that has too much to do may hold up the call): a later sync finds less
    /// to do. For a job, and for a file that nobody writes to there any
    /// more; nothing is durable by it, and no failure is told.
    fn begin_write_back(&self, _bytes: u64) {}

    /// Writes zeros over the whole of a new file, durably, so that no later sync has to record
    /// which of its blocks are in use: half of what a small sync costs. For a job, ahead of the
    /// first write.
    fn lay_out(&self) -> EnvResult<()> {
        Ok(())
    }

    /// Cuts the file off behind its first `bytes`, and gives the rest back; nobody writes there any
    /// more. After a crash it has the old size or the new one. False if such a file cannot be cut.
    fn cut(&self, _bytes: u64) -> EnvResult<bool> {
        Ok(false)
    }

    /// Nothing that was written is wanted any more: no later sync has to make it durable.
    fn forget(&mut self) {}

    /// The size of the file in bytes; only [`LogFile::cut`] changes it.
    fn bytes(&self) -> u64;

    /// Whether writes go to a mapping (no system call, cannot fail) or through system calls.
    fn is_mapped(&self) -> bool;

    /// What it lies on, if it is persistent memory ([`PmemLogFile`](crate::PmemLogFile)): writes
    /// are stores then, and a sync is a fence.
    fn medium(&self) -> Option<PmemMedium> {
        None
    }
}

/// A file of which nothing has to last: read and written at offsets by many threads, and never
/// synced. It grows as it is written, takes no space where it was not, and is made shorter by
/// [`FileSystem::cut`].
///
/// After a crash each of its bytes may be what was written, what was there before, or a zero. Bytes
/// that one thread reads while another one writes there may be a mixture of old and new ones.
pub trait CacheFile: ReadFile {
    /// Writes `bytes` at `offset`, beyond the end of the file too.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()>;
}

/// Panics if a write would leave the log file: the caller has lost count of its space.
#[inline]
pub(crate) fn assert_within_log(offset: u64, bytes: &[u8], log_bytes: u64) {
    let end = offset.checked_add(bytes.len() as u64);
    assert!(end.is_some_and(|end| end <= log_bytes), "a write beyond the end of a log file");
}
