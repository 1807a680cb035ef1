//! `loom`'s words and locks with the methods that the real ones have.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Instant;

use loom::sync::atomic::fence;
pub use std::sync::atomic::Ordering;

/// Which orders count for nothing: a model that holds with them weakened shows nothing, so each
/// has a test that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakened {
    /// None: the code as it is.
    Nothing,
    /// Releases publish nothing.
    Releases,
    /// Acquires see nothing.
    Acquires,
    /// Sequential consistency is release and acquire only.
    SequentialConsistency,
    /// Releases publish nothing, and sequential consistency is acquire only.
    ReleasesAndSequentialConsistency,
}

thread_local! {
    /// All threads of a model run on one thread of the system.
    static WEAKENED: Cell<Weakened> = const { Cell::new(Weakened::Nothing) };
}

/// Weakens every atomic access of the models that this thread runs from now on.
pub fn weaken(weakened: Weakened) {
    WEAKENED.set(weakened);
}

/// The order in the model, and whether there are fences around it.
fn modeled(order: Ordering) -> (Ordering, bool) {
    let weakened = WEAKENED.get();
    let keeps_fences =
        matches!(weakened, Weakened::Nothing | Weakened::Releases | Weakened::Acquires);
    let is_fenced = order == Ordering::SeqCst && keeps_fences;
    let (mut acquires, mut releases) = match order {
        Ordering::Acquire => (true, false),
        Ordering::Release => (false, true),
        Ordering::AcqRel | Ordering::SeqCst => (true, true),
        _ => (false, false),
    };
    acquires &= weakened != Weakened::Acquires;
    releases &=
        !matches!(weakened, Weakened::Releases | Weakened::ReleasesAndSequentialConsistency);
    let order = match (acquires, releases) {
        (true, true) => Ordering::AcqRel,
        (true, false) => Ordering::Acquire,
        (false, true) => Ordering::Release,
        (false, false) => Ordering::Relaxed,
    };
    (order, is_fenced)
}

fn fence_if(is_fenced: bool) {
    if is_fenced {
        fence(Ordering::SeqCst);
    }
}

/// An order that a load can have.
fn of_load(order: Ordering) -> Ordering {
    match order {
        Ordering::AcqRel | Ordering::Acquire => Ordering::Acquire,
        _ => Ordering::Relaxed,
    }
}

/// An order that a store can have.
fn of_store(order: Ordering) -> Ordering {
    match order {
        Ordering::AcqRel | Ordering::Release => Ordering::Release,
        _ => Ordering::Relaxed,
    }
}

macro_rules! atomic {
    ($name:ident, $value:ty) => {
        #[doc = concat!("As the standard library's `", stringify!($name), "`.")]
        pub struct $name(loom::sync::atomic::$name);

        impl $name {
            /// A word with this value.
            #[track_caller]
            pub fn new(value: $value) -> $name {
                $name(loom::sync::atomic::$name::new(value))
            }

            /// As in the standard library.
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                let (order, is_fenced) = modeled(order);
                fence_if(is_fenced);
                self.0.load(of_load(order))
            }

            /// As in the standard library.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                let (order, is_fenced) = modeled(order);
                fence_if(is_fenced);
                self.0.store(value, of_store(order));
                fence_if(is_fenced);
            }

            /// As in the standard library.
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                let (order, is_fenced) = modeled(order);
                fence_if(is_fenced);
                let before = self.0.swap(value, order);
                fence_if(is_fenced);
                before
            }

            /// As in the standard library.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                let (success, is_fenced) = modeled(success);
                fence_if(is_fenced);
                let failure = of_load(modeled(failure).0);
                let outcome = self.0.compare_exchange(current, new, success, failure);
                fence_if(is_fenced);
                outcome
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new(Default::default())
            }
        }
    };
}

macro_rules! atomic_number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value);

        impl $name {
            /// As in the standard library.
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, modeled(order).0)
            }

            /// As in the standard library.
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, modeled(order).0)
            }

            /// As in the standard library.
            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_max(value, modeled(order).0)
            }

            /// As in the standard library.
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_or(value, modeled(order).0)
            }

            /// As in the standard library.
            #[track_caller]
            pub fn fetch_update(
                &self,
                set_order: Ordering,
                fetch_order: Ordering,
                mut update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut current = self.load(fetch_order);
                while let Some(next) = update(current) {
                    match self.compare_exchange(current, next, set_order, fetch_order) {
                        Ok(before) => return Ok(before),
                        Err(other) => current = other,
                    }
                }
                Err(current)
            }
        }
    };
}

atomic!(AtomicBool, bool);
atomic_number!(AtomicU8, u8);
atomic_number!(AtomicU32, u32);
atomic_number!(AtomicU64, u64);
atomic_number!(AtomicUsize, usize);

const NO_POISON: &str = "a model ends with its first panic";

/// As `parking_lot`'s.
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

/// A taken [`Mutex`]; `None` only inside [`Condvar::wait`].
pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().expect(NO_POISON)))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(NO_POISON)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().expect(NO_POISON)
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("held outside of a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held outside of a wait")
    }
}

impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// As `parking_lot`'s; no timeout ever ends a wait.
pub(crate) struct Condvar(loom::sync::Condvar);

/// How a wait with a timeout ended.
pub(crate) struct Woken;

impl Woken {
    pub(crate) fn timed_out(&self) -> bool {
        false
    }
}

impl Condvar {
    pub(crate) fn new() -> Condvar {
        Condvar(loom::sync::Condvar::new())
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("held outside of a wait");
        guard.0 = Some(self.0.wait(held).expect(NO_POISON));
    }

    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _deadline: Instant) -> Woken {
        self.wait(guard);
        Woken
    }
}

/// As `parking_lot`'s.
pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

pub(crate) use loom::sync::{RwLockReadGuard, RwLockWriteGuard};

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> RwLock<T> {
        RwLock(loom::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().expect(NO_POISON)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().expect(NO_POISON)
    }

    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read().ok()
    }

    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().ok()
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().expect(NO_POISON)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().expect(NO_POISON)
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RwLock")
    }
}
