use serde::Serialize;

use crate::args::{CompactArgs, Place};
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
