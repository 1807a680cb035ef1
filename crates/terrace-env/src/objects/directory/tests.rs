//! Goal: an answered put is there after a power cut, an object is whole or absent at any moment of
//! one, and nothing that was left behind is taken for an object. Method: the same puts, cut at each
//! change of a simulated disk under each policy.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::objects::contract;
use crate::{CrashPolicy, DiskImage, Env, IoHook, ObjectName, Put, RealEnv, SimEnv, SimOptions};

const URL: &str = "file:///store";

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

#[test]
fn a_directory_keeps_what_all_stores_keep() {
    for (name, check) in contract::CHECKS {
        println!("{name}");
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file://{}", dir.path().display());
        check(&*RealEnv::new().objects().open(&url).unwrap());
    }
}

/// The disk before each change, with how many puts were answered by then.
fn disks() -> Vec<(DiskImage, usize)> {
    let answered = Arc::new(Mutex::new(0));
    let disks = Arc::new(Mutex::new(Vec::new()));
    let hook: IoHook = {
        let (answered, disks) = (Arc::clone(&answered), Arc::clone(&disks));
        Box::new(move |point| {
            let answered = *answered.lock().unwrap();
            let mut disks = disks.lock().unwrap();
            disks.push((point.disk.clone(), answered));
            disks.extend(point.torn_disk(point.index).map(|disk| (disk, answered)));
        })
    };
    let last = SimEnv::run(SimOptions { on_io: Some(hook), ..SimOptions::new(1) }, |env| {
        let store = env.objects().open(URL).unwrap();
        store.put(&name("feed/1"), &[1; 100]).unwrap();
        *answered.lock().unwrap() = 1;
        assert_eq!(store.put_if_absent(&name("feed/2"), &[2; 100]).unwrap(), Put::Created);
        *answered.lock().unwrap() = 2;
        let mut upload = store.begin_upload(&name("table/x/3")).unwrap();
        upload.append(&[3; 60]).unwrap();
        upload.append(&[3; 40]).unwrap();
        upload.finish().unwrap();
        *answered.lock().unwrap() = 3;
        assert_eq!(store.put_if_absent(&name("feed/1"), &[9; 100]).unwrap(), Put::Taken);
        env.disk()
    });
    let mut disks = std::mem::take(&mut *disks.lock().unwrap());
    disks.push((last, 3));
    disks
}

#[test]
fn a_put_that_was_answered_survives_a_power_cut_and_one_that_was_not_is_whole_or_absent() {
    let names = [name("feed/1"), name("feed/2"), name("table/x/3")];
    let disks = disks();
    assert!(disks.len() > 15, "{}", disks.len());
    for (index, (disk, answered)) in disks.into_iter().enumerate() {
        for policy in CrashPolicy::ALL {
            let disk = disk.crash(policy, index as u64);
            SimEnv::run(SimOptions { disk, ..SimOptions::new(2) }, |env| {
                let store = env.objects().open(URL).unwrap();
                for (number, name) in names.iter().enumerate() {
                    match store.get(name, None) {
                        Ok(bytes) => assert_eq!(bytes, [number as u8 + 1; 100]),
                        Err(error) => {
                            assert!(error.is_not_found(), "{error}");
                            assert!(number >= answered, "{name} was lost at {index}, {policy:?}");
                        }
                    }
                }
                let listed = store.list("", None).unwrap().objects;
                assert!(listed.iter().all(|one| names.contains(&one.name) && one.bytes == 100));
                for writer in env.fs().list(Path::new("/store/.writers")).unwrap() {
                    let dir = Path::new("/store/.writers").join(writer.name);
                    let left = env.fs().list(&dir).unwrap();
                    assert!(left.iter().all(|file| file.name == "LOCK"), "{left:?}");
                }
            });
        }
    }
}

#[test]
fn an_open_store_keeps_what_it_writes_when_another_one_opens() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}/store", dir.path().display());
    let env = RealEnv::new();
    let first = env.objects().open(&url).unwrap();
    let mut upload = first.begin_upload(&name("a")).unwrap();
    upload.append(b"begun").unwrap();
    let second = env.objects().open(&url).unwrap();
    second.put(&name("b"), b"beside").unwrap();
    upload.finish().unwrap();
    assert_eq!(second.get(&name("a"), None).unwrap(), b"begun");
    let mut left = first.begin_upload(&name("c")).unwrap();
    left.append(b"never finished").unwrap();
    drop((left, first, second));
    let store = env.objects().open(&url).unwrap();
    assert_eq!(store.list("", None).unwrap().objects.len(), 2);
    let writers = dir.path().join("store/.writers");
    let entries = env.fs().list(&writers).unwrap();
    assert_eq!(entries.len(), 2, "the places of those that are gone are used again");
    for writer in entries {
        let files = env.fs().list(&writers.join(writer.name)).unwrap();
        assert!(files.iter().all(|file| file.name == "LOCK"), "{files:?}");
    }
}

#[test]
fn a_directory_needs_a_path_from_the_root() {
    for url in ["file://", "file://relative", "file:/x"] {
        assert!(RealEnv::new().objects().open(url).is_err(), "{url}");
    }
}
