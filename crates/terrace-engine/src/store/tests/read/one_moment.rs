//! Goal: a read sees one moment, whatever runs beside it. Method: readers beside jobs under many
//! schedules, in which a thread may lose its turn between any two steps of a read.

use std::sync::Arc;
use std::time::Duration;

use terrace_env::{JobClass, SharedEnv, SimEnv, SimOptions};

use crate::options::{FormatOptions, Options};
use crate::store::tests::{get, merge, open, put, small};
use crate::store::{GetOptions, Store};
use crate::{Error, Result};

/// Schedules of a test.
const SEEDS: u64 = 60;

/// Runs `test` in a simulation in which threads lose their turns between any two steps of a read.
fn simulate_closely<T: Send>(seed: u64, test: impl FnOnce(&SharedEnv) -> T + Send) -> T {
    let options = SimOptions { switch_at_latches: true, ..SimOptions::new(seed) };
    SimEnv::run(options, |env| {
        let env: SharedEnv = env;
        test(&env)
    })
}

fn ingest_one(store: &Store, key: &str, value: &str) -> Result<()> {
    let mut ingest = store.begin_ingest()?;
    ingest.add(key.as_bytes(), value.as_bytes(), None)?;
    ingest.finish().map(|_| ())
}

/// Runs `write` for each of the rounds beside `read`, which is repeated until the writer has ended.
fn beside<W, R>(env: &SharedEnv, store: &Store, rounds: u64, write: W, read: R) -> Result<()>
where
    W: Fn(&Store, u64) -> Result<()> + Send + 'static,
    R: Fn(&Store) -> Result<()>,
{
    let written = Arc::new(terrace_env::Latch::new(None));
    let (own, outcome) = (store.clone(), Arc::clone(&written));
    let job = Box::new(move || {
        let done = (1..=rounds).try_for_each(|round| write(&own, round));
        *outcome.lock() = Some(done);
    });
    let writer = env.spawn(JobClass::Client, "writer", job)?;
    for count in 1_u64.. {
        if written.lock().is_some() {
            break;
        }
        read(store)?;
        // Time stands still while somebody has something to do, and the writer may be held up for
        // some of it.
        if count.is_multiple_of(64) {
            env.sleep(Duration::from_millis(1));
        }
    }
    assert!(writer.join());
    let outcome = written.lock().take();
    outcome.unwrap_or(Err(Error::Closed))
}

fn number(text: Option<&[u8]>) -> i64 {
    let text = text.map(|text| std::str::from_utf8(text).expect("tests write text"));
    text.map_or(0, |text| text.parse().expect("tests write numbers"))
}

/// An ingest of `a` is followed by a put of `b`: who sees the put sees the ingest.
#[test]
fn a_multi_get_beside_an_ingest_sees_no_later_write_without_it() -> Result<()> {
    for seed in 0..SEEDS {
        simulate_closely(seed, |env| {
            let store = open(env, &Options { dranges: 1, ..small() })?;
            let write = |store: &Store, round: u64| {
                ingest_one(store, "a", &round.to_string())?;
                put(store, "b", &round.to_string())
            };
            beside(env, &store, 8, write, |store| {
                let found = store.multi_get(&[b"a", b"b"], &GetOptions::default())?;
                let [a, b] = [0, 1].map(|index| number(found[index].as_deref()));
                assert!(a >= b, "seed {seed}: a={a} b={b}");
                Ok(())
            })
        })?;
    }
    Ok(())
}

/// An ingest of a count is followed by a merge into it: no get adds the operand to an older count.
#[test]
fn a_get_beside_an_ingest_adds_no_operand_to_an_older_value() -> Result<()> {
    for seed in 0..SEEDS {
        simulate_closely(seed, |env| {
            let operator = Some("add-i64".to_string());
            let format = FormatOptions { merge_operator: operator };
            let options = Options { dranges: 1, format, ..small() };
            let store = open(env, &options)?;
            let write = |store: &Store, round: u64| {
                ingest_one(store, "count", &(round * 10).to_string())?;
                merge(store, "count", "1")
            };
            beside(env, &store, 8, write, |store| {
                let count = number(get(store, "count")?.as_deref().map(str::as_bytes));
                assert!(count % 10 < 2, "seed {seed}: {count} was never there");
                Ok(())
            })
        })?;
    }
    Ok(())
}
