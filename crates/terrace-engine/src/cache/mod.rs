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
//! # Slots
//! A look-up here costs four cache misses of its own, more than the block that it finds. So an open
//! table has a slot for each of its blocks (`slots.rs`), in which a look-up that found the block
//! leaves a reference to it, and later reads begin there.
//!
//! ```text
//!   index ──► slot ──────────────────────────► block     most reads
//!              ▲  └─ empty, or of an older turn:          a few times while a block is cached
//!              │     key ──► shard ──► entry ──► block
//!              └───── left there ◄───────┘ │
//!              └───── cleared ◄────── evicted             by the slot that the entry names
//! ```
//! The policy must know what is read. So the cache counts *turns*: one ends when blocks of an
//! eighth of its capacity have been inserted. A slot of an older turn sends its reader to the
//! cache once, where the block is marked as read. While nothing is inserted, no turn ends, nothing
//! is evicted, and nobody has to look anything up.
//!
//! # Invariants
//! 1. A key is (table uid, offset of the block). Uids are never reused, so an entry is never wrong
//!    and nothing is ever invalidated; blocks of deleted tables age out.
//! 2. The same calls in the same order leave the same blocks: hashes and the number of shards do
//!    not depend on the run or on the machine.
//! 3. No lock of the cache is held across a call of the environment, and no thread waits for
//!    another to load a block: two that miss at once both read it.
//! 4. A slot holds no block that the cache does not hold, but for the moments in which one thread
//!    is about to clear it. Who puts a block into a slot looks afterwards whether the cache still
//!    has it, and who evicts one clears its slot afterwards: whichever comes second sees the other
//!    (`models.rs`).

pub mod persistent;
mod slots;

#[cfg(all(test, terrace_loom))]
mod models;

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use smallvec::SmallVec;
use terrace_base::TableUid;
use terrace_env::{PlantedBug, is_planted, yield_point};

use slots::SlotOf;

pub use slots::{BlockPeek, BlockSlots};

/// More shards than a machine of today has threads at work on one; each has its own lock.
const SHARDS: usize = 16;

/// How large blocks usually are: the cache sizes its tables by it.
const TYPICAL_BLOCK_BYTES: u64 = 4096;

/// What an entry costs beside the bytes of its block, roughly.
const ENTRY_OVERHEAD_BYTES: u64 = 96;

/// How many turns there are while blocks of the whole capacity are inserted: so often, at the most,
/// a block that is read all the time is looked up until it would be evicted.
const TURNS: u64 = 8;

/// A cache of decoded blocks, bounded by bytes. Any number of threads may use it at once.
pub struct BlockCache {
    blocks: Cache<BlockKey, Cached, ByBytes, FixedHash, Evicting>,
    capacity_bytes: AtomicU64,
    inserted_bytes: AtomicU64,
    turn: AtomicU32,
    counters: [Counters; SHARDS],
    /// Taken before each call of `blocks`, of whose locks a model does not know.
    #[cfg(terrace_loom)]
    steps: terrace_env::Latch<()>,
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
        BlockCache {
            blocks: Cache::with_options(options, ByBytes, FixedHash, Evicting),
            capacity_bytes: AtomicU64::new(capacity_bytes),
            inserted_bytes: AtomicU64::new(0),
            turn: AtomicU32::new(0),
            counters: Default::default(),
            #[cfg(terrace_loom)]
            steps: terrace_env::Latch::new(()),
        }
    }

    /// Another thread may come now.
    #[inline]
    fn step(&self) {
        #[cfg(terrace_loom)]
        drop(self.steps.lock());
        yield_point();
    }

    /// The block at `offset` of a table, if it is cached; counted as a hit or a miss.
    ///
    /// Cost: one lookup and one reference count, no copy.
    #[must_use]
    #[inline]
    pub fn get(&self, uid: TableUid, offset: u64) -> Option<Arc<[u8]>> {
        self.look_up(&BlockKey::new(uid, offset)).map(|cached| cached.block)
    }

    /// The block with this index of an open table, which begins at the offset that `place` tells,
    /// if it is cached; counted as a hit or a miss.
    ///
    /// Cost: one cache line and one reference count; in the first reads of a block, and once in a
    /// turn, a lookup.
    #[must_use]
    #[inline]
    pub fn get_at(
        &self,
        slots: &Arc<BlockSlots>,
        index: usize,
        place: impl FnOnce() -> (TableUid, u64),
    ) -> Option<Arc<[u8]>> {
        if let Some(block) = slots.get(index, self.turn.load(Ordering::Relaxed)) {
            self.counters[index % SHARDS].hits.fetch_add(1, Ordering::Relaxed);
            return Some(block);
        }
        let (uid, offset) = place();
        self.look_up_at(slots, index, BlockKey::new(uid, offset))
    }

    /// Keeps a block that nobody has read yet, at the cost of others. The block is what the table
    /// holds at `offset`.
    pub fn insert(&self, uid: TableUid, offset: u64, block: Arc<[u8]>) {
        self.keep(BlockKey::new(uid, offset), Cached { block, slot: None });
    }

    /// As [`BlockCache::insert`], for the block with this index of an open table.
    pub fn insert_at(
        &self,
        slots: &Arc<BlockSlots>,
        index: usize,
        (uid, offset): (TableUid, u64),
        block: Arc<[u8]>,
    ) {
        let slot = SlotOf::new(slots, index);
        self.keep(BlockKey::new(uid, offset), Cached { block, slot });
    }

    #[inline]
    fn look_up(&self, key: &BlockKey) -> Option<Cached> {
        let counters = &self.counters[(key.hashed() >> 32) as usize % SHARDS];
        self.step();
        let cached = self.blocks.get(key);
        let counter = if cached.is_some() { &counters.hits } else { &counters.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        cached
    }

    /// Looks a block up that its slot did not have, and leaves it there.
    #[inline(never)]
    fn look_up_at(
        &self,
        slots: &Arc<BlockSlots>,
        index: usize,
        key: BlockKey,
    ) -> Option<Arc<[u8]>> {
        let Cached { block, slot } = self.look_up(&key)?;
        match slot {
            Some(slot) if slot.is(slots, index) => self.leave(key, slots, index, &block),
            // It was kept as it was written, or the table was opened anew since.
            slot if slot.as_ref().is_none_or(SlotOf::is_gone) => {
                let slot = SlotOf::new(slots, index);
                self.blocks.insert(key, Cached { block: Arc::clone(&block), slot });
            }
            // Another reader of the same file: an entry names one slot.
            _ => {}
        }
        Some(block)
    }

    /// Leaves a block that was found in the cache in its slot.
    fn leave(&self, key: BlockKey, slots: &Arc<BlockSlots>, index: usize, block: &Arc<[u8]>) {
        let turn = self.turn.load(Ordering::Relaxed);
        if slots.put(index, block, turn) || is_planted(PlantedBug::SlotKeepsEvicted) {
            return;
        }
        // Order: the slot first. Whoever evicts the block from now on finds it there.
        if !self.holds(key, block) {
            slots.clear(index, block);
        }
    }

    /// Whether the block at `offset` of a table is cached and was read since it is. The look is not
    /// counted, and does not mark it as read.
    #[must_use]
    pub fn was_read(&self, uid: TableUid, offset: u64) -> bool {
        self.step();
        let cached = self.blocks.peek(&BlockKey::new(uid, offset));
        cached.is_some_and(|cached| cached.slot.is_some())
    }

    /// Whether the cache has this very block; not counted, and not marked as read.
    fn holds(&self, key: BlockKey, block: &Arc<[u8]>) -> bool {
        self.step();
        self.blocks.peek(&key).is_some_and(|cached| Arc::ptr_eq(&cached.block, block))
    }

    fn keep(&self, key: BlockKey, cached: Cached) {
        let bytes = cached.weight();
        let turn_bytes = (self.capacity_bytes() / TURNS).max(1);
        let before = self.inserted_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before / turn_bytes != before.wrapping_add(bytes) / turn_bytes {
            self.turn.fetch_add(1, Ordering::Relaxed);
        }
        self.step();
        self.blocks.insert(key, cached);
    }

    /// How many of these slots hold a block that the cache does not: none, unless another thread is
    /// at work. `offset`: where the block with an index begins.
    #[must_use]
    pub fn stray_count(
        &self,
        slots: &BlockSlots,
        uid: TableUid,
        offset: impl Fn(usize) -> u64,
    ) -> usize {
        let is_stray = |(index, block): &(usize, Arc<[u8]>)| {
            !self.holds(BlockKey::new(uid, offset(*index)), block)
        };
        slots.kept().filter(is_stray).count()
    }

    /// How many bytes it may hold.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// From now on it holds at most about `capacity_bytes`: what is more goes at once.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        self.step();
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
pub(crate) struct FixedHash;

#[derive(Default)]
pub(crate) struct MixedHash(u64);

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

/// What the cache holds: a block, and its slot in an open table.
#[derive(Clone)]
struct Cached {
    block: Arc<[u8]>,
    slot: Option<SlotOf>,
}

impl Cached {
    fn weight(&self) -> u64 {
        self.block.len() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

#[derive(Clone, Copy)]
struct ByBytes;

impl Weighter<BlockKey, Cached> for ByBytes {
    fn weight(&self, _: &BlockKey, cached: &Cached) -> u64 {
        cached.weight()
    }
}

/// What becomes of evicted blocks.
#[derive(Clone, Copy)]
struct Evicting;

/// The blocks that one call has evicted.
#[derive(Default)]
struct Evicted(SmallVec<[Cached; 2]>);

impl Lifecycle<BlockKey, Cached> for Evicting {
    type RequestState = Evicted;

    fn on_evict(&self, evicted: &mut Evicted, _: BlockKey, cached: Cached) {
        evicted.0.push(cached);
    }
}

impl Drop for Evicted {
    /// Runs after the shard's lock was released.
    fn drop(&mut self) {
        if is_planted(PlantedBug::SlotKeepsEvicted) {
            return;
        }
        for Cached { block, slot } in &self.0 {
            slot.iter().for_each(|slot| slot.clear(block));
        }
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

    fn slots(count: usize) -> Arc<BlockSlots> {
        Arc::new(BlockSlots::new(count))
    }

    /// A read of the block at index `number` of table 1: whether it was cached.
    fn read(cache: &BlockCache, slots: &Arc<BlockSlots>, number: usize) -> bool {
        let place = (TableUid(1), number as u64 * 4096);
        let cached = cache.get_at(slots, number, || place);
        if cached.is_none() {
            cache.insert_at(slots, number, place, block(4096, number as u8));
        }
        assert!(cached.as_ref().is_none_or(|block| block[9] == number as u8), "another block");
        assert_eq!(cache.stray_count(slots, TableUid(1), |number| number as u64 * 4096), 0);
        cached.is_some()
    }

    #[test]
    fn a_block_that_was_read_twice_is_found_without_a_look_up() {
        let (cache, slots) = (BlockCache::new(1 << 20), slots(1));
        let place = (TableUid(1), 4096);
        assert!(cache.get_at(&slots, 0, || place).is_none());
        cache.insert_at(&slots, 0, place, block(100, 7));
        assert!(cache.get_at(&slots, 0, || place).is_some());
        let found = cache.get_at(&slots, 0, || panic!("it lies in its slot"));
        assert_eq!(found.unwrap()[99], 7);
        assert_eq!((cache.hits(), cache.misses()), (2, 1));
        cache.set_capacity_bytes(0);
        assert!(cache.get_at(&slots, 0, || place).is_none(), "evicted");
    }

    #[test]
    fn a_table_that_is_opened_anew_takes_over_its_cached_blocks() {
        let cache = BlockCache::new(1 << 20);
        let first = slots(1);
        assert!(!read(&cache, &first, 0) && read(&cache, &first, 0));
        // A second reader of the same file leaves the first one its slot.
        let second = slots(1);
        assert!(read(&cache, &second, 0) && read(&cache, &second, 0));
        assert_eq!((first.kept().count(), second.kept().count()), (1, 0));
        drop(first);
        assert!(read(&cache, &second, 0) && read(&cache, &second, 0));
        assert_eq!(second.kept().count(), 1);
        cache.set_capacity_bytes(0);
        assert_eq!(second.kept().count(), 0);
    }

    #[test]
    fn blocks_that_are_read_in_their_slots_are_not_evicted_before_others() {
        let (cache, slots) = (BlockCache::new(1 << 20), slots(4000));
        // Turns end while others come and go: nothing but slots tells that the hot ones are read.
        let mut hits = 0;
        for round in 0..3600 {
            hits += u32::from(read(&cache, &slots, round % 100));
            read(&cache, &slots, 100 + round);
        }
        assert!(hits > 3400, "{hits} of 3,600 reads of hot blocks");
    }

    #[test]
    fn a_cache_without_capacity_keeps_nothing() {
        let cache = BlockCache::new(0);
        cache.insert(TableUid(1), 0, block(10, 1));
        assert!(cache.get(TableUid(1), 0).is_none());
    }
}
