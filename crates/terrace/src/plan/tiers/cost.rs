//! What a layout asks of the object store, how long that takes and what it costs. Pure.
//!
//! ```text
//!   gets       those that no cache answers: one block each          1 get
//!   scans      of each far level what is not near, at once          gets (scans.rs)
//!   puts       an entry goes down level by level: what is written below the line is uploaded as
//!              tables, what was there is read in pieces              puts, gets, deletes
//!   feed       an edit for each flush and compaction, or a moment each period of the mirror
//!   mirror     files of L0 and of local levels that live until the next moment
//!   log        an object each interval, or each 4 MiB; on a volume of its own nothing
//! ```

use std::time::Duration;

use terrace_engine::cloud::{
    Bill, Dollars, ONE_PUT_BYTES_MAX, PART_BYTES, PriceSheet, RequestCount, RequestCounts,
    VolumePrices,
};
use terrace_engine::placement::{OVERLAP_BYTES, PIECE_BYTES};
use terrace_engine::store::{LOG_OBJECT_BYTES, LOG_PATIENCE, LOG_WRITERS};

use super::archive;
use super::hits::{Misses, Popularity, Reads};
use super::layouts::{Place, Safety};
use super::scans::ScanOfLevel;
use super::tree::BELOW_ALL;
use super::workload::TierNeeds;
use crate::Durability;

/// Seconds of a month, as services bill it: 730 hours.
pub(super) const MONTH_S: f64 = 730.0 * 3600.0;

/// Of the far levels so many percent lie in the store a second time for a while: compactions have
/// replaced them.
const REPLACED_PERCENT: f64 = 10.0;

/// Requests of the object store for an operation, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TierRequests {
    /// Requests that read.
    pub gets: f64,
    /// Requests that store, parts of large objects included.
    pub puts: f64,
    /// Deletes.
    pub deletes: f64,
}

/// What a month costs, by what it is for: an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TierDollars {
    /// The local disk: its bytes, and what its sheet of prices provisions above what is free.
    pub local: Dollars,
    /// Operations a second of the local disk that are provisioned beyond those of its sheet.
    pub local_iops: Dollars,
    /// The volume of the log, if it has one of its own.
    pub log_volume: Dollars,
    /// Bytes that lie in the object store.
    pub stored: Dollars,
    /// Requests that store.
    pub puts: Dollars,
    /// Requests that read.
    pub gets: Dollars,
    /// Deletes.
    pub deletes: Dollars,
    /// Bytes that are read out of the store.
    pub read_out: Dollars,
    /// All of it.
    pub total: Dollars,
    /// All of it, for a million operations.
    pub per_million_operations: Dollars,
    /// Requests alone, for a million operations.
    pub requests_per_million_operations: Dollars,
}

impl TierDollars {
    /// What is kept, as this has it, with the bill for the requests of so many operations.
    pub(super) fn with_bill(self, bill: &Bill, operations: u64) -> TierDollars {
        let kept = self.local + self.local_iops + self.log_volume + self.stored;
        let total = kept + bill.total_dollars;
        TierDollars {
            puts: bill.put_dollars,
            gets: bill.get_dollars,
            deletes: bill.delete_dollars,
            read_out: bill.read_out_dollars,
            total,
            per_million_operations: total.per_million(operations),
            requests_per_million_operations: bill.total_dollars.per_million(operations),
            ..self
        }
    }
}

/// What a layout does in a second, and how long operations take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    pub gets: f64,
    pub puts: f64,
    pub deletes: f64,
    pub bytes_up: f64,
    pub bytes_down: f64,
    pub stored_bytes: f64,
    /// Reads of the local disk.
    pub local_reads: f64,
    /// Bytes of the volume of the log.
    pub log_volume_bytes: f64,
    /// The share of gets that ask the store.
    pub far_share: f64,
    /// The share of gets that ask the local disk.
    pub local_share: f64,
    /// Requests for a scan.
    pub scan_requests: f64,
    /// How many of them a scan waits for one after the other.
    pub scan_waits: f64,
    pub scan_bytes: f64,
}

impl Flow {
    pub fn of(needs: &TierNeeds, memory: f64, place: &Place, popularity: &Popularity) -> Flow {
        let mut flow = Flow::default();
        flow.add_reads(needs, memory, place, popularity);
        flow.add_compactions(needs, place, popularity);
        flow.stored_bytes +=
            place.tree.far_bytes(place.first_far) * (1.0 + REPLACED_PERCENT / 100.0);
        flow
    }

    /// What gets and scans ask for, with a block cache of `memory` bytes.
    fn add_reads(
        &mut self,
        needs: &TierNeeds,
        memory: f64,
        place: &Place,
        popularity: &Popularity,
    ) {
        let tree = &place.tree;
        let mut levels = tree.held(popularity, &place.ages, place.first_far);
        // The first is L0.
        for (held, step) in levels.iter_mut().skip(1).zip(steps_down(place, popularity)) {
            held.replaced = needs.puts_share() * step.replaced / step.level_bytes.max(1.0);
        }
        let reads = Reads {
            popularity,
            levels: &levels,
            block_entries: tree.block_entries(),
            gets: needs.reads_share,
            scans: needs.scans_share,
            scan_records: needs.scan_records as f64,
        };
        let memory_blocks = memory / tree.block_bytes();
        let memory_life = reads.life(memory_blocks, |_| true);
        let far = || levels.iter().filter(|held| held.is_far);
        let far_in_memory: f64 = far().map(|held| reads.cached_of(held, memory_life)).sum();
        let near_blocks = place.block_bytes / tree.block_bytes();
        let life = reads.life(far_in_memory + near_blocks, |held| held.is_far).max(memory_life);
        let mut local_scanned = 0.0;
        // The chance that a scan begins without a request.
        let mut begins_near = 1.0;
        for held in &levels {
            let entries = needs.scan_records as f64 * held.entries / tree.records;
            let blocks = 1.0 + entries / tree.block_entries();
            let beyond_memory = reads.misses_of(held, memory_life);
            let beyond_disk = match held.is_far {
                true => reads.misses_of(held, life),
                false => Misses::default(),
            };
            self.far_share += beyond_disk.gets;
            self.local_share += (beyond_memory.gets - beyond_disk.gets).max(0.0);
            local_scanned += blocks * (beyond_memory.scanned - beyond_disk.scanned).max(0.0);
            if held.is_far {
                let bytes = entries * tree.entry_bytes;
                let scan = ScanOfLevel::of(bytes, tree.block_bytes(), beyond_disk.scanned);
                self.scan_requests += scan.first + scan.beyond;
                self.scan_waits += scan.beyond;
                self.scan_bytes += scan.bytes;
                begins_near *= 1.0 - scan.first;
            }
        }
        self.scan_waits += 1.0 - begins_near;
        let gets = needs.operations_per_s * needs.reads_share;
        let scans = needs.operations_per_s * needs.scans_share;
        self.local_reads += gets * self.local_share + scans * local_scanned;
        self.gets += gets * self.far_share + scans * self.scan_requests;
        self.bytes_down += gets * self.far_share * tree.block_bytes() + scans * self.scan_bytes;
    }

    /// What puts ask for as they go down below the line.
    fn add_compactions(&mut self, needs: &TierNeeds, place: &Place, popularity: &Popularity) {
        let tree = &place.tree;
        let puts = needs.operations_per_s * needs.puts_share();
        if puts <= 0.0 || place.first_far == BELOW_ALL {
            return;
        }
        // Above the first level is L0, which is local.
        let mut source_is_far = false;
        for step in steps_down(place, popularity) {
            if step.level < place.first_far {
                continue;
            }
            let bytes = puts * step.bytes;
            self.bytes_up += bytes * (1.0 + step.met);
            let tables = bytes * (1.0 + step.met) / tree.table_bytes;
            self.puts += tables * requests_of_table(tree.table_bytes);
            self.deletes += tables;
            let read = bytes * (step.met + f64::from(u8::from(source_is_far)));
            source_is_far = true;
            self.bytes_down += read;
            let piece = (PIECE_BYTES - OVERLAP_BYTES) as f64;
            self.gets += read / tree.table_bytes * (tree.table_bytes / piece).ceil();
        }
    }

    /// What keeps the store up to date: the feed, the mirror and the log.
    pub fn with_safety(
        mut self,
        needs: &TierNeeds,
        place: &Place,
        safety: &Safety,
        popularity: &Popularity,
    ) -> Flow {
        let tree = &place.tree;
        let puts = needs.operations_per_s * needs.puts_share();
        if puts <= 0.0 || place.first_far == BELOW_ALL && safety.mirror.is_none() {
            return self;
        }
        let flushes = puts / tree.memtable_entries;
        let objects_max = 1.0 / needs.put_latency.as_secs_f64().max(1e-4);
        let steps = steps_down(place, popularity);
        let Some(period) = safety.mirror.map(|period| period.as_secs_f64()) else {
            let first = flushes / tree.rows_per_cut;
            let deeper = steps.iter().skip(1).map(|step| puts * step.bytes / tree.table_bytes);
            self.add_objects((flushes + first + deeper.sum::<f64>()).min(objects_max));
            return self;
        };
        let moments = 1.0 / period;
        self.add_objects(moments);
        // A moment flushes what is in memory, and brings what has come since the one before and is
        // still there.
        let l0_bytes = tree.l0_bytes(popularity, &place.ages);
        let rows = (flushes * period).min(tree.rows_per_cut / 2.0) + 1.0;
        let row_bytes =
            tree.entry_bytes * popularity.distinct((puts * period).min(tree.memtable_entries));
        self.add_files(moments * rows, row_bytes, tree.table_bytes);
        for step in steps.iter().filter(|step| step.level < place.first_far) {
            let written = puts * step.bytes * (1.0 + step.met) * period;
            let brought = written.min(step.level_bytes);
            self.add_files(moments, brought, tree.table_bytes);
        }
        self.stored_bytes += l0_bytes + tree.near_bytes(place.first_far);
        if safety.has_volume {
            // A segment is kept until a moment in the store has what is in it.
            let kept = puts * tree.entry_bytes * period;
            self.log_volume_bytes = kept.max(tree.log_bytes_max as f64);
        }
        if let Some(interval) = safety.log {
            let objects = log_objects(needs, interval, safety.durability, puts);
            let bytes = puts * tree.entry_bytes;
            self.add_objects(objects.max(bytes / LOG_OBJECT_BYTES as f64));
            self.bytes_up += bytes;
            self.stored_bytes += bytes * period;
        }
        if let Some(back) = safety.archive {
            let l0 = (puts * tree.entry_bytes, l0_bytes);
            let level = |step: &StepDown| (puts * step.bytes * (1.0 + step.met), step.level_bytes);
            let written = std::iter::once(l0).chain(steps.iter().map(level));
            let kept = archive::kept(back, puts * tree.entry_bytes, written);
            self.stored_bytes += kept.log_bytes + kept.file_bytes;
            // The base, and the pin of what it names.
            self.add_objects(2.0 * kept.bases_per_s);
        }
        self
    }

    /// Small objects that are stored, and deleted later on.
    fn add_objects(&mut self, objects: f64) {
        self.puts += objects;
        self.deletes += objects;
    }

    /// So often, files of `bytes` in all.
    fn add_files(&mut self, often: f64, bytes: f64, table_bytes: f64) {
        let files = (bytes / table_bytes).max(1.0);
        let largest = bytes.min(table_bytes);
        self.puts += often * files * requests_of_table(largest);
        self.deletes += often * files;
        self.bytes_up += often * bytes;
    }

    pub fn requests(&self, needs: &TierNeeds) -> TierRequests {
        let of = |per_s: f64| per_s / needs.operations_per_s;
        TierRequests { gets: of(self.gets), puts: of(self.puts), deletes: of(self.deletes) }
    }

    /// What a month costs, with so many bytes of local disk.
    pub fn dollars(&self, needs: &TierNeeds, local_bytes: u64) -> TierDollars {
        let count = |requests: f64, bytes: f64| RequestCount {
            requests: whole(requests * MONTH_S),
            failures: 0,
            bytes: whole(bytes * MONTH_S),
        };
        let counts = RequestCounts {
            put: count(self.puts, self.bytes_up),
            get: count(self.gets, self.bytes_down),
            delete: count(self.deletes, 0.0),
            ..RequestCounts::default()
        };
        let bill = needs.store_prices.bill(&counts);
        let local = needs.local_prices.month(local_bytes);
        let stored = match self.stored_bytes > 0.0 {
            true => needs.store_prices.month(whole(self.stored_bytes)),
            false => Dollars::ZERO,
        };
        let local_iops =
            self.more_iops(&needs.local_prices).map_or(Dollars::ZERO, |(_, price)| price);
        let volume_prices = needs.log_volume_prices.as_ref();
        let volume_prices = volume_prices.filter(|_| self.log_volume_bytes > 0.0);
        let log_volume = volume_prices
            .map_or(Dollars::ZERO, |prices| prices.month(whole(self.log_volume_bytes)));
        let kept = TierDollars { local, local_iops, log_volume, stored, ..TierDollars::default() };
        kept.with_bill(&bill, whole(needs.operations_per_s * MONTH_S))
    }

    /// Operations a second that the volume of the local disk has too few of, where no more of them
    /// can be had: those that there are.
    pub fn lacks_iops(&self, prices: &PriceSheet) -> Option<u64> {
        let volume = self.outgrown(prices)?;
        (volume.per_iops_month == Dollars::ZERO).then_some(volume.iops)
    }

    /// Operations a second that have to be provisioned of the local disk, if the sheet has too few
    /// and sells more; and what those that the sheet lacks cost a month.
    pub fn more_iops(&self, prices: &PriceSheet) -> Option<(u64, Dollars)> {
        let volume = self.outgrown(prices)?;
        let mut more = volume;
        more.iops = self.local_reads.ceil() as u64;
        more.iops_free = volume.iops.max(volume.iops_free);
        more.mb_per_s = 0;
        (volume.per_iops_month > Dollars::ZERO).then(|| (more.iops, more.month()))
    }

    /// The volume of the local disk, if it has a bound that is exceeded.
    fn outgrown(&self, prices: &PriceSheet) -> Option<VolumePrices> {
        let volume = prices.volume.filter(|volume| volume.iops > 0)?;
        (self.local_reads > volume.iops as f64).then_some(volume)
    }
}

/// How long a write takes on average that waits for the store: a request, and half of the interval
/// in which it waits for others. One that waits for a volume takes as long as a block from there.
pub(super) fn durable_write(needs: &TierNeeds, safety: &Safety) -> Option<Duration> {
    if safety.has_volume {
        return Some(needs.local_latency);
    }
    let interval = safety.log.filter(|_| safety.durability == Durability::Durable)?;
    Some(needs.put_latency + interval / 2)
}

/// Objects of the log a second.
pub(super) fn log_objects(
    needs: &TierNeeds,
    interval: Duration,
    durability: Durability,
    puts: f64,
) -> f64 {
    let apart = match durability {
        Durability::Durable => interval,
        _ => interval.max(LOG_PATIENCE),
    };
    let at_once = LOG_WRITERS as f64 / needs.put_latency.as_secs_f64().max(1e-6);
    (1.0 / apart.as_secs_f64().max(1e-6)).min(at_once).min(puts)
}

/// What comes down into a level for each put.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepDown {
    pub level: u8,
    pub level_bytes: f64,
    /// Bytes that come from above.
    pub bytes: f64,
    /// Bytes of the level that each of them meets.
    pub met: f64,
    /// Bytes of the level that go: those that are met, and what goes further down.
    pub replaced: f64,
}

/// How an entry goes down, for each put. What is written again before it would go is left out: of
/// it only the newest goes.
pub(super) fn steps_down(place: &Place, popularity: &Popularity) -> Vec<StepDown> {
    let (tree, ages) = (&place.tree, &place.ages);
    let mut above = popularity.distinct(ages.cut) * tree.entry_bytes;
    let mut age = ages.cut;
    let mut steps = Vec::new();
    for (index, level) in tree.levels.iter().enumerate() {
        let level_bytes = level.bytes as f64;
        // A cut takes all of L0, over all of a last level; what a level above has becomes full and
        // then meets about half of what lies under it.
        let share = if index == 0 && tree.levels.len() == 1 { 1.0 } else { 0.5 };
        let bytes = popularity.first_ones(age) * tree.entry_bytes;
        let met = level_bytes / above.max(1.0) * share;
        let goes_on = f64::from(u8::from(index + 1 < tree.levels.len()));
        let replaced = bytes * (met + goes_on);
        steps.push(StepDown { level: level.level, level_bytes, bytes, met, replaced });
        above = level_bytes;
        age = ages.levels.get(index).copied().unwrap_or(age);
    }
    steps
}

fn requests_of_table(bytes: f64) -> f64 {
    match bytes <= ONE_PUT_BYTES_MAX as f64 {
        true => 1.0,
        // Its beginning, its parts and its end.
        false => 2.0 + (bytes / PART_BYTES as f64).ceil(),
    }
}

fn whole(number: f64) -> u64 {
    number.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_table_goes_in_parts() {
        let mib = f64::from(1 << 20);
        assert_eq!(requests_of_table(32.0 * mib), 1.0);
        assert_eq!(requests_of_table(64.0 * mib), 1.0);
        assert_eq!(requests_of_table(65.0 * mib), 11.0);
    }
}
