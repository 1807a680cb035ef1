//! Goal: background work keeps to its limit, and nobody waits for it longer than without one.
//! Method: virtual time, in which work takes none: what passes is what was waited for the limit.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::KeyRange;
use terrace_env::{JobClass, SharedEnv};

use crate::Result;
use crate::options::{Options, ProcessOptions};
use crate::process::Process;
use crate::store::tests::*;
use crate::store::{Store, StoreStats};

/// The least that may be asked for.
const RATE: u64 = 64 << 10;

fn limited(env: &SharedEnv) -> Result<Arc<Process>> {
    let options = ProcessOptions {
        cache_bytes: 64 << 10,
        background_io_limit: Some(RATE),
        ..ProcessOptions::default()
    };
    Process::start(Arc::clone(env), &options)
}

/// As `small`, with so much room that writers are never held up.
fn roomy() -> Options {
    Options {
        frozen_memtables_max: 1000,
        l0_rows_slow: 1000,
        l0_rows_stop: 1001,
        log_bytes_max: 64 << 20,
        level_bytes_base: 64 << 20,
        ..small()
    }
}

/// `count` keys in a scattered order, of 500 bytes each.
fn fill(store: &Store, count: u64) -> Result<()> {
    for index in 0..count {
        put(store, &format!("{:05}", index * 7919 % count), &"v".repeat(500))?;
    }
    Ok(())
}

fn waited(stats: &StoreStats) -> Duration {
    let io = stats.background_io;
    Duration::from_micros(io.flush_wait_us + io.compaction_wait_us)
}

#[test]
fn flushes_and_compactions_keep_to_the_limit_of_their_process() -> Result<()> {
    simulate(1, |env| {
        let process = limited(env)?;
        let stores = ["/a", "/b"].map(|dir| Store::open(&process, Path::new(dir), roomy()));
        let [a, b] = stores;
        let (a, b) = (a?, b?);
        let began = env.now();
        fill(&a, 2000)?;
        fill(&b, 2000)?;
        assert_eq!(env.now(), began, "no write waits for the limit");
        a.settle();
        b.settle();
        let seconds = (env.now() - began).as_secs_f64();
        let written: u64 = [&a, &b]
            .map(|store| store.stats())
            .iter()
            .map(|stats| stats.flush_bytes + stats.compaction_write_bytes)
            .sum();
        // The last piece is paid by nobody.
        let least = written.saturating_sub(1 << 20) as f64 / RATE as f64;
        assert!(written > 4 << 20, "{written}");
        assert!(seconds >= least && seconds <= least + 20.0, "{seconds} s for {written} bytes");
        assert!(waited(&a.stats()) > Duration::ZERO && waited(&b.stats()) > Duration::ZERO);
        assert!(a.stats().to_string().contains("background I/O limit 64.0 KiB a second"));
        a.close()?;
        b.close()
    })
}

#[test]
fn what_holds_writers_up_obeys_no_limit() -> Result<()> {
    simulate(2, |env| {
        let store = Store::open(&limited(env)?, Path::new(DIR), small())?;
        let began = env.now();
        fill(&store, 4000)?;
        let (took, stats) = (env.now() - began, store.stats());
        println!("{took:?}\n{stats}");
        let at_the_limit = Duration::from_secs(stats.write_bytes / RATE);
        assert!(took < at_the_limit / 4, "{took:?}, not {at_the_limit:?}");
        store.close()
    })
}

/// One piece was written, and hours of debt would follow.
#[test]
fn a_caller_and_a_close_wait_for_no_limit() -> Result<()> {
    simulate(3, |env| {
        let process = limited(env)?;
        let store = Store::open(&process, Path::new(DIR), roomy())?;
        let in_the_way = |rounds: u64| -> Result<()> {
            fill(&store, 200 * rounds)?;
            // A background flush waits for the limit, with the turn.
            store.inner.freeze_all()?;
            store.inner.schedule_flush();
            env.sleep(Duration::from_millis(1));
            Ok(())
        };
        let took = |act: &dyn Fn() -> Result<()>| -> Result<Duration> {
            in_the_way(3)?;
            let began = env.now();
            act()?;
            Ok(env.now() - began)
        };
        assert_eq!(took(&|| store.flush())?, Duration::ZERO);
        let copy = Path::new("/copy");
        let checkpoint = || store.checkpoint(copy, &mut |_, _| true).map(|_| ());
        assert_eq!(took(&checkpoint)?, Duration::ZERO);
        let ingest = || {
            let mut ingest = store.begin_ingest()?;
            ingest.add(b"00001", b"new", None)?;
            ingest.finish().map(|_| ())
        };
        assert_eq!(took(&ingest)?, Duration::ZERO);
        let compaction = store.clone();
        let compact = Box::new(move || {
            // It is ended by the close, unless it was over before.
            let _ = compaction.compact(&KeyRange::all());
        });
        let compaction = env.spawn(JobClass::Client, "compact", compact)?;
        env.sleep(Duration::from_millis(1));
        assert_eq!(took(&|| store.close())?, Duration::ZERO);
        assert!(compaction.join());
        Ok(())
    })
}
