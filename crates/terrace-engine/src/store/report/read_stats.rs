//! What reads touch on average.
//!
//! # How
//! What tables are asked, and what scans show and step over, is counted for every read. The rest
//! would cost each get a handful of counters; so it is taken from the operations that are sampled
//! anyway, one in about [`SAMPLE_EVERY`](crate::explain::SAMPLE_EVERY): a get that is sampled is
//! recorded step by step, and a scan says how many sources it merged last.

use terrace_env::Latch;

use crate::explain::ReadTotals;
use crate::store::report::stats::{LevelStats, share};

/// What the sampled reads of a range touched since the open. A short latch, for these only.
#[derive(Debug, Default)]
pub struct ReadSamples(Latch<Sampled>);

/// What sampled reads touched, in sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampled {
    gets: u64,
    totals: ReadTotals,
    scans: u64,
    scan_sources: u64,
}

impl ReadSamples {
    /// A get was sampled, which touched this.
    #[cold]
    pub fn got(&self, totals: &ReadTotals) {
        let mut sampled = self.0.lock();
        sampled.gets += 1;
        sampled.totals.add(totals);
    }

    /// A scan was sampled, which merged so many sources.
    pub fn scanned(&self, sources: u64) {
        let mut sampled = self.0.lock();
        sampled.scans += 1;
        sampled.scan_sources += sources;
    }

    /// All of them.
    pub fn sampled(&self) -> Sampled {
        *self.0.lock()
    }
}

/// What a get and a scan touched on average since the open.
///
/// Averages of what every read counts are exact. The others are of sampled reads, of which the
/// numbers and the sums are here too: for the averages of a span of time, take the differences of
/// these. With `n` samples an average is off by about its spread over the square root of `n`.
/// An average of nothing is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReadStats {
    /// Tables that each get asked, filters that denied the key included. Exact. Of L0 a get asks
    /// the filters also of tables whose keys lie elsewhere, which `sources_per_get` leaves out.
    pub tables_per_get: f64,
    /// Memtables, sources in L0 and levels that each get asked. Sampled, as what follows.
    pub sources_per_get: f64,
    /// Filters that each get asked of sources whose keys are about the key.
    pub filters_per_get: f64,
    /// Blocks that each get read, from the cache or from files.
    pub blocks_per_get: f64,
    /// Blocks among these that came from files.
    pub file_blocks_per_get: f64,
    /// Values that each get fetched from value files.
    pub values_per_get: f64,
    /// Memtables, sources in L0 and levels that each scan merged. Sampled.
    pub sources_per_scan: f64,
    /// Keys that each scan showed. Exact, as what follows.
    pub shown_per_scan: f64,
    /// Dead keys that each scan stepped over.
    pub hidden_per_scan: f64,
    /// Number of gets that were sampled.
    pub sampled_get_count: u64,
    /// What these gets touched, all together.
    pub sampled_gets: ReadTotals,
    /// Number of scans that were sampled.
    pub sampled_scan_count: u64,
    /// Sources that these scans merged, all together.
    pub sampled_scan_sources: u64,
}

/// What was counted for every read.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    pub levels: &'a [LevelStats],
    pub gets: u64,
    pub scans: u64,
    pub shown: u64,
    pub hidden: u64,
}

impl ReadStats {
    /// The averages of these.
    pub(in crate::store) fn of(counted: &Counted<'_>, sampled: &Sampled) -> ReadStats {
        let Sampled { gets, totals, scans, scan_sources } = *sampled;
        let asked = counted.levels.iter().map(LevelStats::asked).sum();
        ReadStats {
            tables_per_get: share(asked, counted.gets),
            sources_per_get: share(totals.sources(), gets),
            filters_per_get: share(totals.filters, gets),
            blocks_per_get: share(totals.blocks(), gets),
            file_blocks_per_get: share(totals.file_blocks, gets),
            values_per_get: share(totals.values, gets),
            sources_per_scan: share(scan_sources, scans),
            shown_per_scan: share(counted.shown, counted.scans),
            hidden_per_scan: share(counted.hidden, counted.scans),
            sampled_get_count: gets,
            sampled_gets: totals,
            sampled_scan_count: scans,
            sampled_scan_sources: scan_sources,
        }
    }
}
