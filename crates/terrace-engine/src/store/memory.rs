//! What memory a range takes, told to the pools of its process.

use std::sync::{Arc, Weak};

use terrace_env::Latch;

use super::Inner;
use super::view::View;
use crate::compaction::CompactionPlan;
use crate::memtable::Memtable;
use crate::placement::PIECE_BYTES;
use crate::process::{Charge, Memory, PoolName};
use crate::table::TableOptions;
use crate::vlog::InPlace;

/// What a range takes that is counted by looking at it.
#[derive(Debug)]
pub struct RangeMemory {
    /// Every memtable that was in a view and that somebody still holds.
    memtables: Latch<Vec<Weak<Memtable>>>,
    memtable_charge: Charge,
    iterator_charge: Charge,
}

impl RangeMemory {
    pub fn new(memory: &Memory) -> RangeMemory {
        RangeMemory {
            memtables: Latch::default(),
            memtable_charge: memory.pool(PoolName::Memtables).charge(0),
            iterator_charge: memory.pool(PoolName::Iterators).charge(0),
        }
    }

    /// Takes the memtables of a view under count, and leaves out those that nobody holds.
    fn follow(&self, view: &View) {
        let memtables = view.memtables();
        let mut followed = self.memtables.lock();
        followed.retain(|memtable| memtable.strong_count() > 0);
        for memtable in &memtables {
            let is_known = |known: &Weak<Memtable>| known.as_ptr() == Arc::as_ptr(memtable);
            if !followed.iter().any(is_known) {
                followed.push(Arc::downgrade(memtable));
            }
        }
    }

    /// Charges for what the memtables hold now.
    fn charge_memtables(&self) {
        let held: Vec<Arc<Memtable>> =
            self.memtables.lock().iter().filter_map(Weak::upgrade).collect();
        // Not under the latch: one of them may go with the last reference to it.
        self.memtable_charge.set(held.iter().map(|memtable| memtable.used_bytes() as u64).sum());
    }
}

impl Inner {
    /// Tells the pool of memtables what this range takes in `view`.
    pub(super) fn count_memtables(&self, view: &View) {
        self.memory.follow(view);
        self.memory.charge_memtables();
    }

    /// Tells the pools what this range takes, before somebody looks at them.
    pub(super) fn count_memory(&self) {
        let view = self.view.load_full();
        self.count_memtables(&view);
        // Each source that an iterator merges stands in one block, which it keeps in memory.
        let memtables: usize = view.dranges.iter().map(|own| own.memtables().count()).sum();
        let sources = memtables + view.version.l0().rows().len() + view.version.runs().count();
        let block_bytes = self.options.table.block_bytes + ITERATOR_SOURCE_BYTES;
        let iterators = self.read_points.iterator_count();
        self.memory.iterator_charge.set((iterators * sources * block_bytes) as u64);
    }
}

/// What an iterator keeps of each source beside its block.
const ITERATOR_SOURCE_BYTES: usize = 512;

/// What a stream over a table reads ahead, at most: two pieces.
const STREAM_BYTES: u64 = 2 * (256 << 10);

/// The same over a table in an object store.
const FAR_STREAM_BYTES: u64 = 2 * PIECE_BYTES;

/// What a table builder keeps of what it has not handed on yet.
const BUILDER_BYTES: u64 = 2 * (128 << 10);

/// What is kept of each key while its filter is not built: a hash, in a vector that doubles.
const BUILDER_KEY_BYTES: u64 = 16;

/// What a trie takes for a key while it is built, about: a node or two, in vectors that double.
const BUILDER_TRIE_BYTES: u64 = 8;

/// What is kept of each pointer to a value: an offset, in a vector that doubles.
const BUILDER_POINTER_BYTES: u64 = 16;

/// What an index takes for a block, about.
const INDEX_BLOCK_BYTES: u64 = 48;

/// What building one table takes beside its inputs, about.
pub fn builder_memory_bytes(table_bytes: u64, entries: u64, table: &TableOptions) -> u64 {
    let index = table_bytes / (table.block_bytes.max(64) as u64) * INDEX_BLOCK_BYTES;
    let filter = entries * u64::from(table.filter_bits_per_key) / 8;
    let trie = if table.trie { entries * BUILDER_TRIE_BYTES } else { 0 };
    BUILDER_BYTES + entries * BUILDER_KEY_BYTES + filter + index + trie
}

/// What a builder keeps of this number of pointers until the end of their table, about.
pub fn lists_memory_bytes(pointers: u64) -> u64 {
    pointers * BUILDER_POINTER_BYTES
}

/// What a compaction here takes, about, but for outputs that are gathered in memory: its streams
/// and the filters and indexes of its inputs, and one output at a time.
pub fn compaction_memory_bytes(plan: &CompactionPlan) -> u64 {
    let table = TableOptions {
        block_bytes: plan.block_bytes as usize,
        filter_bits_per_key: plan.filter_bits_per_key as u32,
        compression: plan.compression,
        trie: plan.trie,
    };
    let inputs = plan.inputs.iter().map(|input| {
        let index = input.table.bytes / plan.block_bytes.max(64) * INDEX_BLOCK_BYTES;
        let filter = input.table.entry_count * plan.filter_bits_per_key / 8;
        let stream = if input.table.location.is_far() { FAR_STREAM_BYTES } else { STREAM_BYTES };
        input.table.bytes.min(stream) + index + filter
    });
    let entries: u64 = plan.inputs.iter().map(|input| input.table.entry_count).sum();
    let bytes = plan.input_bytes();
    let output_bytes = bytes.min(plan.table_bytes);
    let share = output_bytes as f64 / bytes.max(1) as f64;
    let output_entries = (entries as f64 * share) as u64;
    let windows = match plan.pointers_from {
        Some(_) => InPlace::memory_bytes(plan.value_files.len(), plan.in_place_bytes()),
        None => 0,
    };
    let named = plan.inputs.iter().flat_map(|input| input.table.named.iter());
    let pointers: u64 = match plan.large_bytes {
        Some(_) => output_entries,
        None => output_entries.min(named.map(|one| one.count).sum()),
    };
    windows
        + inputs.sum::<u64>()
        + builder_memory_bytes(output_bytes, output_entries, &table)
        + lists_memory_bytes(pointers)
}
