//! Why a read answered as it did, and what was slow lately.
//!
//! ```text
//! EXPLAIN GET key [JSON]                          a text of several lines
//! EXPLAIN DRANGES [JSON]                          how the writes are spread
//! EXPLAIN L0 [JSON]                               what is left of its rows, and the next cut
//! EXPLAIN STATS [JSON]                            the database's figures, as `terrace stats`
//! EXPLAIN RANGE start end [REV] [LIMIT n] [JSON]  likewise; 1000 keys unless told
//! SLOWLOG GET [count] | LEN | RESET               as in Redis
//! ```
//! `SLOWLOG` shows operations of the store, not commands, so it knows no client. There is no
//! threshold: the slowest of the last minutes are there, however fast. The words of an entry are
//! the operation, its key, and where the time went.

use terrace::{OperationKind, SlowOperation};

use super::client::unknown_subcommand;
use super::context::Context;
use super::fail::{CommandResult, Fail, SYNTAX, fail, fail_with};
use super::numbers::integer;
use super::ordered::{key_range, parse_shape};
use crate::protocol::{Replies, Request};

/// Number of keys that an explained `RANGE` walks at most, unless the request says otherwise.
const EXPLAINED_KEYS: u64 = 1000;

/// Number of keys that a request may say at most, since nothing stops an explained `RANGE` on its
/// way.
const EXPLAINED_KEYS_MAX: u64 = 1_000_000;

const SLOWLOG_HELP: &[&str] = &[
    "SLOWLOG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET [<count>]",
    "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:",
    "    id, timestamp, time in microseconds, arguments array, client IP and port,",
    "    client name",
    "LEN",
    "    Return the length of the slowlog.",
    "RESET",
    "    Reset the slowlog.",
    "HELP",
    "    Print this help.",
];

pub(super) fn explain(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let last = request.get(request.len() - 1);
    let what = request.get(1).to_ascii_lowercase();
    let has_no_key = matches!(what.as_slice(), b"dranges" | b"l0" | b"stats");
    let is_json = (request.len() > 3 || has_no_key) && last.eq_ignore_ascii_case(b"json");
    let count = request.len() - usize::from(is_json);
    match what.as_slice() {
        b"dranges" if count == 2 => {
            let dranges = ctx.shared.db.admin().dranges();
            let json = is_json.then(|| serde_json::to_string(&dranges));
            put_explanation(ctx.replies, &dranges, json)
        }
        b"stats" if count == 2 => {
            let stats = ctx.shared.db.admin().stats();
            let json = is_json.then(|| serde_json::to_string(&stats));
            put_explanation(ctx.replies, &stats, json)
        }
        b"l0" if count == 2 => {
            // Tables that are not open yet are opened.
            ctx.needs_waiting_thread()?;
            let l0 = ctx.shared.db.admin().l0()?;
            let json = is_json.then(|| serde_json::to_string(&l0));
            put_explanation(ctx.replies, &l0, json)
        }
        b"get" if count == 3 => {
            ctx.needs_waiting_thread()?;
            let explanation = ctx.shared.db.admin().explain_get(ctx.keyspace(), request.get(2))?;
            let json = is_json.then(|| serde_json::to_string(&explanation));
            put_explanation(ctx.replies, &explanation, json)
        }
        b"range" if count >= 4 => {
            let words = request.from(4).take(count - 4);
            let shape = parse_shape(words)?;
            let limit = if shape.limit == u64::MAX { EXPLAINED_KEYS } else { shape.limit };
            if limit > EXPLAINED_KEYS_MAX {
                return Err(fail("ERR an explained RANGE walks at most 1000000 keys"));
            }
            let Some(range) = key_range(request.get(2), request.get(3)) else {
                return Err(fail("ERR no key lies between these bounds"));
            };
            ctx.needs_scan_thread()?;
            let explanation =
                ctx.shared.db.admin().explain_scan(ctx.keyspace(), range, limit, shape.reverse)?;
            let json = is_json.then(|| serde_json::to_string(&explanation));
            put_explanation(ctx.replies, &explanation, json)
        }
        b"get" | b"range" | b"dranges" | b"l0" | b"stats" => Err(SYNTAX),
        _ => Err(fail("ERR only GET, RANGE, DRANGES, L0 and STATS can be explained")),
    }
}

/// Replies with the text, or with the JSON if that is what is wanted.
fn put_explanation(
    replies: &mut Replies,
    explanation: &dyn std::fmt::Display,
    json: Option<serde_json::Result<String>>,
) -> CommandResult {
    match json {
        None => replies.text(&explanation.to_string()),
        Some(Ok(json)) => replies.bulk(json.as_bytes()),
        Some(Err(error)) => return Err(fail_with(format!("ERR no JSON of it: {error}"))),
    }
    Ok(())
}

pub(super) fn slowlog(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    match (request.get(1).to_ascii_lowercase().as_slice(), request.len()) {
        (b"get", 2 | 3) => {
            let count = if request.len() == 3 { integer(request.get(2))? } else { 10 };
            if count < -1 {
                return Err(fail("ERR count should be greater than or equal to -1"));
            }
            let mut slow = newest_first(ctx);
            slow.truncate(usize::try_from(count).unwrap_or(usize::MAX));
            ctx.replies.array(slow.len());
            slow.iter().for_each(|operation| put_slow(ctx.replies, operation));
        }
        (b"len", 2) => ctx.replies.count(ctx.shared.db.admin().slow_operations().len()),
        (b"reset", 2) => {
            ctx.shared.db.admin().reset_slow_operations();
            ctx.replies.ok();
        }
        (b"help", 2) => {
            ctx.replies.array(SLOWLOG_HELP.len());
            SLOWLOG_HELP.iter().for_each(|line| ctx.replies.simple(line));
        }
        (b"get" | b"len" | b"reset" | b"help", _) => return Err(wrong_count(request)),
        _ => return Err(unknown_subcommand("SLOWLOG", request.get(1))),
    }
    Ok(())
}

fn wrong_count(request: &Request<'_>) -> Fail {
    let name = String::from_utf8_lossy(request.get(1)).to_lowercase();
    fail_with(format!("ERR wrong number of arguments for 'slowlog|{name}' command"))
}

fn newest_first(ctx: &Context<'_>) -> Vec<SlowOperation> {
    let mut slow = ctx.shared.db.admin().slow_operations();
    slow.sort_by_key(|operation| std::cmp::Reverse(operation.id));
    slow
}

fn put_slow(replies: &mut Replies, slow: &SlowOperation) {
    let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    replies.array(6);
    replies.integer(integer(slow.id));
    replies.integer(integer(slow.ended_ms / 1000));
    replies.integer(slow.us as i64);
    replies.array(3);
    replies.bulk(match slow.kind {
        OperationKind::Get => b"GET",
        OperationKind::Scan => b"RANGE",
        OperationKind::Write => b"WRITE",
        _ => b"OTHER",
    });
    replies.bulk(&slow.key);
    replies.bulk(slow.breakdown().as_bytes());
    // The client's address and name.
    replies.bulk(b"");
    replies.bulk(b"");
}
