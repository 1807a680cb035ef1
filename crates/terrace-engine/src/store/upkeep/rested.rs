//! Rows of L0 go down when nobody writes.
//!
//! A write keeps no time. So whenever no compaction is due and rows are left, a look is put off for
//! a while; if the log ends then where it ended before, nobody has written, and the range rests
//! until it does not end there any more.

use std::sync::Arc;
use std::time::Duration;

use terrace_base::LogPosition;

use crate::compaction::levels::LevelShape;
use crate::compaction::pick::{self, Compaction, Taken};
use crate::store::Inner;
use crate::version::Version;

/// A range rests if it was not written to for this time.
const REST: Duration = Duration::from_secs(2);

/// Whether the range rests.
#[derive(Debug, Default)]
pub struct RestWatch {
    /// Whether somebody will look.
    is_awaited: bool,
    /// Where the log ended when the range was seen to rest: it does for as long as that is so.
    log_end: Option<LogPosition>,
}

impl Inner {
    /// Sees to it that somebody looks in a while whether the range rests, if rows are left.
    pub(super) fn await_rest(self: &Arc<Self>) {
        let is_empty = self.versions.current().l0().live().is_empty();
        let after = self.options.research.rest.unwrap_or(REST);
        if is_empty || after == Duration::MAX || self.is_closing() {
            return;
        }
        let Ok(log) = self.log() else { return };
        let seen = log.end();
        {
            let mut watch = self.jobs.rest.lock();
            if watch.is_awaited || watch.log_end == Some(seen) {
                return;
            }
            watch.is_awaited = true;
        }
        self.look_after(after, move |inner| inner.look_if_rested(seen));
    }

    fn look_if_rested(self: &Arc<Self>, seen: LogPosition) {
        let rests = self.log().is_ok_and(|log| log.end() == seen);
        {
            let mut watch = self.jobs.rest.lock();
            watch.is_awaited = false;
            watch.log_end = rests.then_some(seen);
        }
        match rests {
            true => self.schedule_compaction(),
            false => self.await_rest(),
        }
    }

    /// The cut that is made because the range rests, if it does and one is worth it. One into the
    /// object store is not: it costs more than work.
    pub(super) fn rested(
        &self,
        version: &Version,
        shape: &LevelShape,
        taken: &Taken,
    ) -> Option<Compaction> {
        if self.options.research.l0_cut_all {
            return None;
        }
        let seen = self.jobs.rest.lock().log_end?;
        if self.log().ok()?.end() != seen {
            return None;
        }
        let chosen = pick::of_rested(version, shape, taken)?;
        let is_far = self.context.opener.far.takes(chosen.output_level);
        (!is_far).then_some(chosen)
    }
}
