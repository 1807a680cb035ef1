use std::collections::BTreeMap;
use std::path::Path;

use terrace::{
    Batch, Create, Db, Error, ErrorKind, Expiry, Keyspace, Options, OwnedRange, Value, WallTime,
    WriteOptions,
};

use super::{Data, Figures, Size, Visit, Walk, Wanted, no_keyspace};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::format::Record;
use crate::signals::StopFlag;
use crate::terminal;

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
    let options = options.create(create);
    if access != Access::Read {
        return Ok(options.open(dir)?);
    }
    match options.clone().read_only().open(dir) {
        Err(error) if error.kind() == ErrorKind::Locked => beside_the_writer(dir, &options, error),
        opened => Ok(opened?),
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

/// A directory, opened by this process.
pub(crate) struct LocalData {
    db: Db,
    keyspace: Keyspace,
}

impl LocalData {
    pub(crate) fn open(dir: &Path, access: Access, options: Options) -> Outcome<LocalData> {
        let db = open(dir, access, options)?;
        let keyspace = Keyspace::clone(&db);
        Ok(LocalData { db, keyspace })
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
        for key in self.keyspace.range(range).keys() {
            key?;
            count += 1;
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
        let mut cursor = self.keyspace.cursor(&walk.range);
        if walk.reverse {
            cursor.seek_to_end();
        }
        let mut record = Record { key: Vec::new(), value: Vec::new(), expiry_ms: None };
        for _ in 0..walk.limit {
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

    fn is_server(&self) -> bool {
        false
    }

    fn close(&mut self) -> Outcome {
        Ok(self.db.close()?)
    }
}
