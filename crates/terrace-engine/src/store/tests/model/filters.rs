//! Goal: beside a filter every read is one that the writes allow, whoever began before a filtering
//! sees nothing of it, and in the end nothing is left that the filter would drop. Method: random
//! operations on one client beside background jobs, with crashes; a model that knows of each key
//! what it may show: what was written, or what the filter makes of that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{Expiry, KeyRange, WallTime};
use terrace_env::{CrashPolicy, DiskImage, SeededRng, SharedEnv, SimEnv, SimOptions};

use crate::options::Options;
use crate::store::tests::upkeep::filters::{ByFirstByte, filtering};
use crate::store::tests::{draw_l0, draw_value_log, open, small};
use crate::store::{GetOptions, Iter, IterOptions, Snapshot, Store, WriteOptions};
use crate::{Result, WriteBatch};

/// The newest value that was written under a key.
#[derive(Clone, Debug)]
struct Written {
    value: Vec<u8>,
    expiry: Option<WallTime>,
    /// Whether what the filter makes of it was seen: from then on nothing else may be.
    is_filtered: bool,
}

impl Written {
    /// Judges what was read of the key at `now`; the clock stood still meanwhile.
    fn judge(&mut self, found: Option<&[u8]>, now: WallTime) -> bool {
        if self.expiry.is_some_and(|expiry| expiry <= now) {
            return found.is_none();
        }
        let filtered = ByFirstByte::of(&self.value);
        let is_as_written = !self.is_filtered && found == Some(&self.value);
        let is_as_filtered = found == filtered.as_deref();
        self.is_filtered |= is_as_filtered && !is_as_written;
        is_as_written || is_as_filtered
    }
}

/// A key, what it showed, and until when that holds.
type Row = (Vec<u8>, Vec<u8>, Option<Expiry>);

/// Somebody who must see the same for as long as he lives.
struct Reader {
    rows: Vec<Row>,
    who: Who,
}

enum Who {
    Snapshot(Snapshot),
    Iterator(Box<Iter>),
}

struct Run {
    random: SeededRng,
    options: Options,
    key_count: u64,
    value_bytes: u64,
    /// Makes each value another one.
    count: u64,
    model: BTreeMap<Vec<u8>, Written>,
    readers: Vec<Reader>,
    seed: u64,
}

fn rows_of(iter: &mut Iter) -> Result<Vec<Row>> {
    iter.seek_to_first()?;
    let mut rows = Vec::new();
    while let Some(entry) = iter.entry() {
        rows.push((entry.key.to_vec(), entry.value.to_vec(), entry.expiry));
        iter.next()?;
    }
    Ok(rows)
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut random = SeededRng::new(seed);
        let mut options = draw_l0(small(), &mut random);
        options.value_log = draw_value_log(&mut random);
        options.lookup_index_bytes = random.pick(&[0, 256, 64 << 10]);
        options.dranges = random.pick(&[1, 2, 4]);
        let (options, _) = filtering(options);
        let (key_count, value_bytes) =
            (random.pick(&[3, 30, 300]), random.pick(&[4, 100, 100, 900]));
        let (count, model, readers) = (0, BTreeMap::new(), Vec::new());
        Run { random, options, key_count, value_bytes, count, model, readers, seed }
    }

    fn key(&mut self) -> Vec<u8> {
        format!("k{:05}", self.random.below(self.key_count)).into_bytes()
    }

    fn write(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let mut batch = WriteBatch::new();
        for _ in 0..self.random.pick(&[1, 1, 4]) {
            let key = self.key();
            match self.random.below(20) {
                0..2 => {
                    batch.delete(&key)?;
                    self.model.remove(&key);
                }
                2 if self.random.one_in(4) => {
                    let end = self.key();
                    batch.delete_range(&key, &end)?;
                    self.model.retain(|other, _| *other < key || *other >= end);
                }
                _ => {
                    self.count += 1;
                    let kind = self.random.pick(b"xxcvv");
                    let mut value = format!("{}{} ", char::from(kind), self.count).into_bytes();
                    let bytes = self.random.below(self.value_bytes) as usize;
                    value.resize(value.len() + bytes, b'.');
                    let expires = self.random.one_in(8);
                    let later = env.wall_time().0 + self.random.below(4000);
                    let expiry = expires.then_some(WallTime(later));
                    batch.put_with_expiry(&key, &value, expiry.map(Expiry::at))?;
                    self.model.insert(key, Written { value, expiry, is_filtered: false });
                }
            }
        }
        store.write(&batch, &WriteOptions::default())
    }

    fn judge(&mut self, key: &[u8], found: Option<&[u8]>, now: WallTime) {
        let fits = match self.model.get_mut(key) {
            None => found.is_none(),
            Some(written) => written.judge(found, now),
        };
        let (seed, written) = (self.seed, self.model.get(key));
        let (key, found) = (key.escape_ascii(), found.map(<[u8]>::escape_ascii));
        let found = found.map(|found| found.to_string());
        assert!(fits, "seed {seed}: {key} shows {found:?}, and was {written:?} at {now:?}");
    }

    fn check_key(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let (key, now) = (self.key(), env.wall_time());
        let found = store.get(&key, &GetOptions::default())?;
        if env.wall_time() == now {
            self.judge(&key, found.as_ref().map(|item| item.value.as_slice()), now);
        }
        Ok(())
    }

    /// Checks all rows that somebody saw just now; some of them may have expired meanwhile.
    fn check_rows(&mut self, rows: &[Row], now: WallTime) {
        let rows: BTreeMap<&[u8], &[u8]> =
            rows.iter().map(|(key, value, _)| (key.as_slice(), value.as_slice())).collect();
        let keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        for key in keys.iter().filter(|key| !rows.contains_key(key.as_slice())) {
            self.judge(key, None, now);
        }
        rows.iter().for_each(|(key, value)| self.judge(key, Some(value), now));
    }

    fn begin_reader(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let now = env.wall_time();
        let (rows, who) = if self.random.one_in(2) {
            let snapshot = store.snapshot();
            let rows = rows_of(&mut snapshot.iter(IterOptions::default())?)?;
            (rows, Who::Snapshot(snapshot))
        } else {
            let mut iter = store.iter(IterOptions::default())?;
            let rows = rows_of(&mut iter)?;
            let iter = if self.random.one_in(2) { iter.twin()? } else { iter };
            (rows, Who::Iterator(Box::new(iter)))
        };
        if env.wall_time() == now {
            self.check_rows(&rows, now);
            self.readers.push(Reader { rows, who });
        }
        Ok(())
    }

    /// Somebody who began before reads once more.
    fn check_reader(&mut self, env: &SharedEnv) -> Result<()> {
        if self.readers.is_empty() {
            return Ok(());
        }
        let which = self.random.index(self.readers.len());
        let now = env.wall_time();
        let reader = &mut self.readers[which];
        let (again, judges_by) = match &mut reader.who {
            Who::Snapshot(snapshot) => {
                (rows_of(&mut snapshot.iter(IterOptions::default())?)?, Some(now))
            }
            Who::Iterator(iter) => (rows_of(iter)?, None),
        };
        if env.wall_time() == now {
            let is_alive = |row: &&Row| {
                let expired = |expiry: Expiry| judges_by.is_some_and(|now| expiry.is_expired(now));
                !row.2.is_some_and(expired)
            };
            let wanted: Vec<&Row> = reader.rows.iter().filter(is_alive).collect();
            let again: Vec<&Row> = again.iter().collect();
            assert_eq!(again, wanted, "seed {}: a reader sees something else", self.seed);
        }
        Ok(())
    }

    fn step(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        match self.random.below(100) {
            0..60 => self.write(env, store)?,
            60..72 => self.check_key(env, store)?,
            72..78 => self.begin_reader(env, store)?,
            78..86 => self.check_reader(env)?,
            86..92 if !self.readers.is_empty() => {
                let which = self.random.index(self.readers.len());
                drop(self.readers.swap_remove(which));
            }
            92..94 => {
                let (start, end) = (self.key(), self.key());
                store.compact(&KeyRange::new(
                    start.clone().min(end.clone()),
                    Some(end.max(start)),
                ))?;
            }
            94..96 => store.flush()?,
            96 => store.compact(&KeyRange::all())?,
            97 => env.sleep(Duration::from_millis(self.random.below(2000))),
            _ => {}
        }
        Ok(())
    }

    /// The clock begins anew with each life: nobody knows what had expired by the one before.
    fn forget_expiring(&mut self, store: &Store) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, _) in self.model.iter().filter(|(_, written)| written.expiry.is_some()) {
            batch.delete(key)?;
        }
        self.model.retain(|_, written| written.expiry.is_none());
        store.write(&batch, &WriteOptions::default())
    }

    /// Runs for some time, and then the process is killed.
    fn life(&mut self, disk: DiskImage, seed: u64, steps: u32) -> DiskImage {
        let options = SimOptions { disk, ..SimOptions::new(seed) };
        SimEnv::run(options, |sim| {
            let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
            let store = open(&env, &self.options).expect("the disk is whole");
            self.forget_expiring(&store).expect("the disk is whole");
            for _ in 0..steps {
                self.step(&env, &store).expect("the disk is whole");
            }
            let is_last = self.random.one_in(2);
            self.readers.clear();
            if is_last {
                self.finish(&env, &store).expect("the disk is whole");
            }
            let disk = sim.disk().crash(CrashPolicy::ProcessKill, 0);
            drop(store);
            disk
        })
    }

    /// Nobody reads any more: what the filter would drop goes, and stays gone.
    fn finish(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        store.compact(&KeyRange::all())?;
        let now = env.wall_time();
        let rows = rows_of(&mut store.iter(IterOptions::default())?)?;
        if env.wall_time() == now {
            self.check_rows(&rows, now);
        }
        let left = rows.iter().find(|(_, value, _)| ByFirstByte::of(value).as_ref() != Some(value));
        assert_eq!(left, None, "seed {}: it was not filtered", self.seed);
        let report = store.check(&mut |_, _| ())?;
        assert!(report.is_clean(), "seed {}: {report}", self.seed);
        Ok(())
    }
}

#[test]
fn filters_change_nothing_that_somebody_still_sees() {
    for seed in 0..60 {
        let mut run = Run::new(seed);
        let mut disk = DiskImage::new();
        for life in 0..3 {
            disk = run.life(disk, seed * 8 + life, 250);
        }
    }
}
