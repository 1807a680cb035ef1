//! Goal: a log on a medium of its own is the same log, and nothing of it is lost when it moves, or
//! when the medium is gone. Method: media beside the range, and a look at what is where.

use std::path::PathBuf;

use terrace_env::DiskImage;

use crate::Error;
use crate::check::{CheckDepth, check_dir};
use crate::options::Durability;
use crate::repair::{LossKind, repair};
use crate::store::tests::*;

const MEDIUM: &str = "/medium";

fn on_medium() -> Options {
    Options { log_path: Some(MEDIUM.into()), ..small() }
}

fn elsewhere() -> Options {
    Options { log_path: Some("/other".into()), ..small() }
}

/// The directory of the one log on a medium.
fn directory_on(env: &SharedEnv, medium: &str) -> PathBuf {
    let mut dirs = env.fs().list(Path::new(medium)).unwrap();
    dirs.retain(|entry| !entry.name.ends_with(".claim"));
    let dir = Path::new(medium).join(dirs.pop().expect("a directory of a log").name);
    assert!(dirs.is_empty(), "{dirs:?}");
    dir
}

/// The segments in a directory.
fn segments_in(env: &SharedEnv, dir: &Path) -> Vec<PathBuf> {
    let names = env.fs().list(dir).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".log")).map(|name| dir.join(name)).collect()
}

fn fill(store: &Store, round: u32) -> Result<()> {
    for key in 0..40 {
        put(store, &format!("{round}/{key:02}"), &format!("{round}").repeat(100))?;
    }
    Ok(())
}

fn expect(store: &Store, rounds: std::ops::Range<u32>) -> Result<()> {
    for round in rounds {
        for key in 0..40 {
            let found = get(store, &format!("{round}/{key:02}"))?;
            assert_eq!(found, Some(format!("{round}").repeat(100)), "{round}/{key}");
        }
    }
    Ok(())
}

fn check(env: &SharedEnv) -> Result<crate::check::CheckReport> {
    check_dir(env, Path::new(DIR), CheckDepth::Full, &mut |_, _| ())
}

#[test]
fn segments_lie_on_the_medium_and_are_used_again() -> Result<()> {
    simulate(81, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let options = Options { durability: Durability::Sync, ..on_medium() };
        for round in 0..20 {
            let store = open(env, &options)?;
            assert_eq!(store.stats().log_medium, Some("simulated"));
            assert!(store.stats().to_string().contains("persistent memory (simulated)"));
            fill(&store, round)?;
            expect(&store, 0..round + 1)?;
            assert!(segments_in(env, Path::new(DIR)).is_empty());
            let segments = segments_in(env, &directory_on(env, MEDIUM));
            assert!((1..12).contains(&segments.len()), "{segments:?}");
        }
        let report = check(env)?;
        assert!(report.is_clean() && report.segment_count > 0, "{report}");
        let store = open(env, &Options { read_only: true, ..small() })?;
        expect(&store, 0..20)?;
        assert_eq!(store.stats().log_medium, None, "nothing is written");
        Ok(())
    })
}

/// The log of each open stays where it is, and the next one reads it there.
#[test]
fn a_log_that_moves_is_read_where_it_is() -> Result<()> {
    simulate(82, |env| {
        for dir in [MEDIUM, "/other"] {
            env.fs().create_dir_all(Path::new(dir))?;
        }
        let places = [small(), on_medium(), elsewhere(), small(), elsewhere(), on_medium()];
        for (round, options) in (0..).zip(&places) {
            let store = open(env, options)?;
            expect(&store, 0..round)?;
            // So little that nothing is flushed.
            put(&store, &format!("{round}"), "last")?;
            for before in 0..=round {
                assert_eq!(get(&store, &format!("{before}"))?.as_deref(), Some("last"), "{round}");
            }
            fill(&store, round)?;
            drop(store);
            let report = check(env)?;
            assert!(report.is_clean(), "{report}");
        }
        let store = open(env, &small())?;
        expect(&store, 0..6)?;
        store.flush()?;
        drop(store);
        // What is needed no more is deleted, wherever it is.
        let store = open(env, &small())?;
        expect(&store, 0..6)?;
        for medium in [MEDIUM, "/other"] {
            assert!(segments_in(env, &directory_on(env, medium)).is_empty(), "{medium}");
        }
        drop(store);
        let store = open(env, &small())?;
        assert!(store.inner.versions.current().media().log_directories.is_empty());
        Ok(())
    })
}

#[test]
fn two_ranges_share_a_medium() -> Result<()> {
    simulate(83, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        for round in 0..3 {
            let first = open(env, &on_medium())?;
            let second = Store::open(&process(env)?, Path::new("/second"), on_medium())?;
            fill(&first, round)?;
            expect(&first, 0..round + 1)?;
            fill(&second, round + 10)?;
            expect(&second, 10..round + 11)?;
            assert_eq!(get(&second, "0/00")?, None);
        }
        let on_medium = env.fs().list(Path::new(MEDIUM))?;
        assert_eq!(on_medium.len(), 4, "each has a log and a claim: {on_medium:?}");
        Ok(())
    })
}

/// Writes the files of a disk that lie below `dir`, as a copy would.
fn bring(env: &SharedEnv, disk: &DiskImage, dir: &str) -> Result<()> {
    bring_to(env, disk, dir, dir)
}

/// The same, to another place.
fn bring_to(env: &SharedEnv, disk: &DiskImage, from: &str, to: &str) -> Result<()> {
    for (path, _) in disk.files() {
        let Ok(below) = path.strip_prefix(from) else { continue };
        let to = Path::new(to).join(below);
        env.fs().create_dir_all(to.parent().expect("it is below the directory"))?;
        let mut file = env.fs().create(&to, 0)?;
        file.append(&disk.read(&path).expect("it is listed"))?;
        file.finish()?;
    }
    Ok(())
}

/// What would happen otherwise: the segments that are left would end where the lost ones began, and
/// the range would open without what was written last.
#[test]
fn a_medium_that_is_gone_is_said_to_be_missing() -> Result<()> {
    let (disk, dir) = SimEnv::run(SimOptions::new(84), |sim| {
        let env: SharedEnv = sim.clone();
        let refused = open(&env, &on_medium()).expect_err("there is no such directory");
        assert!(matches!(&refused, Error::Invalid(text) if text.contains(MEDIUM)), "{refused}");
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        // The manifest says that the log begins in the range's own directory.
        let store = open(&env, &small())?;
        fill(&store, 0)?;
        drop(store);
        let store = open(&env, &on_medium())?;
        put(&store, "last", "lost")?;
        drop(store);
        Ok::<_, Error>((sim.disk(), directory_on(&env, MEDIUM)))
    })?;
    simulate(184, |env| {
        bring(env, &disk, DIR)?;
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        for options in [small(), on_medium(), Options { read_only: true, ..small() }] {
            let lost = open(env, &options).expect_err("a part of the log is gone");
            assert!(
                matches!(&lost, Error::Corruption(c) if c.to_string().contains("is missing")),
                "{lost}"
            );
        }
        let report = check(env)?;
        assert!(report.damage().any(|found| found.file == dir), "{report}");
        let target = Path::new("/repaired");
        let report = repair(env, Path::new(DIR), target, &small(), &mut |_, _| true)?;
        let is_named = |kind| report.losses.iter().any(|one| one.kind == kind && one.file == dir);
        assert!(is_named(LossKind::Lost) && is_named(LossKind::MayReappear), "{report:?}");
        let repaired = Store::open(&process(env)?, target, small())?;
        expect(&repaired, 0..1)?;
        assert_eq!(get(&repaired, "last")?, None);
        drop(repaired);
        // It is mounted again.
        bring(env, &disk, MEDIUM)?;
        let store = open(env, &small())?;
        expect(&store, 0..1)?;
        assert_eq!(get(&store, "last")?.as_deref(), Some("lost"));
        Ok(())
    })
}

#[test]
fn a_repair_reads_the_log_where_it_is() -> Result<()> {
    simulate(85, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let store = open(env, &on_medium())?;
        fill(&store, 0)?;
        store.close()?;
        drop(store);
        let target = Path::new("/repaired");
        let report = repair(env, Path::new(DIR), target, &small(), &mut |_, _| true)?;
        assert!(report.is_complete() && report.log_entry_count > 0, "{report:?}");
        expect(&Store::open(&process(env)?, target, small())?, 0..1)
    })
}

/// What would happen otherwise: the same segments would count twice at the next open.
#[test]
fn another_name_of_the_same_directory_is_refused() -> Result<()> {
    simulate(86, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let store = open(env, &on_medium())?;
        fill(&store, 0)?;
        drop(store);
        // A simulated file system has no second name for a directory, but for a file.
        let dir = directory_on(env, MEDIUM);
        let other = Path::new("/other").join(dir.file_name().expect("a name"));
        env.fs().create_dir_all(&other)?;
        let segment = segments_in(env, &dir).pop().expect("a segment");
        env.fs().link(&segment, &other.join(segment.file_name().expect("a name")))?;
        let refused = open(env, &elsewhere()).expect_err("they are somebody's");
        assert!(matches!(&refused, Error::Invalid(text) if text.contains("/other")), "{refused}");
        expect(&open(env, &on_medium())?, 0..1)
    })
}

/// What would happen otherwise: a directory without tables and segments would be taken for one
/// whose creation was interrupted, and begun anew.
#[test]
fn a_lost_current_is_noticed_though_the_log_is_elsewhere() -> Result<()> {
    simulate(87, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let store = open(env, &on_medium())?;
        fill(&store, 0)?;
        drop(store);
        assert!(segments_in(env, Path::new(DIR)).is_empty());
        env.fs().remove(&Path::new(DIR).join("CURRENT"))?;
        let lost = open(env, &on_medium()).expect_err("it held a range");
        assert!(
            matches!(&lost, Error::Corruption(c) if c.to_string().contains("CURRENT is missing")),
            "{lost}"
        );
        assert!(!check(env)?.is_clean());
        let target = Path::new("/repaired");
        let report = repair(env, Path::new(DIR), target, &small(), &mut |_, _| true)?;
        assert!(report.log_entry_count > 0, "{report:?}");
        expect(&Store::open(&process(env)?, target, small())?, 0..1)
    })
}

#[test]
fn a_checkpoint_has_no_log_elsewhere() -> Result<()> {
    simulate(88, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let store = open(env, &on_medium())?;
        fill(&store, 0)?;
        store.checkpoint(Path::new("/copy"), &mut |_, _| true)?;
        let copy = Store::open(&process(env)?, Path::new("/copy"), small())?;
        assert!(copy.inner.versions.current().media().log_directories.is_empty());
        expect(&copy, 0..1)
    })
}

#[test]
fn a_full_medium_is_a_full_log() -> Result<()> {
    let options = Options { log_bytes_max: 1 << 20, memtable_bytes: 1 << 20, ..on_medium() };
    let sim = SimOptions::new(89);
    SimEnv::run(sim, |sim| {
        let env: SharedEnv = sim.clone();
        let env = &env;
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let store = open(env, &options)?;
        put(&store, "first", "there")?;
        sim.set_capacity(0);
        let full = (0..).find_map(|round| fill(&store, round).err()).expect("it ends");
        assert!(matches!(full, Error::NoSpace(_)), "{full}");
        assert_eq!(get(&store, "first")?.as_deref(), Some("there"));
        sim.set_capacity(u64::MAX);
        fill(&store, 0)?;
        drop(store);
        expect(&open(env, &options)?, 0..1)
    })
}

/// As a volume that is mounted somewhere else than before.
#[test]
fn a_medium_that_is_mounted_elsewhere_is_found_there() -> Result<()> {
    for (seed, is_memory) in [(91, true), (92, false)] {
        let on = |path: &str| {
            let path = Some(PathBuf::from(path));
            let (log_path, log_volume) = if is_memory { (path, None) } else { (None, path) };
            Options { log_path, log_volume, ..small() }
        };
        let disk = SimEnv::run(SimOptions::new(seed), |sim| {
            let env: SharedEnv = sim.clone();
            env.fs().create_dir_all(Path::new(MEDIUM))?;
            let store = open(&env, &on(MEDIUM))?;
            fill(&store, 0)?;
            put(&store, "0", "last")?;
            drop(store);
            Ok::<_, Error>(sim.disk())
        })?;
        simulate(seed + 100, |env| {
            bring(env, &disk, DIR)?;
            bring_to(env, &disk, MEDIUM, "/other")?;
            for dir in [MEDIUM, "/third"] {
                env.fs().create_dir_all(Path::new(dir))?;
            }
            for options in [small(), on(MEDIUM), on("/third")] {
                let refused = open(env, &options).map(drop).unwrap_err();
                assert!(refused.to_string().contains("say where"), "{refused}");
            }
            for round in 1..4 {
                let store = open(env, &on("/other"))?;
                expect(&store, 0..round)?;
                assert_eq!(get(&store, "0")?.as_deref(), Some("last"));
                let names = store.inner.versions.current().media().log_directories.clone();
                assert!(names.iter().all(|name| name.starts_with("/other/")), "{names:?}");
                fill(&store, round)?;
            }
            assert!(check(env)?.is_clean());
            let store = open(env, &on(MEDIUM))?;
            expect(&store, 0..4)
        })?;
    }
    Ok(())
}

/// A copy's log is not taken for one that was moved.
#[test]
fn a_log_of_another_directory_is_not_found_elsewhere() -> Result<()> {
    let disk = SimEnv::run(SimOptions::new(93), |sim| {
        let env: SharedEnv = sim.clone();
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        put(&open(&env, &on_medium())?, "key", "value")?;
        Ok::<_, Error>(sim.disk())
    })?;
    simulate(193, |env| {
        bring_to(env, &disk, DIR, "/copy")?;
        bring_to(env, &disk, MEDIUM, "/other")?;
        let refused = Store::open(&process(env)?, Path::new("/copy"), elsewhere()).map(drop);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("belongs to /db"), "{refused}");
        Ok(())
    })
}
