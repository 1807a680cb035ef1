//! The named workloads. They are data: adding one is adding an entry to [`WORKLOADS`].

use serde::Serialize;

use crate::distribution::Distribution;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Gets a record.
    Read,
    /// Puts a new value for a record that is there.
    Update,
    /// Puts a record that is not there yet.
    Insert,
    /// Reads some records in key order.
    Scan,
    /// Reads a record and puts a new value for it.
    Modify,
    /// Reads two records and puts new values for both, in one batch.
    Pair,
    /// The same in a transaction, which is begun anew on a conflict until it commits.
    Transact,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::Read,
        Kind::Update,
        Kind::Insert,
        Kind::Scan,
        Kind::Modify,
        Kind::Pair,
        Kind::Transact,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Update => "update",
            Kind::Insert => "insert",
            Kind::Scan => "scan",
            Kind::Modify => "modify",
            Kind::Pair => "pair",
            Kind::Transact => "transact",
        }
    }
}

/// How many operations a workload runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operations {
    /// As many as asked for.
    Asked,
    /// One for each record.
    OnePerRecord,
}

/// One workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
    /// The share of each kind in percent; the shares add up to 100.
    pub mix: &'static [(Kind, u32)],
    /// To which records, unless another distribution is asked for.
    pub distribution: Distribution,
    /// Whether the records must be there first.
    pub needs_records: bool,
    /// How many operations it runs.
    pub operations: Operations,
    /// How many records a scan reads.
    pub scan: ScanLength,
    /// Whether records are inserted in the order of their keys.
    pub in_order: bool,
    /// The share of reads, in percent, that ask for records that are not there.
    pub missing_share: u32,
}

/// How many records a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanLength {
    /// From 1 to this many, uniformly.
    UpTo(u64),
    /// Exactly this number.
    Exactly(u64),
}

/// What most workloads have in common: they run over loaded records, as often as asked for.
const fn over_records(
    name: &'static str,
    meaning: &'static str,
    mix: &'static [(Kind, u32)],
    distribution: Distribution,
) -> Workload {
    Workload {
        name,
        meaning,
        mix,
        distribution,
        needs_records: true,
        operations: Operations::Asked,
        scan: ScanLength::UpTo(100),
        in_order: false,
        missing_share: 0,
    }
}

/// A workload of Nova-LSM §8.1, whose scans read ten records.
const fn nova(name: &'static str, meaning: &'static str, mix: &'static [(Kind, u32)]) -> Workload {
    let scan = ScanLength::Exactly(10);
    Workload { scan, ..over_records(name, meaning, mix, Distribution::ZipfianClustered) }
}

/// Every workload.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        needs_records: false,
        operations: Operations::OnePerRecord,
        ..over_records(
            "load",
            "put every record once, in random order",
            &[(Kind::Insert, 100)],
            Distribution::Uniform,
        )
    },
    over_records(
        "a",
        "YCSB A: half reads, half updates",
        &[(Kind::Read, 50), (Kind::Update, 50)],
        Distribution::Zipfian,
    ),
    over_records(
        "b",
        "YCSB B: 95 % reads, 5 % updates",
        &[(Kind::Read, 95), (Kind::Update, 5)],
        Distribution::Zipfian,
    ),
    over_records("c", "YCSB C: reads only", &[(Kind::Read, 100)], Distribution::Zipfian),
    over_records(
        "d",
        "YCSB D: 95 % reads of the latest records, 5 % inserts",
        &[(Kind::Read, 95), (Kind::Insert, 5)],
        Distribution::Latest,
    ),
    over_records(
        "e",
        "YCSB E: 95 % scans of 1 to 100 records, 5 % inserts",
        &[(Kind::Scan, 95), (Kind::Insert, 5)],
        Distribution::Zipfian,
    ),
    over_records(
        "f",
        "YCSB F: half reads, half read-modify-writes",
        &[(Kind::Read, 50), (Kind::Modify, 50)],
        Distribution::Zipfian,
    ),
    nova("rw50", "Nova-LSM: half reads, half updates", &[(Kind::Read, 50), (Kind::Update, 50)]),
    nova(
        "sw50",
        "Nova-LSM: half scans of 10 records, half updates",
        &[(Kind::Scan, 50), (Kind::Update, 50)],
    ),
    nova("w100", "Nova-LSM: updates only", &[(Kind::Update, 100)]),
    Workload {
        needs_records: false,
        operations: Operations::OnePerRecord,
        in_order: true,
        ..over_records(
            "fillseq",
            "put every record once, in key order",
            &[(Kind::Insert, 100)],
            Distribution::Uniform,
        )
    },
    Workload {
        needs_records: false,
        ..over_records(
            "fillrandom",
            "put records drawn at random, some of them again, into whatever is there",
            &[(Kind::Update, 100)],
            Distribution::Uniform,
        )
    },
    over_records(
        "overwrite",
        "put new values for records drawn at random",
        &[(Kind::Update, 100)],
        Distribution::Uniform,
    ),
    over_records(
        "readrandom",
        "read records drawn at random",
        &[(Kind::Read, 100)],
        Distribution::Uniform,
    ),
    over_records(
        "transactions",
        "transactions that read two records and put new values for both",
        &[(Kind::Transact, 100)],
        Distribution::Uniform,
    ),
    over_records(
        "pairs",
        "the same without a transaction: two reads, and a batch of two",
        &[(Kind::Pair, 100)],
        Distribution::Uniform,
    ),
    Workload {
        missing_share: 100,
        ..over_records(
            "readmissing",
            "read records that are not there",
            &[(Kind::Read, 100)],
            Distribution::Uniform,
        )
    },
    Workload {
        scan: ScanLength::Exactly(1),
        ..over_records(
            "seekrandom",
            "seek to records drawn at random and read each",
            &[(Kind::Scan, 100)],
            Distribution::Uniform,
        )
    },
];

/// The workload called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_names_differ() {
        for (at, workload) in WORKLOADS.iter().enumerate() {
            assert_eq!(workload.mix.iter().map(|(_, share)| share).sum::<u32>(), 100);
            let first = WORKLOADS.iter().position(|other| other.name == workload.name);
            assert_eq!(first, Some(at));
        }
        assert!(find("a").is_some() && find("z").is_none());
    }
}
