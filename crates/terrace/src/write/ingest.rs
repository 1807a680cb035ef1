use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_engine::store::{Ingest as EngineIngest, RunNo};

use crate::keyspace::handle::{check_key, check_owner, check_there};
use crate::keyspace::{Keyspace, KeyspaceNo, Owner, Space, WriteTally, Written};
use crate::{Error, Expiry, IngestReport, Result};

/// Sorted entries on their way into one keyspace, or into several at once; see
/// [`Keyspace::ingest`]. Dropping it before [`Ingest::finish`] leaves the database as it was.
#[derive(Debug)]
pub struct Ingest {
    inner: EngineIngest,
    owner: Arc<Owner>,
    /// The keyspace that it was begun in.
    first: KeyspaceNo,
    /// By number, which none shares with another in one opening.
    parts: BTreeMap<KeyspaceNo, Part>,
}

/// What goes into one keyspace: a run of its own, since only its keys are in order.
#[derive(Debug)]
struct Part {
    space: Arc<Space>,
    run: RunNo,
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
    /// It goes into other keyspaces, too, by [`Ingest::add_to`]: all of it, or nothing.
    ///
    /// Writers and readers go on meanwhile. Data that are not sorted are written by batches.
    /// Errors: `NotFound` (the keyspace was dropped), `ReadOnly`, `Closed`, `Poisoned`.
    pub fn ingest(&self) -> Result<Ingest> {
        let space = self.space();
        check_there(space)?;
        let inner = self.shared.store.begin_ingest()?;
        let owner = Arc::clone(self.shared.owner());
        let first =
            Part { space: Arc::clone(space), run: RunNo::FIRST, tally: WriteTally::default() };
        let parts = BTreeMap::from([(space.number, first)]);
        Ok(Ingest { inner, owner, first: space.number, parts })
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
        let part = self.parts.get_mut(&self.first).expect("it was begun with it");
        part.add(&mut self.inner, key.as_ref(), value.as_ref(), expiry)
    }

    /// Adds an entry to this keyspace, whose key comes after all before it there: the keys of each
    /// keyspace are sorted by themselves, and keyspaces may take turns.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// let (users, by_email) = (db.keyspace("users")?, db.keyspace("by_email")?);
    /// let mut load = users.ingest()?;
    /// for (id, email) in [("1", "ada@example.org"), ("2", "grace@example.org")] {
    ///     load.add(id, email)?;
    ///     load.add_to(&by_email, email, id)?;
    /// }
    /// // Both show at one moment, and no crash leaves one without the other.
    /// load.finish()?;
    /// assert!(users.contains_key("2")? && by_email.contains_key("grace@example.org")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Memory: each keyspace has a table of its own under way, of which filter and index are held;
    /// of more than 64, those that wait longest end early, so that many keyspaces in turns make
    /// small tables. Errors: those of [`Ingest::add`]; `NotFound` (the keyspace was dropped) and
    /// `Invalid` (it is of another database), after which the ingest may go on without it, too.
    pub fn add_to(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add_to_until(keyspace, key, value, None)
    }

    /// As [`Ingest::add_to`], until this moment; without one, for ever.
    pub fn add_to_until(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Option<Expiry>,
    ) -> Result<()> {
        let space = keyspace.space();
        check_owner(space, &self.owner)?;
        check_there(space)?;
        let part = self.parts.entry(space.number).or_insert_with(|| Part {
            space: Arc::clone(space),
            run: self.inner.begin_run(),
            tally: WriteTally::default(),
        });
        part.add(&mut self.inner, key.as_ref(), value.as_ref(), expiry)
    }

    /// How many entries were added, to all keyspaces together.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.inner.len()
    }

    /// Whether none was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Makes everything that was added part of the database, all of it or nothing, in all its
    /// keyspaces. On return it is visible and durable, whatever the
    /// [`Durability`](crate::Durability) of the database.
    ///
    /// Errors: `NotFound` (one of the keyspaces was dropped meanwhile), `NoSpace`, `Io`, `Closed`,
    /// `Poisoned` (nothing was ingested, in none of them); `Unknown` (find out after the next
    /// open).
    pub fn finish(self) -> Result<IngestReport> {
        let Ingest { inner, parts, .. } = self;
        let check_all = || parts.values().try_for_each(|part| check_there(&part.space));
        check_all()?;
        // A drop refuses handles before it writes. So if none has by the time at which nobody
        // writes, it comes after the ingest, and takes what that brought.
        let is_refused = || parts.values().any(|part| part.space.is_dropped());
        match inner.finish_unless(&is_refused)? {
            Some(report) => {
                parts.values().for_each(|part| part.space.counters.wrote(&part.tally));
                Ok(report)
            }
            None => Err(check_all().err().unwrap_or_else(drop_failed)),
        }
    }
}

/// A keyspace was being dropped when it was asked for, and then was not.
#[cold]
fn drop_failed() -> Error {
    Error::not_found(
        "a keyspace was about to be dropped, which failed; nothing was ingested: begin the ingest \
         anew",
    )
}

impl Part {
    fn add(
        &mut self,
        ingest: &mut EngineIngest,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> Result<()> {
        check_key(key)?;
        let stored = self.space.number.stored(key);
        ingest.add_to(self.run, stored.as_slice(), value, expiry)?;
        self.tally.add(Written::Ingested, key.len() + value.len());
        Ok(())
    }
}
