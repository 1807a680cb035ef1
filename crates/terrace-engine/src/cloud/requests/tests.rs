//! Goal: what may pass is tried again, what stays is said at once, and no attempt whose answer was
//! lost is taken for somebody else's. Method: a store whose next requests go as the test says, in
//! simulated time.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use terrace_env::{JobClass, ObjectName, Operation, SharedEnv, SimEnv, SimOptions};

use super::*;
use crate::Error;
use crate::cloud::tests::{Fate, ScriptedStore};
use crate::explain::Recording;

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

/// Runs in a simulation, with a store of few places.
fn with_store(test: impl FnOnce(&SharedEnv, &Arc<CloudStore>, &ScriptedStore) + Send) {
    SimEnv::run(SimOptions::new(7), |env| {
        let env: SharedEnv = env;
        let scripted = ScriptedStore::default();
        let limits = RequestLimits { in_flight_max: 4, ..RequestLimits::default() };
        let store = CloudStore::with_limits(&env, Arc::new(scripted.clone()), limits);
        test(&env, &Arc::new(store), &scripted);
    });
}

const BUSY: Fate = Fate::Refused(ErrorKind::ResourceBusy);
const LOST: Fate = Fate::Lost(ErrorKind::TimedOut);

#[test]
fn what_may_pass_is_tried_again_and_what_stays_is_not() {
    with_store(|_, store, scripted| {
        scripted.script(&[BUSY, Fate::Refused(ErrorKind::ConnectionReset), LOST]);
        store.put(&name("a"), b"1").unwrap();
        assert_eq!(store.counts().put, RequestCount { requests: 4, failures: 3, bytes: 1 });
        scripted.script(&[Fate::Refused(ErrorKind::PermissionDenied)]);
        let error = store.put(&name("b"), b"1").unwrap_err();
        assert!(matches!(&error, Error::Io(e) if e.operation == Operation::PutObject), "{error}");
        assert_eq!(scripted.bytes(&name("b")), None);
        assert!(is_missing(&store.get(&name("b"), None).unwrap_err()));
        assert_eq!(store.counts().get, RequestCount { requests: 1, failures: 0, bytes: 0 });
        scripted.script(&[BUSY, BUSY]);
        assert_eq!(store.get(&name("a"), Some(0..1)).unwrap(), b"1");
        assert_eq!(store.counts().get, RequestCount { requests: 4, failures: 2, bytes: 1 });
    });
}

#[test]
fn an_explanation_has_the_requests_of_its_thread_and_those_that_failed() {
    with_store(|env, store, scripted| {
        scripted.insert(&name("a"), b"12345");
        let recording = Recording::begin(env).unwrap();
        scripted.script(&[BUSY, BUSY]);
        assert_eq!(store.get(&name("a"), None).unwrap(), b"12345");
        scripted.script(&[LOST]);
        assert_eq!(store.begin_get(&name("a"), Some(1..3)).wait().unwrap(), b"23");
        let other = Arc::clone(store);
        let job = Box::new(move || assert_eq!(other.bytes_of(&name("a")).unwrap(), 5));
        assert!(env.spawn(JobClass::Client, "other", job).unwrap().join());
        let noted = recording.end().requests;
        assert_eq!(noted.get, RequestCount { requests: 5, failures: 3, bytes: 7 });
        assert_eq!(noted.requests(), 5, "the head was another thread's");
        store.delete(&name("a")).unwrap();
        let all = store.counts();
        assert_eq!((all.head.requests, all.delete.requests), (1, 1));
        let rest = all.since(&noted);
        assert_eq!((rest.get, rest.requests()), (RequestCount::default(), 2));
        assert_eq!(rest.and(&noted), all);
    });
}

#[test]
fn a_store_that_stays_away_is_given_up() {
    with_store(|env, store, scripted| {
        scripted.script(&[BUSY; 1000]);
        let began = env.now();
        assert!(store.bytes_of(&name("a")).is_err());
        let took = env.now() - began;
        let total = RetryPolicy::default().total;
        assert!((total / 2..=total).contains(&took), "{took:?}");
        assert_eq!(store.counts().head.requests, store.counts().head.failures);
    });
}

#[test]
fn nothing_is_tried_again_after_a_stop() {
    with_store(|env, store, scripted| {
        scripted.script(&[BUSY; 1000]);
        let waiting = Arc::clone(store);
        let job = Box::new(move || assert!(waiting.delete(&name("a")).is_err()));
        let job = env.spawn(JobClass::Client, "waiting", job).unwrap();
        env.sleep(Duration::from_secs(1));
        let began = env.now();
        store.stop();
        assert!(job.join());
        assert_eq!(env.now(), began, "it did not wait for its turn");
    });
}

#[test]
fn a_creation_whose_answer_was_lost_is_recognised() {
    with_store(|_, store, scripted| {
        let clean = Creation::Created { may_come_again: false };
        assert_eq!(store.create(&name("clean"), b"ours").unwrap(), clean);
        scripted.script(&[LOST]);
        let created = Creation::Created { may_come_again: true };
        assert_eq!(store.create(&name("a"), b"ours").unwrap(), created);
        // After an error, too: the caller creates the same again.
        assert_eq!(store.create(&name("a"), b"ours").unwrap(), created);
        let taken = Creation::Taken(Some(b"ours".to_vec()));
        assert_eq!(store.create(&name("a"), b"theirs").unwrap(), taken);
        assert_eq!(scripted.bytes(&name("a")).unwrap(), b"ours");
    });
}

#[test]
fn a_name_that_was_taken_and_is_free_again_is_not_created() {
    with_store(|env, store, scripted| {
        scripted.insert(&name("a"), b"theirs");
        // Between the answer and the look at what is there somebody deletes it.
        scripted.script(&[Fate::Done, BUSY]);
        let other = Arc::clone(store);
        let job = Box::new(move || {
            assert_eq!(other.create(&name("a"), b"ours").unwrap(), Creation::Taken(None));
        });
        let job = env.spawn(JobClass::Client, "creator", job).unwrap();
        env.sleep(Duration::from_millis(1));
        store.delete(&name("a")).unwrap();
        assert!(job.join());
        assert_eq!(scripted.bytes(&name("a")), None);
    });
}

#[test]
fn a_store_without_conditional_puts_is_refused() {
    with_store(|_, store, scripted| {
        store.prove_put_if_absent(&name("proof")).unwrap();
        store.prove_put_if_absent(&name("proof")).unwrap();
        let (done, unconditional, overwritten) =
            (Fate::Done, Fate::Unconditional, Fate::Overwritten);
        for (at, fates) in [
            // Never honoured, where there is an object of that name, and where there is none.
            ("proof", vec![unconditional; 2]),
            ("new", vec![done, unconditional]),
            // Said to be taken, and overwritten all the same.
            ("proof", vec![overwritten]),
            ("newer", vec![done, overwritten]),
            // The first answer was lost, so that only the second put shows it.
            ("proof", vec![LOST, done, unconditional]),
            ("proof", vec![LOST, done, overwritten]),
            ("newest", vec![LOST, done, unconditional]),
        ] {
            scripted.script(&fates);
            let refused = store.prove_put_if_absent(&name(at));
            let is_told = |text: &str| text.contains("scripted");
            let is_refused = matches!(&refused, Err(Error::Unsupported(text)) if is_told(text));
            assert!(is_refused, "{at} {fates:?}: {refused:?}");
        }
        for at in ["proof", "other"] {
            scripted.script(&[LOST, LOST, LOST]);
            store.prove_put_if_absent(&name(at)).unwrap();
        }
    });
}

#[test]
fn a_large_object_goes_in_parts_and_a_failed_upload_is_given_up() {
    with_store(|_, store, scripted| {
        let large = vec![3; (64 << 20) + 1];
        let (fine, failed) = (Fate::Done, Fate::Refused(ErrorKind::ResourceBusy));
        scripted.script(&[fine, fine, failed]);
        store.put_whole(&name("large"), &large).unwrap();
        assert_eq!(scripted.uploads_open(), 0);
        assert!(scripted.bytes(&name("large")).unwrap() == large);
        let counts = store.counts();
        assert_eq!(counts.put.requests, 0);
        // The first attempt: its beginning and two parts; the second one: nine parts and an end.
        assert_eq!(counts.upload_part.requests, 3 + 1 + 9 + 1);
        assert_eq!(counts.delete.requests, 1, "the first attempt was given up");
        assert_eq!(counts.bytes_up(), large.len() as u64 + (8 << 20));
        store.put_whole(&name("small"), &large[1..]).unwrap();
        assert_eq!(store.counts().put.requests, 1);
    });
}

#[test]
fn a_list_goes_through_all_pages() {
    with_store(|_, store, scripted| {
        scripted.set_page(2);
        for index in 0..5 {
            scripted.insert(&name(&format!("x/{index}")), &vec![0; index]);
        }
        scripted.insert(&name("y/0"), b"");
        scripted.script(&[Fate::Done, BUSY]);
        let listed = store.list("x/").unwrap();
        let bytes: Vec<u64> = listed.iter().map(|object| object.bytes).collect();
        assert_eq!(bytes, [0, 1, 2, 3, 4]);
        assert!(store.list("z/").unwrap().is_empty());
    });
}

#[test]
fn gets_begun_ahead_leave_places_for_others() {
    with_store(|_, store, scripted| {
        for index in 0..9u8 {
            scripted.insert(&name(&format!("x/{index}")), &[index]);
        }
        let begin = |index| store.begin_get(&name(&format!("x/{index}")), None);
        let pending: Vec<PendingGet> = (0..9).map(begin).collect();
        assert_eq!(store.budget.taken(), 2, "half of the places");
        // All of these wait for a place while those are held.
        assert_eq!(store.get(&name("x/4"), None).unwrap(), [4]);
        for (index, pending) in pending.into_iter().enumerate().rev() {
            assert_eq!(pending.wait().unwrap(), [index as u8]);
        }
        drop(begin(0));
        assert_eq!(store.budget.taken(), 0);
        scripted.script(&[LOST, BUSY]);
        assert_eq!(begin(3).wait().unwrap(), [3], "a failed one is tried again");
    });
}

#[test]
fn no_more_requests_are_under_way_than_there_are_places() {
    with_store(|env, store, scripted| {
        scripted.script(&[BUSY; 30]);
        let jobs: Vec<_> = (0..12)
            .map(|index| {
                let store = Arc::clone(store);
                let put = move || store.put(&name(&format!("x/{index}")), b"1").unwrap();
                env.spawn(JobClass::Client, "putter", Box::new(put)).unwrap()
            })
            .collect();
        for job in jobs {
            assert!(job.join());
        }
        assert_eq!(store.counts().put.requests, 42);
        assert_eq!(store.counts().put.failures, 30);
        assert_eq!(store.budget.taken(), 0);
    });
}
