//! Large writes beside small ones, and what a batch may become when it is divided over dranges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use terrace_env::{Fault, FaultEffect, FaultPlan, JobClass, Operation};

use crate::Error;
use crate::store::tests::*;

/// How many small writes each client makes, unless the large one is done before.
const SMALL_WRITES_MAX: u64 = 1_000;

/// Small writes that may go before the large one: those of three clients, ten in a millisecond
/// each, in the four rounds of a millisecond that come before precedence, and some at their edges.
const GO_BEFORE_MAX: u64 = 150;

/// Goal: a write that is larger than the allowance of the memtables gets its turn. Method: room in
/// the log takes a millisecond to make, and small writes come all the time: they use up the segment
/// that was made for the large one, and its room in the memtables.
#[test]
fn a_write_larger_than_the_memtables_gets_its_turn_beside_small_ones() -> Result<()> {
    let mut most = 0;
    for seed in 0..200 {
        let written = with_faults(seed, |_, faults, env| {
            let store = open(env, &small())?;
            let slow = FaultEffect::Delay(Duration::from_millis(1));
            faults.set_plan(FaultPlan::one(
                Fault::from_nth(Operation::Preallocate, 1, slow).on(".log"),
            ));
            let is_done = Arc::new(AtomicBool::new(false));
            let written = Arc::new(AtomicU64::new(0));
            let clients: Vec<_> = (0..3)
                .map(|client| {
                    let (store, is_done) = (store.clone(), Arc::clone(&is_done));
                    let written = Arc::clone(&written);
                    let (clock, value) = (Arc::clone(env), "v".repeat(1000));
                    let job = Box::new(move || {
                        for index in 0..SMALL_WRITES_MAX {
                            if is_done.load(Ordering::Relaxed) {
                                return;
                            }
                            put(&store, &format!("{client}/{index}"), &value).expect("room");
                            written.fetch_add(1, Ordering::Relaxed);
                            clock.sleep(Duration::from_micros(100));
                        }
                    });
                    env.spawn(JobClass::Client, &client.to_string(), job)
                })
                .collect::<std::result::Result<_, _>>()?;
            put(&store, "large", &"x".repeat(60 << 10))?;
            is_done.store(true, Ordering::Relaxed);
            assert!(clients.into_iter().all(terrace_env::JobHandle::join));
            assert_eq!(get(&store, "large")?.map(|value| value.len()), Some(60 << 10));
            Ok::<_, Error>(written.load(Ordering::Relaxed))
        })?;
        assert!(written <= GO_BEFORE_MAX, "seed {seed}: {written} small writes went before it");
        most = most.max(written);
    }
    println!("at most {most} small writes went before it");
    Ok(())
}

/// A deletion of an interval becomes one in each drange, between that drange's own bounds. With
/// long keys they would take more memory than there is, and more than a record of the log holds.
#[test]
fn deletions_of_intervals_that_grow_too_large_over_the_dranges_are_refused() -> Result<()> {
    simulate(1, |env| {
        let boundary = |number: u8| [&[b'm', number][..], &[b'k'; 60 << 10]].concat();
        let options = Options {
            drange_boundaries: (1..=200).map(boundary).collect(),
            memtable_bytes: 4 << 20,
            log_segment_bytes: 1 << 20,
            log_bytes_max: 64 << 20,
            ..lazy()
        };
        let store = open(env, &options)?;
        put(&store, "n", "before")?;
        let mut batch = WriteBatch::new();
        for _ in 0..50 {
            batch.delete_range(b"a", b"z")?;
        }
        let refused = store.write(&batch, &WriteOptions::default()).expect_err("1.2 GiB");
        assert!(matches!(refused, Error::Invalid(_)), "{refused}");
        assert!(refused.to_string().contains("fewer"), "it says what to do: {refused}");
        assert_eq!(get(&store, "n")?.as_deref(), Some("before"));
        delete_range(&store, "a", "z")?;
        assert_eq!(get(&store, "n")?, None);
        Ok(())
    })
}
