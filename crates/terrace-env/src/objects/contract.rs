//! What every object store keeps. Goal: what was tested in the simulation meets the same behaviour
//! on a real store. Method: the same checks on each, every one on a store of its own.

use std::io::ErrorKind;

use crate::{ListPage, ObjectName, ObjectStore, Put};

/// A check, which is given a store without objects.
pub type Check = fn(&dyn ObjectStore);

/// All checks, by their names.
pub const CHECKS: &[(&str, Check)] = &[
    ("what-was-put-is-got", what_was_put_is_got),
    ("a-name-is-created-once", a_name_is_created_once),
    ("what-is-missing-is-not-found", what_is_missing_is_not_found),
    ("an-interval-is-whole-or-an-error", an_interval_is_whole_or_an_error),
    ("several-gets-are-under-way-at-once", several_gets_are_under_way_at_once),
    ("an-upload-is-there-when-it-is-finished", an_upload_is_there_when_it_is_finished),
    ("a-list-is-ordered-and-begins-behind-a-name", a_list_is_ordered_and_begins_behind_a_name),
    ("one-of-several-writers-creates-a-name", one_of_several_writers_creates_a_name),
];

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

fn what_was_put_is_got(store: &dyn ObjectStore) {
    let bytes: Vec<u8> = (0..100_000_u32).map(|index| (index % 251) as u8).collect();
    store.put(&name("table/1-a_b.c"), &bytes).unwrap();
    assert!(store.get(&name("table/1-a_b.c"), None).unwrap() == bytes);
    assert_eq!(store.bytes_of(&name("table/1-a_b.c")).unwrap(), 100_000);
    store.put(&name("table/1-a_b.c"), b"other").unwrap();
    assert_eq!(store.get(&name("table/1-a_b.c"), None).unwrap(), b"other");
    store.put(&name("empty"), b"").unwrap();
    assert_eq!(store.get(&name("empty"), None).unwrap(), b"");
    store.delete(&name("table/1-a_b.c")).unwrap();
    assert!(store.get(&name("table/1-a_b.c"), None).unwrap_err().is_not_found());
}

fn a_name_is_created_once(store: &dyn ObjectStore) {
    let one = name("feed/1");
    assert_eq!(store.put_if_absent(&one, b"first").unwrap(), Put::Created);
    assert_eq!(store.put_if_absent(&one, b"second").unwrap(), Put::Taken);
    assert_eq!(store.get(&one, None).unwrap(), b"first");
    store.delete(&one).unwrap();
    assert_eq!(store.put_if_absent(&one, b"third").unwrap(), Put::Created);
    assert_eq!(store.get(&one, None).unwrap(), b"third");
}

fn what_is_missing_is_not_found(store: &dyn ObjectStore) {
    store.put(&name("there/is/one"), b"x").unwrap();
    for missing in ["missing", "there/is/two", "missing/too"] {
        let missing = name(missing);
        assert!(store.get(&missing, None).unwrap_err().is_not_found());
        assert!(store.get(&missing, Some(1..2)).unwrap_err().is_not_found());
        assert!(store.bytes_of(&missing).unwrap_err().is_not_found());
        store.delete(&missing).unwrap();
    }
    assert_eq!(store.get(&name("there/is/one"), None).unwrap(), b"x");
}

fn an_interval_is_whole_or_an_error(store: &dyn ObjectStore) {
    let ten = name("ten");
    store.put(&ten, b"0123456789").unwrap();
    for (interval, expected) in [(0..10, &b"0123456789"[..]), (3..5, b"34"), (9..10, b"9")] {
        assert_eq!(store.get(&ten, Some(interval)).unwrap(), expected);
    }
    assert_eq!(store.get(&ten, Some(4..4)).unwrap(), b"");
    for interval in [5..11, 10..11, 50..60] {
        let error = store.get(&ten, Some(interval)).unwrap_err();
        assert_eq!(error.source.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

fn several_gets_are_under_way_at_once(store: &dyn ObjectStore) {
    store.put(&name("a"), b"0123456789").unwrap();
    let gets: Vec<_> = (0..10).map(|at| store.begin_get(&name("a"), Some(at..at + 1))).collect();
    let missing = store.begin_get(&name("b"), None);
    let bytes: Vec<u8> = gets.into_iter().flat_map(|get| get.wait().unwrap()).collect();
    assert_eq!(bytes, b"0123456789");
    assert!(missing.wait().unwrap_err().is_not_found());
    drop(store.begin_get(&name("a"), None));
}

fn an_upload_is_there_when_it_is_finished(store: &dyn ObjectStore) {
    let part = vec![7; 5 << 20];
    let mut upload = store.begin_upload(&name("table/large")).unwrap();
    upload.append(&part).unwrap();
    upload.append(b"the end").unwrap();
    assert!(store.get(&name("table/large"), None).unwrap_err().is_not_found());
    upload.finish().unwrap();
    assert_eq!(store.bytes_of(&name("table/large")).unwrap(), (5 << 20) + 7);
    let end = store.get(&name("table/large"), Some((5 << 20) - 1..(5 << 20) + 7)).unwrap();
    assert_eq!(end, b"\x07the end");
    let mut upload = store.begin_upload(&name("table/other")).unwrap();
    upload.append(b"not wanted").unwrap();
    upload.abort().unwrap();
    assert!(store.get(&name("table/other"), None).unwrap_err().is_not_found());
    assert_eq!(store.list("", None).unwrap().objects.len(), 1);
}

fn a_list_is_ordered_and_begins_behind_a_name(store: &dyn ObjectStore) {
    let names = ["feed/1", "feed/10", "feed/2", "feed-x", "feed.y", "table/1/a", "table/1-b"];
    for text in names {
        store.put(&name(text), text.as_bytes()).unwrap();
    }
    let list = |prefix: &str, after: Option<&str>| -> Vec<String> {
        let after = after.map(name);
        let ListPage { objects: listed, is_last } = store.list(prefix, after.as_ref()).unwrap();
        assert!(is_last, "few names fit on a page");
        assert!(listed.iter().all(|one| one.bytes == one.name.as_str().len() as u64));
        listed.into_iter().map(|one| one.name.to_string()).collect()
    };
    let mut ordered = names.map(String::from);
    ordered.sort();
    assert_eq!(list("", None), ordered);
    assert_eq!(list("feed/", None), ["feed/1", "feed/10", "feed/2"]);
    assert_eq!(list("feed/1", None), ["feed/1", "feed/10"]);
    assert_eq!(list("feed/", Some("feed/1")), ["feed/10", "feed/2"]);
    assert_eq!(list("", Some("feed/10")), ["feed/2", "table/1-b", "table/1/a"]);
    assert!(list("", Some("zzz")).is_empty());
    assert!(list("nothing", None).is_empty());
}

fn one_of_several_writers_creates_a_name(store: &dyn ObjectStore) {
    for round in 0..5 {
        let name = name(&format!("feed/{round}"));
        let put = |writer: u8| {
            // Another request to the name may be under way: that one is to be repeated.
            let mut tries = (0..50).map(|_| store.put_if_absent(&name, &[writer]));
            tries.find_map(Result::ok).expect("one of fifty tries is answered")
        };
        let puts = [put(0), put(1), put(2)];
        let created: Vec<usize> = (0..3).filter(|writer| puts[*writer] == Put::Created).collect();
        assert_eq!(created.len(), 1);
        assert_eq!(store.get(&name, None).unwrap(), [created[0] as u8]);
    }
}
