//! Experiments of papers: what each subject does, run side by side, and what it comes to.
//!
//! ```text
//! a table ([`nova`], [`triangle`], [`values`], [`rocksmash`], [`near`]): pure data
//!    └── for each round, sequence, and subject (the order turns):
//!          └── session, a process of its own over an empty directory
//!                └── load, and the steps ──► a report for each that is measured
//!    └── medians and ratios ──► NAME.json, NAME.svg, a row of the README
//! ```
//! An experiment is data: [`Experiment`] says everything that is done. [`runner`], [`session`] and
//! [`render`] know no paper. What a session looks at beside a workload are [`work`] and [`space`];
//! [`restart`] is how it goes on after a kill, or elsewhere when its machine is lost; [`far`] what
//! it asks of an object store, [`kept_log`] how long its log gets. Bytes of memory are not written
//! down but follow from the data: a paper's proportions hold at any scale.

pub mod far;
pub mod kept_log;
pub mod near;
pub mod nova;
pub mod render;
pub mod restart;
pub mod rocksmash;
pub mod runner;
pub mod session;
pub mod space;
pub mod triangle;
pub mod values;
pub mod work;

use serde_json::Value;
use terrace::NearDesign;
use terrace_bench::distribution::Distribution;
use terrace_bench::records::ValueMix;

/// A part of a report: names, which carry their units, and values.
pub type Fields = Vec<(String, Value)>;

/// What is compared, over which data, doing what.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name: paper, figure or section, one word.
    pub name: &'static str,
    /// The paper.
    pub paper: Paper,
    /// Where it reports the experiment.
    pub source: &'static str,
    /// What is compared, in one line.
    pub meaning: &'static str,
    /// What the paper found, in its own numbers.
    pub headline: &'static str,
    /// What is stored.
    pub data: Data,
    /// Who is compared; ratios are of the first over each other one.
    pub subjects: &'static [Subject],
    /// What each of them does, each sequence over a new database.
    pub sequences: &'static [&'static [Step]],
    /// What is looked at, what matters most first.
    pub figures: &'static [Figure],
    /// What is drawn.
    pub chart: Chart,
    /// Whether everything is on the medium that L0 has elsewhere, and nothing on the disk.
    pub all_on_medium: bool,
    /// The experiment that has the same data, subjects and sequences, and looks at other figures:
    /// one run serves both.
    pub runs_of: Option<&'static str>,
}

/// A paper.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// How it is cited.
    pub name: &'static str,
    /// Where its results are, from the root of the project.
    pub results: &'static str,
}

/// What is stored.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// Records at scale 1.
    pub records: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How many memtables would hold as much as all records.
    pub memtables: u64,
    /// How many times the block cache would go into all records.
    pub caches: u64,
    /// Whether keys are the numbers from 0 on, and not every sixteenth.
    pub dense_keys: bool,
}

/// One of those that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The name in results.
    pub name: &'static str,
    /// The memory of all memtables together, as a number of memtables (the paper's δ).
    pub memtables: u64,
    /// What it is.
    pub kind: Kind,
}

/// What a subject is.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// RocksDB, tuned as elsewhere.
    Rocksdb,
    /// RocksDB, tuned, with blob files.
    RocksdbBlobs,
    /// RocksDB as it comes, but that its buffer and its first level are such a part of the data as
    /// in the paper.
    RocksdbAtProportions,
    /// SlateDB, all of it in an emulated object store.
    Slatedb,
    /// The same with a cache of objects on the local disk, which takes this share of the data.
    SlatedbNear(f64),
    /// No store, but a file that is read and written past the system's cache.
    File {
        /// Whether it is on the medium of L0, or on the disk.
        on_medium: bool,
    },
    /// Terrace, set up so.
    Terrace(Tree),
}

/// How Terrace is set up, where it is not by default.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    /// Dranges of a tree (the paper's θ and α); 0: as many as by default.
    pub dranges: usize,
    /// Trees side by side, each over its share of the keys and with its share of the memory (the
    /// paper's ω); 1: an ordinary database.
    pub static_trees: u64,
    /// Whether memtables of hot dranges are merged in memory.
    pub memtable_merging: bool,
    /// Whether flushes write every version: a baseline.
    pub flush_all_versions: bool,
    /// Whether gets ask a lookup index first.
    pub lookup_index: bool,
    /// Whether scans open the memtables of all dranges: a baseline.
    pub scan_all_memtables: bool,
    /// Frozen memtables for each active one that stay in memory before they are flushed.
    pub memtables_kept: usize,
    /// What L0 is.
    pub l0: Level0,
    /// Whether the log is on the medium of L0, and not on the disk.
    pub log_on_medium: bool,
    /// The bytes that the first level below L0 should hold, as a share of the data; 0: as by
    /// default.
    pub level_of_data: f64,
    /// Whether tables have filters.
    pub filters: bool,
    /// Whether large values are in a value log, with its options by default.
    pub value_log: bool,
    /// Whether there are medium values too, from 100 bytes on.
    pub medium_values: bool,
    /// What lies in an emulated object store.
    pub far: Far,
    /// What is kept near of tables there: blocks in buckets, or a baseline.
    pub near: NearDesign,
    /// The share of the data that it may take, where levels have no bound of their own; 0: nothing.
    pub near_of_data: f64,
    /// Whether a block comes near alone, also while there is room: a baseline.
    pub near_alone: bool,
    /// What is far is asked for one block after the other.
    pub far_one_by_one: bool,
    /// In how many buckets that share is divided; 0: as by default.
    pub near_buckets: u64,
    /// The share of the data that the block cache takes beyond what it takes elsewhere.
    pub cache_more: f64,
    /// Whether metadata of tables there are fetched for each look: a baseline.
    pub near_meta_none: bool,
    /// Whether compactions hand nothing on of what was read of tables there: a baseline.
    pub near_drops: bool,
    /// Whether tables there have filter and index, and no trie: a baseline.
    pub far_filters: bool,
    /// Whether local tables have tries too: a baseline.
    pub local_tries: bool,
    /// What the acknowledgement of a write promises.
    pub promise: Promised,
    /// Seconds at scale 1 from one moment in the object store to the next; 0: none, or as the
    /// promise wants it.
    pub mirror_s: u64,
    /// Where the log lies.
    pub log_at: LogAt,
    /// Whether the log may get as long as it gets: a baseline.
    pub log_unbounded: bool,
    /// Threads that replay the log; 0: as many as by default.
    pub recovery_threads: usize,
}

/// Where the log lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogAt {
    /// In the directory of the database, or on the medium of L0.
    Own,
    /// On a volume that outlives the machine, which a directory stands in for.
    Volume,
    /// In the directory of the database, and in the object store as well.
    Store,
}

/// What the acknowledgement of a write promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promised {
    /// A killed process loses nothing.
    Buffered,
    /// The disk has it.
    Synced,
    /// The object store has it, in objects that are so many milliseconds apart.
    InStore {
        /// See above.
        log_ms: u64,
    },
}

/// What lies in an object store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Far {
    /// Nothing: there is none.
    Nothing,
    /// What does not fit into local bytes that are this share of the data.
    Beyond(f64),
    /// Everything below L0.
    Levels,
    /// No level, however large: only what a mirror stores, and what was taken over.
    Copies,
}

/// What L0 is.
#[derive(Clone, Copy, Debug)]
pub struct Level0 {
    /// What it is.
    pub form: Form,
    /// Its bytes as a share of the data, where bytes bound it.
    pub of_data: f64,
    /// Whether it has a medium of its own.
    pub on_medium: bool,
    /// Whether a cut takes all of it: a baseline.
    pub cut_all: bool,
}

/// What L0 is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Tables in files.
    Plain,
    /// Rows in a container, cut as a triangle.
    Triangle,
    /// Rows in a container, cut as a matrix: a baseline.
    Matrix,
    /// Tables in files below memtables that take the bytes: a baseline.
    PmemMemtables,
}

impl Form {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Form::Plain => "plain",
            Form::Triangle => "triangle",
            Form::Matrix => "matrix",
            Form::PmemMemtables => "pmem-memtable",
        }
    }
}

impl Level0 {
    /// Tables in the directory of the database, as by default.
    pub const DEFAULT: Level0 =
        Level0 { form: Form::Plain, of_data: 0.0, on_medium: false, cut_all: false };
}

impl Tree {
    /// One tree with `dranges` dranges, and nothing else that is not by default.
    pub const fn of_dranges(dranges: usize) -> Tree {
        Tree {
            dranges,
            static_trees: 1,
            memtable_merging: false,
            flush_all_versions: false,
            lookup_index: false,
            scan_all_memtables: false,
            memtables_kept: 0,
            l0: Level0::DEFAULT,
            log_on_medium: false,
            level_of_data: 0.0,
            filters: true,
            value_log: false,
            medium_values: false,
            far: Far::Nothing,
            near: NearDesign::Buckets,
            near_of_data: 0.0,
            near_alone: false,
            far_one_by_one: false,
            near_buckets: 0,
            cache_more: 0.0,
            near_meta_none: false,
            near_drops: false,
            far_filters: false,
            local_tries: false,
            promise: Promised::Buffered,
            mirror_s: 0,
            log_at: LogAt::Own,
            log_unbounded: false,
            recovery_threads: 0,
        }
    }
}

/// One workload.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The name in results, different from that of every other measured step of the experiment.
    pub name: &'static str,
    /// The workload of `terrace bench`.
    pub workload: &'static str,
    /// Which records.
    pub distribution: Distribution,
    /// Operations at scale 1, for workloads that do not fix them.
    pub operations: u64,
    /// The workload ends after this number of seconds if not before.
    pub seconds_max: Option<u64>,
    /// How many records a scan reads, if not as the workload says.
    pub scan_count: Option<u64>,
    /// The share of reads, in percent, that ask for what is not there, if not as the workload says.
    pub missing_share: Option<u32>,
    /// Operations a second, for an open loop.
    pub rate: Option<f64>,
    /// Threads, if not as many as elsewhere.
    pub threads: Option<u64>,
    /// Bytes of a value, if not as many as elsewhere: then there are as many records as make the
    /// same data.
    pub value_bytes: Option<usize>,
    /// Pairs of several sizes instead, again as many as make the same data.
    pub value_mix: Option<ValueMix>,
    /// What is added to the seed: steps with the same draw the same records in the same order.
    pub draw: u64,
    /// Whether the process is killed first, and the store is opened anew.
    pub after_kill: bool,
    /// Whether the machine is lost first with its disk, and an empty directory takes the database
    /// over.
    pub after_loss: bool,
    /// Whether the length of the log is sampled.
    pub log: bool,
    /// Whether the store is left to come to rest first.
    pub settled: bool,
    /// Whether it is left to come to rest afterwards, so that all that the step caused counts.
    pub drained: bool,
    /// Whether the space that its files take is sampled.
    pub space: bool,
    /// Whether a reader holds a snapshot for a tenth of the step; the space is sampled then.
    pub reader: bool,
    /// Whether it is looked at, or only done.
    pub measured: bool,
}

impl Step {
    /// Loads the records, for those that come after it: not looked at, and nothing is waited for.
    pub const LOAD: Step = Step {
        name: "load",
        workload: "load",
        distribution: Distribution::Uniform,
        operations: 0,
        seconds_max: None,
        scan_count: None,
        missing_share: None,
        rate: None,
        threads: None,
        value_bytes: None,
        value_mix: None,
        draw: 0,
        after_kill: false,
        after_loss: false,
        log: false,
        settled: false,
        drained: false,
        space: false,
        reader: false,
        measured: false,
    };
}

/// A number that a step comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Operations in a second: more is better.
    Throughput,
    /// Bytes of tables written for each byte that was put, the log not counted: less is better.
    TableBytes,
    /// Bytes of tables written to the disk for each byte that was put; the log, and what went to a
    /// medium of L0's own, are not counted: less is better.
    DiskBytes,
    /// Tenths of a second in which less than a tenth of the median was done: less is better.
    StalledSlots,
    /// Bytes that the process gave to the system for files, by `/proc/self/io`, for each byte that
    /// was put, until the store was at rest: less is better.
    ProcessBytes,
    /// Bytes that the store says it wrote to files, log included, for each byte that was put, until
    /// it was at rest: less is better.
    StoreBytes,
    /// Processor time of the process for an operation, in microseconds: less is better.
    Cpu,
    /// The same, until the store was at rest: less is better.
    CpuToRest,
    /// The most bytes that all files took at any look, for each byte that lives: less is better.
    SpaceMost,
    /// The median of all looks: less is better.
    SpaceMedian,
    /// The most at any look at which no reader held a snapshot: less is better.
    SpaceMostApart,
    /// Requests to the object store for an operation, until the store was at rest: less is better.
    Requests,
    /// Of these those that store something: less is better.
    Puts,
    /// About what the requests of a million operations cost, in dollars: less is better.
    RequestDollars,
    /// The most bytes that all local files took at any look, in MB: less is better.
    LocalMost,
    /// Blocks that were near when a read asked for them, in percent of those that were neither in
    /// memory nor local: more is better.
    NearHits,
    /// Bytes of memory that filters, indexes and tries of open tables take, in MB: less is better.
    TableMemory,
    /// From the beginning of an open after a kill to the first read, in milliseconds: less is
    /// better.
    Restart,
    /// The same after the loss of a machine, in seconds for each GB that was put before: less is
    /// better.
    RestartPerGb,
    /// Until the open itself returned, in milliseconds: less is better.
    Open,
    /// The most bytes that the log had behind the newest moment in the object store at any look, or
    /// that a replay would read where there is none, in MB: less is better.
    LogMost,
    /// MB that were stored in the object store, until the store was at rest: less is better.
    Uploaded,
    /// MB that compactions wrote since the open: less is better.
    CompactionWritten,
    /// How many compactions there were, of any level: less is better.
    CompactionCount,
    /// Bytes that one of them read, the median of all: less is better.
    CompactionBytes,
    /// Bytes that one compaction out of L0 read, the median of all: less is better.
    CutBytes,
    /// How long one took, in milliseconds, the median of all: less is better.
    CutTime,
    /// The mean latency in microseconds: less is better.
    Mean,
    /// The 95th percentile: less is better.
    P95,
    /// The 99th percentile: less is better.
    P99,
    /// The 99.9th percentile: less is better.
    P999,
}

impl Figure {
    /// The field of a report that holds it, which carries its unit.
    pub fn field(self) -> &'static str {
        match self {
            Figure::Throughput => "ops_per_s",
            Figure::TableBytes => session::TABLE_AMPLIFICATION,
            Figure::DiskBytes => session::DISK_AMPLIFICATION,
            Figure::StalledSlots => session::STALLED_SLOTS,
            Figure::ProcessBytes => work::PROCESS_AMPLIFICATION,
            Figure::StoreBytes => work::STORE_AMPLIFICATION,
            Figure::Cpu => "cpu_us_per_op",
            Figure::CpuToRest => work::CPU_TO_REST,
            Figure::SpaceMost => space::MOST,
            Figure::SpaceMedian => space::MEDIAN,
            Figure::SpaceMostApart => space::MOST_APART,
            Figure::Requests => far::REQUESTS_PER_OP,
            Figure::Puts => far::PUTS_PER_OP,
            Figure::RequestDollars => far::DOLLARS_PER_MILLION_OPS,
            Figure::LocalMost => far::LOCAL_MB_MOST,
            Figure::NearHits => session::NEAR_HITS,
            Figure::TableMemory => crate::engines::TABLE_MEMORY,
            Figure::Restart => restart::MILLIS,
            Figure::RestartPerGb => restart::SECONDS_PER_GB,
            Figure::Open => restart::OPEN_MILLIS,
            Figure::LogMost => kept_log::MB_MOST,
            Figure::Uploaded => far::MB_UP,
            Figure::CompactionWritten => crate::engines::COMPACTION_WRITTEN,
            Figure::CompactionCount => "compaction_count",
            Figure::CompactionBytes => "compaction_bytes_median",
            Figure::CutBytes => "cut_bytes_median",
            Figure::CutTime => "cut_ms_median",
            Figure::Mean => "mean_us",
            Figure::P95 => "p95_us",
            Figure::P99 => "p99_us",
            Figure::P999 => "p99_9_us",
        }
    }

    /// For people.
    pub fn unit(self) -> &'static str {
        match self {
            Figure::Throughput => "operations per second",
            Figure::TableBytes => "bytes of tables written per byte put",
            Figure::DiskBytes => "bytes of tables written to the disk per byte put",
            Figure::StalledSlots => "tenths of a second under a tenth of the median",
            Figure::ProcessBytes => "bytes given to the system per byte put, until at rest",
            Figure::StoreBytes => "bytes written by its own account per byte put, until at rest",
            Figure::Cpu => "us of CPU per operation",
            Figure::CpuToRest => "us of CPU per operation, until at rest",
            Figure::SpaceMost => "bytes of all files per living byte, most",
            Figure::SpaceMedian => "bytes of all files per living byte, median",
            Figure::SpaceMostApart => "bytes of all files per living byte, most without a reader",
            Figure::Requests => "requests to the object store per operation, until at rest",
            Figure::Puts => "requests that store something per operation, until at rest",
            Figure::RequestDollars => "dollars for the requests of a million operations, estimate",
            Figure::LocalMost => "MB of all local files, most",
            Figure::NearHits => "hits of the cache on the local disk, percent",
            Figure::TableMemory => "MB of memory for filters, indexes and tries",
            Figure::Restart => "ms from open to the first read",
            Figure::RestartPerGb => "s from open to the first read per GB put before",
            Figure::Open => "ms until the open returned",
            Figure::LogMost => "MB of log behind the newest moment, most",
            Figure::Uploaded => "MB stored in the object store, until at rest",
            Figure::CompactionWritten => "MB written by compactions, until at rest",
            Figure::CompactionCount => "compactions",
            Figure::CompactionBytes => "bytes read by a compaction, median",
            Figure::CutBytes => "bytes read by a compaction out of L0, median",
            Figure::CutTime => "ms of a compaction out of L0, median",
            Figure::Mean => "mean latency, us",
            Figure::P95 => "95th percentile, us",
            Figure::P99 => "99th percentile, us",
            Figure::P999 => "99.9th percentile, us",
        }
    }

    /// Whether it may well be 0, so that a ratio says nothing.
    pub fn is_count(self) -> bool {
        matches!(
            self,
            Figure::StalledSlots
                | Figure::Requests
                | Figure::Puts
                | Figure::RequestDollars
                | Figure::Uploaded
        )
    }

    /// How many times `own` is better than `other`.
    pub fn ratio(self, own: f64, other: f64) -> f64 {
        match self {
            Figure::Throughput | Figure::NearHits => own / other,
            _ => other / own,
        }
    }
}

/// What is drawn of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chart {
    /// A bar of each subject for each step, of this figure.
    Bars(Figure),
    /// Throughput over time, a line for each subject and a chart for each step.
    OverTime,
    /// Space over the run, a line for each subject and a chart for each step.
    SpaceOverTime,
}

impl Experiment {
    /// The bytes of keys and values at this scale.
    pub fn data_bytes(&self, scale: f64) -> u64 {
        self.records(scale) * (self.data.key_bytes + self.data.value_bytes) as u64
    }

    /// How many records there are at this scale.
    pub fn records(&self, scale: f64) -> u64 {
        scaled(self.data.records, scale)
    }

    /// Number of records that a step is about, given the bytes of its pairs.
    pub fn records_of(&self, step: &Step, scale: f64) -> u64 {
        if step.value_mix.is_none() && step.value_bytes.is_none() {
            return self.records(scale);
        }
        (self.data_bytes(scale) as f64 / self.pair_bytes_of(step)) as u64
    }

    /// The bytes of a key and its value in a step, the mean of them where sizes are mixed.
    pub fn pair_bytes_of(&self, step: &Step) -> f64 {
        let value_bytes = step.value_bytes.unwrap_or(self.data.value_bytes);
        let fixed = (self.data.key_bytes + value_bytes) as f64;
        step.value_mix.map_or(fixed, ValueMix::pair_bytes_mean)
    }

    /// The bytes that all memtables of a subject take together.
    pub fn memtable_bytes(&self, subject: &Subject, scale: f64) -> u64 {
        self.data_bytes(scale) * subject.memtables / self.data.memtables
    }

    /// The bytes of the block cache.
    pub fn cache_bytes(&self, scale: f64) -> u64 {
        self.data_bytes(scale) / self.data.caches
    }

    /// The measured steps of all sequences.
    pub fn steps(&self) -> impl Iterator<Item = &'static Step> {
        self.sequences.iter().flat_map(|steps| steps.iter()).filter(|step| step.measured)
    }
}

/// `count` at this scale, and not so few that nothing happens.
pub fn scaled(count: u64, scale: f64) -> u64 {
    ((count as f64 * scale) as u64).max(1000)
}

/// The tables of all papers.
pub fn all() -> impl Iterator<Item = &'static Experiment> {
    let local = nova::EXPERIMENTS.iter().chain(triangle::EXPERIMENTS).chain(values::EXPERIMENTS);
    local.chain(rocksmash::EXPERIMENTS).chain(near::EXPERIMENTS)
}

/// The experiments that a name stands for: the one called so, or all whose names go on behind it.
pub fn named(name: &str) -> Vec<&'static Experiment> {
    let is_meant = |one: &&Experiment| {
        one.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    all().filter(is_meant).collect()
}

/// The experiment called so.
pub fn find(name: &str) -> Option<&'static Experiment> {
    all().find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use terrace_bench::workload;

    use super::*;

    #[test]
    fn tables_name_what_there_is_and_nothing_twice() {
        let mut names = BTreeSet::new();
        for experiment in all() {
            assert!(names.insert(experiment.name), "{}", experiment.name);
            let subjects: BTreeSet<_> = experiment.subjects.iter().map(|one| one.name).collect();
            assert_eq!(subjects.len(), experiment.subjects.len(), "{}", experiment.name);
            assert!(!experiment.figures.is_empty());
            let ends = |step: &Step| step.after_kill || step.after_loss;
            let kills = |steps: &&[Step]| steps.iter().position(ends);
            assert!(experiment.sequences.iter().filter_map(kills).all(|at| at > 0));
            let steps: BTreeSet<_> = experiment.steps().map(|step| step.name).collect();
            assert_eq!(steps.len(), experiment.steps().count(), "{}", experiment.name);
            assert!(experiment.sequences.iter().all(|steps| steps.iter().any(|s| s.measured)));
            if let Some(other) = experiment.runs_of.map(|name| find(name).unwrap()) {
                assert!(std::ptr::eq(experiment.subjects, other.subjects), "{}", experiment.name);
                assert!(std::ptr::eq(experiment.sequences, other.sequences));
                assert_eq!(experiment.data_bytes(1.0), other.data_bytes(1.0));
                assert_eq!(experiment.all_on_medium, other.all_on_medium);
            }
            for step in experiment.sequences.iter().flat_map(|steps| steps.iter()) {
                assert!(workload::find(step.workload).is_some(), "{}", step.workload);
            }
        }
    }

    #[test]
    fn a_name_stands_for_all_that_go_on_behind_it() {
        assert_eq!(named("nova-fig01-stalls").len(), 1);
        assert_eq!(named("nova").len(), nova::EXPERIMENTS.len());
        assert_eq!(named("triangle").len(), triangle::EXPERIMENTS.len());
        assert_eq!(named("values").len(), values::EXPERIMENTS.len());
        assert!(named("nova-fig").is_empty() && named("").is_empty());
    }

    #[test]
    fn memory_follows_from_the_data() {
        let experiment = find("nova-fig12a-onenode").unwrap();
        let [nova, small] = [1, 2].map(|at| &experiment.subjects[at]);
        assert_eq!(
            experiment.memtable_bytes(nova, 1.0),
            64 * experiment.memtable_bytes(small, 1.0)
        );
        let half = experiment.memtable_bytes(nova, 0.5);
        assert_eq!(experiment.memtable_bytes(nova, 1.0), 2 * half);
        assert!(Figure::Throughput.ratio(6.0, 2.0) > 2.9 && Figure::P99.ratio(6.0, 2.0) < 0.4);
    }
}
