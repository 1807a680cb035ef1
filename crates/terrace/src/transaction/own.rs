//! What a transaction is about to write, as its own reads see it. Keys are stored ones.

use std::collections::BTreeMap;
use std::ops::Bound;

use terrace_base::{EntryKind, EntryRef, Expiry, KeyRange as OwnedRange, SeqNo};
use terrace_engine::WriteBatch as EngineBatch;

/// The keys that are written, and the intervals that are deleted before that.
#[derive(Debug, Default)]
pub(super) struct OwnWrites {
    keys: BTreeMap<Vec<u8>, Own>,
    /// Deleted intervals, which may overlap: by number few, so they are asked one by one.
    deleted: Vec<OwnedRange>,
}

/// What is written to a key.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub under: Under,
    /// Merged above it, oldest first.
    pub operands: Vec<Vec<u8>>,
}

/// What lies under the operands of a key.
#[derive(Clone, Debug)]
pub(super) enum Under {
    /// What the snapshot shows.
    Snapshot,
    Nothing,
    Value(Vec<u8>, Option<Expiry>),
}

impl OwnWrites {
    /// What all entries of a batch come to.
    pub fn of(batch: &EngineBatch) -> OwnWrites {
        let mut own = OwnWrites::default();
        batch.entries(SeqNo::ZERO).for_each(|entry| own.add(&entry));
        own
    }

    /// Adds an entry above all before it.
    pub fn add(&mut self, entry: &EntryRef<'_>) {
        let key = entry.key;
        match entry.kind {
            EntryKind::RangeTombstone => {
                let range = OwnedRange::new(key, Some(entry.value.to_vec()));
                self.keys.retain(|key, _| !range.contains(key));
                self.deleted.push(range);
            }
            EntryKind::MergeOperand => {
                let under = if self.is_deleted(key) { Under::Nothing } else { Under::Snapshot };
                let unwritten = || Own { under, operands: Vec::new() };
                let own = self.keys.entry(key.to_vec()).or_insert_with(unwritten);
                own.operands.push(entry.value.to_vec());
            }
            kind => {
                let under = match kind {
                    EntryKind::Value => Under::Value(entry.value.to_vec(), entry.expiry),
                    _ => Under::Nothing,
                };
                self.keys.insert(key.to_vec(), Own { under, operands: Vec::new() });
            }
        }
    }

    /// What is written to `key`, if anything is.
    pub fn get(&self, key: &[u8]) -> Option<&Own> {
        self.keys.get(key)
    }

    /// Whether what the snapshot shows of `key` is deleted with an interval.
    pub fn is_deleted(&self, key: &[u8]) -> bool {
        self.deleted.iter().any(|range| range.contains(key))
    }

    /// The next key between these bounds that is written, from the lower one on, or from the upper
    /// one back.
    pub fn next_within(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        forward: bool,
    ) -> Option<(&[u8], &Own)> {
        let is_empty = match bounds {
            (Bound::Included(start), Bound::Excluded(end)) => start >= end,
            (Bound::Excluded(start), Bound::Excluded(end)) => start >= end,
            _ => false,
        };
        if is_empty {
            return None;
        }
        let mut within = self.keys.range::<[u8], _>(bounds);
        let next = if forward { within.next() } else { within.next_back() };
        next.map(|(key, own)| (key.as_slice(), own))
    }
}
