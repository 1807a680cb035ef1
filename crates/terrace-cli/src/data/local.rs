use std::path::Path;

use terrace::{Batch, Create, Db, Error, Expiry, Options, OwnedRange, WallTime, WriteOptions};

use super::{Data, Visit, VisitRecord, Walk};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::format::Record;

/// What a directory is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Looking only.
    Read,
    /// Changing what is there.
    Write,
    /// As `Write`; the database is made if there is none.
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
    let options = if access == Access::Read { options.read_only() } else { options };
    Ok(options.open(dir)?)
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
}

impl LocalData {
    pub(crate) fn open(dir: &Path, access: Access) -> Outcome<LocalData> {
        Ok(LocalData { db: open(dir, access, Options::default())? })
    }
}

impl Data for LocalData {
    fn get(&mut self, key: &[u8]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.db.get(key)?.map(Vec::from))
    }

    fn delete(&mut self, keys: &[Vec<u8>]) -> Outcome<u64> {
        let mut deleted = 0;
        for key in keys {
            let mut was_there = false;
            self.db.update_many(&[key], &WriteOptions::new(), |old, batch| {
                was_there = old[0].is_some();
                if was_there {
                    batch.delete(&self.db, key);
                }
                Ok::<(), Error>(())
            })?;
            deleted += u64::from(was_there);
        }
        Ok(deleted)
    }

    fn put(&mut self, records: &[Record]) -> Outcome {
        let mut batch = Batch::new();
        for record in records {
            let expiry = record.expiry_ms.map(|ms| Expiry::at(WallTime(ms)));
            batch.put_until(&self.db, &record.key, &record.value, expiry);
        }
        self.db.write(&batch)?;
        Ok(())
    }

    fn put_if(&mut self, key: &[u8], expected: Option<&[u8]>, value: &[u8]) -> Outcome<bool> {
        Ok(self.db.compare_and_swap(key, expected, Some(value))?.is_swapped())
    }

    fn walk(&mut self, walk: &Walk, visit: Visit<'_>) -> Outcome {
        let mut cursor = self.db.cursor(&walk.range);
        if walk.reverse {
            cursor.seek_to_end();
        }
        for _ in 0..walk.limit {
            let row = if walk.reverse { cursor.prev() } else { cursor.next() };
            let Some(row) = row? else { break };
            visit(row.key, if walk.keys_only { b"" } else { row.value })?;
        }
        Ok(())
    }

    fn export(&mut self, range: &OwnedRange, visit: VisitRecord<'_>) -> Outcome {
        let mut cursor = self.db.cursor(range);
        while let Some(row) = cursor.next()? {
            let expiry_ms = row.expiry().map(|expiry| expiry.time().0);
            visit(&Record { key: row.key.to_vec(), value: row.value.to_vec(), expiry_ms })?;
        }
        Ok(())
    }

    fn stats(&mut self, json: bool) -> Outcome<String> {
        shown(&self.db.admin().stats(), json)
    }

    fn dranges(&mut self, json: bool) -> Outcome<String> {
        shown(&self.db.admin().dranges(), json)
    }

    fn l0(&mut self, json: bool) -> Outcome<String> {
        shown(&self.db.admin().l0()?, json)
    }

    fn explain_get(&mut self, key: &[u8], json: bool) -> Outcome<String> {
        shown(&self.db.admin().explain_get(&self.db, key)?, json)
    }

    fn explain_scan(&mut self, walk: &Walk, json: bool) -> Outcome<String> {
        let admin = self.db.admin();
        shown(&admin.explain_scan(&self.db, &walk.range, walk.limit, walk.reverse)?, json)
    }

    fn close(&mut self) -> Outcome {
        Ok(self.db.close()?)
    }
}
