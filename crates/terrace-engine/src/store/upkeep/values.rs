//! The value log's upkeep: files that nobody names go, and those with much garbage are written
//! anew. `vlog/judge.rs` says which.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{Corruption, EntryKind, FileId};
use terrace_env::{PlantedBug, is_planted};

use crate::events::{EventKind, ValuesRecord};
use crate::fail_point::fail_point;
use crate::iter::Stream;
use crate::process::{IoClass, PoolName, TableIo};
use crate::store::Inner;
use crate::store::turns::ValuesTurn;
use crate::table::ReadMode;
use crate::version::{Table, ValuesEdit, Version, VersionEdit};
use crate::vlog::format::entry_bytes;
use crate::vlog::{
    Judgement, Liveness, Living, LivingValue, Rewrite, ValueFile, ValuePointer, judge,
};
use crate::{Error, Result};

impl Inner {
    /// Does one thing that is due for the value log; `false` if nothing was. Whoever calls it again
    /// lets others have the thread first: compactions wait for none but a rewrite of one file.
    pub(super) fn keep_values(&self) -> Result<bool> {
        let mut turn = self.turns.values.lock();
        let was_due = self.keep_some_values(&mut turn)?;
        drop(turn);
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
        let files = version.values().iter().map(|file| file.meta());
        let files = files.filter(|file| {
            let is_damaged = turn.damaged.contains(&file.id);
            settled.contains(&file.id) && !(is_damaged && liveness.names_any(file))
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
        turn: &ValuesTurn,
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
        let values = living_of(version, &files, &is_cancelled)?;
        let bytes = values.iter().map(|value| value.entry_bytes).sum();
        let mut own: BTreeMap<FileId, Vec<LivingValue>> = BTreeMap::new();
        for value in values {
            if let Some(file) = version.values().of_segment(value.pointer.name.segment) {
                own.entry(file.meta().id).or_default().push(value);
            }
        }
        let mut walks = Vec::with_capacity(files.len());
        for file in &files {
            let own = own.remove(&file.meta().id).unwrap_or_default();
            walks.push(Living::new(Arc::clone(file), &own, &is_cancelled)?);
        }
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

/// About how many bytes a rewrite of these files takes: the list of what lives of all of them, and
/// the walks over it.
fn rewrite_memory_bytes(files: &[&Arc<ValueFile>], liveness: &Liveness) -> u64 {
    let of_file = |file: &&Arc<ValueFile>| {
        let meta = file.meta();
        let (count, bytes) = (liveness.named_count(meta), liveness.live_bytes(meta));
        count * size_of::<LivingValue>() as u64 + Living::memory_bytes(meta, count, bytes)
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

/// How many entries go by between two looks whether the work is cancelled.
const ENTRIES_PER_LOOK: u32 = 1024;

/// The values that tables of a version name in these files, each once, ascending by name. Errors:
/// `Closed` if the work is cancelled, and what reading gives.
pub(in crate::store) fn living_of(
    version: &Version,
    files: &[&Arc<ValueFile>],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<LivingValue>> {
    let held = files.iter().flat_map(|file| file.meta().segments.iter().map(|one| one.id));
    let mut search =
        Search { asked: held.collect(), is_cancelled, until_look: 0, living: Vec::new() };
    let names = |table: &Table, asked: &BTreeSet<FileId>| {
        table.meta().named.iter().any(|one| asked.contains(&one.segment))
    };
    // What of a row is consumed counts no more, and may be gone already.
    for live in version.l0().live() {
        if names(&live.table, &search.asked) {
            for part in live.parts() {
                search.read(&mut live.table.reader(ReadMode::BLOCK)?.stream(part)?)?;
            }
        }
    }
    let of_levels: Vec<_> = version.runs().flat_map(|(_, run)| run.tables()).collect();
    let forgotten = usize::from(is_planted(PlantedBug::RewriteForgetsATable));
    for table in &of_levels[..of_levels.len().saturating_sub(forgotten)] {
        if names(table, &search.asked) {
            search.read(&mut table.reader(ReadMode::BLOCK)?.stream(&table.meta().clip)?)?;
        }
    }
    let mut living = search.living;
    living.sort_unstable();
    living.dedup_by_key(|value| value.pointer.name);
    Ok(living)
}

/// A search for the values of some segments.
struct Search<'a> {
    asked: BTreeSet<FileId>,
    is_cancelled: &'a dyn Fn() -> bool,
    until_look: u32,
    living: Vec<LivingValue>,
}

impl Search<'_> {
    fn read(&mut self, stream: &mut dyn Stream) -> Result<()> {
        while let Some(entry) = stream.entry() {
            // What should be a pointer and is none is damage of its key, and names nothing.
            let is_pointer = entry.kind == EntryKind::ValuePointer;
            let pointer = is_pointer.then(|| ValuePointer::decode(entry.value).ok()).flatten();
            let is_asked = |one: &ValuePointer| self.asked.contains(&one.name.segment);
            if let Some(pointer) = pointer.filter(is_asked) {
                let entry_bytes = entry_bytes(entry.key.len(), pointer.bytes as usize);
                self.living.push(LivingValue { pointer, seqno: entry.seqno, entry_bytes });
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
