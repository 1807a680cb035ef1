//! The tree: how keys are found and how nodes split.
//!
//! # How readers and the writer share it
//!
//! One writer at a time (the caller holds the latch and shows it by a [`Writer`]); any number of
//! readers, which take no lock, wait for no other thread and write nothing.
//!
//! A node *lives* from its publication, in its parent or as the root, to the end of the insert that
//! puts another in its place. It changes in these ways only:
//!
//! 1. It gains a key in an unused slot, published by a new permutation.
//! 2. A leaf's slot is given a newer version of its key; a version is linked into a chain.
//! 3. An inner node's child is replaced by a copy of it, or of the left part of it.
//! 4. A leaf's links to its neighbours are changed.
//!
//! Slots are never used again and nothing is taken out: a node that is full is *copied* into two
//! new ones and dies, and the dead node stays as it was. The only other split leaves the full
//! node alone and puts a new one, with the newcomer as its only key, at its right: of the part of
//! the interval that the full node loses it held no key.
//!
//! `Order:` Let an entry e be inserted before a read begins: the insert happens before all loads
//! of the read. (Whoever reads at a read point has loaded it, with acquire, from where it was
//! published, with release, after the inserts.) Claim: the read finds e.
//!
//! * *Every node that a read comes to was alive at some moment after the read began.* The root
//!   was, when the root's word was loaded; and so was a child of a node X, if X was alive when the
//!   child's word was loaded. If X was dead by then, its words are those of its death, which came
//!   after the read began, and so their nodes were alive after the read began. The same holds for
//!   links between leaves: at the end of each insert the links of live leaves point to live leaves,
//!   and a dead leaf's are those of its death.
//! * *A node that was alive at a moment t shows all that was inserted in its interval before t,*
//!   whenever it is read: by rules 1 and 2 it loses nothing, and when others take its place they
//!   are copies of it but for the one key whose insert is not at its end.
//! * *The child that a read chooses has the key in its interval.* The permutation and the child's
//!   word are two loads. If the child was replaced by the copy of its left part in between, the
//!   key may belong to the right part. The writer stores the permutation, which names the
//!   separator and the right part, before the word; so a reader that loads the word (acquire) and
//!   then finds the permutation unchanged has seen a word no newer than that permutation.
//!   Otherwise it looks again; a node's permutation changes at most 15 times in its life, so no
//!   reader does so for ever.
//! * The leaf's permutation, slots and chains are loaded with acquire and stored with release, so
//!   what they name is complete; and e's place in them is no older than e.
//!
//! An ordered walk follows the links. The leaf that it comes to covers an interval that begins (to
//! the left: ends) where that of the last leaf ended (began), so that no key is passed by or shown
//! twice: a link is older than a split only by pointing to the node that was split, which covers
//! both parts. (The new leaf beside a full one may be passed by, but only while every key in it is
//! younger than the read.)

#![allow(unsafe_code)]

use smallvec::{SmallVec, smallvec};

use super::arena::{Arena, Offset};
use super::charge::{INNER_BYTES, LEAF_BYTES};
use super::entry::Stored;
use super::node::{INNER_SLOTS, Inner, LEAF_SLOTS, Leaf, Permutation, Skip, Slots};
use terrace_env::atomic::{AtomicU32, Ordering};

/// Set in the offset of a leaf, whose other low bits are 0 as for every node.
pub(super) const LEAF_TAG: Offset = 1;
/// The cache lines of an entry that are asked for before its length is known: a short key and a
/// value of two hundred bytes.
const ENTRY_LINES: usize = 4;
/// How far a walk asks ahead.
const STEPS_AHEAD: usize = 3;

/// Shown by whoever holds the memtable's latch.
pub(super) struct Writer(());

impl Writer {
    /// The one writer of a new tree.
    pub(super) fn new() -> Writer {
        Writer(())
    }
}

/// Where a key stands, or would stand, among the keys of a node.
pub(super) struct Position {
    /// How many keys lie below it.
    pub(super) rank: usize,
    /// Whether the key with this rank is the key itself.
    pub(super) is_found: bool,
    pub(super) prefix: u64,
}

/// A leaf as a reader found it: the order that it had then, in which a walk goes through it.
#[derive(Clone, Copy)]
pub(super) struct LeafView<'a> {
    leaf: &'a Leaf,
    pub(super) offset: Offset,
    pub(super) permutation: Permutation,
}

pub(super) struct Tree {
    arena: Arena,
    /// The root, with the tag of its kind.
    root: Line<AtomicU32>,
}

/// A value with a cache line to itself: readers of the root must not lose it to the writer's
/// other words.
#[repr(align(64))]
struct Line<T>(T);

impl Tree {
    /// A tree with one empty leaf.
    pub(super) fn new(arena: Arena) -> Tree {
        let tree = Tree { arena, root: Line(AtomicU32::new(0)) };
        let leaf = tree.new_leaf(Slots::new(Skip::new(0, false), &[]), 0, 0);
        tree.set_root(leaf);
        tree
    }

    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The newest version of `key`.
    #[inline]
    pub(super) fn newest(&self, key: &[u8]) -> Option<Stored<'_>> {
        let view = self.leaf_for(key);
        let position = self.search(&view.leaf.slots, view.permutation, key);
        position.is_found.then(|| self.view_entry(view, position.rank))
    }

    /// Asks for the lines on the ways to `keys`, a level of all of them at a time.
    pub(super) fn warm(&self, keys: &[&[u8]]) {
        let mut nodes: SmallVec<[Offset; 16]> = smallvec![self.root(); keys.len()];
        let mut goes_on = true;
        while goes_on {
            goes_on = false;
            for (node, key) in nodes.iter_mut().zip(keys).filter(|(node, _)| **node & LEAF_TAG == 0)
            {
                // Safety: the root's word and children's words hold published nodes, and the tag
                // says that this is an inner one.
                let inner = unsafe { self.inner(*node) };
                let permutation = inner.slots.permutation();
                let position = self.child_position(&inner.slots, permutation, key);
                // Order: a permutation that changed meanwhile leads to a neighbour, which is only
                // of no use.
                *node = inner.child(permutation, position);
                self.prefetch(*node);
                goes_on = true;
            }
        }
        for (node, key) in nodes.into_iter().zip(keys) {
            // Safety: as above; the tag says that it is a leaf. A search asks for the entry.
            let leaf = unsafe { self.leaf(node) };
            let permutation = leaf.slots.permutation();
            let rank = leaf.slots.rank_through(permutation, leaf.slots.skip().prefix(key));
            if let Some(rank) = rank.checked_sub(1) {
                self.arena.prefetch(leaf.slots.entry(permutation.slot(rank)), ENTRY_LINES);
            }
        }
    }

    /// The leaf whose interval has `key` in it.
    #[inline]
    pub(super) fn leaf_for(&self, key: &[u8]) -> LeafView<'_> {
        self.descend(|slots, permutation| self.child_position(slots, permutation, key))
    }

    /// The leftmost leaf.
    pub(super) fn first_leaf(&self) -> LeafView<'_> {
        self.descend(|_, _| 0)
    }

    /// The rightmost leaf, or one that was the rightmost after the call began.
    pub(super) fn last_leaf(&self) -> LeafView<'_> {
        self.descend(|_, permutation| permutation.count())
    }

    /// The leaf at an offset.
    ///
    /// # Safety
    /// `offset` is that of a [`LeafView`] or a neighbour of one of this tree.
    #[inline]
    pub(super) unsafe fn view(&self, offset: Offset) -> LeafView<'_> {
        // Safety: passed on to the caller.
        let leaf = unsafe { self.leaf(offset) };
        LeafView { leaf, offset, permutation: leaf.slots.permutation() }
    }

    /// A leaf as it was found before.
    ///
    /// # Safety
    /// Both are those of one [`LeafView`] of this tree.
    #[inline]
    pub(super) unsafe fn view_again(
        &self,
        offset: Offset,
        permutation: Permutation,
    ) -> LeafView<'_> {
        // Safety: passed on to the caller.
        LeafView { leaf: unsafe { self.leaf(offset) }, offset, permutation }
    }

    /// How many keys of `view` lie below `key`.
    pub(super) fn rank_in(&self, view: LeafView<'_>, key: &[u8]) -> usize {
        self.search(&view.leaf.slots, view.permutation, key).rank
    }

    /// The newest version of the key of this rank.
    #[inline]
    pub(super) fn view_entry<'a>(&'a self, view: LeafView<'a>, rank: usize) -> Stored<'a> {
        self.slot_entry(&view.leaf.slots, view.permutation.slot(rank))
    }

    /// Asks for what a walk to the right comes to a few steps after `rank`, without waiting.
    #[inline]
    pub(super) fn prefetch_after(&self, view: LeafView<'_>, rank: usize) {
        let ahead = rank + STEPS_AHEAD;
        if ahead < view.permutation.count() {
            let entry = view.leaf.slots.entry(view.permutation.slot(ahead));
            self.arena.prefetch(entry, 1);
        } else if ahead == view.permutation.count() {
            self.prefetch(view.leaf.next());
        }
    }

    /// The leaf to the right of `view`.
    pub(super) fn next_leaf<'a>(&'a self, view: LeafView<'a>) -> Option<LeafView<'a>> {
        let next = view.leaf.next();
        // Safety: a link of a leaf of this tree.
        (next != 0).then(|| unsafe { self.view(next) })
    }

    /// The leaf to the left of `view`.
    pub(super) fn prev_leaf<'a>(&'a self, view: LeafView<'a>) -> Option<LeafView<'a>> {
        let prev = view.leaf.prev();
        // Safety: a link of a leaf of this tree.
        (prev != 0).then(|| unsafe { self.view(prev) })
    }

    /// Goes from the root to a leaf; `choose` says right of how many separators.
    #[inline]
    fn descend(&self, choose: impl Fn(&Slots<INNER_SLOTS>, Permutation) -> usize) -> LeafView<'_> {
        let mut node = self.root();
        while node & LEAF_TAG == 0 {
            // Safety: the root's word and children's words hold published nodes, and the tag
            // says that this is an inner one.
            let inner = unsafe { self.inner(node) };
            node = loop {
                let permutation = inner.slots.permutation();
                let child = inner.child(permutation, choose(&inner.slots, permutation));
                // Order: see the module's description; the load of `child` is an acquire, so
                // this one comes after it.
                if inner.slots.permutation() == permutation {
                    break child;
                }
            };
            self.prefetch(node);
        }
        // Safety: as above; the tag says that it is a leaf.
        unsafe { self.view(node) }
    }

    /// The root, or 0 while the tree is made.
    #[inline]
    pub(super) fn root(&self) -> Offset {
        // Order: acquire: the root may be younger than what this thread knows of the tree.
        self.root.0.load(Ordering::Acquire)
    }

    /// Writers only.
    pub(super) fn set_root(&self, root: Offset) {
        // Order: release publishes the root and what it points to.
        self.root.0.store(root, Ordering::Release);
    }

    #[inline]
    pub(super) fn prefetch(&self, node: Offset) {
        let bytes = if node & LEAF_TAG == 0 { INNER_BYTES } else { LEAF_BYTES };
        self.arena.prefetch(node & !LEAF_TAG, bytes / super::arena::LINE_BYTES);
    }

    /// Where `key` stands in a leaf.
    #[inline]
    pub(super) fn search(
        &self,
        slots: &Slots<LEAF_SLOTS>,
        permutation: Permutation,
        key: &[u8],
    ) -> Position {
        // A checked skip costs a look at the reference. A key that is there is found without it.
        if slots.skip().checked {
            let guess = self.search_by(slots, permutation, slots.skip().prefix(key), key);
            if guess.is_found {
                return guess;
            }
        }
        let prefix = self.prefix_in(slots, permutation, key);
        self.search_by(slots, permutation, prefix, key)
    }

    #[inline]
    fn search_by<const N: usize>(
        &self,
        slots: &Slots<N>,
        permutation: Permutation,
        prefix: u64,
        key: &[u8],
    ) -> Position {
        let rank = slots.rank_through(permutation, prefix);
        if ends_in_tie(slots, permutation, prefix, rank) {
            self.break_tie(slots, permutation, prefix, rank, key)
        } else {
            Position { rank, is_found: false, prefix }
        }
    }

    /// Right of how many separators of an inner node `key` belongs.
    #[inline]
    pub(super) fn child_position(
        &self,
        slots: &Slots<INNER_SLOTS>,
        permutation: Permutation,
        key: &[u8],
    ) -> usize {
        let prefix = self.prefix_in(slots, permutation, key);
        let rank = slots.rank_through(permutation, prefix);
        if ends_in_tie(slots, permutation, prefix, rank) {
            self.child_position_of_tie(slots, permutation, prefix, rank, key)
        } else {
            rank
        }
    }

    /// Apart, since ties are rare in inner nodes and the way down must be short.
    #[inline(never)]
    fn child_position_of_tie(
        &self,
        slots: &Slots<INNER_SLOTS>,
        permutation: Permutation,
        prefix: u64,
        rank: usize,
        key: &[u8],
    ) -> usize {
        let position = self.break_tie(slots, permutation, prefix, rank, key);
        position.rank + usize::from(position.is_found)
    }

    /// Where `key` stands if keys up to `end`, exclusive, have its prefix: the whole keys decide.
    #[inline]
    fn break_tie<const N: usize>(
        &self,
        slots: &Slots<N>,
        permutation: Permutation,
        prefix: u64,
        end: usize,
        key: &[u8],
    ) -> Position {
        let (mut low, mut high) = (end - 1, end);
        if N == LEAF_SLOTS {
            // Most likely this is the key, and its reader wants the value behind it.
            self.arena.prefetch(slots.entry(permutation.slot(low)), ENTRY_LINES);
        }
        while ends_in_tie(slots, permutation, prefix, low) {
            low -= 1;
        }
        while low < high {
            let middle = low.midpoint(high);
            let other = self.slot_entry(slots, permutation.slot(middle)).key();
            match key.cmp(other) {
                std::cmp::Ordering::Less => high = middle,
                std::cmp::Ordering::Greater => low = middle + 1,
                std::cmp::Ordering::Equal => {
                    return Position { rank: middle, is_found: true, prefix };
                }
            }
        }
        Position { rank: low, is_found: false, prefix }
    }

    /// The prefix of `key` in a node.
    #[inline]
    pub(super) fn prefix_in<const N: usize>(
        &self,
        slots: &Slots<N>,
        permutation: Permutation,
        key: &[u8],
    ) -> u64 {
        let skip = slots.skip();
        if skip.checked {
            self.checked_prefix_in(slots, permutation, key)
        } else {
            skip.prefix(key)
        }
    }

    #[inline(never)]
    fn checked_prefix_in<const N: usize>(
        &self,
        slots: &Slots<N>,
        permutation: Permutation,
        key: &[u8],
    ) -> u64 {
        // The first key of a node is its own reference.
        if permutation.count() == 0 {
            return slots.skip().prefix(key);
        }
        slots.skip().checked_prefix(key, self.slot_entry(slots, 0).key())
    }

    /// The first key in a node that has one.
    pub(super) fn first_key(&self, node: Offset) -> &[u8] {
        if node & LEAF_TAG == 0 {
            // Safety: called for nodes of this tree; the tag says which kind.
            let slots = &unsafe { self.inner(node) }.slots;
            self.slot_entry(slots, slots.permutation().slot(0)).key()
        } else {
            // Safety: as above.
            let slots = &unsafe { self.leaf(node) }.slots;
            self.slot_entry(slots, slots.permutation().slot(0)).key()
        }
    }

    /// The first keys, ascending, of the nodes of the highest level that has at least `count`
    /// nodes, or of the leaves.
    pub(super) fn first_keys(&self, count: usize) -> Vec<&[u8]> {
        let mut nodes = vec![self.root()];
        while nodes.len() < count && nodes[0] & LEAF_TAG == 0 {
            nodes = nodes.into_iter().flat_map(|node| self.children(node)).collect();
        }
        // Only the very first leaf can be empty.
        nodes.retain(|&node| !self.is_empty(node));
        nodes.into_iter().map(|node| self.first_key(node)).collect()
    }

    fn children(&self, node: Offset) -> Vec<Offset> {
        // Safety: an inner node of this tree, published.
        let inner = unsafe { self.inner(node) };
        let permutation = inner.slots.permutation();
        (0..=permutation.count()).map(|position| inner.child(permutation, position)).collect()
    }

    /// Whether a node names no key: an empty leaf, or an inner node with one child.
    fn is_empty(&self, node: Offset) -> bool {
        // Safety: nodes of this tree, published; the tag says which kind.
        let count = match node & LEAF_TAG == 0 {
            true => unsafe { self.inner(node) }.slots.permutation().count(),
            false => unsafe { self.leaf(node) }.slots.permutation().count(),
        };
        count == 0
    }

    /// The entry of a slot that is in use.
    #[inline]
    pub(super) fn slot_entry<const N: usize>(&self, slots: &Slots<N>, slot: usize) -> Stored<'_> {
        // Safety: slots in use hold offsets of complete entries.
        unsafe { Stored::at(&self.arena, slots.entry(slot)) }.expect("a slot in use has an entry")
    }

    /// # Safety
    /// `node` is a published leaf of this tree, or one that the writer made.
    #[inline]
    pub(super) unsafe fn leaf(&self, node: Offset) -> &Leaf {
        debug_assert_eq!(node & LEAF_TAG, LEAF_TAG);
        // Safety: a leaf was written there, aligned, before its offset was known to anyone; it
        // lives as long as the arena and changes only through its atomics.
        unsafe { &*self.arena.pointer(node & !LEAF_TAG).cast::<Leaf>() }
    }

    /// # Safety
    /// `node` is a published inner node of this tree, or one that the writer made.
    #[inline]
    pub(super) unsafe fn inner(&self, node: Offset) -> &Inner {
        debug_assert_eq!(node & LEAF_TAG, 0);
        // Safety: as for `leaf`.
        unsafe { &*self.arena.pointer(node).cast::<Inner>() }
    }

    pub(super) fn new_leaf(&self, slots: Slots<LEAF_SLOTS>, prev: Offset, next: Offset) -> Offset {
        let offset = self.arena.allocate_node(LEAF_BYTES);
        // Safety: the space was handed out to this call alone, is as large as a leaf and aligned
        // to a line.
        unsafe { self.arena.pointer(offset).cast::<Leaf>().write(Leaf::new(slots, prev, next)) };
        offset | LEAF_TAG
    }

    pub(super) fn new_inner(
        &self,
        slots: Slots<INNER_SLOTS>,
        first: Offset,
        children: impl ExactSizeIterator<Item = Offset>,
    ) -> Offset {
        let inner = Inner::new(slots, first, children);
        let offset = self.arena.allocate_node(INNER_BYTES);
        // Safety: as for `new_leaf`.
        unsafe { self.arena.pointer(offset).cast::<Inner>().write(inner) };
        offset
    }
}

/// Whether the key before `end` has this prefix.
#[inline]
fn ends_in_tie<const N: usize>(
    slots: &Slots<N>,
    permutation: Permutation,
    prefix: u64,
    end: usize,
) -> bool {
    match end.checked_sub(1) {
        Some(last) => slots.prefix(permutation.slot(last)) == prefix,
        None => false,
    }
}
