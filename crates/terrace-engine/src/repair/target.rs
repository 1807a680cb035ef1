//! The new range, while it is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Corruption, Epoch, FileId, KeyRange, LevelNo, TableUid};
use terrace_env::{DirLock, SharedEnv};

use crate::Result;
use crate::check::{CheckDepth, check_locked_dir};
use crate::ids::FileIds;
use crate::new_dir;
use crate::options::Options;
use crate::range_tombstone::Fragments;
use crate::table::{LocalTableStore, OutputSpec, OutputTables, TableFile, TableShape, TableStore};
use crate::version::{FeedStore, LocalManifests, TableMeta, VersionEdit};

/// A directory that becomes a range when it is finished.
pub(super) struct Target<'a> {
    env: &'a SharedEnv,
    dir: PathBuf,
    store: Arc<LocalTableStore>,
    ids: FileIds,
    database: u128,
    pub shape: TableShape,
    _lock: DirLock,
}

impl<'a> Target<'a> {
    /// Errors: `Invalid` if the directory holds anything.
    pub fn create(env: &'a SharedEnv, dir: &Path, options: &Options) -> Result<Target<'a>> {
        let lock = new_dir::claim(env.as_ref(), dir)?;
        let database = env.random_u128();
        Ok(Target {
            env,
            dir: dir.to_path_buf(),
            store: Arc::new(LocalTableStore::new(Arc::clone(env), dir.to_path_buf())),
            ids: FileIds::new(Epoch(1), 0),
            database,
            shape: TableShape { table_bytes: options.table_bytes, table: options.table },
            _lock: lock,
        })
    }

    /// The identity of the new database.
    pub fn database(&self) -> u128 {
        self.database
    }

    /// Tables written here.
    pub fn store(&self) -> &Arc<LocalTableStore> {
        &self.store
    }

    /// The id of the next file.
    pub fn next_id(&self) -> FileId {
        self.ids.next()
    }

    /// Begins a row or a run of tables, none above `table_bytes`.
    pub fn outputs<'t>(
        &'t self,
        shape: &'t TableShape,
        slice: &'t KeyRange,
        tombstones: &'t Fragments,
    ) -> OutputTables<'t> {
        let spec = OutputSpec {
            level: LevelNo(0),
            shape,
            slice,
            tombstones,
            expected_bytes: 0,
            now: self.env.wall_time(),
        };
        let next_table = Box::new(|| Ok((self.ids.next(), TableUid(self.env.random_u128()))));
        OutputTables::new(self.store.as_ref(), spec, next_table)
    }

    /// Opens a table that was written here.
    pub fn open(&self, table: &TableMeta) -> Result<Arc<dyn TableFile>> {
        self.store.open(&table.location)
    }

    /// Deletes a table that was written here and is not part of the result.
    pub fn remove_table(&self, table: &TableMeta) -> Result<()> {
        self.store.delete(&table.location)
    }

    /// Makes the directory a range: names, manifest, and `CURRENT` last. Reads everything back.
    pub fn finish(&self, snapshot: &VersionEdit) -> Result<()> {
        self.store.sync(LevelNo(0))?;
        let feeds = LocalManifests { env: Arc::clone(self.env), dir: self.dir.clone() };
        drop(feeds.begin(self.ids.next(), snapshot)?);
        let report = check_locked_dir(self.env, &self.dir, CheckDepth::Full, &mut |_, _| ())?;
        match report.damage().next() {
            None => Ok(()),
            Some(finding) => {
                let detail = format!("what was written does not read back: {}", finding.text);
                Err(Corruption::new(&finding.file, finding.offset, detail).into())
            }
        }
    }

    /// Deletes what was written: the directory holds no range.
    pub fn discard(&self) {
        new_dir::discard(self.env.as_ref(), &self.dir);
    }
}
