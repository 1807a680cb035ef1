//! Goal: an emulated disk is as slow as its profile says, and no slower. Method: virtual time, in
//! which nothing takes any but what is slept.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{AHEAD_MAX, DiskEnv, DiskProfile};
use crate::pmem::{Memory, PmemSide};
use crate::{
    Env, EnvResult, JobClass, PMEM_PAGE_BYTES, Pmem, PmemMedium, SharedEnv, SimEnv, SimOptions,
};

const MS: Duration = Duration::from_millis(1);
const NOTHING: Duration = Duration::ZERO;

/// Runs `test` on a disk of this profile, in a simulation whose disk has a file of 100,000 bytes.
fn on_disk(profile: &str, test: impl FnOnce(&SharedEnv) + Send) {
    let profile: DiskProfile = profile.parse().unwrap();
    let sim = SimOptions { try_read_miss_one_in: 0, ..SimOptions::new(1) };
    SimEnv::run(sim, |sim| {
        sim.fs().create_dir_all(Path::new("/d")).unwrap();
        let mut file = sim.fs().create(&at("old"), 0).unwrap();
        file.append(&vec![7; 100_000]).unwrap();
        file.finish().unwrap();
        let env: SharedEnv = DiskEnv::new(sim, profile);
        test(&env);
    });
}

fn at(name: &str) -> PathBuf {
    Path::new("/d").join(name)
}

fn time(env: &SharedEnv, act: impl FnOnce()) -> Duration {
    let before = env.now();
    act();
    env.now() - before
}

#[test]
fn a_read_takes_as_long_as_its_bytes() {
    on_disk("read=1MB/s", |env| {
        let file = env.fs().open(&at("old")).unwrap();
        let mut buffer = vec![0; 50_000];
        for _ in 0..3 {
            let took = time(env, || assert_eq!(file.read_at(0, &mut buffer).unwrap(), 50_000));
            assert_eq!(took, 50 * MS);
        }
        // What is not there takes no time.
        assert_eq!(
            time(env, || assert_eq!(file.read_at(1 << 20, &mut buffer).unwrap(), 0)),
            NOTHING
        );
    });
}

#[test]
fn a_read_that_must_not_wait_does_not() {
    on_disk("read=1MB/s", |env| {
        let file = env.fs().open(&at("old")).unwrap();
        let mut buffer = vec![0; 10_000];
        assert_eq!(
            time(env, || assert!(file.try_read_at(0, &mut buffer).unwrap().is_some())),
            NOTHING
        );
        assert_eq!(
            time(env, || assert!(file.try_read_at(0, &mut buffer).unwrap().is_none())),
            NOTHING
        );
        env.sleep(10 * MS);
        assert!(file.try_read_at(0, &mut buffer).unwrap().is_some(), "the device is idle again");
        assert_eq!(time(env, || assert!(file.read_at(0, &mut buffer).unwrap() > 0)), 20 * MS);
    });
}

#[test]
fn writes_run_ahead_by_a_bucket_and_a_sync_waits_for_all() {
    on_disk("write=1MB/s", |env| {
        let mut file = env.fs().create(&at("new"), 0).unwrap();
        assert_eq!(time(env, || file.append(&[1; 60_000]).unwrap()), NOTHING);
        assert_eq!(
            time(env, || file.append(&[1; 60_000]).unwrap()),
            20 * MS,
            "120 less the bucket"
        );
        assert_eq!(time(env, || file.sync().unwrap()), AHEAD_MAX);
        assert_eq!(time(env, || file.sync().unwrap()), NOTHING);
        let took = time(env, || (0..100).for_each(|_| file.append(&[1; 10_000]).unwrap()));
        assert_eq!(took, 900 * MS, "a million bytes, of which a tenth is on its way");
        assert_eq!(time(env, || file.finish().unwrap()), AHEAD_MAX);
    });
}

#[test]
fn a_mapped_log_counts_too() {
    on_disk("write=1MB/s", |env| {
        let log = env.fs().create_log(&at("log"), 1_000_000).unwrap();
        assert!(log.is_mapped());
        let took = time(env, || {
            (0..100).for_each(|index| log.write_at(index * 5000, &[1; 5000]).unwrap());
        });
        assert_eq!(took, 400 * MS);
        assert_eq!(time(env, || log.sync().unwrap()), AHEAD_MAX);
        drop(log);
        let log = env.fs().recycle_log(&at("log"), &at("log2")).unwrap();
        log.write_at(0, &[1; 50_000]).unwrap();
        assert_eq!(time(env, || log.sync().unwrap()), 50 * MS);
    });
}

#[test]
fn operations_are_bounded_together() {
    on_disk("iops=100", |env| {
        let file = time(env, || drop(env.fs().open(&at("old")).unwrap()));
        assert_eq!(file, 10 * MS);
        let file = env.fs().open(&at("old")).unwrap();
        let mut buffer = [0; 10];
        let took =
            time(env, || (0..5).for_each(|_| assert!(file.read_at(0, &mut buffer).unwrap() > 0)));
        assert_eq!(took, 50 * MS);
        let mut file = env.fs().create(&at("new"), 0).unwrap();
        (0..5).for_each(|_| file.append(b"x").unwrap());
        assert_eq!(time(env, || file.sync().unwrap()), 60 * MS, "five writes and the sync");
        assert_eq!(time(env, || env.fs().sync_dir(Path::new("/d")).unwrap()), 10 * MS);
        // Pages of a mapped log are written together.
        let log = env.fs().create_log(&at("log"), 100).unwrap();
        (0..50).for_each(|offset| log.write_at(offset, b"x").unwrap());
        assert_eq!(time(env, || log.sync().unwrap()), 10 * MS);
    });
}

#[test]
fn threads_share_the_device() {
    on_disk("read=1MB/s,write=1MB/s", |env| {
        let took = time(env, || {
            let jobs: Vec<_> = (0..4)
                .map(|job| {
                    let inner = Arc::clone(env);
                    let work = Box::new(move || {
                        let file = inner.fs().open(&at("old")).unwrap();
                        let mut buffer = vec![0; 25_000];
                        (0..4).for_each(|_| assert!(file.read_at(0, &mut buffer).unwrap() > 0));
                    });
                    env.spawn(JobClass::Client, &job.to_string(), work).unwrap()
                })
                .collect();
            assert!(jobs.into_iter().all(crate::JobHandle::join));
        });
        assert_eq!(took, 400 * MS, "four times 100,000 bytes");
    });
}

#[test]
fn without_bounds_nothing_waits() {
    SimEnv::run(SimOptions::new(2), |sim| {
        let env: SharedEnv = DiskEnv::new(sim, DiskProfile::default());
        let took = time(&env, || {
            env.fs().create_dir_all(Path::new("/d")).unwrap();
            let mut file = env.fs().create(&at("new"), 0).unwrap();
            file.append(&vec![1; 1 << 20]).unwrap();
            file.finish().unwrap();
        });
        assert_eq!(took, Duration::ZERO);
    });
}

/// An area of this medium whose fences take no time.
#[derive(Debug)]
struct Fast(PmemMedium);

impl PmemSide for Fast {
    fn medium(&self) -> PmemMedium {
        self.0
    }

    fn flush(&self, _offset: u64, _lines: &[u8]) {}

    fn fence(&self) -> EnvResult<()> {
        Ok(())
    }
}

#[test]
fn a_fence_of_a_mapped_file_writes_its_pages() {
    for (medium, factor) in [(PmemMedium::File, 1), (PmemMedium::Emulated, 0)] {
        SimEnv::run(SimOptions::new(1), |sim| {
            let disk = DiskEnv::new(sim, "write=4096KB/s,iops=1000".parse().unwrap());
            let memory = Memory::zeroed(4 * PMEM_PAGE_BYTES);
            let pmem = disk.fs.pmem(Pmem::new(memory, Arc::new(Fast(medium))));
            assert_eq!(pmem.medium(), medium);
            let span = pmem.claim(0, 4 * PMEM_PAGE_BYTES).unwrap();
            let env: SharedEnv = disk;
            span.flush(0, 1);
            span.flush(100, 1);
            span.flush(4000, 200);
            let took = time(&env, || pmem.fence().unwrap());
            assert_eq!(took, 2 * MS * factor, "two pages, and the operation meanwhile");
            let took = time(&env, || pmem.fence().unwrap());
            assert_eq!(took, MS * factor, "nothing new, but a sync is an operation");
        });
    }
}

/// A medium beside the disk is as fast as it is, for tables; the disk stays what it is.
#[test]
fn what_is_on_another_medium_is_not_held() {
    SimEnv::run(SimOptions::new(1), |sim| {
        for dir in ["/d", "/m"] {
            sim.fs().create_dir_all(Path::new(dir)).unwrap();
        }
        let profile = "read=1MB/s,write=1MB/s,iops=100".parse().unwrap();
        let env: SharedEnv = DiskEnv::beside(sim, profile, vec!["/m".into()]);
        let write = |dir: &str| {
            let dir = Path::new(dir);
            let mut file = env.fs().create(&dir.join("f"), 0).unwrap();
            file.append(&vec![7; 500_000]).unwrap();
            file.finish().unwrap();
            env.fs().sync_dir(dir).unwrap();
            let file = env.fs().open(&dir.join("f")).unwrap();
            assert_eq!(file.read_at(0, &mut vec![0; 500_000]).unwrap(), 500_000);
            env.fs().remove(&dir.join("f")).unwrap();
        };
        assert_eq!(time(&env, || write("/m")), NOTHING);
        assert!(time(&env, || write("/d")) >= 1000 * MS);
    });
}
