use std::path::Path;

use terrace::{
    Db, Expiry, KeyRange, Options, ReadOptions, Update, WallTime, WriteBatch, WriteOptions,
};

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
    let create_if_missing = access == Access::Create;
    let read_only = access == Access::Read;
    Ok(Db::open(dir, Options { create_if_missing, read_only, ..options })?)
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
        Ok(self.db.get(key)?)
    }

    fn delete(&mut self, keys: &[Vec<u8>]) -> Outcome<u64> {
        let mut deleted = 0;
        for key in keys {
            let mut was_there = false;
            self.db.update(&[key], &WriteOptions::default(), |old| {
                was_there = old[0].is_some();
                let mut batch = WriteBatch::new();
                match batch.delete(key) {
                    Ok(()) if was_there => Update::Write(batch),
                    _ => Update::Keep,
                }
            })?;
            deleted += u64::from(was_there);
        }
        Ok(deleted)
    }

    fn put(&mut self, records: &[Record]) -> Outcome {
        let mut batch = WriteBatch::new();
        for record in records {
            let expiry = record.expiry_ms.map(|ms| Expiry::at(WallTime(ms)));
            batch.put_with_expiry(&record.key, &record.value, expiry)?;
        }
        Ok(self.db.write(batch, &WriteOptions::default())?)
    }

    fn put_if(&mut self, key: &[u8], expected: Option<&[u8]>, value: &[u8]) -> Outcome<bool> {
        let options = WriteOptions::default();
        Ok(self.db.compare_and_swap(key, expected, Some(value), &options)?.is_swapped())
    }

    fn walk(&mut self, walk: &Walk, visit: Visit<'_>) -> Outcome {
        let mut iter = self.db.iter(walk.range.clone(), &ReadOptions::default())?;
        if walk.reverse { iter.seek_back(None) } else { iter.seek(walk.range.start()) }?;
        let mut left = walk.limit;
        while let (1.., Some((key, value, _))) = (left, iter.item()) {
            visit(key, if walk.keys_only { b"" } else { value })?;
            left -= 1;
            if walk.reverse { iter.prev() } else { iter.next() }?;
        }
        Ok(())
    }

    fn export(&mut self, range: &KeyRange, visit: VisitRecord<'_>) -> Outcome {
        let mut iter = self.db.iter(range.clone(), &ReadOptions::default())?;
        iter.seek(range.start())?;
        while let Some((key, value, expiry)) = iter.item() {
            let expiry_ms = expiry.map(|expiry| expiry.time().0);
            visit(&Record { key: key.to_vec(), value: value.to_vec(), expiry_ms })?;
            iter.next()?;
        }
        Ok(())
    }

    fn stats(&mut self, json: bool) -> Outcome<String> {
        shown(&self.db.stats(), json)
    }

    fn dranges(&mut self, json: bool) -> Outcome<String> {
        shown(&self.db.dranges(), json)
    }

    fn l0(&mut self, json: bool) -> Outcome<String> {
        shown(&self.db.l0()?, json)
    }

    fn explain_get(&mut self, key: &[u8], json: bool) -> Outcome<String> {
        shown(&self.db.explain_get(key)?, json)
    }

    fn explain_scan(&mut self, walk: &Walk, json: bool) -> Outcome<String> {
        let explanation = self.db.explain_scan(walk.range.clone(), walk.limit, walk.reverse)?;
        shown(&explanation, json)
    }

    fn close(&mut self) -> Outcome {
        Ok(self.db.close()?)
    }
}
