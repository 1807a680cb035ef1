//! One client of a database: carries out operations and writes down what came of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace::{Batch, Cursor, Db, Error, Result, Snapshot, Value as Stored, View};
use terrace_base::{Expiry, KeyRange, WallTime};
use terrace_engine::options::Durability;
use terrace_env::SharedEnv;

use super::add::{add_to_batch, add_to_transaction, key_of, modelled, options};
use super::backup;
use super::errors::{failed, outcome_of};
use super::open::{self, found_at, found_in};
use super::place::{split, split_interval};
use super::spaces::{Space, Spaces, Who};
use crate::bulk;
use crate::oracle::{
    EventId, Found, IteratorFacts, Move, Outcome, Recorder, Row, Seen, SpaceId, Walked, What, Write,
};
use crate::setup::{DIR, Setup};
use crate::workload::{Change, Condition, How, Operation, Reading, Slot};

/// For how long a transaction thinks between its reads and its commit: others go on meanwhile.
const THINKS: Duration = Duration::from_micros(300);

/// A client at work.
pub struct Client {
    pub(super) env: SharedEnv,
    pub(super) setup: Arc<Setup>,
    recorder: Recorder,
    number: usize,
    step: usize,
    /// None after it could not be opened again.
    db: Option<Db>,
    pub(super) spaces: Arc<Spaces>,
    /// Whether the database is this client's alone, so that it may open it anew.
    is_alone: bool,
    snapshots: BTreeMap<Slot, Snapshot>,
    cursors: BTreeMap<Slot, Stroll>,
}

/// A cursor under way.
struct Stroll {
    id: u64,
    space: SpaceId,
    cursor: Cursor,
    /// Whether it shows an entry, and went forward to it.
    on: Option<bool>,
}

impl Client {
    /// Client `number` of a database.
    pub fn new(
        env: &SharedEnv,
        setup: &Arc<Setup>,
        recorder: Recorder,
        number: usize,
        (db, spaces): (&Db, &Arc<Spaces>),
    ) -> Client {
        Client {
            env: Arc::clone(env),
            setup: Arc::clone(setup),
            recorder,
            number,
            step: 0,
            db: Some(db.clone()),
            spaces: Arc::clone(spaces),
            is_alone: false,
            snapshots: BTreeMap::new(),
            cursors: BTreeMap::new(),
        }
    }

    /// The same client, with the database to itself: it may open it anew.
    pub fn alone(self) -> Client {
        Client { is_alone: true, ..self }
    }

    /// Gives the database back; `None` if it could not be opened again.
    pub fn into_db(mut self) -> Option<Db> {
        self.cursors.clear();
        self.snapshots.clear();
        self.db.take()
    }

    /// Carries out the next operation. False if the database is lost to this client.
    pub fn act(&mut self, operation: &Operation) -> bool {
        let Some(db) = self.db.clone() else { return false };
        let done = match operation {
            Operation::Write { changes, how } => self.write(&db, changes, *how),
            Operation::Update { key, condition, changes, how } => {
                self.update(&db, key, *condition, changes, *how)
            }
            Operation::Transact { readings, changes, how } => {
                self.transact(&db, readings, changes, *how)
            }
            Operation::Get { key, at, .. } => self.get(key, *at),
            Operation::MultiGet { keys, .. } => self.get_many(keys),
            Operation::Scan { within, backward, limit, at } => {
                self.scan(&db, within, *backward, *limit, *at)
            }
            Operation::Snapshot { slot } => self.snapshot(&db, *slot),
            Operation::DropSnapshot { slot } => {
                self.snapshots.remove(slot);
                Ok(())
            }
            Operation::Iterate { slot, within, at } => self.stroll(&db, *slot, within, *at),
            Operation::Seek { slot, key } => self.seek(*slot, Some(key), true),
            Operation::SeekBack { slot, bound } => self.seek(*slot, bound.as_deref(), false),
            Operation::Step { slot, forward, count } => {
                (0..*count).try_for_each(|_| self.take_step(*slot, *forward))
            }
            Operation::DropIterator { slot } => {
                self.cursors.remove(slot);
                Ok(())
            }
            Operation::Ingest { puts } => self.ingest(&db, puts),
            other => self.upkeep(db, other),
        };
        if let Err(error) = done {
            let id = self.begin(What::Begun);
            self.recorder.end(id, |what| *what = failed(&error));
        }
        self.step += 1;
        self.db.is_some()
    }

    fn upkeep(&mut self, db: Db, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Flush => self.make_durable(|| db.admin().flush()),
            Operation::Compact { within } => {
                let (name, within) = split_interval(within.start(), within.end());
                let Some(space) = self.spaces.find(name) else { return Ok(()) };
                self.make_durable(|| db.admin().compact(&space.handle, within))
            }
            Operation::Settle => {
                db.admin().settle();
                Ok(())
            }
            Operation::Check => {
                let id = self.begin(What::Begun);
                let report = db.admin().check()?;
                let damage = (!report.is_clean()).then(|| report.to_string());
                self.recorder.end(id, |what| *what = What::Checked { damage });
                Ok(())
            }
            Operation::Sleep { ms } => {
                self.env.sleep(Duration::from_millis(*ms));
                Ok(())
            }
            Operation::Checkpoint => backup::act(self, &db),
            Operation::DropKeyspace { name } => self.spaces.drop_keyspace(&db, name, self.who()),
            Operation::RenameKeyspace { from, to } => self.spaces.rename(&db, from, to, self.who()),
            Operation::Restart { clean } if self.is_alone => self.restart(db, *clean),
            Operation::ReadOnly if self.is_alone => self.restart(db, true),
            // The dranges of a database are not for those who use it.
            _ => Ok(()),
        }
    }

    fn who(&self) -> Who<'_> {
        let (recorder, wall) = (&self.recorder, self.env.wall_time());
        Who { recorder, client: self.number, step: self.step, wall }
    }

    pub(super) fn begin(&self, what: What) -> EventId {
        self.recorder.begin(self.number, self.step, what)
    }

    pub(super) fn end(&self, id: EventId, what: What) {
        self.recorder.end(id, |begun| *begun = what);
    }

    /// The keyspaces of these changes, made if they are missing.
    fn spaces_of(&self, db: &Db, changes: &[Change]) -> Result<Vec<Space>> {
        let names = changes.iter().map(|change| split(key_of(change)).0);
        names.map(|name| self.spaces.make(db, name, self.who())).collect()
    }

    fn begun(&self, changes: Vec<Change>, wall: WallTime, how: How) -> Write {
        Write {
            changes,
            wall,
            outcome: Outcome::Pending,
            is_synced: how.sync || self.setup.options.durability == Durability::Sync,
            may_wait: how.wait,
            seen: Vec::new(),
            walked: Vec::new(),
            may_conflict: false,
            condition: None,
        }
    }

    /// Writes down what came of a write to these keyspaces.
    fn finish(
        &self,
        id: EventId,
        spaces: &[Space],
        written: &Result<u64>,
        change: impl FnOnce(&mut Write),
    ) {
        let is_excused =
            written.as_ref().is_err_and(|error| self.spaces.excuses(error, spaces.iter()));
        self.recorder.end(id, |what| match what {
            // Somebody dropped a keyspace of it meanwhile.
            what if is_excused => *what = What::Checked { damage: None },
            What::Write(write) => {
                write.outcome = outcome_of(written);
                change(write);
            }
            _ => {}
        });
    }

    fn write(&mut self, db: &Db, changes: &[Change], how: How) -> Result<()> {
        let spaces = self.spaces_of(db, changes)?;
        let wall = self.env.wall_time();
        let mut batch = Batch::new();
        for (space, change) in spaces.iter().zip(changes) {
            add_to_batch(&mut batch, space, change, wall);
        }
        let id = self.begin(What::Write(self.begun(in_model(&spaces, changes), wall, how)));
        let written = db.write_with(&batch, &options(how)).map(|seqno| seqno.0);
        self.finish(id, &spaces, &written, |_| ());
        Ok(())
    }

    fn update(
        &mut self,
        db: &Db,
        key: &[u8],
        condition: Condition,
        changes: &[Change],
        how: How,
    ) -> Result<()> {
        let (name, own) = split(key);
        // All of it is in one keyspace.
        let is_of_it = |change: &&Change| !change.spans_keys() && split(key_of(change)).0 == name;
        let changes: Vec<Change> = changes.iter().filter(is_of_it).cloned().collect();
        let space = self.spaces.make(db, name, self.who())?;
        let spaces = vec![space.clone(); changes.len()];
        let keys: Vec<&[u8]> = std::iter::once(own)
            .chain(changes.iter().map(|change| split(key_of(change)).1))
            .collect();
        let from = self.env.wall_time();
        let begun = self.begun(in_model(&spaces, &changes), from, how);
        let id = self.begin(What::Write(Write { condition: Some(condition), ..begun }));
        let mut items: Vec<Option<Found>> = Vec::new();
        let written = space.handle.update_many(&keys, &options(how), |old, batch| {
            items = old.iter().map(|item| item.as_ref().map(found_in)).collect();
            if condition.holds(old[0].as_deref()) {
                for change in &changes {
                    add_to_batch(batch, &space, change, from);
                }
            }
            Ok::<(), Error>(())
        });
        let until = self.env.wall_time();
        let seen = |(key, found): (&&[u8], &Option<Found>)| Seen {
            key: space.id.key(key),
            found: *found,
            from,
            until,
        };
        let seen: Vec<Seen> = keys.iter().zip(&items).map(seen).collect();
        match written {
            Ok(None) => self.end(id, What::Kept { seen }),
            written => {
                let written = written.map(|last| last.map_or(0, |seqno| seqno.0));
                self.finish(id, &[space], &written, |write| write.seen = seen);
            }
        }
        Ok(())
    }

    fn transact(
        &mut self,
        db: &Db,
        readings: &[Reading],
        changes: &[Change],
        how: How,
    ) -> Result<()> {
        let spaces = self.spaces_of(db, changes)?;
        let changes: Vec<Change> = changes.iter().map(for_ever).collect();
        let wall = self.env.wall_time();
        let begun = self.begun(in_model(&spaces, &changes), wall, how);
        let id = self.begin(What::Write(Write { may_conflict: !self.is_alone, ..begun }));
        let (mut seen, mut walked) = (Vec::new(), Vec::new());
        let mut transact = || {
            let mut tx = db.begin();
            for reading in readings {
                self.read(&tx, reading, &mut seen, &mut walked)?;
            }
            self.env.sleep(THINKS);
            for (space, change) in spaces.iter().zip(&changes) {
                add_to_transaction(&mut tx, space, change);
            }
            // One that writes nothing is looked at only if that is asked for.
            if changes.is_empty() {
                tx.check()?;
            }
            tx.commit_with(&options(how)).map(|seqno| seqno.0)
        };
        let written = transact();
        self.finish(id, &spaces, &written, |write| (write.seen, write.walked) = (seen, walked));
        Ok(())
    }

    /// A reading of a transaction, if the keyspace is there.
    fn read(
        &self,
        tx: &terrace::Transaction,
        reading: &Reading,
        seen: &mut Vec<Seen>,
        walked: &mut Vec<Walked>,
    ) -> Result<()> {
        let from = self.env.wall_time();
        match reading {
            Reading::Key(key) => {
                let (name, key) = split(key);
                let Some(space) = self.spaces.find(name) else { return Ok(()) };
                let found = tx.get(&space.handle, key)?.as_ref().map(found_in);
                let until = self.env.wall_time();
                seen.push(Seen { key: space.id.key(key), found, from, until });
            }
            Reading::Walk { within, backward, limit } => {
                let (name, within) = split_interval(within.start(), within.end());
                let Some(space) = self.spaces.find(name) else { return Ok(()) };
                let mut iter = tx.range(&space.handle, &within);
                let next = || if *backward { iter.next_back() } else { iter.next() };
                let rows = std::iter::from_fn(next).take(*limit as usize);
                let rows = rows.map(|row| row.map(|row| row_of(space.id, &row)));
                let rows: Vec<Row> = rows.collect::<Result<_>>()?;
                let until = self.env.wall_time();
                let seqno = tx.snapshot().seqno().0;
                let within = space.id.range(&within);
                let iterator = IteratorFacts { within, seqno, from, until, at: Some(seqno) };
                walked.push(Walked { iterator, backward: *backward, limit: *limit, rows });
            }
        }
        Ok(())
    }

    /// A keyspace now or in a snapshot, and the number of that.
    fn view(&self, name: &str, at: Option<Slot>) -> Option<(SpaceId, View, Option<u64>)> {
        let space = self.spaces.find(name)?;
        let snapshot = at.and_then(|slot| self.snapshots.get(&slot));
        let view = snapshot.map_or_else(|| View::clone(&space.handle), |at| space.handle.at(at));
        Some((space.id, view, snapshot.map(|snapshot| snapshot.seqno().0)))
    }

    fn get(&mut self, key: &[u8], at: Option<Slot>) -> Result<()> {
        let (name, key) = split(key);
        let Some((space, view, at)) = self.view(name, at) else { return Ok(()) };
        let id = self.begin(What::Begun);
        let from = self.env.wall_time();
        let found = view.get(key)?.as_ref().map(found_in);
        let seen = Seen { key: space.key(key), found, from, until: self.env.wall_time() };
        self.end(id, What::Got { seen, at });
        Ok(())
    }

    fn get_many(&mut self, keys: &[Vec<u8>]) -> Result<()> {
        let name = keys.first().map_or("", |key| split(key).0);
        let Some((space, view, _)) = self.view(name, None) else { return Ok(()) };
        let keys: Vec<&[u8]> = keys
            .iter()
            .map(|key| split(key))
            .filter(|one| one.0 == name)
            .map(|one| one.1)
            .collect();
        let id = self.begin(What::Begun);
        let from = self.env.wall_time();
        let found = view.get_many(&keys)?;
        let until = self.env.wall_time();
        let seen = |(key, item): (&&[u8], &Option<Stored>)| Seen {
            key: space.key(key),
            found: item.as_ref().map(found_in),
            from,
            until,
        };
        self.end(id, What::GotMany { seen: keys.iter().zip(&found).map(seen).collect() });
        Ok(())
    }

    fn scan(
        &mut self,
        db: &Db,
        within: &KeyRange,
        backward: bool,
        limit: u32,
        at: Option<Slot>,
    ) -> Result<()> {
        let (name, within) = split_interval(within.start(), within.end());
        let Some((space, view, at)) = self.view(name, at) else { return Ok(()) };
        let id = self.begin(What::Begun);
        let before = db.snapshot().seqno().0;
        let from = self.env.wall_time();
        let mut iter = view.range(&within);
        let until = self.env.wall_time();
        let after = db.snapshot().seqno().0;
        let next = || if backward { iter.next_back() } else { iter.next() };
        let rows = std::iter::from_fn(next).take(limit as usize);
        let rows = rows.map(|row| row.map(|row| row_of(space, &row)));
        let rows: Vec<Row> = rows.collect::<Result<_>>()?;
        let facts = facts(space.range(&within), from, until, at, before, after);
        self.end(
            id,
            match facts {
                Some(iterator) => What::Scanned { iterator, backward, limit, rows },
                None => What::Checked { damage: None },
            },
        );
        Ok(())
    }

    fn snapshot(&mut self, db: &Db, slot: Slot) -> Result<()> {
        let id = self.begin(What::Begun);
        let snapshot = db.snapshot();
        let seqno = snapshot.seqno().0;
        self.snapshots.insert(slot, snapshot);
        self.end(id, What::Snapshot { seqno });
        Ok(())
    }

    fn stroll(&mut self, db: &Db, slot: Slot, within: &KeyRange, at: Option<Slot>) -> Result<()> {
        let (name, within) = split_interval(within.start(), within.end());
        let Some((space, view, at)) = self.view(name, at) else { return Ok(()) };
        let id = self.begin(What::Begun);
        let before = db.snapshot().seqno().0;
        let from = self.env.wall_time();
        let cursor = view.cursor(&within);
        let until = self.env.wall_time();
        let after = db.snapshot().seqno().0;
        let facts = facts(space.range(&within), from, until, at, before, after);
        let Some(facts) = facts else {
            self.end(id, What::Checked { damage: None });
            return Ok(());
        };
        let number = self.recorder.next_iterator();
        self.cursors.insert(slot, Stroll { id: number, space, cursor, on: None });
        self.end(id, What::Iterator { id: number, facts });
        Ok(())
    }

    /// Sends a cursor to the first key at or above one, or to the last one below, and shows it.
    fn seek(&mut self, slot: Slot, key: Option<&[u8]>, forward: bool) -> Result<()> {
        let Some(mut stroll) = self.cursors.remove(&slot) else { return Ok(()) };
        let key = key.map(|key| split(key).1);
        let id = self.begin(What::Begun);
        match key {
            Some(key) => stroll.cursor.seek(key)?,
            None => stroll.cursor.seek_to_end(),
        }
        let shown = stroll.go(forward)?;
        let target = key.map(|key| stroll.space.key(key));
        let how = match (forward, target) {
            (true, Some(key)) => Move::Seek(key),
            (_, bound) => Move::SeekBack(bound),
        };
        self.end(id, What::Moved { id: stroll.id, how, shown });
        self.cursors.insert(slot, stroll);
        Ok(())
    }

    fn take_step(&mut self, slot: Slot, forward: bool) -> Result<()> {
        let is_on = |stroll: &Stroll| stroll.on.is_some();
        if !self.cursors.get(&slot).is_some_and(is_on) {
            return Ok(());
        }
        let Some(mut stroll) = self.cursors.remove(&slot) else { return Ok(()) };
        let id = self.begin(What::Begun);
        // A cursor stands between keys: when it turns round, it goes over the same one first.
        if stroll.on.is_some_and(|went| went != forward) {
            stroll.go(forward)?;
        }
        let shown = stroll.go(forward)?;
        let how = if forward { Move::Next } else { Move::Prev };
        self.end(id, What::Moved { id: stroll.id, how, shown });
        self.cursors.insert(slot, stroll);
        Ok(())
    }

    fn make_durable(&mut self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let id = self.begin(What::Begun);
        let what = act().map_or_else(|error| failed(&error), |()| What::Durable);
        self.end(id, what);
        Ok(())
    }

    fn ingest(&mut self, db: &Db, puts: &[Change]) -> Result<()> {
        let puts = bulk::sorted(puts);
        let spaces = self.spaces_of(db, &puts)?;
        // A rename by another client may have led two names to one keyspace, whose keys would not
        // ascend then: it takes those of the first name.
        let mut names: BTreeMap<SpaceId, String> = BTreeMap::new();
        let (spaces, puts): (Vec<Space>, Vec<Change>) = spaces
            .into_iter()
            .zip(puts)
            .filter(|(space, put)| {
                let name = split(key_of(put)).0;
                names.entry(space.id).or_insert_with(|| name.to_string()) == name
            })
            .unzip();
        let Some(first) = spaces.first() else { return Ok(()) };
        let wall = self.env.wall_time();
        let changes = vec![Change::Ingest { puts: in_model(&spaces, &puts) }];
        // Its acknowledgement promises durability, whatever the class.
        let how = How { sync: true, wait: true };
        let id = self.begin(What::Write(self.begun(changes, wall, how)));
        let ingest = || {
            let mut ingest = first.handle.ingest()?;
            for (space, put) in spaces.iter().zip(&puts) {
                let Change::Put { key, value, ttl_ms } = put else { continue };
                let expiry = ttl_ms.map(|ttl| Expiry::at(WallTime(wall.0.saturating_add(ttl))));
                ingest.add_to_until(&space.handle, split(key).1, value.content(), expiry)?;
            }
            ingest.finish().map(|report| report.seqno.0)
        };
        let written = ingest();
        self.finish(id, &spaces, &written, |_| ());
        Ok(())
    }

    fn restart(&mut self, db: Db, clean: bool) -> Result<()> {
        self.cursors.clear();
        self.snapshots.clear();
        self.db = None;
        let there = self.spaces.let_go();
        if clean {
            self.make_durable(|| db.close())?;
        }
        drop(db);
        let id = self.begin(What::Begun);
        let db = open::open(&self.setup, &self.env, Path::new(DIR))?;
        self.end(id, What::Opened { seqno: db.snapshot().seqno().0 });
        self.spaces.take_again(&db, there)?;
        self.db = Some(db);
        Ok(())
    }
}

impl Stroll {
    /// One step; the entry that it went over.
    fn go(&mut self, forward: bool) -> Result<Option<Row>> {
        let entry = if forward { self.cursor.next()? } else { self.cursor.prev()? };
        let row = entry.map(|entry| (self.space.key(entry.key), found_at(&entry)));
        self.on = row.is_some().then_some(forward);
        Ok(row)
    }
}

/// Changes as the model has them.
fn in_model(spaces: &[Space], changes: &[Change]) -> Vec<Change> {
    spaces.iter().zip(changes).map(|(space, change)| modelled(space.id, change)).collect()
}

/// A change without an end in time: a transaction counts that from a moment of its own.
fn for_ever(change: &Change) -> Change {
    match change {
        Change::Put { key, value, .. } => {
            Change::Put { key: key.clone(), value: *value, ttl_ms: None }
        }
        other => other.clone(),
    }
}

fn row_of(space: SpaceId, (key, value): &(terrace::Key, Stored)) -> Row {
    (space.key(key), found_in(value))
}

/// What an iterator promises. One of the present says no number: if others wrote meanwhile, nobody
/// knows which it reads at, and this is `None`.
fn facts(
    within: KeyRange,
    from: WallTime,
    until: WallTime,
    at: Option<u64>,
    before: u64,
    after: u64,
) -> Option<IteratorFacts> {
    let seqno = at.or_else(|| (before == after).then_some(before))?;
    Some(IteratorFacts { within, seqno, from, until, at })
}
