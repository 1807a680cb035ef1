//! The admission gate: the one place where writers are made to wait for the tree to keep up.
//!
//! Between the first sign of pressure and the point where writes must stop, the pace falls
//! smoothly; every delay is charged to its cause.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Inner, Problem};
use crate::{Error, Result};

/// Counts what writers waited for.
#[derive(Debug, Default)]
pub struct Gate {
    memtable_us: AtomicU64,
    l0_us: AtomicU64,
    paced_us: AtomicU64,
    stalls: AtomicU64,
}

/// Why writers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Too many memtables wait to be flushed.
    Memtables,
    /// L0 has too many rows.
    L0,
}

/// The longest delay that the pace adds to one write.
const DELAY_MAX: Duration = Duration::from_millis(5);

impl Gate {
    /// (waiting for flushes, waiting for L0, paced) in microseconds, and how many writes waited.
    #[must_use]
    pub fn totals(&self) -> (u64, u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.memtable_us), read(&self.l0_us), read(&self.paced_us), read(&self.stalls))
    }

    fn charge(&self, counter: &AtomicU64, waited: Duration) {
        counter.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
        self.stalls.fetch_add(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// Lets a write of `bytes` in, now or after a delay.
    ///
    /// Errors: `Poisoned`, `Closed`; `NoSpace` if the write would wait for work that a full disk
    /// holds up; `WouldBlock` if it would wait and may not.
    pub(super) fn gate_pass(&self, bytes: usize, wait: bool) -> Result<()> {
        self.check_healthy()?;
        let mut stalled: Option<(Cause, Duration)> = None;
        loop {
            let ticket = self.changed.ticket();
            let Some(cause) = self.must_stop() else { break };
            if !wait {
                return Err(Error::WouldBlock);
            }
            self.check_healthy()?;
            let problem = self.health.problem.lock().clone();
            if let Some(problem) = problem {
                return Err(held_up(&problem));
            }
            if stalled.is_none() {
                stalled = Some((cause, self.env.now()));
            }
            // What other work stood in the way of may be due now: nobody else may ask for it.
            self.schedule_flush();
            self.schedule_compaction();
            // The work that ends the stall notifies; the timeout is for what nobody foresaw.
            self.wait_for_change(ticket, Duration::from_secs(1));
        }
        if let Some((cause, since)) = stalled {
            let waited = self.env.now().saturating_sub(since);
            let counter = match cause {
                Cause::Memtables => &self.gate.memtable_us,
                Cause::L0 => &self.gate.l0_us,
            };
            self.gate.charge(counter, waited);
            self.check_healthy()?;
        }
        self.pace(bytes, wait)
    }

    fn must_stop(&self) -> Option<Cause> {
        let view = self.view.load();
        if view.frozen_count() >= self.options.frozen_memtables_max {
            return Some(Cause::Memtables);
        }
        (view.version.l0.rows().len() >= self.options.l0_rows_stop).then_some(Cause::L0)
    }

    /// Delays a write while L0 is between its slow and its stop mark: the nearer to the stop, the
    /// slower.
    fn pace(&self, bytes: usize, wait: bool) -> Result<()> {
        let rows = self.view.load().version.l0.rows().len();
        let slow = self.options.l0_rows_slow;
        if rows < slow {
            return Ok(());
        }
        let span = (self.options.l0_rows_stop - slow) as f64;
        let share = (rows - slow + 1) as f64 / span;
        let rate_bytes_per_s = (64 << 20) as f64 * (1.0 - 0.9 * share).max(0.1);
        let delay = Duration::from_secs_f64(bytes as f64 / rate_bytes_per_s).min(DELAY_MAX);
        // Short delays are saved up, since no clock sleeps for a microsecond.
        let owed = self.gate.paced_us.fetch_add(delay.as_micros() as u64, Ordering::Relaxed);
        let due = (owed + delay.as_micros() as u64) / 1000 - owed / 1000;
        if due == 0 {
            return Ok(());
        }
        if !wait {
            return Err(Error::WouldBlock);
        }
        self.gate.stalls.fetch_add(1, Ordering::Relaxed);
        self.env.sleep(Duration::from_millis(due));
        Ok(())
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
