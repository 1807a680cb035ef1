use std::time::{Duration, Instant};
use std::{fmt, hint, thread};

use super::SimulatedPlace;
use crate::atomic::{self, AtomicU64, Ordering};
use crate::sim::Call;

/// One waiter, in the low half of [`Signal`]'s state.
const WAITER: u64 = 1;
/// One notification, in the high half.
const NOTIFICATION: u64 = 1 << 32;

/// "Something changed": an event count. Made by
/// [`WaitFactory::signal`](crate::WaitFactory::signal).
///
/// A thread takes a [`Ticket`], checks the condition it waits for, and waits with the ticket if
/// the condition does not hold. Whoever makes the condition true notifies afterwards. No wake-up
/// is lost, because a notification after the ticket was taken ends the wait with that ticket, and
/// none is spurious.
///
/// ```
/// # use terrace_env::WaitFactory;
/// # use std::sync::atomic::{AtomicBool, Ordering};
/// # let (signal, done) = (WaitFactory::real().signal(), AtomicBool::new(true));
/// loop {
///     let ticket = signal.ticket();
///     if done.load(Ordering::Acquire) {
///         break;
///     }
///     signal.wait(ticket);
/// }
/// ```
///
/// Cost: `ticket` is one load, `notify` one atomic read-modify-write while nobody waits.
pub struct Signal {
    /// `notifications (32 bits, wraps) | waiters (32 bits)`.
    ///
    /// Order: a waiter registers and a notifier counts in this one word. Whichever comes second in
    /// its modification order sees the first: the waiter a changed count, or the notifier a waiter.
    state: AtomicU64,
    /// Guards nothing but the gap between a waiter's last look at the count and its sleep.
    sleeping: atomic::Mutex<()>,
    woken: atomic::Condvar,
    simulated: Option<Box<SimulatedPlace>>,
}

/// Number of times that [`Signal::wait_briefly`] looks again at once, which takes a microsecond or
/// two. A model of all schedules needs none of it.
const LOOKS: u32 = if cfg!(terrace_loom) { 0 } else { 50 };
/// Number of times that [`Signal::wait_briefly`] then lets other threads run before it looks again.
const YIELDS: u32 = if cfg!(terrace_loom) { 0 } else { 10 };

/// The count of a [`Signal`]'s notifications at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

impl Signal {
    pub(super) fn new(simulated: Option<Box<SimulatedPlace>>) -> Signal {
        Signal {
            state: AtomicU64::new(0),
            sleeping: atomic::Mutex::new(()),
            woken: atomic::Condvar::new(),
            simulated,
        }
    }

    /// A ticket for [`Signal::wait`]; take it before checking the condition.
    #[inline]
    pub fn ticket(&self) -> Ticket {
        if let Some(place) = &self.simulated {
            place.scheduler.enter(Call::Ticket(place.point.id));
        }
        self.count()
    }

    /// Blocks until the first notification after `ticket` was taken.
    pub fn wait(&self, ticket: Ticket) {
        match &self.simulated {
            None => {
                self.wait_real(ticket, None);
            }
            Some(place) => {
                self.wait_simulated(place, ticket, None);
            }
        }
    }

    /// As [`Signal::wait`], for what another thread does within microseconds, unless it is kept
    /// from running: looks again for about that long before it sleeps. To sleep and to be woken
    /// costs fifty on a virtual machine.
    pub fn wait_briefly(&self, ticket: Ticket) {
        if self.simulated.is_none() {
            for look in 0..LOOKS + YIELDS {
                if self.count() != ticket {
                    return;
                }
                if look < LOOKS { hint::spin_loop() } else { thread::yield_now() }
            }
        }
        self.wait(ticket);
    }

    /// As [`Signal::wait`], but for about `timeout` at most; whether there was a notification.
    pub fn wait_timeout(&self, ticket: Ticket, timeout: Duration) -> bool {
        match &self.simulated {
            None => self.wait_real(ticket, Some(timeout)),
            Some(place) => self.wait_simulated(place, ticket, Some(timeout)),
        }
    }

    /// Wakes every thread that waits.
    #[inline]
    pub fn notify(&self) {
        match &self.simulated {
            None => {
                // Order: release, so that a thread that sees the new count sees the condition that
                // was made true before it.
                let before = self.state.fetch_add(NOTIFICATION, Ordering::AcqRel);
                if before & (NOTIFICATION - 1) != 0 {
                    self.wake_sleepers();
                }
            }
            Some(place) => {
                self.state.fetch_add(NOTIFICATION, Ordering::AcqRel);
                place.scheduler.notified(&place.point);
            }
        }
    }

    #[inline]
    fn count(&self) -> Ticket {
        // The shift leaves 32 bits.
        Ticket((self.state.load(Ordering::Acquire) >> 32) as u32)
    }

    #[cold]
    fn wake_sleepers(&self) {
        // A registered waiter holds this lock from its last look at the count until it sleeps;
        // after taking it once, every such waiter has seen the new count or can be woken.
        drop(self.sleeping.lock());
        self.woken.notify_all();
    }

    fn wait_real(&self, ticket: Ticket, timeout: Option<Duration>) -> bool {
        if self.count() != ticket {
            return true;
        }
        // A timeout beyond what the clock can express is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut sleeping = self.sleeping.lock();
        self.state.fetch_add(WAITER, Ordering::AcqRel);
        while self.count() == ticket {
            match deadline {
                None => self.woken.wait(&mut sleeping),
                Some(deadline) => {
                    if self.woken.wait_until(&mut sleeping, deadline).timed_out() {
                        break;
                    }
                }
            }
        }
        self.state.fetch_sub(WAITER, Ordering::AcqRel);
        drop(sleeping);
        self.count() != ticket
    }

    fn wait_simulated(
        &self,
        place: &SimulatedPlace,
        ticket: Ticket,
        timeout: Option<Duration>,
    ) -> bool {
        if !place.scheduler.enter(Call::Wait(place.point.id)) || self.count() != ticket {
            return true;
        }
        place.scheduler.block_for_signal(&place.point, timeout);
        self.count() != ticket
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.load(Ordering::Relaxed);
        f.debug_struct("Signal")
            .field("notifications", &(state >> 32))
            .field("waiters", &(state & (NOTIFICATION - 1)))
            .finish()
    }
}
