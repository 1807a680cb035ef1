//! A copy of a database at one moment.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use terrace::Options;

use crate::args::{CheckpointArgs, Place, only_read};
use crate::commands::{Target, cut_short};
use crate::data::{Access, open};
use crate::failure::{Failure, Outcome};
use crate::signals::StopFlag;
use crate::terminal::{self, Progress};

pub(super) fn checkpoint(args: &CheckpointArgs, target: &Target) -> Outcome {
    match target.place()? {
        Place::Server(..) => on_server(args, target),
        Place::Directory(data, _) => in_directory(args, &data),
        Place::Store(place, _) => Err(Failure::Usage(only_read(&place.url))),
    }
}

fn on_server(args: &CheckpointArgs, target: &Target) -> Outcome {
    let name = args.out.as_os_str().as_bytes();
    let made = target.operate(|server, watch| server.operate(&[b"CHECKPOINT", name], watch))?;
    let [linked, copied] = ["linked_tables", "copied_tables"].map(|name| made.number(name));
    terminal::note(&format!(
        "{} on the server: {} tables ({} bytes), {linked} linked, {copied} copied; everything up to \
         number {}",
        made.text("path"),
        linked + copied,
        made.number("table_bytes"),
        made.number("seqno")
    ));
    Ok(())
}

fn in_directory(args: &CheckpointArgs, data: &Path) -> Outcome {
    let stop = StopFlag::on_signals()?;
    let db = open(data, Access::Write, Options::default())?;
    let progress = Progress::of_share();
    let outcome = db.checkpoint_with(&args.out, |done, total| {
        progress.set_share(done, total);
        !stop.is_set()
    });
    progress.finish();
    let closed = db.close();
    let report = outcome.map_err(|error| cut_short(error, &args.out))?;
    closed?;
    terminal::note(&format!(
        "{} tables ({} bytes): {} linked, {} copied; everything up to number {}",
        report.linked_count + report.copied_count,
        report.table_bytes,
        report.linked_count,
        report.copied_count,
        report.seqno
    ));
    Ok(())
}
