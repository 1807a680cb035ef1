//! Ingest: sorted data from elsewhere becomes tables of the range, without log and memtable.
//!
//! # Why
//! Data that comes sorted needs no sorting. Written as tables at once, and put where a compaction
//! would take them in the end, each byte is written once.
//!
//! # How
//! ```text
//!   build tables outside the tree, entries without a number        (writers go on);
//!     several runs of sorted data may be built in turns; large values go into value files
//!   make their names durable
//!   take the turn of flushes
//!   freeze and flush what overlaps them                            (writers go on)
//!   hold every drange
//!     freeze and flush what overlaps them and came since           (little)
//!     sync the log
//!     N := the next number
//!     install: tables with number N, into the deepest level above which nothing overlaps them
//!     give N out, and publish it
//! ```
//!
//! A number taken before the tables are built would be wrong in both directions: a snapshot taken
//! during the building would see the tables appear, and a write of the same key during the building
//! would have a greater number, could be compacted below the place where the tables go, and would
//! be hidden by them. So the number is taken at the end, the entries in the files bear zero, and
//! the version says what that stands for ([`is_unnumbered`]).
//!
//! [`is_unnumbered`]: crate::table::TableProperties::is_unnumbered
//!
//! # Why no reader meets an older entry over a newer one
//! 1. *N is greater than every number given out before, less than every one after*: it is taken and
//!    given out under exclusive holds on every drange, where no write is under way.
//! 2. *Everything newer lies above.* Whatever is written later goes into memtables, which are above
//!    L0 and the levels, and leaves them into rows that are newer than an ingested one, or
//!    (if the tables went to a level) into L0, which is above it. Compactions keep this order.
//! 3. *Nothing older that overlaps lies above, or beside.* No memtable overlaps the tables: those
//!    that did were flushed, and the turn of flushes is held, so nothing reaches L0 meanwhile. The
//!    tables go into level L only if no table of L0 … L overlaps them, else into L0 as its newest
//!    row. A compaction that runs meanwhile moves entries down only, and writes into no gap of L
//!    that they lie in: the ingest takes tables, level and keys as a compaction does ([`Taken`]).
//! 4. *Who reads below N does not see them*: the whole table is hidden at such a read point, and
//!    what it hides at others is still there below it. So snapshots and iterators that are older
//!    see no change, in whatever view. Whoever reads at N or above took its read point after N was
//!    published, which is after the view that names the tables. Iterators and snapshots take the
//!    view after the point; a get takes it before, and begins anew if it is not the current one any
//!    more then. (The memtables stay as they are, so a view of before the ingest would show it what
//!    was written after N, without N.)
//! 5. *Conditional writes* read the newest inserted entry under exclusive holds, so they come
//!    before all of this or after it.
//!
//! # All or nothing
//! One edit names all the tables, and the files of their values. It is durable before it is
//! current, and what it names is durable before it: a crash leaves all of them or orphans, which
//! the next open deletes. The log is synced first, so no crash leaves the ingested entries and
//! loses an earlier write. If appending the edit fails, it may have reached the disk all the same
//! (unless there was no room for it): a new manifest without it is begun at once, so that the
//! refused tables cannot come back and their number is free again; if that fails too, the outcome
//! is unknown, and the range takes no more writes.

use std::sync::Arc;

use terrace_base::limits::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use terrace_base::{
    EntryKind, EntryRef, Expiry, FileId, KeyRange, LEVEL_MAX, LevelNo, SeqNo, TableUid,
};
use terrace_env::{PlantedBug, is_planted};

use super::ingested_values::IngestedValues;
use crate::compaction::pick::{Compaction, Input, Taken};
use crate::events::{EventKind, InstallRecord};
use crate::iter::Cursor;
use crate::memtable::Memtable;
use crate::store::turns::FlushTurn;
use crate::store::upkeep::all_held::AllHeld;
use crate::store::{Inner, Store};
use crate::table::{TableBuilder, table_meta};
use crate::version::{NewRow, Table, TableMeta, TreeEdit, ValuesEdit, Version, VersionEdit};
use crate::{Error, Result};

/// How many tables are under way at a time, each of another run. Where there are more runs, the
/// table that nothing was added to for longest ends early.
const BUILDERS_MAX: usize = 64;

/// Sorted entries on their way into the range; see [`Store::begin_ingest`]. Dropping it before
/// [`Ingest::finish`] leaves the range as it was.
pub struct Ingest {
    store: Store,
    runs: Vec<Run>,
    /// The tables that are written, of all runs.
    tables: Vec<TableMeta>,
    values: IngestedValues,
    /// Whether the files may be in the tree, so that they are not deleted with this.
    is_given_away: bool,
    entry_count: u64,
}

/// Entries in ascending order. No other run of the ingest has keys between them.
#[derive(Default)]
struct Run {
    builder: Option<(FileId, TableBuilder)>,
    /// Of the last entry, if there was one.
    last_key: Option<Vec<u8>>,
    /// How many entries the ingest had after the last one of this run.
    touched: u64,
}

/// One of the sorted runs that an ingest is put together of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunNo(usize);

impl RunNo {
    /// The run that every ingest has.
    pub const FIRST: RunNo = RunNo(0);
}

/// What an ingest came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestReport {
    /// The number of all its entries; for an ingest of nothing the newest one that readers see.
    pub seqno: SeqNo,
    /// How many entries.
    pub entry_count: u64,
    /// How many tables they became.
    pub table_count: u64,
    /// The bytes of these.
    pub table_bytes: u64,
    /// The bytes of the value files that their large values became.
    pub value_bytes: u64,
    /// Where they went: the deepest level above which nothing overlapped them.
    pub level: LevelNo,
}

impl Store {
    /// Begins an ingest: entries go into tables as they are added, and show all at once when it is
    /// finished, as newer than anything written before that.
    ///
    /// Writers go on meanwhile, and wait for the last step of [`Ingest::finish`]. Memory: that of
    /// one table's filter and index for each run, and for 64 at most. Where there is a value log,
    /// large values go into value files at once.
    ///
    /// Errors: `ReadOnly`, `Closed`, `Poisoned`.
    pub fn begin_ingest(&self) -> Result<Ingest> {
        self.inner.log()?;
        self.inner.check_healthy()?;
        Ok(Ingest {
            store: self.clone(),
            runs: vec![Run::default()],
            tables: Vec::new(),
            values: IngestedValues::default(),
            is_given_away: false,
            entry_count: 0,
        })
    }
}

impl Ingest {
    /// As [`Ingest::add_to`], in the first run.
    pub fn add(&mut self, key: &[u8], value: &[u8], expiry: Option<Expiry>) -> Result<()> {
        self.add_to(RunNo::FIRST, key, value, expiry)
    }

    /// Another run, which may be added to in turns with those that there are.
    pub fn begin_run(&mut self) -> RunNo {
        self.runs.push(Run::default());
        RunNo(self.runs.len() - 1)
    }

    /// Adds an entry, whose key comes after all before it in its run. Errors: `Invalid` if it does
    /// not, or if key or value are too long (nothing was added, and the ingest may go on); those of
    /// writing tables, after which it is of no use.
    pub fn add_to(
        &mut self,
        run: RunNo,
        key: &[u8],
        value: &[u8],
        expiry: Option<Expiry>,
    ) -> Result<()> {
        if let Some(last) = self.runs[run.0].last_key.as_deref().filter(|last| key <= *last) {
            let text = match key == last {
                true => "the key is there twice; ingested keys come in ascending order, each once",
                false => "the key comes before the one ahead of it; sort the data by key bytewise",
            };
            return Err(Error::invalid(text));
        }
        check_bounds(key, value)?;
        let table_bytes = self.store.inner.options.table_bytes;
        let is_full =
            |(_, builder): &(FileId, TableBuilder)| builder.estimated_bytes() >= table_bytes;
        if self.runs[run.0].builder.as_ref().is_some_and(is_full) {
            self.end_table(run)?;
        }
        let seqno = SeqNo::ZERO;
        let entry = EntryRef { key, seqno, kind: EntryKind::Value, expiry, value };
        self.begin_builder(run)?;
        let entry = self.values.separate(entry, &self.store.inner)?;
        self.runs[run.0].builder.as_mut().expect("it was begun").1.add(entry)?;
        self.entry_count += 1;
        let run = &mut self.runs[run.0];
        run.touched = self.entry_count;
        let last_key = run.last_key.get_or_insert_default();
        last_key.clear();
        last_key.extend_from_slice(key);
        Ok(())
    }

    /// Begins a table of the run, unless one is under way.
    fn begin_builder(&mut self, run: RunNo) -> Result<()> {
        if self.runs[run.0].builder.is_none() {
            self.make_room_for_a_builder()?;
            let inner = &self.store.inner;
            let _work = inner.begin_work()?;
            inner.check_healthy()?;
            let env = &inner.env;
            let (id, uid) = (inner.ids.next(), TableUid(env.random_u128()));
            // Its level is chosen last, as deep as can be.
            let writer = inner.context.opener.store.create(id, LEVEL_MAX, 0)?;
            let options = &inner.options.table;
            let builder = TableBuilder::new(writer, uid, options, env.wall_time());
            self.runs[run.0].builder = Some((id, builder));
        }
        Ok(())
    }

    /// Ends the table that nothing was added to for longest, if there are as many as there may be.
    fn make_room_for_a_builder(&mut self) -> Result<()> {
        let building = || (0..self.runs.len()).filter(|run| self.runs[*run].builder.is_some());
        if self.runs.len() <= BUILDERS_MAX || building().count() < BUILDERS_MAX {
            return Ok(());
        }
        match building().min_by_key(|run| self.runs[*run].touched) {
            Some(oldest) => self.end_table(RunNo(oldest)),
            None => Ok(()),
        }
    }

    fn end_table(&mut self, run: RunNo) -> Result<()> {
        if let Some((id, builder)) = self.runs[run.0].builder.take() {
            let _work = self.store.inner.begin_work()?;
            let built = self.store.inner.poison_if_sync_failed(builder.finish())?;
            self.tables.push(table_meta(id, built));
        }
        Ok(())
    }

    /// How many entries were added.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entry_count
    }

    /// Whether none was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// Makes everything that was added part of the range, all of it or nothing. On return it is
    /// visible and durable, and so is every write that was acknowledged before.
    ///
    /// Errors: `Invalid` (runs have keys between each other's), `NoSpace`, `Io`, `Closed`,
    /// `Poisoned` (nothing was ingested); `Unknown` (it may show after the next open).
    pub fn finish(self) -> Result<IngestReport> {
        Ok(self.finish_unless(&|| false)?.expect("nobody refuses it"))
    }

    /// As [`Ingest::finish`], unless `is_refused` says so: nothing was ingested then, and `None` is
    /// the answer. It is asked once no write is under way, and none begins before all of it is
    /// there: whoever decides by a word that a writer sets before it writes is in order with that
    /// writer. It must not call the store.
    pub fn finish_unless(mut self, is_refused: &dyn Fn() -> bool) -> Result<Option<IngestReport>> {
        let inner = Arc::clone(&self.store.inner);
        let _work = inner.begin_work()?;
        (0..self.runs.len()).try_for_each(|run| self.end_table(RunNo(run)))?;
        self.values.end_file(&inner)?;
        if self.tables.is_empty() {
            inner.check_healthy()?;
            if is_refused() {
                return Ok(None);
            }
            let seqno = inner.sequencer.visible();
            let level = LevelNo(0);
            return Ok(Some(IngestReport {
                seqno,
                entry_count: 0,
                table_count: 0,
                table_bytes: 0,
                value_bytes: 0,
                level,
            }));
        }
        self.tables.sort_unstable_by(|one, other| one.bounds.start().cmp(other.bounds.start()));
        if self.tables.windows(2).any(|pair| pair[0].bounds.overlaps(&pair[1].bounds)) {
            return Err(Error::invalid("two runs of the ingest have keys between each other's"));
        }
        let outcome = inner.poison_if_sync_failed(inner.ingest(&mut self, is_refused));
        inner.changed.notify();
        inner.schedule_compaction();
        outcome
    }
}

impl Drop for Ingest {
    fn drop(&mut self) {
        // A table under way is deleted by its writer.
        if self.is_given_away || std::thread::panicking() {
            return;
        }
        // Once the range is closed they are left to the next open.
        let Ok(_work) = self.store.inner.begin_work() else { return };
        let tables = self.tables.iter().map(|table| &table.location);
        for location in tables.chain(self.values.files().iter().map(|file| &file.location)) {
            if let Err(error) = self.store.inner.context.opener.store.delete(location) {
                crate::program_log::debug!(%error, "an abandoned file is left to the next open");
            }
        }
    }
}

impl std::fmt::Debug for Ingest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ingest of {} entries", self.entry_count)
    }
}

fn check_bounds(key: &[u8], value: &[u8]) -> Result<()> {
    let too_long =
        [("key", key.len(), STORED_KEY_BYTES_MAX), ("value", value.len(), VALUE_BYTES_MAX)];
    match too_long.into_iter().find(|(_, bytes, bytes_max)| bytes > bytes_max) {
        None => Ok(()),
        Some((what, bytes, bytes_max)) => Err(Error::invalid(format!(
            "the {what} has {bytes} bytes, at most {bytes_max} are allowed"
        ))),
    }
}

/// The tables, and a level and an interval of keys, which no compaction touches for as long as this
/// lives.
struct IngestPlace<'a> {
    inner: &'a Inner,
    taken: Compaction,
}

impl Drop for IngestPlace<'_> {
    fn drop(&mut self) {
        self.inner.jobs.taken.lock().give_back(&self.taken);
    }
}

impl Inner {
    /// Installs the tables, whose content is durable; nothing if it is refused.
    fn ingest(
        &self,
        ingest: &mut Ingest,
        is_refused: &dyn Fn() -> bool,
    ) -> Result<Option<IngestReport>> {
        if !is_planted(PlantedBug::IngestInstallsBeforeSync) {
            self.context.opener.store.sync(LEVEL_MAX)?;
        }
        let _caller_waits = self.io.hurry_flushes();
        let turn = self.turns.flush.lock();
        if self.memtables_overlap(&ingest.tables)? {
            let frozen = self.with_all_held(|all| self.freeze_held(all))?;
            self.flush_these(&turn, frozen, |except| self.oldest_position(except))?;
        }
        let ingested = self.with_all_held(|all| match is_refused() {
            true => Ok(None),
            false => self.ingest_held(&turn, all, ingest).map(Some),
        });
        self.schedule_indexing();
        ingested
    }

    fn ingest_held(
        &self,
        turn: &FlushTurn,
        all: &mut AllHeld<'_>,
        ingest: &mut Ingest,
    ) -> Result<IngestReport> {
        let is_in_the_way = self.memtables_overlap(&ingest.tables)?;
        if is_in_the_way && !is_planted(PlantedBug::IngestBelowOlderEntries) {
            let frozen = self.freeze_held(all)?;
            self.flush_these(turn, frozen, |except| self.oldest_position_held(all, except))?;
        }
        let (finished, end) = self.sequencer.finished();
        self.sync_log(finished, end)?;
        let number = self.sequencer.next_seqno();
        if let Some(log) = self.outliving_log() {
            log.change_beside(end, number);
        }
        for table in &mut ingest.tables {
            (table.least_seqno, table.greatest_seqno) = (number, number);
        }
        let place = self.place_for(&ingest.tables);
        let level = place.taken.output_level;
        let tables = ingest.tables.clone();
        let report = IngestReport {
            seqno: number,
            entry_count: ingest.entry_count,
            table_count: tables.len() as u64,
            table_bytes: tables.iter().map(|table| table.bytes).sum(),
            value_bytes: ingest.values.files().iter().map(|file| file.bytes).sum(),
            level,
        };
        let greatest = match is_planted(PlantedBug::IngestLowersGreatestNumber) {
            true => SeqNo(number.0 - 1),
            false => number,
        };
        let mut edit = TreeEdit { greatest_seqno: Some(greatest), ..TreeEdit::default() };
        let mut row = None;
        match level {
            LevelNo(0) => row = Some(NewRow { tables }),
            _ => edit.tables_added = tables.into_iter().map(|table| (level, table)).collect(),
        }
        ingest.is_given_away = true;
        if level == LevelNo(0) {
            self.expect_unindexed(number, turn);
        }
        let publishes_early = is_planted(PlantedBug::IngestPublishesBeforeInstall);
        if publishes_early {
            self.sequencer.skip_one(all);
        }
        let record = InstallRecord::of(&edit, row.as_ref());
        let values = ValuesEdit { added: ingest.values.files().to_vec(), removed: Vec::new() };
        let edit = VersionEdit { values, ..edit.into() };
        let installed = self.versions.install(edit, row, |version| {
            self.change_view(false, |view| (view.dranges.clone(), Arc::clone(version)));
        });
        if let Err(error) = installed {
            let refused = self.refuse_ingest(ingest, error);
            if let Some(log) = self.outliving_log() {
                log.forget_change(number);
            }
            return Err(refused);
        }
        // Order: the number comes after the view. Until it is published no compaction has the
        // tables: it would take what they hide for dead, and a reader below the number may still
        // register.
        if !publishes_early {
            self.sequencer.skip_one(all);
        }
        drop(place);
        self.tell(EventKind::Installed(record));
        let IngestReport { table_bytes: bytes, value_bytes, .. } = report;
        self.tell(EventKind::Ingested { level: level.0, bytes, value_bytes });
        Ok(report)
    }

    /// What a failed installation means. The edit may be on the disk, and the number in it: a new
    /// manifest makes sure that it does not count. Where that fails no write may get the number.
    fn refuse_ingest(&self, ingest: &mut Ingest, error: Error) -> Error {
        let mended = match &error {
            Error::Poisoned(reason) => Err(reason.clone()),
            // What there was no room for is not there as a whole, and half an edit is none.
            Error::NoSpace(_) => Ok(()),
            passing => self
                .versions
                .restart_feed_if_broken()
                .map_err(|second| format!("{passing}; {second}")),
        };
        match mended {
            Ok(()) => {
                ingest.is_given_away = false;
                error
            }
            Err(reason) => {
                self.poison(&format!("an ingest was cut short: {reason}"));
                Error::Unknown(self.poison_reason())
            }
        }
    }

    /// Whether a memtable holds anything where these tables lie.
    fn memtables_overlap(&self, tables: &[TableMeta]) -> Result<bool> {
        let view = self.view.load();
        for drange in &view.dranges {
            for memtable in drange.memtables() {
                for table in tables.iter().filter(|table| table.bounds.overlaps(&drange.keys)) {
                    if overlaps(memtable, &table.bounds)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// The deepest level above which nothing overlaps the tables, taken with them.
    fn place_for(&self, tables: &[TableMeta]) -> IngestPlace<'_> {
        let nothing = KeyRange::new("", Some(Vec::new()));
        let slice = tables.iter().fold(nothing, |hull, table| hull.hull(&table.bounds));
        let table =
            |meta: &TableMeta| Arc::new(Table::new(meta.clone(), Arc::clone(&self.context)));
        let inputs: Vec<Arc<Table>> = tables.iter().map(table).collect();
        let mut taken = self.jobs.taken.lock();
        let version = self.versions.current();
        let input =
            |level, table: &Arc<Table>| Input { level, table: Arc::clone(table), parts: None };
        let place = |level| Compaction {
            slice: slice.clone(),
            through: None,
            // The row that the tables become: the turn of flushes is held.
            rows: (level == LevelNo(0)).then_some(version.next_row()).into_iter().collect(),
            inputs: inputs.iter().map(|table| input(level, table)).collect(),
            output_level: level,
            rewrites: false,
            cut_end: None,
        };
        let level = deepest_free(&version, tables, &taken, place).unwrap_or(LevelNo(0));
        // A row that joins L0 is in the way of no job that merges older ones.
        taken.reserve(&place(level));
        IngestPlace { inner: self, taken: place(level) }
    }
}

fn overlaps(memtable: &Arc<Memtable>, span: &KeyRange) -> Result<bool> {
    let mut cursor = memtable.cursor(SeqNo::MAX);
    cursor.seek(span.start())?;
    if cursor.entry().is_some_and(|entry| span.contains(entry.key)) {
        return Ok(true);
    }
    let tombstones = memtable.range_tombstones();
    let mut spans = tombstones.iter().map(|t| KeyRange::new(t.start, Some(t.end.to_vec())));
    Ok(spans.any(|tombstone| tombstone.overlaps(span)))
}

/// The deepest level that the tables can go to: no table of it, nor of one above it, overlaps them,
/// and no compaction writes into it there.
fn deepest_free(
    version: &Version,
    tables: &[TableMeta],
    taken: &Taken,
    place: impl Fn(LevelNo) -> Compaction,
) -> Option<LevelNo> {
    let rows = version.l0().live();
    if tables.iter().any(|table| rows.iter().any(|row| row.overlaps(&table.bounds))) {
        return None;
    }
    let is_free = |level: &LevelNo| {
        let run = version.run(*level);
        tables.iter().all(|table| run.overlapping(&table.bounds).is_empty())
            && taken.is_free(&place(*level))
    };
    (1..=LEVEL_MAX.0).map(LevelNo).take_while(is_free).last()
}
