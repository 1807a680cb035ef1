use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use terrace_env::{JobClass, JobHandle, Latch, Mutex, SharedEnv, Signal};

use crate::Result;
use crate::options::ProcessOptions;

/// A piece of background work.
pub type PoolJob = Box<dyn FnOnce() + Send>;

/// The background threads of a process.
///
/// One thread takes log work only, some flushes only, the others everything else: a flush never
/// waits behind a compaction, nor the next log segment, which writers need every moment, behind a
/// flush. Within a kind, jobs run in the order of their due times, then of their submission.
pub struct JobPool {
    shared: Arc<Shared>,
    compaction_threads: usize,
    threads: Latch<Vec<JobHandle>>,
}

struct Shared {
    env: SharedEnv,
    queue: Mutex<Queue>,
    changed: Signal,
}

/// Jobs by (lane, due time, order of submission).
#[derive(Default)]
struct Queue {
    jobs: BTreeMap<(Lane, Duration, u64), PoolJob>,
    submitted: u64,
    is_closing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Log,
    Flush,
    Slow,
}

impl Lane {
    fn of(class: JobClass) -> Lane {
        match class {
            JobClass::Log => Lane::Log,
            JobClass::Flush | JobClass::Client => Lane::Flush,
            JobClass::Compaction | JobClass::Maintenance => Lane::Slow,
        }
    }
}

impl JobPool {
    /// Starts the threads that the options ask for.
    pub fn start(env: &SharedEnv, options: &ProcessOptions) -> Result<JobPool> {
        let shared = Arc::new(Shared {
            env: Arc::clone(env),
            queue: env.waits().mutex(Queue::default()),
            changed: env.waits().signal(),
        });
        let slow = match options.compaction_threads {
            0 => env.parallelism().min(4),
            count => count,
        };
        let pool = JobPool { shared, compaction_threads: slow, threads: Latch::new(Vec::new()) };
        pool.start_thread(Lane::Log, JobClass::Log, 0)?;
        for index in 0..options.flush_threads.max(1) {
            pool.start_thread(Lane::Flush, JobClass::Flush, index)?;
        }
        for index in 0..slow {
            pool.start_thread(Lane::Slow, JobClass::Compaction, index)?;
        }
        Ok(pool)
    }

    fn start_thread(&self, lane: Lane, class: JobClass, index: usize) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let run = Box::new(move || shared.run_jobs(lane));
        let thread = self.shared.env.spawn(class, &index.to_string(), run)?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// How many threads compact.
    #[must_use]
    pub fn compaction_threads(&self) -> usize {
        self.compaction_threads
    }

    /// Runs `job` on one of the threads as soon as one is free. After the pool began to close, the
    /// job is dropped.
    pub fn submit(&self, class: JobClass, job: PoolJob) {
        self.submit_after(class, Duration::ZERO, job);
    }

    /// Runs `job` after at least `delay`.
    pub fn submit_after(&self, class: JobClass, delay: Duration, job: PoolJob) {
        let due = if delay.is_zero() { Duration::ZERO } else { self.shared.env.now() + delay };
        {
            let mut queue = self.shared.queue.lock();
            if queue.is_closing {
                return;
            }
            queue.submitted += 1;
            let order = queue.submitted;
            queue.jobs.insert((Lane::of(class), due, order), job);
        }
        self.shared.changed.notify();
    }
}

impl Shared {
    fn run_jobs(&self, lane: Lane) {
        loop {
            let ticket = self.changed.ticket();
            let mut wait = None;
            let job = {
                let mut queue = self.queue.lock();
                if queue.is_closing {
                    return;
                }
                let first = queue.jobs.range((lane, Duration::ZERO, 0)..).next();
                let due = first.map(|(key, _)| *key).filter(|(of, _, _)| *of == lane);
                match due {
                    Some(key) => {
                        let now = if key.1.is_zero() { key.1 } else { self.env.now() };
                        wait = key.1.checked_sub(now).filter(|left| !left.is_zero());
                        if wait.is_none() { queue.jobs.remove(&key) } else { None }
                    }
                    None => None,
                }
            };
            match (job, wait) {
                (Some(job), _) => job(),
                (None, Some(left)) => {
                    self.changed.wait_timeout(ticket, left);
                }
                (None, None) => self.changed.wait(ticket),
            }
        }
    }
}

impl Drop for JobPool {
    fn drop(&mut self) {
        let dropped = {
            let mut queue = self.shared.queue.lock();
            queue.is_closing = true;
            std::mem::take(&mut queue.jobs)
        };
        drop(dropped);
        self.shared.changed.notify();
        if std::thread::panicking() {
            // Waiting could hang a thread that must end; the others end by themselves.
            return;
        }
        for thread in std::mem::take(self.threads.get_mut()) {
            if !thread.join() {
                crate::program_log::error!("a background thread ended in a panic");
            }
        }
    }
}

impl fmt::Debug for JobPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobPool")
    }
}
