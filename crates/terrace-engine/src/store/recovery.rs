//! Recovery: what the log still holds becomes memtables again.

use std::path::Path;
use std::sync::Arc;

use terrace_base::limits::{STORED_KEY_BYTES_MAX, VALUE_BYTES_MAX};
use terrace_base::{Corruption, EntryKind, EntryRef, LogPosition, MemtableId, SeqNo};

use crate::Result;
use crate::drange::Frozen;
use crate::memtable::Memtable;
use crate::options::Options;
use crate::version::format::SEQNO_END;
use crate::version::{FileIds, LoadedFeed, Version, manifest_path};
use crate::wal::format::{BatchBody, RecordHeader};
use crate::wal::{LogStore, Replayed};

/// What a replay made of the log.
#[derive(Debug)]
pub struct Recovered {
    /// What the log itself reports.
    pub replayed: Replayed,
    /// Memtables that were filled up on the way, oldest first.
    pub full: Vec<Arc<Frozen>>,
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

/// Fills memtables from records, in the append order.
struct Refill<'a> {
    options: &'a Options,
    ids: &'a FileIds,
    version: &'a Version,
    out: Recovered,
}

/// Replays the log from where `version` says. Writes nothing.
///
/// Memtables filled on the way are flushed before the last one, and only the last one covers the
/// memtables of earlier opens: a crash between two of these flushes replays from the position of
/// the first that is left.
pub fn recover(
    log: &dyn LogStore,
    dir: &Path,
    options: &Options,
    ids: &FileIds,
    version: &Version,
) -> Result<Recovered> {
    let start = version.log_start;
    let last = Arc::new(Memtable::new(ids.next_memtable(), options.memtable_bytes));
    let out = Recovered {
        replayed: Replayed::default(),
        full: Vec::new(),
        last,
        last_begin: start.position,
        covers: Vec::new(),
        greatest_seqno: version.greatest_seqno,
        entry_count: 0,
    };
    let mut refill = Refill { options, ids, version, out };
    let replayed = log
        .replay(start, &mut |position, header, body| refill.record(dir, position, header, body))?;
    Ok(Recovered { replayed, ..refill.out })
}

impl Refill<'_> {
    fn record(
        &mut self,
        dir: &Path,
        position: LogPosition,
        header: &RecordHeader,
        body: &[u8],
    ) -> Result<()> {
        // The checksum was right, so what does not decode was written wrongly.
        let damaged = |error| Corruption::from_codec(dir.join("log"), position.0, &error);
        let batch = BatchBody::decode(header, body).map_err(damaged)?;
        let end = LogPosition(position.0 + header.padded_bytes());
        let mut entry_count = 0u16;
        for entry in batch.entries() {
            let (memtable, entry) = entry.map_err(damaged)?;
            if is_beyond_bounds(&entry) {
                let detail = "an entry beyond the bounds that hold for all writes";
                return Err(Corruption::new(dir.join("log"), position.0, detail).into());
            }
            entry_count = entry_count.wrapping_add(1);
            self.out.greatest_seqno = self.out.greatest_seqno.max(entry.seqno);
            if self.version.flushed.contains_key(&memtable) {
                continue;
            }
            if !self.out.covers.contains(&memtable) {
                self.out.covers.push(memtable);
            }
            self.insert(&entry, position, end);
        }
        if entry_count != header.entry_count {
            let detail = format!("{entry_count} entries instead of {}", header.entry_count);
            return Err(Corruption::new(dir.join("log"), position.0, detail).into());
        }
        Ok(())
    }

    fn insert(&mut self, entry: &EntryRef<'_>, position: LogPosition, end: LogPosition) {
        let bytes = Memtable::space_for(entry.key.len(), entry.value.len());
        let mut reservation = self.out.last.reserve(bytes);
        if reservation.is_none() {
            let arena_bytes = self.options.memtable_bytes.max(Memtable::arena_bytes_for(bytes));
            let fresh = Arc::new(Memtable::new(self.ids.next_memtable(), arena_bytes));
            let memtable = std::mem::replace(&mut self.out.last, fresh);
            let begin = std::mem::replace(&mut self.out.last_begin, position);
            if !memtable.is_empty() {
                let covers = vec![memtable.id()];
                self.out.full.push(Arc::new(Frozen { memtable, begin, end, covers }));
            }
            reservation = self.out.last.reserve(bytes);
        }
        let mut reservation = reservation.expect("a fresh memtable was made large enough");
        self.out.last.insert(&mut reservation, *entry);
        self.out.entry_count += 1;
    }
}

/// Whether no writer can have written this entry.
fn is_beyond_bounds(entry: &EntryRef<'_>) -> bool {
    let value_bytes_max = match entry.kind {
        EntryKind::RangeTombstone => STORED_KEY_BYTES_MAX,
        _ => VALUE_BYTES_MAX,
    };
    entry.key.len() > STORED_KEY_BYTES_MAX
        || entry.value.len() > value_bytes_max
        || entry.seqno >= SEQNO_END
}

/// Compares what the manifest and the log say of each other after a clean close: damage to the
/// last record of either is told apart from a tail that a crash tore.
pub fn cross_check(
    dir: &Path,
    feed: &LoadedFeed,
    version: &Version,
    replayed: &Replayed,
) -> Result<()> {
    if let Some(end) = version.closed
        && replayed.end < end
    {
        let detail = format!(
            "the range was closed with its log ending at position {end}, but it is readable up \
             to {} only",
            replayed.end
        );
        return Err(Corruption::new(dir.join("log"), replayed.end.0, detail).into());
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
