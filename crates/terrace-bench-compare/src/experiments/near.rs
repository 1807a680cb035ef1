//! What is kept near of an object store, against what others keep.
//!
//! The proportions are those of `rocksmash.rs`. Where a hit rate is looked at, every level lies in
//! the store and the cache has its share of the data to itself; elsewhere it takes what is left of
//! a local share. Whole tables are kept as Mutant does it: all of them that are hot, of whatever
//! level.

use Distribution::{Uniform, Zipfian};
use terrace::NearDesign;
use terrace_bench::distribution::Distribution;

use super::rocksmash::{DATA, LOAD, LOCAL, MEMTABLES, PAPER, SLATEDB, SMALL, empty, terrace, ycsb};
use super::{Chart, Data, Experiment, Far, Figure, Kind, Step, Subject, Tree};

/// The share of the data that Mutant has on the local disk for its price.
const MUTANT: f64 = 0.41;

const fn subject(name: &'static str, tree: Tree) -> Subject {
    Subject { name, memtables: MEMTABLES, kind: Kind::Terrace(tree) }
}

/// A share of the data is local, and what is left of it has blocks or tables of the store.
const fn beyond(name: &'static str, share: f64, near: NearDesign) -> Subject {
    subject(name, Tree { far: Far::Beyond(share), near, ..Tree::of_dranges(0) })
}

/// Every level lies in the store, and a share of the data is kept near.
const fn cached(name: &'static str, share: f64, near: NearDesign) -> Subject {
    let tree = Tree { far: Far::Levels, near_of_data: share, near, ..Tree::of_dranges(0) };
    subject(name, tree)
}

/// What is done before it is looked at, which draws other records than what is looked at.
const fn unmeasured(step: Step) -> Step {
    Step { measured: false, space: false, draw: BEFORE, ..step }
}

/// Beyond the seeds of all rounds.
const BEFORE: u64 = 1 << 20;

const fn over(step: Step, distribution: Distribution) -> Step {
    Step { distribution, ..step }
}

/// As many reads as records bring the cache to what it stays at; then reads, and reads beside as
/// many puts, which make most of what is kept stale sooner or later.
const fn reads_and_puts(distribution: Distribution) -> [Step; 5] {
    [
        unmeasured(LOAD),
        unmeasured(over(ycsb("warm", "c", 800_000), distribution)),
        over(ycsb("reads", "c", 400_000), distribution),
        unmeasured(over(ycsb("churn", "a", 400_000), distribution)),
        over(ycsb("half puts", "a", 400_000), distribution),
    ]
}

const UNIFORM: &[&[Step]] = &[&reads_and_puts(Uniform)];
const SKEWED: &[&[Step]] = &[&reads_and_puts(Zipfian)];

const fn hits(
    name: &'static str,
    headline: &'static str,
    subjects: &'static [Subject],
    sequences: &'static [&'static [Step]],
) -> Experiment {
    Experiment {
        name,
        paper: PAPER,
        source: "Figs. 17c, d",
        meaning: "blocks that were near when a read asked for them, all levels in the store",
        headline,
        data: DATA,
        subjects,
        sequences,
        figures: &[Figure::NearHits, Figure::Requests],
        chart: Chart::Bars(Figure::NearHits),
        all_on_medium: false,
        runs_of: None,
    }
}

const fn four(share: f64) -> [Subject; 4] {
    [
        cached("blocks in buckets", share, NearDesign::Buckets),
        subject(
            "with nothing handed on",
            Tree { far: Far::Levels, near_of_data: share, near_drops: true, ..Tree::of_dranges(0) },
        ),
        cached("LRU of files", share, NearDesign::FileLru),
        cached("whole tables", share, NearDesign::WholeTables),
    ]
}

const TENTH: &[Subject] = &four(0.1);
const FIFTH: &[Subject] = &four(0.2);
const THIRD: &[Subject] = &four(0.3);

/// Blocks in buckets, with all levels in the store and a share of the data near.
const CACHED: Tree = Tree { far: Far::Levels, near_of_data: LOCAL, ..Tree::of_dranges(0) };

/// An empty cache that fills: with neighbours while there is room, a block at a time, by tables.
const FILLING: &[Subject] = &[
    subject("with neighbours", CACHED),
    subject("a block at a time", Tree { near_alone: true, ..CACHED }),
    subject("whole tables", Tree { near: NearDesign::WholeTables, ..CACHED }),
];

/// The first reads after a load, of which nothing is near, and those after them.
const FILLS: &[&[Step]] = &[
    &[
        unmeasured(LOAD),
        over(reads("uniform, first"), Uniform),
        over(Step { draw: BEFORE, ..reads("uniform, then") }, Uniform),
    ],
    &[unmeasured(LOAD), reads("skewed, first"), Step { draw: BEFORE, ..reads("skewed, then") }],
];

/// A tenth as many reads as records.
const fn reads(name: &'static str) -> Step {
    Step { space: false, ..ycsb(name, "c", 80_000) }
}

/// As many reads as touch less than a fifth of the blocks, and the same reads again: what misses
/// then had its slot taken. The second draw of skewed reads touches far less.
const AGAIN: &[&[Step]] = &[
    &[
        unmeasured(LOAD),
        over(Step { measured: false, ..touching("touch uniform") }, Uniform),
        over(touching("uniform, again"), Uniform),
    ],
    &[
        unmeasured(LOAD),
        Step { measured: false, ..touching("touch skewed") },
        touching("skewed, again"),
    ],
];

const fn touching(name: &'static str) -> Step {
    Step { space: false, ..ycsb(name, "c", 36_000) }
}

/// Buckets that are such a part of the cache as the paper's are of its own: 8, 40 and 120 MB of
/// 520.
const fn in_buckets(name: &'static str, count: u64) -> Subject {
    subject(name, Tree { near_buckets: count, ..CACHED })
}

const fn conflicts(
    name: &'static str,
    source: &'static str,
    headline: &'static str,
    subjects: &'static [Subject],
) -> Experiment {
    Experiment {
        name,
        paper: PAPER,
        source,
        meaning: "blocks that are read a second time and still near, all levels in the store",
        headline,
        data: DATA,
        subjects,
        sequences: AGAIN,
        figures: &[Figure::NearHits, Figure::Throughput, Figure::Requests],
        chart: Chart::Bars(Figure::NearHits),
        all_on_medium: false,
        runs_of: None,
    }
}

/// The paper's keys of 64 bytes, of which metadata take most; and hardly any block cache, since
/// they have taken the memory.
const TIGHT: Data = Data { key_bytes: 64, records: 6_000_000, caches: 200, ..SMALL };

/// What tries save of the memory for metadata, as a share of such data (`rocksmash-fig21-long`).
const SAVED: f64 = 0.018;

/// All levels lie in the store, and nothing but metadata is near.
const FAR: Tree = Tree { far: Far::Levels, near: NearDesign::None, ..Tree::of_dranges(0) };

const MEMORY: &[Subject] = &[
    subject("tries, and what they save for blocks", Tree { cache_more: SAVED, ..FAR }),
    subject("tries", FAR),
    subject("filters", Tree { far_filters: true, ..FAR }),
];

/// Far tables have filters and indexes, no tries.
const FILTERS: Subject =
    subject("filters", Tree { far: Far::Beyond(LOCAL), far_filters: true, ..Tree::of_dranges(0) });

const EMPTY: &[Subject] = &[
    terrace("tries", Far::Beyond(LOCAL)),
    FILTERS,
    subject(
        "no metadata cache",
        Tree {
            far: Far::Beyond(LOCAL),
            far_filters: true,
            near_meta_none: true,
            ..Tree::of_dranges(0)
        },
    ),
    SLATEDB,
];

const EMPTY_READS: &[&[Step]] =
    &[&[unmeasured(LOAD), empty("none", 0), empty("half", 50), empty("all", 100)]];

const SCANNED: &[Subject] = &[
    terrace("tries", Far::Beyond(LOCAL)),
    FILTERS,
    subject(
        "tries, one by one",
        Tree { far: Far::Beyond(LOCAL), far_one_by_one: true, ..Tree::of_dranges(0) },
    ),
    subject(
        "filters, one by one",
        Tree {
            far: Far::Beyond(LOCAL),
            far_filters: true,
            far_one_by_one: true,
            ..Tree::of_dranges(0)
        },
    ),
    SLATEDB,
];

/// Scans of so many keys each, from anywhere, after updates that all levels have a part of.
const SCANS: &[&[Step]] = &[&[
    unmeasured(LOAD),
    unmeasured(ycsb("churn", "a", 400_000)),
    scans("1", 1, 40_000),
    scans("16", 16, 20_000),
    scans("64", 64, 12_000),
    scans("256", 256, 4_000),
]];

const fn scans(name: &'static str, keys: u64, operations: u64) -> Step {
    let step =
        Step { scan_count: Some(keys), space: false, ..ycsb(name, "seekrandom", operations) };
    over(step, Uniform)
}

/// What is kept near, against what others keep.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "rocksmash-fig21d-scan",
        paper: PAPER,
        source: "Fig. 21d",
        meaning: "scans of 1 to 256 keys from anywhere: far tables with tries or filters, asked at \
                  once or one by one",
        headline: "up to 1.2x filters (at 64)",
        data: DATA,
        subjects: SCANNED,
        sequences: SCANS,
        figures: &[Figure::Throughput, Figure::Requests, Figure::P99],
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "rocksmash-fig14-ycsb",
        paper: PAPER,
        source: "Fig. 14",
        meaning: "load and YCSB a to f, with what others keep of an emulated store",
        headline: "2x all in the store (c), 1.6x (f) and 1.7x (e) whole tables; wanted 2x, 1.7x, \
                   and 2x SlateDB",
        data: DATA,
        subjects: &[
            beyond("20 % local", LOCAL, NearDesign::Buckets),
            terrace("all in the store", Far::Levels),
            beyond("20 %, block cache only", LOCAL, NearDesign::None),
            beyond("20 %, LRU of files", LOCAL, NearDesign::FileLru),
            beyond("20 %, whole tables", LOCAL, NearDesign::WholeTables),
            beyond("41 %, whole tables", MUTANT, NearDesign::WholeTables),
            Subject {
                name: "slatedb, 20 % near",
                memtables: MEMTABLES,
                kind: Kind::SlatedbNear(LOCAL),
            },
        ],
        sequences: &[&[
            LOAD,
            ycsb("a", "a", 400_000),
            ycsb("b", "b", 400_000),
            ycsb("c", "c", 400_000),
            ycsb("d", "d", 400_000),
            ycsb("f", "f", 400_000),
            ycsb("e", "e", 12_000),
        ]],
        figures: &[
            Figure::Throughput,
            Figure::Requests,
            Figure::NearHits,
            Figure::RequestDollars,
            Figure::LocalMost,
            Figure::P99,
        ],
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "rocksmash-fig16-cache",
        paper: PAPER,
        source: "Fig. 16",
        meaning: "YCSB c over time after as many puts as records, a fifth of the data near",
        headline: "about half the time, and steady",
        data: DATA,
        subjects: &[
            cached("blocks in buckets", LOCAL, NearDesign::Buckets),
            cached("LRU of files", LOCAL, NearDesign::FileLru),
        ],
        sequences: &[&[
            unmeasured(LOAD),
            unmeasured(ycsb("churn", "a", 400_000)),
            ycsb("c", "c", 400_000),
        ]],
        figures: &[Figure::Throughput, Figure::NearHits, Figure::Requests, Figure::P99],
        chart: Chart::OverTime,
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "rocksmash-fig17a-empty",
        paper: PAPER,
        source: "Fig. 17a",
        meaning: "reads of which none, half and all ask for what is not there, on an emulated store",
        headline: "equal at none, 1.78x without metadata near at all",
        data: DATA,
        subjects: EMPTY,
        sequences: EMPTY_READS,
        figures: &[Figure::Throughput, Figure::Requests, Figure::TableMemory],
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "rocksmash-fig17b-cloudreads",
        paper: PAPER,
        source: "Fig. 17b",
        meaning: "requests for a read of which none, half and all ask for what is not there",
        headline: "0 for an empty read",
        data: DATA,
        subjects: EMPTY,
        sequences: EMPTY_READS,
        figures: &[Figure::Requests, Figure::RequestDollars],
        chart: Chart::Bars(Figure::Requests),
        all_on_medium: false,
        runs_of: Some("rocksmash-fig17a-empty"),
    },
    hits("rocksmash-fig17c-hits-10", "1.9x at 10 %, of which the other has 7 %", TENTH, UNIFORM),
    hits("rocksmash-fig17c-hits-20", "wanted 1.7x", FIFTH, UNIFORM),
    hits("rocksmash-fig17c-hits-30", "1.5x at 30 %, to 31 %", THIRD, UNIFORM),
    hits("rocksmash-fig17d-skew-10", "more than at uniform reads", TENTH, SKEWED),
    hits("rocksmash-fig17d-skew-20", "more than at uniform reads", FIFTH, SKEWED),
    hits("rocksmash-fig17d-skew-30", "more than at uniform reads", THIRD, SKEWED),
    conflicts(
        "rocksmash-fig19-conflicts",
        "Fig. 19",
        "fewer misses with skew and with size",
        &[
            cached("20 % near", LOCAL, NearDesign::Buckets),
            cached("10 % near", 0.1, NearDesign::Buckets),
            cached("30 % near", 0.3, NearDesign::Buckets),
        ],
    ),
    conflicts(
        "rocksmash-fig20-conflicts",
        "Fig. 20",
        "slightly more misses with large buckets",
        &[
            in_buckets("1/65 of the cache, 8 MB", 65),
            in_buckets("1/13 of it, 40 MB", 13),
            in_buckets("1/4 of it, 120 MB", 4),
        ],
    ),
    Experiment {
        name: "rocksmash-fill",
        paper: PAPER,
        source: "section 3.2, where a block comes alone",
        meaning: "the first reads behind an empty cache of a fifth of the data, all in the store",
        headline: "no figure of its own",
        data: DATA,
        subjects: FILLING,
        sequences: FILLS,
        figures: &[Figure::NearHits, Figure::Throughput, Figure::Requests, Figure::P99],
        chart: Chart::Bars(Figure::NearHits),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "rocksmash-fig21b-memory",
        paper: PAPER,
        source: "Fig. 21b",
        meaning: "random reads, all levels in the store, with the memory that tries save for blocks",
        headline: "2x with the saved memory",
        data: TIGHT,
        subjects: MEMORY,
        sequences: &[&[
            unmeasured(LOAD),
            unmeasured(ycsb("warm", "c", 400_000)),
            ycsb("skewed", "c", 400_000),
            over(ycsb("uniform", "c", 100_000), Uniform),
        ]],
        figures: &[Figure::Throughput, Figure::Requests, Figure::TableMemory],
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
];
