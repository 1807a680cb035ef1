//! The lookup index of a range: what indexes keys in it, asks it, and tells it what is gone.

use smallvec::SmallVec;
use terrace_base::{EntryKind, SeqNo};
use terrace_env::{JobClass, PlantedBug, is_planted};

use super::Inner;
use super::sequencer::Sequencer;
use super::turns::FlushTurn;
use super::upkeep::all_held::AllHeld;
use super::write::routing::Placement;
use crate::iter::Cursor;
use crate::lookup_index::{Bound, LookupIndex, LookupIndexStats};
use crate::options::Options;
use crate::process::{Charge, PoolName, Process};
use crate::table::{ReadMode, filter_hash};
use crate::{Error, Result};

/// The lookup index, and the memory that it takes.
#[derive(Debug)]
pub struct KeyBounds {
    index: LookupIndex,
    _memory: Charge,
}

/// The hashes of the keys that a write touches: one as a rule.
pub(super) type Noted = SmallVec<[u64; 4]>;

impl KeyBounds {
    /// An empty index, if the options want one. It knows nothing of what has been written so far.
    pub fn new(options: &Options, process: &Process, sequencer: &Sequencer) -> Option<KeyBounds> {
        let bytes = usize::try_from(options.lookup_index_bytes).unwrap_or(usize::MAX);
        if bytes == 0 {
            return None;
        }
        let next = sequencer.next_seqno();
        let index = LookupIndex::new(bytes, next);
        index.end_generation(next);
        let memory = process.memory().pool(PoolName::LookupIndex).charge(index.stats().bytes);
        Some(KeyBounds { index, _memory: memory })
    }

    /// What the index holds.
    pub fn stats(&self) -> LookupIndexStats {
        self.index.stats()
    }
}

impl Inner {
    /// What is known of `key`. To be asked while the view is current that it is used for.
    #[inline]
    pub(super) fn bound_of(&self, key: &[u8]) -> Bound {
        let Some(lookups) = &self.lookups else { return Bound::NONE };
        let hash = filter_hash(key);
        Bound { limit: lookups.index.limit_of(hash), hash: Some(hash) }
    }

    /// The keys of a write that is about to take its numbers; their places in the index are on
    /// their way when they are needed.
    #[inline]
    pub(super) fn begin_index_keys(&self, placement: &Placement<'_>) -> Noted {
        let Some(lookups) = &self.lookups else { return Noted::new() };
        let entries = (0..placement.dranges.len())
            .flat_map(|place| placement.entries_at(place, SeqNo::ZERO))
            .filter(|entry| entry.kind != EntryKind::RangeTombstone);
        let noted: Noted = entries.map(|entry| filter_hash(entry.key)).collect();
        noted.iter().for_each(|hash| lookups.index.warm(*hash));
        noted
    }

    /// Notes keys that were inserted. The caller holds their dranges, and publishes the write
    /// after.
    #[inline]
    pub(super) fn index_keys(&self, noted: &Noted) {
        let Some(lookups) = &self.lookups else { return };
        let noted = match is_planted(PlantedBug::NoteFirstKeyOnly) {
            true => &noted[..noted.len().min(1)],
            false => noted,
        };
        noted.iter().for_each(|hash| lookups.index.index_key(*hash));
    }

    /// Writes from now on belong to another generation.
    pub(super) fn end_generation(&self, _all: &AllHeld<'_>) {
        if let Some(lookups) = &self.lookups {
            lookups.index.end_generation(self.sequencer.next_seqno());
        }
    }

    /// Tells the index what the current view does not hold any more.
    pub(super) fn settle_lookups(&self) {
        if let Some(lookups) = &self.lookups {
            let generation = lookups.index.generation();
            lookups.index.settle(generation, self.view.load_released().least_seqno());
        }
    }

    /// Rows are coming whose keys were not noted, and which have this number. The caller keeps the
    /// turn until they are installed.
    pub(super) fn expect_unindexed(&self, number: SeqNo, _turn: &FlushTurn) {
        if let Some(lookups) = &self.lookups {
            lookups.index.raise_floor(number.next());
        }
    }

    /// Queues the noting of what was there before the open, or was ingested, if anything was.
    pub(super) fn schedule_indexing(&self) {
        let is_wanted =
            self.lookups.as_ref().is_some_and(|lookups| lookups.index.floor() > SeqNo::ZERO);
        if !is_wanted {
            return;
        }
        self.submit_helper(JobClass::Compaction, |inner| {
            match inner.index_the_rest() {
                Ok(()) | Err(Error::Closed) => {}
                // Reads stay right, they are only not as fast.
                Err(error) => {
                    let dir = inner.dir.display();
                    crate::program_log::warn!(%dir, %error, "the lookup index stays incomplete");
                }
            }
        });
    }

    /// Notes every key below the floor, and takes the floor away. Ends early if the range closes.
    fn index_the_rest(&self) -> Result<()> {
        let Some(KeyBounds { index, .. }) = &self.lookups else { return Ok(()) };
        // What is below the floor is in the view: an ingest, which raises it first, has the turn.
        let (floor, view) = {
            let _turn = self.turns.flush.lock();
            (index.floor(), self.view.load_released())
        };
        let generation = index.generation_through(floor);
        let is_below = |least: SeqNo| least < floor;
        for memtable in view.memtables() {
            if memtable.least_seqno().is_some_and(is_below) {
                self.index_all_keys(&mut memtable.cursor(floor), |hash| {
                    index.index_key_in(hash, generation)
                })?;
            }
        }
        let rows = view.version.l0().live().iter();
        for live in rows.filter(|live| is_below(live.table.meta().least_seqno)) {
            let mut cursor = live.table.cursor(floor, ReadMode::BLOCK)?;
            self.index_all_keys(cursor.as_mut(), |hash| index.index_key_in(hash, generation))?;
        }
        index.remove_floor(floor);
        Ok(())
    }

    /// Hands the hashes of all keys to `note`. Errors: `Closed`, and those of the cursor.
    fn index_all_keys(&self, keys: &mut dyn Cursor, note: impl Fn(u64)) -> Result<()> {
        let mut stands = keys.seek(b"")?;
        while stands {
            if self.jobs.is_cancelled() {
                return Err(Error::Closed);
            }
            if let Some(entry) = keys.entry() {
                note(filter_hash(entry.key));
            }
            stands = keys.next()?;
        }
        Ok(())
    }
}
