use crate::args::{self, KeyspacesAct, KeyspacesArgs};
use crate::commands::Session;
use crate::commands::maintain::json;
use crate::failure::{Failure, Outcome};
use crate::terminal::{self, HumanCount, Output, bytes};

pub(super) fn keyspaces(args: KeyspacesArgs, session: &mut Session) -> Outcome {
    match args.act {
        None => list(args.output, session),
        Some(KeyspacesAct::Drop(args)) => drop_one(&args.name, args.yes, session),
    }
}

fn list(kind: args::Output, session: &mut Session) -> Outcome {
    let all = session.data()?.keyspaces()?;
    let width = all.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut output = Output::new();
    for (name, size) in &all {
        match kind {
            args::Output::Text => output.line(format_args!(
                "{name:<width$}  about {} entries, {}",
                HumanCount(size.entries),
                bytes(size.bytes)
            ))?,
            args::Output::Json => output.line(json(&serde_json::json!({
                "name": name,
                "approximate_entries": size.entries,
                "approximate_bytes": size.bytes,
            }))?)?,
        }
    }
    output.finish()
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
