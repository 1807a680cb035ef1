//! Goal: an ingest over several keyspaces shows in all of them at one moment, or in none: to
//! readers, after a crash at whatever change of the disk, and beside a drop of one of them. Method:
//! simulated machines, of which the disk of every moment is opened again; random schedules of a
//! client that ingests and one that drops.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_types, reason = "what the test gathers is no part of the simulation")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Content, Rows, content, open, rows};
use terrace::{Db, ErrorKind};
use terrace_env::{
    CrashPolicy, DiskImage, IoPoint, JobClass, SeededRng, SharedEnv, SimEnv, SimOptions,
};

/// In another order than they are made in, which is that of their numbers.
const NAMES: [&str; 4] = ["d", "default", "b", "a"];

/// An entry that is ingested: which keyspace, key, value.
type Entry = (&'static str, String, String);

/// Rows for some keyspaces, sorted in each, in turns.
fn draw(rng: &mut SeededRng, round: u64) -> Vec<Entry> {
    let mut left = Vec::new();
    for name in NAMES {
        let keys: BTreeSet<u64> = (0..rng.below(30)).map(|_| rng.below(40)).collect();
        left.push((name, keys.into_iter().rev().collect::<Vec<u64>>()));
    }
    let mut entries = Vec::new();
    loop {
        left.retain(|(_, keys)| !keys.is_empty());
        if left.is_empty() {
            return entries;
        }
        let index = rng.below(left.len() as u64) as usize;
        let (name, keys) = &mut left[index];
        let key = format!("k{:02}", keys.pop().unwrap());
        let value = format!("{round} {}", "x".repeat(rng.below(300) as usize));
        entries.push((*name, key, value));
    }
}

fn apply(model: &mut Content, entries: &[Entry]) {
    for (name, key, value) in entries {
        model.get_mut(*name).unwrap().insert(key.clone(), value.clone());
    }
}

/// Begins in this keyspace, which may get nothing.
fn ingest(db: &Db, first: &str, entries: &[Entry]) -> terrace::Result<()> {
    let mut keyspaces = BTreeMap::new();
    for name in NAMES {
        keyspaces.insert(name, db.keyspace(name)?);
    }
    let mut ingest = keyspaces[first].ingest()?;
    for (name, key, value) in entries {
        ingest.add_to(&keyspaces[name], key, value)?;
    }
    assert_eq!(ingest.len(), entries.len() as u64);
    let report = ingest.finish()?;
    assert_eq!(report.entry_count, entries.len() as u64);
    Ok(())
}

fn all_made(db: &Db) -> Content {
    // Numbers in another order than names.
    let made = |name: &str| drop(db.keyspace(name).unwrap());
    ["a", "b", "d"].into_iter().for_each(made);
    NAMES.iter().map(|name| ((*name).to_string(), Rows::new())).collect()
}

/// Writes and ingests; what will be there is noted before each.
fn run(env: &SharedEnv, seed: u64, rounds: u64, after: &Mutex<Vec<Content>>) {
    let mut rng = SeededRng::new(seed);
    let db = open(env);
    let mut model = all_made(&db);
    let note = |model: &Content| after.lock().unwrap().push(model.clone());
    note(&model);
    for round in 0..rounds {
        for _ in 0..rng.below(6) {
            let name = NAMES[rng.below(4) as usize];
            let put = [(name, format!("k{:02}", rng.below(40)), format!("{round}"))];
            apply(&mut model, &put);
            note(&model);
            db.keyspace(name).unwrap().put(&put[0].1, &put[0].2).unwrap();
        }
        let (snapshot, before) = (db.snapshot(), model.clone());
        let entries = draw(&mut rng, round);
        apply(&mut model, &entries);
        note(&model);
        ingest(&db, NAMES[rng.below(4) as usize], &entries).unwrap();
        assert_eq!(content(&db), model);
        for name in NAMES {
            let then = rows(&db.keyspace(name).unwrap().at(&snapshot));
            assert_eq!(then, before[name], "{name} at a snapshot of before");
        }
        match rng.below(3) {
            0 => db.admin().flush().unwrap(),
            1 => db.admin().compact(&db, ..).unwrap(),
            _ => {}
        }
    }
    db.close().unwrap();
}

/// The disks of all moments of a run, each with how many contents were noted by then.
fn moments(seed: u64) -> (Vec<(usize, DiskImage)>, Vec<Content>) {
    let moments: Arc<Mutex<Vec<(usize, DiskImage)>>> = Arc::default();
    let after: Arc<Mutex<Vec<Content>>> = Arc::default();
    let (kept, counted) = (Arc::clone(&moments), Arc::clone(&after));
    let watch = move |point: &IoPoint<'_>| {
        let known = counted.lock().unwrap().len();
        if known > 0 {
            kept.lock().unwrap().push((known, point.disk.clone()));
        }
    };
    let sim = SimOptions { on_io: Some(Box::new(watch)), ..SimOptions::new(seed) };
    let contents = Arc::clone(&after);
    SimEnv::run(sim, move |env| run(&(env as SharedEnv), seed, 3, &contents));
    let moments = std::mem::take(&mut *moments.lock().unwrap());
    let contents = std::mem::take(&mut *after.lock().unwrap());
    (moments, contents)
}

#[test]
fn every_crash_leaves_all_of_an_ingest_or_nothing() {
    let mut judged = 0;
    for seed in 0..6 {
        println!("seed {seed}");
        let (moments, contents) = moments(seed);
        for (index, (known, moment)) in moments.iter().enumerate() {
            for policy in CrashPolicy::ALL {
                let disk = moment.crash(policy, index as u64);
                let sim = SimOptions { disk, ..SimOptions::new(index as u64) };
                let candidates = contents[known.saturating_sub(2)..*known].to_vec();
                SimEnv::run(sim, move |env| {
                    let env: SharedEnv = env;
                    let db = open(&env);
                    let found = content(&db);
                    // The last that was noted was under way, or is done.
                    assert!(
                        candidates.contains(&found),
                        "moment {index}, {policy:?}: {found:?} is none of {candidates:?}"
                    );
                    db.close().unwrap();
                });
                judged += 1;
            }
        }
    }
    assert!(judged > 1000, "{judged} disks");
}

#[test]
fn ingests_are_what_a_model_says_now_and_through_snapshots() {
    for seed in 100..130 {
        println!("seed {seed}");
        SimEnv::run(SimOptions::new(seed), move |env| {
            run(&(env as SharedEnv), seed, 12, &Mutex::default());
        });
    }
}

/// A keyspace is dropped while an ingest into it and others goes on: it is refused as a whole, or
/// came before the drop, which takes its part in that keyspace alone. Nothing of it shows in a
/// later keyspace of the name, or under the number.
#[test]
fn a_drop_beside_an_ingest_comes_before_all_of_it_or_after_it() {
    let mut outcomes = BTreeMap::new();
    for seed in 0..150 {
        println!("seed {seed}");
        let outcome = Arc::new(Mutex::new(""));
        let told = Arc::clone(&outcome);
        SimEnv::run(SimOptions::new(seed), move |env| {
            let env: SharedEnv = env;
            let db = open(&env);
            let mut model = all_made(&db);
            let mut rng = SeededRng::new(seed);
            let entries = draw(&mut rng, 0);
            let keyspaces: BTreeMap<_, _> =
                NAMES.iter().map(|name| (*name, db.keyspace(name).unwrap())).collect();
            // An entry is added each microsecond, and then it is finished: mostly the drop begins
            // at about that time, and goes on in turns with it as the seed decides.
            let end = entries.len() as u64;
            let moment = if rng.one_in(4) { rng.below(end) } else { end - 1 + rng.below(4) };
            let (dropping, sleeping) = (db.clone(), Arc::clone(&env));
            let job = Box::new(move || {
                sleeping.sleep(Duration::from_micros(moment));
                assert!(dropping.drop_keyspace("b").unwrap());
            });
            let dropper = env.spawn(JobClass::Client, "dropper", job).unwrap();
            let mut refused = "refused on its way";
            let mut ingest = || {
                let mut ingest = keyspaces["b"].ingest()?;
                for (name, key, value) in &entries {
                    env.sleep(Duration::from_micros(1));
                    ingest.add_to(&keyspaces[name], key, value)?;
                }
                refused = "refused at its end";
                ingest.finish()
            };
            let ingested = ingest();
            assert!(dropper.join(), "it went to its end");
            *told.lock().unwrap() = match &ingested {
                Ok(_) => "ingested",
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                    assert!(error.to_string().contains("keyspace b was dropped"), "{error}");
                    refused
                }
            };
            if ingested.is_ok() {
                apply(&mut model, &entries);
            }
            model.remove("b");
            assert_eq!(content(&db), model);
            let left = rows(&keyspaces["b"]);
            assert!(left.is_empty(), "it came behind the drop: {left:?}");
            db.close().unwrap();
            let db = open(&env);
            assert_eq!(content(&db), model);
            // The number may be given out again.
            for name in ["b", "new"] {
                assert!(db.keyspace(name).unwrap().first().unwrap().is_none());
            }
            db.close().unwrap();
        });
        *outcomes.entry(*outcome.lock().unwrap()).or_insert(0) += 1;
    }
    println!("{outcomes:?}");
    assert!(outcomes.values().all(|count| *count > 5) && outcomes.len() == 3, "{outcomes:?}");
}

#[test]
fn what_cannot_be_ingested_is_refused_and_the_rest_goes_on() {
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [db, other] = [0, 1].map(|index: usize| Db::open(directories[index].path()).unwrap());
    let (users, gone) = (db.keyspace("users").unwrap(), db.keyspace("gone").unwrap());
    db.drop_keyspace("gone").unwrap();
    let mut load = db.ingest().unwrap();
    load.add_to(&users, "b", "1").unwrap();
    load.add("b", "2").unwrap();
    // Sorted in each keyspace, and only there.
    load.add_to(&users, "c", "3").unwrap();
    for key in ["b", "a"] {
        let refused = load.add_to(&users, key, "4").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    let refused = load.add_to(&gone, "a", "5").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    let refused = load.add_to(&other, "z", "6").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    load.add("c", "7").unwrap();
    assert!(users.first().unwrap().is_none() && db.first().unwrap().is_none());
    load.finish().unwrap();
    let found = content(&db);
    let row = |key: &str, value: &str| (key.to_string(), value.to_string());
    assert_eq!(found["users"], Rows::from([row("b", "1"), row("c", "3")]));
    assert_eq!(found["default"], Rows::from([row("b", "2"), row("c", "7")]));
    assert_eq!(users.stats().ingested_count, 2);
    assert_eq!((db.stats().ingested_count, db.stats().write_bytes), (2, 4));
}

/// More keyspaces than may have a table under way, in turns.
#[test]
fn many_keyspaces_are_ingested_in_turns() {
    const COUNT: usize = 150;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path()).unwrap();
    let keyspaces: Vec<_> =
        (1..=COUNT).map(|number| db.keyspace(&number.to_string()).unwrap()).collect();
    let mut load = db.ingest().unwrap();
    for key in 0..10_u8 {
        for keyspace in keyspaces.iter().rev() {
            load.add_to(keyspace, [key], keyspace.name()).unwrap();
        }
    }
    let report = load.finish().unwrap();
    assert_eq!(report.entry_count, 10 * COUNT as u64);
    for keyspace in &keyspaces {
        let rows: Vec<_> = keyspace.iter().map(|row| row.unwrap()).collect();
        let keys: Vec<_> = rows.iter().map(|(key, _)| key[0]).collect();
        assert_eq!(keys, Vec::from_iter(0..10), "{keyspace:?}");
        assert!(rows.iter().all(|(_, value)| *value == keyspace.name()), "{keyspace:?}");
    }
    assert!(db.first().unwrap().is_none());
}
