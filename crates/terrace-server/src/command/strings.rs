//! Reading and setting whole values.

use terrace::{Batch, Expiry, Value, limits};

use super::context::Context;
use super::fail::{CommandResult, Fail, SYNTAX, Weight, fail, fail_with};
use super::numbers::{Moment, integer, parse_integer};
use super::running::MgetReply;
use crate::protocol::Request;

pub(super) fn get(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    ctx.reply_with_value(request.get(1))
}

pub(super) fn strlen(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let length = ctx.look(request.get(1), |item| item.value.len())?;
    ctx.replies.count(length.unwrap_or(0));
    Ok(())
}

/// What a write depends on: whether the key is there, or what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition<'a> {
    Always,
    IfAbsent,
    IfPresent,
    IfEqual(&'a [u8]),
}

impl Condition<'_> {
    fn holds(self, old: Option<&Value>) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfAbsent => old.is_none(),
            Condition::IfPresent => old.is_some(),
            Condition::IfEqual(value) => old.is_some_and(|old| old == value),
        }
    }
}

struct SetOptions<'a> {
    condition: Condition<'a>,
    reply_with_old: bool,
    keep_expiry: bool,
    expiry: Option<Expiry>,
}

fn parse_set<'a>(ctx: &Context<'_>, request: &Request<'a>) -> Result<SetOptions<'a>, Fail> {
    let mut options = SetOptions {
        condition: Condition::Always,
        reply_with_old: false,
        keep_expiry: false,
        expiry: None,
    };
    let mut expiry: Option<(Moment, &[u8])> = None;
    let mut words = request.from(3);
    while let Some(word) = words.next() {
        let no_expiry = expiry.is_none() && !options.keep_expiry;
        match word.to_ascii_uppercase().as_slice() {
            b"NX" if matches!(options.condition, Condition::Always | Condition::IfAbsent) => {
                options.condition = Condition::IfAbsent;
            }
            b"XX" if matches!(options.condition, Condition::Always | Condition::IfPresent) => {
                options.condition = Condition::IfPresent;
            }
            b"IFEQ" if options.condition == Condition::Always => {
                options.condition = Condition::IfEqual(words.next().ok_or(SYNTAX)?);
            }
            b"GET" => options.reply_with_old = true,
            b"KEEPTTL" if expiry.is_none() => options.keep_expiry = true,
            unit if no_expiry => {
                let moment = moment_of_option(unit).ok_or(SYNTAX)?;
                expiry = Some((moment, words.next().ok_or(SYNTAX)?));
            }
            _ => return Err(SYNTAX),
        }
    }
    if let Some((moment, text)) = expiry {
        options.expiry = Some(moment.parse_positive(text, ctx.now(), "set")?);
    }
    Ok(options)
}

fn moment_of_option(word: &[u8]) -> Option<Moment> {
    Some(match word {
        b"EX" => Moment { in_seconds: true, from_now: true },
        b"PX" => Moment { in_seconds: false, from_now: true },
        b"EXAT" => Moment { in_seconds: true, from_now: false },
        b"PXAT" => Moment { in_seconds: false, from_now: false },
        _ => return None,
    })
}

pub(super) fn set(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (key, value) = (request.get(1), request.get(2));
    let options = parse_set(ctx, request)?;
    let depends = options.condition != Condition::Always || options.keep_expiry;
    if !depends && !options.reply_with_old {
        return ctx.put(key, value, options.expiry);
    }
    let (was_set, old) = ctx.update(key, |old, changes| {
        let holds = options.condition.holds(old);
        if holds {
            match options.expiry {
                Some(expiry) => changes.put_until(key, value, Some(expiry)),
                None => changes.replace(key, value, old.filter(|_| options.keep_expiry)),
            }
        }
        Ok((holds, old.filter(|_| options.reply_with_old).map(|old| old.to_vec())))
    })?;
    if options.reply_with_old {
        ctx.replies.bulk_or_null(old.as_deref());
    } else if was_set {
        ctx.replies.ok();
    } else {
        ctx.replies.null();
    }
    Ok(())
}

pub(super) fn setex(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let moment = Moment { in_seconds: true, from_now: true };
    let expiry = moment.parse_positive(request.get(2), ctx.now(), "setex")?;
    ctx.put(request.get(1), request.get(3), Some(expiry))
}

pub(super) fn psetex(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let moment = Moment { in_seconds: false, from_now: true };
    let expiry = moment.parse_positive(request.get(2), ctx.now(), "psetex")?;
    ctx.put(request.get(1), request.get(3), Some(expiry))
}

pub(super) fn setnx(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (key, value) = (request.get(1), request.get(2));
    let was_set = ctx.update(key, |old, changes| {
        if old.is_none() {
            changes.put(key, value);
        }
        Ok(old.is_none())
    })?;
    ctx.replies.integer(i64::from(was_set));
    Ok(())
}

pub(super) fn getset(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (key, value) = (request.get(1), request.get(2));
    let old = ctx.update(key, |old, changes| {
        changes.put(key, value);
        Ok(old.map(|old| old.to_vec()))
    })?;
    ctx.replies.bulk_or_null(old.as_deref());
    Ok(())
}

pub(super) fn getdel(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let key = request.get(1);
    let old = ctx.update(key, |old, changes| {
        if old.is_some() {
            changes.delete(key);
        }
        Ok(old.map(|old| old.to_vec()))
    })?;
    ctx.replies.bulk_or_null(old.as_deref());
    Ok(())
}

pub(super) fn delifeq(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (key, condition) = (request.get(1), Condition::IfEqual(request.get(2)));
    let was_deleted = ctx.update(key, |old, changes| {
        let holds = condition.holds(old);
        if holds {
            changes.delete(key);
        }
        Ok(holds)
    })?;
    ctx.replies.integer(i64::from(was_deleted));
    Ok(())
}

pub(super) fn mget(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    if request.len() == 2 {
        ctx.replies.array(1);
        return ctx.reply_with_value(request.get(1));
    }
    ctx.replies.array(request.len() - 1);
    let mut reply = MgetReply::new(&ctx.keyspace().at(&ctx.shared.db.snapshot()), ctx.may_wait());
    // Many keys are left to a thread that may wait: the network's thread serves others too.
    if !ctx.may_wait() && request.len() > 256 {
        return Err(Fail::Wait(Weight::Point));
    }
    let soft_bytes = ctx.shared.options.output_soft_bytes;
    if !reply.step(request, ctx.replies, ctx.charge, soft_bytes)? {
        *ctx.running = Some(reply.go_on());
    }
    Ok(())
}

fn pairs<'a>(
    request: &Request<'a>,
    command: &str,
) -> Result<impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a>, Fail> {
    if request.len().is_multiple_of(2) {
        return Err(fail_with(format!("ERR wrong number of arguments for '{command}' command")));
    }
    let keys = request.from(1).step_by(2);
    Ok(keys.zip(request.from(2).step_by(2)))
}

pub(super) fn mset(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let mut batch = Batch::new();
    for (key, value) in pairs(request, "mset")? {
        batch.put(ctx.keyspace(), key, value);
    }
    ctx.write(&batch)?;
    ctx.replies.ok();
    Ok(())
}

pub(super) fn msetnx(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let pairs: Vec<_> = pairs(request, "msetnx")?.collect();
    // Looking first, one key at a time, keeps the values of many present keys out of memory.
    for (key, _) in &pairs {
        if ctx.look(key, |_| ())?.is_some() {
            ctx.replies.integer(0);
            return Ok(());
        }
    }
    let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| *key).collect();
    let was_set = ctx.update_all(&keys, |old, changes| {
        if old.iter().any(Option::is_some) {
            return Ok(false);
        }
        for (key, value) in &pairs {
            changes.put(key, value);
        }
        Ok(true)
    })?;
    ctx.replies.integer(i64::from(was_set));
    Ok(())
}

pub(super) fn append(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let (key, tail) = (request.get(1), request.get(2));
    let length = ctx.update(key, |old, changes| {
        let head = old.map_or(&[][..], |old| old);
        if head.len() + tail.len() > limits::VALUE_BYTES_MAX {
            return Err(fail("ERR string exceeds maximum allowed size (67108864 bytes)"));
        }
        let whole = [head, tail].concat();
        changes.replace(key, &whole, old);
        Ok(whole.len())
    })?;
    ctx.replies.count(length);
    Ok(())
}

fn add(ctx: &mut Context<'_>, key: &[u8], amount: i64) -> CommandResult {
    let sum = ctx.update(key, |old, changes| {
        let number = match old {
            Some(old) => parse_integer(old).ok_or(super::fail::NOT_AN_INTEGER)?,
            None => 0,
        };
        let sum =
            number.checked_add(amount).ok_or(fail("ERR increment or decrement would overflow"))?;
        let text = sum.to_string();
        changes.replace(key, text.as_bytes(), old);
        Ok(sum)
    })?;
    ctx.replies.integer(sum);
    Ok(())
}

pub(super) fn incr(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    add(ctx, request.get(1), 1)
}

pub(super) fn decr(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    add(ctx, request.get(1), -1)
}

pub(super) fn incrby(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    add(ctx, request.get(1), integer(request.get(2))?)
}

pub(super) fn decrby(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let amount = integer(request.get(2))?;
    let negated = amount.checked_neg().ok_or(fail("ERR decrement would overflow"))?;
    add(ctx, request.get(1), negated)
}
