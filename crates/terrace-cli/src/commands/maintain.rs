use terrace::Options;

use crate::args::{self, CheckArgs, CompactArgs, StatsArgs};
use crate::commands::with_data;
use crate::data::{Access, open};
use crate::failure::{Failure, Outcome};
use crate::terminal::Output;

fn print(text: impl std::fmt::Display) -> Outcome {
    let mut output = Output::new();
    output.line(text)?;
    output.finish()
}

pub(super) fn stats(args: StatsArgs) -> Outcome {
    let json = args.output == args::Output::Json;
    print(with_data(&args.data, Access::Read, |data| data.stats(json))?)
}

pub(super) fn check(args: CheckArgs) -> Outcome {
    // Damage may keep a database from being opened at all.
    let opened = open(&args.data, Access::Read, Options::default());
    let db = opened.map_err(|failure| match failure {
        Failure::Damaged(text) => Failure::Negative(text),
        other => other,
    })?;
    let report = db.check()?;
    db.close()?;
    match args.output {
        args::Output::Text => print(&report)?,
        args::Output::Json => {
            let json = serde_json::to_string(&report);
            print(json.map_err(|error| Failure::Failed(error.to_string()))?)?;
        }
    }
    if report.is_clean() {
        return Ok(());
    }
    Err(Failure::Negative(format!(
        "{} is damaged; copy it before anything else, then restore what is named above",
        args.data.display()
    )))
}

pub(super) fn compact(args: CompactArgs) -> Outcome {
    let range = args.range.range()?;
    let db = open(&args.data, Access::Write, Options::default())?;
    db.compact(range)?;
    Ok(db.close()?)
}
