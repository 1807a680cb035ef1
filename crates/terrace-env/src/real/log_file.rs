use std::fs::{File, OpenOptions};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, ftruncate};
use rustix::io::retry_on_intr;

use super::files::{OneSync, file_system_of, magic, reserve, write_all_at};
use super::fs::failed;
use super::mapping::Mapping;
use crate::fs::assert_within_log;
use crate::{EnvResult, LogFile, Operation};

/// How many zeros are written at once where a file system cannot reserve space.
const ZEROS_BYTES: usize = 1 << 20;

/// Creates a log file, reserved and touched.
pub(super) fn create(path: &Path, bytes: u64) -> EnvResult<Arc<dyn LogFile>> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(failed(Operation::Create, path))?;
    let is_reserved = reserve(&file, path, bytes, FallocateFlags::empty())?;
    if !is_reserved {
        write_zeros(&file, bytes).map_err(|errno| {
            let _ = std::fs::remove_file(path);
            failed(Operation::Preallocate, path)(errno.into())
        })?;
    }
    let is_safe = is_reserved && is_mapping_safe(&file);
    Ok(over(file, path, bytes, is_safe))
}

/// Opens a log file for writing again.
pub(super) fn open(path: &Path) -> EnvResult<Arc<dyn LogFile>> {
    let open = || {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    };
    let (file, bytes) = open().map_err(failed(Operation::Open, path))?;
    // Fills holes that the file may have if it was copied here; does nothing otherwise.
    let fill = || retry_on_intr(|| fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes.max(1)));
    let is_safe = is_mapping_safe(&file) && fill().is_ok();
    Ok(over(file, path, bytes, is_safe))
}

fn over(file: File, path: &Path, bytes: u64, is_mapping_safe: bool) -> Arc<dyn LogFile> {
    let path = path.to_path_buf();
    let synced = OneSync::default();
    // A mapping that is refused (a limit of the process) costs speed and nothing else.
    let mapping = if is_mapping_safe { Mapping::of(&file, bytes).ok() } else { None };
    match mapping {
        Some(mapping) => Arc::new(MappedLogFile { mapping, file, path, synced }),
        None => {
            let bytes = AtomicU64::new(bytes);
            Arc::new(WrittenLogFile { file, path, bytes, synced })
        }
    }
}

/// Whether a write through a mapping to reserved space cannot fail. Where a file system writes to
/// a new place each time (btrfs, ZFS), over a network, or through another one that it hides
/// (overlayfs, FUSE), it can, and the kernel reports that by killing the process.
fn is_mapping_safe(file: &File) -> bool {
    matches!(file_system_of(file), Ok(magic::EXT | magic::XFS | magic::TMPFS))
}

pub(super) fn write_zeros(file: &File, bytes: u64) -> Result<(), rustix::io::Errno> {
    let zeros = vec![0; ZEROS_BYTES];
    let mut offset = 0;
    while offset < bytes {
        // At most `ZEROS_BYTES`, so it fits.
        let count = (bytes - offset).min(ZEROS_BYTES as u64) as usize;
        write_all_at(file, offset, &zeros[..count])?;
        offset += count as u64;
    }
    Ok(())
}

/// From here on a write costs less as a system call than through the mapping: it pays for whole
/// pages, which a sync then need not take out of the mapping one by one.
const CALL_BYTES: usize = 2048;

/// A log that is written through a mapping, and by system calls where those cost less. Both go to
/// the same pages of the kernel.
#[derive(Debug)]
struct MappedLogFile {
    mapping: Mapping,
    file: File,
    path: PathBuf,
    synced: OneSync,
}

impl LogFile for MappedLogFile {
    #[inline]
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        if bytes.len() < CALL_BYTES {
            self.mapping.write(offset, bytes);
            return Ok(());
        }
        self.write_by_call(offset, bytes)
    }

    fn write_by_call(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        assert_within_log(offset, bytes, self.mapping.bytes());
        write_all_at(&self.file, offset, bytes)
            .map_err(|errno| failed(Operation::Write, &self.path)(errno.into()))
    }

    fn sync(&self) -> EnvResult<()> {
        // Writes back the pages that the mapping made dirty too.
        self.synced.sync(&self.file).map_err(failed(Operation::Sync, &self.path))
    }

    fn sync_range(&self, offset: u64, bytes: u64) -> EnvResult<()> {
        let sync = || self.mapping.sync(offset, bytes);
        self.synced.once(sync).map_err(failed(Operation::Sync, &self.path))
    }

    fn warm(&self, bytes: u64) {
        self.mapping.warm(bytes);
    }

    fn let_go(&self, bytes: u64) {
        self.mapping.let_go(bytes);
    }

    fn lay_out(&self) -> EnvResult<()> {
        write_zeros(&self.file, self.bytes())
            .map_err(|errno| failed(Operation::Write, &self.path)(errno.into()))?;
        self.sync()
    }

    fn begin_write_back(&self, bytes: u64) {
        begin_write_back(&self.file, bytes);
    }

    fn cut(&self, bytes: u64) -> EnvResult<bool> {
        self.mapping.lower_end(bytes);
        cut(&self.file, &self.path, bytes)
    }

    fn bytes(&self) -> u64 {
        self.mapping.bytes()
    }

    fn is_mapped(&self) -> bool {
        true
    }
}

/// Begins to write the first `bytes` of a file back. The advice is that nobody wants them in
/// memory: Linux begins to write what is not on the disk, does not wait for it, and lets go only of
/// what is on the disk already.
fn begin_write_back(file: &File, bytes: u64) {
    let _ = fadvise(file, 0, NonZeroU64::new(bytes), Advice::DontNeed);
}

/// Cuts a file off behind its first `bytes`.
fn cut(file: &File, path: &Path, bytes: u64) -> EnvResult<bool> {
    let cut = retry_on_intr(|| ftruncate(file, bytes));
    cut.map_err(|errno| failed(Operation::Write, path)(errno.into()))?;
    Ok(true)
}

/// A log that is written by system calls.
#[derive(Debug)]
struct WrittenLogFile {
    file: File,
    path: PathBuf,
    bytes: AtomicU64,
    synced: OneSync,
}

impl LogFile for WrittenLogFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> EnvResult<()> {
        assert_within_log(offset, bytes, self.bytes());
        write_all_at(&self.file, offset, bytes)
            .map_err(|errno| failed(Operation::Write, &self.path)(errno.into()))
    }

    fn sync(&self) -> EnvResult<()> {
        self.synced.sync(&self.file).map_err(failed(Operation::Sync, &self.path))
    }

    fn sync_range(&self, _offset: u64, _bytes: u64) -> EnvResult<()> {
        self.sync()
    }

    fn begin_write_back(&self, bytes: u64) {
        begin_write_back(&self.file, bytes);
    }

    fn cut(&self, bytes: u64) -> EnvResult<bool> {
        self.bytes.fetch_min(bytes, Ordering::Relaxed);
        cut(&self.file, &self.path, bytes)
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_mapped(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_written_by_system_calls_keeps_the_same_contract() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        write_zeros(&file, 10_000).unwrap();
        let log = over(file, &path, 10_000, false);
        assert!(!log.is_mapped());
        log.write_at(9_997, b"end").unwrap();
        log.sync().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 10_000);
        assert_eq!(&bytes[9_996..], b"\0end");
    }

    #[test]
    #[should_panic(expected = "beyond the end of a log file")]
    fn a_write_beyond_the_mapping_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let log = create(&dir.path().join("log"), 4096).unwrap();
        let _ = log.write_at(4090, b"1234567");
    }
}
