//! The admission gate: the one place where writers are made to wait for the tree to keep up.
//!
//! # Why
//! Background work that is slower than the writers must slow them down in the end. Done late, by a
//! stop, it shows as a second in which nothing happens; done early and a little at a time, as a
//! delay that nobody notices.
//!
//! # How
//! 1. Whatever changes the debt (a freeze, a flush, an installation, a new log segment) asks
//!    [`policy::rule`] what that means for writers, and leaves the ruling in one word.
//! 2. A writer reads the word. While it is zero, that is all there is.
//! 3. Else it pays: it takes its piece of the clock that paced writers share ([`pacer::Pacer`]) and
//!    sleeps until its piece is over, for at most `write_delay_max`.
//! 4. If a debt is full, it stops before that until the debt is not. That is the last line: the
//!    price that comes before it is meant to keep writers away from it.
//! 5. A write from which others keep taking the room that is made for it goes before them
//!    ([`precedence`]).
//!
//! # Invariants
//! 1. The word is never older than the last change of the view: every change rules anew, one at a
//!    time, each on the view as it is then.
//! 2. A write pays once, however often it has to begin again.
//! 3. Whoever stops is woken by the work that ends the stop, which rules before it notifies.

mod drain;
pub(super) mod ledger;
mod pacer;
mod policy;
mod precedence;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_env::Latch;

use crate::compaction::levels::{LevelShape, LevelTargets};
use crate::events::{Event, EventKind, Listener};
use crate::options::Options;
use crate::process::PoolName;
use crate::store::Inner;
use crate::store::gate::ledger::{Cause, WriteTimer};
use crate::store::health::{Problem, Work};
use crate::store::view::View;
use crate::{Error, Result};

use drain::Drain;
use pacer::{Pacer, Price};
pub(super) use policy::LocalSpace;
use policy::{Debt, DrainRates, Limits, Ruling};
pub(super) use precedence::Precedence;
use precedence::Precedent;

/// Assumed speed of flushes until one is measured: 100 MiB/s.
const FLUSH_NANOS_PER_KIB: u64 = 9_766;
/// Assumed speed of cuts out of L0 until one is measured: 50 MiB/s.
const L0_NANOS_PER_KIB: u64 = 19_531;
/// Assumed speed at which the value log gives space back until one is measured: 50 MiB/s.
const VALUES_NANOS_PER_KIB: u64 = 19_531;

/// See the module's description.
#[derive(Debug)]
pub struct Gate {
    /// The ruling as a word; zero asks for nothing.
    pressure: AtomicU64,
    /// One ruling at a time, and the write that has precedence. Order: taken before the log's
    /// latches.
    ruler: Latch<Precedent>,
    limits: Limits,
    pacer: Pacer,
    delay_max: Duration,
    /// How fast memtables are flushed.
    flushes: Drain,
    /// How fast rows leave L0.
    cuts: Drain,
    /// How fast the value log gives space back.
    values: Drain,
}

impl Gate {
    /// The gate of a range with these options.
    pub fn new(options: &Options, shape: &LevelShape) -> Gate {
        Gate {
            pressure: AtomicU64::new(0),
            ruler: Latch::new(Precedent::default()),
            limits: Limits::of(options, shape),
            pacer: Pacer::default(),
            delay_max: options.write_delay_max,
            flushes: Drain::new(FLUSH_NANOS_PER_KIB),
            cuts: Drain::new(L0_NANOS_PER_KIB),
            values: Drain::new(VALUES_NANOS_PER_KIB),
        }
    }

    /// Whether writers are slowed down or stopped.
    #[inline]
    pub fn is_under_pressure(&self) -> bool {
        // Order: relaxed. Whoever has to see a ruling takes a ticket of the signal first, which the
        // notification after the ruling orders; to anybody else the next one is as good.
        self.pressure.load(Ordering::Relaxed) != 0
    }

    fn ruling(&self) -> Ruling {
        unpack(self.pressure.load(Ordering::Relaxed))
    }

    /// Background work that ended at `ended` and `took` this long paid off `bytes`.
    fn note(drain: &Drain, ended: Duration, took: Duration, bytes: u64) {
        drain.note(ended.saturating_sub(took), ended, bytes);
    }
}

impl Listener for Gate {
    /// Measures how fast memtables are flushed, rows leave L0, and value files give space back.
    fn on(&self, event: &Event) {
        match &event.kind {
            EventKind::FlushEnded(flush) => {
                Gate::note(&self.flushes, event.at, flush.took, flush.memtable_bytes);
            }
            EventKind::L0Drained { bytes, took } => {
                Gate::note(&self.cuts, event.at, *took, *bytes);
            }
            EventKind::ValuesKept(kept) => {
                let bytes = kept.removed_bytes.saturating_sub(kept.written_bytes);
                Gate::note(&self.values, event.at, kept.took, bytes);
            }
            _ => {}
        }
    }
}

/// A ruling in a word: `precedence (1 bit) │ stop (7 bits) │ cause of the pace (8 bits) │
/// nanoseconds per KiB (48 bits)`. Causes count from 1. The first bit is not part of the ruling;
/// see [`precedence`].
fn pack(ruling: Ruling) -> u64 {
    let number = |cause: Cause| cause as u64 + 1;
    let stop = ruling.stop.map_or(0, number);
    let (cause, price) = ruling.pace.map_or((0, 0), |(cause, price)| (number(cause), price));
    stop << 56 | cause << 48 | price.min((1 << 48) - 1)
}

fn unpack(word: u64) -> Ruling {
    let cause = |number: u64| Cause::ALL.get((number as usize).wrapping_sub(1)).copied();
    let pace = cause(word >> 48 & 0xff).map(|cause| (cause, word & ((1 << 48) - 1)));
    Ruling { stop: cause(word >> 56 & 0x7f), pace }
}

impl Inner {
    /// A call that writes about `bytes` begins.
    #[inline]
    pub(in crate::store) fn begin_timer(&self, bytes: usize) -> WriteTimer<'_> {
        let is_slowed = self.gate.is_under_pressure();
        let visible = self.sequencer.visible();
        WriteTimer::begin(self.env.as_ref(), &self.meters.ledger, bytes, visible, is_slowed)
    }

    /// Lets a write that needs `bytes` in memtables in, now or after a delay.
    ///
    /// Errors: `Poisoned`, `Closed`; `NoSpace` if the write would wait for work that a full disk
    /// holds up; `WouldBlock` if it would wait and may not.
    #[inline]
    pub(in crate::store) fn gate_pass(
        &self,
        timer: &mut WriteTimer<'_>,
        bytes: usize,
        wait: bool,
    ) -> Result<()> {
        self.check_healthy()?;
        if !self.gate.is_under_pressure() {
            return Ok(());
        }
        self.gate_pass_slowly(timer, bytes, wait)
    }

    #[cold]
    fn gate_pass_slowly(&self, timer: &mut WriteTimer<'_>, bytes: usize, wait: bool) -> Result<()> {
        loop {
            let ticket = self.changed.ticket();
            let Some(cause) = self.gate.ruling().stop else {
                if self.wait_for_precedence(timer, ticket, wait)? {
                    continue;
                }
                break;
            };
            if !wait {
                return Err(Error::WouldBlock);
            }
            self.check_healthy()?;
            if let Some(problem) = self.health.problem(work_against(cause)) {
                return Err(held_up(&problem));
            }
            // What other work stood in the way of may be due now: nobody else may ask for it.
            self.schedule_flush();
            self.schedule_compaction();
            // The work that ends the stop notifies; the timeout is for what nobody foresaw.
            timer.wait(cause, || self.wait_for_change(ticket, Duration::from_secs(1)));
            self.update_ruling();
        }
        self.check_healthy()?;
        self.pay(timer, bytes, wait)
    }

    /// Pays the price of a write that needs `bytes`, unless it has.
    fn pay(&self, timer: &mut WriteTimer<'_>, bytes: usize, wait: bool) -> Result<()> {
        let Some((cause, nanos_per_kib)) = self.gate.ruling().pace else { return Ok(()) };
        if timer.has_paid || bytes == 0 {
            return Ok(());
        }
        let price = Price { bytes, nanos_per_kib, delay_max: self.gate.delay_max };
        let Some(delay) = self.gate.pacer.take(self.env.now(), price, wait) else {
            return Err(Error::WouldBlock);
        };
        timer.has_paid = true;
        if !delay.is_zero() {
            timer.wait(cause, || self.env.sleep(delay));
        }
        Ok(())
    }

    /// Makes the others pay for a write of `bytes` that was let in before its size was known.
    pub(in crate::store) fn gate_owe(&self, bytes: usize) {
        if let Some((_, nanos_per_kib)) = self.gate.ruling().pace {
            let price = Price { bytes, nanos_per_kib, delay_max: Duration::ZERO };
            let none = self.gate.pacer.take(self.env.now(), price, true);
            debug_assert_eq!(none, Some(Duration::ZERO), "what is owed is not slept");
        }
    }

    /// Rules anew: the debt, or what it is judged by, has changed.
    pub(in crate::store) fn update_ruling(&self) {
        if self.log.is_read_only() {
            // Nobody writes to a range that is only read.
            return;
        }
        let view = self.view.load_full();
        self.count_memtables(&view);
        // Worked out here, once for a version, and not under the latch.
        let _ = view.version.value_space();
        drop(view);
        let gate = &self.gate;
        let (ruled_on, before, ruling, is_new_hurry) = {
            let precedent = gate.ruler.lock();
            let view = self.view.load_full();
            let rates = DrainRates {
                flush_nanos_per_kib: gate.flushes.nanos_per_kib(),
                l0_nanos_per_kib: gate.cuts.nanos_per_kib(),
                values_nanos_per_kib: gate.values.nanos_per_kib(),
            };
            let ruling = policy::rule(&self.debt(&view), &gate.limits, &rates);
            let word = pack(ruling) | precedent.bit();
            let before = unpack(gate.pressure.swap(word, Ordering::Relaxed));
            (view, before.stop, ruling, self.hurry_background_io(&ruling))
        };
        // Not under the latch: memtables and open files may go with it.
        drop(ruled_on);
        if is_new_hurry {
            self.io.limit().look_again();
        }
        self.tell_stall(before, ruling.stop);
    }

    /// Work for which writers wait, or pay, obeys no limit; whether that is new for some of it.
    fn hurry_background_io(&self, ruling: &Ruling) -> bool {
        let causes = [ruling.stop, ruling.pace.map(|(cause, _)| cause)];
        let holds_up = |work| causes.iter().flatten().any(|cause| work_against(*cause) == work);
        let compacts = holds_up(Work::Compaction) || holds_up(Work::Values);
        self.io.hurry(holds_up(Work::Flush), compacts)
    }

    /// Tells that writers stop or go on, if that changed.
    fn tell_stall(&self, before: Option<Cause>, after: Option<Cause>) {
        if before == after {
            return;
        }
        if let Some(cause) = before {
            self.tell(EventKind::StallEnded { cause });
        }
        if let Some(cause) = after {
            self.tell(EventKind::StallBegan { cause });
        }
    }

    /// Bytes of memtables that wait to be flushed.
    pub(in crate::store) fn waiting_bytes(&self, view: &View) -> u64 {
        view.frozen_bytes.saturating_sub(self.kept_bytes()) as u64
    }

    fn debt(&self, view: &View) -> Debt {
        let targets = LevelTargets::of(&view.version, &self.shape);
        // What lies above the base only sinks, mostly by moves.
        let level_bytes = view.version.runs().map(|(level, run)| match targets.bytes_max(level) {
            0 => 0,
            target => run.bytes().saturating_sub(target),
        });
        let memory = self.process.memory();
        let log_bytes = self.log().map_or(0, |log| log.held_bytes());
        let values = view.version.value_space();
        Debt {
            l0: view.version.l0().policy().fill(),
            frozen_bytes: self.waiting_bytes(view),
            frozen_count: view.waiting_count_max() as u64,
            level_bytes: level_bytes.sum(),
            value_dead_bytes: values.dead_bytes_max(),
            value_dead_bytes_allowed: self.shape.values.dead_bytes_allowed(&values),
            log_bytes,
            log_awaits_moment: self.log_awaits_moment(),
            local: self.local_space(view),
            memory_bytes: memory.pool(PoolName::Memtables).used_bytes(),
            memory_bytes_max: memory
                .memtable_bytes_max()
                .max(2 * self.options.memtable_bytes as u64),
        }
    }
}

/// The work that ends a stop.
fn work_against(cause: Cause) -> Work {
    match cause {
        Cause::L0 | Cause::Levels | Cause::LocalDisk => Work::Compaction,
        Cause::Values => Work::Values,
        _ => Work::Flush,
    }
}

/// The error of a write that would wait for work that cannot go on.
fn held_up(problem: &Problem) -> Error {
    let kind = if problem.is_no_space {
        std::io::ErrorKind::StorageFull
    } else {
        std::io::ErrorKind::Other
    };
    Error::from(terrace_env::EnvError::new(
        terrace_env::Operation::Write,
        std::path::Path::new("the database"),
        std::io::Error::new(kind, problem.text.clone()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ruling_is_a_word_and_nothing_is_zero() {
        assert_eq!(pack(Ruling::default()), 0);
        for stop in [None, Some(Cause::Memtables), Some(Cause::Cpu)] {
            for pace in [None, Some((Cause::Memtables, 1)), Some((Cause::Memory, 1 << 40))] {
                let ruling = Ruling { stop, pace };
                assert_eq!(unpack(pack(ruling)), ruling);
            }
        }
    }
}
