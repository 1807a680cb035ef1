use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::{Errno, retry_on_intr};

use super::files::{OneSync, file_system_of, magic, reserve};
use super::fs::failed;
use super::log_file::write_zeros;
use crate::pmem::{
    Memory, PMEM_PAGE_BYTES, Pmem, PmemMedium, PmemSide, assert_area_bytes, fence_lines,
    is_area_bytes, write_back,
};
use crate::{EnvResult, Latch, Operation};

/// Creates the file of an area, reserved, zeroed and durable but for its name, and maps it.
pub(super) fn create(path: &Path, bytes: u64) -> EnvResult<Pmem> {
    assert_area_bytes(bytes);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(failed(Operation::Create, path))?;
    let prepare = || {
        lock(&file, path)?;
        if !reserve(&file, path, bytes, FallocateFlags::empty())? {
            write_zeros(&file, bytes)
                .map_err(|errno| failed(Operation::Preallocate, path)(errno.into()))?;
        }
        file.sync_all().map_err(failed(Operation::Sync, path))
    };
    let mapped = prepare().and_then(|()| over(file, path, bytes, Operation::Create));
    mapped.inspect_err(|_| {
        // The error that matters is the one at hand; a file that stays is an unknown one.
        let _ = std::fs::remove_file(path);
    })
}

/// Maps the file of an area, all of it.
pub(super) fn open(path: &Path) -> EnvResult<Pmem> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(failed(Operation::Open, path))?;
    lock(&file, path)?;
    let bytes = file.metadata().map_err(failed(Operation::Open, path))?.len();
    if !is_area_bytes(bytes) {
        let error = io::Error::new(io::ErrorKind::InvalidData, "no area has this size");
        return Err(failed(Operation::Open, path)(error));
    }
    // Fills holes that the file may have if it was copied here; does nothing otherwise.
    match retry_on_intr(|| fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes)) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        Err(errno) => return Err(failed(Operation::Preallocate, path)(errno.into())),
    }
    over(file, path, bytes, Operation::Open)
}

/// Takes the file for one mapping, in this process and all others.
fn lock(file: &File, path: &Path) -> EnvResult<()> {
    retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)).map_err(|errno| {
        let error = match errno {
            Errno::WOULDBLOCK => io::Error::new(io::ErrorKind::WouldBlock, "the area is mapped"),
            errno => errno.into(),
        };
        failed(Operation::Lock, path)(error)
    })
}

fn over(file: File, path: &Path, bytes: u64, operation: Operation) -> EnvResult<Pmem> {
    let file_system = file_system_of(&file).map_err(failed(operation, path))?;
    let (memory, is_persistent) = Memory::of_file(file, bytes).map_err(failed(operation, path))?;
    let path = path.to_path_buf();
    let medium = match file_system {
        _ if is_persistent => PmemMedium::Persistent,
        magic::TMPFS | magic::RAMFS => PmemMedium::Emulated,
        _ => {
            let side = FileSide::new(Arc::clone(&memory), path);
            return Ok(Pmem::new(memory, Arc::new(side)));
        }
    };
    // What is touched first by a row must not wait for the kernel to find a page.
    memory.populate();
    Ok(Pmem::new(memory, Arc::new(LineSide { medium, path })))
}

/// Persistent memory, or what is as fast: the processor does everything.
struct LineSide {
    medium: PmemMedium,
    path: PathBuf,
}

impl PmemSide for LineSide {
    fn medium(&self) -> PmemMedium {
        self.medium
    }

    fn flush(&self, _offset: u64, lines: &[u8]) {
        write_back(lines);
    }

    fn fence(&self) -> EnvResult<()> {
        fence_lines();
        Ok(())
    }
}

impl fmt::Debug for LineSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.medium, self.path.display())
    }
}

/// The kernel's pages of an ordinary file.
///
/// Order: `syncing`, then `flushed`. A fence holds `syncing` until its pages are durable. So a
/// thread whose pages another fence took with it returns after that one, and with the same error.
struct FileSide {
    memory: Arc<Memory>,
    path: PathBuf,
    /// The numbers of the pages that were flushed since a fence took them.
    flushed: Latch<BTreeSet<u64>>,
    syncing: Mutex<()>,
    synced: OneSync,
}

impl FileSide {
    fn new(memory: Arc<Memory>, path: PathBuf) -> FileSide {
        FileSide {
            memory,
            path,
            flushed: Latch::default(),
            syncing: Mutex::new(()),
            synced: OneSync::default(),
        }
    }

    /// Syncs these pages, neighbours together.
    fn sync(&self, pages: &BTreeSet<u64>) -> io::Result<()> {
        for (first, count) in runs(pages) {
            // Both lie in the mapping, and so fit.
            let (offset, bytes) = (first * PMEM_PAGE_BYTES, count * PMEM_PAGE_BYTES);
            self.memory.sync(offset as usize, bytes as usize)?;
        }
        Ok(())
    }
}

impl PmemSide for FileSide {
    fn medium(&self) -> PmemMedium {
        PmemMedium::File
    }

    fn flush(&self, offset: u64, lines: &[u8]) {
        let end = (offset + lines.len() as u64).div_ceil(PMEM_PAGE_BYTES);
        self.flushed.lock().extend(offset / PMEM_PAGE_BYTES..end);
    }

    fn fence(&self) -> EnvResult<()> {
        let _syncing = self.syncing.lock();
        let flushed = std::mem::take(&mut *self.flushed.lock());
        self.synced.once(|| self.sync(&flushed)).map_err(failed(Operation::Sync, &self.path))
    }
}

impl fmt::Debug for FileSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.path.display())
    }
}

/// Numbers in order as intervals: the first one of each, and how many.
fn runs(numbers: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_synced_together() {
        let runs = |numbers: &[u64]| runs(&numbers.iter().copied().collect());
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[3, 4, 5, 7, 9, 10]), [(3, 3), (7, 1), (9, 2)]);
    }

    #[test]
    fn a_file_is_mapped_once_and_its_bytes_are_those_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("area");
        let pmem = create(&path, 3 * PMEM_PAGE_BYTES).unwrap();
        let mut span = pmem.claim(PMEM_PAGE_BYTES, PMEM_PAGE_BYTES).unwrap();
        span.store(100, b"stored");
        span.flush(100, 6);
        pmem.fence().unwrap();
        assert_eq!(&std::fs::read(&path).unwrap()[4196..4202], b"stored");
        drop(pmem);
        assert!(open(&path).unwrap_err().is_locked(), "the span keeps the area");
        drop(span);
        let medium = open(&path).unwrap().medium();
        assert_ne!(medium, PmemMedium::Simulated);
    }

    #[test]
    fn in_a_memory_file_system_it_is_emulated() {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
        let pmem = create(&dir.path().join("area"), 64 * PMEM_PAGE_BYTES).unwrap();
        assert_eq!((pmem.medium(), pmem.medium().name()), (PmemMedium::Emulated, "emulated"));
        let mut span = pmem.claim(0, pmem.bytes()).unwrap();
        span.store(63, b"over lines");
        span.flush(63, 10);
        pmem.fence().unwrap();
        assert_eq!(&span[63..73], b"over lines");
    }

    #[test]
    fn a_file_of_another_size_is_no_area() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("area");
        for bytes in [0, 1, 4097] {
            std::fs::write(&path, vec![0; bytes]).unwrap();
            let error = open(&path).unwrap_err();
            assert_eq!(error.source.kind(), io::ErrorKind::InvalidData, "{bytes}");
        }
    }

    #[test]
    fn a_sync_that_failed_is_never_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let pmem = create(&dir.path().join("area"), PMEM_PAGE_BYTES).unwrap();
        let side = FileSide::new(Memory::zeroed(PMEM_PAGE_BYTES), "heap".into());
        side.synced.once(|| Err(Errno::IO.into())).unwrap_err();
        side.flush(0, &[0; 64]);
        for _ in 0..2 {
            let error = side.fence().unwrap_err();
            assert_eq!(error.source.raw_os_error(), Some(Errno::IO.raw_os_error()));
        }
        assert!(pmem.fence().is_ok());
    }
}
