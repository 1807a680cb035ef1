//! The read path of one key: memtables of its drange, then L0, then the levels; the newest entry
//! wins, unless a newer range tombstone covers it. A merge operand sends the read to
//! `operands.rs`.

use std::sync::Arc;

use terrace_base::{EntryRef, Expiry, SeqNo, WallTime};
use terrace_env::{PlantedBug, is_planted};

use crate::Result;
use crate::explain::{is_recording, note};
use crate::memtable::Memtable;
use crate::store::read::answer::{Answer, Newest, unsupported};
use crate::store::read::begin::At;
use crate::store::read::key_search::KeySearch;
use crate::store::read::pinned::Origin;
use crate::store::read::values::Values;
use crate::store::report::slow::GetPurpose;
use crate::store::view::{DrangeView, View};
use crate::store::{Inner, Store};
use crate::table::ReadMode;
use crate::version::Version;

/// How a key is read.
#[derive(Clone, Copy, Debug)]
pub struct GetOptions {
    /// Whether the call may wait for the disk. If not, it answers
    /// [`Error::NeedsIo`](crate::Error::NeedsIo) where it would.
    pub wait: bool,
    /// Whether the block cache keeps what was read.
    pub fill_cache: bool,
}

impl Default for GetOptions {
    fn default() -> GetOptions {
        GetOptions { wait: true, fill_cache: true }
    }
}

impl GetOptions {
    pub(in crate::store) fn mode(self) -> ReadMode {
        ReadMode { waits: self.wait, fills_cache: self.fill_cache, ahead_bytes: 0 }
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
        self.inner.get_at(key, At::Now, options.mode(), GetPurpose::Answer, read)
    }
}

impl Inner {
    /// What `read` makes of the live entry that `key` has at a number.
    #[inline]
    pub(in crate::store) fn get_at<T>(
        &self,
        key: &[u8],
        at: At,
        mode: ReadMode,
        purpose: GetPurpose<'_>,
        read: impl FnOnce(Origin<'_>, &EntryRef<'_>) -> T,
    ) -> Result<Option<T>> {
        let reading = self.begin_read(key, at)?;
        self.get_in(&reading.view, reading.search(key, mode), purpose, read)
    }

    /// What `read` makes of the live entry that `search` finds in `view`.
    #[inline]
    pub(in crate::store) fn get_in<'a, T>(
        &'a self,
        view: &View,
        mut search: KeySearch<'a>,
        purpose: GetPurpose<'_>,
        read: impl FnOnce(Origin<'_>, &EntryRef<'_>) -> T,
    ) -> Result<Option<T>> {
        let (key, read_point) = (search.key, search.read_point);
        let watch = self.watch_get(purpose, &mut search)?;
        let got = self.answer_in(view, &mut search, || self.env.wall_time(), |_| (), read);
        let was_found = got.as_ref().ok().map(Option::is_some);
        self.get_ended(watch, was_found, || (view, key, read_point));
        got.map_err(|error| self.or_closed(error))
    }

    /// What `read` makes of the entry that `search` finds in `view`, if that is live at the moment
    /// that `now` tells. The number of the newest entry is `met` in any case.
    ///
    /// Errors: `Merge`, `Unsupported`, and those of the search.
    #[inline]
    pub(in crate::store) fn answer_in<T>(
        &self,
        view: &View,
        search: &mut KeySearch<'_>,
        now: impl Fn() -> WallTime,
        met: impl FnOnce(SeqNo),
        read: impl FnOnce(Origin<'_>, &EntryRef<'_>) -> T,
    ) -> Result<Option<T>> {
        let (key, read_point, mode) = (search.key, search.read_point, search.mode);
        let mut read = Some(read);
        // Left here and not handed back through the search, which would move it at each step.
        let mut answered = None;
        let mut is_operand = false;
        newest_of(view, search, |newest| {
            met(newest.entry.seqno);
            match newest.answer(&now) {
                Answer::Value => {
                    answered = read.take().map(|read| read(newest.origin, &newest.entry));
                }
                Answer::Pointer => {
                    let fetched = Values::of(&view.version, mode).fetch(&newest.entry)?;
                    let origin = Origin::Fetched(&fetched.value);
                    answered = read.take().map(|read| read(origin, &fetched.entry(key)));
                }
                Answer::Hidden(why) => note(|notes| notes.hidden(why)),
                Answer::Operands => is_operand = true,
                Answer::Refused(kind) => return Err(unsupported(kind)),
            }
            Ok(())
        })?;
        if is_operand {
            let search = KeySearch::new(key, read_point, mode);
            let merged = self.get_merged(view, search, now())?;
            note(|notes| notes.merged(merged.as_ref().map(|merged| merged.entry(key))));
            return Ok(
                merged.and_then(|merged| Some(read.take()?(Origin::Folded, &merged.entry(key))))
            );
        }
        Ok(answered)
    }
}

/// Shows `read` the newest entry for the search's key, whatever it means, if there is one.
#[inline]
fn newest_of(
    view: &View,
    search: &mut KeySearch<'_>,
    read: impl FnOnce(Newest<'_>) -> Result<()>,
) -> Result<()> {
    let drange = view.drange_for(search.key);
    if drange.has_sets {
        return newest_of_sets(view, drange, search, read);
    }
    note(|notes| {
        let skipped = drange.memtables_skipped(search.limit);
        skipped.for_each(|one| notes.memtable_excluded(one, drange.is_active(one)));
    });
    for memtable in drange.memtables_below(search.limit) {
        // What is published is counted, so nothing that this read sees is missed.
        if memtable.is_empty() && !is_recording() {
            continue;
        }
        let covering = memtable.newest_covering(search.key, search.read_point);
        search.cover(covering);
        let found = memtable.get(search.key, search.read_point);
        note(|notes| notes.memtable(memtable, drange.is_active(memtable), covering, &found));
        if let Some(entry) = found.entry {
            let (origin, covering) = (Origin::Memtable(memtable), search.covering);
            note(|notes| notes.newest(&entry, covering));
            return read(Newest { origin, entry, covering });
        }
    }
    newest_in_tables(&view.version, search, read)
}

/// As [`newest_of`], where memtables come in sets: any of a set may hold the newest entry, or the
/// newest range tombstone, so all of it are asked.
#[inline(never)]
fn newest_of_sets(
    view: &View,
    drange: &DrangeView,
    search: &mut KeySearch<'_>,
    read: impl FnOnce(Newest<'_>) -> Result<()>,
) -> Result<()> {
    for set in drange.sets() {
        let mut newest: Option<(&Arc<Memtable>, EntryRef<'_>)> = None;
        for memtable in set {
            if search.limit != SeqNo::MAX && memtable.least_indexed() >= search.limit {
                note(|notes| notes.memtable_excluded(memtable, drange.is_active(memtable)));
                continue;
            }
            let covering = memtable.newest_covering(search.key, search.read_point);
            search.cover(covering);
            let found = memtable.get(search.key, search.read_point);
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
            let (origin, covering) = (Origin::Memtable(memtable), search.covering);
            note(|notes| notes.newest(&entry, covering));
            return read(Newest { origin, entry, covering });
        }
    }
    newest_in_tables(&view.version, search, read)
}

/// As [`newest_of`], in rows and levels only.
pub(super) fn newest_in_tables(
    version: &Version,
    search: &mut KeySearch<'_>,
    read: impl FnOnce(Newest<'_>) -> Result<()>,
) -> Result<()> {
    let mut found = search.in_rows(version.l0().content())?;
    if found.is_none() {
        for (level, run) in version.runs() {
            let Some(table) = run.table_for(search.key) else {
                if !run.is_empty() {
                    note(|notes| notes.outside_level(level.0, run.tables().len()));
                }
                continue;
            };
            search.level = level;
            found = search.in_table(table)?;
            if found.is_some() {
                break;
            }
        }
    }
    let Some(pinned) = found else { return Ok(()) };
    let (entry, covering) = (pinned.entry(search.key), search.covering);
    note(|notes| notes.newest(&entry, covering));
    read(Newest { origin: Origin::Table(&pinned), entry, covering })
}
