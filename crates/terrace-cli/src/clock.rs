//! The wall clock and the stopwatch of the command line.

#![allow(
    clippy::disallowed_methods,
    reason = "the expiry of `put --ttl`, bars of progress and `stats --watch` are in real time"
)]

use std::time::{Duration, Instant, SystemTime};

use terrace::WallTime;

/// The wall clock, in whole milliseconds.
pub(crate) fn wall_now() -> WallTime {
    millis(SystemTime::now())
}

/// Waits.
pub(crate) fn sleep(pause: Duration) {
    std::thread::sleep(pause);
}

/// Measures how long something takes.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A moment as people read it, to a second.
pub(crate) fn utc(at: SystemTime) -> String {
    millis(at).to_string()
}

fn millis(at: SystemTime) -> WallTime {
    let since_epoch = at.duration_since(SystemTime::UNIX_EPOCH);
    WallTime(since_epoch.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}
