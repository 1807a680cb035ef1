use std::sync::OnceLock;

use terrace_bench::{BenchError, BenchOptions, Observer, Phase, TerraceStore, run};

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

pub(super) fn bench(args: BenchArgs) -> Outcome {
    let options = BenchOptions {
        workload: args.name.clone(),
        records: args.records,
        operations: args.operations,
        threads: args.threads,
        key_bytes: args.key_bytes,
        value_bytes: args.value_bytes,
        distribution: args.distribution,
        seed: args.seed,
    };
    options.validate().map_err(|error| Failure::Usage(error.to_string()))?;
    let db = open(&args.data, Access::Create, args.store.options()?)?;
    let signals = StopFlag::on_signals();
    let watcher = Watcher {
        load: OnceLock::new(),
        workload: OnceLock::new(),
        stop: signals.map_err(|error| Failure::Failed(error.to_string()))?,
    };
    let outcome = run(&TerraceStore::new(db.clone()), &options, &watcher);
    watcher.finish();
    let closed = db.close();
    let report = outcome.map_err(|error| match error {
        BenchError::Options(error) => Failure::Usage(error.to_string()),
        other => Failure::Failed(other.to_string()),
    })?;
    closed?;
    let mut output = Output::new();
    output.line(&report)?;
    output.line(format_args!("  durability {}", args.store.durability))?;
    output.finish()?;
    if let Some(path) = &args.json {
        write_json(&report, &args, path)?;
    }
    if watcher.stop.is_set() {
        return Err(Failure::Interrupted("the run was cut short".to_owned()));
    }
    Ok(())
}

/// The report's fields and the store's options, as one flat object.
fn write_json(report: &terrace_bench::Report, args: &BenchArgs, path: &std::path::Path) -> Outcome {
    let failed = |error: serde_json::Error| Failure::Failed(error.to_string());
    let mut json = serde_json::to_value(report).map_err(failed)?;
    if let Some(fields) = json.as_object_mut() {
        let options = args.store.options()?;
        fields.insert("durability".into(), options.durability.to_string().into());
        fields.insert("compression".into(), options.compression.to_string().into());
        fields.insert("cache_bytes".into(), options.cache_bytes.into());
        fields.insert("memtable_bytes".into(), options.memtable_bytes.into());
    }
    let mut text = serde_json::to_string(&json).map_err(failed)?;
    text.push('\n');
    files::write(path, text.as_bytes())
}
