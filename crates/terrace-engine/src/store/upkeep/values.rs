//! The value log's upkeep: files that nobody names go, and those with much garbage are written
//! anew. `vlog/judge.rs` says which.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::{EntryKind, FileId};
use terrace_env::{PlantedBug, is_planted};

use crate::Result;
use crate::events::{EventKind, ValuesRecord};
use crate::fail_point::fail_point;
use crate::iter::Stream;
use crate::process::{IoClass, TableIo};
use crate::store::Inner;
use crate::store::turns::ValuesTurn;
use crate::table::ReadMode;
use crate::version::{Table, ValuesEdit, Version, VersionEdit};
use crate::vlog::format::entry_bytes;
use crate::vlog::{Judgement, Living, LivingValue, Rewrite, ValueFile, ValuePointer, judge};

impl Inner {
    /// Does one thing that is due for the value log; `false` if nothing was. Whoever calls it again
    /// lets others have the thread first: compactions wait for none but a rewrite of one file.
    pub(super) fn keep_values(&self) -> Result<bool> {
        let turn = self.turns.values.lock();
        let was_due = self.keep_some_values(&turn)?;
        drop(turn);
        self.reclaim()?;
        Ok(was_due)
    }

    fn keep_some_values(&self, turn: &ValuesTurn) -> Result<bool> {
        if self.jobs.is_cancelled() {
            return Ok(false);
        }
        let began = self.env.now();
        let (version, settled) = self.settled_values()?;
        let files = version.values().iter().map(|file| file.meta());
        let files = files.filter(|file| settled.contains(&file.id));
        let liveness = version.liveness();
        let hidden_bytes_max = version.value_space().hidden_bytes_max;
        match judge(files, &liveness, hidden_bytes_max, &self.shape.values) {
            Judgement::Rest => return Ok(false),
            Judgement::Drop(removed) => {
                let edit = ValuesEdit { removed, added: Vec::new() };
                self.install_values(turn, &version, edit, began)?;
            }
            Judgement::Rewrite(removed) => self.rewrite_values(turn, &version, removed, began)?,
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
        removed: Vec<FileId>,
        began: Duration,
    ) -> Result<()> {
        let files: Vec<&Arc<ValueFile>> =
            removed.iter().filter_map(|id| version.values().get(*id)).collect();
        let values = living_of(version, &files)?;
        let mut walks = Vec::with_capacity(files.len());
        for file in &files {
            let holds = |value: &&LivingValue| file.holds(value.pointer.name.segment);
            let own: Vec<LivingValue> = values.iter().filter(holds).copied().collect();
            walks.push(Living::new(Arc::clone(file), &own)?);
        }
        let liveness = version.liveness();
        let held = files.iter().flat_map(|file| file.meta().segments.iter().map(|one| one.id));
        let mut segments: Vec<FileId> = held.filter(|one| liveness.names(*one)).collect();
        segments.sort_unstable();
        let bytes = values.iter().map(|value| value.entry_bytes).sum();
        let is_cancelled = || self.jobs.is_cancelled();
        let store = self.context.opener.store.as_ref();
        let id = self.ids.next();
        let io = TableIo::new(&self.io, IoClass::Compaction);
        let rewrite = Rewrite { env: &self.env, store, io, is_cancelled: &is_cancelled };
        let added = rewrite.run(id, walks, &segments, bytes)?;
        fail_point!(self.env, "values::before_install");
        self.install_values(turn, version, ValuesEdit { removed, added: vec![added] }, began)
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

/// The values that tables of a version name in these files, each once, ascending by name.
fn living_of(version: &Version, files: &[&Arc<ValueFile>]) -> Result<Vec<LivingValue>> {
    let mut living = Vec::new();
    let is_asked = |segment: FileId| files.iter().any(|file| file.holds(segment));
    let names = |table: &Table| table.meta().named.iter().any(|one| is_asked(one.segment));
    // What of a row is consumed counts no more, and may be gone already.
    for live in version.l0().live().iter().filter(|live| names(&live.table)) {
        for part in live.parts() {
            let mut stream = live.table.reader(ReadMode::BLOCK)?.stream(part)?;
            add_named(&mut stream, &is_asked, &mut living)?;
        }
    }
    let of_levels: Vec<_> = version.runs().flat_map(|(_, run)| run.tables()).collect();
    let forgotten = usize::from(is_planted(PlantedBug::RewriteForgetsATable));
    let of_levels = &of_levels[..of_levels.len().saturating_sub(forgotten)];
    for table in of_levels.iter().filter(|table| names(table)) {
        let mut stream = table.reader(ReadMode::BLOCK)?.stream(&table.meta().clip)?;
        add_named(&mut stream, &is_asked, &mut living)?;
    }
    living.sort_unstable();
    living.dedup_by_key(|value| value.pointer.name);
    Ok(living)
}

fn add_named(
    stream: &mut dyn Stream,
    is_asked: &dyn Fn(FileId) -> bool,
    living: &mut Vec<LivingValue>,
) -> Result<()> {
    while let Some(entry) = stream.entry() {
        // What should be a pointer and is none is damage of its key, and names nothing.
        let is_pointer = entry.kind == EntryKind::ValuePointer;
        let pointer = is_pointer.then(|| ValuePointer::decode(entry.value).ok()).flatten();
        if let Some(pointer) = pointer.filter(|pointer| is_asked(pointer.name.segment)) {
            let entry_bytes = entry_bytes(entry.key.len(), pointer.bytes as usize);
            living.push(LivingValue { pointer, seqno: entry.seqno, entry_bytes });
        }
        stream.advance()?;
    }
    Ok(())
}
