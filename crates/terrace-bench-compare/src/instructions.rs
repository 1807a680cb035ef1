//! Instructions for each operation, counted by Valgrind's callgrind: no clock, so no noise.
//!
//! An operation is counted as the difference between two runs that do it a different number of
//! times, divided by the difference; what the loop costs without a store is taken off. One thread
//! operates; what an engine does in the background in the meantime counts as its own.

use std::path::Path;
use std::process::Command;

use clap::ValueEnum as _;
use serde_json::{Value, json};
use terrace_bench::StoreError;
use terrace_bench::random::Random;
use terrace_bench::records::{Records, Values};

use crate::cells::Setup;
use crate::engines::Engine;
use crate::{InstructionsArgs, WorkArgs};

/// An operation that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Counted {
    /// The loop alone.
    Nothing,
    /// A put of a new key into memtables that have room.
    Put,
    /// A get of a key that is in a memtable.
    GetMemtable,
    /// A get of a key whose block is in the cache, the tree at rest.
    Get,
    /// A scan of 50 records, the tree at rest and in the cache.
    Scan,
    /// A scan of 50 records in a memtable.
    ScanMemtable,
}

impl Counted {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn is_at_rest(self) -> bool {
        matches!(self, Counted::Get | Counted::Scan)
    }

    /// How often it is done, in the shorter and in the longer run.
    fn counts(self) -> [u64; 2] {
        match self {
            Counted::Scan | Counted::ScanMemtable => [500, 2500],
            _ => [5_000, 25_000],
        }
    }
}

/// Records of 16 + 256 bytes that are there before the counted operations.
const RECORDS: u64 = 30_000;
const SCAN_RECORDS: u64 = 50;
const SETUP: Setup =
    Setup { cache_bytes: 512 << 20, memtable_bytes: 256 << 20, sync: false, transactions: false };

/// Does one operation a number of times; this is what runs under Valgrind.
pub fn work(args: &WorkArgs) -> Result<(), StoreError> {
    std::fs::create_dir_all(&args.data)?;
    let store = args.engine.open(&args.data, &SETUP)?;
    let count = RECORDS + args.count;
    let records = Records::new(count, 16);
    let values = Values::new(1, 256);
    let mut random = Random::new(1, 0);
    let mut key = Vec::new();
    for record in 0..RECORDS {
        records.write_key(records.slot_in_order(record * count / RECORDS), &mut key);
        store.put(&key, values.next(&mut random))?;
    }
    if args.kind.is_at_rest() {
        store.settle()?;
    }
    let mut found = 0;
    for done in 0..args.count {
        let drawn = match args.kind {
            // Between those that are there.
            Counted::Put => (random.below(RECORDS) * count / RECORDS + done % 2).min(count - 1),
            _ => random.below(RECORDS) * count / RECORDS,
        };
        records.write_key(records.slot_in_order(drawn), &mut key);
        let value = values.next(&mut random);
        match args.kind {
            Counted::Nothing => found += u64::from(std::hint::black_box(value).is_empty()),
            Counted::Put => store.put(&key, value)?,
            Counted::Get | Counted::GetMemtable => found += u64::from(store.get(&key)?.is_some()),
            Counted::Scan | Counted::ScanMemtable => found += store.scan(&key, SCAN_RECORDS)?,
        }
    }
    std::hint::black_box(found);
    Ok(())
}

/// Counts everything and writes `instructions.json`.
pub fn run(args: &InstructionsArgs) -> Result<(), StoreError> {
    let mut rows = Vec::new();
    for kind in Counted::value_variants().iter().filter(|kind| **kind != Counted::Nothing) {
        let mut row = json!({ "operation": kind.name() });
        for engine in &args.engines {
            let each = per_operation(*engine, *kind)? - per_operation(*engine, Counted::Nothing)?;
            eprintln!("{:<15} {:<8} {each:>9.0}", kind.name(), engine.name());
            row[engine.name()] = each.round().into();
        }
        rows.push(row);
    }
    let options = |engine: &Engine| (engine.name().to_owned(), Value::from(engine.options()));
    let table = json!({
        "commit": args.commit,
        "records": RECORDS,
        "record": "16 + 256 bytes",
        "options": args.engines.iter().map(options).collect::<serde_json::Map<_, _>>(),
        "instructions_per_operation": rows,
    });
    std::fs::create_dir_all(&args.out)?;
    std::fs::write(args.out.join("instructions.json"), format!("{table:#}\n"))?;
    Ok(())
}

fn per_operation(engine: Engine, kind: Counted) -> Result<f64, StoreError> {
    let [few, many] = kind.counts();
    let more = counted(engine, kind, many)?.saturating_sub(counted(engine, kind, few)?);
    Ok(more as f64 / (many - few) as f64)
}

/// The instructions of a process that does an operation a number of times.
fn counted(engine: Engine, kind: Counted, count: u64) -> Result<u64, StoreError> {
    let scratch = std::env::temp_dir().join(format!("terrace-count-{}", std::process::id()));
    let outcome = callgrind(&scratch, engine, kind, count);
    std::fs::remove_dir_all(&scratch)?;
    outcome
}

fn callgrind(scratch: &Path, engine: Engine, kind: Counted, count: u64) -> Result<u64, StoreError> {
    std::fs::create_dir_all(scratch)?;
    let profile = scratch.join("profile");
    let status = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(std::env::current_exe()?)
        .args(["work", "--engine", engine.name(), "--kind", &kind.name()])
        .args(["--count", &count.to_string(), "--data"])
        .arg(scratch.join("data"))
        .status()?;
    if !status.success() {
        return Err(format!("{} under Valgrind: {status}", engine.name()).into());
    }
    let text = std::fs::read_to_string(&profile)?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: "));
    Ok(totals.ok_or("a profile without totals")?.trim().parse()?)
}
