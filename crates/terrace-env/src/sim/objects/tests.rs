//! Goal: a simulated store keeps what the seam promises, replays from its seed, and outlives a run.
//! Method: small workloads under many seeds.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::ObjectImage;
use crate::objects::contract;
use crate::{
    Env, IoHook, JobClass, JobHandle, ListPage, ObjectName, ObjectStore, Operation, Put, SimEnv,
    SimOptions,
};

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

fn open(env: &SimEnv, url: &str) -> Arc<dyn ObjectStore> {
    env.objects().open(url).unwrap()
}

#[test]
fn a_simulated_store_keeps_what_all_stores_keep() {
    for (name, check) in contract::CHECKS {
        println!("{name}");
        SimEnv::run(SimOptions::new(1), |env| check(&*open(&env, "sim://checked")));
    }
}

/// Two writers want the same ten names; returns who got each, and the trace's hash.
fn contest(seed: u64, delay_max: Duration) -> (Vec<u8>, u64) {
    let options = SimOptions { object_delay_max: delay_max, ..SimOptions::new(seed) };
    SimEnv::run(options, |env| {
        let jobs: Vec<JobHandle> = (0..2_u8)
            .map(|writer| {
                let store = open(&env, "sim://contest");
                let work = move || {
                    for number in 0..10 {
                        let name = name(&format!("feed/{number}"));
                        let put = store.put_if_absent(&name, &[writer]).unwrap();
                        let is_there = store.get(&name, None).unwrap();
                        assert_eq!(is_there == [writer], put == Put::Created);
                    }
                };
                env.spawn(JobClass::Client, "writer", Box::new(work)).unwrap()
            })
            .collect();
        assert!(jobs.into_iter().all(JobHandle::join));
        let image = env.object_image();
        let winners = image
            .list("sim://contest")
            .into_iter()
            .map(|object| image.get("sim://contest", &object.name).unwrap()[0]);
        (winners.collect(), env.trace_hash())
    })
}

#[test]
fn one_of_two_writers_gets_a_name_and_the_seed_says_which() {
    for delay_max in [Duration::ZERO, Duration::from_millis(30)] {
        let runs: Vec<_> = (0..20).map(|seed| contest(seed, delay_max)).collect();
        let again: Vec<_> = (0..20).map(|seed| contest(seed, delay_max)).collect();
        assert_eq!(runs, again);
        let winners: BTreeSet<_> = runs.iter().map(|(winners, _)| winners.clone()).collect();
        assert!(winners.len() > 10, "{winners:?}");
        assert!(winners.iter().all(|winners| winners.len() == 10));
        let hashes: BTreeSet<_> = runs.iter().map(|(_, hash)| hash).collect();
        assert_eq!(hashes.len(), 20);
    }
}

#[test]
fn objects_outlive_a_run_and_handles_do_not() {
    let mut objects = ObjectImage::new();
    objects.insert("sim://bucket/db", &name("old"), b"from before");
    let options = SimOptions { objects, ..SimOptions::new(1) };
    let mut first = SimEnv::run(options, |env| {
        let store = open(&env, "sim://bucket/db/");
        assert_eq!(store.get(&name("old"), None).unwrap(), b"from before");
        assert_eq!(store.url(), "sim://bucket/db");
        store.put(&name("table/1"), b"one").unwrap();
        let mut upload = store.begin_upload(&name("table/2")).unwrap();
        upload.append(b"a part").unwrap();
        env.object_image()
    });
    assert_eq!(first.unfinished_uploads("sim://bucket"), 1);
    assert!(first.remove("sim://bucket/db", &name("old")));
    let options = SimOptions { objects: first.clone(), ..SimOptions::new(2) };
    let second = SimEnv::run(options, |env| {
        let store = open(&env, "sim://bucket");
        let all = store.list("", None).unwrap().objects;
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(store.get(&name("db/table/1"), Some(1..3)).unwrap(), b"ne");
        store.delete(&name("db/table/1")).unwrap();
        env.object_image()
    });
    assert!(second.list("sim://bucket").is_empty());
    assert_eq!(first.get("sim://bucket", &name("db/table/1")), Some(&b"one"[..]), "a clone stays");
}

#[test]
fn a_get_finds_one_moment_between_its_begin_and_its_answer() {
    let run = |seed| {
        SimEnv::run(SimOptions::new(seed), |env| {
            let store = open(&env, "sim://s");
            let name = name("a");
            store.put(&name, b"old").unwrap();
            let pending = store.begin_get(&name, None);
            store.put(&name, b"new").unwrap();
            let found = pending.wait().unwrap();
            assert_eq!(store.get(&name, None).unwrap(), b"new");
            found
        })
    };
    let found: BTreeSet<Vec<u8>> = (0..40).map(run).collect();
    assert_eq!(found, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]));
}

#[test]
fn gets_that_were_begun_together_wait_together() {
    let delay_max = Duration::from_secs(1);
    let run = |seed| {
        let options = SimOptions { object_delay_max: delay_max, ..SimOptions::new(seed) };
        SimEnv::run(options, |env| {
            let store = open(&env, "sim://s");
            store.put(&name("a"), b"x").unwrap();
            let before = env.now();
            let pending: Vec<_> = (0..50).map(|_| store.begin_get(&name("a"), None)).collect();
            pending.into_iter().for_each(|get| assert_eq!(get.wait().unwrap(), b"x"));
            env.now() - before
        })
    };
    (0..10).for_each(|seed| assert!(run(seed) <= delay_max, "seed {seed}"));
}

#[test]
fn the_hook_sees_each_change_of_a_store_before_it_happens() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let hook: IoHook = Box::new(move |point| {
        let there = point.objects.list("sim://s").len();
        kept.lock().unwrap().push((point.index, point.operation, there));
    });
    let count = SimEnv::run(SimOptions { on_io: Some(hook), ..SimOptions::new(1) }, |env| {
        let store = open(&env, "sim://s");
        store.put(&name("a"), b"1").unwrap();
        store.put_if_absent(&name("b"), b"2").unwrap();
        store.get(&name("a"), None).unwrap();
        store.list("", None).unwrap();
        store.delete(&name("a")).unwrap();
        env.io_count()
    });
    use Operation::{DeleteObject, PutObject, PutObjectIfAbsent};
    let expected = [(0, PutObject, 0), (1, PutObjectIfAbsent, 1), (2, DeleteObject, 2)];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(count, 3);
}

#[test]
fn a_list_comes_in_pages() {
    SimEnv::run(SimOptions::new(1), |env| {
        let mut store = open(&env, "sim://s");
        for number in 0..2_500 {
            store.put(&name(&format!("t/{number:05}")), &[0; 3]).unwrap();
        }
        store.put(&name("t"), b"").unwrap();
        store.put(&name("t.x"), b"").unwrap();
        let mut after = None;
        let mut pages = Vec::new();
        let mut is_at_end = false;
        while !is_at_end {
            let ListPage { objects, is_last } = store.list("t/", after.as_ref()).unwrap();
            is_at_end = is_last;
            after = objects.last().map(|object| object.name.clone());
            pages.push(objects.len());
            assert!(objects.iter().all(|object| object.bytes == 3));
        }
        assert_eq!(pages, [1000, 1000, 500]);
        store = open(&env, "sim://s/t");
        assert_eq!(store.list("0249", None).unwrap().objects.len(), 10);
        assert!(store.list("0249", Some(&name("1"))).unwrap().objects.is_empty());
        assert_eq!(store.list("0249", Some(&name("0"))).unwrap().objects.len(), 10);
    });
}

#[test]
fn what_is_no_store_is_refused_and_an_interval_is_whole_or_an_error() {
    SimEnv::run(SimOptions::new(1), |env| {
        for url in ["sim://", "sim:///a", "sim://..", "s3://bucket", "name", "sim://a?b"] {
            let error = env.objects().open(url).unwrap_err();
            assert_eq!(error.operation, Operation::OpenStore, "{error}");
        }
        let store = open(&env, "sim://s");
        assert!(store.get(&name("a"), None).unwrap_err().is_not_found());
        assert!(store.bytes_of(&name("a")).unwrap_err().is_not_found());
        store.put(&name("a"), b"0123").unwrap();
        assert_eq!(store.bytes_of(&name("a")).unwrap(), 4);
        assert_eq!(store.get(&name("a"), Some(2..4)).unwrap(), b"23");
        for interval in [2..5, 5..6, 4..u64::MAX] {
            let error = store.get(&name("a"), Some(interval)).unwrap_err();
            assert!(!error.is_not_found() && !error.is_transient(), "{error}");
        }
    });
}

#[test]
fn an_object_in_parts_is_there_when_it_is_finished() {
    let options = SimOptions { object_part_bytes_min: 4, ..SimOptions::new(1) };
    SimEnv::run(options, |env| {
        let store = open(&env, "sim://s");
        let mut upload = store.begin_upload(&name("a")).unwrap();
        upload.append(b"0123").unwrap();
        upload.append(b"4").unwrap();
        assert!(store.get(&name("a"), None).unwrap_err().is_not_found());
        upload.finish().unwrap();
        assert_eq!(store.get(&name("a"), None).unwrap(), b"01234");

        let mut upload = store.begin_upload(&name("b")).unwrap();
        upload.append(b"01").unwrap();
        upload.append(b"4").unwrap();
        assert!(upload.finish().is_err(), "a part is too small");
        let upload = store.begin_upload(&name("b")).unwrap();
        assert_eq!(env.object_image().unfinished_uploads("sim://s"), 2);
        upload.abort().unwrap();
        assert_eq!(env.object_image().unfinished_uploads("sim://s"), 1);
        assert!(store.get(&name("b"), None).unwrap_err().is_not_found());
    });
}
