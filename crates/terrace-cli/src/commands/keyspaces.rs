use std::collections::BTreeMap;

use crate::args::{self, KeyspacesAct, KeyspacesArgs};
use crate::commands::Session;
use crate::commands::maintain::json;
use crate::data::Figures;
use crate::failure::{Failure, Outcome};
use crate::terminal::{self, HumanCount, Output, bytes};

pub(super) fn keyspaces(args: KeyspacesArgs, session: &mut Session) -> Outcome {
    match args.act {
        None => list(&args, session),
        Some(KeyspacesAct::Drop(args)) => drop_one(&args.name, args.yes, session),
    }
}

fn list(args: &KeyspacesArgs, session: &mut Session) -> Outcome {
    let data = session.data()?;
    let all = data.keyspaces()?;
    let stats = if args.stats { data.keyspace_stats()? } else { BTreeMap::new() };
    let none = Figures::new();
    let width = all.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut output = Output::new();
    for (name, size) in &all {
        let figures = stats.get(name).unwrap_or(&none);
        match args.output {
            args::Output::Text => {
                output.line(format_args!(
                    "{name:<width$}  about {} entries, {}",
                    HumanCount(size.entries),
                    bytes(size.bytes)
                ))?;
                if args.stats {
                    write_figures(figures, &mut output)?;
                }
            }
            args::Output::Json => {
                let mut listed = serde_json::json!({
                    "name": name,
                    "approximate_entries": size.entries,
                    "approximate_bytes": size.bytes,
                });
                if args.stats {
                    let figures = figures.iter();
                    let figures = figures.map(|(figure, value)| (figure.clone(), (*value).into()));
                    listed["stats"] = serde_json::Value::Object(figures.collect());
                }
                output.line(json(&listed)?)?;
            }
        }
    }
    output.finish()
}

/// A line for each figure that is not 0.
fn write_figures(figures: &Figures, output: &mut Output) -> Outcome {
    let told: Vec<_> = figures.iter().filter(|(_, value)| *value > 0).collect();
    if told.is_empty() {
        output.line(format_args!("    nothing was asked"))?;
    }
    for (figure, value) in told {
        let shown = match figure.strip_suffix("_bytes") {
            Some(_) => bytes(*value),
            None => HumanCount(*value).to_string(),
        };
        output.line(format_args!("    {:<26} {shown}", figure.replace('_', " ")))?;
    }
    Ok(())
}

fn drop_one(name: &str, is_sure: bool, session: &mut Session) -> Outcome {
    let question = format!("Drop the keyspace {name} with all its keys, for good?");
    if !is_sure && !terminal::ask(&question)? {
        return Err(Failure::Usage(format!(
            "the keyspace {name} was not dropped; --yes drops it without asking"
        )));
    }
    match session.data()?.drop_keyspace(name)? {
        true => Ok(()),
        false => Err(Failure::Negative(format!(
            "there is no keyspace {name}; `terrace keyspaces` lists them"
        ))),
    }
}
