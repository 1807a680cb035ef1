//! The data cache: blocks of far tables that were read, in buckets on the local disk.
//!
//! ```text
//!   (table, offset) ── hash of table and megabyte ──► bucket ──► slots.rs ──► bytes in a file
//! ```
//! Each bucket has a latch, a file and its own order of last reads. Where a block's bytes are
//! is known in memory; a look-up that finds them reads the file once. A block larger than a slot
//! lies in several, as pieces that come and go one by one.
//!
//! # Races
//! No latch is held while a file is read or written. So the slot of a block that is being read may
//! get another one's bytes: the checksum, which covers the table's number and the offset, tells,
//! and the read is a miss. A block is found only after its bytes were written.
//!
//! # Size
//! No more buckets are in use than the bytes fill, so that a small cache is not all records. When
//! one is added, it takes its share of the blocks, and the others keep theirs.
//!
//! # Restarts
//! A bucket's file says what its slots hold. It is read when the bucket is first asked for a block,
//! and believed block by block, when one is read.
//!
//! *Source:* RocksMash (TACO 2022), section 3.2. *Differs:* the bucket follows from the table and
//! the megabyte, not from the table alone, so that one hot table is not bound to one bucket. The
//! size follows what is left of the local bytes (`store/upkeep/near.rs`).

mod bucket;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::format::BucketShape;
use super::{CacheDirectory, FoundFile};
use crate::explain::text::{bytes, count, percent};
use crate::process::MemoryPool;
use crate::table::ByteInterval;
use bucket::Bucket;
use slots::BlockName;

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
    ) -> DataCacheOptions {
        // A block is at most a megabyte; one larger than a slot takes several.
        let block_bytes = block_bytes.clamp(1024, 64 << 10) as u32;
        let stored = if is_compressed { block_bytes / 2 } else { block_bytes };
        let slot_bytes = stored + DataCacheOptions::FRAME_BYTES;
        DataCacheOptions { bytes_max, bucket_bytes: DataCacheOptions::BUCKET_BYTES, slot_bytes }
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

/// Blocks of far tables on the local disk. Any number of threads may use it at once.
#[derive(Debug)]
pub struct DataCache {
    buckets: Vec<Bucket>,
    /// How many of them are in use: no more than have enough to hold.
    used_count: AtomicUsize,
    bucket_bytes: u64,
    shape: BucketShape,
    bytes_max: AtomicU64,
    counters: Counters,
}

/// About so many buckets there are at most: those of a larger cache have more bytes.
const BUCKETS_MAX: u64 = 16 << 10;

/// Neighbouring blocks share a bucket up to this size, and a bucket's latch.
const REGION_BYTES: u64 = 1 << 20;

impl DataCache {
    pub(super) fn open(
        dir: &Arc<CacheDirectory>,
        database: u128,
        options: DataCacheOptions,
        memory: &MemoryPool,
        found: &[FoundFile],
    ) -> DataCache {
        let numbered = |file: &FoundFile| Some((bucket_number(&file.name)?, file.bytes));
        let mut found: BTreeMap<u64, u64> = found.iter().filter_map(numbered).collect();
        let found_count = found.range(..BUCKETS_MAX).next_back().map_or(0, |(last, _)| last + 1);
        let as_found = found_count.saturating_mul(options.bucket_bytes);
        let bytes_max = options.bytes_max.unwrap_or(as_found);
        let bucket_bytes = options.bucket_bytes.max(bytes_max / BUCKETS_MAX).max(1);
        let count = bytes_max.div_ceil(bucket_bytes);
        let shape = BucketShape::within(bucket_bytes, options.slot_bytes);
        let too_many = found.split_off(&count);
        too_many.into_keys().for_each(|number| dir.remove(&bucket_name(number)));
        let bucket = |number: u64| {
            let bytes = found.get(&number).copied();
            Bucket::new(dir, bucket_name(number), database, shape, bytes, memory)
        };
        let buckets: Vec<Bucket> = (0..count).map(bucket).collect();
        let cache = DataCache {
            buckets,
            used_count: AtomicUsize::new(0),
            bucket_bytes,
            shape,
            bytes_max: AtomicU64::new(0),
            counters: Counters::default(),
        };
        cache.set_bytes_max(bytes_max);
        cache
    }

    /// The bytes of a block, if all of it is here. Without `waits` only what can be had without
    /// waiting for the disk: a caller that finds nothing so asks once more, and that is counted.
    ///
    /// Cost: one read of a file for each slot that it takes.
    #[must_use]
    pub fn get(&self, table: u128, interval: ByteInterval, waits: bool) -> Option<Vec<u8>> {
        let bucket = self.bucket_of(table, interval.offset)?;
        let found = bucket.get(table, &self.pieces(interval), waits, &self.counters.damaged);
        if found.is_some() {
            Counters::add(&self.counters.hits, 1);
        } else if waits {
            Counters::add(&self.counters.misses, 1);
        }
        found
    }

    /// Whether the block at `offset` is here, as far as is known without reading anything.
    #[must_use]
    pub fn has(&self, table: u128, offset: u64) -> bool {
        self.bucket_of(table, offset).is_some_and(|bucket| bucket.has(table, offset))
    }

    /// Keeps the bytes of a block that a read has got, at the cost of others. They are what the
    /// table has there.
    pub fn admit(&self, table: u128, offset: u64, bytes: &[u8]) {
        self.put(table, offset, bytes, &self.counters.admitted);
    }

    /// As [`DataCache::admit`], for a block that a compaction has written from what was read.
    pub fn inherit(&self, table: u128, offset: u64, bytes: &[u8]) {
        self.put(table, offset, bytes, &self.counters.inherited);
    }

    fn put(&self, table: u128, offset: u64, bytes: &[u8], counter: &AtomicU64) {
        let Some(bucket) = self.bucket_of(table, offset) else { return };
        // What fills a good part of a bucket displaces more than it is worth.
        if bytes.len() as u64 > REGION_BYTES / 4 {
            return;
        }
        let pieces = self.pieces(ByteInterval { offset, bytes: bytes.len() });
        let mut rest = bytes;
        for piece in pieces {
            let (bytes, behind) = rest.split_at(piece.bytes);
            rest = behind;
            match bucket.put(table, piece.offset, bytes) {
                Some(evicted) => Counters::add(&self.counters.evicted, u64::from(evicted)),
                None => return,
            }
        }
        Counters::add(counter, 1);
    }

    /// Nothing of a table is wanted any more.
    pub fn forget(&self, table: u128) {
        let dropped = self.buckets.iter().map(|bucket| bucket.forget(table)).sum();
        Counters::add(&self.counters.invalidated, dropped);
    }

    /// Where the blocks, or pieces of blocks, of a table begin that are here: ascending.
    #[must_use]
    pub fn offsets_of(&self, table: u128) -> Vec<u64> {
        let of_each = self.buckets.iter().map(|bucket| bucket.offsets_of(table));
        let mut offsets: Vec<u64> = of_each.flatten().collect();
        offsets.sort_unstable();
        offsets
    }

    /// From now on the cache may take so many bytes, and no more than the options say: what lies
    /// beyond goes at once, whenever it was read.
    pub fn set_bytes_max(&self, bytes: u64) {
        let wanted = usize::try_from(bytes.div_ceil(self.bucket_bytes)).unwrap_or(usize::MAX);
        let used_count = wanted.min(self.buckets.len());
        // Order: relaxed; who sees an old bound puts one more block.
        self.bytes_max.store(bytes, Ordering::Relaxed);
        self.used_count.store(used_count, Ordering::Relaxed);
        let each = bytes.checked_div(used_count as u64).unwrap_or(0);
        let slots = self.shape.slots_within(each);
        let (used, rest) = self.buckets.split_at(used_count);
        let of_used = used.iter().map(|bucket| bucket.set_capacity(slots));
        let of_rest = rest.iter().map(|bucket| bucket.set_capacity(0));
        Counters::add(&self.counters.squeezed, of_used.chain(of_rest).sum());
    }

    /// Bytes that it may take at the moment.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Bytes that it takes on the disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.buckets.iter().map(Bucket::bytes).sum()
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
            evicted: of(&self.counters.evicted),
            invalidated: of(&self.counters.invalidated),
            squeezed: of(&self.counters.squeezed),
            damaged: of(&self.counters.damaged),
            bytes: self.bytes(),
            bytes_max: self.bytes_max(),
        }
    }

    fn bucket_of(&self, table: u128, offset: u64) -> Option<&Bucket> {
        let hash = (table as u64 ^ (offset / REGION_BYTES)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.buckets.get(jump(hash ^ (hash >> 32), self.used_count.load(Ordering::Relaxed)))
    }

    /// An interval in pieces that fit into slots; none if it is empty.
    fn pieces(&self, interval: ByteInterval) -> Vec<ByteInterval> {
        let (slot, end) = (self.shape.slot_bytes as usize, interval.bytes);
        let piece = |start: usize| ByteInterval {
            offset: interval.offset + start as u64,
            bytes: slot.min(end - start),
        };
        (0..end).step_by(slot.max(1)).map(piece).collect()
    }
}

/// Which of `count` buckets a hash goes to, so that few go elsewhere when there is one more: jump
/// consistent hashing (Lamping and Veach, 2014).
fn jump(hash: u64, count: usize) -> usize {
    let (mut state, mut found, mut next) = (hash, 0_usize, 0_usize);
    while next < count {
        found = next;
        state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let scale = (1_u64 << 31) as f64 / ((state >> 33) + 1) as f64;
        next = ((found + 1) as f64 * scale) as usize;
    }
    found
}

fn bucket_name(number: u64) -> String {
    format!("bucket-{number:05}.data")
}

/// The number of a bucket; none has more than the disk has room for.
fn bucket_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("bucket-")?.strip_suffix(".data")?.parse().ok()?;
    (number < u64::from(u32::MAX) && bucket_name(number) == name).then_some(number)
}

fn name_of(table: u128, offset: u64) -> BlockName {
    BlockName { table: table as u64, offset }
}

#[cfg(test)]
mod jumps {
    use super::jump;

    #[test]
    fn one_more_bucket_takes_its_share_and_moves_nothing_else() {
        let hashes = || (0..10_000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for count in 1..20 {
            let moved: Vec<u64> =
                hashes().filter(|h| jump(*h, count) != jump(*h, count + 1)).collect();
            assert!(moved.iter().all(|hash| jump(*hash, count + 1) == count));
            let share = moved.len() * (count + 1);
            assert!((8_000..12_000).contains(&share), "{count}: {share}");
        }
        assert_eq!(jump(7, 0), 0);
    }
}
