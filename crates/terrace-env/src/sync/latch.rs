use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::atomic;
use crate::sim::before_latch;

/// A lock for a few instructions: no wait, no I/O and no other call of this crate while it is
/// held. So a simulation, in which threads change places only inside this crate, never finds one
/// taken; debug builds assert the rule at every call of the simulated environment.
///
/// Debug builds may change places before a latch is taken, see
/// [`SimOptions::switch_at_latches`](crate::SimOptions::switch_at_latches).
pub struct Latch<T> {
    inner: atomic::Mutex<T>,
}

impl<T> Latch<T> {
    /// A latch around `value`.
    #[cfg(not(terrace_loom))]
    pub const fn new(value: T) -> Latch<T> {
        Latch { inner: atomic::Mutex::new(value) }
    }

    /// A latch around `value`.
    #[cfg(terrace_loom)]
    pub fn new(value: T) -> Latch<T> {
        Latch { inner: atomic::Mutex::new(value) }
    }

    /// Takes the latch.
    #[inline]
    pub fn lock(&self) -> LatchGuard<'_, T> {
        if cfg!(debug_assertions) && is_none_held() {
            before_latch();
        }
        let guard = self.inner.lock();
        held::add_one();
        LatchGuard { guard }
    }

    /// Takes the latch if nobody holds it.
    #[inline]
    pub fn try_lock(&self) -> Option<LatchGuard<'_, T>> {
        if cfg!(debug_assertions) && is_none_held() {
            before_latch();
        }
        let guard = self.inner.try_lock()?;
        held::add_one();
        Some(LatchGuard { guard })
    }

    /// The value, without locking: the caller is its only user.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Takes the value out.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: Default> Default for Latch<T> {
    fn default() -> Latch<T> {
        Latch::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Latch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A taken [`Latch`].
pub struct LatchGuard<'a, T> {
    guard: atomic::MutexGuard<'a, T>,
}

impl<T> Deref for LatchGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for LatchGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for LatchGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        held::remove_one();
    }
}

/// Whether this thread holds no latch, as far as the build counts them.
#[inline]
pub(super) fn is_none_held() -> bool {
    held::count() == 0
}

/// Panics in debug builds if this thread holds a latch: called where the environment may let
/// another thread run.
#[inline]
pub(crate) fn assert_none_held() {
    debug_assert_eq!(held::count(), 0, "a latch is held across a call of the environment");
}

// All threads of a model run on one thread of the system, and would count together.
#[cfg(all(debug_assertions, not(terrace_loom)))]
mod held {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }

    pub fn add_one() {
        COUNT.with(|count| count.set(count.get() + 1));
    }

    pub fn remove_one() {
        COUNT.with(|count| count.set(count.get() - 1));
    }

    pub fn count() -> u32 {
        COUNT.with(Cell::get)
    }
}

#[cfg(not(all(debug_assertions, not(terrace_loom))))]
mod held {
    pub fn add_one() {}
    pub fn remove_one() {}
    pub fn count() -> u32 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latch_guards_its_value() {
        let latch = Latch::new(1);
        *latch.lock() += 1;
        assert_eq!(*latch.lock(), 2);
        assert_none_held();
        let guard = latch.try_lock();
        assert!(latch.try_lock().is_none(), "it is held");
        drop(guard);
        *latch.try_lock().unwrap() += 1;
        assert_none_held();
        assert_eq!(latch.into_inner(), 3);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a latch is held")]
    fn a_held_latch_is_noticed() {
        let latch = Latch::new(());
        let _guard = latch.lock();
        assert_none_held();
    }
}
