//! No store: one file, of which pages are read and written past the system's cache. What a medium
//! itself can do.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use terrace::DiskProfile;
use terrace_bench::{Counters, Store, StoreError};

use super::Peer;

pub const OPTIONS: &str = "pages of 4 KiB and so many of them as a value takes, read and written past the \
     system's cache where the file system allows it; a scan reads neighbours in one call";

/// What a device is asked for at the least, and to which its addresses are aligned.
const PAGE_BYTES: usize = 4096;

/// A file in which the record that comes first lies first. A write of one that is there goes to its
/// place.
pub struct RawFile {
    file: File,
    places: RwLock<HashMap<Vec<u8>, u64>>,
    profile: DiskProfile,
    /// When the emulated device has done what it was given: reads, and writes.
    busy_until: [Mutex<Instant>; 2],
}

/// A buffer of a number of whole pages, and where in it they begin.
fn pages(bytes: usize) -> (Vec<u8>, usize) {
    let buffer = vec![0x5a; bytes + PAGE_BYTES];
    let start = buffer.as_ptr().align_offset(PAGE_BYTES);
    (buffer, start)
}

impl RawFile {
    /// A new file in `dir`, on a device of this profile.
    ///
    /// Errors: it cannot be made.
    pub fn create(dir: &Path, profile: Option<DiskProfile>) -> Result<RawFile, StoreError> {
        let path = dir.join("raw");
        let open = |flags| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).custom_flags(flags).open(&path)
        };
        // A file system in memory may refuse what it has no use for.
        let file = open(libc::O_DIRECT).or_else(|_| open(0))?;
        let now = Instant::now();
        Ok(RawFile {
            file,
            places: RwLock::default(),
            profile: profile.unwrap_or_default(),
            busy_until: [Mutex::new(now), Mutex::new(now)],
        })
    }

    fn place(&self, key: &[u8]) -> Option<u64> {
        self.places.read().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    /// Waits until the emulated device has done `bytes` bytes more.
    fn pass(&self, which: usize, bytes: usize, per_s: Option<u64>) {
        let Some(per_s) = per_s else { return };
        let time = Duration::from_secs_f64(bytes as f64 / per_s as f64);
        let until = {
            let mut busy = self.busy_until[which].lock().unwrap_or_else(PoisonError::into_inner);
            *busy = (*busy).max(Instant::now()) + time;
            *busy
        };
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }

    fn read(&self, place: u64, bytes: usize) -> Result<usize, StoreError> {
        let (mut buffer, start) = pages(bytes);
        let read = self.file.read_at(&mut buffer[start..start + bytes], place)?;
        self.pass(0, read, self.profile.read_bytes_per_s);
        Ok(read)
    }
}

impl Store for RawFile {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        self.place(key).map(|place| self.read(place, PAGE_BYTES)).transpose()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let bytes = value.len().next_multiple_of(PAGE_BYTES);
        let place = self.place(key).unwrap_or_else(|| {
            let mut places = self.places.write().unwrap_or_else(PoisonError::into_inner);
            let next = (places.len() * bytes) as u64;
            *places.entry(key.to_vec()).or_insert(next)
        });
        let (mut buffer, start) = pages(bytes);
        buffer[start..start + value.len()].copy_from_slice(value);
        self.file.write_all_at(&buffer[start..start + bytes], place)?;
        self.pass(1, bytes, self.profile.write_bytes_per_s);
        Ok(())
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        let Some(place) = self.place(start) else { return Ok(0) };
        let bytes = usize::try_from(count)? * PAGE_BYTES;
        Ok((self.read(place, bytes)? / PAGE_BYTES) as u64)
    }

    fn counters(&self) -> Option<Counters> {
        None
    }
}

impl Peer for RawFile {
    fn settle(&self) -> Result<(), StoreError> {
        Ok(self.file.sync_data()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_their_places() {
        let dir = std::env::temp_dir().join(format!("terrace-raw-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = RawFile::create(&dir, None).unwrap();
        for key in ["b", "a", "c", "a"] {
            file.put(key.as_bytes(), &vec![key.as_bytes()[0]; 4096]).unwrap();
        }
        assert_eq!(file.get(b"a").unwrap(), Some(4096));
        assert_eq!(file.get(b"x").unwrap(), None);
        assert_eq!(file.scan(b"b", 2).unwrap(), 2);
        assert_eq!(file.scan(b"a", 9).unwrap(), 2, "two are left");
        let bytes = std::fs::read(dir.join("raw")).unwrap();
        assert_eq!((bytes.len(), bytes[0], bytes[4096]), (3 * 4096, b'b', b'a'));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
