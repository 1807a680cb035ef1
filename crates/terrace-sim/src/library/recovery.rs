//! One recovery: opens the database on a crashed disk and judges what is there.

use std::path::Path;
use std::sync::Arc;

use terrace::Db;
use terrace_env::{SeededRng, SharedEnv};

use super::backup::judge_all;
use super::errors::violation;
use super::open::{appending, open, whole};
use crate::crash::Allowed;
use crate::oracle::{Found, Model, Violation, What, content_differs};
use crate::setup::{DIR, Setup};

/// Keyspaces that are made after a recovery: with numbers that nobody else has.
const AFTER: [&str; 2] = ["made after the crash", "and another"];

/// Opens the database and judges what is there; then makes keyspaces, writes, closes and opens it
/// once more. `opened` is called after the first opening. The last number that was there.
pub fn judge(
    env: &SharedEnv,
    setup: &Arc<Setup>,
    allowed: &Allowed<'_>,
    random: &mut SeededRng,
    opened: &mut dyn FnMut(),
) -> Result<u64, Violation> {
    let dir = Path::new(DIR);
    let db = open(setup, env, dir).map_err(violation("opening the database"))?;
    opened();
    let seqno = db.snapshot().seqno().0;
    let Allowed { model, boundaries, least, most } = *allowed;
    if !(least..=most).contains(&seqno) || boundaries.binary_search(&seqno).is_err() {
        let text = format!(
            "the database holds everything up to number {seqno}; {least} were promised, {most} \
             begun, and batches end at {boundaries:?}"
        );
        return Err(Violation::of_run(text));
    }
    compare(env, &db, model, seqno).map_err(|v| v.within("after the recovery"))?;
    judge_all(env, setup, model, boundaries)?;
    let report = db.admin().check().map_err(violation("checking the database"))?;
    if !report.is_clean() {
        return Err(Violation::of_run(format!("after the recovery: {report}")));
    }
    go_on(&db).map_err(violation("writing after the recovery"))?;
    if random.one_in(4) {
        db.admin().compact(&db, ..).map_err(violation("compacting after the recovery"))?;
    }
    if random.one_in(2) {
        db.close().map_err(violation("closing after the recovery"))?;
    }
    drop(db);
    let db = open(setup, env, dir).map_err(violation("opening once more"))?;
    compare_after(env, &db, model, seqno).map_err(|v| v.within("after a restart"))?;
    db.close().map_err(violation("closing at the end"))?;
    Ok(seqno)
}

/// Compares all that the database holds with the model.
fn compare(env: &SharedEnv, db: &Db, model: &Model, seqno: u64) -> Result<(), Violation> {
    let what = whole(env, db).map_err(violation("reading everything"))?;
    let What::Whole { from, until, content, .. } = what else { return Ok(()) };
    content_differs(model, seqno, from, until, &content)
        .map_or(Ok(()), |text| Err(Violation::of_run(text)))
}

fn go_on(db: &Db) -> terrace::Result<()> {
    for name in AFTER {
        db.keyspace_with(name, appending())?.merge("k", name)?;
    }
    db.sync()
}

/// Compares what was there with the model at `seqno`, and takes out what was written since.
fn compare_after(env: &SharedEnv, db: &Db, model: &Model, seqno: u64) -> Result<(), Violation> {
    let what = whole(env, db).map_err(violation("reading everything"))?;
    let What::Whole { from, until, mut content, .. } = what else { return Ok(()) };
    for name in AFTER {
        let rows = content.remove(name).unwrap_or_default();
        let is_own =
            |(key, found): &(Vec<u8>, Found)| key == b"k" && found.bytes as usize == name.len();
        if rows.len() != 1 || !rows.iter().all(is_own) {
            let text = format!("keyspace {name} was new and got one key, and holds {rows:?}");
            return Err(Violation::of_run(text));
        }
    }
    content_differs(model, seqno, from, until, &content)
        .map_or(Ok(()), |text| Err(Violation::of_run(text)))
}
