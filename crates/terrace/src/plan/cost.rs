//! What a plan costs. Estimates, each by one formula; pure.

use std::fmt;

use terrace_engine::options::Options as EngineOptions;

use super::{L0Options, PlannedLevel, size};

const MIB: u64 = 1 << 20;

/// About how many bytes of log an open replays in a second; measured at 274 MB in 2.7 s.
const REPLAY_BYTES_PER_S: u64 = 100 * MIB;

/// What a database of these sizes takes, about.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PlannedCost {
    /// Bytes of disk: all levels, L0 if it is there, the log at its longest, and a tenth for what
    /// compactions write before they give the old back.
    pub disk_bytes: u64,
    /// Bytes written to tables for each that is put, if keys are put in random order.
    pub write_amplification: f64,
    /// Files, and so descriptors.
    pub file_count: u64,
    /// The longest log that a start after a crash reads.
    pub replay_bytes: u64,
    /// How long that takes, in seconds.
    pub replay_s: u64,
}

impl PlannedCost {
    pub(super) fn of(
        levels: &[PlannedLevel],
        l0: &L0Options,
        range: &EngineOptions,
    ) -> PlannedCost {
        let in_levels: u64 = levels.iter().map(|level| level.bytes).sum();
        let (l0_bytes, is_on_disk) = match l0 {
            L0Options::Plain { .. } => (range.level_bytes_base, true),
            L0Options::Container { bytes, .. } => (*bytes, false),
        };
        let on_disk = in_levels + if is_on_disk { l0_bytes } else { 0 };
        let replay_bytes = range.log_bytes_max;
        // What comes down into a level meets about half of what lies over it when it is full.
        let mut above = l0_bytes.max(1);
        let mut write_amplification = 1.0;
        for level in levels {
            write_amplification += 1.0 + level.bytes as f64 / above as f64 / 2.0;
            above = level.bytes.max(1);
        }
        PlannedCost {
            disk_bytes: on_disk + on_disk / 10 + replay_bytes,
            write_amplification,
            file_count: on_disk.div_ceil(range.table_bytes.max(1))
                + replay_bytes.div_ceil(range.log_segment_bytes.max(1))
                + 8,
            replay_bytes,
            replay_s: replay_bytes.div_ceil(REPLAY_BYTES_PER_S),
        }
    }

    /// A size that is only about right.
    fn rounded(bytes: u64) -> String {
        size(if bytes > 10 << 30 { bytes >> 30 << 30 } else { (bytes >> 20 << 20).max(MIB) })
    }
}

impl fmt::Display for PlannedCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, what: &str, value: String, why: String| {
            writeln!(f, "  {what:<16} {value:<10} {why}")
        };
        let (log, disk) = (size(self.replay_bytes), Self::rounded(self.disk_bytes));
        let why =
            format!("all levels, up to {log} of log, and a tenth for compactions on their way");
        line(f, "disk", disk, why)?;
        let why = "bytes of tables written for each that is put in random order; the log adds 1";
        line(f, "writing", format!("{:.0} times", self.write_amplification), why.to_owned())?;
        let why = "files, and descriptors if all are read: `ulimit -n` must allow them";
        line(f, "files", self.file_count.to_string(), why.to_owned())?;
        let why = format!("at most for a start after a crash, which reads up to {log} of log");
        line(f, "restart", format!("{} s", self.replay_s), why)
    }
}
