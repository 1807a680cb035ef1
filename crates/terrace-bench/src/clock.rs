//! Time, and what the operating system says of this process: the only contact of this crate with
//! either.

#![allow(
    clippy::disallowed_methods,
    reason = "what is measured is real time, and the machine is described by its files"
)]

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment of the benchmark's clock, which only goes forward.
#[derive(Clone, Copy, Debug)]
pub struct Moment(Instant);

impl Moment {
    /// This moment.
    #[must_use]
    pub fn now() -> Moment {
        Moment(Instant::now())
    }

    /// The moment `later` after this one.
    #[must_use]
    pub fn after(self, later: Duration) -> Moment {
        Moment(self.0 + later)
    }

    /// The time from `earlier` to this moment.
    #[must_use]
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

/// The processor time that this process has used so far, in user and kernel, by all threads.
#[must_use]
pub fn cpu_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

/// The processor time that this thread has used so far.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// The memory of this process that no file stands behind and that is not swapped out, in bytes;
/// `None` where the system does not tell.
#[must_use]
pub fn anonymous_memory_bytes() -> Option<u64> {
    parse_kib(&std::fs::read_to_string("/proc/self/status").ok()?, "RssAnon:")
}

/// The most memory that this process has held so far, in bytes; `None` where the system does not
/// tell.
#[must_use]
pub fn memory_peak_bytes() -> Option<u64> {
    parse_kib(&std::fs::read_to_string("/proc/self/status").ok()?, "VmHWM:")
}

fn parse_kib(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status_text() {
        let text = "VmPeak:\t  9 kB\nVmHWM:\t     12 kB\nVmRSS: 3 kB\nRssAnon:\t 2 kB\n";
        assert_eq!(parse_kib(text, "VmHWM:"), Some(12_288));
        assert_eq!(parse_kib(text, "RssAnon:"), Some(2048));
        assert_eq!(parse_kib("VmRSS: 3 kB\n", "VmHWM:"), None);
    }

    #[test]
    fn the_system_keeps_accounts() {
        assert!(anonymous_memory_bytes() <= memory_peak_bytes());
        assert!(thread_cpu_time() <= cpu_time() + Duration::from_secs(1));
        assert!(memory_peak_bytes().is_none_or(|bytes| bytes > 100_000));
        assert!(cpu_time() <= Duration::from_secs(3600));
    }
}
