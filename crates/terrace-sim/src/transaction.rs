//! Transactions of a client: reads at a snapshot, and a commit that rests on them.

use std::time::Duration;

use terrace_engine::store::{GetOptions, IterOptions, ReadSet, Snapshot, Store, WriteOptions};
use terrace_engine::{Result, WriteBatch};
use terrace_env::SharedEnv;

use crate::client::{found_in, row_of};
use crate::oracle::{IteratorFacts, Row, Seen, Walked};
use crate::workload::Reading;

/// For how long a transaction thinks between its reads and its commit: others go on meanwhile.
const THINKS: Duration = Duration::from_micros(300);

/// What a transaction saw, and what came of it.
#[derive(Default)]
pub struct Transacted {
    /// Single keys.
    pub seen: Vec<Seen>,
    /// Intervals.
    pub walked: Vec<Walked>,
}

/// Reads at a snapshot, and writes `batch` if nothing of that was written since; the last number.
/// What was read is added to `read` in any case.
pub fn transact(
    env: &SharedEnv,
    store: &Store,
    readings: &[Reading],
    batch: &WriteBatch,
    options: &WriteOptions,
    read: &mut Transacted,
) -> Result<u64> {
    let snapshot = store.snapshot();
    let mut reads = ReadSet::new(&snapshot);
    for reading in readings {
        match reading {
            Reading::Key(key) => {
                let from = env.wall_time();
                reads.note_key(key)?;
                let found = snapshot.get(key, &GetOptions::default())?;
                let found = found.as_ref().map(found_in);
                let until = env.wall_time();
                read.seen.push(Seen { key: key.clone(), found, from, until });
            }
            Reading::Walk { .. } => read.walked.push(walk(env, &snapshot, &mut reads, reading)?),
        }
    }
    env.sleep(THINKS);
    store.write_if_unchanged(&reads, batch, options).map(|seqno| seqno.0)
}

fn walk(
    env: &SharedEnv,
    snapshot: &Snapshot,
    reads: &mut ReadSet,
    reading: &Reading,
) -> Result<Walked> {
    let Reading::Walk { within, backward, limit } = reading else {
        unreachable!("a single key is no walk");
    };
    let from = env.wall_time();
    let mut iter =
        snapshot.iter(IterOptions { range: within.clone(), ..IterOptions::default() })?;
    let until = env.wall_time();
    let (seqno, at) = (iter.seqno().0, Some(snapshot.seqno().0));
    let walk = reads.begin_walk(within.clone())?;
    let mut rows: Vec<Row> = Vec::new();
    while (rows.len() as u64) < u64::from(*limit) {
        match (rows.is_empty(), *backward) {
            (true, false) => iter.seek_to_first()?,
            (true, true) => iter.seek_back(None)?,
            (false, false) => iter.next()?,
            (false, true) => iter.prev()?,
        }
        let entry = iter.entry();
        reads.walk_to(walk, !backward, entry.map(|entry| entry.key))?;
        let Some(entry) = entry else { break };
        rows.push(row_of(&entry));
    }
    reads.end_walk(walk);
    let iterator = IteratorFacts { within: within.clone(), seqno, from, until, at };
    Ok(Walked { iterator, backward: *backward, limit: *limit, rows })
}
