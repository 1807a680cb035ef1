//! Replies too long to hold, which are produced in pieces as the client takes them.

use terrace::{Iter, ReadOptions, Snapshot};

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

/// The values of an `MGET`, all from one snapshot.
pub(crate) struct MgetReply {
    snapshot: Snapshot,
    next: usize,
}

impl MgetReply {
    pub(super) fn new(snapshot: Snapshot) -> MgetReply {
        MgetReply { snapshot, next: 1 }
    }

    /// Writes values until there are no more keys or `replies` holds `soft_bytes`; whether that
    /// was the last.
    pub(crate) fn step(
        &mut self,
        request: &Request<'_>,
        replies: &mut Replies,
        charge: &mut Charge,
        options: &ReadOptions,
        soft_bytes: usize,
    ) -> Result<bool, Fail> {
        while self.next < request.len() {
            if replies.len() >= soft_bytes {
                return Ok(false);
            }
            let key = request.get(self.next);
            put_value(replies, charge, |put| self.snapshot.look(key, options, put))?;
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
/// of a long one the rest is counted, then it is walked again, which the iterator's fixed read
/// point makes the same walk.
pub(crate) struct RangeReply {
    iter: Iter,
    shape: RangeShape,
    left: u64,
}

impl RangeReply {
    pub(super) fn new(mut iter: Iter, shape: RangeShape) -> Result<RangeReply, Fail> {
        seek_first(&mut iter, shape.reverse)?;
        Ok(RangeReply { iter, shape, left: 0 })
    }

    /// Writes the header and, of the parts, as many as `piece_bytes` hold.
    pub(super) fn begin(
        &mut self,
        replies: &mut Replies,
        charge: &mut Charge,
        shared: &Shared,
        piece_bytes: usize,
    ) -> Result<(), Fail> {
        let mark = replies.begin_array();
        let before = replies.len();
        let mut gathered = 0;
        while gathered < self.shape.limit && replies.len() - before < piece_bytes {
            let Some((key, value, _)) = self.iter.item() else { break };
            put_part(replies, charge, key, value, self.shape.keys_only)?;
            gathered += 1;
            advance(&mut self.iter, self.shape.reverse)?;
        }
        if let Some((key, _, _)) = self.iter.item()
            && gathered < self.shape.limit
        {
            let resume_at = key.to_vec();
            let limit = self.shape.limit - gathered;
            self.left = count(&mut self.iter, self.shape.reverse, limit, shared)?;
            if self.shape.reverse {
                // The key itself is the last one below its successor.
                self.iter.seek_back(Some(&successor(&resume_at)))?;
            } else {
                self.iter.seek(&resume_at)?;
            }
        }
        let parts_per_key = if self.shape.keys_only { 1 } else { 2 };
        let total = (gathered + self.left) * parts_per_key;
        replies.end_array(mark, usize::try_from(total).unwrap_or(usize::MAX));
        Ok(())
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
            let (key, value, _) = self.iter.item().ok_or(Fail::Cut)?;
            put_part(replies, charge, key, value, self.shape.keys_only)?;
            self.left -= 1;
            if self.left > 0 {
                advance(&mut self.iter, self.shape.reverse).map_err(|_| Fail::Cut)?;
            }
        }
        Ok(true)
    }
}

fn put_part(
    replies: &mut Replies,
    charge: &mut Charge,
    key: &[u8],
    value: &[u8],
    keys_only: bool,
) -> Result<(), Fail> {
    replies.bulk(key);
    if !keys_only {
        if !charge.add(value.len()) {
            return Err(NO_ROOM);
        }
        replies.bulk(value);
    }
    Ok(())
}

/// Goes to the first key of the iterator's interval in this direction.
pub(super) fn seek_first(iter: &mut Iter, reverse: bool) -> Result<(), Fail> {
    Ok(if reverse { iter.seek_back(None) } else { iter.seek(b"") }?)
}

fn advance(iter: &mut Iter, reverse: bool) -> Result<(), Fail> {
    Ok(if reverse { iter.prev() } else { iter.next() }?)
}

/// Counts the keys from where `iter` stands, `limit` at most.
pub(super) fn count(
    iter: &mut Iter,
    reverse: bool,
    limit: u64,
    shared: &Shared,
) -> Result<u64, Fail> {
    let mut counted = 0;
    while counted < limit && iter.item().is_some() {
        counted += 1;
        advance(iter, reverse)?;
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
