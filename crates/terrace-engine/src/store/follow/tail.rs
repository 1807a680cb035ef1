//! What was read of the log, as memtables: one for each memtable of the writer's, or several in a
//! row if it does not fit, so that those can be let go of whose entries are in tables.
//!
//! Not a moment too late: once merge operands are in tables, a compaction may fold them over what
//! stands below. A read that met them here would look for a base that is gone, or would lack those
//! that were not read because their memtable was flushed.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::{EntryRef, LogPosition, MemtableId, SeqNo};

use crate::Result;
use crate::ids::FileIds;
use crate::memtable::Memtable;
use crate::process::{Charge, MemoryPool};
use crate::store::open::recovery::for_each_entry;
use crate::version::Version;
use crate::wal::{LogMark, ReadRecord};

/// The memtables of a log that was read up to a mark.
pub(super) struct Tail {
    /// Up to where; none if nothing was read.
    pub mark: Option<LogMark>,
    /// The greatest number that was read.
    pub greatest_seqno: SeqNo,
    /// How many entries were read.
    pub entry_count: u64,
    /// By the writer's memtables.
    parts: BTreeMap<MemtableId, Part>,
    ids: Arc<FileIds>,
    memtable_bytes: usize,
    charge: Charge,
}

/// The entries of one memtable of the writer's.
struct Part {
    /// At least one; the last one takes entries.
    memtables: Vec<Arc<Memtable>>,
    /// The positions of the first and the last record of which it has entries.
    first: LogPosition,
    last: LogPosition,
}

impl Tail {
    /// Nothing was read yet.
    pub fn new(ids: &Arc<FileIds>, memtable_bytes: usize, pool: &MemoryPool) -> Tail {
        Tail {
            mark: None,
            greatest_seqno: SeqNo::ZERO,
            entry_count: 0,
            parts: BTreeMap::new(),
            ids: Arc::clone(ids),
            memtable_bytes,
            charge: pool.charge(0),
        }
    }

    /// Forgets all; the log is read from its start.
    pub fn clear(&mut self) {
        (self.mark, self.greatest_seqno, self.entry_count) = (None, SeqNo::ZERO, 0);
        self.parts.clear();
    }

    /// Lets go of what is in the tables of `version`: memtables that it calls flushed, and all that
    /// stands below the start of its log. A recovery flushes the front of a memtable: then the log
    /// is read anew.
    pub fn let_go_of(&mut self, version: &Version) {
        let settled = version.log_settled();
        let is_divided = |part: &Part| part.first < settled && settled <= part.last;
        self.parts.retain(|id, part| !version.flushed().contains_key(id) && part.last >= settled);
        if self.parts.values().any(is_divided) {
            self.clear();
        }
    }

    /// Adds the entries of a record that are not in the tables of `version`. Errors: `Corruption`;
    /// then some of them may be there, with numbers above the greatest.
    pub fn add(&mut self, version: &Version, record: &ReadRecord<'_>) -> Result<()> {
        let mut greatest_seqno = self.greatest_seqno;
        let position = record.position;
        let Tail { parts, ids, memtable_bytes, entry_count, .. } = self;
        for_each_entry(record, |memtable, entry| {
            greatest_seqno = greatest_seqno.max(entry.seqno);
            if version.flushed().contains_key(&memtable) {
                return;
            }
            *entry_count += 1;
            let part = parts.entry(memtable).or_insert_with(|| Part {
                memtables: Vec::new(),
                first: position,
                last: position,
            });
            part.last = part.last.max(position);
            let bytes = Memtable::space_for(entry.key.len(), entry.value.len());
            if part.memtables.last().is_some_and(|last| insert(last, bytes, entry)) {
                return;
            }
            let arena_bytes = Memtable::arena_bytes_for(bytes).max(*memtable_bytes);
            let fresh = Arc::new(Memtable::new(ids.next_memtable(), arena_bytes));
            let is_in = insert(&fresh, bytes, entry);
            assert!(is_in, "an empty memtable that is made for an entry takes it");
            part.memtables.push(fresh);
        })?;
        self.greatest_seqno = greatest_seqno;
        Ok(())
    }

    /// Charges what the memtables take by now.
    pub fn charge(&self) {
        let memtables = self.parts.values().flat_map(|part| &part.memtables);
        self.charge.set(memtables.map(|memtable| memtable.used_bytes() as u64).sum());
    }

    /// The memtables, at least one.
    pub fn memtables(&self) -> Vec<Arc<Memtable>> {
        let memtables = self.parts.values().flat_map(|part| &part.memtables);
        let memtables: Vec<_> = memtables.cloned().collect();
        match memtables.is_empty() {
            true => vec![Arc::new(Memtable::new(self.ids.next_memtable(), Memtable::FIXED_BYTES))],
            false => memtables,
        }
    }
}

/// Inserts an entry that needs `bytes` at most; false if the memtable is full.
fn insert(memtable: &Memtable, bytes: usize, entry: EntryRef<'_>) -> bool {
    match memtable.reserve(bytes) {
        Some(mut reserved) => {
            memtable.insert(&mut reserved, entry);
            true
        }
        None => false,
    }
}
