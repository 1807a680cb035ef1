//! Goal: a crash leaves of persistent memory what a machine could, and never less than was fenced.
//! Method: images of the disk at a moment that the test knows, crashed under every policy and many
//! seeds.

use std::collections::BTreeSet;

use super::*;
use crate::{
    CrashPolicy, DiskImage, Env, IoPoint, JobClass, PMEM_PAGE_BYTES, PmemSpan, SharedEnv, SimEnv,
    SimOptions,
};

const PAGE: u64 = PMEM_PAGE_BYTES;

fn area() -> &'static Path {
    Path::new("/d/area")
}

/// An area of one page whose name is durable.
fn create(env: &SimEnv) -> (Pmem, PmemSpan) {
    env.fs().create_dir_all(Path::new("/d")).unwrap();
    let pmem = env.fs().create_pmem(area(), PAGE).unwrap();
    env.fs().sync_dir(Path::new("/d")).unwrap();
    let span = pmem.claim(0, PAGE).unwrap();
    (pmem, span)
}

fn run<R: Send>(act: impl FnOnce(&SimEnv, Pmem, PmemSpan) -> R + Send) -> R {
    SimEnv::run(SimOptions::new(1), |env| {
        let (pmem, span) = create(&env);
        act(&env, pmem, span)
    })
}

/// What a crash leaves, under each of many seeds.
fn left(disk: &DiskImage, policy: CrashPolicy) -> Vec<Vec<u8>> {
    (0..200).map(|seed| disk.crash(policy, seed).read(area()).unwrap()).collect()
}

#[test]
fn what_was_fenced_is_in_every_crash_and_the_rest_may_be() {
    let disk = run(|env, pmem, mut span| {
        span.store(0, &[1; 128]);
        span.flush(0, 128);
        pmem.fence().unwrap();
        span.store(64, &[2; 128]);
        span.flush(64, 128);
        span.store(1024, &[3; 16]);
        env.disk()
    });
    for policy in CrashPolicy::ALL {
        for content in left(&disk, policy) {
            assert_eq!(content[..64], [1; 64], "{policy:?}");
            assert!(content[64..128].iter().all(|byte| [1, 2].contains(byte)));
            assert!(content[192..1024].iter().all(|&byte| byte == 0));
        }
    }
    for content in left(&disk, CrashPolicy::SyncedOnly) {
        assert_eq!((&content[64..128], content[128], content[1024]), (&[1; 64][..], 0, 0));
    }
    for content in left(&disk, CrashPolicy::ProcessKill) {
        assert_eq!((content[64], content[191], content[1039]), (2, 2, 3));
    }
    for policy in [CrashPolicy::Sectors, CrashPolicy::Pages] {
        let contents = left(&disk, policy);
        let lines: BTreeSet<_> =
            contents.iter().map(|content| [content[64], content[128], content[1024]]).collect();
        assert_eq!(lines.len(), 8, "{policy:?}: any subset of the lines");
        let is_torn = |content: &Vec<u8>| content[1024] != content[1032];
        assert!(contents.iter().any(is_torn), "{policy:?}: by words");
        for content in contents {
            for word in content.chunks(8) {
                assert!(word.iter().all(|byte| *byte == word[0]), "a word is whole");
            }
        }
    }
}

#[test]
fn with_durable_caches_every_store_stays() {
    let options = SimOptions { pmem_keeps_stores: true, ..SimOptions::new(1) };
    let disk = SimEnv::run(options, |env| {
        let (_pmem, mut span) = create(&env);
        span.store(100, &[7; 1000]);
        span.publish(0, 1);
        env.disk()
    });
    for policy in CrashPolicy::ALL {
        for content in left(&disk, policy) {
            assert_eq!((content[0], content[100], content[1099]), (1, 7, 7));
        }
    }
}

#[test]
fn a_fence_makes_durable_what_was_there_at_the_flush() {
    let disk = run(|env, pmem, mut span| {
        span.publish(0, 1);
        span.flush(0, 8);
        span.publish(0, 2);
        pmem.fence().unwrap();
        env.disk()
    });
    for content in left(&disk, CrashPolicy::SyncedOnly) {
        assert_eq!(content[0], 1);
    }
    let seen: BTreeSet<u8> =
        left(&disk, CrashPolicy::Pages).iter().map(|content| content[0]).collect();
    assert_eq!(seen, BTreeSet::from([1, 2]));
}

/// Runs `job` in a thread of the simulation.
fn elsewhere(env: &SharedEnv, job: impl FnOnce() + Send + 'static) {
    assert!(env.spawn(JobClass::Client, "other", Box::new(job)).unwrap().join());
}

#[test]
fn a_fence_is_for_the_lines_of_its_own_thread() {
    SimEnv::run(SimOptions::new(1), |env| {
        let (pmem, mut span) = create(&env);
        let shared: SharedEnv = env.clone();
        let durable = || env.disk().crash(CrashPolicy::SyncedOnly, 0).read(area()).unwrap()[0];
        span.publish(0, 1);
        span.flush(0, 8);
        let other = pmem.clone();
        elsewhere(&shared, move || other.fence().unwrap());
        assert_eq!(durable(), 0, "another thread's fence");
        span.publish(0, 2);
        let other = pmem.clone();
        elsewhere(&shared, move || {
            span.flush(0, 8);
            other.fence().unwrap();
        });
        assert_eq!(durable(), 2);
        pmem.fence().unwrap();
        assert_eq!(durable(), 2, "what is durable does not go back");
    });
}

#[test]
fn what_a_killed_process_stored_is_there_and_not_yet_durable() {
    let disk = run(|env, _pmem, mut span| {
        span.publish(0, 5);
        env.disk().crash(CrashPolicy::ProcessKill, 0)
    });
    let next = SimEnv::run(SimOptions { disk, ..SimOptions::new(2) }, |env| {
        let pmem = env.fs().open_pmem(area()).unwrap();
        let span = pmem.claim(0, PAGE).unwrap();
        assert_eq!(span[0], 5);
        let before = env.disk();
        span.flush(0, 8);
        pmem.fence().unwrap();
        [before, env.disk()].map(|disk| disk.crash(CrashPolicy::SyncedOnly, 0))
    });
    assert_eq!(next.map(|disk| disk.read(area()).unwrap()[0]), [0, 5]);
}

#[test]
fn a_copied_file_becomes_persistent_memory_when_it_is_mapped() {
    let mut disk = DiskImage::new();
    disk.write(area(), 0, &[9; PAGE as usize]).unwrap();
    let disk = SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |env| {
        let pmem = env.fs().open_pmem(area()).unwrap();
        pmem.claim(0, PAGE).unwrap().store(0, &[1; 16]);
        env.disk()
    });
    let contents = left(&disk, CrashPolicy::Pages);
    assert!(contents.iter().any(|content| content[0] != content[8]), "torn by words");
    assert!(contents.iter().all(|content| content[16..] == [9; PAGE as usize - 16]));
}

/// Appends rows of a payload and a word that counts them. Every crash at a fence, under every
/// policy: the first that leaves a row without its payload.
fn first_torn_row(is_fenced_between: bool) -> Option<String> {
    let torn = Arc::new(Mutex::new(None));
    let found = Arc::clone(&torn);
    let on_io = Box::new(move |point: &IoPoint<'_>| {
        for policy in CrashPolicy::ALL {
            for seed in 0..20 {
                let Ok(content) = point.disk.crash(policy, seed).read(area()) else { continue };
                let rows = usize::from(content[0]);
                let is_whole = |row: usize| content[row * 256..][..200] == [row as u8; 200];
                if !content.is_empty() && !(1..=rows).all(is_whole) {
                    found.lock().get_or_insert(format!("{policy:?} {seed} at {}", point.index));
                }
            }
        }
    });
    let options = SimOptions { on_io: Some(on_io), ..SimOptions::new(3) };
    SimEnv::run(options, |env| {
        let (pmem, mut span) = create(&env);
        for row in 1..=8_u8 {
            let at = usize::from(row) * 256;
            span.store(at, &[row; 200]);
            span.flush(at, 200);
            if is_fenced_between {
                pmem.fence().unwrap();
            }
            span.publish(0, row.into());
            span.flush(0, 8);
            pmem.fence().unwrap();
        }
    });
    torn.lock().take()
}

#[test]
fn a_missing_fence_shows_in_a_crash_at_the_next_one() {
    assert_eq!(first_torn_row(true), None);
    assert!(first_torn_row(false).is_some());
}

#[test]
fn stores_are_in_the_hash_of_a_run() {
    let hash = |byte: u8, switch_one_in| {
        let options = SimOptions { switch_one_in, ..SimOptions::new(4) };
        SimEnv::run(options, |env| {
            let (pmem, mut span) = create(&env);
            span.store(0, &[byte; 10]);
            pmem.fence().unwrap();
            env.trace_hash()
        })
    };
    assert_eq!(hash(1, 4), hash(1, 4));
    assert_ne!(hash(1, 4), hash(2, 4));
}

#[test]
fn an_area_takes_its_space_at_once() {
    let disk = DiskImage::new().with_capacity(3 * PAGE);
    SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |env| {
        env.fs().create_dir_all(Path::new("/d")).unwrap();
        let error = env.fs().create_pmem(area(), 4 * PAGE).unwrap_err();
        assert!(error.is_no_space() && error.operation == Operation::Preallocate, "{error}");
        let pmem = env.fs().create_pmem(area(), 3 * PAGE).unwrap();
        assert_eq!(env.fs().free_bytes(Path::new("/d")).unwrap(), 0);
        pmem.claim(0, 3 * PAGE).unwrap().store(0, &[1; 3 * PAGE as usize]);
        drop(pmem);
        env.fs().remove(area()).unwrap();
        assert_eq!(env.fs().free_bytes(Path::new("/d")).unwrap(), 3 * PAGE);
    });
}
