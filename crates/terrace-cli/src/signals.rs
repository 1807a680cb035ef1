//! Signals: the first Ctrl-C (or SIGTERM) asks a long command to end well, the second ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::{Failure, Outcome};

/// Whether somebody wants the command to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// A flag that is set by Ctrl-C and SIGTERM from now on.
    pub(crate) fn on_signals() -> Outcome<StopFlag> {
        let stop = StopFlag::default();
        let failed = |error| Failure::Failed(format!("signals cannot be caught: {error}"));
        for signal in [SIGINT, SIGTERM] {
            // In this order, so that the first signal only sets the flag.
            flag::register_conditional_default(signal, stop.0.clone()).map_err(failed)?;
            flag::register(signal, stop.0.clone()).map_err(failed)?;
        }
        Ok(stop)
    }

    /// Forgets a signal, so that the next one is the first again.
    pub(crate) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Errors: somebody wants the command to end.
    pub(crate) fn heed(&self) -> Outcome {
        if self.is_set() { Err(Failure::Interrupted("stopped".to_owned())) } else { Ok(()) }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
