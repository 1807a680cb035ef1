//! What an engine takes of the machine while it works: memory, disk, and what goes to the device.
//!
//! ```text
//! memory   /proc/self/status    RssAnon │ RssFile + RssShmem  the most at any look
//! disk     blocks of all files below the directory            the most at any look, and at the end
//! device   /sys/dev/block/…/stat, sectors written             after less before
//! ```
//! The device's figure counts everything that any process writes to it, the journal of the file
//! system included; it says something on a machine that does nothing else.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

/// How often the watch looks.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// Number of looks from one count of the files to the next, since a count costs more.
const LOOKS_PER_COUNT: u32 = 8;
/// The unit of the device's counters, whatever its blocks are.
const SECTOR_BYTES: u64 = 512;

/// The most that was held at any look, and what went to the device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Footprint {
    anonymous_bytes: u64,
    mapped_bytes: u64,
    disk_bytes: u64,
    device_bytes: Option<u64>,
}

impl Footprint {
    /// Its figures by the names that they have in reports.
    pub fn fields(&self) -> [(&'static str, Value); 4] {
        [
            ("memory_anonymous_peak_bytes", json!(self.anonymous_bytes)),
            ("memory_mapped_peak_bytes", json!(self.mapped_bytes)),
            ("disk_peak_bytes", json!(self.disk_bytes)),
            ("device_bytes", json!(self.device_bytes)),
        ]
    }

    fn look(&mut self) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| field_bytes(&status, name).unwrap_or(0);
        self.anonymous_bytes = self.anonymous_bytes.max(field("RssAnon:"));
        self.mapped_bytes = self.mapped_bytes.max(field("RssFile:") + field("RssShmem:"));
    }

    fn count(&mut self, dir: &Path) {
        // Files may go while they are counted; the next look counts again.
        self.disk_bytes = self.disk_bytes.max(bytes_below(dir).unwrap_or(0));
    }
}

/// Runs `work`, and watches what the process takes meanwhile, and how large `dir` becomes.
pub fn watch<T>(dir: &Path, work: impl FnOnce() -> T) -> (T, Footprint) {
    let device = device_of(dir);
    let before = device.as_deref().and_then(written_bytes);
    let is_done = AtomicBool::new(false);
    let (outcome, mut footprint) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut footprint = Footprint::default();
            for look in 0_u32.. {
                footprint.look();
                if look % LOOKS_PER_COUNT == 0 {
                    footprint.count(dir);
                }
                if is_done.load(Ordering::Acquire) {
                    break;
                }
                std::thread::park_timeout(LOOK_EVERY);
            }
            footprint.count(dir);
            footprint
        });
        let outcome = work();
        is_done.store(true, Ordering::Release);
        watcher.thread().unpark();
        (outcome, watcher.join().unwrap_or_default())
    });
    let after = device.as_deref().and_then(written_bytes);
    footprint.device_bytes = after.zip(before).map(|(after, before)| after.saturating_sub(before));
    (outcome, footprint)
}

/// The bytes of a line such as `RssAnon:      1234 kB`.
fn field_bytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// The counters of the device that `dir` lies on, if it lies on one.
fn device_of(dir: &Path) -> Option<PathBuf> {
    let device = std::fs::metadata(dir).ok()?.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    let path = PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"));
    path.exists().then_some(path)
}

/// All that was ever written to it: the seventh of its counters.
fn written_bytes(counters: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(counters).ok()?;
    let sectors: u64 = text.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * SECTOR_BYTES)
}

/// The bytes that files below `dir` occupy. Blocks count and not lengths, since files have holes.
pub fn bytes_below(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // Files may be deleted while they are counted.
        let Ok(metadata) = entry.metadata() else { continue };
        let own = metadata.blocks() * SECTOR_BYTES;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { own };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_status_is_read_in_bytes() {
        let status = "Name:\tx\nRssAnon:\t     120 kB\nRssFile:\t  4 kB\n";
        assert_eq!(field_bytes(status, "RssAnon:"), Some(120 << 10));
        assert_eq!(field_bytes(status, "RssShmem:"), None);
    }

    #[test]
    fn what_is_taken_for_a_moment_is_seen() {
        let dir = std::env::temp_dir().join(format!("terrace-footprint-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let ((), footprint) = watch(&dir, || {
            std::fs::write(dir.join("file"), vec![1; 100_000]).unwrap();
        });
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(footprint.disk_bytes >= 100_000, "{footprint:?}");
        assert!(footprint.anonymous_bytes > 0 && footprint.mapped_bytes > 0, "{footprint:?}");
    }
}
