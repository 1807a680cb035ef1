//! A copy of a database at one moment.

use std::path::Path;

use terrace::Options;

use crate::args::CheckpointArgs;
use crate::commands::cut_short;
use crate::data::{Access, open};
use crate::failure::Outcome;
use crate::signals::StopFlag;
use crate::terminal::{self, Progress};

pub(super) fn checkpoint(args: CheckpointArgs, data: &Path) -> Outcome {
    let stop = StopFlag::on_signals()?;
    let db = open(data, Access::Write, Options::default())?;
    let progress = Progress::of_share();
    let outcome = db.checkpoint_with(&args.out, |done, total| {
        progress.set_share(done, total);
        !stop.is_set()
    });
    progress.finish();
    let closed = db.close();
    let report = outcome.map_err(|error| cut_short(error, &args.out))?;
    closed?;
    terminal::note(&format!(
        "{} tables ({} bytes): {} linked, {} copied; everything up to number {}",
        report.linked_count + report.copied_count,
        report.table_bytes,
        report.linked_count,
        report.copied_count,
        report.seqno
    ));
    Ok(())
}
