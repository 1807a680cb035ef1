//! What the arena owes: the budget that reservations are taken from, and the price of nodes.
//!
//! An insert must not fail, so the bytes that it may need are reserved before it. The bytes of
//! the entry are known, those of the nodes are not: most inserts make no node, some make two at
//! each height. Reserving the worst case for each entry of a batch would refuse batches that
//! fit. So each node saves up for its own split while it fills, and an insert never costs more
//! than [`NODE_CHARGE_MAX`], although what it adds to the arena may be more.
//!
//! Let A = 192 be the bytes of a leaf and B = 256 those of an inner node. A split makes copies
//! that have at most 8 keys or separators, so a node is given the ninth and all later ones after
//! it was made:
//!
//! * A key that is the 9th to 14th of its leaf saves [`LEAF_SAVING`] = 32. A full leaf has saved
//!   6 · 32 = 192; its split costs 2A − 192 = 192, and a separator.
//! * A separator that is the 9th to 15th of its node saves [`INNER_SAVING`] = 74. A full inner
//!   node has saved 7 · 74 = 518 ≥ 2B: its split is paid for, and the separator that goes up
//!   costs what it costs there.
//! * The rightmost inner node of a height may, once, leave all it has in place and go on in a new
//!   node at its right. It saves [`EDGE_SAVING`] = 37 more for each of those separators:
//!   7 · 37 = 259 ≥ B.
//! * So a separator costs at most 74 + 37 = 111 at any height, and a key at most
//!   192 + 111 = 303: leaving a full leaf in place for a new one at its right costs A, too.
//!
//! A new root is paid for in advance by [`FIXED_BYTES`].

use super::arena::LINE_BYTES;
use super::entry::entry_bytes;
use super::node::{Inner, LEAF_SLOTS, Leaf};
use terrace_env::atomic::{AtomicUsize, Ordering};

/// Bytes of a leaf.
pub(super) const LEAF_BYTES: usize = size_of::<Leaf>();
/// Bytes of an inner node.
pub(super) const INNER_BYTES: usize = size_of::<Inner>();
/// The most inner nodes above a leaf. A node that is not a root has at least 7 children but at
/// the right edge, and 32-bit offsets address fewer than 7^12 leaves.
pub(super) const HEIGHT_MAX: usize = 12;
/// Taken when the arena is made: what precedes the first entry, the first leaf, all the roots.
pub(super) const FIXED_BYTES: usize = LINE_BYTES + LEAF_BYTES + HEIGHT_MAX * INNER_BYTES;

/// The most that the tree charges for one key, the bytes of its entry not included.
pub(super) const NODE_CHARGE_MAX: usize = if cfg!(terrace_loom) {
    // The nodes of a model are too small to save up for anything.
    4 * (LEAF_BYTES + INNER_BYTES)
} else {
    LEAF_BYTES + INNER_SAVING + EDGE_SAVING
};

const LEAF_SAVING: usize = 32;
const INNER_SAVING: usize = 74;
const EDGE_SAVING: usize = 37;
/// A node saves for the keys beyond this number, the most that a copy begins with.
const SAVED_FROM: usize = if cfg!(terrace_loom) { 2 } else { 8 };

/// What a plain insertion into a leaf with `count` keys saves.
#[inline]
pub(super) fn leaf_insert(count: usize) -> usize {
    if count >= SAVED_FROM { LEAF_SAVING } else { 0 }
}

/// What a full leaf's split into two copies costs beside the separator.
pub(super) fn leaf_split() -> usize {
    2 * LEAF_BYTES - (LEAF_SLOTS - SAVED_FROM) * LEAF_SAVING
}

/// What a new leaf to the right of a full one costs beside the separator.
pub(super) fn leaf_extend() -> usize {
    LEAF_BYTES
}

/// What a plain insertion into an inner node with `count` separators saves.
pub(super) fn inner_insert(count: usize, is_rightmost: bool) -> usize {
    match (count >= SAVED_FROM, is_rightmost) {
        (false, _) => 0,
        (true, false) => INNER_SAVING,
        (true, true) => INNER_SAVING + EDGE_SAVING,
    }
}

/// The most bytes that inserting one entry takes from a reservation.
#[inline]
pub(super) fn insert_bytes_max(key_bytes: usize, value_bytes: usize) -> usize {
    entry_bytes(key_bytes, value_bytes, true) + NODE_CHARGE_MAX
}

/// The bytes of one arena that are taken or promised.
pub(super) struct Budget {
    taken_bytes: AtomicUsize,
    /// Only grows.
    limit_bytes: AtomicUsize,
}

impl Budget {
    /// A budget of `limit_bytes`, of which [`FIXED_BYTES`] are taken.
    pub(super) fn new(limit_bytes: usize) -> Budget {
        assert!(limit_bytes >= FIXED_BYTES, "an arena holds at least an empty tree");
        Budget {
            taken_bytes: AtomicUsize::new(FIXED_BYTES),
            limit_bytes: AtomicUsize::new(limit_bytes),
        }
    }

    /// Makes the limit at least `limit_bytes`, which the arena must have.
    pub(super) fn raise_limit(&self, limit_bytes: usize) {
        self.limit_bytes.fetch_max(limit_bytes, Ordering::Relaxed);
    }

    pub(super) fn taken_bytes(&self) -> usize {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Takes `bytes`, if they are there.
    #[inline]
    pub(super) fn reserve(&self, bytes: usize) -> Option<Reservation<'_>> {
        // Order: relaxed; the budget is only a count, and orders nothing else.
        self.taken_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                taken.checked_add(bytes).filter(|&taken| taken <= self.limit_bytes())
            })
            .ok()?;
        Some(Reservation { budget: self, bytes })
    }
}

/// Bytes of one memtable's arena that are set aside for inserts into it.
///
/// May be sent to another thread and kept for as long as the memtable is. What is left of it when
/// it is dropped goes back to the memtable.
#[must_use = "dropping a reservation gives it back"]
pub struct Reservation<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Reservation<'_> {
    /// The bytes that are left.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it was taken from this budget.
    pub(super) fn is_from(&self, budget: &Budget) -> bool {
        std::ptr::eq(self.budget, budget)
    }

    /// Uses up `bytes` for good.
    ///
    /// # Panics
    /// If fewer are left: the caller reserved less than it inserts.
    #[inline]
    pub(super) fn spend(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes, "an insert needs more than was reserved for it");
        self.bytes -= bytes;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.taken_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::node::INNER_SLOTS;

    /// Goal: the savings pay for the nodes. Method: the sums of the module's description, from
    /// the constants; the tree's tests check them against the arena.
    #[test]
    fn a_full_node_has_saved_for_its_split() {
        let leaf_saved: usize = (SAVED_FROM..LEAF_SLOTS).map(leaf_insert).sum();
        assert_eq!(leaf_split() + leaf_saved, 2 * LEAF_BYTES);
        let inner_saved = |is_rightmost| -> usize {
            (0..INNER_SLOTS).map(|count| inner_insert(count, is_rightmost)).sum()
        };
        assert!(inner_saved(false) >= 2 * INNER_BYTES);
        assert!(inner_saved(true) >= 3 * INNER_BYTES);
        let separator_max = inner_insert(INNER_SLOTS - 1, true);
        assert!(leaf_split() + separator_max <= NODE_CHARGE_MAX);
        assert!(leaf_extend() + separator_max <= NODE_CHARGE_MAX);
    }

    #[test]
    fn a_budget_is_never_exceeded_and_gets_back_what_is_left() {
        let budget = Budget::new(FIXED_BYTES + 100);
        let mut first = budget.reserve(60).expect("it fits");
        assert!(budget.reserve(41).is_none());
        assert!(budget.reserve(usize::MAX).is_none());
        let second = budget.reserve(40).expect("it fits exactly");
        first.spend(10);
        drop((first, second));
        assert_eq!(budget.taken_bytes(), FIXED_BYTES + 10);
        assert!(budget.reserve(91).is_none());
        budget.raise_limit(FIXED_BYTES + 101);
        assert!(budget.reserve(91).is_some());
    }
}
