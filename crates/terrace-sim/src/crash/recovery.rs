//! One recovery: opens the range on a crashed disk and judges what is there.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{KeyRange, WallTime};
use terrace_engine::options::Durability;
use terrace_engine::store::{IterOptions, Store, WriteOptions};
use terrace_engine::{Error, Result, WriteBatch};
use terrace_env::{Latch, SeededRng, SharedEnv, SimEnv};

use crate::bulk::judge_copies;
use crate::library;
use crate::oracle::{Found, Model, Row, Violation, difference, moments};
use crate::run::simulate;
use crate::setup::{DIR, Setup, Through};
use crate::storage::Storage;

/// Which states a crash may leave.
#[derive(Clone, Copy, Debug)]
pub struct Allowed<'a> {
    /// What the range held at every number.
    pub model: &'a Model,
    /// The numbers at which a batch ends, ascending.
    pub boundaries: &'a [u64],
    /// Everything up to this number was promised.
    pub least: u64,
    /// Nothing above this number had been begun.
    pub most: u64,
}

/// What a recovery found.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The last number that is there.
    pub seqno: u64,
    /// The disk and the object stores before each change that the opening made to the disk.
    pub moments: Vec<Storage>,
    /// When it was opened.
    pub wall: WallTime,
}

/// The key that is written after a recovery. It sorts in the middle of most.
const AFTER: &[u8] = b"k00007~after the crash";

/// Opens the range on `storage` at `wall`, or an hour later, and judges what is there; then writes,
/// compacts, closes and opens it once more.
///
/// What must hold: the range opens; it holds the state at one number between what was promised and
/// what had been begun, a batch in full or not at all; every table is sound; it goes on taking
/// writes; and nothing changes by a compaction or a restart.
pub fn recover(
    setup: &Arc<Setup>,
    storage: Storage,
    wall: WallTime,
    allowed: &Allowed<'_>,
    seed: u64,
) -> std::result::Result<Recovered, Violation> {
    let mut random = SeededRng::new(seed);
    let kept: Arc<Latch<Vec<Storage>>> = Arc::default();
    let seen = Arc::clone(&kept);
    // Now and then the machine was away for a while.
    let wall = if random.one_in(8) { WallTime(wall.0 + 3_600_000) } else { wall };
    let mut options = setup.sim(random.next_u64(), storage);
    options.wall_start = wall;
    options.on_io = Some(Box::new(move |point| {
        let (disk, objects) = (point.disk.clone(), point.objects.clone());
        seen.lock().push(Storage { disk, objects });
    }));
    let outcome = simulate(options, |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let mut opened_at = 0;
        let mut opened = || opened_at = sim.io_count();
        let judged = match setup.through {
            Through::Engine => judge(&env, setup, allowed, &mut random, &mut opened),
            Through::Library => library::judge(&env, setup, allowed, &mut random, &mut opened),
        };
        judged.map(|seqno| (seqno, opened_at))
    })?;
    let (seqno, opened_at) = outcome?;
    let mut moments = std::mem::take(&mut *kept.lock());
    moments.truncate(usize::try_from(opened_at).unwrap_or(usize::MAX));
    Ok(Recovered { seqno, moments, wall })
}

/// A failed call of the engine is a violation here: no fault is injected.
fn failed(what: &str) -> impl Fn(Error) -> Violation + '_ {
    move |error| Violation::of_run(format!("{what} failed: {error}"))
}

fn judge(
    env: &SharedEnv,
    setup: &Arc<Setup>,
    allowed: &Allowed<'_>,
    random: &mut SeededRng,
    opened: &mut dyn FnMut(),
) -> std::result::Result<u64, Violation> {
    let other = with_other_options(setup, random);
    let store = other.open(env).map_err(failed("opening the range"))?;
    opened();
    let seqno = store.snapshot().seqno().0;
    let Allowed { least, most, boundaries, .. } = *allowed;
    if !(least..=most).contains(&seqno) || boundaries.binary_search(&seqno).is_err() {
        let text = format!(
            "the range holds everything up to number {seqno}; {least} were promised, {most} \
             begun, and batches end at {boundaries:?}"
        );
        return Err(Violation::of_run(text));
    }
    let model = allowed.model;
    compare(env, &store, model, seqno, false).map_err(|v| v.within("after the recovery"))?;
    judge_copies(env, setup, model, boundaries)?;
    let report = store.check(&mut |_, _| ()).map_err(failed("checking the tables"))?;
    if !report.is_clean() {
        return Err(Violation::of_run(format!("after the recovery: {report}")));
    }
    write_after(&store).map_err(failed("writing after the recovery"))?;
    if random.one_in(4) {
        store.compact(&KeyRange::all()).map_err(failed("compacting after the recovery"))?;
        compare(env, &store, model, seqno, true).map_err(|v| v.within("after a compaction"))?;
    }
    if random.one_in(2) {
        store.close().map_err(failed("closing after the recovery"))?;
    }
    drop(store);
    let store = setup.open(env).map_err(failed("opening once more"))?;
    if !store.recovery().was_closed {
        return Err(Violation::of_run("a range that was closed opens as one that was not"));
    }
    compare(env, &store, model, seqno, true).map_err(|v| v.within("after a restart"))?;
    store.close().map_err(failed("closing at the end"))?;
    Ok(seqno)
}

/// Now and then a range is opened with other options than it was written with.
fn with_other_options(setup: &Arc<Setup>, random: &mut SeededRng) -> Arc<Setup> {
    if !random.one_in(4) {
        return Arc::clone(setup);
    }
    let mut other = Setup::clone(setup);
    let drawn = Setup::draw(random);
    other.options.table = drawn.options.table;
    other.options.memtable_bytes = drawn.options.memtable_bytes;
    other.options.log_segment_bytes = drawn.options.log_segment_bytes;
    other.options.log_bytes_max = drawn.options.log_bytes_max;
    other.options.drange_boundaries =
        if random.one_in(2) { Vec::new() } else { vec![b"k00004".to_vec(), b"k00011".to_vec()] };
    Arc::new(other)
}

fn write_after(store: &Store) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(AFTER, b"the range goes on")?;
    let options = WriteOptions { durability: Some(Durability::Sync), ..WriteOptions::default() };
    store.write(&batch, &options)
}

/// Compares what the range holds with the model at `seqno`, and with what was written after the
/// recovery.
fn compare(
    env: &SharedEnv,
    store: &Store,
    model: &Model,
    seqno: u64,
    has_after: bool,
) -> std::result::Result<(), Violation> {
    let now = env.wall_time();
    let mut found = rows(store).map_err(failed("reading everything"))?;
    let place = found.iter().position(|(key, _)| key == AFTER);
    let after = place.map(|place| found.remove(place));
    if after.is_some() != has_after {
        let text = format!("what was written after the recovery is there: {}", after.is_some());
        return Err(Violation::of_run(text));
    }
    let until = env.wall_time();
    let wanted = model.scan(&KeyRange::all(), seqno, now);
    // Requests of an object store take time, in which entries expire one after the other; the
    // iterator began at one of these moments.
    let keys: Vec<Vec<u8>> = wanted.iter().map(|(key, _)| key.clone()).collect();
    let mut moments = moments(model, &keys, seqno, now, until).into_iter();
    if moments.any(|at| found == model.scan(&KeyRange::all(), seqno, at)) {
        return Ok(());
    }
    Err(Violation::of_run(format!("at number {seqno}: {}", difference(&found, &wanted))))
}

fn rows(store: &Store) -> Result<Vec<Row>> {
    let mut iter = store.iter(IterOptions::default())?;
    iter.seek_to_first()?;
    let mut rows = Vec::new();
    while let Some(entry) = iter.entry() {
        let expiry = entry.expiry.map(|expiry| expiry.time());
        rows.push((entry.key.to_vec(), Found::of(entry.seqno.0, expiry, entry.value)));
        iter.next()?;
    }
    Ok(rows)
}

/// The directory of the range on a disk, for tests that look into it.
#[must_use]
pub fn dir() -> &'static Path {
    Path::new(DIR)
}
