//! The cloud tier against everything local, everything in the object store, and SlateDB.
//!
//! The proportions are those of RocksMash (TACO 2022): a fifth of the data may be local, and the
//! block cache is small beside that, a fortieth of the data. Values are larger than the paper's 256
//! bytes, so that a few minutes make a tree of several levels. The store is emulated: what is
//! compared is how often each waits for it, and for how many bytes. There are half as many
//! operations as records, so that what is kept near has been read before.

use Distribution::{Uniform, Zipfian};
use terrace_bench::distribution::Distribution;

use super::{
    Chart, Data, Experiment, Far, Figure, Kind, LogAt, Paper, Promised, Step, Subject, Tree,
};

pub(super) const PAPER: Paper =
    Paper { name: "RocksMash (TACO 2022)", results: "docs/results/rocksmash" };

/// As everywhere here.
pub(super) const MEMTABLES: u64 = 4;

/// The share of the data that may be on the local disk.
pub(super) const LOCAL: f64 = 0.2;

/// Number of threads that read: one alone would only show the latency.
const READERS: u64 = 16;

pub(super) const DATA: Data = Data {
    records: 800_000,
    key_bytes: 16,
    value_bytes: 1000,
    memtables: 100,
    caches: 40,
    dense_keys: false,
};

pub(super) const fn terrace(name: &'static str, far: Far) -> Subject {
    let tree = Tree { far, ..Tree::of_dranges(0) };
    Subject { name, memtables: MEMTABLES, kind: Kind::Terrace(tree) }
}

const fn promising(name: &'static str, promise: Promised) -> Subject {
    let tree = Tree { far: Far::Beyond(LOCAL), promise, ..Tree::of_dranges(0) };
    Subject { name, memtables: MEMTABLES, kind: Kind::Terrace(tree) }
}

const SUBJECTS: &[Subject] = &[
    terrace("20 % local", Far::Beyond(LOCAL)),
    terrace("all local", Far::Nothing),
    terrace("all in the store", Far::Levels),
    SLATEDB,
];

/// Without anything on the local disk.
pub(super) const SLATEDB: Subject =
    Subject { name: "slatedb", memtables: MEMTABLES, kind: Kind::Slatedb };

pub(super) const LOAD: Step = Step { measured: true, drained: true, space: true, ..Step::LOAD };

const FILL: Step = Step {
    name: "fillrandom",
    workload: "fillrandom",
    distribution: Uniform,
    operations: DATA.records,
    ..LOAD
};

/// A workload over what the steps before it have left.
pub(super) const fn ycsb(name: &'static str, workload: &'static str, operations: u64) -> Step {
    Step { name, workload, distribution: Zipfian, operations, threads: Some(READERS), ..LOAD }
}

const FIGURES: &[Figure] = &[
    Figure::Throughput,
    Figure::Requests,
    Figure::Puts,
    Figure::RequestDollars,
    Figure::LocalMost,
    Figure::P99,
];

/// A tree with everything local whose tables have tries, or filters and indexes.
const fn local(name: &'static str, local_tries: bool) -> Subject {
    let tree = Tree { local_tries, ..Tree::of_dranges(0) };
    Subject { name, memtables: MEMTABLES, kind: Kind::Terrace(tree) }
}

const TRIES: &[Subject] = &[local("tries", true), local("filters", false)];

/// Small values, so that metadata are much of the data; keys that share all but their last bytes.
pub(super) const SMALL: Data = Data {
    records: 8_000_000,
    key_bytes: 16,
    value_bytes: 100,
    memtables: 50,
    caches: 10,
    dense_keys: true,
};

const fn of_tries(name: &'static str, source: &'static str, data: Data) -> Experiment {
    Experiment {
        name,
        paper: PAPER,
        source,
        meaning: "random fill, random reads and scans of 64, everything local, with tries and without",
        headline: "metadata up to -62 %, fill on a par, reads -5 % at most, scans up to 1.2x",
        data,
        subjects: TRIES,
        sequences: &[&[
            Step { measured: true, drained: true, ..Step::LOAD },
            Step { name: "read", ..READS },
            Step { name: "scan", workload: "seekrandom", scan_count: Some(64), ..READS },
        ]],
        figures: &[Figure::Throughput, Figure::Cpu, Figure::CpuToRest, Figure::TableMemory],
        chart: Chart::Bars(Figure::TableMemory),
        all_on_medium: false,
        runs_of: None,
    }
}

const READS: Step = Step {
    name: "read",
    workload: "readrandom",
    distribution: Uniform,
    operations: 1_000_000,
    measured: true,
    ..Step::LOAD
};

/// Reads of which a part asks for what is not there.
pub(super) const fn empty(name: &'static str, percent: u32) -> Step {
    Step { missing_share: Some(percent), space: false, ..ycsb(name, "readrandom", 100_000) }
}

/// So many times the data fit on the local disk: every level is local.
const AMPLE: f64 = 4.0;

/// The time to live of RocksMash's keys in upper levels, by default: how often a moment is stored.
const MOMENT_S: u64 = 20;

/// Longer than anything here takes: there is no moment but the first.
const NEVER_S: u64 = 1_000_000;

/// Everything is local, and outlives the machine.
const fn outliving(name: &'static str, mirror_s: u64, log_at: LogAt) -> Subject {
    let tree = Tree { far: Far::Beyond(AMPLE), mirror_s, log_at, ..Tree::of_dranges(0) };
    Subject { name, memtables: MEMTABLES, kind: Kind::Terrace(tree) }
}

/// The same, with one moment, behind which one thread replays the whole log.
const fn serial(name: &'static str, log_at: LogAt) -> Subject {
    let tree = Tree {
        far: Far::Copies,
        mirror_s: NEVER_S,
        log_at,
        log_unbounded: true,
        recovery_threads: 1,
        ..Tree::of_dranges(0)
    };
    Subject { name, memtables: MEMTABLES, kind: Kind::Terrace(tree) }
}

const RECOVERING: &[Subject] = &[
    outliving("moments, log on a volume", MOMENT_S, LogAt::Volume),
    serial("serial replay of a volume", LogAt::Volume),
    outliving("moments, log in the store", MOMENT_S, LogAt::Store),
    serial("serial replay from the store", LogAt::Store),
];

/// Puts at a rate, so that moments come by their time, until the machine is lost with its disk.
const fn recovery(name: &'static str, data: Data, steps: &'static [&'static [Step]]) -> Experiment {
    Experiment {
        name,
        paper: PAPER,
        source: "Figs. 23a, b",
        meaning: "a machine is lost with its disk; an empty directory takes the database over",
        headline: "8.6-10.1x serial replay, 2.5x with larger values",
        data,
        subjects: RECOVERING,
        sequences: steps,
        figures: &[Figure::RestartPerGb, Figure::Restart, Figure::Open],
        chart: Chart::Bars(Figure::RestartPerGb),
        all_on_medium: false,
        runs_of: None,
    }
}

/// Of 272 bytes each, a GB at scale 1.
const OF_256: Data = Data { records: 3_700_000, value_bytes: 256, ..DATA };

/// The same bytes in larger records.
const OF_1000: Data = Data { records: 1_000_000, ..DATA };

/// Loads so many records a second.
const fn paced(rate: f64) -> Step {
    Step { rate: Some(rate), ..Step::LOAD }
}

/// Another machine goes on with the database, and reads.
const TAKEN_OVER: Step = Step {
    after_loss: true,
    space: false,
    drained: false,
    ..ycsb("take-over", "readrandom", 4_000)
};

/// Random puts in small records, beside which the log is looked at.
const OVERWRITTEN: Data = Data { records: 6_000_000, value_bytes: 256, memtables: 40, ..DATA };

const fn fill(name: &'static str, rate: Option<f64>) -> Step {
    Step { name, rate, log: true, threads: Some(4), operations: OVERWRITTEN.records, ..FILL }
}

/// The log lies on a volume, and is as long as the period wants it.
const fn periodic(name: &'static str, mirror_s: u64) -> Subject {
    let tree = Tree {
        far: Far::Beyond(AMPLE),
        mirror_s,
        log_at: LogAt::Volume,
        log_unbounded: true,
        ..Tree::of_dranges(0)
    };
    Subject { name, memtables: MEMTABLES, kind: Kind::Terrace(tree) }
}

/// The log lies in the directory of the database, or on a volume.
const fn logged(name: &'static str, log_at: LogAt, promise: Promised) -> Subject {
    let tree = Tree { far: Far::Beyond(LOCAL), log_at, promise, ..Tree::of_dranges(0) };
    Subject { name, memtables: MEMTABLES, kind: Kind::Terrace(tree) }
}

/// What is measured of the cloud tier. What stands where a paper's figure would is what is wanted.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "rocksmash-ycsb",
        paper: PAPER,
        source: "Figs. 13, 14, with other baselines",
        meaning: "load, random puts and YCSB a, b, c, e, on an emulated object store",
        headline: "load and fillrandom 0.9× all local, or the bandwidth; a, b, c, e 2× all in the \
                   store, 1.5× SlateDB",
        data: DATA,
        subjects: SUBJECTS,
        sequences: &[
            &[
                LOAD,
                ycsb("a", "a", 400_000),
                ycsb("b", "b", 400_000),
                ycsb("c", "c", 400_000),
                ycsb("e", "e", 12_000),
            ],
            &[FILL],
        ],
        figures: FIGURES,
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "rocksmash-heat",
        paper: PAPER,
        source: "section 3.2, where stale blocks are only dropped",
        meaning: "reads right after compactions that wrote most of what lies in the store anew",
        headline: "hits 1.5× of those without what is handed on",
        data: DATA,
        subjects: &[
            terrace("handed on", Far::Beyond(LOCAL)),
            Subject {
                name: "dropped",
                memtables: MEMTABLES,
                kind: Kind::Terrace(Tree {
                    far: Far::Beyond(LOCAL),
                    near_drops: true,
                    ..Tree::of_dranges(0)
                }),
            },
        ],
        sequences: &[&[
            Step { measured: false, space: false, ..LOAD },
            Step { measured: false, space: false, ..ycsb("warm", "c", 400_000) },
            Step { measured: false, space: false, name: "overwrite", ..FILL },
            ycsb("after", "c", 80_000),
        ]],
        figures: &[Figure::Throughput, Figure::Requests],
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    of_tries("rocksmash-fig21-short", "Fig. 21, keys of 16 bytes", SMALL),
    of_tries(
        "rocksmash-fig21-long",
        "Fig. 21, keys of 64 bytes",
        Data { key_bytes: 64, records: 6_000_000, ..SMALL },
    ),
    Experiment {
        name: "rocksmash-durable",
        paper: PAPER,
        source: "section 3.4; no figure of the paper's",
        meaning: "random puts by 64 threads that wait for the disk, or for an emulated store as well",
        headline: "no figure of its own",
        data: DATA,
        subjects: &[
            promising("buffered", Promised::Buffered),
            promising("synced", Promised::Synced),
            promising("in the store, 5 ms", Promised::InStore { log_ms: 5 }),
            promising("in the store, 50 ms", Promised::InStore { log_ms: 50 }),
        ],
        sequences: &[&[Step {
            name: "fillrandom",
            workload: "fillrandom",
            operations: 40_000,
            threads: Some(64),
            drained: false,
            ..LOAD
        }]],
        figures: &[Figure::Throughput, Figure::P99, Figure::Puts, Figure::RequestDollars],
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "rocksmash-fig22-logplace",
        paper: PAPER,
        source: "Fig. 22",
        meaning: "random puts by eight threads with the log on the local disk, or on a volume",
        headline: "the volume is not slower",
        data: DATA,
        subjects: &[
            logged("volume", LogAt::Volume, Promised::Buffered),
            logged("local disk", LogAt::Own, Promised::Buffered),
            logged("volume, synced", LogAt::Volume, Promised::Synced),
            logged("local disk, synced", LogAt::Own, Promised::Synced),
        ],
        sequences: &[&[Step { threads: Some(8), ..FILL }]],
        figures: &[Figure::Throughput, Figure::P99],
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    },
    recovery("rocksmash-fig23-recovery-256", OF_256, &[&[paced(92_000.0), TAKEN_OVER]]),
    recovery("rocksmash-fig23-recovery-1000", OF_1000, &[&[paced(25_000.0), TAKEN_OVER]]),
    Experiment {
        name: "rocksmash-fig27-period",
        paper: PAPER,
        source: "Figs. 24, 27, 28",
        meaning: "random puts, with moments at several periods or none, everything local",
        headline: "log 3.3, 3.5, 5.2 GB at 20, 60, 100 s; throughput equal",
        data: OVERWRITTEN,
        subjects: &[
            periodic("every 20 s", 20),
            periodic("every 60 s", 60),
            periodic("every 100 s", 100),
            periodic("no moments", 0),
        ],
        sequences: &[&[fill("steady", Some(20_000.0))], &[fill("as fast as can be", None)]],
        figures: &[
            Figure::LogMost,
            Figure::Uploaded,
            Figure::CompactionWritten,
            Figure::Throughput,
            Figure::P99,
        ],
        chart: Chart::Bars(Figure::LogMost),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "rocksmash-taken-over",
        paper: PAPER,
        source: "section 3.4; no figure of the paper's",
        meaning: "the first read on an empty machine that takes over what another one had locally",
        headline: "no figure of its own; < 1 s is wanted for 1 GB",
        data: Data { records: 4_000_000, ..DATA },
        subjects: &[
            outliving("log on a volume", MOMENT_S, LogAt::Volume),
            outliving("log in the store", MOMENT_S, LogAt::Store),
        ],
        sequences: &[&[Step::LOAD, TAKEN_OVER]],
        figures: &[Figure::Restart, Figure::Open, Figure::Throughput],
        chart: Chart::Bars(Figure::Restart),
        all_on_medium: false,
        runs_of: None,
    },
    Experiment {
        name: "rocksmash-open",
        paper: PAPER,
        source: "Fig. 4, with other baselines",
        meaning: "an open after a kill, and the first read, on an emulated object store",
        headline: "no figure of its own",
        data: DATA,
        subjects: SUBJECTS,
        sequences: &[&[
            Step { measured: false, space: false, ..LOAD },
            Step {
                after_kill: true,
                space: false,
                drained: false,
                ..ycsb("open", "readrandom", 4_000)
            },
        ]],
        figures: &[Figure::Restart, Figure::Throughput],
        chart: Chart::Bars(Figure::Restart),
        all_on_medium: false,
        runs_of: None,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// That of `make rocksmash`.
    const SCALE: f64 = 0.25;

    #[test]
    fn a_fifth_of_the_data_holds_the_memtables_logs() {
        let local = EXPERIMENTS[0].data_bytes(SCALE) as f64 * LOCAL;
        let memtables = EXPERIMENTS[0].memtable_bytes(&SUBJECTS[0], SCALE) as f64;
        // A quarter of the local bytes is the log's at most.
        assert!(memtables < local / 4.0, "{memtables} and {local}");
        assert!(local > 16.0 * 1024.0 * 1024.0);
    }
}
