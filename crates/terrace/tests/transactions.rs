//! Transactions: their own writes against `BTreeMap`, and what others may do meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "a test has real threads")]

use std::collections::BTreeMap;

use terrace::{Db, ErrorKind, Key, Keyspace, KeyspaceOptions, Result, Transaction, Value, merge};
use terrace_env::SeededRng;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::options().memtable_bytes(16 << 10).open(dir.path()).unwrap();
    (dir, db)
}

fn appending(db: &Db, name: &str) -> Keyspace {
    db.keyspace_with(name, KeyspaceOptions::new().merge_operator(merge::APPEND)).unwrap()
}

/// Short keys over few letters, so that prefixes and neighbours are common.
fn key(rng: &mut SeededRng) -> Vec<u8> {
    let len = rng.below(3);
    (0..len).map(|_| b"ab\xff"[rng.below(3) as usize]).collect()
}

fn row((key, value): (Key, Value)) -> (Vec<u8>, Vec<u8>) {
    (key.into_vec(), value.into_vec())
}

fn change(tx: &mut Transaction, space: &Keyspace, model: &mut Model, rng: &mut SeededRng, tag: u8) {
    let (key, value) = (key(rng), vec![tag; rng.below(40) as usize]);
    match rng.below(8) {
        0 | 1 => {
            tx.delete(space, &key);
            model.remove(&key);
        }
        2 => {
            let end = self::key(rng);
            tx.delete_range(space, &key[..]..&end[..]);
            model.retain(|one, _| *one < key || *one >= end);
        }
        3 | 4 => {
            tx.merge(space, &key, &value);
            model.entry(key).or_default().extend(value);
        }
        _ => {
            tx.put(space, &key, &value);
            model.insert(key, value);
        }
    }
}

/// What the transaction shows, by single keys, and by walks from both ends in turns.
fn check(tx: &Transaction, space: &Keyspace, model: &Model, rng: &mut SeededRng, context: &str) {
    for _ in 0..4 {
        let key = key(rng);
        let found = tx.get(space, &key).unwrap();
        assert_eq!(found.as_deref(), model.get(&key).map(Vec::as_slice), "{context}: {key:?}");
        assert_eq!(tx.contains_key(space, &key).unwrap(), model.contains_key(&key));
    }
    let (start, end) = (key(rng), key(rng));
    let within = |key: &Vec<u8>| *key >= start && *key < end;
    let mut expected: std::collections::VecDeque<_> =
        model.iter().filter(|(key, _)| within(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let mut iter = tx.range(space, &start[..]..&end[..]);
    let way = rng.below(3);
    for _ in 0..expected.len() + 2 {
        let forward = way == 0 || way == 1 && rng.one_in(2);
        let shown = if forward { iter.next() } else { iter.next_back() };
        let next = if forward { expected.pop_front() } else { expected.pop_back() };
        assert_eq!(shown.transpose().unwrap().map(row), next, "{context}: {start:?} {end:?}");
    }
    let prefix = key(rng);
    let keys: Vec<_> = tx.prefix(space, &prefix).keys().collect::<Result<_>>().unwrap();
    let expected: Vec<_> = model.keys().filter(|key| key.starts_with(&prefix)).collect();
    assert_eq!(keys.iter().map(|key| key.to_vec()).collect::<Vec<_>>(), expected_keys(&expected));
}

fn expected_keys(keys: &[&Vec<u8>]) -> Vec<Vec<u8>> {
    keys.iter().map(|key| (*key).clone()).collect()
}

#[test]
fn a_transaction_shows_what_a_map_with_its_writes_shows() {
    for seed in 0..120 {
        println!("seed {seed}");
        let mut rng = SeededRng::new(seed);
        let (_dir, db) = open();
        let space = appending(&db, "own");
        // Neighbours, which must never be seen.
        db.put("b", "wrong").unwrap();
        appending(&db, "zz").put("", "wrong").unwrap();
        let mut model = Model::new();
        for turn in 0..5 {
            let mut tx = db.begin();
            let mut saved = vec![(tx.savepoint(), model.clone())];
            let before = model.clone();
            for step in 0..25 {
                let context = format!("seed {seed}, turn {turn}, step {step}");
                match rng.below(8) {
                    0 => saved.push((tx.savepoint(), model.clone())),
                    1 => {
                        let back_to = rng.below(saved.len() as u64) as usize;
                        saved.truncate(back_to + 1);
                        tx.rollback_to(saved[back_to].0);
                        model.clone_from(&saved[back_to].1);
                    }
                    _ => change(&mut tx, &space, &mut model, &mut rng, step),
                }
                check(&tx, &space, &model, &mut rng, &context);
                // The snapshot shows none of it.
                if step == 20 {
                    let at = space.at(&tx.snapshot());
                    let rows: Model = at.iter().map(|one| row(one.unwrap())).collect();
                    assert_eq!(rows, before, "{context}");
                }
            }
            if rng.one_in(3) {
                tx.rollback();
                model = before;
            } else {
                tx.commit().unwrap();
            }
            if rng.one_in(2) {
                db.admin().flush().unwrap();
            }
            let rows: Model = space.iter().map(|one| row(one.unwrap())).collect();
            assert_eq!(rows, model, "seed {seed}, turn {turn}");
        }
    }
}

/// Each begins when the others have; what it reads, what another one does, and the key of the
/// conflict, if it is one.
#[test]
fn a_conflict_names_its_key_and_can_be_retried() {
    type Reads = fn(&Transaction, &Db);
    type Other = fn(&Db);
    let get: Reads = |tx, db| drop(tx.get(db, "b").unwrap());
    let get_missing: Reads = |tx, db| drop(tx.get(db, "bb").unwrap());
    let first: Reads = |tx, db| drop(tx.range(db, "a"..).next());
    let last: Reads = |tx, db| drop(tx.iter(db).next_back());
    let all: Reads = |tx, db| assert_eq!(tx.iter(db).count(), 3);
    let forgotten: Reads = |tx, db| {
        let mut iter = tx.iter(db);
        iter.next();
        std::mem::forget(iter);
    };
    let own: Reads = |tx, db| assert!(tx.get(db, "mine").unwrap().is_some());
    let cases: [(&str, Reads, Other, Option<&str>); 12] = [
        ("a key that was read", get, |db| db.put("b", "2").unwrap(), Some("b")),
        ("another key", get, |db| db.put("c", "2").unwrap(), None),
        ("another keyspace", get, |db| db.keyspace("x").unwrap().put("b", "2").unwrap(), None),
        ("a key that was missed", get_missing, |db| db.put("bb", "2").unwrap(), Some("bb")),
        ("a new key before the first", first, |db| db.put("ab", "2").unwrap(), Some("ab")),
        ("a key behind the first", first, |db| db.put("c", "2").unwrap(), None),
        ("a key before the last", last, |db| db.put("b", "2").unwrap(), None),
        ("a new key behind the last", last, |db| db.put("z", "2").unwrap(), Some("z")),
        ("any new key", all, |db| db.put("bb", "2").unwrap(), Some("bb")),
        ("what was read is deleted", all, |db| db.delete_range("b".."c").unwrap(), Some("b")),
        ("a walk that was never dropped", forgotten, |db| db.delete("b").unwrap(), Some("b")),
        ("a key that was written only", own, |db| db.put("mine", "2").unwrap(), None),
    ];
    for (name, reads, other, expected) in cases {
        let (_dir, db) = open();
        db.put("b", "1").unwrap();
        db.put("c", "1").unwrap();
        let mut tx = db.begin();
        tx.put(&db, "mine", "1");
        reads(&tx, &db);
        other(&db);
        let outcome = tx.commit();
        match (&outcome, expected) {
            (Ok(_), None) => assert!(db.get("mine").unwrap().is_some_and(|v| v == "1"), "{name}"),
            (Err(error), Some(key)) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{name}: {error}");
                assert!(error.is_retryable());
                assert_eq!(error.key(), Some(key.as_bytes()), "{name}");
                assert!(error.to_string().contains(&format!("the key \"{key}\"")), "{error}");
                assert!(db.get("mine").unwrap().is_none(), "{name}: a conflict wrote");
            }
            _ => panic!("{name}: {outcome:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn counters_that_several_threads_raise_lose_nothing() {
    let (_dir, db) = open();
    let (one, other) = (db.keyspace("one").unwrap(), db.keyspace("other").unwrap());
    let count = |value: Option<Value>| -> u64 {
        value.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap())
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    db.transaction(|tx| {
                        let next = count(tx.get(&one, "n")?) + 1;
                        assert_eq!(count(tx.get(&other, "n")?) + 1, next, "one moment");
                        tx.put(&one, "n", next.to_string()).put(&other, "n", next.to_string());
                        Ok::<_, terrace::Error>(())
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(count(one.get("n").unwrap()), 400);
    assert_eq!(count(other.get("n").unwrap()), 400);
}

/// Each of two doctors may go off duty if the other one is on: of both at once one must be refused.
#[test]
fn two_that_read_what_the_other_writes_do_not_both_commit() {
    let (_dir, db) = open();
    db.put("ada", "on").unwrap();
    db.put("bob", "on").unwrap();
    let (mut ada, mut bob) = (db.begin(), db.begin());
    let on_duty =
        |tx: &Transaction| tx.iter(&db).filter(|one| one.as_ref().unwrap().1 == "on").count();
    assert_eq!((on_duty(&ada), on_duty(&bob)), (2, 2));
    ada.put(&db, "ada", "off");
    bob.put(&db, "bob", "off");
    ada.commit().unwrap();
    assert_eq!(bob.commit().map_err(|error| error.kind()), Err(ErrorKind::Conflict));
}

#[test]
fn who_only_reads_commits_without_a_look_and_may_ask_for_one() {
    let (_dir, db) = open();
    db.put("b", "1").unwrap();
    let tx = db.begin();
    assert!(tx.get(&db, "b").unwrap().is_some());
    tx.check().unwrap();
    db.put("b", "2").unwrap();
    assert_eq!(tx.check().map_err(|error| error.kind()), Err(ErrorKind::Conflict));
    assert!(tx.get(&db, "b").unwrap().is_some_and(|value| value == "1"));
    let moment = tx.snapshot().seqno();
    assert_eq!(tx.commit().unwrap(), moment);
}

#[test]
fn an_error_of_the_body_undoes_the_transaction() {
    let (_dir, db) = open();
    let outcome: std::result::Result<(), Box<dyn std::error::Error>> = db.transaction(|tx| {
        tx.put(&db, "b", "1");
        Err("no".into())
    });
    assert_eq!(outcome.unwrap_err().to_string(), "no");
    assert!(db.get("b").unwrap().is_none());
}

#[test]
fn what_cannot_be_written_is_refused_at_the_commit_unless_it_is_undone() {
    let (_dir, db) = open();
    let long = vec![b'k'; 70_000];
    let mut tx = db.begin();
    tx.put(&db, "b", "1");
    let before = tx.savepoint();
    tx.put(&db, &long, "");
    assert!(tx.get(&db, &long).unwrap().is_none());
    tx.rollback_to(before);
    tx.commit().unwrap();
    let mut tx = db.begin();
    tx.put(&db, "b", "2").put(&db, &long, "");
    assert_eq!(tx.commit().map_err(|error| error.kind()), Err(ErrorKind::Invalid));
    assert!(db.get("b").unwrap().is_some_and(|value| value == "1"));

    // A keyspace that was dropped, and one of another database.
    let gone = db.keyspace("gone").unwrap();
    let mut tx = db.begin();
    tx.put(&gone, "b", "1");
    db.drop_keyspace("gone").unwrap();
    assert_eq!(tx.commit().map_err(|error| error.kind()), Err(ErrorKind::NotFound));
    let (_other_dir, other) = open();
    let tx = db.begin();
    assert_eq!(tx.get(&other, "b").map_err(|error| error.kind()), Err(ErrorKind::Invalid));
    let first = tx.iter(&other).next().unwrap();
    assert_eq!(first.map_err(|error| error.kind()), Err(ErrorKind::Invalid));
}

#[test]
fn own_values_expire_and_survive_a_reopening_as_others_do() {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = Db::open(dir.path()).unwrap();
        let mut tx = db.begin();
        tx.put_ttl(&db, "gone", "1", std::time::Duration::ZERO);
        tx.put_ttl(&db, "there", "1", std::time::Duration::from_secs(3600));
        assert!(tx.get(&db, "gone").unwrap().is_none());
        assert!(tx.get(&db, "there").unwrap().unwrap().expires_at().is_some());
        assert_eq!(tx.iter(&db).count(), 1);
        tx.commit().unwrap();
        db.close().unwrap();
    }
    let db = Db::open(dir.path()).unwrap();
    assert!(db.get("there").unwrap().unwrap().expires_at().is_some());
    assert!(db.get("gone").unwrap().is_none());
}
