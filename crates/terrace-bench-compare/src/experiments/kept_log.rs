//! How long the log gets behind the newest moment in the object store, while a step runs: what
//! whoever takes the database over would have to replay.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::engines::Peer;

/// The field of a report with the most megabytes at any look.
pub const MB_MOST: &str = "log_mb_most";

/// How often the store is asked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs `work`, and asks the store meanwhile how long its log is: the most at any look is `most`,
/// unless it does not tell.
pub fn watch<T>(store: &dyn Peer, most: &mut Option<u64>, work: impl FnOnce() -> T) -> T {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut most = None;
            loop {
                let is_last = is_done.load(Ordering::Acquire);
                most = most.max(store.kept_log_bytes());
                if is_last {
                    return most;
                }
                std::thread::park_timeout(LOOK_EVERY);
            }
        });
        let outcome = work();
        is_done.store(true, Ordering::Release);
        looking.thread().unpark();
        *most = looking.join().unwrap_or(None);
        outcome
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use terrace_bench::{Counters, Store, StoreError};

    use super::*;

    /// A store of which only the log is looked at.
    struct Growing(AtomicU64);

    impl Store for Growing {
        fn get(&self, _key: &[u8]) -> Result<Option<usize>, StoreError> {
            Ok(None)
        }

        fn put(&self, _key: &[u8], _value: &[u8]) -> Result<(), StoreError> {
            Ok(())
        }

        fn scan(&self, _start: &[u8], _count: u64) -> Result<u64, StoreError> {
            Ok(0)
        }

        fn counters(&self) -> Option<Counters> {
            None
        }
    }

    impl Peer for Growing {
        fn settle(&self) -> Result<(), StoreError> {
            Ok(())
        }

        fn kept_log_bytes(&self) -> Option<u64> {
            Some(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn the_end_of_a_step_is_looked_at_too() {
        let (store, mut most) = (Growing(AtomicU64::new(3)), None);
        let seven = watch(&store, &mut most, || {
            store.0.store(9, Ordering::Relaxed);
            7
        });
        assert_eq!((seven, most), (7, Some(9)));
    }
}
