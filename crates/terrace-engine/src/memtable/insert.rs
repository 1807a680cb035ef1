//! How the writer changes the tree. The rules that it keeps are in [`super::tree`].

#![allow(unsafe_code)]

use super::arena::Offset;
use super::charge::{self, HEIGHT_MAX};
use super::entry::Stored;
use super::node::{INNER_SLOTS, LEAF_SLOTS, Skip, Slots};
use super::tree::{LEAF_TAG, Position, Tree, Writer};

/// A full leaf is left in place for a new one at its right if this many of its last keys came in
/// at the end. A random load does not do that; a sequential one, among others or not, does.
const RUN_MIN: u8 = if cfg!(terrace_loom) { 2 } else { 6 };
/// A split takes longer skips only if the copies would use fewer bytes of a prefix than this.
const PREFIX_BYTES_MIN: usize = 4;

/// What an insert did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Inserted {
    /// The key was new. The nodes are charged this many bytes.
    NewKey(usize),
    /// The key was there, and has a version more.
    NewVersion,
    /// The key has a version with this number already; nothing was changed.
    Duplicate,
}

/// One inner node on the way to a leaf.
#[derive(Clone, Copy, Default)]
struct Step {
    inner: Offset,
    /// The child that was taken, as the number of separators left of it.
    position: usize,
    count: usize,
}

/// The inner nodes from the root to a leaf.
struct Path {
    steps: [Step; HEIGHT_MAX],
    height: usize,
}

/// A split to be told to the parent: `old` was split into `left` (perhaps itself) and `right`,
/// whose keys are those at or above the key of `separator`.
struct Split {
    old: Offset,
    left: Offset,
    separator: Offset,
    right: Offset,
}

impl Tree {
    /// Inserts an entry of this tree's arena that nobody else knows yet.
    pub(super) fn insert<'a>(&'a self, writer: &mut Writer, newcomer: Stored<'a>) -> Inserted {
        debug_assert!(newcomer.is_in(self.arena()), "offsets mean nothing elsewhere");
        let key = newcomer.key();
        let mut path = Path { steps: [Step::default(); HEIGHT_MAX], height: 0 };
        let mut node = self.root();
        while node & LEAF_TAG == 0 {
            // Safety: the writer's own words; see `descend`.
            let inner = unsafe { self.inner(node) };
            let permutation = inner.slots.permutation();
            let position = self.child_position(&inner.slots, permutation, key);
            path.push(Step { inner: node, position, count: permutation.count() });
            node = inner.child(permutation, position);
            self.prefetch(node);
        }
        // Safety: the writer's own words; see `descend`.
        let leaf = unsafe { self.leaf(node) };
        let permutation = leaf.slots.permutation();
        let position = self.search(&leaf.slots, permutation, key);
        if position.is_found {
            return self.insert_version(&leaf.slots, permutation.slot(position.rank), newcomer);
        }
        debug_assert!(self.is_between(&leaf.slots, position.rank, key), "a leaf is in order");
        let count = permutation.count();
        let is_last = position.rank == count;
        if count < LEAF_SLOTS {
            leaf.slots.insert(position.rank, position.prefix, newcomer.offset());
            leaf.slots.set_run(if is_last { leaf.slots.run().saturating_add(1) } else { 0 });
            return Inserted::NewKey(charge::leaf_insert(count));
        }
        let charged = if is_last && leaf.slots.run() >= RUN_MIN {
            self.extend_leaf(writer, &path, node, newcomer)
        } else {
            self.split_leaf(writer, &path, node, &position, newcomer)
        };
        Inserted::NewKey(charged)
    }

    /// Whether `key` lies above the key before `rank` and below the one at it.
    fn is_between(&self, slots: &Slots<LEAF_SLOTS>, rank: usize, key: &[u8]) -> bool {
        let permutation = slots.permutation();
        let other = |rank| self.slot_entry(slots, permutation.slot(rank)).key();
        (rank == 0 || other(rank - 1) < key) && (rank == permutation.count() || key < other(rank))
    }

    /// Links a version into the chain of its key, by its number.
    fn insert_version<'a>(
        &'a self,
        slots: &Slots<LEAF_SLOTS>,
        slot: usize,
        newcomer: Stored<'a>,
    ) -> Inserted {
        let seqno = newcomer.seqno();
        let newest = self.slot_entry(slots, slot);
        let (newer, older) = if newest.seqno() > seqno {
            let (newer, older) = newest.neighbours(seqno);
            (Some(newer), older)
        } else {
            (None, Some(newest))
        };
        if older.is_some_and(|version| version.seqno() == seqno) {
            return Inserted::Duplicate;
        }
        if let Some(older) = older {
            // Safety: the newcomer is not published, and `older` has its key and a lower number.
            unsafe { newcomer.link_above(older) };
        }
        match newer {
            Some(newer) => newer.set_older(newcomer),
            None => slots.replace_entry(slot, newcomer.offset()),
        }
        Inserted::NewVersion
    }

    /// Puts a leaf with the newcomer alone to the right of a full one, which stays as it is.
    fn extend_leaf(
        &self,
        writer: &mut Writer,
        path: &Path,
        old: Offset,
        newcomer: Stored<'_>,
    ) -> usize {
        // Safety: the writer found it on its path.
        let leaf = unsafe { self.leaf(old) };
        // The newcomer alone says nothing about what its followers will share with it. The keys
        // before it do: expect as much as they shared.
        let shared_bytes = common_bytes(self.first_key(old), newcomer.key());
        let interval = path.interval(self, path.height).split_at(newcomer.key()).1;
        let skip = guess_skip(interval.shared_bytes(), shared_bytes);
        let next = leaf.next();
        let slots = Slots::new(skip, &[(skip.prefix(newcomer.key()), newcomer.offset())]);
        slots.set_run(leaf.slots.run());
        let right = self.new_leaf(slots, old, next);
        let split = Split { old, left: old, separator: newcomer.offset(), right };
        let charged = self.tell_parents(writer, path, split);
        if next != 0 {
            // Safety: a link of a live leaf.
            unsafe { self.leaf(next) }.set_prev(right);
        }
        leaf.set_next(right);
        // What comes in below the newcomer is not part of the run.
        leaf.slots.set_run(0);
        charged + charge::leaf_extend()
    }

    /// Replaces a full leaf by two copies that have the newcomer as well.
    fn split_leaf(
        &self,
        writer: &mut Writer,
        path: &Path,
        old: Offset,
        position: &Position,
        newcomer: Stored<'_>,
    ) -> usize {
        // Safety: the writer found it on its path.
        let leaf = unsafe { self.leaf(old) };
        let permutation = leaf.slots.permutation();
        let mut keys = [(0, 0); LEAF_SLOTS + 1];
        for (rank, key) in keys.iter_mut().enumerate() {
            *key = match rank.cmp(&position.rank) {
                std::cmp::Ordering::Equal => (position.prefix, newcomer.offset()),
                order => {
                    let slot = permutation.slot(rank - usize::from(order.is_gt()));
                    (leaf.slots.prefix(slot), leaf.slots.entry(slot))
                }
            };
        }
        let (left_keys, right_keys) = keys.split_at_mut(LEAF_SLOTS / 2);
        let separator = right_keys[0].1;
        let interval = || path.interval(self, path.height).split_at(self.key_at(separator));
        let left_skip = self.fit_skip(leaf.slots.skip(), left_keys, || interval().0);
        let right_skip = self.fit_skip(leaf.slots.skip(), right_keys, || interval().1);

        let (prev, next) = (leaf.prev(), leaf.next());
        let left = self.new_leaf(Slots::new(left_skip, left_keys), prev, 0);
        let right = self.new_leaf(Slots::new(right_skip, right_keys), left, next);
        // Safety: just made.
        unsafe { self.leaf(left) }.set_next(right);
        let charged = self.tell_parents(writer, path, Split { old, left, separator, right });
        if prev != 0 {
            // Safety: a link of what was a live leaf until now.
            unsafe { self.leaf(prev) }.set_next(left);
        }
        if next != 0 {
            // Safety: as above.
            unsafe { self.leaf(next) }.set_prev(right);
        }
        charged + charge::leaf_split()
    }

    /// The skip for a copy with some of a node's keys. Leaves their prefixes as they are, without
    /// a look at the keys, where these still tell the keys apart well enough.
    fn fit_skip<'a>(
        &self,
        old: Skip,
        keys: &mut [(u64, Offset)],
        interval: impl FnOnce() -> Interval<'a>,
    ) -> Skip {
        let differing_bits = keys[0].0 ^ keys[keys.len() - 1].0;
        let common_prefix_bytes = differing_bits.leading_zeros() as usize / 8;
        if !old.checked && common_prefix_bytes <= 8 - PREFIX_BYTES_MIN {
            return old;
        }
        let first = self.key_at(keys[0].1);
        let last = self.key_at(keys[keys.len() - 1].1);
        let skip = choose_skip(interval().shared_bytes(), common_bytes(first, last));
        if skip != old || skip.checked {
            for (prefix, entry) in keys {
                *prefix = if skip.checked {
                    skip.checked_prefix(self.key_at(*entry), first)
                } else {
                    skip.prefix(self.key_at(*entry))
                };
            }
        }
        skip
    }

    /// Publishes a split in the parent, and splits the parents that are full. Returns what the
    /// separators cost.
    fn tell_parents(&self, _writer: &mut Writer, path: &Path, mut split: Split) -> usize {
        for height in (0..path.height).rev() {
            let step = path.steps[height];
            // Safety: the writer found it on its path.
            let inner = unsafe { self.inner(step.inner) };
            let is_rightmost = path.steps[..height].iter().all(Step::is_last);
            if step.count < INNER_SLOTS {
                let key = self.key_at(split.separator);
                let prefix = self.prefix_in(&inner.slots, inner.slots.permutation(), key);
                // Order: the permutation first, then the word; see the module's description.
                inner.insert(step.position, prefix, split.separator, split.right);
                if split.left != split.old {
                    inner.replace_child(step.position, split.left);
                }
                return charge::inner_insert(step.count, is_rightmost);
            }
            // The old node must not change in this split: a reader that comes by the way of
            // before would miss the right part. So it is left in place only with all children.
            split = if is_rightmost && step.is_last() && split.left == split.old {
                self.extend_inner(step, &split)
            } else {
                self.split_inner(step, &split, path.interval(self, height))
            };
        }
        // The separator is the only key: expect that its followers share with it what it shares
        // with the first key below it.
        let separator = self.key_at(split.separator);
        let skip = guess_skip(0, common_bytes(self.first_key(split.old), separator));
        let slots = Slots::new(skip, &[(skip.prefix(separator), split.separator)]);
        let root = self.new_inner(slots, split.left, [split.right].into_iter());
        self.set_root(root);
        0
    }

    /// Puts an inner node with one child to the right of a full one, which stays as it is.
    fn extend_inner(&self, step: Step, below: &Split) -> Split {
        let separator = self.key_at(below.separator);
        let skip = guess_skip(0, common_bytes(self.first_key(step.inner), separator));
        let right = self.new_inner(Slots::new(skip, &[]), below.right, [].into_iter());
        Split { old: step.inner, left: step.inner, separator: below.separator, right }
    }

    /// Replaces a full inner node by two copies that have the split below it as well.
    fn split_inner(&self, step: Step, below: &Split, interval: Interval<'_>) -> Split {
        // Safety: the writer found it on its path.
        let inner = unsafe { self.inner(step.inner) };
        let permutation = inner.slots.permutation();
        // The separators with the children right of them.
        let mut keys = [(0, 0); INNER_SLOTS + 1];
        let mut children = [0; INNER_SLOTS + 1];
        let mut first = inner.child(permutation, 0);
        for rank in 0..keys.len() {
            (keys[rank].1, children[rank]) = match rank.cmp(&step.position) {
                std::cmp::Ordering::Equal => (below.separator, below.right),
                order => {
                    let rank = rank - usize::from(order.is_gt());
                    let separator = inner.slots.entry(permutation.slot(rank));
                    (separator, inner.child(permutation, rank + 1))
                }
            };
        }
        match step.position.checked_sub(1) {
            None => first = below.left,
            Some(rank) => children[rank] = below.left,
        }

        let middle = keys.len() / 2 - 1;
        let separator = keys[middle].1;
        let (left_interval, right_interval) = interval.split_at(self.key_at(separator));
        let left = self.copy_inner(first, &mut keys[..middle], &children[..middle], left_interval);
        let right = self.copy_inner(
            children[middle],
            &mut keys[middle + 1..],
            &children[middle + 1..],
            right_interval,
        );
        Split { old: step.inner, left, separator, right }
    }

    fn copy_inner(
        &self,
        first: Offset,
        keys: &mut [(u64, Offset)],
        children: &[Offset],
        interval: Interval<'_>,
    ) -> Offset {
        // No node has this skip, so that all prefixes are made anew.
        let skip = self.fit_skip(Skip::new(0, true), keys, || interval);
        self.new_inner(Slots::new(skip, keys), first, children.iter().copied())
    }

    /// The key of an entry in a node.
    fn key_at(&self, entry: Offset) -> &[u8] {
        // Safety: called with offsets that stand in nodes, or that the writer is putting there.
        unsafe { Stored::at(self.arena(), entry) }.expect("nodes name entries").key()
    }
}

impl Step {
    fn is_last(&self) -> bool {
        self.position == self.count
    }
}

impl Path {
    fn push(&mut self, step: Step) {
        self.steps[self.height] = step;
        self.height += 1;
    }

    /// The interval of the node below the first `height` steps.
    fn interval<'a>(&self, tree: &'a Tree, height: usize) -> Interval<'a> {
        let separator = |step: &Step, rank: usize| {
            // Safety: the writer found it on its path.
            let slots = unsafe { &tree.inner(step.inner).slots };
            tree.slot_entry(slots, slots.permutation().slot(rank)).key()
        };
        let steps = self.steps[..height].iter().rev();
        let low = steps.clone().find(|step| step.position > 0);
        let high = steps.clone().find(|step| !step.is_last());
        Interval {
            low: low.map(|step| separator(step, step.position - 1)),
            high: high.map(|step| separator(step, step.position)),
        }
    }
}

/// The keys that a node may be asked for: from `low` up to, not including, `high`.
#[derive(Clone, Copy)]
struct Interval<'a> {
    low: Option<&'a [u8]>,
    high: Option<&'a [u8]>,
}

impl<'a> Interval<'a> {
    fn split_at(self, key: &'a [u8]) -> (Interval<'a>, Interval<'a>) {
        (Interval { high: Some(key), ..self }, Interval { low: Some(key), ..self })
    }

    /// How many bytes all its keys share.
    fn shared_bytes(self) -> usize {
        match (self.low, self.high) {
            (Some(low), Some(high)) => common_bytes(low, high),
            _ => 0,
        }
    }
}

/// The skip of a node whose interval's keys share `implied_bytes` and whose keys share
/// `shared_bytes`: a checked one only if the other would leave too little of the prefixes.
fn choose_skip(implied_bytes: usize, shared_bytes: usize) -> Skip {
    if shared_bytes > implied_bytes + (8 - PREFIX_BYTES_MIN) {
        Skip::new(shared_bytes, true)
    } else {
        Skip::new(implied_bytes, false)
    }
}

/// The skip of a node whose keys are still to come, if those before them share `shared_bytes`: a
/// few bytes less, as the next keys may differ a little further up.
fn guess_skip(implied_bytes: usize, shared_bytes: usize) -> Skip {
    let skip = choose_skip(implied_bytes, shared_bytes);
    let guessed_bytes = shared_bytes.saturating_sub(8 - 1 - PREFIX_BYTES_MIN);
    if skip.checked { Skip::new(guessed_bytes, true) } else { skip }
}

/// How many bytes the two keys share at their starts.
fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
