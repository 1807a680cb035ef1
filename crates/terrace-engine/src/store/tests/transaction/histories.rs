//! Goal: committed transactions are serializable in the order of their numbers. Method: clients
//! race under many schedules, beside flushes, compactions, divisions and ingests; afterwards
//! everything that was committed is replayed on a map, one after the other, and each must have read
//! what the map holds at its turn.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::KeyRange;
use terrace_env::{JobClass, Latch};

use crate::Error;
use crate::store::tests::workload::content;
use crate::store::tests::*;
use crate::store::{GetOptions, IterOptions, ReadSet, Snapshot};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

const SEEDS: u64 = 40;
const CLIENTS: u64 = 3;
const TRANSACTIONS: u64 = 18;
const KEYS: u64 = 9;

#[derive(Clone, Debug)]
enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
}

#[derive(Clone, Debug)]
enum Read {
    Key(Vec<u8>, Option<Vec<u8>>),
    Scan { range: KeyRange, forward: bool, limit: usize, rows: Rows },
}

/// Something that was committed: at its number, what only read after what wrote.
#[derive(Debug)]
struct Committed {
    order: (u64, bool),
    reads: Vec<Read>,
    writes: Vec<Write>,
}

/// What all clients did.
#[derive(Debug, Default)]
struct History {
    committed: Vec<Committed>,
    conflicts: u64,
}

fn key(random: &mut SeededRng) -> Vec<u8> {
    format!("k{}", random.below(KEYS)).into_bytes()
}

fn interval(random: &mut SeededRng) -> KeyRange {
    let (one, other) = (key(random), key(random));
    match random.below(4) {
        0 => KeyRange::all(),
        1 => KeyRange::new(one, None),
        _ => KeyRange::new(one.clone().min(other.clone()), Some(one.max(other))),
    }
}

fn read_key(reads: &mut ReadSet, snapshot: &Snapshot, random: &mut SeededRng) -> Result<Read> {
    let key = key(random);
    reads.note_key(&key)?;
    let item = snapshot.get(&key, &GetOptions::default())?;
    Ok(Read::Key(key, item.map(|item| item.value)))
}

fn scan(reads: &mut ReadSet, snapshot: &Snapshot, random: &mut SeededRng) -> Result<Read> {
    let (range, forward) = (interval(random), random.one_in(2));
    let limit = [0, 1, 2, 100][random.index(4)];
    let walk = reads.begin_walk(range.clone())?;
    let mut iter = snapshot.iter(IterOptions { range: range.clone(), ..IterOptions::default() })?;
    let mut rows = Rows::new();
    while rows.len() < limit {
        match (rows.is_empty(), forward) {
            (true, true) => iter.seek_to_first()?,
            (true, false) => iter.seek_back(None)?,
            (false, true) => iter.next()?,
            (false, false) => iter.prev()?,
        }
        let entry = iter.entry();
        reads.walk_to(walk, forward, entry.map(|entry| entry.key))?;
        let Some(entry) = entry else { break };
        rows.push((entry.key.to_vec(), entry.value.to_vec()));
    }
    if random.one_in(2) {
        reads.end_walk(walk);
    }
    Ok(Read::Scan { range, forward, limit, rows })
}

fn draw_writes(random: &mut SeededRng, tag: &str) -> Vec<Write> {
    let one = |index: u64, random: &mut SeededRng| {
        let (key, tag) = (key(random), format!("{tag}.{index} ").into_bytes());
        match random.below(8) {
            0 => Write::Delete(key),
            1 | 2 => Write::Merge(key, tag),
            3 => {
                let range = interval(random);
                let end = range.end().map_or_else(|| b"l".to_vec(), <[u8]>::to_vec);
                Write::DeleteRange(range.start().to_vec(), end)
            }
            _ => Write::Put(key, tag),
        }
    };
    (0..random.below(4)).map(|index| one(index, random)).collect()
}

fn batch_of(writes: &[Write]) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for write in writes {
        match write {
            Write::Put(key, value) => batch.put(key, value)?,
            Write::Delete(key) => batch.delete(key)?,
            Write::DeleteRange(start, end) => batch.delete_range(start, end)?,
            Write::Merge(key, operand) => batch.merge(key, operand)?,
        }
    }
    Ok(batch)
}

fn transact(store: &Store, random: &mut SeededRng, tag: &str) -> Result<Option<Committed>> {
    let snapshot = store.snapshot();
    let mut reads = ReadSet::new(&snapshot);
    let mut seen = Vec::new();
    for _ in 0..random.below(4) {
        seen.push(match random.below(3) {
            0 => scan(&mut reads, &snapshot, random)?,
            _ => read_key(&mut reads, &snapshot, random)?,
        });
    }
    let writes = draw_writes(random, tag);
    let batch = batch_of(&writes)?;
    // Some only read, and are checked all the same.
    let is_empty = batch.is_empty();
    match store.write_if_unchanged(&reads, &batch, &WriteOptions::default()) {
        Ok(seqno) => Ok(Some(Committed { order: (seqno.0, is_empty), reads: seen, writes })),
        Err(Error::Conflict(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn write_blindly(store: &Store, random: &mut SeededRng, tag: &str) -> Result<Option<Committed>> {
    let writes = draw_writes(random, tag);
    let seqno = store.write_numbered(&batch_of(&writes)?, &WriteOptions::default())?;
    Ok(Some(Committed { order: (seqno.0, writes.is_empty()), reads: Vec::new(), writes }))
}

fn ingest(store: &Store, random: &mut SeededRng, tag: &str) -> Result<Option<Committed>> {
    let mut ingest = store.begin_ingest()?;
    let mut writes = Vec::new();
    for n in (0..KEYS).filter(|_| random.one_in(3)).collect::<Vec<_>>() {
        let (key, value) = (format!("k{n}").into_bytes(), tag.as_bytes().to_vec());
        ingest.add(&key, &value, None)?;
        writes.push(Write::Put(key, value));
    }
    let seqno = ingest.finish()?.seqno;
    Ok(Some(Committed { order: (seqno.0, writes.is_empty()), reads: Vec::new(), writes }))
}

fn client(store: &Store, seed: u64, number: u64, history: &Latch<History>) -> Result<()> {
    let mut random = SeededRng::stream(seed, number);
    for turn in 0..TRANSACTIONS {
        let tag = format!("{number}.{turn}");
        let done = match random.below(10) {
            0 => ingest(store, &mut random, &tag)?,
            1 | 2 => write_blindly(store, &mut random, &tag)?,
            _ => transact(store, &mut random, &tag)?,
        };
        let mut history = history.lock();
        history.conflicts += u64::from(done.is_none());
        history.committed.extend(done);
    }
    Ok(())
}

fn upkeep(store: &Store, seed: u64) -> Result<()> {
    let mut random = SeededRng::stream(seed, 99);
    for _ in 0..8 {
        match random.below(4) {
            0 => store.flush()?,
            1 => store.compact(&interval(&mut random))?,
            2 => store.inner.freeze_all()?,
            _ => {
                let mut keys = vec![key(&mut random), key(&mut random)];
                keys.sort();
                keys.dedup();
                let turns = (0..=keys.len()).map(|_| 1 + random.index(2)).collect::<Vec<_>>();
                store.divide_among(keys, &turns)?;
            }
        }
    }
    Ok(())
}

fn shown(map: &Map, range: &KeyRange, forward: bool, limit: usize) -> Rows {
    let within = map.iter().filter(|(key, _)| range.contains(key));
    let mut rows: Rows = within.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !forward {
        rows.reverse();
    }
    rows.truncate(limit);
    rows
}

fn apply(map: &mut Map, write: &Write) {
    match write {
        Write::Put(key, value) => drop(map.insert(key.clone(), value.clone())),
        Write::Delete(key) => drop(map.remove(key)),
        Write::DeleteRange(start, end) => map.retain(|key, _| key < start || key >= end),
        Write::Merge(key, operand) => map.entry(key.clone()).or_default().extend(operand),
    }
}

fn replay(history: &mut History, seed: u64) -> Map {
    history.committed.sort_by_key(|one| one.order);
    let mut map = Map::new();
    for one in &history.committed {
        for read in &one.reads {
            match read {
                Read::Key(key, value) => {
                    assert_eq!(value.as_ref(), map.get(key), "seed {seed}: {one:?}");
                }
                Read::Scan { range, forward, limit, rows } => {
                    let expected = shown(&map, range, *forward, *limit);
                    assert_eq!(*rows, expected, "seed {seed}: {one:?}");
                }
            }
        }
        one.writes.iter().for_each(|write| apply(&mut map, write));
    }
    map
}

fn run(env: &SharedEnv, seed: u64) -> Result<History> {
    let mut random = SeededRng::stream(seed, 7);
    let store = open(env, &draw_l0(small(), &mut random))?;
    let history = Arc::new(Latch::new(History::default()));
    let mut threads = Vec::new();
    for number in 0..CLIENTS {
        let (store, history) = (store.clone(), Arc::clone(&history));
        let job = move || client(&store, seed, number, &history).expect("nothing fails here");
        threads.push(env.spawn(JobClass::Client, &number.to_string(), Box::new(job))?);
    }
    upkeep(&store, seed)?;
    for thread in threads {
        assert!(thread.join());
    }
    let mut history = std::mem::take(&mut *history.lock());
    let map = replay(&mut history, seed);
    let left: Map = content(&store)?.into_iter().collect();
    assert_eq!(left, map, "seed {seed}");
    Ok(history)
}

#[test]
fn committed_transactions_read_what_a_serial_run_in_the_order_of_numbers_shows() -> Result<()> {
    let (mut conflicts, mut committed) = (0, 0);
    for seed in 0..SEEDS {
        let options = SimOptions { switch_at_latches: seed % 2 == 0, ..SimOptions::new(seed) };
        let history = SimEnv::run(options, |env| {
            let env: SharedEnv = env;
            run(&env, seed)
        })?;
        conflicts += history.conflicts;
        committed += history.committed.len() as u64;
    }
    println!("{committed} committed, {conflicts} conflicts");
    assert!(conflicts > SEEDS && committed > SEEDS * CLIENTS * TRANSACTIONS / 2);
    Ok(())
}
