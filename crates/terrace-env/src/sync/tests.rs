//! Goal: no order of events loses a wake-up or lets two threads in. Method: small protocols that
//! would hang or miscount, under hundreds of seeds in the simulation (where a hang is a reported
//! deadlock) and many rounds on real threads. The first test shows that the method finds a mistake.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{
    Env, Hold, JobClass, JobHandle, Mutex, RealEnv, SharedEnv, Signal, SimEnv, SimOptions,
};

const SEEDS: u64 = 400;

fn spawn(env: &SharedEnv, name: &str, job: impl FnOnce() + Send + 'static) -> JobHandle {
    env.spawn(JobClass::Client, name, Box::new(job)).unwrap()
}

/// Runs `check` under every seed; a failing run names its seed. With frequent changes of thread,
/// because the protocols are short.
fn on_every_seed(check: fn(&SharedEnv)) {
    for seed in 0..SEEDS {
        let options = SimOptions { switch_one_in: 1 + (seed % 4) as u32, ..SimOptions::new(seed) };
        SimEnv::run(options, |env| check(&(env as SharedEnv)));
    }
}

#[test]
fn a_ticket_that_is_taken_too_late_is_found_out() {
    let mut hung = 0;
    for seed in 0..50 {
        let run = || {
            SimEnv::run(SimOptions::new(seed), |env| {
                let env: SharedEnv = env;
                let state = Arc::new((env.waits().signal(), AtomicU64::new(0)));
                let own = Arc::clone(&state);
                let job = spawn(&env, "notifier", move || {
                    own.1.store(1, Ordering::Release);
                    own.0.notify();
                });
                // The mistake: the condition may come true, and the signal pass, in between.
                if state.1.load(Ordering::Acquire) == 0 {
                    let ticket = state.0.ticket();
                    state.0.wait(ticket);
                }
                assert!(job.join());
            });
        };
        hung += u64::from(catch_unwind(run).is_err());
    }
    assert!(hung > 0, "the method finds nothing");
}

/// A queue of at most one element, by a mutex and two signals.
struct Slot {
    element: Mutex<Option<u64>>,
    filled: Signal,
    emptied: Signal,
}

impl Slot {
    fn new(env: &SharedEnv) -> Arc<Slot> {
        let waits = env.waits();
        let (filled, emptied) = (waits.signal(), waits.signal());
        Arc::new(Slot { element: waits.mutex(None), filled, emptied })
    }

    fn put(&self, element: u64) {
        loop {
            let ticket = self.emptied.ticket();
            {
                let mut slot = self.element.lock();
                if slot.is_none() {
                    *slot = Some(element);
                    break;
                }
            }
            self.emptied.wait(ticket);
        }
        self.filled.notify();
    }

    fn take(&self) -> u64 {
        let element = loop {
            let ticket = self.filled.ticket();
            if let Some(element) = self.element.lock().take() {
                break element;
            }
            self.filled.wait(ticket);
        };
        self.emptied.notify();
        element
    }
}

fn everything_put_is_taken(env: &SharedEnv, threads: u64, elements: u64) {
    let slot = Slot::new(env);
    let sum = Arc::new(AtomicU64::new(0));
    let mut jobs = Vec::new();
    for _ in 0..threads {
        let own = Arc::clone(&slot);
        jobs.push(spawn(env, "putter", move || {
            (1..=elements).for_each(|element| own.put(element))
        }));
        let (own, sum) = (Arc::clone(&slot), Arc::clone(&sum));
        jobs.push(spawn(env, "taker", move || {
            for _ in 0..elements {
                sum.fetch_add(own.take(), Ordering::Relaxed);
            }
        }));
    }
    assert!(jobs.into_iter().all(JobHandle::join));
    assert_eq!(sum.load(Ordering::Relaxed), threads * elements * (elements + 1) / 2);
}

#[test]
fn no_simulated_wake_up_is_lost() {
    on_every_seed(|env| everything_put_is_taken(env, 2, 4));
}

#[test]
fn no_real_wake_up_is_lost() {
    let env: SharedEnv = RealEnv::new();
    everything_put_is_taken(&env, 2, 3_000);
    everything_put_is_taken(&env, 1, 10_000);
}

fn timed_waits_end(env: &SharedEnv) {
    let state = Arc::new((env.waits().signal(), AtomicU64::new(0)));
    let waiters: Vec<_> = (1..=3)
        .map(|waiter| {
            let own = Arc::clone(&state);
            spawn(env, "waiter", move || {
                loop {
                    let ticket = own.0.ticket();
                    if own.1.load(Ordering::Acquire) >= waiter {
                        break;
                    }
                    own.0.wait_timeout(ticket, Duration::from_millis(waiter));
                }
            })
        })
        .collect();
    for _ in 1..=3 {
        env.sleep(Duration::from_millis(2));
        state.1.fetch_add(1, Ordering::Release);
        state.0.notify();
    }
    assert!(waiters.into_iter().all(JobHandle::join));
}

#[test]
fn timed_waits_end_by_time_or_signal() {
    on_every_seed(timed_waits_end);
    timed_waits_end(&(RealEnv::new() as SharedEnv));
}

/// What threads do inside a lock that lets in one writer or many readers.
#[derive(Default)]
struct Inside {
    readers: AtomicU64,
    writers: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Inside {
    fn read(&self, env: &SharedEnv) {
        self.readers.fetch_add(1, Ordering::SeqCst);
        env.now();
        assert_eq!(self.writers.load(Ordering::SeqCst), 0, "a reader beside a writer");
        self.readers.fetch_sub(1, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
    }

    fn write(&self, env: &SharedEnv) {
        assert_eq!(self.writers.fetch_add(1, Ordering::SeqCst), 0, "two writers");
        env.now();
        assert_eq!(self.readers.load(Ordering::SeqCst), 0, "a writer beside a reader");
        self.writers.fetch_sub(1, Ordering::SeqCst);
        self.writes.fetch_add(1, Ordering::SeqCst);
    }
}

fn holds_exclude(env: &SharedEnv, rounds: u64) {
    let hold: Arc<Hold<Inside>> = Arc::new(env.waits().hold(Inside::default()));
    let jobs: Vec<_> = (0..4)
        .map(|job| {
            let (hold, env_of_job) = (Arc::clone(&hold), Arc::clone(env));
            spawn(env, "visitor", move || {
                for round in 0..rounds {
                    match (job + round) % 4 {
                        0 | 1 => hold.shared().read(&env_of_job),
                        2 => hold.exclusive().write(&env_of_job),
                        _ => match hold.try_exclusive() {
                            Some(inside) => inside.write(&env_of_job),
                            None => hold.shared().read(&env_of_job),
                        },
                    }
                }
            })
        })
        .collect();
    assert!(jobs.into_iter().all(JobHandle::join));
    let inside = hold.exclusive();
    let visits = inside.reads.load(Ordering::SeqCst) + inside.writes.load(Ordering::SeqCst);
    assert_eq!(visits, 4 * rounds);
}

#[test]
fn a_hold_lets_in_one_writer_or_many_readers() {
    on_every_seed(|env| holds_exclude(env, 4));
    holds_exclude(&(RealEnv::new() as SharedEnv), 2_000);
}

#[test]
fn readers_share_a_simulated_hold() {
    let mut together = 0;
    for seed in 0..20 {
        together += SimEnv::run(SimOptions::new(seed), |env| {
            let env: SharedEnv = env;
            let hold = Arc::new(env.waits().hold(AtomicU64::new(0)));
            let most = Arc::new(AtomicU64::new(0));
            let jobs: Vec<_> = (0..3)
                .map(|_| {
                    let (hold, most, env_of_job) =
                        (Arc::clone(&hold), Arc::clone(&most), Arc::clone(&env));
                    spawn(&env, "reader", move || {
                        let readers = hold.shared();
                        let now = readers.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        env_of_job.sleep(Duration::from_secs(1));
                        readers.fetch_sub(1, Ordering::SeqCst);
                    })
                })
                .collect();
            assert!(jobs.into_iter().all(JobHandle::join));
            u64::from(most.load(Ordering::SeqCst) == 3)
        });
    }
    assert_eq!(together, 20);
}

#[test]
fn a_mutex_is_free_again_after_a_panic() {
    let mutex = Arc::new(RealEnv::new().waits().mutex(7));
    let own = Arc::clone(&mutex);
    let panicked = std::thread::spawn(move || {
        let _guard = own.lock();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(panicked.join().is_err());
    assert_eq!(*mutex.lock(), 7);
}

#[test]
fn locks_show_what_they_guard() {
    let env = RealEnv::new();
    let waits = env.waits();
    assert_eq!(format!("{waits:?}"), "WaitFactory(real)");
    let mutex = waits.mutex(1);
    let hold = waits.hold(2);
    assert!(format!("{mutex:?} {hold:?}").contains("data: 1"));
    assert_eq!(
        format!("{:?} {:?} {:?}", mutex.lock(), hold.shared(), hold.try_shared()),
        "1 2 Some(2)"
    );
    let signal = waits.signal();
    signal.notify();
    assert_eq!(format!("{signal:?}"), "Signal { notifications: 1, waiters: 0 }");
}
