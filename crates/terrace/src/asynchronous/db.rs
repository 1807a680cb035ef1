use std::fmt;
use std::ops::Deref;
use std::path::Path;

use terrace_base::SeqNo;

use crate::asynchronous::AsyncKeyspace;
use crate::asynchronous::waiting::{Waiting, at_once, ended, start, turn};
use crate::{
    Batch, Db, Error, KeyspaceOptions, Options, Result, Snapshot, Transaction, WriteOptions,
};

/// An open database, as a [`Db`] is, without keeping the task's thread waiting. A cheap handle,
/// which tasks may share and clone; it is its own default keyspace, which it dereferences to.
///
/// Errors: those of the same calls of a [`Db`]; `Cancelled` if the runtime is shutting down.
#[derive(Clone)]
pub struct AsyncDb {
    default: AsyncKeyspace,
    db: Db,
}

impl Deref for AsyncDb {
    type Target = AsyncKeyspace;

    fn deref(&self) -> &AsyncKeyspace {
        &self.default
    }
}

impl Db {
    /// The same open database for programs on tokio; see [`crate::asynchronous`].
    #[must_use]
    pub fn asynchronous(&self) -> AsyncDb {
        AsyncDb::new(self.clone(), &Waiting::new())
    }
}

impl AsyncDb {
    fn new(db: Db, waiting: &Waiting) -> AsyncDb {
        AsyncDb { default: AsyncKeyspace::new((*db).clone(), waiting), db }
    }

    /// Opens the database in a directory, with default options.
    pub async fn open(dir: impl AsRef<Path>) -> Result<AsyncDb> {
        AsyncDb::open_with(&Options::default(), dir).await
    }

    /// Opens the database in a directory.
    pub async fn open_with(options: &Options, dir: impl AsRef<Path>) -> Result<AsyncDb> {
        let (options, dir) = (options.clone(), dir.as_ref().to_path_buf());
        let waiting = Waiting::new();
        let permit = waiting.permit().await;
        let db = ended(start(permit, move || options.open(dir)).await)??;
        Ok(AsyncDb::new(db, &waiting))
    }

    /// The database itself, whose calls keep the thread that they are called on.
    #[must_use]
    pub fn blocking(&self) -> &Db {
        &self.db
    }

    /// Takes `work` to a thread that may wait; what it answered.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    /// # runtime.block_on(async {
    /// use terrace::Backups;
    /// # let db = terrace::asynchronous::AsyncDb::open(directory.path().join("db")).await?;
    /// # let dir = directory.path().join("backups");
    /// let report = db.run(move |db| Backups::open(dir)?.create(db)).await?;
    /// assert_eq!(report.backup.number, 1);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub async fn run<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        work: impl FnOnce(&Db) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let db = self.db.clone();
        self.waiting().run(move || work(&db)).await
    }

    /// Closes the database; see [`Db::close`].
    pub async fn close(&self) -> Result<()> {
        self.run(Db::close).await
    }

    /// The keyspace of this name, made if it is missing, durably; see [`Db::keyspace`].
    pub async fn keyspace(&self, name: &str) -> Result<AsyncKeyspace> {
        self.keyspace_with(name, KeyspaceOptions::new()).await
    }

    /// As [`AsyncDb::keyspace`]; what `options` say is kept with the keyspace.
    pub async fn keyspace_with(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<AsyncKeyspace> {
        let name = name.to_owned();
        let keyspace = self.run(move |db| db.keyspace_with(&name, options)).await?;
        Ok(AsyncKeyspace::new(keyspace, self.waiting()))
    }

    /// Writes a batch, which is given back with the number of its last entry; see [`Db::write`].
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    /// # runtime.block_on(async {
    /// # let db = terrace::asynchronous::AsyncDb::open(directory.path()).await?;
    /// let mut batch = terrace::Batch::new();
    /// batch.put(db.blocking(), "a", "1").put(db.blocking(), "b", "2");
    /// db.write(batch).await?;
    /// assert!(db.contains_key("b").await?);
    /// # Ok(())
    /// # })
    /// # }
    /// ```
    pub async fn write(&self, batch: Batch) -> Result<SeqNo> {
        self.write_with(batch, &WriteOptions::new()).await
    }

    /// As [`AsyncDb::write`], in another class of durability.
    pub async fn write_with(&self, batch: Batch, options: &WriteOptions) -> Result<SeqNo> {
        turn().await;
        let options = options.may_wait();
        if let Some(answer) = at_once(self.db.write_with(&batch, &options.no_wait())) {
            return answer;
        }
        self.run(move |db| db.write_with(&batch, &options)).await
    }

    /// Runs `body` in a transaction, again on a conflict, on a thread that may wait; see
    /// [`Db::transaction`].
    pub async fn transaction<T, E, F>(&self, body: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Error> + Send + 'static,
        F: FnMut(&mut Transaction) -> Result<T, E> + Send + 'static,
    {
        self.run(move |db| db.transaction(body)).await
    }

    /// All keyspaces as they are now, for as long as the snapshot lives. This may wait as
    /// [`Db::snapshot`] does, and then the thread does: only where there are compaction filters.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.db.snapshot()
    }

    /// Makes everything durable that was acknowledged before the call; see [`Db::sync`].
    pub async fn sync(&self) -> Result<()> {
        self.run(Db::sync).await
    }
}

impl fmt::Debug for AsyncDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Async{:?}", self.db)
    }
}
