//! One engine through one group of cells.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use terrace_bench::{BenchOptions, Silent, StoreError};

use crate::SessionArgs;
use crate::cells::{self, Cell, Group};
use crate::footprint;

/// How long an engine is left alone before it is at rest: it may give things back only after a
/// while.
const REST: Duration = Duration::from_secs(12);

/// Runs the session and prints, for each cell, a line of JSON: the report of `terrace bench`, with
/// the cell's name, the latency curve, and what the engine took of the machine.
pub fn run(args: &SessionArgs) -> Result<(), StoreError> {
    let (group, _) = cells::find(&args.group).ok_or("there is no such group")?;
    if group.setup.transactions && !args.engine.has_transactions() {
        return Ok(());
    }
    std::fs::create_dir_all(&args.data)?;
    let store = args.engine.open(&args.data, &group.setup)?;
    for cell in group.cells {
        if cell.settled {
            store.settle()?;
        }
        let options = options_of(group, cell, args.scale, args.seed);
        let run = || terrace_bench::run(&*store, &options, &Silent);
        let (report, footprint) = footprint::watch(&args.data, run);
        let report = report?;
        let mut fields: BTreeMap<String, Value> = serde_json::from_value(json!(report))?;
        fields.insert("cell".into(), cell.name.into());
        fields.insert("latency_curve".into(), json!(report.latency_curve()));
        fields.extend(footprint.fields().map(|(name, value)| (name.into(), value)));
        let record_bytes = (group.key_bytes + group.value_bytes) as u64;
        fields.insert("put_bytes".into(), (report.operations * record_bytes).into());
        fields.insert("disk_bytes".into(), footprint::bytes_below(&args.data)?.into());
        if cell.rests {
            store.settle()?;
            std::thread::sleep(REST);
            fields.insert("disk_rest_bytes".into(), footprint::bytes_below(&args.data)?.into());
        }
        println!("{}", json!(fields));
        if args.through.as_deref() == Some(cell.name) {
            break;
        }
    }
    Ok(())
}

fn options_of(group: &Group, cell: &Cell, scale: f64, seed: u64) -> BenchOptions {
    let scaled = |count: u64| ((count as f64 * scale) as u64).max(1000);
    BenchOptions {
        workload: cell.workload.to_owned(),
        records: scaled(group.records),
        operations: scaled(cell.operations),
        threads: cell.threads,
        key_bytes: group.key_bytes,
        value_bytes: group.value_bytes,
        distribution: cell.distribution,
        rate: cell.rate,
        seed,
        ..BenchOptions::default()
    }
}
