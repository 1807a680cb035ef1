//! Goal: a run always ends, either well or with a report that explains why not. Method: small
//! programs that lock, wait, panic and outlive each other, each under many seeds.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Env, JobClass, JobHandle, SimEnv, SimOptions};

const SEEDS: u64 = 40;

fn spawn(env: &Arc<SimEnv>, name: &str, job: impl FnOnce() + Send + 'static) -> JobHandle {
    env.spawn(JobClass::Client, name, Box::new(job)).unwrap()
}

/// The message of a run that fails.
fn failure(options: SimOptions, main: impl FnOnce(Arc<SimEnv>) + Send) -> String {
    let seed = options.seed;
    let outcome = catch_unwind(AssertUnwindSafe(|| SimEnv::run(options, main)));
    let payload = outcome.expect_err("the run should have failed");
    let message = payload.downcast_ref::<String>().expect("a failed run says why").clone();
    assert!(message.contains(&format!("seed {seed} ")), "{message}");
    message
}

#[test]
fn virtual_time_moves_only_when_all_wait() {
    for seed in 0..SEEDS {
        SimEnv::run(SimOptions::new(seed), |env| {
            let order = Arc::new(env.waits().mutex(Vec::new()));
            let jobs: Vec<JobHandle> = [30, 10, 20]
                .into_iter()
                .map(|hours| {
                    let (order, own_env) = (Arc::clone(&order), Arc::clone(&env));
                    spawn(&env, "sleeper", move || {
                        own_env.sleep(Duration::from_secs(hours * 3600));
                        order.lock().push((hours, own_env.now()));
                    })
                })
                .collect();
            for _ in 0..100 {
                assert_eq!(env.now(), Duration::ZERO, "seed {seed}: this thread never waited");
            }
            assert!(jobs.into_iter().all(JobHandle::join));
            let at = |hours: u64| (hours, Duration::from_secs(hours * 3600));
            assert_eq!(*order.lock(), [at(10), at(20), at(30)], "seed {seed}");
        });
    }
}

#[test]
fn a_timed_wait_ends_by_whatever_comes_first() {
    for seed in 0..SEEDS {
        SimEnv::run(SimOptions::new(seed), |env| {
            let signal = Arc::new(env.waits().signal());
            let (own_signal, own_env) = (Arc::clone(&signal), Arc::clone(&env));
            let job = spawn(&env, "notifier", move || {
                own_env.sleep(Duration::from_secs(5));
                own_signal.notify();
            });
            let ticket = signal.ticket();
            assert!(!signal.wait_timeout(ticket, Duration::from_secs(2)), "seed {seed}");
            assert_eq!(env.now(), Duration::from_secs(2));
            assert!(signal.wait_timeout(ticket, Duration::from_secs(10)), "seed {seed}");
            assert_eq!(env.now(), Duration::from_secs(5));
            assert!(!signal.wait_timeout(signal.ticket(), Duration::ZERO));
            assert!(job.join());
        });
    }
}

#[test]
fn a_deadlock_is_reported_with_who_waits_for_what() {
    let mut found = 0;
    for seed in 0..SEEDS {
        let run = || {
            SimEnv::run(SimOptions::new(seed), |env| {
                let locks = Arc::new([env.waits().mutex(()), env.waits().mutex(())]);
                let other_locks = Arc::clone(&locks);
                let job = spawn(&env, "other", move || {
                    let _second = other_locks[1].lock();
                    let _first = other_locks[0].lock();
                });
                {
                    let _first = locks[0].lock();
                    let _second = locks[1].lock();
                }
                assert!(job.join());
            });
        };
        if let Err(payload) = catch_unwind(run) {
            let message = payload.downcast_ref::<String>().unwrap();
            for part in [
                &format!("seed {seed} "),
                "deadlock: every thread waits",
                "thread 0 'main' waits for mutex #1 (made at ",
                "holds mutex #0 (made at ",
                "thread 1 'terrace-client-other' waits for mutex #0",
                "scheduler/tests.rs",
            ] {
                assert!(message.contains(part), "{part} is not in: {message}");
            }
            found += 1;
        }
    }
    assert!(found > 0, "no seed of {SEEDS} found the deadlock");
    assert!(found < SEEDS, "no seed of {SEEDS} avoided the deadlock");
}

#[test]
fn sharing_a_hold_twice_is_found_to_deadlock() {
    let mut found = 0;
    for seed in 0..SEEDS {
        let run = || {
            SimEnv::run(SimOptions::new(seed), |env| {
                let hold = Arc::new(env.waits().hold(()));
                let writer_hold = Arc::clone(&hold);
                let job = spawn(&env, "writer", move || drop(writer_hold.exclusive()));
                let _once = hold.shared();
                let _twice = hold.shared();
                drop((_once, _twice));
                assert!(job.join());
            });
        };
        found += u64::from(catch_unwind(run).is_err());
    }
    assert!(found > 0 && found < SEEDS, "{found} of {SEEDS} seeds");
}

#[test]
fn a_wait_that_nobody_ends_is_a_deadlock() {
    let message = failure(SimOptions::new(3), |env| {
        let signal = env.waits().signal();
        signal.wait(signal.ticket());
    });
    assert!(message.contains("'main' waits for signal #0 (made at "), "{message}");
}

#[test]
fn a_panic_ends_the_run_with_its_message() {
    for seed in 0..SEEDS {
        let message = failure(SimOptions::new(seed), |env| {
            let job = spawn(&env, "unlucky", || panic!("out of {}", "luck"));
            let signal = env.waits().signal();
            signal.wait(signal.ticket());
            drop(job);
        });
        let expected = "thread 1 'terrace-client-unlucky' panicked: out of luck";
        assert!(message.contains(expected), "{message}");
    }
}

/// Counts its destructions, each of which calls the environment in every way.
struct Busy {
    env: Arc<SimEnv>,
    destroyed: Arc<AtomicU64>,
    total: Arc<crate::Mutex<u64>>,
    job: Option<JobHandle>,
    signal: Arc<crate::Signal>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        *self.total.lock() += 1;
        self.signal.notify();
        let _ = self.env.fs().create_dir_all(Path::new("/x"));
        let file = self.env.fs().create(Path::new("/x/file"), 0);
        drop(file);
        if let Some(job) = self.job.take() {
            let _ = job.join();
        }
        self.signal.wait_timeout(self.signal.ticket(), Duration::from_secs(1));
        self.env.sleep(Duration::from_secs(1));
        self.destroyed.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn destructors_of_a_failed_run_may_call_the_environment() {
    for seed in 0..SEEDS {
        let destroyed = Arc::new(AtomicU64::new(0));
        let message = failure(SimOptions::new(seed), |env| {
            let total = Arc::new(env.waits().mutex(0));
            let signal = Arc::new(env.waits().signal());
            let busy = |job| Busy {
                env: Arc::clone(&env),
                destroyed: Arc::clone(&destroyed),
                total: Arc::clone(&total),
                job,
                signal: Arc::clone(&signal),
            };
            // The first waits for ever, the second for the first, the third fails.
            let (own, own_signal) = (busy(None), Arc::new(env.waits().signal()));
            let first = spawn(&env, "first", move || {
                let _own = own;
                own_signal.wait(own_signal.ticket());
            });
            let own = busy(Some(first));
            let second = spawn(&env, "second", move || {
                let own = own;
                let guard = own.total.lock();
                own.env.sleep(Duration::from_secs(1));
                drop(guard);
                own.env.sleep(Duration::MAX);
            });
            let _own = busy(Some(second));
            let own = busy(None);
            let third = spawn(&env, "third", move || {
                let _own = own;
                panic!("the third failed");
            });
            assert!(third.join(), "never reached");
        });
        assert!(message.contains("the third failed"), "seed {seed}: {message}");
        assert_eq!(destroyed.load(Ordering::Relaxed), 4, "seed {seed}");
    }
}

#[test]
fn a_destructor_may_wait_for_what_never_comes() {
    /// Waits until a count is reached that nobody reaches.
    struct Patient(Arc<crate::Signal>);
    impl Drop for Patient {
        fn drop(&mut self) {
            for _ in 0..1000 {
                self.0.wait(self.0.ticket());
            }
        }
    }
    let message = failure(SimOptions::new(1), |env| {
        let signal = Arc::new(env.waits().signal());
        let _patient = Patient(Arc::clone(&signal));
        let own_signal = Arc::clone(&signal);
        let job = spawn(&env, "patient", move || {
            let _patient = Patient(Arc::clone(&own_signal));
            panic!("first of all");
        });
        let _ = job.join();
    });
    assert!(message.contains("first of all"), "{message}");
}

#[test]
fn destructors_can_rely_on_each_other() {
    /// Says that it is gone.
    struct Worker(Arc<(crate::Signal, AtomicU64)>);
    impl Drop for Worker {
        fn drop(&mut self) {
            self.0.1.fetch_add(1, Ordering::Relaxed);
            self.0.0.notify();
        }
    }
    /// Waits until the worker is gone, and counts if that was so.
    struct Owner(Arc<(crate::Signal, AtomicU64)>);
    impl Drop for Owner {
        fn drop(&mut self) {
            let (signal, gone) = &*self.0;
            let ticket = signal.ticket();
            if gone.load(Ordering::Relaxed) == 0 {
                signal.wait(ticket);
            }
            gone.fetch_add(10 * gone.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    for seed in 0..SEEDS {
        let seen = Arc::new(AtomicU64::new(0));
        let sink = Arc::clone(&seen);
        let message = failure(SimOptions::new(seed), |env| {
            let state = Arc::new((env.waits().signal(), AtomicU64::new(0)));
            /// Hands on what was counted.
            struct Report(Arc<(crate::Signal, AtomicU64)>, Arc<AtomicU64>);
            impl Drop for Report {
                fn drop(&mut self) {
                    self.1.store(self.0.1.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            let _report = Report(Arc::clone(&state), sink);
            let _owner = Owner(Arc::clone(&state));
            let own_env = Arc::clone(&env);
            drop(spawn(&env, "worker", move || {
                let _worker = Worker(state);
                own_env.sleep(Duration::MAX);
            }));
            env.sleep(Duration::from_secs(1));
            panic!("the cause");
        });
        assert!(message.contains(" at 1s: thread 0 'main' panicked: the cause"), "{message}");
        assert_eq!(seen.load(Ordering::Relaxed), 11, "seed {seed}: the owner waited");
    }
}

#[test]
fn destructors_that_join_each_other_end() {
    /// Joins somebody.
    struct Joiner(Arc<std::sync::Mutex<Option<JobHandle>>>);
    impl Drop for Joiner {
        fn drop(&mut self) {
            let job = self.0.lock().unwrap().take();
            assert!(!job.unwrap().join(), "a run that is torn down joins nobody");
        }
    }
    for seed in 0..SEEDS {
        let message = failure(SimOptions::new(seed), |env| {
            let jobs = [0, 1].map(|_| Arc::new(std::sync::Mutex::new(None)));
            for own in 0..2 {
                let (joiner, own_env) = (Joiner(Arc::clone(&jobs[1 - own])), Arc::clone(&env));
                let job = spawn(&env, "joiner", move || {
                    let _joiner = joiner;
                    own_env.sleep(Duration::MAX);
                });
                *jobs[own].lock().unwrap() = Some(job);
            }
            env.sleep(Duration::from_secs(1));
            panic!("the cause");
        });
        assert!(message.contains("the cause"), "{message}");
    }
}

#[test]
fn the_panic_explains_the_deadlock_that_it_caused() {
    /// Joins a thread that waits for the main one.
    struct Owner(Option<JobHandle>);
    impl Drop for Owner {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().join();
        }
    }
    for seed in 0..SEEDS {
        let message = failure(SimOptions::new(seed), |env| {
            let signal = env.waits().signal();
            let job = spawn(&env, "waiter", move || signal.wait(signal.ticket()));
            let _owner = Owner(Some(job));
            panic!("the cause");
        });
        assert!(message.contains("'main' panicked: the cause"), "{message}");
        assert!(message.contains("deadlock"), "{message}");
    }
}

#[test]
fn threads_that_outlive_the_main_one_are_waited_for() {
    for seed in 0..SEEDS {
        let done = Arc::new(AtomicU64::new(0));
        SimEnv::run(SimOptions::new(seed), |env| {
            let (done, own_env) = (Arc::clone(&done), Arc::clone(&env));
            drop(spawn(&env, "late", move || {
                own_env.sleep(Duration::from_secs(5));
                done.fetch_add(1, Ordering::Relaxed);
            }));
        });
        assert_eq!(done.load(Ordering::Relaxed), 1, "seed {seed}");
    }
}

#[test]
fn a_leaked_thread_is_reported() {
    for seed in 0..SEEDS {
        let message = failure(SimOptions::new(seed), |env| {
            let signal = env.waits().signal();
            drop(spawn(&env, "leaked", move || signal.wait(signal.ticket())));
        });
        assert!(message.contains("the main thread has ended and these wait"), "{message}");
        assert!(message.contains("terrace-client-leaked"), "{message}");

        let message = failure(SimOptions::new(seed), |env| {
            let own_env = Arc::clone(&env);
            let forever = move || {
                loop {
                    own_env.sleep(Duration::from_secs(1));
                }
            };
            drop(spawn(&env, "periodic", forever));
        });
        assert!(message.contains("these still run 60s after the main thread"), "{message}");
        assert!(message.contains("terrace-client-periodic"), "{message}");
    }
}

#[test]
fn a_run_without_end_is_stopped() {
    let options = SimOptions { steps_max: 1000, ..SimOptions::new(5) };
    let message = failure(options, |env| {
        loop {
            env.now();
        }
    });
    assert!(message.contains("no end after 1000 calls"), "{message}");
}

#[test]
fn code_that_catches_the_teardown_is_torn_down_all_the_same() {
    let message = failure(SimOptions::new(5), |env| {
        let own_env = Arc::clone(&env);
        let job = spawn(&env, "stubborn", move || {
            for _ in 0..100 {
                let _ = catch_unwind(AssertUnwindSafe(|| own_env.sleep(Duration::MAX)));
            }
        });
        env.sleep(Duration::from_secs(1));
        drop(job);
        panic!("enough");
    });
    assert!(message.contains("enough"), "{message}");
}

#[test]
fn a_strange_thread_is_refused() {
    SimEnv::run(SimOptions::new(1), |env| {
        let stranger = std::thread::spawn(move || env.now());
        let payload = stranger.join().unwrap_err();
        let message = payload.downcast_ref::<String>().unwrap();
        assert!(message.contains("did not start called its environment"), "{message}");
    });
    let env = SimEnv::run(SimOptions::new(1), |env| env);
    assert_eq!(env.seed(), 1, "what is no call is still answered");
    assert!(catch_unwind(AssertUnwindSafe(|| env.now())).is_err(), "the run is over");
}

/// Counts the end of the thread that it is local to.
struct AtThreadEnd(Arc<AtomicU64>);

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

thread_local! {
    static AT_THREAD_END: RefCell<Option<AtThreadEnd>> = const { RefCell::new(None) };
}

#[test]
fn the_threads_of_a_run_have_ended_after_it() {
    for seed in 0..SEEDS {
        let ended = Arc::new(AtomicU64::new(0));
        let message = failure(SimOptions::new(seed), |env| {
            for _ in 0..5 {
                let (own_env, at_end) = (Arc::clone(&env), AtThreadEnd(Arc::clone(&ended)));
                drop(spawn(&env, "many", move || {
                    AT_THREAD_END.set(Some(at_end));
                    own_env.sleep(Duration::MAX);
                }));
            }
            env.sleep(Duration::from_secs(1));
            panic!("now");
        });
        assert!(message.contains("'main' panicked: now"), "{message}");
        assert_eq!(ended.load(Ordering::Relaxed), 5, "seed {seed}");
    }
}

#[test]
#[cfg(debug_assertions)]
fn a_latch_held_across_a_call_is_noticed() {
    let message = failure(SimOptions::new(1), |env| {
        let latch = crate::Latch::new(());
        let _guard = latch.lock();
        env.now();
    });
    assert!(message.contains("a latch is held across a call"), "{message}");
}

#[test]
fn the_trace_tells_the_story_of_a_failure() {
    let options = SimOptions { with_trace: true, ..SimOptions::new(2) };
    let message = failure(options, |env| {
        env.fs().create_dir_all(Path::new("/dir")).unwrap();
        assert!(!env.trace().is_empty());
        panic!("look above");
    });
    assert!(message.contains("the end of its trace:"), "{message}");
    assert!(message.contains("thread 0 CreateDir /dir at 0+0"), "{message}");
}

#[test]
#[cfg(debug_assertions)]
fn threads_may_change_places_at_latches_if_that_is_wanted() {
    let is_torn = |switch_at_latches: bool, seed: u64| {
        let options = SimOptions { switch_at_latches, switch_one_in: 2, ..SimOptions::new(seed) };
        SimEnv::run(options, |env| {
            // Two numbers, each behind its own latch, that a writer keeps alike.
            let pair = Arc::new((crate::Latch::new(0), crate::Latch::new(0)));
            let own = Arc::clone(&pair);
            let writer = spawn(&env, "writer", move || {
                for round in 1..5 {
                    *own.0.lock() = round;
                    *own.1.lock() = round;
                }
            });
            let mut torn = false;
            for _ in 0..5 {
                env.now();
                torn |= *pair.0.lock() != *pair.1.lock();
            }
            assert!(writer.join());
            torn
        })
    };
    assert!((0..SEEDS).all(|seed| !is_torn(false, seed)), "a call is not a latch");
    assert!((0..SEEDS).any(|seed| is_torn(true, seed)), "no seed found the gap");
}

/// A thread that is held up at a yield point lets others finish whole operations; without the
/// option, and while nobody else could run, it goes on at once.
#[test]
#[cfg(debug_assertions)]
fn others_finish_whole_operations_while_a_thread_is_held_up_at_a_yield_point() {
    let passed = |switch_at_latches: bool, seed: u64| {
        let options = SimOptions { switch_at_latches, ..SimOptions::new(seed) };
        SimEnv::run(options, |env| {
            let rounds = Arc::new(AtomicU64::new(0));
            let (own, clock) = (Arc::clone(&rounds), Arc::clone(&env));
            let other = spawn(&env, "other", move || {
                for _ in 0..100 {
                    clock.now();
                    own.fetch_add(1, Ordering::Relaxed);
                }
            });
            env.now();
            let before = rounds.load(Ordering::Relaxed);
            crate::yield_point();
            let passed = rounds.load(Ordering::Relaxed) - before;
            assert!(other.join());
            crate::yield_point();
            passed
        })
    };
    assert!((0..SEEDS).all(|seed| passed(false, seed) == 0), "nobody wanted it");
    assert!((0..SEEDS).any(|seed| passed(true, seed) >= 50), "no seed held the thread up");
}
