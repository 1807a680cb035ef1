//! Checkpoints: each is the range at one moment, whole or not there, and no part of its source.

use std::path::PathBuf;
use std::sync::Mutex;

use terrace_base::KeyRange;
use terrace_env::{CrashPolicy, Fault, FaultEffect, FaultEnv, FaultErrno, FaultPlan, JobClass};

use crate::check::{CheckDepth, check_dir};
use crate::store::tests::workload::{Model, Shape, content, draw_options};
use crate::store::tests::*;
use crate::store::{CheckpointReport, GetOptions};
use crate::{Error, table};

fn copy_dir(number: usize) -> PathBuf {
    PathBuf::from(format!("/copies/{number}"))
}

fn checkpoint(store: &Store, dir: &Path) -> Result<CheckpointReport> {
    store.checkpoint(dir, &mut |done, total| {
        assert!(done <= total, "{done} of {total}");
        true
    })
}

/// Opens what must be there.
fn open_copy(env: &SharedEnv, dir: &Path) -> Result<Store> {
    Store::open(&process(env)?, dir, Options { create_if_missing: false, ..small() })
}

fn check_clean(env: &SharedEnv, dir: &Path) -> Result<()> {
    let report = check_dir(env, dir, CheckDepth::Full, &mut |_, _| ())?;
    assert!(report.is_clean(), "{report}");
    Ok(())
}

/// SeededRng writes with checkpoints in between; at the end each still holds its own moment.
fn run_against_model(seed: u64) -> Result<()> {
    simulate(seed, |env| {
        let mut random = SeededRng::new(seed);
        let options = draw_options(&mut random);
        let shape = Shape::draw(&mut random);
        let mut model = Model::default();
        let mut moments = Vec::new();
        let store = open(env, &options)?;
        for step in 0..200 {
            let now = env.wall_time();
            let count = random.below(6) + 1;
            model.write(&store, &shape.changes(&mut random, now, count))?;
            match random.below(50) {
                0 => {
                    let before = env.wall_time();
                    let number = moments.len();
                    let report = checkpoint(&store, &copy_dir(number))?;
                    // What lies in an object store has no second name.
                    let may_copy = options.cloud.is_some();
                    assert!(report.copied_count == 0 || may_copy, "one file system");
                    check_clean(env, &copy_dir(number))?;
                    let copy = open_copy(env, &copy_dir(number))?;
                    let found = content(&copy)?;
                    if env.wall_time() == before {
                        assert_eq!(found, model.content(before), "step {step}");
                    }
                    // It goes on by itself, and its source does not see that.
                    put(&copy, "only in the copy", &number.to_string())?;
                    copy.compact(&KeyRange::all())?;
                    copy.close()?;
                    moments.push(found);
                }
                1 => store.compact(&KeyRange::all())?,
                2 => store.flush()?,
                _ => {}
            }
        }
        let mut batch = WriteBatch::new();
        batch.delete_range(b"", &[0xff; 64])?;
        store.write(&batch, &WriteOptions::default())?;
        store.compact(&KeyRange::all())?;
        store.close()?;
        drop(store);
        check_clean(env, Path::new(DIR))?;
        for (number, moment) in moments.into_iter().enumerate() {
            check_clean(env, &copy_dir(number))?;
            let copy = open_copy(env, &copy_dir(number))?;
            assert_eq!(get(&copy, "only in the copy")?, Some(number.to_string()));
            let mut found = content(&copy)?;
            found.retain(|(key, _)| key != b"only in the copy");
            // What has expired meanwhile is gone in the copy too.
            assert!(found.iter().all(|entry| moment.contains(entry)), "checkpoint {number}");
            copy.close()?;
        }
        Ok(())
    })
}

#[test]
fn a_checkpoint_is_the_range_at_its_moment_and_stays_so() {
    for seed in 0..20 {
        if let Err(error) = run_against_model(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

/// Clients write batches that span the dranges, while checkpoints are taken.
fn run_beside_writers(seed: u64) -> Result<()> {
    simulate(seed, |env| {
        let options = Options {
            drange_boundaries: vec![b"f".to_vec(), b"p".to_vec()],
            memtable_bytes: 16 << 10,
            ..small()
        };
        let store = open(env, &options)?;
        let acknowledged: Arc<[Mutex<u64>; 2]> = Arc::default();
        let clients: Vec<_> = (0..2)
            .map(|client| {
                let (store, acknowledged) = (store.clone(), Arc::clone(&acknowledged));
                let job = Box::new(move || {
                    for round in 1..=60_u64 {
                        let mut batch = WriteBatch::new();
                        for place in ["a", "g", "q"] {
                            let key = format!("{place}/{client}");
                            batch.put(key.as_bytes(), &round.to_le_bytes().repeat(30)).unwrap();
                        }
                        store.write(&batch, &WriteOptions::default()).unwrap();
                        *acknowledged[client].lock().unwrap() = round;
                    }
                });
                env.spawn(JobClass::Client, &client.to_string(), job).unwrap()
            })
            .collect();
        for number in 0..4 {
            let before: Vec<u64> =
                acknowledged.iter().map(|round| *round.lock().unwrap()).collect();
            checkpoint(&store, &copy_dir(number))?;
            let copy = open_copy(env, &copy_dir(number))?;
            for (client, before) in before.into_iter().enumerate() {
                let rounds: Vec<u64> = ["a", "g", "q"]
                    .iter()
                    .map(|place| {
                        let key = format!("{place}/{client}");
                        let item = copy.get(key.as_bytes(), &GetOptions::default()).unwrap();
                        item.map_or(0, |item| {
                            u64::from_le_bytes(item.value[..8].try_into().unwrap())
                        })
                    })
                    .collect();
                assert!(rounds.iter().all(|round| *round == rounds[0]), "half a batch: {rounds:?}");
                assert!(rounds[0] >= before, "{rounds:?}, but {before} was acknowledged before");
            }
            copy.close()?;
        }
        assert!(clients.into_iter().all(terrace_env::JobHandle::join));
        store.close()
    })
}

#[test]
fn a_checkpoint_beside_writers_holds_every_batch_whole_or_not() {
    for seed in 0..60 {
        if let Err(error) = run_beside_writers(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

fn fill(store: &Store) -> Result<()> {
    for round in 0..3 {
        for index in 0..60 {
            put(store, &format!("key {index:03}"), &format!("{round}/{index} ").repeat(20))?;
        }
        store.flush()?;
    }
    store.compact(&KeyRange::all())?;
    for index in 20..40 {
        put(store, &format!("key {index:03}"), &"newest ".repeat(20))?;
    }
    Ok(())
}

#[test]
fn a_crash_leaves_a_whole_checkpoint_or_none() {
    let ((wanted, after), moments) = with_moments(7, |env, watch| {
        let store = open(env, &small()).unwrap();
        fill(&store).unwrap();
        store.settle();
        let wanted = content(&store).unwrap();
        watch.during(|| checkpoint(&store, &copy_dir(0))).unwrap();
        (wanted, env.fs().list(&copy_dir(0)).unwrap().len())
    });
    assert!(after > 3, "{after} files");
    let (mut whole, mut none) = (0, 0);
    for (index, moment) in moments.iter().enumerate() {
        for policy in CrashPolicy::ALL {
            let disk = moment.crash(policy, index as u64);
            let sim = SimOptions { disk, ..SimOptions::new(index as u64 + 100) };
            SimEnv::run(sim, |env| {
                let env: SharedEnv = env;
                match open_copy(&env, &copy_dir(0)) {
                    Ok(copy) => {
                        assert_eq!(content(&copy).unwrap(), wanted, "moment {index}, {policy:?}");
                        copy.close().unwrap();
                        drop(copy);
                        check_clean(&env, &copy_dir(0)).unwrap();
                        whole += 1;
                    }
                    Err(_) => none += 1,
                }
                let source = open(&env, &small()).unwrap();
                let report = source.check(&mut |_, _| ()).unwrap();
                assert!(report.is_clean(), "{report}");
                if policy == CrashPolicy::ProcessKill {
                    assert_eq!(content(&source).unwrap(), wanted);
                }
            });
        }
    }
    assert!(whole > 0 && none > 0, "{whole} whole, {none} not there");
}

/// Every call that a checkpoint makes fails once.
#[test]
fn a_failed_checkpoint_leaves_nothing_and_its_source_as_it_was() {
    let mut call = 1;
    let mut failures = 0;
    loop {
        let is_over = with_faults(3, |_, faults, env| {
            let store = open(env, &small()).unwrap();
            fill(&store).unwrap();
            store.flush().unwrap();
            store.settle();
            let wanted = content(&store).unwrap();
            let error = FaultEffect::Error(FaultErrno::Io);
            let fault = Fault::any(call, error).on("/copies");
            faults.set_plan(FaultPlan::one(fault));
            let outcome = checkpoint(&store, &copy_dir(0));
            let is_hit = !faults.injected().is_empty();
            faults.set_plan(FaultPlan::default());
            assert_eq!(outcome.is_err(), is_hit, "call {call}: {outcome:?}");
            if let Err(error) = outcome {
                assert!(matches!(error, Error::Io(_)), "call {call}: {error}");
                if env.fs().list(Path::new("/copies")).is_ok() {
                    assert!(open_copy(env, &copy_dir(0)).is_err(), "call {call}");
                }
                // The next one goes through, into the same directory too.
                checkpoint(&store, &copy_dir(0)).unwrap();
            }
            let copy = open_copy(env, &copy_dir(0)).unwrap();
            assert_eq!(content(&copy).unwrap(), wanted);
            put(&store, "after", "it").unwrap();
            store.flush().unwrap();
            store.close().unwrap();
            !is_hit
        });
        if is_over {
            break;
        }
        failures += 1;
        call += 1;
    }
    assert!(failures > 15, "{failures} calls");
}

#[test]
fn where_links_do_not_reach_tables_are_copied() {
    simulate(5, |env| {
        let faults = FaultEnv::new(Arc::clone(env), FaultPlan::default());
        let env: SharedEnv = faults.clone();
        let store = open(&env, &small()).unwrap();
        fill(&store).unwrap();
        store.settle();
        let refused = FaultEffect::Error(FaultErrno::CrossDevice);
        let fault = Fault::from_nth(terrace_env::Operation::Link, 1, refused);
        faults.set_plan(FaultPlan::one(fault));
        let report = checkpoint(&store, &copy_dir(0)).unwrap();
        assert!(report.copied_count > 0 && report.linked_count == 0, "{report:?}");
        check_clean(&env, &copy_dir(0)).unwrap();
        let copy = open_copy(&env, &copy_dir(0)).unwrap();
        assert_eq!(content(&copy).unwrap(), content(&store).unwrap());
    });
}

#[test]
fn tables_that_are_no_files_are_copied() {
    simulate(6, |env| {
        let process = process(env).unwrap();
        let tables = Arc::new(table::MemoryTableStore::new());
        let seams = crate::store::Seams::with_tables(&process, Path::new(DIR), &small(), tables);
        let store = Store::open_with(&process, Path::new(DIR), small(), seams).unwrap();
        fill(&store).unwrap();
        let report = checkpoint(&store, &copy_dir(0)).unwrap();
        assert!(report.copied_count > 0 && report.linked_count == 0, "{report:?}");
        let copy = open_copy(env, &copy_dir(0)).unwrap();
        assert_eq!(content(&copy).unwrap(), content(&store).unwrap());
    });
}

#[test]
fn a_target_that_holds_something_is_refused() {
    simulate(8, |env| {
        let store = open(env, &small()).unwrap();
        put(&store, "a", "1").unwrap();
        checkpoint(&store, &copy_dir(0)).unwrap();
        for dir in [copy_dir(0), PathBuf::from(DIR)] {
            let refused = checkpoint(&store, &dir).unwrap_err();
            assert!(matches!(refused, Error::Invalid(_)), "{refused}");
            assert!(refused.to_string().contains("is not empty"), "{refused}");
        }
        let copy = open_copy(env, &copy_dir(0)).unwrap();
        assert_eq!(get(&copy, "a").unwrap().as_deref(), Some("1"));
        let stopped = store.checkpoint(&copy_dir(1), &mut |_, _| false).unwrap_err();
        assert!(matches!(stopped, Error::Cancelled), "{stopped}");
        assert!(open_copy(env, &copy_dir(1)).is_err());
        let options = Options { read_only: true, ..small() };
        store.close().unwrap();
        drop(store);
        let reader = open(env, &options).unwrap();
        assert!(matches!(checkpoint(&reader, &copy_dir(2)), Err(Error::ReadOnly)));
    });
}
