//! One engine through one group of cells.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::{Value, json};
use terrace_bench::{BenchOptions, Silent, StoreError};

use crate::SessionArgs;
use crate::cells::{self, Cell, Group};

/// Runs the session and prints, for each cell, a line of JSON: the report of `terrace bench`, with
/// the cell's name, the latency curve, and the bytes on disk afterwards.
pub fn run(args: &SessionArgs) -> Result<(), StoreError> {
    let (group, _) = cells::find(&args.group).ok_or("there is no such group")?;
    std::fs::create_dir_all(&args.data)?;
    let store = args.engine.open(&args.data, &group.setup)?;
    for cell in group.cells {
        if cell.settled {
            store.settle()?;
        }
        let options = options_of(group, cell, args.scale, args.seed);
        let report = terrace_bench::run(&*store, &options, &Silent)?;
        let mut fields: BTreeMap<String, Value> = serde_json::from_value(json!(report))?;
        fields.insert("cell".into(), cell.name.into());
        fields.insert("latency_curve".into(), json!(report.latency_curve()));
        fields.insert("disk_bytes".into(), bytes_below(&args.data)?.into());
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

fn bytes_below(dir: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        // Files may be deleted while they are counted.
        let Ok(metadata) = entry.metadata() else { continue };
        // Blocks and not lengths: files have holes.
        let own = metadata.blocks() * 512;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { own };
    }
    Ok(bytes)
}
