//! What a range has in its object store, and what it asked of it.

use std::fmt;
use std::time::Duration;

use terrace_base::LEVEL_MAX;

use crate::cache::persistent::PersistentCacheStats;
use crate::cloud::{
    Bill, CloudLog, CloudLogStats, Dollars, PriceSheet, RequestCounts, RequestKind,
};
use crate::explain::text::{bytes, count};
use crate::store::Inner;
use crate::store::cloud::{ArchiveStats, FarCollector, OutlivingLog, VolumeLogStats};
use crate::version::Version;

/// What a range has in its object store, and what it asked of it since the open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CloudStats {
    /// The store's URL, without anything secret.
    pub url: String,
    /// The first level whose tables go there; one behind the last level if none do.
    pub first_level: u8,
    /// Tables of the newest version that lie there.
    pub table_count: u64,
    /// Bytes of these.
    pub table_bytes: u64,
    /// Tables that no version names any more and that are to be deleted there.
    pub dropped_count: u64,
    /// Bytes of tables, values and log on the local disk, with what is removed and not deleted yet.
    pub local_bytes: u64,
    /// Bytes that they may take; `None` without a bound.
    pub local_bytes_max: Option<u64>,
    /// How often the store gets the levels above the line as well, in milliseconds; `None` if it
    /// does not, or where only somebody else knows.
    pub mirror_ms: Option<u64>,
    /// How far apart the objects of the log there are at least, likewise.
    pub log_ms: Option<u64>,
    /// What is kept of the tables there on the local disk; `None` if nothing is.
    pub near: Option<PersistentCacheStats>,
    /// What the log there has come to; `None` if it is not brought there.
    pub log: Option<CloudLogStats>,
    /// What the log on a volume has come to; `None` if it lies on none, or there is no mirror.
    pub volume: Option<VolumeLogStats>,
    /// What the archive of earlier states has come to; `None` if this owner keeps none.
    pub archive: Option<ArchiveStats>,
    /// Requests by kind.
    pub requests: RequestCounts,
    /// What the store charges, for the estimates below.
    pub prices: PriceSheet,
    /// About what the requests cost, the failed and the repeated ones included. An estimate.
    pub bill: Bill,
    /// About what it costs to keep the tables there for a month. An estimate.
    pub month_dollars: Dollars,
}

impl Inner {
    /// `None` if the range has no store.
    pub(super) fn cloud_stats(&self, version: &Version) -> Option<CloudStats> {
        let tier = self.cloud.as_ref()?;
        let far = &self.context.opener.far;
        let tables = version.tables().map(|table| table.meta());
        let (there, here): (Vec<_>, Vec<_>) = tables.partition(|meta| meta.location.is_far());
        let of_tables = here.iter().map(|meta| meta.bytes);
        let of_values = version.values().local().map(|meta| meta.bytes);
        let in_log = self.local_log_bytes();
        let (log, end) = (tier.outliving_log(), self.sequencer.finished().1);
        let table_bytes = there.iter().map(|meta| meta.bytes).sum();
        let requests = tier.store().map(|store| store.counts()).unwrap_or_default();
        let prices = tier.prices();
        let millis = |time: Option<Duration>| time.map(|time| time.as_millis() as u64);
        Some(CloudStats {
            url: tier.url().to_string(),
            first_level: far.line().first_far(),
            table_count: there.len() as u64,
            table_bytes,
            dropped_count: tier.collector().map_or(0, FarCollector::dropped_count) as u64,
            local_bytes: of_tables.chain(of_values).sum::<u64>()
                + in_log
                + self.context.reclaim.local_bytes(),
            local_bytes_max: tier.options().and_then(|options| options.local_bytes),
            mirror_ms: millis(tier.options().and_then(|options| options.mirror)),
            log_ms: millis(tier.options().and_then(|options| options.log)),
            near: far.near().map(|near| near.stats()),
            log: log.and_then(OutlivingLog::in_store).map(|log| log.stats(end)),
            archive: tier.archive().and_then(|archive| {
                let log = log.and_then(OutlivingLog::in_store);
                archive.stats(log.and_then(CloudLog::newest_fed))
            }),
            volume: log.and_then(OutlivingLog::on_volume).map(|log| log.stats(end)),
            requests,
            bill: prices.bill(&requests),
            month_dollars: prices.month(table_bytes),
            prices,
        })
    }
}

impl fmt::Display for CloudStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = count(self.table_count, "table", "tables");
        writeln!(f, "object store     {}", self.url)?;
        write!(f, "  there          {tables}, {}", bytes(self.table_bytes))?;
        if self.first_level <= LEVEL_MAX.0 {
            write!(f, "; levels from {} on go there", self.first_level)?;
        } else {
            f.write_str("; no level goes there yet")?;
        }
        if self.dropped_count > 0 {
            write!(f, "; {} to be deleted", count(self.dropped_count, "table", "tables"))?;
        }
        write!(f, "\n  here           {}", bytes(self.local_bytes))?;
        if let Some(max) = self.local_bytes_max {
            write!(f, " of {}", bytes(max))?;
        }
        if let Some(near) = &self.near {
            write!(f, "\n  metadata       {}", near.meta)?;
            write!(f, "\n  near blocks    {}", near.data)?;
        }
        if let Some(log) = &self.log {
            let objects = count(log.objects, "object", "objects");
            let lost = bytes(log.unsafe_bytes);
            write!(f, "\n  log there      {objects}, {}; {lost} are here alone", bytes(log.bytes))?;
        }
        if let Some(archive) = &self.archive {
            let bases = count(archive.base_count, "checkpoint", "checkpoints");
            let objects = count(archive.log_objects, "object", "objects");
            write!(f, "\n  archive        {bases} and {objects} of the log")?;
        }
        if let Some(log) = &self.volume {
            write!(f, "\n  log on volume  {} behind the newest moment", bytes(log.kept_bytes))?;
            if log.awaits_moment {
                f.write_str("; durable writes wait for the next one")?;
            }
        }
        write!(f, "\n  requests       {}", self.requests.requests())?;
        for kind in RequestKind::ALL {
            let asked = self.requests.of(kind);
            if asked.requests > 0 {
                write!(f, ", {} {}", asked.requests, kind.name())?;
                if asked.failures > 0 {
                    write!(f, " ({} failed)", asked.failures)?;
                }
            }
        }
        let (up, down) = (self.requests.bytes_up(), self.requests.bytes_down());
        write!(f, "; {} up, {} down", bytes(up), bytes(down))?;
        if self.prices.is_free() {
            return Ok(());
        }
        let (bill, month) = (&self.bill, self.month_dollars);
        write!(f, "\n  money          {bill}; {month} a month for the tables there")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cloud::RequestCount;

    #[test]
    fn a_person_reads_what_lies_where() {
        let mut stats = CloudStats {
            url: "s3://bucket/data".into(),
            first_level: 5,
            table_count: 3,
            table_bytes: 12 << 20,
            dropped_count: 1,
            local_bytes: 20 << 20,
            local_bytes_max: Some(64 << 20),
            ..CloudStats::default()
        };
        stats.requests.put = RequestCount { requests: 4, failures: 1, bytes: 12 << 20 };
        stats.requests.get = RequestCount { requests: 9, failures: 0, bytes: 1 << 20 };
        let expected = "\
object store     s3://bucket/data
  there          3 tables, 12.0 MiB; levels from 5 on go there; 1 table to be deleted
  here           20.0 MiB of 64.0 MiB
  requests       13, 4 put (1 failed), 9 get; 12.0 MiB up, 1.0 MiB down";
        assert_eq!(stats.to_string(), expected);
        let mut near = PersistentCacheStats::default();
        (near.meta.table_count, near.meta.bytes, near.meta.misses) = (3, 100 << 10, 1);
        (near.data.hits, near.data.misses) = (75, 25);
        (near.data.bytes, near.data.bytes_max) = (4 << 20, 8 << 20);
        let with_near = CloudStats { near: Some(near), ..stats.clone() };
        let expected_near = "\
  metadata       of 3 tables, 100.0 KiB; of 1 table it was fetched
  near blocks    4.0 MiB of 8.0 MiB; 75.0 % of 100 reads found their block
  requests ";
        assert!(with_near.to_string().contains(expected_near), "{with_near}");
        stats.prices = PriceSheet::of_url(&stats.url);
        stats.bill = stats.prices.bill(&stats.requests);
        stats.month_dollars = stats.prices.month(stats.table_bytes);
        let money = "\n  money          $0.0000236 (estimate, prices s3 of 2025-06); $0.00027 a month \
                     for the tables there";
        assert_eq!(stats.to_string(), format!("{expected}{money}"));
    }
}
