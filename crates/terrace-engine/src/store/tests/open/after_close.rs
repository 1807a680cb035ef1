//! Goal: a close gives the directory back at once, whatever is left of the range, and what is left
//! neither reads on nor writes. Method: an iterator, a snapshot, a handle and an ingest outlive the
//! close, and the range is opened again beside them: in a simulation and on the machine's own
//! files.

use std::time::Duration;

use terrace_env::{JobClass, RealEnv};

use crate::Error;
use crate::store::tests::*;
use crate::store::{GetOptions, IterOptions};

fn fill(store: &Store, round: u32) -> Result<()> {
    for key in 0..400 {
        put(store, &format!("{key:04}"), &format!("{round}").repeat(60))?;
    }
    Ok(())
}

fn expect(store: &Store, round: u32) -> Result<()> {
    for key in 0..400 {
        let found = get(store, &format!("{key:04}"))?;
        assert_eq!(found, Some(format!("{round}").repeat(60)), "{key}");
    }
    Ok(())
}

fn is_closed<T: std::fmt::Debug>(outcome: Result<T>) {
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
}

/// What is left of a range that is closed, while it is open again.
fn outlive_a_close(
    env: &SharedEnv,
    other_env: &SharedEnv,
    dir: &Path,
    options: &Options,
) -> Result<()> {
    let store = Store::open(&process(env)?, dir, options.clone())?;
    fill(&store, 0)?;
    let snapshot = store.snapshot();
    let mut walking = store.iter(IterOptions::default())?;
    walking.seek_to_first()?;
    let mut early = snapshot.iter(IterOptions::default())?;
    early.seek_back(None)?;
    let mut fresh = store.iter(IterOptions::default())?;
    let pinned = store.get_pinned(b"0007", &GetOptions::default())?.expect("it is there");
    let mut ingest = store.begin_ingest()?;
    for key in 0..100 {
        ingest.add(format!("x{key:04}").as_bytes(), &[b'x'; 100], None)?;
    }
    store.close()?;
    // None of them has been touched since, but those that hold rows in a container.
    if options.l0.has_container() {
        is_closed(walking.next());
        is_closed(early.prev());
        is_closed(fresh.seek_to_first());
        drop(pinned);
    }
    let again = Store::open(&process(other_env)?, dir, options.clone())?;
    assert!(again.recovery().was_closed);
    for _ in 0..2 {
        is_closed(walking.next());
        is_closed(walking.seek(b"0003"));
        is_closed(early.prev());
        is_closed(early.seek_back(None));
        is_closed(fresh.seek_to_first());
        is_closed(store.get(b"0001", &GetOptions::default()));
        is_closed(snapshot.get(b"0001", &GetOptions::default()));
        is_closed(snapshot.iter(IterOptions::default()));
        is_closed(put(&store, "0001", "late"));
        is_closed(store.flush());
        is_closed(store.compact(&terrace_base::KeyRange::all()));
        is_closed(store.checkpoint(&dir.join("copy"), &mut |_, _| true));
        is_closed(store.divide_at(vec![b"0100".to_vec()]));
        is_closed(store.check(&mut |_, _| ()));
        store.close()?;
    }
    assert_eq!(walking.entry().map(|entry| entry.key.to_vec()), None);
    let before = env.fs().list(dir)?;
    is_closed(ingest.finish());
    drop((walking, early, fresh, snapshot, store));
    let names = |entries: Vec<terrace_env::DirEntry>| {
        // The range that is open prepares its log.
        let names = entries.into_iter().map(|entry| entry.name);
        names.filter(|name| !name.ends_with(".log")).collect::<Vec<_>>()
    };
    assert_eq!(names(env.fs().list(dir)?), names(before), "nothing was made or removed");
    expect(&again, 0)?;
    fill(&again, 1)?;
    again.flush()?;
    expect(&again, 1)?;
    again.close()?;
    let last = Store::open(&process(env)?, dir, options.clone())?;
    expect(&last, 1)?;
    last.close()
}

fn kinds() -> [Options; 3] {
    let container = Options { l0: L0Options::Container { bytes: 1 << 20, path: None }, ..small() };
    [small(), Options { durability: crate::options::Durability::Sync, ..small() }, container]
}

#[test]
fn what_outlives_a_close_answers_that_it_is_closed() -> Result<()> {
    for (seed, options) in (400..).zip(kinds()) {
        simulate(seed, |env| outlive_a_close(env, env, Path::new(DIR), &options))?;
    }
    Ok(())
}

#[test]
fn a_closed_directory_is_free_for_any_environment_of_the_machine() -> Result<()> {
    for options in kinds() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (env, other): (SharedEnv, SharedEnv) = (RealEnv::new(), RealEnv::new());
        outlive_a_close(&env, &other, &dir.path().join("db"), &options)?;
    }
    Ok(())
}

/// A container is mapped once: who holds a row in it is named.
#[test]
fn a_pinned_row_of_a_closed_range_keeps_its_container() -> Result<()> {
    let options = kinds().into_iter().next_back().expect("the one with a container");
    simulate(410, |env| {
        let store = open(env, &options)?;
        for key in 0..20 {
            put(&store, &format!("{key:04}"), &"large".repeat(400))?;
        }
        store.flush()?;
        let pinned = store.get_pinned(b"0007", &GetOptions::default())?.expect("it is there");
        store.close()?;
        let locked = open(env, &options).expect_err("its page could be written");
        assert!(
            matches!(&locked, Error::Locked(text) if text.contains("pinned value")),
            "{locked}"
        );
        assert_eq!(*pinned, *"large".repeat(400).as_bytes());
        drop(pinned);
        let again = open(env, &options)?;
        assert_eq!(get(&again, "0007")?, Some("large".repeat(400)));
        Ok(())
    })
}

/// Whatever a caller has under way when another one closes is over before the directory is free.
#[test]
fn a_close_waits_for_what_callers_have_under_way() -> Result<()> {
    for seed in 420..450 {
        simulate(seed, |env| {
            let store = open(env, &small())?;
            fill(&store, 0)?;
            let works: Vec<_> = (0..5u64)
                .map(|which| {
                    let store = store.clone();
                    let work = move || {
                        let outcome = match which {
                            0 => store.flush(),
                            1 => store.compact(&terrace_base::KeyRange::all()),
                            2 => store.checkpoint(Path::new("/copy"), &mut |_, _| true).map(|_| ()),
                            3 => fill(&store, 0),
                            _ => (|| {
                                let mut ingest = store.begin_ingest()?;
                                for key in 0..400 {
                                    let key = format!("{key:04}");
                                    ingest.add(key.as_bytes(), "0".repeat(60).as_bytes(), None)?;
                                }
                                ingest.finish().map(|_| ())
                            })(),
                        };
                        assert!(matches!(outcome, Ok(()) | Err(Error::Closed)), "{outcome:?}");
                    };
                    env.spawn(JobClass::Client, &format!("{which}"), Box::new(work))
                })
                .collect::<std::result::Result<_, _>>()?;
            env.sleep(Duration::from_micros(seed * 7 % 300));
            store.close()?;
            let again = open(env, &small())?;
            assert!(again.recovery().was_closed, "nothing was written behind the mark");
            expect(&again, 0)?;
            for work in works {
                assert!(work.join(), "a thread panicked");
            }
            expect(&again, 0)?;
            drop(store);
            drop(again);
            expect(&open(env, &small())?, 0)
        })?;
    }
    Ok(())
}
