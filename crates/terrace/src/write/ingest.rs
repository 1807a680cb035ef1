use std::sync::Arc;

use terrace_engine::store::Ingest as EngineIngest;

use crate::keyspace::handle::{check_key, check_there};
use crate::keyspace::{Keyspace, Space, WriteTally, Written};
use crate::{Expiry, IngestReport, Result};

/// Sorted entries on their way into a keyspace; see [`Keyspace::ingest`]. Dropping it before
/// [`Ingest::finish`] leaves the database as it was.
#[derive(Debug)]
pub struct Ingest {
    inner: EngineIngest,
    space: Arc<Space>,
    tally: WriteTally,
}

impl Keyspace {
    /// Begins an ingest of sorted data: entries become tables as they are added, without log and
    /// memtable, and show all at once when it is finished, as newer than anything written before
    /// that.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// let mut load = db.ingest()?;
    /// for number in 0..1000_u32 {
    ///     load.add(number.to_be_bytes(), "a value")?;
    /// }
    /// assert_eq!(load.finish()?.entry_count, 1000);
    /// assert!(db.contains_key(7_u32.to_be_bytes())?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Writers and readers go on meanwhile. Data that are not sorted are written by batches.
    /// Errors: `NotFound` (the keyspace was dropped), `ReadOnly`, `Closed`, `Poisoned`.
    pub fn ingest(&self) -> Result<Ingest> {
        check_there(self.space())?;
        let (space, tally) = (Arc::clone(self.space()), WriteTally::default());
        Ok(Ingest { inner: self.shared.store.begin_ingest()?, space, tally })
    }
}

impl Ingest {
    /// Adds an entry, whose key comes after all before it. Errors: `Invalid` if it does not, or if
    /// key or value are too long (nothing was added, and the ingest may go on); `NoSpace` and `Io`,
    /// after which it is of no use.
    pub fn add(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add_until(key, value, None)
    }

    /// As [`Ingest::add`], until this moment; without one, for ever.
    pub fn add_until(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Option<Expiry>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_key(key)?;
        let stored = self.space.number.stored(key);
        self.inner.add(stored.as_slice(), value, expiry)?;
        self.tally.add(Written::Ingested, key.len() + value.len());
        Ok(())
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
    /// Errors: `NotFound` (the keyspace was dropped meanwhile), `NoSpace`, `Io`, `Closed`,
    /// `Poisoned` (nothing was ingested); `Unknown` (find out after the next open).
    pub fn finish(self) -> Result<IngestReport> {
        check_there(&self.space)?;
        let report = self.inner.finish()?;
        self.space.counters.wrote(&self.tally);
        Ok(report)
    }
}
