//! Conditional writes: read, decide, write, with nobody in between.

use std::sync::Arc;

use terrace_base::{EntryRef, SeqNo};
use terrace_env::{ExclusiveHold, PlantedBug, is_planted};

use crate::batch::WriteBatch;
use crate::drange::{Active, DrangeMap, DuplicateChoice};
use crate::memtable::Memtable;
use crate::store::gate::ledger::{Cause, WriteTimer};
use crate::store::read::get::Item;
use crate::store::read::key_search::KeySearch;
use crate::store::read::pinned::Origin;
use crate::store::write::commit::Promise;
use crate::store::write::commit::{Commit, unknown};
use crate::store::write::routing::{PerDrange, Placement};
use crate::store::{Inner, Store, WriteOptions};
use crate::table::ReadMode;
use crate::{Error, Result};

/// What a conditional write decided on.
#[derive(Debug)]
pub enum Update {
    /// Write this. Its keys lie in the dranges of the keys that were read; naming every key that
    /// may be written among them makes sure of it.
    Write(WriteBatch),
    /// Change nothing.
    Keep,
}

/// How often the old values are fetched without holding anybody up, before they are fetched under
/// the holds.
const OPTIMISTIC_READS: u32 = 2;

impl Store {
    /// Reads `keys`, lets `decide` choose, and writes its choice, with no other write of these
    /// keys in between. An expired or deleted key shows as `None`.
    ///
    /// The values are the newest ones inserted, published or not; the call returns only when what
    /// it saw, and what it wrote, is published. `decide` may be called again if room had to be
    /// made; it must not call back into the store, and may take the values.
    ///
    /// Errors: as [`Store::write`]; `NeedsIo` if `wait` is off and a value is not in memory.
    pub fn update(
        &self,
        keys: &[&[u8]],
        options: &WriteOptions,
        decide: impl FnMut(&mut [Option<Item>]) -> Result<Update>,
    ) -> Result<()> {
        self.update_numbered(keys, options, decide).map(|_| ())
    }

    /// As [`Store::update`]; returns the number of the last entry that was written, `None` if
    /// nothing was.
    pub fn update_numbered(
        &self,
        keys: &[&[u8]],
        options: &WriteOptions,
        decide: impl FnMut(&mut [Option<Item>]) -> Result<Update>,
    ) -> Result<Option<SeqNo>> {
        let watch = self.inner.watch_write();
        let updated = self.update_watched(keys, options, decide);
        if let Err(error) = &updated {
            self.inner.meters.troubles.write_failed(error);
        }
        if !matches!(updated, Err(Error::WouldBlock | Error::NeedsIo)) {
            self.inner.update_ended(&watch, keys);
        }
        updated
    }

    fn update_watched(
        &self,
        keys: &[&[u8]],
        options: &WriteOptions,
        mut decide: impl FnMut(&mut [Option<Item>]) -> Result<Update>,
    ) -> Result<Option<SeqNo>> {
        let inner = &*self.inner;
        inner.log()?;
        let promise = inner.promise(options)?;
        if promise.waits_for_disk() && !options.wait {
            return Err(Error::WouldBlock);
        }
        let mut attempt = 0;
        let mut timer = inner.begin_timer(0);
        let mut turn = DuplicateChoice::default();
        loop {
            inner.gate_pass(&mut timer, 0, options.wait)?;
            let map = inner.dranges.load();
            let dranges_of = |key: &&[u8]| map.division().dranges_of(map.interval_of(key));
            let indexes = keys.iter().flat_map(dranges_of).collect();
            let holds = hold_all(&map, indexes, &mut timer);
            if !Arc::ptr_eq(&map, &inner.dranges.load()) {
                continue;
            }
            inner.check_healthy()?;
            let mode = if attempt < OPTIMISTIC_READS { ReadMode::NO_WAIT } else { ReadMode::BLOCK };
            let (mut items, newest) = match inner.read_inserted(keys, mode) {
                Ok(read) => read,
                Err(Error::NeedsIo) if options.wait => {
                    drop(holds);
                    // Bring the blocks into the cache while nobody waits for us.
                    inner.read_inserted(keys, ReadMode::BLOCK)?;
                    attempt += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let batch = match decide(&mut items) {
                Ok(Update::Write(batch)) if !batch.is_empty() => batch,
                // A refusal rests on what was read as much as any reply does.
                outcome => {
                    drop(holds);
                    timer.wait(Cause::Publication, || inner.wait_published(newest, promise))?;
                    return outcome.map(|_| None);
                }
            };
            inner.check_operands(&batch)?;
            match inner.commit_held(&map, &holds, &batch, &mut turn)? {
                Commit::Done(taken) => {
                    drop(holds);
                    timer.precedence = None;
                    inner.meters.counters.user_bytes(batch.payload_bytes(), batch.len());
                    inner.gate_owe(batch.memtable_bytes());
                    inner.acknowledge(&mut timer, &taken, promise)?;
                    return Ok(Some(taken.last_seqno));
                }
                Commit::NeedsRoom(room) => {
                    drop(holds);
                    inner.make_room(&mut timer, &map, room, options.wait)?;
                }
            }
        }
    }
}

/// The dranges with these `indexes`, each held once and exclusively, in their order, with its
/// index.
pub(in crate::store) fn hold_all<'a>(
    map: &'a DrangeMap,
    mut indexes: PerDrange<usize>,
    timer: &mut WriteTimer<'_>,
) -> PerDrange<(usize, ExclusiveHold<'a, Active>)> {
    indexes.sort_unstable();
    indexes.dedup();
    let mut hold = |index: usize| {
        let active = &map.list()[index].active;
        match active.try_exclusive() {
            Some(hold) => hold,
            None => timer.wait(Cause::Hold, || active.exclusive()),
        }
    };
    indexes.into_iter().map(|index| (index, hold(index))).collect()
}

impl Inner {
    /// Commits a batch into dranges that are held, all duplicates of an interval or none. Errors:
    /// `Invalid` if it writes to another one.
    pub(in crate::store) fn commit_held(
        &self,
        map: &DrangeMap,
        holds: &[(usize, ExclusiveHold<'_, Active>)],
        batch: &WriteBatch,
        turn: &mut DuplicateChoice,
    ) -> Result<Commit> {
        Placement::check(batch, map)?;
        let placement = Placement::of(batch, map, turn);
        let mut targets: PerDrange<&Memtable> = PerDrange::new();
        for index in &placement.dranges {
            let held = holds.iter().find(|(held, _)| held == index);
            let Some((_, hold)) = held else {
                return Err(Error::invalid(
                    "a conditional write may only write near the keys that it reads: \
                     name every key that it may write",
                ));
            };
            targets.push(&hold.memtable);
        }
        self.commit(&placement, &targets)
    }

    /// The newest inserted values of `keys`, and the greatest number among the entries that they
    /// rest on.
    fn read_inserted(&self, keys: &[&[u8]], mode: ReadMode) -> Result<(Vec<Option<Item>>, SeqNo)> {
        let now = self.env.wall_time();
        let view = self.view.load();
        let mut items = Vec::with_capacity(keys.len());
        let mut newest = SeqNo::ZERO;
        for key in keys {
            let mut read_point = SeqNo::MAX;
            if is_planted(PlantedBug::UpdateReadsPublished) {
                read_point = self.sequencer.visible();
            }
            let mut search = KeySearch::new(key, read_point, mode);
            let met = |seqno: SeqNo| newest = newest.max(seqno);
            let copy = |_: Origin<'_>, entry: &EntryRef<'_>| Item::copy_of(entry);
            let item = self.answer_in(&view, &mut search, || now, met, copy)?;
            // A range tombstone over nothing is an answer, too.
            newest = newest.max(search.covering.unwrap_or(SeqNo::ZERO));
            items.push(item);
        }
        Ok((items, newest))
    }

    /// Waits until everything up to `seqno` is published, so that a reply may rest on it.
    pub(in crate::store) fn wait_published(&self, seqno: SeqNo, promise: Promise) -> Result<()> {
        let syncs_first = self.syncs_before_publication();
        let is_there = || match syncs_first {
            true => self.sequencer.finished().0 >= seqno,
            false => self.sequencer.visible() >= seqno,
        };
        self.sequencer.wait_until(|| is_there() || self.is_poisoned());
        if !is_there() {
            return Err(Error::Unknown(self.poison_reason()));
        }
        // In a range that syncs before it publishes, what is visible is durable already.
        let is_synced = syncs_first && self.sequencer.visible() >= seqno;
        if promise == Promise::Published || promise == Promise::Synced && is_synced {
            return Ok(());
        }
        self.keep_promise(promise, seqno, self.sequencer.finished().1).map_err(unknown)
    }
}
