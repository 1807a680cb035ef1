//! Goal: each fault happens, is counted, and does what it says and nothing else. Method: one kind
//! at a rate of one in one; and all of them together under many seeds, beside a model of what may
//! be there.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use super::{ObjectFault, ObjectFaults};
use crate::{Env, EnvError, ObjectName, ObjectStore, Put, SeededRng, SimEnv, SimOptions};

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

/// Every kind of request once.
fn requests(store: &dyn ObjectStore) -> Vec<Result<(), EnvError>> {
    vec![
        store.put(&name("put"), b"bytes"),
        store.put_if_absent(&name("new"), b"bytes").map(|_| ()),
        store.begin_upload(&name("upload")).and_then(|upload| upload.finish()),
        store.get(&name("there"), None).map(|_| ()),
        store.bytes_of(&name("there")).map(|_| ()),
        store.delete(&name("gone")),
        store.list("", None).map(|_| ()),
    ]
}

#[test]
fn a_refused_request_fails_with_its_kind_and_does_nothing() {
    let cases = [
        (ObjectFault::Unavailable, ErrorKind::ConnectionAborted, true, true),
        (ObjectFault::TooManyRequests, ErrorKind::ResourceBusy, false, true),
        (ObjectFault::Denied, ErrorKind::PermissionDenied, false, false),
        (ObjectFault::TimedOut, ErrorKind::TimedOut, true, true),
        (ObjectFault::Reset, ErrorKind::ConnectionReset, true, true),
    ];
    for (fault, kind, is_unknown, is_transient) in cases {
        let object_faults = ObjectFaults::default().with(fault, 1);
        SimEnv::run(SimOptions { object_faults, ..SimOptions::new(1) }, |env| {
            let store = env.objects().open("sim://s").unwrap();
            for result in requests(&*store) {
                let error = result.unwrap_err();
                assert_eq!(error.source.kind(), kind, "{error}");
                assert_eq!(error.is_unknown_outcome(), is_unknown, "{error}");
                assert_eq!(error.is_transient(), is_transient, "{error}");
                assert!(error.path.starts_with("sim://s"), "{error}");
            }
            assert!(env.object_image().list("sim://s").is_empty());
            assert_eq!(env.object_faults(), BTreeMap::from([(fault, 7)]));
        });
    }
}

#[test]
fn a_store_that_is_away_comes_back() {
    SimEnv::run(SimOptions::new(1), |env| {
        let store = env.objects().open("sim://s").unwrap();
        store.put(&name("there"), b"x").unwrap();
        env.set_objects_away(true);
        for result in requests(&*store) {
            assert!(result.unwrap_err().is_transient());
        }
        assert_eq!(env.object_faults()[&ObjectFault::Away], 7);
        assert_eq!(env.object_image().list("sim://s").len(), 1);
        env.set_objects_away(false);
        assert!(requests(&*store).into_iter().all(|result| result.is_ok()));
    });
}

#[test]
fn a_lost_answer_is_of_a_change_that_was_done() {
    let object_faults = ObjectFaults::default().with(ObjectFault::LostAnswer, 1);
    SimEnv::run(SimOptions { object_faults, ..SimOptions::new(1) }, |env| {
        let store = env.objects().open("sim://s").unwrap();
        assert!(store.put(&name("a"), b"1").unwrap_err().is_unknown_outcome());
        assert!(store.put_if_absent(&name("b"), b"2").unwrap_err().is_unknown_outcome());
        assert!(store.begin_upload(&name("c")).unwrap_err().is_unknown_outcome());
        assert_eq!(env.object_image().unfinished_uploads("sim://s"), 1);
        assert_eq!(store.get(&name("b"), None).unwrap(), b"2");
        assert!(store.delete(&name("a")).unwrap_err().is_unknown_outcome());
        assert!(store.get(&name("a"), None).unwrap_err().is_not_found());
        assert_eq!(env.object_faults()[&ObjectFault::LostAnswer], 4);
    });
}

#[test]
fn an_answer_is_cut_off_spoilt_or_incomplete() {
    let run = |fault| {
        let object_faults = ObjectFaults::default().with(fault, 1);
        SimEnv::run(SimOptions { object_faults, ..SimOptions::new(1) }, |env| {
            let store = env.objects().open("sim://s").unwrap();
            store.put(&name("empty"), b"").unwrap();
            store.put(&name("full"), &[0; 9]).unwrap();
            let found = (store.get(&name("full"), None), store.list("", None));
            assert!(
                store.bytes_of(&name("full")).is_ok_and(|bytes| bytes == 9) || found.0.is_err()
            );
            (found, env.object_faults())
        })
    };
    let ((got, listed), counts) = run(ObjectFault::Truncated);
    assert_eq!(got.unwrap_err().source.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(listed.unwrap_err().source.kind(), ErrorKind::UnexpectedEof);
    assert_eq!(counts, BTreeMap::from([(ObjectFault::Truncated, 3)]));
    let ((got, listed), counts) = run(ObjectFault::FlippedBit);
    assert_eq!(got.unwrap().iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
    assert_eq!(listed.unwrap().objects.len(), 2);
    assert_eq!(counts, BTreeMap::from([(ObjectFault::FlippedBit, 1)]));
    let ((got, listed), counts) = run(ObjectFault::MissingNames);
    assert_eq!(got.unwrap(), [0; 9]);
    assert!(listed.unwrap().objects.len() < 2);
    assert_eq!(counts, BTreeMap::from([(ObjectFault::MissingNames, 1)]));
}

#[test]
fn a_late_change_lands_after_other_requests_even_in_the_next_run() {
    let faults = |fault| ObjectFaults::default().with(fault, 1).late_by_at_most(5);
    let object_faults = faults(ObjectFault::LatePut);
    let mut image = SimEnv::run(SimOptions { object_faults, ..SimOptions::new(3) }, |env| {
        let store = env.objects().open("sim://s").unwrap();
        assert!(store.put(&name("a"), b"late").unwrap_err().is_unknown_outcome());
        assert!(store.get(&name("a"), None).unwrap_err().is_not_found());
        for _ in 0..5 {
            store.list("", None).unwrap();
        }
        assert_eq!(store.get(&name("a"), None).unwrap(), b"late");
        assert!(store.put_if_absent(&name("b"), b"loser").is_err());
        env.set_object_faults(ObjectFaults::default());
        assert_eq!(store.put_if_absent(&name("b"), b"winner").unwrap(), Put::Created);
        env.set_object_faults(faults(ObjectFault::LateDelete));
        assert!(store.delete(&name("a")).unwrap_err().is_unknown_outcome());
        env.object_image()
    });
    assert_eq!(image.get("sim://s", &name("a")), Some(&b"late"[..]));
    assert!(image.late_changes() > 0);
    let options = SimOptions { objects: image.clone(), ..SimOptions::new(4) };
    SimEnv::run(options, |env| {
        let store = env.objects().open("sim://s").unwrap();
        for _ in 0..5 {
            store.list("", None).unwrap();
        }
        assert!(store.get(&name("a"), None).unwrap_err().is_not_found());
        assert_eq!(store.get(&name("b"), None).unwrap(), b"winner", "it was there first");
        assert_eq!(env.object_image().late_changes(), 0);
    });
    image.land_late_changes();
    assert_eq!(image.get("sim://s", &name("a")), None);
}

/// Puts, conditional puts, deletes and gets of a few names under all faults. The model keeps, for
/// each name, the values that may be there.
fn under_all_faults(seed: u64) -> BTreeMap<ObjectFault, u64> {
    let object_faults = ObjectFaults::each(12).with(ObjectFault::FlippedBit, 0);
    let flips = ObjectFaults::each(12);
    SimEnv::run(SimOptions { object_faults, ..SimOptions::new(seed) }, |env| {
        let store = env.objects().open("sim://s").unwrap();
        let mut random = SeededRng::new(seed);
        let mut ever: BTreeMap<usize, BTreeSet<Vec<u8>>> = BTreeMap::new();
        let mut created: BTreeSet<usize> = BTreeSet::new();
        for step in 0..200_u8 {
            let index = random.index(6);
            let name = name(&index.to_string());
            if random.one_in(2) {
                ever.entry(index).or_default().insert(vec![step]);
                if let Ok(put) = store.put_if_absent(&name, &[step])
                    && put == Put::Created
                {
                    assert!(created.insert(index), "seed {seed}: created twice without a delete");
                }
            } else {
                match store.get(&name, None) {
                    Ok(found) => assert!(ever[&index].contains(&found), "seed {seed}"),
                    Err(error) if error.is_not_found() => {
                        assert!(!created.contains(&index), "seed {seed}: a wrong 404");
                    }
                    Err(_) => {}
                }
            }
            // A list may lack names; it shows none that was never put.
            for listed in store.list("", None).unwrap_or_default().objects {
                let index: usize = listed.name.as_str().parse().unwrap();
                assert!(ever.contains_key(&index), "seed {seed}");
            }
        }
        env.set_object_faults(flips);
        for _ in 0..40 {
            let _ = store.get(&name("0"), None);
            let _ = store.delete(&name("gone"));
        }
        env.object_faults()
    })
}

#[test]
fn under_all_faults_what_is_promised_holds_and_each_kind_happens() {
    let mut total: BTreeMap<ObjectFault, u64> = BTreeMap::new();
    for seed in 0..40 {
        let counts = under_all_faults(seed);
        assert_eq!(counts, under_all_faults(seed), "seed {seed} replays");
        counts.into_iter().for_each(|(fault, count)| *total.entry(fault).or_default() += count);
    }
    for fault in ObjectFault::ALL {
        assert!(fault == ObjectFault::Away || total.contains_key(&fault), "{fault:?}: {total:?}");
    }
}
