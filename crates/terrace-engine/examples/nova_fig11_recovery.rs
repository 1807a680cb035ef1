//! How long a start takes that has to replay 256 memtables: 64 dranges with four generations, none
//! of which was flushed, in values of 1 KB; or those of a number of generations.
//!
//! *Source:* Nova-LSM (SIGMOD 2021), §8.2.6, Figure 11: b by threads, a by memtables.
//!
//! ```text
//! cargo run --release -p terrace-engine --example nova_fig11_recovery -- \
//!     DIR [THREADS [ROUNDS [GENERATIONS]]]
//! ```
//! Writes the range into `DIR`, unless there is one, and opens it, for reading only, by one thread
//! and by `THREADS` (default 2) in turns, `ROUNDS` times (default 5), with `GENERATIONS` of
//! memtables (default 4). The last line is JSON.

#![allow(clippy::disallowed_methods, reason = "the example measures a real machine")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace_engine::options::{Options, ProcessOptions};
use terrace_engine::process::Process;
use terrace_engine::store::{Store, WriteOptions};
use terrace_engine::{Error, Result, WriteBatch};
use terrace_env::{RealEnv, SeededRng, SharedEnv};

const DRANGES: u64 = 64;
const KEYS: u64 = 10_000_000;
const VALUE_BYTES: usize = 1024;
/// As many of a generation's bytes are values that it is full, or nearly so.
const FILLING_PERCENT: usize = 85;

fn key(number: u64) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

fn options(generations: usize) -> Options {
    let defaults = Options::default();
    Options {
        drange_boundaries: (1..DRANGES).map(|index| key(KEYS * index / DRANGES)).collect(),
        memtables_kept: generations,
        frozen_memtables_max: 2 * generations,
        log_segment_bytes: defaults.memtable_bytes as u64 / 4 * 5,
        log_bytes_max: 4 << 30,
        write_delay_max: Duration::ZERO,
        ..defaults
    }
}

fn process(env: &SharedEnv, recovery_threads: usize) -> Result<Arc<Process>> {
    let options =
        ProcessOptions { memory_bytes: 8 << 30, recovery_threads, ..ProcessOptions::default() };
    Process::start(Arc::clone(env), &options)
}

/// Fills the memtables, which are kept. A close leaves them to the log.
fn write(dir: &Path, generations: usize) -> Result<()> {
    let env: SharedEnv = RealEnv::new();
    let options = options(generations);
    let count = generations * options.memtable_bytes / 100 * FILLING_PERCENT / VALUE_BYTES;
    let store = Store::open(&process(&env, 1)?, dir, options)?;
    let mut random = SeededRng::new(1);
    let value: Vec<u8> = (0..VALUE_BYTES).map(|_| random.next_u64() as u8).collect();
    for _ in 0..count {
        let mut batch = WriteBatch::new();
        batch.put(&key(random.below(KEYS)), &value)?;
        store.write(&batch, &WriteOptions::default())?;
    }
    println!("{}", store.stats());
    store.close()
}

/// Opens the range by `threads` threads; how long that took, and the entries that were replayed.
fn measure(
    env: &SharedEnv,
    dir: &Path,
    threads: usize,
    options: Options,
) -> Result<(Duration, u64)> {
    let process = process(env, threads)?;
    let began = env.now();
    let store = Store::open(&process, dir, Options { read_only: true, ..options })?;
    Ok((env.now() - began, store.recovery().replayed_entries))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: usize| {
        arguments.get(index).map_or(Ok(default), |text| {
            text.parse().map_err(|_| Error::invalid(format!("{text} is no number")))
        })
    };
    let dir = arguments.first().ok_or_else(|| Error::invalid("say in which directory"))?;
    let dir = Path::new(dir);
    let (threads, rounds, generations) = (number(1, 2)?, number(2, 5)?, number(3, 4)?);
    if !dir.join("CURRENT").exists() {
        write(dir, generations)?;
    }
    let env: SharedEnv = RealEnv::new();
    let mut times = [Vec::new(), Vec::new()];
    let mut entries = 0;
    for _ in 0..rounds {
        for (times, threads) in times.iter_mut().zip([1, threads]) {
            let (time, found) = measure(&env, dir, threads, options(generations))?;
            println!("{threads} threads: {:.3} s, {found} entries", time.as_secs_f64());
            entries = found;
            times.push(time.as_secs_f64());
        }
    }
    let [one, several] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    });
    println!(
        "{{\"workload\":\"nova-fig11-recovery\",\"dranges\":{DRANGES},\"generations\":{generations},\
         \"value_bytes\":{VALUE_BYTES},\"entries\":{entries},\"threads\":{threads},\
         \"one_thread_s\":{one:.4},\"threads_s\":{several:.4},\"speedup\":{:.3}}}",
        one / several
    );
    Ok(())
}
