//! What an archive keeps in the object store beside what is there anyway. Pure.
//!
//! ```text
//!   now ◄────────────── back ──────────────►
//!   │ log │ log │ log │ log │ log │ log │ log │    all of it
//!   ▪           ▪           ▪           ▪         bases: what was live then, as far as it is not
//!                                                 live now
//! ```
//! A base keeps the files that it names. So of a level there are at most as many copies as bases,
//! and no more bytes than were written to it in that time.

use std::time::Duration;

use terrace_engine::store::{ARCHIVE_BASES, ARCHIVE_LOG_BYTES_PER_BASE};

/// What is kept, and what that takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kept {
    /// Bytes of the log.
    pub log_bytes: f64,
    /// Bytes of files that nothing else needs any more.
    pub file_bytes: f64,
    /// Bases that are made a second.
    pub bases_per_s: f64,
}

/// What an archive that reaches so far `back` keeps of a database whose log gets `log_bytes_per_s`.
/// `written` are, for L0 and each level, the bytes that are written to it a second, and those that
/// it has.
pub(super) fn kept(
    back: Duration,
    log_bytes_per_s: f64,
    written: impl Iterator<Item = (f64, f64)>,
) -> Kept {
    let back_s = back.as_secs_f64();
    if log_bytes_per_s <= 0.0 || back_s <= 0.0 {
        return Kept { log_bytes: 0.0, file_bytes: 0.0, bases_per_s: 0.0 };
    }
    let by_log = ARCHIVE_LOG_BYTES_PER_BASE as f64 / log_bytes_per_s;
    let between_s = by_log.min(back_s / f64::from(ARCHIVE_BASES));
    // The oldest is the newest one that is as old as the archive reaches back.
    let bases = back_s / between_s + 1.0;
    let file_bytes = written.map(|(per_s, bytes)| (per_s * back_s).min(bases * bytes)).sum();
    Kept { log_bytes: log_bytes_per_s * back_s, file_bytes, bases_per_s: 1.0 / between_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const MB: f64 = 1e6;

    #[test]
    fn slow_writes_have_a_base_each_eighth_of_the_time() {
        let kept = kept(DAY, 100.0, [(100.0, MB), (300.0, 100.0 * MB)].into_iter());
        assert!((kept.log_bytes - 8.64 * MB).abs() < 1.0, "{kept:?}");
        assert!((kept.bases_per_s - 8.0 / 86_400.0).abs() < 1e-9, "{kept:?}");
        // Of the upper one all that was written, of the deeper one too, which is far larger.
        assert!((kept.file_bytes - (8.64 * MB + 25.92 * MB)).abs() < 1.0, "{kept:?}");
    }

    #[test]
    fn fast_writes_have_one_for_each_half_gigabyte_of_log() {
        let per_s = 10.0 * MB;
        let kept = kept(DAY, per_s, [(per_s, 64.0 * MB), (3.0 * per_s, 1e12)].into_iter());
        let bases = DAY.as_secs_f64() * per_s / ARCHIVE_LOG_BYTES_PER_BASE as f64 + 1.0;
        let files = bases * 64.0 * MB + 3.0 * per_s * DAY.as_secs_f64();
        assert!((kept.file_bytes / files - 1.0).abs() < 1e-9, "{kept:?}");
        assert!(bases > 1000.0);
    }

    #[test]
    fn nothing_written_keeps_nothing() {
        let kept = kept(DAY, 0.0, [(0.0, MB)].into_iter());
        assert_eq!((kept.log_bytes, kept.file_bytes, kept.bases_per_s), (0.0, 0.0, 0.0));
    }
}
