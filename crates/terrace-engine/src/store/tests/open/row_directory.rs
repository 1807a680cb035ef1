//! Goal: tables of L0 that lie in a directory of their own are rows like any other, and what is
//! below L0 lies in the range's directory. Method: a medium beside the range, and a look at both.

use std::path::PathBuf;

use terrace_base::{Epoch, FileId, KeyRange, LevelNo};

use crate::Error;
use crate::check::{CheckDepth, check_dir};
use crate::options::L0Kind;
use crate::placement::TableMedium;
use crate::store::tests::*;
use crate::table::{LocalTableStore, TableStore};

const MEDIUM: &str = "/medium";

fn on_medium() -> Options {
    Options {
        l0: L0Options::on_medium(MEDIUM, 128 << 10),
        research: Research { l0_cut_all: true, ..Research::default() },
        ..small()
    }
}

/// The tables in the one directory on the medium.
fn on_it(env: &SharedEnv) -> (PathBuf, Vec<FileId>) {
    let mut dirs = env.fs().list(Path::new(MEDIUM)).unwrap();
    dirs.retain(|entry| !entry.name.ends_with(".claim"));
    let dir = Path::new(MEDIUM).join(dirs.pop().expect("a row directory").name);
    assert!(dirs.is_empty(), "{dirs:?}");
    let tables = LocalTableStore::new(Arc::clone(env), dir.clone()).list().unwrap();
    (dir, tables.into_iter().map(|(id, _)| id).collect())
}

fn fill(store: &Store, round: u32) -> Result<()> {
    for key in 0..300 {
        put(store, &format!("{:04}", key * 7 % 300), &format!("{round}").repeat(100))?;
    }
    Ok(())
}

fn expect(store: &Store, round: u32) -> Result<()> {
    for key in 0..300 {
        let found = get(store, &format!("{key:04}"))?;
        assert_eq!(found, Some(format!("{round}").repeat(100)), "{key}");
    }
    // A check knows tables only.
    if !store.inner.versions.current().has_rows_in_pages() {
        assert!(store.check(&mut |_, _| ())?.is_clean());
    }
    Ok(())
}

/// Where the tables of a range are: (rows on the medium, rows elsewhere, tables of levels).
fn places(store: &Store) -> (usize, usize, usize) {
    let version = store.inner.versions.current();
    let is_there =
        |table: &Arc<crate::version::Table>| table.meta().location.medium() == TableMedium::Rows;
    let rows = version.l0().tables();
    let of_levels: Vec<_> = version.runs().flat_map(|(_, run)| run.tables()).collect();
    assert!(!of_levels.iter().any(|table| is_there(table)), "a level is no row");
    let there = rows.iter().filter(|table| is_there(table)).count();
    (there, rows.len() - there, of_levels.len())
}

#[test]
fn rows_lie_on_the_medium_and_levels_do_not() -> Result<()> {
    simulate(61, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        for round in 0..6 {
            let store = open(env, &on_medium())?;
            fill(&store, round)?;
            store.flush()?;
            expect(&store, round)?;
            let (there, elsewhere, _) = places(&store);
            assert!(there > 0 && elsewhere == 0, "{there} {elsewhere}");
            let stats = store.stats();
            assert_eq!(stats.l0_medium_bytes, stats.flush_bytes);
            assert_eq!(stats.disk_table_bytes(), stats.compaction_write_bytes);
        }
        let store = open(env, &on_medium())?;
        store.compact(&KeyRange::all())?;
        store.settle();
        let (there, elsewhere, of_levels) = places(&store);
        assert!(there + elsewhere == 0 && of_levels > 0);
        expect(&store, 5)?;
        assert!(on_it(env).1.is_empty(), "nothing stays behind");
        Ok(())
    })
}

/// A single row that meets nothing could go down as it is, but not from there.
#[test]
fn a_lone_row_is_written_anew() -> Result<()> {
    simulate(62, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let options = Options { research: Research::default(), ..on_medium() };
        let store = open(env, &options)?;
        fill(&store, 0)?;
        store.flush()?;
        let (there, _, of_levels) = places(&store);
        assert!(there > 0 && of_levels == 0);
        store.compact(&KeyRange::all())?;
        assert!(places(&store).2 > 0);
        let stats = store.stats();
        assert!(stats.compaction_count > 0 && stats.move_count == 0, "{stats}");
        expect(&store, 0)
    })
}

#[test]
fn bytes_bound_it_and_a_cut_takes_all() -> Result<()> {
    simulate(63, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let store = open(env, &on_medium())?;
        let mut most = 0;
        for round in 0..12 {
            fill(&store, round)?;
            let fill = store.inner.versions.current().l0().policy().fill();
            let part = |percent: u64| (128 << 10) * percent / 100;
            assert_eq!((fill.slow, fill.stop), (part(70), part(100)));
            most = most.max(fill.used);
        }
        store.settle();
        // A flush that had begun is not stopped by what the medium holds.
        let row = 5 * (24 << 10);
        assert!(most <= (128 << 10) + row, "{most}");
        let cuts = store.compactions();
        let cuts: Vec<_> = cuts.iter().filter(|done| done.from == 0).collect();
        assert!(!cuts.is_empty());
        for cut in cuts {
            let own = cut.read_bytes - cut.met_bytes;
            assert!(own >= (128 << 10) * 60 / 100, "{cut:?} takes all that made it due");
            assert!(cut.written_bytes > 0 && cut.to > 0);
        }
        expect(&store, 11)
    })
}

#[test]
fn what_an_interrupted_job_left_is_removed() -> Result<()> {
    simulate(64, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let store = open(env, &on_medium())?;
        fill(&store, 1)?;
        store.flush()?;
        drop(store);
        let (dir, before) = on_it(env);
        let garbage = FileId { epoch: Epoch(1), counter: 1 << 40 };
        let tables = LocalTableStore::new(Arc::clone(env), dir);
        tables.create(garbage, LevelNo(1), 0)?.finish()?;
        tables.sync(LevelNo(1))?;
        let store = open(env, &on_medium())?;
        assert_eq!(store.recovery().orphan_count, 1);
        assert_eq!(on_it(env).1, before);
        expect(&store, 1)
    })
}

#[test]
fn a_range_changes_its_kind_and_its_medium() -> Result<()> {
    simulate(65, |env| {
        for dir in [MEDIUM, "/other"] {
            env.fs().create_dir_all(Path::new(dir))?;
        }
        let other = Options { l0: L0Options::on_medium("/other", 128 << 10), ..on_medium() };
        let container = of_kind(small(), L0Kind::Container, MEDIUM, 128 << 10);
        let memtables = of_kind(small(), L0Kind::PmemMemtable, MEDIUM, 128 << 10);
        let kinds = [small(), on_medium(), container, on_medium(), other, memtables, small()];
        for (round, options) in kinds.iter().enumerate() {
            let store = open(env, options)?;
            if round > 0 {
                expect(&store, round as u32 - 1)?;
            }
            fill(&store, round as u32)?;
            store.flush()?;
            expect(&store, round as u32)?;
            drop(store);
        }
        let store = open(env, &small())?;
        store.compact(&KeyRange::all())?;
        drop(store);
        let store = open(env, &small())?;
        expect(&store, 6)?;
        assert_eq!(store.inner.versions.current().media().row_directory, None);
        assert!(on_it(env).1.is_empty());
        Ok(())
    })
}

#[test]
fn a_medium_that_is_not_there_is_said_to_be_missing() -> Result<()> {
    simulate(66, |env| {
        let refused = open(env, &on_medium()).expect_err("there is no such directory");
        assert!(matches!(&refused, Error::Invalid(text) if text.contains(MEDIUM)), "{refused}");
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let store = open(env, &on_medium())?;
        fill(&store, 1)?;
        store.flush()?;
        drop(store);
        let (dir, tables) = on_it(env);
        assert!(check_dir(env, Path::new(DIR), CheckDepth::Full, &mut |_, _| ())?.is_clean());
        for id in &tables {
            env.fs().remove(&dir.join(format!("{id}.table")))?;
        }
        let lost = open(env, &on_medium()).expect_err("its tables are gone");
        assert!(
            matches!(&lost, Error::Corruption(c) if c.to_string().contains("missing")),
            "{lost}"
        );
        let report = check_dir(env, Path::new(DIR), CheckDepth::Full, &mut |_, _| ())?;
        assert!(!report.is_clean());
        Ok(())
    })
}

#[test]
fn a_checkpoint_needs_no_medium() -> Result<()> {
    simulate(67, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let store = open(env, &on_medium())?;
        fill(&store, 3)?;
        store.flush()?;
        assert!(places(&store).0 > 0);
        store.checkpoint(Path::new("/copy"), &mut |_, _| true)?;
        let copy = Store::open(&process(env)?, Path::new("/copy"), small())?;
        assert_eq!(copy.inner.versions.current().media().row_directory, None);
        expect(&copy, 3)
    })
}

/// In an area without a name, and what a power cut takes of it the log brings back.
#[test]
fn large_memtables_lie_on_the_medium_of_l0() -> Result<()> {
    simulate(69, |env| {
        let options = Options { dranges: 1, ..small() };
        let options = of_kind(options, L0Kind::PmemMemtable, MEDIUM, 256 << 10);
        let refused = open(env, &options).expect_err("there is no such directory");
        assert!(matches!(&refused, Error::Invalid(text) if text.contains(MEDIUM)), "{refused}");
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        for round in 0..3 {
            let store = open(env, &options)?;
            if round > 0 {
                expect(&store, 3 * round - 1)?;
            }
            for fill_round in 3 * round..3 * round + 3 {
                fill(&store, fill_round)?;
            }
            assert!(env.fs().list(Path::new(MEDIUM))?.is_empty(), "its file has lost its name");
            store.settle();
            let area = store.l0()?.memtables.expect("memtables are on the medium");
            assert_eq!((area.medium, area.memtable_bytes), ("simulated", 128 << 10));
            assert_eq!(area.elsewhere_count, 0);
            assert!(store.l0()?.to_string().contains("memtables   simulated, of 128.0 KiB"));
            expect(&store, 3 * round + 2)?;
        }
        Ok(())
    })
}

/// Two memtables of half of the bytes each, whatever their size would be otherwise.
#[test]
fn large_memtables_take_the_bytes_of_l0() -> Result<()> {
    simulate(68, |env| {
        env.fs().create_dir_all(Path::new(MEDIUM))?;
        let options = Options { dranges: 1, ..small() };
        let options = of_kind(options, L0Kind::PmemMemtable, MEDIUM, 256 << 10);
        let store = open(env, &options)?;
        assert_eq!(store.inner.options.memtable_bytes, 128 << 10);
        for round in 0..8 {
            fill(&store, round)?;
        }
        store.settle();
        let stats = store.stats();
        assert!(stats.flush_count > 0 && stats.l0_medium_bytes == 0);
        let each = stats.flush_bytes / stats.flush_count;
        assert!(each > 24 << 10, "{each} bytes are more than the memtables of before held");
        expect(&store, 7)
    })
}

#[test]
fn nothing_is_begun_for_a_medium_that_is_not_there() -> Result<()> {
    use L0Kind::{Container, Matrix, Plain, PmemMemtable};
    [Plain, Container, Matrix, PmemMemtable].into_iter().try_for_each(|kind| {
        simulate(9, |env| {
            let options = of_kind(small(), kind, "/missing", 128 << 10);
            let error = open(env, &options).expect_err("there is no such directory");
            assert!(error.to_string().contains("l0_path /missing is no directory"), "{error}");
            let store = open(env, &small())?;
            assert!(store.recovery().is_new, "{kind:?}");
            store.close()
        })
    })
}
