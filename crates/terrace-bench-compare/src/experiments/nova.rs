//! What Nova-LSM (SIGMOD 2021) reports of one node, in its proportions.
//!
//! The paper's data of 10 GB are 10 million records of 1 KB, and so 640 memtables or tables of 16
//! MB; 256 memtables are 4 GB. *Zipfian* has the popular keys side by side, the first the hottest.
//! The paper switches its log off; here every subject writes one, as an embedded store does.

use Distribution::{Uniform, ZipfianClustered};
use terrace_bench::distribution::Distribution;

use super::{Chart, Data, Experiment, Figure, Kind, Paper, Step, Subject, Tree};

const PAPER: Paper = Paper { name: "Nova-LSM (SIGMOD 2021)", results: "docs/results/nova-lsm" };

const KILOBYTES: Data = Data {
    records: 256_000,
    key_bytes: 16,
    value_bytes: 1008,
    memtables: 640,
    caches: 4,
    dense_keys: false,
};

const fn terrace(name: &'static str, memtables: u64, tree: Tree) -> Subject {
    Subject { name, memtables, kind: Kind::Terrace(tree) }
}

/// As it comes.
const DEFAULT: Subject = terrace("dranges", 128, Tree::of_dranges(0));

/// As the paper sets Nova-LSM up (α 64, δ 128).
const NOVA: Subject = terrace(
    "64 dranges, merging, index",
    128,
    Tree { memtable_merging: true, lookup_index: true, ..Tree::of_dranges(64) },
);

/// 256 memtables (α 64, δ 256): 64 active ones, and three times as many that are kept.
const MANY: Tree = Tree { memtables_kept: 3, ..Tree::of_dranges(64) };

/// 256 memtables that each hold keys of the whole range, as those that the paper searches without
/// its index.
const UNDIVIDED: Tree = Tree { memtables_kept: 255, ..Tree::of_dranges(1) };

/// `LevelDB` (ω 1, α 1, δ 2).
const SMALL_TREE: Subject = terrace("one small tree", 2, Tree::of_dranges(1));

/// `LevelDB*`, `RocksDB*` (ω 64, α 1, δ 2).
const STATIC_TREES: Subject =
    terrace("64 static trees", 128, Tree { static_trees: 64, ..Tree::of_dranges(1) });

const ROCKSDB: Subject = Subject { name: "rocksdb", memtables: 128, kind: Kind::Rocksdb };

const LOAD: Step = Step::LOAD;

/// A measured workload over a tree at rest that ends after some seconds at the latest.
const fn step(
    name: &'static str,
    workload: &'static str,
    distribution: Distribution,
    operations: u64,
) -> Step {
    Step {
        name,
        workload,
        distribution,
        operations,
        seconds_max: Some(8),
        settled: true,
        measured: true,
        ..LOAD
    }
}

/// The same at a rate of operations in a second.
const fn at_rate(step: Step, rate: f64) -> Step {
    Step { rate: Some(rate), ..step }
}

const W100_UNIFORM: Step = step("w100 uniform", "w100", Uniform, 600_000);
const RW50_UNIFORM: Step = step("rw50 uniform", "rw50", Uniform, 400_000);
const SW50_UNIFORM: Step = step("sw50 uniform", "sw50", Uniform, 150_000);
const W100_ZIPFIAN: Step = step("w100 zipfian", "w100", ZipfianClustered, 600_000);
const RW50_ZIPFIAN: Step = step("rw50 zipfian", "rw50", ZipfianClustered, 400_000);
const SW50_ZIPFIAN: Step = step("sw50 zipfian", "sw50", ZipfianClustered, 150_000);

/// Fills memtables: updates that nobody looks at.
const fn fill(distribution: Distribution) -> Step {
    Step { measured: false, seconds_max: None, ..step("fill", "w100", distribution, 256_000) }
}

/// Reads over memtables that are full.
const fn over_full(
    name: &'static str,
    workload: &'static str,
    distribution: Distribution,
    operations: u64,
) -> Step {
    Step { settled: false, scan_count: Some(10), ..step(name, workload, distribution, operations) }
}

const BOTH: &[&[Step]] = &[
    &[LOAD, W100_UNIFORM, RW50_UNIFORM, SW50_UNIFORM],
    &[LOAD, W100_ZIPFIAN, RW50_ZIPFIAN, SW50_ZIPFIAN],
];

/// Operations a second of *low load*: far from what any subject can do.
const LOW: f64 = 4000.0;

const THROUGHPUT: &[Figure] = &[Figure::Throughput, Figure::TableBytes, Figure::P99];

/// The paper's experiments on one node.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "nova-fig01-stalls",
        paper: PAPER,
        source: "Figure 1",
        meaning: "updates over time, uniform: memory of 128 memtables and of 2",
        headline: "5× (iii over i)",
        data: KILOBYTES,
        subjects: &[
            terrace("128 memtables", 128, Tree::of_dranges(64)),
            terrace("2 memtables", 2, Tree::of_dranges(1)),
        ],
        sequences: &[&[
            LOAD,
            Step { seconds_max: Some(20), operations: 3_000_000, ..W100_UNIFORM },
        ]],
        figures: THROUGHPUT,
        chart: Chart::OverTime,
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "nova-sec8-memory",
        paper: PAPER,
        source: "§8.2.3",
        meaning: "updates, uniform, by the memory of memtables",
        headline: "5× from 2 to 256",
        data: KILOBYTES,
        subjects: &[
            terrace("128 memtables", 128, Tree::of_dranges(64)),
            terrace("32 memtables", 32, Tree::of_dranges(16)),
            terrace("8 memtables", 8, Tree::of_dranges(4)),
            terrace("2 memtables", 2, Tree::of_dranges(1)),
        ],
        sequences: &[&[LOAD, W100_UNIFORM]],
        figures: THROUGHPUT,
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "nova-sec4-lookup",
        paper: PAPER,
        source: "§4.1.1",
        meaning: "gets over 256 memtables, lookup index on and off, range divided and not",
        headline: "1.7× uniform, 2.8× zipfian",
        data: KILOBYTES,
        subjects: &[
            terrace("one drange, with the index", 256, Tree { lookup_index: true, ..UNDIVIDED }),
            terrace("one drange, without", 256, UNDIVIDED),
            terrace("64 dranges, with the index", 256, Tree { lookup_index: true, ..MANY }),
            terrace("64 dranges, without", 256, MANY),
        ],
        sequences: &[
            &[LOAD, fill(Uniform), over_full("gets uniform", "c", Uniform, 600_000)],
            &[
                LOAD,
                fill(ZipfianClustered),
                over_full("gets zipfian", "c", ZipfianClustered, 600_000),
            ],
        ],
        figures: &[Figure::Throughput, Figure::P99],
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "nova-sec4-rangeindex",
        paper: PAPER,
        source: "§4.1.2",
        meaning: "scans of 10 over 256 memtables, range index on and off",
        headline: "26× uniform, 18× zipfian",
        data: KILOBYTES,
        subjects: &[
            terrace("with the index", 256, MANY),
            terrace("without", 256, Tree { scan_all_memtables: true, ..MANY }),
        ],
        sequences: &[
            &[LOAD, fill(Uniform), over_full("scans uniform", "seekrandom", Uniform, 200_000)],
            &[
                LOAD,
                fill(ZipfianClustered),
                over_full("scans zipfian", "seekrandom", ZipfianClustered, 200_000),
            ],
        ],
        figures: &[Figure::Throughput, Figure::P99],
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "nova-sec4-merge",
        paper: PAPER,
        source: "§4.2",
        meaning: "bytes of tables: small memtables merged, kept, flushed, flushed with every version",
        headline: "−65 % bytes written",
        data: KILOBYTES,
        subjects: &[
            terrace("merged", 128, Tree { memtable_merging: true, ..Tree::of_dranges(64) }),
            terrace("kept and flushed together", 128, MANY),
            terrace("flushed", 128, Tree::of_dranges(64)),
            terrace(
                "every version flushed",
                128,
                Tree { flush_all_versions: true, ..Tree::of_dranges(64) },
            ),
        ],
        // All of them do the same: bytes are compared.
        sequences: &[&[LOAD, Step { seconds_max: None, ..W100_ZIPFIAN }]],
        figures: &[Figure::TableBytes, Figure::Throughput],
        chart: Chart::Bars(Figure::TableBytes),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "nova-sec8-dranges",
        paper: PAPER,
        source: "§8.2",
        meaning: "dranges, with memtables of hot ones merged and without, and one drange",
        headline: "3× to 26× over one drange",
        data: KILOBYTES,
        subjects: &[
            terrace(
                "dranges, merging",
                128,
                Tree { memtable_merging: true, ..Tree::of_dranges(0) },
            ),
            DEFAULT,
            terrace("one drange", 128, Tree::of_dranges(1)),
        ],
        sequences: BOTH,
        figures: THROUGHPUT,
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "nova-fig12a-onenode",
        paper: PAPER,
        source: "Figure 12a",
        meaning: "one node: dranges, one small tree, 64 static trees, tuned RocksDB",
        headline: "zipfian: rw50 34× one tree and 7× 64 trees, sw50 105× and 8×; uniform about 1",
        data: KILOBYTES,
        subjects: &[DEFAULT, NOVA, SMALL_TREE, STATIC_TREES, ROCKSDB],
        sequences: BOTH,
        figures: THROUGHPUT,
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "nova-tab3-latency",
        paper: PAPER,
        source: "Table 3",
        meaning: "latencies at low load, zipfian",
        headline: "over 64 trees, mean: rw50 6.3×, sw50 5.4×, w100 11×; p99: 3.5×, 2.7×, 1.3×",
        data: KILOBYTES,
        subjects: &[DEFAULT, NOVA, SMALL_TREE, STATIC_TREES, ROCKSDB],
        sequences: &[&[
            LOAD,
            at_rate(step("w100 zipfian", "w100", ZipfianClustered, 24_000), LOW),
            at_rate(step("rw50 zipfian", "rw50", ZipfianClustered, 24_000), LOW),
            at_rate(step("sw50 zipfian", "sw50", ZipfianClustered, 24_000), LOW),
        ]],
        figures: &[Figure::Mean, Figure::P95, Figure::P99],
        chart: Chart::Bars(Figure::P99),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "nova-sec8-load",
        paper: PAPER,
        source: "§8.3 (uniform, small records)",
        meaning: "records of 16 + 256 bytes, each put once in random order",
        headline: "about 1 (w100 uniform)",
        data: Data { records: 1_000_000, value_bytes: 256, ..KILOBYTES },
        subjects: &[DEFAULT, ROCKSDB],
        sequences: &[&[Step { measured: true, ..LOAD }]],
        figures: THROUGHPUT,
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
];
