//! The read path of one key: memtables of its drange, then L0, then the levels; the newest entry
//! wins, unless a newer range tombstone covers it. A merge operand sends the read to
//! `operands.rs`.

use std::sync::Arc;

use terrace_base::{EntryKind, EntryRef, Expiry, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use crate::explain::note;
use crate::l0::Lookup;
use crate::memtable::Memtable;
use crate::store::read::begin::At;
use crate::store::read::pinned::Origin;
use crate::store::view::{DrangeView, View};
use crate::store::{Inner, Store};
use crate::table::ReadMode;
use crate::version::Version;
use crate::{Error, Result};

/// How a key is read.
#[derive(Clone, Copy, Debug)]
pub struct GetOptions {
    /// Whether the call may wait for the disk. If not, it answers [`Error::NeedsIo`] where it
    /// would.
    pub wait: bool,
}

impl Default for GetOptions {
    fn default() -> GetOptions {
        GetOptions { wait: true }
    }
}

impl GetOptions {
    pub(in crate::store) fn mode(self) -> ReadMode {
        if self.wait { ReadMode::Block } else { ReadMode::NoWait }
    }
}

/// A value with what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The value.
    pub value: Vec<u8>,
    /// When it goes, if ever.
    pub expiry: Option<Expiry>,
    /// When it was written.
    pub seqno: SeqNo,
}

impl Item {
    pub(in crate::store) fn copy_of(entry: &EntryRef<'_>) -> Item {
        Item { value: entry.value.to_vec(), expiry: entry.expiry, seqno: entry.seqno }
    }
}

impl Store {
    /// The value of `key` now; `None` if there is none.
    pub fn get(&self, key: &[u8], options: &GetOptions) -> Result<Option<Item>> {
        self.get_with(key, options, Item::copy_of)
    }

    /// What `read` makes of the current entry of `key`, without copying the value first; `None`
    /// if the key has none. `read` must not call back into the store.
    pub fn get_with<T>(
        &self,
        key: &[u8],
        options: &GetOptions,
        read: impl FnOnce(&EntryRef<'_>) -> T,
    ) -> Result<Option<T>> {
        self.get_from(key, options, |_, entry| read(entry))
    }

    /// As [`Store::get_with`]; `read` is told where the entry lies, too.
    pub(super) fn get_from<T>(
        &self,
        key: &[u8],
        options: &GetOptions,
        read: impl FnOnce(Origin<'_>, &EntryRef<'_>) -> T,
    ) -> Result<Option<T>> {
        let reading = self.inner.begin_read(key, At::Now)?;
        let lookup = reading.lookup(key, options.mode());
        let got = self.inner.get_watched(&reading.view, lookup, read);
        got.map_err(|error| self.inner.or_closed(error))
    }
}

impl Inner {
    /// The live entry that `lookup` finds in `view`.
    pub(in crate::store) fn get_in<T>(
        &self,
        view: &View,
        mut lookup: Lookup<'_>,
        read: impl FnOnce(Origin<'_>, &EntryRef<'_>) -> T,
    ) -> Result<Option<T>> {
        let (key, read_point, mode) = (lookup.key, lookup.read_point, lookup.mode);
        let mut read = Some(read);
        let mut is_operand = false;
        let found = newest_of(view, &mut lookup, |source, entry| match entry.kind {
            EntryKind::Value => {
                let expiry = entry.expiry;
                let expired = expiry.is_some_and(|at| at.is_expired(self.env.wall_time()));
                if expired {
                    note(|notes| notes.expired());
                }
                Ok(read.take().filter(|_| !expired).map(|read| read(source, &entry)))
            }
            EntryKind::Tombstone => Ok(None),
            EntryKind::MergeOperand => {
                is_operand = true;
                Ok(None)
            }
            other => Err(unsupported(other)),
        })?;
        if is_operand {
            let lookup = Lookup::new(key, read_point, mode);
            let merged = self.get_merged(view, lookup, self.env.wall_time())?;
            note(|notes| notes.merged(merged.as_ref().map(|merged| merged.entry(key))));
            return Ok(
                merged.and_then(|merged| Some(read.take()?(Origin::Folded, &merged.entry(key))))
            );
        }
        found.unwrap_or(Ok(None))
    }
}

/// The error for an entry that this version stores but cannot answer from.
pub(in crate::store) fn unsupported(kind: EntryKind) -> Error {
    Error::Unsupported(format!("an entry of kind {kind:?} was written by a later version"))
}

/// What `read` makes of the newest entry for the lookup's key, whatever its kind; `None` if there
/// is none, or if a range tombstone covers it (which `lookup` has noted then).
pub(in crate::store) fn newest_of<T>(
    view: &View,
    lookup: &mut Lookup<'_>,
    read: impl FnOnce(Origin<'_>, EntryRef<'_>) -> T,
) -> Result<Option<T>> {
    let drange = view.drange_for(lookup.key);
    if drange.has_sets {
        return newest_of_sets(view, drange, lookup, read);
    }
    note(|notes| {
        let skipped = drange.memtables_skipped(lookup.limit);
        skipped.for_each(|one| notes.memtable_excluded(one, drange.is_active(one)));
    });
    for memtable in drange.memtables_below(lookup.limit) {
        let covering = memtable.newest_covering(lookup.key, lookup.read_point);
        lookup.cover(covering);
        let found = memtable.get(lookup.key, lookup.read_point);
        note(|notes| notes.memtable(memtable, drange.is_active(memtable), covering, &found));
        if let Some(entry) = found.entry {
            note(|notes| notes.newest(&entry, lookup.covering));
            let is_live = lookup.covering.is_none_or(|covering| entry.seqno > covering);
            return Ok(is_live.then(|| read(Origin::Memtable(memtable), entry)));
        }
    }
    newest_in_tables(&view.version, lookup, read)
}

/// As [`newest_of`], where memtables come in sets: any of a set may hold the newest entry, or the
/// newest range tombstone, so all of it are asked.
#[inline(never)]
fn newest_of_sets<T>(
    view: &View,
    drange: &DrangeView,
    lookup: &mut Lookup<'_>,
    read: impl FnOnce(Origin<'_>, EntryRef<'_>) -> T,
) -> Result<Option<T>> {
    for set in drange.sets() {
        let mut newest: Option<(&Arc<Memtable>, EntryRef<'_>)> = None;
        for memtable in set {
            if lookup.limit != SeqNo::MAX && memtable.least_indexed() >= lookup.limit {
                note(|notes| notes.memtable_excluded(memtable, drange.is_active(memtable)));
                continue;
            }
            let covering = memtable.newest_covering(lookup.key, lookup.read_point);
            lookup.cover(covering);
            let found = memtable.get(lookup.key, lookup.read_point);
            note(|notes| notes.memtable(memtable, drange.is_active(memtable), covering, &found));
            let Some(entry) = found.entry else { continue };
            if newest.is_none_or(|(_, other)| entry.seqno > other.seqno) {
                newest = Some((memtable, entry));
            }
            if is_planted(PlantedBug::GetStopsAtFirstDuplicate) {
                break;
            }
        }
        if let Some((memtable, entry)) = newest {
            note(|notes| notes.newest(&entry, lookup.covering));
            let is_live = lookup.covering.is_none_or(|covering| entry.seqno > covering);
            return Ok(is_live.then(|| read(Origin::Memtable(memtable), entry)));
        }
    }
    newest_in_tables(&view.version, lookup, read)
}

/// As [`newest_of`], in rows and levels only.
pub(super) fn newest_in_tables<T>(
    version: &Version,
    lookup: &mut Lookup<'_>,
    read: impl FnOnce(Origin<'_>, EntryRef<'_>) -> T,
) -> Result<Option<T>> {
    let mut found = version.l0().get(lookup)?;
    if found.is_none() {
        for (level, run) in version.runs() {
            let Some(table) = run.table_for(lookup.key) else {
                if !run.is_empty() {
                    note(|notes| notes.outside_level(level.0, run.tables().len()));
                }
                continue;
            };
            lookup.level = level;
            found = lookup.search(table)?;
            if found.is_some() {
                break;
            }
        }
    }
    let Some(pinned) = found else { return Ok(None) };
    let entry = pinned.entry(lookup.key);
    note(|notes| notes.newest(&entry, lookup.covering));
    let is_live = lookup.covering.is_none_or(|covering| entry.seqno > covering);
    Ok(is_live.then(|| read(Origin::Table(&pinned), entry)))
}
