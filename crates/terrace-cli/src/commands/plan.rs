//! Sizes for a database, and what should lie where: for what is said, or for what is read of a
//! database that is there.

mod observed;
mod reading;

use serde::Serialize;
use terrace::{Needs, Plan, TierPlan};

use super::Target;
use super::maintain::{json, print};
use crate::args::{self, PlanArgs};
use crate::failure::{Failure, Outcome};

/// The length of values where nobody says it.
const VALUE_BYTES: u64 = 256;

pub(super) fn plan(args: &PlanArgs, target: &Target) -> Outcome {
    if let Some(from) = &args.tiers.from {
        return observed::plan(args, from, target);
    }
    let needs = Needs {
        data_bytes: args.data_bytes.unwrap_or_default(),
        memory_bytes: args.memory_bytes.unwrap_or_default(),
        pmem_bytes: args.l0_bytes,
        value_bytes: args.value_bytes.unwrap_or(VALUE_BYTES),
    };
    match args.tiers.needs(needs) {
        Some(tiers) => print_as(args.output, &TierPlan::for_needs(&tiers).map_err(wrong)?),
        None => print_as(args.output, &Plan::for_needs(&needs).map_err(wrong)?),
    }
}

fn wrong(error: terrace::Error) -> Failure {
    Failure::Usage(error.to_string())
}

fn print_as(output: args::Output, plan: &(impl Serialize + std::fmt::Display)) -> Outcome {
    match output {
        args::Output::Json => print(json(plan)?),
        args::Output::Text => print(plan),
    }
}
