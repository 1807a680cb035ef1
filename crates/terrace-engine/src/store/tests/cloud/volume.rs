//! Goal: a log on a volume outlives the machine with what was acknowledged as durable, is kept no
//! longer than that takes, and is never left out unnoticed. Method: an owner whose disk is lost,
//! beside a volume that is there, is another one, or is missing.

use std::time::Duration;

use terrace_base::KeyRange;

use super::durable::{put_durably, taking_over};
use super::mirror::{content, mirrored};
use crate::Error;
use crate::options::CloudOptions;
use crate::store::tests::*;

const VOLUME: &str = "/volume";
const ELSEWHERE: &str = "/elsewhere";

/// Small options, with a mirror that is seldom and the log on a volume.
fn on_volume() -> Options {
    let options = mirrored(small());
    let mirror = Some(Duration::from_secs(600));
    let cloud = options.cloud.map(|cloud| CloudOptions { mirror, ..cloud });
    Options { cloud, log_volume: Some(VOLUME.into()), ..options }
}

fn open(env: &SharedEnv, dir: &str, options: Options) -> Result<Store> {
    env.fs().create_dir_all(Path::new(VOLUME))?;
    Store::open(&process(env)?, Path::new(dir), options)
}

/// Ends an owner as a lost machine does, as far as the volume can tell: nothing is closed.
fn lose(store: Store) {
    store.inner.poison("the machine is lost");
    drop(store);
}

#[test]
fn whoever_has_the_volume_goes_on_in_the_log() -> Result<()> {
    simulate(511, |env| {
        let owner = open(env, DIR, on_volume())?;
        put_durably(&owner, "durable", "write")?;
        let refused = open(env, ELSEWHERE, taking_over(on_volume())).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Locked(_)), "its owner has the volume: {refused}");
        put_durably(&owner, "more", "of it")?;
        let all = content(&owner)?;
        lose(owner);
        let taker = open(env, ELSEWHERE, taking_over(on_volume()))?;
        assert_eq!(content(&taker)?, all);
        assert_eq!(taker.recovery().replayed_entries, 2);
        put_durably(&taker, "by the", "taker")?;
        lose(taker);
        let third = open(env, "/third", taking_over(on_volume()))?;
        assert_eq!(get(&third, "by the")?, Some("taker".to_string()));
        // The first one comes back, with the volume.
        let back = open(env, DIR, on_volume()).map(drop).unwrap_err();
        assert!(matches!(back, Error::Fenced(_)), "{back}");
        Ok(())
    })
}

#[test]
fn a_missing_volume_is_noticed_and_given_up_only_if_asked_for() -> Result<()> {
    simulate(512, |env| {
        let owner = open(env, DIR, on_volume())?;
        put_durably(&owner, "in the", "moment")?;
        // The first moment may have been taken before it.
        env.sleep(Duration::from_secs(900));
        put_durably(&owner, "on the", "volume")?;
        owner.flush()?;
        lose(owner);
        let without = Options { log_volume: None, ..taking_over(on_volume()) };
        env.fs().create_dir_all(Path::new("/empty"))?;
        let another = Options { log_volume: Some("/empty".into()), ..taking_over(on_volume()) };
        for options in [without.clone(), another.clone()] {
            let refused = open(env, ELSEWHERE, options).map(drop).unwrap_err();
            let text = refused.to_string();
            assert!(text.contains("--log-volume") && text.contains("--abandon-log"), "{text}");
        }
        let mut abandoning = another;
        abandoning.cloud.as_mut().expect("it has a store").abandon_log = true;
        let taker = open(env, ELSEWHERE, abandoning)?;
        assert_eq!(get(&taker, "in the")?, Some("moment".to_string()));
        assert_eq!(get(&taker, "on the")?, None);
        put_durably(&taker, "goes", "on")?;
        // The volume turns up again, on the machine that had it.
        let back = open(env, DIR, on_volume()).map(drop).unwrap_err();
        assert!(matches!(&back, Error::Fenced(_)), "{back}");
        assert!(back.to_string().contains("one entry in its log (number 2)"), "{back}");
        let back = open(env, DIR, taking_over(on_volume())).map(drop).unwrap_err();
        assert!(back.to_string().contains("one entry in its log (number 2)"), "{back}");
        // And without it, how much there is cannot be told.
        for entry in env.fs().list(Path::new(VOLUME))?.iter().filter(|entry| entry.is_dir) {
            let segments = Path::new(VOLUME).join(&entry.name);
            for file in env.fs().list(&segments)?.iter().filter(|file| !file.is_dir) {
                env.fs().remove(&segments.join(&file.name))?;
            }
        }
        let back = open(env, DIR, on_volume()).map(drop).unwrap_err();
        assert!(matches!(&back, Error::Fenced(_)), "{back}");
        assert!(back.to_string().contains("could not be told"), "{back}");
        Ok(())
    })
}

/// What stands behind an ingest that the store does not have is no part of a state that ever was.
#[test]
fn records_behind_a_lost_ingest_are_left_out() -> Result<()> {
    simulate(513, |env| {
        let owner = open(env, DIR, on_volume())?;
        put_durably(&owner, "a", "durable")?;
        let mut ingest = owner.begin_ingest()?;
        ingest.add(b"b", b"ingested", None)?;
        ingest.finish()?;
        put(&owner, "c", "behind it")?;
        owner.sync()?;
        lose(owner);
        let taker = open(env, ELSEWHERE, taking_over(on_volume()))?;
        assert_eq!(get(&taker, "a")?, Some("durable".to_string()));
        assert_eq!((get(&taker, "b")?, get(&taker, "c")?), (None, None));
        put_durably(&taker, "d", "goes on")?;
        lose(taker);
        let third = open(env, "/third", taking_over(on_volume()))?;
        assert_eq!(content(&third)?.len(), 2);
        Ok(())
    })
}

/// Goal: a volume does not fill while writes go on, and writers that wait for it are let go on.
#[test]
fn a_long_log_asks_for_a_moment() -> Result<()> {
    simulate(514, |env| {
        let options = on_volume();
        let most = 4 * options.log_bytes_max;
        let owner = open(env, DIR, options)?;
        for round in 0..40 {
            for key in 0..50 {
                put(&owner, &format!("{key:03}"), &format!("{round}").repeat(300))?;
            }
            let held = owner.inner.log()?.held_bytes();
            assert!(held <= most, "{held} bytes of log are held, with {most} at most");
        }
        owner.settle();
        put_durably(&owner, "last", "one")?;
        let all = content(&owner)?;
        lose(owner);
        let taker = open(env, ELSEWHERE, taking_over(on_volume()))?;
        assert_eq!(content(&taker)?, all);
        taker.compact(&KeyRange::all())?;
        assert_eq!(content(&taker)?, all);
        Ok(())
    })
}

/// The baseline has no moment but the first, and whoever takes over replays all of the log. What is
/// on the volume takes no room of tables on the local disk.
#[test]
fn an_unbounded_log_is_replayed_as_a_whole() -> Result<()> {
    simulate(516, |env| {
        let mut options = on_volume();
        options.research.log_unbounded = true;
        let cloud = options.cloud.as_mut().expect("it has a store");
        (cloud.first_level, cloud.local_bytes) = (None, Some(CloudOptions::LOCAL_BYTES_MIN));
        let owner = open(env, DIR, options.clone())?;
        put_durably(&owner, "the first", "moment")?;
        for round in 0..40 {
            for key in 0..50 {
                put(&owner, &format!("{key:03}"), &format!("{round}").repeat(300))?;
            }
        }
        owner.settle();
        let stats = owner.stats().cloud.expect("it has a store");
        let kept_bytes = stats.volume.expect("it has a volume").kept_bytes;
        assert!(kept_bytes > 4 * on_volume().log_bytes_max, "{kept_bytes}");
        assert_eq!(stats.table_count, 0, "there is room for all tables here");
        let all = content(&owner)?;
        lose(owner);
        let taker = open(env, ELSEWHERE, taking_over(options))?;
        assert_eq!(content(&taker)?, all);
        assert!(taker.recovery().replayed_entries >= 40 * 50, "{:?}", taker.recovery());
        Ok(())
    })
}

/// An idle database asks the store for nothing.
#[test]
fn an_idle_database_feeds_no_moments() -> Result<()> {
    simulate(515, |env| {
        let options = on_volume();
        let owner = open(env, DIR, options)?;
        put_durably(&owner, "a", "write")?;
        env.sleep(Duration::from_secs(3 * 600));
        let before = owner.stats().cloud.expect("it has a store").requests;
        env.sleep(Duration::from_secs(10 * 600));
        let after = owner.stats().cloud.expect("it has a store").requests;
        assert_eq!(before.put, after.put);
        Ok(())
    })
}
