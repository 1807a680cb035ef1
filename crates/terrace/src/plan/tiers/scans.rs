//! What scans ask the object store for, level by level. Pure.
//!
//! ```text
//!   begins     of each far level, what scans of usual length go through, as far as it is not near:
//!              one request each, all at once
//!   goes on    what a longer scan reads behind that: 64 KiB, 128 KiB, … one after the other
//! ```
//! Scans have any length up to twice their mean. So the length that three in four do not exceed is
//! one and a half times it, and an eighth more is asked for (`store/read/scan_length.rs` in the
//! engine).

use terrace_engine::placement::{FIRST_BYTES, PIECE_BYTES};

/// What is asked for at once, as a multiple of the mean.
const ASKED: f64 = 1.5 * 9.0 / 8.0;

/// What a scan asks for of one level, on average.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScanOfLevel {
    /// Requests where it begins.
    pub first: f64,
    /// Requests as it goes on.
    pub beyond: f64,
    /// Bytes of all of them.
    pub bytes: f64,
}

impl ScanOfLevel {
    /// A scan goes through `bytes` of the level on average, and this share of blocks is not near.
    pub fn of(bytes: f64, block_bytes: f64, missing: f64) -> ScanOfLevel {
        let missing = missing.clamp(0.0, 1.0);
        let longest = 2.0 * bytes.max(1.0);
        let asked = (ASKED * bytes.max(1.0)).min(PIECE_BYTES as f64);
        // The last key of a walk is seen by a look at the next one.
        let read = block_bytes + asked;
        let (requests, more) = beyond(asked, longest);
        let Asks { all, beyond: some } = Asks::of(missing);
        ScanOfLevel {
            first: all + some,
            beyond: requests * missing,
            bytes: read * (all + some * BEYOND_READS) + more * missing,
        }
    }
}

/// Which scans ask the store where they begin: those that find nothing of their stretch near, and
/// those that find its beginning.
///
/// Blocks that were scanned together came together and go together. So a stretch is near as far as
/// the longest scan of it went, if one was lately. Of one that was scanned once before, a scan of
/// any length finds three quarters of what it reads; and it asks for the rest if the first half of
/// what it would ask for is not all there.
struct Asks {
    all: f64,
    beyond: f64,
}

/// Of a stretch that was scanned once, what is missing of what another scan reads.
const ONCE_MISSING: f64 = 0.25;

/// How often such a scan asks: where the earlier one ended in the first half of what is asked for,
/// and had any length up to twice the mean.
const ONCE_ASKS: f64 = ASKED / 2.0 / 2.0;

/// What is asked for then, as a share of the whole: the earlier one covers a quarter on average.
const BEYOND_READS: f64 = 0.75;

impl Asks {
    fn of(missing: f64) -> Asks {
        if missing < ONCE_MISSING {
            // Most have been scanned more often.
            return Asks { all: 0.0, beyond: missing / ONCE_MISSING * ONCE_ASKS };
        }
        let all = (missing - ONCE_MISSING) / (1.0 - ONCE_MISSING);
        Asks { all, beyond: (1.0 - all) * ONCE_ASKS }
    }
}

/// How many requests scans of any length up to `longest` make behind the first `asked` bytes, and
/// how many bytes those bring.
fn beyond(asked: f64, longest: f64) -> (f64, f64) {
    let goes_beyond = |at: f64| (1.0 - at / longest).max(0.0);
    let (mut requests, mut read, mut at) = (0.0, 0.0, asked);
    // Scans that are known to be long go on with pieces of one size.
    let mut piece = if asked >= PIECE_BYTES as f64 { PIECE_BYTES } else { FIRST_BYTES } as f64;
    while at < longest && piece < PIECE_BYTES as f64 {
        requests += goes_beyond(at);
        read += goes_beyond(at) * piece;
        at += piece;
        piece *= 2.0;
    }
    if at < longest {
        let more = (longest - at) * (longest - at) / (2.0 * longest * piece);
        requests += more + goes_beyond(at) / 2.0;
        read += (more + goes_beyond(at) / 2.0) * piece;
    }
    (requests, read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_scans_ask_once_for_a_level_of_which_nothing_is_near() {
        for kib in [0.0, 4.0, 50.0, 200.0] {
            let scan = ScanOfLevel::of(kib * 1024.0, 4096.0, 1.0);
            assert!((scan.first - 1.0).abs() < 1e-9 && scan.beyond < 0.2, "{kib}: {scan:?}");
            let asked = 4096.0 + ASKED * kib * 1024.0;
            assert!(scan.bytes >= asked && scan.bytes < asked * 1.3 + 2e4, "{kib}: {scan:?}");
        }
        let long = ScanOfLevel::of(1e9, 4096.0, 1.0);
        assert!((long.bytes / 1e9 - 1.0).abs() < 0.01, "{long:?}");
        assert!((long.beyond / 953.0 - 1.0).abs() < 0.05, "{long:?}");
    }

    #[test]
    fn what_is_near_is_not_asked_for() {
        let near = ScanOfLevel::of(50e3, 4096.0, 0.0);
        assert!(near.first == 0.0 && near.beyond == 0.0 && near.bytes == 0.0, "{near:?}");
        let mut before = ScanOfLevel::default();
        for percent in 1..=100 {
            let scan = ScanOfLevel::of(50e3, 4096.0, f64::from(percent) / 100.0);
            assert!(
                scan.first >= before.first && scan.bytes >= before.bytes,
                "{percent}: {scan:?}"
            );
            before = scan;
        }
    }
}
