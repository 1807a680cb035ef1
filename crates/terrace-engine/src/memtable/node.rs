//! The nodes of the tree: sets of slots that only grow, in the order that one word gives them.
//!
//! ```text
//! leaf, 3 lines   14×prefix u64 │ permutation u64 │ 14×entry u32     │ skip, flags │ next, prev
//! inner, 4 lines  15×prefix u64 │ permutation u64 │ 15×separator u32 │ skip, flags │ 16×child
//!
//! permutation      4 bits for each rank from bit 0 up, the slot of that rank; bits 60.. the count
//! ```
//!
//! A key is compared by its *prefix* first: the 8 bytes that follow the first `skip` bytes, as a
//! big-endian number, filled up with zeros. Most searches end without a look at any key.
//!
//! Two kinds of skip. An *unchecked* one is implied by the node's interval: every key that may be
//! looked for here shares those bytes. A *checked* one is longer: the keys that were in the node
//! when it was made shared them. Then the key of slot 0 is the reference: a key whose first bytes
//! lie below the reference's has prefix 0, one above has the largest. Either way the prefix
//! never decreases as the key grows, so order by prefix is order by key but for ties, which the
//! whole keys decide.

use super::arena::Offset;
use terrace_env::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Keys in a full leaf. (Few in a model, so that a split is near.)
pub(super) const LEAF_SLOTS: usize = if cfg!(terrace_loom) { 3 } else { 14 };
/// Separators in a full inner node, which has one child more.
pub(super) const INNER_SLOTS: usize = if cfg!(terrace_loom) { 4 } else { 15 };

/// The longest skip that a node records.
const SKIP_MAX: usize = u16::MAX as usize;

const COUNT_SHIFT: u32 = 60;

/// How many slots of a node are in use, and their order. A node's slots fill in ascending
/// position and are never used again, so the next free slot is the count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Permutation(u64);

impl Permutation {
    /// `count` slots whose positions are their ranks.
    pub(super) fn ascending(count: usize) -> Permutation {
        let ranks = 0xedc_ba98_7654_3210 & ((1 << (4 * count)) - 1);
        Permutation(ranks | (count as u64) << COUNT_SHIFT)
    }

    #[inline]
    pub(super) fn count(self) -> usize {
        (self.0 >> COUNT_SHIFT) as usize
    }

    /// The slot of the key with this rank.
    #[inline]
    pub(super) fn slot(self, rank: usize) -> usize {
        debug_assert!(rank < self.count());
        // The wrapping shift spares a check in the innermost loop.
        (self.0.wrapping_shr((rank as u32) << 2) & 15) as usize
    }

    /// The order after the next free slot was given this rank.
    #[inline]
    fn with_inserted(self, rank: usize) -> Permutation {
        let count = self.count();
        debug_assert!(rank <= count && count < INNER_SLOTS);
        let ranks = self.0 & ((1 << COUNT_SHIFT) - 1);
        let below = (1 << (4 * rank)) - 1;
        let ranks = ranks & below | (count as u64) << (4 * rank) | (ranks & !below) << 4;
        Permutation(ranks | (count as u64 + 1) << COUNT_SHIFT)
    }
}

/// How a node turns keys into prefixes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Skip {
    /// Bytes left out at the start of every key.
    pub(super) bytes: u16,
    /// Whether a key must be compared with the reference over those bytes.
    pub(super) checked: bool,
}

impl Skip {
    /// A skip of `bytes`, or as much of it as a node can record.
    pub(super) fn new(bytes: usize, checked: bool) -> Skip {
        Skip { bytes: bytes.min(SKIP_MAX) as u16, checked }
    }

    /// The prefix of a key that shares the skipped bytes or need not be checked.
    #[inline]
    pub(super) fn prefix(self, key: &[u8]) -> u64 {
        let skip = usize::from(self.bytes);
        match key.get(skip..skip + 8) {
            Some(bytes) => {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                u64::from_be_bytes(word)
            }
            None => self.short_prefix(key),
        }
    }

    /// The prefix of a key that has at most 7 bytes behind the skipped ones.
    #[inline]
    fn short_prefix(self, key: &[u8]) -> u64 {
        let rest_bytes = key.len().saturating_sub(usize::from(self.bytes));
        match key.last_chunk() {
            // The last 8 bytes without those in front of the rest: one move in the place of a copy.
            Some(last) => {
                u64::from_be_bytes(*last).unbounded_shl(64u32.wrapping_sub(8 * rest_bytes as u32))
            }
            None => {
                let mut word = [0; 8];
                word[..rest_bytes].copy_from_slice(&key[key.len() - rest_bytes..]);
                u64::from_be_bytes(word)
            }
        }
    }

    /// The prefix of `key` in a node whose slot 0 has the key `reference`.
    pub(super) fn checked_prefix(self, key: &[u8], reference: &[u8]) -> u64 {
        let skip = usize::from(self.bytes);
        let start = &key[..skip.min(key.len())];
        match start.cmp(&reference[..skip.min(reference.len())]) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => self.prefix(key),
            std::cmp::Ordering::Greater => u64::MAX,
        }
    }
}

/// The part that leaves and inner nodes share: up to `N` keys, each as a prefix and the offset of
/// an entry that has the whole key.
#[repr(C)]
pub(super) struct Slots<const N: usize> {
    prefixes: [AtomicU64; N],
    permutation: AtomicU64,
    entries: [AtomicU32; N],
    /// Constant once the node is made, like `checked`.
    skip_bytes: u16,
    checked: bool,
    /// How many of the last keys came in at the end; only the writer looks.
    run: AtomicU8,
}

impl<const N: usize> Slots<N> {
    /// Slots that hold `keys`, at most `N` of (prefix, entry), in their order.
    pub(super) fn new(skip: Skip, keys: &[(u64, Offset)]) -> Slots<N> {
        assert!(keys.len() <= N, "a node holds at most {N} keys");
        let key = |slot: usize| keys.get(slot).copied().unwrap_or((0, 0));
        Slots {
            prefixes: std::array::from_fn(|slot| AtomicU64::new(key(slot).0)),
            permutation: AtomicU64::new(Permutation::ascending(keys.len()).0),
            entries: std::array::from_fn(|slot| AtomicU32::new(key(slot).1)),
            skip_bytes: skip.bytes,
            checked: skip.checked,
            run: AtomicU8::new(0),
        }
    }

    #[inline]
    pub(super) fn skip(&self) -> Skip {
        Skip { bytes: self.skip_bytes, checked: self.checked }
    }

    /// The order now. All that it names is complete for whoever loads it here.
    #[inline]
    pub(super) fn permutation(&self) -> Permutation {
        Permutation(self.permutation.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn prefix(&self, slot: usize) -> u64 {
        self.prefixes[slot].load(Ordering::Relaxed)
    }

    /// The entry of a slot: in a leaf the newest version of the key.
    #[inline]
    pub(super) fn entry(&self, slot: usize) -> Offset {
        // Order: acquire, since a newer version takes a slot's place without a new permutation.
        self.entries[slot].load(Ordering::Acquire)
    }

    /// How many of the keys that `permutation` names have a prefix at or below `prefix`.
    ///
    /// Slots in use are the first ones, so counting needs not follow the order. (A binary search
    /// would: it is half as fast, for each of its steps waits for the one before.)
    #[inline]
    pub(super) fn rank_through(&self, permutation: Permutation, prefix: u64) -> usize {
        let mut rank = 0;
        for other in self.prefixes.iter().take(permutation.count()) {
            rank += usize::from(other.load(Ordering::Relaxed) <= prefix);
        }
        rank
    }

    /// Adds a key with this rank. Writers only; the node must have room.
    #[inline]
    pub(super) fn insert(&self, rank: usize, prefix: u64, entry: Offset) {
        let permutation = self.permutation();
        let slot = permutation.count();
        self.entries[slot].store(entry, Ordering::Relaxed);
        self.prefixes[slot].store(prefix, Ordering::Relaxed);
        // Order: release publishes the slot and the entry that it points to.
        self.permutation.store(permutation.with_inserted(rank).0, Ordering::Release);
    }

    /// Makes `entry` the newest version of the key in a slot. Writers only.
    #[inline]
    pub(super) fn replace_entry(&self, slot: usize, entry: Offset) {
        // Order: release publishes the bytes of the entry.
        self.entries[slot].store(entry, Ordering::Release);
    }

    /// The length of the run of keys that came in at the end. Writers only.
    #[inline]
    pub(super) fn run(&self) -> u8 {
        self.run.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set_run(&self, run: u8) {
        self.run.store(run, Ordering::Relaxed);
    }
}

/// A leaf: keys with their newest versions, and its neighbours.
#[repr(C, align(64))]
pub(super) struct Leaf {
    pub(super) slots: Slots<LEAF_SLOTS>,
    next: AtomicU32,
    prev: AtomicU32,
}

impl Leaf {
    pub(super) fn new(slots: Slots<LEAF_SLOTS>, prev: Offset, next: Offset) -> Leaf {
        Leaf { slots, next: AtomicU32::new(next), prev: AtomicU32::new(prev) }
    }

    /// The right neighbour; 0 for none.
    #[inline]
    pub(super) fn next(&self) -> Offset {
        // Order: acquire: the neighbour may be younger than this leaf.
        self.next.load(Ordering::Acquire)
    }

    /// The left neighbour; 0 for none.
    #[inline]
    pub(super) fn prev(&self) -> Offset {
        // Order: as for `next`.
        self.prev.load(Ordering::Acquire)
    }

    pub(super) fn set_next(&self, next: Offset) {
        // Order: release publishes the neighbour.
        self.next.store(next, Ordering::Release);
    }

    pub(super) fn set_prev(&self, prev: Offset) {
        // Order: release publishes the neighbour.
        self.prev.store(prev, Ordering::Release);
    }
}

/// An inner node: separators and the children between them. The child right of a separator
/// holds the keys at or above it.
#[repr(C, align(64))]
pub(super) struct Inner {
    pub(super) slots: Slots<INNER_SLOTS>,
    first: AtomicU32,
    children: [AtomicU32; INNER_SLOTS],
}

impl Inner {
    /// A node with the separators of `slots`, the child left of all of them, and the child right
    /// of each.
    pub(super) fn new(
        slots: Slots<INNER_SLOTS>,
        first: Offset,
        children: impl ExactSizeIterator<Item = Offset>,
    ) -> Inner {
        assert_eq!(slots.permutation().count(), children.len(), "a child right of each separator");
        let inner = Inner {
            slots,
            first: AtomicU32::new(first),
            children: std::array::from_fn(|_| AtomicU32::new(0)),
        };
        for (slot, child) in children.enumerate() {
            inner.children[slot].store(child, Ordering::Relaxed);
        }
        inner
    }

    fn word(&self, permutation: Permutation, position: usize) -> &AtomicU32 {
        match position.checked_sub(1) {
            None => &self.first,
            Some(rank) => &self.children[permutation.slot(rank)],
        }
    }

    /// The child right of the first `position` separators.
    #[inline]
    pub(super) fn child(&self, permutation: Permutation, position: usize) -> Offset {
        // Order: acquire: the child may have been replaced after the permutation was stored.
        self.word(permutation, position).load(Ordering::Acquire)
    }

    /// Puts `child` in the place of the one right of the first `position` separators. Writers
    /// only.
    pub(super) fn replace_child(&self, position: usize, child: Offset) {
        // Order: release publishes the child, and the permutation stored before it.
        self.word(self.slots.permutation(), position).store(child, Ordering::Release);
    }

    /// Adds a separator with this rank and the child right of it. Writers only; the node must
    /// have room.
    pub(super) fn insert(&self, rank: usize, prefix: u64, separator: Offset, child: Offset) {
        let slot = self.slots.permutation().count();
        // Order: `Slots::insert` publishes it with the slot.
        self.children[slot].store(child, Ordering::Relaxed);
        self.slots.insert(rank, prefix, separator);
    }
}

const _: () = assert!(cfg!(terrace_loom) || size_of::<Leaf>() == 3 * super::arena::LINE_BYTES);
const _: () = assert!(cfg!(terrace_loom) || size_of::<Inner>() == 4 * super::arena::LINE_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_keeps_the_order_of_any_insertions() {
        let ranks = [0, 0, 1, 3, 2, 0, 6, 4, 8, 0, 10, 5, 12, 7, 14];
        let mut permutation = Permutation::ascending(0);
        let mut model: Vec<usize> = Vec::new();
        for (slot, &rank) in ranks.iter().enumerate() {
            permutation = permutation.with_inserted(rank);
            model.insert(rank, slot);
            let slots: Vec<usize> = (0..permutation.count()).map(|r| permutation.slot(r)).collect();
            assert_eq!(slots, model);
        }
        for count in 0..=INNER_SLOTS {
            let ascending = Permutation::ascending(count);
            let slots: Vec<usize> = (0..ascending.count()).map(|r| ascending.slot(r)).collect();
            assert_eq!(slots, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn prefixes_never_decrease_as_keys_grow() {
        let mut keys: Vec<Vec<u8>> = vec![vec![]];
        for bytes in [&b"a"[..], b"ab", b"abc", b"abcdefgh", b"abcdefghi", b"abcdefghijkl"] {
            for last in [0, 1, 0x7f, 0xfe, 0xff] {
                keys.push(bytes.to_vec());
                keys.push([bytes, &[last]].concat());
                keys.push([bytes, &[last, last, 0]].concat());
            }
        }
        keys.sort();
        for skip_bytes in if cfg!(miri) { 7..9 } else { 0..12 } {
            let checked = Skip::new(skip_bytes, true);
            for reference in &keys {
                let prefixes = keys.iter().map(|key| checked.checked_prefix(key, reference));
                assert!(prefixes.is_sorted(), "skip {skip_bytes} {reference:?}");
            }
        }
        assert_eq!(Skip::new(2, false).prefix(b"abc"), 0x6300_0000_0000_0000);
        assert_eq!(Skip::new(3, false).prefix(b"abc"), 0);
        assert_eq!(Skip::new(4, false).prefix(b"abc"), 0);
        assert_eq!(Skip::new(0, false).prefix(b"abcdefgh"), 0x6162_6364_6566_6768);
    }

    #[test]
    fn a_reader_with_an_older_order_does_not_count_what_came_since() {
        let skip = Skip::new(0, false);
        let slots = Slots::<LEAF_SLOTS>::new(skip, &[(10, 1), (20, 2)]);
        let before = slots.permutation();
        assert_eq!(slots.rank_through(before, 15), 1);
        slots.insert(0, 5, 3);
        assert_eq!(slots.rank_through(before, 15), 1, "a reader with the older order");
        assert_eq!(slots.rank_through(slots.permutation(), 15), 2);
        slots.insert(0, 4, 4);
        assert_eq!(slots.rank_through(before, u64::MAX), 2);
        assert_eq!(slots.rank_through(slots.permutation(), u64::MAX), 4);
    }
}
