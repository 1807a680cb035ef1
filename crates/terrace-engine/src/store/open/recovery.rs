//! Recovery: what the log still holds becomes memtables again.
//!
//! # How much memory it takes
//! A log may be longer than what memtables may take. So an open reads it as far as its end, and
//! judges all of it, but fills only as many memtables as fit. Nothing is written until then. Once
//! the log is understood and the new epoch is durable, those memtables are flushed, and the *rest*
//! of the log is read once more, from the first record that was not inserted, and flushed on the
//! way (`rest.rs`). A log that fits is read once.
//!
//! ```text
//!   log      ├── memtables that fit ──┤── rest ───────────────────┤
//!   reading  judge, insert             judge                        writes nothing
//!   then     flush                     insert, flush, insert, …     the range is not yet anybody's
//! ```

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use terrace_base::limits::is_beyond_bounds;
use terrace_base::{Corruption, EntryRef, KeyRange, LogPosition, MemtableId, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use crate::Result;
use crate::drange::Frozen;
use crate::events::OpenStep;
use crate::ids::FileIds;
use crate::memtable::Memtable;
use crate::options::Options;
use crate::process::{Charge, PoolName, Process};
use crate::store::open::progress::LogMeter;
use crate::store::open::refill::{Chunk, Workers};
use crate::version::{LoadedFeed, Version, manifest_path};
use crate::wal::format::BatchBody;
use crate::wal::{LogStore, ReadRecord, Replayed};

/// What a replay made of the log.
#[derive(Debug)]
pub struct Recovered {
    /// What the log itself reports.
    pub replayed: Replayed,
    /// Memtables that were filled up on the way, oldest first.
    pub full: Vec<Arc<Frozen>>,
    /// What those take.
    pub _full_charge: Charge,
    /// The first record that no memtable was filled with, for lack of memory. Then `last` is empty.
    pub rest: Option<LogPosition>,
    /// The last memtable, which may go on being written to.
    pub last: Arc<Memtable>,
    /// No record of the last memtable stands below this position.
    pub last_begin: LogPosition,
    /// The memtables of earlier opens whose entries are in `full` and `last` together.
    pub covers: Vec<MemtableId>,
    /// The greatest number found, in tables or in the log.
    pub greatest_seqno: SeqNo,
    /// Entries replayed.
    pub entry_count: u64,
}

/// What takes memtables that were filled up; whether there is memory for another one.
pub(super) type TakeFull<'a> = dyn FnMut(Arc<Frozen>) -> Result<bool> + 'a;

/// Fills memtables from records, in the append order.
pub(super) struct Refill<'a> {
    meter: LogMeter<'a>,
    options: &'a Options,
    ids: &'a FileIds,
    version: &'a Version,
    workers: Workers,
    /// Records below this position are in memtables or tables already.
    from: LogPosition,
    take_full: &'a mut TakeFull<'a>,
    /// What the last memtable takes.
    charge: Charge,
    /// Records for the last memtable that were not handed over yet.
    chunk: Chunk,
    /// What is left of the last memtable if all that was handed over needs as much as it may.
    room_bytes: usize,
    /// As in [`Recovered`].
    covers: BTreeSet<MemtableId>,
    out: Filled,
}

/// What a [`Refill`] came to; each field as in [`Recovered`].
pub(super) struct Filled {
    pub last: Arc<Memtable>,
    pub last_begin: LogPosition,
    pub rest: Option<LogPosition>,
    pub covers: Vec<MemtableId>,
    pub greatest_seqno: SeqNo,
    pub entry_count: u64,
}

/// What a replay works with.
#[derive(Clone, Copy)]
pub(super) struct Replay<'a> {
    pub process: &'a Process,
    pub log: &'a dyn LogStore,
    pub options: &'a Options,
    pub ids: &'a FileIds,
    /// What of the open it is.
    pub step: OpenStep,
}

/// Replays the log from where `version` says, with `threads` threads. Writes nothing.
///
/// Memtables filled on the way are flushed before the last one, and only the last one covers the
/// memtables of earlier opens: a crash between two of these flushes replays from the position of
/// the first that is left.
///
/// One thread reads and judges the records, in their order, so what is found, and which error is
/// given, does not depend on how many there are.
pub(super) fn recover(replay: Replay<'_>, version: &Version) -> Result<Recovered> {
    let pool = replay.process.memory().pool(PoolName::Memtables);
    let full_charge = pool.charge(0);
    let bytes_max = match replay.options.read_only {
        // Nothing can be flushed.
        true => usize::MAX,
        false => bytes_kept_max(replay.process, replay.options),
    };
    let (mut full, mut full_bytes) = (Vec::new(), 0usize);
    let mut take_full = |frozen: Arc<Frozen>| {
        full_bytes += frozen.memtable.used_bytes();
        full_charge.set(full_bytes as u64);
        full.push(frozen);
        Ok(full_bytes.saturating_add(replay.options.memtable_bytes) <= bytes_max)
    };
    let facts = version.log_facts();
    let mut refill =
        Refill::new(replay, version, facts.start.position.max(facts.settled), &mut take_full);
    let replayed = replay.log.replay(facts, &mut |record| refill.record(record))?;
    let filled = refill.finish();
    let Filled { last, last_begin, rest, covers, greatest_seqno, entry_count } = filled;
    Ok(Recovered {
        replayed,
        full,
        _full_charge: full_charge,
        rest,
        last,
        last_begin,
        covers,
        greatest_seqno,
        entry_count,
    })
}

/// How many bytes of memtables a replay keeps: as many as writers would be let fill.
pub(super) fn bytes_kept_max(process: &Process, options: &Options) -> usize {
    let by_count = options.memtable_bytes.saturating_mul(options.frozen_memtables_max.max(1));
    by_count.min(usize::try_from(process.memory().memtable_bytes_max()).unwrap_or(usize::MAX))
}

impl<'a> Refill<'a> {
    /// Begins with the record at `from`, or the first one after it; what was flushed, `version`
    /// says.
    pub(super) fn new(
        replay: Replay<'a>,
        version: &'a Version,
        from: LogPosition,
        take_full: &'a mut TakeFull<'a>,
    ) -> Refill<'a> {
        let Replay { process, options, ids, step, .. } = replay;
        let threads = process.recovery_threads();
        let last = Arc::new(Memtable::new(ids.next_memtable(), options.memtable_bytes));
        Refill {
            meter: LogMeter::new(process.env(), &options.listeners, step),
            options,
            ids,
            version,
            workers: Workers::new(
                process.env(),
                threads,
                options.memtable_bytes,
                version.flushed().clone(),
            ),
            from,
            take_full,
            charge: process.memory().pool(PoolName::Memtables).charge(last.limit_bytes() as u64),
            chunk: Chunk::new(&last),
            room_bytes: 0,
            covers: BTreeSet::new(),
            out: Filled {
                last,
                last_begin: from,
                rest: None,
                covers: Vec::new(),
                greatest_seqno: version.greatest_seqno(),
                entry_count: 0,
            },
        }
    }

    /// Returns when all records are inserted that can be.
    pub(super) fn finish(mut self) -> Filled {
        self.insert_all();
        Filled { covers: self.covers.into_iter().collect(), ..self.out }
    }

    pub(super) fn record(&mut self, record: ReadRecord<'_>) -> Result<()> {
        let position = record.position;
        if position < self.from {
            return Ok(());
        }
        self.meter.add(record.header.padded_bytes());
        let mut space_bytes = 0;
        let Refill { version, covers, out, .. } = self;
        for_each_entry(&record, |memtable, entry| {
            if !is_planted(PlantedBug::ReuseNumbers) {
                out.greatest_seqno = out.greatest_seqno.max(entry.seqno);
            }
            if !version.flushed().contains_key(&memtable) {
                covers.insert(memtable);
                out.entry_count += 1;
                space_bytes += Memtable::space_for(entry.key.len(), entry.value.len());
            }
        })?;
        if space_bytes == 0 || self.out.rest.is_some() {
            return Ok(());
        }
        self.make_room(space_bytes, position)?;
        if self.out.rest.is_some() {
            return Ok(());
        }
        self.chunk.push(&record, space_bytes);
        if self.workers.is_enough(&self.chunk) {
            let chunk = std::mem::replace(&mut self.chunk, Chunk::new(&self.out.last));
            self.workers.hand_over(chunk)?;
        }
        Ok(())
    }

    /// Sees to it that the last memtable takes all entries of a record that were not flushed, which
    /// need `bytes` bytes at most.
    ///
    /// Invariant: no record is divided over two memtables of a replay. They are flushed one by one,
    /// and a crash in between replays from the first record of the next: a record that both hold
    /// would be replayed into another memtable once more, and a flush that had folded its merge
    /// operands in the meantime would count them twice.
    fn make_room(&mut self, bytes: usize, position: LogPosition) -> Result<()> {
        if bytes > self.room_bytes {
            // What was handed over needs less than it may, and that is known only now.
            self.insert_all();
            self.room_bytes = self.out.last.limit_bytes() - self.out.last.used_bytes();
        }
        if bytes > self.room_bytes {
            self.begin_memtable(bytes, position)?;
        }
        self.room_bytes -= bytes;
        Ok(())
    }

    /// Begins a memtable that has room for `bytes`, with the record at `position`; if there is no
    /// memory for it, that record and those after it are the rest.
    fn begin_memtable(&mut self, bytes: usize, position: LogPosition) -> Result<()> {
        let arena_bytes = self.options.memtable_bytes.max(Memtable::arena_bytes_for(bytes));
        let fresh = Arc::new(Memtable::new(self.ids.next_memtable(), arena_bytes));
        self.chunk = Chunk::new(&fresh);
        self.room_bytes = fresh.limit_bytes() - fresh.used_bytes();
        self.charge.set(fresh.limit_bytes() as u64);
        let memtable = std::mem::replace(&mut self.out.last, fresh);
        let begin = std::mem::replace(&mut self.out.last_begin, position);
        if !memtable.is_empty() {
            let covers = vec![memtable.id()];
            let has_room = (self.take_full)(Arc::new(Frozen {
                memtable,
                keys: KeyRange::all(),
                begin,
                end: position,
                covers,
                is_merged: false,
            }))?;
            self.out.rest = (!has_room).then_some(position);
        }
        Ok(())
    }

    /// Returns when all records so far are in the last memtable.
    fn insert_all(&mut self) {
        let chunk = std::mem::replace(&mut self.chunk, Chunk::new(&self.out.last));
        self.workers.insert(chunk);
        self.workers.finish();
    }
}

/// Hands over the entries of a record, each with the memtable that it went to. Errors:
/// `Corruption`; then some of them may have been handed over.
pub(in crate::store) fn for_each_entry(
    record: &ReadRecord<'_>,
    mut visit: impl FnMut(MemtableId, EntryRef<'_>),
) -> Result<()> {
    let ReadRecord { file, offset, header, .. } = *record;
    // The checksum was right, so what does not decode was written wrongly.
    let damaged = |error| Corruption::from_codec(file, offset, &error);
    let batch = BatchBody::decode(header, record.body()).map_err(damaged)?;
    let mut entry_count = 0u16;
    for entry in batch.entries() {
        let (memtable, entry) = entry.map_err(damaged)?;
        if is_beyond_bounds(&entry) {
            let detail = "an entry beyond the bounds that hold for all writes";
            return Err(Corruption::new(file, offset, detail).into());
        }
        entry_count = entry_count.wrapping_add(1);
        visit(memtable, entry);
    }
    if entry_count != header.entry_count {
        let detail = format!("{entry_count} entries instead of {}", header.entry_count);
        return Err(Corruption::new(file, offset, detail).into());
    }
    Ok(())
}

/// Compares the manifest to what the log says of it after a clean close: damage to its last record
/// is told apart from a tail that a crash tore. (What the manifest says of the log, the replay
/// compares: [`Version::log_facts`].)
///
/// An open begins a segment of its epoch durably, after its manifest and before any edit of it: if
/// the manifest has gone on in an epoch of which there is no segment, that one is lost.
pub fn cross_check(
    dir: &Path,
    feed: &LoadedFeed,
    version: &Version,
    replayed: &Replayed,
) -> Result<()> {
    if version.log_start().segment.is_none() {
        // The log has not begun, or is one that another machine wrote beside its own manifest.
        return Ok(());
    }
    let is_begun = replayed.segments.iter().any(|span| span.file.id.epoch == version.epoch());
    if feed.edits.len() > 1 && !is_begun {
        let detail = format!(
            "the log has no segment of epoch {}, but the manifest goes on in it: a file is missing",
            version.epoch()
        );
        return Err(Corruption::new(dir, 0, detail).into());
    }
    if let Some(id) = replayed.half_begun.filter(|id| id.epoch == version.epoch())
        && feed.edits.len() > 1
        && replayed.segments.iter().filter(|span| span.file.id.epoch == id.epoch).count() == 1
    {
        let detail = "the segment was begun durably, for the manifest goes on in its epoch, but one \
                      of its headers is not its own: its records may be gone";
        let path = replayed.path_of(id).unwrap_or_else(|| dir.to_path_buf());
        return Err(Corruption::new(path, 0, detail).into());
    }
    if let Some(closing) = replayed.closing
        && closing.manifest == feed.end.id
        && feed.end.bytes < closing.manifest_bytes
    {
        let path = manifest_path(dir, feed.end.id);
        let detail = format!(
            "the range was closed with {} bytes of its manifest durable, but {} are readable only",
            closing.manifest_bytes, feed.end.bytes
        );
        return Err(Corruption::new(path, feed.end.bytes, detail).into());
    }
    Ok(())
}
