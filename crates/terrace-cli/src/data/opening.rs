//! Shows how far an open has come that reads a long log.

#![allow(clippy::disallowed_types, reason = "a progress bar is not part of any simulation")]

use std::sync::{Arc, OnceLock};

use terrace::events::{Event, EventKind, Listener, OpenStep};

use crate::terminal::Progress;

/// Listens to a database that is being opened.
#[derive(Default)]
pub(crate) struct Opening(OnceLock<Progress>);

impl Opening {
    /// To be given to the options of the open.
    pub(crate) fn watch() -> Arc<Opening> {
        Arc::default()
    }

    /// The open has ended.
    pub(crate) fn finish(&self) {
        if let Some(progress) = self.0.get() {
            progress.finish();
        }
    }
}

impl Listener for Opening {
    fn on(&self, event: &Event) {
        let EventKind::Opening(opening) = &event.kind else { return };
        let progress = self.0.get_or_init(|| Progress::of_bytes(None));
        progress.set_bytes(opening.bytes, step_text(opening.step));
    }
}

/// What the bytes are of which an open has dealt with so many.
fn step_text(step: OpenStep) -> &'static str {
    match step {
        OpenStep::FetchLog => "of the log fetched from the object store",
        OpenStep::FlushLog => "of the log written to tables",
        // The one that every open of a long log has.
        _ => "of the log read",
    }
}
