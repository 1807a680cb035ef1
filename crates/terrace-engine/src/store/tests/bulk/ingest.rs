//! Ingest: sorted data shows all at once, newest, under every reader; and survives as a whole.

use std::collections::BTreeMap;
use std::sync::Mutex;

use terrace_base::{Expiry, KeyRange, LevelNo, WallTime};
use terrace_env::{
    CrashPolicy, DiskImage, Fault, FaultEffect, FaultErrno, FaultPlan, JobClass, Operation,
};

use crate::Error;
use crate::options::ValueLogOptions;
use crate::store::tests::workload::{Change, Model, Shape, content, draw_options, walk};
use crate::store::tests::*;
use crate::store::{GetOptions, IngestReport, IterOptions, RunNo, Update};

type Entries = BTreeMap<Vec<u8>, (Vec<u8>, Option<WallTime>)>;

fn ingest(store: &Store, entries: &Entries) -> Result<IngestReport> {
    let mut ingest = store.begin_ingest()?;
    for (key, (value, expiry)) in entries {
        ingest.add(key, value, expiry.map(Expiry::at))?;
    }
    ingest.finish()
}

/// The same entries in several runs, which take turns.
fn ingest_in_runs(
    store: &Store,
    entries: &Entries,
    random: &mut SeededRng,
) -> Result<IngestReport> {
    let mut ingest = store.begin_ingest()?;
    let mut runs = vec![(RunNo::FIRST, Vec::new())];
    for (key, (value, expiry)) in entries {
        if random.one_in(5) {
            runs.push((ingest.begin_run(), Vec::new()));
        }
        runs.last_mut().expect("one at least").1.push((key, value, expiry.map(Expiry::at)));
    }
    runs.iter_mut().for_each(|(_, entries)| entries.reverse());
    while !runs.is_empty() {
        let index = random.below(runs.len() as u64) as usize;
        let (run, left) = &mut runs[index];
        match left.pop() {
            Some((key, value, expiry)) => ingest.add_to(*run, key, value, expiry)?,
            None => drop(runs.remove(index)),
        }
    }
    ingest.finish()
}

fn numbered(keys: std::ops::Range<usize>, value: &str) -> Entries {
    let entry = |index| (format!("key {index:03}").into_bytes(), (value.repeat(20).into(), None));
    keys.map(entry).collect()
}

/// With a value log that takes the values of [`numbered`].
fn separating() -> Options {
    let value_log = ValueLogOptions { large_bytes: 40, ..ValueLogOptions::default() };
    Options { value_log: Some(value_log), ..small() }
}

/// How many files of a kind are in the range's directory.
fn count_of_files(env: &SharedEnv, ending: &str) -> usize {
    let names = env.fs().list(Path::new(DIR)).unwrap().into_iter();
    names.filter(|entry| entry.name.ends_with(ending)).count()
}

/// SeededRng writes, ingests, snapshots and restarts; every reader sees its own moment.
fn run_against_model(seed: u64) -> Result<()> {
    simulate(seed, |env| {
        let mut random = SeededRng::new(seed);
        let options = draw_options(&mut random);
        let shape = Shape::draw(&mut random);
        let mut model = Model::default();
        let mut snapshots = Vec::new();
        let mut levels = [0; 7];
        let mut store = open(env, &options)?;
        for step in 0..250 {
            let now = env.wall_time();
            match random.below(20) {
                0 | 1 => {
                    let mut entries = Entries::new();
                    for _ in 0..random.below(40) {
                        if let Change::Put { key, value, expiry } = shape.change(&mut random, now) {
                            entries.insert(key, (value, expiry));
                        }
                    }
                    let report = match random.one_in(2) {
                        true => ingest(&store, &entries)?,
                        false => ingest_in_runs(&store, &entries, &mut random)?,
                    };
                    assert_eq!(report.entry_count, entries.len() as u64);
                    levels[usize::from(report.level.0)] += 1;
                    for (key, (value, expiry)) in entries {
                        model.apply(&Change::Put { key, value, expiry });
                    }
                }
                2 => snapshots.push((store.snapshot(), model.clone())),
                3 => drop(snapshots.pop()),
                4 => store.compact(&KeyRange::all())?,
                5 if random.one_in(3) => {
                    snapshots.clear();
                    store.close()?;
                    drop(store);
                    store = open(env, &options)?;
                }
                6 => env.sleep(std::time::Duration::from_millis(random.below(2000))),
                _ => {
                    let count = random.below(8) + 1;
                    model.write(&store, &shape.changes(&mut random, now, count))?;
                }
            }
            if !random.one_in(4) {
                continue;
            }
            let now = env.wall_time();
            let found = content(&store)?;
            let old = snapshots.last().map(|(snapshot, model)| {
                (snapshot.iter(IterOptions::default()).and_then(walk), model)
            });
            let key = shape.key(&mut random);
            let item = store.get(&key, &GetOptions::default())?.map(|item| item.value);
            if env.wall_time() == now {
                assert_eq!(found, model.content(now), "step {step}");
                assert_eq!(item, model.get(&key, now).map(<[u8]>::to_vec), "step {step}");
                if let Some((found, model)) = old {
                    assert_eq!(found?, model.content(now), "a snapshot, step {step}");
                }
            }
        }
        let report = store.check(&mut |_, _| ())?;
        assert!(report.is_clean(), "{report}");
        assert!(levels[0] + levels[1..].iter().sum::<u32>() > 0);
        store.close()
    })
}

#[test]
fn the_store_equals_a_map_into_which_sorted_data_is_put_at_once() {
    for seed in 0..40 {
        if let Err(error) = run_against_model(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

#[test]
fn data_goes_to_the_deepest_level_where_nothing_overlaps() {
    simulate(1, |env| {
        let store = open(env, &small()).unwrap();
        let report = ingest(&store, &numbered(100..200, "deep")).unwrap();
        assert_eq!(report.level, LevelNo(6), "an empty tree");
        let [level] = &store.stats().levels[..] else { panic!("L6 alone has anything") };
        assert_eq!((level.level, level.written_bytes), (6, report.table_bytes));
        assert_eq!(level.taken_in_bytes, report.table_bytes);
        let report = ingest(&store, &numbered(300..400, "beside")).unwrap();
        assert_eq!(report.level, LevelNo(6), "beside the first");
        let report = ingest(&store, &numbered(200..210, "between")).unwrap();
        assert_eq!(report.level, LevelNo(6), "between them");
        let report = ingest(&store, &numbered(150..160, "above")).unwrap();
        assert_eq!(report.level, LevelNo(5), "above the first");
        put(&store, "key 155", "in memory").unwrap();
        let report = ingest(&store, &numbered(150..160, "over a memtable")).unwrap();
        assert_eq!(report.level, LevelNo(0), "above what was in memory");
        assert_eq!(get(&store, "key 155").unwrap(), Some("over a memtable".repeat(20)));
        put(&store, "key 155", "newer").unwrap();
        assert_eq!(get(&store, "key 155").unwrap().as_deref(), Some("newer"));
        store.compact(&KeyRange::all()).unwrap();
        assert_eq!(get(&store, "key 155").unwrap().as_deref(), Some("newer"));
        assert_eq!(get(&store, "key 199").unwrap(), Some("deep".repeat(20)));
    });
}

#[test]
fn large_values_go_into_value_files_at_once_and_all_others_into_the_tables() {
    simulate(5, |env| {
        let options = separating();
        let store = open(env, &options).unwrap();
        let mut mixed = numbered(0..3000, "large");
        for (value, _) in mixed.values_mut().step_by(3) {
            value.truncate(39);
        }
        let report = ingest(&store, &mixed).unwrap();
        assert_eq!(report.level, LevelNo(6));
        let version = store.inner.versions.current();
        let metas: Vec<_> = version.values().iter().map(|file| file.meta().clone()).collect();
        let usual = options.memtable_bytes as u64;
        assert!(metas.len() > 1, "2000 values of 100 bytes and memtables of {usual}");
        assert!(metas.iter().all(|meta| meta.entry_bytes() < usual + 200), "{metas:?}");
        assert_eq!(metas.iter().map(|meta| meta.bytes).sum::<u64>(), report.value_bytes);
        let liveness = version.liveness();
        assert_eq!(metas.iter().map(|meta| liveness.named_count(meta)).sum::<u64>(), 2000);
        assert_eq!(store.stats().value_log.written_bytes, report.value_bytes);
        let wanted: Vec<_> =
            mixed.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        let found = content(&store).unwrap();
        assert!(
            found.iter().map(|entry| (&entry.0, &entry.1)).eq(wanted.iter().map(|w| (&w.0, &w.1)))
        );
        // What is ingested over it hides it, and a compaction frees its space.
        ingest(&store, &numbered(0..3000, "newer")).unwrap();
        store.compact(&KeyRange::all()).unwrap();
        store.settle();
        assert_eq!(get(&store, "key 007").unwrap(), Some("newer".repeat(20)));
        let left = store.inner.versions.current();
        let old: Vec<_> = metas.iter().filter(|m| left.values().get(m.id).is_some()).collect();
        assert!(old.is_empty(), "{old:?}");
    });
}

#[test]
fn an_abandoned_ingest_leaves_no_value_file() {
    simulate(6, |env| {
        let store = open(env, &separating()).unwrap();
        for (key, (value, _)) in numbered(0..2000, "large") {
            let mut ingest = store.begin_ingest().unwrap();
            ingest.add(&key, &value, None).unwrap();
            if key.ends_with(b"99") {
                break;
            }
        }
        let mut ingest = store.begin_ingest().unwrap();
        for (key, (value, _)) in numbered(0..2000, "large") {
            ingest.add(&key, &value, None).unwrap();
        }
        assert!(count_of_files(env, ".values") > 1);
        drop(ingest);
        assert_eq!(count_of_files(env, ".values"), 0);
        assert_eq!(content(&store).unwrap(), []);
    });
}

#[test]
fn what_is_not_sorted_or_too_long_is_refused_and_the_rest_goes_on() {
    simulate(2, |env| {
        let store = open(env, &small()).unwrap();
        let mut ingest = store.begin_ingest().unwrap();
        ingest.add(b"b", b"1", None).unwrap();
        for (key, what) in [(&b"b"[..], "twice"), (b"a", "before the one ahead"), (b"", "before")] {
            let refused = ingest.add(key, b"2", None).unwrap_err();
            assert!(matches!(refused, Error::Invalid(_)), "{refused}");
            assert!(refused.to_string().contains(what), "{refused}");
        }
        let refused = ingest.add(&vec![b'z'; 70_000], b"", None).unwrap_err();
        assert!(refused.to_string().contains("70000 bytes"), "{refused}");
        ingest.add(b"c", b"3", None).unwrap();
        assert_eq!(get(&store, "c").unwrap(), None, "not before it is finished");
        drop(ingest);
        assert_eq!(count_of_files(env, ".table"), 0, "nothing stays of it");
        let nothing = store.begin_ingest().unwrap().finish().unwrap();
        assert_eq!((nothing.entry_count, nothing.table_count), (0, 0));
        assert_eq!(content(&store).unwrap(), []);
    });
}

#[test]
fn runs_between_each_other_and_what_is_refused_at_the_end_leave_nothing() {
    simulate(3, |env| {
        let store = open(env, &small()).unwrap();
        let begun = || {
            let mut ingest = store.begin_ingest().unwrap();
            let other = ingest.begin_run();
            ingest.add(b"a", b"1", None).unwrap();
            ingest.add_to(other, b"b", b"2", None).unwrap();
            ingest
        };
        let mut ingest = begun();
        ingest.add(b"c", b"3", None).unwrap();
        let refused = ingest.finish().unwrap_err();
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        let asked = std::cell::Cell::new(0);
        let refuse = || {
            asked.set(asked.get() + 1);
            true
        };
        assert!(begun().finish_unless(&refuse).unwrap().is_none());
        assert!(store.begin_ingest().unwrap().finish_unless(&refuse).unwrap().is_none());
        assert_eq!(asked.take(), 2);
        assert_eq!(count_of_files(env, ".table"), 0);
        assert_eq!(content(&store).unwrap(), []);
        begun().finish().unwrap();
        assert_eq!(get(&store, "b").unwrap(), Some("2".into()));
    });
}

/// Writers of the same keys, conditional ones too, and readers go on during ingests.
fn run_beside_others(seed: u64) -> Result<()> {
    simulate(seed, |env| {
        let mut options = Options { memtable_bytes: 16 << 10, ..small() };
        if seed.is_multiple_of(2) {
            options.drange_boundaries = vec![b"key 005".to_vec()];
        }
        let store = open(env, &options)?;
        // Every write of a key adds one to its counter, an ingest sets them all to something larger
        // than before. Whoever reads twice must not see a counter go back but by an ingest's doing:
        // so counters carry the ingest's round in front.
        let keys: Vec<String> = (0..10).map(|index| format!("key {index:03}")).collect();
        let value = |round: u64, count: u64| format!("{round:03}/{count:03}/{}", "x".repeat(200));
        let parse = |text: &str| -> (u64, u64) {
            (text[..3].parse().expect("a round"), text[4..7].parse().expect("a count"))
        };
        let updaters: Vec<_> = (0..2_usize)
            .map(|client| {
                let (store, keys) = (store.clone(), keys.clone());
                let job = Box::new(move || {
                    let mut random = SeededRng::new(seed ^ (client as u64 + 9) << 40);
                    let mut last: BTreeMap<String, (u64, u64)> = BTreeMap::new();
                    for _ in 0..80 {
                        let key = &keys[random.below(10) as usize];
                        let mut seen = (0, 0);
                        let decide = |old: &mut [Option<crate::store::Item>]| {
                            let text = |item: &crate::store::Item| {
                                String::from_utf8(item.value.clone()).expect("text")
                            };
                            seen = old[0].as_ref().map_or((0, 0), |item| parse(&text(item)));
                            let mut batch = WriteBatch::new();
                            let next = value(seen.0, seen.1 + 1);
                            batch.put(key.as_bytes(), next.as_bytes())?;
                            Ok(Update::Write(batch))
                        };
                        store.update(&[key.as_bytes()], &WriteOptions::default(), decide).unwrap();
                        let before = last.insert(key.clone(), (seen.0, seen.1 + 1));
                        assert!(before.is_none_or(|before| before <= seen), "{before:?}, {seen:?}");
                    }
                });
                env.spawn(JobClass::Client, &client.to_string(), job).unwrap()
            })
            .collect();
        for round in 1..=6_u64 {
            let snapshot = store.snapshot();
            let before = walk(snapshot.iter(IterOptions::default())?)?;
            let fresh = |key: &String| (key.clone().into_bytes(), (value(round, 0).into(), None));
            let report = ingest(&store, &keys.iter().map(fresh).collect())?;
            assert_eq!(walk(snapshot.iter(IterOptions::default())?)?, before, "a snapshot");
            let mut iter = store.iter(IterOptions::default())?;
            iter.seek_to_first()?;
            let mut count = 0;
            while let Some(entry) = iter.entry() {
                let text = std::str::from_utf8(entry.value).expect("text");
                assert!(parse(text).0 == round, "round {round}: {text:?}");
                assert!(entry.seqno >= report.seqno);
                count += 1;
                iter.next()?;
            }
            assert_eq!(count, 10);
            if round.is_multiple_of(2) {
                store.compact(&KeyRange::all())?;
            }
        }
        assert!(updaters.into_iter().all(terrace_env::JobHandle::join));
        store.close()
    })
}

#[test]
fn ingests_beside_writers_and_readers_are_one_write_in_their_order() {
    for seed in 0..60 {
        if let Err(error) = run_beside_others(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

#[test]
fn a_crash_leaves_all_of_an_ingest_or_nothing() {
    crash_ingests(&small());
}

#[test]
fn a_crash_leaves_all_of_an_ingest_with_its_values_or_nothing() {
    crash_ingests(&separating());
}

fn crash_ingests(options: &Options) {
    let moments: Arc<Mutex<Vec<(DiskImage, bool)>>> = Arc::default();
    let (kept, phase) = (Arc::clone(&moments), Arc::new(Mutex::new((false, false))));
    let watched = Arc::clone(&phase);
    let sim = SimOptions {
        on_io: Some(Box::new(move |point| {
            let (is_on, is_done) = *watched.lock().unwrap();
            if is_on {
                let torn = point.torn_disk(point.index);
                let images = std::iter::once(point.disk.clone()).chain(torn);
                kept.lock().unwrap().extend(images.map(|disk| (disk, is_done)));
            }
        })),
        ..SimOptions::new(11)
    };
    let (old, new) = SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        let store = open(&env, options).unwrap();
        for index in 0..40 {
            put(&store, &format!("key {index:03}"), &"old ".repeat(20)).unwrap();
        }
        let old = content(&store).unwrap();
        *phase.lock().unwrap() = (true, false);
        ingest(&store, &numbered(20..220, "new ")).unwrap();
        *phase.lock().unwrap() = (true, true);
        store.flush().unwrap();
        *phase.lock().unwrap() = (false, true);
        (old, content(&store).unwrap())
    });
    let (mut with, mut without) = (0, 0);
    let moments = std::mem::take(&mut *moments.lock().unwrap());
    for (index, (moment, is_done)) in moments.into_iter().enumerate() {
        for policy in CrashPolicy::ALL {
            let disk = moment.crash(policy, index as u64);
            let sim = SimOptions { disk, ..SimOptions::new(index as u64 + 100) };
            SimEnv::run(sim, |env| {
                let env: SharedEnv = env;
                let store = open(&env, options).unwrap();
                let found = content(&store).unwrap();
                let report = store.check(&mut |_, _| ()).unwrap();
                assert!(report.is_clean(), "{report}");
                if found == new {
                    with += 1;
                    return;
                }
                assert!(!is_done, "moment {index}, {policy:?}: it was acknowledged");
                without += 1;
                // Buffered writes may go with the power, as a suffix of all.
                assert!(old.starts_with(&found), "moment {index}, {policy:?}");
                assert!(policy != CrashPolicy::ProcessKill || found == old);
            });
        }
    }
    assert!(with > 0 && without > 0, "{with} with, {without} without");
}

/// Every call that an ingest makes fails once, in every way.
#[test]
fn a_failed_ingest_changes_nothing_or_says_what_it_does_not_know() {
    fail_ingests(&small());
}

#[test]
fn a_failed_ingest_with_values_changes_nothing_or_says_what_it_does_not_know() {
    fail_ingests(&separating());
}

fn fail_ingests(options: &Options) {
    let mut outcomes = BTreeMap::new();
    for call in 1.. {
        let is_over = with_faults(3, |sim, faults, env| {
            let store = open(env, options).unwrap();
            put(&store, "key 000", "old").unwrap();
            store.settle();
            let error = FaultEffect::Error(FaultErrno::NoSpace);
            faults.set_plan(FaultPlan::one(Fault::any(call, error)));
            let outcome = ingest(&store, &numbered(0..60, "new"));
            let hit = faults.injected().first().map(|fault| fault.operation);
            faults.set_plan(FaultPlan::default());
            let Some(hit) = hit else {
                outcome.unwrap();
                return true;
            };
            let is_sync = matches!(hit, Operation::Sync | Operation::SyncDir);
            let kind = match &outcome {
                Ok(_) => "done",
                Err(Error::NoSpace(_)) => "refused",
                Err(Error::Poisoned(_) | Error::Unknown(_)) => "poisoned",
                Err(error) => panic!("call {call}, {hit:?}: {error}"),
            };
            *outcomes.entry(kind).or_insert(0) += 1;
            assert_eq!(kind == "poisoned", is_sync && kind != "done", "call {call}, {hit:?}");
            let shown = get(&store, "key 059").unwrap().is_some();
            assert_eq!(shown, outcome.is_ok(), "call {call}, {hit:?}");
            if kind == "refused" {
                // It can be tried again, and what was refused does not come back.
                put(&store, "key 001", "after").unwrap();
                assert_eq!(get(&store, "key 000").unwrap().as_deref(), Some("old"));
                store.flush().unwrap();
            }
            let _ = store.close();
            drop(store);
            let left = sim.disk().crash(CrashPolicy::SyncedOnly, call);
            let is_ok = outcome.is_ok();
            let refused = kind == "refused";
            let sim = SimOptions { disk: left, ..SimOptions::new(call + 1000) };
            // A simulation cannot run inside another one: on a thread of its own it is apart.
            std::thread::scope(|scope| {
                let judge = move || {
                    SimEnv::run(sim, |env| {
                        let env: SharedEnv = env;
                        let store = open(&env, options).unwrap();
                        let shown = get(&store, "key 059").unwrap().is_some();
                        assert!(!is_ok || shown, "call {call}: acknowledged and lost");
                        assert!(!refused || !shown, "call {call}: refused and there");
                    });
                };
                scope.spawn(judge).join().unwrap();
            });
            false
        });
        if is_over {
            break;
        }
    }
    assert!(outcomes["refused"] > 5 && outcomes["poisoned"] > 1, "{outcomes:?}");
}

#[test]
fn what_was_ingested_is_checked_and_repaired_like_anything_else() {
    simulate(4, |env| {
        let store = open(env, &small()).unwrap();
        ingest(&store, &numbered(0..100, "first")).unwrap();
        ingest(&store, &numbered(50..80, "second")).unwrap();
        put(&store, "key 060", "third").unwrap();
        let wanted = content(&store).unwrap();
        store.close().unwrap();
        drop(store);
        let depth = crate::check::CheckDepth::Full;
        let report = crate::check::check_dir(env, Path::new(DIR), depth, &mut |_, _| ()).unwrap();
        assert!(report.is_clean(), "{report}");
        let target = Path::new("/repaired");
        let (source, options) = (Path::new(DIR), small());
        crate::repair::repair(env, source, target, &options, &mut |_, _| true).unwrap();
        let repaired = Store::open(&process(env).unwrap(), target, small()).unwrap();
        assert_eq!(content(&repaired).unwrap(), wanted);
        // A block of an ingested table is damaged: what is written anew of it has its number.
        let tables = env.fs().list(target).unwrap();
        drop(repaired);
        // The first one is the upper one: under its keys older values would show.
        let mut tables = tables.iter().filter(|entry| entry.name.ends_with(".table"));
        let table = tables.nth(1).unwrap();
        let path = target.join(&table.name);
        let file = env.fs().open(&path).unwrap();
        let mut bytes = vec![0; file.bytes() as usize];
        file.read_at(0, &mut bytes).unwrap();
        bytes[600] ^= 1;
        env.fs().remove(&path).unwrap();
        let mut file = env.fs().create(&path, 0).unwrap();
        file.append(&bytes).unwrap();
        file.finish().unwrap();
        let again = Path::new("/again");
        let report = crate::repair::repair(env, target, again, &options, &mut |_, _| true).unwrap();
        assert_eq!(report.rewritten_table_count, 1);
        let repaired = Store::open(&process(env).unwrap(), again, small()).unwrap();
        let left = content(&repaired).unwrap();
        assert!(left.len() < wanted.len() && left.len() > wanted.len() / 2);
        assert!(left.iter().all(|entry| wanted.contains(entry)), "nothing older shows");
    });
}
