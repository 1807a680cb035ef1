//! The keyspaces of a run: their handles, and the changes of which there are.

use std::collections::{BTreeMap, BTreeSet};

use terrace::{Db, Error, ErrorKind, Keyspace, Result};
use terrace_base::WallTime;
use terrace_env::{Latch, Mutex, SharedEnv};

use super::errors::failed;
use super::open::appending;
use crate::oracle::{DEFAULT, Outcome, Recorder, SpaceId, What, Write};
use crate::workload::{Change, Value};

/// A keyspace at hand.
#[derive(Clone, Debug)]
pub struct Space {
    /// By which it is read and written.
    pub handle: Keyspace,
    /// Which one of the run it is.
    pub id: SpaceId,
}

/// The keyspaces of a run, which its clients share.
#[derive(Debug)]
pub struct Spaces {
    /// Those that are there.
    there: Latch<BTreeMap<String, Space>>,
    /// Those that are being dropped, or were: a write to one may be refused.
    going: Latch<BTreeSet<SpaceId>>,
    /// Whoever changes which there are holds it; the number of the next one that is made.
    turn: Mutex<u16>,
    /// Whoever makes a backup holds it.
    pub backups: Mutex<()>,
}

/// Who changes the catalog, for the record.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    /// Writes it down.
    pub recorder: &'a Recorder,
    /// The client.
    pub client: usize,
    /// Its operation.
    pub step: usize,
    /// The wall clock.
    pub wall: WallTime,
}

impl Spaces {
    /// For a database that holds nothing yet. Makes known how its default keyspace merges.
    pub fn new(env: &SharedEnv, db: &Db, who: Who<'_>) -> Result<Spaces> {
        let spaces = Spaces {
            there: Latch::default(),
            going: Latch::default(),
            turn: env.waits().mutex(1),
            backups: env.waits().mutex(()),
        };
        let id = SpaceId::DEFAULT;
        let change = || db.keyspace_with(DEFAULT, appending());
        let handle = spaces.change(db, who, vec![make(id, DEFAULT)], change)?;
        spaces.there.lock().insert(DEFAULT.to_string(), Space { handle, id });
        Ok(spaces)
    }

    /// The keyspace of this name, if it is there.
    pub fn find(&self, name: &str) -> Option<Space> {
        self.there.lock().get(name).cloned()
    }

    /// The keyspace of this name, made if it is missing.
    pub fn make(&self, db: &Db, name: &str, who: Who<'_>) -> Result<Space> {
        if let Some(space) = self.find(name) {
            return Ok(space);
        }
        let mut next = self.turn.lock();
        // Somebody else may have made it meanwhile.
        if let Some(space) = self.find(name) {
            return Ok(space);
        }
        let id = SpaceId(*next);
        *next += 1;
        // A keyspace with a number that was used before begins with clearing what is left there.
        let (clear, is_used_no_more) = (clear(id), Change::Delete { key: id.entry("") });
        let changes = vec![clear, is_used_no_more, make(id, name)];
        let handle = self.change(db, who, changes, || db.keyspace_with(name, appending()))?;
        let space = Space { handle, id };
        self.there.lock().insert(name.to_string(), space.clone());
        Ok(space)
    }

    /// Drops a keyspace, if it is there. Errors: also if it can be written to afterwards.
    pub fn drop_keyspace(&self, db: &Db, name: &str, who: Who<'_>) -> Result<()> {
        let _turn = self.turn.lock();
        let Some(space) = self.find(name).filter(|space| space.id != SpaceId::DEFAULT) else {
            return Ok(());
        };
        self.going.lock().insert(space.id);
        let is_used = Change::Delete { key: space.id.entry("") };
        let is_gone = Change::Delete { key: space.id.entry(name) };
        let changes = vec![clear(space.id), is_gone, is_used];
        let was_there = self.change(db, who, changes, || db.drop_keyspace(name))?;
        self.there.lock().remove(name);
        let late = space.handle.put("late", "");
        if !was_there || late.map_err(|error| error.kind()) != Err(ErrorKind::NotFound) {
            let text = format!("a keyspace {name} that was dropped takes writes, or was not there");
            let id = who.recorder.begin(who.client, who.step, What::Begun);
            who.recorder.end(id, |what| *what = What::Checked { damage: Some(text) });
        }
        Ok(())
    }

    /// Gives a keyspace another name, if it is there and the name is free.
    pub fn rename(&self, db: &Db, from: &str, to: &str, who: Who<'_>) -> Result<()> {
        let _turn = self.turn.lock();
        let Some(space) = self.find(from).filter(|space| space.id != SpaceId::DEFAULT) else {
            return Ok(());
        };
        if self.find(to).is_some() {
            return Ok(());
        }
        let changes = vec![Change::Delete { key: space.id.entry(from) }, make(space.id, to)];
        self.change(db, who, changes, || db.rename_keyspace(from, to))?;
        let mut there = self.there.lock();
        there.remove(from);
        there.insert(to.to_string(), space);
        Ok(())
    }

    /// Lets go of the handles, which keep the database open; which keyspaces there are.
    pub fn let_go(&self) -> Vec<(String, SpaceId)> {
        let there = std::mem::take(&mut *self.there.lock());
        there.into_iter().map(|(name, space)| (name, space.id)).collect()
    }

    /// Takes the handles of these keyspaces again, from a database that was opened anew.
    pub fn take_again(&self, db: &Db, spaces: Vec<(String, SpaceId)>) -> Result<()> {
        for (name, id) in spaces {
            let handle = db.keyspace(&name)?;
            self.there.lock().insert(name, Space { handle, id });
        }
        Ok(())
    }

    /// Whether an error is one that a write to these keyspaces may meet, since one of them goes.
    pub fn excuses<'a>(&self, error: &Error, mut written: impl Iterator<Item = &'a Space>) -> bool {
        let going = self.going.lock();
        error.kind() == ErrorKind::NotFound && written.any(|space| going.contains(&space.id))
    }

    /// A change of the catalog, whose turn it is.
    fn change<T>(
        &self,
        db: &Db,
        who: Who<'_>,
        changes: Vec<Change>,
        change: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let may_be_short = changes.len() == 3 && matches!(changes[2], Change::Put { .. });
        let begun = Write {
            changes,
            wall: who.wall,
            outcome: Outcome::Pending,
            is_synced: true,
            may_wait: true,
            seen: Vec::new(),
            walked: Vec::new(),
            may_conflict: false,
            condition: None,
        };
        let after = db.snapshot().seqno().0;
        let id = who.recorder.begin(who.client, who.step, What::Write(begun));
        let changed = change();
        let upto = db.snapshot().seqno().0;
        who.recorder.end(id, |what| match (what, &changed) {
            (What::Write(write), Ok(_)) => {
                write.outcome = Outcome::Between { after, upto, may_be_short };
            }
            (what, Err(error)) => *what = failed(error),
            (_, Ok(_)) => {}
        });
        changed
    }
}

/// That there is a keyspace of this name.
fn make(id: SpaceId, name: &str) -> Change {
    Change::Put { key: id.entry(name), value: Value { bytes: 0, tag: 0 }, ttl_ms: None }
}

/// That a keyspace holds nothing.
fn clear(id: SpaceId) -> Change {
    let whole = id.whole();
    let end = whole.end().expect("the interval of a keyspace has an end");
    Change::DeleteRange { start: whole.start().to_vec(), end: end.to_vec() }
}
