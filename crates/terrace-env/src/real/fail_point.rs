//! Named points at which the process dies, for tests that kill the real thing where it hurts.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// The variable that arms a point: `name:n`.
const VARIABLE: &str = "TERRACE_FAIL_POINT";

/// The armed point, and how often it is still to be passed.
pub(super) struct FailPoint {
    name: String,
    left: AtomicU64,
}

impl FailPoint {
    /// The point that the process was started with, if any.
    pub(super) fn from_environment() -> Option<FailPoint> {
        let armed = std::env::var(VARIABLE).ok()?;
        let (name, count) = armed.rsplit_once(':')?;
        Some(FailPoint { name: name.to_owned(), left: AtomicU64::new(count.parse().ok()?) })
    }

    /// Dies like a process that is killed from outside, if this is the point and its time.
    pub(super) fn reach(&self, point: &str) {
        if point == self.name && self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            // A signal that cannot be sent to oneself leaves nothing else to do.
            let _ = kill_process(getpid(), Signal::KILL);
            std::process::abort();
        }
    }
}
