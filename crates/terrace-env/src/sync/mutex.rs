use std::fmt;
use std::ops::{Deref, DerefMut};

use super::{GiveBack, SimulatedPlace};
use crate::atomic;
use crate::sim::Call;

/// A lock that one thread holds at a time, and that may be held across I/O and other waits.
/// Made by [`WaitFactory::mutex`](crate::WaitFactory::mutex).
///
/// A panic while it is held gives it back; there is no poisoning. It is not reentrant.
pub struct Mutex<T> {
    inner: atomic::Mutex<T>,
    simulated: Option<Box<SimulatedPlace>>,
}

impl<T> Mutex<T> {
    pub(super) fn new(value: T, simulated: Option<Box<SimulatedPlace>>) -> Mutex<T> {
        Mutex { inner: atomic::Mutex::new(value), simulated }
    }

    /// Takes the lock; blocks while another thread has it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match &self.simulated {
            None => MutexGuard { guard: self.inner.lock(), _give_back: GiveBack(None) },
            Some(place) => self.lock_simulated(place),
        }
    }

    /// Takes the lock if nobody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match &self.simulated {
            None => {
                let guard = self.inner.try_lock()?;
                Some(MutexGuard { guard, _give_back: GiveBack(None) })
            }
            Some(place) => self.try_lock_simulated(place),
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
    fn lock_simulated<'a>(&'a self, place: &'a SimulatedPlace) -> MutexGuard<'a, T> {
        if !place.scheduler.enter(Call::Lock(place.point.id)) {
            return MutexGuard { guard: self.inner.lock(), _give_back: GiveBack(None) };
        }
        loop {
            if let Some(guard) = self.inner.try_lock() {
                return Self::simulated_guard(guard, place);
            }
            place.scheduler.block_for_lock(&place.point, "");
        }
    }

    #[cold]
    fn try_lock_simulated<'a>(&'a self, place: &'a SimulatedPlace) -> Option<MutexGuard<'a, T>> {
        let known = place.scheduler.enter(Call::TryLock(place.point.id));
        let guard = self.inner.try_lock()?;
        if known {
            Some(Self::simulated_guard(guard, place))
        } else {
            Some(MutexGuard { guard, _give_back: GiveBack(None) })
        }
    }

    fn simulated_guard<'a>(
        guard: atomic::MutexGuard<'a, T>,
        place: &'a SimulatedPlace,
    ) -> MutexGuard<'a, T> {
        place.scheduler.acquired(&place.point);
        MutexGuard { guard, _give_back: GiveBack(Some(place)) }
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A taken [`Mutex`]; dropping it gives the lock back.
pub struct MutexGuard<'a, T> {
    // Order: fields are dropped from the top, so the lock is free before a waiter is told.
    guard: atomic::MutexGuard<'a, T>,
    _give_back: GiveBack<'a>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
