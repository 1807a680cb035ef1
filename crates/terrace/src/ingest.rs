use terrace_engine::store::Ingest as EngineIngest;

use crate::batch::check_key;
use crate::keyspace::Keyspace;
use crate::{Db, Expiry, IngestReport, Result};

/// Sorted entries on their way into the database; see [`Db::begin_ingest`]. Dropping it before
/// [`Ingest::finish`] leaves the database as it was.
#[derive(Debug)]
pub struct Ingest {
    inner: EngineIngest,
    keyspace: Keyspace,
}

impl Db {
    /// Begins an ingest of sorted data: entries become tables as they are added, without log and
    /// memtable, and show all at once when it is finished, as newer than anything written before
    /// that.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path(), terrace::Options::default())?;
    /// let mut ingest = db.begin_ingest()?;
    /// for number in 0..1000_u32 {
    ///     ingest.add(&number.to_be_bytes(), b"a value", None)?;
    /// }
    /// assert_eq!(ingest.finish()?.entry_count, 1000);
    /// assert!(db.get(&7_u32.to_be_bytes())?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Writers and readers go on meanwhile. Errors: `ReadOnly`, `Closed`, `Poisoned`.
    pub fn begin_ingest(&self) -> Result<Ingest> {
        Ok(Ingest { inner: self.store.begin_ingest()?, keyspace: self.keyspace })
    }

    /// Ingests keys and values that come in ascending order, each key once: all of them or none.
    ///
    /// Errors: `Invalid` if they do not; those of [`Ingest::finish`].
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        let mut ingest = self.begin_ingest()?;
        for (key, value) in entries {
            ingest.add(key.as_ref(), value.as_ref(), None)?;
        }
        ingest.finish()
    }
}

impl Ingest {
    /// Adds an entry, whose key comes after all before it. Errors: `Invalid` if it does not, or if
    /// key or value are too long (nothing was added, and the ingest may go on); `NoSpace` and `Io`,
    /// after which it is of no use.
    pub fn add(&mut self, key: &[u8], value: &[u8], expiry: Option<Expiry>) -> Result<()> {
        check_key(key)?;
        Ok(self.inner.add(self.keyspace.stored(key).as_slice(), value, expiry)?)
    }

    /// How many entries were added.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Whether none was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Makes everything that was added part of the database, all of it or nothing. On return it is
    /// visible and durable, whatever the [`Durability`](crate::Durability) of the database.
    ///
    /// Errors: `NoSpace`, `Io`, `Closed`, `Poisoned` (nothing was ingested); `Unknown` (find out
    /// after the next open).
    pub fn finish(self) -> Result<IngestReport> {
        Ok(self.inner.finish()?)
    }
}
