//! What serves operators: figures, explanations, checks, upkeep.

use std::collections::BTreeMap;

use terrace_engine::options::Setting;
use terrace_engine::process::{MemoryPool, PoolName};
use terrace_engine::store::Store;

use crate::view::{KeyRange, View};
use crate::{
    CheckReport, CompactionRecord, Db, DrangesReport, GetExplanation, Keyspace, KeyspaceStats,
    L0Report, Metrics, RecoveryReport, Result, ScanExplanation, SlowOperation, Stats, explain,
};

/// What an operator asks of an open database; made by [`Db::admin`].
///
/// ```
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = terrace::Db::open(directory.path())?;
/// db.put("key", "value")?;
/// println!("{}", db.admin().stats());
/// println!("{}", db.admin().explain_get(&db, "key")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Admin<'a> {
    db: &'a Db,
}

impl<'a> Admin<'a> {
    pub(super) fn new(db: &'a Db) -> Admin<'a> {
        Admin { db }
    }

    fn store(&self) -> &'a Store {
        self.db.store()
    }

    /// What the database has done since it was opened, and what it holds now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::new(self.store().stats())
    }

    /// What each keyspace was asked since the open, by name: of those that were opened since then
    /// ([`Db::keyspace`]), as the others were asked nothing. A renamed one is under its new name.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// db.keyspace("users")?.put("1", "Ada")?;
    /// for (name, stats) in db.admin().keyspaces() {
    ///     println!("{name}: {} keys read, {} put", stats.get_count(), stats.put_count);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn keyspaces(&self) -> BTreeMap<String, KeyspaceStats> {
        self.db.catalog().stats().into_iter().collect()
    }

    /// The figures of the database, latencies, and what its keyspaces were asked, for monitoring.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::of(self.store(), self.db.catalog().stats())
    }

    /// Gives an option anew while the database is open. It holds at once, for this database and for
    /// all that share cache, memory and threads with it; the listeners of this one are told
    /// ([`EventKind::OptionChanged`](crate::events::EventKind::OptionChanged)). The next open goes
    /// by its own [`Options`](crate::Options) again. What a keyspace has of its own is changed by
    /// opening it with other [`KeyspaceOptions`](crate::KeyspaceOptions); all else takes an open.
    ///
    /// ```
    /// use terrace::{Db, Setting};
    ///
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = Db::open(directory.path())?;
    /// // By day quietly, by night as fast as the disk.
    /// db.admin().set(Setting::BackgroundIoLimit(Some(20 << 20)))?;
    /// db.admin().set(Setting::BackgroundIoLimit(None))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: `Invalid`, as an open would say of the option; `Closed`; `Io`, if there are no more
    /// threads to be had.
    pub fn set(&self, setting: Setting) -> Result<()> {
        Ok(self.store().set(setting)?)
    }

    /// The setting of this name, with a value in digits, as a program reads them from a file; 0 is
    /// for no limit.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// let admin = db.admin();
    /// admin.set(admin.setting("cache_bytes", "134217728")?)?;
    /// let refused = admin.setting("memtable_bytes", "1048576").unwrap_err();
    /// assert!(refused.to_string().starts_with("memtable_bytes takes an open"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Errors: `Invalid` (there is no such option; it takes an open; the value is no number).
    pub fn setting(&self, name: &str, value: &str) -> Result<Setting> {
        Ok(Setting::parse(name, value)?)
    }

    /// The options that can change while the database is open, as they are now.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        self.store().process().settings().to_vec()
    }

    /// What the open found: a clean close, or what a crash had left.
    #[must_use]
    pub fn recovery(&self) -> &'a RecoveryReport {
        self.store().recovery()
    }

    /// Reads `key`, and says what the read met on its way and why it answered as it did.
    ///
    /// ```
    /// # fn main() -> terrace::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a temporary directory");
    /// # let db = terrace::Db::open(directory.path())?;
    /// db.put("key", "value")?;
    /// db.delete("key")?;
    /// let explanation = db.admin().explain_get(&db, "key")?;
    /// assert!(explanation.to_string().ends_with("hidden: tombstone 2 is the newest entry"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn explain_get(&self, view: &View, key: impl AsRef<[u8]>) -> Result<GetExplanation> {
        let key = view.space().number.stored(key.as_ref());
        Ok(explain::get_as_asked(match view.snapshot_of_engine() {
            None => view.store().explain_get(key.as_slice())?,
            Some(snapshot) => snapshot.explain_get(key.as_slice())?,
        }))
    }

    /// Walks up to `limit` keys of an interval as they are now, from the last one if `reverse` is
    /// set, and says where they came from and what was stepped over.
    pub fn explain_scan(
        &self,
        keyspace: &Keyspace,
        range: impl KeyRange,
        limit: u64,
        reverse: bool,
    ) -> Result<ScanExplanation> {
        let stored = keyspace.space().number.stored_range(&range);
        let explanation = self.store().explain_scan(stored, limit, reverse)?;
        Ok(explain::scan_as_asked(explanation))
    }

    /// How the writes are spread over the parts that keys are divided into for writing, of all
    /// keyspaces together. `Display` draws it, `Serialize` is for programs.
    #[must_use]
    pub fn dranges(&self) -> DrangesReport {
        explain::dranges_as_asked(self.store().dranges())
    }

    /// What is in L0, of all keyspaces together: what is left of each row, slice by slice, and the
    /// next cut. `Display` draws it, `Serialize` is for programs. It may wait for the disk.
    pub fn l0(&self) -> Result<L0Report> {
        Ok(explain::l0_as_asked(self.store().l0()?))
    }

    /// The last 4,096 compactions that merged tables since the open, in the order in which they
    /// ended.
    #[must_use]
    pub fn compactions(&self) -> Vec<CompactionRecord> {
        self.store().compactions()
    }

    /// The slowest gets, scans and writes of the last minutes in all keyspaces, the slowest first:
    /// at most some hundred. An operation is seen if it had to wait for something, and otherwise
    /// with a chance of one in [`SAMPLE_EVERY`](crate::SAMPLE_EVERY).
    #[must_use]
    pub fn slow_operations(&self) -> Vec<SlowOperation> {
        self.store().slow_operations().into_iter().map(explain::slow_as_asked).collect()
    }

    /// Forgets the slow operations so far.
    pub fn reset_slow_operations(&self) {
        self.store().reset_slow_operations();
    }

    /// Reads every table from front to back and judges every byte; see [`Admin::check_with`].
    pub fn check(&self) -> Result<CheckReport> {
        self.check_with(|_, _| ())
    }

    /// As [`Admin::check`]; `progress` is called with the bytes checked and the bytes in all.
    pub fn check_with(&self, mut progress: impl FnMut(u64, u64)) -> Result<CheckReport> {
        Ok(CheckReport::new(self.store().check(&mut progress)?))
    }

    /// Writes all memtables to tables. Not needed for durability; it makes the next open faster.
    pub fn flush(&self) -> Result<()> {
        Ok(self.store().flush()?)
    }

    /// Flushes, and rewrites everything in an interval down to the deepest level in use: no deleted
    /// or overwritten version takes space afterwards unless a snapshot needs it, and the
    /// [compaction filter](crate::filter) of the keyspace was asked about all of it, but for what
    /// snapshots and transactions saw meanwhile. Takes as long as reading and writing all of it.
    pub fn compact(&self, keyspace: &Keyspace, range: impl KeyRange) -> Result<()> {
        Ok(self.store().compact(&keyspace.space().number.stored_range(&range))?)
    }

    /// Waits until no flush, compaction or other background work is due or running: for tools that
    /// want to measure or copy a tree at rest. Writes that go on meanwhile make it wait for longer.
    pub fn settle(&self) {
        self.store().settle();
    }

    /// The pool to which a server charges what it holds for its clients: part of the database's
    /// [memory](crate::Options::memory_bytes).
    #[doc(hidden)]
    #[must_use]
    pub fn client_memory(&self) -> MemoryPool {
        self.store().process().memory().pool(PoolName::Clients).clone()
    }
}
