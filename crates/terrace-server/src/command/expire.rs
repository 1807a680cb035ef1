//! When keys go away by themselves.

use super::context::Context;
use super::fail::{CommandResult, Fail, fail, fail_with, shown};
use super::numbers::{Moment, expiry_at, moment_ms};
use crate::protocol::Request;

/// The options of `EXPIRE`: when the new expiry is taken.
#[derive(Clone, Copy, Debug, Default)]
struct Terms {
    if_none: bool,
    if_some: bool,
    if_later: bool,
    if_earlier: bool,
}

impl Terms {
    fn parse(request: &Request<'_>) -> Result<Terms, Fail> {
        let mut terms = Terms::default();
        for word in request.from(3) {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => terms.if_none = true,
                b"XX" => terms.if_some = true,
                b"GT" => terms.if_later = true,
                b"LT" => terms.if_earlier = true,
                _ => return Err(fail_with(format!("ERR Unsupported option {}", shown(word, 128)))),
            }
        }
        if terms.if_none && (terms.if_some || terms.if_later || terms.if_earlier) {
            return Err(fail(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if terms.if_later && terms.if_earlier {
            return Err(fail("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(terms)
    }

    /// Whether an expiry at `at` replaces `old`; no expiry counts as later than any.
    fn allow(self, at: i64, old: Option<i64>) -> bool {
        !(self.if_none && old.is_some()
            || self.if_some && old.is_none()
            || self.if_later && old.is_none_or(|old| at <= old)
            || self.if_earlier && old.is_some_and(|old| at >= old))
    }
}

fn expire_in(
    ctx: &mut Context<'_>,
    request: &Request<'_>,
    moment: Moment,
    command: &str,
) -> CommandResult {
    let key = request.get(1);
    let terms = Terms::parse(request)?;
    let at = moment.parse(request.get(2), ctx.now(), command)?;
    let now = i64::try_from(ctx.now().0).unwrap_or(i64::MAX);
    let changed = ctx.update(key, |old, changes| {
        let Some(item) = old else { return Ok(false) };
        if !terms.allow(at, item.expiry().map(moment_ms)) {
            return Ok(false);
        }
        match expiry_at(at).filter(|_| at > now) {
            Some(expiry) => changes.put_until(key, item, Some(expiry)),
            None => changes.delete(key),
        }
        Ok(true)
    })?;
    ctx.replies.integer(i64::from(changed));
    Ok(())
}

pub(super) fn expire(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    expire_in(ctx, request, Moment { in_seconds: true, from_now: true }, "expire")
}

pub(super) fn pexpire(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    expire_in(ctx, request, Moment { in_seconds: false, from_now: true }, "pexpire")
}

pub(super) fn expireat(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    expire_in(ctx, request, Moment { in_seconds: true, from_now: false }, "expireat")
}

pub(super) fn pexpireat(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    expire_in(ctx, request, Moment { in_seconds: false, from_now: false }, "pexpireat")
}

/// Replies with what `show` makes of the expiry's moment; -2 without a key, -1 without an expiry.
fn show_expiry(
    ctx: &mut Context<'_>,
    request: &Request<'_>,
    show: impl Fn(i64, i64) -> i64,
) -> CommandResult {
    let now = i64::try_from(ctx.now().0).unwrap_or(i64::MAX);
    let number = match ctx.look(request.get(1), |item| item.expiry())? {
        None => -2,
        Some(expiry) => expiry.map_or(-1, |expiry| show(moment_ms(expiry), now)),
    };
    ctx.replies.integer(number);
    Ok(())
}

pub(super) fn ttl(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    show_expiry(ctx, request, |at, now| (at - now).max(0).saturating_add(500) / 1000)
}

pub(super) fn pttl(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    show_expiry(ctx, request, |at, now| (at - now).max(0))
}

pub(super) fn expiretime(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    show_expiry(ctx, request, |at, _| at.saturating_add(500) / 1000)
}

pub(super) fn pexpiretime(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    show_expiry(ctx, request, |at, _| at)
}

pub(super) fn persist(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let key = request.get(1);
    let changed = ctx.update(key, |old, changes| {
        let Some(item) = old.filter(|item| item.expiry().is_some()) else { return Ok(false) };
        changes.put_until(key, item, None);
        Ok(true)
    })?;
    ctx.replies.integer(i64::from(changed));
    Ok(())
}
