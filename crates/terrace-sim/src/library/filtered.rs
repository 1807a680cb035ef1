//! A keyspace with a compaction filter, and a client that looks whether anybody sees it work.
//!
//! # Why
//! The oracle knows what every number holds, and a filter changes that at a moment that nobody is
//! told. So its keyspace is not the oracle's business ([`SPACE`] is left out of what is read as a
//! whole), but that of one client, which alone writes there: of each key it knows what it wrote,
//! and hence the two things that may be seen. The other clients do their work beside it, and
//! their snapshots, transactions and iterators are in the filter's way. Numbers are common to all,
//! so its writes are written down under keys that belong to no keyspace of the model.
//!
//! What must hold: a key shows what was written or what the filter makes of it, and once it has
//! shown the latter, that; a snapshot or a cursor shows the same for as long as it lives; when
//! nobody reads any more, a compaction leaves nothing that the filter would not.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace::filter::{CompactionFilter, Decision, Wants};
use terrace::{Batch, Cursor, Db, Keyspace, Result, Snapshot, View};
use terrace_engine::options::Durability;
use terrace_env::{SeededRng, SharedEnv};

use super::errors::{failed, outcome_of};
use crate::oracle::{Outcome, Recorder, What, Write};
use crate::setup::Setup;
use crate::workload::{Change, Value};

/// The keyspace that is filtered: one that exists always, so that it is nowhere in the catalog, and
/// that no workload names.
pub const SPACE: &str = "7";

/// Operations of the client for each one of the busiest other.
const STEPS: usize = 3;

/// Different keys.
const KEYS: u64 = 12;

/// The most readers at a time.
const READERS: usize = 4;

/// Drops values that begin with `x`, and makes `C` of the first byte of those that begin with `c`.
#[derive(Debug)]
pub struct ByFirstByte;

impl CompactionFilter for ByFirstByte {
    fn name(&self) -> &'static str {
        "by-first-byte"
    }

    fn wants(&self, _key: &[u8]) -> Wants {
        Wants::Value
    }

    fn decide(&self, _key: &[u8], value: &[u8]) -> Decision {
        match filtered(value) {
            None => Decision::Drop,
            Some(same) if same == value => Decision::Keep,
            Some(changed) => Decision::Change(changed),
        }
    }
}

/// What the filter makes of a value.
fn filtered(value: &[u8]) -> Option<Vec<u8>> {
    match value.first() {
        Some(b'x') => None,
        Some(b'c') => Some([b"C", &value[1..]].concat()),
        _ => Some(value.to_vec()),
    }
}

/// The newest value of a key.
struct Written {
    value: Vec<u8>,
    /// Whether the filter's work was seen.
    is_filtered: bool,
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Somebody who must see the same for as long as he lives.
struct Reader {
    rows: Rows,
    who: Who,
}

enum Who {
    Snapshot(Snapshot),
    Cursor(Cursor),
}

/// The client.
pub struct Watch {
    env: SharedEnv,
    setup: Arc<Setup>,
    recorder: Recorder,
    number: usize,
    step: usize,
    db: Db,
    space: Keyspace,
    random: SeededRng,
    count: u64,
    written: BTreeMap<Vec<u8>, Written>,
    readers: Vec<Reader>,
}

impl Watch {
    /// The client with this number. Errors: the keyspace cannot be had.
    pub fn new(
        env: &SharedEnv,
        setup: &Arc<Setup>,
        recorder: &Recorder,
        (number, seed): (usize, u64),
        db: &Db,
    ) -> Result<Watch> {
        Ok(Watch {
            env: Arc::clone(env),
            setup: Arc::clone(setup),
            recorder: recorder.clone(),
            number,
            step: 0,
            db: db.clone(),
            space: db.keyspace(SPACE)?,
            random: SeededRng::stream(seed, 61),
            count: 0,
            written: BTreeMap::new(),
            readers: Vec::new(),
        })
    }

    /// Works beside clients of whom the busiest does so many operations, or until a call failed.
    pub fn work(&mut self, beside: usize) {
        for _ in 0..STEPS * beside {
            if let Err(error) = self.act() {
                self.note(failed(&error));
                break;
            }
            self.step += 1;
        }
        self.readers.clear();
    }

    /// Nobody reads any more: what the filter would drop goes.
    pub fn finish(&mut self) {
        let done = self.db.admin().compact(&self.space, ..).and_then(|()| rows_of(&self.space));
        match done {
            Ok(rows) => {
                self.judge_all(&rows);
                let left = rows.iter().find(|(_, value)| filtered(value).as_ref() != Some(value));
                if let Some((key, value)) = left {
                    let (key, value) = (key.escape_ascii(), value.escape_ascii());
                    self.complain(format!("{key} still holds {value}, which no filter would"));
                }
            }
            Err(error) => self.note(failed(&error)),
        }
    }

    fn act(&mut self) -> Result<()> {
        match self.random.below(100) {
            0..50 => self.write()?,
            50..60 => {
                let key = self.key();
                let found = self.space.get(&key)?;
                self.judge(&key, found.as_deref());
            }
            60..72 if self.readers.len() < READERS => self.begin_reader()?,
            72..84 => self.check_reader()?,
            84..90 if !self.readers.is_empty() => {
                let which = self.random.index(self.readers.len());
                drop(self.readers.swap_remove(which));
            }
            90..95 => self.db.admin().compact(&self.space, ..)?,
            95..97 => self.db.admin().flush()?,
            _ => {}
        }
        Ok(())
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key {:02}", self.random.below(KEYS)).into_bytes()
    }

    fn write(&mut self) -> Result<()> {
        let key = self.key();
        let in_model = [b"f", key.as_slice()].concat();
        let mut batch = Batch::new();
        let (change, held) = if self.random.one_in(6) {
            batch.delete(&self.space, &key);
            (Change::Delete { key: in_model }, None)
        } else {
            self.count += 1;
            let kind = char::from(self.random.pick(b"xxcv"));
            let mut value = format!("{kind}{} ", self.count).into_bytes();
            let bytes = self.random.pick(&[0, 0, 60, 600]);
            value.resize(value.len() + bytes, b'.');
            batch.put(&self.space, &key, &value);
            let recorded = Value { bytes: value.len() as u32, tag: self.count };
            let change = Change::Put { key: in_model, value: recorded, ttl_ms: None };
            (change, Some(Written { value, is_filtered: false }))
        };
        let begun = Write {
            changes: vec![change],
            wall: self.env.wall_time(),
            outcome: Outcome::Pending,
            is_synced: self.setup.options.durability == Durability::Sync,
            may_wait: true,
            seen: Vec::new(),
            walked: Vec::new(),
            may_conflict: false,
            condition: None,
        };
        let id = self.recorder.begin(self.number, self.step, What::Write(begun));
        let written = self.db.write(&batch).map(|seqno| seqno.0);
        self.recorder.end(id, |what| {
            if let What::Write(write) = what {
                write.outcome = outcome_of(&written);
            }
        });
        written?;
        match held {
            Some(held) => self.written.insert(key, held),
            None => self.written.remove(&key),
        };
        Ok(())
    }

    fn begin_reader(&mut self) -> Result<()> {
        let (rows, who) = if self.random.one_in(2) {
            let snapshot = self.db.snapshot();
            (rows_of(&self.space.at(&snapshot))?, Who::Snapshot(snapshot))
        } else {
            let mut cursor = self.space.cursor(..);
            (walk(&mut cursor)?, Who::Cursor(cursor))
        };
        self.judge_all(&rows);
        self.readers.push(Reader { rows, who });
        Ok(())
    }

    fn check_reader(&mut self) -> Result<()> {
        if self.readers.is_empty() {
            return Ok(());
        }
        let which = self.random.index(self.readers.len());
        let Reader { rows, who } = &mut self.readers[which];
        let (again, by) = match who {
            Who::Snapshot(snapshot) => (rows_of(&self.space.at(snapshot))?, "a snapshot"),
            Who::Cursor(cursor) => (walk(cursor)?, "a cursor"),
        };
        let differs = again != *rows;
        let text =
            differs.then(|| format!("{by} showed {}, and now {}", shown(rows), shown(&again)));
        if let Some(text) = text {
            self.complain(text);
        }
        Ok(())
    }

    /// Judges everything that was read just now.
    fn judge_all(&mut self, rows: &Rows) {
        let found: BTreeMap<&[u8], &[u8]> =
            rows.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
        let keys: Vec<Vec<u8>> = self.written.keys().cloned().collect();
        for key in keys.iter().filter(|key| !found.contains_key(key.as_slice())) {
            self.judge(key, None);
        }
        found.iter().for_each(|(key, value)| self.judge(key, Some(value)));
    }

    fn judge(&mut self, key: &[u8], found: Option<&[u8]>) {
        let fits = match self.written.get_mut(key) {
            None => found.is_none(),
            Some(written) => {
                let is_as_written = !written.is_filtered && found == Some(&written.value);
                let is_as_filtered = found == filtered(&written.value).as_deref();
                written.is_filtered |= is_as_filtered && !is_as_written;
                is_as_written || is_as_filtered
            }
        };
        if !fits {
            let written = self.written.get(key).map(|written| written.value.escape_ascii());
            let written = written.map_or("nothing".to_string(), |value| value.to_string());
            let found =
                found.map_or("nothing".to_string(), |value| value.escape_ascii().to_string());
            let key = key.escape_ascii();
            self.complain(format!("{key} shows {found}, and {written} was written"));
        }
    }

    fn note(&self, what: What) {
        let id = self.recorder.begin(self.number, self.step, What::Begun);
        self.recorder.end(id, |begun| *begun = what);
    }

    fn complain(&self, text: String) {
        let text = format!("in the keyspace with a filter: {text}");
        self.note(What::Checked { damage: Some(text) });
    }
}

fn rows_of(view: &View) -> Result<Rows> {
    view.iter().map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
}

fn walk(cursor: &mut Cursor) -> Result<Rows> {
    cursor.seek_to_start();
    let mut rows = Rows::new();
    while let Some(entry) = cursor.next()? {
        rows.push((entry.key.to_vec(), entry.value.to_vec()));
    }
    Ok(rows)
}

/// Rows, short enough for a report.
fn shown(rows: &Rows) -> String {
    let row = |(key, value): &(Vec<u8>, Vec<u8>)| {
        format!("{}={}", key.escape_ascii(), value[..value.len().min(8)].escape_ascii())
    };
    rows.iter().map(row).collect::<Vec<_>>().join(", ")
}
