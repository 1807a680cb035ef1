//! Goal: an emulated store answers when its profile says, and is a store like others. Method:
//! virtual time, in which nothing takes any but what is slept.

use std::sync::Arc;
use std::time::Duration;

use super::{ObjectsEnv, ObjectsPace, RequestWay};
use crate::objects::contract;
use crate::{JobClass, ObjectName, ObjectStore, Put, SharedEnv, SimEnv, SimOptions};

const MS: Duration = Duration::from_millis(1);

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

/// Runs `test` with a store of this profile, over a directory of a simulated disk: there a request
/// takes no time.
fn with_store(profile: &str, test: impl FnOnce(&SharedEnv, &Arc<dyn ObjectStore>) + Send) {
    let profile = profile.parse().unwrap();
    SimEnv::run(SimOptions::new(1), |sim| {
        let env: SharedEnv = ObjectsEnv::new(sim, profile);
        let store = env.objects().open("file:///store").unwrap();
        test(&env, &store);
    });
}

fn time(env: &SharedEnv, act: impl FnOnce()) -> Duration {
    let before = env.now();
    act();
    env.now() - before
}

#[test]
fn an_emulated_store_keeps_what_all_stores_keep() {
    for (name, check) in contract::CHECKS {
        println!("{name}");
        let profile = "read=15ms,write=30ms,bandwidth=100MB/s,requests=1000";
        with_store(profile, |_, store| check(&**store));
    }
}

#[test]
fn a_request_takes_its_latency_and_its_bytes() {
    with_store("read=15ms,write=30ms,bandwidth=1MB/s", |env, store| {
        let one = name("table/1");
        let took = |act: &dyn Fn()| time(env, act);
        assert_eq!(took(&|| store.put(&one, &[1; 50_000]).unwrap()), 80 * MS);
        let put = || assert_eq!(store.put_if_absent(&one, &[2; 1000]).unwrap(), Put::Taken);
        assert_eq!(took(&put), 31 * MS);
        assert_eq!(took(&|| drop(store.get(&one, Some(0..5000)).unwrap())), 20 * MS);
        assert_eq!(took(&|| drop(store.get(&one, None).unwrap())), 65 * MS);
        assert_eq!(took(&|| assert_eq!(store.bytes_of(&one).unwrap(), 50_000)), 15 * MS);
        assert_eq!(took(&|| assert_eq!(store.list("", None).unwrap().objects.len(), 1)), 15 * MS);
        let missing = || assert!(store.get(&name("none"), None).unwrap_err().is_not_found());
        assert_eq!(took(&missing), 15 * MS);
        assert_eq!(took(&|| store.delete(&one).unwrap()), 30 * MS);
    });
}

#[test]
fn parts_of_an_upload_are_requests() {
    with_store("read=15ms,write=30ms,bandwidth=1MB/s", |env, store| {
        let took = time(env, || {
            let mut upload = store.begin_upload(&name("large")).unwrap();
            upload.append(&[1; 10_000]).unwrap();
            upload.append(&[2; 20_000]).unwrap();
            upload.finish().unwrap();
        });
        assert_eq!(took, 150 * MS);
        assert_eq!(store.bytes_of(&name("large")).unwrap(), 30_000);
        let took = time(env, || store.begin_upload(&name("other")).unwrap().abort().unwrap());
        assert_eq!(took, 60 * MS);
    });
}

#[test]
fn what_is_begun_together_waits_together() {
    with_store("read=15ms,write=30ms,bandwidth=1MB/s", |env, store| {
        let one = name("table/1");
        store.put(&one, &[1; 50_000]).unwrap();
        let took = time(env, || {
            let begin = |at: u64| store.begin_get(&one, Some(at..at + 1000));
            let gets: Vec<_> = (0..10).map(|at| begin(at * 1000)).collect();
            gets.into_iter().for_each(|get| assert_eq!(get.wait().unwrap().len(), 1000));
        });
        assert_eq!(took, 25 * MS, "one latency, and the bytes of all");
        let late = store.begin_get(&one, Some(0..1000));
        env.sleep(100 * MS);
        assert_eq!(time(env, || drop(late.wait().unwrap())), Duration::ZERO);
    });
}

#[test]
fn a_small_get_does_not_wait_for_the_end_of_a_large_put() {
    with_store("read=15ms,write=30ms,bandwidth=1MB/s", |env, store| {
        store.put(&name("small"), &[1; 1000]).unwrap();
        let began = env.now();
        let (large, inner) = (Arc::clone(store), Arc::clone(env));
        let put = env.spawn(
            JobClass::Client,
            "put",
            Box::new(move || {
                large.put(&name("large"), &[1; 500_000]).unwrap();
                assert_eq!(inner.now() - began, 531 * MS, "500 of its own, 1 of the other one");
            }),
        );
        env.sleep(10 * MS);
        let took = time(env, || drop(store.get(&name("small"), Some(0..1000)).unwrap()));
        assert_eq!(took, 17 * MS, "its byte and one of the other's, in turn");
        assert!(put.unwrap().join());
    });
}

#[test]
fn requests_come_in_an_even_rhythm() {
    let pace = ObjectsPace::new("read=15ms,requests=100".parse().unwrap());
    let answered = |way, now| {
        let request = pace.begin(way, 1 << 40, now);
        pace.answered_at(&request, now)
    };
    assert_eq!(answered(RequestWay::Read, Duration::ZERO), 15 * MS);
    assert_eq!(answered(RequestWay::Write, Duration::ZERO), 10 * MS, "it has no latency");
    assert_eq!(answered(RequestWay::Read, MS), 35 * MS);
    assert_eq!(answered(RequestWay::Read, 100 * MS), 115 * MS, "what was not used is gone");
}
