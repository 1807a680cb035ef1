//! The wall clock and the stopwatch of the command line.

#![allow(
    clippy::disallowed_methods,
    reason = "the expiry of `put --ttl`, bars of progress and `stats --watch` are in real time"
)]

use std::time::{Duration, Instant, SystemTime};

use terrace::WallTime;

/// The wall clock, in whole milliseconds.
pub(crate) fn wall_now() -> WallTime {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    WallTime(since_epoch.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
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
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day of a day since 1970, in the Gregorian calendar: years are counted from March
/// on, so that the day that is inserted comes last. *Source:* Hinnant, "chrono-compatible low-level
/// date algorithms".
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_as_calendars_have_them() {
        let shown = |seconds| utc(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(shown(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(shown(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(shown(1_795_536_000 - 1), "2026-11-24 15:59:59 UTC");
        assert_eq!(shown(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }
}
