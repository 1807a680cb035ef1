//! Goal: what keyspaces were asked is counted exactly, whichever way it was asked. Method: random
//! operations of every kind on several keyspaces, beside a model that knows what they hold and
//! counts by itself; a keyspace that is renamed, one that is dropped; what fails, which counts
//! nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use terrace::{
    Batch, Cas, Db, ErrorKind, Keyspace, KeyspaceOptions, KeyspaceStats, Result, View,
    WriteOptions, merge,
};
use terrace_env::SeededRng;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Keys of several lengths.
const KEYS: [&str; 6] = ["k1", "k22", "k333", "long key 1", "long key 22", "z"];

/// A keyspace, what it holds, and what it was asked.
struct Counted {
    keyspace: Keyspace,
    rows: BTreeMap<String, i64>,
    stats: KeyspaceStats,
}

impl Counted {
    fn new(db: &Db, name: &str) -> Counted {
        let counting = KeyspaceOptions::new().merge_operator(merge::ADD_I64_LE);
        let keyspace = db.keyspace_with(name, counting).expect("it is made");
        Counted { keyspace, rows: BTreeMap::new(), stats: KeyspaceStats::default() }
    }

    fn put(&mut self, key: &str, value: i64) {
        self.rows.insert(key.to_string(), value);
        self.stats.put_count += 1;
        self.stats.write_bytes += key.len() as u64 + 8;
    }

    fn merge(&mut self, key: &str, operand: i64) {
        *self.rows.entry(key.to_string()).or_default() += operand;
        self.stats.merge_count += 1;
        self.stats.write_bytes += key.len() as u64 + 8;
    }

    fn delete(&mut self, key: &str) {
        self.rows.remove(key);
        self.stats.delete_count += 1;
        self.stats.write_bytes += key.len() as u64;
    }

    fn delete_range(&mut self, start: &str, end: &str) {
        self.rows.retain(|key, _| !(start <= key.as_str() && key.as_str() < end));
        self.stats.range_delete_count += 1;
    }

    fn got(&mut self, key: &str) -> Option<i64> {
        let found = self.rows.get(key).copied();
        if found.is_some() {
            self.stats.get_found_count += 1;
            self.stats.read_bytes += key.len() as u64 + 8;
        } else {
            self.stats.get_missed_count += 1;
        }
        found
    }

    fn shown(&mut self, key: &str) {
        self.stats.scanned_count += 1;
        self.stats.read_bytes += key.len() as u64 + 8;
    }

    /// An iterator went over these keys, after it was placed so often.
    fn scanned<'k>(&mut self, seeks: u64, keys: impl IntoIterator<Item = &'k str>) {
        self.stats.scan_count += 1;
        self.stats.seek_count += seeks;
        keys.into_iter().for_each(|key| self.shown(key));
    }

    fn decided(&mut self, has_written: bool) {
        self.stats.conditional_write_count += 1;
        self.stats.conditional_refused_count += u64::from(!has_written);
    }

    fn keys_from(&self, start: &str) -> Vec<String> {
        let range = (Bound::Included(start), Bound::Unbounded);
        self.rows.range::<str, _>(range).map(|(key, _)| key.clone()).collect()
    }
}

struct Run {
    rng: SeededRng,
    db: Db,
    all: Vec<Counted>,
}

fn number(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().expect("eight bytes"))
}

impl Run {
    fn below(&mut self, end: usize) -> usize {
        self.rng.below(end as u64) as usize
    }

    fn key(&mut self) -> &'static str {
        KEYS[self.below(KEYS.len())]
    }

    fn step(&mut self) -> Result<()> {
        let one = self.below(NAMES.len());
        match self.below(11) {
            0 | 1 => self.write_one(one)?,
            2 => self.write_batch()?,
            3 | 4 => self.read(one)?,
            5 => self.walk_cursor(one)?,
            6 => self.walk_iterator(one)?,
            7 => self.decide(one)?,
            8 => self.transact()?,
            9 => self.fail(one),
            _ => self.other(one)?,
        }
        Ok(())
    }

    fn write_one(&mut self, one: usize) -> Result<()> {
        let (key, value) = (self.key(), self.rng.below(100) as i64);
        let kind = self.below(4);
        let counted = &mut self.all[one];
        match kind {
            0 => {
                counted.keyspace.put(key, value.to_le_bytes())?;
                counted.put(key, value);
            }
            1 => {
                counted.keyspace.merge(key, value.to_le_bytes())?;
                counted.merge(key, value);
            }
            2 => {
                counted.keyspace.delete(key)?;
                counted.delete(key);
            }
            _ => {
                counted.keyspace.delete_range("k2".."l")?;
                counted.delete_range("k2", "l");
            }
        }
        Ok(())
    }

    /// Fills a batch with some entries and notes what they come to once it is written.
    fn fill(&mut self, batch: &mut Batch) -> Vec<(usize, usize, &'static str, i64)> {
        let count = self.below(6);
        let mut entries = Vec::new();
        for _ in 0..count {
            let (one, kind, key) = (self.below(NAMES.len()), self.below(4), self.key());
            let value = self.rng.below(100) as i64;
            let keyspace = &self.all[one].keyspace;
            match kind {
                0 => batch.put(keyspace, key, value.to_le_bytes()),
                1 => batch.merge(keyspace, key, value.to_le_bytes()),
                2 => batch.delete(keyspace, key),
                _ => batch.delete_range(keyspace, "k2".."l"),
            };
            entries.push((one, kind, key, value));
        }
        entries
    }

    fn apply(&mut self, entries: &[(usize, usize, &'static str, i64)]) {
        for (one, kind, key, value) in entries {
            let counted = &mut self.all[*one];
            match kind {
                0 => counted.put(key, *value),
                1 => counted.merge(key, *value),
                2 => counted.delete(key),
                _ => counted.delete_range("k2", "l"),
            }
        }
    }

    fn write_batch(&mut self) -> Result<()> {
        let mut batch = Batch::new();
        self.fill(&mut batch);
        batch.clear();
        let entries = self.fill(&mut batch);
        // What could not be written is left out, and counts for nothing.
        batch.put(&self.all[0].keyspace, vec![0; 70_000], "");
        assert!(batch.take_refused().is_some());
        let times = self.below(3);
        for _ in 0..times {
            self.db.write(&batch)?;
            self.apply(&entries);
        }
        Ok(())
    }

    fn read(&mut self, one: usize) -> Result<()> {
        let (key, kind) = (self.key(), self.below(5));
        let snapshot = self.db.snapshot();
        let count = self.below(4);
        let many: Vec<&str> = (0..count).map(|_| self.key()).collect();
        let counted = &mut self.all[one];
        let keyspace = counted.keyspace.clone();
        let (view, found): (View, _) = match kind {
            0 => (keyspace.at(&snapshot), counted.got(key)),
            1 => ((*keyspace).clone(), counted.got(key)),
            2 => {
                let value = keyspace.look(key, |entry| number(entry.value))?;
                assert_eq!(value, counted.got(key));
                return Ok(());
            }
            3 => {
                assert_eq!(keyspace.contains_key(key)?, counted.got(key).is_some());
                return Ok(());
            }
            _ => {
                let values = keyspace.get_many(&many)?;
                counted.stats.multi_get_count += 1;
                for (key, value) in many.iter().zip(values) {
                    let found = counted.rows.get(*key);
                    assert_eq!(value.map(|value| number(&value)).as_ref(), found);
                    if found.is_some() {
                        counted.stats.multi_get_found_count += 1;
                        counted.stats.read_bytes += key.len() as u64 + 8;
                    } else {
                        counted.stats.multi_get_missed_count += 1;
                    }
                }
                return Ok(());
            }
        };
        assert_eq!(view.get(key)?.map(|value| number(&value)), found);
        Ok(())
    }

    fn walk_cursor(&mut self, one: usize) -> Result<()> {
        let (start, steps) = (self.key(), self.below(4));
        let counted = &mut self.all[one];
        let keys = counted.keys_from(start);
        {
            // One that does not move is none.
            let _unused = counted.keyspace.cursor(..);
            let mut cursor = counted.keyspace.cursor(..);
            cursor.seek(start)?;
            let mut shown: Vec<&str> = Vec::new();
            for key in keys.iter().take(steps) {
                let row = cursor.next()?.expect("the model has it");
                assert_eq!(row.key, key.as_bytes());
                shown.push(key);
            }
            let mut seeks = 1;
            if let Some(last) = shown.last().copied() {
                // Back over the same key: it is shown again.
                let row = cursor.prev()?.expect("it was just there");
                assert_eq!(row.key, last.as_bytes());
                shown.push(last);
                cursor.seek_to_start();
                let first = counted.rows.keys().next().expect("there are some").clone();
                let row = cursor.next()?.expect("there are some");
                assert_eq!(row.key, first.as_bytes());
                seeks += 1;
                let stats = counted.keyspace.stats();
                assert_eq!(stats, counted.stats, "it has not gone yet");
                drop(cursor);
                counted.scanned(seeks, shown);
                counted.shown(&first);
            } else {
                drop(cursor);
                counted.scanned(seeks, []);
            }
        }
        Ok(())
    }

    fn walk_iterator(&mut self, one: usize) -> Result<()> {
        let (start, kind) = (self.key(), self.below(4));
        let counted = &mut self.all[one];
        let keys = counted.keys_from(start);
        let keyspace = &counted.keyspace;
        match kind {
            0 => {
                assert_eq!(keyspace.range(start..).count(), keys.len());
                counted.scanned(1, keys.iter().map(String::as_str));
            }
            1 => {
                assert_eq!(keyspace.range(start..).keys().rev().count(), keys.len());
                counted.scanned(1, keys.iter().map(String::as_str));
            }
            2 => {
                // From both ends: one iterator, placed twice, each key shown once.
                let mut iter = keyspace.range(start..);
                let (mut shown, mut seeks) = (0, 1);
                while iter.next().transpose()?.is_some() {
                    shown += 1;
                    seeks = 2;
                    match iter.next_back().transpose()? {
                        Some(_) => shown += 1,
                        None => break,
                    }
                }
                drop(iter);
                assert_eq!(shown, keys.len());
                counted.scanned(seeks, keys.iter().map(String::as_str));
            }
            _ => {
                let first = keyspace.first()?.map(|(key, _)| key.into_vec());
                let wanted = counted.rows.keys().next().cloned();
                assert_eq!(first.as_deref(), wanted.as_ref().map(String::as_bytes));
                counted.scanned(1, wanted.as_deref());
            }
        }
        Ok(())
    }

    fn decide(&mut self, one: usize) -> Result<()> {
        let (key, kind) = (self.key(), self.below(4));
        let value = self.rng.below(4) as i64;
        let counted = &mut self.all[one];
        let keyspace = counted.keyspace.clone();
        let bytes = value.to_le_bytes();
        match kind {
            0 => {
                let outcome = keyspace.compare_and_swap(key, Some(&bytes), Some(&bytes))?;
                let is_there = counted.rows.get(key) == Some(&value);
                assert_eq!(outcome.is_swapped(), is_there);
                counted.decided(is_there);
                if is_there {
                    counted.put(key, value);
                }
            }
            1 => {
                let outcome = keyspace.compare_and_swap(key, None, Some(&bytes))?;
                let is_swapped = !counted.rows.contains_key(key);
                assert_eq!(outcome == Cas::Swapped, is_swapped);
                counted.decided(is_swapped);
                if is_swapped {
                    counted.put(key, value);
                }
            }
            2 => {
                keyspace.update(key, |old| {
                    Some((old.map_or(0, number) + value).to_le_bytes().to_vec())
                })?;
                let new = counted.rows.get(key).copied().unwrap_or_default() + value;
                counted.decided(true);
                counted.put(key, new);
            }
            _ => {
                let options = WriteOptions::new();
                keyspace.update_many(&[key, "z"], &options, |old, batch| {
                    // What a first try decides is forgotten if there is a second one.
                    if old[0].is_some() {
                        batch.delete(&keyspace, key).put(&keyspace, "z", bytes);
                    }
                    Ok::<(), terrace::Error>(())
                })?;
                let is_there = counted.rows.contains_key(key);
                counted.decided(is_there);
                if is_there {
                    counted.delete(key);
                    counted.put("z", value);
                }
            }
        }
        Ok(())
    }

    /// A transaction that reads in one keyspace and in another, writes in some, and may find that
    /// what it read is no longer so.
    fn transact(&mut self) -> Result<()> {
        let db = self.db.clone();
        let (read, walked) = (self.below(NAMES.len()), self.below(NAMES.len()));
        let (key, conflicts) = (self.key(), self.below(3) == 0);
        let keyspaces: Vec<Keyspace> = self.all.iter().map(|one| one.keyspace.clone()).collect();
        let mut tx = db.begin();
        assert_eq!(
            tx.get(&keyspaces[read], key)?.map(|value| number(&value)),
            self.all[read].got(key)
        );
        let keys = self.all[walked].keys_from("");
        assert_eq!(tx.iter(&keyspaces[walked]).count(), keys.len());
        self.all[walked].scanned(1, keys.iter().map(String::as_str));
        let mut written = Vec::new();
        let add = |tx: &mut terrace::Transaction, one: usize, key: &'static str| {
            tx.put(&keyspaces[one], key, 7_i64.to_le_bytes());
        };
        for _ in 0..self.below(3) {
            let (one, key) = (self.below(NAMES.len()), self.key());
            add(&mut tx, one, key);
            written.push((one, key));
        }
        let savepoint = tx.savepoint();
        for _ in 0..self.below(3) {
            let (one, key) = (self.below(NAMES.len()), self.key());
            add(&mut tx, one, key);
            tx.delete(&keyspaces[one], key).merge(&keyspaces[one], key, 1_i64.to_le_bytes());
        }
        if self.below(4) == 0 {
            tx.rollback();
            return Ok(());
        }
        tx.rollback_to(savepoint);
        if conflicts {
            // Somebody else writes what was read.
            self.all[read].keyspace.put(key, 1_i64.to_le_bytes())?;
            self.all[read].put(key, 1);
            let error = tx.check().expect_err("it was read");
            assert_eq!(error.kind(), ErrorKind::Conflict);
            self.all[read].stats.conflict_count += 1;
        }
        match tx.commit() {
            Ok(_) => {
                for (one, key) in &written {
                    self.all[*one].put(key, 7);
                }
                let mut ones: Vec<usize> = written.iter().map(|(one, _)| *one).collect();
                ones.sort_unstable();
                ones.dedup();
                ones.iter().for_each(|one| self.all[*one].stats.commit_count += 1);
                assert!(!conflicts || written.is_empty());
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                assert!(conflicts && !written.is_empty());
                self.all[read].stats.conflict_count += 1;
            }
        }
        Ok(())
    }

    /// What fails counts nowhere.
    fn fail(&mut self, one: usize) {
        let keyspace = &self.all[one].keyspace;
        let long = vec![7; 70_000];
        assert!(keyspace.put(&long, "").is_err());
        assert!(keyspace.delete(&long).is_err());
        assert!(keyspace.merge("k1", "not eight bytes").is_err());
        assert!(keyspace.compare_and_swap(&long, None, None).is_err());
        let failed = keyspace.update_many(&["k1"], &WriteOptions::new(), |_, batch| {
            batch.put(keyspace, "k1", "");
            Err(std::io::Error::other("no").into())
        });
        let _: std::io::Error =
            failed.map_err(|error: Failed| error.0).expect_err("it was refused");
        let mut batch = Batch::new();
        batch.put(keyspace, "k1", "").put(keyspace, &long, "");
        assert!(self.db.write(&batch).is_err());
    }

    fn other(&mut self, one: usize) -> Result<()> {
        match self.below(16) {
            0..=5 => {
                let counted = &mut self.all[one];
                let mut ingest = counted.keyspace.ingest()?;
                for key in ["a", "b"] {
                    ingest.add(key, 5_i64.to_le_bytes())?;
                    assert!(ingest.add("", "").is_err(), "it comes too late");
                }
                counted.keyspace.ingest()?.add("thrown away", "")?;
                ingest.finish()?;
                for key in ["a", "b"] {
                    counted.rows.insert(key.to_string(), 5);
                    counted.stats.ingested_count += 1;
                    counted.stats.write_bytes += 1 + 8;
                }
            }
            6..=9 => self.db.admin().flush()?,
            10..=14 => {
                // The name goes, the counts stay.
                self.db.rename_keyspace(NAMES[one], "renamed")?;
                let stats = self.db.admin().keyspaces();
                assert_eq!(stats.get("renamed"), Some(&self.all[one].stats));
                assert!(!stats.contains_key(NAMES[one]));
                assert_eq!(self.db.keyspace("renamed")?.stats(), self.all[one].stats);
                self.db.rename_keyspace("renamed", NAMES[one])?;
            }
            _ => {
                // The counts go with the keyspace, and a new one has none.
                assert!(self.db.drop_keyspace(NAMES[one])?);
                let stats = self.db.admin().keyspaces();
                assert!(!stats.contains_key(NAMES[one]));
                let old = &self.all[one];
                assert!(old.keyspace.put("k1", "").is_err());
                assert_eq!(old.keyspace.stats(), old.stats);
                self.all[one] = Counted::new(&self.db, NAMES[one]);
            }
        }
        Ok(())
    }
}

/// An error of a test's own decision.
struct Failed(std::io::Error);

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Failed {
        Failed(error)
    }
}

impl From<terrace::Error> for Failed {
    fn from(error: terrace::Error) -> Failed {
        Failed(error.into())
    }
}

#[test]
fn every_operation_is_counted_once_where_it_was_asked() -> Result<()> {
    let mut seen = BTreeSet::new();
    for seed in 0..6 {
        println!("seed {seed}");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let db = Db::open(directory.path())?;
        let all = NAMES.iter().map(|name| Counted::new(&db, name)).collect();
        let mut run = Run { rng: SeededRng::new(seed), db, all };
        for step in 0..600 {
            run.step()?;
            for (name, counted) in NAMES.iter().zip(&run.all) {
                assert_eq!(counted.keyspace.stats(), counted.stats, "{name} after step {step}");
                seen.extend(counted.stats.figures().filter(|one| one.1 > 0).map(|one| one.0));
            }
        }
        assert_eq!(run.db.stats(), KeyspaceStats::default(), "nobody asked the default one");
        run.db.close()?;
    }
    assert_eq!(seen.len(), KeyspaceStats::default().figures().count(), "only {seen:?} were asked");
    Ok(())
}
