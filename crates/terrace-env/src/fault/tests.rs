//! Goal: every call can be made to fail, and only that one. Method: a reference run counts the
//! calls of a workload; a sweep repeats it with each of them failing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan};
use crate::{
    CrashPolicy, Env, EnvError, EnvResult, JobClass, LockKind, Operation, PMEM_PAGE_BYTES,
    PmemMedium, RealEnv, SharedEnv, SimEnv, SimOptions,
};

/// One call of every kind.
fn workload(env: &dyn Env, dir: &Path) -> EnvResult<()> {
    let fs = env.fs();
    fs.create_dir_all(dir)?;
    let _lock = fs.lock_dir(dir, LockKind::Exclusive)?;
    fs.free_bytes(dir)?;
    assert!(fs.are_on_one_device(dir, dir)?);
    let mut file = fs.create(&dir.join("a"), 100)?;
    file.append(b"0123456789")?;
    file.sync()?;
    file.finish()?;
    fs.link(&dir.join("a"), &dir.join("b"))?;
    fs.rename(&dir.join("a"), &dir.join("c"))?;
    let file = fs.open(&dir.join("c"))?;
    let mut buffer = [0; 10];
    file.read_at(0, &mut buffer)?;
    file.try_read_at(0, &mut buffer)?;
    let log = fs.create_log(&dir.join("log"), 100)?;
    log.write_at(0, b"record")?;
    log.sync()?;
    drop(log);
    let pmem = fs.create_pmem(&dir.join("pmem"), PMEM_PAGE_BYTES)?;
    pmem.fence()?;
    drop(pmem);
    drop(fs.open_pmem(&dir.join("pmem"))?);
    drop(fs.recycle_log(&dir.join("log"), &dir.join("log2"))?);
    fs.sync_dir(dir)?;
    fs.list(dir)?;
    fs.remove(&dir.join("b"))?;
    let job = env.spawn(JobClass::Client, "job", Box::new(|| ()))?;
    assert!(job.join());
    Ok(())
}

/// Runs the workload with this plan in the simulation; also returns the faults and the number of
/// calls.
fn run(plan: FaultPlan) -> (EnvResult<()>, Vec<super::InjectedFault>, u64, Duration) {
    SimEnv::run(SimOptions::new(1), |sim| {
        let env = FaultEnv::new(sim.clone(), plan);
        let result = workload(&*env, Path::new("/d"));
        (result, env.injected(), env.calls(), sim.now())
    })
}

#[test]
fn without_faults_every_call_is_counted_and_passes() {
    let dir = tempfile::tempdir().unwrap();
    let env = FaultEnv::new(RealEnv::new(), FaultPlan::default());
    workload(&*env, &dir.path().join("d")).unwrap();
    let counts: Vec<(Operation, u64)> = env.counts().into_iter().collect();
    use Operation::*;
    let expected = [
        (CreateDir, 1),
        (List, 1),
        (SyncDir, 1),
        (Lock, 1),
        (FreeSpace, 1),
        (FindDevice, 1),
        (Open, 2),
        (Create, 3),
        (Preallocate, 3),
        (Read, 2),
        (Write, 2),
        (Sync, 4),
        (Rename, 2),
        (Link, 1),
        (Remove, 1),
        (Spawn, 1),
    ];
    assert_eq!(counts, expected);
    assert_eq!(env.calls(), expected.iter().map(|(_, count)| count).sum::<u64>());
    assert!(env.injected().is_empty());
}

#[test]
fn each_call_can_be_made_to_fail() {
    let (_, _, calls, _) = run(FaultPlan::default());
    let kinds = [
        (FaultErrno::Io, rustix::io::Errno::IO),
        (FaultErrno::NoSpace, rustix::io::Errno::NOSPC),
        (FaultErrno::Interrupted, rustix::io::Errno::INTR),
        (FaultErrno::Again, rustix::io::Errno::AGAIN),
        (FaultErrno::TooManyFiles, rustix::io::Errno::MFILE),
    ];
    for call in 1..=calls {
        for (errno, expected) in kinds {
            for effect in [FaultEffect::Error(errno), FaultEffect::ShortWrite(errno)] {
                let (result, injected, made, _) = run(FaultPlan::one(Fault::any(call, effect)));
                let error: EnvError = result.unwrap_err();
                assert_eq!(error.source.raw_os_error(), Some(expected.raw_os_error()));
                assert_eq!(injected.len(), 1, "call {call}");
                assert_eq!((injected[0].call, made), (call, call), "it was the last call");
                assert_eq!(injected[0].operation, error.operation);
                assert_eq!(injected[0].path, error.path);
                assert_eq!(injected[0].effect, effect);
            }
        }
    }
}

#[test]
fn the_nth_call_of_each_operation_fails() {
    let env = FaultEnv::new(RealEnv::new(), FaultPlan::default());
    let dir = tempfile::tempdir().unwrap();
    workload(&*env, &dir.path().join("d")).unwrap();
    for (operation, count) in env.counts() {
        for nth in 1..=count {
            let fault = Fault::nth(operation, nth, FaultEffect::Error(FaultErrno::Io));
            let (result, injected, ..) = run(FaultPlan::one(fault));
            assert_eq!(result.unwrap_err().operation, operation);
            assert_eq!(injected.len(), 1);
        }
        let fault = Fault::nth(operation, count + 1, FaultEffect::Error(FaultErrno::Io));
        let (result, injected, ..) = run(FaultPlan::one(fault));
        assert!(result.is_ok() && injected.is_empty(), "{operation:?} has {count} calls");
    }
}

#[test]
fn a_delayed_call_succeeds_later() {
    let hour = Duration::from_secs(3600);
    let fault = Fault::from_nth(Operation::Sync, 3, FaultEffect::Delay(hour));
    let (result, injected, _, passed) = run(FaultPlan::one(fault));
    result.unwrap();
    assert_eq!(injected.len(), 2);
    assert_eq!(passed, 2 * hour);
}

#[test]
fn the_plan_can_be_changed_and_choose_by_path() {
    let dir = tempfile::tempdir().unwrap();
    let env = FaultEnv::new(RealEnv::new(), FaultPlan::default());
    let create = |name: &str| env.fs().create(&dir.path().join(name), 0).map(|_| ());
    create("one.log").unwrap();
    let error = FaultEffect::Error(FaultErrno::NoSpace);
    env.set_plan(FaultPlan::one(Fault::from_nth(Operation::Create, 2, error).on(".log")));
    create("two.log").unwrap();
    create("one.table").unwrap();
    for _ in 0..2 {
        assert!(create("three.log").unwrap_err().is_no_space());
    }
    create("two.table").unwrap();
    env.set_plan(FaultPlan::one(Fault::nth(Operation::Create, 1, error)));
    assert!(create("three.table").unwrap_err().is_no_space(), "a new plan counts anew");
    env.set_plan(FaultPlan::default());
    create("three.log").unwrap();
    assert_eq!(env.injected().len(), 3);
    assert_eq!(env.counts()[&Operation::Create], 8);
}

#[test]
fn a_short_write_leaves_its_first_half() {
    SimEnv::run(SimOptions::new(1), |sim| {
        let fault =
            Fault::from_nth(Operation::Write, 1, FaultEffect::ShortWrite(FaultErrno::NoSpace));
        let env = FaultEnv::new(sim.clone(), FaultPlan::one(fault));
        env.fs().create_dir_all(Path::new("/d")).unwrap();
        let mut file = env.fs().create(Path::new("/d/table"), 0).unwrap();
        assert!(file.append(b"01234567").unwrap_err().is_no_space());
        let log = env.fs().create_log(Path::new("/d/log"), 8).unwrap();
        assert!(!log.is_mapped(), "a mapped write cannot fail");
        assert!(log.write_at(2, b"abcd").unwrap_err().is_no_space());
        assert_eq!(sim.disk().read(Path::new("/d/table")).unwrap(), b"0123");
        assert_eq!(sim.disk().read(Path::new("/d/log")).unwrap(), b"\0\0ab\0\0\0\0");
    });
}

#[test]
fn bytes_whose_sync_failed_stay_lost() {
    SimEnv::run(SimOptions::new(1), |sim| {
        let fault = Fault::nth(Operation::Sync, 1, FaultEffect::Error(FaultErrno::Io));
        let env = FaultEnv::new(sim.clone(), FaultPlan::one(fault));
        env.fs().create_dir_all(Path::new("/d")).unwrap();
        let log = env.fs().create_log(Path::new("/d/log"), 8).unwrap();
        env.fs().sync_dir(Path::new("/d")).unwrap();
        log.write_at(0, b"record").unwrap();
        assert!(log.sync().is_err());
        log.sync().unwrap();
        let left = sim.disk().crash(CrashPolicy::SyncedOnly, 0);
        assert_eq!(left.read(Path::new("/d/log")).unwrap(), b"", "the retry made nothing durable");
        env.fs().sync_file(Path::new("/d/log")).unwrap();
        let left = sim.disk().crash(CrashPolicy::SyncedOnly, 0).read(Path::new("/d/log")).unwrap();
        assert_eq!(left, [0; 8], "nor does the sync of whoever opens the file later");
    });
}

#[test]
fn a_faulty_environment_can_be_shared() {
    let env: SharedEnv = FaultEnv::new(RealEnv::new(), FaultPlan::default());
    assert_eq!(format!("{env:?}"), "FaultEnv { inner: RealEnv, .. }");
    assert_eq!(format!("{:?}", Arc::clone(&env).fs()), "FaultFileSystem");
}

#[test]
fn areas_are_created_opened_and_fenced_by_plan() {
    SimEnv::run(SimOptions::new(1), |sim| {
        let env = FaultEnv::new(sim.clone(), FaultPlan::default());
        let path = Path::new("/d/area");
        env.fs().create_dir_all(Path::new("/d")).unwrap();
        let error = FaultEffect::Error(FaultErrno::NoSpace);
        for operation in [Operation::Create, Operation::Preallocate] {
            env.set_plan(FaultPlan::one(Fault::nth(operation, 1, error)));
            let failed = env.fs().create_pmem(path, PMEM_PAGE_BYTES).unwrap_err();
            assert_eq!(failed.operation, operation);
            assert!(sim.disk().read(path).is_err(), "nothing was created");
        }
        let pmem = env.fs().create_pmem(path, PMEM_PAGE_BYTES).unwrap();
        assert_eq!(pmem.medium(), PmemMedium::Simulated);
        env.fs().sync_dir(Path::new("/d")).unwrap();
        let mut span = pmem.claim(0, PMEM_PAGE_BYTES).unwrap();
        span.publish(0, 7);
        span.flush(0, 8);
        env.set_plan(FaultPlan::one(Fault::nth(Operation::Sync, 1, error)));
        assert!(pmem.fence().unwrap_err().is_no_space());
        pmem.fence().unwrap();
        let left = sim.disk().crash(CrashPolicy::SyncedOnly, 0).read(path).unwrap();
        assert_eq!(left[0], 0, "the retry made nothing durable");
        drop((span, pmem));

        env.set_plan(FaultPlan::one(Fault::nth(Operation::Open, 1, error)));
        assert_eq!(env.fs().open_pmem(path).unwrap_err().operation, Operation::Open);
        let pmem = env.fs().open_pmem(path).unwrap();
        assert_eq!(pmem.claim(0, PMEM_PAGE_BYTES).unwrap()[0], 7);
    });
}
