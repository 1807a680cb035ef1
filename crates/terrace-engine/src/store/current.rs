//! A value that is replaced as a whole, and readers that must know whether theirs is still it.
//!
//! # Why
//! A read needs several things that belong together: the view, a number up to which the view holds
//! everything, what the lookup index says. They are read one after the other, and a job may come
//! between any two of them. Then the number covers writes that the view does not name. So each
//! value has a number of its own, and a read that has gathered everything looks whether its value
//! is still the current one; if not, it begins anew.
//!
//! ```text
//!   a read                               a job
//!   value ◄── pinned (its number: 7)
//!                                        value := the next (its number: 8)
//!                                        number := 8, released
//!   ask: the newest visible write        a write that needs the value 8 becomes visible
//!   number = 7?  else begin anew
//! ```
//!
//! # Why that is enough
//! Whatever a read must not see together with an old value becomes visible only after the new
//! value's number was released: the write that only the new value names is published later, and the
//! index is told what is gone by a job that loaded the new value by [`Current::load_released`].
//! Whoever sees one of these therefore sees the new number too, and does not keep the old value.
//!
//! Nobody waits: a read begins anew only when a replacement was completed meanwhile, and a value
//! whose number is not released yet is newer than needed, which does no harm.

use std::sync::Arc;

use terrace_env::atomic::{AtomicU64, Ordering};
use terrace_env::{Latch, PlantedBug, is_planted, yield_point};

use crate::swap::{ArcSwap, Guard};

/// What [`Current`] holds.
pub trait Numbered {
    /// How many values there were before this one.
    fn number(&self) -> u64;
}

/// A value that is replaced as a whole.
#[derive(Debug)]
pub struct Current<T> {
    value: ArcSwap<T>,
    /// The number of the current value; while that is being replaced, of the one before it.
    number: AtomicU64,
    /// One replacement at a time.
    turn: Latch<()>,
}

impl<T: Numbered> Current<T> {
    /// With its first value.
    pub fn new(value: T) -> Current<T> {
        let number = AtomicU64::new(value.number());
        Current { value: ArcSwap::from_pointee(value), number, turn: Latch::new(()) }
    }

    /// The current value, for a short time.
    #[inline]
    pub fn load(&self) -> Guard<Arc<T>> {
        self.value.load()
    }

    /// The current value, to be kept.
    pub fn load_full(&self) -> Arc<T> {
        self.value.load_full()
    }

    /// The current value, after its number was released: to be asked by whoever does something that
    /// reads of older values must not meet.
    pub fn load_released(&self) -> Arc<T> {
        let _turn = self.turn.lock();
        self.value.load_full()
    }

    /// The current value, and the answers to what `ask` asked while it was current.
    #[inline]
    pub fn pin_and_ask<A>(&self, mut ask: impl FnMut() -> A) -> (Guard<Arc<T>>, A) {
        loop {
            let value = self.value.load();
            yield_point();
            let answer = ask();
            yield_point();
            // Order: acquire in whatever `ask` read, so that this sees what was replaced before.
            if self.is_current(&value) || is_planted(PlantedBug::KeepOldView) {
                return (value, answer);
            }
        }
    }

    /// Whether a value that was the current one is still. Whoever asks this after something else
    /// was read may use both together, as by [`Current::pin_and_ask`].
    #[inline]
    pub fn is_current(&self, value: &T) -> bool {
        // Order: acquire, as there.
        value.number() >= self.number.load(Ordering::Acquire)
    }

    /// Puts what `change` makes of the value, and which must have the next number, in its place;
    /// the old value. `then` runs before the next replacement may begin.
    pub fn replace(&self, change: impl FnOnce(&T, u64) -> T, then: impl FnOnce(&T)) -> Arc<T> {
        let _turn = self.turn.lock();
        let old = self.value.load_full();
        let next = Arc::new(change(&old, old.number() + 1));
        debug_assert_eq!(next.number(), old.number() + 1, "values are numbered without a gap");
        let number = next.number();
        self.value.store(Arc::clone(&next));
        // Order: the number comes after the value, so that a reader which finds it finds the value.
        self.number.store(number, Ordering::Release);
        then(&next);
        old
    }
}
