//! Goal: whatever is written over and read, and whoever reads it, the files of a database with a
//! store take no more of the local disk than the local bytes and a tenth. Method: databases that a
//! seed draws are written over while their store is slow, several compactions run at a time, and
//! iterators hold what is obsolete; their files are added up before each operation.

use std::collections::BTreeMap;

use terrace_env::{ObjectsEnv, ObjectsProfile, SeededRng, SimEnv, SimOptions};

use super::{CloudOptions, in_store};
use crate::cache::persistent::CACHE_DIRECTORY;
use crate::options::ValueLogOptions;
use crate::store::gate::LocalSpace;
use crate::store::tests::by_seed::{Tally, each_seed};
use crate::store::tests::*;
use crate::store::{Iter, IterOptions};

const LOCAL_BYTES: u64 = CloudOptions::LOCAL_BYTES_MIN;

/// What a database does, and with what.
#[derive(Clone, Debug)]
struct Plan {
    options: Options,
    profile: ObjectsProfile,
    compaction_threads: usize,
    keys: u64,
    value_bytes: u64,
    /// How often all of the keys are written.
    times: u64,
    /// An iterator is opened before one in so many operations, and held for as many or fewer.
    iterator_one_in: Option<u32>,
}

impl Plan {
    fn draw(random: &mut SeededRng) -> Plan {
        let memtable_bytes = random.pick(&[256 << 10, 512 << 10]);
        let value_bytes = random.pick(&[4 << 10, 8 << 10, 16 << 10]);
        let values = ValueLogOptions { large_bytes: 1 << 10, ..ValueLogOptions::default() };
        let mut options = in_store(
            Options {
                memtable_bytes,
                frozen_memtables_max: 4,
                log_segment_bytes: 256 << 10,
                log_bytes_max: LOCAL_BYTES / 4,
                l0_rows_per_cut: 6,
                l0_rows_slow: 12,
                l0_rows_stop: 24,
                level_bytes_base: random.pick(&[1 << 20, 2 << 20, 4 << 20]),
                level_ratio: 4 + random.below(7),
                table_bytes: random.pick(&[256 << 10, 512 << 10, 1 << 20]),
                cut_bytes: random.pick(&[0, 1 << 20, 4 << 20]),
                value_log: random.one_in(3).then_some(values),
                ..small()
            },
            1,
        );
        let cache_bytes = random.pick(&[None, None, Some(0), Some(LOCAL_BYTES / 4)]);
        options.cloud =
            options.cloud.map(|cloud| CloudOptions { first_level: None, cache_bytes, ..cloud });
        let bandwidth = random.pick(&["2MB/s", "8MB/s", "40MB/s"]);
        let profile = format!("read=15ms,write=30ms,bandwidth={bandwidth}");
        let of_bound = random.pick(&[50, 150, 300]);
        Plan {
            options,
            profile: profile.parse().expect("it is a profile"),
            compaction_threads: 1 + random.below(3) as usize,
            keys: LOCAL_BYTES * of_bound / 100 / value_bytes,
            value_bytes,
            times: (600 / of_bound).min(4),
            iterator_one_in: random.one_in(3).then(|| random.pick(&[50, 400])),
        }
    }
}

/// The bytes of a range's files on the local disk, by what they are. A segment of the log that is a
/// value file, too, has two names, and counts once.
fn local_files(env: &SharedEnv) -> BTreeMap<String, u64> {
    let list = |dir: &Path| env.fs().list(dir).unwrap_or_default();
    let mut found = BTreeMap::new();
    let files = list(Path::new(DIR)).into_iter().filter(|entry| !entry.is_dir);
    let files: BTreeMap<String, u64> = files.map(|entry| (entry.name, entry.bytes)).collect();
    for (name, bytes) in &files {
        let (stem, kind) = name.rsplit_once('.').unwrap_or((name, "other"));
        if kind != "log" || !files.contains_key(&format!("{stem}.values")) {
            *found.entry(kind.to_string()).or_default() += bytes;
        }
    }
    let near = list(&Path::new(DIR).join(CACHE_DIRECTORY)).into_iter();
    found.insert("near".to_string(), near.map(|entry| entry.bytes).sum());
    found
}

/// The most that the files took, and what was counted then.
#[derive(Default)]
struct Peak {
    bytes: u64,
    files: BTreeMap<String, u64>,
    counted: Option<LocalSpace>,
}

impl Peak {
    fn look(&mut self, env: &SharedEnv, store: &Store) {
        let files = local_files(env);
        let bytes = files.values().sum();
        if bytes > self.bytes {
            let counted = store.inner.local_space(&store.inner.view.load());
            *self = Peak { bytes, files, counted };
        }
    }

    fn text(&self) -> String {
        let percent = self.bytes * 100 / LOCAL_BYTES;
        format!("{percent} % of the local bytes: {:?}, {:?}", self.files, self.counted)
    }
}

/// Writes all keys, and then reads some and writes others over.
fn overwrite(
    env: &SharedEnv,
    plan: &Plan,
    random: &mut SeededRng,
    tally: &mut Tally,
) -> Result<()> {
    let of_process = ProcessOptions {
        cache_bytes: 1 << 20,
        compaction_threads: plan.compaction_threads,
        ..ProcessOptions::default()
    };
    let process = Process::start(Arc::clone(env), &of_process)?;
    let store = Store::open(&process, Path::new(DIR), plan.options.clone())?;
    let mut count = |what| *tally.entry(what).or_default() += 1;
    let name = |key: u64| format!("{:06}", key * 7919 % plan.keys);
    let fill = "v".repeat(plan.value_bytes as usize - 16);
    let mut held: Option<(Iter, u64)> = None;
    let mut peak = Peak::default();
    for index in 0..plan.keys * plan.times {
        peak.look(env, &store);
        if let Some(one_in) = plan.iterator_one_in {
            if held.as_ref().is_some_and(|(_, until)| *until <= index) {
                held = None;
            }
            if held.is_none() && random.one_in(one_in) {
                let mut iter = store.iter(IterOptions::default())?;
                iter.seek_to_first()?;
                held = Some((iter, index + random.below(one_in.into())));
                count("held an iterator");
            }
        }
        let is_load = index < plan.keys;
        let key = name(if is_load { index } else { random.below(plan.keys) });
        if !is_load && random.one_in(2) {
            assert!(get(&store, &key)?.is_some());
        }
        put(&store, &key, &format!("{index:016}{fill}"))?;
    }
    drop(held);
    store.settle();
    peak.look(env, &store);
    if peak.bytes >= LOCAL_BYTES / 10 * 9 {
        count("met the bound");
    }
    if store.stats().cloud.as_ref().is_some_and(|cloud| cloud.table_count > 0) {
        count("had far tables");
    }
    println!("{}", peak.text());
    assert!(peak.bytes <= LOCAL_BYTES / 10 * 11, "{}; {plan:?}", peak.text());
    store.close()
}

/// Runs the database of this seed.
fn draw_and_overwrite(seed: u64) -> Tally {
    let mut random = SeededRng::stream(seed, 93);
    let plan = Plan::draw(&mut random);
    let sim = SimOptions { steps_max: 400_000_000, ..SimOptions::new(random.next_u64()) };
    let mut tally = Tally::new();
    SimEnv::run(sim, |env| {
        let env: SharedEnv = ObjectsEnv::new(env, plan.profile.clone());
        overwrite(&env, &plan, &mut random, &mut tally)
    })
    .expect("nothing fails here");
    tally
}

#[test]
fn whatever_is_written_over_stays_within_the_local_bytes() {
    const SEEDS: u64 = 4;
    let total = each_seed("databases", SEEDS, draw_and_overwrite);
    total.assert_done(&["met the bound", "had far tables"], 1, SEEDS);
}

/// Goal: whoever holds an iterator and writes does not wait for what the iterator holds, and what
/// it holds is counted. Method: one is held by the only writer, from when the local disk is half
/// full until twice the bound was written over.
#[test]
fn who_holds_an_iterator_does_not_wait_for_itself() -> Result<()> {
    let mut random = SeededRng::stream(1, 93);
    let mut plan = Plan { compaction_threads: 2, value_bytes: 16 << 10, ..Plan::draw(&mut random) };
    plan.options.value_log = None;
    plan.profile = "read=15ms,write=30ms,bandwidth=40MB/s".parse().expect("it is a profile");
    let sim = SimOptions { steps_max: 100_000_000, ..SimOptions::new(94) };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = ObjectsEnv::new(env, plan.profile.clone());
        let store = open(&env, &plan.options)?;
        let (value, keys) = ("v".repeat(plan.value_bytes as usize), LOCAL_BYTES / plan.value_bytes);
        let (mut held, mut peak) = (None, Peak::default());
        for index in 0..3 * keys {
            if index == keys / 2 {
                let mut iter = store.iter(IterOptions::default())?;
                iter.seek_to_first()?;
                held = Some(iter);
            }
            put(&store, &format!("{:06}", index * 7919 % keys), &value)?;
            peak.look(&env, &store);
        }
        let removed = store.inner.context.reclaim.local_bytes();
        assert!(removed > LOCAL_BYTES / 8, "{removed} bytes are held");
        println!("{removed} bytes are held; {}", peak.text());
        assert!(peak.bytes <= LOCAL_BYTES / 10 * 11, "{}", peak.text());
        drop(held);
        put(&store, "one", "more")?;
        store.flush()?;
        store.settle();
        assert_eq!(store.inner.context.reclaim.local_bytes(), 0, "all of it is gone");
        store.close()
    })
}
