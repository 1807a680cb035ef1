//! Tables of L0's rows in a directory of their own: on a faster medium than that of the levels.
//!
//! A location says whether it means this directory, and nothing of where that is: the manifest
//! names it. A range has at most one, as long as it is open; before it is mounted nothing lies
//! there.
//!
//! *Source:* the baseline of TriangleKV (TPDS 2022, §5.1, "RocksDB-L0-NVM"), plain tables as L0 on
//! persistent memory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Corruption, FileId, LevelNo};
use terrace_env::{SetOnce, SharedEnv};

use super::{FarTables, OnMedium, Role, TableLocation, entries_of};
use crate::Result;
use crate::table::{Adopted, LocalTableStore, TableFile, TableStore, TableWriter};

/// The directory for the tables of L0's rows, if the range has one.
pub struct RowDirectory {
    env: SharedEnv,
    mounted: SetOnce<(PathBuf, LocalTableStore)>,
}

impl RowDirectory {
    /// None yet.
    #[must_use]
    pub fn new(env: &SharedEnv) -> Arc<RowDirectory> {
        Arc::new(RowDirectory { env: Arc::clone(env), mounted: SetOnce::new() })
    }

    /// From now on the row directory is the one at `path`, which exists.
    ///
    /// # Panics
    /// If another one is mounted.
    pub fn mount(&self, path: &Path) {
        let tables = LocalTableStore::new(Arc::clone(&self.env), path.to_path_buf());
        let (mounted, _) = self.mounted.get_or_set((path.to_path_buf(), tables));
        assert_eq!(mounted, path, "a row directory is mounted once");
    }

    /// Mounts what a manifest names, for a reader that only looks, unless one is mounted: not if
    /// that is none that this database could have. What is not there is then said to be missing,
    /// table by table.
    pub(crate) fn find(&self, named: Option<&str>, database: u128) {
        let Some(path) = named.map(Path::new) else { return };
        if self.path().is_none() && Role::Rows.is_of(path, database) {
            self.mount(path);
        }
    }

    /// Where it is, if it is mounted.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.mounted.get().map(|(path, _)| path.as_path())
    }

    fn tables(&self) -> Option<&LocalTableStore> {
        self.mounted.get().map(|(_, tables)| tables)
    }
}

impl OnMedium for RowDirectory {
    type Place = String;

    const ROLE: Role = Role::Rows;

    fn is_open(&self) -> bool {
        self.path().is_some()
    }

    fn path<'p>(&self, place: &'p String) -> (PathBuf, Option<&'p Path>) {
        (PathBuf::from(place), Some(Path::new(place)))
    }

    fn open(&self, place: &String, _database: u128) -> Result<bool> {
        let is_there = entries_of(self.env.as_ref(), Path::new(place))?.is_some();
        if is_there {
            self.mount(Path::new(place));
        }
        Ok(is_there)
    }

    /// It is made in any case: a crash may have come before its name was durable.
    fn open_empty(&self, _place: &String, _database: u128) -> Result<()> {
        Ok(())
    }

    /// Deletes the tables. The empty directory stays.
    fn clear(&self, place: &String) -> Result<()> {
        if entries_of(self.env.as_ref(), Path::new(place))?.is_none() {
            return Ok(());
        }
        let tables = LocalTableStore::new(Arc::clone(&self.env), PathBuf::from(place));
        tables.list()?.iter().try_for_each(|(_, location)| tables.delete(location))
    }

    fn create(&self, place: &String, _database: u128) -> Result<()> {
        let path = Path::new(place);
        self.env.fs().create_dir_all(path)?;
        if let Some(medium) = path.parent() {
            self.env.fs().sync_dir(medium)?;
        }
        self.mount(path);
        Ok(())
    }
}

impl fmt::Debug for RowDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowDirectory").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The tables of a range, those of its row directory and those in an object store as one store. New
/// rows of L0 go to the row directory, once it is mounted, and tables of levels below the waterline
/// to the object store; all else goes to the levels' store.
#[derive(Clone, Debug)]
pub struct RoutedTables {
    levels: Arc<dyn TableStore>,
    rows: Arc<RowDirectory>,
    far: Arc<FarTables>,
}

impl RoutedTables {
    /// The tables in `levels`, in the row directory, and in the object store.
    #[must_use]
    pub fn new(
        levels: Arc<dyn TableStore>,
        rows: Arc<RowDirectory>,
        far: Arc<FarTables>,
    ) -> RoutedTables {
        RoutedTables { levels, rows, far }
    }

    /// The store of the row directory, if tables of this level go there.
    fn rows_for(&self, level: LevelNo) -> Option<&LocalTableStore> {
        self.rows.tables().filter(|_| level == LevelNo(0))
    }

    /// The store of a location, and what that one calls it. Errors: [`Error::Corruption`] if there
    /// is no row directory.
    ///
    /// [`Error::Corruption`]: crate::Error::Corruption
    fn route(&self, location: &TableLocation) -> Result<(&dyn TableStore, TableLocation)> {
        let Some(inner) = location.within_rows_medium() else {
            return Ok((self.levels.as_ref(), location.clone()));
        };
        match self.rows.tables() {
            Some(tables) => Ok((tables, inner)),
            None => {
                let detail = "the manifest places this table in L0's own directory but does not say \
                              where that directory is";
                let name = String::from_utf8_lossy(location.bytes()).into_owned();
                Err(Corruption::new(name, 0, detail).into())
            }
        }
    }
}

impl TableStore for RoutedTables {
    fn create(
        &self,
        id: FileId,
        level: LevelNo,
        expected_bytes: u64,
    ) -> Result<Box<dyn TableWriter>> {
        match self.rows_for(level) {
            Some(tables) => Ok(Box::new(RowWriter(tables.create(id, level, expected_bytes)?))),
            None if self.far.takes(level) => self.far.create(id),
            None => self.levels.create(id, level, expected_bytes),
        }
    }

    fn adopt_values(&self, id: FileId, file: &Path) -> Result<Option<Adopted>> {
        self.levels.adopt_values(id, file)
    }

    fn create_values(&self, id: FileId, expected_bytes: u64) -> Result<Box<dyn TableWriter>> {
        self.levels.create_values(id, expected_bytes)
    }

    fn sync(&self, level: LevelNo) -> Result<()> {
        match self.rows_for(level) {
            Some(tables) => tables.sync(level),
            None => self.levels.sync(level),
        }
    }

    fn open(&self, location: &TableLocation) -> Result<Arc<dyn TableFile>> {
        if location.is_far() {
            return self.far.open(location);
        }
        let (store, location) = self.route(location)?;
        store.open(&location)
    }

    fn link(&self, location: &TableLocation, to: &Path) -> Result<bool> {
        if location.is_far() {
            return Ok(false);
        }
        let (store, location) = self.route(location)?;
        store.link(&location, to)
    }

    fn delete(&self, location: &TableLocation) -> Result<()> {
        if location.is_far() {
            return self.far.release(location);
        }
        let (store, location) = self.route(location)?;
        store.delete(&location)
    }

    fn keeps(&self, location: &TableLocation, level: LevelNo) -> bool {
        location.is_far() == self.far.takes(level)
    }

    fn list(&self) -> Result<Vec<(FileId, TableLocation)>> {
        let mut all = self.levels.list()?;
        if let Some(tables) = self.rows.tables() {
            all.extend(
                tables.list()?.into_iter().map(|(id, location)| (id, location.on_rows_medium())),
            );
            all.sort_by_key(|(id, _)| *id);
        }
        Ok(all)
    }
}

/// A table on its way into the row directory.
struct RowWriter(Box<dyn TableWriter>);

impl TableWriter for RowWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.append(bytes)
    }

    fn finish(self: Box<Self>) -> Result<TableLocation> {
        Ok(self.0.finish()?.on_rows_medium())
    }
}

#[cfg(test)]
mod tests {
    //! Goal: a location leads to the directory that it means. Method: the same id cannot occur
    //! twice, so one table in each of the two.

    use terrace_base::Epoch;
    use terrace_env::{SimEnv, SimOptions};

    use super::*;
    use crate::Error;
    use crate::placement::TableMedium;
    use crate::table::ByteInterval;

    fn write(store: &dyn TableStore, level: u8, counter: u64, bytes: &[u8]) -> TableLocation {
        let level = LevelNo(level);
        let id = FileId { epoch: Epoch(1), counter };
        let mut writer = store.create(id, level, 0).unwrap();
        writer.append(bytes).unwrap();
        let location = writer.finish().unwrap();
        store.sync(level).unwrap();
        location
    }

    fn read(store: &dyn TableStore, location: &TableLocation) -> Vec<u8> {
        let file = store.open(location).unwrap();
        let whole = ByteInterval { offset: 0, bytes: file.bytes() as usize };
        file.read(&[whole]).wait().unwrap().remove(0)
    }

    #[test]
    fn a_location_leads_to_its_directory() {
        SimEnv::run(SimOptions::new(1), |env| {
            let env: SharedEnv = env;
            for dir in ["/range", "/medium/rows"] {
                env.fs().create_dir_all(Path::new(dir)).unwrap();
            }
            let local = LocalTableStore::new(Arc::clone(&env), "/range".into());
            let rows = RowDirectory::new(&env);
            let far = FarTables::new(&env);
            let store = RoutedTables::new(Arc::new(local), Arc::clone(&rows), far);
            let before = write(&store, 0, 1, b"before");
            assert_eq!(before.medium(), TableMedium::Own, "nothing is mounted yet");
            let lost = TableLocation::new("l0/00000001-00000009.table");
            assert!(matches!(store.open(&lost), Err(Error::Corruption(_))));
            rows.mount(Path::new("/medium/rows"));
            let (of_row, of_level) = (write(&store, 0, 2, b"row"), write(&store, 1, 3, b"level"));
            assert_eq!(of_row.medium(), TableMedium::Rows);
            assert_eq!(of_level.medium(), TableMedium::Own);
            assert_eq!(read(&store, &before), b"before");
            assert_eq!(read(&store, &of_row), b"row");
            assert_eq!(read(&store, &of_level), b"level");
            let listed: Vec<_> = store.list().unwrap().into_iter().map(|(_, l)| l).collect();
            assert_eq!(listed, [before, of_row.clone(), of_level]);
            assert_eq!(env.fs().list(Path::new("/medium/rows")).unwrap().len(), 1);
            store.delete(&of_row).unwrap();
            assert!(matches!(store.open(&of_row), Err(Error::Io(error)) if error.is_not_found()));
            assert!(store.list().unwrap().len() == 2);
            let _ = write(&store, 0, 4, b"garbage");
            rows.clear(&"/medium/rows".to_string()).unwrap();
            assert!(env.fs().list(Path::new("/medium/rows")).unwrap().is_empty());
            rows.clear(&"/nowhere".to_string()).unwrap();
        });
    }
}
