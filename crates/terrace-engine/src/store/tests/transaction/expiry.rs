//! Goal: expiry is the passage of time and no conflict, but does not hide one either. Method: the
//! clock of the simulation.

use std::time::Duration;

use terrace_base::{Expiry, KeyRange};

use crate::Error;
use crate::store::tests::*;
use crate::store::{GetOptions, ReadSet};

fn put_for(env: &SharedEnv, store: &Store, key: &str, ms: u64) -> Result<()> {
    let expiry = Expiry::at(terrace_base::WallTime(env.wall_time().0 + ms));
    let mut batch = WriteBatch::new();
    batch.put_with_expiry(key.as_bytes(), b"passing", Some(expiry))?;
    store.write(&batch, &WriteOptions::default())
}

fn commit(store: &Store, reads: &ReadSet) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(b"z", b"mine")?;
    store.write_if_unchanged(reads, &batch, &WriteOptions::default()).map(|_| ())
}

#[test]
fn what_has_expired_since_it_was_read_is_no_conflict() -> Result<()> {
    for compacted in [false, true] {
        simulate(81, |env| {
            let store = open(env, &lazy())?;
            put_for(env, &store, "b", 1000)?;
            let snapshot = store.snapshot();
            let mut reads = ReadSet::new(&snapshot);
            reads.note_key(b"b")?;
            assert!(snapshot.get(b"b", &GetOptions::default())?.is_some());
            env.sleep(Duration::from_secs(2));
            assert_eq!(get(&store, "b")?, None);
            if compacted {
                store.compact(&KeyRange::all())?;
            }
            commit(&store, &reads)
        })?;
    }
    Ok(())
}

/// What came and expired while the transaction was under way was there for others to read.
#[test]
fn what_was_written_since_and_has_expired_is_a_conflict_also_behind_a_compaction() -> Result<()> {
    for key in ["b", "c"] {
        simulate(82, |env| {
            let store = open(env, &lazy())?;
            put_for(env, &store, "b", 1000)?;
            let snapshot = store.snapshot();
            let mut reads = ReadSet::new(&snapshot);
            reads.note_key(key.as_bytes())?;
            put_for(env, &store, key, 3000)?;
            env.sleep(Duration::from_secs(60));
            store.compact(&KeyRange::all())?;
            let outcome = commit(&store, &reads);
            assert!(matches!(outcome, Err(Error::Conflict(_))), "{key}: {outcome:?}");
            Ok::<(), Error>(())
        })?;
    }
    Ok(())
}
