//! The stall ledger: what each delay of a write was for.
//!
//! The sum of the ledger is the delay that clients saw: for each call that writes, its time from
//! the entry to the return without the time in which it worked.
//!
//! # How it is measured
//! A look at the clock costs a fiftieth of a small write, and a look at the processor time of a
//! thread as much as a fifth of it. So
//! * every **wait** that the store knows of is timed, from where it begins: a write that waits for
//!   nothing looks at no clock for it;
//! * what is left, the **waiting for the processor**, shows only as a call that took longer than it
//!   worked. A call is timed as a whole while the gate slows writers down (then a look at the clock
//!   is cheap beside what they wait for), and else one in [`SAMPLE_ONE_IN`], which stands for the
//!   others;
//! * a timed call of [`LARGE_BYTES`] or more asks for the processor time too. A smaller one works
//!   for some microseconds, so whatever of it took longer than [`SMALL_WORK_MAX`] was waiting.
//!
//! A latch is held for less than a microsecond: a thread that finds one taken, and its holder put
//! aside, waits for the processor.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_base::SeqNo;
use terrace_env::Env;

use crate::explain::{WaitCause, waits};
use crate::nanos;
use crate::store::gate::Precedence;

/// What a write waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// The gate: memtables wait to be flushed.
    Memtables,
    /// The gate: L0 has many rows.
    L0,
    /// The gate: levels are larger than they should be.
    Levels,
    /// The gate: too much of the value log may be dead.
    Values,
    /// The gate: the local disk has more of the range than it may, which waits for its way into
    /// the object store.
    LocalDisk,
    /// The gate: the log is longer than it should be.
    LogBytes,
    /// The gate: the process has no more memory for memtables.
    Memory,
    /// Room in the log: a segment that is not prepared.
    LogRoom,
    /// A new memtable for a full one.
    MemtableRoom,
    /// A hold on a drange: a freeze or a conditional write has it.
    Hold,
    /// A place among the writes under way, or the publication of those before.
    Publication,
    /// A sync of the log.
    Sync,
    /// The processor.
    Cpu,
}

impl Cause {
    /// All of them, those of the gate first.
    pub const ALL: [Cause; 13] = [
        Cause::Memtables,
        Cause::L0,
        Cause::Levels,
        Cause::Values,
        Cause::LocalDisk,
        Cause::LogBytes,
        Cause::Memory,
        Cause::LogRoom,
        Cause::MemtableRoom,
        Cause::Hold,
        Cause::Publication,
        Cause::Sync,
        Cause::Cpu,
    ];

    /// What a slow operation is said to have waited for; nothing if that shows only in its time.
    fn seen_as(self) -> Option<WaitCause> {
        Some(match self {
            Cause::Memtables
            | Cause::L0
            | Cause::Levels
            | Cause::Values
            | Cause::LocalDisk
            | Cause::LogBytes
            | Cause::Memory => WaitCause::Gate,
            Cause::LogRoom | Cause::MemtableRoom => WaitCause::Room,
            Cause::Hold => WaitCause::Hold,
            Cause::Publication => WaitCause::Publication,
            Cause::Sync => WaitCause::Sync,
            Cause::Cpu => return None,
        })
    }

    /// Its name in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Memtables => "memtables",
            Cause::L0 => "l0",
            Cause::Levels => "levels",
            Cause::Values => "values",
            Cause::LocalDisk => "local_disk",
            Cause::LogBytes => "log_bytes",
            Cause::Memory => "memory",
            Cause::LogRoom => "log_room",
            Cause::MemtableRoom => "memtable_room",
            Cause::Hold => "hold",
            Cause::Publication => "publication",
            Cause::Sync => "sync",
            Cause::Cpu => "cpu",
        }
    }
}

/// Of this number of calls that nothing slows down one is timed; a power of two.
const SAMPLE_ONE_IN: u64 = 16;

/// From here on a write is large: its work takes longer than it takes to ask for it.
const LARGE_BYTES: usize = 32 << 10;

/// A call that writes less than [`LARGE_BYTES`] never works for longer.
const SMALL_WORK_MAX: Duration = Duration::from_micros(50);

/// Typical time that a small write works.
const SMALL_WORK: Duration = Duration::from_micros(2);

/// Adds up delays by their causes.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: [Entry; Cause::ALL.len()],
    /// Calls that were delayed.
    delayed_calls: AtomicU64,
}

#[derive(Debug, Default)]
struct Entry {
    nanos: AtomicU64,
    count: AtomicU64,
    longest_nanos: AtomicU64,
}

impl Ledger {
    /// Charges a delay that happened `times` times.
    fn charge(&self, cause: Cause, delay: Duration, times: u64) {
        let entry = &self.entries[cause as usize];
        entry.nanos.fetch_add(nanos(delay).saturating_mul(times), Ordering::Relaxed);
        entry.count.fetch_add(times, Ordering::Relaxed);
        entry.longest_nanos.fetch_max(nanos(delay), Ordering::Relaxed);
    }

    /// What writers were delayed by so far.
    #[must_use]
    pub fn stats(&self) -> StallStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let causes = Cause::ALL.map(|cause| {
            let entry = &self.entries[cause as usize];
            let stats = CauseStats {
                delayed_us: read(&entry.nanos) / 1000,
                count: read(&entry.count),
                longest_us: read(&entry.longest_nanos) / 1000,
            };
            (cause, stats)
        });
        StallStats {
            delayed_us: self.entries.iter().map(|entry| read(&entry.nanos)).sum::<u64>() / 1000,
            stall_count: read(&self.delayed_calls),
            causes: causes.iter().map(|(cause, stats)| (cause.name(), *stats)).collect(),
        }
    }
}

/// One call that writes, from its entry to its return, which is when it is dropped.
pub struct WriteTimer<'a> {
    env: &'a dyn Env,
    ledger: &'a Ledger,
    /// If the call is timed as a whole: since when.
    begun: Option<Begun>,
    waited: Duration,
    /// Whether the gate's pace has been paid.
    pub has_paid: bool,
    /// How often room was made for it.
    pub rounds: u32,
    /// If it goes before all others.
    pub precedence: Option<Precedence<'a>>,
}

/// When a timed call began.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Duration,
    /// The thread's processor time, if the call is large.
    worked: Option<Duration>,
    /// How many calls it stands for.
    weight: u64,
}

impl<'a> WriteTimer<'a> {
    /// A call that writes about `bytes` begins. `visible` is the newest number that readers see:
    /// it draws which calls are timed if `is_slowed` does not say that all are.
    #[inline]
    pub fn begin(
        env: &'a dyn Env,
        ledger: &'a Ledger,
        bytes: usize,
        visible: SeqNo,
        is_slowed: bool,
    ) -> WriteTimer<'a> {
        let mut timer = WriteTimer {
            env,
            ledger,
            begun: None,
            waited: Duration::ZERO,
            has_paid: false,
            rounds: 0,
            precedence: None,
        };
        if is_slowed {
            timer.time(bytes, 1);
        } else if is_drawn(visible) {
            timer.time(bytes, SAMPLE_ONE_IN);
        }
        timer
    }

    #[cold]
    fn time(&mut self, bytes: usize, weight: u64) {
        let worked = (bytes >= LARGE_BYTES).then(|| self.env.thread_cpu_time());
        self.begun = Some(Begun { at: self.env.now(), worked, weight });
    }

    /// Runs `wait`, and charges the time that it takes to `cause`.
    pub fn wait<T>(&mut self, cause: Cause, wait: impl FnOnce() -> T) -> T {
        let from = self.env.now();
        let outcome = wait();
        let took = self.env.now().saturating_sub(from);
        if !took.is_zero() {
            self.ledger.charge(cause, took, 1);
            self.waited += took;
        }
        if let Some(cause) = cause.seen_as() {
            waits::waited(cause, from, from + took);
        }
        outcome
    }

    #[cold]
    fn end(&self) {
        let mut was_delayed = !self.waited.is_zero();
        let mut weight = 1;
        if let Some(begun) = self.begun {
            let took = self.env.now().saturating_sub(begun.at);
            let worked =
                begun.worked.map(|before| self.env.thread_cpu_time().saturating_sub(before));
            let rest = took.saturating_sub(self.waited);
            let delay = waited_for_cpu(rest, worked);
            if !delay.is_zero() {
                weight = if was_delayed { 1 } else { begun.weight };
                was_delayed = true;
                self.ledger.charge(Cause::Cpu, delay, begun.weight);
            }
        }
        if was_delayed {
            self.ledger.delayed_calls.fetch_add(weight, Ordering::Relaxed);
        }
    }
}

impl Drop for WriteTimer<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.begun.is_some() || !self.waited.is_zero() {
            self.end();
        }
    }
}

/// Whether the call that begins when this number is the newest one is timed. Numbers come in steps
/// of a batch, so they are mixed first.
#[inline]
fn is_drawn(visible: SeqNo) -> bool {
    let mixed = visible.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    mixed & (SAMPLE_ONE_IN - 1) == 0
}

/// How much of the time in which a call waited for nothing that the store knows of it waited for
/// the processor.
fn waited_for_cpu(rest: Duration, worked: Option<Duration>) -> Duration {
    match worked {
        // A thread's processor time is brought up to date in steps; a few microseconds are nothing.
        Some(worked) => Some(rest.saturating_sub(worked)).filter(|delay| *delay > SMALL_WORK),
        None => (rest > SMALL_WORK_MAX).then(|| rest - SMALL_WORK),
    }
    .unwrap_or_default()
}

/// What writes were delayed by since the range was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StallStats {
    /// All delays together, in microseconds.
    pub delayed_us: u64,
    /// How many writes were delayed.
    pub stall_count: u64,
    /// The delays by their causes' names: every cause is there.
    pub causes: BTreeMap<&'static str, CauseStats>,
}

/// The delays of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CauseStats {
    /// All of them, in microseconds.
    pub delayed_us: u64,
    /// How many there were; a write may wait more than once.
    pub count: u64,
    /// The longest one, in microseconds.
    pub longest_us: u64,
}

impl fmt::Display for StallStats {
    /// Two lines and more: the sum, and each cause that there was.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| us as f64 / 1000.0;
        writeln!(
            f,
            "  stalls         {} writes, {:.1} ms in all",
            self.stall_count,
            ms(self.delayed_us)
        )?;
        for cause in Cause::ALL {
            let name = cause.name();
            let Some(stats) = self.causes.get(name).filter(|stats| stats.count > 0) else {
                continue;
            };
            writeln!(
                f,
                "    {name:<14} {:10.1} ms, {} times, longest {:.1} ms",
                ms(stats.delayed_us),
                stats.count,
                ms(stats.longest_us)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_env::{SimEnv, SimOptions};

    #[test]
    fn names_are_unique_and_stand_in_their_order() {
        let stats = Ledger::default().stats();
        assert_eq!(stats.causes.len(), Cause::ALL.len());
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, index);
        }
    }

    #[test]
    fn what_a_call_waits_for_is_charged_and_the_rest_is_the_processor() {
        SimEnv::run(SimOptions::new(1), |env| {
            let ledger = Ledger::default();
            let ms = Duration::from_millis;
            let mut timer = WriteTimer::begin(env.as_ref(), &ledger, 100, SeqNo(1), true);
            timer.wait(Cause::Sync, || env.sleep(ms(3)));
            timer.wait(Cause::Hold, || ());
            env.sleep(ms(2));
            drop(timer);
            let stats = ledger.stats();
            assert_eq!((stats.delayed_us, stats.stall_count), (4_998, 1));
            let sync = CauseStats { delayed_us: 3000, count: 1, longest_us: 3000 };
            assert_eq!(stats.causes["sync"], sync);
            assert_eq!(stats.causes["hold"], CauseStats::default(), "that took no time");
            assert_eq!(stats.causes["cpu"].delayed_us, 1_998, "the work of a small write apart");
            let text = stats.to_string();
            assert!(text.contains("sync") && !text.contains("hold"), "{text}");
        });
    }

    #[test]
    fn calls_that_nothing_slows_down_are_drawn_whatever_the_size_of_their_batches() {
        for step in [1, 2, 16, 100, 128, 1024] {
            let drawn = (0..4096u64).filter(|call| is_drawn(SeqNo(call * step))).count();
            assert!((200..=312).contains(&drawn), "{drawn} of 4096 in steps of {step}");
        }
    }

    #[test]
    fn a_large_call_is_delayed_by_what_it_did_not_work() {
        let us = Duration::from_micros;
        assert_eq!(waited_for_cpu(us(900), Some(us(880))), us(20));
        assert_eq!(waited_for_cpu(us(900), Some(us(899))), us(0));
        assert_eq!(waited_for_cpu(us(40), None), us(0));
        assert_eq!(waited_for_cpu(us(402), None), us(400));
    }
}
