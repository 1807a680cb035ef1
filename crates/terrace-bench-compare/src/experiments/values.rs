//! The value log against what it replaces: Terrace without it, and RocksDB with blob files and
//! without.
//!
//! Sizes and mixes are those of Tebis (EuroSys 2022), §4: pairs of 33, 123 and 1,023 bytes. Cells
//! that others measure too have the proportions that they have there: memtables take a tenth of
//! what is filled, a third of what is updated, and the cache holds everything.

use Distribution::{Uniform, Zipfian, ZipfianClustered};
use terrace_bench::distribution::Distribution;
use terrace_bench::records::ValueMix;

use super::{Chart, Data, Experiment, Figure, Kind, Paper, Step, Subject, Tree};

const PAPER: Paper = Paper {
    name: "value log, with the sizes of Tebis (EuroSys 2022)",
    results: "docs/results/value-log",
};

/// As everywhere here: one of them is such a part of the data as an experiment says.
const MEMTABLES: u64 = 4;

const ON: Subject = Subject {
    name: "value log",
    memtables: MEMTABLES,
    kind: Kind::Terrace(Tree { value_log: true, ..Tree::of_dranges(0) }),
};
/// With a class of values that stand apart above the last level only.
const MEDIUM: Subject = Subject {
    name: "value log, medium from 100",
    memtables: MEMTABLES,
    kind: Kind::Terrace(Tree { value_log: true, medium_values: true, ..Tree::of_dranges(0) }),
};
const OFF: Subject =
    Subject { name: "without", memtables: MEMTABLES, kind: Kind::Terrace(Tree::of_dranges(0)) };
const ROCKSDB: Subject =
    Subject { name: "rocksdb tuned", memtables: MEMTABLES, kind: Kind::Rocksdb };
const BLOBS: Subject =
    Subject { name: "rocksdb with blobs", memtables: MEMTABLES, kind: Kind::RocksdbBlobs };

const ALL: &[Subject] = &[ON, OFF, ROCKSDB, BLOBS];

/// Pairs whose values have 4 KB, 400 MB of them.
const FILLED: Data = Data {
    records: 100_000,
    key_bytes: 16,
    value_bytes: 4096,
    memtables: 40,
    caches: 1,
    dense_keys: false,
};

/// As many bytes as 125,000 pairs of 1,023 have.
const MIXED: Data = Data { records: 125_000, value_bytes: 1007, ..FILLED };

/// Pairs whose values have 1 KB, as many as the cells `w100` and `sw50` of the comparison have.
const KILOBYTES: Data = Data {
    records: 200_000,
    key_bytes: 16,
    value_bytes: 1024,
    memtables: 13,
    caches: 1,
    dense_keys: false,
};

/// Pairs that are overwritten again and again, 130 MB of them.
const OVERWRITTEN: Data = Data { records: 32_000, ..FILLED };

/// How many times the bytes that live are written over.
const TIMES_OVERWRITTEN: u64 = 20;

/// Percent of the number of records. Of so many puts of records drawn at random, 30 % overwrite:
/// (1 - e^-x) / x is 0.7 at this share x.
const PUTS_PERCENT: u64 = 76;

const LOAD: Step = Step { drained: true, measured: true, ..Step::LOAD };

/// Loads what others read or change.
const PREPARE: Step = Step { measured: false, drained: false, ..LOAD };

const fn load_of(name: &'static str, value_bytes: usize) -> Step {
    Step { name, value_bytes: Some(value_bytes), ..LOAD }
}

const fn mix_of(name: &'static str, value_mix: ValueMix) -> Step {
    Step { name, value_mix: Some(value_mix), ..LOAD }
}

/// A workload over a tree at rest.
const fn over_loaded(
    name: &'static str,
    workload: &'static str,
    distribution: Distribution,
    operations: u64,
) -> Step {
    Step { name, workload, distribution, operations, settled: true, drained: false, ..LOAD }
}

/// Updates of everything, again and again, with a look at the space that is taken.
const fn overwrites(name: &'static str, distribution: Distribution) -> Step {
    let operations = OVERWRITTEN.records * TIMES_OVERWRITTEN;
    let step = over_loaded(name, "overwrite", distribution, operations);
    Step { space: true, drained: true, ..step }
}

const fn drained(step: Step) -> Step {
    Step { drained: true, ..step }
}

/// Loads of three sizes, and puts of which 30 % overwrite.
const LOADS: &[&[Step]] = &[
    &[load_of("L", 1007)],
    &[Step { name: "4 KB", ..LOAD }],
    &[load_of("16 KB", 16_384)],
    &[Step {
        name: "4 KB, 30 % overwrites",
        workload: "fillrandom",
        operations: FILLED.records * PUTS_PERCENT / 100,
        ..LOAD
    }],
];

const WRITES: &[Figure] =
    &[Figure::Throughput, Figure::CpuToRest, Figure::ProcessBytes, Figure::StoreBytes, Figure::P99];

const fn experiment(name: &'static str, meaning: &'static str, wanted: &'static str) -> Experiment {
    Experiment {
        name,
        paper: PAPER,
        source: "value log",
        meaning,
        headline: wanted,
        data: FILLED,
        subjects: ALL,
        sequences: LOADS,
        figures: WRITES,
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    }
}

/// What is measured of the value log. What stands where a paper's figure would is what is wanted.
pub const EXPERIMENTS: &[Experiment] = &[
    experiment(
        "values-load",
        "loads of large values, as many bytes of each size",
        "2× without; 1.5× RocksDB with blobs; 4 KB: 3× RocksDB, 2.2× with blobs",
    ),
    Experiment {
        figures: &[Figure::ProcessBytes, Figure::StoreBytes, Figure::CpuToRest, Figure::Throughput],
        chart: Chart::Bars(Figure::ProcessBytes),
        runs_of: Some("values-load"),
        ..experiment(
            "values-amplification",
            "bytes written for each byte of a load, log and garbage collection included",
            "4 KB at most 1.15, with 30 % overwrites 1.8",
        )
    },
    Experiment {
        data: MIXED,
        subjects: &[ON, MEDIUM, OFF, ROCKSDB, BLOBS],
        sequences: &[
            &[mix_of("S", ValueMix::S)],
            &[mix_of("SD", ValueMix::Sd)],
            &[mix_of("MD", ValueMix::Md)],
            &[mix_of("LD", ValueMix::Ld)],
        ],
        ..experiment(
            "values-mixes",
            "loads of mixed sizes: 33, 123 and 1,023 bytes, 60 % of one and 20 % of the others; S: 33",
            "SD, MD, LD 1.3× without; S no dearer",
        )
    },
    Experiment {
        data: KILOBYTES,
        sequences: &[
            &[PREPARE, drained(over_loaded("w100", "w100", ZipfianClustered, 400_000))],
            &[PREPARE, drained(over_loaded("rw50", "rw50", ZipfianClustered, 400_000))],
        ],
        ..experiment(
            "values-updates",
            "updates of 1 KB, hot keys side by side; half reads, half updates",
            "w100 4× RocksDB, rw50 3×",
        )
    },
    Experiment {
        data: OVERWRITTEN,
        sequences: &[
            &[PREPARE, overwrites("uniform", Uniform)],
            &[PREPARE, overwrites("zipfian", Zipfian)],
            &[PREPARE, Step { reader: true, ..overwrites("zipfian, a reader", Zipfian) }],
        ],
        figures: &[
            Figure::SpaceMostApart,
            Figure::SpaceMedian,
            Figure::SpaceMost,
            Figure::ProcessBytes,
            Figure::StoreBytes,
            Figure::CpuToRest,
            Figure::Throughput,
        ],
        chart: Chart::SpaceOverTime,
        ..experiment(
            "values-space",
            "space over living bytes while 20 times the data are written over, values of 4 KB",
            "never above 1.3, what the reader keeps apart",
        )
    },
    Experiment {
        data: KILOBYTES,
        subjects: &[ON, OFF],
        sequences: &[&[
            PREPARE,
            over_loaded("c", "c", Zipfian, 500_000),
            over_loaded("e", "e", Zipfian, 40_000),
            over_loaded("sw50", "sw50", ZipfianClustered, 60_000),
        ]],
        figures: &[Figure::Cpu, Figure::Throughput, Figure::P99],
        chart: Chart::Bars(Figure::Cpu),
        ..experiment(
            "values-reads",
            "reads and scans of 1 KB: YCSB c and e, half scans and half updates",
            "0.95× without",
        )
    },
    Experiment {
        // So much memory that all of it is in the log only.
        data: Data { records: 48_000, memtables: 1, ..FILLED },
        sequences: &[&[
            PREPARE,
            Step {
                after_kill: true,
                settled: false,
                ..over_loaded("restart", "readrandom", Uniform, 20_000)
            },
        ]],
        figures: &[Figure::Restart, Figure::Throughput],
        chart: Chart::Bars(Figure::Restart),
        ..experiment(
            "values-restart",
            "an open after a kill, 200 MB of 4 KB values in the log, and the first read",
            "no slower than without",
        )
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fill_overwrites_30_percent() {
        let x = PUTS_PERCENT as f64 / 100.0;
        let overwriting = 1.0 - (1.0 - (-x).exp()) / x;
        assert!((overwriting - 0.3).abs() < 0.003, "{overwriting}");
    }
}
