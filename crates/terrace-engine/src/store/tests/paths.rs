//! One path at a time.

use super::*;
use crate::Error;
use crate::store::{GetOptions, Item, Update};

#[test]
fn what_is_written_is_read_and_survives_a_restart() -> Result<()> {
    simulate(1, |env| {
        let store = open(env, &small())?;
        assert!(store.recovery().is_new);
        put(&store, "a", "1")?;
        put(&store, "b", "2")?;
        delete(&store, "a")?;
        drop(store);
        let store = open(env, &small())?;
        assert!(store.recovery().was_closed && store.recovery().replayed_entries == 3);
        assert_eq!(get(&store, "a")?, None);
        assert_eq!(get(&store, "b")?.as_deref(), Some("2"));
        Ok(())
    })
}

#[test]
fn a_range_that_syncs_at_intervals_settles_and_closes() -> Result<()> {
    simulate(13, |env| {
        let durability = crate::options::Durability::Interval(std::time::Duration::from_millis(5));
        let store = open(env, &Options { durability, ..small() })?;
        for round in 0..300 {
            put(&store, &format!("{round}"), &"x".repeat(100))?;
        }
        // It used to wait for the thread that syncs until the range closes, that is for ever.
        store.settle();
        store.close()
    })
}

#[test]
fn two_ranges_share_one_process() -> Result<()> {
    simulate(2, |env| {
        let process = process(env)?;
        let one = Store::open(&process, Path::new("/one"), small())?;
        let two = Store::open(&process, Path::new("/two"), small())?;
        for round in 0..300 {
            put(&one, &format!("{round}"), "one")?;
            put(&two, &format!("{round}"), "two")?;
        }
        one.compact(&terrace_base::KeyRange::all())?;
        assert_eq!(get(&one, "77")?.as_deref(), Some("one"));
        assert_eq!(get(&two, "77")?.as_deref(), Some("two"));
        Ok(())
    })
}

#[test]
fn a_directory_has_one_writer_or_many_readers() -> Result<()> {
    simulate(3, |env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        let refused = open(env, &small()).expect_err("in use");
        assert!(matches!(refused, Error::Locked(_)), "{refused}");
        drop(store);
        let read_only = Options { read_only: true, ..small() };
        let one = open(env, &read_only)?;
        let two = open(env, &read_only)?;
        assert_eq!(get(&one, "a")?.as_deref(), Some("1"));
        assert_eq!(get(&two, "a")?.as_deref(), Some("1"));
        assert!(matches!(put(&one, "b", "2"), Err(Error::ReadOnly)));
        assert!(matches!(open(env, &small()), Err(Error::Locked(_))));
        Ok(())
    })
}

#[test]
fn reading_only_changes_no_byte() -> Result<()> {
    let image = SimEnv::run(SimOptions::new(4), |env| {
        let shared: SharedEnv = Arc::<SimEnv>::clone(&env);
        let store = open(&shared, &small())?;
        for round in 0..500 {
            put(&store, &format!("{round}"), &"x".repeat(100))?;
        }
        Ok::<_, Error>(env.disk())
    })?;
    let crashed = image.crash(terrace_env::CrashPolicy::ProcessKill, 0);
    let before = crashed.files();
    let options = SimOptions { disk: crashed, ..SimOptions::new(5) };
    SimEnv::run(options, |env| {
        let shared: SharedEnv = Arc::<SimEnv>::clone(&env);
        let store = open(&shared, &Options { read_only: true, ..small() })?;
        assert_eq!(get(&store, "499")?.as_deref(), Some("x".repeat(100).as_str()));
        assert_eq!(env.disk().files(), before);
        Ok(())
    })
}

#[test]
fn nothing_is_created_where_nothing_should_be() -> Result<()> {
    simulate(5, |env| {
        for options in [
            Options { read_only: true, ..small() },
            Options { create_if_missing: false, ..small() },
        ] {
            assert!(matches!(open(env, &options), Err(Error::Invalid(_))));
        }
        Ok(())
    })
}

#[test]
fn a_conditional_write_sees_the_newest_value_and_nobody_comes_between() -> Result<()> {
    simulate(6, |env| {
        let store = open(env, &small())?;
        let add = |store: &Store| {
            store.update(&[b"n"], &WriteOptions::default(), |old| {
                let old = old[0].as_ref().map_or(0, |item: &Item| item.value[0]);
                let mut batch = WriteBatch::new();
                batch.put(b"n", &[old + 1])?;
                Ok(Update::Write(batch))
            })
        };
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let store = store.clone();
                let job = Box::new(move || (0..25).for_each(|_| add(&store).expect("room enough")));
                env.spawn(terrace_env::JobClass::Client, &thread.to_string(), job)
            })
            .collect();
        for thread in threads {
            assert!(thread?.join());
        }
        let item = store.get(b"n", &GetOptions::default())?;
        assert_eq!(item.map(|item| item.value), Some(vec![100]));
        Ok(())
    })
}

#[test]
fn a_conditional_write_keeps_to_the_keys_that_it_names() -> Result<()> {
    simulate(7, |env| {
        let options = Options { drange_boundaries: vec![b"m".to_vec()], ..small() };
        let store = open(env, &options)?;
        let wrong = store.update(&[b"a"], &WriteOptions::default(), |_| {
            let mut batch = WriteBatch::new();
            batch.put(b"z", b"")?;
            Ok(Update::Write(batch))
        });
        assert!(matches!(wrong, Err(Error::Invalid(_))));
        store.update(&[b"z", b"a"], &WriteOptions::default(), |old| {
            assert_eq!(old, [None, None]);
            let mut batch = WriteBatch::new();
            batch.put(b"z", b"1")?;
            batch.put(b"a", b"2")?;
            Ok(Update::Write(batch))
        })?;
        assert_eq!(
            (get(&store, "a")?.as_deref(), get(&store, "z")?.as_deref()),
            (Some("2"), Some("1"))
        );
        Ok(())
    })
}

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing_and_writing_resumes() -> Result<()> {
    SimEnv::run(SimOptions::new(8), |env| {
        let shared: SharedEnv = Arc::<SimEnv>::clone(&env);
        env.set_capacity(400 << 10);
        let store = open(&shared, &small())?;
        let value = "x".repeat(500);
        let mut written = 0;
        let refused = loop {
            match put(&store, &format!("{written:06}"), &value) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < 10_000, "the disk never fills");
        };
        assert!(matches!(refused, Error::NoSpace(_)), "{refused}");
        assert!(refused.to_string().contains("disk is full"), "{refused}");
        for index in 0..written {
            assert_eq!(get(&store, &format!("{index:06}"))?.as_deref(), Some(value.as_str()));
        }
        env.set_capacity(10 << 20);
        shared.sleep(std::time::Duration::from_secs(2));
        for index in written..written + 500 {
            put(&store, &format!("{index:06}"), &value)?;
        }
        drop(store);
        let store = open(&shared, &small())?;
        for index in 0..written + 500 {
            assert_eq!(get(&store, &format!("{index:06}"))?.as_deref(), Some(value.as_str()));
        }
        Ok(())
    })
}

#[test]
fn the_largest_key_and_value_fit_and_larger_ones_do_not() -> Result<()> {
    simulate(9, |env| {
        let store = open(env, &Options::default())?;
        let key = vec![b'k'; terrace_base::limits::KEY_BYTES_MAX];
        let value = vec![b'v'; terrace_base::limits::VALUE_BYTES_MAX];
        let mut batch = WriteBatch::new();
        batch.put(&key, &value)?;
        assert!(batch.put(b"k", &vec![0; value.len() + 1]).is_err());
        store.write(&batch, &WriteOptions::default())?;
        store.flush()?;
        let item = store.get(&key, &GetOptions::default())?;
        assert!(item.is_some_and(|item| item.value == value));
        Ok(())
    })
}

#[test]
fn an_iterator_survives_flushes_and_compactions_and_lets_files_go() -> Result<()> {
    simulate(10, |env| {
        let store = open(env, &small())?;
        for index in 0..400 {
            put(&store, &format!("{index:04}"), "old")?;
        }
        let mut iter = store.iter(super::super::IterOptions::default())?;
        iter.seek_to_first()?;
        for index in 0..400 {
            let entry = iter.entry().expect("still there");
            assert_eq!((entry.key, entry.value), (format!("{index:04}").as_bytes(), &b"old"[..]));
            if index % 100 == 50 {
                for index in 0..400 {
                    put(&store, &format!("{index:04}"), "new")?;
                }
                store.compact(&terrace_base::KeyRange::all())?;
            }
            iter.next()?;
        }
        assert!(iter.entry().is_none());
        Ok(())
    })
}

/// The number of outputs was bounded by twice the bytes that are read. Whoever turned compression
/// off had compactions that failed for ever.
#[test]
fn tables_may_grow_when_they_are_no_longer_compressed() -> Result<()> {
    simulate(14, |env| {
        let mut options = Options { table_bytes: 4 << 10, memtable_bytes: 1 << 20, ..small() };
        options.table.compression = crate::table::Compression::Zstd;
        let store = open(env, &options)?;
        for round in 0..60 {
            put(&store, &format!("{round:03}"), &"x".repeat(5000))?;
        }
        store.close()?;
        drop(store);
        options.table.compression = crate::table::Compression::None;
        let store = open(env, &options)?;
        put(&store, "000", "so that there is something to merge")?;
        store.compact(&terrace_base::KeyRange::all())?;
        assert_eq!(get(&store, "059")?.map(|value| value.len()), Some(5000));
        Ok(())
    })
}
