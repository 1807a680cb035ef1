//! Keyspaces by name: those that `SELECT` has no number for, too.
//!
//! ```text
//! KEYSPACE LIST           the names of all keyspaces
//! KEYSPACE SIZES          for each of them: name, about how many bytes, about how many entries
//! KEYSPACE STATS          for each of them: name, and what it was asked since the start, by figure
//! KEYSPACE STATS name     the figures of one; NOKEYSPACE if there is none
//! KEYSPACE USE name       goes on in this one, as by SELECT; NOKEYSPACE if there is none
//! KEYSPACE MAKE name      makes one, durably; 1 if it was made, 0 if it was there
//! KEYSPACE DROP name      drops one with all its keys; 1 if it was there, 0 if not
//! ```
//! `default` and the numbers up to 1023 exist always: `KEYSPACE USE 3` is `SELECT 3`.

use std::sync::Arc;

use terrace::{Keyspace, KeyspaceStats, RangeSize};

use super::client::unknown_subcommand;
use super::context::Context;
use super::fail::{CommandResult, Fail, fail, fail_with, shown};
use crate::protocol::{Replies, Request};
use crate::shared::Served;

const HELP: &[&str] = &[
    "KEYSPACE <subcommand> [<name>]. Subcommands are:",
    "LIST",
    "    Return the names of all keyspaces.",
    "SIZES",
    "    Return name, approximate bytes and approximate entries of each keyspace.",
    "STATS [<name>]",
    "    Return what each keyspace, or one, was asked since the start, by the names of the figures.",
    "USE <name>",
    "    Choose the keyspace that the connection goes on in.",
    "MAKE <name>",
    "    Make a keyspace, durably; return 1, or 0 if it is there.",
    "DROP <name>",
    "    Drop a keyspace with all its keys; return 1, or 0 if there is none.",
    "HELP",
    "    Print this help.",
];

pub(super) fn keyspace(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let subcommand = request.get(1).to_ascii_lowercase();
    match (subcommand.as_slice(), request.len()) {
        (b"list", 2) => list(ctx),
        (b"sizes", 2) => sizes(ctx),
        (b"stats", 2) => stats(ctx),
        (b"stats", 3) => stats_of(ctx, name(request)?),
        (b"use", 3) => choose(ctx, name(request)?),
        (b"make", 3) => make(ctx, name(request)?),
        (b"drop", 3) => drop_one(ctx, name(request)?),
        (b"help", 2) => {
            ctx.replies.array(HELP.len());
            HELP.iter().for_each(|line| ctx.replies.simple(line));
            Ok(())
        }
        (b"list" | b"sizes" | b"stats" | b"use" | b"make" | b"drop" | b"help", _) => {
            let name = String::from_utf8_lossy(&subcommand);
            let text = format!("ERR wrong number of arguments for 'keyspace|{name}' command");
            Err(fail_with(text))
        }
        _ => Err(unknown_subcommand("KEYSPACE", request.get(1))),
    }
}

fn name<'a>(request: &Request<'a>) -> Result<&'a str, Fail> {
    std::str::from_utf8(request.get(2)).map_err(|_| fail("ERR the name of a keyspace is UTF-8"))
}

fn list(ctx: &mut Context<'_>) -> CommandResult {
    ctx.needs_waiting_thread()?;
    let names = ctx.shared.db.keyspaces()?;
    ctx.replies.array(names.len());
    names.iter().for_each(|name| ctx.replies.bulk(name.as_bytes()));
    Ok(())
}

fn sizes(ctx: &mut Context<'_>) -> CommandResult {
    ctx.needs_waiting_thread()?;
    let db = &ctx.shared.db;
    let mut sizes = Vec::new();
    for name in db.keyspaces()? {
        let size = db.keyspace(&name)?.approximate_size(..)?;
        sizes.push((name, size));
    }
    ctx.replies.array(3 * sizes.len());
    for (name, size) in &sizes {
        ctx.replies.bulk(name.as_bytes());
        put_size(ctx.replies, size);
    }
    Ok(())
}

/// Adds two numbers: bytes, and entries.
pub(super) fn put_size(replies: &mut Replies, size: &RangeSize) {
    let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    replies.integer(integer(size.table_bytes + size.memory_bytes));
    replies.integer(integer(size.entry_count));
}

fn stats(ctx: &mut Context<'_>) -> CommandResult {
    ctx.needs_waiting_thread()?;
    let db = &ctx.shared.db;
    let (names, stats) = (db.keyspaces()?, db.admin().keyspaces());
    ctx.replies.map(names.len());
    for name in &names {
        ctx.replies.bulk(name.as_bytes());
        put_stats(ctx.replies, &stats.get(name).copied().unwrap_or_default());
    }
    Ok(())
}

fn stats_of(ctx: &mut Context<'_>, name: &str) -> CommandResult {
    ctx.needs_waiting_thread()?;
    let stats = existing(ctx, name)?.stats();
    put_stats(ctx.replies, &stats);
    Ok(())
}

fn put_stats(replies: &mut Replies, stats: &KeyspaceStats) {
    replies.map(stats.figures().count());
    for (figure, value) in stats.figures() {
        replies.bulk(figure.as_bytes());
        replies.integer(i64::try_from(value).unwrap_or(i64::MAX));
    }
}

/// The keyspace of this name, which is not made.
fn existing(ctx: &Context<'_>, name: &str) -> Result<Keyspace, Fail> {
    let db = &ctx.shared.db;
    if !db.contains_keyspace(name)? {
        let name = shown(name.as_bytes(), 255);
        return Err(fail_with(format!(
            "NOKEYSPACE there is no keyspace {name}; KEYSPACE MAKE makes one"
        )));
    }
    Ok(db.keyspace(name)?)
}

fn choose(ctx: &mut Context<'_>, name: &str) -> CommandResult {
    ctx.needs_waiting_thread()?;
    let keyspace = existing(ctx, name)?;
    let mut numbered = ctx.shared.keyspaces.iter();
    ctx.client.served = match numbered.find(|served| served.keyspace.name() == keyspace.name()) {
        Some(served) => Arc::clone(served),
        None => Arc::new(Served::new(keyspace)),
    };
    ctx.replies.ok();
    Ok(())
}

fn make(ctx: &mut Context<'_>, name: &str) -> CommandResult {
    ctx.needs_waiting_thread()?;
    let db = &ctx.shared.db;
    let is_new = !db.contains_keyspace(name)?;
    db.keyspace(name)?;
    ctx.replies.integer(i64::from(is_new));
    Ok(())
}

fn drop_one(ctx: &mut Context<'_>, name: &str) -> CommandResult {
    ctx.needs_waiting_thread()?;
    let was_there = ctx.shared.db.drop_keyspace(name)?;
    ctx.replies.integer(i64::from(was_there));
    Ok(())
}
