//! Goal: a copy of a database never touches what the original has on a medium, and a database that
//! was moved on purpose takes it along. Method: the files of the directory are copied one by one,
//! as an operator would, and both are opened, beside each other and one after the other.

use std::path::PathBuf;

use terrace_env::LockKind;

use crate::Error;
use crate::check::{CheckDepth, check_dir};
use crate::read_file;
use crate::store::adopt;
use crate::store::tests::*;

const MEDIUM: &str = "/medium";
const COPY: &str = "/copy";

fn log_on_medium() -> Options {
    Options { log_path: Some(MEDIUM.into()), ..small() }
}

fn rows_on_medium() -> Options {
    Options { l0: L0Options::on_medium(MEDIUM, 128 << 10), ..small() }
}

fn container_on_medium() -> Options {
    Options { l0: L0Options::container(MEDIUM, 256 << 10), ..small() }
}

fn everything_on_medium() -> Options {
    Options { log_path: Some(MEDIUM.into()), ..container_on_medium() }
}

fn open_copy(env: &SharedEnv, options: &Options) -> Result<Store> {
    Store::open(&process(env)?, Path::new(COPY), options.clone())
}

/// Copies the files of a directory, but for its lock, as `cp` does.
fn copy(env: &SharedEnv, from: &str, to: &str) -> Result<()> {
    env.fs().create_dir_all(Path::new(to))?;
    for entry in env.fs().list(Path::new(from))? {
        if entry.is_dir || entry.name == "LOCK" {
            continue;
        }
        let bytes = read_file(env.as_ref(), &Path::new(from).join(&entry.name))?;
        let mut file = env.fs().create(&Path::new(to).join(&entry.name), 0)?;
        file.append(&bytes)?;
        file.finish()?;
    }
    env.fs().sync_dir(Path::new(to))?;
    Ok(())
}

fn remove_all(env: &SharedEnv, dir: &str) -> Result<()> {
    for entry in env.fs().list(Path::new(dir))?.into_iter().filter(|entry| !entry.is_dir) {
        env.fs().remove(&Path::new(dir).join(entry.name))?;
    }
    Ok(())
}

fn fill(store: &Store, round: u32) -> Result<()> {
    for key in 0..200 {
        put(store, &format!("{:04}", key * 7 % 200), &format!("{round}").repeat(100))?;
    }
    Ok(())
}

fn expect(store: &Store, round: u32) -> Result<()> {
    for key in 0..200 {
        let found = get(store, &format!("{key:04}"))?;
        assert_eq!(found, Some(format!("{round}").repeat(100)), "{key}");
    }
    Ok(())
}

/// The names of all files on the medium, with their sizes, but for locks.
fn on_medium(env: &SharedEnv) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    let mut dirs = vec![PathBuf::from(MEDIUM)];
    while let Some(dir) = dirs.pop() {
        for entry in env.fs().list(&dir)? {
            match entry.is_dir {
                true => dirs.push(dir.join(&entry.name)),
                false => found.push((dir.join(&entry.name), entry.bytes)),
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_refused(outcome: Result<Store>, words: &[&str]) {
    let refused = outcome.expect_err("it would destroy what the original has on the medium");
    let text = refused.to_string();
    assert!(matches!(refused, Error::Invalid(_) | Error::Locked(_)), "{refused:?}");
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn a_copy_beside_its_original_is_refused_on_each_medium() -> Result<()> {
    let media = [log_on_medium(), rows_on_medium(), container_on_medium(), everything_on_medium()];
    for (seed, options) in (300..).zip(media) {
        simulate(seed, |env| {
            env.fs().create_dir_all(Path::new(MEDIUM))?;
            let original = open(env, &options)?;
            fill(&original, 0)?;
            original.close()?;
            drop(original);
            copy(env, DIR, COPY)?;
            let before = on_medium(env)?;
            // While nobody has the original open, and while somebody has.
            is_refused(open_copy(env, &options), &[MEDIUM, DIR, "terrace adopt"]);
            is_refused(open_copy(env, &small()), &[MEDIUM, DIR, "terrace adopt"]);
            let for_reading = Options { read_only: true, ..options.clone() };
            is_refused(open_copy(env, &for_reading), &[MEDIUM, DIR, "terrace adopt"]);
            assert_eq!(on_medium(env)?, before, "nothing on the medium was touched");
            let original = open(env, &options)?;
            is_refused(open_copy(env, &options), &[MEDIUM, DIR]);
            expect(&original, 0)?;
            fill(&original, 1)?;
            original.flush()?;
            drop(original);
            let original = open(env, &options)?;
            expect(&original, 1)?;
            original.close()?;
            drop(original);
            let report = check_dir(env, Path::new(DIR), CheckDepth::Full, &mut |_, _| ())?;
            assert!(report.is_clean(), "{report}");
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

#[test]
fn a_database_that_was_moved_takes_its_media_along() -> Result<()> {
    let media = [log_on_medium(), rows_on_medium(), container_on_medium(), everything_on_medium()];
    for (seed, options) in (310..).zip(media) {
        simulate(seed, |env| {
            env.fs().create_dir_all(Path::new(MEDIUM))?;
            let original = open(env, &options)?;
            fill(&original, 0)?;
            drop(original);
            copy(env, DIR, COPY)?;
            is_refused(open_copy(env, &options), &["terrace adopt"]);
            let original = open(env, &options)?;
            let refused = adopt(env, Path::new(COPY)).expect_err("the original is open");
            assert!(matches!(refused, Error::Locked(_)), "{refused}");
            drop(original);
            // The original goes; what was written since the copy was made is in its log.
            remove_all(env, COPY)?;
            copy(env, DIR, COPY)?;
            remove_all(env, DIR)?;
            let adopted = adopt(env, Path::new(COPY))?;
            assert_eq!(adopted.len(), 1, "{adopted:?}");
            assert_eq!(adopted[0].medium, Path::new(MEDIUM));
            assert_eq!(adopted[0].owner_before.as_deref(), Some(Path::new(DIR)));
            let moved = open_copy(env, &options)?;
            expect(&moved, 0)?;
            fill(&moved, 1)?;
            drop(moved);
            expect(&open_copy(env, &options)?, 1)?;
            let again = adopt(env, Path::new(COPY))?;
            assert_eq!(again[0].owner_before.as_deref(), Some(Path::new(COPY)));
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

/// A copy from before the original had anything on the medium names nothing there, and a container
/// would be made where the original's is.
#[test]
fn a_copy_does_not_get_the_medium_of_its_original() -> Result<()> {
    let media = [log_on_medium(), rows_on_medium(), container_on_medium()];
    for (seed, options) in (320..).zip(media) {
        simulate(seed, |env| {
            env.fs().create_dir_all(Path::new(MEDIUM))?;
            drop(open(env, &small())?);
            copy(env, DIR, COPY)?;
            let original = open(env, &options)?;
            fill(&original, 0)?;
            is_refused(open_copy(env, &options), &[MEDIUM, DIR]);
            original.close()?;
            drop(original);
            is_refused(open_copy(env, &options), &[MEDIUM, DIR, "Name another"]);
            assert!(adopt(env, Path::new(COPY))?.is_empty(), "it has nothing on a medium");
            fill(&open_copy(env, &small())?, 1)?;
            expect(&open(env, &options)?, 0)?;
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

#[test]
fn a_checkpoint_uses_the_medium_beside_its_original() -> Result<()> {
    simulate(350, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let options = everything_on_medium();
        let original = open(env, &options)?;
        fill(&original, 0)?;
        original.checkpoint(Path::new(COPY), &mut |_, _| true)?;
        let copy = open_copy(env, &options)?;
        fill(&copy, 1)?;
        expect(&original, 0)?;
        expect(&copy, 1)
    })
}

/// What would happen otherwise: the manifest of the copy would name the container of the original.
#[test]
fn a_container_in_the_directory_goes_with_it() -> Result<()> {
    let in_place = Options { l0: L0Options::Container { bytes: 1 << 20, path: None }, ..small() };
    let on_itself = Options { l0: L0Options::container(DIR, 256 << 10), ..small() };
    for (seed, options) in (330..).zip([in_place, on_itself]) {
        simulate(seed, |env| {
            let original = open(env, &options)?;
            fill(&original, 0)?;
            assert!(original.inner.versions.current().has_rows_in_pages());
            drop(original);
            copy(env, DIR, COPY)?;
            let original = open(env, &options)?;
            let copy = open_copy(env, &small())?;
            fill(&copy, 1)?;
            expect(&original, 0)?;
            expect(&copy, 1)?;
            drop((original, copy));
            expect(&open(env, &options)?, 0)?;
            remove_all(env, DIR)?;
            expect(&open_copy(env, &small())?, 1)
        })?;
    }
    Ok(())
}

/// A database of an earlier version has no claim on its media: its next open makes one.
#[test]
fn what_nobody_claims_is_claimed_by_the_first_that_opens_it() -> Result<()> {
    simulate(340, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let options = log_on_medium();
        let original = open(env, &options)?;
        fill(&original, 0)?;
        drop(original);
        let (claim, _) = on_medium(env)?
            .into_iter()
            .find(|(path, _)| path.ends_with("CLAIM"))
            .expect("the original has claimed its directory");
        env.fs().remove(&claim)?;
        // Whoever only reads claims nothing.
        drop(open(env, &Options { read_only: true, ..options.clone() })?);
        assert!(!on_medium(env)?.iter().any(|(path, _)| *path == claim));
        drop(open(env, &options)?);
        copy(env, DIR, COPY)?;
        is_refused(open_copy(env, &options), &["terrace adopt"]);
        Ok(())
    })
}

#[test]
fn a_damaged_claim_is_said_to_be_damaged_and_can_be_replaced() -> Result<()> {
    simulate(341, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let original = open(env, &log_on_medium())?;
        fill(&original, 0)?;
        drop(original);
        let (claim, bytes) = on_medium(env)?
            .into_iter()
            .find(|(path, _)| path.ends_with("CLAIM"))
            .expect("the original has claimed its directory");
        env.fs().remove(&claim)?;
        let mut file = env.fs().create(&claim, 0)?;
        file.append(&vec![7; bytes as usize])?;
        file.finish()?;
        let damaged = open(env, &log_on_medium()).expect_err("nobody knows whose it is");
        assert!(matches!(&damaged, Error::Corruption(c) if c.file == claim), "{damaged}");
        assert!(damaged.to_string().contains("terrace adopt"), "{damaged}");
        let adopted = adopt(env, Path::new(DIR))?;
        assert_eq!(adopted[0].owner_before, None);
        expect(&open(env, &log_on_medium())?, 0)
    })
}

/// A lock that was left behind by nobody: the directory of a claim is locked as the range's is.
#[test]
fn a_medium_that_somebody_has_locked_is_in_use() -> Result<()> {
    simulate(342, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        drop(open(env, &log_on_medium())?);
        let (claim, _) = on_medium(env)?
            .into_iter()
            .find(|(path, _)| path.ends_with("CLAIM"))
            .expect("the directory is claimed");
        let dir = claim.parent().expect("it lies in a directory");
        let _held = env.fs().lock_dir(dir, LockKind::Exclusive)?;
        let refused = open(env, &log_on_medium()).expect_err("it is locked");
        assert!(matches!(&refused, Error::Locked(text) if text.contains(MEDIUM)), "{refused}");
        Ok(())
    })
}
