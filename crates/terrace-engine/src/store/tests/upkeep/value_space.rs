//! Goal: value files stay within their bound however keys are overwritten, and what that costs is
//! known. Method: until twenty times the data were written, the files are measured at every
//! thousandth of it; bytes are counted, not time. All sizes are a two-thousandth of the defaults.
//! In databases that a seed draws, bound, sizes and keys differ, and a reader may hold a snapshot
//! for a tenth of the time: what is kept for it is not counted.

use std::collections::BTreeSet;
use std::time::Duration;

use terrace_base::KeyRange;
use terrace_env::{Fault, FaultEffect, FaultErrno, FaultPlan, Operation};
use terrace_env::{SeededRng, SimEnv, SimOptions};

use crate::options::{L0Kind, ValueLogOptions};
use crate::store::tests::by_seed::{Tally, each_seed};
use crate::store::tests::*;

const VALUE_BYTES: usize = 984;
const KEYS: u64 = 1500;
/// Bytes of a value's entry in its file.
const ENTRY_BYTES: u64 = 32 + 8 + VALUE_BYTES as u64;
const LIVE_BYTES: u64 = KEYS * ENTRY_BYTES;
/// Four for each memtable of what lives.
const FILES_MAX: u64 = 4 * LIVE_BYTES / (32 << 10);

fn options() -> Options {
    Options {
        memtable_bytes: 32 << 10,
        table_bytes: 16 << 10,
        l0_rows_per_cut: 6,
        l0_rows_slow: 12,
        l0_rows_stop: 24,
        level_bytes_base: 128 << 10,
        level_ratio: 10,
        cut_bytes: 0,
        value_log: Some(ValueLogOptions {
            large_bytes: 100,
            space_ratio_percent: 130,
            ..ValueLogOptions::default()
        }),
        ..small()
    }
}

#[derive(Clone, Copy, Debug)]
enum Draw {
    Uniform,
    /// The key of rank r is drawn with a probability of about 1/r.
    Zipfian,
}

impl Draw {
    fn key(self, random: &mut SeededRng) -> u64 {
        let rank = match self {
            Draw::Uniform => random.below(KEYS),
            Draw::Zipfian => {
                let share = random.below(1 << 30) as f64 / (1u64 << 30) as f64;
                (KEYS as f64).powf(share) as u64 - 1
            }
        };
        rank * 7919 % KEYS
    }
}

/// What overwriting came to.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    /// Bytes of value files on the disk for each byte that lives, in percent: the most, and on
    /// average.
    peak_percent: u64,
    mean_percent: u64,
    /// For 100 bytes that were written, those of tables and of rewritten value files.
    table_percent: u64,
    rewritten_percent: u64,
    files_max: u64,
    /// The most segments that tables named.
    segments_max: u64,
}

fn value(key: u64, round: u64) -> String {
    let head = format!("{key}.{round}.");
    format!("{head}{}", "x".repeat(VALUE_BYTES - head.len()))
}

/// How many segments tables name.
fn named_segments(store: &Store) -> u64 {
    let version = store.inner.versions.current();
    let named = version.tables().flat_map(|table| table.meta().named.iter());
    named.map(|one| one.segment).collect::<BTreeSet<_>>().len() as u64
}

/// How a database is written over.
#[derive(Clone, Copy, Debug)]
struct Overwrites {
    draw: Draw,
    /// How many times the data are written.
    times: u64,
    /// Whether a reader holds a snapshot from 45 to 55 % of it. What is kept for it is gone when
    /// twice as much was written.
    has_reader: bool,
    seed: u64,
}

/// Writes every key, and then the data over and over, by chance.
fn overwrite(env: &SharedEnv, options: &Options, how: Overwrites) -> Result<Figures> {
    let Overwrites { draw, times, has_reader, seed } = how;
    let store = open(env, options)?;
    let mut random = SeededRng::new(seed);
    let mut snapshot = None;
    let name = |key: u64| format!("{key:08}");
    for key in 0..KEYS {
        put(&store, &name(key * 7919 % KEYS), &value(key * 7919 % KEYS, 0))?;
    }
    store.flush()?;
    store.settle();
    let before = store.stats();
    let mut rounds = vec![0; KEYS as usize];
    let mut figures = Figures::default();
    let (mut sum, mut samples) = (0, 0);
    for round in 1..=KEYS * times {
        let key = draw.key(&mut random);
        rounds[key as usize] = round;
        put(&store, &name(key), &value(key, round))?;
        let percent_done = round * 100 / (KEYS * times);
        match percent_done {
            45 if has_reader && snapshot.is_none() => snapshot = Some(store.snapshot()),
            55.. => snapshot = None,
            _ => {}
        }
        let is_counted = !has_reader || !(45..65).contains(&percent_done);
        if round % (KEYS / 50) == 0 && is_counted {
            let files = files_with(env, ".values");
            let percent = files.iter().map(|(_, bytes)| bytes).sum::<u64>() * 100 / LIVE_BYTES;
            figures.peak_percent = figures.peak_percent.max(percent);
            figures.files_max = figures.files_max.max(files.len() as u64);
            figures.segments_max = figures.segments_max.max(named_segments(&store));
            (sum, samples) = (sum + percent, samples + 1);
        }
    }
    let stats = store.stats();
    let written = KEYS * times * ENTRY_BYTES;
    figures.mean_percent = sum / samples;
    let of_tables =
        |stats: &crate::store::StoreStats| stats.flush_bytes + stats.compaction_write_bytes;
    figures.table_percent = (of_tables(&stats) - of_tables(&before)) * 100 / written;
    let rewritten = stats.value_log.rewritten_bytes - before.value_log.rewritten_bytes;
    figures.rewritten_percent = rewritten * 100 / written;
    println!("{how:?}: {figures:?}");
    for key in 0..KEYS {
        assert_eq!(get(&store, &name(key))?, Some(value(key, rounds[key as usize])), "{key}");
    }
    assert!(store.check(&mut |_, _| ())?.is_clean());
    store.close()?;
    Ok(figures)
}

fn overwritten(kind: L0Kind, draw: Draw, seed: u64) -> Result<Figures> {
    let options = match kind {
        L0Kind::Plain => options(),
        kind => in_pages(options(), kind, 128 << 10),
    };
    let how = Overwrites { draw, times: 20, has_reader: false, seed: 77 };
    simulate_overwrites(options, how, seed)
}

fn simulate_overwrites(options: Options, how: Overwrites, seed: u64) -> Result<Figures> {
    let sim = SimOptions { steps_max: 400_000_000, ..SimOptions::new(seed) };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        overwrite(&env, &options, how)
    })
}

#[test]
fn uniform_overwrites_take_no_more_than_the_bound() -> Result<()> {
    let figures = overwritten(L0Kind::Plain, Draw::Uniform, 9)?;
    assert!(figures.peak_percent <= 138 && figures.mean_percent <= 130, "{figures:?}");
    assert!(figures.table_percent <= 48 && figures.rewritten_percent <= 210, "{figures:?}");
    assert!(figures.files_max <= FILES_MAX, "{figures:?}");
    Ok(())
}

#[test]
fn zipfian_overwrites_take_no_more_than_the_bound() -> Result<()> {
    let figures = overwritten(L0Kind::Plain, Draw::Zipfian, 10)?;
    assert!(figures.peak_percent <= 138 && figures.mean_percent <= 130, "{figures:?}");
    assert!(figures.table_percent <= 48 && figures.rewritten_percent <= 210, "{figures:?}");
    assert!(figures.files_max <= FILES_MAX, "{figures:?}");
    Ok(())
}

#[test]
fn overwrites_in_a_container_take_no_more_than_the_bound() -> Result<()> {
    let figures = overwritten(L0Kind::Container, Draw::Zipfian, 11)?;
    assert!(figures.peak_percent <= 138 && figures.mean_percent <= 130, "{figures:?}");
    assert!(figures.table_percent <= 100 && figures.rewritten_percent <= 210, "{figures:?}");
    assert!(figures.files_max <= FILES_MAX, "{figures:?}");
    Ok(())
}

/// A database that a seed draws, written over: within its bound, but for files that are just being
/// rewritten or that the log still keeps.
fn draw_and_overwrite(seed: u64) {
    let mut random = SeededRng::stream(seed, 80);
    let mut options = options();
    options.memtable_bytes = (16 << random.below(2)) << 10;
    options.level_ratio = 4 + random.below(7);
    let ratio = [115, 130, 130, 160][random.below(4) as usize];
    let values = options.value_log.as_mut().expect("it has a value log");
    values.space_ratio_percent = ratio;
    if random.below(3) == 0 {
        options = in_pages(options, L0Kind::Container, 128 << 10);
    }
    let file_bytes = options.memtable_bytes as u64;
    let how = Overwrites {
        draw: [Draw::Uniform, Draw::Zipfian][random.below(2) as usize],
        times: 4 + random.below(12),
        has_reader: random.below(3) == 0,
        seed: random.next_u64(),
    };
    let figures = simulate_overwrites(options, how, random.next_u64()).expect("nothing fails here");
    let percent_of_files = |count: u64| count * file_bytes * 100 / LIVE_BYTES;
    let allowed = 100 + (ratio - 100).max(percent_of_files(8));
    let (most, mean) = (allowed + percent_of_files(6), allowed + percent_of_files(2));
    assert!(figures.peak_percent <= most, "at most {most}: {figures:?}");
    assert!(figures.mean_percent <= mean, "on average {mean}: {figures:?}");
}

#[test]
fn whatever_is_overwritten_takes_no_more_than_the_bound() {
    each_seed("databases", 3, |seed| {
        draw_and_overwrite(seed);
        Tally::new()
    });
}

/// Nothing is compacted by itself but for the sake of the value log.
fn lazy_with_values() -> Options {
    let value_log = Some(ValueLogOptions {
        large_bytes: 100,
        space_ratio_percent: 130,
        ..ValueLogOptions::default()
    });
    Options { memtable_bytes: 16 << 10, level_bytes_base: 1 << 20, value_log, ..lazy() }
}

/// Keys of some values, which take 1 KiB each in value files.
fn put_all(store: &Store, keys: std::ops::Range<u64>, round: u64) -> Result<()> {
    keys.into_iter().try_for_each(|key| put(store, &format!("{key:08}"), &value(key, round)))
}

/// Bytes of entries in value files, and the number of rows.
fn held(store: &Store) -> (u64, usize) {
    let version = store.inner.versions.current();
    let bytes = version.values().iter().map(|file| file.meta().entry_bytes()).sum();
    (bytes, version.l0().rows().len())
}

/// Goal: what hides much of the value log is found out though L0 is not full, and what is too
/// little to matter is left. Method: 600 values of a KiB may have 180 dead ones, less the room of
/// two memtables of 16.
#[test]
fn what_hides_too_much_is_compacted_though_nothing_is_full() -> Result<()> {
    simulate(12, |env| {
        let store = open(env, &lazy_with_values())?;
        put_all(&store, 0..600, 0)?;
        store.compact(&KeyRange::all())?;
        put_all(&store, 100..230, 1)?;
        store.flush()?;
        store.settle();
        let (bytes, rows) = held(&store);
        assert!(rows > 1 && bytes == 730 * ENTRY_BYTES, "{bytes} bytes, {rows} rows");
        // New keys hide nothing.
        put_all(&store, 1000..1200, 1)?;
        store.flush()?;
        store.settle();
        assert_eq!(held(&store).0, 930 * ENTRY_BYTES, "{} rows", held(&store).1);
        put_all(&store, 100..250, 2)?;
        store.flush()?;
        store.settle();
        let (bytes, _) = held(&store);
        assert!(bytes <= 800 * ENTRY_BYTES * 13 / 10, "{bytes}");
        assert!(store.check(&mut |_, _| ())?.is_clean());
        store.close()
    })
}

/// Without rewrites, a file goes when nothing of it is left, and nothing is compacted for its sake.
#[test]
fn without_rewrites_only_dead_files_go() -> Result<()> {
    simulate(15, |env| {
        let value_log =
            ValueLogOptions { rewrites: false, ..lazy_with_values().value_log.unwrap() };
        let options = Options { value_log: Some(value_log), ..lazy_with_values() };
        let store = open(env, &options)?;
        put_all(&store, 0..600, 0)?;
        store.compact(&KeyRange::all())?;
        put_all(&store, 0..599, 1)?;
        store.flush()?;
        store.settle();
        assert_eq!(held(&store).0, 1199 * ENTRY_BYTES, "nothing is compacted by itself");
        store.compact(&KeyRange::all())?;
        store.settle();
        let (bytes, _) = held(&store);
        assert!((600 * ENTRY_BYTES..700 * ENTRY_BYTES).contains(&bytes), "{bytes}");
        assert_eq!(store.stats().value_log.rewritten_bytes, 0);
        assert_eq!(get(&store, &format!("{:08}", 599))?, Some(value(599, 0)));
        store.close()
    })
}

/// Goal: above the bound writers pay, and statistics say for what; below it they do not. Method:
/// value files cannot be read for a while, so that garbage stays.
#[test]
fn writers_pay_for_garbage_that_stays() -> Result<()> {
    with_faults(16, |_, faults, env| {
        let store = open(env, &options())?;
        let delayed = || store.stats().stalls.causes["values"].delayed_us;
        let even = |round| {
            (0..KEYS).step_by(2).try_for_each(|key| put_all(&store, key..key + 1, round))?;
            store.compact(&KeyRange::all())
        };
        put_all(&store, 0..KEYS, 0)?;
        store.compact(&KeyRange::all())?;
        store.settle();
        assert_eq!(delayed(), 0);
        let fails = Fault::from_nth(Operation::Read, 1, FaultEffect::Error(FaultErrno::Io));
        faults.set_plan(FaultPlan::one(fails.on(".values")));
        (1..4).try_for_each(even)?;
        assert!(delayed() > 0, "{}", store.stats());
        faults.set_plan(FaultPlan::default());
        env.sleep(Duration::from_secs(60));
        store.settle();
        let space = store.inner.versions.current().value_space();
        let allowed = store.inner.shape.values.dead_bytes_allowed(&space);
        assert!(Some(space.dead_bytes_max()) <= allowed, "{space:?}");
        let before = delayed();
        put_all(&store, 0..10, 9)?;
        assert_eq!(delayed(), before);
        store.close()
    })
}

/// Deletions name no value, and hide some all the same.
#[test]
fn values_that_were_deleted_are_given_back() -> Result<()> {
    simulate(13, |env| {
        let store = open(env, &lazy_with_values())?;
        put_all(&store, 0..600, 0)?;
        store.compact(&KeyRange::all())?;
        for key in (0..600).filter(|key| key % 3 > 0) {
            delete(&store, &format!("{key:08}"))?;
        }
        store.flush()?;
        store.settle();
        let (bytes, rows) = held(&store);
        assert!(bytes <= 600 * ENTRY_BYTES / 2, "{bytes} bytes of 200 values, {rows} rows");
        store.close()
    })
}

/// Where both versions of a key have met and a snapshot sees the older one, nothing is hidden: it
/// is kept, and nobody looks for it for ever.
#[test]
fn what_a_snapshot_sees_is_no_reason_to_compact_again() -> Result<()> {
    simulate(14, |env| {
        let store = open(env, &lazy_with_values())?;
        put_all(&store, 0..600, 0)?;
        let snapshot = store.snapshot();
        put_all(&store, 0..600, 1)?;
        store.flush()?;
        store.settle();
        let space = store.inner.versions.current().value_space();
        assert_eq!(space.entry_bytes, 1200 * ENTRY_BYTES, "nothing is garbage");
        assert!(!store.inner.shape.values.hides_too_much(&space), "{space:?}");
        drop(snapshot);
        put_all(&store, 0..600, 2)?;
        store.flush()?;
        store.settle();
        assert!(held(&store).0 <= 800 * ENTRY_BYTES, "{:?}", held(&store));
        store.close()
    })
}
