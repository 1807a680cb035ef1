//! Replies too long to hold, which are produced in pieces as the client takes them.

use terrace::{Cursor, EntryRef, ReadOptions, View};

use super::context::put_value;
use super::fail::{Fail, NO_ROOM, SHUTTING_DOWN};
use crate::budget::Charge;
use crate::protocol::{Replies, Request};
use crate::shared::Shared;

/// How often a long walk looks whether it should stop.
const CANCEL_CHECK_STEPS: usize = 1024;

/// A reply that has begun and goes on when there is room for more.
pub(crate) enum Running {
    /// Of `MGET`.
    Mget(MgetReply),
    /// Of `RANGE`.
    Range(Box<RangeReply>),
}

/// The values of an `MGET`, all of one moment.
pub(crate) struct MgetReply {
    view: View,
    next: usize,
}

impl MgetReply {
    /// Values of `view`, which the first step may not wait for unless `may_wait`.
    pub(super) fn new(view: &View, may_wait: bool) -> MgetReply {
        let options = ReadOptions::new();
        let options = if may_wait { options } else { options.no_wait() };
        MgetReply { view: view.with(options), next: 1 }
    }

    /// The rest is written by a thread that may wait.
    pub(super) fn go_on(self) -> Running {
        Running::Mget(MgetReply { view: self.view.with(ReadOptions::new()), ..self })
    }

    /// Writes values until there are no more keys or `replies` holds `soft_bytes`; whether that
    /// was the last.
    pub(crate) fn step(
        &mut self,
        request: &Request<'_>,
        replies: &mut Replies,
        charge: &mut Charge,
        soft_bytes: usize,
    ) -> Result<bool, Fail> {
        while self.next < request.len() {
            if replies.len() >= soft_bytes {
                return Ok(false);
            }
            let key = request.get(self.next);
            put_value(replies, charge, |put| self.view.look(key, put))?;
            self.next += 1;
        }
        Ok(true)
    }
}

/// What a `RANGE` asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeShape {
    pub(crate) reverse: bool,
    pub(crate) keys_only: bool,
    /// The most keys to reply with.
    pub(crate) limit: u64,
}

/// The keys and values of a `RANGE`, at one moment.
///
/// A reply begins with the number of its parts. So a short one is gathered before it is written;
/// of a long one the rest is counted, then it is walked again, which the cursor's fixed moment
/// makes the same walk.
pub(crate) struct RangeReply {
    cursor: Cursor,
    shape: RangeShape,
    left: u64,
}

impl RangeReply {
    pub(super) fn new(mut cursor: Cursor, shape: RangeShape) -> RangeReply {
        if shape.reverse {
            cursor.seek_to_end();
        }
        RangeReply { cursor, shape, left: 0 }
    }

    /// Writes the header and, of the parts, as many as `piece_bytes` hold.
    pub(super) fn begin(
        &mut self,
        replies: &mut Replies,
        charge: &mut Charge,
        shared: &Shared,
        piece_bytes: usize,
    ) -> Result<(), Fail> {
        let RangeShape { reverse, keys_only, limit } = self.shape;
        let mark = replies.begin_array();
        let before = replies.len();
        let mut gathered = 0;
        let mut is_over = false;
        while gathered < limit && replies.len() - before < piece_bytes {
            let Some(row) = step(&mut self.cursor, reverse)? else {
                is_over = true;
                break;
            };
            put_part(replies, charge, row, keys_only)?;
            gathered += 1;
        }
        if !is_over && gathered < limit {
            self.left = self.count_rest(limit - gathered, shared)?;
        }
        let parts_per_key = if keys_only { 1 } else { 2 };
        let total = (gathered + self.left) * parts_per_key;
        replies.end_array(mark, usize::try_from(total).unwrap_or(usize::MAX));
        Ok(())
    }

    /// Counts the keys from where the cursor stands, `limit` at most, and goes back there.
    fn count_rest(&mut self, limit: u64, shared: &Shared) -> Result<u64, Fail> {
        let reverse = self.shape.reverse;
        let Some(row) = step(&mut self.cursor, reverse)? else { return Ok(0) };
        let resume_at = if reverse { successor(row.key) } else { row.key.to_vec() };
        let counted = 1 + count(&mut self.cursor, reverse, limit - 1, shared)?;
        self.cursor.seek(&resume_at)?;
        Ok(counted)
    }

    /// Whether every part is written.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Writes parts until there are no more or `replies` holds `soft_bytes`; whether that was the
    /// last. After the header there is no way to say that something failed, so any failure cuts
    /// the connection.
    pub(crate) fn step(
        &mut self,
        replies: &mut Replies,
        charge: &mut Charge,
        soft_bytes: usize,
    ) -> Result<bool, Fail> {
        while self.left > 0 {
            if replies.len() >= soft_bytes {
                return Ok(false);
            }
            let row = step(&mut self.cursor, self.shape.reverse).map_err(|_| Fail::Cut)?;
            put_part(replies, charge, row.ok_or(Fail::Cut)?, self.shape.keys_only)?;
            self.left -= 1;
        }
        Ok(true)
    }
}

fn put_part(
    replies: &mut Replies,
    charge: &mut Charge,
    row: EntryRef<'_>,
    keys_only: bool,
) -> Result<(), Fail> {
    replies.bulk(row.key);
    if !keys_only {
        if !charge.add(row.value.len()) {
            return Err(NO_ROOM);
        }
        replies.bulk(row.value);
    }
    Ok(())
}

/// The next row in this direction.
fn step(cursor: &mut Cursor, reverse: bool) -> terrace::Result<Option<EntryRef<'_>>> {
    if reverse { cursor.prev() } else { cursor.next() }
}

/// Counts the keys from where `cursor` stands, `limit` at most.
pub(super) fn count(
    cursor: &mut Cursor,
    reverse: bool,
    limit: u64,
    shared: &Shared,
) -> Result<u64, Fail> {
    let mut counted = 0;
    while counted < limit && step(cursor, reverse)?.is_some() {
        counted += 1;
        if counted % CANCEL_CHECK_STEPS as u64 == 0 && shared.is_cancelled() {
            return Err(SHUTTING_DOWN);
        }
    }
    Ok(counted)
}

/// The smallest key above `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
