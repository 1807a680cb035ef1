//! Keys without their values: whether they are there, deleting, walking.

#![allow(
    clippy::disallowed_methods,
    reason = "only whether a key was seen is asked, never the order"
)]

use terrace::{Batch, EntryRef, KeyRange, Prefix};

use super::context::Context;
use super::fail::{CommandResult, Fail, SYNTAX, fail};
use super::numbers::integer;
use super::running::count;
use crate::glob::Glob;
use crate::protocol::Request;

/// The bytes of old values that one step of a `DEL` may hold in memory.
const DELETE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most keys that one call of `SCAN` looks at.
const SCAN_KEYS_MAX: i64 = 10_000;

/// The steps of matching that one call of `SCAN` may take: some milliseconds.
const SCAN_MATCH_STEPS_MAX: usize = 8 * 1024 * 1024;

/// The bytes of keys that one call of `SCAN` replies with, the last key apart.
const SCAN_REPLY_BYTES_MAX: usize = 256 * 1024;

pub(super) fn exists(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut present = 0;
    for key in request.from(1) {
        present += usize::from(ctx.look(key, |_| ())?.is_some());
    }
    ctx.replies.count(present);
    Ok(())
}

pub(super) fn key_type(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let present = ctx.look(request.get(1), |_| ())?.is_some();
    ctx.replies.simple(if present { "string" } else { "none" });
    Ok(())
}

/// `DEL` and `UNLINK`. Deleting is one step, unless the old values (which have to be looked at to
/// count) are too large to hold at once; then it is several, in the order of the arguments.
pub(super) fn del(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let deleted = if request.len() == 2 {
        delete_present(ctx, &[request.get(1)])?
    } else {
        let steps = plan_deletes(ctx, request)?;
        if steps.len() > 1 {
            // A step must not be repeated, as it would be if a later one had to wait.
            ctx.needs_waiting_thread()?;
        }
        let mut deleted = 0;
        for keys in steps {
            deleted += delete_present(ctx, &keys)?;
        }
        deleted
    };
    ctx.replies.count(deleted);
    Ok(())
}

/// The present keys, once each, in steps of bounded bytes.
fn plan_deletes<'a>(ctx: &Context<'_>, request: &Request<'a>) -> Result<Vec<Vec<&'a [u8]>>, Fail> {
    let mut seen = std::collections::HashSet::new();
    let mut steps: Vec<Vec<&[u8]>> = Vec::new();
    let mut bytes = usize::MAX;
    for key in request.from(1) {
        if !seen.insert(key) {
            continue;
        }
        let Some(value_bytes) = ctx.look(key, |item| item.value.len())? else { continue };
        if bytes > DELETE_BYTES_MAX {
            steps.push(Vec::new());
            bytes = 0;
        }
        bytes += key.len() + value_bytes;
        steps.last_mut().expect("a step was begun").push(key);
    }
    Ok(steps)
}

fn delete_present(ctx: &mut Context<'_>, keys: &[&[u8]]) -> Result<usize, Fail> {
    ctx.update_all(keys, |old, changes| {
        let mut deleted = 0;
        for (key, _) in keys.iter().zip(old).filter(|(_, old)| old.is_some()) {
            changes.delete(key);
            deleted += 1;
        }
        Ok(deleted)
    })
}

pub(super) fn dbsize(ctx: &mut Context<'_>, _request: &Request<'_>) -> CommandResult {
    count_range(ctx, ..)
}

/// Replies with the number of keys in `range`, at one moment.
pub(super) fn count_range(ctx: &mut Context<'_>, range: impl KeyRange) -> CommandResult {
    ctx.needs_scan_thread()?;
    let mut cursor = ctx.keyspace().cursor(range);
    let counted = count(&mut cursor, false, u64::MAX, ctx.shared)?;
    ctx.replies.integer(i64::try_from(counted).unwrap_or(i64::MAX));
    Ok(())
}

fn check_flush(request: &Request<'_>) -> Result<(), Fail> {
    let known = match request.len() {
        1 => true,
        2 => [&b"ASYNC"[..], b"SYNC"].iter().any(|word| request.get(1).eq_ignore_ascii_case(word)),
        _ => false,
    };
    if known { Ok(()) } else { Err(SYNTAX) }
}

pub(super) fn flushdb(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    check_flush(request)?;
    let mut batch = Batch::new();
    batch.delete_range(ctx.keyspace(), ..);
    ctx.write(&batch)?;
    ctx.replies.ok();
    Ok(())
}

pub(super) fn flushall(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    check_flush(request)?;
    // To know which keyspaces there are takes looks at the disk.
    ctx.needs_waiting_thread()?;
    let db = &ctx.shared.db;
    let mut batch = Batch::new();
    for name in db.keyspaces()? {
        batch.delete_range(&db.keyspace(&name)?, ..);
    }
    ctx.write(&batch)?;
    ctx.replies.ok();
    Ok(())
}

struct ScanOptions {
    glob: Option<Glob>,
    count: i64,
    /// Whether values of the type asked for can be here at all.
    type_exists: bool,
}

fn parse_scan(request: &Request<'_>) -> Result<ScanOptions, Fail> {
    let mut options = ScanOptions { glob: None, count: 10, type_exists: true };
    let mut words = request.from(2);
    while let Some(word) = words.next() {
        let argument = words.next().ok_or(SYNTAX)?;
        match word.to_ascii_uppercase().as_slice() {
            b"COUNT" => {
                options.count = integer(argument)?;
                if options.count < 1 {
                    return Err(SYNTAX);
                }
            }
            b"MATCH" => {
                let too_long = fail("ERR pattern is longer than 1024 bytes");
                options.glob = Some(Glob::new(argument).ok_or(too_long)?);
            }
            b"TYPE" => options.type_exists = argument.eq_ignore_ascii_case(b"string"),
            _ => return Err(SYNTAX),
        }
    }
    Ok(options)
}

/// Where the walk of a cursor goes on.
fn scan_start(ctx: &Context<'_>, cursor: &[u8]) -> Result<Vec<u8>, Fail> {
    let invalid = fail("ERR invalid cursor");
    let text = std::str::from_utf8(cursor).map_err(|_| invalid.clone())?;
    match text.parse().map_err(|_| invalid)? {
        0 => Ok(Vec::new()),
        cursor => ctx.shared.cursors().key(cursor).map(<[u8]>::to_vec).ok_or(fail(
            "ERR invalid cursor: too many others followed it, or the server was restarted; \
             start again from 0",
        )),
    }
}

pub(super) fn scan(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let start = scan_start(ctx, request.get(1))?;
    let options = parse_scan(request)?;
    if options.count > 1000 {
        ctx.needs_waiting_thread()?;
    }
    let prefix = options.glob.as_ref().map_or(&b""[..], Glob::prefix);
    let mut cursor = ctx.view().cursor(Prefix(prefix));
    let mut found: Vec<Vec<u8>> = Vec::new();
    if options.type_exists {
        cursor.seek(&start)?;
    } else {
        cursor.seek_to_end();
    }
    let (mut keys, mut steps, mut bytes) = (0, 0, 0);
    let cursor = loop {
        let Some(EntryRef { key, .. }) = cursor.next()? else { break 0 };
        let spent = keys >= options.count.min(SCAN_KEYS_MAX)
            || steps >= SCAN_MATCH_STEPS_MAX
            || bytes >= SCAN_REPLY_BYTES_MAX;
        if spent {
            break ctx.shared.cursors().give_out(key);
        }
        keys += 1;
        if let Some(glob) = &options.glob {
            steps += glob.cost(key);
        }
        if options.glob.as_ref().is_none_or(|glob| glob.matches(key)) {
            bytes += key.len();
            found.push(key.to_vec());
        }
    };
    ctx.replies.array(2);
    ctx.replies.bulk(cursor.to_string().as_bytes());
    ctx.replies.array(found.len());
    for key in &found {
        ctx.replies.bulk(key);
    }
    Ok(())
}
