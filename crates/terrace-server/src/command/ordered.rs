//! The commands that Redis does not have: keys in their order.
//!
//! ```text
//! RANGE start end [REV] [LIMIT n] [KEYS]     key, value, key, value ... (or keys only)
//! RANGECOUNT start end                       how many keys
//! RANGESIZE start end                        about how many bytes, and how many entries
//! RANGEDEL start end                         OK
//! ```
//! `start` is inclusive, `end` exclusive, in bytewise order; `-` stands before every key and `+`
//! past every key, in either place. `REV` gives the same keys from the last to the first.
//! `RANGEDEL` costs the same for one key as for all, so it does not count what it deletes.

use terrace::{Batch, OwnedRange, RangeSize};

use super::context::Context;
use super::fail::{CommandResult, Fail, NOT_POSITIVE, SYNTAX};
use super::keys::count_range;
use super::keyspace::put_size;
use super::numbers::integer;
use super::running::{RangeReply, RangeShape, Running};
use crate::protocol::Request;

/// A `RANGE` with at most this `LIMIT` is tried on the network's thread.
const INLINE_LIMIT_MAX: u64 = 1000;

/// The bytes of a reply that are gathered before its length is known.
const GATHER_BYTES: usize = 256 * 1024;

/// The interval between two bounds; `None` if no key can lie in it.
pub(super) fn key_range(start: &[u8], end: &[u8]) -> Option<OwnedRange> {
    let start = match start {
        b"-" => &b""[..],
        b"+" => return None,
        key => key,
    };
    let range = match end {
        b"-" => return None,
        b"+" => OwnedRange::new(start, None),
        key => OwnedRange::new(start, Some(key.to_vec())),
    };
    (!range.is_empty()).then_some(range)
}

pub(super) fn parse_shape<'a>(
    mut words: impl Iterator<Item = &'a [u8]>,
) -> Result<RangeShape, Fail> {
    let mut shape = RangeShape { reverse: false, keys_only: false, limit: u64::MAX };
    while let Some(word) = words.next() {
        match word.to_ascii_uppercase().as_slice() {
            b"REV" => shape.reverse = true,
            b"KEYS" => shape.keys_only = true,
            b"LIMIT" => {
                let limit = integer(words.next().ok_or(SYNTAX)?)?;
                shape.limit = u64::try_from(limit).map_err(|_| NOT_POSITIVE)?;
            }
            _ => return Err(SYNTAX),
        }
    }
    Ok(shape)
}

pub(super) fn range(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    let shape = parse_shape(request.from(3))?;
    let Some(range) = key_range(request.get(1), request.get(2)) else {
        ctx.replies.array(0);
        return Ok(());
    };
    if shape.limit > INLINE_LIMIT_MAX {
        ctx.needs_scan_thread()?;
    }
    let mut reply = RangeReply::new(ctx.view().cursor(range), shape);
    if !ctx.may_wait() {
        // The rest of a reply in pieces may have to wait, so it must not begin here.
        return range_inline(ctx, reply);
    }
    reply.begin(ctx.replies, ctx.charge, ctx.shared, GATHER_BYTES)?;
    if !reply.is_done() {
        *ctx.running = Some(Running::Range(Box::new(reply)));
    }
    Ok(())
}

fn range_inline(ctx: &mut Context<'_>, mut reply: RangeReply) -> CommandResult {
    reply.begin(ctx.replies, ctx.charge, ctx.shared, GATHER_BYTES)?;
    if reply.is_done() { Ok(()) } else { ctx.needs_waiting_thread() }
}

pub(super) fn rangecount(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    match key_range(request.get(1), request.get(2)) {
        Some(range) => count_range(ctx, range),
        None => {
            ctx.replies.integer(0);
            Ok(())
        }
    }
}

pub(super) fn rangesize(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    // Tables that are not open yet are opened.
    ctx.needs_waiting_thread()?;
    let size = match key_range(request.get(1), request.get(2)) {
        Some(range) => ctx.keyspace().approximate_size(range)?,
        None => RangeSize::default(),
    };
    ctx.replies.array(2);
    put_size(ctx.replies, &size);
    Ok(())
}

pub(super) fn rangedel(ctx: &mut Context<'_>, request: &Request<'_>) -> CommandResult {
    if let Some(range) = key_range(request.get(1), request.get(2)) {
        let mut batch = Batch::new();
        batch.delete_range(ctx.keyspace(), range);
        ctx.write(&batch)?;
    }
    ctx.replies.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_stand_for_ends_and_empty_intervals_are_found() {
        assert_eq!(key_range(b"-", b"+"), Some(OwnedRange::all()));
        assert_eq!(key_range(b"a", b"+"), Some(OwnedRange::new("a", None)));
        assert_eq!(key_range(b"-", b"b"), Some(OwnedRange::new("", Some(b"b".to_vec()))));
        for (start, end) in [("+", "-"), ("+", "+"), ("-", "-"), ("b", "a"), ("a", "a")] {
            assert_eq!(key_range(start.as_bytes(), end.as_bytes()), None, "{start} {end}");
        }
    }
}
