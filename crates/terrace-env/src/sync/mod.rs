//! Every wait of the engine.
//!
//! # Why
//! Who gets a lock, and when a waiting thread goes on, are outside effects: the operating system
//! decides them. A test that is to replay must decide them itself. So the locks that may sleep and
//! the signals are made by the environment, through [`WaitFactory`].
//!
//! The types are the same in the real and the simulated environment; [`WaitFactory`] decides which
//! one they belong to. A real [`Mutex`] or [`Hold`] is an ordinary lock of `parking_lot` behind one
//! predictable branch; a simulated one asks the scheduler for its turn before it is taken and after
//! it is given back, so that the seed decides which thread gets it.
//!
//! ```text
//!   Signal   "something changed": ticket → check the condition → wait(ticket)
//!   Mutex    one thread, may sleep
//!   Hold     many shared or one exclusive, may sleep
//!   Latch    one thread, a few instructions, never across a call of this crate
//! ```
//!
//! # Invariants
//! 1. A simulated lock is tried, never waited for: in a simulation only the thread whose turn it
//!    is runs, so a lock that cannot be taken at once is held by a thread that is not running, and
//!    the scheduler must be told.
//! 2. A guard gives the lock back first and wakes the waiters second; nobody is woken in vain for
//!    ever, because no other thread runs between the failed try of a waiter and its going to sleep.
//! 3. No operation of the real path allocates.

mod hold;
mod latch;
mod mutex;
mod set_once;
mod signal;
mod yield_point;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

pub use hold::{ExclusiveHold, Hold, SharedHold};
pub(crate) use latch::assert_none_held;
pub use latch::{Latch, LatchGuard};
pub use mutex::{Mutex, MutexGuard};
pub use set_once::SetOnce;
pub use signal::{Signal, Ticket};
pub use yield_point::yield_point;

use crate::sim::{Scheduler, WaitKind, WaitPoint};

/// Makes the waits of one environment; see [`Env::waits`](crate::Env::waits).
#[derive(Clone)]
pub struct WaitFactory {
    scheduler: Option<Arc<Scheduler>>,
}

impl WaitFactory {
    /// Waits of the operating system: for [`RealEnv`](crate::RealEnv), and for code that is
    /// never simulated.
    #[must_use]
    pub fn real() -> WaitFactory {
        WaitFactory { scheduler: None }
    }

    /// Waits in which the scheduler decides.
    pub(crate) fn simulated(scheduler: Arc<Scheduler>) -> WaitFactory {
        WaitFactory { scheduler: Some(scheduler) }
    }

    /// Whether a scheduler decides: then nothing may depend on which thread of the operating system
    /// runs.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.scheduler.is_some()
    }

    /// A signal that nobody has given yet.
    #[must_use]
    #[track_caller]
    pub fn signal(&self) -> Signal {
        Signal::new(self.simulated_place(WaitKind::Signal))
    }

    /// A sleeping mutex around `value`.
    #[must_use]
    #[track_caller]
    pub fn mutex<T>(&self, value: T) -> Mutex<T> {
        Mutex::new(value, self.simulated_place(WaitKind::Mutex))
    }

    /// A sleeping shared/exclusive hold around `value`.
    #[must_use]
    #[track_caller]
    pub fn hold<T>(&self, value: T) -> Hold<T> {
        Hold::new(value, self.simulated_place(WaitKind::Hold))
    }

    #[track_caller]
    fn simulated_place(&self, kind: WaitKind) -> Option<Box<SimulatedPlace>> {
        let scheduler = self.scheduler.as_ref()?;
        let point = scheduler.new_wait_point(kind, Location::caller());
        Some(Box::new(SimulatedPlace { scheduler: Arc::clone(scheduler), point }))
    }
}

impl fmt::Debug for WaitFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.scheduler.is_some() {
            "WaitFactory(simulated)"
        } else {
            "WaitFactory(real)"
        })
    }
}

/// The place in a simulation where threads wait for one lock or signal.
struct SimulatedPlace {
    scheduler: Arc<Scheduler>,
    point: WaitPoint,
}

/// Tells the scheduler, when it is dropped, that a lock was given back. In a guard it is declared
/// after the guard of the lock itself, so that it is dropped second.
struct GiveBack<'a>(Option<&'a SimulatedPlace>);

impl Drop for GiveBack<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.scheduler.released(&place.point);
        }
    }
}

#[cfg(all(test, terrace_loom))]
mod models;
#[cfg(test)]
mod tests;
