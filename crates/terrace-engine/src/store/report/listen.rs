//! Who listens to a range's events: its own figures and its log first, and then the user's
//! listeners.

use std::path::Path;
use std::time::Duration;

use crate::events::{Event, EventKind, Listener};
use crate::store::Inner;
use crate::store::report::meters::Meters;

impl Inner {
    /// Tells everybody who listens that something happened just now. The caller holds no latch.
    pub(in crate::store) fn tell(&self, kind: EventKind) {
        // The range's own listeners ask for the moment of events only that come by `tell_at`.
        let is_asked = !self.options.listeners.is_empty();
        self.tell_at(if is_asked { self.env.now() } else { Duration::ZERO }, kind);
    }

    /// As [`Inner::tell`], by a caller who has looked at the clock.
    pub(in crate::store) fn tell_at(&self, at: Duration, kind: EventKind) {
        let event = Event { at, kind };
        let log = ProgramLog { dir: &self.dir };
        let Meters { counters, compaction_log, troubles, .. } = &self.meters;
        let own: [&dyn Listener; 5] = [counters, &self.gate, compaction_log, troubles, &log];
        for listener in own {
            listener.on(&event);
        }
        self.options.listeners.tell(&event);
    }
}

/// Writes events into the log of the program.
struct ProgramLog<'a> {
    dir: &'a Path,
}

impl Listener for ProgramLog<'_> {
    fn on(&self, event: &Event) {
        let dir = self.dir.display();
        match &event.kind {
            EventKind::Poisoned { reason } => {
                crate::program_log::error!(%dir, reason, "the range takes no more writes");
            }
            EventKind::WorkFailed { work, error, retry_after } => {
                let work = work.name();
                crate::program_log::warn!(%dir, work, error, ?retry_after, "background work failed");
            }
            EventKind::OptionChanged { setting } => {
                crate::program_log::debug!(%dir, %setting, "an option was changed");
            }
            EventKind::StallBegan { cause } => {
                crate::program_log::debug!(%dir, cause = cause.name(), "writers stop");
            }
            EventKind::StallEnded { cause } => {
                crate::program_log::debug!(%dir, cause = cause.name(), "writers go on");
            }
            EventKind::FlushEnded(flush) => crate::program_log::debug!(%dir, ?flush, "flushed"),
            EventKind::CompactionEnded(compaction) => {
                crate::program_log::debug!(%dir, ?compaction, "compacted");
            }
            other => crate::program_log::trace!(%dir, event = ?other, "event"),
        }
    }
}
