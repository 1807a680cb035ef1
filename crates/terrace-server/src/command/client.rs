//! `CLIENT`: the connections of the server, and this one.

use super::connection::set_name;
use super::context::Context;
use super::fail::{CommandResult, Fail, SYNTAX, fail, fail_with, shown};
use super::numbers::parse_integer;
use crate::clients::ClientEntry;
use crate::protocol::Request;
use crate::session::{ReplyMode, is_printable};

const HELP: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "    Return the name of the current connection.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "LIST [ID <id> ...]",
    "    Return information about client connections.",
    "NO-EVICT (ON|OFF)",
    "    Accepted, without effect: no client is evicted for memory while it is idle.",
    "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    "    Note the client library's name or version.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
];

pub(super) fn client(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let subcommand = request.get(1).to_ascii_lowercase();
    let exactly = |count: usize| {
        if request.len() == count {
            return Ok(());
        }
        let name = String::from_utf8_lossy(&subcommand);
        let text = format!("ERR wrong number of arguments for 'client|{name}' command");
        Err(fail_with(text))
    };
    match subcommand.as_slice() {
        b"id" => {
            exactly(2)?;
            ctx.replies.integer(i64::try_from(ctx.client.entry.id).unwrap_or(i64::MAX));
        }
        b"getname" => {
            exactly(2)?;
            let name = ctx.client.entry.details().name.clone();
            ctx.replies.bulk_or_null((!name.is_empty()).then_some(name.as_bytes()));
        }
        b"setname" => {
            exactly(3)?;
            set_name(ctx, request.get(2))?;
            ctx.replies.ok();
        }
        b"setinfo" => {
            exactly(4)?;
            set_info(ctx, request.get(2), request.get(3))?;
        }
        b"info" => {
            exactly(2)?;
            ctx.note_activity();
            let line = format!("{}\n", ctx.client.entry.describe());
            ctx.replies.text(&line);
        }
        b"list" => list(ctx, request)?,
        b"no-evict" | b"no-touch" => {
            exactly(3)?;
            on_or_off(request.get(2))?;
            ctx.replies.ok();
        }
        b"reply" => {
            exactly(3)?;
            reply_mode(ctx, request.get(2))?;
        }
        b"help" => {
            exactly(2)?;
            ctx.replies.array(HELP.len());
            HELP.iter().for_each(|line| ctx.replies.simple(line));
        }
        _ => return Err(unknown_subcommand("CLIENT", request.get(1))),
    }
    Ok(())
}

/// The error for a subcommand that is not there.
pub(super) fn unknown_subcommand(command: &str, subcommand: &[u8]) -> Fail {
    let subcommand = shown(subcommand, 128);
    fail_with(format!("ERR unknown subcommand '{subcommand}'. Try {command} HELP."))
}

fn on_or_off(word: &[u8]) -> Result<bool, Fail> {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(SYNTAX),
    }
}

fn reply_mode(ctx: &mut Context<'_>, word: &[u8]) -> CommandResult {
    ctx.client.reply_mode = match word.to_ascii_lowercase().as_slice() {
        b"on" => ReplyMode::On,
        b"off" => ReplyMode::Off,
        b"skip" => ReplyMode::SkipNext,
        _ => return Err(SYNTAX),
    };
    if ctx.client.reply_mode == ReplyMode::On {
        ctx.replies.ok();
    }
    Ok(())
}

fn set_info(ctx: &mut Context<'_>, attribute: &[u8], value: &[u8]) -> CommandResult {
    let name = attribute.to_ascii_lowercase();
    if !is_printable(value) {
        let name = String::from_utf8_lossy(&name);
        return Err(fail_with(format!(
            "ERR {name} cannot contain spaces, newlines or special characters."
        )));
    }
    let mut details = ctx.client.entry.details();
    match name.as_slice() {
        b"lib-name" => details.library_name = shown(value, value.len()),
        b"lib-ver" => details.library_version = shown(value, value.len()),
        _ => {
            let text = format!("ERR Unrecognized option '{}'", shown(attribute, 128));
            return Err(fail_with(text));
        }
    }
    drop(details);
    ctx.replies.ok();
    Ok(())
}

fn list(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut ids = None;
    if request.len() > 2 {
        let word = request.get(2).to_ascii_lowercase();
        ids = match word.as_slice() {
            b"id" if request.len() > 3 => {
                let parse = |text| parse_integer(text).and_then(|id| u64::try_from(id).ok());
                let ids: Option<Vec<u64>> = request.from(3).map(parse).collect();
                Some(ids.ok_or(fail("ERR Invalid client ID"))?)
            }
            b"type" if request.len() == 4 => {
                let normal = request.get(3).eq_ignore_ascii_case(b"normal");
                if normal { None } else { Some(Vec::new()) }
            }
            _ => return Err(SYNTAX),
        };
    }
    ctx.note_activity();
    let mut lines = String::new();
    ctx.shared.clients.for_each(|entry: &ClientEntry| {
        if ids.as_ref().is_none_or(|ids| ids.contains(&entry.id)) {
            lines.push_str(&entry.describe());
            lines.push('\n');
        }
    });
    ctx.replies.text(&lines);
    Ok(())
}
