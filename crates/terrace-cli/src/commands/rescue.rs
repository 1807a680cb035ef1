//! Databases that nobody has open: is anything damaged, what is left, and what is in a file?

use std::path::Path;

use terrace::{CheckDepth, Options};

use super::maintain::{json, print};
use super::{Target, cut_short};
use crate::args::{self, CheckArgs, Place, RepairArgs, only_read};
use crate::failure::{Failure, Outcome};
use crate::signals::StopFlag;
use crate::terminal::{Output, Progress};

pub(super) fn check(args: &CheckArgs, target: &Target) -> Outcome {
    match target.place()? {
        Place::Server(..) => check_on_server(args, target),
        Place::Directory(data, _) => check_directory(args, &data),
        Place::Store(place, _) => Err(Failure::Usage(only_read(&place.url))),
    }
}

fn check_on_server(args: &CheckArgs, target: &Target) -> Outcome {
    if args.quick {
        return Err(Failure::Usage("--quick is for directories: a server reads everything".into()));
    }
    let mut request: Vec<&[u8]> = vec![b"CHECK"];
    request.extend((args.output == args::Output::Json).then_some(&b"JSON"[..]));
    let report = target.operate(|server, watch| server.operate(&request, watch))?;
    print(report.text("report"))?;
    if report.number("clean") == 1 {
        return Ok(());
    }
    Err(Failure::Negative(format!(
        "the server's database is damaged ({} findings); make a copy of its directory before \
         anything else; then restore a backup, or salvage what is left with `terrace repair`",
        report.number("findings")
    )))
}

fn check_directory(args: &CheckArgs, data: &Path) -> Outcome {
    let depth = if args.quick { CheckDepth::Quick } else { CheckDepth::Full };
    let progress = Progress::of_share();
    let report = terrace::check(data, depth, |done, total| progress.set_share(done, total));
    progress.finish();
    let report = report?;
    match args.output {
        args::Output::Text => print(&report)?,
        args::Output::Json => print(json(&report)?)?,
    }
    if report.is_clean() {
        return Ok(());
    }
    let (data, count) = (data.display(), report.findings.len());
    Err(Failure::Negative(format!(
        "{data} is damaged ({count} findings); copy it before anything else; then restore a backup, \
         or salvage what is left: terrace repair --data {data} --out NEW"
    )))
}

pub(super) fn repair(args: RepairArgs, data: &Path) -> Outcome {
    let stop = StopFlag::on_signals()?;
    let progress = Progress::of_share();
    let outcome = terrace::repair(data, &args.out, &Options::default(), |done, total| {
        progress.set_share(done, total);
        !stop.is_set()
    });
    progress.finish();
    let report = outcome.map_err(|error| cut_short(error, &args.out))?;
    match args.output {
        args::Output::Text => print(&report)?,
        args::Output::Json => print(json(&report)?)?,
    }
    if report.is_complete {
        return Ok(());
    }
    Err(Failure::Negative(format!(
        "{} holds what was left of {}; keys that may be missing, old, or back again are named above",
        args.out.display(),
        data.display()
    )))
}

pub(super) fn adopt(data: &Path) -> Outcome {
    let adopted = terrace::adopt(data)?;
    let mut output = Output::new();
    if adopted.is_empty() {
        output.line(format!("{} has nothing on another medium", data.display()))?;
    }
    for one in &adopted {
        let (data, medium) = (data.display(), one.medium.display());
        output.line(match &one.owner_before {
            Some(before) => {
                format!("what was on {medium} for {} is {data}'s now", before.display())
            }
            None => format!("what is on {medium} for this database is {data}'s now"),
        })?;
    }
    output.finish()
}
