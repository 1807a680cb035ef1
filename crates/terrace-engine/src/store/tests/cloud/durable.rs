//! Goal: what was acknowledged as durable outlives the machine, exactly and in its order, whatever
//! it was. Method: an owner with its log in the store, of which nothing but the store is left at
//! some moment, and another directory that goes on.

use std::time::Duration;

use super::mirror::{content, mirrored};
use super::{copy, fill};
use crate::options::{CloudOptions, Durability};
use crate::store::WriteOptions;
use crate::store::tests::*;
use crate::{Error, WriteBatch};

const ELSEWHERE: &str = "/elsewhere";

/// Small options, with a mirror that is seldom and the log in the store.
pub(super) fn logged(options: Options) -> Options {
    let options = mirrored(options);
    let cloud = options.cloud.map(|cloud| CloudOptions {
        mirror: Some(Duration::from_secs(600)),
        log: Some(Duration::from_millis(10)),
        ..cloud
    });
    Options { cloud, ..options }
}

pub(super) fn taking_over(options: Options) -> Options {
    let cloud = options.cloud.map(|cloud| CloudOptions { take_over: true, ..cloud });
    Options { cloud, ..options }
}

fn open(env: &SharedEnv, dir: &str, options: Options) -> Result<Store> {
    Store::open(&process(env)?, Path::new(dir), options)
}

pub(super) fn durably() -> WriteOptions {
    WriteOptions { durability: Some(Durability::Durable), ..WriteOptions::default() }
}

pub(super) fn put_durably(store: &Store, key: &str, value: &str) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(key.as_bytes(), value.as_bytes())?;
    store.write(&batch, &durably())
}

#[test]
fn a_durable_write_outlives_the_machine() -> Result<()> {
    simulate(501, |env| {
        let owner = open(env, DIR, logged(small()))?;
        put(&owner, "buffered", "before")?;
        put_durably(&owner, "durable", "write")?;
        let all = content(&owner)?;
        let taker = open(env, ELSEWHERE, taking_over(logged(small())))?;
        assert_eq!(content(&taker)?, all);
        put_durably(&taker, "more", "of it")?;
        let refused = put_durably(&owner, "no", "more").unwrap_err();
        assert!(matches!(&refused, Error::Fenced(_) | Error::Unknown(_)), "{refused}");
        drop(owner);
        drop(taker);
        let third = open(env, "/third", taking_over(logged(small())))?;
        assert_eq!(get(&third, "more")?, Some("of it".to_string()));
        assert_eq!(get(&third, "no")?, None);
        Ok(())
    })
}

/// Goal: whoever comes back learns what of its log was left out. Here the log went to the store.
#[test]
fn a_fenced_directory_says_what_stands_in_its_log() -> Result<()> {
    simulate(521, |env| {
        let owner = open(env, DIR, logged(small()))?;
        put(&owner, "before", "it")?;
        put_durably(&owner, "durable", "write")?;
        let taker = open(env, ELSEWHERE, taking_over(logged(small())))?;
        put_durably(&taker, "by the", "taker")?;
        // Until the owner notices, it goes on acknowledging what need not outlive its machine.
        for key in ["a", "b", "c"] {
            put(&owner, key, "here alone")?;
        }
        owner.sync()?;
        drop(owner);
        let left_out = "3 entries in its log (numbers 3 to 5)";
        for _ in 0..2 {
            let refused = open(env, DIR, logged(small())).map(drop).unwrap_err();
            assert!(matches!(&refused, Error::Fenced(_)), "{refused}");
            assert!(refused.to_string().contains(left_out), "{refused}");
        }
        drop(taker);
        let back = open(env, DIR, taking_over(logged(small())))?;
        let taken = back.recovery().taken_over.clone().expect("it was behind");
        assert_eq!(taken.left_out.expect("it is known").to_string(), left_out);
        assert_eq!(get(&back, "by the")?, Some("taker".to_string()));
        Ok(())
    })
}

/// One that has nothing of its own says nothing, and one whose writes went into tables says that.
#[test]
fn a_fenced_directory_tells_its_log_from_its_tables() -> Result<()> {
    simulate(522, |env| {
        let owner = open(env, DIR, logged(small()))?;
        put_durably(&owner, "durable", "write")?;
        let taker = open(env, ELSEWHERE, taking_over(logged(small())))?;
        put(&taker, "by the", "taker")?;
        taker.close()?;
        copy(env, DIR, "/as it was")?;
        let refused = open(env, "/as it was", logged(small())).map(drop).unwrap_err();
        assert!(!refused.to_string().contains("did not get there"), "{refused}");

        fill(&owner, 0..2)?;
        owner.flush()?;
        put(&owner, "b", "in the log")?;
        owner.sync()?;
        owner.inner.poison("the machine is lost");
        drop(owner);
        let refused = open(env, DIR, logged(small())).map(drop).unwrap_err();
        let left_out = "in its log and others in its tables (numbers 2 to 802)";
        assert!(refused.to_string().contains(left_out), "{refused}");
        Ok(())
    })
}
