//! The database as a whole: opening, closing, what spans its keyspaces; for operators, `admin.rs`.

mod admin;
mod shared;

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use terrace_base::SeqNo;
use terrace_engine::process::Process;
use terrace_engine::store::Store;

pub use admin::Admin;
pub(crate) use shared::Shared;

use crate::keyspace::{Catalog, DEFAULT, FilterTable, Keyspace, KeyspaceOptions, OperatorTable};
use crate::{Batch, CheckpointReport, Options, Result, Snapshot, WriteOptions};

/// An open database: a cheap handle, which threads may share and clone. It is its own default
/// [`Keyspace`], which it dereferences to.
///
/// ```
/// use terrace::Db;
///
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// let db = Db::open(directory.path().join("fruit"))?;
/// db.put("apple", "red")?;
/// assert!(db.get("apple")?.is_some_and(|color| color == "red"));
/// db.close()?;
/// # Ok(())
/// # }
/// ```
///
/// [`Db::close`], or dropping the last handle, closes it cleanly. A program that dies instead
/// loses nothing that the [`Durability`](crate::Durability) of its writes promised.
#[derive(Clone)]
pub struct Db {
    default: Keyspace,
}

impl Deref for Db {
    type Target = Keyspace;

    fn deref(&self) -> &Keyspace {
        &self.default
    }
}

impl Db {
    /// Opens the database in `dir` with default [`Options`], recovering what a crash left, or makes
    /// one there.
    ///
    /// Errors: `Locked` (another process has it open), `Corruption`, `Unsupported`, `NoSpace`,
    /// `Io`.
    pub fn open(dir: impl AsRef<Path>) -> Result<Db> {
        Options::default().open(dir)
    }

    /// The default options, to be changed, and opened with.
    #[must_use]
    pub fn options() -> Options {
        Options::default()
    }

    pub(crate) fn open_in_process(
        process: &Arc<Process>,
        dir: &Path,
        options: &Options,
    ) -> Result<Db> {
        let operators = OperatorTable::default();
        let filters = FilterTable::new(&options.compaction_filters);
        let mut engine = options.engine(&operators);
        engine.compaction_filter = filters.for_engine();
        let store = Store::open(process, dir, engine)?;
        Db::over(store, options, operators, filters)
    }

    /// The database whose tree is open, by an open that told it to fold by `operators` and to
    /// filter by `filters`.
    pub(crate) fn over(
        store: Store,
        options: &Options,
        operators: OperatorTable,
        filters: FilterTable,
    ) -> Result<Db> {
        let catalog = Catalog::load(&store, &options.merge_operators, operators, filters)?;
        let space = catalog.open(DEFAULT, &KeyspaceOptions::new())?;
        let shared = Arc::new(Shared { store, catalog });
        Ok(Db { default: Keyspace::new(&shared, space) })
    }

    pub(crate) fn store(&self) -> &Store {
        &self.default.shared.store
    }

    fn catalog(&self) -> &Catalog {
        &self.default.shared.catalog
    }

    /// Closes the database cleanly: ends background work, syncs, and gives the directory back. All
    /// other handles, iterators and snapshots answer `Closed` from now on. Closing twice does
    /// nothing. An object store gets what it does not have yet; if it fails for five seconds, that
    /// is logged as a warning, and the next open goes on.
    pub fn close(&self) -> Result<()> {
        Ok(self.store().close()?)
    }

    /// The keyspace of this name, made if it is missing, durably. `default` is the one that the
    /// database stands for; `1` to `1023` exist always, and cost nothing while they are empty.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// let db = terrace::Db::open(directory.path())?;
    /// db.keyspace("users")?.put("1", "Ada")?;
    /// assert_eq!(db.keyspaces()?, ["default", "users"]);
    /// assert!(db.drop_keyspace("users")?);
    /// assert!(db.keyspace("users")?.get("1")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: `Invalid` (a name is 1 to 255 bytes of UTF-8 without control characters; there are
    /// at most some 64,000 keyspaces), and those of writing.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.keyspace_with(name, KeyspaceOptions::new())
    }

    /// As [`Db::keyspace`]; what `options` say is kept with the keyspace.
    ///
    /// ```
    /// use std::time::Duration;
    /// use terrace::KeyspaceOptions;
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// let an_hour = KeyspaceOptions::new().ttl(Duration::from_secs(3600));
    /// let sessions = db.keyspace_with("sessions", an_hour)?;
    /// sessions.put("42", "Ada")?;
    /// assert!(sessions.get("42")?.is_some_and(|value| value.expires_at().is_some()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: as [`Db::keyspace`]; `Invalid` for a merge operator that is not known, or is another
    /// one than the keyspace has.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let space = self.catalog().open(name, &options)?;
        Ok(Keyspace::new(&self.default.shared, space))
    }

    /// The names of all keyspaces, in bytewise order: `default`, those that were made, and those of
    /// the numbers `1` to `1023` that hold something. Cost: a seek for each that holds something.
    pub fn keyspaces(&self) -> Result<Vec<String>> {
        self.catalog().names()
    }

    /// Whether there is a keyspace of this name: `default` and the numbers `1` to `1023` always,
    /// and every other one that [`Db::keyspaces`] lists. Makes none. What cannot be a name names
    /// none.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// let db = terrace::Db::open(directory.path())?;
    /// assert!(db.contains_keyspace("7")? && !db.contains_keyspace("users")?);
    /// db.keyspace("users")?;
    /// assert!(db.contains_keyspace("users")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: those of reading.
    pub fn contains_keyspace(&self, name: &str) -> Result<bool> {
        self.catalog().contains(name)
    }

    /// Drops a keyspace with all that it holds, in one atomic, synced write; whether there was one.
    /// Its space comes back by compaction. Handles that are left refuse to write (`NotFound`).
    /// `default` and the numbers exist always; [`Keyspace::clear`] empties them.
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        self.catalog().drop_keyspace(name)
    }

    /// Gives a keyspace another name, durably. Handles stay good.
    ///
    /// Errors: `NotFound` (there is none), `Invalid` (the new name is taken; one of the two exists
    /// always), and those of writing.
    pub fn rename_keyspace(&self, from: &str, to: &str) -> Result<()> {
        self.catalog().rename(from, to)
    }

    /// Writes a batch: all of it or nothing, visible at one moment, over all its keyspaces. Returns
    /// the number of its last entry.
    ///
    /// Errors: those of a [`Keyspace`]'s writes; `Invalid` for an entry that cannot be written, or
    /// a keyspace of another database.
    pub fn write(&self, batch: &Batch) -> Result<SeqNo> {
        self.write_with(batch, &WriteOptions::new())
    }

    /// As [`Db::write`], in another class of durability, or without waiting. What the options say
    /// of expiry is for single writes: a batch says it for each entry.
    pub fn write_with(&self, batch: &Batch, options: &WriteOptions) -> Result<SeqNo> {
        let entries = batch.checked(self.default.shared.owner())?;
        let number = self.store().write_numbered(entries, &options.engine())?;
        batch.count();
        Ok(number)
    }

    /// All keyspaces as they are now, for as long as the snapshot lives; see [`Keyspace::at`]. If a
    /// [compaction filter](crate::filter) has just done something, the call waits until that is in
    /// effect, for a sync of a few bytes; otherwise it waits for nothing.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.store().snapshot())
    }

    /// Makes everything durable that was acknowledged before the call, in any keyspace and of any
    /// [`Durability`](crate::Durability), and waits for that.
    ///
    /// Errors: `ReadOnly`, `Closed`, `Poisoned`: then it is in doubt what of it is durable.
    pub fn sync(&self) -> Result<()> {
        Ok(self.store().sync()?)
    }

    /// Makes a copy of the whole database at one moment in `dir`, which does not exist or is empty;
    /// see [`Db::checkpoint_with`].
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path().join("db"))?;
    /// db.put("key", "before")?;
    /// db.checkpoint(directory.path().join("copy"))?;
    /// db.put("key", "after")?;
    /// let copy = terrace::Db::open(directory.path().join("copy"))?;
    /// assert!(copy.get("key")?.is_some_and(|value| value == "before"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport> {
        self.checkpoint_with(dir, |_, _| true)
    }

    /// As [`Db::checkpoint`]; `progress` is called with the bytes of tables that the copy has and
    /// those that it will have, and ends the work by `false`.
    ///
    /// The copy shares the bytes of its tables with this database by hard links, so it costs a
    /// flush and little space; on another file system they are copied. It opens like any database,
    /// and deleting one of the two leaves the other. Everything acknowledged before the call is in
    /// it. Writers go on.
    ///
    /// Errors: `Invalid` (`dir` is not empty), `Cancelled`, `NoSpace`, `Io`, `ReadOnly`, `Closed`,
    /// `Poisoned`. After an error `dir` holds no database.
    pub fn checkpoint_with(
        &self,
        dir: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64) -> bool,
    ) -> Result<CheckpointReport> {
        Ok(self.store().checkpoint(dir.as_ref(), &mut progress)?)
    }

    /// What serves operators: figures, explanations, checks, upkeep.
    #[must_use]
    pub fn admin(&self) -> Admin<'_> {
        Admin::new(self)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({})", self.store().dir().display())
    }
}
