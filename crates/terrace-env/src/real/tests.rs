//! Goal: what only a real file system shows. Method: look at the files from outside, through
//! another open or another process's eyes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::{Env, JobClass, LockKind, Operation, RealEnv};

/// A directory on a file system in memory, if this machine has one.
fn memory_dir() -> Option<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").ok()
}

fn written_log_is_seen_by_others(dir: &Path) -> bool {
    let env = RealEnv::new();
    let path = dir.join("log");
    let log = env.fs().create_log(&path, 1 << 20).unwrap();
    log.write_at(5_000, b"mapped").unwrap();
    let other = fs::File::open(&path).unwrap();
    let mut buffer = [0; 8];
    other.read_exact_at(&mut buffer, 4_999).unwrap();
    assert_eq!(&buffer, b"\0mapped\0", "without a sync or a close");
    let mut buffer = [0; 6];
    let read = env.fs().open(&path).unwrap();
    assert_eq!(read.read_at(5_000, &mut buffer).unwrap(), 6);
    assert_eq!(&buffer, b"mapped");
    log.sync().unwrap();
    let metadata = other.metadata().unwrap();
    assert_eq!(metadata.size(), 1 << 20);
    assert!(metadata.blocks() * 512 >= 1 << 20, "all of it has its space");

    let recycled = env.fs().recycle_log(&path, &dir.join("log2")).unwrap();
    recycled.write_at(5_001, b"A").unwrap();
    other.read_exact_at(&mut buffer, 5_000).unwrap();
    assert_eq!(&buffer, b"mApped");
    assert_eq!(log.is_mapped(), recycled.is_mapped());
    log.is_mapped()
}

#[test]
fn a_write_through_the_mapping_is_seen_by_others() {
    let dir = tempfile::tempdir().unwrap();
    written_log_is_seen_by_others(dir.path());
    if let Some(dir) = memory_dir() {
        assert!(written_log_is_seen_by_others(dir.path()), "a file system in memory is safe");
    }
}

#[test]
fn reserved_space_is_taken_and_what_is_left_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table");
    let mut file = RealEnv::new().fs().create(&path, 1 << 20).unwrap();
    file.append(b"short").unwrap();
    let reserved = fs::metadata(&path).unwrap();
    assert_eq!(reserved.size(), 5, "a crash leaves no tail of zeros");
    file.finish().unwrap();
    let finished = fs::metadata(&path).unwrap();
    assert_eq!(finished.size(), 5);
    assert!(finished.blocks() <= reserved.blocks());
    assert!(finished.blocks() * 512 < 1 << 20);
}

#[test]
fn a_file_that_cannot_be_reserved_is_not_left_behind() {
    let Some(dir) = memory_dir() else { return };
    let env = RealEnv::new();
    let too_much = 1 << 60;
    for error in [
        env.fs().create(&dir.path().join("table"), too_much).unwrap_err(),
        env.fs().create_log(&dir.path().join("log"), too_much).unwrap_err(),
    ] {
        assert_eq!(error.operation, Operation::Preallocate);
        assert!(error.is_no_space(), "{error}");
    }
    assert!(env.fs().list(dir.path()).unwrap().is_empty());
}

#[test]
fn a_read_that_must_not_wait_finds_what_is_in_memory() {
    for dir in [tempfile::tempdir().ok(), memory_dir()].into_iter().flatten() {
        let path = dir.path().join("file");
        fs::write(&path, [7; 10_000]).unwrap();
        let file = RealEnv::new().fs().open(&path).unwrap();
        let mut buffer = [0; 6_000];
        // It was just read, so it is in memory unless the machine is short of it; then nothing is
        // found, which is right too.
        file.read_at(5_000, &mut buffer).unwrap();
        let found = file.try_read_at(5_000, &mut buffer).unwrap();
        assert!(found.is_none_or(|count| count == 5_000), "{found:?}");
    }
    if let Some(dir) = memory_dir() {
        fs::write(dir.path().join("file"), [7; 10]).unwrap();
        let file = RealEnv::new().fs().open(&dir.path().join("file")).unwrap();
        for _ in 0..2 {
            assert_eq!(file.try_read_at(4, &mut [0; 10]).unwrap(), Some(6), "never a device");
        }
    }
}

#[test]
fn a_taken_lock_says_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::new();
    let _lock = env.fs().lock_dir(dir.path(), LockKind::Exclusive).unwrap();
    let error = RealEnv::new().fs().lock_dir(dir.path(), LockKind::Shared).unwrap_err();
    assert!(error.is_locked());
    assert!(error.to_string().contains("held by this process"), "{error}");
}

#[test]
fn a_stale_lock_file_is_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    fs::File::create(dir.path().join("LOCK")).unwrap().write_all(b"12345 of long ago").unwrap();
    let _lock = RealEnv::new().fs().lock_dir(dir.path(), LockKind::Exclusive).unwrap();
    let holder = fs::read_to_string(dir.path().join("LOCK")).unwrap();
    assert_eq!(holder, std::process::id().to_string());
}

#[test]
fn directories_are_made_relative_to_the_current_one_too() {
    let env = RealEnv::new();
    env.fs().create_dir_all(Path::new(".")).unwrap();
    env.fs().create_dir_all(Path::new("/")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    env.fs().create_dir_all(&dir.path().join("a/b/c")).unwrap();
    assert!(dir.path().join("a/b/c").is_dir());
}

#[test]
fn background_threads_run_below_the_others() {
    let env = RealEnv::new();
    let niceness = |class| {
        let found = Arc::new(AtomicI32::new(-1));
        let own = Arc::clone(&found);
        let job = move || {
            let nice = rustix::process::getpriority_process(Some(rustix::thread::gettid()));
            own.store(nice.unwrap(), Ordering::Relaxed);
        };
        assert!(env.spawn(class, "nice", Box::new(job)).unwrap().join());
        found.load(Ordering::Relaxed)
    };
    let client = niceness(JobClass::Client);
    assert_eq!(niceness(JobClass::Log), client);
    let flush = niceness(JobClass::Flush);
    let compaction = niceness(JobClass::Compaction);
    assert!(client <= flush && flush <= compaction, "{client} {flush} {compaction}");
    assert_eq!(niceness(JobClass::Maintenance), compaction);
}

#[test]
fn threads_carry_their_class_and_name() {
    let env = RealEnv::new();
    let job = Box::new(|| {
        assert_eq!(std::thread::current().name(), Some("terrace-flush-7"));
    });
    assert!(env.spawn(JobClass::Flush, "7", job).unwrap().join());
    let job = Box::new(|| std::panic::resume_unwind(Box::new(())));
    assert!(!env.spawn(JobClass::Client, "8", job).unwrap().join(), "it panicked");
}

#[test]
fn a_failed_sync_is_never_tried_again() {
    let synced = super::files::OneSync::default();
    // A pipe cannot be synced.
    let (_reader, writer) = std::io::pipe().unwrap();
    let pipe = fs::File::from(std::os::fd::OwnedFd::from(writer));
    let first = synced.sync(&pipe).unwrap_err();
    let file = tempfile::tempfile().unwrap();
    let second = synced.sync(&file).unwrap_err();
    assert_eq!(first.raw_os_error(), second.raw_os_error());
}
