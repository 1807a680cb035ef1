//! What a database that is there does, out of what it says of itself. Pure.
//!
//! ```text
//!   reading ── time ── reading ─► ObservedTier: what is asked of it, and the layout that it has
//! ```
//! A directory that nobody has open has no counters: one reading says what is in it, and no more.

use std::time::Duration;

use terrace_engine::cloud::{PriceSheet, RequestCounts};

use super::cost::{MONTH_S, TierDollars, TierRequests};
use super::tree::BELOW_ALL;
use crate::plan::KEY_BYTES;

/// What a database says of itself at one moment, as far as a plan needs it: figures of
/// [`Stats`](crate::Stats). Counters count from the open.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TierReading {
    /// Bytes of tables of all levels.
    pub table_bytes: u64,
    /// Entries in them.
    pub entry_count: u64,
    /// How many times what is alive the tables take.
    pub space_amplification: f64,
    /// Bytes of large values that are alive and lie in files of their own.
    pub value_file_bytes: u64,
    /// Bytes of memtables.
    pub memtable_bytes: u64,
    /// Bytes of blocks that memory may hold at most.
    pub cache_bytes: u64,
    /// Entries that were written.
    pub write_count: u64,
    /// Keys that were read one by one.
    pub get_count: u64,
    /// Scans that ended.
    pub scan_count: u64,
    /// Keys that they showed.
    pub scanned_count: u64,
    /// What lies in an object store, and what was asked of it, if there is one.
    pub store: Option<StoreReading>,
}

/// The part of a [`TierReading`] that is about the object store.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StoreReading {
    /// The layout.
    pub layout: PresentTier,
    /// Bytes of tables that lie there.
    pub stored_bytes: u64,
    /// Requests since the open.
    pub requests: RequestCounts,
}

/// The layout that a database has on a local disk and in an object store.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PresentTier {
    /// The first level in the store; `None` if all are local.
    pub first_far_level: Option<u8>,
    /// How much of the local disk it may take, or takes where that is not known.
    pub local_bytes: u64,
    /// What blocks of far levels may take of the local disk, if that is known.
    pub block_bytes: Option<u64>,
    /// Bytes of blocks that memory may hold, if that is known.
    pub memory_block_bytes: Option<u64>,
    /// How often the store gets a moment of the whole database, in milliseconds, if it does.
    pub mirror_ms: Option<u64>,
    /// How far apart the objects of the log in the store are, likewise.
    pub log_ms: Option<u64>,
    /// Whether the log lies on a volume that outlives the machine.
    pub has_log_volume: bool,
    /// Whether writes wait until the log is where it outlives the machine. No figure says it, since
    /// each write has a class of its own: `false` is what a database begins with.
    pub is_durable: bool,
    /// What was measured of it.
    pub measured: Option<MeasuredTier>,
}

/// What was asked of an object store meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MeasuredTier {
    /// For how many seconds it was looked at.
    pub seconds: f64,
    /// Operations of the database a second.
    pub operations_per_s: f64,
    /// Requests for an operation.
    pub requests: TierRequests,
    /// All requests, by kind.
    pub counts: RequestCounts,
    /// Bytes of tables that lie in the store.
    pub stored_bytes: u64,
}

/// What a database does and what it has, as far as its readings tell.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ObservedTier {
    /// Bytes that are alive; estimated, since what is dead counts until it is dropped.
    pub data_bytes: Option<u64>,
    /// The average length of values, as tables have them; estimated, since a length of keys is
    /// assumed.
    pub value_bytes: Option<u64>,
    /// Operations a second; `None` for all of these if there were none.
    pub operations_per_s: Option<f64>,
    /// The share of gets.
    pub reads_share: Option<f64>,
    /// The share of scans.
    pub scans_share: Option<f64>,
    /// How many records a scan goes through; `None` without a scan.
    pub scan_records: Option<u64>,
    /// The layout, if there is an object store.
    pub present: Option<PresentTier>,
}

impl ObservedTier {
    /// What one reading says: what is there, but not what it does.
    #[must_use]
    pub fn of(now: &TierReading) -> ObservedTier {
        let alive = |bytes: u64| bytes as f64 / now.space_amplification.max(1.0);
        let in_tables = (now.entry_count > 0).then(|| {
            let bytes = alive(now.table_bytes) + now.value_file_bytes as f64;
            (bytes, bytes / alive(now.entry_count))
        });
        let in_memory = (now.memtable_bytes > 0).then_some(now.memtable_bytes);
        let present = now.store.as_ref().map(|store| PresentTier {
            first_far_level: store.layout.first_far_level.filter(|level| *level < BELOW_ALL),
            memory_block_bytes: (now.cache_bytes > 0).then_some(now.cache_bytes),
            measured: None,
            ..store.layout.clone()
        });
        ObservedTier {
            data_bytes: in_tables.map(|(bytes, _)| bytes.round() as u64).or(in_memory),
            value_bytes: in_tables
                .map(|(_, entry)| (entry.round() as u64).saturating_sub(KEY_BYTES).max(1)),
            present,
            ..ObservedTier::default()
        }
    }

    /// What two readings say, with so much time between them. The first may be
    /// [`TierReading::default`], for all that was done since the open.
    #[must_use]
    pub fn between(before: &TierReading, now: &TierReading, time: Duration) -> ObservedTier {
        let mut observed = ObservedTier::of(now);
        let grown = |of: fn(&TierReading) -> u64| of(now).saturating_sub(of(before)) as f64;
        let gets = grown(|reading| reading.get_count);
        let scans = grown(|reading| reading.scan_count);
        let all = gets + scans + grown(|reading| reading.write_count);
        let seconds = time.as_secs_f64();
        if all <= 0.0 || seconds <= 0.0 {
            return observed;
        }
        observed.operations_per_s = Some(all / seconds);
        observed.reads_share = Some(gets / all);
        observed.scans_share = Some(scans / all);
        let scanned = grown(|reading| reading.scanned_count);
        observed.scan_records = (scans > 0.0).then(|| (scanned / scans).round().max(1.0) as u64);
        if let (Some(present), Some(store)) = (&mut observed.present, &now.store) {
            let before = before.store.as_ref().map(|store| store.requests).unwrap_or_default();
            let counts = store.requests.since(&before);
            let each = |requests: u64| requests as f64 / all;
            let requests = TierRequests {
                gets: each(counts.that_read()),
                puts: each(counts.that_store()),
                deletes: each(counts.delete.requests),
            };
            present.measured = Some(MeasuredTier {
                seconds,
                operations_per_s: all / seconds,
                requests,
                counts,
                stored_bytes: store.stored_bytes,
            });
        }
        observed
    }
}

impl MeasuredTier {
    /// What a month like it costs, with so many local bytes.
    pub(super) fn month(
        &self,
        store: &PriceSheet,
        local: &PriceSheet,
        local_bytes: u64,
    ) -> TierDollars {
        let bill = store.bill(&self.counts.times(MONTH_S / self.seconds));
        let (local, stored) = (local.month(local_bytes), store.month(self.stored_bytes));
        let kept = TierDollars { local, stored, ..TierDollars::default() };
        kept.with_bill(&bill, (self.operations_per_s * MONTH_S).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: figures become what a plan is made from, and what they do not say is left open.

    use terrace_engine::cloud::RequestCount;

    use super::*;

    fn reading() -> TierReading {
        let layout = PresentTier { first_far_level: Some(6), ..PresentTier::default() };
        let store = StoreReading { layout, stored_bytes: 1 << 30, ..StoreReading::default() };
        TierReading {
            table_bytes: 1_536_000,
            entry_count: 1500,
            space_amplification: 1.5,
            memtable_bytes: 70_000,
            cache_bytes: 1 << 20,
            store: Some(store),
            ..TierReading::default()
        }
    }

    #[test]
    fn a_directory_says_what_is_in_it() {
        let observed = ObservedTier::of(&reading());
        assert_eq!((observed.data_bytes, observed.value_bytes), (Some(1_024_000), Some(1000)));
        assert_eq!((observed.operations_per_s, observed.reads_share), (None, None));
        let present = observed.present.expect("a store");
        assert_eq!((present.first_far_level, present.memory_block_bytes), (Some(6), Some(1 << 20)));
        assert_eq!(present.measured, None);
        // Large values lie in files of their own.
        let large = TierReading { value_file_bytes: 1_024_000, ..reading() };
        let observed = ObservedTier::of(&large);
        assert_eq!((observed.data_bytes, observed.value_bytes), (Some(2_048_000), Some(2024)));
        // Without tables a memtable says how much there is, but not in how many entries.
        let young = TierReading { memtable_bytes: 70_000, ..TierReading::default() };
        let observed = ObservedTier::of(&young);
        assert_eq!((observed.data_bytes, observed.value_bytes), (Some(70_000), None));
        assert_eq!(ObservedTier::of(&TierReading::default()), ObservedTier::default());
    }

    #[test]
    fn two_readings_say_what_is_asked() {
        let before = TierReading { get_count: 1000, write_count: 7, ..reading() };
        let mut now = TierReading { get_count: 1700, write_count: 257, ..reading() };
        (now.scan_count, now.scanned_count) = (50, 2000);
        let requests = RequestCount { requests: 150, failures: 0, bytes: 4 << 20 };
        now.store.as_mut().expect("a store").requests.get = requests;
        let observed = ObservedTier::between(&before, &now, Duration::from_secs(10));
        assert_eq!(observed.operations_per_s, Some(100.0));
        assert_eq!((observed.reads_share, observed.scans_share), (Some(0.7), Some(0.05)));
        assert_eq!(observed.scan_records, Some(40));
        let measured = observed.present.and_then(|present| present.measured).expect("a store");
        assert_eq!((measured.requests.gets, measured.requests.puts), (0.15, 0.0));
        // 15 gets a second for 730 hours, and a gigabyte there.
        let sheet = |name| PriceSheet::named(name).expect("a sheet");
        let month = measured.month(&sheet("s3"), &sheet("ebs-gp3"), 10 << 30);
        assert!((month.gets.to_f64() - 15.0 * 730.0 * 3600.0 * 4e-7).abs() < 1e-6, "{month:?}");
        assert_eq!((month.local.to_f64(), month.stored.to_f64()), (0.8, 0.023));
        assert_eq!(month.total, month.local + month.stored + month.gets);
    }

    #[test]
    fn counters_that_stand_still_or_went_back_say_nothing() {
        let second = Duration::from_secs(1);
        assert_eq!(ObservedTier::between(&reading(), &reading(), second).operations_per_s, None);
        // The server was started anew.
        let before = TierReading { get_count: 1000, ..reading() };
        assert_eq!(ObservedTier::between(&before, &reading(), second).operations_per_s, None);
        let now = TierReading { get_count: 5, ..reading() };
        assert_eq!(ObservedTier::between(&reading(), &now, Duration::ZERO).operations_per_s, None);
        let only_gets = ObservedTier::between(&reading(), &now, second);
        assert_eq!((only_gets.reads_share, only_gets.scan_records), (Some(1.0), None));
    }
}
