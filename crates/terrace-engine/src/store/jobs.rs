//! Background work of one range on the threads of its process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use terrace_base::FileId;
use terrace_env::{Env, Job, JobClass, Latch, Signal};

use super::{Inner, Store};
use crate::compaction::pick;
use crate::{Error, Result};

/// After a background failure that may pass, the work is tried again after this long.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// What the range has under way.
#[derive(Debug)]
pub struct Jobs {
    running: AtomicUsize,
    ended: Signal,
    /// Set while a flush is queued and has not begun.
    flush_queued: AtomicBool,
    log_queued: AtomicBool,
    /// Compactions that are queued and have not begun.
    compactions_queued: AtomicUsize,
    /// Set when running jobs should end early.
    pub cancel: AtomicBool,
    /// Tables that compactions work on.
    pub busy: Latch<BTreeSet<FileId>>,
}

/// Queued compactions of one range beyond this many would find nothing to do.
const COMPACTIONS_QUEUED_MAX: usize = 2;

impl Jobs {
    pub fn new(env: &dyn Env) -> Jobs {
        Jobs {
            running: AtomicUsize::new(0),
            ended: env.waits().signal(),
            flush_queued: AtomicBool::new(false),
            log_queued: AtomicBool::new(false),
            compactions_queued: AtomicUsize::new(0),
            cancel: AtomicBool::new(false),
            busy: Latch::default(),
        }
    }

    /// Blocks until no job of the range is queued or running.
    pub fn wait_ended(&self) {
        loop {
            let ticket = self.ended.ticket();
            if self.running.load(Ordering::Acquire) == 0 {
                return;
            }
            self.ended.wait(ticket);
        }
    }
}

/// Counts a job as running until it is dropped, also when the pool drops it unrun.
struct Running(Arc<Jobs>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::AcqRel);
        self.0.ended.notify();
    }
}

impl Inner {
    /// Queues `work` on the pool. A range that is only read has no such work.
    fn submit(
        self: &Arc<Self>,
        class: JobClass,
        delay: Duration,
        work: impl FnOnce(&Arc<Inner>) + Send + 'static,
    ) {
        if !self.is_closing() && self.log.is_some() {
            self.process.pool().submit_after(class, delay, self.job(work));
        }
    }

    /// A job that owns the range while it runs, and that a close waits for.
    pub(super) fn job(self: &Arc<Self>, work: impl FnOnce(&Arc<Inner>) + Send + 'static) -> Job {
        self.jobs.running.fetch_add(1, Ordering::AcqRel);
        let running = Running(Arc::clone(&self.jobs));
        let inner = Arc::clone(self);
        Box::new(move || {
            work(&inner);
            // Order: the range goes before the job counts as ended, so that the last owner of the
            // range, and with it of the pool, is never a thread of the pool.
            drop(inner);
            drop(running);
        })
    }

    fn me(&self) -> Option<Arc<Inner>> {
        self.me.upgrade()
    }

    /// Queues a flush unless one is queued.
    pub(super) fn schedule_flush(&self) {
        self.schedule_flush_after(Duration::ZERO);
    }

    fn schedule_flush_after(&self, delay: Duration) {
        let Some(me) = self.me() else { return };
        if self.jobs.flush_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        me.submit(JobClass::Flush, delay, |inner| {
            inner.jobs.flush_queued.store(false, Ordering::Release);
            let outcome = inner.flush_frozen();
            if let Some(delay) = inner.judge("flush", outcome) {
                inner.schedule_flush_after(delay);
            }
        });
    }

    /// Queues a compaction if one may be due.
    pub(super) fn schedule_compaction(&self) {
        self.schedule_compaction_after(Duration::ZERO);
    }

    fn schedule_compaction_after(&self, delay: Duration) {
        let Some(me) = self.me() else { return };
        let is_due = {
            let busy = self.jobs.busy.lock();
            pick::pick(&self.versions.current(), &self.shape, &busy).is_some()
        };
        if !is_due {
            return;
        }
        if self.jobs.compactions_queued.fetch_add(1, Ordering::AcqRel) >= COMPACTIONS_QUEUED_MAX {
            self.jobs.compactions_queued.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        me.submit(JobClass::Compaction, delay, |inner| {
            inner.jobs.compactions_queued.fetch_sub(1, Ordering::AcqRel);
            let outcome = inner.compact_once();
            match inner.judge("compaction", outcome) {
                Some(delay) => inner.schedule_compaction_after(delay),
                None => inner.schedule_compaction(),
            }
        });
    }

    /// Queues the preparation of the next log segment, and a flush if the log has grown too long.
    pub(super) fn schedule_log_work(&self) {
        self.schedule_log_work_after(Duration::ZERO);
    }

    fn schedule_log_work_after(&self, delay: Duration) {
        let Some(me) = self.me() else { return };
        if self.jobs.log_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        me.submit(JobClass::Log, delay, |inner| {
            inner.jobs.log_queued.store(false, Ordering::Release);
            let outcome = inner.keep_log();
            // Every write asks for what is not there: a full disk is not to be asked as often.
            if let Some(delay) = inner.judge("log work", outcome) {
                inner.schedule_log_work_after(delay);
            }
        });
    }

    fn keep_log(&self) -> Result<()> {
        self.bound_log()?;
        self.log()?.prepare()
    }

    /// What a background outcome means: when to try again, if ever.
    fn judge(&self, what: &str, outcome: Result<()>) -> Option<Duration> {
        match outcome {
            Ok(()) => {
                self.note_problem(None);
                None
            }
            Err(Error::Closed) => None,
            Err(Error::Poisoned(reason) | Error::Unknown(reason)) => {
                self.poison(&reason);
                None
            }
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), what, %error, "background work failed");
                self.note_problem(Some(&error));
                (!self.is_closing()).then_some(RETRY_AFTER)
            }
        }
    }
}

impl Store {
    /// Waits until nothing is queued or running in the background of this range: for tests and
    /// tools that want a settled tree.
    pub fn settle(&self) {
        self.inner.schedule_flush();
        self.inner.schedule_compaction();
        self.inner.jobs.wait_ended();
    }
}
