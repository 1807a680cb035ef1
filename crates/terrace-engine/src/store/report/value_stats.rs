//! What the value log holds, and what was done for it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::events::ValuesRecord;
use crate::explain::text::{bytes, count};
use crate::version::Version;
use crate::vlog::{SpaceBound, ValueHome};

/// What has been done for the value log since the open.
#[derive(Debug, Default)]
pub(super) struct ValueCounters {
    written_bytes: AtomicU64,
    rewritten_bytes: AtomicU64,
    in_place_bytes: AtomicU64,
    removed_count: AtomicU64,
    removed_bytes: AtomicU64,
    asked_ahead: AtomicU64,
}

impl ValueCounters {
    /// A job wrote new values into a file of this many bytes.
    pub fn written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A compaction brought values of so many bytes in place.
    pub fn brought(&self, bytes: u64) {
        self.in_place_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Files went, or were written anew.
    pub fn kept(&self, record: &ValuesRecord) {
        self.rewritten_bytes.fetch_add(record.written_bytes, Ordering::Relaxed);
        self.removed_count.fetch_add(record.removed_count, Ordering::Relaxed);
        self.removed_bytes.fetch_add(record.removed_bytes, Ordering::Relaxed);
    }

    /// A scan asked for so many values before it came to them.
    pub fn asked_ahead(&self, values: u64) {
        self.asked_ahead.fetch_add(values, Ordering::Relaxed);
    }

    /// These, and what a version holds within its bound.
    pub fn stats(&self, version: &Version, bound: &SpaceBound) -> ValueLogStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (liveness, space) = (version.liveness(), version.value_space());
        let files = || version.values().iter().map(|file| file.meta());
        ValueLogStats {
            file_count: files().count() as u64,
            in_log_count: files().filter(|file| file.home == ValueHome::Log).count() as u64,
            segment_count: files().map(|file| file.segments.len() as u64).sum(),
            bytes: files().map(|file| file.bytes).sum(),
            live_bytes: files().map(|file| liveness.live_bytes(file)).sum(),
            hidden_bytes_max: space.hidden_bytes_max,
            dead_bytes_allowed: bound.dead_bytes_allowed(&space),
            written_bytes: read(&self.written_bytes),
            rewritten_bytes: read(&self.rewritten_bytes),
            in_place_bytes: read(&self.in_place_bytes),
            removed_count: read(&self.removed_count),
            removed_bytes: read(&self.removed_bytes),
            asked_ahead: read(&self.asked_ahead),
        }
    }
}

/// What the value log holds, and what was done for it since the open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ValueLogStats {
    /// Value files.
    pub file_count: u64,
    /// Those of them that are segments of the log, where their values were written once.
    pub in_log_count: u64,
    /// Segments in them.
    pub segment_count: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Bytes of values among them that tables name. Of a table of which a part is consumed, all
    /// counts.
    pub live_bytes: u64,
    /// Bytes of these that newer entries may hide, at most: as far as nobody knows before a
    /// compaction.
    pub hidden_bytes_max: u64,
    /// How many bytes may be dead or hidden before writers are slowed down; none without a bound.
    pub dead_bytes_allowed: Option<u64>,
    /// Bytes of files that flushes and compactions wrote new values into.
    pub written_bytes: u64,
    /// Bytes of files that have what lived of others.
    pub rewritten_bytes: u64,
    /// Bytes of medium values that compactions into the last level brought into its tables.
    pub in_place_bytes: u64,
    /// Number of files that went.
    pub removed_count: u64,
    /// Bytes of these.
    pub removed_bytes: u64,
    /// Number of values that scans asked for before they came to them, since they had waited for
    /// others.
    pub asked_ahead: u64,
}

impl ValueLogStats {
    /// Whether there are value files, or were since the open.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.file_count + self.removed_count + self.written_bytes > 0
    }

    /// Bytes of files for each byte that lives in them; 1 if there are none.
    #[must_use]
    pub fn space_amplification(&self) -> f64 {
        if self.bytes == 0 { 1.0 } else { self.bytes as f64 / self.live_bytes.max(1) as f64 }
    }
}

impl fmt::Display for ValueLogStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = count(self.file_count, "file", "files");
        let (all, live) = (bytes(self.bytes), bytes(self.live_bytes));
        write!(f, "{files} of {all}")?;
        if self.in_log_count > 0 {
            write!(f, " ({} as the log wrote them)", self.in_log_count)?;
        }
        write!(f, ", {live} live ({:.2} times)", self.space_amplification())?;
        write!(f, ", at most {} of it hidden", bytes(self.hidden_bytes_max))?;
        let (written, rewritten) = (bytes(self.written_bytes), bytes(self.rewritten_bytes));
        let removed = bytes(self.removed_bytes);
        write!(f, "; {written} written, {rewritten} written anew, {removed} given back")?;
        if self.in_place_bytes > 0 {
            write!(f, ", {} of medium values in tables again", bytes(self.in_place_bytes))?;
        }
        if self.asked_ahead > 0 {
            write!(f, "; scans asked for {} ahead", count(self.asked_ahead, "value", "values"))?;
        }
        Ok(())
    }
}
