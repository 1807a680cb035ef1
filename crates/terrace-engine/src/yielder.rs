//! How background work lets clients in.

use std::fmt;

use terrace_base::EntryRef;
use terrace_env::Env;

/// Lets others have the core after each this number of bytes of work.
///
/// Priorities say which thread gets more of a core, not how soon: a kernel that is built for
/// throughput (`PREEMPT_NONE`) lets a client that wakes up wait for the end of a background
/// thread's time slice, which is some milliseconds, where the whole write takes some microseconds.
/// A yield costs half a microsecond.
pub(crate) struct Yielder<'a> {
    env: &'a dyn Env,
    left_bytes: usize,
}

/// Some hundred microseconds of merging.
pub(crate) const BYTES_PER_YIELD: usize = 128 << 10;

/// What an entry costs beside its bytes, in bytes.
const ENTRY_BYTES: usize = 64;

impl<'a> Yielder<'a> {
    pub(crate) fn new(env: &'a dyn Env) -> Yielder<'a> {
        Yielder { env, left_bytes: BYTES_PER_YIELD }
    }

    /// An entry was worked on.
    #[inline]
    pub(crate) fn worked_on(&mut self, entry: &EntryRef<'_>) {
        self.worked(entry.key.len() + entry.value.len());
    }

    /// This many bytes were worked on.
    pub(crate) fn worked(&mut self, bytes: usize) {
        match self.left_bytes.checked_sub(bytes + ENTRY_BYTES) {
            Some(left_bytes) => self.left_bytes = left_bytes,
            None => {
                self.left_bytes = BYTES_PER_YIELD;
                self.env.yield_now();
            }
        }
    }
}

impl fmt::Debug for Yielder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yielder").field("left_bytes", &self.left_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use terrace_env::{SimEnv, SimOptions};

    use super::*;

    #[test]
    fn many_small_entries_count_as_few_large_ones() {
        SimEnv::run(SimOptions::new(1), |env| {
            let mut yielder = Yielder::new(env.as_ref());
            let works_until_yield = |yielder: &mut Yielder<'_>, bytes| {
                let works = (1..).find(|_| {
                    let before = yielder.left_bytes;
                    yielder.worked(bytes);
                    yielder.left_bytes >= before
                });
                works.expect("it yields at last")
            };
            assert_eq!(works_until_yield(&mut yielder, 4096), 32);
            assert_eq!(works_until_yield(&mut yielder, 0), 2049);
            assert_eq!(works_until_yield(&mut yielder, 1 << 20), 1);
            assert_eq!(yielder.left_bytes, BYTES_PER_YIELD);
        });
    }
}
