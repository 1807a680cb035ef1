use serde::Serialize;
use terrace::{Needs, Options, Plan};

use crate::args::{self, CompactArgs, PlanArgs, StatsArgs};
use crate::commands::with_data;
use crate::data::{Access, Data, open};
use crate::failure::{Failure, Outcome};
use crate::terminal::Output;

pub(super) fn print(text: impl std::fmt::Display) -> Outcome {
    let mut output = Output::new();
    output.line(text)?;
    output.finish()
}

/// A line of JSON.
pub(super) fn json(value: &impl Serialize) -> Outcome<String> {
    serde_json::to_string(value).map_err(|error| Failure::Failed(error.to_string()))
}

pub(super) fn stats(args: StatsArgs) -> Outcome {
    let json = args.output == args::Output::Json;
    let show = |data: &mut dyn Data| match args.what {
        args::Figures::All => data.stats(json),
        args::Figures::Dranges => data.dranges(json),
        args::Figures::L0 => data.l0(json),
    };
    print(with_data(&args.data, Access::Read, show)?)
}

pub(super) fn plan(args: &PlanArgs) -> Outcome {
    let needs = Needs {
        data_bytes: args.data_bytes,
        memory_bytes: args.memory,
        pmem_bytes: args.pmem,
        value_bytes: args.value_bytes,
    };
    let plan = Plan::for_needs(&needs).map_err(|error| Failure::Usage(error.to_string()))?;
    match args.output {
        args::Output::Json => print(json(&plan)?),
        args::Output::Text => print(plan),
    }
}

pub(super) fn compact(args: CompactArgs) -> Outcome {
    let range = args.range.range()?;
    let db = open(&args.data, Access::Write, Options::default())?;
    db.admin().compact(&db, range)?;
    Ok(db.close()?)
}
