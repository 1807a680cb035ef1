//! Goal: whoever has only the store goes on with the database that it has, with all of a moment
//! and nothing else; a directory that was left behind keeps what only it had. Method: an owner
//! with a mirror, directories elsewhere, and what was written compared to what is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use terrace_base::KeyRange;
use terrace_env::{DirEntry, Fault, FaultEffect, FaultErrno, FaultPlan, JobClass};

use super::mirror::{content, mirrored, needed, pass};
use super::{copy, fill, in_store, value};
use crate::Error;
use crate::cache::persistent::CACHE_DIRECTORY;
use crate::options::{CloudOptions, ValueLogOptions};
use crate::store::Follower;
use crate::store::cloud::StoreMoment;
use crate::store::tests::*;

const ELSEWHERE: &str = "/elsewhere";

fn open(env: &SharedEnv, dir: &str, options: Options) -> Result<Store> {
    Store::open(&process(env)?, Path::new(dir), options)
}

/// Goes on though the owner has not closed the database.
fn by_force(options: Options) -> Options {
    let cloud = options.cloud.map(|cloud| CloudOptions { take_over: true, ..cloud });
    Options { cloud, ..options }
}

fn files(env: &SharedEnv, dir: &Path) -> Result<Vec<String>> {
    Ok(env.fs().list(dir)?.into_iter().map(|entry| entry.name).collect())
}

#[test]
fn an_empty_directory_goes_on_with_a_database_that_was_closed() -> Result<()> {
    simulate(401, |env| {
        let options = || mirrored(small());
        let owner = open(env, DIR, options())?;
        fill(&owner, 0..3)?;
        let before = content(&owner)?;
        let seqno = owner.snapshot().seqno();
        owner.close()?;

        let taker = open(env, ELSEWHERE, options())?;
        assert_eq!(taker.recovery().taken_over.as_ref().map(|taken| &taken.set_aside), Some(&None));
        assert!(content(&taker)? == before);
        assert!(taker.snapshot().seqno() >= seqno);
        fill(&taker, 3..5)?;
        taker.compact(&KeyRange::all())?;
        put(&taker, "more", "of it")?;
        let after = content(&taker)?;
        assert_eq!(get(&taker, "0007")?, Some(value(4)));
        taker.close()?;

        let taker = open(env, ELSEWHERE, options())?;
        assert_eq!(taker.recovery().taken_over, None);
        assert!(content(&taker)? == after);
        pass(env, &taker);
        assert!(needed(&taker).is_subset(&super::collect::stored(&taker)?));
        let refused = open(env, DIR, options()).unwrap_err();
        assert!(matches!(&refused, Error::Fenced(_)), "{refused}");
        Ok(())
    })
}

#[test]
fn what_is_not_synced_of_a_take_over_is_taken_over_again() -> Result<()> {
    simulate(402, |env| {
        let options = || mirrored(small());
        let owner = open(env, DIR, options())?;
        fill(&owner, 0..2)?;
        let all = content(&owner)?;
        owner.close()?;
        // One that does not come to its first moment.
        let taker = open(env, ELSEWHERE, options())?;
        put(&taker, "lost", "with its directory")?;
        let refused = open(env, "/third", options()).unwrap_err();
        assert!(matches!(&refused, Error::Invalid(_)), "{refused}");
        let third = open(env, "/third", by_force(options()))?;
        let mut there = content(&third)?;
        there.retain(|(key, _)| key != b"lost");
        assert!(there == all);
        let fenced = taker.flush().and_then(|()| {
            pass(env, &taker);
            put(&taker, "no", "more")?;
            taker.flush()
        });
        assert!(fenced.is_err());
        drop(taker);
        third.close()
    })
}

#[test]
fn a_database_that_is_open_is_taken_over_only_by_force() -> Result<()> {
    simulate(403, |env| {
        let options = || mirrored(small());
        let owner = open(env, DIR, options())?;
        fill(&owner, 0..2)?;
        pass(env, &owner);
        let at_moment = content(&owner)?;
        put(&owner, "only", "here")?;

        let refused = open(env, ELSEWHERE, options()).unwrap_err();
        let says_how = |text: &str| text.contains("--take-over");
        assert!(matches!(&refused, Error::Invalid(text) if says_how(text)), "{refused}");
        let taker = open(env, ELSEWHERE, by_force(options()))?;
        assert!(content(&taker)? == at_moment);
        fill(&taker, 2..4)?;
        pass(env, &taker);

        // The owner notices it at its next moment, and its directory is refused from then on.
        env.sleep(Duration::from_secs(20));
        owner.settle();
        let fenced = put(&owner, "no", "more").and_then(|()| owner.flush()).unwrap_err();
        assert!(matches!(&fenced, Error::Fenced(_)), "{fenced}");
        drop(owner);
        let refused = open(env, DIR, options()).unwrap_err();
        assert!(matches!(&refused, Error::Fenced(text) if says_how(text)), "{refused}");
        let left_out = "writes in its tables (number 801)";
        assert!(refused.to_string().contains(left_out), "{refused}");
        taker.close()?;

        // Until it is told to go on from what the other one wrote.
        let back = open(env, DIR, by_force(options()))?;
        let taken = back.recovery().taken_over.clone().expect("it was behind");
        let aside = taken.set_aside.expect("it held something");
        assert_eq!(taken.left_out.expect("it is known").to_string(), left_out);
        assert_eq!(get(&back, "only")?, None);
        assert_eq!(get(&back, "0007")?, Some(value(3)));
        let aside = aside.to_str().expect("text").to_string();
        assert!(files(env, Path::new(&aside))?.iter().any(|name| name.ends_with(".log")));
        put(&back, "on", "it goes")?;
        back.close()?;
        let back = open(env, DIR, options())?;
        assert_eq!(get(&back, "on")?, Some("it goes".to_string()));
        Ok(())
    })
}

/// Goal: whoever comes back learns what of its log was left out. Here no log outlives the machine.
#[test]
fn a_lost_machine_that_comes_back_says_what_stands_in_its_log() -> Result<()> {
    simulate(409, |env| {
        let options = || mirrored(small());
        let owner = open(env, DIR, options())?;
        fill(&owner, 0..1)?;
        pass(env, &owner);
        put(&owner, "only", "here")?;
        put(&owner, "and this", "too")?;
        owner.sync()?;
        owner.inner.poison("the machine is lost");
        drop(owner);
        let taker = open(env, ELSEWHERE, by_force(options()))?;
        fill(&taker, 1..3)?;
        taker.close()?;
        let left_out = "2 entries in its log (numbers 401 to 402)";
        let refused = open(env, DIR, options()).unwrap_err();
        assert!(refused.to_string().contains(left_out), "{refused}");
        // Others go on from there, and it stays as it was.
        open(env, "/third", options())?.close()?;
        let back = open(env, DIR, by_force(options()))?;
        let taken = back.recovery().taken_over.clone().expect("it was behind");
        assert_eq!(taken.left_out.expect("it is known").to_string(), left_out);
        Ok(())
    })
}

#[test]
fn tables_that_a_directory_has_are_read_there() -> Result<()> {
    simulate(404, |env| {
        let options = || mirrored(small());
        let owner = open(env, DIR, options())?;
        fill(&owner, 0..2)?;
        owner.close()?;
        copy(env, DIR, ELSEWHERE)?;
        let owner = open(env, DIR, options())?;
        put(&owner, "key", "value")?;
        owner.close()?;
        let back = open(env, ELSEWHERE, by_force(options()))?;
        assert_eq!(get(&back, "key")?, Some("value".to_string()));
        let version = back.inner.versions.current();
        let is_local = |table: &&Arc<crate::version::Table>| !table.meta().location.is_far();
        assert!(version.tables().filter(is_local).count() > 0);
        Ok(())
    })
}

#[test]
fn the_store_has_a_moment_all_the_time() -> Result<()> {
    let mut contended = 0;
    for seed in 500..590 {
        simulate(seed, |env| {
            let options = || mirrored(small());
            let owner = open(env, DIR, options())?;
            fill(&owner, 0..2)?;
            pass(env, &owner);
            fill(&owner, 2..3)?;
            owner.settle();
            // As a crash leaves it: the manifest is ahead of the store.
            copy(env, DIR, "/copy")?;
            let is_open = Arc::new(AtomicBool::new(false));
            let (seen, opener) = (Arc::clone(&is_open), Arc::clone(env));
            let reads = move || {
                let process = process(&opener)?;
                while !seen.load(Ordering::Relaxed) {
                    let moment = StoreMoment::Newest;
                    let url = "file:///store";
                    let reader = Follower::open_store(&process, url, None, moment, small())?;
                    assert_eq!(content(reader.store())?.len(), 400);
                }
                Ok(())
            };
            let reader = env.spawn(
                JobClass::Client,
                "reader",
                Box::new(move || {
                    let read: Result<()> = reads();
                    read.expect("a moment");
                }),
            )?;
            let again = open(env, "/copy", options())?;
            is_open.store(true, Ordering::Relaxed);
            assert!(reader.join(), "seed {seed}");
            // Whoever was overtaken may feed a moment while that is read which was there before.
            let taker = loop {
                match open(env, ELSEWHERE, by_force(options())) {
                    Err(Error::Fenced(_)) => contended += 1,
                    taker => break taker?,
                }
            };
            let there = content(&taker)?;
            assert!([value(1), value(2)].iter().any(|one| there[7].1 == one.as_bytes()));
            drop((again, owner));
            // Whoever was overtaken may store a table later still: the next open finds it.
            taker.close()?;
            let taker = open(env, ELSEWHERE, options())?;
            fill(&taker, 4..5)?;
            pass(env, &taker);
            taker.settle();
            assert_eq!(super::collect::stored(&taker)?, needed(&taker), "seed {seed}");
            Ok::<_, Error>(())
        })?;
    }
    assert!(contended > 0, "no moment was fed while another one was taken over");
    Ok(())
}

#[test]
fn values_in_files_are_taken_over_too() -> Result<()> {
    simulate(406, |env| {
        let options = || {
            let values = ValueLogOptions { large_bytes: 60, ..ValueLogOptions::default() };
            mirrored(Options { value_log: Some(values), ..small() })
        };
        let owner = open(env, DIR, options())?;
        fill(&owner, 0..2)?;
        let all = content(&owner)?;
        owner.close()?;
        let taker = open(env, ELSEWHERE, options())?;
        assert!(taker.inner.versions.current().values().iter().count() > 0);
        assert!(content(&taker)? == all);
        for round in 2..8 {
            fill(&taker, round..round + 1)?;
            taker.compact(&KeyRange::all())?;
            pass(env, &taker);
        }
        let all = content(&taker)?;
        taker.close()?;
        let third = open(env, "/third", options())?;
        assert!(content(&third)? == all);
        third.settle();
        pass(env, &third);
        assert_eq!(super::collect::stored(&third)?, needed(&third));
        Ok(())
    })
}

#[test]
fn what_cannot_be_taken_over_is_refused() -> Result<()> {
    simulate(407, |env| {
        let refused = |dir: &str, options: Options| open(env, dir, options).unwrap_err();
        let plain = || in_store(small(), 2);
        let owner = open(env, DIR, plain())?;
        fill(&owner, 0..2)?;
        owner.close()?;
        // Some of it lies in the owner's directory alone.
        let error = refused(ELSEWHERE, by_force(plain()));
        assert!(matches!(&error, Error::Unsupported(_)), "{error}");
        // No such database.
        let of_id = |id: u128| {
            let options = plain();
            let cloud = options.cloud.map(|cloud| CloudOptions { database: Some(id), ..cloud });
            Options { cloud, ..options }
        };
        let error = refused(ELSEWHERE, of_id(7));
        assert!(matches!(&error, Error::Invalid(text) if text.contains("no database")), "{error}");
        // A directory that has lost its manifest.
        let owner = open(env, DIR, mirrored(small()))?;
        owner.close()?;
        copy(env, DIR, "/torn")?;
        env.fs().remove(Path::new("/torn/CURRENT"))?;
        let error = refused("/torn", mirrored(small()));
        assert!(matches!(&error, Error::Corruption(_)), "{error}");
        // What is to be new is not.
        let error = refused("/new", Options { error_if_exists: true, ..mirrored(small()) });
        assert!(matches!(&error, Error::Invalid(_)), "{error}");
        Ok(())
    })
}

/// Every call that it makes in the directory fails once.
#[test]
fn a_failed_take_over_is_done_again() {
    let mut failures = 0;
    for call in 1.. {
        let is_over = with_faults(408, |_, faults, env| {
            let options = || mirrored(small());
            let owner = open(env, DIR, options()).unwrap();
            fill(&owner, 0..1).unwrap();
            pass(env, &owner);
            put(&owner, "only", "here").unwrap();
            owner.settle();
            copy(env, DIR, "/behind").unwrap();
            fill(&owner, 1..2).unwrap();
            owner.close().unwrap();
            let fault = Fault::any(call, FaultEffect::Error(FaultErrno::Io)).on("/behind");
            faults.set_plan(FaultPlan::one(fault));
            let outcome = open(env, "/behind", by_force(options()));
            let is_hit = !faults.injected().is_empty();
            faults.set_plan(FaultPlan::default());
            let back = outcome.or_else(|_| open(env, "/behind", by_force(options())));
            let back = back.unwrap_or_else(|error| panic!("call {call}: {error}"));
            assert_eq!(get(&back, "0007").unwrap(), Some(value(1)), "call {call}");
            let aside = env.fs().list(Path::new("/behind")).unwrap();
            let is_aside = |entry: &&DirEntry| entry.is_dir && entry.name != CACHE_DIRECTORY;
            let aside = aside.iter().find(is_aside).unwrap();
            let aside = files(env, &Path::new("/behind").join(&aside.name)).unwrap();
            for end in [".log", ".table", ".manifest", "CURRENT"] {
                assert!(aside.iter().any(|name| name.ends_with(end)), "call {call}: {aside:?}");
            }
            drop(back);
            !is_hit
        });
        if is_over {
            break;
        }
        failures += 1;
    }
    assert!(failures > 20, "{failures} calls");
}
