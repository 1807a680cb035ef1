//! The connection itself: who speaks, which protocol, which keyspace.

use std::sync::Arc;

use super::context::Context;
use super::fail::{CommandResult, Fail, fail, fail_with, shown};
use super::numbers::{integer, parse_integer};
use crate::REDIS_VERSION;
use crate::protocol::{Request, Resp};
use crate::session::is_printable;

const WRONG_PASSWORD: Fail = fail("WRONGPASS invalid username-password pair or user is disabled.");

pub(super) fn ping(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    match request.len() {
        1 => ctx.replies.simple("PONG"),
        2 => ctx.replies.bulk(request.get(1)),
        _ => return Err(fail("ERR wrong number of arguments for 'ping' command")),
    }
    Ok(())
}

pub(super) fn echo(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    ctx.replies.bulk(request.get(1));
    Ok(())
}

pub(super) fn quit(ctx: &mut Context<'_>, _request: &Request<'_>) -> CommandResult {
    ctx.client.closing = true;
    ctx.replies.ok();
    Ok(())
}

pub(super) fn reset(ctx: &mut Context<'_>, _request: &Request<'_>) -> CommandResult {
    ctx.client.reset(ctx.shared, ctx.shared.options.password.is_none());
    ctx.replies.set_resp(Resp::V2);
    ctx.replies.simple("RESET");
    Ok(())
}

pub(super) fn select(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let number = integer(request.get(1))?;
    let known = usize::try_from(number).ok().and_then(|index| ctx.shared.keyspaces.get(index));
    ctx.client.served = Arc::clone(known.ok_or(fail("ERR DB index is out of range"))?);
    ctx.replies.ok();
    Ok(())
}

/// Lets the client in if the pair is right. There is one user, `default`.
fn authenticate(ctx: &mut Context<'_>, user: &[u8], given: &[u8]) -> CommandResult {
    let right = match &ctx.shared.options.password {
        None => user == b"default",
        // Both are always looked at, so that the time does not tell which was wrong.
        Some(password) => password.is(given) & (user == b"default"),
    };
    if !right {
        ctx.client.authentication_failed = true;
        return Err(WRONG_PASSWORD);
    }
    ctx.client.authenticated = true;
    Ok(())
}

pub(super) fn auth(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (user, given) = match request.len() {
        2 if ctx.shared.options.password.is_none() => {
            return Err(fail(
                "ERR AUTH <password> called without any password configured for the default \
                 user. Are you sure your configuration is correct?",
            ));
        }
        2 => (&b"default"[..], request.get(1)),
        3 => (request.get(1), request.get(2)),
        _ => return Err(super::fail::SYNTAX),
    };
    authenticate(ctx, user, given)?;
    ctx.replies.ok();
    Ok(())
}

pub(super) fn hello(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut resp = ctx.replies.resp();
    if request.len() > 1 {
        resp = match parse_integer(request.get(1)) {
            Some(2) => Resp::V2,
            Some(3) => Resp::V3,
            Some(_) => return Err(fail("NOPROTO unsupported protocol version")),
            None => return Err(fail("ERR Protocol version is not an integer or out of range")),
        };
    }
    let (mut pair, mut name) = (None, None);
    let mut at = 2;
    while at < request.len() {
        let word = request.get(at).to_ascii_uppercase();
        match (word.as_slice(), request.len() - at - 1) {
            (b"AUTH", 2..) => pair = Some((request.get(at + 1), request.get(at + 2))),
            (b"SETNAME", 1..) => name = Some(request.get(at + 1)),
            _ => {
                let option = shown(request.get(at), 128);
                return Err(fail_with(format!("ERR Syntax error in HELLO option '{option}'")));
            }
        }
        at += if word == b"AUTH" { 3 } else { 2 };
    }
    if let Some((user, given)) = pair {
        authenticate(ctx, user, given)?;
    }
    if !ctx.client.authenticated {
        return Err(fail(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        set_name(ctx, name)?;
    }
    ctx.replies.set_resp(resp);
    write_hello(ctx);
    Ok(())
}

fn write_hello(ctx: &mut Context<'_>) {
    let (id, proto) = (ctx.client.entry.id, ctx.replies.resp().number());
    let replies = &mut *ctx.replies;
    replies.map(7);
    for (key, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        replies.bulk(key.as_bytes());
        replies.bulk(value.as_bytes());
    }
    for (key, value) in [("proto", proto), ("id", i64::try_from(id).unwrap_or(i64::MAX))] {
        replies.bulk(key.as_bytes());
        replies.integer(value);
    }
    for (key, value) in [("mode", "standalone"), ("role", "master")] {
        replies.bulk(key.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"modules");
    replies.array(0);
}

/// Names the connection.
pub(super) fn set_name(ctx: &mut Context<'_>, name: &[u8]) -> CommandResult {
    if !is_printable(name) {
        return Err(fail(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    ctx.client.entry.details().name = shown(name, name.len());
    Ok(())
}
