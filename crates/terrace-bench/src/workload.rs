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
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Read, Kind::Update, Kind::Insert, Kind::Scan, Kind::Modify];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Update => "update",
            Kind::Insert => "insert",
            Kind::Scan => "scan",
            Kind::Modify => "modify",
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
}

/// The longest scan, in records; lengths are uniform from 1.
pub const SCAN_RECORDS_MAX: u64 = 100;

const fn ycsb(
    name: &'static str,
    meaning: &'static str,
    mix: &'static [(Kind, u32)],
    distribution: Distribution,
) -> Workload {
    let operations = Operations::Asked;
    Workload { name, meaning, mix, distribution, needs_records: true, operations }
}

/// Every workload.
pub const WORKLOADS: &[Workload] = &[
    Workload {
        name: "load",
        meaning: "put every record once, in random order",
        mix: &[(Kind::Insert, 100)],
        distribution: Distribution::Uniform,
        needs_records: false,
        operations: Operations::OnePerRecord,
    },
    ycsb(
        "a",
        "YCSB A: half reads, half updates",
        &[(Kind::Read, 50), (Kind::Update, 50)],
        Distribution::Zipfian,
    ),
    ycsb(
        "b",
        "YCSB B: 95 % reads, 5 % updates",
        &[(Kind::Read, 95), (Kind::Update, 5)],
        Distribution::Zipfian,
    ),
    ycsb("c", "YCSB C: reads only", &[(Kind::Read, 100)], Distribution::Zipfian),
    ycsb(
        "d",
        "YCSB D: 95 % reads of the latest records, 5 % inserts",
        &[(Kind::Read, 95), (Kind::Insert, 5)],
        Distribution::Latest,
    ),
    ycsb(
        "e",
        "YCSB E: 95 % scans of 1 to 100 records, 5 % inserts",
        &[(Kind::Scan, 95), (Kind::Insert, 5)],
        Distribution::Zipfian,
    ),
    ycsb(
        "f",
        "YCSB F: half reads, half read-modify-writes",
        &[(Kind::Read, 50), (Kind::Modify, 50)],
        Distribution::Zipfian,
    ),
    Workload {
        name: "fillrandom",
        meaning: "put records drawn at random, some of them again, into whatever is there",
        mix: &[(Kind::Update, 100)],
        distribution: Distribution::Uniform,
        needs_records: false,
        operations: Operations::Asked,
    },
    ycsb("readrandom", "read records drawn at random", &[(Kind::Read, 100)], Distribution::Uniform),
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
