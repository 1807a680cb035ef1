//! A limit for the bytes a second that background work writes.
//!
//! # Why
//! A compaction writes as fast as the disk takes it, and so takes the disk from reads, and from
//! other programs. Who would rather have it last longer sets a limit.
//!
//! # How
//! ```text
//!                      │ free_at: what was let through until now is paid then
//!   ──┬────────┬───────┼──────────────► time
//!     a flush  a cut   the next piece goes through here: a flush, if one waits
//! ```
//! Each piece asks before it is written, waits until all before it are paid at the rate, and is to
//! be paid by those after it. Time that nobody used is not saved up, so there are no bursts beyond
//! one piece, which has 128 KiB or is a large value.
//!
//! # Rules
//! 1. Flushes go before compactions.
//! 2. Who writes may be in a hurry: what holds up writers, a caller, or a close does not wait. It
//!    is counted all the same, so that the others make up for it, for up to [`DEBT_MAX`]. So no
//!    wait here can be part of a circle of waits: what somebody else waits for does not wait.
//! 3. No latch is held while a piece waits. Turns may be: who waits for a turn hurries its owner.
//!
//! *Source:* RocksDB's `RateLimiter`, which also counts what is written and lets flushes go first.
//! *Differs:* it never makes an exception, and keeps compactions from starving by chance; here the
//! gate sees to that, which would rather exceed the rate than stop writers.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_env::{Latch, SharedEnv, Signal};

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// Memtables go to tables.
    Flush,
    /// Tables are merged. Copies count as this.
    Compaction,
}

impl IoClass {
    pub(super) const COUNT: usize = 2;
}

/// For how long the others make up, at most, for what did not wait.
const DEBT_MAX: Duration = Duration::from_secs(1);

/// See the module's description. Ranges of a process share one; a copy may have one of its own.
pub struct IoLimit {
    env: SharedEnv,
    /// Bytes a second; 0 is for no limit.
    rate: AtomicU64,
    schedule: Latch<Schedule>,
    /// Notified when a wait may be over sooner than was thought.
    changed: Signal,
}

/// When the next piece may be written.
#[derive(Debug, Default)]
struct Schedule {
    /// Bytes a second; 0 is for no limit.
    rate: u64,
    /// When all that went through is paid.
    free_at: Duration,
    /// How many flushes wait.
    flushes_waiting: usize,
}

impl Schedule {
    /// How long `class` has to wait at least; `None` if it may go through.
    fn wait(&self, now: Duration, class: IoClass) -> Option<Duration> {
        if self.rate == 0 {
            return None;
        }
        let left = self.free_at.saturating_sub(now);
        if !left.is_zero() {
            return Some(left);
        }
        // The flush goes through at this moment, and says so then.
        (class != IoClass::Flush && self.flushes_waiting > 0).then_some(DEBT_MAX)
    }

    /// `bytes` go through at `now`.
    fn let_through(&mut self, now: Duration, bytes: u64) {
        if self.rate > 0 {
            let from = self.free_at.clamp(now, now + DEBT_MAX);
            self.free_at = from + time_of(bytes, self.rate);
        }
    }

    fn set_rate(&mut self, now: Duration, rate: u64) {
        let left = self.free_at.saturating_sub(now).as_nanos();
        // What is left of the bytes to be paid, at the new rate.
        let nanos = if rate == 0 { 0 } else { left * u128::from(self.rate) / u128::from(rate) };
        self.free_at = now + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.rate = rate;
    }
}

/// The time that `bytes` take at `rate` bytes a second.
fn time_of(bytes: u64, rate: u64) -> Duration {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl IoLimit {
    /// A limit of this many bytes a second, or none.
    #[must_use]
    pub fn new(env: &SharedEnv, bytes_per_second: Option<u64>) -> IoLimit {
        let rate = bytes_per_second.unwrap_or(0);
        let schedule = Schedule { rate, ..Schedule::default() };
        IoLimit {
            env: SharedEnv::clone(env),
            rate: AtomicU64::new(rate),
            schedule: Latch::new(schedule),
            changed: env.waits().signal(),
        }
    }

    /// Bytes a second, if there is a limit.
    #[must_use]
    pub fn bytes_per_second(&self) -> Option<u64> {
        // Order: in one order with what says that somebody is in a hurry; see `look_again`.
        Some(self.rate.load(Ordering::SeqCst)).filter(|rate| *rate > 0)
    }

    /// Changes the limit, also for what waits now.
    pub fn set_bytes_per_second(&self, bytes_per_second: Option<u64>) {
        let (now, rate) = (self.env.now(), bytes_per_second.unwrap_or(0));
        {
            let mut schedule = self.schedule.lock();
            schedule.set_rate(now, rate);
            self.rate.store(rate, Ordering::SeqCst);
        }
        self.changed.notify();
    }

    /// Waits until `bytes` may be written, or `is_in_a_hurry`; how long that took. Who makes it be
    /// in a hurry calls [`IoLimit::look_again`].
    pub fn pass(&self, class: IoClass, bytes: u64, is_in_a_hurry: &dyn Fn() -> bool) -> Duration {
        self.pass_looking(class, bytes, is_in_a_hurry, Duration::MAX)
    }

    /// As [`IoLimit::pass`]; also looks every so often, for whom nobody calls
    /// [`IoLimit::look_again`].
    pub fn pass_looking(
        &self,
        class: IoClass,
        bytes: u64,
        is_in_a_hurry: &dyn Fn() -> bool,
        look_every: Duration,
    ) -> Duration {
        if self.bytes_per_second().is_none() {
            return Duration::ZERO;
        }
        let began = self.env.now();
        let (mut now, mut is_waiting) = (began, false);
        loop {
            let ticket = self.changed.ticket();
            let hurries = is_in_a_hurry();
            let wait = {
                let mut schedule = self.schedule.lock();
                let wait = schedule.wait(now, class).filter(|_| !hurries);
                let waits_now = wait.is_some() && class == IoClass::Flush;
                match (is_waiting, waits_now) {
                    (false, true) => schedule.flushes_waiting += 1,
                    (true, false) => schedule.flushes_waiting -= 1,
                    _ => {}
                }
                is_waiting = waits_now;
                if wait.is_none() {
                    schedule.let_through(now, bytes);
                }
                wait
            };
            let Some(wait) = wait else { break };
            self.changed.wait_timeout(ticket, wait.min(look_every));
            now = self.env.now();
        }
        if class == IoClass::Flush && now > began {
            // Compactions have let it go first.
            self.changed.notify();
        }
        now.saturating_sub(began)
    }

    /// Somebody may be in a hurry now, which was said by a store that is `SeqCst`.
    pub fn look_again(&self) {
        // Order: that store, this look; or a rate was set before it, and whoever waits since then
        // looks after that. So one of the two sees the other, and most of the time nobody is woken.
        if self.bytes_per_second().is_some() {
            self.changed.notify();
        }
    }
}

impl fmt::Debug for IoLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoLimit").field("rate", &self.bytes_per_second()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the rate is kept, whoever asks, and nobody waits who must not. Method: virtual time.

    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use terrace_env::{JobClass, JobHandle, SimEnv, SimOptions};

    use super::*;

    const NOBODY: &dyn Fn() -> bool = &|| false;

    fn simulate(seed: u64, test: impl FnOnce(&SharedEnv) + Send) {
        println!("seed {seed}");
        SimEnv::run(SimOptions::new(seed), |env| {
            let env: SharedEnv = env;
            test(&env);
        });
    }

    fn spawn(env: &SharedEnv, job: impl FnOnce() + Send + 'static) -> JobHandle {
        env.spawn(JobClass::Client, "piece", Box::new(job)).expect("a thread")
    }

    #[test]
    fn pieces_go_through_at_the_rate_whoever_writes_them() {
        simulate(1, |env| {
            let limit = Arc::new(IoLimit::new(env, Some(1000)));
            let began = env.now();
            let threads: Vec<_> = (0..4)
                .map(|number| {
                    let limit = Arc::clone(&limit);
                    let class = [IoClass::Flush, IoClass::Compaction][number % 2];
                    spawn(env, move || {
                        for _ in 0..25 {
                            limit.pass(class, 100, NOBODY);
                        }
                    })
                })
                .collect();
            assert!(threads.into_iter().all(JobHandle::join));
            // Of the 10,000 bytes the last 100 are paid by nobody.
            assert_eq!((env.now() - began).as_millis(), 9_900);
        });
    }

    #[test]
    fn a_flush_goes_before_compactions_that_came_first() {
        simulate(2, |env| {
            let limit = Arc::new(IoLimit::new(env, Some(1000)));
            let order = Arc::new(Latch::new(Vec::new()));
            let write = |class, pieces: usize| {
                let (limit, order) = (Arc::clone(&limit), Arc::clone(&order));
                spawn(env, move || {
                    for _ in 0..pieces {
                        limit.pass(class, 1000, NOBODY);
                        order.lock().push(class);
                    }
                })
            };
            let mut threads = vec![write(IoClass::Compaction, 4), write(IoClass::Compaction, 4)];
            env.sleep(Duration::from_millis(500));
            threads.push(write(IoClass::Flush, 3));
            assert!(threads.into_iter().all(JobHandle::join));
            let order = std::mem::take(&mut *order.lock());
            assert_eq!(order[1..4], [IoClass::Flush; 3], "{order:?}");
            assert_eq!(order.len(), 11);
        });
    }

    #[test]
    fn who_is_in_a_hurry_waits_no_longer_and_the_others_make_up_for_it() {
        simulate(3, |env| {
            let limit = Arc::new(IoLimit::new(env, Some(1000)));
            let hurries = Arc::new(AtomicBool::new(false));
            limit.pass(IoClass::Flush, 3_600_000, NOBODY);
            let (waiter, seen) = (Arc::clone(&limit), Arc::clone(&hurries));
            let began = env.now();
            let waiter = spawn(env, move || {
                let waited = waiter.pass(IoClass::Compaction, 500, &|| seen.load(Ordering::SeqCst));
                assert_eq!(waited, Duration::from_secs(5));
            });
            env.sleep(Duration::from_secs(5));
            hurries.store(true, Ordering::SeqCst);
            limit.look_again();
            assert!(waiter.join());
            assert_eq!(env.now() - began, Duration::from_secs(5));
            // An hour is forgotten but for a second; the piece itself is not.
            assert_eq!(limit.pass(IoClass::Compaction, 1, NOBODY), Duration::from_millis(1500));
        });
    }

    #[test]
    fn a_new_rate_holds_for_what_waits() {
        simulate(4, |env| {
            let limit = Arc::new(IoLimit::new(env, Some(1000)));
            limit.pass(IoClass::Flush, 100_000, NOBODY);
            let waiter = Arc::clone(&limit);
            let waiter = spawn(env, move || {
                let waited = waiter.pass(IoClass::Compaction, 1, NOBODY);
                assert_eq!(waited, Duration::from_secs(10 + 9));
            });
            env.sleep(Duration::from_secs(10));
            limit.set_bytes_per_second(Some(10_000));
            assert!(waiter.join());
            limit.set_bytes_per_second(None);
            assert_eq!(limit.pass(IoClass::Compaction, u64::MAX, NOBODY), Duration::ZERO);
        });
    }
}
