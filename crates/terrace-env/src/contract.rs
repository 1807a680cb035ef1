//! What every environment keeps. Goal: code that was tested in the simulation meets the same
//! behaviour on a real machine. Method: the same assertions run in each environment, in the
//! simulation under many seeds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{
    CacheFile, DiskEnv, Env, EnvError, FaultEnv, FaultPlan, JobClass, LockKind, LogFile, Operation,
    PMEM_PAGE_BYTES, PmemClaimed, PmemLogFile, RealEnv, SharedEnv, SimEnv, SimOptions,
};

/// Makes a test of each check for each environment.
macro_rules! contract {
    ($($check:ident),* $(,)?) => {
        mod real { $(#[test] fn $check() { super::on_real(super::$check); })* }
        mod simulated { $(#[test] fn $check() { super::on_simulated(super::$check); })* }
        mod behind_faults { $(#[test] fn $check() { super::behind_faults(super::$check); })* }
        mod on_a_slow_disk { $(#[test] fn $check() { super::on_slow_disk(super::$check); })* }
    };
}

contract! {
    what_was_written_is_read,
    a_name_is_created_once,
    what_is_missing_is_not_found,
    names_move_and_go,
    a_list_is_ordered_by_name,
    readers_keep_a_removed_file,
    a_log_is_written_at_offsets,
    a_log_in_persistent_memory_is_written_at_offsets,
    a_log_is_recycled_under_a_new_name,
    a_log_is_cut_behind_what_was_written,
    a_file_is_cut_by_any_of_its_names,
    the_file_of_a_cache_is_written_anywhere_and_found_again,
    a_read_that_must_not_wait_reads_the_same,
    the_lock_of_a_directory_excludes,
    a_directory_has_one_real_name,
    a_directory_is_no_file,
    space_is_reported,
    time_does_not_go_back,
    a_thread_is_joined,
    a_signal_is_not_lost,
    a_wait_times_out,
    a_mutex_excludes,
    a_hold_is_shared_or_exclusive,
    locks_can_be_tried,
    a_page_of_an_area_has_one_owner,
    what_was_stored_is_read_and_stays,
    an_area_is_mapped_once,
    an_area_is_a_file_of_its_size,
    an_area_is_stored_to_by_many_threads,
}

/// The checks of persistent memory where a file system in memory stands in for it.
#[test]
fn emulated_persistent_memory() {
    let checks = [
        a_page_of_an_area_has_one_owner,
        what_was_stored_is_read_and_stays,
        an_area_is_mapped_once,
        an_area_is_a_file_of_its_size,
        an_area_is_stored_to_by_many_threads,
        a_log_in_persistent_memory_is_written_at_offsets,
    ];
    for check in checks {
        let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return };
        let env: SharedEnv = RealEnv::new();
        check(&env, dir.path());
    }
}

const SEEDS: u64 = 30;

fn on_real(check: fn(&SharedEnv, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    let env: SharedEnv = RealEnv::new();
    check(&env, dir.path());
}

fn on_simulated(check: fn(&SharedEnv, &Path)) {
    for seed in 0..SEEDS {
        SimEnv::run(SimOptions::new(seed), |env| {
            let env: SharedEnv = env;
            env.fs().create_dir_all(Path::new("/test")).unwrap();
            check(&env, Path::new("/test"));
        });
    }
}

fn behind_faults(check: fn(&SharedEnv, &Path)) {
    let dir = tempfile::tempdir().unwrap();
    let env: SharedEnv = FaultEnv::new(RealEnv::new(), FaultPlan::default());
    check(&env, dir.path());
}

fn on_slow_disk(check: fn(&SharedEnv, &Path)) {
    SimEnv::run(SimOptions::new(1), |sim| {
        let profile = "read=1MB/s,write=1MB/s,iops=500".parse().unwrap();
        let env: SharedEnv = DiskEnv::new(sim, profile);
        env.fs().create_dir_all(Path::new("/test")).unwrap();
        check(&env, Path::new("/test"));
    });
}

fn write_file(env: &SharedEnv, path: &Path, bytes: &[u8]) {
    let mut file = env.fs().create(path, bytes.len() as u64).unwrap();
    file.append(bytes).unwrap();
    file.finish().unwrap();
}

fn read_file(env: &SharedEnv, path: &Path) -> Vec<u8> {
    let file = env.fs().open(path).unwrap();
    let mut bytes = vec![0; file.bytes() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

fn names(env: &SharedEnv, dir: &Path) -> Vec<String> {
    env.fs().list(dir).unwrap().into_iter().map(|entry| entry.name).collect()
}

fn assert_fails<T>(result: Result<T, EnvError>, operation: Operation, kind: std::io::ErrorKind) {
    let Err(error) = result else { panic!("{operation:?} should have failed with {kind}") };
    assert_eq!((error.operation, error.source.kind()), (operation, kind), "{error}");
}

fn spawn(env: &SharedEnv, name: &str, job: impl FnOnce() + Send + 'static) -> crate::JobHandle {
    env.spawn(JobClass::Client, name, Box::new(job)).unwrap()
}

fn what_was_written_is_read(env: &SharedEnv, dir: &Path) {
    let path = dir.join("file");
    let mut file = env.fs().create(&path, 100).unwrap();
    file.append(b"hello ").unwrap();
    file.append(b"").unwrap();
    file.append(&[7; 9_000]).unwrap();
    file.sync().unwrap();
    file.finish().unwrap();
    env.fs().sync_dir(dir).unwrap();

    let file = env.fs().open(&path).unwrap();
    assert_eq!(file.bytes(), 9_006);
    let mut buffer = [0; 10];
    assert_eq!(file.read_at(0, &mut buffer).unwrap(), 10);
    assert_eq!(&buffer, b"hello \x07\x07\x07\x07");
    assert_eq!(file.read_at(9_000, &mut buffer).unwrap(), 6, "short at the end");
    assert_eq!(file.read_at(9_006, &mut buffer).unwrap(), 0);
    assert_eq!(file.read_at(1 << 40, &mut buffer).unwrap(), 0);
}

fn a_name_is_created_once(env: &SharedEnv, dir: &Path) {
    use std::io::ErrorKind::AlreadyExists;
    let (path, other) = (dir.join("file"), dir.join("other"));
    write_file(env, &path, b"1");
    write_file(env, &other, b"2");
    assert_fails(env.fs().create(&path, 0), Operation::Create, AlreadyExists);
    assert_fails(env.fs().create_log(&path, 10), Operation::Create, AlreadyExists);
    assert_fails(env.fs().link(&other, &path), Operation::Link, AlreadyExists);
    assert_fails(env.fs().recycle_log(&other, &path), Operation::Rename, AlreadyExists);
    assert_eq!(read_file(env, &path), b"1");
    assert_eq!(read_file(env, &other), b"2");
    // A directory that exists is no error.
    env.fs().create_dir_all(dir).unwrap();
}

fn what_is_missing_is_not_found(env: &SharedEnv, dir: &Path) {
    use std::io::ErrorKind::NotFound;
    let (missing, target) = (dir.join("missing"), dir.join("target"));
    assert!(env.fs().open(&missing).unwrap_err().is_not_found());
    assert_fails(env.fs().rename(&missing, &target), Operation::Rename, NotFound);
    assert_fails(env.fs().recycle_log(&missing, &target), Operation::Rename, NotFound);
    assert_fails(env.fs().link(&missing, &target), Operation::Link, NotFound);
    assert_fails(env.fs().remove(&missing), Operation::Remove, NotFound);
    assert_fails(env.fs().list(&missing), Operation::List, NotFound);
    assert_fails(env.fs().sync_dir(&missing), Operation::SyncDir, NotFound);
    assert_fails(env.fs().free_bytes(&missing), Operation::FreeSpace, NotFound);
    assert_fails(env.fs().real_dir(&missing), Operation::Resolve, NotFound);
    assert_fails(env.fs().are_on_one_device(&missing, &missing), Operation::FindDevice, NotFound);
    assert_fails(env.fs().lock_dir(&missing, LockKind::Exclusive), Operation::Lock, NotFound);
    assert_fails(env.fs().create(&missing.join("file"), 0), Operation::Create, NotFound);
    assert_fails(env.fs().create_log(&missing.join("log"), 1), Operation::Create, NotFound);
    assert!(names(env, dir).is_empty());
}

fn names_move_and_go(env: &SharedEnv, dir: &Path) {
    let [a, b, c] = ["a", "b", "c"].map(|name| dir.join(name));
    write_file(env, &a, b"one");
    write_file(env, &b, b"two");
    env.fs().rename(&a, &b).unwrap();
    assert_eq!(names(env, dir), ["b"]);
    assert_eq!(read_file(env, &b), b"one", "a rename replaces");

    env.fs().link(&b, &c).unwrap();
    env.fs().rename(&b, &c).unwrap();
    assert_eq!(names(env, dir), ["b", "c"], "two names of one file stay");
    env.fs().remove(&b).unwrap();
    assert_eq!(read_file(env, &c), b"one");

    let below = dir.join("deep/deeper");
    env.fs().create_dir_all(&below).unwrap();
    env.fs().rename(&c, &below.join("c")).unwrap();
    assert_eq!(names(env, &below), ["c"]);
    assert_eq!(names(env, dir), ["deep"]);
    env.fs().sync_dir(&below).unwrap();
    env.fs().remove(&below.join("c")).unwrap();
    assert!(names(env, &below).is_empty());
}

fn a_list_is_ordered_by_name(env: &SharedEnv, dir: &Path) {
    for name in ["m", "z", "B", "a1", "a"] {
        write_file(env, &dir.join(name), name.as_bytes());
    }
    env.fs().create_dir_all(&dir.join("b")).unwrap();
    let entries = env.fs().list(dir).unwrap();
    let entries: Vec<(&str, u64, bool)> =
        entries.iter().map(|entry| (entry.name.as_str(), entry.bytes, entry.is_dir)).collect();
    let expected =
        [("B", 1, false), ("a", 1, false), ("a1", 2, false), ("b", 0, true), ("m", 1, false)];
    assert_eq!(entries[..5], expected);
    assert_eq!(entries[5..], [("z", 1, false)]);
}

fn readers_keep_a_removed_file(env: &SharedEnv, dir: &Path) {
    let path = dir.join("file");
    write_file(env, &path, b"still here");
    let file = env.fs().open(&path).unwrap();
    env.fs().remove(&path).unwrap();
    env.fs().sync_dir(dir).unwrap();
    write_file(env, &path, b"new");
    let mut buffer = [0; 10];
    assert_eq!(file.read_at(0, &mut buffer).unwrap(), 10);
    assert_eq!(&buffer, b"still here");
}

fn a_log_is_written_at_offsets(env: &SharedEnv, dir: &Path) {
    let path = dir.join("log");
    let log = env.fs().create_log(&path, 100_000).unwrap();
    assert_eq!((log.bytes(), log.medium()), (100_000, None));
    let empty = env.fs().create_log(&dir.join("empty"), 0).unwrap();
    assert_eq!(empty.bytes(), 0);
    empty.write_at(0, b"").unwrap();
    write_at_offsets(env, &path, log);
}

fn a_log_in_persistent_memory_is_written_at_offsets(env: &SharedEnv, dir: &Path) {
    let path = dir.join("log");
    let pmem = env.fs().create_pmem(&path, 25 * PMEM_PAGE_BYTES).unwrap();
    let medium = pmem.medium();
    let log = PmemLogFile::over(pmem, &env.waits());
    assert_eq!((log.bytes(), log.medium()), (102_400, Some(medium)));
    write_at_offsets(env, &path, log);
    let log = PmemLogFile::over(env.fs().open_pmem(&path).unwrap(), &env.waits());
    log.write_at(0, b"again").unwrap();
    assert_eq!(&read_file(env, &path)[..5], b"again");
}

/// Writes to a log of at least 100 000 bytes, which are zeros.
fn write_at_offsets(env: &SharedEnv, path: &Path, log: Arc<dyn LogFile>) {
    let log_bytes = log.bytes();
    log.write_at(50_000, b"late").unwrap();
    log.write_at(0, b"early").unwrap();
    log.write_at(99_999, b"!").unwrap();
    log.write_at(log_bytes, b"").unwrap();
    log.sync_range(49_999, 10).unwrap();
    log.sync_range(99_000, 1_000).unwrap();
    log.sync().unwrap();
    let bytes = read_file(env, path);
    assert_eq!(bytes.len() as u64, log_bytes);
    let mut expected = vec![0; bytes.len()];
    expected[..5].copy_from_slice(b"early");
    expected[50_000..50_004].copy_from_slice(b"late");
    expected[99_999] = b'!';
    assert!(bytes == expected, "every other byte is zero");

    let writers: Vec<_> = (0..2_u8)
        .map(|writer| {
            let log = Arc::clone(&log);
            spawn(env, "writer", move || {
                for slot in 0..50 {
                    let offset = (slot * 2 + u64::from(writer)) * 10;
                    log.write_at(offset, &[b'a' + writer; 10]).unwrap();
                }
            })
        })
        .collect();
    assert!(writers.into_iter().all(crate::JobHandle::join));
    let bytes = read_file(env, path);
    for (index, &byte) in bytes[..1000].iter().enumerate() {
        assert_eq!(byte, b'a' + (index / 10 % 2) as u8);
    }
}

fn a_log_is_recycled_under_a_new_name(env: &SharedEnv, dir: &Path) {
    let (old, new) = (dir.join("1.log"), dir.join("2.log"));
    let log = env.fs().create_log(&old, 8_192).unwrap();
    log.write_at(4_000, b"old content").unwrap();
    drop(log);
    let log = env.fs().recycle_log(&old, &new).unwrap();
    assert_eq!(log.bytes(), 8_192);
    log.write_at(0, b"new").unwrap();
    assert_eq!(names(env, dir), ["2.log"]);
    let bytes = read_file(env, &new);
    assert_eq!(&bytes[..3], b"new");
    assert_eq!(&bytes[4_000..4_011], b"old content");
}

fn a_log_is_cut_behind_what_was_written(env: &SharedEnv, dir: &Path) {
    let path = dir.join("cut.log");
    let log = env.fs().create_log(&path, 100_000).unwrap();
    log.lay_out().unwrap();
    log.write_by_call(4_000, b"by a call").unwrap();
    log.write_at(9_990, b"the last").unwrap();
    log.let_go(log.bytes());
    log.write_at(9_000, b"after that").unwrap();
    log.sync().unwrap();
    assert!(log.cut(10_000).unwrap());
    assert_eq!(log.bytes(), 10_000);
    log.write_at(9_998, b"!!").unwrap();
    log.sync().unwrap();
    let mut expected = vec![0; 10_000];
    expected[4_000..4_009].copy_from_slice(b"by a call");
    expected[9_000..9_010].copy_from_slice(b"after that");
    expected[9_990..].copy_from_slice(b"the last!!");
    assert!(read_file(env, &path) == expected, "only what was written is there, up to the cut");
}

fn a_file_is_cut_by_any_of_its_names(env: &SharedEnv, dir: &Path) {
    let (path, other) = (dir.join("cut by name.log"), dir.join("other"));
    let log = env.fs().create_log(&path, 100_000).unwrap();
    log.write_at(0, b"stays").unwrap();
    log.write_at(9_000, b"goes").unwrap();
    log.sync().unwrap();
    drop(log);
    env.fs().link(&path, &other).unwrap();
    env.fs().cut(&path, 5).unwrap();
    assert_eq!(read_file(env, &other), b"stays");
    env.fs().cut(&other, 100).unwrap();
    assert_eq!(read_file(env, &path), b"stays", "a cut makes no file longer");
    let missing = env.fs().cut(&dir.join("missing"), 1);
    assert!(missing.is_err_and(|error| error.is_not_found()));
}

fn the_file_of_a_cache_is_written_anywhere_and_found_again(env: &SharedEnv, dir: &Path) {
    let path = dir.join("cache");
    let file = env.fs().open_cache(&path).unwrap();
    assert_eq!(file.bytes(), 0);
    file.write_at(5000, b"behind").unwrap();
    file.write_at(10, b"before").unwrap();
    file.write_at(5002, b"HI").unwrap();
    let read = |file: &dyn CacheFile, offset: u64, bytes: usize| {
        let mut buffer = vec![9; bytes];
        let count = file.read_at(offset, &mut buffer).unwrap();
        buffer.truncate(count);
        buffer
    };
    assert_eq!(read(&*file, 8, 9), b"\0\0before\0");
    assert_eq!(read(&*file, 5000, 10), b"beHInd", "it ends there");
    drop(file);
    let file = env.fs().open_cache(&path).unwrap();
    assert_eq!(file.bytes(), 5006);
    assert_eq!(read(&*file, 5000, 6), b"beHInd");
    env.fs().cut(&path, 5003).unwrap();
    assert_eq!(read(&*file, 5000, 6), b"beH");
    file.write_at(5004, b"!").unwrap();
    assert_eq!(read(&*file, 5000, 6), b"beH\0!", "what was cut off is gone");
    env.fs().create_dir_all(&dir.join("sub")).unwrap();
    assert!(env.fs().open_cache(&dir.join("sub")).is_err(), "a directory is no file");
}

fn a_read_that_must_not_wait_reads_the_same(env: &SharedEnv, dir: &Path) {
    let path = dir.join("file");
    write_file(env, &path, b"0123456789");
    let file = env.fs().open(&path).unwrap();
    for _ in 0..20 {
        let mut buffer = [0; 8];
        if let Some(count) = file.try_read_at(5, &mut buffer).unwrap() {
            assert_eq!(&buffer[..count], b"56789");
        }
    }
}

fn the_lock_of_a_directory_excludes(env: &SharedEnv, dir: &Path) {
    let exclusive = env.fs().lock_dir(dir, LockKind::Exclusive).unwrap();
    for kind in [LockKind::Exclusive, LockKind::Shared] {
        let error = env.fs().lock_dir(dir, kind).unwrap_err();
        assert!(error.is_locked(), "{error}");
    }
    drop(exclusive);
    let first = env.fs().lock_dir(dir, LockKind::Shared).unwrap();
    let second = env.fs().lock_dir(dir, LockKind::Shared).unwrap();
    drop(first);
    assert!(env.fs().lock_dir(dir, LockKind::Exclusive).unwrap_err().is_locked());
    drop(second);
    let _exclusive = env.fs().lock_dir(dir, LockKind::Exclusive).unwrap();
    assert_eq!(names(env, dir), ["LOCK"]);
}

fn a_directory_has_one_real_name(env: &SharedEnv, dir: &Path) {
    let inner = dir.join("inner");
    env.fs().create_dir_all(&inner).unwrap();
    let name = env.fs().real_dir(&inner).unwrap();
    assert!(name.is_absolute() && name.ends_with("inner"), "{name:?}");
    assert_eq!(env.fs().real_dir(&dir.join("./inner/")).unwrap(), name);
    assert_eq!(env.fs().real_dir(&name).unwrap(), name);
    assert_eq!(env.fs().real_dir(dir).unwrap(), name.parent().unwrap());
}

fn a_directory_is_no_file(env: &SharedEnv, dir: &Path) {
    use std::io::ErrorKind::{IsADirectory, NotADirectory};
    let (below, file) = (dir.join("below"), dir.join("file"));
    env.fs().create_dir_all(&below).unwrap();
    write_file(env, &file, b"x");
    assert_fails(env.fs().open(&below), Operation::Open, IsADirectory);
    assert_fails(env.fs().remove(&below), Operation::Remove, IsADirectory);
    assert_fails(env.fs().rename(&file, &below), Operation::Rename, IsADirectory);
    assert_fails(env.fs().create_dir_all(&file), Operation::CreateDir, NotADirectory);
    assert_fails(env.fs().create_dir_all(&file.join("x")), Operation::CreateDir, NotADirectory);
    assert_fails(env.fs().list(&file), Operation::List, NotADirectory);
    assert_fails(env.fs().sync_dir(&file), Operation::SyncDir, NotADirectory);
}

fn space_is_reported(env: &SharedEnv, dir: &Path) {
    assert!(env.fs().free_bytes(dir).unwrap() > 0);
    let below = dir.join("below");
    env.fs().create_dir_all(&below).unwrap();
    assert!(env.fs().are_on_one_device(dir, &below).unwrap());
    assert!(env.parallelism() > 0);
}

fn time_does_not_go_back(env: &SharedEnv, _dir: &Path) {
    let before = env.now();
    env.sleep(Duration::from_millis(2));
    assert!(env.now() >= before + Duration::from_millis(2));
    assert!(env.wall_time().0 > 1_600_000_000_000, "after September 2020");
    assert_ne!(env.random_u64(), env.random_u64());
}

fn a_thread_is_joined(env: &SharedEnv, _dir: &Path) {
    let sum = Arc::new(AtomicU64::new(0));
    let classes = [
        JobClass::Client,
        JobClass::Log,
        JobClass::Flush,
        JobClass::Compaction,
        JobClass::Maintenance,
    ];
    let jobs: Vec<_> = classes
        .into_iter()
        .map(|class| {
            let sum = Arc::clone(&sum);
            let job = Box::new(move || {
                sum.fetch_add(1, Ordering::Relaxed);
            });
            env.spawn(class, "worker", job).unwrap()
        })
        .collect();
    assert!(jobs.into_iter().all(crate::JobHandle::join));
    assert_eq!(sum.load(Ordering::Relaxed), classes.len() as u64);
}

fn a_signal_is_not_lost(env: &SharedEnv, _dir: &Path) {
    let signal = Arc::new(env.waits().signal());
    let stale = signal.ticket();
    signal.notify();
    signal.wait(stale);
    assert!(signal.wait_timeout(stale, Duration::from_secs(3600)));

    let count = Arc::new(AtomicU64::new(0));
    let notifier = {
        let (signal, count) = (Arc::clone(&signal), Arc::clone(&count));
        spawn(env, "notifier", move || {
            for _ in 0..100 {
                count.fetch_add(1, Ordering::Release);
                signal.notify();
            }
        })
    };
    loop {
        let ticket = signal.ticket();
        if count.load(Ordering::Acquire) == 100 {
            break;
        }
        signal.wait(ticket);
    }
    assert!(notifier.join());
}

fn a_wait_times_out(env: &SharedEnv, _dir: &Path) {
    let signal = env.waits().signal();
    let before = env.now();
    assert!(!signal.wait_timeout(signal.ticket(), Duration::from_millis(3)));
    assert!(env.now() >= before + Duration::from_millis(3));
    assert!(!signal.wait_timeout(signal.ticket(), Duration::ZERO));
}

fn a_mutex_excludes(env: &SharedEnv, _dir: &Path) {
    let total = Arc::new(env.waits().mutex(0_u64));
    let jobs: Vec<_> = (0..3)
        .map(|_| {
            let (total, env_of_job) = (Arc::clone(&total), Arc::clone(env));
            spawn(env, "adder", move || {
                for _ in 0..20 {
                    let mut total = total.lock();
                    let seen = *total;
                    env_of_job.now();
                    *total = seen + 1;
                }
            })
        })
        .collect();
    assert!(jobs.into_iter().all(crate::JobHandle::join));
    assert_eq!(*total.lock(), 60);
    let total = Arc::into_inner(total).unwrap();
    assert_eq!(total.into_inner(), 60);
}

fn a_hold_is_shared_or_exclusive(env: &SharedEnv, _dir: &Path) {
    let pair = Arc::new(env.waits().hold((0_u64, 0_u64)));
    let jobs: Vec<_> = (0..4)
        .map(|job| {
            let (pair, env_of_job) = (Arc::clone(&pair), Arc::clone(env));
            spawn(env, "holder", move || {
                for _ in 0..15 {
                    if job < 2 {
                        let pair = pair.shared();
                        assert_eq!(pair.0, pair.1);
                    } else {
                        let mut pair = pair.exclusive();
                        pair.0 += 1;
                        env_of_job.now();
                        pair.1 += 1;
                    }
                }
            })
        })
        .collect();
    assert!(jobs.into_iter().all(crate::JobHandle::join));
    assert_eq!(*pair.shared(), (30, 30));
}

fn locks_can_be_tried(env: &SharedEnv, _dir: &Path) {
    let waits = env.waits();
    let mut mutex = waits.mutex(1);
    let guard = mutex.lock();
    assert!(mutex.try_lock().is_none());
    drop(guard);
    *mutex.try_lock().unwrap() += 1;
    *mutex.get_mut() += 1;
    assert_eq!(mutex.into_inner(), 3);

    let mut hold = waits.hold(1);
    let shared = hold.shared();
    let also = hold.try_shared().unwrap();
    assert!(hold.try_exclusive().is_none());
    drop((shared, also));
    let exclusive = hold.exclusive();
    assert!(hold.try_shared().is_none());
    drop(exclusive);
    *hold.try_exclusive().unwrap() += 1;
    *hold.get_mut() += 1;
    assert_eq!(hold.into_inner(), 3);
}

fn a_page_of_an_area_has_one_owner(env: &SharedEnv, dir: &Path) {
    let pmem = env.fs().create_pmem(&dir.join("area"), 4 * PMEM_PAGE_BYTES).unwrap();
    let handle = pmem.clone();
    let first = pmem.claim(PMEM_PAGE_BYTES, PMEM_PAGE_BYTES).unwrap();
    assert_eq!((first.offset(), first.len() as u64), (PMEM_PAGE_BYTES, PMEM_PAGE_BYTES));
    let claimed = handle.claim(0, 4 * PMEM_PAGE_BYTES).unwrap_err();
    assert_eq!(claimed, PmemClaimed { offset: PMEM_PAGE_BYTES });
    assert!(claimed.to_string().contains("page at 4096"));
    let second = handle.claim(2 * PMEM_PAGE_BYTES, PMEM_PAGE_BYTES).unwrap();
    drop(first);
    assert!(pmem.claim(0, 2 * PMEM_PAGE_BYTES).is_ok());
    drop(second);
    assert!(pmem.claim(0, 4 * PMEM_PAGE_BYTES).is_ok());
}

fn what_was_stored_is_read_and_stays(env: &SharedEnv, dir: &Path) {
    let path = dir.join("area");
    let pmem = env.fs().create_pmem(&path, 3 * PMEM_PAGE_BYTES).unwrap();
    let mut span = pmem.claim(PMEM_PAGE_BYTES, 2 * PMEM_PAGE_BYTES).unwrap();
    assert!(span.iter().all(|&byte| byte == 0), "a new area is zeros");
    span.store(60, b"over the end of a line");
    span.store(2 * PMEM_PAGE_BYTES as usize - 1, b"!");
    span.store(5_000, b"");
    span.flush(60, 22);
    span.flush(2 * PMEM_PAGE_BYTES as usize - 1, 1);
    span.flush(7, 0);
    pmem.fence().unwrap();
    span.publish(64 * 9, 0x0807_0605_0403_0201);
    span.flush(64 * 9, 8);
    pmem.fence().unwrap();
    pmem.fence().unwrap();

    let mut expected = vec![0; 2 * PMEM_PAGE_BYTES as usize];
    expected[60..82].copy_from_slice(b"over the end of a line");
    expected[64 * 9..64 * 9 + 8].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
    *expected.last_mut().unwrap() = b'!';
    assert!(span[..] == expected);
    let bytes = read_file(env, &path);
    assert!(bytes[PMEM_PAGE_BYTES as usize..] == expected, "it is what the file holds");

    env.fs().sync_dir(dir).unwrap();
    drop((span, pmem));
    let pmem = env.fs().open_pmem(&path).unwrap();
    assert_eq!(pmem.bytes(), 3 * PMEM_PAGE_BYTES);
    let span = pmem.claim(PMEM_PAGE_BYTES, 2 * PMEM_PAGE_BYTES).unwrap();
    assert!(span[..] == expected, "after it was opened again");
}

fn an_area_is_mapped_once(env: &SharedEnv, dir: &Path) {
    let path = dir.join("area");
    let pmem = env.fs().create_pmem(&path, PMEM_PAGE_BYTES).unwrap();
    let span = pmem.claim(0, PMEM_PAGE_BYTES).unwrap();
    let handle = pmem.clone();
    drop(pmem);
    assert!(env.fs().open_pmem(&path).unwrap_err().is_locked());
    drop(handle);
    assert!(env.fs().open_pmem(&path).unwrap_err().is_locked(), "a span keeps it mapped");
    drop(span);
    let pmem = env.fs().open_pmem(&path).unwrap();
    assert!(env.fs().open_pmem(&path).unwrap_err().is_locked());
    env.fs().remove(&path).unwrap();
    let mut span = pmem.claim(0, PMEM_PAGE_BYTES).unwrap();
    span.store(0, b"a removed file stays mapped");
    assert_eq!(&span[..9], b"a removed");
    env.fs().create_pmem(&path, PMEM_PAGE_BYTES).unwrap();
}

fn an_area_is_a_file_of_its_size(env: &SharedEnv, dir: &Path) {
    use std::io::ErrorKind::{AlreadyExists, InvalidData, NotFound};
    let path = dir.join("area");
    assert_fails(env.fs().open_pmem(&path), Operation::Open, NotFound);
    let missing = dir.join("missing/area");
    assert_fails(env.fs().create_pmem(&missing, PMEM_PAGE_BYTES), Operation::Create, NotFound);
    drop(env.fs().create_pmem(&path, 5 * PMEM_PAGE_BYTES).unwrap());
    let again = env.fs().create_pmem(&path, PMEM_PAGE_BYTES);
    assert_fails(again, Operation::Create, AlreadyExists);
    assert_eq!(env.fs().list(dir).unwrap()[0].bytes, 5 * PMEM_PAGE_BYTES);
    assert!(read_file(env, &path).iter().all(|&byte| byte == 0));

    write_file(env, &dir.join("file"), &[7; PMEM_PAGE_BYTES as usize + 1]);
    assert_fails(env.fs().open_pmem(&dir.join("file")), Operation::Open, InvalidData);
    write_file(env, &dir.join("pages"), &[7; PMEM_PAGE_BYTES as usize]);
    let pmem = env.fs().open_pmem(&dir.join("pages")).unwrap();
    assert!(pmem.claim(0, PMEM_PAGE_BYTES).unwrap().iter().all(|&byte| byte == 7));
}

fn an_area_is_stored_to_by_many_threads(env: &SharedEnv, dir: &Path) {
    let pmem = env.fs().create_pmem(&dir.join("area"), 4 * PMEM_PAGE_BYTES).unwrap();
    let writers: Vec<_> = (0..4_u8)
        .map(|writer| {
            let pmem = pmem.clone();
            spawn(env, "writer", move || {
                for round in 0..10 {
                    let offset = u64::from((writer + round) % 4) * PMEM_PAGE_BYTES;
                    // Another writer may have the page.
                    let Ok(mut span) = pmem.claim(offset, PMEM_PAGE_BYTES) else { continue };
                    let before = u64::from_le_bytes(span[..8].try_into().unwrap());
                    span.store(64, &[writer; 100]);
                    span.flush(64, 100);
                    pmem.fence().unwrap();
                    assert_eq!(&span[64..164], &[writer; 100]);
                    span.publish(0, before + 1);
                    span.flush(0, 8);
                    pmem.fence().unwrap();
                    assert_eq!(span[..8], (before + 1).to_le_bytes());
                }
            })
        })
        .collect();
    assert!(writers.into_iter().all(crate::JobHandle::join));
    assert!(pmem.claim(0, 4 * PMEM_PAGE_BYTES).is_ok(), "every claim was given back");
}

#[test]
fn errors_say_what_failed_and_where() {
    let path = PathBuf::from("/no/such/file");
    let error = RealEnv::new().fs().open(&path).unwrap_err();
    assert!(error.to_string().starts_with("Open of /no/such/file failed: "), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}
