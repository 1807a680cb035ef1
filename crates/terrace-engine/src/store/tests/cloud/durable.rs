//! Goal: what was acknowledged as durable outlives the machine, exactly and in its order, whatever
//! it was. Method: an owner with its log in the store, of which nothing but the store is left at
//! some moment, and another directory that goes on.

use std::time::Duration;

use super::mirror::{content, mirrored};
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
