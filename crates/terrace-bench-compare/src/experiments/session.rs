//! One subject through one sequence of steps.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use terrace::{Db, DiskProfile, Options};
use terrace_bench::clock::Moment;
use terrace_bench::records::Records;
use terrace_bench::{BenchOptions, Observer, Phase, StaticTrees, StoreError, TerraceStore};

use super::{Experiment, Kind, Step, Subject, Tree, scaled};
use crate::ExperimentSessionArgs;
use crate::cells::Setup;
use crate::engines::{MEMTABLES, Peer, rocksdb};

/// The field of a report with the bytes of tables for each byte that was put.
pub const TABLE_AMPLIFICATION: &str = "table_amplification";

/// Ends a workload after its time; loading what it needs does not count.
struct Deadline {
    after: Option<Duration>,
    began: OnceLock<Moment>,
}

impl Observer for Deadline {
    fn progress(&self, phase: Phase, _done: u64, _total: u64) {
        if phase == Phase::Workload {
            self.began.get_or_init(Moment::now);
        }
    }

    fn should_stop(&self) -> bool {
        let lasted = self.began.get().map(|began| Moment::now().since(*began));
        lasted.zip(self.after).is_some_and(|(lasted, after)| lasted >= after)
    }
}

/// Runs the session and prints a line of JSON for each measured step: the report of `terrace bench`,
/// with the bytes of tables.
pub fn run(args: &ExperimentSessionArgs) -> Result<(), StoreError> {
    let experiment = super::find(&args.experiment).ok_or("there is no such experiment")?;
    let subject = experiment.subjects.get(args.subject).ok_or("there is no such subject")?;
    let steps = experiment.sequences.get(args.sequence).ok_or("there is no such sequence")?;
    std::fs::create_dir_all(&args.data)?;
    let store = open(experiment, subject, args)?;
    for step in *steps {
        if step.settled {
            store.settle()?;
        }
        let deadline =
            Deadline { after: step.seconds_max.map(Duration::from_secs), began: OnceLock::new() };
        let before = store.table_bytes();
        let options = options_of(experiment, step, args);
        let report = terrace_bench::run(&*store, &options, &deadline)?;
        if !step.measured {
            continue;
        }
        let mut fields: BTreeMap<String, Value> = serde_json::from_value(json!(report))?;
        let tables = store.table_bytes().zip(before).map(|(after, before)| after - before);
        let put = fields.get("user_bytes").and_then(Value::as_f64).filter(|bytes| *bytes > 0.0);
        let each = tables.zip(put).map(|(tables, put)| tables as f64 / put);
        fields.insert("table_bytes".into(), json!(tables));
        fields.insert(TABLE_AMPLIFICATION.into(), json!(each));
        fields.extend(store.facts().into_iter().map(|(name, fact)| (name.to_owned(), fact)));
        println!("{}", json!(fields));
    }
    Ok(())
}

fn options_of(experiment: &Experiment, step: &Step, args: &ExperimentSessionArgs) -> BenchOptions {
    BenchOptions {
        workload: step.workload.to_owned(),
        records: experiment.records(args.scale),
        operations: scaled(step.operations, args.scale),
        key_bytes: experiment.data.key_bytes,
        value_bytes: experiment.data.value_bytes,
        distribution: Some(step.distribution),
        scan_count: step.scan_count,
        rate: step.rate,
        seed: args.seed,
        ..BenchOptions::default()
    }
}

fn open(
    experiment: &Experiment,
    subject: &Subject,
    args: &ExperimentSessionArgs,
) -> Result<Box<dyn Peer>, StoreError> {
    let setup = Setup {
        cache_bytes: experiment.cache_bytes(args.scale),
        memtable_bytes: experiment.memtable_bytes(subject, args.scale),
        sync: false,
    };
    let disk = args.disk_profile.clone();
    match subject.kind {
        Kind::Rocksdb => {
            let rate = disk.and_then(|disk| disk.write_bytes_per_s);
            Ok(Box::new(rocksdb::RocksDb::open_limited(&args.data, &setup, rate)?))
        }
        Kind::Terrace(tree) => {
            let records = Records::new(experiment.records(args.scale), experiment.data.key_bytes);
            open_terrace(&args.data, &terrace_options(&tree, &setup)?, &tree, &records, disk)
        }
    }
}

/// The library's options for a tree, or for all static trees together.
pub fn terrace_options(tree: &Tree, setup: &Setup) -> Result<Options, StoreError> {
    /// The least that a database takes.
    const MEMTABLE_BYTES_MIN: u64 = 16 << 10;
    // What is kept and what is active make all of it.
    let parts = MEMTABLES.max(tree.memtables_kept as u64 + 1);
    Ok(Options {
        cache_bytes: usize::try_from(setup.cache_bytes)?,
        memtable_bytes: usize::try_from((setup.memtable_bytes / parts).max(MEMTABLE_BYTES_MIN))?,
        dranges: tree.dranges,
        memtable_merging: tree.memtable_merging,
        flush_all_versions: tree.flush_all_versions,
        // A slot takes 8 bytes, a record of a memtable a hundred times as much.
        lookup_index_bytes: if tree.lookup_index { setup.memtable_bytes / 16 } else { 0 },
        range_index: tree.range_index,
        memtables_kept: tree.memtables_kept,
        ..Options::default()
    })
}

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
        Some(profile) => Db::open_on_disk(dir, options, profile)?,
        None => Db::open(dir, options.clone())?,
    };
    Ok(Box::new(TerraceStore::new(db)))
}
