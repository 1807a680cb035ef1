use std::cell::OnceCell;

use terrace::{Db, Expiry, Item, ItemRef, ReadOptions, Update, WallTime, WriteBatch, WriteOptions};

use super::fail::{Fail, NO_ROOM, Weight};
use super::running::Running;
use crate::budget::Charge;
use crate::net;
use crate::protocol::Replies;
use crate::session::{Client, WriteRun};
use crate::shared::Shared;

/// On which kind of thread commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// On the network's thread: nothing may wait.
    Inline,
    /// On a thread that may wait, for work of this weight.
    Blocking(Weight),
}

/// What a command works with.
pub(crate) struct Context<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) client: &'a mut Client,
    pub(crate) replies: &'a mut Replies,
    pub(crate) mode: Mode,
    /// Where a reply in several pieces is left to go on.
    pub(crate) running: &'a mut Option<Running>,
    /// The run of plain writes that this command may join.
    pub(crate) write_run: Option<&'a mut WriteRun>,
    pub(crate) now: OnceCell<WallTime>,
    /// What the connection is charged for.
    pub(crate) charge: &'a mut Charge,
}

impl<'a> Context<'a> {
    /// The keyspace that the client has selected.
    pub(crate) fn db(&self) -> &'a Db {
        &self.shared.keyspaces[self.client.keyspace]
    }

    /// The time that this command goes by.
    pub(crate) fn now(&self) -> WallTime {
        *self.now.get_or_init(net::wall_now)
    }

    pub(crate) fn may_wait(&self) -> bool {
        self.mode != Mode::Inline
    }

    pub(crate) fn read_options(&self) -> ReadOptions {
        ReadOptions { wait: self.may_wait() }
    }

    pub(crate) fn write_options(&self) -> WriteOptions {
        WriteOptions { wait: self.may_wait(), ..WriteOptions::default() }
    }

    /// Goes on only on a thread that may look at every key.
    pub(crate) fn needs_scan_thread(&self) -> Result<(), Fail> {
        match self.mode {
            Mode::Blocking(Weight::Scan) => Ok(()),
            _ => Err(Fail::Wait(Weight::Scan)),
        }
    }

    /// Goes on only on a thread that may wait.
    pub(crate) fn needs_waiting_thread(&self) -> Result<(), Fail> {
        if self.may_wait() { Ok(()) } else { Err(Fail::Wait(Weight::Point)) }
    }

    /// What `read` makes of the entry of `key`, which is not copied.
    pub(crate) fn look<T>(
        &self,
        key: &[u8],
        read: impl FnOnce(ItemRef<'_>) -> T,
    ) -> Result<Option<T>, Fail> {
        Ok(self.db().look(key, &self.read_options(), read)?)
    }

    /// Replies with the value of one key, copied once, from where it lies into the replies: fails
    /// if it has no place among what all connections may hold.
    pub(crate) fn reply_with_value(&mut self, key: &[u8]) -> Result<(), Fail> {
        let (db, options) = (self.db(), self.read_options());
        let (replies, charge) = (&mut *self.replies, &mut *self.charge);
        put_value(replies, charge, |put| db.look(key, &options, put))
    }

    pub(crate) fn write(&self, batch: WriteBatch) -> Result<(), Fail> {
        Ok(self.db().write(batch, &self.write_options())?)
    }

    /// Sets one key and replies `OK`, together with the plain writes around it if it may.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> Result<(), Fail> {
        if let Some(run) = &mut self.write_run {
            run.put(key, value, expiry)?;
        } else {
            let mut batch = WriteBatch::new();
            batch.put_with_expiry(key, value, expiry)?;
            self.write(batch)?;
        }
        self.replies.ok();
        Ok(())
    }

    /// Reads one key and writes what `decide` puts into the batch, in one step that no other write
    /// of the key comes between. `decide` may run more than once.
    pub(crate) fn update<T>(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<&Item>, &mut WriteBatch) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        self.update_all(&[key], |old, batch| decide(old[0].as_ref(), batch))
    }

    /// As [`Context::update`], of several keys in one step.
    ///
    /// The old values are copies, and what becomes of them (a reply, a longer value) is another
    /// one: fails if these have no place among what all connections may hold.
    pub(crate) fn update_all<T>(
        &mut self,
        keys: &[&[u8]],
        mut decide: impl FnMut(&[Option<Item>], &mut WriteBatch) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        let mut decided = None;
        let (db, options) = (self.db(), self.write_options());
        let charge = &mut *self.charge;
        let mut charged = 0;
        db.update(keys, &options, |old| {
            let mut batch = WriteBatch::new();
            let held: usize = old.iter().flatten().map(|item| 2 * item.value.len()).sum();
            let has_room = charge.add(held.saturating_sub(charged));
            let outcome = if has_room { decide(old, &mut batch) } else { Err(NO_ROOM) };
            charged = if has_room { charged.max(held) } else { charged };
            let keep = outcome.is_err() || batch.is_empty();
            decided = Some(outcome);
            if keep { Update::Keep } else { Update::Write(batch) }
        })?;
        decided.expect("an update that succeeds was decided")
    }
}

/// Adds to the replies the value that `look` finds, or nothing if there is none; fails if it has no
/// place among what all connections may hold.
pub(super) fn put_value<E>(
    replies: &mut Replies,
    charge: &mut Charge,
    look: impl FnOnce(&mut dyn FnMut(ItemRef<'_>) -> bool) -> Result<Option<bool>, E>,
) -> Result<(), Fail>
where
    Fail: From<E>,
{
    let mut put = |item: ItemRef<'_>| {
        let has_room = charge.add(item.value.len());
        if has_room {
            replies.bulk(item.value);
        }
        has_room
    };
    match look(&mut put)? {
        Some(true) => Ok(()),
        Some(false) => Err(NO_ROOM),
        None => {
            replies.null();
            Ok(())
        }
    }
}
