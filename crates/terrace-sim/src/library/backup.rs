//! Backups of a database that others write to meanwhile: made, verified, restored and judged.
//!
//! A machine that stops while one is made leaves it whole or not at all: whoever opens the database
//! after a crash asks [`judge_all`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace::{BackupOptions, Backups, Db, Result};
use terrace_env::SharedEnv;

use super::client::Client;
use super::errors::{failed, violation};
use super::open::{open, whole};
use crate::oracle::{Model, Violation, What, content_differs};
use crate::setup::Setup;

/// Where they lie.
const BACKUPS: &str = "/backups";

/// Where they are restored to.
const RESTORED: &str = "/restored";

/// How many are kept.
const KEPT: usize = 2;

/// Makes a backup, and writes down what is in it.
pub fn act(client: &Client, db: &Db) -> Result<()> {
    // One at a time: others would be refused.
    let spaces = Arc::clone(&client.spaces);
    let _turn = spaces.backups.lock();
    let backups = Backups::open_in(Arc::clone(&client.env), BACKUPS)?;
    let id = client.begin(What::Begun);
    let number = match backups.create_with(db, &BackupOptions::new(), |_, _| true) {
        Ok(report) => {
            client.end(id, What::Snapshot { seqno: report.backup.seqno.0 });
            report.backup.number
        }
        Err(error) => {
            client.end(id, failed(&error));
            return Ok(());
        }
    };
    let id = client.begin(What::Begun);
    let report = backups.verify(number)?;
    let damage = (!report.is_clean()).then(|| report.to_string());
    client.end(id, What::Checked { damage });
    let id = client.begin(What::Begun);
    client.end(id, restored(&client.setup, &client.env, &backups, number)?);
    backups.keep_newest(KEPT)?;
    Ok(())
}

/// What a backup holds when it is restored and opened.
fn restored(setup: &Setup, env: &SharedEnv, backups: &Backups, number: u32) -> Result<What> {
    let dir = free_dir(env);
    backups.restore(number, &dir)?;
    let copy = open(setup, env, &dir)?;
    let what = whole(env, &copy)?;
    copy.close()?;
    Ok(what)
}

/// A directory to restore to, which a stop of the machine did not leave half-way.
fn free_dir(env: &SharedEnv) -> PathBuf {
    let dir = |number: u32| Path::new(RESTORED).join(number.to_string());
    let is_free = |number: &u32| env.fs().list(&dir(*number)).is_err();
    dir((0..).find(is_free).unwrap_or_default())
}

/// Judges the backups that a stop of the machine left: each is whole, restores, and holds the state
/// at its number, which is one of `boundaries`.
pub fn judge_all(
    env: &SharedEnv,
    setup: &Setup,
    model: &Model,
    boundaries: &[u64],
) -> std::result::Result<(), Violation> {
    let backups = Backups::open_in(Arc::clone(env), BACKUPS)
        .map_err(violation("opening the directory of backups"))?;
    for backup in backups.list().map_err(violation("listing backups"))? {
        let what = restored(setup, env, &backups, backup.number);
        let what = what.map_err(violation("restoring a backup"))?;
        let What::Whole { seqno, from, until, content } = what else { continue };
        let differs = content_differs(model, seqno, from, until, &content);
        let is_boundary = boundaries.binary_search(&seqno).is_ok();
        if differs.is_some() || seqno != backup.seqno.0 || !is_boundary {
            let text = format!(
                "backup {} of number {}, restored at number {seqno}: {}",
                backup.number,
                backup.seqno.0,
                differs.unwrap_or_default()
            );
            return Err(Violation::of_run(text));
        }
    }
    Ok(())
}
