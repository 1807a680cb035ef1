use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace::{MemoryCharge, MemoryPool};

/// What a connection may hold without asking: buffers of ordinary requests and replies.
pub(crate) const FREE_BYTES: usize = 64 * 1024;

/// A bound on the memory that all connections hold together, beyond [`FREE_BYTES`] each; all that
/// they hold is told to the database's pool of that name.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    bytes_max: usize,
    pool: MemoryPool,
}

impl Budget {
    pub(crate) fn new(bytes_max: usize, pool: MemoryPool) -> Arc<Budget> {
        Arc::new(Budget { used: AtomicUsize::new(0), bytes_max, pool })
    }

    /// What is charged now, in bytes.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// One connection's share of a [`Budget`]; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
    /// All that the connection holds.
    held: MemoryCharge,
}

impl Charge {
    pub(crate) fn new(budget: &Arc<Budget>) -> Charge {
        Charge { budget: budget.clone(), bytes: 0, held: budget.pool.charge(0) }
    }

    /// Charges for holding `held_bytes` from now on; whether the budget allows it.
    pub(crate) fn set(&mut self, held_bytes: usize) -> bool {
        self.held.set(held_bytes as u64);
        let bytes = held_bytes.saturating_sub(FREE_BYTES);
        let before = std::mem::replace(&mut self.bytes, bytes);
        if bytes <= before {
            if bytes < before {
                self.budget.used.fetch_sub(before - bytes, Ordering::Relaxed);
            }
            return true;
        }
        let used = self.budget.used.fetch_add(bytes - before, Ordering::Relaxed);
        used + (bytes - before) <= self.budget.bytes_max
    }

    /// Charges for `bytes` that are about to be taken, until the next [`Charge::set`]; whether the
    /// budget allows it. If not, nothing is charged. Few bytes need not ask.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        if bytes <= FREE_BYTES {
            return true;
        }
        let used = self.budget.used.fetch_add(bytes, Ordering::Relaxed);
        if used + bytes > self.budget.bytes_max {
            self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        self.held.set(self.held.bytes() + bytes as u64);
        true
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_one_budget_and_give_it_back() {
        let pool = MemoryPool::default();
        let budget = Budget::new(1000, pool.clone());
        let mut first = Charge::new(&budget);
        let mut second = Charge::new(&budget);
        assert!(first.set(FREE_BYTES) && first.set(FREE_BYTES + 600));
        assert!(!second.set(FREE_BYTES + 600));
        assert_eq!(pool.used_bytes(), 2 * (FREE_BYTES as u64 + 600), "all of it counts");
        assert!(!second.add(FREE_BYTES + 1) && second.add(FREE_BYTES));
        assert!(first.set(0));
        assert!(second.set(FREE_BYTES + 601));
        drop(second);
        assert_eq!(budget.used_bytes(), 0);
        drop(first);
        assert_eq!(pool.used_bytes(), 0);
    }
}
