//! What a client does with data as a whole: ingests, and checkpoints that it opens and judges.
//!
//! A checkpoint lies in a directory of its own below [`COPIES`] and is deleted when it was judged.
//! A machine that stops meanwhile leaves it whole or not at all: whoever recovers the range asks
//! [`judge_copies`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Expiry, KeyRange, WallTime};
use terrace_engine::check::{CheckDepth, check_dir};
use terrace_engine::store::{IterOptions, Store};
use terrace_engine::{Error, Result};
use terrace_env::SharedEnv;

use crate::oracle::{Found, IteratorFacts, Model, Row, Violation, What, difference};
use crate::setup::Setup;
use crate::workload::Change;

/// Where checkpoints lie.
const COPIES: &str = "/copies";

/// The directory of the checkpoint that a client makes as its operation `step`: one that an earlier
/// run on the same disk did not leave half-way.
#[must_use]
pub fn copy_dir(env: &SharedEnv, client: usize, step: usize) -> PathBuf {
    let dir = |number| Path::new(COPIES).join(format!("{client}-{step}-{number}"));
    let is_taken = |number: &u32| env.fs().list(&dir(*number)).is_ok();
    dir((0..).find(|number| !is_taken(number)).unwrap_or_default())
}

/// The puts as an ingest takes them: by key, the last of each.
#[must_use]
pub fn sorted(puts: &[Change]) -> Vec<Change> {
    let by_key = |put: &Change| match put {
        Change::Put { key, .. } => Some((key.clone(), put.clone())),
        _ => None,
    };
    let sorted: BTreeMap<Vec<u8>, Change> = puts.iter().filter_map(by_key).collect();
    sorted.into_values().collect()
}

/// Ingests puts, which are sorted; the number that they got.
pub fn ingest(store: &Store, puts: &[Change], now: WallTime) -> Result<u64> {
    let mut ingest = store.begin_ingest()?;
    for put in puts {
        if let Change::Put { key, value, ttl_ms } = put {
            let expiry = ttl_ms.map(|ttl| Expiry::at(WallTime(now.0.saturating_add(ttl))));
            ingest.add(key, &value.content(), expiry)?;
        }
    }
    ingest.finish().map(|report| report.seqno.0)
}

/// Opens the checkpoint in `dir`, which was made at number `seqno`, and reads everything.
pub fn read_copy(setup: &Setup, env: &SharedEnv, dir: &Path, seqno: u64) -> Result<What> {
    let copy = setup.open_copy(env, dir)?;
    let within = KeyRange::all();
    let from = env.wall_time();
    let mut iter = copy.iter(IterOptions { range: within.clone(), ..IterOptions::default() })?;
    let until = env.wall_time();
    let iterator = IteratorFacts { within, seqno: iter.seqno().0, from, until, at: Some(seqno) };
    let mut rows: Vec<Row> = Vec::new();
    iter.seek_to_first()?;
    while let Some(entry) = iter.entry() {
        let expiry = entry.expiry.map(|expiry| expiry.time());
        rows.push((entry.key.to_vec(), Found::of(entry.seqno.0, expiry, entry.value)));
        iter.next()?;
    }
    Ok(What::Scanned { iterator, backward: false, limit: u32::MAX, rows })
}

/// Reads and judges every byte of the checkpoint in `dir`.
pub fn check_copy(env: &SharedEnv, dir: &Path) -> Result<What> {
    let report = check_dir(env, dir, CheckDepth::Full, &mut |_, _| ())?;
    Ok(What::Checked { damage: (!report.is_clean()).then(|| report.to_string()) })
}

/// Deletes the checkpoint in `dir`: what says that it is one goes first, and durably.
pub fn remove_copy(env: &SharedEnv, dir: &Path) -> Result<()> {
    env.fs().remove(&dir.join("CURRENT"))?;
    env.fs().sync_dir(dir)?;
    for entry in env.fs().list(dir)? {
        env.fs().remove(&dir.join(&entry.name))?;
    }
    Ok(())
}

/// Judges the checkpoints that a stop left: each is whole and holds the state at its number, or
/// says that it is none. Those of which `model` does not know the number any more are only read.
pub fn judge_copies(
    env: &SharedEnv,
    setup: &Arc<Setup>,
    model: &Model,
    boundaries: &[u64],
) -> std::result::Result<(), Violation> {
    let failed = |dir: &Path, error: Error| {
        Violation::of_run(format!("the checkpoint {}: {error}", dir.display()))
    };
    let listed = match env.fs().list(Path::new(COPIES)) {
        Ok(listed) => listed,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(failed(Path::new(COPIES), error.into())),
    };
    for entry in listed {
        let dir = Path::new(COPIES).join(&entry.name);
        let names = env.fs().list(&dir).map_err(|error| failed(&dir, error.into()))?;
        if !names.iter().any(|file| file.name == "CURRENT") {
            continue;
        }
        let copy = setup.open_copy(env, &dir).map_err(|error| failed(&dir, error))?;
        let seqno = copy.snapshot().seqno().0;
        drop(copy);
        let base = boundaries.first().copied().unwrap_or_default();
        let what = read_copy(setup, env, &dir, seqno).map_err(|error| failed(&dir, error))?;
        let What::Scanned { iterator, rows, .. } = what else { continue };
        if seqno < base || seqno > model.seqno() {
            continue;
        }
        let wanted = model.scan(&KeyRange::all(), seqno, iterator.from);
        let is_there = iterator.from != iterator.until || rows == wanted;
        if !is_there || boundaries.binary_search(&seqno).is_err() {
            let text = format!(
                "the checkpoint {} at number {seqno} of {boundaries:?}: {}",
                dir.display(),
                difference(&rows, &wanted)
            );
            return Err(Violation::of_run(text));
        }
    }
    Ok(())
}
