//! Reading a database that another process writes.

use std::fmt;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use terrace_base::SeqNo;
use terrace_engine::options::Options as EngineOptions;
use terrace_engine::process::Process;
use terrace_engine::store::Follower;

use crate::keyspace::{FilterTable, OperatorTable};
use crate::{Db, Error, Options, Result, View};

/// A database that another process has open for writing, as it was at the last catch-up: its
/// default keyspace as a [`View`], which it dereferences to, and the others by
/// [`Secondary::keyspace`]. Made by [`Options::open_secondary`]; there may be any number.
///
/// ```
/// use terrace::{Db, Options};
///
/// # fn main() -> terrace::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// // In one process:
/// let db = Db::open(directory.path())?;
/// db.put("apple", "red")?;
///
/// // In another one:
/// let mut secondary = Options::new().open_secondary(directory.path())?;
/// assert!(secondary.get("apple")?.is_some_and(|color| color == "red"));
///
/// db.put("banana", "yellow")?;
/// assert!(secondary.get("banana")?.is_none());
/// secondary.catch_up()?;
/// assert!(secondary.get("banana")?.is_some_and(|color| color == "yellow"));
/// # Ok(())
/// # }
/// ```
///
/// **What it shows.** After an open or a [`Secondary::catch_up`]: every write that was acknowledged
/// before that call, whatever its durability, and no write without those before it. A write that is
/// under way may be visible before the writer's own call returns. In between
/// nothing changes, so several reads see one moment. Views, iterators and snapshots that were made
/// before a catch-up go on showing theirs, and keep what that needs: memory, and files that have no
/// name any more. Expiry goes on.
///
/// **What it costs the writer.** Nothing: it takes no lock, writes no byte, and the writer knows
/// nothing of it. The writer may be closed, killed and opened again meanwhile.
///
/// **Where it works.** On the machine of the writer; and anywhere, if the writer mirrors the
/// database in an object store: then it shows the newest moment that is there, and leaves a note in
/// the store ([`CloudDatabase`](crate::CloudDatabase)). Not for a database with L0 in a container,
/// or with L0 or the log on a medium of their own ([`Layout`](crate::Layout)): `Unsupported`.
pub struct Secondary {
    follower: Follower,
    options: Options,
    operators: OperatorTable,
    db: Db,
    /// Whether the follower has gone on and `db` has not.
    is_behind: bool,
}

impl Deref for Secondary {
    type Target = View;

    fn deref(&self) -> &View {
        &self.db
    }
}

impl Secondary {
    pub(crate) fn open_in_process(
        process: &Arc<Process>,
        dir: &Path,
        options: &Options,
    ) -> Result<Secondary> {
        Secondary::over(options, |engine| Follower::open(process, dir, engine))
    }

    /// What `follow` opens, given the options of the engine.
    pub(crate) fn over(
        options: &Options,
        follow: impl FnOnce(EngineOptions) -> terrace_engine::Result<Follower>,
    ) -> Result<Secondary> {
        let operators = OperatorTable::default();
        let follower = follow(options.engine(&operators))?;
        // Nothing is compacted here.
        let filters = FilterTable::default();
        let db = Db::over(follower.store().clone(), options, operators.clone(), filters)?;
        Ok(Secondary { follower, options: options.clone(), operators, db, is_behind: false })
    }

    /// Shows what the writer has done since; whether that was anything. On return every write is
    /// visible that was acknowledged before the call. After an error nothing has changed, and the
    /// call may be repeated.
    ///
    /// Cost: two listings of the directory, a look at each file of the log, and what came since.
    /// The whole log if the writer was opened anew meanwhile. What this process counts in
    /// [`Admin::stats`](crate::Admin::stats) begins anew.
    ///
    /// Errors: `Outdated` (another database has taken the place of this one: open it again),
    /// `Unsupported` (the writer has moved its log or its L0 to where they cannot be followed, or
    /// is a later version), `Corruption`, `Io`.
    pub fn catch_up(&mut self) -> Result<bool> {
        self.is_behind |= self.follower.catch_up()?;
        if !self.is_behind {
            return Ok(false);
        }
        let store = self.follower.store().clone();
        let (operators, filters) = (self.operators.clone(), FilterTable::default());
        self.db = Db::over(store, &self.options, operators, filters)?;
        self.is_behind = false;
        Ok(true)
    }

    /// The keyspace of this name, as it is at this moment: the view does not change by a catch-up.
    ///
    /// Errors: `NotFound`, if there was none at the last catch-up; those of reading.
    pub fn keyspace(&self, name: &str) -> Result<View> {
        if !self.db.contains_keyspace(name)? {
            return Err(Error::not_found(format!(
                "there was no keyspace {name} when the secondary caught up last"
            )));
        }
        Ok(View::clone(&*self.db.keyspace(name)?))
    }

    /// The names of all keyspaces at this moment; as [`Db::keyspaces`].
    pub fn keyspaces(&self) -> Result<Vec<String>> {
        self.db.keyspaces()
    }

    /// The number of the last write that is visible.
    #[must_use]
    pub fn last_seqno(&self) -> SeqNo {
        self.db.snapshot().seqno()
    }

    /// This moment as a database that is only read, for what takes one: figures and explanations
    /// ([`Db::admin`]), keyspaces. A clone of it goes on showing this moment. Writes answer
    /// `ReadOnly`; a close of it closes this moment, until a catch-up finds something new.
    #[must_use]
    pub fn as_db(&self) -> &Db {
        &self.db
    }
}

impl fmt::Debug for Secondary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.db.store().dir().display();
        write!(f, "Secondary({dir} at {:?})", self.last_seqno())
    }
}
