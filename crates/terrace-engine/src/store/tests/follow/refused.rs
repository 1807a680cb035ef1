//! What cannot be followed, or not any more, is said.

use crate::Error;
use crate::options::L0Kind;
use crate::store::Follower;
use crate::store::tests::*;

fn follow(env: &SharedEnv) -> Result<Follower> {
    Follower::open(&process(env)?, Path::new(DIR), small())
}

#[test]
fn what_lies_where_it_cannot_be_followed_is_refused() -> Result<()> {
    let on_log_path = Options { log_path: Some(DIR.into()), ..small() };
    let in_container = in_pages(small(), L0Kind::Container, 256 << 10);
    let on_medium = Options { l0: L0Options::on_medium(DIR, 128 << 10), ..small() };
    for (options, word) in
        [(on_log_path, "log"), (in_container, "container"), (on_medium, "medium")]
    {
        simulate(1, |env| {
            let store = open(env, &options)?;
            put(&store, "a", "1")?;
            let refused = follow(env).expect_err("it cannot be followed");
            assert!(matches!(refused, Error::Unsupported(_)), "{refused:?}");
            assert!(refused.to_string().contains(word), "{refused}");
            store.close()
        })?;
    }
    Ok(())
}

#[test]
fn a_log_that_moves_away_is_said() -> Result<()> {
    simulate(2, |env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        let mut follower = follow(env)?;
        store.close()?;
        let store = open(env, &Options { log_path: Some(DIR.into()), ..small() })?;
        assert!(matches!(follower.catch_up(), Err(Error::Unsupported(_))));
        assert_eq!(get(follower.store(), "a")?.as_deref(), Some("1"), "what it showed");
        store.close()
    })
}

#[test]
fn another_database_in_its_place_is_said() -> Result<()> {
    simulate(3, |env| {
        assert!(matches!(follow(env), Err(Error::Invalid(_) | Error::Io(_))));
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        let mut follower = follow(env)?;
        store.close()?;
        let fs = env.fs();
        for entry in fs.list(Path::new(DIR))?.into_iter().filter(|entry| !entry.is_dir) {
            fs.remove(&Path::new(DIR).join(entry.name))?;
        }
        let gone = follower.catch_up().expect_err("nothing is there");
        assert!(matches!(gone, Error::Outdated(_)), "{gone:?}");
        let store = open(env, &small())?;
        put(&store, "a", "2")?;
        let other = follower.catch_up().expect_err("another one is there");
        assert!(matches!(other, Error::Outdated(_)), "{other:?}");
        assert!(other.to_string().contains("open it again"), "{other}");
        assert_eq!(get(follower.store(), "a")?.as_deref(), Some("1"), "what it showed");
        assert_eq!(get(follow(env)?.store(), "a")?.as_deref(), Some("2"));
        store.close()
    })
}

/// Damage below what the manifest knows to be durable is no end of the log.
#[test]
fn damage_is_no_end_of_the_log() -> Result<()> {
    let disk = killed(4, |env| {
        let store = open(env, &Options { dranges: 1, ..small() })?;
        for index in 0..20 {
            put(&store, &format!("{index}"), &"x".repeat(100))?;
        }
        store.close()?;
        Ok(store)
    });
    let (path, _) = segments_of(&disk).pop().expect("there is a log");
    let mut disk = disk;
    let byte = disk.read(&path).expect("listed")[1000] ^ 1;
    disk.write(&path, 1000, &[byte]).expect("listed");
    after_crash(disk, |env| {
        let damaged = follow(env).expect_err("a record is damaged");
        assert!(matches!(damaged, Error::Corruption(_)), "{damaged:?}");
        Ok(())
    })
}
