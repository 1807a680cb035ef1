use std::cell::OnceCell;

use terrace::{Db, Expiry, Item, ReadOptions, Update, WallTime, WriteBatch, WriteOptions};

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

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Item>, Fail> {
        Ok(self.db().get_with(key, &self.read_options())?)
    }

    /// Reads one key, whose value is to go into the replies: fails if it has no place among what
    /// all connections may hold.
    pub(crate) fn get_for_reply(&mut self, key: &[u8]) -> Result<Option<Item>, Fail> {
        let item = self.get(key)?;
        match &item {
            Some(item) if !self.charge.add(item.value.len()) => Err(NO_ROOM),
            _ => Ok(item),
        }
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
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<&Item>, &mut WriteBatch) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        self.update_all(&[key], |old, batch| decide(old[0].as_ref(), batch))
    }

    /// As [`Context::update`], of several keys in one step.
    pub(crate) fn update_all<T>(
        &self,
        keys: &[&[u8]],
        mut decide: impl FnMut(&[Option<Item>], &mut WriteBatch) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        let mut decided = None;
        self.db().update(keys, &self.write_options(), |old| {
            let mut batch = WriteBatch::new();
            let outcome = decide(old, &mut batch);
            let keep = outcome.is_err() || batch.is_empty();
            decided = Some(outcome);
            if keep { Update::Keep } else { Update::Write(batch) }
        })?;
        decided.expect("an update that succeeds was decided")
    }
}
