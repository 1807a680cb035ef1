//! L0 in pages: what is particular to it. That it reads, crashes and fails as any other is shown
//! where that is shown for all (`model`, `crash`, `faults`), and its cuts in `l0/triangle`.

use std::path::Path;

use terrace_base::KeyRange;
use terrace_env::SeededRng;

use crate::l0::triangle::row::hints::Hinting;
use crate::l0::{Cut, CutBounds, CutEnd};
use crate::options::{L0Kind, Options};
use crate::store::tests::{DIR, get, in_pages, open, process, put, simulate, small};
use crate::store::{IterOptions, Store};
use crate::version::{OpenTable, TreeEdit};
use crate::{Error, Result};

const KINDS: [L0Kind; 3] = [L0Kind::Plain, L0Kind::Container, L0Kind::Matrix];

fn options(kind: L0Kind) -> Options {
    if kind.has_container() { in_pages(small(), kind, 128 << 10) } else { small() }
}

fn key(index: u64) -> String {
    format!("{:04}", index * 7919 % 1000)
}

/// Writes values of `round` to random keys, and notes what each key has.
fn fill(store: &Store, random: &mut SeededRng, round: usize, wanted: &mut [String]) -> Result<()> {
    for _ in 0..300 {
        let index = random.below(wanted.len() as u64);
        let value = format!("{round}/").repeat(60);
        put(store, &key(index), &value)?;
        wanted[index as usize] = value;
    }
    Ok(())
}

fn check(store: &Store, wanted: &[String]) -> Result<()> {
    for (index, value) in wanted.iter().enumerate() {
        let found = get(store, &key(index as u64))?.unwrap_or_default();
        assert_eq!(found, *value, "key {index}");
    }
    let mut iter = store.iter(IterOptions::default())?;
    let mut count = 0;
    iter.seek_to_first()?;
    while iter.entry().is_some() {
        count += 1;
        iter.next()?;
    }
    assert_eq!(count, wanted.iter().filter(|value| !value.is_empty()).count());
    let report = store.check(&mut |_, _| ())?;
    assert!(report.is_clean(), "{report}");
    Ok(())
}

fn containers(env: &terrace_env::SharedEnv) -> usize {
    let names = env.fs().list(Path::new(DIR)).expect("the directory is there");
    names.iter().filter(|entry| entry.name.ends_with(".rows")).count()
}

#[test]
fn a_range_opens_with_any_other_l0() {
    for seed in 0..12 {
        println!("seed {seed}");
        simulate(seed, |env| -> Result<()> {
            let mut random = SeededRng::new(seed);
            let mut wanted = vec![String::new(); 200];
            for round in 0..6 {
                let kind = KINDS[random.below(3) as usize];
                let store = open(env, &options(kind))?;
                check(&store, &wanted)?;
                fill(&store, &mut random, round, &mut wanted)?;
                check(&store, &wanted)?;
                if random.one_in(2) {
                    store.flush()?;
                }
                check(&store, &wanted)?;
                store.close()?;
            }
            Ok(())
        })
        .expect("nothing fails");
    }
}

#[test]
fn a_container_goes_when_it_is_empty_and_no_longer_wanted() {
    simulate(1, |env| -> Result<()> {
        let mut wanted = vec![String::new(); 200];
        let store = open(env, &options(L0Kind::Container))?;
        fill(&store, &mut SeededRng::new(1), 1, &mut wanted)?;
        store.flush()?;
        store.close()?;
        drop(store);
        assert_eq!(containers(env), 1);
        let store = open(env, &options(L0Kind::Plain))?;
        assert_eq!(containers(env), 1, "there are rows in it");
        store.compact(&KeyRange::all())?;
        check(&store, &wanted)?;
        store.close()?;
        drop(store);
        let store = open(env, &options(L0Kind::Plain))?;
        assert_eq!(containers(env), 0, "nothing is in it any more");
        check(&store, &wanted)?;
        store.close()
    })
    .expect("nothing fails");
}

#[test]
fn a_container_that_is_gone_is_damage_if_something_was_in_it() {
    simulate(2, |env| -> Result<()> {
        let mut wanted = vec![String::new(); 50];
        let store = open(env, &options(L0Kind::Container))?;
        fill(&store, &mut SeededRng::new(2), 1, &mut wanted)?;
        store.flush()?;
        let version = store.inner.versions.current();
        assert!(version.has_rows_in_pages());
        let place = version.media().container.clone().expect("this L0 has one");
        drop(version);
        store.close()?;
        drop(store);
        env.fs().remove(&place.file(Path::new(DIR)))?;
        match open(env, &options(L0Kind::Container)) {
            Err(Error::Corruption(found)) => {
                assert!(found.to_string().contains("container of L0 is missing"), "{found}");
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    })
    .expect("nothing else fails");
}

#[test]
fn what_there_are_no_pages_for_becomes_tables() {
    simulate(3, |env| -> Result<()> {
        // Nothing is cut before the container is full.
        let options = Options {
            memtable_bytes: 256 << 10,
            level_bytes_base: 1 << 30,
            ..in_pages(small(), L0Kind::Container, 64 << 10)
        };
        let store = open(env, &options)?;
        let mut wanted = vec![String::new(); 600];
        for round in 0..8 {
            fill(&store, &mut SeededRng::new(round), round as usize, &mut wanted)?;
        }
        store.flush()?;
        let version = store.inner.versions.current();
        let in_pages = |table: &&std::sync::Arc<crate::version::Table>| table.meta().is_in_pages();
        let [pages, all] =
            [version.l0().tables().iter().filter(in_pages).count(), version.l0().tables().len()];
        assert!(pages >= 1 && all > pages, "{pages} of {all} tables lie in pages");
        check(&store, &wanted)?;
        store.close()?;
        drop((store, version));
        let store = open(env, &options)?;
        check(&store, &wanted)?;
        store.close()
    })
    .expect("nothing fails");
}

/// What is proposed, and how many bytes of rows it has.
fn proposed(store: &Store, busy: &[KeyRange], bytes: u64) -> Vec<(Cut, u64)> {
    let version = store.inner.versions.current();
    let bounds = CutBounds { below: Vec::new(), busy: busy.to_vec(), bytes };
    let bytes =
        |cut: &Cut| version.l0().live().iter().map(|one| one.bytes_within(&cut.slice)).sum();
    let cuts = version.l0().policy().propose_cuts(&bounds).all();
    cuts.map(|cut| (cut.clone(), bytes(&cut))).collect()
}

#[test]
fn what_jobs_have_taken_is_left_out_of_the_turn() {
    simulate(5, |env| -> Result<()> {
        let options = Options {
            memtable_bytes: 64 << 10,
            cut_bytes: 16 << 10,
            ..in_pages(small(), L0Kind::Container, 1 << 20)
        };
        let store = open(env, &options)?;
        let mut wanted = vec![String::new(); 600];
        for round in 0..4 {
            fill(&store, &mut SeededRng::new(round), round as usize, &mut wanted)?;
            store.flush()?;
        }
        let all = proposed(&store, &[], 1);
        assert!(all.len() > 8, "{all:?}");
        // The oldest row does not begin with the first key: what is before it comes last.
        let is_within = |bytes: &u64| (8 << 10..=16 << 10).contains(bytes);
        for (cut, bytes) in &all[..all.len() - 1] {
            assert_eq!(cut.end, CutEnd::InBounds, "{cut:?} of {bytes}");
            assert!(is_within(bytes), "{cut:?} of {bytes}");
        }
        // One job after another takes the next, and then one takes what is not next.
        let mut busy = Vec::new();
        let mut left = all.clone();
        for taken in [0, 0, 3] {
            busy.push(left.remove(taken).0.slice);
            assert_eq!(proposed(&store, &busy, 1), left);
            // The same if nothing is known of what was proposed before.
            assert!(proposed(&store, &[], 2).len() == all.len());
            let anew = proposed(&store, &busy, 1);
            assert_eq!(anew[0].0.slice, left[0].0.slice, "{busy:?}");
            for (cut, bytes) in anew {
                assert!(!busy.iter().any(|busy| busy.overlaps(&cut.slice)), "{cut:?}");
                let is_last = matches!(cut.end, CutEnd::BesideJob | CutEnd::EndOfTurn);
                assert!(is_within(&bytes) || is_last, "{cut:?} of {bytes}");
            }
            assert_eq!(proposed(&store, &[], 1), all, "a job gave back what it took");
            assert_eq!(proposed(&store, &busy, 1), left);
        }
        check(&store, &wanted)?;
        store.close()
    })
    .expect("nothing fails");
}

#[test]
fn what_cuts_read_is_within_the_bounds_or_they_say_why_not() {
    let mut counted = [0; 3];
    for seed in 10..14 {
        println!("seed {seed}");
        simulate(seed, |env| -> Result<()> {
            let options = Options {
                memtable_bytes: 24 << 10,
                cut_bytes: 32 << 10,
                table_bytes: 8 << 10,
                ..in_pages(small(), L0Kind::Container, 512 << 10)
            };
            let store = open(env, &options)?;
            let mut wanted = vec![String::new(); 1000];
            for round in 0..20 {
                fill(&store, &mut SeededRng::new(seed + round), round as usize, &mut wanted)?;
            }
            store.compact(&KeyRange::new(key(0), None))?;
            let bounds = 16 << 10..=32 << 10;
            for cut in store.compactions().iter().filter(|one| one.from == 0) {
                let end = cut.cut_end.expect("what comes out of the container is a cut");
                let kind = match end {
                    CutEnd::InBounds => 0,
                    CutEnd::Unbounded => 1,
                    _ => 2,
                };
                counted[kind] += 1;
                let is_right = match end {
                    CutEnd::InBounds => bounds.contains(&cut.read_bytes),
                    CutEnd::Unbounded => true,
                    CutEnd::Undivided => cut.read_bytes > *bounds.end(),
                    _ => cut.read_bytes < *bounds.start(),
                };
                assert!(is_right, "{cut:?}");
            }
            check(&store, &wanted)?;
            store.close()
        })
        .expect("nothing fails");
    }
    let [within, forced, others] = counted;
    println!("{within} within the bounds, {forced} by hand, {others} others");
    assert!(within > 40 && forced > 0 && others < within / 4, "{counted:?}");
}

#[test]
fn a_repair_and_a_checkpoint_bring_rows_along() {
    simulate(4, |env| -> Result<()> {
        let mut wanted = vec![String::new(); 200];
        let store = open(env, &options(L0Kind::Container))?;
        for round in 0..5 {
            fill(&store, &mut SeededRng::new(round), round as usize, &mut wanted)?;
        }
        store.flush()?;
        store.settle();
        let version = store.inner.versions.current();
        assert!(version.has_rows_in_pages() && !version.l0().consumed().is_empty());
        drop(version);
        store.checkpoint(Path::new("/copy"), &mut |_, _| true)?;
        store.close()?;
        drop(store);
        let (source, target) = (Path::new(DIR), Path::new("/repaired"));
        crate::repair::repair(env, source, target, &small(), &mut |_, _| true)?;
        for dir in ["/copy", "/repaired"] {
            let store = Store::open(&process(env)?, Path::new(dir), small())?;
            check(&store, &wanted)?;
            assert!(!store.inner.versions.current().has_rows_in_pages(), "{dir}");
            store.close()?;
        }
        Ok(())
    })
    .expect("nothing fails");
}

/// What an edit comes to is worked out before it is durable. If it then is not, the next flush
/// still rests on the rows that there are.
#[test]
fn an_edit_that_is_not_installed_leaves_nothing_behind() -> Result<()> {
    simulate(81, |env| {
        let of_rows =
            Options { l0_rows_per_cut: 20, l0_rows_slow: 30, l0_rows_stop: 40, ..small() };
        let lazy = in_pages(of_rows, L0Kind::Container, 1 << 20);
        let store = open(env, &lazy)?;
        let flushed = |round: usize| -> Result<usize> {
            for index in 0..20 {
                put(&store, &key(index), &format!("{round}"))?;
            }
            store.flush()?;
            let version = store.inner.versions.current();
            let newest = version.l0().live().first().expect("it was flushed").table.clone();
            let Some(OpenTable::Row(row)) = newest.open_table() else { panic!("a row in pages") };
            Ok(row.predecessors().len())
        };
        assert_eq!((flushed(0)?, flushed(1)?), (0, 1));
        let version = store.inner.versions.current();
        let rows_removed = version.l0().rows().iter().map(|row| row.meta.id).collect();
        let edit = TreeEdit { rows_removed, ..TreeEdit::default() };
        let next = version.apply(&edit.into(), &store.inner.context).expect("the edit fits");
        assert!(next.l0().rows().is_empty());
        drop((next, version));
        assert_eq!(flushed(2)?, 2, "hints of the new row point into both");
        let found = get(&store, &key(3))?;
        assert_eq!(found.as_deref(), Some("2"));
        Ok(())
    })
}
