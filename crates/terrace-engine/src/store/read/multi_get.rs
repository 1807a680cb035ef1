//! Many keys at once: their cache misses overlap.
//!
//! A get waits for one cache line after the other: a node of the memtable's tree names the next
//! one, the index names the block. For several keys these chains are independent. So before a few
//! keys are read one by one, they go down the memtables in step, a level at a time; then they ask
//! the filters of the levels, search the index of the table that may have them, and look at the
//! first line of the block if it is cached: each key's lines are on their way while the others' are
//! looked at. The reads themselves are those of [`Store::get`], and find the lines there.
//!
//! Where tables lie in an object store, what is to be had without waiting is read first; then the
//! store is asked for what the other keys of a step need, all at once (`asking.rs`).

use std::hint::black_box;

use smallvec::SmallVec;

use crate::cache::BlockPeek;
use crate::store::read::asking::{ask_for_keys, block_in_levels};
use crate::store::read::begin::{At, Readings};
use crate::store::read::pinned::PinnedItem;
use crate::store::report::slow::GetPurpose;
use crate::store::view::View;
use crate::store::{GetOptions, Inner, Store};
use crate::table::{ReadMode, TableReader};
use crate::{Error, Result};

/// How many keys go down in step: enough to keep a core's line buffers busy, few enough that their
/// lines stay in its first cache.
const KEYS_IN_STEP: usize = 16;

impl Store {
    /// The values of `keys`, in their order, by reference: all of them as they were at one moment.
    /// `None` where there is none. Keys may come in any order and more than once.
    ///
    /// Errors: as [`Store::get`]; nothing is answered then.
    pub fn multi_get(
        &self,
        keys: &[&[u8]],
        options: &GetOptions,
    ) -> Result<Vec<Option<PinnedItem>>> {
        self.inner.multi_get_at(keys, At::Now, options)
    }
}

impl Inner {
    pub(super) fn multi_get_at(
        &self,
        keys: &[&[u8]],
        at: At,
        options: &GetOptions,
    ) -> Result<Vec<Option<PinnedItem>>> {
        let reading = self.begin_reads(keys, at)?;
        let asks = self.cloud.is_some() && options.wait && keys.len() > 1;
        let asks = asks && !self.options.research.far_one_by_one;
        let mut items = Vec::with_capacity(keys.len());
        for (step, keys) in keys.chunks(KEYS_IN_STEP).enumerate() {
            let first = step * KEYS_IN_STEP;
            warm(&reading.view, keys);
            let mut read = match asks {
                true => self.read_at_once(&reading, first, keys, options)?,
                false => SmallVec::new(),
            };
            for (index, key) in keys.iter().enumerate() {
                if let Some(item) = read.get_mut(index).and_then(Option::take) {
                    items.push(item);
                    continue;
                }
                let search = reading.search(first + index, key, options.mode());
                let purpose = GetPurpose::Answer;
                items.push(self.get_in(&reading.view, search, purpose, PinnedItem::new)?);
            }
        }
        Ok(items)
    }

    /// What can be told of `keys` without waiting, by their places among them. For the others the
    /// object store is asked, as far as their blocks lie there: whoever reads them then waits for
    /// all of them together.
    #[cold]
    fn read_at_once(
        &self,
        reading: &Readings,
        first: usize,
        keys: &[&[u8]],
        options: &GetOptions,
    ) -> Result<SmallVec<[Option<Option<PinnedItem>>; KEYS_IN_STEP]>> {
        let mode = ReadMode { waits: false, ..options.mode() };
        let mut waiting: SmallVec<[&[u8]; KEYS_IN_STEP]> = SmallVec::new();
        let mut read = SmallVec::new();
        for (index, key) in keys.iter().enumerate() {
            let mut search = reading.search(first + index, key, mode);
            let now = || self.env.wall_time();
            let got = self.answer_in(&reading.view, &mut search, now, |_| (), PinnedItem::new);
            match got {
                Ok(item) => {
                    self.meters.counters.my_reads().got();
                    read.push(Some(item));
                }
                Err(Error::NeedsIo) => {
                    waiting.push(key);
                    read.push(None);
                }
                Err(error) => return Err(self.or_closed(error)),
            }
        }
        ask_for_keys(&reading.view, &waiting);
        Ok(read)
    }
}

/// Brings what reads of `keys` will look at first into the processor's caches.
fn warm(view: &View, keys: &[&[u8]]) {
    if keys.len() < 2 {
        return;
    }
    let mut by_drange: SmallVec<[(usize, &[u8]); KEYS_IN_STEP]> =
        keys.iter().map(|key| (view.boundaries.index_of(key), *key)).collect();
    by_drange.sort_unstable_by_key(|(drange, _)| *drange);
    for group in by_drange.chunk_by(|(one, _), (other, _)| one == other) {
        let keys: SmallVec<[&[u8]; KEYS_IN_STEP]> = group.iter().map(|(_, key)| *key).collect();
        for memtable in view.dranges[group[0].0].memtables() {
            memtable.warm(&keys);
        }
    }
    warm_levels(view, keys);
}

/// As [`warm`], in the levels: filters, indexes, and the first lines of blocks that are cached.
/// Filters of L0 are left to the reads: none of them waits for another's answer, so their lines
/// overlap for one key as they are.
fn warm_levels(view: &View, keys: &[&[u8]]) {
    let places = keys.iter().filter_map(|key| block_in_levels(view, key));
    let places: SmallVec<[(&TableReader, usize); KEYS_IN_STEP]> = places.collect();
    // Cost: to take a latch waits for all loads before it. So all are taken before the first block
    // is touched, and then the lines of all blocks are on their way at once.
    let peeks = places.iter().filter_map(|(reader, block_index)| reader.peek(*block_index));
    let peeks: SmallVec<[BlockPeek<'_>; KEYS_IN_STEP]> = peeks.collect();
    for peek in &peeks {
        black_box(peek.first_byte());
    }
}
