use std::sync::Arc;

use terrace_env::{SimEnv, SimOptions};

use crate::{allocation, notes};

/// Runs `work` in a simulation. What its main thread notes and allocates counts as this thread's.
pub(super) fn simulate<T: Send>(
    options: SimOptions,
    work: impl FnOnce(Arc<SimEnv>) -> T + Send,
) -> T {
    let (result, peak_bytes, noted) = SimEnv::run(options, |env| {
        notes::begin();
        let (result, peak_bytes) = allocation::peak_of(|| work(env));
        (result, peak_bytes, notes::end())
    });
    notes::note_all(noted);
    allocation::add_peak(peak_bytes);
    result
}
