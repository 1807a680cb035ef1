//! Blocks in buckets, each of them a file of slots: Terrace's own design of the data cache.
//!
//! ```text
//!   (table, offset) ── hash of table and megabyte ──► bucket ──► slots.rs ──► bytes in a file
//! ```
//! Each bucket has a latch, a file and its own orders of last reads. Where a block's bytes are
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
//! the megabyte, not from the table alone, so that one hot table is not bound to one bucket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::super::format::BucketShape;
use super::super::{CacheDirectory, FoundFile};
use super::bucket::Bucket;
use super::{Bringer, DataCacheOptions, Design};
use crate::process::MemoryPool;
use crate::table::ByteInterval;

/// All buckets.
#[derive(Debug)]
pub struct Buckets {
    buckets: Vec<Bucket>,
    /// How many of them are in use: no more than have enough to hold.
    used_count: AtomicUsize,
    bucket_bytes: u64,
    /// What all of them have room for.
    room_bytes: u64,
    shape: BucketShape,
}

/// About so many buckets there are at most: those of a larger cache have more bytes.
const BUCKETS_MAX: u64 = 16 << 10;

/// Neighbouring blocks share a bucket up to this size, and a bucket's latch.
const REGION_BYTES: u64 = 1 << 20;

impl Buckets {
    /// As many buckets as `options` give bytes for, or as were found, with what they hold. The
    /// files of others go.
    pub fn open(
        dir: &Arc<CacheDirectory>,
        database: u128,
        options: DataCacheOptions,
        memory: &MemoryPool,
        found: &[FoundFile],
    ) -> Buckets {
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
        let used_count = AtomicUsize::new(0);
        Buckets { buckets, used_count, bucket_bytes, room_bytes: bytes_max, shape }
    }

    /// The bytes that it was opened for.
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
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

impl Design for Buckets {
    fn get(
        &self,
        table: u128,
        interval: ByteInterval,
        waits: bool,
        damaged: &AtomicU64,
    ) -> Option<Vec<u8>> {
        let bucket = self.bucket_of(table, interval.offset)?;
        bucket.get(table, &self.pieces(interval), waits, damaged)
    }

    fn has(&self, table: u128, offset: u64) -> bool {
        self.bucket_of(table, offset).is_some_and(|bucket| bucket.has(table, offset))
    }

    fn has_room(&self, table: u128, interval: ByteInterval) -> bool {
        let slots = interval.bytes.div_ceil(self.shape.slot_bytes.max(1) as usize) as u64;
        let bucket = self.bucket_of(table, interval.offset);
        bucket.is_some_and(|bucket| u64::from(bucket.empty_count()) >= slots)
    }

    fn put(&self, table: u128, offset: u64, bytes: &[u8], from: Bringer) -> Option<u64> {
        let bucket = self.bucket_of(table, offset)?;
        // What fills a good part of a bucket displaces more than it is worth.
        if bytes.len() as u64 > REGION_BYTES / 4 {
            return None;
        }
        let pieces = self.pieces(ByteInterval { offset, bytes: bytes.len() });
        let (mut rest, mut evicted) = (bytes, 0);
        for piece in pieces {
            let (bytes, behind) = rest.split_at(piece.bytes);
            rest = behind;
            let only_empty = from == Bringer::Neighbour;
            evicted += u64::from(bucket.put(table, piece.offset, bytes, only_empty)?);
        }
        Some(evicted)
    }

    fn age(&self, table: u128) {
        self.buckets.iter().for_each(|bucket| bucket.age(table));
    }

    fn forget(&self, table: u128) -> u64 {
        self.buckets.iter().map(|bucket| bucket.forget(table)).sum()
    }

    fn offsets_of(&self, table: u128) -> Vec<u64> {
        self.buckets.iter().flat_map(|bucket| bucket.offsets_of(table)).collect()
    }

    fn set_bytes_max(&self, bytes: u64) -> u64 {
        let wanted = usize::try_from(bytes.div_ceil(self.bucket_bytes)).unwrap_or(usize::MAX);
        let used_count = wanted.min(self.buckets.len());
        // Order: relaxed; who sees an old bound puts one more block.
        self.used_count.store(used_count, Ordering::Relaxed);
        let each = bytes.checked_div(used_count as u64).unwrap_or(0);
        let slots = self.shape.slots_within(each);
        let (used, rest) = self.buckets.split_at(used_count);
        let of_used = used.iter().map(|bucket| bucket.set_capacity(slots));
        let of_rest = rest.iter().map(|bucket| bucket.set_capacity(0));
        of_used.chain(of_rest).sum()
    }

    fn bytes(&self) -> u64 {
        self.buckets.iter().map(Bucket::bytes).sum()
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
