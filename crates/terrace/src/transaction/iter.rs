//! Walks of a transaction: what its snapshot shows and what it is about to write, as one.

use std::cmp::Ordering;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Bound;
use std::sync::Arc;

use terrace_base::KeyRange as OwnedRange;
use terrace_engine::store::{Iter as EngineIter, IterOptions, PinnedItem, WalkId};

use super::handle::Transaction;
use crate::keyspace::{PREFIX_BYTES, ScanTally, Space};
use crate::view::{Key, Value};
use crate::{Error, Result};

/// The keys and values of an interval as a transaction sees them, from both ends; see
/// [`Transaction::range`]. The transaction cannot write while it lives.
pub struct TransactionIter<'t> {
    tx: &'t Transaction,
    /// Of stored keys.
    range: OwnedRange,
    walk: Option<WalkId>,
    front: End,
    back: End,
    failed: Option<Error>,
    is_done: bool,
    tally: ScanTally,
}

/// A walk from one end.
#[derive(Default)]
struct End {
    /// Over the snapshot; on the first key that was not shown yet, once it is placed.
    iter: Option<EngineIter>,
    /// The stored key that was shown last, or gone over.
    last: Option<Vec<u8>>,
}

impl<'t> TransactionIter<'t> {
    pub(super) fn new(
        tx: &'t Transaction,
        space: &Arc<Space>,
        range: OwnedRange,
        opened: Result<()>,
    ) -> Self {
        let begun = opened.and_then(|()| Ok(tx.reads.borrow_mut().begin_walk(range.clone())?));
        let (walk, failed) = match begun {
            Ok(walk) => (Some(walk), None),
            Err(error) => (None, Some(error)),
        };
        let (front, back) = (End::default(), End::default());
        let tally = ScanTally::new(space);
        TransactionIter { tx, range, walk, front, back, failed, is_done: false, tally }
    }

    /// The keys without their values.
    #[must_use]
    pub fn keys(self) -> TransactionKeys<'t> {
        TransactionKeys(self)
    }

    fn step(&mut self, forward: bool) -> Option<Result<(Key, Value)>> {
        if self.is_done {
            return None;
        }
        let row = match self.failed.take() {
            Some(error) => Err(error),
            None => self.next_row(forward),
        };
        self.is_done = !matches!(row, Ok(Some(_)));
        row.transpose()
    }

    /// The next key that is there, with its value; noted.
    fn next_row(&mut self, forward: bool) -> Result<Option<(Key, Value)>> {
        self.place(forward)?;
        let row = loop {
            let Some((stored, is_shown)) = self.next_key(forward) else { break None };
            let item = if is_shown { self.take_shown(forward)? } else { None };
            let value = match self.tx.own.get(&stored) {
                Some(own) => self.tx.own_value(&stored, own, || Ok(item))?,
                None if self.tx.own.is_deleted(&stored) => None,
                None => item.map(Value),
            };
            let row = value.map(|value| (Key::from(&stored[PREFIX_BYTES..]), value));
            let (end, _) = self.ends(forward);
            end.last = Some(stored);
            if row.is_some() {
                break row;
            }
        };
        let last = if row.is_some() { self.ends(forward).0.last.clone() } else { None };
        if let Some(walk) = self.walk {
            self.tx.reads.borrow_mut().walk_to(walk, forward, last.as_deref())?;
        }
        if let Some((key, value)) = &row {
            self.tally.shown(key.len() + value.len());
        }
        Ok(row)
    }

    fn ends(&mut self, forward: bool) -> (&mut End, &mut End) {
        match forward {
            true => (&mut self.front, &mut self.back),
            false => (&mut self.back, &mut self.front),
        }
    }

    /// Opens the walk from one end, at the moment of that from the other, if that is open.
    fn place(&mut self, forward: bool) -> Result<()> {
        let tx = self.tx;
        let range = self.range.clone();
        let (end, other) = self.ends(forward);
        if end.iter.is_some() {
            return Ok(());
        }
        let mut iter = match &other.iter {
            Some(iter) => iter.twin()?,
            None => tx
                .reads
                .borrow()
                .snapshot()
                .iter(IterOptions { range, ..IterOptions::default() })?,
        };
        if forward {
            iter.seek_to_first()?;
        } else {
            iter.seek_back(None)?;
        }
        end.iter = Some(iter);
        self.tally.placed();
        Ok(())
    }

    /// The next key that the snapshot shows or that is written, between the ends, and whether the
    /// snapshot shows it.
    fn next_key(&self, forward: bool) -> Option<(Vec<u8>, bool)> {
        let (end, lower, upper) = match forward {
            true => (&self.front, self.front.last.as_deref(), self.back.last.as_deref()),
            false => (&self.back, self.front.last.as_deref(), self.back.last.as_deref()),
        };
        let start = lower.map_or(Bound::Included(self.range.start()), Bound::Excluded);
        let stop = upper.or(self.range.end()).map_or(Bound::Unbounded, Bound::Excluded);
        let own = self.tx.own.next_within((start, stop), forward).map(|(key, _)| key);
        let shown = end.iter.as_ref().and_then(EngineIter::entry).map(|entry| entry.key);
        let is_between = |key: &&[u8]| {
            lower.is_none_or(|lower| lower < *key) && upper.is_none_or(|upper| *key < upper)
        };
        let shown = shown.filter(is_between);
        let order = match (own, shown) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(own), Some(shown)) if forward => own.cmp(shown),
            (Some(own), Some(shown)) => shown.cmp(own),
        };
        let nearest = if order == Ordering::Less { own } else { shown };
        nearest.map(|key| (key.to_vec(), order != Ordering::Less))
    }

    /// What the snapshot shows where the walk stands, and steps over it.
    fn take_shown(&mut self, forward: bool) -> Result<Option<PinnedItem>> {
        let Some(iter) = &mut self.ends(forward).0.iter else { return Ok(None) };
        let item = iter.entry().map(|row| PinnedItem::copy(row.value, row.expiry, row.seqno));
        if forward {
            iter.next()?;
        } else {
            iter.prev()?;
        }
        Ok(item)
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Key, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(true)
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(false)
    }
}

impl FusedIterator for TransactionIter<'_> {}

impl Drop for TransactionIter<'_> {
    fn drop(&mut self) {
        if let Some(walk) = self.walk {
            self.tx.reads.borrow_mut().end_walk(walk);
        }
    }
}

impl fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransactionIter over {:?} of {:?}", self.range, self.tx)
    }
}

/// The keys of an interval as a transaction sees them; see [`TransactionIter::keys`].
#[derive(Debug)]
pub struct TransactionKeys<'t>(TransactionIter<'t>);

impl Iterator for TransactionKeys<'_> {
    type Item = Result<Key>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|row| row.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for TransactionKeys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|row| row.map(|(key, _)| key))
    }
}

impl FusedIterator for TransactionKeys<'_> {}
