//! A replay by several threads gives what one thread gives: every version, every range tombstone,
//! and the same error.

use std::path::PathBuf;

use terrace_base::{Expiry, SeqNo, WallTime};
use terrace_env::{CrashPolicy, DiskImage};

use crate::iter::{MergingStream, Stream};
use crate::range_tombstone::Fragments;
use crate::store::RecoveryReport;
use crate::store::tests::workload::{Change, Content, Model, Shape, content, draw_options};
use crate::store::tests::*;

/// One version: key, number, kind, expiry, value.
type Versions = Vec<(Vec<u8>, SeqNo, u8, Option<Expiry>, Vec<u8>)>;

/// What a replay gave.
#[derive(Debug, PartialEq, Eq)]
struct Replay {
    report: RecoveryReport,
    versions: Versions,
    tombstones: String,
    content: Content,
}

/// Everything in the memtables of a range that was opened just now.
fn replay_in(store: &Store) -> Result<Replay> {
    let memtables = store.inner.view.load().memtables();
    let streams = memtables.iter().map(|one| Box::new(one.stream()) as Box<dyn Stream + Send>);
    let mut stream = MergingStream::new(streams.collect());
    let mut versions = Versions::new();
    while let Some(entry) = stream.entry() {
        let (key, value) = (entry.key.to_vec(), entry.value.to_vec());
        versions.push((key, entry.seqno, entry.kind as u8, entry.expiry, value));
        stream.advance()?;
    }
    let fragments: Vec<_> = memtables.iter().map(|one| one.range_tombstones()).collect();
    let tombstones = Fragments::merge(fragments.iter().map(|some| &**some));
    Ok(Replay {
        report: store.recovery().clone(),
        versions,
        tombstones: format!("{tombstones:?}"),
        content: content(store)?,
    })
}

/// What a replay of the log on `disk` gives, in a range that is only read; or the error.
fn replay(
    disk: &DiskImage,
    seed: u64,
    options: &Options,
    threads: usize,
) -> std::result::Result<Replay, String> {
    let sim = SimOptions { disk: disk.clone(), ..SimOptions::new(seed) };
    let options = Options { read_only: true, ..options.clone() };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        open_by(&env, &options, threads).and_then(|store| replay_in(&store))
    })
    .map_err(|error| error.to_string())
}

/// Writes batches over several dranges, and now and then a flush or an ingest; the disk as it is
/// while the range is open, and what was written.
fn write(seed: u64, options: &Options) -> Result<(DiskImage, Model)> {
    SimEnv::run(SimOptions::new(seed), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let mut random = SeededRng::new(seed);
        let shape = Shape::draw(&mut random);
        let mut model = Model::default();
        let store = open_by(&env, options, 2)?;
        for _ in 0..100 + random.below(100) {
            match random.below(120) {
                0 => store.flush()?,
                1 => {
                    let key = [b"\xfe", &random.next_u64().to_be_bytes()[..]].concat();
                    let mut ingest = store.begin_ingest()?;
                    ingest.add(&key, b"ingested", None)?;
                    ingest.finish()?;
                    model.apply(&Change::Put { key, value: b"ingested".into(), expiry: None });
                }
                _ => {
                    let count = 1 + random.below(12);
                    // Nothing expires: each replay has a clock of its own.
                    let mut changes = shape.changes(&mut random, WallTime(0), count);
                    for change in &mut changes {
                        if let Change::Put { expiry, .. } = change {
                            *expiry = expiry.map(|_| WallTime(u64::MAX / 2));
                        }
                    }
                    model.write(&store, &changes)?;
                }
            }
        }
        Ok((sim.disk(), model))
    })
}

/// Options for writing, with much in memory, and for the replays, whose memtables hold less.
fn draw(random: &mut SeededRng) -> (Options, Options) {
    let pick = |random: &mut SeededRng, from: [usize; 3]| from[random.below(3) as usize];
    let drawn = Options {
        memtable_bytes: pick(random, [24 << 10, 100 << 10, 1 << 20]),
        frozen_memtables_max: 8,
        log_bytes_max: 4 << 20,
        ..draw_options(random)
    };
    let memtable_bytes = pick(random, [16 << 10, 40 << 10, 2 << 20]);
    (drawn.clone(), Options { memtable_bytes, ..drawn })
}

#[track_caller]
fn assert_same(found: &Content, expected: &Content, context: &str) {
    let differ = found.iter().zip(expected).find(|(found, expected)| found != expected);
    let differ = differ.map(|((key, found), (expected_key, expected))| {
        (
            String::from_utf8_lossy(key),
            found.len(),
            String::from_utf8_lossy(expected_key),
            expected.len(),
        )
    });
    assert!(found == expected, "{context}: {differ:?}, {} and {}", found.len(), expected.len());
}

/// Opens the range with `threads` threads for writing, judges it, goes on, and opens it again.
fn goes_on(
    disk: &DiskImage,
    seed: u64,
    options: &Options,
    threads: usize,
    expected: &Content,
) -> Result<()> {
    // A seed of its own: that of the writing run would draw the identities of that run again.
    let sim = SimOptions { disk: disk.clone(), ..SimOptions::new(seed ^ 0x60e5) };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        let store = open_by(&env, options, threads)?;
        let context = format!("seed {seed}, {threads} threads");
        assert_same(&content(&store)?, expected, &context);
        store.flush()?;
        assert_same(&content(&store)?, expected, &format!("{context}, flushed"));
        put(&store, "\u{7f}after", "the crash")?;
        store.close()?;
        drop(store);
        let store = open_by(&env, options, threads)?;
        assert_eq!(get(&store, "\u{7f}after")?.as_deref(), Some("the crash"));
        let report = store.check(&mut |_, _| ())?;
        assert!(report.is_clean(), "seed {seed}, {threads} threads: {report}");
        Ok(())
    })
}

#[test]
fn any_number_of_threads_brings_the_same_back() -> Result<()> {
    let (mut entries, mut versions, mut torn) = (0, 0, 0);
    for seed in 0..60 {
        let mut random = SeededRng::new(seed ^ 0x7ec0_0e71);
        let (writing, replaying) = draw(&mut random);
        let (disk, model) = write(seed, &writing)?;
        for policy in CrashPolicy::ALL {
            let disk = disk.crash(policy, seed);
            let one = replay(&disk, seed, &replaying, 1);
            for threads in [2, 4, 8] {
                let several = replay(&disk, seed + threads as u64, &replaying, threads);
                assert!(one == several, "seed {seed}, {policy:?}, {threads} threads");
            }
            let one = one.unwrap_or_else(|error| panic!("seed {seed}, {policy:?}: {error}"));
            if policy == CrashPolicy::ProcessKill {
                assert_same(&one.content, &model.content(WallTime(0)), &format!("seed {seed}"));
            }
            let threads = [1, 2, 4][random.below(3) as usize];
            goes_on(&disk, seed, &replaying, threads, &one.content)?;
            entries += one.report.replayed_entries;
            torn += usize::from(one.report.torn.is_some());
            versions += one.versions.len();
        }
    }
    assert!(entries > 10_000 && versions > 10_000 && torn > 5, "{entries} {versions} {torn}");
    Ok(())
}

#[test]
fn several_threads_find_the_damage_that_one_finds() -> Result<()> {
    let mut refused = 0;
    for seed in 0..40 {
        let mut random = SeededRng::new(seed ^ 0xda3a_6e00);
        let (writing, replaying) = draw(&mut random);
        let (disk, _) = write(seed, &writing)?;
        let mut disk = disk.crash(CrashPolicy::ProcessKill, seed);
        let is_log = |(path, _): &(PathBuf, u64)| path.extension().is_some_and(|e| e == "log");
        let logs: Vec<_> = disk.files().into_iter().filter(is_log).collect();
        let (path, bytes) = &logs[random.below(logs.len() as u64) as usize];
        let offset = random.below(*bytes);
        disk.write(path, offset, &[random.next_u64() as u8]).expect("inside the file");
        let one = replay(&disk, seed, &replaying, 1);
        for threads in [2, 4] {
            let several = replay(&disk, seed, &replaying, threads);
            assert!(one == several, "seed {seed}, byte {offset} of {path:?}, {threads} threads");
        }
        refused += usize::from(one.is_err());
    }
    assert!(refused > 3, "only {refused} logs were refused");
    Ok(())
}
