use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace::{
    Batch, Create, Db, Error, ErrorKind, Expiry, Keyspace, Options, OwnedRange, Secondary, Value,
    WallTime, WriteOptions,
};

use super::opening::Opening;
use super::{Data, Figures, Size, Visit, Walk, Wanted, no_keyspace};
use crate::args::StorePlace;
use crate::clock::Stopwatch;
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::format::Record;
use crate::signals::StopFlag;
use crate::terminal::{self, HumanCount};

/// What a directory is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Looking only.
    Read,
    /// Changing what is there.
    Write,
    /// As `Write`; the database is made if there is none, and so is the keyspace.
    Create,
}

/// Opens the database in a directory.
pub(crate) fn open(dir: &Path, access: Access, options: Options) -> Outcome<Db> {
    if access != Access::Create && !files::is_directory(dir) {
        return Err(Failure::Failed(format!(
            "there is no database in {}; `terrace put`, `import` and `serve` make one",
            dir.display()
        )));
    }
    let create = if access == Access::Create { Create::IfMissing } else { Create::Never };
    let opening = Opening::watch();
    let options = options.create(create).listener(Arc::clone(&opening));
    if access != Access::Read {
        let opened = options.open(dir);
        opening.finish();
        let db = opened?;
        note_take_over(&db);
        return Ok(db);
    }
    let opened = options.clone().read_only().open(dir);
    opening.finish();
    match opened {
        Err(error) if error.kind() == ErrorKind::Locked => beside_the_writer(dir, &options, error),
        opened => Ok(opened?),
    }
}

/// Says where a database comes from that this directory did not hold.
fn note_take_over(db: &Db) {
    let Some(taken) = &db.admin().recovery().taken_over else { return };
    let entries = db.admin().recovery().replayed_entries;
    let of_log = match entries {
        0 => String::new(),
        count => format!(", {} entries of its log among it", HumanCount(count)),
    };
    terminal::note(&format!("the database goes on here with what the object store has{of_log}"));
    let phases = &db.admin().recovery().phases;
    let total = phases.total().as_secs_f64();
    terminal::note(&format!("that took {total:.2} s: {phases}"));
    if let Some(aside) = &taken.set_aside {
        terminal::note(&format!(
            "what only this directory had is not in it: its files are in {}",
            aside.display()
        ));
    }
    if let Some(left_out) = &taken.left_out {
        terminal::note(&format!("{left_out} are there alone"));
    }
}

/// Opens a database that another process has open, as it is now; `locked` if that cannot be.
fn beside_the_writer(dir: &Path, options: &Options, locked: Error) -> Outcome<Db> {
    // A secondary opens every table of the database.
    terrace_server::raise_file_limit();
    match options.open_secondary(dir) {
        Ok(secondary) => {
            terminal::note(&format!(
                "{} is open in another process; this shows what that one has written so far",
                dir.display()
            ));
            Ok(secondary.as_db().clone())
        }
        Err(error) => {
            let locked = Failure::from(locked);
            Err(Failure::Failed(format!("{locked}; and it cannot be read beside that: {error}")))
        }
    }
}

/// The keyspace of this name in an open database; it is made if it is missing and may be made.
///
/// Errors: there is none.
pub(crate) fn keyspace_of(db: &Db, name: &str, may_make: bool) -> Outcome<Keyspace> {
    if !may_make && !db.contains_keyspace(name)? {
        return Err(no_keyspace(name));
    }
    Ok(db.keyspace(name)?)
}

/// For people, or as JSON.
fn shown<T: std::fmt::Display + serde::Serialize>(what: &T, json: bool) -> Outcome<String> {
    if !json {
        return Ok(what.to_string());
    }
    serde_json::to_string(what).map_err(|error| Failure::Failed(error.to_string()))
}

/// A moment of a database in an object store says to its owner so often that it is still looked at.
const RENEW_EVERY: Duration = Duration::from_secs(60);

/// A walk looks at the clock once in so many entries.
const ENTRIES_PER_LOOK: u64 = 1024;

/// A directory, or a database in an object store, opened by this process.
pub(crate) struct LocalData {
    db: Db,
    keyspace: Keyspace,
    /// Of which `db` is a moment, if it lies in an object store.
    followed: Option<Followed>,
}

struct Followed {
    secondary: Secondary,
    renewed: Stopwatch,
}

impl Followed {
    /// Says to the owner that somebody still looks, if that is due; on which moment the secondary
    /// is afterwards means nothing for those that are open.
    fn renew(&mut self) -> Outcome {
        if self.renewed.elapsed() >= RENEW_EVERY {
            self.secondary.catch_up()?;
            self.renewed = Stopwatch::start();
        }
        Ok(())
    }
}

impl LocalData {
    pub(crate) fn open(dir: &Path, access: Access, options: Options) -> Outcome<LocalData> {
        let db = open(dir, access, options)?;
        let keyspace = Keyspace::clone(&db);
        Ok(LocalData { db, keyspace, followed: None })
    }

    /// A moment of a database in an object store, to be read.
    pub(crate) fn of_store(place: &StorePlace) -> Outcome<LocalData> {
        let database = Options::new().open_cloud(&place.url, place.database)?;
        let secondary = database.open_at(&place.moment)?;
        let db = secondary.as_db().clone();
        let keyspace = Keyspace::clone(&db);
        let followed = Some(Followed { secondary, renewed: Stopwatch::start() });
        Ok(LocalData { db, keyspace, followed })
    }

    /// To be called again and again in what takes long.
    fn renew(&mut self) -> Outcome {
        self.followed.as_mut().map_or(Ok(()), Followed::renew)
    }
}

fn expiry_of(record: &Record) -> Option<Expiry> {
    record.expiry_ms.map(|ms| Expiry::at(WallTime(ms)))
}

fn size_of(keyspace: &Keyspace, range: &OwnedRange) -> Outcome<Size> {
    if range.is_empty() {
        return Ok(Size::default());
    }
    let size = keyspace.approximate_size(range)?;
    Ok(Size { bytes: size.table_bytes + size.memory_bytes, entries: size.entry_count })
}

fn ms(expiry: Expiry) -> u64 {
    expiry.time().0
}

impl Data for LocalData {
    fn use_keyspace(&mut self, name: &str, may_make: bool) -> Outcome {
        self.keyspace = keyspace_of(&self.db, name, may_make)?;
        Ok(())
    }

    fn keyspaces(&mut self) -> Outcome<Vec<(String, Size)>> {
        let names = self.db.keyspaces()?.into_iter();
        names
            .map(|name| {
                let keyspace = self.db.keyspace(&name)?;
                Ok((name, size_of(&keyspace, &OwnedRange::all())?))
            })
            .collect()
    }

    fn keyspace_stats(&mut self) -> Outcome<BTreeMap<String, Figures>> {
        let all = self.db.admin().keyspaces().into_iter();
        let shown = |(figure, value): (&str, u64)| (figure.to_owned(), value);
        Ok(all.map(|(name, stats)| (name, stats.figures().map(shown).collect())).collect())
    }

    fn drop_keyspace(&mut self, name: &str) -> Outcome<bool> {
        Ok(self.db.drop_keyspace(name)?)
    }

    fn get(&mut self, keys: &[Vec<u8>], _wanted: Wanted) -> Outcome<Vec<Option<Record>>> {
        let values = self.keyspace.get_many(keys)?;
        let record = |(key, value): (&Vec<u8>, Option<Value>)| {
            let value = value?;
            let expiry_ms = value.expiry().map(ms);
            Some(Record { key: key.clone(), value: value.into_vec(), expiry_ms })
        };
        Ok(keys.iter().zip(values).map(record).collect())
    }

    fn delete(&mut self, keys: &[Vec<u8>]) -> Outcome<u64> {
        let mut deleted = 0;
        for key in keys {
            let mut was_there = false;
            self.keyspace.update_many(&[key], &WriteOptions::new(), |old, batch| {
                was_there = old[0].is_some();
                if was_there {
                    batch.delete(&self.keyspace, key);
                }
                Ok::<(), Error>(())
            })?;
            deleted += u64::from(was_there);
        }
        Ok(deleted)
    }

    fn delete_range(&mut self, range: &OwnedRange) -> Outcome {
        Ok(self.keyspace.delete_range(range)?)
    }

    fn count(&mut self, range: &OwnedRange, stop: &StopFlag) -> Outcome<u64> {
        let mut count = 0;
        let keyspace = self.keyspace.clone();
        for key in keyspace.range(range).keys() {
            key?;
            count += 1;
            if count % ENTRIES_PER_LOOK == 0 {
                self.renew()?;
            }
            stop.heed()?;
        }
        Ok(count)
    }

    fn size(&mut self, range: &OwnedRange) -> Outcome<Size> {
        size_of(&self.keyspace, range)
    }

    fn put(&mut self, records: &[Record]) -> Outcome {
        let mut batch = Batch::new();
        for record in records {
            match expiry_of(record) {
                None => batch.put(&self.keyspace, &record.key, &record.value),
                Some(expiry) => {
                    batch.put_until(&self.keyspace, &record.key, &record.value, Some(expiry))
                }
            };
        }
        self.db.write(&batch)?;
        Ok(())
    }

    fn put_if(&mut self, record: &Record, expected: Option<&[u8]>) -> Outcome<bool> {
        let options = match expiry_of(record) {
            Some(expiry) => WriteOptions::new().expires_at(expiry),
            None => WriteOptions::new(),
        };
        let (key, value) = (&record.key, Some(&*record.value));
        Ok(self.keyspace.compare_and_swap_with(key, expected, value, &options)?.is_swapped())
    }

    fn walk(&mut self, walk: &Walk, visit: Visit<'_>) -> Outcome {
        let keyspace = self.keyspace.clone();
        let mut cursor = keyspace.cursor(&walk.range);
        if walk.reverse {
            cursor.seek_to_end();
        }
        let mut record = Record { key: Vec::new(), value: Vec::new(), expiry_ms: None };
        for count in 1..=walk.limit {
            if count % ENTRIES_PER_LOOK == 0 {
                self.renew()?;
            }
            let row = if walk.reverse { cursor.prev() } else { cursor.next() };
            let Some(row) = row? else { break };
            record.key.clear();
            record.key.extend_from_slice(row.key);
            record.value.clear();
            if walk.wanted != Wanted::Keys {
                record.value.extend_from_slice(row.value);
            }
            record.expiry_ms = if walk.wanted == Wanted::All { row.expiry().map(ms) } else { None };
            visit(&record)?;
        }
        Ok(())
    }

    fn stats(&mut self) -> Outcome<String> {
        shown(&self.db.admin().stats(), true)
    }

    fn dranges(&mut self, json: bool) -> Outcome<String> {
        shown(&self.db.admin().dranges(), json)
    }

    fn l0(&mut self, json: bool) -> Outcome<String> {
        shown(&self.db.admin().l0()?, json)
    }

    fn explain_get(&mut self, key: &[u8], json: bool) -> Outcome<String> {
        shown(&self.db.admin().explain_get(&self.keyspace, key)?, json)
    }

    fn explain_scan(&mut self, walk: &Walk, json: bool) -> Outcome<String> {
        let (admin, keyspace) = (self.db.admin(), &self.keyspace);
        shown(&admin.explain_scan(keyspace, &walk.range, walk.limit, walk.reverse)?, json)
    }

    fn refresh(&mut self) -> Outcome {
        let Some(followed) = &mut self.followed else { return Ok(()) };
        followed.secondary.catch_up()?;
        followed.renewed = Stopwatch::start();
        let db = followed.secondary.as_db().clone();
        let name = self.keyspace.name();
        self.keyspace = keyspace_of(&db, name, false)?;
        self.db = db;
        Ok(())
    }

    fn is_server(&self) -> bool {
        false
    }

    fn close(&mut self) -> Outcome {
        Ok(self.db.close()?)
    }
}
