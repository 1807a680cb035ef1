//! Goal: a seed replays, and a workload can be crashed at every change of the disk. Method: one
//! small multi-threaded workload, run again and again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_base::WallTime;

use super::{CrashPolicy, DiskImage, IoHook, SimEnv, SimOptions};
use crate::{Env, JobClass, JobHandle, LockKind, Operation, SharedEnv};

/// Threads that write, sync, rename, wait and draw random numbers; returns what they decided.
fn workload(env: &Arc<SimEnv>) -> Vec<u64> {
    let dir = Path::new("/db");
    env.fs().create_dir_all(dir).unwrap();
    let _lock = env.fs().lock_dir(dir, LockKind::Exclusive).unwrap();
    let log = env.fs().create_log(&dir.join("log"), 10_000).unwrap();
    let decided = Arc::new(env.waits().mutex(Vec::new()));
    let jobs: Vec<JobHandle> = (0..3_u64)
        .map(|job| {
            let (env_of_job, log) = (Arc::clone(env), Arc::clone(&log));
            let decided = Arc::clone(&decided);
            let run = move || {
                for round in 0..5 {
                    let drawn = env_of_job.random_u64();
                    decided.lock().push(drawn);
                    log.write_at((job * 5 + round) * 100, &drawn.to_le_bytes()).unwrap();
                    if round == 2 {
                        log.sync().unwrap();
                        env_of_job.sleep(Duration::from_millis(job));
                    }
                }
                let temporary = Path::new("/db").join(format!("{job}.tmp"));
                let mut file = env_of_job.fs().create(&temporary, 10).unwrap();
                file.append(b"table").unwrap();
                file.finish().unwrap();
                let name = Path::new("/db").join(format!("{job}.table"));
                env_of_job.fs().rename(&temporary, &name).unwrap();
                env_of_job.fs().sync_dir(Path::new("/db")).unwrap();
            };
            env.spawn(JobClass::Flush, &job.to_string(), Box::new(run)).unwrap()
        })
        .collect();
    assert!(jobs.into_iter().all(JobHandle::join));
    decided.lock().clone()
}

#[test]
fn a_seed_replays_byte_for_byte() {
    let run = |seed| {
        let options = SimOptions { with_trace: true, ..SimOptions::new(seed) };
        SimEnv::run(options, |env| {
            let decided = workload(&env);
            let disk = env.disk();
            let files: Vec<_> =
                disk.files().iter().map(|(path, _)| disk.read(path).unwrap()).collect();
            (env.trace_hash(), env.trace(), env.io_count(), decided, files)
        })
    };
    let (mut hashes, mut drawn) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..50 {
        let first = run(seed);
        assert!(drawn.insert(first.3.iter().copied().collect::<BTreeSet<u64>>()), "seed {seed}");
        assert_eq!(first, run(seed), "seed {seed} did not replay");
        assert!(hashes.insert(first.0), "seed {seed} gave a run that another one gave");
        assert_eq!(first.1.iter().filter(|line| line.contains(" Rename ")).count(), 3);
    }
}

#[test]
fn the_trace_does_not_change_the_run() {
    let hash = |with_trace| {
        let options = SimOptions { with_trace, ..SimOptions::new(9) };
        SimEnv::run(options, |env| {
            workload(&env);
            env.trace_hash()
        })
    };
    assert_eq!(hash(true), hash(false));
}

#[test]
fn the_bytes_that_are_written_are_in_the_hash() {
    let hash = |bytes: &'static [u8]| {
        SimEnv::run(SimOptions::new(1), |env| {
            env.fs().create_dir_all(Path::new("/d")).unwrap();
            env.fs().create(Path::new("/d/f"), 0).unwrap().append(bytes).unwrap();
            env.trace_hash()
        })
    };
    assert_eq!(hash(b"one"), hash(b"one"));
    assert_ne!(hash(b"one"), hash(b"two"));
}

/// What the hook was told at each change of the disk.
type Points = Arc<Mutex<Vec<(u64, Operation, DiskImage)>>>;

fn recorder(points: &Points) -> Option<IoHook> {
    let points = Arc::clone(points);
    Some(Box::new(move |point| {
        points.lock().unwrap().push((point.index, point.operation, point.disk.clone()));
    }))
}

#[test]
fn every_change_of_the_disk_is_a_crash_point() {
    let points = Points::default();
    let options = SimOptions { on_io: recorder(&points), ..SimOptions::new(4) };
    let (count, hash) = SimEnv::run(options, |env| {
        workload(&env);
        (env.io_count(), env.trace_hash())
    });
    let points = points.lock().unwrap();
    assert_eq!(points.len() as u64, count);
    assert!(points.iter().zip(0..).all(|((index, ..), expected)| *index == expected));
    let operations: BTreeSet<Operation> =
        points.iter().map(|(_, operation, _)| *operation).collect();
    use Operation::*;
    assert_eq!(operations, [CreateDir, Create, Write, Sync, Rename, SyncDir, Lock].into());
    let plain = SimEnv::run(SimOptions::new(4), |env| {
        workload(&env);
        env.trace_hash()
    });
    assert_eq!(hash, plain, "the hook does not change the run");

    // What was acknowledged when the disk was captured is there after any crash: a table has its
    // name only when its bytes are durable.
    for (index, _, disk) in points.iter() {
        for policy in CrashPolicy::ALL {
            let left = disk.crash(policy, *index);
            for (path, _) in left.files() {
                if path.extension().is_some_and(|extension| extension == "table") {
                    assert_eq!(left.read(&path).unwrap(), b"table", "{policy:?} at {index}");
                }
            }
        }
    }
}

#[test]
fn the_next_run_starts_on_the_crashed_disk() {
    let points = Points::default();
    let options = SimOptions { on_io: recorder(&points), ..SimOptions::new(6) };
    SimEnv::run(options, |env| workload(&env));
    let points = points.lock().unwrap();
    for (index, _, disk) in points.iter() {
        let disk = disk.crash(CrashPolicy::Sectors, *index);
        SimEnv::run(SimOptions { disk, ..SimOptions::new(*index) }, |env| {
            env.fs().create_dir_all(Path::new("/db")).unwrap();
            let lock = env.fs().lock_dir(Path::new("/db"), LockKind::Exclusive);
            assert!(lock.is_ok(), "the lock of a dead process is free");
            for entry in env.fs().list(Path::new("/db")).unwrap() {
                let file = env.fs().open(&Path::new("/db").join(&entry.name)).unwrap();
                assert_eq!(file.bytes(), entry.bytes);
                env.fs().remove(&Path::new("/db").join(&entry.name)).unwrap();
            }
            env.fs().sync_dir(Path::new("/db")).unwrap();
            assert_eq!(env.disk().files(), [], "index {index}");
        });
    }
}

#[test]
fn a_write_is_torn_at_any_place() {
    let torn = Arc::new(Mutex::new(BTreeSet::new()));
    let sink = Arc::clone(&torn);
    let on_io: IoHook = Box::new(move |point| {
        if point.operation == Operation::Write {
            for seed in 0..200 {
                let disk = point.torn_disk(seed).expect("a long write can be torn");
                let bytes = disk.read(point.path).unwrap();
                assert!(bytes.iter().all(|&byte| byte == 0 || byte == 1));
                sink.lock().unwrap().insert(bytes);
            }
        } else {
            assert!(point.torn_disk(0).is_none());
        }
    });
    SimEnv::run(SimOptions { on_io: Some(on_io), ..SimOptions::new(1) }, |env| {
        env.fs().create_dir_all(Path::new("/d")).unwrap();
        let log = env.fs().create_log(Path::new("/d/log"), 300).unwrap();
        log.write_at(50, &[1; 200]).unwrap();
    });
    let torn = torn.lock().unwrap();
    assert!(torn.len() > 50, "{} outcomes", torn.len());
    let has_hole = |bytes: &Vec<u8>| bytes[50] == 0 && bytes[249] == 1;
    assert!(torn.iter().any(has_hole), "a copy need not go from front to back");
}

#[test]
fn a_full_disk_fails_where_space_is_asked_for() {
    let disk = DiskImage::new().with_capacity(1_000);
    SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |env| {
        let dir = Path::new("/d");
        env.fs().create_dir_all(dir).unwrap();
        assert_eq!(env.fs().free_bytes(dir).unwrap(), 1_000);
        for error in [
            env.fs().create(&dir.join("table"), 1_001).unwrap_err(),
            env.fs().create_log(&dir.join("log"), 1_001).unwrap_err(),
        ] {
            assert!(error.is_no_space());
            assert_eq!(error.operation, Operation::Preallocate);
        }
        assert!(env.fs().list(dir).unwrap().is_empty());

        let mut file = env.fs().create(&dir.join("table"), 600).unwrap();
        let log = env.fs().create_log(&dir.join("log"), 400).unwrap();
        file.append(&[1; 600]).unwrap();
        log.write_at(0, &[1; 400]).unwrap();
        log.sync().unwrap();
        let error = file.append(b"x").unwrap_err();
        assert!(error.is_no_space());
        assert_eq!(error.operation, Operation::Write);
        env.set_capacity(2_000);
        assert_eq!(env.fs().free_bytes(dir).unwrap(), 1_000);
        file.append(b"x").unwrap();
        file.finish().unwrap();
        env.fs().remove(&dir.join("table")).unwrap();
        assert_eq!(env.fs().free_bytes(dir).unwrap(), 1_600);
    });
}

#[test]
fn unused_reserved_space_is_given_back() {
    let disk = DiskImage::new().with_capacity(1_000);
    SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |env| {
        env.fs().create_dir_all(Path::new("/d")).unwrap();
        let mut file = env.fs().create(Path::new("/d/table"), 900).unwrap();
        file.append(b"0123456789").unwrap();
        assert_eq!(env.disk().free_bytes(), 100);
        file.finish().unwrap();
        assert_eq!(env.disk().free_bytes(), 990);
    });
}

#[test]
fn reads_that_must_not_wait_sometimes_find_nothing() {
    let misses = |one_in| {
        let options = SimOptions { try_read_miss_one_in: one_in, ..SimOptions::new(3) };
        SimEnv::run(options, |env| {
            env.fs().create_dir_all(Path::new("/d")).unwrap();
            env.fs().create(Path::new("/d/f"), 0).unwrap().append(b"x").unwrap();
            let file = env.fs().open(Path::new("/d/f")).unwrap();
            (0..100).filter(|_| file.try_read_at(0, &mut [0]).unwrap().is_none()).count()
        })
    };
    assert_eq!(misses(0), 0);
    assert_eq!(misses(1), 100);
    assert!((5..60).contains(&misses(4)));
}

#[test]
fn input_and_output_can_take_time() {
    let options = SimOptions { io_delay_max: Duration::from_millis(10), ..SimOptions::new(3) };
    SimEnv::run(options, |env| {
        workload(&env);
        assert!(env.now() > Duration::from_millis(50), "{:?}", env.now());
    });
}

#[test]
fn the_wall_clock_goes_with_virtual_time_and_can_jump() {
    let options = SimOptions { wall_start: WallTime(5_000), ..SimOptions::new(1) };
    SimEnv::run(options, |env| {
        assert_eq!(env.wall_time(), WallTime(5_000));
        env.sleep(Duration::from_secs(2));
        assert_eq!(env.wall_time(), WallTime(7_000));
        env.set_wall_time(WallTime(1_000));
        env.sleep(Duration::from_secs(1));
        assert_eq!(env.wall_time(), WallTime(2_000));
        assert_eq!(env.now(), Duration::from_secs(3), "virtual time does not jump");
    });
}

#[test]
fn options_are_what_the_environment_says() {
    let options = SimOptions { parallelism: 7, mapped_logs: false, ..SimOptions::default() };
    assert_eq!(format!("{options:?}"), "SimOptions { seed: 0, .. }");
    SimEnv::run(options, |env| {
        let shared: SharedEnv = env;
        assert_eq!(shared.parallelism(), 7);
        shared.fs().create_dir_all(Path::new("/d")).unwrap();
        assert!(!shared.fs().create_log(Path::new("/d/log"), 10).unwrap().is_mapped());
        assert_eq!(
            format!("{:?} {shared:?}", shared.waits()),
            "WaitFactory(simulated) SimEnv { seed: 0, .. }"
        );
    });
}

#[test]
#[should_panic(expected = "beyond the end of a log file")]
fn a_write_beyond_a_log_is_refused() {
    SimEnv::run(SimOptions::new(1), |env| {
        env.fs().create_dir_all(Path::new("/d")).unwrap();
        let log = env.fs().create_log(Path::new("/d/log"), 10).unwrap();
        let _ = log.write_at(8, b"abc");
    });
}

#[test]
fn a_lying_disk_loses_what_it_said_was_synced() {
    let path = Path::new("/db/file");
    let run = |seed, sync_lie_one_in| {
        let options = SimOptions { sync_lie_one_in, ..SimOptions::new(seed) };
        SimEnv::run(options, |env| {
            env.fs().create_dir_all(Path::new("/db")).unwrap();
            let mut file = env.fs().create(path, 0).unwrap();
            file.append(b"synced").unwrap();
            file.sync().unwrap();
            env.fs().sync_dir(Path::new("/db")).unwrap();
            let left = env.disk().crash(CrashPolicy::SyncedOnly, 0);
            (env.lie_count(), left.read(path).ok())
        })
    };
    assert_eq!(run(1, 0), (0, Some(b"synced".to_vec())));
    assert_eq!(run(1, 1), (2, None));
    let outcomes: BTreeSet<_> = (0..40).map(|seed| run(seed, 2)).collect();
    assert_eq!(outcomes.len(), 4, "each of the two syncs is done or not: {outcomes:?}");
    assert_eq!(run(7, 2), run(7, 2));
}
