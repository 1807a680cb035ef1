use crate::explain::SlowLog;
use crate::store::gate::ledger::Ledger;
use crate::store::open::opening::RecoveryReport;
use crate::store::report::compaction_log::CompactionLog;
use crate::store::report::latencies::Latencies;
use crate::store::report::read_stats::ReadSamples;
use crate::store::report::samples::Samples;
use crate::store::report::stats::Counters;
use crate::store::report::troubles::Troubles;

/// What a range knows of its own doings: reports are made of it, and no road decides by it.
///
/// Nothing guards it as a whole. Counters are atomic and each is right by itself; what
/// consists of several figures has a latch of its own, inside.
#[derive(Debug)]
pub(in crate::store) struct Meters {
    /// Counts of what was read, written, flushed and compacted.
    pub counters: Counters,
    /// What writers were delayed by.
    pub ledger: Ledger,
    /// What the reads touched that are sampled. It has a latch.
    pub read_samples: ReadSamples,
    /// Who reads and writes how much. It has a latch.
    pub samples: Samples,
    /// What went wrong. It has a latch.
    pub troubles: Troubles,
    /// The last compactions, each by itself. It has a latch.
    pub compaction_log: CompactionLog,
    /// The slowest operations of the last minutes. It has a latch.
    pub slow: SlowLog,
    /// How long those took that were timed from their beginning. Atomic.
    pub latencies: Latencies,
    /// What the open found; it stays as it is.
    pub recovery: RecoveryReport,
}

impl Meters {
    /// Nothing was done yet but the open, which found this. `process` is the number of the process.
    pub fn new(process: u64, recovery: RecoveryReport) -> Meters {
        Meters {
            counters: Counters::default(),
            ledger: Ledger::default(),
            read_samples: ReadSamples::default(),
            samples: Samples::default(),
            troubles: Troubles::default(),
            compaction_log: CompactionLog::default(),
            slow: SlowLog::new(process),
            latencies: Latencies::default(),
            recovery,
        }
    }
}
