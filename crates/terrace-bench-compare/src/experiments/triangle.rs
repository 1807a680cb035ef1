//! What TriangleKV (TPDS 2022) reports, in its proportions.
//!
//! The paper's data of 80 GB are 1,280 memtables of 64 MB, its container of 8 GB is a tenth of them
//! (128 rows), and so is the first level below; those that it compares with have one of 256 MB, a
//! thirty-second of that. Keys of 16 bytes, values of 4 KB. Its persistent memory is emulated here
//! by memory.
//!
//! ```text
//!   subject            L0                              L1     memtables       log
//!   triangle, matrix   container on the medium, 1/10   1/10   data / 1280     medium
//!   plain, medium      tables on the medium, 1/10      1/320  data / 1280     medium
//!   plain, disk        tables on the disk, by rows     1/320  data / 1280     disk
//!   pmem-memtable      tables on the disk, by rows     1/320  2 of data / 20, medium
//!                                                             on the medium
//!   RocksDB            tables on the disk, by rows     1/320  data / 1280     disk
//! ```
//! The log is where the paper has it (§4: in NVM); NoveLSM's memtables need none, since they are
//! flushed line by line, and a log beside them on the medium is what comes closest. Plain ones have
//! one drange, and compact all of L0 in one job; by rows that is from four on, as in LevelDB and
//! RocksDB (the paper's 15 GB in one compaction of NoveLSM are four memtables of 4 GB), and writers
//! wait at 36 as in RocksDB, or with large memtables at 12 as in LevelDB, of which NoveLSM is made.

use Distribution::{Latest, Uniform, Zipfian};
use terrace_bench::distribution::Distribution;

use super::{Chart, Data, Experiment, Figure, Form, Kind, Level0, Paper, Step, Subject, Tree};

const PAPER: Paper = Paper { name: "TriangleKV (TPDS 2022)", results: "docs/results/trianglekv" };

const RECORDS: u64 = 622_592;

const DATA: Data = Data {
    records: RECORDS,
    key_bytes: 16,
    value_bytes: 4096,
    memtables: 1280,
    caches: 64,
    dense_keys: false,
};

/// Number of memtables of a subject, as everywhere here: one of them is a 1,280th part of the data.
const MEMTABLES: u64 = 4;

/// What the container is of the data.
const CONTAINER: f64 = 0.1;
/// A first level as large as the container.
const WIDE: f64 = CONTAINER;
/// A first level of the size that it has elsewhere.
const NARROW: f64 = CONTAINER / 32.0;

const fn subject(name: &'static str, tree: Tree) -> Subject {
    Subject { name, memtables: MEMTABLES, kind: Kind::Terrace(tree) }
}

/// With a container, and a first level as large.
const fn container(form: Form) -> Tree {
    let l0 = Level0 { form, of_data: CONTAINER, on_medium: true, ..Level0::DEFAULT };
    Tree { l0, log_on_medium: true, level_of_data: WIDE, ..Tree::of_dranges(0) }
}

/// Plain tables, as the paper's RocksDB has them.
const fn plain(on_medium: bool) -> Tree {
    let of_data = if on_medium { CONTAINER } else { 0.0 };
    let l0 = Level0 { of_data, on_medium, cut_all: true, ..Level0::DEFAULT };
    Tree { l0, log_on_medium: on_medium, level_of_data: NARROW, ..Tree::of_dranges(1) }
}

const PMEM_MEMTABLES: Tree = Tree {
    l0: Level0 {
        form: Form::PmemMemtables,
        of_data: CONTAINER,
        on_medium: true,
        ..plain(false).l0
    },
    log_on_medium: true,
    ..plain(false)
};

const TRIANGLE: Subject = subject("triangle", container(Form::Triangle));
const MATRIX: Subject = subject("matrix", container(Form::Matrix));
const PLAIN_ON_MEDIUM: Subject = subject("plain on the medium", plain(true));
const PLAIN_ON_DISK: Subject = subject("plain on disk", plain(false));
const PMEM_MEMTABLE: Subject = subject("pmem-memtable", PMEM_MEMTABLES);
const ROCKSDB: Subject =
    Subject { name: "rocksdb tuned", memtables: MEMTABLES, kind: Kind::Rocksdb };
const ROCKSDB_AT_PROPORTIONS: Subject = Subject {
    name: "rocksdb at proportions",
    memtables: MEMTABLES,
    kind: Kind::RocksdbAtProportions,
};

const ALL: &[Subject] = &[
    TRIANGLE,
    MATRIX,
    PLAIN_ON_MEDIUM,
    PLAIN_ON_DISK,
    PMEM_MEMTABLE,
    ROCKSDB_AT_PROPORTIONS,
    ROCKSDB,
];

/// Those whose compactions are known one by one.
const OURS: &[Subject] = &[TRIANGLE, MATRIX, PLAIN_ON_MEDIUM, PLAIN_ON_DISK, PMEM_MEMTABLE];

const FILL: Step = Step {
    name: "fillrandom",
    workload: "fillrandom",
    operations: RECORDS,
    measured: true,
    ..Step::LOAD
};

const LOAD: Step = Step { name: "load", workload: "load", ..FILL };

/// Loads what others read or change.
const PREPARE: Step = Step { measured: false, ..LOAD };

/// A workload over a tree at rest that ends after some seconds at the latest.
const fn over_loaded(
    name: &'static str,
    workload: &'static str,
    distribution: Distribution,
    operations: u64,
) -> Step {
    Step { name, workload, distribution, operations, settled: true, seconds_max: Some(5), ..FILL }
}

/// As many bytes in values of another size.
const fn fill_of(name: &'static str, value_bytes: usize) -> Step {
    Step { name, value_bytes: Some(value_bytes), seconds_max: Some(20), ..FILL }
}

const FILL_ONLY: &[&[Step]] = &[&[FILL]];

/// Operations a second of an open loop, unless another number is asked for: half of what RocksDB at
/// the paper's proportions does of YCSB a at most, which was 30 to 31 thousand on two cores (tuned:
/// 41).
const RATE: f64 = 15_000.0;

/// As many operations as there are records: half of them are puts, of five times what the container
/// holds, so that compactions are a part of what is measured.
const OPEN_LOOP: Step =
    Step { rate: Some(RATE), seconds_max: None, ..over_loaded("a", "a", Zipfian, RECORDS) };

const OVER_TIME: &[Figure] =
    &[Figure::Throughput, Figure::StalledSlots, Figure::DiskBytes, Figure::P99, Figure::P999];

const fn experiment(
    name: &'static str,
    source: &'static str,
    meaning: &'static str,
    headline: &'static str,
) -> Experiment {
    Experiment {
        name,
        paper: PAPER,
        source,
        meaning,
        headline,
        data: DATA,
        subjects: ALL,
        sequences: FILL_ONLY,
        figures: OVER_TIME,
        chart: Chart::Bars(Figure::Throughput),
        all_on_medium: false,
        runs_of: None,
    }
}

/// The paper's experiments.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        subjects: &[PLAIN_ON_DISK, PLAIN_ON_MEDIUM, ROCKSDB_AT_PROPORTIONS],
        figures: &[
            Figure::Throughput,
            Figure::StalledSlots,
            Figure::CutBytes,
            Figure::P99,
            Figure::P999,
        ],
        chart: Chart::OverTime,
        ..experiment(
            "triangle-fig02-stalls",
            "Figures 2 and 3",
            "puts over time into plain stores: stalls, and what a compaction out of L0 reads",
            "3.10 GB a compaction; p90 1.15, p99.9 2.32 ms",
        )
    },
    Experiment {
        subjects: &[PMEM_MEMTABLE, PLAIN_ON_DISK],
        figures: &[Figure::Throughput, Figure::StalledSlots, Figure::CutBytes, Figure::P999],
        chart: Chart::OverTime,
        ..experiment(
            "triangle-fig04-pmemtable",
            "Figure 4",
            "puts over time: two memtables of half of the medium each, and small ones",
            "loads 1.7× faster than plain; 4.86× the bytes of a compaction",
        )
    },
    Experiment {
        data: Data { value_bytes: 4080, ..DATA },
        subjects: &[
            Subject { name: "medium", memtables: MEMTABLES, kind: Kind::File { on_medium: true } },
            Subject { name: "disk", memtables: MEMTABLES, kind: Kind::File { on_medium: false } },
        ],
        sequences: &[&[
            Step { name: "sequential write", workload: "fillseq", ..FILL },
            over_loaded("random write", "overwrite", Uniform, 200_000),
            over_loaded("random read", "readrandom", Uniform, 200_000),
            Step {
                scan_count: Some(64),
                ..over_loaded("sequential read", "seekrandom", Uniform, 10_000)
            },
        ]],
        figures: &[Figure::Throughput, Figure::P99],
        ..experiment(
            "triangle-tab1-media",
            "Table 1",
            "what the two media can do: a file, pages of 4 KiB, reads in order 64 at a time",
            "medium over disk, random write 8.1×, read 9.4×; sequential 4.1×, 5.8×",
        )
    },
    Experiment {
        sequences: &[
            &[fill_of("256 B", 256)],
            &[fill_of("1 KB", 1024)],
            &[FILL],
            &[fill_of("16 KB", 16 << 10)],
        ],
        figures: &[Figure::Throughput, Figure::DiskBytes, Figure::P99],
        ..experiment(
            "triangle-fig13a-randomwrite",
            "Figure 13a",
            "as many bytes in random order, by the size of values (fillrandom: 4 KB)",
            "at 4 KB 4.9× plain on the medium, 3.5× NoveLSM, 1.4× matrix",
        )
    },
    Experiment {
        sequences: &[&[Step { name: "fillseq", workload: "fillseq", ..FILL }]],
        ..experiment(
            "triangle-fig13b-seqwrite",
            "Figure 13b",
            "puts in the order of keys",
            "equal; written past the container",
        )
    },
    Experiment {
        sequences: &[&[
            PREPARE,
            over_loaded("random", "readrandom", Uniform, RECORDS),
            Step {
                scan_count: Some(1000),
                ..over_loaded("sequential, 1000 a scan", "seekrandom", Uniform, 1000)
            },
        ]],
        figures: &[Figure::Throughput, Figure::P99],
        ..experiment(
            "triangle-fig13c-reads",
            "Figures 13c and 13d",
            "reads of a tree at rest, at random and in order",
            "equal, random slightly ahead",
        )
    },
    Experiment {
        sequences: &[&[
            LOAD,
            over_loaded("a", "a", Zipfian, RECORDS),
            over_loaded("b", "b", Zipfian, RECORDS),
            over_loaded("c", "c", Zipfian, RECORDS),
            over_loaded("d", "d", Latest, RECORDS),
            over_loaded("e", "e", Zipfian, RECORDS / 10),
            over_loaded("f", "f", Zipfian, RECORDS),
        ]],
        figures: &[Figure::Throughput, Figure::P99],
        ..experiment(
            "triangle-fig14-ycsb",
            "Figure 14",
            "YCSB: load, and a to f over a tree at rest",
            "load 4.54× plain on the medium, 3.27× NoveLSM, 1.38× matrix; b to e kept up; d helped",
        )
    },
    Experiment {
        sequences: &[&[PREPARE, OPEN_LOOP]],
        figures: &[Figure::P99, Figure::Mean, Figure::P999],
        chart: Chart::Bars(Figure::P99),
        ..experiment(
            "triangle-tab2-tail",
            "Table 2",
            "YCSB a in an open loop: latencies from when an operation was due",
            "p99 29× plain on disk, 5.5× NoveLSM, 2.1× plain on the medium, 1.07× matrix",
        )
    },
    Experiment {
        chart: Chart::OverTime,
        ..experiment(
            "triangle-fig15-steady",
            "Figure 15",
            "puts over time",
            "no troughs; ahead of all others as in Figure 13a",
        )
    },
    Experiment {
        figures: &[Figure::DiskBytes, Figure::TableBytes, Figure::Throughput],
        chart: Chart::Bars(Figure::DiskBytes),
        runs_of: Some("triangle-fig15-steady"),
        ..experiment(
            "triangle-fig16-wa",
            "Figure 16",
            "bytes of tables written to the disk for each byte put, the log and the medium apart",
            "÷3.26 plain on disk, ÷1.64 plain on the medium, ÷1.78 NoveLSM, ÷1.27 matrix",
        )
    },
    Experiment {
        subjects: OURS,
        figures: &[Figure::CutBytes, Figure::CutTime, Figure::StalledSlots],
        chart: Chart::Bars(Figure::CutBytes),
        ..experiment(
            "triangle-fig17-cuts",
            "Figure 17",
            "bytes and time of each compaction out of L0",
            "smallest and shortest",
        )
    },
    Experiment {
        subjects: OURS,
        figures: &[Figure::CompactionCount, Figure::CompactionBytes, Figure::TableBytes],
        chart: Chart::Bars(Figure::CompactionCount),
        runs_of: Some("triangle-fig17-cuts"),
        ..experiment(
            "triangle-fig18-compactions",
            "Figure 18",
            "how many compactions there are, of all levels, and what each reads",
            "fewest; equal size to matrix",
        )
    },
    Experiment {
        subjects: &[
            subject("triangle, wide", container(Form::Triangle)),
            subject(
                "triangle, narrow",
                Tree { level_of_data: NARROW, ..container(Form::Triangle) },
            ),
            subject("matrix, wide", container(Form::Matrix)),
            subject("matrix, narrow", Tree { level_of_data: NARROW, ..container(Form::Matrix) }),
            subject("plain on the medium, wide", Tree { level_of_data: WIDE, ..plain(true) }),
            subject("plain on the medium, narrow", plain(true)),
            subject("plain on disk, wide", Tree { level_of_data: WIDE, ..plain(false) }),
            subject("plain on disk, narrow", plain(false)),
        ],
        ..experiment(
            "triangle-fig19-depth",
            "Figure 19",
            "puts, with a first level as large as the container and with a thirty-second of it",
            "wide over narrow: triangle +24 %; plain ÷1.5 on the medium, ÷3 on disk",
        )
    },
    Experiment {
        // The data of the others' container, and nothing below it.
        data: Data { records: RECORDS / 10, memtables: 128, caches: 6, ..DATA },
        subjects: &[
            subject("triangle", in_l0(container(Form::Triangle))),
            subject("matrix", in_l0(container(Form::Matrix))),
            subject("plain without filters", Tree { filters: false, ..in_l0(plain(true)) }),
            subject("plain with filters", in_l0(plain(true))),
        ],
        sequences: &[&[
            PREPARE,
            Step { settled: false, ..over_loaded("gets", "readrandom", Uniform, 400_000) },
        ]],
        figures: &[Figure::Throughput, Figure::P99],
        ..experiment(
            "triangle-sec5-hints",
            "§5.3.2",
            "gets from a full container of 128 rows, and from as many plain tables on the medium",
            "18× plain",
        )
    },
    Experiment {
        all_on_medium: true,
        ..experiment(
            "triangle-fig20-allpmem",
            "Figure 20",
            "puts, with everything on the medium",
            "fastest of six (plot only)",
        )
    },
    Experiment {
        sequences: &[&[PREPARE, Step { rate: Some(3.0 * RATE), ..OPEN_LOOP }]],
        figures: &[Figure::P99, Figure::Mean, Figure::P999],
        chart: Chart::Bars(Figure::P99),
        all_on_medium: true,
        ..experiment(
            "triangle-tab3-alltail",
            "Table 3",
            "YCSB a in an open loop with three times Table 2's load, with everything on the medium",
            "p99 1.76× RocksDB, 2.03× NoveLSM, 1.03× matrix",
        )
    },
    Experiment {
        subjects: &[
            Subject { name: "triangle on a file", memtables: MANY, kind: Kind::Terrace(ON_A_FILE) },
            Subject {
                name: "plain, as it comes",
                memtables: MANY,
                kind: Kind::Terrace(Tree::of_dranges(0)),
            },
        ],
        sequences: &[&[
            LOAD,
            FILL,
            over_loaded("a", "a", Zipfian, RECORDS),
            over_loaded("c", "c", Zipfian, RECORDS),
            over_loaded("e", "e", Zipfian, RECORDS / 10),
        ]],
        figures: &[Figure::Throughput, Figure::DiskBytes, Figure::P99, Figure::P999],
        ..experiment(
            "triangle-default",
            "no figure",
            "a machine without persistent memory: rows in a file on the disk, and plain tables, with memtables \
             of a twentieth of the data",
            "not in the paper; it decides what is the default",
        )
    },
];

/// Memtables where memory is plenty.
const MANY: u64 = 64;

/// The container on the disk, as all else.
const ON_A_FILE: Tree = {
    let tree = container(Form::Triangle);
    Tree { l0: Level0 { on_medium: false, ..tree.l0 }, log_on_medium: false, ..tree }
};

/// With room for all of the data in L0 before a cut is due.
const fn in_l0(tree: Tree) -> Tree {
    Tree { l0: Level0 { of_data: 2.0, ..tree.l0 }, ..tree }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::find;

    #[test]
    fn sizes_are_in_the_papers_proportions() {
        let experiment = find("triangle-fig15-steady").unwrap();
        for scale in [1.0, 0.25] {
            let data = experiment.data_bytes(scale) as f64;
            let memtable = experiment.memtable_bytes(&TRIANGLE, scale) as f64 / MEMTABLES as f64;
            let rows = data * CONTAINER / memtable;
            assert!((127.9..128.1).contains(&rows), "{rows} rows fill the container");
        }
        assert!((630e6..650e6).contains(&(experiment.data_bytes(0.25) as f64)));
        let small = find("triangle-sec5-hints").unwrap();
        let memtable = |of: &Experiment| of.memtable_bytes(&TRIANGLE, 1.0);
        assert!(memtable(small).abs_diff(memtable(experiment)) < 64);
    }

    #[test]
    fn data_of_other_values_are_as_large() {
        let experiment = find("triangle-fig13a-randomwrite").unwrap();
        for step in experiment.steps() {
            let each = experiment.data.key_bytes + step.value_bytes.unwrap_or(4096);
            let bytes = experiment.records_of(step, 0.5) * each as u64;
            assert!(bytes.abs_diff(experiment.data_bytes(0.5)) < each as u64, "{}", step.name);
        }
    }
}
