//! Memory that adds up: one limit, and named pools to which every large allocation is charged.
//!
//! # Why
//! A process that is told how much memory it may take must know where it went. Each pool is a
//! count; a holder of memory holds a [`Charge`], and giving it up is dropping it. File mappings
//! (the log's segments) are the kernel's pages and are in no pool.
//!
//! # How the limit is kept
//! ```text
//!  memory_bytes ├──────────────┬────────┬───────┬───────┬───────────────────────┤
//!               │ block cache  │ tables │ jobs  │ …     │ what is left is what  │
//!               │ its capacity │        │       │clients│ memtables may take    │
//!               └──────────────┴────────┴───────┴───────┴───────────────────────┘
//! ```
//! The cache has a bound of its own, the server another for its clients. Memtables take what the
//! others leave: the nearer they come to it, the slower the gate lets writers in, and at the limit
//! it stops them until a flush has made room. So what grows makes the writers slower, and nothing
//! is refused for lack of memory. Two memtables a range are always allowed, or nothing would move.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cache::BlockCache;

/// What memory is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PoolName {
    /// Memtables, active and frozen, and those that a reader still holds.
    Memtables,
    /// Blocks of tables, for reads to come.
    BlockCache,
    /// Filters, indexes and range tombstones of open tables.
    Tables,
    /// Blocks that iterators stand in.
    Iterators,
    /// Buffers of flushes and compactions, and what they know of the tables that they write.
    Jobs,
    /// Lookup indexes.
    LookupIndex,
    /// What is known of the blocks that lie in persistent caches.
    PersistentCache,
    /// Requests and replies of a server's clients.
    Clients,
}

impl PoolName {
    /// All of them.
    pub const ALL: [PoolName; 8] = [
        PoolName::Memtables,
        PoolName::BlockCache,
        PoolName::Tables,
        PoolName::Iterators,
        PoolName::Jobs,
        PoolName::LookupIndex,
        PoolName::PersistentCache,
        PoolName::Clients,
    ];

    /// Its name in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PoolName::Memtables => "memtables",
            PoolName::BlockCache => "block_cache",
            PoolName::Tables => "tables",
            PoolName::Iterators => "iterators",
            PoolName::Jobs => "jobs",
            PoolName::LookupIndex => "lookup_index",
            PoolName::PersistentCache => "persistent_cache",
            PoolName::Clients => "clients",
        }
    }
}

/// A count of bytes that are taken for one purpose. Clones are the same pool; one by
/// [`MemoryPool::default`] belongs to nothing, for what nobody adds up.
#[derive(Clone, Debug, Default)]
pub struct MemoryPool {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    used: AtomicU64,
    peak: AtomicU64,
}

impl MemoryPool {
    /// Takes `bytes` from the pool until the charge is dropped.
    #[must_use]
    pub fn charge(&self, bytes: u64) -> Charge {
        let charge = Charge { pool: self.clone(), bytes: AtomicU64::new(0) };
        charge.set(bytes);
        charge
    }

    /// What is taken now, in bytes.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.counts.used.load(Ordering::Relaxed)
    }

    /// The most that was taken at a time.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.counts.peak.load(Ordering::Relaxed)
    }

    fn change(&self, before: u64, after: u64) {
        // Order: relaxed, since the counts say nothing of what lies in the memory.
        if after >= before {
            let used = self.counts.used.fetch_add(after - before, Ordering::Relaxed);
            self.counts.peak.fetch_max(used + (after - before), Ordering::Relaxed);
        } else {
            self.counts.used.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}

/// Memory that is taken from a pool, and given back when this is dropped.
#[derive(Debug)]
pub struct Charge {
    pool: MemoryPool,
    bytes: AtomicU64,
}

impl Charge {
    /// What is taken is `bytes` from now on. Any thread may say so; the last one holds.
    pub fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.pool.change(before, bytes);
    }

    /// What is taken, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.pool.change(*self.bytes.get_mut(), 0);
    }
}

/// The memory of a process.
#[derive(Debug)]
pub struct Memory {
    limit_bytes: AtomicU64,
    pools: [MemoryPool; PoolName::ALL.len()],
    cache: Arc<BlockCache>,
}

impl Memory {
    /// Pools under one limit. The cache counts its bytes by itself.
    #[must_use]
    pub fn new(limit_bytes: u64, cache: &Arc<BlockCache>) -> Memory {
        let limit_bytes = AtomicU64::new(limit_bytes);
        Memory { limit_bytes, pools: Default::default(), cache: Arc::clone(cache) }
    }

    /// The pool of this name.
    #[must_use]
    pub fn pool(&self, name: PoolName) -> &MemoryPool {
        &self.pools[name as usize]
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes the limit. Each range rules on its writers anew at the next change of its debt.
    pub fn set_limit_bytes(&self, limit_bytes: u64) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// What is left for memtables, in bytes.
    #[must_use]
    pub fn memtable_bytes_max(&self) -> u64 {
        let others = PoolName::ALL.into_iter().filter(|name| *name != PoolName::Memtables);
        let taken: u64 = others.map(|name| self.pool(name).used_bytes()).sum();
        self.limit_bytes().saturating_sub(taken.saturating_add(self.cache.capacity_bytes()))
    }

    /// What the pools hold.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        // The cache knows what it holds, and has no peak of its own: so looks at it make one.
        let cache = self.pool(PoolName::BlockCache);
        let cached = self.cache.used_bytes();
        cache.counts.peak.fetch_max(cached, Ordering::Relaxed);
        let pools: BTreeMap<_, _> = PoolName::ALL
            .into_iter()
            .map(|name| {
                let pool = self.pool(name);
                let own = if name == PoolName::BlockCache { cached } else { 0 };
                let used_bytes = pool.used_bytes() + own;
                (name.name(), PoolStats { used_bytes, peak_bytes: pool.peak_bytes() })
            })
            .collect();
        MemoryStats {
            limit_bytes: self.limit_bytes(),
            used_bytes: pools.values().map(|pool| pool.used_bytes).sum(),
            pools,
        }
    }
}

/// What the memory of a process is taken for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryStats {
    /// How much there may be, in bytes.
    pub limit_bytes: u64,
    /// The sum of the pools, in bytes.
    pub used_bytes: u64,
    /// The pools by their names: every one is there.
    pub pools: BTreeMap<&'static str, PoolStats>,
}

/// One pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PoolStats {
    /// What is taken, in bytes.
    pub used_bytes: u64,
    /// The most that was taken at a time. Of memtables, iterators and the cache: the most that a
    /// look at them met.
    pub peak_bytes: u64,
}

impl fmt::Display for MemoryStats {
    /// One line a pool, after the sum.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "  memory         {:.1} MiB of {:.1} MiB",
            mib(self.used_bytes),
            mib(self.limit_bytes)
        )?;
        for name in PoolName::ALL {
            let name = name.name();
            let Some(pool) = self.pools.get(name) else { continue };
            let (used, peak) = (mib(pool.used_bytes), mib(pool.peak_bytes));
            writeln!(f, "    {name:<14} {used:10.1} MiB, at most {peak:.1} MiB")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(limit_bytes: u64, cache_bytes: u64) -> Memory {
        Memory::new(limit_bytes, &Arc::new(BlockCache::new(cache_bytes)))
    }

    #[test]
    fn what_is_charged_is_given_back() {
        let memory = memory(1 << 30, 0);
        let tables = memory.pool(PoolName::Tables);
        let first = tables.charge(100);
        let second = tables.charge(50);
        first.set(30);
        assert_eq!((tables.used_bytes(), tables.peak_bytes(), first.bytes()), (80, 150, 30));
        drop(first);
        assert_eq!(memory.stats().used_bytes, 50);
        drop(second);
        let stats = memory.stats();
        assert_eq!(stats.used_bytes, 0);
        assert_eq!(stats.pools["tables"], PoolStats { used_bytes: 0, peak_bytes: 150 });
        assert_eq!(MemoryPool::default().used_bytes(), 0);
    }

    #[test]
    fn the_sum_is_the_sum_of_the_pools_with_the_cache() {
        let memory = memory(1 << 30, 1 << 20);
        let _clients = memory.pool(PoolName::Clients).charge(1000);
        memory.cache.insert(terrace_base::TableUid(1), 0, vec![0; 4096].into());
        let stats = memory.stats();
        assert_eq!(stats.pools.len(), PoolName::ALL.len());
        assert_eq!(stats.pools["block_cache"].used_bytes, memory.cache.used_bytes());
        assert_eq!(stats.used_bytes, 1000 + memory.cache.used_bytes());
        assert!(stats.to_string().contains("clients"));
    }

    #[test]
    fn memtables_have_what_the_others_leave() {
        let memory = memory(1000, 400);
        assert_eq!(memory.memtable_bytes_max(), 600);
        let jobs = memory.pool(PoolName::Jobs).charge(500);
        let _own = memory.pool(PoolName::Memtables).charge(99);
        assert_eq!(memory.memtable_bytes_max(), 100);
        jobs.set(5000);
        assert_eq!(memory.memtable_bytes_max(), 0);
    }
}
