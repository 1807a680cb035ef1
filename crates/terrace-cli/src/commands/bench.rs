#![allow(clippy::disallowed_types, reason = "a progress bar is not part of any simulation")]

use std::path::Path;
use std::sync::OnceLock;

use terrace::{Db, DrangesReport};
use terrace_bench::records::Records;
use terrace_bench::{
    BenchError, BenchOptions, Observer, Phase, Report, StaticTrees, Store, TerraceStore, plot, run,
};

use crate::args::BenchArgs;
use crate::data::{Access, open};
use crate::failure::{Failure, Outcome};
use crate::files;
use crate::signals::StopFlag;
use crate::terminal::{Output, Progress};

/// Shows how far a run is, and ends it on Ctrl-C.
struct Watcher {
    load: OnceLock<Progress>,
    workload: OnceLock<Progress>,
    stop: StopFlag,
}

impl Watcher {
    fn finish(&self) {
        for progress in [&self.load, &self.workload].into_iter().filter_map(OnceLock::get) {
            progress.finish();
        }
    }
}

impl Observer for Watcher {
    fn progress(&self, phase: Phase, done: u64, total: u64) {
        let (progress, things) = match phase {
            Phase::Load => (&self.load, "records loaded"),
            Phase::Workload => (&self.workload, "operations"),
        };
        if progress.get().is_none() {
            self.finish();
        }
        progress.get_or_init(|| Progress::of_operations(total)).set(done, done, things);
    }

    fn should_stop(&self) -> bool {
        self.stop.is_set()
    }
}

/// What is measured.
enum Measured {
    One(TerraceStore),
    Trees(StaticTrees),
}

impl Measured {
    fn open(args: &BenchArgs, data: &Path) -> Outcome<Measured> {
        let options = args.store_options()?;
        if let Some(count) = args.static_trees {
            let records = Records::new(args.records, args.key_bytes);
            let disk = args.disk_profile.clone();
            let trees = StaticTrees::open(data, &options, disk, &records, count)?;
            return Ok(Measured::Trees(trees));
        }
        let db = match &args.disk_profile {
            Some(profile) => options.open_on_disk(data, profile.clone())?,
            None => open(data, Access::Create, options)?,
        };
        Ok(Measured::One(TerraceStore::new(db)))
    }

    fn store(&self) -> &dyn Store {
        match self {
            Measured::One(store) => store,
            Measured::Trees(trees) => trees,
        }
    }

    /// How its writes were spread, if they were spread by dranges alone.
    fn dranges(&self) -> Option<DrangesReport> {
        match self {
            Measured::One(store) => Some(store.db().admin().dranges()),
            Measured::Trees(_) => None,
        }
    }

    fn close(&self) -> terrace::Result<()> {
        match self {
            Measured::One(store) => store.db().close(),
            Measured::Trees(trees) => trees.dbs().try_for_each(Db::close),
        }
    }
}

pub(super) fn bench(args: &BenchArgs, data: &Path) -> Outcome {
    let options = BenchOptions {
        workload: args.name.clone(),
        records: args.records,
        operations: args.operations,
        threads: args.threads,
        key_bytes: args.key_bytes,
        value_bytes: args.value_bytes,
        value_mix: args.value_mix,
        distribution: args.distribution,
        scan_count: args.scan_count,
        missing_share: args.missing_share,
        dense_keys: args.dense_keys,
        rate: args.rate,
        seed: args.seed,
    };
    options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
    let measured = Measured::open(args, data)?;
    let watcher =
        Watcher { load: OnceLock::new(), workload: OnceLock::new(), stop: StopFlag::on_signals()? };
    let outcome = run(measured.store(), &options, &watcher);
    watcher.finish();
    let dranges = measured.dranges();
    let closed = measured.close();
    let report = outcome.map_err(|error| match error {
        BenchError::Options(error) => Failure::Usage(error.to_string()),
        other => Failure::Failed(other.to_string()),
    })?;
    closed?;
    let mut output = Output::new();
    output.line(&report)?;
    output.line(format_args!("  durability {}", args.store.durability))?;
    if let Some(dranges) = &dranges {
        output.line(format_args!(
            "  dranges {}, {} major and {} minor reorganisations, imbalance {:.2e}",
            dranges.dranges.len(),
            dranges.major_reorganisations,
            dranges.minor_reorganisations,
            dranges.imbalance
        ))?;
    }
    if let Some(count) = args.static_trees {
        output.line(format_args!("  static trees {count}"))?;
    }
    if let Some(profile) = &args.disk_profile {
        output.line(format_args!("  disk {profile}"))?;
    }
    output.finish()?;
    if let Some(path) = &args.json {
        write_json(&report, dranges.as_ref(), args, path)?;
    }
    if let Some(path) = &args.plot {
        let name = match &args.disk_profile {
            Some(profile) => format!("{} on {profile}", args.name),
            None => args.name.clone(),
        };
        draw(&report, &name, path)?;
    }
    if watcher.stop.is_set() {
        return Err(Failure::Interrupted("the run was cut short".to_owned()));
    }
    Ok(())
}

/// Throughput over time into `path`, latencies into a file beside it.
fn draw(report: &Report, name: &str, path: &Path) -> Outcome {
    let failed =
        |path: &Path, error| Failure::Failed(format!("drawing {}: {error}", path.display()));
    let slots = [("terrace".to_owned(), report.throughput_per_100ms())];
    plot::throughput(path, name, &slots).map_err(|error| failed(path, error))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!("{stem}-latency.svg"));
    let curve = [("terrace".to_owned(), report.latency_curve())];
    plot::latency(&beside, name, &curve).map_err(|error| failed(&beside, error))
}

/// The report's fields and the store's options, as one flat object.
fn write_json(
    report: &Report,
    dranges: Option<&DrangesReport>,
    args: &BenchArgs,
    path: &Path,
) -> Outcome {
    let failed = |error: serde_json::Error| Failure::Failed(error.to_string());
    let mut json = serde_json::to_value(report).map_err(failed)?;
    if let Some(fields) = json.as_object_mut() {
        let options = args.store_options()?;
        fields.insert("durability".into(), options.durability.to_string().into());
        if let Some(profile) = &args.disk_profile {
            fields.insert("disk".into(), profile.to_string().into());
        }
        fields.insert("compression".into(), options.compression.to_string().into());
        fields.insert("cache_bytes".into(), options.cache_bytes.into());
        fields.insert("memtable_bytes".into(), options.memtable_bytes.into());
        if let Some(dranges) = dranges {
            fields.insert("dranges".into(), dranges.dranges.len().into());
            fields.insert("imbalance".into(), dranges.imbalance.into());
            fields.insert("minor_reorganisations".into(), dranges.minor_reorganisations.into());
            fields.insert("major_reorganisations".into(), dranges.major_reorganisations.into());
        }
        if let Some(count) = args.static_trees {
            fields.insert("static_trees".into(), count.into());
        }
        let baselines: Vec<_> = args.baseline.iter().map(|baseline| baseline.name).collect();
        fields.insert("baselines".into(), baselines.into());
        fields.insert("memtable_merging".into(), options.layout.memtable_merging.into());
        fields.insert("lookup_index_bytes".into(), options.layout.lookup_index_bytes.into());
        fields.insert("memtables_kept".into(), options.layout.memtables_kept.into());
        fields.insert("l0".into(), serde_json::to_value(&options.layout.l0).map_err(failed)?);
        fields.insert("log_is_in_memory".into(), options.layout.log_path.is_some().into());
        fields.insert("level_bytes_base".into(), options.layout.level_bytes_base.into());
    }
    let mut text = serde_json::to_string(&json).map_err(failed)?;
    text.push('\n');
    files::write(path, text.as_bytes())
}
