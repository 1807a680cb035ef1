//! Places in which threads count without a fight.
//!
//! # Why
//! A get from memory takes a microsecond. A counter that all threads add to costs a tenth of that
//! as soon as two of them read, because its cache line travels between them. So each thread has a
//! *place* of its own: whoever counts keeps an array for each place, in cache lines that nobody
//! else writes to, and the thread adds by a load and a store. The few threads that find no free
//! place share the last one, and add atomically.
//!
//! # Invariants
//! 1. A place is one live thread's, but for the shared one. A thread gives its place back when it
//!    ends, and the next owner sees all that it had counted.
//! 2. Sums over all places are exact once the threads are quiet, and never go back.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many threads count alone. The last place is for all the others.
const PLACES: usize = 64;

/// The place of the threads that have none of their own.
const SHARED: u8 = PLACES as u8;

/// Not asked for yet.
const UNKNOWN: u8 = u8::MAX;

/// Which places belong to a thread of this process, a bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static PLACE: Cell<u8> = const { Cell::new(UNKNOWN) };
    /// Apart from the number, so that asking for it needs no look at whether it was dropped.
    static CLAIM: Claim = Claim::new();
}

/// A thread's right to a place.
struct Claim(Option<u8>);

impl Claim {
    fn new() -> Claim {
        // Order: acquire, so that the counts of the place's last owner are seen.
        let claimed = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, |taken| {
            let free = taken.trailing_ones();
            (free < u64::BITS).then(|| taken | 1 << free)
        });
        Claim(claimed.ok().map(|before| before.trailing_ones() as u8))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        PLACE.set(SHARED);
        if let Some(place) = self.0 {
            TAKEN.fetch_and(!(1 << place), Ordering::Release);
        }
    }
}

#[cold]
fn claim_place() -> u8 {
    let claimed = CLAIM.try_with(|claim| claim.0).ok().flatten();
    let place = claimed.unwrap_or(SHARED);
    PLACE.set(place);
    place
}

/// Where the calling thread counts. It cannot go to another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u8, PhantomData<*const ()>);

impl Place {
    /// How many places there are.
    pub const COUNT: usize = PLACES + 1;

    /// That of the calling thread.
    #[inline]
    #[must_use]
    pub fn mine() -> Place {
        let place = PLACE.get();
        Place(if place == UNKNOWN { claim_place() } else { place }, PhantomData)
    }

    /// Its number, below [`Place::COUNT`].
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Adds to a counter that only this place's threads add to.
    #[inline]
    pub fn add(self, counter: &AtomicU64, amount: u64) {
        if self.0 == SHARED {
            counter.fetch_add(amount, Ordering::Relaxed);
        } else {
            // Nobody else stores here.
            let sum = counter.load(Ordering::Relaxed).wrapping_add(amount);
            counter.store(sum, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_place_and_gives_it_back() {
        let place = Place::mine();
        assert_eq!(Place::mine(), place);
        // Other tests have threads too: places come back, or these would be used up.
        for _ in 0..1000 {
            std::thread::scope(|scope| {
                scope.spawn(|| Place::mine().index());
            });
        }
        assert!(TAKEN.load(Ordering::Relaxed).count_ones() < 64);
    }
}
