//! The subcommands, one file for each act that is more than a call.

mod bench;
mod checkpoint;
mod explain;
mod export;
mod import;
mod ingest;
mod keys;
mod maintain;
mod rescue;
mod scan;
mod serve;
mod sim;

use std::path::Path;

use crate::args::{Args, Command, DataArgs};
use crate::data::{Access, Data, LocalData, RemoteData};
use crate::failure::{Failure, Outcome};
use crate::files;

/// Does what the command line says.
pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Serve(args) => serve::serve(args),
        Command::Get(args) => keys::get(args),
        Command::Put(args) => keys::put(args),
        Command::Delete(args) => keys::delete(args),
        Command::Scan(args) => scan::scan(args),
        Command::Import(args) => import::import(args),
        Command::Export(args) => export::export(args),
        Command::Explain(args) => explain::explain(args),
        Command::Ingest(args) => ingest::ingest(args),
        Command::Checkpoint(args) => checkpoint::checkpoint(args),
        Command::Stats(args) => maintain::stats(args),
        Command::Plan(args) => maintain::plan(&args),
        Command::Slow(args) => explain::slow(args),
        Command::Check(args) => rescue::check(args),
        Command::Repair(args) => rescue::repair(args),
        Command::Adopt(args) => rescue::adopt(&args),
        Command::Inspect(args) => rescue::inspect(args),
        Command::Compact(args) => maintain::compact(args),
        Command::Bench(args) => bench::bench(&args),
        Command::Sim(args) => sim::sim(args),
    }
}

/// Lets `act` work on the database that is meant, and closes it whatever comes of that.
fn with_data<T>(
    args: &DataArgs,
    access: Access,
    act: impl FnOnce(&mut dyn Data) -> Outcome<T>,
) -> Outcome<T> {
    let mut data: Box<dyn Data> = match (&args.data, &args.connect) {
        (Some(dir), _) => Box::new(LocalData::open(dir, access)?),
        (None, Some(address)) => {
            let password = files::password(args.password_file.as_deref())?;
            Box::new(RemoteData::connect(address, password.as_ref())?)
        }
        (None, None) => return Err(Failure::Usage("say --data DIR or --connect ADDR".to_owned())),
    };
    let outcome = act(&mut *data);
    let closed = data.close();
    let value = outcome?;
    closed.map(|()| value)
}

/// What it means that a new database in `out` was not finished.
fn cut_short(error: terrace::Error, out: &Path) -> Failure {
    match error.kind() {
        terrace::ErrorKind::Cancelled => {
            Failure::Interrupted(format!("interrupted: {} holds no database", out.display()))
        }
        _ => error.into(),
    }
}
