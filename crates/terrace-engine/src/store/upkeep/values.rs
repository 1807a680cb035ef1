//! The value log's upkeep: files that nobody names go, and those with much garbage are written
//! anew. `vlog/judge.rs` says which.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{Corruption, EntryKind, FileId, KeyRange};
use terrace_env::{PlantedBug, is_planted};

use crate::events::{EventKind, ValuesRecord};
use crate::fail_point::fail_point;
use crate::iter::Stream;
use crate::process::{IoClass, PoolName, TableIo};
use crate::store::Inner;
use crate::store::turns::{DamagedTables, ValuesTurn};
use crate::table::{NamesBySegment, ReadMode};
use crate::version::{Table, ValuesEdit, Version, VersionEdit};
use crate::vlog::{Judgement, Liveness, Living, Rewrite, ValueFile, ValuePointer, judge};
use crate::{Error, Result};

impl Inner {
    /// Does one thing that is due for the value log; `false` if nothing was. Whoever calls it again
    /// lets others have the thread first: compactions wait for none but a rewrite of one file.
    pub(in crate::store) fn keep_values(&self) -> Result<bool> {
        let mut turn = self.turns.values.lock();
        let reads = self.jobs.writes_locally(0);
        let was_due = self.keep_some_values(&mut turn)?;
        drop((reads, turn));
        self.reclaim()?;
        Ok(was_due)
    }

    fn keep_some_values(&self, turn: &mut ValuesTurn) -> Result<bool> {
        if self.jobs.is_cancelled() {
            return Ok(false);
        }
        let began = self.env.now();
        let (version, settled) = self.settled_values()?;
        let liveness = version.liveness();
        let barred = segments_named_by_damaged(&mut turn.damaged_tables, &version);
        let files = version.values().iter().map(|file| file.meta());
        let files = files.filter(|file| {
            let is_barred = file.segments.iter().any(|one| barred.contains(&one.id));
            let stays = is_barred || turn.damaged.contains(&file.id);
            settled.contains(&file.id) && !(stays && liveness.names_any(file))
        });
        let hidden_bytes_max = version.value_space().hidden_bytes_max;
        match judge(files, &liveness, hidden_bytes_max, &self.shape.values) {
            Judgement::Rest => return Ok(false),
            Judgement::Drop(removed) => {
                let edit = ValuesEdit { removed, added: Vec::new() };
                self.install_values(turn, &version, edit, began)?;
            }
            Judgement::Rewrite(removed) => {
                let outcome = self.rewrite_values(turn, &version, &removed, began);
                if let Err(Error::Corruption(damage)) = &outcome {
                    turn.damaged.extend(removed.iter().filter(|id| is_in(&version, **id, damage)));
                }
                outcome?;
            }
        }
        Ok(true)
    }

    /// The version, and the value files in it of which no more values will be named: the log keeps
    /// no record of them for memtables that are still to be flushed.
    fn settled_values(&self) -> Result<(Arc<Version>, BTreeSet<FileId>)> {
        let log = self.log()?;
        let is_settled = |id: &FileId| !log.keeps(*id) || is_planted(PlantedBug::JudgeKeptSegment);
        let before = self.versions.current();
        let ids = before.values().iter().map(|file| file.meta().id);
        let settled = ids.filter(is_settled).collect();
        // Order: the log lets a segment go when the flush that named the last value of it is
        // installed. So the version is read after the log was asked.
        Ok((self.versions.current(), settled))
    }

    /// Writes what lives of these files as one, and lets it take their place.
    fn rewrite_values(
        &self,
        turn: &mut ValuesTurn,
        version: &Version,
        removed: &[FileId],
        began: Duration,
    ) -> Result<()> {
        let files: Vec<&Arc<ValueFile>> =
            removed.iter().filter_map(|id| version.values().get(*id)).collect();
        let liveness = version.liveness();
        let jobs = self.process.memory().pool(PoolName::Jobs);
        let _memory = jobs.charge(rewrite_memory_bytes(&files, &liveness));
        let is_cancelled = || self.jobs.is_cancelled();
        let names = living_of(version, &files, &mut turn.damaged_tables, &is_cancelled)?;
        let bytes = files.iter().map(|file| liveness.live_bytes(file.meta())).sum();
        let mut walks = Vec::with_capacity(files.len());
        for file in &files {
            walks.push(Living::new(Arc::clone(file), &names, &is_cancelled)?);
        }
        drop(names);
        let _output = self.jobs.writes_locally(bytes);
        self.size_cache();
        let held = files.iter().flat_map(|file| file.meta().segments.iter().map(|one| one.id));
        let mut segments: Vec<FileId> = held.filter(|one| liveness.names(*one)).collect();
        segments.sort_unstable();
        let store = self.context.opener.store.as_ref();
        let id = self.ids.next();
        let io = TableIo::new(&self.io, IoClass::Compaction);
        let rewrite = Rewrite { env: &self.env, store, io, is_cancelled: &is_cancelled };
        let added = rewrite.run(id, walks, &segments, bytes)?;
        fail_point!(self.env, "values::before_install");
        let edit = ValuesEdit { removed: removed.to_vec(), added: vec![added] };
        self.install_values(turn, version, edit, began)
    }

    /// Installs a change of the value files that was begun at `began`. Tables that came meanwhile
    /// name no value of them that those before did not.
    fn install_values(
        &self,
        _turn: &ValuesTurn,
        version: &Version,
        values: ValuesEdit,
        began: Duration,
    ) -> Result<()> {
        let bytes_of = |id: &FileId| version.values().get(*id).map_or(0, |file| file.meta().bytes);
        let record = ValuesRecord {
            removed_count: values.removed.len() as u64,
            removed_bytes: values.removed.iter().map(bytes_of).sum(),
            written_bytes: values.added.iter().map(|file| file.bytes).sum(),
            took: self.env.now().saturating_sub(began),
        };
        let edit = VersionEdit { values, ..VersionEdit::default() };
        self.versions.install(edit, None, |version| {
            self.change_view(true, |view| (view.dranges.clone(), Arc::clone(version)));
        })?;
        self.tell(EventKind::ValuesKept(record));
        self.changed.notify();
        Ok(())
    }
}

/// About how many bytes a rewrite of these files takes: the names of what lives of all of them,
/// which are put in order, and the walks over it.
fn rewrite_memory_bytes(files: &[&Arc<ValueFile>], liveness: &Liveness) -> u64 {
    let of_file = |file: &&Arc<ValueFile>| {
        let meta = file.meta();
        let (count, bytes) = (liveness.named_count(meta), liveness.live_bytes(meta));
        2 * count * size_of::<u64>() as u64 + Living::memory_bytes(meta, count, bytes)
    };
    files.iter().map(of_file).sum()
}

/// Whether the damage is in this value file, which may be too damaged to be opened.
fn is_in(version: &Version, id: FileId, damage: &Corruption) -> bool {
    version.values().get(id).is_some_and(|file| match file.name() {
        Ok(name) => name == damage.file,
        Err(error) => matches!(error, Error::Corruption(_)),
    })
}

/// The tables of a version that count somewhere, each with where it counts, if not as a whole.
fn counting_tables(
    version: &Version,
) -> impl DoubleEndedIterator<Item = (&Arc<Table>, Option<&[KeyRange]>)> {
    // What of a row is consumed counts no more, and may be gone already.
    let of_rows = version.l0().live().iter().map(|live| {
        let is_whole = live.parts.is_none() && is_unclipped(&live.table);
        (&live.table, (!is_whole).then(|| live.parts()))
    });
    let of_levels: Vec<&Arc<Table>> = version.runs().flat_map(|(_, run)| run.tables()).collect();
    of_rows.chain(of_levels.into_iter().map(|table| {
        let clip = std::slice::from_ref(&table.meta().clip);
        (table, (!is_unclipped(table)).then_some(clip))
    }))
}

/// Whether all keys of a table lie within its clip interval.
fn is_unclipped(table: &Table) -> bool {
    *table.span() == table.meta().bounds
}

/// Which segments are named by tables of which nobody can say what they name: a rewrite that goes
/// without them might take what lives for dead. Tables that count no more are forgotten.
fn segments_named_by_damaged(damaged: &mut DamagedTables, version: &Version) -> BTreeSet<FileId> {
    if damaged.unreadable.is_empty() {
        return BTreeSet::new();
    }
    let is_damaged = |table: &&Arc<Table>| damaged.unreadable.contains(&table.meta().id);
    let tables: Vec<_> =
        counting_tables(version).map(|(table, _)| table).filter(is_damaged).collect();
    damaged.unreadable = tables.iter().map(|table| table.meta().id).collect();
    tables.iter().flat_map(|table| table.meta().named.iter().map(|one| one.segment)).collect()
}

/// How many entries go by between two looks whether the work is cancelled.
const ENTRIES_PER_LOOK: u32 = 1024;

/// The values that tables of a version name in these files, by segment, ascending, each once.
///
/// A table that counts as a whole is asked for its lists of them; of others, and of those without
/// lists, the entries that count are gone through.
///
/// Errors: `Corruption` of a table that cannot say what it names, which is noted in `damaged`;
/// `Closed` if the work is cancelled; what reading gives.
pub(in crate::store) fn living_of(
    version: &Version,
    files: &[&Arc<ValueFile>],
    damaged: &mut DamagedTables,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<NamesBySegment> {
    let held = files.iter().flat_map(|file| file.meta().segments.iter().map(|one| one.id));
    let names = NamesBySegment::new();
    let mut search = Search { asked: held.collect(), is_cancelled, until_look: 0, names };
    let mut tables: Vec<_> = counting_tables(version).collect();
    if is_planted(PlantedBug::RewriteForgetsATable) && version.runs().next().is_some() {
        tables.pop();
    }
    for (table, parts) in tables {
        if table.meta().named.iter().any(|one| search.asked.contains(&one.segment)) {
            let outcome = search.ask(table, parts, damaged);
            if let Err(Error::Corruption(_)) = &outcome {
                damaged.unreadable.insert(table.meta().id);
            }
            outcome?;
            if (search.is_cancelled)() {
                return Err(Error::Closed);
            }
        }
    }
    let mut names = search.names;
    for offsets in names.values_mut() {
        // Each table's are in order already.
        offsets.sort();
        offsets.dedup();
    }
    Ok(names)
}

/// A search for the values of some segments.
struct Search<'a> {
    asked: BTreeSet<FileId>,
    is_cancelled: &'a dyn Fn() -> bool,
    until_look: u32,
    names: NamesBySegment,
}

impl Search<'_> {
    /// Takes what a table names, as far as it counts: in these parts, or everywhere.
    fn ask(
        &mut self,
        table: &Table,
        parts: Option<&[KeyRange]>,
        damaged: &mut DamagedTables,
    ) -> Result<()> {
        // Of what counts in parts the lists would name the rest, too, and a file that was rewritten
        // may not have that: it would pass for damaged.
        if parts.is_none() && self.take_lists(table, damaged)? {
            return Ok(());
        }
        let parts = parts.unwrap_or(std::slice::from_ref(table.span()));
        self.read(table, parts)
    }

    /// Takes what the lists of a table have; `false` if it has none that can be read.
    fn take_lists(&mut self, table: &Table, damaged: &mut DamagedTables) -> Result<bool> {
        let listed = match table.reader(ReadMode::BLOCK)?.named_values(&self.asked) {
            Err(Error::Corruption(damage)) => {
                if damaged.lists_told.insert(table.meta().id) {
                    crate::program_log::warn!(%damage, "a rewrite goes by the entries of a table");
                }
                return Ok(false);
            }
            listed => listed?,
        };
        let Some(listed) = listed else { return Ok(false) };
        for (segment, mut offsets) in listed {
            if is_planted(PlantedBug::ListLacksAName) {
                offsets.pop();
            }
            self.names.entry(segment).or_default().append(&mut offsets);
        }
        Ok(true)
    }

    /// Takes what the entries of a table name within these parts.
    fn read(&mut self, table: &Table, parts: &[KeyRange]) -> Result<()> {
        for part in parts {
            self.read_stream(&mut table.reader(ReadMode::BLOCK)?.stream(part)?)?;
        }
        Ok(())
    }

    fn read_stream(&mut self, stream: &mut dyn Stream) -> Result<()> {
        while let Some(entry) = stream.entry() {
            // What should be a pointer and is none is damage of its key, and names nothing.
            let is_pointer = entry.kind == EntryKind::ValuePointer;
            let pointer = is_pointer.then(|| ValuePointer::decode(entry.value).ok()).flatten();
            if let Some(ValuePointer { name, .. }) = pointer
                && self.asked.contains(&name.segment)
            {
                self.names.entry(name.segment).or_default().push(name.offset);
            }
            stream.advance()?;
            match self.until_look.checked_sub(1) {
                Some(left) => self.until_look = left,
                None if (self.is_cancelled)() => return Err(Error::Closed),
                None => self.until_look = ENTRIES_PER_LOOK,
            }
        }
        Ok(())
    }
}
