//! One subject through one sequence of steps.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use terrace::{
    CloudOptions, CompactionRecord, CutEnd, DiskProfile, Durability, L0Medium, L0Options, Layout,
    Options, Research, ValueLogOptions,
};
use terrace_bench::clock::Moment;
use terrace_bench::records::Records;
use terrace_bench::{BenchOptions, Observer, Phase, StaticTrees, StoreError, TerraceStore};
use terrace_env::{ObjectsEnv, RealEnv};

use super::work::{self, Work};
use super::{
    Experiment, Far, Fields, Form, Kind, LogAt, Promised, Step, Subject, Tree, far, kept_log,
    restart, scaled, space,
};
use crate::ExperimentSessionArgs;
use crate::cells::Setup;
use crate::engines::raw_file::RawFile;
use crate::engines::slatedb::SlateDb;
use crate::engines::{MEMTABLES, Peer, rocksdb};
use crate::footprint;

/// Values of this many bytes and more stand apart above the last level, where there is such a
/// class.
const MEDIUM_BYTES: usize = 100;

/// The field of a report with the bytes of tables for each byte that was put.
pub const TABLE_AMPLIFICATION: &str = "table_amplification";

/// The field of a report with those of them that went to the disk.
pub const DISK_AMPLIFICATION: &str = "disk_table_amplification";

/// The field of a report with the hits of the cache on the local disk, in percent.
pub const NEAR_HITS: &str = "near_hit_percent";

/// The field of a report with the tenths of a second in which hardly anything was done.
pub const STALLED_SLOTS: &str = "stalled_slots";

/// How many tenths of a second had less than a tenth of the median. The last one is shorter than
/// others, and so not looked at.
fn stalled(slots: &[u64]) -> usize {
    let whole = &slots[..slots.len().saturating_sub(1)];
    let mut sorted = whole.to_vec();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    whole.iter().filter(|done| **done * 10 < median).count()
}

/// What is looked at of a compaction.
#[derive(Clone, Copy, Debug)]
struct Compaction {
    number: u64,
    from: u8,
    to: u8,
    read_bytes: u64,
    cut_end: Option<CutEnd>,
    micros: u64,
}

impl From<&CompactionRecord> for Compaction {
    fn from(record: &CompactionRecord) -> Compaction {
        let CompactionRecord { number, from, to, read_bytes, cut_end, micros, .. } = *record;
        Compaction { number, from, to, read_bytes, cut_end, micros }
    }
}

/// What the compactions of the step came to, of them those out of L0, and of these those that say
/// that they are within their bounds: how many, and of the bytes that they read and their
/// milliseconds the least, the median and the most. Nothing of these if there was none. And how
/// many cuts ended where for which reason.
fn compactions_of(all: &[Compaction], before: Option<u64>) -> Fields {
    let is_of_step = |one: &&Compaction| before.is_none_or(|last| one.number > last);
    let of_step: Vec<&Compaction> = all.iter().filter(is_of_step).collect();
    let is_cut = |one: &&&Compaction| one.from == 0 && one.to > 0;
    let cuts: Vec<&Compaction> = of_step.iter().filter(is_cut).copied().collect();
    let mut fields = Vec::new();
    let mut by_end: BTreeMap<String, u64> = BTreeMap::new();
    for word in cuts.iter().filter_map(|one| one.cut_end).map(|end| json!(end)) {
        *by_end.entry(format!("cuts_{}", word.as_str().unwrap_or_default())).or_default() += 1;
    }
    let in_bounds = |one: &&&Compaction| one.cut_end == Some(CutEnd::InBounds);
    let bounded = cuts.iter().filter(in_bounds).copied().collect();
    let counts = [("compaction_count", of_step.len()), ("cut_count", cuts.len())];
    fields.extend(counts.map(|(name, count)| (name.to_owned(), json!(count))));
    for (name, those) in [("compaction", of_step), ("cut", cuts), ("cut_in_bounds", bounded)] {
        let bytes = those.iter().map(|one| one.read_bytes as f64).collect();
        fields.extend(spread(&format!("{name}_bytes"), bytes));
        let millis = those.iter().map(|one| one.micros as f64 / 1000.0).collect();
        fields.extend(spread(&format!("{name}_ms"), millis));
    }
    fields.extend(by_end.into_iter().map(|(end, count)| (end, json!(count))));
    fields
}

/// The least, the median and the most, if there is anything.
fn spread(name: &str, mut all: Vec<f64>) -> Fields {
    all.sort_unstable_by(f64::total_cmp);
    let (Some(least), Some(most)) = (all.first(), all.last()) else { return Vec::new() };
    let numbers = [("least", *least), ("median", all[all.len() / 2]), ("most", *most)];
    numbers.into_iter().map(|(which, number)| (format!("{name}_{which}"), json!(number))).collect()
}

/// Ends a workload after its time, and says where it is; loading what it needs does not count.
struct Deadline {
    after: Option<Duration>,
    began: OnceLock<Moment>,
    course: space::Course,
}

impl Observer for Deadline {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        if phase == Phase::Workload {
            self.began.get_or_init(Moment::now);
            self.course.set(done, total);
        }
    }

    fn should_stop(&self) -> bool {
        let lasted = self.began.get().map(|began| Moment::now().since(*began));
        lasted.zip(self.after).is_some_and(|(lasted, after)| lasted >= after)
    }
}

/// Runs the session and prints a line of JSON for each measured step: the report of
/// `terrace bench`, with the bytes of tables and what else the step was looked at for.
///
/// Errors: there is no such experiment; the store failed; what was put before a kill is gone.
pub fn run(args: &ExperimentSessionArgs) -> Result<(), StoreError> {
    let experiment = super::find(&args.experiment).ok_or("there is no such experiment")?;
    let subject = experiment.subjects.get(args.subject).ok_or("there is no such subject")?;
    let steps = experiment.sequences.get(args.sequence).ok_or("there is no such sequence")?;
    std::fs::create_dir_all(&args.data)?;
    let open = |takes_over| open(experiment, subject, args, takes_over);
    if let Some(until) = args.until {
        let store = open(false)?;
        let mut before = steps.iter().take(until);
        before.try_for_each(|step| run_step(&*store, experiment, step, args).map(|_| ()))?;
        return restart::wait_for_kill();
    }
    let killed_at = steps.iter().position(|step| step.after_kill || step.after_loss);
    let (store, mut restarted) = match killed_at {
        Some(at) => {
            restart::run_and_kill(at)?;
            let is_lost = steps[at].after_loss;
            let lost = if is_lost { Some(restart::lose(&args.data)?) } else { None };
            let (key, put) = (first_key(experiment, args), put_by(experiment, &steps[..at], args));
            let again = restart::open_again(&args.data, &key, put, || open(is_lost))?;
            let (store, mut fields) = again;
            fields.extend(lost.map(|bytes| ("bytes_lost".to_owned(), json!(bytes))));
            (store, fields)
        }
        None => (open(false)?, Vec::new()),
    };
    for step in &steps[killed_at.unwrap_or(0)..] {
        let mut fields = run_step(&*store, experiment, step, args)?;
        fields.append(&mut restarted);
        if step.measured {
            let fields: BTreeMap<String, Value> = fields.into_iter().collect();
            println!("{}", json!(fields));
        }
    }
    Ok(())
}

/// The bytes of keys and values that these steps put, each of which does nothing else.
fn put_by(experiment: &Experiment, steps: &[Step], args: &ExperimentSessionArgs) -> f64 {
    let of_step = |step: &Step| {
        let count = match step.workload {
            "load" => experiment.records_of(step, args.scale),
            _ => options_of(experiment, step, args).operations,
        };
        count as f64 * experiment.pair_bytes_of(step)
    };
    steps.iter().map(of_step).sum()
}

/// The key that a load puts first.
fn first_key(experiment: &Experiment, args: &ExperimentSessionArgs) -> Vec<u8> {
    let records = Records::new(experiment.records(args.scale), experiment.data.key_bytes);
    let mut key = Vec::new();
    records.write_key(records.slot(0), &mut key);
    key
}

/// What the step comes to, field by field.
fn run_step(
    store: &dyn Peer,
    experiment: &Experiment,
    step: &Step,
    args: &ExperimentSessionArgs,
) -> Result<Fields, StoreError> {
    if step.settled {
        store.settle()?;
    }
    let deadline = Deadline {
        after: step.seconds_max.map(Duration::from_secs),
        began: OnceLock::new(),
        course: space::Course::default(),
    };
    let before = store.table_bytes();
    let disk_before = store.disk_bytes();
    let last_before = store.compactions().last().map(|last| last.number);
    let work_before = Work::so_far(store);
    let (requests_before, near_before) = (store.requests(), store.near_reads());
    let options = options_of(experiment, step, args);
    let run = || terrace_bench::run(store, &options, &deadline);
    let mut log_most = None;
    let mut work = || match step.log {
        true => kept_log::watch(store, &mut log_most, run),
        false => run(),
    };
    let (report, samples) = if step.space {
        let reader = step.reader.then_some(store);
        space::watch(&args.data, reader, &deadline.course, work)?
    } else {
        (work(), Vec::new())
    };
    let report = report?;
    let reported: BTreeMap<String, Value> = serde_json::from_value(json!(report))?;
    let put = reported.get("user_bytes").and_then(Value::as_f64).filter(|bytes| *bytes > 0.0);
    let mut fields: Fields = reported.into_iter().collect();
    let tables = store.table_bytes().zip(before).map(|(after, before)| after - before);
    let disk = store.disk_bytes().zip(disk_before).map(|(after, before)| after - before);
    let each = |bytes: Option<u64>| bytes.zip(put).map(|(bytes, put)| bytes as f64 / put);
    let medium = tables.zip(disk).map(|(tables, disk)| tables - disk);
    let of_tables = [
        ("table_bytes", json!(tables)),
        (TABLE_AMPLIFICATION, json!(each(tables))),
        ("disk_table_bytes", json!(disk)),
        (DISK_AMPLIFICATION, json!(each(disk))),
        ("l0_medium_bytes", json!(medium)),
        (STALLED_SLOTS, json!(stalled(report.throughput_per_100ms()))),
    ];
    fields.extend(of_tables.map(|(name, value)| (name.to_owned(), value)));
    let compactions: Vec<_> = store.compactions().iter().map(Compaction::from).collect();
    fields.extend(compactions_of(&compactions, last_before));
    let mut local_most = space::most_bytes(&samples);
    if step.drained {
        let settle = || store.settle();
        if step.space {
            let (settled, samples) = space::watch(&args.data, None, &deadline.course, settle)?;
            settled?;
            local_most = local_most.max(space::most_bytes(&samples));
        } else {
            settle()?;
        }
        fields.push(("bytes_at_rest".into(), footprint::bytes_below(&args.data)?.into()));
    }
    let pair_bytes = experiment.pair_bytes_of(step);
    let put_bytes = work::put_bytes(&report, pair_bytes);
    let done = Work::so_far(store).fields_since(&work_before, report.operations, put_bytes);
    fields.extend(done);
    if let Some((before, after)) = requests_before.zip(store.requests()) {
        fields.extend(far::fields(&before, &after, report.operations));
    }
    if let Some((before, after)) = near_before.zip(store.near_reads()) {
        let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
        let percent = (hits + misses > 0).then(|| hits as f64 * 100.0 / (hits + misses) as f64);
        let reads = [("near_hits", hits), ("near_misses", misses)];
        fields.extend(reads.map(|(name, count)| (name.to_owned(), count.into())));
        fields.push((NEAR_HITS.to_owned(), json!(percent)));
    }
    fields.extend(log_most.map(|bytes| (kept_log::MB_MOST.to_owned(), json!(bytes as f64 / 1e6))));
    fields
        .extend(local_most.map(|bytes| (far::LOCAL_MB_MOST.to_owned(), json!(bytes as f64 / 1e6))));
    if step.space {
        let live_bytes = experiment.records_of(step, args.scale) as f64 * pair_bytes;
        fields.extend(space::fields(&samples, live_bytes));
    }
    fields.extend(store.facts().into_iter().map(|(name, fact)| (name.to_owned(), fact)));
    Ok(fields)
}

fn options_of(experiment: &Experiment, step: &Step, args: &ExperimentSessionArgs) -> BenchOptions {
    BenchOptions {
        workload: step.workload.to_owned(),
        records: experiment.records_of(step, args.scale),
        operations: match step.value_bytes {
            // As many as the records of this size.
            Some(_) => experiment.records_of(step, args.scale),
            None => scaled(step.operations, args.scale),
        },
        key_bytes: experiment.data.key_bytes,
        value_bytes: step.value_bytes.unwrap_or(experiment.data.value_bytes),
        value_mix: step.value_mix,
        distribution: Some(step.distribution),
        scan_count: step.scan_count,
        missing_share: step.missing_share,
        dense_keys: experiment.data.dense_keys,
        rate: step.rate.map(|rate| args.rate.unwrap_or(rate)),
        seed: args.seed + step.draw,
        threads: step.threads.unwrap_or(BenchOptions::default().threads),
    }
}

fn open(
    experiment: &Experiment,
    subject: &Subject,
    args: &ExperimentSessionArgs,
    takes_over: bool,
) -> Result<Box<dyn Peer>, StoreError> {
    let setup = Setup {
        cache_bytes: experiment.cache_bytes(args.scale),
        memtable_bytes: experiment.memtable_bytes(subject, args.scale),
        sync: false,
        transactions: false,
    };
    let disk = args.disk_profile.clone();
    match subject.kind {
        Kind::Rocksdb => {
            let rate = disk.and_then(|disk| disk.write_bytes_per_s);
            Ok(Box::new(rocksdb::RocksDb::open_limited(&args.data, &setup, rate)?))
        }
        Kind::RocksdbBlobs => {
            let rate = disk.and_then(|disk| disk.write_bytes_per_s);
            Ok(Box::new(rocksdb::RocksDb::open_with_blobs(&args.data, &setup, rate)?))
        }
        Kind::RocksdbAtProportions => {
            let rate = disk.and_then(|disk| disk.write_bytes_per_s);
            Ok(Box::new(rocksdb::RocksDb::open_at_proportions(&args.data, &setup, rate)?))
        }
        Kind::Slatedb => {
            let objects = far::objects_dir(&args.data);
            Ok(Box::new(SlateDb::open_far(&objects, &setup, args.objects_profile.clone(), None)?))
        }
        Kind::SlatedbNear(share) => {
            let objects = far::objects_dir(&args.data);
            let bytes = (experiment.data_bytes(args.scale) as f64 * share) as usize;
            let near = Some((args.data.clone(), bytes));
            Ok(Box::new(SlateDb::open_far(&objects, &setup, args.objects_profile.clone(), near)?))
        }
        Kind::File { on_medium: true } => Ok(Box::new(RawFile::create(&args.medium, None)?)),
        Kind::File { on_medium: false } => Ok(Box::new(RawFile::create(&args.data, disk)?)),
        Kind::Terrace(tree) => {
            let records = Records::new(experiment.records(args.scale), experiment.data.key_bytes);
            let data_bytes = experiment.data_bytes(args.scale);
            let mut options = terrace_options(&tree, &setup, data_bytes, &args.medium)?;
            if tree.far == Far::Nothing {
                return open_terrace(&args.data, &options, &tree, &records, disk);
            }
            let objects = far::objects_dir(&args.data);
            let mut cloud = cloud_options(&tree, &objects, data_bytes, args.scale);
            cloud.take_over = takes_over;
            options.layout.cloud = Some(cloud);
            if tree.log_at == LogAt::Volume {
                let volume = far::volume_dir(&args.data);
                std::fs::create_dir_all(&volume)?;
                options.layout.log_volume = Some(volume);
            }
            let env = ObjectsEnv::new(RealEnv::new(), args.objects_profile.clone());
            Ok(Box::new(TerraceStore::new(options.open_in(env, &args.data)?)))
        }
    }
}

/// The library's options for a tree, or for all static trees together.
pub fn terrace_options(
    tree: &Tree,
    setup: &Setup,
    data_bytes: u64,
    medium: &Path,
) -> Result<Options, StoreError> {
    /// The least that a database takes.
    const MEMTABLE_BYTES_MIN: u64 = 16 << 10;
    // What is kept and what is active make all of it.
    let parts = MEMTABLES.max(tree.memtables_kept as u64 + 1);
    let share = |of_data: f64| (data_bytes as f64 * of_data) as u64;
    let l0_medium = tree
        .l0
        .on_medium
        .then(|| L0Medium { path: medium.to_owned(), bytes: share(tree.l0.of_data) });
    let l0 = match (tree.l0.form, l0_medium.clone()) {
        (Form::Plain, medium) => L0Options::Plain { medium },
        (Form::PmemMemtables, _) => L0Options::PLAIN,
        (Form::Triangle | Form::Matrix, medium) => L0Options::Container {
            bytes: share(tree.l0.of_data),
            path: medium.map(|medium| medium.path),
        },
    };
    let durability = match tree.promise {
        Promised::Buffered => Durability::Buffered,
        Promised::Synced => Durability::Sync,
        Promised::InStore { .. } => Durability::Durable,
    };
    let research = Research {
        scan_all_memtables: tree.scan_all_memtables,
        flush_all_versions: tree.flush_all_versions,
        l0_cut_all: tree.l0.cut_all,
        near: tree.near,
        near_alone: tree.near_alone,
        far_one_by_one: tree.far_one_by_one,
        near_bucket_bytes: share(tree.near_of_data).checked_div(tree.near_buckets),
        near_meta_none: tree.near_meta_none,
        near_drops: tree.near_drops,
        far_filters: tree.far_filters,
        local_tries: tree.local_tries,
        log_unbounded: tree.log_unbounded,
        l0_matrix: tree.l0.form == Form::Matrix,
        pmem_memtables: l0_medium.filter(|_| tree.l0.form == Form::PmemMemtables),
        ..Research::default()
    };
    let mut layout =
        Layout::new().l0(l0).dranges(tree.dranges).level_bytes_base(share(tree.level_of_data));
    layout.log_path = tree.log_on_medium.then(|| medium.to_owned());
    if !tree.filters {
        layout.filter_bits_per_key = 0;
    }
    let medium_bytes = if tree.medium_values { MEDIUM_BYTES } else { usize::MAX };
    layout.value_log =
        tree.value_log.then(|| ValueLogOptions { medium_bytes, ..ValueLogOptions::default() });
    layout.memtable_merging = tree.memtable_merging;
    // A slot takes 8 bytes, a record of a memtable a hundred times as much.
    layout.lookup_index_bytes = if tree.lookup_index { setup.memtable_bytes / 16 } else { 0 };
    layout.memtables_kept = tree.memtables_kept;
    layout.recovery_threads = tree.recovery_threads;
    Ok(Options::new()
        .durability(durability)
        .layout(layout)
        .cache_bytes(setup.cache_bytes + share(tree.cache_more))
        .memtable_bytes((setup.memtable_bytes / parts).max(MEMTABLE_BYTES_MIN))
        .research(research))
}

/// What of a tree lies in the object store in `objects`. The time from moment to moment is scaled
/// as the data are, so that it holds the same part of them.
pub fn cloud_options(tree: &Tree, objects: &Path, data_bytes: u64, scale: f64) -> CloudOptions {
    const MIRROR_MIN: Duration = Duration::from_secs(1);
    const LOG_APART: Duration = Duration::from_millis(50);
    let url = format!("file://{}", objects.display());
    let mut options = match tree.far {
        Far::Beyond(share) => {
            let bytes = (data_bytes as f64 * share) as u64;
            CloudOptions::new(url, bytes.max(CloudOptions::LOCAL_BYTES_MIN))
        }
        Far::Levels => CloudOptions { first_level: Some(1), ..CloudOptions::as_it_is(url) },
        Far::Nothing | Far::Copies => CloudOptions::as_it_is(url),
    };
    if tree.near_of_data > 0.0 {
        options.cache_bytes = Some((data_bytes as f64 * tree.near_of_data) as u64);
    }
    if let Promised::InStore { log_ms } = tree.promise {
        options.mirror = Some(MIRROR);
        options.log = Some(Duration::from_millis(log_ms));
    }
    if tree.mirror_s > 0 {
        let period = Duration::from_secs(tree.mirror_s).mul_f64(scale);
        options.mirror = Some(period.max(MIRROR_MIN));
    }
    if tree.log_at == LogAt::Store {
        options.log = Some(LOG_APART);
    }
    options
}

/// How often a tree whose log is in the object store has a moment there.
const MIRROR: Duration = Duration::from_secs(60);

fn open_terrace(
    dir: &Path,
    options: &Options,
    tree: &Tree,
    records: &Records,
    disk: Option<DiskProfile>,
) -> Result<Box<dyn Peer>, StoreError> {
    if tree.static_trees > 1 {
        let trees = StaticTrees::open(dir, options, disk, records, tree.static_trees)?;
        return Ok(Box::new(trees));
    }
    let db = match disk {
        Some(profile) => options.open_on_disk(dir, profile)?,
        None => options.open(dir)?,
    };
    Ok(Box::new(TerraceStore::new(db)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_under_a_tenth_of_the_median_are_stalls() {
        assert_eq!(stalled(&[]), 0);
        assert_eq!(stalled(&[100, 100, 0, 9, 10, 100, 100, 3]), 2, "the last one does not count");
        assert_eq!(stalled(&[0, 0, 0, 5]), 0, "if nothing is the rule, nothing is a stall");
    }

    #[test]
    fn compactions_and_cuts_are_those_of_the_step() {
        let record = |number, from, read_bytes| Compaction {
            number,
            from,
            to: 1,
            read_bytes,
            cut_end: Some(if read_bytes < 20 { CutEnd::EndOfTurn } else { CutEnd::InBounds }),
            micros: 1500,
        };
        let all = [record(0, 0, 70), record(1, 0, 30), record(2, 1, 99), record(3, 0, 10)];
        let of_step = |before| -> BTreeMap<String, Value> {
            compactions_of(&all, before).into_iter().collect()
        };
        let fields = of_step(Some(0));
        assert_eq!((&fields["cut_count"], &fields["compaction_count"]), (&2.into(), &3.into()));
        assert_eq!(fields["compaction_bytes_most"], 99.0);
        let ends = (&fields["cuts_end_of_turn"], &fields["cuts_in_bounds"]);
        assert_eq!(ends, (&1.into(), &1.into()));
        assert_eq!(fields["cut_in_bounds_bytes_least"], 30.0);
        assert_eq!(
            (&fields["cut_bytes_least"], &fields["cut_bytes_most"]),
            (&10.0.into(), &30.0.into())
        );
        assert_eq!(fields["cut_ms_median"], 1.5);
        assert_eq!(fields["compaction_ms_least"], 1.5);
        let none = |which: &str| (format!("{which}_count"), json!(0));
        let nothing = ["cut", "compaction"].map(none);
        assert_eq!(of_step(Some(3)), BTreeMap::from(nothing));
        assert_eq!(of_step(None)["cut_count"], 3);
    }
}
