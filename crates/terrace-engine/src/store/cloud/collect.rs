use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use terrace_base::Epoch;
use terrace_env::{Mutex, ObjectName, WaitFactory};

use super::FeedBehind;
use crate::Result;
use crate::cloud::{CloudName, CloudNames, CloudStore};
use crate::placement::{FarName, FarTables};
use crate::store::Inner;
use crate::version::VersionEdit;

/// So many objects are deleted in one turn, one after the other.
const DELETES_PER_TURN: usize = 8;

/// Deletes the tables from the object store that nobody needs any more.
///
/// A table goes when no version of this process names it and the feed in the store has the edit by
/// which it was dropped. Whoever takes the database over reads that edit before its own, so that an
/// owner that was fenced and does not know it deletes nothing that its successor names.
///
/// What an earlier owner had stored and never named, or dropped and not deleted, is found by one
/// walk over the names of all tables in each open. A list may lack names: the walk of another open
/// finds their objects. What it shows is deleted only if its epoch is an earlier one and this
/// owner's first snapshot does not name it; such a table can never be named again.
pub struct FarCollector {
    store: Arc<CloudStore>,
    names: CloudNames,
    orphans: Mutex<Orphans>,
}

/// The walk over the tables in the store.
#[derive(Debug)]
struct Orphans {
    own: Epoch,
    /// The tables that this owner's first snapshot names.
    named: BTreeSet<CloudName>,
    /// The last name that the walk has seen.
    after: Option<ObjectName>,
    is_walked: bool,
    /// Orphans that were found and are still there.
    found: Vec<ObjectName>,
}

impl Orphans {
    /// Takes in what a list shows behind `after`.
    fn take_in(&mut self, names: CloudNames, page: Vec<ObjectName>) {
        let Some(last) = page.last() else {
            self.is_walked = true;
            self.named.clear();
            return;
        };
        self.after = Some(last.clone());
        let (own, named) = (self.own, &self.named);
        self.found.extend(page.into_iter().filter(|object| match names.parse(object) {
            Some(name @ CloudName::Table { id, .. }) => id.epoch < own && !named.contains(&name),
            _ => false,
        }));
    }
}

impl FarCollector {
    /// The collector of the owner whose first snapshot this is.
    pub fn new(
        waits: &WaitFactory,
        store: &Arc<CloudStore>,
        names: CloudNames,
        own: Epoch,
        snapshot: &VersionEdit,
    ) -> FarCollector {
        let levels = snapshot.tree.tables_added.iter().map(|(_, table)| table);
        let rows = snapshot.tree.rows_added.iter().flat_map(|row| &row.tables);
        let far = levels.chain(rows).filter_map(|table| FarName::of(&table.location));
        let orphans = Orphans {
            own,
            named: far.map(|name| name.object()).collect(),
            after: None,
            is_walked: false,
            found: Vec::new(),
        };
        FarCollector { store: Arc::clone(store), names, orphans: waits.mutex(orphans) }
    }

    /// Deletes some of what nobody needs, if the feed has all; whether there may be more of it.
    ///
    /// Errors: the environment's. The next call goes on.
    pub fn collect_some(&self, far: &FarTables, behind: &FeedBehind) -> Result<bool> {
        let mut orphans = self.orphans.lock();
        // Before the look at the feed: what is released has left the local manifest, so that the
        // edit which drops it waits by now, or was fed.
        let released = far.released(DELETES_PER_TURN);
        if !behind.has_fed_all() {
            return Ok(false);
        }
        for name in &released {
            self.store.delete(&self.names.of(&name.object()))?;
            far.forget(name);
        }
        if !released.is_empty() {
            return Ok(true);
        }
        if orphans.found.is_empty() && !orphans.is_walked {
            let page = self.store.list_page(&self.names.table_prefix(), orphans.after.as_ref())?;
            orphans.take_in(self.names, page.into_iter().map(|object| object.name).collect());
            return Ok(true);
        }
        for _ in 0..DELETES_PER_TURN {
            let Some(object) = orphans.found.last() else { break };
            self.store.delete(object)?;
            orphans.found.pop();
        }
        Ok(!orphans.found.is_empty() || !orphans.is_walked)
    }
}

impl fmt::Debug for FarCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarCollector").field("names", &self.names).finish_non_exhaustive()
    }
}

impl Inner {
    /// Deletes some of what lies in the object store and nobody needs.
    pub(in crate::store) fn collect_some(&self) -> Result<bool> {
        let Some(tier) = &self.cloud else { return Ok(false) };
        let (Some(behind), Some(collector)) = (tier.behind(), tier.collector()) else {
            return Ok(false);
        };
        collector.collect_some(&self.context.opener.far, behind)
    }
}
