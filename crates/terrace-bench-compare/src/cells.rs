//! What is measured; plain data.
//!
//! Cells that can share a loaded database form a group, and run in the order in which they stand.

use terrace_bench::distribution::Distribution;

/// What a group's engine is opened with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Bytes of the block cache.
    pub cache_bytes: u64,
    /// Bytes of all memtables together.
    pub memtable_bytes: u64,
    /// Whether each write is synced before it is acknowledged. If not, it survives a killed
    /// process.
    pub sync: bool,
    /// Whether the engine is opened for optimistic transactions; one that has none is left out.
    pub transactions: bool,
}

/// What makes one cell better than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Operations in a second: more is better.
    Throughput,
    /// The 99.9th percentile in microseconds: less is better.
    P999,
}

/// One cell.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Its name in results.
    pub name: &'static str,
    /// What it shows.
    pub meaning: &'static str,
    /// The workload of `terrace bench`.
    pub workload: &'static str,
    /// Operations at scale 1, for workloads that do not fix them.
    pub operations: u64,
    /// Which records, if not as the workload says.
    pub distribution: Option<Distribution>,
    /// Threads.
    pub threads: u64,
    /// Operations a second, for an open loop.
    pub rate: Option<f64>,
    /// What counts.
    pub figure: Figure,
    /// Whether the engine is left to come to rest first.
    pub settled: bool,
    /// Whether it is left to come to rest afterwards, to see what it still occupies.
    pub rests: bool,
}

/// Cells over one database.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Records at scale 1.
    pub records: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How engines are opened.
    pub setup: Setup,
    /// The cells, in the order in which they run.
    pub cells: &'static [Cell],
}

const fn cell(
    name: &'static str,
    meaning: &'static str,
    workload: &'static str,
    operations: u64,
) -> Cell {
    Cell {
        name,
        meaning,
        workload,
        operations,
        distribution: None,
        threads: 2,
        rate: None,
        figure: Figure::Throughput,
        settled: false,
        rests: false,
    }
}

const fn settled(cell: Cell) -> Cell {
    Cell { settled: true, ..cell }
}

const fn rests(cell: Cell) -> Cell {
    Cell { rests: true, ..cell }
}

/// Synced puts into an empty store by this number of writers at once.
const fn synced(name: &'static str, meaning: &'static str, threads: u64, operations: u64) -> Cell {
    Cell { threads, ..cell(name, meaning, "fillrandom", operations) }
}

/// A group of one cell of synced puts, with values of this number of bytes.
const fn synced_alone(value_bytes: usize, cells: &'static [Cell]) -> Group {
    Group { records: 100_000, key_bytes: 16, value_bytes, setup: SYNCED, cells }
}

const MIB: u64 = 1 << 20;

const IN_CACHE: Setup =
    Setup { cache_bytes: 512 * MIB, memtable_bytes: 64 * MIB, sync: false, transactions: false };
const SYNCED: Setup = Setup { sync: true, ..IN_CACHE };

/// The 14 cells, and what else is worth knowing beside them.
pub const GROUPS: &[Group] = &[
    Group {
        records: 500_000,
        key_bytes: 16,
        value_bytes: 256,
        setup: IN_CACHE,
        cells: &[
            rests(cell("load", "16 + 256 B, every record once, random order", "load", 0)),
            settled(cell("ycsb-c", "reads only, all in cache, tree at rest", "c", 1_000_000)),
            cell("readrandom", "any record as likely (not one of the 14)", "readrandom", 500_000),
            cell("seekrandom", "a seek and the record (not one of the 14)", "seekrandom", 300_000),
            cell("ycsb-b", "95 % reads, 5 % updates, in cache", "b", 1_000_000),
            cell("ycsb-a", "half reads, half updates, in cache", "a", 500_000),
            Cell {
                rate: Some(50_000.0),
                figure: Figure::P999,
                ..cell("ycsb-a-open", "YCSB a at 50,000/s, open loop, p99.9", "a", 150_000)
            },
            cell("ycsb-f", "half reads, half read-modify-writes", "f", 500_000),
            cell("ycsb-d", "95 % reads of the latest, 5 % inserts", "d", 1_000_000),
            cell("ycsb-e", "95 % scans of 1 to 100, 5 % inserts", "e", 300_000),
        ],
    },
    Group {
        records: 1_000_000,
        key_bytes: 16,
        value_bytes: 256,
        setup: Setup { cache_bytes: 68 * MIB, ..IN_CACHE },
        cells: &[
            cell("load-large", "loads what the next cell reads (not one of the 14)", "load", 0),
            settled(cell("ycsb-c-large", "reads only, data 4 times the cache", "c", 500_000)),
        ],
    },
    Group {
        records: 1_000_000,
        key_bytes: 16,
        value_bytes: 100,
        setup: IN_CACHE,
        cells: &[cell("fillrandom-100", "16 + 100 B into an empty store", "fillrandom", 1_000_000)],
    },
    Group {
        records: 1_000_000,
        key_bytes: 16,
        value_bytes: 100,
        setup: IN_CACHE,
        cells: &[Cell {
            threads: 1,
            ..cell(
                "fillrandom-100-alone",
                "the same by one writer (not one of the 14)",
                "fillrandom",
                1_000_000,
            )
        }],
    },
    Group {
        records: 1_000_000,
        key_bytes: 16,
        value_bytes: 100,
        setup: Setup { transactions: true, ..IN_CACHE },
        cells: &[
            cell(
                "transactions",
                "two reads, two writes of the same, any record as likely (not one of the 14)",
                "transactions",
                300_000,
            ),
            Cell {
                distribution: Some(Distribution::Zipfian),
                ..cell(
                    "transactions-hot",
                    "the same, some records far more often (not one of the 14)",
                    "transactions",
                    300_000,
                )
            },
        ],
    },
    Group {
        records: 150_000,
        key_bytes: 16,
        value_bytes: 4096,
        setup: IN_CACHE,
        cells: &[rests(cell(
            "fillrandom-4k",
            "16 + 4096 B into an empty store",
            "fillrandom",
            150_000,
        ))],
    },
    Group {
        records: 200_000,
        key_bytes: 16,
        value_bytes: 1024,
        setup: IN_CACHE,
        cells: &[
            cell("w100", "updates, 1 KB, hot keys side by side", "w100", 400_000),
            cell(
                "sw50",
                "half scans of 10, half updates, 1 KB, hot keys side by side",
                "sw50",
                150_000,
            ),
        ],
    },
    synced_alone(256, &[synced("sync-1", "synced puts of 16 + 256 B by one writer", 1, 4_000)]),
    synced_alone(256, &[synced("sync-2", "synced puts of 16 + 256 B by 2 writers", 2, 6_000)]),
    synced_alone(256, &[synced("sync", "synced puts of 16 + 256 B by 16 writers", 16, 30_000)]),
    synced_alone(256, &[synced("sync-64", "synced puts of 16 + 256 B by 64 writers", 64, 60_000)]),
    synced_alone(300, &[synced("sync-300-1", "synced puts of 16 + 300 B by one writer", 1, 4_000)]),
    synced_alone(300, &[synced("sync-300-2", "synced puts of 16 + 300 B by 2 writers", 2, 6_000)]),
    synced_alone(
        300,
        &[synced("sync-300-16", "synced puts of 16 + 300 B by 16 writers", 16, 30_000)],
    ),
    synced_alone(
        300,
        &[synced("sync-300-64", "synced puts of 16 + 300 B by 64 writers", 64, 60_000)],
    ),
    synced_alone(4096, &[synced("sync-4k-1", "synced puts of 16 + 4 KB by one writer", 1, 2_000)]),
    synced_alone(4096, &[synced("sync-4k-2", "synced puts of 16 + 4 KB by 2 writers", 2, 3_000)]),
    synced_alone(
        4096,
        &[synced("sync-4k-16", "synced puts of 16 + 4 KB by 16 writers", 16, 15_000)],
    ),
    synced_alone(
        4096,
        &[synced("sync-4k-64", "synced puts of 16 + 4 KB by 64 writers", 64, 30_000)],
    ),
];

/// The group that holds a cell, and the cell.
pub fn find(name: &str) -> Option<(&'static Group, &'static Cell)> {
    GROUPS.iter().find_map(|group| {
        group.cells.iter().find(|cell| cell.name == name).map(|cell| (group, cell))
    })
}
