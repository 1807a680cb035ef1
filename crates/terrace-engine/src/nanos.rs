use std::time::Duration;

/// A time in nanoseconds, as counters and atomic words hold it; the greatest number for one of six
/// centuries and more.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
