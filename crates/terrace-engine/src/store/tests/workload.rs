//! SeededRng operation lists, and the model that says what they must come to.

use std::collections::BTreeMap;
use std::time::Duration;

use terrace_base::{Expiry, WallTime};
use terrace_env::SeededRng;

use super::cloud::in_store;
use super::small;
use crate::options::{Durability, L0Options, Options};
use crate::store::{Iter, IterOptions, Store, WriteOptions};
use crate::{Result, WriteBatch};

/// A change of one key or interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Put { key: Vec<u8>, value: Vec<u8>, expiry: Option<WallTime> },
    Merge { key: Vec<u8>, operand: Vec<u8> },
    Delete { key: Vec<u8> },
    DeleteRange { start: Vec<u8>, end: Vec<u8> },
}

/// How the keys and values of a run look: runs differ in shape, not only in seed.
#[derive(Clone, Debug)]
pub struct Shape {
    key_count: u64,
    long_keys: bool,
    value_bytes_max: u64,
    merges_in: u32,
    deletes_in: u32,
    range_deletes_in: u32,
    expiries_in: u32,
}

impl Shape {
    pub fn draw(random: &mut SeededRng) -> Shape {
        Shape {
            key_count: random.pick(&[3, 40, 400, 4000]),
            long_keys: random.one_in(3),
            value_bytes_max: random.pick(&[1, 40, 300, 2000]),
            merges_in: random.pick(&[2, 5, 1000]),
            deletes_in: random.pick(&[2, 5, 20]),
            range_deletes_in: random.pick(&[8, 40, 1000]),
            expiries_in: random.pick(&[3, 10, 1000]),
        }
    }

    pub fn key(&self, random: &mut SeededRng) -> Vec<u8> {
        let number = random.below(self.key_count);
        match (self.long_keys, number % 7) {
            // Keys that are prefixes of each other, the empty key among them.
            (true, 0) => vec![b'p'; (number / 7 % 40) as usize],
            (true, 1) => [&[0xff; 9][..], &number.to_be_bytes()].concat(),
            (true, _) => format!("{}{number:08}", "common/prefix/".repeat(3)).into_bytes(),
            (false, _) => format!("k{number:05}").into_bytes(),
        }
    }

    fn value(&self, random: &mut SeededRng) -> Vec<u8> {
        let bytes = random.below(self.value_bytes_max + 1) as usize;
        let mut value = random.next_u64().to_le_bytes().repeat(bytes / 8 + 1);
        value.truncate(bytes);
        value
    }

    pub fn change(&self, random: &mut SeededRng, now: WallTime) -> Change {
        if random.one_in(self.range_deletes_in) {
            let (start, end) = (self.key(random), self.key(random));
            return Change::DeleteRange { start, end };
        }
        let key = self.key(random);
        if random.one_in(self.merges_in) {
            let mut operand = self.value(random);
            operand.truncate(24);
            return Change::Merge { key, operand };
        }
        if random.one_in(self.deletes_in) {
            return Change::Delete { key };
        }
        let expires = random.one_in(self.expiries_in);
        let expiry = expires.then(|| WallTime(now.0 + random.below(20_000)));
        Change::Put { key, value: self.value(random), expiry }
    }

    /// Number of changes.
    pub fn changes(&self, random: &mut SeededRng, now: WallTime, count: u64) -> Vec<Change> {
        (0..count).map(|_| self.change(random, now)).collect()
    }
}

/// Small options with dranges or without, that sync before they acknowledge or do not.
pub fn draw_options(random: &mut SeededRng) -> Options {
    let mut options = small();
    if random.one_in(2) {
        options.drange_boundaries = vec![b"common/q".to_vec(), b"k00100".to_vec()];
    }
    options.durability = [Durability::Buffered, Durability::Sync][random.below(2) as usize];
    options.memtable_merging = random.one_in(2);
    options.lookup_index_bytes = [0, 256, 64 << 10][random.below(3) as usize];
    options.memtables_kept = random.below(2) as usize;
    if random.one_in(4) {
        // The row directory lies in the range's own.
        options.l0 = L0Options::on_medium(super::DIR, 128 << 10);
    }
    options.research.l0_cut_all = random.one_in(4);
    // The directory of its log, too.
    options.log_path = random.one_in(3).then(|| super::DIR.into());
    // Drawn apart, so that seeds keep what else they draw.
    let mut apart = SeededRng::new(random.clone().next_u64());
    if apart.one_in(3) {
        options = in_store(options, 1 + apart.below(6) as u8);
    }
    if options.log_path.is_some() && apart.one_in(2) {
        (options.log_volume, options.log_path) = (options.log_path, None);
    }
    // Each scan pays for a cut, or none does, or those that are timed by chance.
    options.research.scan_price_percent = [None, Some(0), Some(u32::MAX)][apart.index(3)];
    // Rows go down as soon as no compaction is due, or after a while, or never.
    options.research.rest = [None, Some(Duration::ZERO), Some(Duration::MAX)][apart.index(3)];
    // Scans ask the object store for one block after the other, or at once.
    options.research.far_one_by_one = apart.one_in(4);
    options
}

/// What the range should hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    entries: BTreeMap<Vec<u8>, Held>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    value: Vec<u8>,
    expiry: Option<WallTime>,
    /// What is there when the value has expired: the operands alone.
    rest: Option<Vec<u8>>,
}

impl Held {
    fn at(&self, now: WallTime) -> Option<&[u8]> {
        let is_alive = self.expiry.is_none_or(|at| at > now);
        if is_alive { Some(&self.value) } else { self.rest.as_deref() }
    }
}

impl Model {
    /// Makes the changes in `store`, as one batch, and here.
    pub fn write(&mut self, store: &Store, changes: &[Change]) -> Result<()> {
        store.write(&batch_of(changes)?, &WriteOptions::default())?;
        changes.iter().for_each(|change| self.apply(change));
        Ok(())
    }

    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Put { key, value, expiry } => {
                let held = Held { value: value.clone(), expiry: *expiry, rest: None };
                self.entries.insert(key.clone(), held);
            }
            // The operator of these tests is `append`.
            Change::Merge { key, operand } => {
                let nothing = Held { value: Vec::new(), expiry: None, rest: None };
                let held = self.entries.entry(key.clone()).or_insert(nothing);
                held.value.extend_from_slice(operand);
                if held.expiry.is_some() {
                    held.rest.get_or_insert_default().extend_from_slice(operand);
                }
            }
            Change::Delete { key } => {
                self.entries.remove(key);
            }
            Change::DeleteRange { start, end } => {
                self.entries.retain(|key, _| key < start || key >= end);
            }
        }
    }

    /// What is alive at `now`, in key order.
    pub fn alive(&self, now: WallTime) -> Vec<(&[u8], &[u8])> {
        let held = self.entries.iter();
        held.filter_map(|(key, held)| Some((key.as_slice(), held.at(now)?))).collect()
    }

    /// As [`Model::alive`], as what [`content`] should show.
    pub fn content(&self, now: WallTime) -> Content {
        let alive = self.alive(now).into_iter();
        alive.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
    }

    pub fn get(&self, key: &[u8], now: WallTime) -> Option<&[u8]> {
        self.entries.get(key)?.at(now)
    }
}

/// Keys and values, in key order.
pub type Content = Vec<(Vec<u8>, Vec<u8>)>;

/// What the range holds.
pub fn content(store: &Store) -> Result<Content> {
    walk(store.iter(IterOptions::default())?)
}

/// What an iterator shows.
pub fn walk(mut iter: Iter) -> Result<Content> {
    iter.seek_to_first()?;
    let mut found = Vec::new();
    while let Some(entry) = iter.entry() {
        found.push((entry.key.to_vec(), entry.value.to_vec()));
        iter.next()?;
    }
    Ok(found)
}

/// The batch that makes these changes.
pub fn batch_of(changes: &[Change]) -> Result<WriteBatch> {
    let mut batch = WriteBatch::new();
    for change in changes {
        match change {
            Change::Put { key, value, expiry } => {
                batch.put_with_expiry(key, value, expiry.map(Expiry::at))?;
            }
            Change::Merge { key, operand } => batch.merge(key, operand)?,
            Change::Delete { key } => batch.delete(key)?,
            Change::DeleteRange { start, end } => batch.delete_range(start, end)?,
        }
    }
    Ok(batch)
}
