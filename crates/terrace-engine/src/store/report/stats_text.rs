//! The figures of a range as people read them, at most 100 columns wide.

use std::fmt;

use crate::explain::text::{bytes, percent};
use crate::store::report::l0_stats::ON_DATA_DISK;
use crate::store::report::stats::{BackgroundIoStats, LevelStats, StoreStats};

impl fmt::Display for StoreStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show_troubles(f)?;
        writeln!(f, "since the open")?;
        self.show_work(f)?;
        writeln!(f, "now")?;
        self.show_state(f)?;
        if !self.levels.is_empty() {
            self.show_levels(f)?;
        }
        match &self.cloud {
            Some(cloud) => writeln!(f, "{cloud}"),
            None => Ok(()),
        }
    }
}

impl StoreStats {
    /// What somebody should look at, before everything else.
    fn show_troubles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (work, failed) in self.failed_work.iter().filter(|(_, failed)| failed.count > 0) {
            let state = if failed.is_failing { "is failing" } else { "goes on" };
            let (count, error) = (failed.count, &failed.last_error);
            writeln!(f, "attention: {work} has failed {count} times and {state}; last: {error}")?;
        }
        let refused = self.refused_writes.iter().filter(|(_, count)| **count > 0);
        let refused: Vec<_> = refused.map(|(cause, count)| format!("{count} {cause}")).collect();
        if !refused.is_empty() {
            writeln!(f, "refused writes: {}", refused.join(", "))?;
        }
        let held = &self.snapshots;
        if held.snapshot_count > 0 {
            writeln!(
                f,
                "snapshots: {}, the oldest {:.1} s old, {} entries ago",
                held.snapshot_count,
                held.oldest_age_ms as f64 / 1e3,
                held.entries_since
            )?;
        }
        Ok(())
    }

    fn show_work(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = bytes(self.write_bytes);
        writeln!(f, "  written        {} entries, {written}", self.write_count)?;
        writeln!(
            f,
            "  read           {} keys one by one, {:.2} tables searched for each",
            self.get_count, self.read_amplification
        )?;
        writeln!(
            f,
            "  scanned        {} keys by {} iterators, {} dead ones stepped over",
            self.scanned_count, self.scan_count, self.scan_hidden_count
        )?;
        self.show_averages(f)?;
        write!(
            f,
            "  log            {} appended, {} syncs, {} live",
            bytes(self.log_write_bytes),
            self.log_sync_count,
            bytes(self.log_live_bytes)
        )?;
        if let Some(medium) = self.log_medium {
            write!(f, ", on persistent memory ({medium})")?;
        }
        writeln!(f)?;
        write!(f, "  flushes        {}, {}", self.flush_count, bytes(self.flush_bytes))?;
        if self.l0_medium_bytes > 0 {
            write!(f, ", of these {} to the medium of L0", bytes(self.l0_medium_bytes))?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "  merges         {} memtables, {} dead versions gone, {} not flushed",
            self.memtable_merge_count,
            self.merged_away_count,
            bytes(self.unflushed_bytes)
        )?;
        writeln!(
            f,
            "  compactions    {}, of these {} cuts of L0; {} moves",
            self.compaction_count, self.cut_count, self.move_count
        )?;
        writeln!(
            f,
            "                 {} read, {} written, {} entries dropped",
            bytes(self.compaction_read_bytes),
            bytes(self.compaction_write_bytes),
            self.dropped_entry_count
        )?;
        self.show_filter(f)?;
        if self.value_log.is_used() {
            writeln!(f, "  value log      {}", self.value_log)?;
        }
        writeln!(
            f,
            "  write amplification {:.2} (tables; the log adds 1)",
            self.write_amplification()
        )?;
        self.show_background_io(f)?;
        write!(f, "{}", self.stalls)
    }

    /// What a read touches on average: of sampled reads, if there are any.
    fn show_averages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reads = &self.reads;
        if reads.sampled_get_count > 0 {
            writeln!(
                f,
                "  each get       {:.2} sources, {:.2} filters, {:.2} blocks, {:.2} of files ({} sampled)",
                reads.sources_per_get,
                reads.filters_per_get,
                reads.blocks_per_get,
                reads.file_blocks_per_get,
                reads.sampled_get_count
            )?;
        }
        if reads.sampled_scan_count > 0 {
            writeln!(
                f,
                "  each scan      {:.2} sources ({} sampled), {:.1} keys shown, {:.1} dead ones",
                reads.sources_per_scan,
                reads.sampled_scan_count,
                reads.shown_per_scan,
                reads.hidden_per_scan
            )?;
        }
        Ok(())
    }

    fn show_filter(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dropped, changed) = (self.filtered_dropped_count, self.filtered_changed_count);
        if dropped + changed + self.filter_set_aside_count == 0 {
            return Ok(());
        }
        writeln!(
            f,
            "  filter         {dropped} values dropped, {changed} changed, set aside {} times",
            self.filter_set_aside_count
        )
    }

    fn show_background_io(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BackgroundIoStats { limit_bytes_per_second, flush_wait_us, compaction_wait_us } =
            self.background_io;
        if limit_bytes_per_second.is_none() && flush_wait_us + compaction_wait_us == 0 {
            return Ok(());
        }
        let limit = limit_bytes_per_second
            .map_or("none now".into(), |limit| format!("{} a second", bytes(limit)));
        writeln!(
            f,
            "  background I/O limit {limit}; flushes waited {:.1} s, compactions {:.1} s",
            flush_wait_us as f64 / 1e6,
            compaction_wait_us as f64 / 1e6
        )
    }

    fn show_state(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.memory)?;
        writeln!(
            f,
            "  memtables      {}, {} waiting to be flushed",
            bytes(self.memtable_bytes),
            self.frozen_memtable_count
        )?;
        writeln!(
            f,
            "  merged         {} in {} memtables of hot dranges",
            bytes(self.merged_memtable_bytes),
            self.merged_memtable_count
        )?;
        if let Some(index) = &self.lookup_index {
            writeln!(
                f,
                "  lookup index   {}, {} keys, {:.0} B for each, {} full buckets{}",
                bytes(index.bytes),
                index.live_slots,
                index.bytes_per_key(),
                index.full_buckets,
                if index.is_incomplete { "; what was there before is being noted" } else { "" }
            )?;
        }
        if self.l0.container_is_on_data_disk {
            writeln!(f, "  attention      {ON_DATA_DISK}")?;
        }
        let lookups = self.cache_hit_count + self.cache_miss_count;
        writeln!(
            f,
            "  block cache    {}, {} look-ups, {} found their block",
            bytes(self.cache_bytes),
            lookups,
            percent(self.cache_hit_count, lookups)
        )?;
        writeln!(f, "  filters, indexes of open tables {}", bytes(self.table_memory_bytes))?;
        writeln!(f, "  space amplification {:.2} (estimated)", self.space_amplification)
    }

    fn show_levels(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  level   tables       size      entries  tombstones   taken in  rewritten    written  ampl."
        )?;
        for level in &self.levels {
            writeln!(
                f,
                "  L{}    {:>8} {:>10} {:>12} {:>11} {:>10} {:>10} {:>10} {:>6.2}",
                level.level,
                level.table_count,
                bytes(level.bytes),
                level.entry_count,
                level.tombstone_count,
                bytes(level.taken_in_bytes + level.moved_in_bytes),
                bytes(level.rewritten_bytes),
                bytes(level.written_bytes),
                level.write_amplification
            )?;
        }
        if self.levels.iter().all(|level| level.asked() == 0) {
            return Ok(());
        }
        writeln!(
            f,
            "  level    asked for a key   filter: no        found  false positives     rate"
        )?;
        for level in self.levels.iter().filter(|level| level.asked() > 0) {
            self.show_asked(f, level)?;
        }
        Ok(())
    }

    fn show_asked(&self, f: &mut fmt::Formatter<'_>, level: &LevelStats) -> fmt::Result {
        let not_there = level.filtered_out_count + level.false_positive_count;
        writeln!(
            f,
            "  L{}    {:>18} {:>12} {:>12} {:>16} {:>8}",
            level.level,
            level.asked(),
            level.filtered_out_count,
            level.found_count,
            level.false_positive_count,
            percent(level.false_positive_count, not_there)
        )
    }
}
