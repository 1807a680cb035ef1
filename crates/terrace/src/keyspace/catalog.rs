//! The catalog: which keyspaces there are, by name. It lies in a keyspace of its own.
//!
//! # Numbers
//! ```text
//!        0            "default"
//!        1 to  1023   "1" to "1023": they exist always, and need no entry
//!     1024 to 65534   given out, the least free one first, to keyspaces with other names
//!    65535            the catalog
//! ```
//! A database from before keyspaces had names may have data under any number. A name that is a
//! number of 1024 and above gets that number if nobody else has it, and a number under which there
//! is data is given to no other name.
//!
//! # Dropping
//! One atomic, synced write deletes the keyspace's whole interval, its entry, and notes that its
//! number was used. Handles that are left refuse to write, from right before it on. A write that
//! had passed this check before may still land in the interval (an ingest may not: it asks again
//! while nobody writes), and an older snapshot still sees what was
//! there. Neither of them outlives this opening of the database, so a number is given out again
//! only by a later one, and whoever gets it begins with deleting the interval in the same write
//! that makes its entry.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::KeyRange as OwnedRange;
use terrace_engine::merge::MergeOperators as EngineOperators;
use terrace_engine::options::Durability;
use terrace_engine::store::{IterOptions, Store, WriteOptions};
use terrace_engine::{Error as EngineError, WriteBatch as EngineBatch};
use terrace_env::{Latch, Mutex, PlantedBug, is_planted};

use super::entry::{self, Entry, EntryKey};
use super::filters::FilterTable;
use super::operators::{self, MergeOperators, Operator, OperatorTable};
use super::options::KeyspaceOptions;
use super::space::{Owner, Space};
use super::statistics::KeyspaceStats;
use super::stored::{KeyspaceNo, PREFIX_BYTES, split};
use crate::{Error, Result};

/// The name of the keyspace that a database itself stands for.
pub const DEFAULT: &str = "default";

/// Keyspaces with smaller numbers exist always, and are named by them.
const GIVEN_MIN: u16 = 1024;

/// Where the catalog lies.
const CATALOG: KeyspaceNo = KeyspaceNo(u16::MAX);

/// Names are at most this long.
const NAME_BYTES_MAX: usize = 255;

/// The keyspaces of an open database.
#[derive(Debug)]
pub struct Catalog {
    store: Store,
    known: EngineOperators,
    table: OperatorTable,
    filters: FilterTable,
    owner: Arc<Owner>,
    /// One change at a time; across writes.
    state: Mutex<State>,
    /// What handles share; changed under `state`.
    spaces: Latch<Spaces>,
}

#[derive(Debug, Default)]
struct Spaces {
    /// By name; each is made when the first handle is.
    by_name: BTreeMap<String, Arc<Space>>,
    /// How many were made, those among them that were dropped since.
    made: u64,
}

#[derive(Debug, Default)]
struct State {
    /// The entries on the disk, by name.
    entries: BTreeMap<String, Entry>,
    /// Numbers of keyspaces that earlier openings dropped.
    used: BTreeSet<u16>,
    /// Numbers of keyspaces that this opening dropped.
    dropped: BTreeSet<u16>,
}

impl Catalog {
    /// Reads the catalog, and tells `table` how keyspaces merge, and `filters` which numbers they
    /// have.
    ///
    /// Errors: `Unsupported` for an entry of a later version; those of reading.
    pub fn load(
        store: &Store,
        own: &MergeOperators,
        table: OperatorTable,
        filters: FilterTable,
    ) -> Result<Catalog> {
        let mut state = State::default();
        let range = CATALOG.stored_range(&(..));
        let mut iter = store.iter(IterOptions { range, ..IterOptions::default() })?;
        iter.seek_to_first()?;
        while let Some(found) = iter.entry() {
            let entry = Entry::decode(found.value);
            match (entry::read_key(&found.key[PREFIX_BYTES..]), entry) {
                (Some(EntryKey::Named(name)), Some(entry)) => {
                    state.entries.insert(name.to_string(), entry);
                }
                (Some(EntryKey::Used(number)), _) if found.value == entry::used_value() => {
                    state.used.insert(number.0);
                }
                (key, _) => {
                    return Err(EngineError::Unsupported(format!(
                        "the entry of a keyspace ({key:?}) is of a later version, or damaged; open \
                         the database with the version that made it"
                    ))
                    .into());
                }
            }
            iter.next()?;
        }
        let catalog = Catalog {
            store: store.clone(),
            known: operators::known(own),
            table,
            filters,
            owner: Owner::new(),
            state: store.process().env().waits().mutex(state),
            spaces: Latch::default(),
        };
        let state = catalog.state.lock();
        catalog.tell_operators(&state);
        catalog.tell_filters(&state);
        drop(state);
        Ok(catalog)
    }

    /// Whose keyspaces they are.
    pub fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// The keyspace of this name, made if it is missing.
    ///
    /// Errors: `Invalid` (the name; another merge operator than it has, or an unknown one; it is
    /// missing or would change, and the database is only read); those of writing.
    pub fn open(&self, name: &str, options: &KeyspaceOptions) -> Result<Arc<Space>> {
        let name = canonical(name)?;
        let mut state = self.state.lock();
        let bare = |number| Entry { number, ttl: None, operator: None };
        // Keyspaces that exist always get an entry only if there is something to keep.
        let (is_made, found) = match (state.entries.get(name), fixed_number(name)) {
            (Some(entry), _) => (false, entry.clone()),
            (None, Some(number)) => (false, bare(KeyspaceNo(number))),
            (None, None) => (true, bare(self.free_number(&state, name)?)),
        };
        let wanted = self.changed(name, found.clone(), options)?;
        if is_made || wanted != found {
            self.keep(&mut state, name, wanted.clone(), is_made)?;
        }
        let mut spaces = self.spaces.lock();
        let Spaces { by_name, made } = &mut *spaces;
        let space = by_name.entry(name.to_string()).or_insert_with(|| {
            *made += 1;
            Space::new(name, &wanted, &self.owner, *made)
        });
        space.set_ttl(wanted.ttl);
        Ok(Arc::clone(space))
    }

    /// The entry with what the options change of it.
    fn changed(&self, name: &str, mut entry: Entry, options: &KeyspaceOptions) -> Result<Entry> {
        if let Some(ttl) = options.ttl {
            // Kept in milliseconds; less than one is one.
            let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
            entry.ttl = (ttl > Duration::ZERO).then(|| Duration::from_millis(millis));
        }
        let Some(wanted) = &options.merge_operator else { return Ok(entry) };
        match &entry.operator {
            Some(operator) if operator != wanted => Err(EngineError::invalid(format!(
                "the keyspace {name} merges with {operator}, not with {wanted}: what it holds \
                 would mean something else; copy it into a new keyspace to change the operator"
            ))
            .into()),
            _ if self.known.find(wanted).is_none() => Err(EngineError::invalid(format!(
                "there is no merge operator {wanted}; known are {:?}",
                self.known
            ))
            .into()),
            _ => Ok(Entry { operator: Some(wanted.clone()), ..entry }),
        }
    }

    /// Makes an entry durable, then known.
    fn keep(&self, state: &mut State, name: &str, entry: Entry, begins_empty: bool) -> Result<()> {
        let mut batch = EngineBatch::new();
        if begins_empty && state.used.contains(&entry.number.0) {
            delete_whole(&mut batch, entry.number)?;
            batch.delete(CATALOG.stored(&entry::used_key(entry.number)).as_slice())?;
        }
        let key = CATALOG.stored(&entry::named_key(name));
        batch.put(key.as_slice(), &entry.encode())?;
        self.write(&batch)?;
        state.used.remove(&entry.number.0);
        state.entries.insert(name.to_string(), entry);
        self.tell_operators(state);
        self.tell_filters(state);
        Ok(())
    }

    /// Drops a keyspace; whether there was one.
    ///
    /// Errors: `Invalid` for one that exists always; those of writing.
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        let name = canonical(name)?;
        let mut state = self.state.lock();
        refuse_fixed(name, "dropped")?;
        let Some(Entry { number, .. }) = self.found(&state, name)? else { return Ok(false) };
        let mut batch = EngineBatch::new();
        delete_whole(&mut batch, number)?;
        batch.delete(CATALOG.stored(&entry::named_key(name)).as_slice())?;
        batch.put(CATALOG.stored(&entry::used_key(number)).as_slice(), &entry::used_value())?;
        // Order: handles refuse before the write, so that an ingest, which asks while nothing is
        // written, either is refused or comes before it.
        let space = self.spaces.lock().by_name.get(name).cloned();
        let refuse = |refuses| space.iter().for_each(|space| space.set_dropped(refuses));
        refuse(true);
        self.write(&batch).inspect_err(|_| refuse(false))?;
        state.entries.remove(name);
        state.dropped.insert(number.0);
        self.spaces.lock().by_name.remove(name);
        self.tell_filters(&state);
        // What this opening still folds of it, for snapshots, is folded as before: the table of
        // operators keeps the number until the next open.
        Ok(true)
    }

    /// Gives a keyspace another name.
    ///
    /// Errors: `Invalid` (a name; one that exists always), `NotFound`; those of writing.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (canonical(from)?, canonical(to)?);
        let mut state = self.state.lock();
        refuse_fixed(from, "renamed")?;
        refuse_fixed(to, "taken as a name")?;
        if self.found(&state, to)?.is_some() {
            return Err(EngineError::invalid(format!("there is a keyspace {to} already")).into());
        }
        let Some(entry) = self.found(&state, from)? else { return Err(missing(from)) };
        let mut batch = EngineBatch::new();
        batch.delete(CATALOG.stored(&entry::named_key(from)).as_slice())?;
        batch.put(CATALOG.stored(&entry::named_key(to)).as_slice(), &entry.encode())?;
        self.write(&batch)?;
        state.entries.remove(from);
        state.entries.insert(to.to_string(), entry);
        let mut spaces = self.spaces.lock();
        if let Some(space) = spaces.by_name.remove(from) {
            spaces.by_name.insert(to.to_string(), space);
        }
        self.tell_filters(&state);
        Ok(())
    }

    /// What the keyspaces were asked of which handles were made, by the names that they have now,
    /// in the order in which the first handles were made. Waits for nothing.
    pub fn stats(&self) -> Vec<(String, KeyspaceStats)> {
        let mut spaces: Vec<_> = {
            let spaces = self.spaces.lock();
            spaces.by_name.iter().map(|(name, space)| (name.clone(), Arc::clone(space))).collect()
        };
        spaces.sort_unstable_by_key(|(_, space)| space.ordinal);
        spaces.into_iter().map(|(name, space)| (name, space.counters.stats())).collect()
    }

    /// The names of all keyspaces: the default, those with an entry, and those under whose number
    /// there is something.
    pub fn names(&self) -> Result<Vec<String>> {
        let state = self.state.lock();
        let mut names: BTreeSet<String> = state.entries.keys().cloned().collect();
        names.insert(DEFAULT.to_string());
        names.extend(self.unnamed_with_data(&state)?.into_iter().map(name_of));
        Ok(names.into_iter().collect())
    }

    /// Whether there is a keyspace of this name. Cost: a seek for a number that has no entry.
    pub fn contains(&self, name: &str) -> Result<bool> {
        // What cannot be a name names nothing.
        let Ok(name) = canonical(name) else { return Ok(false) };
        Ok(fixed_number(name).is_some() || self.found(&self.state.lock(), name)?.is_some())
    }

    /// The keyspace of a name that does not exist always, if there is one: what was made, and what
    /// lies under its number in a database from before keyspaces had names.
    fn found(&self, state: &State, name: &str) -> Result<Option<Entry>> {
        if let Some(entry) = state.entries.get(name) {
            return Ok(Some(entry.clone()));
        }
        let is_given = |number| state.entries.values().any(|entry| entry.number.0 == number);
        let own = number_of(name).filter(|own| !is_given(*own) && !state.is_used(*own));
        let Some(number) = own.map(KeyspaceNo) else { return Ok(None) };
        let options = IterOptions { range: number.whole(), ..IterOptions::default() };
        let mut iter = self.store.iter(options)?;
        iter.seek_to_first()?;
        Ok(iter.entry().map(|_| Entry { number, ttl: None, operator: None }))
    }

    /// The numbers under which there are keys, those left out that belong to a keyspace or did. Of
    /// the latter nothing is read: a write that overtook the drop may lie there, and nobody knows
    /// how to fold it any more. Cost: a seek for each, and for each row of others between them.
    fn unnamed_with_data(&self, state: &State) -> Result<Vec<u16>> {
        let named = state.entries.values().map(|entry| entry.number.0);
        let mut known: Vec<u16> = named.chain(state.numbers_used()).chain([CATALOG.0]).collect();
        known.sort_unstable();
        let mut numbers = Vec::new();
        let mut start = 0;
        for end in known {
            if start < end {
                self.add_numbers_with_data(start..end, &mut numbers)?;
            }
            start = end.saturating_add(1);
        }
        Ok(numbers)
    }

    /// Adds those of `within` under which there are keys.
    fn add_numbers_with_data(&self, within: Range<u16>, numbers: &mut Vec<u16>) -> Result<()> {
        let (start, end) = (within.start.to_be_bytes(), within.end.to_be_bytes());
        let range = OwnedRange::new(start, Some(end.to_vec()));
        let mut iter = self.store.iter(IterOptions { range, ..IterOptions::default() })?;
        iter.seek_to_first()?;
        while let Some(found) = iter.entry() {
            let (number, _) = split(found.key);
            numbers.push(number);
            iter.seek(&(number + 1).to_be_bytes())?;
        }
        Ok(())
    }

    /// A number for a new keyspace of this name.
    fn free_number(&self, state: &State, name: &str) -> Result<KeyspaceNo> {
        let given: BTreeSet<u16> = state.entries.values().map(|entry| entry.number.0).collect();
        let is_dropped = |number: &u16| {
            state.dropped.contains(number) && !is_planted(PlantedBug::ReuseKeyspaceNumber)
        };
        let is_free = |number: &u16| !given.contains(number) && !is_dropped(number);
        if let Some(own) = number_of(name).filter(|own| is_free(own) && !state.is_used(*own)) {
            return Ok(KeyspaceNo(own));
        }
        let with_data: BTreeSet<u16> = self.unnamed_with_data(state)?.into_iter().collect();
        let unused = |number: &u16| !state.used.contains(number) && !with_data.contains(number);
        let mut free = (GIVEN_MIN..CATALOG.0).filter(is_free);
        let never_used = free.clone().find(unused);
        let number = never_used.or_else(|| free.find(|number| state.used.contains(number)));
        number.map(KeyspaceNo).ok_or_else(|| {
            EngineError::invalid(
                "there are as many keyspaces as there can be; if many were dropped, close the \
                 database and open it again",
            )
            .into()
        })
    }

    fn tell_operators(&self, state: &State) {
        let operator = |name: &String| match self.known.find(name) {
            Some(operator) => Operator::Known(Arc::clone(operator)),
            None => Operator::Unknown(name.clone()),
        };
        let of = |entry: &Entry| Some((entry.number, operator(entry.operator.as_ref()?)));
        self.table.add(state.entries.values().filter_map(of));
    }

    fn tell_filters(&self, state: &State) {
        let is_given = |number| state.entries.values().any(|entry| entry.number.0 == number);
        self.filters.renew(|name| {
            let own = || number_of(name).filter(|own| !is_given(*own) && !state.is_used(*own));
            let entry = state.entries.get(name).map(|entry| entry.number);
            entry.or_else(|| fixed_number(name).or_else(own).map(KeyspaceNo))
        });
    }

    fn write(&self, batch: &EngineBatch) -> Result<()> {
        let options = WriteOptions { durability: Some(Durability::Sync), wait: true };
        self.store.write(batch, &options).map_err(|error| match error {
            EngineError::ReadOnly => EngineError::invalid(
                "the keyspace is missing or would change, and the database is opened for reading \
                 only",
            )
            .into(),
            error => error.into(),
        })
    }
}

impl State {
    /// Whether a number belonged to a keyspace that was dropped.
    fn is_used(&self, number: u16) -> bool {
        self.used.contains(&number) || self.dropped.contains(&number)
    }

    /// The numbers that belonged to keyspaces that were dropped.
    fn numbers_used(&self) -> impl Iterator<Item = u16> {
        self.used.iter().chain(&self.dropped).copied()
    }
}

fn delete_whole(batch: &mut EngineBatch, number: KeyspaceNo) -> Result<()> {
    let whole = number.whole();
    Ok(batch.delete_range(whole.start(), whole.end().expect("only the catalog has no end"))?)
}

/// The number that a name stands for; only in the way that numbers are written here.
fn number_of(name: &str) -> Option<u16> {
    let number: u16 = name.parse().ok()?;
    (number < CATALOG.0 && number.to_string() == name).then_some(number)
}

/// The number of a keyspace that exists always.
fn fixed_number(name: &str) -> Option<u16> {
    if name == DEFAULT {
        return Some(0);
    }
    number_of(name).filter(|number| *number < GIVEN_MIN)
}

fn name_of(number: u16) -> String {
    if number == 0 { DEFAULT.to_string() } else { number.to_string() }
}

/// The one name of a keyspace that has two. Errors: `Invalid` for what is no name.
pub(super) fn canonical(name: &str) -> Result<&str> {
    if name == "0" {
        return Ok(DEFAULT);
    }
    let is_fine = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(char::is_control);
    if is_fine {
        return Ok(name);
    }
    Err(EngineError::invalid(format!(
        "{name:?} cannot name a keyspace: use 1 to {NAME_BYTES_MAX} bytes without control \
         characters"
    ))
    .into())
}

fn refuse_fixed(name: &str, what: &str) -> Result<()> {
    match fixed_number(name) {
        Some(_) => Err(EngineError::invalid(format!(
            "the keyspace {name} exists always and cannot be {what}; clear it to empty it"
        ))
        .into()),
        None => Ok(()),
    }
}

fn missing(name: &str) -> Error {
    Error::not_found(format!("there is no keyspace {name}"))
}
