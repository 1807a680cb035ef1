//! What is kept for the next writes is given back when none come.
//!
//! A write keeps no time. So whenever the log has grown by a segment, a job is put off for a while;
//! if the log ends where it ended then, nobody has written, and what waits to be used goes. If it
//! does not, the job is put off again.

use std::sync::Arc;
use std::time::Duration;

use terrace_base::LogPosition;
use terrace_env::JobClass;

use crate::store::Inner;
use crate::store::health::Work;
use crate::store::upkeep::jobs::Running;
use crate::{Error, Result};

/// A range is idle if it was not written to for this time.
pub(in crate::store) const IDLE: Duration = Duration::from_secs(10);

/// Whether a job is set that will look, and whether it still may be.
#[derive(Debug, Default)]
pub struct IdleWatch {
    is_set: bool,
    is_closed: bool,
}

impl Inner {
    /// Puts off a job that looks in a while whether the range is idle.
    ///
    /// The job does not count as under way until it begins, or a close would wait for it.
    pub(super) fn watch_idle(&self) {
        let Ok(log) = self.log() else { return };
        let seen = log.end();
        {
            let mut watch = self.jobs.idle.lock();
            if watch.is_set || watch.is_closed {
                return;
            }
            watch.is_set = true;
        }
        let (jobs, range) = (Arc::clone(&self.jobs), self.me.clone());
        let job = move || {
            // Order: it counts before it looks for the range, and a close forbids that before it
            // waits for what counts. So the range's last owner is never a thread of the pool.
            let running = {
                let mut watch = jobs.idle.lock();
                watch.is_set = false;
                if watch.is_closed {
                    return;
                }
                Running::new(&jobs, false)
            };
            if let Some(inner) = range.upgrade() {
                inner.look_if_idle(seen);
            }
            drop(running);
        };
        self.process.pool().submit_after(JobClass::Log, IDLE, Box::new(job));
    }

    /// Nobody looks from now on.
    pub(in crate::store) fn end_idle_watch(&self) {
        self.jobs.idle.lock().is_closed = true;
    }

    fn look_if_idle(&self, seen: LogPosition) {
        if self.is_closing() || self.is_poisoned() {
            return;
        }
        if self.log().is_ok_and(|log| log.end() != seen) {
            self.watch_idle();
            return;
        }
        self.spares.give_back();
        let rested = self.rest_log();
        self.retry_after(Work::Log, rested);
    }

    fn rest_log(&self) -> Result<()> {
        match self.log()?.rest() {
            // What was not given back is there for the next write.
            Ok(()) | Err(Error::NoSpace(_)) => Ok(()),
            Err(error) => {
                self.poison(&format!("syncing the log failed: {error}"));
                Err(self.poisoned())
            }
        }
    }
}
