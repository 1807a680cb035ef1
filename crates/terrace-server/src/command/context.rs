use std::cell::OnceCell;

use terrace::{Batch, EntryRef, Expiry, Keyspace, Value, View, WallTime, WriteOptions};

use super::fail::{Fail, NO_ROOM, Weight};
use super::running::Running;
use crate::budget::Charge;
use crate::net;
use crate::protocol::Replies;
use crate::session::{Client, WriteRun};
use crate::shared::{Served, Shared};

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

impl Context<'_> {
    fn served(&self) -> &Served {
        &self.client.served
    }

    /// The keyspace that the client has selected.
    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.served().keyspace
    }

    /// The same, to be read as this thread may.
    pub(crate) fn view(&self) -> &View {
        view(self.served(), self.mode)
    }

    /// The time that this command goes by.
    pub(crate) fn now(&self) -> WallTime {
        *self.now.get_or_init(net::wall_now)
    }

    pub(crate) fn may_wait(&self) -> bool {
        self.mode != Mode::Inline
    }

    pub(crate) fn write_options(&self) -> WriteOptions {
        let options = WriteOptions::new();
        if self.may_wait() { options } else { options.no_wait() }
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
        read: impl FnOnce(EntryRef<'_>) -> T,
    ) -> Result<Option<T>, Fail> {
        Ok(self.view().look(key, read)?)
    }

    /// Replies with the value of one key, copied once, from where it lies into the replies: fails
    /// if it has no place among what all connections may hold.
    pub(crate) fn reply_with_value(&mut self, key: &[u8]) -> Result<(), Fail> {
        let view = view(&self.client.served, self.mode);
        let (replies, charge) = (&mut *self.replies, &mut *self.charge);
        put_value(replies, charge, |put| view.look(key, put))
    }

    pub(crate) fn write(&self, batch: &Batch) -> Result<(), Fail> {
        self.shared.db.write_with(batch, &self.write_options())?;
        Ok(())
    }

    /// Sets one key and replies `OK`, together with the plain writes around it if it may.
    pub(crate) fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> Result<(), Fail> {
        if let Some(run) = &mut self.write_run {
            run.put(&self.client.served.keyspace, key, value, expiry)?;
        } else {
            let options = match expiry {
                Some(expiry) => self.write_options().expires_at(expiry),
                None => self.write_options(),
            };
            self.keyspace().put_with(key, value, &options)?;
        }
        self.replies.ok();
        Ok(())
    }

    /// Reads one key and writes what `decide` puts into the batch, in one step that no other write
    /// of the key comes between. `decide` may run more than once.
    pub(crate) fn update<T>(
        &mut self,
        key: &[u8],
        mut decide: impl FnMut(Option<&Value>, &mut Changes<'_>) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        self.update_all(&[key], |old, changes| decide(old[0].as_ref(), changes))
    }

    /// As [`Context::update`], of several keys in one step.
    ///
    /// The old values are copies, and what becomes of them (a reply, a longer value) is another
    /// one: fails if these have no place among what all connections may hold.
    pub(crate) fn update_all<T>(
        &mut self,
        keys: &[&[u8]],
        mut decide: impl FnMut(&[Option<Value>], &mut Changes<'_>) -> Result<T, Fail>,
    ) -> Result<T, Fail> {
        let mut decided = None;
        let (keyspace, options) = (&self.client.served.keyspace, self.write_options());
        let charge = &mut *self.charge;
        let mut charged = 0;
        keyspace.update_many(keys, &options, |old, batch| {
            let held: usize = old.iter().flatten().map(|value| 2 * value.len()).sum();
            if !charge.add(held.saturating_sub(charged)) {
                return Err(NO_ROOM);
            }
            charged = charged.max(held);
            decided = Some(decide(old, &mut Changes { keyspace, batch })?);
            Ok(())
        })?;
        Ok(decided.expect("an update that succeeds was decided"))
    }
}

/// A keyspace, to be read as a thread of this kind may.
fn view(served: &Served, mode: Mode) -> &View {
    if mode == Mode::Inline { &served.at_once } else { &served.keyspace }
}

/// What an update decides to write, in the keyspace that the client has selected.
pub(crate) struct Changes<'a> {
    keyspace: &'a Keyspace,
    batch: &'a mut Batch,
}

impl Changes<'_> {
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(self.keyspace, key, value);
    }

    /// Puts until this moment; without one, for ever.
    pub(crate) fn put_until(&mut self, key: &[u8], value: &[u8], expiry: Option<Expiry>) {
        self.batch.put_until(self.keyspace, key, value, expiry);
    }

    /// Puts for as long as the old value would have stayed, if there is one.
    pub(crate) fn replace(&mut self, key: &[u8], value: &[u8], old: Option<&Value>) {
        match old {
            Some(old) => self.put_until(key, value, old.expiry()),
            None => self.put(key, value),
        }
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
        self.batch.delete(self.keyspace, key);
    }
}

/// Adds to the replies the value that `look` finds, or nothing if there is none; fails if it has no
/// place among what all connections may hold.
pub(super) fn put_value<E>(
    replies: &mut Replies,
    charge: &mut Charge,
    look: impl FnOnce(&mut dyn FnMut(EntryRef<'_>) -> bool) -> Result<Option<bool>, E>,
) -> Result<(), Fail>
where
    Fail: From<E>,
{
    let mut put = |entry: EntryRef<'_>| {
        let has_room = charge.add(entry.value.len());
        if has_room {
            replies.bulk(entry.value);
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
