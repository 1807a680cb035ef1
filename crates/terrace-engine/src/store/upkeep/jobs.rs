//! Background work of one range on the threads of its process.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use terrace_env::{Env, Job, JobClass, Latch, Signal};

use crate::compaction::pick::{self, Served, Taken};
use crate::events::EventKind;
use crate::store::health::Work;
use crate::store::upkeep::filtering::FilterRests;
use crate::store::upkeep::flush::Merging;
use crate::store::upkeep::idle::IdleWatch;
use crate::store::upkeep::near::LocalPeak;
use crate::store::upkeep::next_look::NextLook;
use crate::store::upkeep::rested::RestWatch;
use crate::store::upkeep::scanned::ScanCharges;
use crate::store::{Inner, Store};
use crate::{Error, Result};

/// What the range has under way.
#[derive(Debug)]
pub struct Jobs {
    running: AtomicUsize,
    /// Those of them that run for as long as the range is open.
    standing: AtomicUsize,
    ended: Signal,
    /// Set while a flush is queued and has not begun.
    flush_queued: AtomicBool,
    log_queued: AtomicBool,
    values_queued: AtomicBool,
    feeding_queued: AtomicBool,
    collecting_queued: AtomicBool,
    /// Who looks whether the range is idle.
    pub(super) idle: Latch<IdleWatch>,
    /// Set while memtables are to be flushed for what is dead in them, and that has not begun.
    clear_up_queued: AtomicBool,
    /// Compactions that are queued and have not begun.
    compactions_queued: AtomicUsize,
    /// At which moment, in ms, a compaction is looked for because entries expire.
    expiry_awaited: NextLook,
    /// When somebody will look whether the next moment of a mirror is due, in nanoseconds.
    moment_awaited: NextLook,
    /// What the range took on the local disk lately.
    pub(super) local_peak: Latch<LocalPeak>,
    /// Set when running jobs should end early.
    pub cancel: AtomicBool,
    /// What scans spent on rows.
    pub(super) scan_charges: Latch<ScanCharges>,
    /// Whether the range rests.
    pub(super) rest: Latch<RestWatch>,
    /// What compactions work on.
    pub taken: Latch<Taken>,
    /// About how many bytes those that run write to the local disk.
    local_output_bytes: AtomicU64,
    /// How many of those that run read tables or values, and so hold what is removed meanwhile.
    reading: AtomicUsize,
    /// How long compactions go without the filter, after readers were in its way.
    pub(super) filter_rests: Latch<FilterRests>,
}

/// Work that is done in turns, each a short one.
struct Turns {
    work: Work,
    class: JobClass,
    /// Set while a turn is queued and has not begun.
    queued: fn(&Jobs) -> &AtomicBool,
    /// Takes a turn; whether another one follows at once.
    take: fn(&Inner) -> Result<bool>,
}

const VALUE_TURNS: Turns = Turns {
    work: Work::Values,
    class: JobClass::Compaction,
    queued: |jobs| &jobs.values_queued,
    take: Inner::keep_values,
};

const FEED_TURNS: Turns = Turns {
    work: Work::Feed,
    class: JobClass::Maintenance,
    queued: |jobs| &jobs.feeding_queued,
    take: |inner| {
        let goes_on = inner.keep_feed()?;
        if !goes_on {
            inner.schedule_collecting();
        }
        Ok(goes_on)
    },
};

const COLLECT_TURNS: Turns = Turns {
    work: Work::Collect,
    class: JobClass::Maintenance,
    queued: |jobs| &jobs.collecting_queued,
    take: Inner::collect_some,
};

/// No timer is set for longer.
const DELAY_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A scan that steps over this number of dead entries asks for them to be cleared up: it costs as
/// much as a flush of that many.
const DEAD_STEPS_MAX: u64 = 10_000;

impl Jobs {
    pub fn new(env: &dyn Env) -> Jobs {
        Jobs {
            running: AtomicUsize::new(0),
            standing: AtomicUsize::new(0),
            ended: env.waits().signal(),
            flush_queued: AtomicBool::new(false),
            log_queued: AtomicBool::new(false),
            values_queued: AtomicBool::new(false),
            feeding_queued: AtomicBool::new(false),
            collecting_queued: AtomicBool::new(false),
            idle: Latch::default(),
            clear_up_queued: AtomicBool::new(false),
            compactions_queued: AtomicUsize::new(0),
            expiry_awaited: NextLook::default(),
            moment_awaited: NextLook::default(),
            cancel: AtomicBool::new(false),
            local_output_bytes: AtomicU64::new(0),
            reading: AtomicUsize::new(0),
            local_peak: Latch::default(),
            scan_charges: Latch::default(),
            rest: Latch::default(),
            taken: Latch::default(),
            filter_rests: Latch::default(),
        }
    }

    /// Whether running jobs should end early.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Tells running jobs to end early, and those that own nothing yet not to begin.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::SeqCst);
    }

    /// A job begins that reads tables or values and writes about so many bytes to the local disk,
    /// until what this returns is dropped.
    pub(super) fn writes_locally(&self, bytes: u64) -> LocalOutput<'_> {
        // Order: relaxed; these are figures for the next ruling, and the job rules when it ends.
        self.local_output_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.reading.fetch_add(1, Ordering::Relaxed);
        LocalOutput { jobs: self, bytes }
    }

    /// About how many bytes the jobs that run write to the local disk.
    pub(super) fn local_output_bytes(&self) -> u64 {
        self.local_output_bytes.load(Ordering::Relaxed)
    }

    /// Whether a job runs that may hold what was removed, and lets go of it when it ends.
    pub(super) fn any_reads(&self) -> bool {
        self.reading.load(Ordering::Relaxed) > 0
    }

    /// Blocks until no job of the range is queued or running.
    pub fn wait_ended(&self) {
        // Order: behind the mark that the range closes and behind `cancel`, in one order with
        // whoever counts itself and looks at one of them then.
        self.wait_until(|| self.running.load(Ordering::SeqCst) == 0);
    }

    /// Blocks until no job is queued or running but those that run for as long as the range is
    /// open.
    fn wait_settled(&self) {
        // Order: the standing ones are counted second, so that one that ends between the two loads
        // makes the wait longer, never shorter.
        self.wait_until(|| {
            let running = self.running.load(Ordering::Acquire);
            running <= self.standing.load(Ordering::Acquire)
        });
    }

    fn wait_until(&self, mut is_enough: impl FnMut() -> bool) {
        loop {
            let ticket = self.ended.ticket();
            if is_enough() {
                return;
            }
            self.ended.wait(ticket);
        }
    }
}

/// A job that reads tables or values, and what it writes to the local disk, which counts there
/// until this is dropped.
pub(super) struct LocalOutput<'a> {
    jobs: &'a Jobs,
    bytes: u64,
}

impl Drop for LocalOutput<'_> {
    fn drop(&mut self) {
        self.jobs.local_output_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.jobs.reading.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a job as running until it is dropped, also when the pool drops it unrun.
pub(in crate::store) struct Running {
    jobs: Arc<Jobs>,
    is_standing: bool,
}

impl Running {
    pub(super) fn new(jobs: &Arc<Jobs>, is_standing: bool) -> Running {
        jobs.running.fetch_add(1, Ordering::SeqCst);
        if is_standing {
            jobs.standing.fetch_add(1, Ordering::AcqRel);
        }
        Running { jobs: Arc::clone(jobs), is_standing }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_standing {
            self.jobs.standing.fetch_sub(1, Ordering::AcqRel);
        }
        self.jobs.running.fetch_sub(1, Ordering::AcqRel);
        self.jobs.ended.notify();
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
        if self.log.is_read_only() {
            return;
        }
        if let Ok(running) = self.begin_work() {
            self.process.pool().submit_after(class, delay, self.job_counted_by(running, work));
        }
    }

    /// Begins work that may write files, by a job or by a caller of the range: a close waits until
    /// what this returns is dropped, and only then lets others have the directory.
    ///
    /// Errors: `Closed`.
    pub(in crate::store) fn begin_work(&self) -> Result<Running> {
        // Order: counted first, and looked after that; a close marks the range first and looks at
        // the count after that. So one of the two sees the other.
        let running = Running::new(&self.jobs, false);
        if self.health.is_closing.load(Ordering::SeqCst) { Err(Error::Closed) } else { Ok(running) }
    }

    /// A job that owns the range while it runs, and that a close waits for. It runs until the range
    /// begins to close, so that whoever waits for the background work does not wait for it.
    pub(in crate::store) fn standing_job(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Inner>) + Send + 'static,
    ) -> Job {
        self.job_counted_by(Running::new(&self.jobs, true), work)
    }

    fn job_counted_by(
        self: &Arc<Self>,
        running: Running,
        work: impl FnOnce(&Arc<Inner>) + Send + 'static,
    ) -> Job {
        let inner = Arc::clone(self);
        Box::new(move || {
            work(&inner);
            // Order: the range goes before the job counts as ended, so that the last owner of the
            // range, and with it of the pool, is never a thread of the pool.
            drop(inner);
            drop(running);
        })
    }

    /// Queues `work` that helps the caller, if the range is not closing.
    pub(in crate::store) fn submit_helper(
        &self,
        class: JobClass,
        work: impl FnOnce(&Arc<Inner>) + Send + 'static,
    ) {
        if let Some(me) = self.me() {
            me.submit(class, Duration::ZERO, work);
        }
    }

    fn me(&self) -> Option<Arc<Inner>> {
        self.me.upgrade()
    }

    /// Queues a flush unless one is queued.
    pub(in crate::store) fn schedule_flush(&self) {
        self.schedule_flush_after(Duration::ZERO);
    }

    fn schedule_flush_after(&self, delay: Duration) {
        let Some(me) = self.me() else { return };
        if self.jobs.flush_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let delay = delay.max(self.health.rest(Work::Flush, || self.env.now()));
        me.submit(JobClass::Flush, delay, |inner| {
            inner.jobs.flush_queued.store(false, Ordering::Release);
            let outcome = inner.flush_frozen(Merging::Hot);
            inner.reclaim_for_room();
            if let Some(delay) = inner.retry_after(Work::Flush, outcome) {
                inner.schedule_flush_after(delay);
            }
        });
    }

    /// A scan has stepped over `count` dead entries. What is dead in tables is compacted by itself;
    /// in memtables it would stay until they are full, so they are flushed now if they hold enough
    /// to be worth it.
    pub(in crate::store) fn dead_were_met(&self, count: u64) {
        if count < DEAD_STEPS_MAX {
            return;
        }
        let view = self.view.load();
        let entries: u64 = view.active().map(|memtable| memtable.entry_count()).sum();
        drop(view);
        let Some(me) = self.me().filter(|_| entries >= DEAD_STEPS_MAX) else { return };
        if self.jobs.clear_up_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        me.submit(JobClass::Flush, Duration::ZERO, |inner| {
            inner.jobs.clear_up_queued.store(false, Ordering::Release);
            let outcome = inner.freeze_all().and_then(|()| inner.flush_frozen(Merging::Never));
            if let Some(delay) = inner.retry_after(Work::Flush, outcome) {
                inner.schedule_flush_after(delay);
            }
        });
    }

    /// Queues a compaction if one may be due.
    pub(in crate::store) fn schedule_compaction(&self) {
        self.schedule_compaction_after(Duration::ZERO);
    }

    fn schedule_compaction_after(&self, delay: Duration) {
        let Some(me) = self.me() else { return };
        // A fenced range may miss tables that its successor has deleted, again and again.
        if self.is_poisoned() {
            return;
        }
        let queued = self.jobs.compactions_queued.load(Ordering::Acquire);
        let served = self.served();
        let is_due = {
            let taken = self.jobs.taken.lock();
            // Each of them looks for the next one as it ends, or begins.
            if queued + taken.job_count() >= self.process.pool().compaction_threads() {
                return;
            }
            if !self.keep_line(&taken) {
                return;
            }
            self.due(&self.versions.current(), &taken, served).is_some()
        };
        if !is_due {
            me.await_expiry(served);
            me.await_rest();
            return;
        }
        self.jobs.compactions_queued.fetch_add(1, Ordering::AcqRel);
        let delay = delay.max(self.health.rest(Work::Compaction, || self.env.now()));
        me.submit(JobClass::Compaction, delay, |inner| {
            inner.jobs.compactions_queued.fetch_sub(1, Ordering::AcqRel);
            let outcome = inner.compact_once();
            match inner.retry_after(Work::Compaction, outcome) {
                Some(delay) => inner.schedule_compaction_after(delay),
                None => inner.schedule_compaction(),
            }
        });
    }

    /// Sees to it that a compaction is looked for when all entries of a table have expired,
    /// whatever else happens until then.
    fn await_expiry(self: &Arc<Self>, served: Served) {
        let Some(moment) = pick::next_expiry(&self.versions.current(), served) else { return };
        if self.is_closing() || !self.jobs.expiry_awaited.is_earlier(moment.0) {
            return;
        }
        let delay = Duration::from_millis(moment.0.saturating_sub(served.now.0));
        self.look_after(delay, move |inner| {
            inner.jobs.expiry_awaited.begin(moment.0);
            inner.schedule_compaction();
        });
    }

    /// Sees to it that the feed is looked after when the next moment of a mirror may be due.
    pub(in crate::store) fn await_moment(&self, period: Duration) {
        let due = self.env.now().saturating_add(period).as_nanos();
        let due = u64::try_from(due).unwrap_or(u64::MAX - 1);
        if self.is_closing() || !self.jobs.moment_awaited.is_earlier(due) {
            return;
        }
        self.look_after(period, move |inner| {
            inner.jobs.moment_awaited.begin(due);
            inner.schedule_feeding();
        });
    }

    /// Looks after something later. That is no job under way: nobody waits for it, and it keeps no
    /// range open.
    pub(in crate::store) fn look_after(
        &self,
        delay: Duration,
        look: impl FnOnce(&Arc<Inner>) + Send + 'static,
    ) {
        let (me, jobs) = (Weak::clone(&self.me), Arc::clone(&self.jobs));
        let look = Box::new(move || {
            let running = Running::new(&jobs, false);
            // Order: counted first, so that a close either waits for this job or is seen here. The
            // last owner of the range is never a thread of the pool.
            if !jobs.cancel.load(Ordering::SeqCst)
                && let Some(inner) = me.upgrade()
            {
                look(&inner);
                drop(inner);
            }
            drop(running);
        });
        self.process.pool().submit_after(JobClass::Maintenance, delay.min(DELAY_MAX), look);
    }

    /// Queues the preparation of the next log segment, and a flush if the log has grown too long.
    pub(in crate::store) fn schedule_log_work(&self) {
        self.schedule_log_work_after(Duration::ZERO);
    }

    fn schedule_log_work_after(&self, delay: Duration) {
        let Some(me) = self.me() else { return };
        if self.jobs.log_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let delay = delay.max(self.health.rest(Work::Log, || self.env.now()));
        me.submit(JobClass::Log, delay, |inner| {
            inner.jobs.log_queued.store(false, Ordering::Release);
            let outcome = inner.keep_log();
            // Every write asks for what is not there: a full disk is not to be asked as often.
            if let Some(delay) = inner.retry_after(Work::Log, outcome) {
                inner.schedule_log_work_after(delay);
            }
        });
    }

    /// Queues a look at the value log, if the range has one.
    pub(in crate::store) fn schedule_value_work(&self) {
        if !self.versions.current().values().is_empty() {
            self.schedule_turn(&VALUE_TURNS);
        }
    }

    /// Queues the feeding of the object store, if the range has one.
    pub(in crate::store) fn schedule_feeding(&self) {
        if self.behind().is_some() {
            self.schedule_turn(&FEED_TURNS);
        }
    }

    /// Queues the collection of what lies in the object store, if the range has one.
    pub(in crate::store) fn schedule_collecting(&self) {
        if self.behind().is_some() {
            self.schedule_turn(&COLLECT_TURNS);
        }
    }

    fn schedule_turn(&self, turns: &'static Turns) {
        self.schedule_turn_after(turns, Duration::ZERO);
    }

    fn schedule_turn_after(&self, turns: &'static Turns, delay: Duration) {
        let Some(me) = self.me() else { return };
        if (turns.queued)(&self.jobs).swap(true, Ordering::AcqRel) {
            return;
        }
        let delay = delay.max(self.health.rest(turns.work, || self.env.now()));
        me.submit(turns.class, delay, move |inner| {
            (turns.queued)(&inner.jobs).store(false, Ordering::Release);
            let outcome = (turns.take)(inner);
            let goes_on = matches!(outcome, Ok(true));
            match inner.retry_after(turns.work, outcome.map(drop)) {
                Some(delay) => inner.schedule_turn_after(turns, delay),
                None if goes_on => inner.schedule_turn(turns),
                None => {}
            }
        });
    }

    fn keep_log(&self) -> Result<()> {
        self.bound_log()?;
        if self.awaits_moment() {
            self.schedule_feeding();
        }
        let log = self.log()?;
        let before = log.held_bytes();
        let prepared = log.prepare();
        let held_bytes = log.held_bytes();
        if held_bytes > before {
            self.tell(EventKind::SegmentAdded { held_bytes });
        }
        // The log has grown by a segment.
        self.update_ruling();
        self.watch_idle();
        prepared
    }

    /// What a background outcome means: when to try again, if ever.
    pub(in crate::store) fn retry_after(
        &self,
        work: Work,
        outcome: Result<()>,
    ) -> Option<Duration> {
        match outcome {
            Ok(()) => {
                self.note_problem(work, None);
                None
            }
            Err(Error::Closed) => None,
            Err(Error::Poisoned(reason) | Error::Unknown(reason)) => {
                self.poison(&reason);
                None
            }
            Err(Error::Fenced(reason)) => {
                self.take_fence(&reason);
                None
            }
            Err(error) => {
                let retry_after = self.note_problem(work, Some(&error));
                let error = error.to_string();
                self.tell(EventKind::WorkFailed { work, error, retry_after });
                (!self.is_closing() && !self.is_poisoned()).then_some(retry_after)
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
        self.inner.schedule_value_work();
        self.inner.schedule_feeding();
        self.inner.schedule_collecting();
        self.inner.jobs.wait_settled();
    }
}
