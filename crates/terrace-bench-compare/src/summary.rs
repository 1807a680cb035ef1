//! Many sessions, and what they come to.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Map, Value, json};
use terrace_bench::{StoreError, plot};

use crate::RunArgs;
use crate::cells::{Cell, Figure, GROUPS, Group};
use crate::engines::Engine;

/// Every report of a run, by cell and engine, in the order of the rounds.
type Reports = BTreeMap<(&'static str, &'static str), Vec<Value>>;

/// Measures everything and writes `compare.json` and a chart for each cell and kind.
pub fn run(args: &RunArgs) -> Result<(), StoreError> {
    let engines = if args.all { Engine::ALL.to_vec() } else { args.engines.clone() };
    let groups = groups_of(args)?;
    let scratch = args.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = scratch.join(format!("terrace-compare-{}", std::process::id()));
    let started = Instant::now();
    let sessions = args.rounds as usize * groups.len() * engines.len();
    let mut done = 0;
    let mut reports = Reports::new();
    for round in 0..args.rounds {
        for (group, through) in &groups {
            for turn in 0..engines.len() {
                let engine = engines[(turn + round as usize) % engines.len()];
                let name = group.cells[0].name;
                eprintln!(
                    "[{done}/{sessions}, {} s] round {}, {name}…, {}",
                    started.elapsed().as_secs(),
                    round + 1,
                    engine.name()
                );
                let found = session(args, group, through, engine, args.seed + round, &scratch)?;
                for (cell, report) in found {
                    reports.entry((cell.name, engine.name())).or_default().push(report);
                }
                done += 1;
            }
        }
    }
    std::fs::create_dir_all(&args.out)?;
    let cells: Vec<&Cell> =
        groups.iter().flat_map(|(group, through)| cells_of(group, through)).collect();
    let table = table(args, &engines, &cells, &reports);
    let path = args.out.join("compare.json");
    std::fs::write(&path, format!("{:#}\n", table))?;
    for cell in &cells {
        draw(&args.out, cell, &engines, &reports)?;
    }
    print_table(&table, &engines);
    eprintln!("written to {} after {} s", args.out.display(), started.elapsed().as_secs());
    Ok(())
}

/// The groups that hold the cells asked for, each with the last of them.
fn groups_of(args: &RunArgs) -> Result<Vec<(&'static Group, &'static str)>, StoreError> {
    for name in &args.cells {
        crate::cells::find(name)
            .ok_or_else(|| format!("there is no cell '{name}'; see `cells`"))?;
    }
    let is_asked =
        |cell: &&Cell| args.cells.is_empty() || args.cells.iter().any(|n| n == cell.name);
    let through =
        |group: &'static Group| Some((group, group.cells.iter().rev().find(is_asked)?.name));
    Ok(GROUPS.iter().filter_map(through).collect())
}

fn cells_of(group: &'static Group, through: &str) -> &'static [Cell] {
    let end = group.cells.iter().position(|cell| cell.name == through);
    &group.cells[..=end.unwrap_or(group.cells.len() - 1)]
}

/// Runs one session in a process of its own, over an empty directory that is deleted afterwards.
fn session(
    args: &RunArgs,
    group: &'static Group,
    through: &str,
    engine: Engine,
    seed: u64,
    scratch: &Path,
) -> Result<Vec<(&'static Cell, Value)>, StoreError> {
    let data: PathBuf = scratch.join(engine.name());
    let mut child = Command::new(std::env::current_exe()?)
        .args(["session", "--engine", engine.name(), "--group", group.cells[0].name])
        .args(["--through", through, "--scale", &args.scale.to_string()])
        .args(["--seed", &seed.to_string(), "--data"])
        .arg(&data)
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("a session has an output")?;
    let mut found = Vec::new();
    for (line, cell) in BufReader::new(output).lines().zip(cells_of(group, through)) {
        let report: Value = serde_json::from_str(&line?)?;
        found.push((cell, report));
    }
    let status = child.wait()?;
    std::fs::remove_dir_all(scratch)?;
    if !status.success() {
        return Err(format!("a session of {} failed: {status}", engine.name()).into());
    }
    Ok(found)
}

/// The figure of a cell in a report.
fn figure(cell: &Cell, report: &Value) -> f64 {
    let field = match cell.figure {
        Figure::Throughput => "ops_per_s",
        Figure::P999 => "p99_9_us",
    };
    report[field].as_f64().unwrap_or(f64::NAN)
}

/// The middle one, or the mean of the two in the middle; not a number if there is none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

fn table(args: &RunArgs, engines: &[Engine], cells: &[&Cell], reports: &Reports) -> Value {
    let rows = cells.iter().map(|cell| row(cell, engines, reports)).collect::<Vec<_>>();
    let options: Map<String, Value> =
        engines.iter().map(|engine| (engine.name().into(), engine.options().into())).collect();
    json!({
        "commit": args.commit,
        "seed": args.seed,
        "rounds": args.rounds,
        "scale": args.scale,
        "machine": machine(),
        "versions": versions(),
        "options": options,
        "cells": rows,
    })
}

/// One cell: the medians, their spread, and ratios over tuned RocksDB, above 1 where Terrace is
/// better. The ratio is the median of the rounds' own ratios: neighbours in time are compared.
fn row(cell: &Cell, engines: &[Engine], reports: &Reports) -> Value {
    let figures = |engine: Engine| -> Vec<f64> {
        let found = reports.get(&(cell.name, engine.name()));
        found.into_iter().flatten().map(|report| figure(cell, report)).collect()
    };
    let mut fields = Map::new();
    fields.insert("cell".into(), cell.name.into());
    fields.insert("meaning".into(), cell.meaning.into());
    let unit = match cell.figure {
        Figure::Throughput => "ops_per_s",
        Figure::P999 => "p99_9_us",
    };
    fields.insert("unit".into(), unit.into());
    let mut details = Map::new();
    for engine in engines {
        let all = figures(*engine);
        fields.insert(engine.name().into(), json!(median(all.clone())));
        let of = |field: &str| {
            let found = reports.get(&(cell.name, engine.name()));
            median(
                found.into_iter().flatten().filter_map(|report| report[field].as_f64()).collect(),
            )
        };
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        details.insert(
            engine.name().into(),
            json!({
                "least": least,
                "most": most,
                "rounds": all,
                "cpu_us_per_op": of("cpu_us_per_op"),
                "p50_us": of("p50_us"),
                "p99_us": of("p99_us"),
                "p99_9_us": of("p99_9_us"),
                "max_us": of("max_us"),
                "write_amplification": of("write_amplification"),
                "memory_peak_bytes": of("memory_peak_bytes"),
                "memory_anonymous_peak_bytes": of("memory_anonymous_peak_bytes"),
                "memory_mapped_peak_bytes": of("memory_mapped_peak_bytes"),
                "device_bytes": of("device_bytes"),
                "put_bytes": of("put_bytes"),
                "disk_peak_bytes": of("disk_peak_bytes"),
                "disk_bytes": of("disk_bytes"),
                "disk_rest_bytes": of("disk_rest_bytes"),
            }),
        );
    }
    let ratio = |over: Engine| {
        let pairs = figures(Engine::Terrace).into_iter().zip(figures(over));
        median(
            pairs
                .map(|(own, other)| match cell.figure {
                    Figure::Throughput => own / other,
                    Figure::P999 => other / own,
                })
                .collect(),
        )
    };
    fields.insert("ratio".into(), json!(ratio(Engine::Rocksdb)));
    for engine in engines.iter().filter(|engine| **engine != Engine::Terrace) {
        fields.insert(format!("ratio_over_{}", engine.name()), json!(ratio(*engine)));
    }
    fields.insert("details".into(), Value::Object(details));
    Value::Object(fields)
}

/// Throughput over time and latency of the first round.
fn draw(out: &Path, cell: &Cell, engines: &[Engine], reports: &Reports) -> Result<(), StoreError> {
    let first =
        |engine: &Engine| Some((engine.name(), reports.get(&(cell.name, engine.name()))?.first()?));
    let found: Vec<_> = engines.iter().filter_map(first).collect();
    let numbers = |value: &Value| -> Vec<u64> {
        value.as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
    };
    let slots: Vec<_> = found
        .iter()
        .map(|(name, report)| ((*name).to_owned(), numbers(&report["throughput_ops_per_100ms"])))
        .collect();
    let slots: Vec<_> = slots.iter().map(|(name, slots)| (name.clone(), &slots[..])).collect();
    plot::throughput(&out.join(format!("{}-throughput.svg", cell.name)), cell.meaning, &slots)?;
    let curve = |value: &Value| -> Vec<(f64, f64)> {
        serde_json::from_value(value.clone()).unwrap_or_default()
    };
    let curves: Vec<_> = found
        .iter()
        .map(|(name, report)| ((*name).to_owned(), curve(&report["latency_curve"])))
        .collect();
    let curves: Vec<_> = curves.iter().map(|(name, curve)| (name.clone(), &curve[..])).collect();
    plot::latency(&out.join(format!("{}-latency.svg", cell.name)), cell.meaning, &curves)
}

fn print_table(table: &Value, engines: &[Engine]) {
    print!("{:<16}", "cell");
    engines.iter().for_each(|engine| print!(" {:>15}", engine.name()));
    println!(" {:>8}", "ratio");
    for row in table["cells"].as_array().into_iter().flatten() {
        print!("{:<16}", row["cell"].as_str().unwrap_or_default());
        for engine in engines {
            print!(" {:>15.0}", row[engine.name()].as_f64().unwrap_or(f64::NAN));
        }
        println!(" {:>8.2}", row["ratio"].as_f64().unwrap_or(f64::NAN));
    }
}

/// Cores, processor, memory and kernel.
pub fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    json!({
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "processor": field(&read("/proc/cpuinfo"), "model name"),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

/// The versions in this program's lock file.
pub fn versions() -> Value {
    let lock = include_str!("../Cargo.lock");
    let wanted = [
        "terrace",
        "rocksdb",
        "librocksdb-sys",
        "fjall",
        "heed",
        "lmdb-master-sys",
        "redb",
        "slatedb",
    ];
    let mut found = Map::new();
    for package in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(&format!("{name} = ")));
            line.map(|value| value.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version)) = (field("name"), field("version"))
            && wanted.contains(&name.as_str())
        {
            found.insert(name, version.into());
        }
    }
    Value::Object(found)
}
