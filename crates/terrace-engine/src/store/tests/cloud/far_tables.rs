//! Goal: tables below the waterline are objects, and nobody who reads or writes notices. Method: a
//! range that fills several levels, a look at where each table lies, and the same answers before
//! and after an open, in a copy, and when the line has moved.

use terrace_base::{KeyRange, LevelNo};
use terrace_env::{ObjectsEnv, ObjectsProfile};

use super::{CloudOptions, fill, in_store, value};
use crate::cache::persistent::CACHE_DIRECTORY;
use crate::check::{CheckDepth, check_dir};
use crate::cloud::CloudNames;
use crate::options::ValueLogOptions;
use crate::placement::FarName;
use crate::store::tests::*;
use crate::store::{Follower, IterOptions};
use crate::version::Table;

fn expect_gets(store: &Store, round: u32) -> Result<()> {
    for key in 0..400 {
        assert_eq!(get(store, &format!("{key:04}"))?, Some(value(round)), "{key}");
    }
    Ok(())
}

fn expect(store: &Store, round: u32) -> Result<()> {
    expect_gets(store, round)?;
    let mut iter = store.iter(IterOptions::default())?;
    iter.seek_to_first()?;
    let mut count = 0;
    while iter.is_on_entry() {
        count += 1;
        iter.next()?;
    }
    assert_eq!(count, 400);
    assert!(store.check(&mut |_, _| ())?.is_clean());
    Ok(())
}

/// The tables of each level that lie in the store, and those that do not.
fn places(store: &Store) -> Vec<(LevelNo, usize, usize)> {
    let version = store.inner.versions.current();
    let is_far = |table: &&std::sync::Arc<Table>| table.meta().location.is_far();
    let levels = version.runs().map(|(level, run)| {
        let far = run.tables().iter().filter(is_far).count();
        (level, far, run.tables().len() - far)
    });
    levels.filter(|(_, far, near)| far + near > 0).collect()
}

#[test]
fn levels_below_the_line_are_objects() -> Result<()> {
    simulate(71, |env| {
        let options = in_store(small(), 3);
        for round in 0..3 {
            let store = open(env, &options)?;
            fill(&store, 3 * round..3 * round + 3)?;
            store.flush()?;
            store.settle();
            expect(&store, 3 * round + 2)?;
            store.close()?;
        }
        let store = open(env, &options)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        let places = places(&store);
        assert!(places.iter().any(|(level, far, _)| level.0 >= 3 && *far > 0), "{places:?}");
        for (level, far, near) in places {
            assert_eq!(if level.0 >= 3 { near } else { far }, 0, "{level:?}");
        }
        expect(&store, 8)
    })
}

#[test]
fn rows_that_cross_the_line_at_once_leave_out_what_lies_between_them() -> Result<()> {
    simulate(78, |env| {
        let store = open(env, &in_store(small(), 6))?;
        put(&store, "c", "between")?;
        put(&store, "d", "between")?;
        store.compact(&KeyRange::all())?;
        // Both meet nothing below them, so they go down together.
        for keys in [["a", "b"], ["e", "f"]] {
            keys.iter().try_for_each(|key| put(&store, key, "around"))?;
            store.flush()?;
        }
        store.settle();
        assert_eq!(places(&store), [(LevelNo(6), 3, 0)]);
        for (key, value) in [("a", "around"), ("c", "between"), ("f", "around")] {
            assert_eq!(get(&store, key)?.as_deref(), Some(value));
        }
        store.close()
    })
}

#[test]
fn values_are_in_the_tables_below_the_line() -> Result<()> {
    simulate(72, |env| {
        let values = ValueLogOptions { large_bytes: 64, ..ValueLogOptions::default() };
        let options = in_store(Options { value_log: Some(values), ..small() }, 3);
        let store = open(env, &options)?;
        fill(&store, 0..3)?;
        store.flush()?;
        assert!(!store.inner.versions.current().values().is_empty(), "values stand apart above it");
        store.compact(&KeyRange::all())?;
        store.settle();
        let version = store.inner.versions.current();
        let far = version.tables().filter(|table| table.meta().location.is_far());
        let mut count = 0;
        for table in far {
            assert!(table.meta().named.is_empty(), "{:?}", table.meta());
            count += 1;
        }
        assert!(count > 0);
        drop(version);
        expect(&store, 2)
    })
}

#[test]
fn the_line_moves_both_ways() -> Result<()> {
    simulate(73, |env| {
        let store = open(env, &in_store(small(), 6))?;
        fill(&store, 0..2)?;
        store.flush()?;
        store.compact(&KeyRange::all())?;
        store.settle();
        let mut seen = Vec::new();
        for first_far in [1, 7, 2, 6] {
            store.inner.context.opener.far.line().put_at(first_far);
            store.settle();
            for (level, far, near) in places(&store) {
                assert_eq!(if level.0 >= first_far { near } else { far }, 0, "{level:?}");
                seen.push((first_far, far > 0));
            }
            expect(&store, 1)?;
        }
        assert!(seen.contains(&(1, true)) && seen.contains(&(7, false)), "{seen:?}");
        Ok(())
    })
}

#[test]
fn a_line_that_follows_the_bytes_moves() -> Result<()> {
    simulate(74, |env| {
        let mut options = in_store(small(), 1);
        options.cloud = options.cloud.map(|cloud| CloudOptions { first_level: None, ..cloud });
        let store = open(env, &options)?;
        fill(&store, 0..2)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        assert!(places(&store).iter().all(|(_, far, _)| *far == 0), "16 MiB hold all of it");
        expect(&store, 1)
    })
}

/// The size of all files of a range, and of those in its persistent cache.
fn local_bytes(env: &SharedEnv) -> Result<(u64, u64)> {
    let bytes_in = |dir: &Path| {
        let files = env.fs().list(dir).unwrap_or_default();
        let files = files.into_iter().filter(|entry| !entry.is_dir);
        // A file may go between the list and the look.
        let bytes = |name: &str| Some(env.fs().open(&dir.join(name)).ok()?.bytes());
        files.filter_map(|file| bytes(&file.name)).sum::<u64>()
    };
    let near = bytes_in(&Path::new(DIR).join(CACHE_DIRECTORY));
    Ok((bytes_in(Path::new(DIR)) + near, near))
}

#[test]
fn local_files_stay_within_the_local_bytes() -> Result<()> {
    simulate(79, |sim| {
        let profile: ObjectsProfile = "read=15ms,write=30ms,bandwidth=1MB/s".parse().unwrap();
        let env: SharedEnv = ObjectsEnv::new(Arc::clone(sim), profile);
        let shape = Options {
            memtable_bytes: 1 << 20,
            log_segment_bytes: 256 << 10,
            log_bytes_max: 4 << 20,
            l0_rows_per_cut: 6,
            l0_rows_slow: 24,
            l0_rows_stop: 48,
            level_bytes_base: 4 << 20,
            table_bytes: 1 << 20,
            cut_bytes: 0,
            ..small()
        };
        let mut options = in_store(shape, 1);
        options.cloud = options.cloud.map(|cloud| CloudOptions { first_level: None, ..cloud });
        let store = open(&env, &options)?;
        let (value, mut most, mut most_near) = ("v".repeat(16 << 10), 0, 0);
        let key = |index: u64| format!("{:05}", index * 7919 % 4000);
        for index in 0..4000 {
            put(&store, &key(index), &value)?;
            if index % 4 == 3 {
                assert_eq!(get(&store, &key(index / 2))?.as_ref(), Some(&value));
            }
            let (all, near) = local_bytes(&env)?;
            (most, most_near) = (most.max(all), most_near.max(near));
        }
        store.settle();
        // Nothing is written any more, so that what was read has most of it.
        for index in (0..4000).step_by(3) {
            get(&store, &key(index))?;
            let (all, near) = local_bytes(&env)?;
            (most, most_near) = (most.max(all), most_near.max(near));
        }
        assert!(most_near > 1 << 20, "{most_near} bytes were near at most");
        let max = CloudOptions::LOCAL_BYTES_MIN;
        assert!(most > max / 2, "{most}: the bound is not met");
        assert!(most <= max / 10 * 11, "{most} of {max}");
        assert!(places(&store).iter().any(|(_, far, _)| *far > 0));
        store.close()
    })
}

#[test]
fn the_directory_knows_its_store() -> Result<()> {
    simulate(75, |env| {
        let store = open(env, &in_store(small(), 1))?;
        fill(&store, 0..1)?;
        store.compact(&KeyRange::all())?;
        store.close()?;
        let read_only = Options { read_only: true, ..small() };
        let store = open(env, &read_only)?;
        expect(&store, 0)?;
        store.close()?;
        let store = open(env, &small())?;
        fill(&store, 1..3)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        assert!(places(&store).iter().all(|(_, far, near)| *far > 0 && *near == 0));
        expect(&store, 2)?;
        let follower = Follower::open(&process(env)?, Path::new(DIR), small())?;
        expect_gets(follower.store(), 2)
    })
}

#[test]
fn a_directory_is_checked_with_its_store() -> Result<()> {
    simulate(77, |env| {
        let store = open(env, &in_store(small(), 1))?;
        fill(&store, 0..1)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        let version = store.inner.versions.current();
        let table = version.tables().next().expect("there are some").meta().location.clone();
        drop(version);
        store.close()?;
        let check = || check_dir(env, Path::new(DIR), CheckDepth::Full, &mut |_, _| ());
        let report = check()?;
        assert!(report.is_clean() && report.entry_count == 400, "{report:?}");
        let repair = |to: &str| {
            let mut progress = |_, _| true;
            crate::repair::repair(env, Path::new(DIR), Path::new(to), &small(), &mut progress)
        };
        assert!(repair("/whole")?.is_complete());
        let store = open(env, &small())?;
        let cloud = store.inner.cloud.as_ref().expect("it has one").store()?;
        let names = CloudNames::new(store.inner.versions.current().database());
        cloud.delete(&names.of(&FarName::of(&table).expect("it is far").object()))?;
        store.close()?;
        let report = check()?;
        assert!(!report.is_clean());
        let is_said = report.findings.iter().any(|found| found.text.contains("is gone from"));
        assert!(is_said, "{report:?}");
        let report = repair("/rest")?;
        assert!(!report.is_complete() && report.lost_table_count == 1, "{report:?}");
        Ok(())
    })
}

#[test]
fn a_checkpoint_has_what_lies_in_the_store() -> Result<()> {
    simulate(76, |env| {
        let store = open(env, &in_store(small(), 2))?;
        fill(&store, 0..2)?;
        store.compact(&KeyRange::all())?;
        store.checkpoint(Path::new("/copy"), &mut |_, _| true)?;
        let copy = Store::open(&process(env)?, Path::new("/copy"), small())?;
        expect(&copy, 1)?;
        assert!(places(&copy).iter().all(|(_, far, _)| *far == 0));
        Ok(())
    })
}

#[test]
fn a_scan_of_far_tables_costs_few_requests() -> Result<()> {
    simulate(78, |env| {
        let large = Options { table_bytes: 8 << 20, level_bytes_base: 8 << 20, ..small() };
        let options = in_store(large, 1);
        let store = open(env, &options)?;
        for key in 0..2000 {
            put(&store, &format!("{:05}", key * 7 % 2000), &value(key).repeat(30))?;
        }
        store.compact(&KeyRange::all())?;
        store.close()?;
        let store = open(env, &options)?;
        store.settle();
        let requests = || -> Result<u64> {
            let cloud = store.inner.cloud.as_ref().expect("it has one").store()?;
            Ok(cloud.counts().get.requests)
        };
        let version = store.inner.versions.current();
        let far: u64 = version.tables().map(|table| table.meta().bytes).sum();
        assert!(far > 6 << 20, "{far} bytes lie in the store");
        let before = requests()?;
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek_to_first()?;
        let mut count = 0;
        while iter.is_on_entry() {
            count += 1;
            iter.next()?;
        }
        assert_eq!(count, 2000);
        let asked = requests()? - before;
        // What a table begins with and its pieces, which grow to 1 MiB; without reading on, each of
        // 2,000 blocks would cost one.
        let tables = store.inner.versions.current().tables().count() as u64;
        let asked_max = 6 * tables + 2 * (far >> 20);
        assert!(asked <= asked_max, "{asked} requests for {tables} tables of {far} bytes");
        Ok(())
    })
}
