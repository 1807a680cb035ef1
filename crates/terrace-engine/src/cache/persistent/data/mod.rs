//! The data cache: blocks of far tables that were read, on the local disk.
//!
//! What is common to all designs of it is here: its options, its counts, and what it promises.
//! Terrace's own design is in `buckets.rs`; those that it is compared with are in `baselines/`.
//!
//! *Source:* RocksMash (TACO 2022), section 3.2. The size follows what is left of the local bytes
//! (`store/upkeep/near.rs`).

mod baselines;
mod bucket;
mod buckets;
mod slots;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{CacheDirectory, FoundFile};
use crate::explain::text::{bytes, count, percent};
use crate::options::NearDesign;
use crate::process::MemoryPool;
use crate::table::ByteInterval;
use buckets::Buckets;

/// How the data cache is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataCacheOptions {
    /// The most bytes of disk that it may ever take; without it the cache stays as large as an
    /// earlier open has left it. It has a bucket for each `bucket_bytes` of them.
    pub bytes_max: Option<u64>,
    /// The most bytes of a bucket, unless there would be more than 16,384 of them; 8 MiB in the
    /// paper.
    pub bucket_bytes: u64,
    /// Bytes of a slot: as many as most blocks have with what surrounds them.
    pub slot_bytes: u32,
    /// How blocks are kept: in buckets, but for baselines.
    pub design: NearDesign,
    /// Whether blocks come with those beside them while there is room.
    pub takes_neighbours: bool,
}

impl DataCacheOptions {
    /// Bytes of a bucket, unless somebody asks for others.
    pub const BUCKET_BYTES: u64 = 8 << 20;

    /// What surrounds a block in its table, and a little more, so that slots begin at multiples of
    /// a cache line.
    const FRAME_BYTES: u32 = 64;

    /// A cache for tables with blocks of `block_bytes`, which a compression, if there is one, makes
    /// about half as large.
    #[must_use]
    pub fn for_blocks(
        bytes_max: Option<u64>,
        block_bytes: usize,
        is_compressed: bool,
        design: NearDesign,
    ) -> DataCacheOptions {
        // A block is at most a megabyte; one larger than a slot takes several.
        let block_bytes = block_bytes.clamp(1024, 64 << 10) as u32;
        let stored = if is_compressed { block_bytes / 2 } else { block_bytes };
        let slot_bytes = stored + DataCacheOptions::FRAME_BYTES;
        let bucket_bytes = DataCacheOptions::BUCKET_BYTES;
        DataCacheOptions { bytes_max, bucket_bytes, slot_bytes, design, takes_neighbours: true }
    }
}

/// What the data cache has done since the open, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DataCacheStats {
    /// Blocks that were there when a read asked for them.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Blocks that were put there.
    pub admitted: u64,
    /// Of these, because what a compaction read was there.
    pub inherited: u64,
    /// Blocks that came with those beside them, since there was room; not among the admitted.
    pub neighbours: u64,
    /// Slots that were taken from a block for another one.
    pub evicted: u64,
    /// Slots whose table was deleted.
    pub invalidated: u64,
    /// Slots that went because the cache became smaller.
    pub squeezed: u64,
    /// Slots whose bytes were not what was written there.
    pub damaged: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Bytes that it may take at the moment.
    pub bytes_max: u64,
}

impl fmt::Display for DataCacheStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", bytes(self.bytes), bytes(self.bytes_max))?;
        let reads = self.hits + self.misses;
        if reads > 0 {
            write!(f, "; {} of {reads} reads found their block", percent(self.hits, reads))?;
        }
        if self.damaged > 0 {
            write!(f, "; {} damaged", count(self.damaged, "block", "blocks"))?;
        }
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    admitted: AtomicU64,
    inherited: AtomicU64,
    neighbours: AtomicU64,
    evicted: AtomicU64,
    invalidated: AtomicU64,
    squeezed: AtomicU64,
    damaged: AtomicU64,
}

impl Counters {
    fn add(counter: &AtomicU64, count: u64) {
        // Order: relaxed, as for all figures.
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// How blocks lie on the local disk, and which of them go for others. Any number of threads may use
/// it at once. Nothing of it fails: what cannot be read is not there, and what cannot be written is
/// not kept.
trait Design: fmt::Debug + Send + Sync {
    /// The bytes of a block, if all of it is here and as it was put. Without `waits` only what can
    /// be had without waiting for the disk. What was damaged is counted in `damaged`.
    fn get(
        &self,
        table: u128,
        interval: ByteInterval,
        waits: bool,
        damaged: &AtomicU64,
    ) -> Option<Vec<u8>>;

    /// Whether the block at `offset` is here, as far as is known without reading anything.
    fn has(&self, table: u128, offset: u64) -> bool;

    /// Whether as many bytes as these of a table could be kept and nothing had to go for them;
    /// they are few.
    fn has_room(&self, _table: u128, _interval: ByteInterval) -> bool {
        false
    }

    /// Keeps a block that somebody has brought; how many had to go for it, or `None` if it is not
    /// kept. For a neighbour none has to go.
    fn put(&self, table: u128, offset: u64, bytes: &[u8], from: Bringer) -> Option<u64>;

    /// Whether all of a table, which has `table_bytes`, is to be kept: then whoever asks brings it
    /// to [`Design::put_whole`].
    fn wants_whole(&self, _table: u128, _table_bytes: u64) -> bool {
        false
    }

    /// Keeps all of a table that was wanted, if it could be brought; how many pieces had to go.
    fn put_whole(&self, _table: u128, _bytes: Option<&[u8]>) -> u64 {
        0
    }

    /// A compaction reads a table: what is here of it will be of no use soon.
    fn age(&self, _table: u128) {}

    /// Nothing of a table is wanted any more; how many pieces that were.
    fn forget(&self, table: u128) -> u64;

    /// Where the blocks of a table begin that were read and are here, in any order.
    fn offsets_of(&self, table: u128) -> Vec<u64>;

    /// From now on there are so many bytes; how many pieces went.
    fn set_bytes_max(&self, bytes: u64) -> u64;

    /// Bytes that are taken on the disk.
    fn bytes(&self) -> u64;
}

/// Who has brought a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bringer {
    Read,
    Compaction,
    /// A read of a block beside it.
    Neighbour,
}

/// Blocks of far tables on the local disk. Any number of threads may use it at once.
#[derive(Debug)]
pub struct DataCache {
    design: Box<dyn Design>,
    takes_neighbours: bool,
    bytes_max: AtomicU64,
    counters: Counters,
}

impl DataCache {
    pub(super) fn open(
        dir: &Arc<CacheDirectory>,
        database: u128,
        options: DataCacheOptions,
        memory: &MemoryPool,
        found: &[FoundFile],
    ) -> DataCache {
        baselines::remove_files(dir, found);
        let most = options.bytes_max;
        let (design, bytes_max): (Box<dyn Design>, u64) = match options.design {
            NearDesign::Buckets => {
                let buckets = Buckets::open(dir, database, options, memory, found);
                let bytes_max = most.unwrap_or(buckets.room_bytes());
                (Box::new(buckets), bytes_max)
            }
            other => {
                let none = DataCacheOptions { bytes_max: Some(0), ..options };
                let none = Buckets::open(dir, database, none, memory, found);
                (baselines::design_of(other, dir, memory, none), most.unwrap_or(0))
            }
        };
        let counters = Counters::default();
        let takes_neighbours = options.takes_neighbours;
        let cache = DataCache { design, takes_neighbours, bytes_max: AtomicU64::new(0), counters };
        cache.set_bytes_max(bytes_max);
        cache
    }

    /// The bytes of a block, if all of it is here. Without `waits` only what can be had without
    /// waiting for the disk: a caller that finds nothing so asks once more, and that is counted.
    ///
    /// Cost: one read of a file for each slot that it takes.
    #[must_use]
    pub fn get(&self, table: u128, interval: ByteInterval, waits: bool) -> Option<Vec<u8>> {
        if self.bytes_max() == 0 {
            return None;
        }
        let found = self.design.get(table, interval, waits, &self.counters.damaged);
        if found.is_some() {
            Counters::add(&self.counters.hits, 1);
        } else if waits {
            Counters::add(&self.counters.misses, 1);
        }
        found
    }

    /// Somebody reads a block that was not here when the store was asked for it.
    pub fn count_asked_for(&self) {
        if self.bytes_max() > 0 {
            Counters::add(&self.counters.misses, 1);
        }
    }

    /// Whether the block at `offset` is here, as far as is known without reading anything.
    #[must_use]
    pub fn has(&self, table: u128, offset: u64) -> bool {
        self.design.has(table, offset)
    }

    /// Keeps the bytes of a block that a read has got, at the cost of others. They are what the
    /// table has there.
    pub fn admit(&self, table: u128, offset: u64, bytes: &[u8]) {
        self.put(table, offset, bytes, Bringer::Read);
    }

    /// As [`DataCache::admit`], for a block that a compaction has written from what was read.
    pub fn inherit(&self, table: u128, offset: u64, bytes: &[u8]) {
        self.put(table, offset, bytes, Bringer::Compaction);
    }

    /// Whether neighbours of a block are wanted: as many bytes as these, at most some hundred KiB,
    /// could be kept of a table and nothing had to go for them. It is a guess: others may take the
    /// room meanwhile.
    #[must_use]
    pub fn has_room(&self, table: u128, interval: ByteInterval) -> bool {
        self.takes_neighbours && self.bytes_max() > 0 && self.design.has_room(table, interval)
    }

    /// As [`DataCache::admit`], for a block that nobody has asked for and that came with the one
    /// beside it: it is kept only if nothing has to go for it, and goes before what was asked for.
    pub fn admit_neighbour(&self, table: u128, offset: u64, bytes: &[u8]) {
        self.put(table, offset, bytes, Bringer::Neighbour);
    }

    fn put(&self, table: u128, offset: u64, bytes: &[u8], from: Bringer) {
        let Some(evicted) = self.design.put(table, offset, bytes, from) else { return };
        Counters::add(&self.counters.evicted, evicted);
        let counter = match from {
            Bringer::Read => &self.counters.admitted,
            Bringer::Compaction => &self.counters.inherited,
            Bringer::Neighbour => &self.counters.neighbours,
        };
        Counters::add(counter, 1);
    }

    /// Whether all of a table of `table_bytes` is to be kept, which only a baseline wants: then the
    /// caller brings it to [`DataCache::put_whole`], with `None` if it cannot.
    #[must_use]
    pub fn wants_whole(&self, table: u128, table_bytes: u64) -> bool {
        self.design.wants_whole(table, table_bytes)
    }

    /// Keeps all of a table that was wanted.
    pub fn put_whole(&self, table: u128, bytes: Option<&[u8]>) {
        let evicted = self.design.put_whole(table, bytes);
        Counters::add(&self.counters.evicted, evicted);
    }

    /// A compaction reads a table, and what is kept of its outputs is to take the place of what is
    /// here of it: that goes first, unless it is read until then.
    pub fn age(&self, table: u128) {
        self.design.age(table);
    }

    /// Nothing of a table is wanted any more.
    pub fn forget(&self, table: u128) {
        Counters::add(&self.counters.invalidated, self.design.forget(table));
    }

    /// Where the blocks, or pieces of blocks, of a table begin that were asked for and are here:
    /// ascending.
    #[must_use]
    pub fn offsets_of(&self, table: u128) -> Vec<u64> {
        let mut offsets = self.design.offsets_of(table);
        offsets.sort_unstable();
        offsets
    }

    /// From now on the cache may take so many bytes, and no more than the options say: what lies
    /// beyond goes at once, whenever it was read.
    pub fn set_bytes_max(&self, bytes: u64) {
        // Order: relaxed; who sees an old bound puts one more block.
        self.bytes_max.store(bytes, Ordering::Relaxed);
        Counters::add(&self.counters.squeezed, self.design.set_bytes_max(bytes));
    }

    /// Bytes that it may take at the moment.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes that it takes on the disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.design.bytes()
    }

    /// What it has done, and what it holds.
    #[must_use]
    pub fn stats(&self) -> DataCacheStats {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let inherited = of(&self.counters.inherited);
        DataCacheStats {
            hits: of(&self.counters.hits),
            misses: of(&self.counters.misses),
            admitted: of(&self.counters.admitted) + inherited,
            inherited,
            neighbours: of(&self.counters.neighbours),
            evicted: of(&self.counters.evicted),
            invalidated: of(&self.counters.invalidated),
            squeezed: of(&self.counters.squeezed),
            damaged: of(&self.counters.damaged),
            bytes: self.bytes(),
            bytes_max: self.bytes_max(),
        }
    }
}
