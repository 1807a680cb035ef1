//! Tables of L0's rows in a directory of their own: on a faster medium than that of the levels.
//!
//! ```text
//!   location            where
//!   <FileId>.table      the range's directory
//!   l0/<FileId>.table   the row directory: <medium>/terrace-<database>.tables/<FileId>.table
//! ```
//! A location says which of the two it means, and nothing of where they are: the manifest names the row
//! directory. A range has at most one, as long as it is open; before it is mounted nothing lies there.
//!
//! *Source:* the baseline of TriangleKV (TPDS 2022, §5.1, "RocksDB-L0-NVM"), plain tables as L0 on
//! persistent memory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{Corruption, FileId};
use terrace_env::{SetOnce, SharedEnv};

use super::LocalTableStore;
use super::store::{TableFile, TableLocation, TableStore, TableWriter};
use crate::placement::entries_of;
use crate::{Error, Result};

const PREFIX: &[u8] = b"l0/";

/// Whether a location means the row directory.
#[must_use]
pub fn is_in_row_directory(location: &TableLocation) -> bool {
    location.0.starts_with(PREFIX)
}

/// What the row directory of this database is called.
#[must_use]
pub fn row_directory_name(database: u128) -> String {
    format!("terrace-{database:032x}.tables")
}

/// Whether this database could have a row directory at `path`: a manifest that names another one is not
/// believed, so that a forged one cannot have other files deleted.
#[must_use]
pub(crate) fn is_of(path: &Path, database: u128) -> bool {
    path.file_name().is_some_and(|name| *name == *row_directory_name(database))
}

fn outer(location: TableLocation) -> TableLocation {
    TableLocation([PREFIX, &location.0].concat())
}

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

    /// Deletes the tables in the directory at `path`, of which nothing is needed any more. The empty
    /// directory stays. Errors: the environment's; a directory that is gone is none.
    pub fn clear(env: &SharedEnv, path: &Path) -> Result<()> {
        if entries_of(env.as_ref(), path)?.is_none() {
            return Ok(());
        }
        let tables = LocalTableStore::new(Arc::clone(env), path.to_path_buf());
        tables.list()?.iter().try_for_each(|(_, location)| tables.delete(location))
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

    /// Mounts what a manifest names, for those who only look, unless one is mounted: not if that is none
    /// that this database could have. What is not there is then said to be missing, table by table.
    pub(crate) fn find(&self, named: Option<&str>, database: u128) {
        let Some(path) = named.map(Path::new) else { return };
        if self.path().is_none() && is_of(path, database) {
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

impl fmt::Debug for RowDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowDirectory").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// The tables of a range and those of its row directory as one store.
#[derive(Clone, Debug)]
pub struct RoutedTables {
    levels: Arc<dyn TableStore>,
    rows: Arc<RowDirectory>,
    /// Whether new tables go to the row directory, once it is mounted.
    writes_rows: bool,
}

impl RoutedTables {
    /// The tables in `levels` and in the row directory; new ones go to `levels`.
    #[must_use]
    pub fn new(levels: Arc<dyn TableStore>, rows: Arc<RowDirectory>) -> RoutedTables {
        RoutedTables { levels, rows, writes_rows: false }
    }

    /// The same tables; new ones go to the row directory, once it is mounted.
    #[must_use]
    pub fn writing_rows(self) -> RoutedTables {
        RoutedTables { writes_rows: true, ..self }
    }

    /// The store of a location, and what that one calls it. Errors: [`Error::Corruption`] if there is no
    /// row directory.
    fn route(&self, location: &TableLocation) -> Result<(&dyn TableStore, TableLocation)> {
        match location.0.strip_prefix(PREFIX) {
            None => Ok((self.levels.as_ref(), location.clone())),
            Some(inner) => match self.rows.tables() {
                Some(tables) => Ok((tables, TableLocation(inner.to_vec()))),
                None => {
                    let detail =
                        "a table of L0 in a directory of its own, and no word of where it is";
                    let name = String::from_utf8_lossy(&location.0).into_owned();
                    Err(Corruption::new(name, 0, detail).into())
                }
            },
        }
    }
}

impl TableStore for RoutedTables {
    fn create(&self, id: FileId, expected_bytes: u64) -> Result<Box<dyn TableWriter>> {
        match self.rows.tables().filter(|_| self.writes_rows) {
            Some(tables) => Ok(Box::new(RowWriter(tables.create(id, expected_bytes)?))),
            None => self.levels.create(id, expected_bytes),
        }
    }

    /// Of where new tables go.
    fn sync(&self) -> Result<()> {
        match self.rows.tables().filter(|_| self.writes_rows) {
            Some(tables) => tables.sync(),
            None => self.levels.sync(),
        }
    }

    fn open(&self, location: &TableLocation) -> Result<Arc<dyn TableFile>> {
        let (store, location) = self.route(location)?;
        store.open(&location)
    }

    fn link(&self, location: &TableLocation, to: &Path) -> Result<bool> {
        let (store, location) = self.route(location)?;
        store.link(&location, to)
    }

    fn delete(&self, location: &TableLocation) -> Result<()> {
        let (store, location) = self.route(location)?;
        store.delete(&location)
    }

    fn list(&self) -> Result<Vec<(FileId, TableLocation)>> {
        let mut all = self.levels.list()?;
        if let Some(tables) = self.rows.tables() {
            all.extend(tables.list()?.into_iter().map(|(id, location)| (id, outer(location))));
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
        self.0.finish().map(outer)
    }
}

/// What an open says if the row directory is not where the manifest says.
pub(crate) fn missing_row_directory(path: &Path) -> Error {
    let detail = "the directory with the tables of L0 is missing: what was written last is lost with it. If \
                  it was in a file system in memory, a power cut emptied that; repair the range, or restore it";
    Corruption::new(path, 0, detail).into()
}

#[cfg(test)]
mod tests {
    //! Goal: a location leads to the directory that it means. Method: the same id cannot occur twice, so
    //! one table in each of the two.

    use terrace_base::Epoch;
    use terrace_env::{SimEnv, SimOptions};

    use super::*;
    use crate::table::ByteInterval;

    fn write(store: &dyn TableStore, counter: u64, bytes: &[u8]) -> TableLocation {
        let id = FileId { epoch: Epoch(1), counter };
        let mut writer = store.create(id, 0).unwrap();
        writer.append(bytes).unwrap();
        let location = writer.finish().unwrap();
        store.sync().unwrap();
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
            let levels = RoutedTables::new(Arc::new(local), Arc::clone(&rows));
            let of_rows = levels.clone().writing_rows();
            let before = write(&of_rows, 1, b"before");
            assert!(!is_in_row_directory(&before), "nothing is mounted yet");
            let lost = TableLocation(b"l0/00000001-00000009.table".to_vec());
            assert!(matches!(levels.open(&lost), Err(Error::Corruption(_))));
            rows.mount(Path::new("/medium/rows"));
            let (of_row, of_level) = (write(&of_rows, 2, b"row"), write(&levels, 3, b"level"));
            assert!(is_in_row_directory(&of_row) && !is_in_row_directory(&of_level));
            for store in [&levels, &of_rows] {
                assert_eq!(read(store, &before), b"before");
                assert_eq!(read(store, &of_row), b"row");
                assert_eq!(read(store, &of_level), b"level");
                let listed: Vec<_> = store.list().unwrap().into_iter().map(|(_, l)| l).collect();
                assert_eq!(listed, [before.clone(), of_row.clone(), of_level.clone()]);
            }
            assert_eq!(env.fs().list(Path::new("/medium/rows")).unwrap().len(), 1);
            levels.delete(&of_row).unwrap();
            assert!(matches!(of_rows.open(&of_row), Err(Error::Io(error)) if error.is_not_found()));
            assert!(levels.list().unwrap().len() == 2);
            let _ = write(&of_rows, 4, b"garbage");
            RowDirectory::clear(&env, Path::new("/medium/rows")).unwrap();
            assert!(env.fs().list(Path::new("/medium/rows")).unwrap().is_empty());
            RowDirectory::clear(&env, Path::new("/nowhere")).unwrap();
        });
    }
}
