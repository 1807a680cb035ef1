use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fdatasync, fstatfs, ftruncate};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwrite, retry_on_intr};

use super::fs::failed;
use crate::{CacheFile, EnvResult, Operation, ReadFile, WriteFile};

/// Magic numbers of file systems, as `statfs` reports them.
pub(super) mod magic {
    /// ext2, ext3 and ext4.
    pub const EXT: u64 = 0xef53;
    /// XFS.
    pub const XFS: u64 = 0x5846_5342;
    /// A file system in memory.
    pub const TMPFS: u64 = 0x0102_1994;
    /// A file system in memory, without limits.
    pub const RAMFS: u64 = 0x8584_58f6;
}

/// Which file system a file is on.
pub(super) fn file_system_of(file: &File) -> io::Result<u64> {
    let found = retry_on_intr(|| fstatfs(file))?;
    // The type of the field differs between architectures; the number fits 32 bits.
    Ok(found.f_type as u64 & 0xffff_ffff)
}

/// A file that is read, or one of a cache, which was opened for writing too.
#[derive(Debug)]
pub(super) struct RealReadFile {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// What to do for a file system that knows no `RWF_NOWAIT`: one of [`nowait`].
    nowait: AtomicU8,
}

/// How a read that must not wait is done.
mod nowait {
    /// The kernel is asked; so far it knew the answer.
    pub const ASK: u8 = 0;
    /// The file is in memory: a plain read never waits for a device.
    pub const IN_MEMORY: u8 = 1;
    /// Any read might wait, and nobody can tell: none is tried.
    pub const NEVER: u8 = 2;
}

impl RealReadFile {
    pub fn open(path: &Path) -> EnvResult<RealReadFile> {
        RealReadFile::open_with(path, OpenOptions::new().read(true))
    }

    /// Opens the file of a cache, or makes it.
    pub fn open_cache(path: &Path) -> EnvResult<RealReadFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        RealReadFile::open_with(path, &options)
    }

    fn open_with(path: &Path, options: &OpenOptions) -> EnvResult<RealReadFile> {
        let open = || {
            let file = options.open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() { Err(Errno::ISDIR.into()) } else { Ok((file, metadata.len())) }
        };
        let (file, bytes) = open().map_err(failed(Operation::Open, path))?;
        Ok(RealReadFile {
            file,
            path: path.to_path_buf(),
            bytes,
            nowait: AtomicU8::new(nowait::ASK),
        })
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        fill(offset, buffer, |offset, rest| retry_on_intr(|| pread(&self.file, &mut *rest, offset)))
    }

    fn try_read(&self, offset: u64, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        match self.nowait.load(Ordering::Relaxed) {
            nowait::ASK => {}
            nowait::IN_MEMORY => return self.read(offset, buffer).map(Some),
            _ => return Ok(None),
        }
        let read = fill(offset, buffer, |offset, rest| {
            retry_on_intr(|| {
                let mut buffers = [io::IoSliceMut::new(rest)];
                preadv2(&self.file, &mut buffers, offset, ReadWriteFlags::NOWAIT)
            })
        });
        match read {
            Ok(count) => Ok(Some(count)),
            Err(Errno::AGAIN) => Ok(None),
            Err(Errno::OPNOTSUPP) => {
                let kind = match file_system_of(&self.file) {
                    Ok(magic::TMPFS | magic::RAMFS) => nowait::IN_MEMORY,
                    _ => nowait::NEVER,
                };
                self.nowait.store(kind, Ordering::Relaxed);
                self.try_read(offset, buffer)
            }
            Err(errno) => Err(errno),
        }
    }
}

/// Calls `read` until the buffer is full or the file ends; returns how many bytes.
fn fill(
    offset: u64,
    buffer: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut done = 0;
    while done < buffer.len() {
        match read(offset + done as u64, &mut buffer[done..])? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

impl ReadFile for RealReadFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<usize> {
        self.read(offset, buffer).map_err(|errno| failed(Operation::Read, &self.path)(errno.into()))
    }

    fn try_read_at(&self, offset: u64, buffer: &mut [u8]) -> EnvResult<Option<usize>> {
        self.try_read(offset, buffer)
            .map_err(|errno| failed(Operation::Read, &self.path)(errno.into()))
    }

    fn prefetch(&self, offset: u64, bytes: u64) {
        // It is a hint: where the file system does not take it, reads take longer.
        let _ = fadvise(&self.file, offset, NonZeroU64::new(bytes), Advice::WillNeed);
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl CacheFile for RealReadFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        write_all_at(&self.file, offset, bytes)
            .map_err(|errno| failed(Operation::Write, &self.path)(errno.into()))
    }
}

#[derive(Debug)]
pub(super) struct RealWriteFile {
    file: File,
    path: PathBuf,
    bytes: u64,
    synced: OneSync,
}

impl RealWriteFile {
    pub fn create(path: &Path, expected_bytes: u64) -> EnvResult<RealWriteFile> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(failed(Operation::Create, path))?;
        // The size stays what was written, so that a crash leaves no tail of zeros.
        reserve(&file, path, expected_bytes, FallocateFlags::KEEP_SIZE)?;
        Ok(RealWriteFile { file, path: path.to_path_buf(), bytes: 0, synced: OneSync::default() })
    }
}

impl WriteFile for RealWriteFile {
    fn append(&mut self, bytes: &[u8]) -> EnvResult<()> {
        write_all_at(&self.file, self.bytes, bytes)
            .map_err(|errno| failed(Operation::Write, &self.path)(errno.into()))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> EnvResult<()> {
        self.synced.sync(&self.file).map_err(failed(Operation::Sync, &self.path))
    }

    fn finish(mut self: Box<Self>) -> EnvResult<()> {
        // Cutting a file at its size frees what was reserved beyond it.
        retry_on_intr(|| ftruncate(&self.file, self.bytes))
            .map_err(|errno| failed(Operation::Write, &self.path)(errno.into()))?;
        self.sync()
    }
}

/// Reserves the first `bytes` bytes of a new file. If there is no room, the file is removed. False
/// if the file system cannot reserve.
pub(super) fn reserve(
    file: &File,
    path: &Path,
    bytes: u64,
    flags: FallocateFlags,
) -> EnvResult<bool> {
    if bytes == 0 {
        return Ok(true);
    }
    match retry_on_intr(|| fallocate(file, flags, 0, bytes)) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(errno) => {
            // The error that matters is the one at hand; a file that stays is an unknown one.
            let _ = std::fs::remove_file(path);
            Err(failed(Operation::Preallocate, path)(errno.into()))
        }
    }
}

pub(super) fn write_all_at(file: &File, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match retry_on_intr(|| pwrite(file, &bytes[done..], offset + done as u64))? {
            0 => return Err(Errno::IO),
            count => done += count,
        }
    }
    Ok(())
}

/// Syncs a file until that fails once.
#[derive(Debug, Default)]
pub(super) struct OneSync {
    /// The error number of the sync that failed; 0 if none did.
    failed: AtomicI32,
}

impl OneSync {
    pub fn sync(&self, file: &File) -> io::Result<()> {
        self.once(|| Ok(retry_on_intr(|| fdatasync(file))?))
    }

    /// Syncs by another call, or says why an earlier sync failed.
    pub fn once(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        match self.failed.load(Ordering::Acquire) {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        sync().inspect_err(|error| {
            let errno = error.raw_os_error().unwrap_or(Errno::IO.raw_os_error());
            self.failed.store(errno, Ordering::Release);
        })
    }
}
