//! Conditional writes: what they see, which keys they may touch, and what a refusal waits for.

use std::time::Duration;

use terrace_env::{Fault, FaultEffect, FaultPlan, JobClass, Operation};

use crate::Error;
use crate::options::Durability;
use crate::store::tests::*;
use crate::store::{GetOptions, Item, Update};

#[test]
fn a_conditional_write_sees_the_newest_value_and_nobody_comes_between() -> Result<()> {
    simulate(6, |env| {
        let store = open(env, &small())?;
        let add = |store: &Store| {
            store.update(&[b"n"], &WriteOptions::default(), |old| {
                let old = old[0].as_ref().map_or(0, |item: &Item| item.value[0]);
                let mut batch = WriteBatch::new();
                batch.put(b"n", &[old + 1])?;
                Ok(Update::Write(batch))
            })
        };
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let store = store.clone();
                let job = Box::new(move || (0..25).for_each(|_| add(&store).expect("room enough")));
                env.spawn(JobClass::Client, &thread.to_string(), job)
            })
            .collect();
        for thread in threads {
            assert!(thread?.join());
        }
        let item = store.get(b"n", &GetOptions::default())?;
        assert_eq!(item.map(|item| item.value), Some(vec![100]));
        Ok(())
    })
}

#[test]
fn a_conditional_write_keeps_to_the_keys_that_it_names() -> Result<()> {
    simulate(7, |env| {
        let options = Options { drange_boundaries: vec![b"m".to_vec()], ..small() };
        let store = open(env, &options)?;
        let wrong = store.update(&[b"a"], &WriteOptions::default(), |_| {
            let mut batch = WriteBatch::new();
            batch.put(b"z", b"")?;
            Ok(Update::Write(batch))
        });
        assert!(matches!(wrong, Err(Error::Invalid(_))));
        store.update(&[b"z", b"a"], &WriteOptions::default(), |old| {
            assert_eq!(old, [None, None]);
            let mut batch = WriteBatch::new();
            batch.put(b"z", b"1")?;
            batch.put(b"a", b"2")?;
            Ok(Update::Write(batch))
        })?;
        assert_eq!(
            (get(&store, "a")?.as_deref(), get(&store, "z")?.as_deref()),
            (Some("2"), Some("1"))
        );
        Ok(())
    })
}

#[test]
fn a_refusal_waits_for_what_it_rests_on() -> Result<()> {
    with_faults(10, |_, faults, env| {
        let store = open(env, &Options { durability: Durability::Sync, ..small() })?;
        store.settle();
        let slow = FaultEffect::Delay(Duration::from_secs(1));
        faults.set_plan(FaultPlan::one(Fault::nth(Operation::Sync, 1, slow).on(".log")));
        let writer = {
            let store = store.clone();
            env.spawn(
                JobClass::Client,
                "writer",
                Box::new(move || {
                    put(&store, "n", "text").expect("room");
                }),
            )?
        };
        env.sleep(Duration::from_millis(100));
        assert_eq!(get(&store, "n")?, None, "not durable yet");
        let refused = store.update(&[b"n"], &WriteOptions::default(), |old| match &old[0] {
            Some(_) => Err(Error::invalid("not a number")),
            None => Ok(Update::Keep),
        });
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        assert_eq!(get(&store, "n")?.as_deref(), Some("text"), "the refusal rests on it");
        assert!(writer.join());
        Ok(())
    })
}
