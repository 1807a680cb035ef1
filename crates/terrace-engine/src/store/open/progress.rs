//! How far an open has come with the log, told to the user's listeners while it is long.

use terrace_env::SharedEnv;

use crate::events::{Event, EventKind, Listeners, OpenProgress, OpenStep};

/// How many bytes pass between two events: as many as take some tens of milliseconds.
const TELL_EVERY_BYTES: u64 = if cfg!(test) { 1 << 10 } else { 8 << 20 };

/// Counts the bytes of one step.
pub(in crate::store) struct LogMeter<'a> {
    env: &'a SharedEnv,
    listeners: &'a Listeners,
    step: OpenStep,
    bytes: u64,
    tell_at: u64,
}

impl<'a> LogMeter<'a> {
    /// Nothing has passed.
    pub fn new(env: &'a SharedEnv, listeners: &'a Listeners, step: OpenStep) -> LogMeter<'a> {
        LogMeter { env, listeners, step, bytes: 0, tell_at: TELL_EVERY_BYTES }
    }

    /// So many bytes more have passed.
    pub fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if self.bytes >= self.tell_at {
            self.tell_at = self.bytes + TELL_EVERY_BYTES;
            let kind = EventKind::Opening(OpenProgress { step: self.step, bytes: self.bytes });
            self.listeners.tell(&Event { at: self.env.now(), kind });
        }
    }
}
