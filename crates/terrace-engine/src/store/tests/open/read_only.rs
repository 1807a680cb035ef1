//! Ranges that are only read: they change no byte and start no work.

use terrace_base::KeyRange;
use terrace_env::CrashPolicy;

use crate::Error;
use crate::store::tests::*;

#[test]
fn reading_only_changes_no_byte() -> Result<()> {
    let image = SimEnv::run(SimOptions::new(4), |env| {
        let shared: SharedEnv = Arc::<SimEnv>::clone(&env);
        let store = open(&shared, &small())?;
        for round in 0..500 {
            put(&store, &format!("{round}"), &"x".repeat(100))?;
        }
        Ok::<_, Error>(env.disk())
    })?;
    let crashed = image.crash(CrashPolicy::ProcessKill, 0);
    let before = crashed.files();
    let options = SimOptions { disk: crashed, ..SimOptions::new(5) };
    SimEnv::run(options, |env| {
        let shared: SharedEnv = Arc::<SimEnv>::clone(&env);
        let store = open(&shared, &Options { read_only: true, ..small() })?;
        assert_eq!(get(&store, "499")?.as_deref(), Some("x".repeat(100).as_str()));
        assert_eq!(env.disk().files(), before);
        Ok(())
    })
}

#[test]
fn a_range_that_is_only_read_starts_no_work() -> Result<()> {
    let disk = killed(11, |env| {
        let store = open(env, &lazy())?;
        for _ in 0..4 {
            put(&store, "a", "1")?;
            store.flush()?;
        }
        Ok(store)
    });
    let full = killed(12, |env| {
        let store = open(env, &Options { memtable_bytes: 1 << 20, ..lazy() })?;
        for index in 0..400 {
            put(&store, &format!("{index}"), &"x".repeat(100))?;
        }
        Ok(store)
    });
    for disk in [disk, full] {
        let before = disk.files();
        SimEnv::run(SimOptions { disk, ..SimOptions::new(3) }, |sim| {
            let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
            let store = open(&env, &Options { read_only: true, ..small() })?;
            assert!(matches!(store.flush(), Err(Error::ReadOnly)));
            assert!(matches!(store.compact(&KeyRange::all()), Err(Error::ReadOnly)));
            store.settle();
            store.close()?;
            assert_eq!(sim.disk().files(), before);
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}
