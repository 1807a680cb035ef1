//! The block cache: decoded blocks of tables in memory, shared by all ranges of a process.
//!
//! # Why
//! A read from the cache must cost a few cache misses and no copy: a block lies behind one
//! reference count, readers pin it by holding a reference, and its bytes follow the count in
//! memory.
//!
//! # Policy
//! The policy is that of the `quick_cache` crate, a clock with a cold and a hot part and a memory
//! of recently evicted keys: what was read once is evicted from the cold part before it displaces
//! what is read again and again. So scans insert what they read as gets do, and cannot flush the
//! cache; compactions read past the cache altogether.
//!
//! # Invariants
//! 1. A key is (table uid, offset of the block). Uids are never reused, so an entry is never wrong
//!    and nothing is ever invalidated; blocks of deleted tables age out.
//! 2. The same calls in the same order leave the same blocks: hashes and the number of shards do
//!    not depend on the run or on the machine.
//! 3. No lock of the cache is held across a call of the environment, and no thread waits for
//!    another to load a block: two that miss at once both read it.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use terrace_base::TableUid;
use terrace_env::{PlantedBug, is_planted};

/// More shards than a machine of today has threads at work on one; each has its own lock.
const SHARDS: usize = 16;

/// How large blocks usually are: the cache sizes its tables by it.
const TYPICAL_BLOCK_BYTES: u64 = 4096;

/// What an entry costs beside the bytes of its block, roughly.
const ENTRY_OVERHEAD_BYTES: u64 = 80;

/// A cache of decoded blocks, bounded by bytes. Any number of threads may use it at once.
pub struct BlockCache {
    blocks: Cache<BlockKey, Arc<[u8]>, ByBytes, FixedHash>,
    capacity_bytes: AtomicU64,
    counters: [Counters; SHARDS],
}

impl BlockCache {
    /// A cache that holds at most about `capacity_bytes` bytes. A block larger than its shard of
    /// the capacity is not kept at all; a capacity of 0 keeps none.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> BlockCache {
        let items = usize::try_from(capacity_bytes / TYPICAL_BLOCK_BYTES).unwrap_or(usize::MAX);
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(items)
            .weight_capacity(capacity_bytes)
            .build()
            .expect("the two capacities that must be set are set");
        let blocks = Cache::with_options(options, ByBytes, FixedHash, DefaultLifecycle::default());
        let capacity_bytes = AtomicU64::new(capacity_bytes);
        BlockCache { blocks, capacity_bytes, counters: Default::default() }
    }

    /// The block at `offset` of a table, if it is cached; counted as a hit or a miss.
    ///
    /// Cost: one lookup and one reference count, no copy.
    #[must_use]
    #[inline]
    pub fn get(&self, uid: TableUid, offset: u64) -> Option<Arc<[u8]>> {
        let key = BlockKey::new(uid, offset);
        let counters = &self.counters[(key.hashed() >> 32) as usize % SHARDS];
        let block = self.blocks.get(&key);
        let counter = if block.is_some() { &counters.hits } else { &counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        block
    }

    /// Keeps a block, at the cost of others. The block is what the table holds at `offset`.
    pub fn insert(&self, uid: TableUid, offset: u64, block: Arc<[u8]>) {
        self.blocks.insert(BlockKey::new(uid, offset), block);
    }

    /// How many bytes it may hold.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// From now on it holds at most about `capacity_bytes`: what is more goes at once.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        self.blocks.set_capacity(capacity_bytes);
        self.capacity_bytes.store(capacity_bytes, Ordering::Relaxed);
    }

    /// How many bytes it holds, bookkeeping included.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.blocks.weight()
    }

    /// How many lookups found their block.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.counters.iter().map(|counters| counters.hits.load(Ordering::Relaxed)).sum()
    }

    /// How many lookups did not.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.counters.iter().map(|counters| counters.misses.load(Ordering::Relaxed)).sum()
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockCache")
            .field("capacity_bytes", &self.capacity_bytes())
            .field("used_bytes", &self.used_bytes())
            .field("hits", &self.hits())
            .field("misses", &self.misses())
            .finish()
    }
}

/// Counters of one shard, alone on their cache line, so that threads do not fight for it.
#[derive(Default)]
#[repr(align(64))]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// A table and an offset in it, mixed into 128 bits, so that an entry of the cache is small.
///
/// For one table different offsets give different keys, since the multiplier is odd. Two tables of
/// a million blocks each share a key with a chance of 2^-88, since uids are random.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BlockKey([u64; 2]);

impl BlockKey {
    #[inline]
    fn new(uid: TableUid, offset: u64) -> BlockKey {
        let uid = if is_planted(PlantedBug::StaleBlock) { TableUid(uid.0 & 0x3f) } else { uid };
        let mixed =
            uid.0 ^ u128::from(offset).wrapping_mul(0xa076_1d64_78bd_642f_e703_7ed1_a0b4_28db);
        BlockKey([mixed as u64, (mixed >> 64) as u64])
    }

    /// The bits mixed further into 64.
    #[inline]
    fn hashed(self) -> u64 {
        let product = u128::from(self.0[0] ^ self.0[1].rotate_left(32)) * 0x9e37_79b9_7f4a_7c15;
        product as u64 ^ (product >> 64) as u64
    }
}

impl Hash for BlockKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hashed());
    }
}

/// Hands through the hash that a key has already computed.
#[derive(Clone, Copy, Default)]
struct FixedHash;

#[derive(Default)]
struct MixedHash(u64);

impl BuildHasher for FixedHash {
    type Hasher = MixedHash;

    #[inline]
    fn build_hasher(&self) -> MixedHash {
        MixedHash(0)
    }
}

impl Hasher for MixedHash {
    #[inline]
    fn write_u64(&mut self, mixed: u64) {
        self.0 = mixed;
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy)]
struct ByBytes;

impl Weighter<BlockKey, Arc<[u8]>> for ByBytes {
    fn weight(&self, _: &BlockKey, block: &Arc<[u8]>) -> u64 {
        block.len() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: usize, fill: u8) -> Arc<[u8]> {
        vec![fill; bytes].into()
    }

    #[test]
    fn blocks_are_found_by_table_and_offset_and_counted() {
        let cache = BlockCache::new(1 << 20);
        cache.insert(TableUid(1), 0, block(100, 1));
        cache.insert(TableUid(1), 4096, block(100, 2));
        cache.insert(TableUid(2), 0, block(100, 3));
        assert_eq!(cache.get(TableUid(1), 0).unwrap()[0], 1);
        assert_eq!(cache.get(TableUid(1), 4096).unwrap()[0], 2);
        assert_eq!(cache.get(TableUid(2), 0).unwrap()[0], 3);
        assert!(cache.get(TableUid(2), 4096).is_none());
        assert_eq!((cache.hits(), cache.misses()), (3, 1));
        assert_eq!(cache.used_bytes(), 300 + 3 * ENTRY_OVERHEAD_BYTES);
    }

    #[test]
    fn the_capacity_bounds_the_bytes_and_pinned_blocks_outlive_eviction() {
        let cache = BlockCache::new(1 << 20);
        cache.insert(TableUid(0), 7, block(4096, 9));
        let pinned = cache.get(TableUid(0), 7).unwrap();
        for number in 0..2000 {
            cache.insert(TableUid(1), number * 4096, block(4096, 0));
            assert!(cache.used_bytes() <= cache.capacity_bytes());
        }
        assert!(cache.used_bytes() > cache.capacity_bytes() / 2);
        assert_eq!(pinned[4095], 9);
    }

    #[test]
    fn a_scan_does_not_flush_what_is_read_again_and_again() {
        let cache = BlockCache::new(1 << 20);
        let hot = 0..100u64;
        for _ in 0..5 {
            for number in hot.clone() {
                if cache.get(TableUid(1), number).is_none() {
                    cache.insert(TableUid(1), number, block(4096, 0));
                }
            }
        }
        for number in 0..5000 {
            assert!(cache.get(TableUid(2), number).is_none());
            cache.insert(TableUid(2), number, block(4096, 0));
        }
        let left = hot.filter(|number| cache.get(TableUid(1), *number).is_some()).count();
        assert!(left >= 90, "{left} of 100 hot blocks survived");
    }

    #[test]
    fn the_same_calls_leave_the_same_blocks() {
        let run = || {
            let cache = BlockCache::new(300_000);
            let mut state = 7u64;
            let mut hits = Vec::new();
            for _ in 0..20_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = (state >> 33) % 200 * ((state >> 60) + 1);
                hits.push(cache.get(TableUid(3), number).is_some());
                cache.insert(TableUid(3), number, block(1000, 0));
            }
            hits
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn a_new_capacity_bounds_what_is_there_and_what_comes() {
        let cache = BlockCache::new(1 << 20);
        let fill = |from: u64| {
            for number in from..from + 1000 {
                cache.insert(TableUid(1), number * 4096, block(4000, 1));
            }
            cache.used_bytes()
        };
        assert!(fill(0) > 900 << 10);
        cache.set_capacity_bytes(128 << 10);
        assert!(cache.used_bytes() <= 128 << 10, "{}", cache.used_bytes());
        assert!(fill(1000) <= 128 << 10);
        cache.set_capacity_bytes(2 << 20);
        let used = fill(2000);
        assert!((1 << 20..=2 << 20).contains(&used), "{used}");
        cache.set_capacity_bytes(0);
        assert_eq!(fill(3000), 0);
    }

    #[test]
    fn a_cache_without_capacity_keeps_nothing() {
        let cache = BlockCache::new(0);
        cache.insert(TableUid(1), 0, block(10, 1));
        assert!(cache.get(TableUid(1), 0).is_none());
    }
}
