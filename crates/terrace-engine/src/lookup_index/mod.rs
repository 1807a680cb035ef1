//! The lookup index: for every key, a number that no version of it in memtables and L0 reaches. A
//! get skips whatever holds nothing below that number, and asks the right memtable or row first.
//!
//! # Why
//! With hundreds of memtables a get would search one after the other, and then the filter of each
//! row of L0. Nearly all of them do not hold the key.
//!
//! *Source:* Nova-LSM (SIGMOD 2021), §4.1.1. *Differs:* there a hash table maps each key to the
//! memtable or L0 table with its newest version, grows with the keys, and is cleaned key by key.
//! Here a key is known by a tag, and what is kept is the *generation* of its newest write: the
//! count of freezes before it. Keys may share a tag, and buckets run over: the answer is an upper
//! bound then, and the search goes on from there to older memtables and rows as it would without an
//! index. So the index is exact in what it excludes, has a size that is fixed when the range is
//! opened, and nothing has to be counted, moved or removed (decision 21).
//!
//! ```text
//!  bucket   │ slot │ slot │ slot │ slot │ slot │ slot │ slot │ rest │      one cache line, 8 words
//!  slot     │ tag 32 bits │ generation + 1, 32 bits │                       0: free
//!  rest     │      0      │ generation + 1 │   no key that has no slot here was written later
//!
//!  generation     0          1          2      3 = current
//!             ├──────────┼──────────┼──────────┼────────▶  numbers
//!                        e0         e1         e2            ends
//!  a key of generation 1 has no version at or above e1: memtables and rows whose least number
//!  is e1 or more do not hold it
//! ```
//!
//! # Why it excludes nothing that is there
//! 1. A writer notes a key after it has its drange's hold and before it publishes; generations
//!    change while all dranges are held. So its number lies below the end of the generation that it
//!    noted, and whoever sees it published and asks afterwards finds that generation or a later
//!    one.
//! 2. A slot gets another key only when its generation is *settled*: all memtables and rows with
//!    anything below its end are gone from the current view. Else its generation goes to the
//!    bucket's rest first.
//! 3. A get keeps an answer only if its view is still the current one when it has asked, and
//!    generations are settled after the view that lets go of them was published. So whatever was
//!    settled before it asked is gone from its view; what is published after it asked has a number
//!    above its read point, which it took before.
//! 4. What was never noted (tables and records of an earlier open, ingested tables) lies below the
//!    *floor*, and no answer is below that. The floor goes when those keys were noted; a get asks
//!    for the floor before it looks for the key, and so finds one or the other.

#[cfg(all(test, terrace_loom))]
mod models;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hint::black_box;

use terrace_base::SeqNo;
use terrace_env::atomic::{AtomicU64, Ordering};
use terrace_env::{PlantedBug, is_planted, yield_point};

/// Slots of a bucket that hold keys; the word behind them is the rest.
const SLOTS: usize = 7;

/// Number of generations whose ends are known; of older ones it is only known that they are older.
/// (Few in a model.)
const ENDS: usize = if cfg!(terrace_loom) { 4 } else { 1024 };

/// One more than the last generation that is told from later ones: a hundred freezes a second last
/// 500 days, and then the index excludes less and less until the next open.
const STAMP_MAX: u64 = u32::MAX as u64;

/// Number of buckets that statistics look at, at most.
const STATS_BUCKETS: usize = 4096;

/// Eight words in one cache line of the machine.
#[repr(align(64))]
struct Bucket([AtomicU64; SLOTS + 1]);

/// Upper bounds of the numbers of keys' newest versions. All methods may be called by many threads
/// at once, and wait for nobody.
pub struct LookupIndex {
    buckets: Box<[Bucket]>,
    /// The generation that writes belong to.
    current: AtomicU64,
    /// Where the latest generations end, by their number's remainder. The current one has no end.
    ends: Box<[AtomicU64]>,
    /// Everything below this generation is settled.
    settled: AtomicU64,
    /// No answer is below this number.
    floor: AtomicU64,
}

/// What is known of a key before it is searched for.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// No version of the key in memtables and L0 reaches this number.
    pub limit: SeqNo,
    /// The key's [hash](crate::table::filter_hash), if it was needed.
    pub hash: Option<u64>,
}

impl Bound {
    /// Nothing is known.
    pub const NONE: Bound = Bound { limit: SeqNo::MAX, hash: None };
}

/// What the index holds. Of a large one the slots are counted in a sample of the buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LookupIndexStats {
    /// Bytes of memory, whatever is in it.
    pub bytes: u64,
    /// Slots whose key may be in a memtable or in L0.
    pub live_slots: u64,
    /// Buckets that ran over with keys of which that holds.
    pub full_buckets: u64,
    /// Whether what was there before is not all noted.
    pub is_incomplete: bool,
}

impl LookupIndexStats {
    /// Bytes of memory for each key that has a slot; 0 if none has.
    #[must_use]
    pub fn bytes_per_key(&self) -> f64 {
        if self.live_slots == 0 { 0.0 } else { self.bytes as f64 / self.live_slots as f64 }
    }
}

impl LookupIndex {
    /// An index that takes about `bytes` of memory, at most, and at least one cache line. It knows
    /// nothing of what has a number below `floor`.
    #[must_use]
    pub fn new(bytes: usize, floor: SeqNo) -> LookupIndex {
        let count = (bytes / size_of::<Bucket>()).max(1);
        let bucket = || Bucket(std::array::from_fn(|_| AtomicU64::new(0)));
        LookupIndex {
            buckets: (0..count).map(|_| bucket()).collect(),
            current: AtomicU64::new(0),
            ends: (0..ENDS).map(|_| AtomicU64::new(0)).collect(),
            settled: AtomicU64::new(0),
            floor: AtomicU64::new(floor.0),
        }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> &Bucket {
        &self.buckets[((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize]
    }

    /// Brings the cache line that the key with this hash belongs to near.
    #[inline]
    pub fn warm(&self, hash: u64) {
        black_box(self.bucket(hash).0[SLOTS].load(Ordering::Relaxed));
    }

    /// Notes that the key with this hash is being written. The caller holds its drange, so that the
    /// generation does not change, and publishes the write after.
    #[inline]
    pub fn index_key(&self, hash: u64) {
        self.index_key_in(hash, self.current.load(Ordering::Relaxed));
    }

    /// As [`LookupIndex::index_key`], for a key that was written in an earlier generation.
    pub fn index_key_in(&self, hash: u64, generation: u64) {
        let bucket = self.bucket(hash);
        let (tag, stamp) = (tag_of(hash), (generation + 1).min(STAMP_MAX));
        loop {
            if bucket.try_index_key(tag, stamp, || self.settled.load(Ordering::Acquire)) {
                return;
            }
        }
    }

    /// A number that no version of the key with this hash, in memtables and L0 of a view that is
    /// still the current one when this has been asked, reaches, unless it is published from now on;
    /// 1 if there is none. Cost: one cache line.
    #[must_use]
    #[inline]
    pub fn limit_of(&self, hash: u64) -> SeqNo {
        let early = is_planted(PlantedBug::FloorAfterBucket).then(|| self.newest(hash));
        // Order: the floor is read before the bucket. Who finds it gone finds the notes that were
        // made before it went; a bucket that was read earlier may lack them.
        let floor = self.floor.load(Ordering::Acquire);
        yield_point();
        let end = match early.unwrap_or_else(|| self.newest(hash)) {
            0 => 0,
            // What has outlived the count of generations may be as new as anything.
            STAMP_MAX => SeqNo::MAX.0,
            stamp => self.end_of(stamp - 1),
        };
        // At least one, so that a source which is never skipped can say that it begins at zero.
        SeqNo(end.max(floor).max(1))
    }

    /// The greatest stamp that the key with this hash may have.
    #[inline]
    fn newest(&self, hash: u64) -> u64 {
        let newest = self.bucket(hash).newest(tag_of(hash));
        yield_point();
        newest
    }

    /// A number that those of this generation, and of all before it, are below.
    fn end_of(&self, generation: u64) -> u64 {
        // A generation whose place is taken by a later one gets that one's end, which is greater.
        let current = self.current.load(Ordering::Acquire);
        if generation >= current {
            return SeqNo::MAX.0;
        }
        let known = generation.max(current.saturating_sub(ENDS as u64 - 1));
        self.ends[(known % ENDS as u64) as usize].load(Ordering::Acquire)
    }

    /// Ends the current generation: all numbers given out so far are below `next`, all later ones
    /// are not. The caller holds every drange, and is alone.
    pub fn end_generation(&self, next: SeqNo) {
        let current = self.current.load(Ordering::Relaxed);
        self.ends[(current % ENDS as u64) as usize].store(next.0, Ordering::Release);
        self.current.store(current + 1, Ordering::Release);
    }

    /// The first generation that everything below `number` was written in or before.
    #[must_use]
    pub fn generation_through(&self, number: SeqNo) -> u64 {
        let current = self.current.load(Ordering::Acquire);
        let first = self.settled.load(Ordering::Acquire);
        (first..current).find(|one| self.end_of(*one) >= number.0).unwrap_or(current)
    }

    /// The generation that writes belong to.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// Tells that a view which was pinned when `current` was the generation already holds nothing
    /// below `least` in memtables and L0: what is being written to it then belongs to that
    /// generation or to later ones.
    pub fn settle(&self, current: u64, least: SeqNo) {
        let mut settled = self.settled.load(Ordering::Acquire);
        let current = current.min(STAMP_MAX - 1);
        while settled < current && self.end_of(settled) <= least.0 {
            settled += 1;
        }
        self.settled.fetch_max(settled, Ordering::AcqRel);
    }

    /// From now on no answer is below `floor`: what lies below it was not noted.
    pub fn raise_floor(&self, floor: SeqNo) {
        self.floor.fetch_max(floor.0, Ordering::AcqRel);
    }

    /// What is below this number was not all noted; zero if it was.
    #[must_use]
    pub fn floor(&self) -> SeqNo {
        SeqNo(self.floor.load(Ordering::Acquire))
    }

    /// Takes the floor away if it is still `floor`: everything below it was noted.
    pub fn remove_floor(&self, floor: SeqNo) {
        let _ = self.floor.compare_exchange(floor.0, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// What the index holds. Cost: a look at 4,096 buckets at most.
    #[must_use]
    pub fn stats(&self) -> LookupIndexStats {
        let settled = self.settled.load(Ordering::Acquire);
        let is_live = |word: &AtomicU64| stamp_of(word.load(Ordering::Relaxed)) > settled;
        let mut stats = LookupIndexStats {
            bytes: size_of_val(&*self.buckets) as u64,
            is_incomplete: self.floor().0 > 0,
            ..LookupIndexStats::default()
        };
        // Each bucket that is looked at stands for `each` of them.
        let each = self.buckets.len().div_ceil(STATS_BUCKETS);
        for bucket in self.buckets.iter().step_by(each) {
            let (slots, rest) = bucket.0.split_at(SLOTS);
            stats.live_slots += (each * slots.iter().filter(|word| is_live(word)).count()) as u64;
            stats.full_buckets += (each * usize::from(is_live(&rest[0]))) as u64;
        }
        stats
    }
}

impl Bucket {
    /// The greatest stamp of a slot with this tag, or of the rest.
    #[inline]
    fn newest(&self, tag: u64) -> u64 {
        let mut newest = 0;
        for (index, word) in self.0.iter().enumerate() {
            let word = word.load(Ordering::Acquire);
            if index == SLOTS || word >> 32 == tag {
                newest = newest.max(stamp_of(word));
            }
        }
        newest
    }

    /// Gives the tag this stamp, if it has none that is greater; `false` if another thread was in
    /// the way.
    #[inline]
    fn try_index_key(&self, tag: u64, stamp: u64, settled: impl Fn() -> u64) -> bool {
        let mut oldest = (0, u64::MAX);
        for (index, slot) in self.0[..SLOTS].iter().enumerate() {
            let word = slot.load(Ordering::Acquire);
            if word >> 32 == tag && word != 0 {
                return stamp_of(word) >= stamp || replace(slot, word, tag << 32 | stamp);
            }
            if stamp_of(word) < stamp_of(oldest.1) || oldest.1 == u64::MAX {
                oldest = (index, word);
            }
        }
        let (index, word) = oldest;
        // A free slot has the stamp 0, which is settled.
        if stamp_of(word) > settled() {
            // The one of the two that is older has to make do with the rest.
            self.0[SLOTS].fetch_max(stamp_of(word).min(stamp), Ordering::AcqRel);
            if stamp <= stamp_of(word) {
                return true;
            }
        }
        replace(&self.0[index], word, tag << 32 | stamp)
    }
}

fn replace(slot: &AtomicU64, old: u64, new: u64) -> bool {
    slot.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// The bits that choose the bucket are the first ones.
#[inline]
fn tag_of(hash: u64) -> u64 {
    hash & 0xffff_ffff
}

#[inline]
fn stamp_of(word: u64) -> u64 {
    word & 0xffff_ffff
}

impl fmt::Debug for LookupIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LookupIndex of {} buckets", self.buckets.len())
    }
}
