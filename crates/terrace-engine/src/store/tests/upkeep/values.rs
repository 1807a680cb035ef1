//! The value log of a whole range: large values leave the tree, are found again from everywhere,
//! and their garbage goes.

use std::path::PathBuf;
use std::time::Duration;

use terrace_base::KeyRange;
use terrace_env::Fault;
use terrace_env::{FaultEffect, FaultErrno, FaultPlan, Operation};

use crate::Error;
use crate::options::{L0Kind, ValueLogOptions};
use crate::store::tests::*;
use crate::store::{GetOptions, Iter, IterOptions};

fn separating() -> Options {
    let value_log = ValueLogOptions {
        large_bytes: 100,
        space_ratio_percent: 130,
        ..ValueLogOptions::default()
    };
    Options { value_log: Some(value_log), ..small() }
}

/// A value of a key in a round: large for two keys of three.
fn value(index: usize, round: usize) -> String {
    let bytes = if index.is_multiple_of(3) { 20 } else { 400 };
    format!("{index}.{round}.{}", "x".repeat(bytes))
}

fn key(index: usize) -> String {
    format!("key {index:04}")
}

fn write_round(store: &Store, round: usize) -> Result<()> {
    (0..150).try_for_each(|index| put(store, &key(index), &value(index, round)))
}

fn assert_round(store: &Store, round: usize) -> Result<()> {
    for index in 0..150 {
        assert_eq!(get(store, &key(index))?, Some(value(index, round)), "{index}");
    }
    let mut iter = store.iter(IterOptions::default())?;
    iter.seek_to_first()?;
    for index in 0..150 {
        let entry = iter.entry().expect("no key is missing");
        assert_eq!(entry.key, key(index).as_bytes());
        assert_eq!(entry.value, value(index, round).as_bytes());
        iter.next()?;
    }
    assert!(!iter.is_on_entry());
    iter.seek_back(None)?;
    for index in (0..150).rev() {
        assert_eq!(iter.entry().map(|entry| entry.value), Some(value(index, round).as_bytes()));
        iter.prev()?;
    }
    Ok(())
}

fn value_bytes(store: &Store) -> u64 {
    let version = store.inner.versions.current();
    version.values().iter().map(|file| file.meta().bytes).sum()
}

fn table_bytes(store: &Store) -> u64 {
    store.inner.versions.current().tables().map(|table| table.meta().bytes).sum()
}

#[test]
fn large_values_leave_the_tables_and_are_found_again() -> Result<()> {
    for l0_kind in [L0Kind::Plain, L0Kind::Container] {
        simulate(3, |env| {
            let options = match l0_kind {
                L0Kind::Plain => separating(),
                kind => in_pages(separating(), kind, 256 << 10),
            };
            let store = open(env, &options)?;
            write_round(&store, 0)?;
            assert_round(&store, 0)?;
            store.flush()?;
            store.settle();
            assert!(value_bytes(&store) > 100 * 400, "{}", value_bytes(&store));
            assert!(table_bytes(&store) < 30 << 10, "{}", table_bytes(&store));
            assert_round(&store, 0)?;
            store.compact(&KeyRange::all())?;
            assert_round(&store, 0)?;
            let half = KeyRange::new(key(75), None);
            let half_bytes = store.range_size(&half)?.table_bytes;
            assert!((15_000..35_000).contains(&half_bytes), "{half_bytes}");
            store.close()?;
            // What stands in the value log is found without the option, too.
            let store = open(env, &Options { value_log: None, ..options.clone() })?;
            assert_round(&store, 0)?;
            write_round(&store, 1)?;
            store.compact(&KeyRange::all())?;
            store.settle();
            assert_eq!(value_bytes(&store), 0, "nothing names a value any more");
            assert_round(&store, 1)?;
            store.close()
        })?;
    }
    Ok(())
}

#[test]
fn garbage_goes_and_a_snapshot_keeps_what_it_sees() -> Result<()> {
    simulate(4, |env| {
        let store = open(env, &separating())?;
        write_round(&store, 0)?;
        store.flush()?;
        let snapshot = store.snapshot();
        for round in 1..12 {
            write_round(&store, round)?;
            store.flush()?;
        }
        store.compact(&KeyRange::all())?;
        store.settle();
        let live_bytes = 100 * 450;
        assert!(value_bytes(&store) < 3 * live_bytes, "{}", value_bytes(&store));
        for index in 0..150 {
            let item = snapshot.get(key(index).as_bytes(), &GetOptions::default())?;
            let found = item.map(|item| String::from_utf8(item.value).expect("text"));
            assert_eq!(found, Some(value(index, 0)));
        }
        drop(snapshot);
        assert_round(&store, 11)?;
        write_round(&store, 12)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        assert!(value_bytes(&store) < 2 * live_bytes, "{}", value_bytes(&store));
        assert_round(&store, 12)?;
        let named = store.inner.versions.current().values().iter().count();
        assert_eq!(files_with(env, ".values").len(), named, "no file is left over");
        store.close()?;
        drop(store);
        let store = open(env, &separating())?;
        assert_round(&store, 12)?;
        store.close()
    })
}

/// Goal: what lives is copied as it was named, and files stay within the bound. Method: every other
/// key is overwritten, so that each file is half garbage.
#[test]
fn half_dead_files_are_written_anew_under_the_same_names() -> Result<()> {
    simulate(5, |env| {
        let store = open(env, &separating())?;
        write_round(&store, 0)?;
        store.flush()?;
        for round in 1..6 {
            for index in (0..150).filter(|index| index % 2 == 1) {
                put(&store, &key(index), &value(index, round))?;
            }
            store.compact(&KeyRange::all())?;
            store.settle();
        }
        let version = store.inner.versions.current();
        let is_rewritten = |file: &&Arc<crate::vlog::ValueFile>| {
            file.meta().segments.iter().any(|one| one.id != file.meta().id)
        };
        assert!(
            version.values().iter().any(|file| is_rewritten(&file)),
            "nothing was written anew"
        );
        let liveness = version.liveness();
        let live: u64 = version.values().iter().map(|file| liveness.live_bytes(file.meta())).sum();
        let floor = small().memtable_bytes as u64 / 8;
        let all: u64 = version.values().iter().map(|file| file.meta().entry_bytes()).sum();
        assert!(all <= live * 13 / 10 + floor, "{all} bytes, of which {live} live");
        for index in 0..150 {
            let round = if index % 2 == 1 { 5 } else { 0 };
            assert_eq!(get(&store, &key(index))?, Some(value(index, round)), "{index}");
        }
        store.close()
    })
}

#[test]
fn a_damaged_value_is_an_error_of_its_key_and_of_no_other() -> Result<()> {
    let image = killed(6, |env| {
        let store = open(env, &separating())?;
        write_round(&store, 0)?;
        store.flush()?;
        store.settle();
        store.close()?;
        Ok(store)
    });
    let needle = value(50, 0);
    let find = |(path, _): (PathBuf, _)| {
        let is_values = path.extension().is_some_and(|extension| extension == "values");
        let bytes = image.read(&path).ok().filter(|_| is_values)?;
        let at = bytes.windows(needle.len()).position(|some| some == needle.as_bytes())? + 100;
        Some((path, at, bytes))
    };
    let found = image.files().into_iter().find_map(find);
    let (path, at, bytes) = found.expect("the value is in a value file");
    let mut damaged = image;
    damaged.write(&path, at as u64, &[bytes[at] ^ 1]).expect("it is there");
    after_crash(damaged, |env| {
        let store = open(env, &separating())?;
        let error = get(&store, &key(50)).expect_err("the value is damaged");
        assert!(matches!(&error, Error::Corruption(damage) if damage.file == path), "{error}");
        for index in (0..150).filter(|index| *index != 50) {
            assert_eq!(get(&store, &key(index))?, Some(value(index, 0)));
        }
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek(key(49).as_bytes())?;
        assert!(matches!(iter.next(), Err(Error::Corruption(_))));
        iter.next()?;
        assert_eq!(iter.entry().map(|entry| entry.key.to_vec()), Some(key(51).into_bytes()));
        iter.prev().expect_err("it is damaged from this side, too");
        iter.prev()?;
        assert_eq!(iter.entry().map(|entry| entry.key.to_vec()), Some(key(49).into_bytes()));
        // Whoever wants keys only reads no values, and meets no damage in them.
        iter.show_keys_only();
        iter.seek_to_first()?;
        for index in 0..150 {
            let entry = iter.entry().expect("every key is there");
            let is_large = value(index, 0).len() >= 100;
            assert_eq!((entry.key, entry.value.is_empty()), (key(index).as_bytes(), is_large));
            iter.next()?;
        }
        Ok(())
    })
}

#[test]
fn a_flush_that_fails_leaves_no_value_file() -> Result<()> {
    with_faults(7, |_, faults, env| {
        let store = open(env, &separating())?;
        write_round(&store, 0)?;
        let fault = Fault::nth(Operation::Write, 1, FaultEffect::Error(FaultErrno::NoSpace));
        faults.set_plan(FaultPlan::one(fault.on(".table")));
        let _ = store.flush();
        assert!(!faults.injected().is_empty());
        store.flush()?;
        store.settle();
        assert_round(&store, 0)?;
        let named = store.inner.versions.current().values().iter().count();
        assert_eq!(files_with(env, ".values").len(), named);
        store.close()
    })
}

/// Goal: a large value that was read is in the cache, unless whoever read it wanted none. Method:
/// a get of a large value asks the cache once more than one of a small value.
#[test]
fn a_value_that_was_read_is_cached_if_that_is_wanted() -> Result<()> {
    simulate(8, |env| {
        let store = open(env, &separating())?;
        write_round(&store, 0)?;
        store.flush()?;
        store.settle();
        let hits_of = |index: usize, fill_cache: bool| {
            let before = store.inner.context.opener.cache.hits();
            let options = GetOptions { fill_cache, ..GetOptions::default() };
            let found = store.get(key(index).as_bytes(), &options)?;
            let found = found.as_ref().map(|item| item.value.as_slice());
            assert_eq!(found, Some(value(index, 0).as_bytes()));
            Ok::<_, Error>(store.inner.context.opener.cache.hits() - before)
        };
        // The first reads bring blocks and values in.
        for index in [3, 4] {
            hits_of(index, true)?;
        }
        let (small, large) = (hits_of(3, true)?, hits_of(4, true)?);
        assert_eq!(large, small + 1);
        assert_eq!(hits_of(4, false)?, small, "the value is read anew");
        store.close()
    })
}

/// Goal: a scan whose values come from a slow disk asks for them before it comes to them, both ways
/// and whatever else lies there, and shows what it would show anyway; one that waits for nothing
/// asks for nothing. Method: the disk takes up to a millisecond for each call, or no time.
#[test]
fn a_scan_that_waits_for_values_asks_for_those_that_follow() -> Result<()> {
    for (delay_max, asks) in [(Duration::ZERO, false), (Duration::from_millis(1), true)] {
        let sim = SimOptions { io_delay_max: delay_max, ..SimOptions::new(31) };
        SimEnv::run(sim, |env| {
            let store = open(&(env as SharedEnv), &separating())?;
            write_round(&store, 0)?;
            store.flush()?;
            for index in (0..150).step_by(7) {
                put(&store, &key(index), &value(index, 1))?;
            }
            let mut batch = WriteBatch::new();
            batch.delete_range(b"key 0100", b"key 0110")?;
            store.write(&batch, &WriteOptions::default())?;
            store.flush()?;
            let expected: Vec<_> = (0..150)
                .filter(|index| !(100..110).contains(index))
                .map(|index| (key(index), value(index, usize::from(index % 7 == 0))))
                .collect();
            let shown = |iter: &Iter| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
                iter.entry().map(|entry| (text(entry.key), text(entry.value)))
            };
            // A seek leaves what was asked for behind, and begins anew.
            let asked = || store.stats().value_log.asked_ahead;
            let mut iter = store.iter(IterOptions::default())?;
            iter.seek_to_first()?;
            let mut steps = 0;
            while asks && asked() == 0 {
                iter.next()?;
                steps += 1;
            }
            assert!(steps < 10, "{steps}");
            let before = asked();
            iter.seek(key(70).as_bytes())?;
            (0..6).try_for_each(|_| iter.next())?;
            let begun = asked();
            assert_eq!(begun > before, asks, "after a seek");
            let mut iter = store.iter(IterOptions::default())?;
            iter.seek_to_first()?;
            for pair in &expected {
                assert_eq!(shown(&iter).as_ref(), Some(pair));
                iter.next()?;
            }
            let forward = asked() - begun;
            let mut iter = store.iter(IterOptions::default())?;
            iter.seek_back(None)?;
            for pair in expected.iter().rev() {
                assert_eq!(shown(&iter).as_ref(), Some(pair));
                iter.prev()?;
            }
            let back = asked() - begun - forward;
            // Two of three values are in the value log; the windows have some of them.
            println!("{delay_max:?}: {forward} forward, {back} back");
            assert_eq!([forward > 0, back > 0], [asks; 2], "{forward}, {back}");
            store.close()
        })?;
    }
    Ok(())
}
