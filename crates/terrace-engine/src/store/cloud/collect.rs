use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace_base::{Corruption, Epoch};
use terrace_env::{ListPage, Mutex, ObjectName, PlantedBug, WaitFactory, is_planted};

use super::{FeedBehind, mirror};
use crate::Result;
use crate::cloud::format::{Author, CheckpointObject};
use crate::cloud::{CloudFeed, CloudName, CloudNames, CloudStore, Held, WatchedPins};
use crate::placement::{FarName, FarTables};
use crate::store::Inner;
use crate::version::VersionEdit;
use crate::version::format::decode_edit;

/// So many objects are deleted in one turn, one after the other.
const DELETES_PER_TURN: usize = 8;

/// Deletes the tables from the object store that nobody needs any more.
///
/// A table goes when no version of this process names it, the feed in the store has the edit by
/// which it was dropped, and no pin holds it. Whoever takes the database over reads that edit
/// before its own, so that an owner that was fenced and does not know it deletes nothing that its
/// successor names. What goes is chosen before the pins are read: a reader that comes later reads
/// the edit.
///
/// What an earlier owner had stored and never named, or dropped and not deleted, is found by one
/// walk over the names of all tables in each open. A list may lack names: the walk of another open
/// finds their objects. What it shows is deleted only if its epoch is an earlier one and this
/// owner's first snapshot does not name it; such a table can never be named again.
pub struct FarCollector {
    store: Arc<CloudStore>,
    names: CloudNames,
    author: Author,
    state: Mutex<State>,
    dropped_count: AtomicUsize,
}

/// What is known of what nobody needs.
#[derive(Debug)]
struct State {
    orphans: Orphans,
    /// An owner that was fenced and reads them learns nothing from them.
    pins: WatchedPins,
    /// What the pins held a turn before: only a planted bug believes it.
    held_before: Held,
    /// Tables that no version of this process names any more, in whose place the feed may not be.
    released: Vec<FarName>,
    /// Tables of which no version of this process knows any more, each with the number of the
    /// object of the feed that drops it, or of a later one.
    dropped: BTreeMap<CloudName, u64>,
}

/// The walk over the tables in the store.
#[derive(Debug)]
struct Orphans {
    own: Epoch,
    /// The tables that this owner's first snapshot names.
    named: BTreeSet<CloudName>,
    /// The number of that snapshot.
    snapshot: u64,
    /// The last name that the walk has seen.
    after: Option<ObjectName>,
    is_walked: bool,
}

impl Orphans {
    /// Takes in what a list shows behind `after`; the orphans among it.
    fn take_in(&mut self, names: CloudNames, page: &ListPage) -> Vec<CloudName> {
        let ListPage { objects, is_last } = page;
        let is_orphan = |name: &CloudName| match name {
            CloudName::Table { id, .. } => id.epoch < self.own && !self.named.contains(name),
            _ => false,
        };
        let tables = objects.iter().filter_map(|object| names.parse(&object.name));
        let orphans = tables.filter(is_orphan).collect();
        self.after = objects.last().map(|object| object.name.clone());
        if *is_last || self.after.is_none() {
            self.is_walked = true;
            self.named.clear();
        }
        orphans
    }
}

impl FarCollector {
    /// The collector of the owner whose manifest begins with this snapshot, and whose feed in the
    /// store with `fed`, if that is another one; it has stored files that are mirrored.
    pub fn new(
        waits: &WaitFactory,
        store: &Arc<CloudStore>,
        names: CloudNames,
        feed: &CloudFeed,
        snapshot: &VersionEdit,
        fed: Option<&VersionEdit>,
        is_mirrored: bool,
    ) -> FarCollector {
        let Author { epoch: own, nonce } = feed.author();
        let mirrored = mirror::names_in(snapshot).filter(|_| is_mirrored);
        let of_fed = fed.map(mirror::far_names).unwrap_or_default();
        let named = mirror::far_names(snapshot).into_iter().chain(of_fed).chain(mirrored);
        let orphans = Orphans {
            own,
            named: named.map(|name| name.object()).collect(),
            snapshot: feed.number(),
            after: None,
            is_walked: false,
        };
        let pins = WatchedPins::new(store, names, nonce, feed.first_pin());
        let state = State {
            orphans,
            pins,
            held_before: Held::default(),
            released: Vec::new(),
            dropped: BTreeMap::new(),
        };
        let (store, state) = (Arc::clone(store), waits.mutex(state));
        let author = feed.author();
        FarCollector { store, names, author, state, dropped_count: AtomicUsize::new(0) }
    }

    /// How many objects wait to be deleted, as of the last turn.
    pub fn dropped_count(&self) -> usize {
        self.dropped_count.load(Ordering::Relaxed)
    }

    /// Errors: `Fenced` if somebody else has taken the number that this owner, whose feed has come
    /// to `number`, wants next; the environment's.
    pub fn require_owner(&self, number: u64) -> Result<()> {
        CloudFeed::require_owner(&self.store, self.names, self.author, number)
    }

    /// Deletes some of what nobody needs, if the feed has all; whether there may be more of it.
    ///
    /// Errors: the environment's. The next call goes on.
    pub fn collect_some(&self, far: &FarTables, behind: &FeedBehind) -> Result<bool> {
        let mut state = self.state.lock();
        let State { orphans, pins, held_before, released, dropped } = &mut *state;
        // Before the look at the feed: what is released has left the local manifest, so that the
        // edit which drops it waits by now, or was fed.
        released.extend(far.take_released());
        let Some(done) = behind.take_done() else { return Ok(false) };
        let now = released.drain(..).map(|name| (name, done.number));
        dropped.extend(now.chain(done.dropped).map(|(name, number)| (name.object(), number)));
        // Order: for the figures alone.
        self.dropped_count.store(dropped.len(), Ordering::Relaxed);
        if !dropped.is_empty() {
            let mut held = pins.read(&tables_of)?;
            if is_planted(PlantedBug::CollectBeforePins) {
                std::mem::swap(&mut held, held_before);
            }
            // A successor may have deleted pins that come before those which hold something.
            let Some(number) = behind.number() else { return Ok(false) };
            if !CloudFeed::owns(&self.store, self.names, self.author, number)? {
                return Ok(false);
            }
            behind.set_first_pin(pins.first());
            let free = dropped.iter().filter(|(name, number)| !held.holds(name, **number));
            let free: Vec<_> = free.take(DELETES_PER_TURN).map(|(name, _)| name.clone()).collect();
            for name in &free {
                self.store.delete(&self.names.of(name))?;
                dropped.remove(name);
            }
            if !free.is_empty() {
                return Ok(true);
            }
        }
        if !orphans.is_walked {
            let page = self.store.list_page(&self.names.table_prefix(), orphans.after.as_ref())?;
            let found = orphans.take_in(self.names, &page);
            if is_planted(PlantedBug::OpenDeletesByListing) {
                found.iter().try_for_each(|name| self.store.delete(&self.names.of(name)))?;
            }
            dropped.extend(found.into_iter().map(|name| (name, orphans.snapshot)));
            return Ok(true);
        }
        pins.delete_below(done.first_pin, DELETES_PER_TURN)
    }
}

/// What a checkpoint names in the store.
fn tables_of(checkpoint: &CheckpointObject) -> Result<BTreeSet<CloudName>> {
    let snapshot = decode_edit(&checkpoint.snapshot)
        .map_err(|error| Corruption::from_codec(Path::new(checkpoint.name.as_str()), 0, &error))?;
    Ok(mirror::far_names(&snapshot).iter().map(FarName::object).collect())
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
