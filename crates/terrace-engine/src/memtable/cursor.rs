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

/// A place in the tree of one memtable: a leaf, the order that it had when it was come to, and a
/// version of one of its keys.
///
/// The order is kept, so that a step leads to the neighbour that was there; what came in since is
/// younger than the read. Nodes are never taken out of the arena, so the place stays good.
///
/// `Invariant:` made by [`Place::new`] only, and used with the tree that it was made of.
#[derive(Clone, Copy)]
struct Place {
    leaf: Offset,
    permutation: Permutation,
    rank: usize,
    entry: Offset,
}

impl Place {
    fn new(view: LeafView<'_>, rank: usize, entry: Stored<'_>) -> Place {
        Place { leaf: view.offset, permutation: view.permutation, rank, entry: entry.offset() }
    }

    #[inline]
    fn view(self, tree: &Tree) -> LeafView<'_> {
        // Safety: the leaf is one of this tree, by the invariant.
        unsafe { tree.view_again(self.leaf, self.permutation) }
    }

    #[inline]
    fn entry(self, tree: &Tree) -> Stored<'_> {
        // Safety: the entry is one of this tree's arena, by the invariant.
        unsafe { Stored::at(tree.arena(), self.entry) }.expect("a place has an entry")
    }

    /// The first key from `rank` of `view` on that has a version at or below the read point.
    #[inline]
    fn forward<'a>(
        tree: &'a Tree,
        mut view: LeafView<'a>,
        mut rank: usize,
        read_point: SeqNo,
    ) -> Option<Place> {
        loop {
            while rank < view.permutation.count() {
                tree.prefetch_after(view, rank);
                if let Some(entry) = tree.view_entry(view, rank).at_or_below(read_point) {
                    return Some(Place::new(view, rank, entry));
                }
                rank += 1;
            }
            view = tree.next_leaf(view)?;
            rank = 0;
        }
    }

    /// The last key below `rank` of `view` that has a version at or below the read point.
    #[inline]
    fn backward<'a>(
        tree: &'a Tree,
        mut view: LeafView<'a>,
        mut rank: usize,
        read_point: SeqNo,
    ) -> Option<Place> {
        loop {
            while rank > 0 {
                rank -= 1;
                if let Some(entry) = tree.view_entry(view, rank).at_or_below(read_point) {
                    return Some(Place::new(view, rank, entry));
                }
            }
            view = tree.prev_leaf(view)?;
            rank = view.permutation.count();
        }
    }
}

/// A [`Cursor`] over one memtable at one read point.
///
/// Keeps the memtable alive. Sees every entry at or below its read point that was inserted before
/// the cursor was made, whatever is inserted meanwhile; its calls never fail, wait or allocate.
/// A seek costs as much as a get, a step in either direction one look at one entry.
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    read_point: SeqNo,
    place: Option<Place>,
}

impl MemtableCursor {
    pub(super) fn new(memtable: Arc<Memtable>, read_point: SeqNo) -> MemtableCursor {
        MemtableCursor { memtable, read_point, place: None }
    }

    fn here(&self) -> Place {
        self.place.expect("a step begins at a key")
    }
}

impl Cursor for MemtableCursor {
    #[inline]
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let tree = self.memtable.tree();
        let view = tree.leaf_for(key);
        let rank = tree.rank_in(view, key);
        self.place = Place::forward(tree, view, rank, self.read_point);
        Ok(())
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
        let tree = self.memtable.tree();
        let (view, rank) = match bound {
            Some(bound) => {
                let view = tree.leaf_for(bound);
                (view, tree.rank_in(view, bound))
            }
            None => {
                let view = tree.last_leaf();
                (view, view.permutation.count())
            }
        };
        self.place = Place::backward(tree, view, rank, self.read_point);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let tree = self.memtable.tree();
        let here = self.here();
        self.place = Place::forward(tree, here.view(tree), here.rank + 1, self.read_point);
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let tree = self.memtable.tree();
        let here = self.here();
        self.place = Place::backward(tree, here.view(tree), here.rank, self.read_point);
        Ok(())
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        Some(self.place?.entry(self.memtable.tree()).entry())
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        let below = seqno.0.checked_sub(1).map(SeqNo);
        let here = self.here().entry(self.memtable.tree());
        Ok(below.and_then(|below| here.at_or_below(below)).map(Stored::entry))
    }
}

/// A [`Stream`] over one memtable: every version of every key, in internal order.
///
/// Keeps the memtable alive; its calls never fail, wait or allocate. On a memtable that still
/// grows it shows every entry that was inserted before the stream was made, and perhaps some
/// later ones.
pub struct MemtableStream {
    memtable: Arc<Memtable>,
    place: Option<Place>,
}

impl MemtableStream {
    pub(super) fn new(memtable: Arc<Memtable>) -> MemtableStream {
        let tree = memtable.tree();
        let place = Place::forward(tree, tree.first_leaf(), 0, SeqNo::MAX);
        MemtableStream { memtable, place }
    }
}

impl Stream for MemtableStream {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        Some(self.place?.entry(self.memtable.tree()).entry())
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        let tree = self.memtable.tree();
        let here = self.place.expect("a step begins at an entry");
        self.place = match here.entry(tree).older() {
            Some(older) => Some(Place { entry: older.offset(), ..here }),
            None => Place::forward(tree, here.view(tree), here.rank + 1, SeqNo::MAX),
        };
        Ok(())
    }
}
