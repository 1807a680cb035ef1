//! One client of a range: carries out operations and writes down what came of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{KeyRange, WallTime};
use terrace_engine::options::Durability;
use terrace_engine::store::{
    GetOptions, Item, Iter, IterOptions, PinnedItem, Snapshot, Store, Update, WriteOptions,
};
use terrace_engine::{Error, Result};
use terrace_env::SharedEnv;

use crate::bulk;
use crate::oracle::{Found, IteratorFacts, Kind, Move, Outcome, Recorder, Row, Seen, What, Write};
use crate::setup::Setup;
use crate::transaction::{Transacted, transact};
use crate::workload::{Change, Condition, How, Operation, Reading, Slot, batch_of};

/// A client at work.
pub struct Client {
    env: SharedEnv,
    setup: Arc<Setup>,
    recorder: Recorder,
    number: usize,
    step: usize,
    /// None while the range is being opened anew, and after that failed.
    store: Option<Store>,
    /// Whether the range is this client's alone, so that it may open it anew.
    is_alone: bool,
    snapshots: BTreeMap<Slot, Snapshot>,
    iterators: BTreeMap<Slot, (u64, Iter)>,
}

impl Client {
    /// Client `number` of a range.
    #[must_use]
    pub fn new(
        env: &SharedEnv,
        setup: &Arc<Setup>,
        recorder: Recorder,
        number: usize,
        store: Store,
    ) -> Client {
        Client {
            env: Arc::clone(env),
            setup: Arc::clone(setup),
            recorder,
            number,
            step: 0,
            store: Some(store),
            is_alone: false,
            snapshots: BTreeMap::new(),
            iterators: BTreeMap::new(),
        }
    }

    /// The same client, with the range to itself: it may open it anew.
    #[must_use]
    pub fn alone(self) -> Client {
        Client { is_alone: true, ..self }
    }

    /// Gives the range back; `None` if it could not be opened again.
    #[must_use]
    pub fn into_store(mut self) -> Option<Store> {
        self.iterators.clear();
        self.snapshots.clear();
        self.store.take()
    }

    /// Closes the range and drops it.
    pub fn close(&mut self) {
        self.let_go(true);
    }

    /// Carries out the next operation. False if the range is lost to this client, because opening
    /// it failed.
    pub fn act(&mut self, operation: &Operation) -> bool {
        let Some(store) = self.store.clone() else { return false };
        match operation {
            Operation::Write { changes, how } => self.write(&store, changes, *how),
            Operation::Update { key, condition, changes, how } => {
                self.update(&store, key, *condition, changes, *how);
            }
            Operation::Transact { readings, changes, how } => {
                self.transact(&store, readings, changes, *how);
            }
            Operation::Get { key, at, wait } => self.get(&store, key, *at, *wait),
            Operation::MultiGet { keys, wait } => self.multi_get(&store, keys, *wait),
            Operation::Scan { within, backward, limit, at } => {
                self.scan(&store, within, *backward, *limit, *at);
            }
            Operation::Snapshot { slot } => self.snapshot(&store, *slot),
            Operation::DropSnapshot { slot } => drop(self.snapshots.remove(slot)),
            Operation::Iterate { slot, within, at } => self.iterate(&store, *slot, within, *at),
            Operation::Seek { slot, key } => self.travel(*slot, Move::Seek(key.clone())),
            Operation::SeekBack { slot, bound } => {
                self.travel(*slot, Move::SeekBack(bound.clone()));
            }
            Operation::Step { slot, forward, count } => {
                for _ in 0..*count {
                    let is_placed =
                        self.iterators.get(slot).is_some_and(|(_, iter)| iter.entry().is_some());
                    if !is_placed {
                        break;
                    }
                    self.travel(*slot, if *forward { Move::Next } else { Move::Prev });
                }
            }
            Operation::DropIterator { slot } => drop(self.iterators.remove(slot)),
            Operation::Flush => self.make_durable(|| store.flush()),
            Operation::Divide { keys, duplicates } => self.divide(&store, keys, duplicates),
            Operation::Compact { within } => self.make_durable(|| store.compact(within)),
            Operation::Restart { clean } => {
                drop(store);
                self.restart(*clean);
            }
            Operation::ReadOnly => {
                drop(store);
                self.read_only();
            }
            Operation::Sleep { ms } => self.env.sleep(Duration::from_millis(*ms)),
            Operation::Settle => store.settle(),
            Operation::Check => self.check(&store),
            Operation::Ingest { puts } => self.ingest(&store, puts),
            Operation::Checkpoint => self.checkpoint(&store),
            // A range by itself has no keyspaces.
            Operation::DropKeyspace { .. } | Operation::RenameKeyspace { .. } => {}
        }
        self.step += 1;
        self.store.is_some()
    }

    fn begin(&self, what: What) -> crate::oracle::EventId {
        self.recorder.begin(self.number, self.step, what)
    }

    /// Writes down the outcome of a call that is no write.
    fn finish(&self, id: crate::oracle::EventId, outcome: Result<What>) {
        self.recorder.end(id, |what| {
            *what = outcome.unwrap_or_else(|error| What::Failed {
                error: Kind::of(&error),
                text: error.to_string(),
            });
        });
    }

    fn write(&mut self, store: &Store, changes: &[Change], how: How) {
        let wall = self.env.wall_time();
        let batch = match batch_of(changes, wall) {
            Ok(batch) => batch,
            Err(error) => return self.refuse(error),
        };
        let id = self.begin(What::Write(self.begun(changes, wall, how, None)));
        let written = store.write_numbered(&batch, &options(how));
        self.recorder.end(id, |what| {
            if let What::Write(write) = what {
                write.outcome = outcome_of(written.map(|seqno| seqno.0));
            }
        });
    }

    /// A call that was wrong in itself.
    fn refuse(&self, error: Error) {
        let id = self.begin(What::Begun);
        self.finish(id, Err(error));
    }

    fn begun(
        &self,
        changes: &[Change],
        wall: WallTime,
        how: How,
        condition: Option<Condition>,
    ) -> Write {
        let is_synced = how.sync || self.setup.options.durability == Durability::Sync;
        let changes = changes.to_vec();
        let outcome = Outcome::Pending;
        let may_wait = how.wait;
        Write {
            changes,
            wall,
            outcome,
            is_synced,
            may_wait,
            seen: Vec::new(),
            walked: Vec::new(),
            may_conflict: false,
            condition,
        }
    }

    fn transact(&mut self, store: &Store, readings: &[Reading], changes: &[Change], how: How) {
        let wall = self.env.wall_time();
        let batch = match batch_of(changes, wall) {
            Ok(batch) => batch,
            Err(error) => return self.refuse(error),
        };
        let begun = self.begun(changes, wall, how, None);
        let id = self.begin(What::Write(Write { may_conflict: !self.is_alone, ..begun }));
        let mut read = Transacted::default();
        let written = transact(&self.env, store, readings, &batch, &options(how), &mut read);
        self.recorder.end(id, |what| {
            if let What::Write(write) = what {
                (write.seen, write.walked) = (read.seen, read.walked);
                write.outcome = outcome_of(written);
            }
        });
    }

    fn update(
        &mut self,
        store: &Store,
        key: &[u8],
        condition: Condition,
        changes: &[Change],
        how: How,
    ) {
        let changes: Vec<Change> = changes.iter().filter(|c| !c.spans_keys()).cloned().collect();
        let mut keys: Vec<&[u8]> = vec![key];
        keys.extend(changes.iter().map(|change| match change {
            Change::DeleteRange { start, .. } => start.as_slice(),
            change => change.key().unwrap_or_default(),
        }));
        let from = self.env.wall_time();
        let batch = match batch_of(&changes, from) {
            Ok(batch) => batch,
            Err(error) => return self.refuse(error),
        };
        let begun = self.begun(&changes, from, how, Some(condition));
        let id = self.begin(What::Write(begun));
        let mut items: Vec<Option<Found>> = Vec::new();
        let written = store.update_numbered(&keys, &options(how), |old| {
            items = old.iter().map(|item| item.as_ref().map(found_in)).collect();
            let value = old.first().and_then(|item| item.as_ref()).map(|item| &item.value[..]);
            Ok(if condition.holds(value) { Update::Write(batch.clone()) } else { Update::Keep })
        });
        let until = self.env.wall_time();
        let seen = |(key, found): (&&[u8], &Option<Found>)| Seen {
            key: key.to_vec(),
            found: *found,
            from,
            until,
        };
        let seen: Vec<Seen> = keys.iter().zip(&items).map(seen).collect();
        self.recorder.end(id, |what| {
            if let Ok(None) = written {
                *what = What::Kept { seen };
            } else if let What::Write(write) = what {
                write.seen = seen;
                write.outcome = outcome_of(written.map(|last| last.map_or(0, |seqno| seqno.0)));
            }
        });
    }

    fn get(&mut self, store: &Store, key: &[u8], at: Option<Slot>, wait: bool) {
        let snapshot = at.and_then(|slot| self.snapshots.get(&slot));
        let seqno = snapshot.map(|snapshot| snapshot.seqno().0);
        let id = self.begin(What::Begun);
        let from = self.env.wall_time();
        let read = |options: &GetOptions| match snapshot {
            Some(snapshot) => snapshot.get(key, options),
            None => store.get(key, options),
        };
        let item = match read(&GetOptions { wait, ..GetOptions::default() }) {
            Err(Error::NeedsIo) if !wait => read(&GetOptions::default()),
            item => item,
        };
        let until = self.env.wall_time();
        self.finish(
            id,
            item.map(|item| What::Got {
                seen: Seen { key: key.to_vec(), found: item.as_ref().map(found_in), from, until },
                at: seqno,
            }),
        );
    }

    fn multi_get(&mut self, store: &Store, keys: &[Vec<u8>], wait: bool) {
        let id = self.begin(What::Begun);
        let from = self.env.wall_time();
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let items = match store.multi_get(&slices, &GetOptions { wait, ..GetOptions::default() }) {
            Err(Error::NeedsIo) if !wait => store.multi_get(&slices, &GetOptions::default()),
            items => items,
        };
        let until = self.env.wall_time();
        let found = |item: PinnedItem| {
            Found::of(item.seqno().0, item.expiry().map(|expiry| expiry.time()), &item)
        };
        let seen = |(key, item): (&Vec<u8>, Option<PinnedItem>)| Seen {
            key: key.clone(),
            found: item.map(found),
            from,
            until,
        };
        self.finish(
            id,
            items.map(|items| What::GotMany { seen: keys.iter().zip(items).map(seen).collect() }),
        );
    }

    fn open_iterator(
        &self,
        store: &Store,
        within: &KeyRange,
        at: Option<Slot>,
    ) -> Result<(IteratorFacts, Iter)> {
        let snapshot = at.and_then(|slot| self.snapshots.get(&slot));
        let options = IterOptions { range: within.clone(), ..IterOptions::default() };
        let from = self.env.wall_time();
        let iter = match snapshot {
            Some(snapshot) => snapshot.iter(options)?,
            None => store.iter(options)?,
        };
        let until = self.env.wall_time();
        let facts = IteratorFacts {
            within: within.clone(),
            seqno: iter.seqno().0,
            from,
            until,
            at: snapshot.map(|snapshot| snapshot.seqno().0),
        };
        Ok((facts, iter))
    }

    fn scan(
        &mut self,
        store: &Store,
        within: &KeyRange,
        backward: bool,
        limit: u32,
        at: Option<Slot>,
    ) {
        let id = self.begin(What::Begun);
        let read = || {
            let (iterator, mut iter) = self.open_iterator(store, within, at)?;
            let rows = walk(&mut iter, backward, limit)?;
            Ok(What::Scanned { iterator, backward, limit, rows })
        };
        self.finish(id, read());
    }

    fn snapshot(&mut self, store: &Store, slot: Slot) {
        let id = self.begin(What::Begun);
        let snapshot = store.snapshot();
        let seqno = snapshot.seqno().0;
        self.snapshots.insert(slot, snapshot);
        self.finish(id, Ok(What::Snapshot { seqno }));
    }

    fn iterate(&mut self, store: &Store, slot: Slot, within: &KeyRange, at: Option<Slot>) {
        let id = self.begin(What::Begun);
        let number = self.recorder.next_iterator();
        let opened = self.open_iterator(store, within, at);
        let what = opened.map(|(facts, iter)| {
            self.iterators.insert(slot, (number, iter));
            What::Iterator { id: number, facts }
        });
        self.finish(id, what);
    }

    fn travel(&mut self, slot: Slot, how: Move) {
        let Some((number, mut iter)) = self.iterators.remove(&slot) else { return };
        let id = self.begin(What::Begun);
        let moved = match &how {
            Move::Seek(key) => iter.seek(key),
            Move::SeekBack(bound) => iter.seek_back(bound.as_deref()),
            Move::Next => iter.next(),
            Move::Prev => iter.prev(),
        };
        let shown = iter.entry().map(|entry| row_of(&entry));
        let what = moved.map(|()| What::Moved { id: number, how, shown });
        let is_lost = what.is_err();
        self.finish(id, what);
        if !is_lost {
            self.iterators.insert(slot, (number, iter));
        }
    }

    fn make_durable(&mut self, act: impl FnOnce() -> Result<()>) {
        let id = self.begin(What::Begun);
        let outcome = act();
        self.finish(id, outcome.map(|()| What::Durable));
    }

    fn divide(&mut self, store: &Store, keys: &[Vec<u8>], duplicates: &[usize]) {
        let mut keys = keys.to_vec();
        keys.sort();
        keys.dedup();
        keys.retain(|key| !key.is_empty());
        let turns = if duplicates.is_empty() { &[1] } else { duplicates };
        let turns = turns.iter().map(|count| (*count).max(1)).cycle();
        let duplicates: Vec<usize> = turns.take(keys.len() + 1).collect();
        let id = self.begin(What::Begun);
        let outcome = store.divide_among(keys, &duplicates);
        self.finish(id, outcome.map(|()| What::Checked { damage: None }));
    }

    fn check(&mut self, store: &Store) {
        let id = self.begin(What::Begun);
        let report = store.check(&mut |_, _| ());
        self.finish(
            id,
            report.map(|report| What::Checked {
                damage: (!report.is_clean()).then(|| report.to_string()),
            }),
        );
    }

    fn ingest(&mut self, store: &Store, puts: &[Change]) {
        let wall = self.env.wall_time();
        let puts = bulk::sorted(puts);
        let changes = vec![Change::Ingest { puts: puts.clone() }];
        // Its acknowledgement promises durability, whatever the class.
        let how = How { sync: true, wait: true };
        let id = self.begin(What::Write(self.begun(&changes, wall, how, None)));
        let written = bulk::ingest(store, &puts, wall);
        self.recorder.end(id, |what| {
            if let What::Write(write) = what {
                write.outcome = outcome_of(written);
            }
        });
    }

    fn checkpoint(&mut self, store: &Store) {
        let dir = bulk::copy_dir(&self.env, self.number, self.step);
        // All that was acknowledged before it is flushed.
        let (durable, id) = (self.begin(What::Begun), self.begin(What::Begun));
        let made = store.checkpoint(&dir, &mut |_, _| true);
        let seqno = match made {
            Ok(report) => report.seqno.0,
            Err(error) => {
                self.finish(durable, Ok(What::Checked { damage: None }));
                return self.finish(id, Err(error));
            }
        };
        self.finish(durable, Ok(What::Durable));
        self.finish(id, Ok(What::Snapshot { seqno }));
        let id = self.begin(What::Begun);
        self.finish(id, bulk::read_copy(&self.setup, &self.env, &dir, seqno));
        let id = self.begin(What::Begun);
        self.finish(id, bulk::check_copy(&self.env, &dir));
        let id = self.begin(What::Begun);
        let removed = bulk::remove_copy(&self.env, &dir);
        self.finish(id, removed.map(|()| What::Checked { damage: None }));
    }

    /// Drops everything that keeps the range open. True if the close succeeded.
    fn let_go(&mut self, clean: bool) {
        self.iterators.clear();
        self.snapshots.clear();
        let Some(store) = self.store.take() else { return };
        if clean {
            self.make_durable(|| store.close());
        }
        drop(store);
    }

    fn restart(&mut self, clean: bool) {
        if !self.is_alone {
            return;
        }
        self.let_go(clean);
        self.reopen();
    }

    fn reopen(&mut self) {
        let id = self.begin(What::Begun);
        let opened = self.setup.open(&self.env);
        let what = opened.map(|store| {
            let seqno = store.snapshot().seqno().0;
            self.store = Some(store);
            What::Opened { seqno }
        });
        self.finish(id, what);
    }

    fn read_only(&mut self) {
        if !self.is_alone {
            return;
        }
        self.let_go(true);
        let opened = self.setup.open_read_only(&self.env);
        match opened {
            Ok(store) => self.scan(&store, &KeyRange::all(), false, u32::MAX, None),
            Err(error) => self.refuse(error),
        }
        self.reopen();
    }
}

fn walk(iter: &mut Iter, backward: bool, limit: u32) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    if backward {
        iter.seek_back(None)?
    } else {
        iter.seek_to_first()?
    }
    while let Some(entry) = iter.entry() {
        if rows.len() as u64 >= u64::from(limit) {
            break;
        }
        rows.push(row_of(&entry));
        if backward { iter.prev()? } else { iter.next()? }
    }
    Ok(rows)
}

pub(crate) fn row_of(entry: &terrace_base::EntryRef<'_>) -> Row {
    let expiry = entry.expiry.map(|expiry| expiry.time());
    (entry.key.to_vec(), Found::of(entry.seqno.0, expiry, entry.value))
}

pub(crate) fn found_in(item: &Item) -> Found {
    Found::of(item.seqno.0, item.expiry.map(|expiry| expiry.time()), &item.value)
}

fn options(how: How) -> WriteOptions {
    WriteOptions { durability: how.sync.then_some(Durability::Sync), wait: how.wait }
}

fn outcome_of(written: Result<u64>) -> Outcome {
    match written {
        Ok(last) => Outcome::Written { last },
        Err(Error::Unknown(_)) => Outcome::Unknown,
        Err(error) => Outcome::Refused { error: Kind::of(&error), text: error.to_string() },
    }
}
