use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    compaction_threads: AtomicUsize,
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
    /// How many threads of the slow lane there should be: those with greater numbers end.
    slow_wanted: usize,
    /// Whether the thread of this number runs, or is about to.
    slow_runs: Vec<bool>,
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
        let threads = Latch::new(Vec::new());
        let pool = JobPool { shared, compaction_threads: AtomicUsize::new(0), threads };
        pool.start_thread(Lane::Log, JobClass::Log, 0)?;
        for index in 0..options.flush_threads.max(1) {
            pool.start_thread(Lane::Flush, JobClass::Flush, index)?;
        }
        pool.set_compaction_threads(options.compaction_threads)?;
        Ok(pool)
    }

    /// Changes the number of threads that compact; 0 is for one for each core, at most 4. Those
    /// that are too many end after the jobs that they have. One caller at a time. Errors: no more
    /// threads are to be had; then there are as many as before.
    pub fn set_compaction_threads(&self, count: usize) -> Result<()> {
        let count = if count == 0 { self.shared.env.parallelism().min(4) } else { count };
        let before = self.compaction_threads();
        let missing = self.want_compaction_threads(count);
        for (started, index) in missing.iter().enumerate() {
            if let Err(error) = self.start_thread(Lane::Slow, JobClass::Compaction, *index) {
                let mut queue = self.shared.queue.lock();
                missing[started..].iter().for_each(|index| queue.slow_runs[*index] = false);
                queue.slow_wanted = before;
                drop(queue);
                self.shared.changed.notify();
                return Err(error);
            }
        }
        self.compaction_threads.store(count, Ordering::Relaxed);
        self.shared.changed.notify();
        Ok(())
    }

    /// From now on there should be `count` threads that compact; the numbers of those that are to
    /// be started for that.
    fn want_compaction_threads(&self, count: usize) -> Vec<usize> {
        let mut queue = self.shared.queue.lock();
        queue.slow_wanted = count;
        let runs_at_most = queue.slow_runs.len().max(count);
        queue.slow_runs.resize(runs_at_most, false);
        let missing: Vec<usize> = (0..count).filter(|index| !queue.slow_runs[*index]).collect();
        missing.iter().for_each(|index| queue.slow_runs[*index] = true);
        missing
    }

    fn start_thread(&self, lane: Lane, class: JobClass, index: usize) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let run = Box::new(move || shared.run_jobs(lane, index));
        let thread = self.shared.env.spawn(class, &index.to_string(), run)?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// How many threads compact.
    #[must_use]
    pub fn compaction_threads(&self) -> usize {
        self.compaction_threads.load(Ordering::Relaxed)
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
    fn run_jobs(&self, lane: Lane, index: usize) {
        loop {
            let ticket = self.changed.ticket();
            let mut wait = None;
            let job = {
                let mut queue = self.queue.lock();
                if queue.is_closing {
                    return;
                }
                if lane == Lane::Slow && index >= queue.slow_wanted {
                    queue.slow_runs[index] = false;
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

#[cfg(test)]
mod tests {
    //! Goal: as many jobs run at once as there should be threads, whatever the number was before.
    //! Method: more jobs than threads, which take virtual time.

    use terrace_env::{SimEnv, SimOptions};

    use super::*;

    /// How many of many jobs run at once, when `count` threads are wanted.
    fn width(env: &SharedEnv, pool: &JobPool, count: usize) -> usize {
        pool.set_compaction_threads(count).expect("there are threads");
        assert_eq!(pool.compaction_threads(), count);
        let second = Duration::from_secs(1);
        let began = env.now();
        let (left, done) = (Arc::new(AtomicUsize::new(12)), Arc::new(env.waits().signal()));
        for _ in 0..12 {
            let (env, left, done) = (Arc::clone(env), Arc::clone(&left), Arc::clone(&done));
            let job = move || {
                env.sleep(second);
                left.fetch_sub(1, Ordering::AcqRel);
                done.notify();
            };
            pool.submit(JobClass::Compaction, Box::new(job));
        }
        loop {
            let ticket = done.ticket();
            if left.load(Ordering::Acquire) == 0 {
                break;
            }
            done.wait(ticket);
        }
        12 / (env.now() - began).as_secs() as usize
    }

    #[test]
    fn the_number_of_threads_changes_while_they_run() {
        for seed in 0..20 {
            println!("seed {seed}");
            SimEnv::run(SimOptions::new(seed), |env| {
                let env: SharedEnv = env;
                let options = ProcessOptions { compaction_threads: 2, ..ProcessOptions::default() };
                let pool = JobPool::start(&env, &options).expect("there are threads");
                for count in [2, 4, 1, 3, 3, 1, 6] {
                    assert_eq!(width(&env, &pool, count), count);
                }
            });
        }
    }
}
