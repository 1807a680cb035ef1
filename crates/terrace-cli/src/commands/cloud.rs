//! Databases in an object store: their checkpoints, copies of them, and who needs what is there.

use std::fmt::Write as _;

use terrace::{CloudCheckpoint, CloudDatabase, Options};

use super::maintain::print;
use super::{Target, cut_short};
use crate::args::{CloneArgs, CloudAct, CloudActArgs, WhyLiveArgs};
use crate::failure::{Failure, Outcome};
use crate::signals::StopFlag;
use crate::terminal::{self, Progress};

pub(super) fn cloud(args: CloudActArgs, target: &Target) -> Outcome {
    match args.act {
        CloudAct::Databases => databases(target),
        CloudAct::Checkpoints => checkpoints(&database(target)?),
        CloudAct::Checkpoint { name } => {
            let made = database(target)?.make_checkpoint(&name)?;
            terminal::note(&shown(&made));
            Ok(())
        }
        CloudAct::Remove { name } => {
            let is_removed = database(target)?.remove_checkpoint(&name)?;
            let missing = || Failure::Negative(format!("there is no checkpoint {name}"));
            is_removed.then_some(()).ok_or_else(missing)
        }
    }
}

pub(super) fn clone(args: &CloneArgs, target: &Target) -> Outcome {
    let stop = StopFlag::on_signals()?;
    let (place, _) = target.args.store(&target.around)?;
    let database = database(target)?;
    let progress = Progress::of_share();
    let cloned = database.clone_to(&args.out, &place.moment, |done, total| {
        progress.set_share(done, total);
        !stop.is_set()
    });
    progress.finish();
    let report = cloned.map_err(|error| cut_short(error, &args.out))?;
    let as_of = report.as_of.map_or_else(String::new, |at| format!(", which is of {at:#}"));
    terminal::note(&format!(
        "{} files ({} bytes); everything up to number {}{as_of}",
        report.linked_count + report.copied_count,
        report.table_bytes,
        report.seqno
    ));
    Ok(())
}

pub(super) fn why_live(args: &WhyLiveArgs, target: &Target) -> Outcome {
    let why = database(target)?.why_live(&args.object)?;
    let mut text = match why.bytes {
        Some(bytes) => format!("{} ({bytes} bytes)\n", why.object),
        None => format!("{} is not there\n", why.object),
    };
    for reason in &why.reasons {
        let _ = writeln!(text, "  {reason}");
    }
    if why.reasons.is_empty() && why.bytes.is_some() {
        text.push_str("  nobody needs it: the owner of the database deletes it some time later\n");
    }
    print(text.trim_end())
}

/// The database that is meant.
fn database(target: &Target) -> Outcome<CloudDatabase> {
    let (place, origin) = target.args.store(&target.around)?;
    let opened = Options::new().open_cloud(&place.url, place.database);
    opened.map_err(|error| origin.explain(error.into()))
}

fn databases(target: &Target) -> Outcome {
    let (place, origin) = target.args.store(&target.around)?;
    let found = Options::new().cloud_databases(&place.url);
    for id in found.map_err(|error| origin.explain(error.into()))? {
        print(format!("{id:032x}"))?;
    }
    Ok(())
}

fn checkpoints(database: &CloudDatabase) -> Outcome {
    for checkpoint in database.checkpoints()? {
        print(shown(&checkpoint))?;
    }
    Ok(())
}

fn shown(checkpoint: &CloudCheckpoint) -> String {
    format!(
        "{}  {}  number {}  {} files ({} bytes)",
        checkpoint.name,
        checkpoint.at,
        checkpoint.seqno,
        checkpoint.file_count,
        checkpoint.file_bytes
    )
}
