//! Changes on their way into a batch, a transaction and the record.

use std::ops::Bound;
use std::time::Duration;

use terrace::{Batch, Transaction, WriteOptions};
use terrace_base::{Expiry, KeyRange, WallTime};

use super::place::{split, split_interval};
use super::spaces::Space;
use crate::oracle::SpaceId;
use crate::workload::{Change, How};

/// How a write is made.
pub fn options(how: How) -> WriteOptions {
    let options = WriteOptions::new();
    let options = if how.sync { options.sync() } else { options };
    if how.wait { options } else { options.no_wait() }
}

/// The key by which the keyspace of a change is found.
pub fn key_of(change: &Change) -> &[u8] {
    match change {
        Change::DeleteRange { start, .. } => start,
        change => change.key().unwrap_or_default(),
    }
}

/// The interval of a change, in its keyspace, as the library takes it.
fn bounds(within: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    let end = within.end().map_or(Bound::Unbounded, Bound::Excluded);
    (Bound::Included(within.start()), end)
}

fn expiry(ttl_ms: Option<u64>, now: WallTime) -> Option<Expiry> {
    ttl_ms.map(|ttl| Expiry::at(WallTime(now.0.saturating_add(ttl))))
}

/// Adds a change to a batch.
pub fn add_to_batch(batch: &mut Batch, space: &Space, change: &Change, now: WallTime) {
    let handle = &space.handle;
    let (_, key) = split(key_of(change));
    match change {
        Change::Put { value, ttl_ms, .. } => {
            batch.put_until(handle, key, value.content(), expiry(*ttl_ms, now));
        }
        Change::Merge { operand, .. } => drop(batch.merge(handle, key, operand.content())),
        Change::Delete { .. } => drop(batch.delete(handle, key)),
        Change::DeleteRange { start, end } => {
            let (_, within) = split_interval(start, Some(end));
            batch.delete_range(handle, bounds(&within));
        }
        Change::Ingest { .. } => {}
    }
}

/// Adds a change to a transaction, which has no way to say until when it is to last.
pub fn add_to_transaction(tx: &mut Transaction, space: &Space, change: &Change) {
    let handle = &space.handle;
    let (_, key) = split(key_of(change));
    match change {
        Change::Put { value, ttl_ms: None, .. } => drop(tx.put(handle, key, value.content())),
        Change::Put { value, ttl_ms: Some(ttl), .. } => {
            tx.put_ttl(handle, key, value.content(), Duration::from_millis(*ttl));
        }
        Change::Merge { operand, .. } => drop(tx.merge(handle, key, operand.content())),
        Change::Delete { .. } => drop(tx.delete(handle, key)),
        Change::DeleteRange { start, end } => {
            let (_, within) = split_interval(start, Some(end));
            tx.delete_range(handle, bounds(&within));
        }
        Change::Ingest { .. } => {}
    }
}

/// A change as the model has it.
pub fn modelled(space: SpaceId, change: &Change) -> Change {
    let key = |key: &[u8]| space.key(split(key).1);
    match change {
        Change::Put { key: own, value, ttl_ms } => {
            Change::Put { key: key(own), value: *value, ttl_ms: *ttl_ms }
        }
        Change::Merge { key: own, operand } => Change::Merge { key: key(own), operand: *operand },
        Change::Delete { key: own } => Change::Delete { key: key(own) },
        Change::DeleteRange { start, end } => {
            let (_, within) = split_interval(start, Some(end));
            let range = space.range(&within);
            let end = range.end().map(<[u8]>::to_vec).unwrap_or_default();
            Change::DeleteRange { start: range.start().to_vec(), end }
        }
        Change::Ingest { puts } => {
            Change::Ingest { puts: puts.iter().map(|put| modelled(space, put)).collect() }
        }
    }
}
