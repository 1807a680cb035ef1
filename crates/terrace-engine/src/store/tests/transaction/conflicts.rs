//! Goal: what others wrote to what was read is found, wherever it lies by then, and nothing else
//! is. Method: a table of reads and writes, under every way in which jobs may move the writes.

use terrace_base::KeyRange;

use crate::Error;
use crate::store::tests::*;
use crate::store::{GetOptions, ReadSet, Snapshot};

/// What a transaction reads.
#[derive(Clone, Copy, Debug)]
enum Read {
    Key(&'static str),
    /// Forward through [start, end) until this key was shown, or to the end.
    Walk(&'static str, &'static str, Option<&'static str>),
    /// The same from the end back.
    WalkBack(&'static str, &'static str, Option<&'static str>),
}
use Read::{Key, Walk, WalkBack};

/// What another one writes afterwards.
#[derive(Clone, Copy, Debug)]
enum Other {
    Put(&'static str),
    Delete(&'static str),
    DeleteRange(&'static str, &'static str),
    Merge(&'static str),
    Ingest(&'static str),
    /// Put and deleted again.
    PassThrough(&'static str),
}
use Other::{Delete, DeleteRange, Ingest, Merge, PassThrough, Put};

/// Where the writes lie when the transaction commits.
#[derive(Clone, Copy, Debug)]
enum Lie {
    InMemtables,
    InFrozenMemtables,
    InRows,
    InLevels,
    Divided,
    /// In rows, and the range holds several memtables of each interval.
    Duplicated,
}

const LIES: [Lie; 6] = [
    Lie::InMemtables,
    Lie::InFrozenMemtables,
    Lie::InRows,
    Lie::InLevels,
    Lie::Divided,
    Lie::Duplicated,
];

/// The range holds b, d, f, h before.
const CASES: &[(Read, Other, Option<&str>)] = &[
    (Key("b"), Put("b"), Some("b")),
    (Key("b"), Delete("b"), Some("b")),
    (Key("b"), Merge("b"), Some("b")),
    (Key("b"), Ingest("b"), Some("b")),
    (Key("b"), DeleteRange("a", "c"), Some("b")),
    (Key("c"), Put("c"), Some("c")),
    (Key("b"), Put("bb"), None),
    (Key("b"), Put("a"), None),
    (Key("b"), Ingest("bb"), None),
    (Key("b"), DeleteRange("ba", "c"), None),
    (Key("b"), DeleteRange("a", "b"), None),
    (Walk("b", "g", None), Put("d"), Some("d")),
    (Walk("b", "g", None), Put("c"), Some("c")),
    (Walk("b", "g", None), Put("fz"), Some("fz")),
    (Walk("b", "g", None), Put("g"), None),
    (Walk("b", "g", None), Put("a"), None),
    (Walk("b", "g", None), Delete("d"), Some("d")),
    (Walk("b", "g", None), Merge("e"), Some("e")),
    (Walk("b", "g", None), Ingest("e"), Some("e")),
    (Walk("b", "g", None), Ingest("g"), None),
    (Walk("b", "g", None), DeleteRange("a", "c"), Some("b")),
    (Walk("b", "g", None), DeleteRange("f", "z"), Some("f")),
    (Walk("b", "g", None), DeleteRange("g", "z"), None),
    (Walk("b", "g", None), DeleteRange("a", "b"), None),
    (Walk("b", "g", Some("d")), Put("c"), Some("c")),
    (Walk("b", "g", Some("d")), Put("d"), Some("d")),
    (Walk("b", "g", Some("d")), Put("d0"), None),
    (Walk("b", "g", Some("d")), Put("f"), None),
    (Walk("b", "g", Some("d")), DeleteRange("d0", "z"), None),
    (WalkBack("b", "g", None), Put("b"), Some("b")),
    (WalkBack("b", "g", Some("d")), Put("e"), Some("e")),
    (WalkBack("b", "g", Some("d")), Put("d"), Some("d")),
    (WalkBack("b", "g", Some("d")), Put("c"), None),
    (WalkBack("b", "g", Some("d")), DeleteRange("c", "d"), None),
];

fn note(reads: &mut ReadSet, read: Read) -> Result<()> {
    let range = |start: &str, end: &str| KeyRange::new(start, Some(end.into()));
    let (forward, start, end, through) = match read {
        Key(key) => return reads.note_key(key.as_bytes()),
        Walk(start, end, through) => (true, start, end, through),
        WalkBack(start, end, through) => (false, start, end, through),
    };
    let walk = reads.begin_walk(range(start, end))?;
    reads.walk_to(walk, forward, through.map(str::as_bytes))
}

fn write_other(store: &Store, other: Other) -> Result<()> {
    match other {
        Put(key) => put(store, key, "new"),
        Delete(key) => delete(store, key),
        DeleteRange(start, end) => delete_range(store, start, end),
        Merge(key) => merge(store, key, "+"),
        PassThrough(key) => put(store, key, "new").and_then(|()| delete(store, key)),
        Ingest(key) => {
            let mut ingest = store.begin_ingest()?;
            ingest.add(key.as_bytes(), b"ingested", None)?;
            ingest.finish().map(|_| ())
        }
    }
}

fn lay(store: &Store, lie: Lie) -> Result<()> {
    let thirds = || vec![b"c".to_vec(), b"e".to_vec()];
    match lie {
        Lie::InMemtables => Ok(()),
        Lie::InFrozenMemtables => store.inner.freeze_all(),
        Lie::InRows => store.flush(),
        Lie::InLevels => store.compact(&KeyRange::all()),
        Lie::Divided => store.divide_among(thirds(), &[1, 1, 1]),
        Lie::Duplicated => store.divide_among(thirds(), &[2, 3, 1]).and_then(|()| store.flush()),
    }
}

fn begin(store: &Store) -> (Snapshot, ReadSet) {
    let snapshot = store.snapshot();
    let reads = ReadSet::new(&snapshot);
    (snapshot, reads)
}

fn batch_of_z() -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    batch.put(b"z", b"mine")?;
    Ok(batch)
}

fn commit(store: &Store, reads: &ReadSet) -> Result<()> {
    store.write_if_unchanged(reads, &batch_of_z()?, &WriteOptions::default()).map(|_| ())
}

#[test]
fn what_others_wrote_to_what_was_read_is_a_conflict_and_nothing_else_is() -> Result<()> {
    for lie in LIES {
        for (read, other, expected) in CASES {
            simulate(71, |env| {
                let store = open(env, &lazy())?;
                // Some of it in tables, some in memtables.
                put(&store, "b", "1")?;
                put(&store, "f", "1")?;
                store.flush()?;
                put(&store, "d", "1")?;
                put(&store, "h", "1")?;
                let (_snapshot, mut reads) = begin(&store);
                note(&mut reads, *read)?;
                write_other(&store, *other)?;
                lay(&store, lie)?;
                let context = format!("{read:?} {other:?} {lie:?}");
                match (commit(&store, &reads), expected) {
                    (Ok(()), None) => {
                        assert_eq!(get(&store, "z")?.as_deref(), Some("mine"), "{context}");
                    }
                    (Err(Error::Conflict(conflict)), Some(key)) => {
                        assert_eq!(conflict.key, key.as_bytes(), "{context}");
                        assert!(conflict.to_string().contains(key), "{context}: {conflict}");
                        let unwritten = get(&store, "z")?;
                        let is_mine = unwritten.as_deref() == Some("mine");
                        assert!(!is_mine, "{context}: a conflict wrote");
                    }
                    (outcome, _) => panic!("{context}: {outcome:?}, expected {expected:?}"),
                }
                // The conflict was published: a transaction that begins now sees it.
                let (_snapshot, mut reads) = begin(&store);
                note(&mut reads, *read)?;
                commit(&store, &reads)
            })?;
        }
    }
    Ok(())
}

/// As it was is not as if nobody had been there: others may have read it in between.
#[test]
fn a_key_that_came_and_went_again_is_a_conflict() -> Result<()> {
    for lie in LIES {
        for read in [Key("c"), Walk("b", "d", None)] {
            simulate(72, |env| {
                let store = open(env, &lazy())?;
                put(&store, "b", "1")?;
                let (snapshot, mut reads) = begin(&store);
                note(&mut reads, read)?;
                write_other(&store, PassThrough("c"))?;
                lay(&store, lie)?;
                let outcome = commit(&store, &reads);
                assert!(matches!(outcome, Err(Error::Conflict(_))), "{lie:?} {outcome:?}");
                assert_eq!(snapshot.get(b"c", &GetOptions::default())?, None);
                Ok::<(), Error>(())
            })?;
        }
    }
    Ok(())
}

#[test]
fn a_transaction_that_only_writes_has_no_conflict() -> Result<()> {
    simulate(73, |env| {
        let store = open(env, &small())?;
        let (_snapshot, reads) = begin(&store);
        put(&store, "z", "theirs")?;
        commit(&store, &reads)?;
        assert_eq!(get(&store, "z")?.as_deref(), Some("mine"));
        Ok(())
    })
}

#[test]
fn an_empty_batch_asks_whether_what_was_read_is_still_so() -> Result<()> {
    simulate(74, |env| {
        let store = open(env, &small())?;
        put(&store, "b", "1")?;
        let (snapshot, mut reads) = begin(&store);
        reads.note_key(b"b")?;
        let ask = |reads: &ReadSet| {
            store.write_if_unchanged(reads, &WriteBatch::new(), &WriteOptions::default())
        };
        assert_eq!(ask(&reads)?, snapshot.seqno());
        put(&store, "c", "1")?;
        assert_eq!(ask(&reads)?, store.snapshot().seqno());
        put(&store, "b", "2")?;
        assert!(matches!(ask(&reads), Err(Error::Conflict(_))));
        Ok(())
    })
}

#[test]
fn a_read_set_is_bounded_and_counts_what_is_read_twice_once() -> Result<()> {
    simulate(75, |env| {
        let store = open(env, &small())?;
        let snapshot = store.snapshot();
        let mut reads = ReadSet::bounded(&snapshot, 4 << 10);
        for _ in 0..1000 {
            reads.note_key(b"again")?;
            let walk = reads.begin_walk(KeyRange::prefix(b"p"))?;
            reads.walk_to(walk, true, Some(b"p1"))?;
            reads.walk_to(walk, false, Some(b"p7"))?;
            reads.end_walk(walk);
        }
        // Keys of an interval take nothing beside it.
        let walk = reads.begin_walk(KeyRange::prefix(b"q"))?;
        reads.walk_to(walk, true, None)?;
        reads.end_walk(walk);
        (0..1000).try_for_each(|n| reads.note_key(format!("q{n}").as_bytes()))?;
        let outcome = (0..1000).try_for_each(|n| reads.note_key(format!("r{n}").as_bytes()));
        let Err(Error::Invalid(text)) = outcome else { panic!("{outcome:?}") };
        assert!(text.contains("may remember at most 4 KiB"), "{text}");
        let long = vec![b'l'; 4 << 10];
        assert!(reads.begin_walk(KeyRange::prefix(&long)).is_err());
        // What was noted is still looked at.
        put(&store, "again", "1")?;
        assert!(matches!(commit(&store, &reads), Err(Error::Conflict(_))));
        Ok(())
    })
}

#[test]
fn a_read_set_of_another_range_is_refused() -> Result<()> {
    simulate(76, |env| {
        let store = open(env, &small())?;
        let other = Store::open(&process(env)?, Path::new("/other"), small())?;
        let (_snapshot, reads) = begin(&other);
        assert!(matches!(commit(&store, &reads), Err(Error::Invalid(_))));
        Ok(())
    })
}

/// A table that was flushed meanwhile is looked into only if that needs no disk; who may wait
/// fetches first.
#[test]
fn a_commit_that_may_not_wait_says_so_when_a_table_is_not_in_memory() -> Result<()> {
    simulate(77, |env| {
        let store = open(env, &lazy())?;
        (0..200).try_for_each(|n| put(&store, &format!("k{n:03}"), &"x".repeat(100)))?;
        let (_snapshot, mut reads) = begin(&store);
        reads.note_key(b"k100")?;
        (0..200).filter(|n| *n != 100).try_for_each(|n| put(&store, &format!("k{n:03}"), "y"))?;
        store.flush()?;
        let hasty = WriteOptions { wait: false, ..WriteOptions::default() };
        let outcome = store.write_if_unchanged(&reads, &batch_of_z()?, &hasty);
        assert!(matches!(outcome, Err(Error::NeedsIo)), "{outcome:?}");
        commit(&store, &reads)?;
        assert_eq!(get(&store, "z")?.as_deref(), Some("mine"));
        Ok(())
    })
}
