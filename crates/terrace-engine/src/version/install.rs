use std::collections::BTreeSet;
use std::sync::Arc;

use terrace_env::{Mutex, WaitFactory};

use super::{
    FeedPosition, FeedStore, NewRow, RowMeta, TableContext, Version, VersionEdit, VersionFeed,
};
use crate::ids::FileIds;
use crate::swap::ArcSwap;
use crate::{Error, Result};

/// The current version of a range, and the only way to change it.
#[derive(Debug)]
pub struct Versions {
    feeds: Arc<dyn FeedStore>,
    ids: Arc<FileIds>,
    context: Arc<TableContext>,
    current: ArcSwap<Version>,
    /// One edit at a time; guards the feed that edits go to. None in a range that is only read.
    turn: Mutex<Option<Box<dyn VersionFeed>>>,
}

/// What the versions of a range rest on.
#[derive(Debug)]
pub struct VersionsParts {
    /// Where a new feed is begun when the current one is too long or broken.
    pub feeds: Arc<dyn FeedStore>,
    /// Gives out file ids.
    pub ids: Arc<FileIds>,
    /// What the tables share.
    pub context: Arc<TableContext>,
}

impl Versions {
    /// Goes on from `version`, which `feed` holds. Without a feed nothing can be installed.
    #[must_use]
    pub fn new(
        waits: &WaitFactory,
        parts: VersionsParts,
        version: Version,
        feed: Option<Box<dyn VersionFeed>>,
    ) -> Versions {
        let VersionsParts { feeds, ids, context } = parts;
        version.installed_after(None);
        let current = ArcSwap::from_pointee(version);
        Versions { feeds, ids, context, current, turn: waits.mutex(feed) }
    }

    /// The current version.
    #[must_use]
    pub fn current(&self) -> Arc<Version> {
        self.current.load_full()
    }

    /// Makes `edit` durable and then current, and `row` with it the newest of L0: it gets its id
    /// here, in the order of installation. Rows of which a cut of the edit leaves nothing go with
    /// it. `publish` is called with the new version before the next edit may begin: it makes the
    /// version visible to readers.
    ///
    /// Errors: `Poisoned` if a sync failed; `ReadOnly`; after any other error nothing was
    /// installed, and the edit may be tried again. The files that it names must be left alone even
    /// then: the edit may have reached the disk.
    pub fn install(
        &self,
        mut edit: VersionEdit,
        row: Option<NewRow>,
        publish: impl FnOnce(&Arc<Version>),
    ) -> Result<Arc<Version>> {
        let mut turn = self.turn.lock();
        let feed = turn.as_mut().ok_or(Error::ReadOnly)?;
        let current = self.current();
        let row = row.map(|row| RowMeta { id: current.next_row(), tables: row.tables });
        edit.tree.rows_added.extend(row);
        if !edit.tree.cuts.is_empty() {
            // Which of several cuts takes the last of a row is known only now.
            edit.tree.rows_removed.extend(current.rows_consumed_by(&edit.tree.cuts));
        }
        if current.cloud().is_some() {
            edit.range.edit_count = Some(current.edit_count() + 1);
        }
        let next = current
            .apply(&edit, &self.context)
            .map_err(|misfit| Error::Poisoned(format!("a version edit does not fit: {misfit}")))?;
        assert_follows(&current, &next);
        let next = Arc::new(next);
        if feed.wants_snapshot() {
            *feed = self.feeds.begin(self.ids.next(), &next.to_snapshot())?;
        } else {
            feed.append(&edit)?;
        }
        next.installed_after(Some(&current));
        mark_removed(&current, &next);
        self.current.store(Arc::clone(&next));
        publish(&next);
        Ok(next)
    }

    /// Begins a new feed if the current one was broken by a failed append, or is too long, so that
    /// the next edit can be appended to it.
    pub fn restart_feed_if_broken(&self) -> Result<()> {
        let mut turn = self.turn.lock();
        let feed = turn.as_mut().ok_or(Error::ReadOnly)?;
        if feed.wants_snapshot() {
            *feed = self.feeds.begin(self.ids.next(), &self.current().to_snapshot())?;
        }
        Ok(())
    }

    /// Hands over the current version as a snapshot, while nothing is installed: what is installed
    /// later comes to the feed after `take` has returned.
    ///
    /// Errors: `ReadOnly`.
    pub fn with_snapshot(&self, take: impl FnOnce(&VersionEdit, &Arc<Version>)) -> Result<()> {
        let turn = self.turn.lock();
        turn.as_ref().ok_or(Error::ReadOnly)?;
        let current = self.current();
        take(&current.to_snapshot(), &current);
        Ok(())
    }

    /// Appends an edit that says where the log ended at a clean close.
    pub fn close(&self, edit: &VersionEdit) -> Result<()> {
        let mut turn = self.turn.lock();
        turn.as_mut().ok_or(Error::ReadOnly)?.append(edit)
    }

    /// The version without a row and a table, which is the current one from now on: of a range that
    /// was closed nobody reads any more.
    pub fn let_go_of_tables(&self) -> Arc<Version> {
        let current = self.current();
        let emptied = Arc::new(current.without_tables());
        emptied.installed_after(Some(&current));
        self.current.store(Arc::clone(&emptied));
        emptied
    }

    /// Where the feed ends.
    #[must_use]
    pub fn feed_end(&self) -> FeedPosition {
        self.turn.lock().as_ref().map(|feed| feed.end()).unwrap_or_default()
    }
}

#[cfg(all(test, terrace_loom))]
impl Versions {
    /// Drops a version in the order that its count would have; see `ArcSwap`.
    pub(super) fn let_go(&self, version: Arc<Version>) {
        self.current.let_go(version);
    }
}

/// What only grows has not gone back, and the new version is whole: what is wrong here would be
/// durable in a moment.
fn assert_follows(old: &Version, next: &Version) {
    let (before, after) = (old.log_start().position, next.log_start().position);
    assert!(before <= after, "the log would start at {after}, before {before}");
    let (before, after) = (old.greatest_seqno(), next.greatest_seqno());
    assert!(before <= after, "tables would hold numbers up to {after}, before up to {before}");
    assert!(old.next_row() <= next.next_row(), "the id of a row would be given out twice");
    assert_eq!(old.database(), next.database(), "an edit makes it another database");
    assert_eq!(old.epoch(), next.epoch(), "only an open raises the epoch");
    if cfg!(debug_assertions) {
        assert_eq!(next.contradiction(), None);
    }
}

/// The edit is durable: tables that only the old version names may go with it.
fn mark_removed(old: &Version, next: &Version) {
    let live: BTreeSet<_> = next.tables().map(|table| table.meta().id).collect();
    for table in old.tables().filter(|table| !live.contains(&table.meta().id)) {
        table.mark_removed();
    }
    old.values().mark_removed(next.values());
}
