//! Walks along the leaves.

#![allow(unsafe_code)]

use std::sync::Arc;

use terrace_base::{EntryRef, SeqNo};

use super::Memtable;
use super::arena::Offset;
use super::entry::Stored;
use super::node::Permutation;
use super::tree::{LeafView, Tree};
use crate::Result;
use crate::iter::{Cursor, Stream};

/// A place in the tree of one memtable, or nowhere: a leaf, the order that it had when it was come
/// to, and a version of one of its keys.
///
/// The order is kept, so that a step leads to the neighbour that was there; what came in since is
/// younger than the read. Nodes are never taken out of the arena, so the place stays good.
///
/// Changed word by word and never copied: a copy by wide moves of words that were just written
/// waits for them to leave the processor, and with that for each entry's cache miss in turn.
///
/// `Invariant:` set by [`TreePlace::set`] only, always with the same tree.
struct TreePlace {
    leaf: Offset,
    rank: u32,
    permutation: Permutation,
    /// 0 for nowhere.
    entry: Offset,
}

impl TreePlace {
    fn nowhere() -> TreePlace {
        TreePlace { leaf: 0, rank: 0, permutation: Permutation::ascending(0), entry: 0 }
    }

    #[inline]
    fn set(&mut self, view: LeafView<'_>, rank: usize, entry: Stored<'_>) {
        self.leaf = view.offset;
        self.permutation = view.permutation;
        self.rank = rank as u32;
        self.entry = entry.offset();
    }

    /// The entry; `None` nowhere.
    #[inline]
    fn entry<'a>(&self, tree: &'a Tree) -> Option<Stored<'a>> {
        // Safety: null or an entry of this tree's arena, by the invariant.
        unsafe { Stored::at(tree.arena(), self.entry) }
    }

    /// The leaf as it was found, and the rank of the key in it.
    #[inline]
    fn view<'a>(&self, tree: &'a Tree) -> (LeafView<'a>, usize) {
        assert_ne!(self.entry, 0, "a step begins at an entry");
        // Safety: the leaf is one of this tree, by the invariant.
        (unsafe { tree.view_again(self.leaf, self.permutation) }, self.rank as usize)
    }

    /// Goes to the first key from `rank` of `view` on that has a version at or below the read
    /// point.
    #[inline]
    fn forward<'a>(
        &mut self,
        tree: &'a Tree,
        (mut view, mut rank): (LeafView<'a>, usize),
        read_point: SeqNo,
    ) {
        loop {
            while rank < view.permutation.count() {
                tree.prefetch_after(view, rank);
                if let Some(entry) = tree.view_entry(view, rank).at_or_below(read_point) {
                    return self.set(view, rank, entry);
                }
                rank += 1;
            }
            match tree.next_leaf(view) {
                Some(next) => (view, rank) = (next, 0),
                None => return self.entry = 0,
            }
        }
    }

    /// Goes to the last key below `rank` of `view` that has a version at or below the read point.
    #[inline]
    fn backward<'a>(
        &mut self,
        tree: &'a Tree,
        (mut view, mut rank): (LeafView<'a>, usize),
        read_point: SeqNo,
    ) {
        loop {
            while rank > 0 {
                rank -= 1;
                if let Some(entry) = tree.view_entry(view, rank).at_or_below(read_point) {
                    return self.set(view, rank, entry);
                }
            }
            match tree.prev_leaf(view) {
                Some(prev) => (view, rank) = (prev, prev.permutation.count()),
                None => return self.entry = 0,
            }
        }
    }
}

/// A [`Cursor`] over one memtable at one read point.
///
/// Keeps the memtable alive. Sees every entry at or below its read point that was inserted before
/// the cursor was made or renewed, whatever is inserted meanwhile; its calls never fail, wait or
/// allocate. A seek costs as much as a get, a step in either direction one look at one entry.
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    read_point: SeqNo,
    place: TreePlace,
    /// The last answer of [`Cursor::older`] for the key of the place; 0 for none.
    older: Offset,
}

impl MemtableCursor {
    pub(super) fn new(memtable: Arc<Memtable>, read_point: SeqNo) -> MemtableCursor {
        MemtableCursor { memtable, read_point, place: TreePlace::nowhere(), older: 0 }
    }
}

impl Cursor for MemtableCursor {
    #[inline]
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        let tree = self.memtable.tree();
        let view = tree.leaf_for(key);
        self.older = 0;
        self.place.forward(tree, (view, tree.rank_in(view, key)), self.read_point);
        Ok(self.place.entry != 0)
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        let tree = self.memtable.tree();
        let end = match bound {
            Some(bound) => {
                let view = tree.leaf_for(bound);
                (view, tree.rank_in(view, bound))
            }
            None => {
                let view = tree.last_leaf();
                (view, view.permutation.count())
            }
        };
        self.older = 0;
        self.place.backward(tree, end, self.read_point);
        Ok(self.place.entry != 0)
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        let tree = self.memtable.tree();
        let (view, rank) = self.place.view(tree);
        self.older = 0;
        self.place.forward(tree, (view, rank + 1), self.read_point);
        Ok(self.place.entry != 0)
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        let tree = self.memtable.tree();
        self.older = 0;
        self.place.backward(tree, self.place.view(tree), self.read_point);
        Ok(self.place.entry != 0)
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.place.entry(self.memtable.tree()).map(Stored::entry)
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        let tree = self.memtable.tree();
        let here = self.place.entry(tree).expect("the cursor stands on a key");
        let Some(below) = seqno.0.checked_sub(1).map(SeqNo) else { return Ok(None) };
        // A stack of operands is asked for step by step: the answer comes right after the last one.
        // Safety: null or a version of the key of the place, which lies in this tree.
        let last = unsafe { Stored::at(tree.arena(), self.older) };
        let from = last.filter(|last| last.seqno() >= below).unwrap_or(here);
        let found = from.at_or_below(below);
        self.older = found.map_or(0, Stored::offset);
        Ok(found.map(Stored::entry))
    }

    fn renew(&mut self, read_point: SeqNo) -> bool {
        self.place = TreePlace::nowhere();
        self.older = 0;
        self.read_point = read_point;
        true
    }
}

/// A [`Stream`] over one memtable: every version of every key, in internal order.
///
/// Keeps the memtable alive; its calls never fail, wait or allocate. On a memtable that still
/// grows it shows every entry that was inserted before the stream was made, and perhaps some
/// later ones.
pub struct MemtableStream {
    memtable: Arc<Memtable>,
    place: TreePlace,
}

impl MemtableStream {
    pub(super) fn new(memtable: Arc<Memtable>) -> MemtableStream {
        let mut place = TreePlace::nowhere();
        let tree = memtable.tree();
        place.forward(tree, (tree.first_leaf(), 0), SeqNo::MAX);
        MemtableStream { memtable, place }
    }
}

impl Stream for MemtableStream {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.place.entry(self.memtable.tree()).map(Stored::entry)
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        let tree = self.memtable.tree();
        let here = self.place.entry(tree).expect("a step begins at an entry");
        let (view, rank) = self.place.view(tree);
        match here.older() {
            Some(older) => self.place.set(view, rank, older),
            None => self.place.forward(tree, (view, rank + 1), SeqNo::MAX),
        }
        Ok(())
    }
}
