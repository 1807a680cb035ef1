//! Backups: made, listed, verified, deleted, and turned into databases again.

mod on_server;

use std::path::Path;
use std::time::SystemTime;

use terrace::{Backup, BackupOptions, Backups, Options};

use crate::args::{
    BackupAct, BackupArgs, BackupChoiceArgs, BackupCreateArgs, BackupPlaceArgs, Place, RestoreArgs,
    only_read,
};
use crate::clock::utc;
use crate::commands::{Target, cut_short};
use crate::data::{Access, open};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::signals::StopFlag;
use crate::terminal::{self, Output, Progress};

pub(super) fn backup(args: BackupArgs, target: &Target) -> Outcome {
    match args.act {
        BackupAct::Create(args) => match target.place()? {
            Place::Server(..) => on_server::create(&args, target),
            Place::Directory(data, _) => create(&args, &data),
            Place::Store(place, _) => Err(Failure::Usage(only_read(&place.url))),
        },
        BackupAct::List(args) if target.is_server() => on_server::list(&args, target),
        BackupAct::List(args) => list(&args),
        BackupAct::Verify(args) if target.is_server() => on_server::verify(&args, target),
        BackupAct::Verify(args) => verify(&args),
        BackupAct::Delete(args) if target.is_server() => on_server::delete(&args, target),
        BackupAct::Delete(args) => delete(&args),
    }
}

/// What making a backup came to, for people.
struct Made {
    number: u64,
    bytes: u64,
    copied_bytes: u64,
    shared_tables: u64,
    deleted: Option<u64>,
}

impl Made {
    fn note(&self) {
        terminal::note(&format!(
            "backup {}: {} bytes, {} of them copied; {} tables shared with what was there",
            self.number, self.bytes, self.copied_bytes, self.shared_tables
        ));
        if let Some(deleted) = self.deleted {
            terminal::note(&format!("{deleted} older backups deleted"));
        }
    }
}

/// Backups that must be there already.
fn existing(dir: &Path) -> Outcome<Backups> {
    if !files::is_directory(dir) {
        let dir = dir.display();
        return Err(Failure::Failed(format!(
            "there are no backups in {dir}; `terrace backup create --in {dir}` makes one"
        )));
    }
    Ok(Backups::open(dir)?)
}

fn with_rate(options: BackupOptions, rate: Option<u64>) -> BackupOptions {
    rate.map_or(options, |rate| options.bytes_per_second(rate))
}

fn create(args: &BackupCreateArgs, data: &Path) -> Outcome {
    let dir = args.place.dir()?;
    let stop = StopFlag::on_signals()?;
    let db = open(data, Access::Write, Options::default())?;
    let backups = Backups::open(dir)?;
    let mut options = BackupOptions::new();
    options = if args.full { options.full() } else { options };
    options = if args.link { options.link() } else { options };
    let progress = Progress::of_share();
    let outcome = backups.create_with(&db, &with_rate(options, args.rate), |done, total| {
        progress.set_share(done, total);
        !stop.is_set()
    });
    progress.finish();
    let closed = db.close();
    let report = outcome.map_err(|error| match error.kind() {
        terrace::ErrorKind::Cancelled => {
            Failure::Interrupted("interrupted: no backup was made".to_owned())
        }
        _ => error.into(),
    })?;
    closed?;
    let mut made = Made {
        number: report.backup.number.into(),
        bytes: report.backup.bytes,
        copied_bytes: report.copied_bytes,
        shared_tables: report.shared_table_count,
        deleted: None,
    };
    let deleted = args.keep.map(|keep| backups.keep_newest(keep as usize)).transpose();
    if let Ok(Some(deleted)) = deleted {
        made.deleted = Some(deleted as u64);
    }
    made.note();
    deleted?;
    Ok(())
}

fn list(args: &BackupPlaceArgs) -> Outcome {
    let mut output = Output::new();
    for backup in existing(args.dir()?)?.list()? {
        let Backup { number, created_at, seqno, bytes, .. } = backup;
        output.line(listed(number.into(), created_at, bytes, seqno.0))?;
    }
    output.finish()
}

fn listed(number: u64, created_at: SystemTime, bytes: u64, seqno: u64) -> String {
    let made = utc(created_at);
    format!("{number}\t{made}\t{bytes} bytes\tup to number {seqno}")
}

fn verify(args: &BackupChoiceArgs) -> Outcome {
    let backups = existing(args.place.dir()?)?;
    let progress = Progress::of_share();
    let report = backups.verify_with(args.number, |done, total| progress.set_share(done, total));
    progress.finish();
    let report = report?;
    let mut output = Output::new();
    output.line(&report)?;
    output.finish()?;
    if report.is_clean() {
        return Ok(());
    }
    Err(damaged(args.number))
}

fn damaged(number: u32) -> Failure {
    Failure::Negative(format!(
        "backup {number} is damaged; make a new one with --full, which shares nothing with it"
    ))
}

fn delete(args: &BackupChoiceArgs) -> Outcome {
    Ok(existing(args.place.dir()?)?.delete(args.number)?)
}

pub(super) fn restore(args: &RestoreArgs) -> Outcome {
    let stop = StopFlag::on_signals()?;
    let backups = existing(&args.backups)?;
    let newest = || Ok::<_, Failure>(backups.list()?.last().map(|backup| backup.number));
    let number = match args.number {
        Some(number) => number,
        None => newest()?.ok_or_else(|| {
            let dir = args.backups.display();
            Failure::Failed(format!("there are no backups in {dir}"))
        })?,
    };
    let options = with_rate(BackupOptions::new(), args.rate);
    let progress = Progress::of_share();
    let outcome = backups.restore_with(number, &args.out, &options, |done, total| {
        progress.set_share(done, total);
        !stop.is_set()
    });
    progress.finish();
    outcome.map_err(|error| cut_short(error, &args.out))?;
    terminal::note(&format!("backup {number} is a database in {} now", args.out.display()));
    Ok(())
}
