//! What operators have a running server do: copies, backups, compactions, checks.
//!
//! ```text
//! CHECKPOINT name                          a copy of the database at one moment
//! BACKUP [CREATE [IN series] [FULL] [LINK] [RATE bytes] [KEEP count]]
//! BACKUP LIST [IN series]                  number, seconds since 1970, bytes, last write of each
//! BACKUP VERIFY number [IN series] [JSON]  reads everything in one
//! BACKUP DELETE number [IN series]
//! COMPACT [start end]                      of the keyspace that is selected; bounds as in RANGE
//! CHECK [JSON]                             reads every table of the database
//! OPERATION STATUS                         what runs, how far it is, and how the last one ended
//! OPERATION CANCEL id                      ends a checkpoint or a backup early
//! ```
//! They reply when the work is done, which may take hours; other clients go on. One runs at a time,
//! and a second one is refused with `BUSY`. Names are file names under the directory that the
//! server was started with; without one there are no operators' commands.

use std::time::{Duration, SystemTime};

use terrace::{BackupOptions, Backups, CheckReport, ErrorKind, OwnedRange};

use super::Mode;
use super::client::unknown_subcommand;
use super::context::Context;
use super::fail::{CommandResult, Fail, NOT_POSITIVE, SHUTTING_DOWN, SYNTAX, Weight};
use super::fail::{fail, fail_with, shown};
use super::numbers::integer;
use super::ordered::key_range;
use crate::net;
use crate::operations::{Cancelled, Name, Operation, OperatorDir};
use crate::protocol::{Replies, Request};

const NOT_OPERATED: Fail = fail(
    "ERR this server takes no operators' commands; start it with --operator-dir DIR, the directory \
     under which it makes checkpoints and backups",
);

/// The series of backups where none is named.
const SERIES: &[u8] = b"main";

const BACKUP_HELP: &[&str] = &[
    "BACKUP [<subcommand> [<arg> ...]]. Subcommands are:",
    "CREATE [IN <series>] [FULL] [LINK] [RATE <bytes per second>] [KEEP <count>]",
    "    Make a backup; what no subcommand stands for, too.",
    "LIST [IN <series>]",
    "    Return number, seconds since 1970, bytes, and number of the last write of each backup.",
    "VERIFY <number> [IN <series>] [JSON]",
    "    Read everything in a backup, and return what is damaged.",
    "DELETE <number> [IN <series>]",
    "    Delete a backup; what it shares with others stays theirs.",
    "HELP",
    "    Print this help.",
];

const OPERATION_HELP: &[&str] = &[
    "OPERATION <subcommand> [<arg>]. Subcommands are:",
    "STATUS",
    "    Return what runs, how far it is, and how the last operation ended.",
    "CANCEL <id>",
    "    End a checkpoint or a backup early.",
    "HELP",
    "    Print this help.",
];

/// A part of a reply.
enum Field {
    Number(u64),
    Text(String),
}

fn put_fields(replies: &mut Replies, fields: &[(&str, Field)]) {
    replies.map(fields.len());
    for (name, field) in fields {
        replies.bulk(name.as_bytes());
        match field {
            Field::Number(number) => replies.integer(i64::try_from(*number).unwrap_or(i64::MAX)),
            Field::Text(text) => replies.bulk(text.as_bytes()),
        }
    }
}

fn operator_dir<'a>(ctx: &'a Context<'_>) -> Result<&'a OperatorDir, Fail> {
    ctx.shared.operator_dir.as_ref().ok_or(NOT_OPERATED)
}

fn name(given: &[u8]) -> Result<Name, Fail> {
    Name::new(given).ok_or_else(|| {
        fail_with(format!(
            "ERR '{}' is no name for files here; use 1 to 64 letters, digits, '.', '-' and '_', \
             the first one a letter or a digit",
            shown(given, 128)
        ))
    })
}

/// Carries an operation out, on the thread that is there for it.
fn operate<T>(
    ctx: &Context<'_>,
    what: String,
    can_be_cancelled: bool,
    work: impl FnOnce(&Operation<'_>) -> terrace::Result<T>,
) -> Result<T, Fail> {
    let operations = &ctx.shared.operations;
    let busy = |with: String| {
        fail_with(format!("BUSY the server is at another operation: {with}; see OPERATION STATUS"))
    };
    if let Some(with) = operations.busy_with() {
        return Err(busy(with));
    }
    if ctx.mode != Mode::Blocking(Weight::Operation) {
        return Err(Fail::Wait(Weight::Operation));
    }
    let operation = operations.begin(what, can_be_cancelled);
    let operation = operation.ok_or_else(|| busy("one that has just begun".into()))?;
    let result = work(&operation);
    match &result {
        Ok(_) => operation.end("done".into()),
        Err(error) => operation.end(format!("failed: {error}")),
    }
    result.map_err(|error| match error.kind() {
        ErrorKind::Cancelled if ctx.shared.is_cancelled() => SHUTTING_DOWN,
        ErrorKind::Cancelled => fail("CANCELLED the operation was ended early; there is no copy"),
        _ => error.into(),
    })
}

pub(super) fn checkpoint(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let dir = operator_dir(ctx)?.checkpoint(&name(request.get(1))?);
    let (shared, what) = (ctx.shared, format!("checkpoint {}", dir.display()));
    let report = operate(ctx, what, true, |operation| {
        shared.db.checkpoint_with(&dir, |done, total| {
            operation.progress(done, total) && !shared.is_cancelled()
        })
    })?;
    let fields = [
        ("path", Field::Text(dir.display().to_string())),
        ("seqno", Field::Number(report.seqno.0)),
        ("linked_tables", Field::Number(report.linked_count)),
        ("copied_tables", Field::Number(report.copied_count)),
        ("table_bytes", Field::Number(report.table_bytes)),
    ];
    put_fields(ctx.replies, &fields);
    Ok(())
}

pub(super) fn compact(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    operator_dir(ctx)?;
    let range = match request.len() {
        1 => Some(OwnedRange::all()),
        3 => key_range(request.get(1), request.get(2)),
        _ => return Err(SYNTAX),
    };
    if let Some(range) = range {
        let (shared, keyspace) = (ctx.shared, ctx.keyspace().clone());
        let what = format!("compaction of keyspace {}", keyspace.name());
        operate(ctx, what, false, |_| shared.db.admin().compact(&keyspace, &range))?;
    }
    ctx.replies.ok();
    Ok(())
}

pub(super) fn check(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    operator_dir(ctx)?;
    let as_json = match request.len() {
        1 => false,
        2 if request.get(1).eq_ignore_ascii_case(b"json") => true,
        _ => return Err(SYNTAX),
    };
    let shared = ctx.shared;
    let report = operate(ctx, "check of the database".into(), false, |operation| {
        shared.db.admin().check_with(|done, total| {
            operation.progress(done, total);
        })
    })?;
    put_report(ctx.replies, &report, as_json)
}

fn put_report(replies: &mut Replies, report: &CheckReport, as_json: bool) -> CommandResult {
    let text = match as_json {
        false => report.to_string(),
        true => serde_json::to_string(report).map_err(|error| fail_with(format!("ERR {error}")))?,
    };
    let fields = [
        ("clean", Field::Number(u64::from(report.is_clean()))),
        ("findings", Field::Number(report.findings.len() as u64)),
        ("report", Field::Text(text)),
    ];
    put_fields(replies, &fields);
    Ok(())
}

/// What was said behind `BACKUP` and its subcommand.
struct BackupWords {
    series: Name,
    options: BackupOptions,
    keep: Option<usize>,
    json: bool,
}

/// Reads the words from this one on; those in `allowed` are there.
fn backup_words(request: &Request<'_>, from: usize, allowed: &[&str]) -> Result<BackupWords, Fail> {
    let mut said = BackupWords {
        series: name(SERIES)?,
        options: BackupOptions::new(),
        keep: None,
        json: false,
    };
    let mut words = request.from(from);
    let positive = |word: Option<&[u8]>| {
        let number = u64::try_from(integer(word.ok_or(SYNTAX)?)?).map_err(|_| NOT_POSITIVE)?;
        if number == 0 { Err(NOT_POSITIVE) } else { Ok(number) }
    };
    while let Some(word) = words.next() {
        let word = String::from_utf8_lossy(word).to_ascii_uppercase();
        if !allowed.contains(&word.as_str()) {
            return Err(SYNTAX);
        }
        match word.as_str() {
            "IN" => said.series = name(words.next().ok_or(SYNTAX)?)?,
            "FULL" => said.options = said.options.full(),
            "LINK" => said.options = said.options.link(),
            "RATE" => said.options = said.options.bytes_per_second(positive(words.next())?),
            "KEEP" => {
                let count = positive(words.next())?;
                said.keep = Some(usize::try_from(count).unwrap_or(usize::MAX));
            }
            _ => said.json = true,
        }
    }
    Ok(said)
}

pub(super) fn backup(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let subcommand = match request.len() {
        1 => b"create".to_vec(),
        _ => request.get(1).to_ascii_lowercase(),
    };
    let number = || {
        let number = request.len().gt(&2).then(|| integer(request.get(2))).ok_or(SYNTAX)??;
        u32::try_from(number).map_err(|_| NOT_POSITIVE)
    };
    match subcommand.as_slice() {
        b"help" => {
            put_help(ctx.replies, BACKUP_HELP);
            Ok(())
        }
        b"create" => {
            let words = ["IN", "FULL", "LINK", "RATE", "KEEP"];
            create(ctx, &backup_words(request, 2, &words)?)
        }
        b"list" => list(ctx, &backup_words(request, 2, &["IN"])?),
        b"verify" => verify(ctx, number()?, &backup_words(request, 3, &["IN", "JSON"])?),
        b"delete" => delete(ctx, number()?, &backup_words(request, 3, &["IN"])?),
        _ => Err(unknown_subcommand("BACKUP", request.get(1))),
    }
}

fn put_help(replies: &mut Replies, lines: &[&str]) {
    replies.array(lines.len());
    lines.iter().for_each(|line| replies.simple(line));
}

fn create(ctx: &mut Context<'_>, said: &BackupWords) -> CommandResult {
    let dir = operator_dir(ctx)?.series(&said.series);
    let (shared, what) = (ctx.shared, format!("backup in {}", dir.display()));
    let (report, deleted) = operate(ctx, what, true, |operation| {
        let backups = Backups::open(&dir)?;
        let report = backups.create_with(&shared.db, &said.options, |done, total| {
            operation.progress(done, total) && !shared.is_cancelled()
        })?;
        let deleted = said.keep.map_or(Ok(0), |keep| backups.keep_newest(keep))?;
        Ok((report, deleted))
    })?;
    let fields = [
        ("number", Field::Number(report.backup.number.into())),
        ("path", Field::Text(report.backup.dir.display().to_string())),
        ("seqno", Field::Number(report.backup.seqno.0)),
        ("bytes", Field::Number(report.backup.bytes)),
        ("copied_bytes", Field::Number(report.copied_bytes)),
        ("shared_tables", Field::Number(report.shared_table_count)),
        ("deleted", Field::Number(deleted as u64)),
    ];
    put_fields(ctx.replies, &fields);
    Ok(())
}

/// The backups of a series that has some.
fn existing(ctx: &Context<'_>, series: &Name) -> Result<Backups, Fail> {
    let dir = operator_dir(ctx)?.series(series);
    ctx.needs_waiting_thread()?;
    if !net::is_directory(&dir) {
        return Err(fail_with(format!(
            "NOBACKUPS there are no backups in {}; BACKUP CREATE IN {} makes one",
            dir.display(),
            series.as_str()
        )));
    }
    Ok(Backups::open(&dir)?)
}

fn list(ctx: &mut Context<'_>, said: &BackupWords) -> CommandResult {
    let all = existing(ctx, &said.series)?.list()?;
    ctx.replies.array(all.len());
    for one in &all {
        let since = one.created_at.duration_since(SystemTime::UNIX_EPOCH);
        let created_s = since.unwrap_or(Duration::ZERO).as_secs();
        let parts = [one.number.into(), created_s, one.bytes, one.seqno.0];
        ctx.replies.array(parts.len());
        for part in parts {
            ctx.replies.integer(i64::try_from(part).unwrap_or(i64::MAX));
        }
    }
    Ok(())
}

fn verify(ctx: &mut Context<'_>, number: u32, said: &BackupWords) -> CommandResult {
    let backups = existing(ctx, &said.series)?;
    let what = format!("verification of backup {number} in {}", said.series.as_str());
    let report = operate(ctx, what, false, |operation| {
        backups.verify_with(number, |done, total| {
            operation.progress(done, total);
        })
    })?;
    put_report(ctx.replies, &report, said.json)
}

fn delete(ctx: &mut Context<'_>, number: u32, said: &BackupWords) -> CommandResult {
    let backups = existing(ctx, &said.series)?;
    let what = format!("deletion of backup {number} in {}", said.series.as_str());
    operate(ctx, what, false, |_| backups.delete(number))?;
    ctx.replies.ok();
    Ok(())
}

pub(super) fn operation(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let operations = &ctx.shared.operations;
    match (request.get(1).to_ascii_lowercase().as_slice(), request.len()) {
        (b"status", 2) => {
            operator_dir(ctx)?;
            let fields = operations.describe();
            ctx.replies.map(fields.len());
            for (name, value) in &fields {
                ctx.replies.bulk(name.as_bytes());
                ctx.replies.bulk(value.as_bytes());
            }
        }
        (b"cancel", 3) => {
            operator_dir(ctx)?;
            let id = u64::try_from(integer(request.get(2))?).map_err(|_| NOT_POSITIVE)?;
            match operations.cancel(id) {
                Cancelled::Yes => ctx.replies.ok(),
                Cancelled::NotThere => return Err(fail("ERR no operation of this number runs")),
                Cancelled::Cannot => {
                    return Err(fail(
                        "ERR this operation cannot be ended early: only checkpoints and backups can",
                    ));
                }
            }
        }
        (b"help", 2) => put_help(ctx.replies, OPERATION_HELP),
        (b"status" | b"cancel" | b"help", _) => return Err(SYNTAX),
        _ => return Err(unknown_subcommand("OPERATION", request.get(1))),
    }
    Ok(())
}
