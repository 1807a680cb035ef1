use serde::Serialize;
use terrace::{Needs, Plan, TierPlan};

use crate::args::{self, CompactArgs, Place, PlanArgs};
use crate::commands::Target;
use crate::data::{Access, Data as _};
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

pub(super) fn plan(args: &PlanArgs) -> Outcome {
    let needs = Needs {
        data_bytes: args.data_bytes,
        memory_bytes: args.memory_bytes,
        pmem_bytes: args.l0_bytes,
        value_bytes: args.value_bytes,
    };
    let wrong = |error: terrace::Error| Failure::Usage(error.to_string());
    match args.tiers.needs(needs) {
        Some(tiers) => print_as(args.output, &TierPlan::for_needs(&tiers).map_err(wrong)?),
        None => print_as(args.output, &Plan::for_needs(&needs).map_err(wrong)?),
    }
}

fn print_as(output: args::Output, plan: &(impl Serialize + std::fmt::Display)) -> Outcome {
    match output {
        args::Output::Json => print(json(plan)?),
        args::Output::Text => print(plan),
    }
}

pub(super) fn compact(args: CompactArgs, target: &Target) -> Outcome {
    let range = args.range.range()?;
    if let Place::Server(..) = target.place()? {
        return target.operate(|server, watch| {
            if let Some(name) = target.args.keyspace() {
                server.use_keyspace(name, false)?;
            }
            server.compact(&range, watch)
        });
    }
    let (db, keyspace) = target.open_directory(Access::Write)?;
    db.admin().compact(&keyspace, range)?;
    Ok(db.close()?)
}
