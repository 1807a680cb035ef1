use std::fmt;
use std::ops::{Deref, DerefMut};

use super::{GiveBack, SimulatedPlace};
use crate::atomic::{self, AtomicUsize, Ordering};
use crate::sim::Call;

/// A lock that many threads share or one has alone, and that may be held across I/O and other
/// waits. Made by [`WaitFactory::hold`](crate::WaitFactory::hold).
///
/// A thread that waits for the exclusive hold keeps later sharers out. So a thread that already
/// shares a hold must not ask for it again: it would wait for a waiter that waits for it.
pub struct Hold<T> {
    inner: atomic::RwLock<T>,
    simulated: Option<Box<SimulatedPlace>>,
    /// Simulated threads that wait for the exclusive hold. The real lock knows it by itself.
    exclusive_waiting: AtomicUsize,
}

impl<T> Hold<T> {
    pub(super) fn new(value: T, simulated: Option<Box<SimulatedPlace>>) -> Hold<T> {
        let inner = atomic::RwLock::new(value);
        Hold { inner, simulated, exclusive_waiting: AtomicUsize::new(0) }
    }

    /// Shares the hold; blocks while a thread has it exclusively or waits to.
    #[inline]
    pub fn shared(&self) -> SharedHold<'_, T> {
        match &self.simulated {
            None => SharedHold { guard: self.inner.read(), _give_back: GiveBack(None) },
            Some(place) => self.shared_simulated(place),
        }
    }

    /// Takes the hold exclusively; blocks while any thread has it.
    #[inline]
    pub fn exclusive(&self) -> ExclusiveHold<'_, T> {
        match &self.simulated {
            None => ExclusiveHold { guard: self.inner.write(), _give_back: GiveBack(None) },
            Some(place) => self.exclusive_simulated(place),
        }
    }

    /// Shares the hold if [`Hold::shared`] would not block.
    #[inline]
    pub fn try_shared(&self) -> Option<SharedHold<'_, T>> {
        match &self.simulated {
            None => {
                let guard = self.inner.try_read()?;
                Some(SharedHold { guard, _give_back: GiveBack(None) })
            }
            Some(place) => self.try_shared_simulated(place),
        }
    }

    /// Takes the hold exclusively if no thread has it.
    #[inline]
    pub fn try_exclusive(&self) -> Option<ExclusiveHold<'_, T>> {
        match &self.simulated {
            None => {
                let guard = self.inner.try_write()?;
                Some(ExclusiveHold { guard, _give_back: GiveBack(None) })
            }
            Some(place) => self.try_exclusive_simulated(place),
        }
    }

    /// The value, without locking: the caller is its only user.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }

    #[cold]
    fn shared_simulated<'a>(&'a self, place: &'a SimulatedPlace) -> SharedHold<'a, T> {
        if !place.scheduler.enter(Call::Share(place.point.id)) {
            return SharedHold { guard: self.inner.read(), _give_back: GiveBack(None) };
        }
        loop {
            if let Some(guard) = self.try_read_behind_waiters() {
                place.scheduler.acquired(&place.point);
                return SharedHold { guard, _give_back: GiveBack(Some(place)) };
            }
            place.scheduler.block_for_lock(&place.point, ", shared");
        }
    }

    #[cold]
    fn exclusive_simulated<'a>(&'a self, place: &'a SimulatedPlace) -> ExclusiveHold<'a, T> {
        if !place.scheduler.enter(Call::Lock(place.point.id)) {
            return ExclusiveHold { guard: self.inner.write(), _give_back: GiveBack(None) };
        }
        let mut waiting = None;
        loop {
            if let Some(guard) = self.inner.try_write() {
                place.scheduler.acquired(&place.point);
                return ExclusiveHold { guard, _give_back: GiveBack(Some(place)) };
            }
            waiting.get_or_insert_with(|| ExclusiveWaiting::new(&self.exclusive_waiting, place));
            place.scheduler.block_for_lock(&place.point, ", exclusive");
        }
    }

    #[cold]
    fn try_shared_simulated<'a>(&'a self, place: &'a SimulatedPlace) -> Option<SharedHold<'a, T>> {
        let known = place.scheduler.enter(Call::TryShare(place.point.id));
        let guard = self.try_read_behind_waiters()?;
        if known {
            place.scheduler.acquired(&place.point);
        }
        Some(SharedHold { guard, _give_back: GiveBack(known.then_some(place)) })
    }

    #[cold]
    fn try_exclusive_simulated<'a>(
        &'a self,
        place: &'a SimulatedPlace,
    ) -> Option<ExclusiveHold<'a, T>> {
        let known = place.scheduler.enter(Call::TryLock(place.point.id));
        let guard = self.inner.try_write()?;
        if known {
            place.scheduler.acquired(&place.point);
        }
        Some(ExclusiveHold { guard, _give_back: GiveBack(known.then_some(place)) })
    }

    fn try_read_behind_waiters(&self) -> Option<atomic::RwLockReadGuard<'_, T>> {
        if self.exclusive_waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        self.inner.try_read()
    }
}

impl<T: fmt::Debug> fmt::Debug for Hold<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// Counts a simulated thread that waits for the exclusive hold, until it has it or is torn down.
struct ExclusiveWaiting<'a> {
    count: &'a AtomicUsize,
    place: &'a SimulatedPlace,
}

impl<'a> ExclusiveWaiting<'a> {
    fn new(count: &'a AtomicUsize, place: &'a SimulatedPlace) -> ExclusiveWaiting<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        ExclusiveWaiting { count, place }
    }
}

impl Drop for ExclusiveWaiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        if std::thread::panicking() {
            // Sharers stood behind this waiter, and no guard will wake them.
            self.place.scheduler.wake_waiters(&self.place.point);
        }
    }
}

/// A shared [`Hold`]; dropping it gives the share back.
pub struct SharedHold<'a, T> {
    // Order: fields are dropped from the top, so the share is back before a waiter is told.
    guard: atomic::RwLockReadGuard<'a, T>,
    _give_back: GiveBack<'a>,
}

impl<T> Deref for SharedHold<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedHold<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}

/// An exclusive [`Hold`]; dropping it gives the hold back.
pub struct ExclusiveHold<'a, T> {
    // Order: fields are dropped from the top, so the hold is free before a waiter is told.
    guard: atomic::RwLockWriteGuard<'a, T>,
    _give_back: GiveBack<'a>,
}

impl<T> Deref for ExclusiveHold<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for ExclusiveHold<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: fmt::Debug> fmt::Debug for ExclusiveHold<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
