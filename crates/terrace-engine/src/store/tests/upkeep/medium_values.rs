//! Medium values: apart above the last level, in its tables there; and a value log of every value.

use std::path::Path;

use terrace_base::{EntryKind, Expiry, KeyRange, LEVEL_MAX};
use terrace_env::{Fault, FaultEffect, FaultErrno, FaultPlan, Operation};

use crate::check::{CheckDepth, check_dir};
use crate::compaction::{pointers_from, short_value_bytes};
use crate::iter::Stream;
use crate::options::{L0Kind, ValueLogOptions};
use crate::store::tests::*;
use crate::store::{GetOptions, ValueLogStats, WriteOptions};
use crate::table::ReadMode;
use crate::vlog::ValueHome;
use crate::{Error, WriteBatch};

const KEYS: usize = 150;
const SMALL: usize = 20;
const MEDIUM: usize = 200;
const LARGE: usize = 400;

const CLASSES: ValueLogOptions = ValueLogOptions {
    large_bytes: 300,
    medium_bytes: 100,
    space_ratio_percent: 130,
    rewrites: true,
};

fn with_classes() -> Options {
    Options { value_log: Some(CLASSES), ..small() }
}

/// Nothing but what a test asks for is compacted.
fn at_rest() -> Options {
    Options { value_log: Some(CLASSES), ..lazy() }
}

fn key(index: usize) -> String {
    format!("key {index:04}")
}

fn value_of(index: usize, round: usize, bytes: usize) -> String {
    let head = format!("{index}.{round}.");
    format!("{head}{}", "x".repeat(bytes - head.len()))
}

/// A value of a key in a round, of each class for one key of three.
fn value(index: usize, round: usize) -> String {
    value_of(index, round, [SMALL, MEDIUM, LARGE][index % 3])
}

fn write_round(store: &Store, round: usize) -> Result<()> {
    (0..KEYS).try_for_each(|index| put(store, &key(index), &value(index, round)))
}

fn assert_round(store: &Store, round: usize) -> Result<()> {
    for index in 0..KEYS {
        assert_eq!(get(store, &key(index))?, Some(value(index, round)), "{index}");
    }
    Ok(())
}

fn values(store: &Store) -> ValueLogStats {
    store.stats().value_log
}

/// How many values of each kind the tables of levels have, and how many pointers.
fn in_levels(store: &Store) -> Result<(usize, usize)> {
    let (mut whole, mut pointers) = (0, 0);
    let version = store.inner.versions.current();
    for table in version.runs().flat_map(|(_, run)| run.tables()) {
        let mut stream = table.reader(ReadMode::BLOCK)?.stream(&table.meta().clip)?;
        while let Some(entry) = stream.entry() {
            whole += usize::from(entry.kind == EntryKind::Value);
            pointers += usize::from(entry.kind == EntryKind::ValuePointer);
            stream.advance()?;
        }
    }
    Ok((whole, pointers))
}

#[test]
fn medium_values_stand_apart_above_the_last_level_and_in_place_there() -> Result<()> {
    for l0_kind in [L0Kind::Plain, L0Kind::Container] {
        simulate(71, |env| {
            let options = match l0_kind {
                L0Kind::Plain => at_rest(),
                kind => in_pages(at_rest(), kind, 256 << 10),
            };
            let store = open(env, &options)?;
            write_round(&store, 0)?;
            store.flush()?;
            let version = store.inner.versions.current();
            let named = version.tables().flat_map(|table| table.meta().named.iter());
            let apart: u64 = named.map(|one| one.count).sum();
            assert_eq!(apart, 2 * KEYS as u64 / 3, "both classes stand apart in L0");
            assert_round(&store, 0)?;
            store.compact(&KeyRange::all())?;
            store.settle();
            assert_eq!(in_levels(&store)?, (2 * KEYS / 3, KEYS / 3));
            assert_eq!(values(&store).in_place_bytes, (KEYS / 3 * MEDIUM) as u64);
            assert!(values(&store).to_string().contains("medium values in tables again"));
            assert_round(&store, 0)?;
            let version = store.inner.versions.current();
            let short: u64 =
                version.tables().map(|table| short_value_bytes(table.meta(), 300)).sum();
            assert_eq!(short, 0, "no file of medium values is named any more");
            let most = small().table_bytes * 4 / 3 + 2_000;
            assert!(
                version.tables().all(|table| table.meta().bytes <= most),
                "they are in the size"
            );
            assert!(store.check(&mut |_, _| ())?.is_clean());
            store.close()
        })?;
    }
    Ok(())
}

#[test]
fn a_medium_value_does_not_stay_in_the_log_though_its_segment_does() -> Result<()> {
    simulate(72, |env| {
        let store = open(env, &at_rest())?;
        for index in 0..KEYS {
            let bytes = if index % 10 == 0 { MEDIUM } else { LARGE };
            put(&store, &key(index), &value_of(index, 0, bytes))?;
        }
        store.flush()?;
        let version = store.inner.versions.current();
        let metas: Vec<_> = version.values().iter().map(|file| file.meta()).collect();
        let in_log = metas.iter().filter(|file| file.home == ValueHome::Log).count();
        assert!(in_log >= 2, "{}", values(&store));
        let named: Vec<_> = version.tables().flat_map(|table| table.meta().named.iter()).collect();
        let medium_bytes = (32 + key(0).len() + MEDIUM) as u64;
        let of_medium: Vec<_> =
            named.iter().filter(|one| one.bytes == one.count * medium_bytes).collect();
        assert_eq!(of_medium.iter().map(|one| one.count).sum::<u64>(), KEYS as u64 / 10);
        for one in of_medium {
            let file = version.values().of_segment(one.segment).expect("it is there").meta();
            assert_eq!(file.home, ValueHome::File);
        }
        store.compact(&KeyRange::all())?;
        assert_eq!(in_levels(&store)?, (KEYS / 10, KEYS - KEYS / 10));
        store.close()
    })
}

#[test]
fn an_expiry_goes_with_the_value_that_comes_in_place() -> Result<()> {
    simulate(73, |env| {
        let store = open(env, &at_rest())?;
        let at = terrace_base::WallTime(env.wall_time().0 + 60_000);
        let mut batch = WriteBatch::new();
        let text = value_of(0, 0, MEDIUM);
        batch.put_with_expiry(b"passing", text.as_bytes(), Some(Expiry::at(at)))?;
        store.write(&batch, &WriteOptions::default())?;
        put(&store, "staying", &text)?;
        store.compact(&KeyRange::all())?;
        assert_eq!(in_levels(&store)?, (2, 0));
        assert_eq!(get(&store, "passing")?, Some(text.clone()));
        env.sleep(std::time::Duration::from_secs(61));
        assert_eq!(get(&store, "passing")?, None);
        assert_eq!(get(&store, "staying")?, Some(text));
        store.close()
    })
}

/// Goal: what no reader sees is not read. Method: most of what was written is overwritten, deleted
/// by key or as an interval; the rest is seen by a snapshot, or lives.
#[test]
fn only_what_survives_is_brought_in_place() -> Result<()> {
    simulate(74, |env| {
        let store = open(env, &at_rest())?;
        let write = |round| {
            (0..30).try_for_each(|index| put(&store, &key(index), &value_of(index, round, MEDIUM)))
        };
        write(0)?;
        store.flush()?;
        write(1)?;
        let snapshot = store.snapshot();
        write(2)?;
        store.flush()?;
        delete(&store, &key(0))?;
        delete_range(&store, &key(10), &key(20))?;
        store.compact(&KeyRange::all())?;
        assert_eq!(values(&store).in_place_bytes, ((30 + 19) * MEDIUM) as u64);
        for index in 0..30 {
            let item = snapshot.get(key(index).as_bytes(), &GetOptions::default())?;
            let found = item.map(|item| String::from_utf8(item.value).expect("text"));
            assert_eq!(found, Some(value_of(index, 1, MEDIUM)));
            let lives = index != 0 && !(10..20).contains(&index);
            assert_eq!(get(&store, &key(index))?, lives.then(|| value_of(index, 2, MEDIUM)));
        }
        drop(snapshot);
        store.close()
    })
}

#[test]
fn operands_are_folded_over_a_medium_value_that_stands_apart() -> Result<()> {
    simulate(75, |env| {
        let store = open(env, &at_rest())?;
        let text = value_of(1, 0, MEDIUM);
        put(&store, "k", &text)?;
        put(&store, "grows", &text)?;
        store.flush()?;
        merge(&store, "k", "+")?;
        merge(&store, "grows", &"y".repeat(LARGE))?;
        store.compact(&KeyRange::all())?;
        assert_eq!(in_levels(&store)?, (1, 1), "one has become large");
        assert_eq!(get(&store, "k")?, Some(format!("{text}+")));
        assert_eq!(get(&store, "grows")?, Some(format!("{text}{}", "y".repeat(LARGE))));
        store.close()
    })
}

/// Goal: bounds may change between opens, and the tree follows as compactions come by.
#[test]
fn the_tree_follows_bounds_that_change_between_opens() -> Result<()> {
    simulate(76, |env| {
        let bounds = |large_bytes, medium_bytes| ValueLogOptions {
            large_bytes,
            medium_bytes,
            ..ValueLogOptions::default()
        };
        let rounds = [
            // Without a medium class what is apart stays so.
            (Some(bounds(100, 100)), (KEYS / 3, 2 * KEYS / 3)),
            (Some(bounds(300, 100)), (2 * KEYS / 3, KEYS / 3)),
            (Some(bounds(1000, 100)), (KEYS, 0)),
            (None, (KEYS, 0)),
            (Some(ValueLogOptions::every_value()), (0, KEYS)),
            (None, (KEYS, 0)),
            (Some(bounds(100, 50)), (KEYS / 3, 2 * KEYS / 3)),
        ];
        for (round, (value_log, wanted)) in rounds.into_iter().enumerate() {
            let store = open(env, &Options { value_log, ..lazy() })?;
            write_round(&store, round)?;
            store.compact(&KeyRange::all())?;
            assert_eq!(in_levels(&store)?, wanted, "{round}");
            assert_round(&store, round)?;
            store.close()?;
        }
        Ok::<(), Error>(())
    })?;
    // What was written under one bound is met by compactions under another.
    simulate(77, |env| {
        let store = open(env, &at_rest())?;
        write_round(&store, 0)?;
        store.close()?;
        let wider = ValueLogOptions { large_bytes: 1000, ..CLASSES };
        let store = open(env, &Options { value_log: Some(wider), ..lazy() })?;
        put(&store, &key(0), &value(0, 0))?;
        store.compact(&KeyRange::all())?;
        assert_eq!(in_levels(&store)?, (KEYS, 0));
        assert_round(&store, 0)?;
        store.settle();
        assert_eq!(values(&store).file_count, 0);
        store.close()
    })
}

#[test]
fn a_damaged_medium_value_stays_where_it_is_and_stops_no_compaction() -> Result<()> {
    let image = killed(78, |env| {
        let store = open(env, &at_rest())?;
        write_round(&store, 0)?;
        store.flush()?;
        store.close()?;
        Ok(store)
    });
    let needle = value(49, 0);
    let find = |(path, _): (std::path::PathBuf, _)| {
        let is_values = path.extension().is_some_and(|extension| extension == "values");
        let bytes = image.read(&path).ok().filter(|_| is_values)?;
        let at = bytes.windows(needle.len()).position(|some| some == needle.as_bytes())? + 100;
        Some((path, at, bytes))
    };
    let (path, at, bytes) = image.files().into_iter().find_map(find).expect("it is in a file");
    let mut damaged = image;
    damaged.write(&path, at as u64, &[bytes[at] ^ 1]).expect("it is there");
    after_crash(damaged, |env| {
        let store = open(env, &at_rest())?;
        store.compact(&KeyRange::all())?;
        assert_eq!(in_levels(&store)?, (2 * KEYS / 3 - 1, KEYS / 3 + 1));
        let error = get(&store, &key(49)).expect_err("the value is damaged");
        assert!(matches!(&error, Error::Corruption(damage) if damage.file == path), "{error}");
        for index in (0..KEYS).filter(|index| *index != 49) {
            assert_eq!(get(&store, &key(index))?, Some(value(index, 0)));
        }
        Ok(())
    })
}

#[test]
fn values_of_a_file_that_cannot_be_read_stay_where_they_are_and_nothing_is_lost() -> Result<()> {
    with_faults(79, |_, faults, env| {
        let store = open(env, &at_rest())?;
        write_round(&store, 0)?;
        store.flush()?;
        let fault = Fault::nth(Operation::Read, 1, FaultEffect::Error(FaultErrno::Io));
        faults.set_plan(FaultPlan::one(fault.on(".values")));
        store.compact(&KeyRange::all())?;
        assert!(!faults.injected().is_empty());
        let (_, pointers) = in_levels(&store)?;
        assert!(pointers > KEYS / 3, "{pointers} of {KEYS}, of which a third is large");
        assert_round(&store, 0)?;
        write_round(&store, 0)?;
        store.flush()?;
        store.compact(&KeyRange::all())?;
        store.settle();
        assert_eq!(in_levels(&store)?, (2 * KEYS / 3, KEYS / 3));
        assert_round(&store, 0)?;
        let tables = store.inner.versions.current().tables().count();
        assert_eq!(files_with(env, ".table").len(), tables, "nothing of the failed one is left");
        store.close()
    })
}

/// Goal: in a tree of several levels medium values are apart above, and in place at the bottom, and
/// their files go. Method: rounds of overwrites that go through all levels by themselves.
#[test]
fn files_of_medium_values_go_as_these_come_in_place() -> Result<()> {
    simulate(80, |env| {
        let store = open(env, &with_classes())?;
        for round in 0..12 {
            for index in 0..4 * KEYS {
                put(&store, &key(index), &value_of(index, round, MEDIUM))?;
            }
        }
        store.settle();
        let stats = values(&store);
        let all = (4 * KEYS * MEDIUM) as u64;
        assert!(stats.in_place_bytes > all / 2, "{stats}");
        assert!(stats.removed_bytes > 8 * all, "{stats}");
        assert!(stats.bytes < 2 * all, "{stats}");
        for index in 0..4 * KEYS {
            assert_eq!(get(&store, &key(index))?, Some(value_of(index, 11, MEDIUM)));
        }
        let version = store.inner.versions.current();
        assert!(!version.run(LEVEL_MAX).is_empty());
        assert_eq!(files_with(env, ".values").len() as u64, stats.file_count);
        // A view keeps the files that it reads.
        drop(version);
        store.compact(&KeyRange::all())?;
        store.settle();
        assert_eq!((values(&store).file_count, files_with(env, ".values").len()), (0, 0));
        store.close()
    })
}

#[test]
fn a_level_decides_which_pointers_stay() {
    let levels = (0..=LEVEL_MAX.0).map(terrace_base::LevelNo);
    let of = |values: &ValueLogOptions| -> Vec<_> {
        levels.clone().map(|level| pointers_from(level, Some(values))).collect()
    };
    let mut wanted = vec![None; usize::from(LEVEL_MAX.0)];
    wanted.push(Some(300));
    assert_eq!(of(&CLASSES), wanted);
    let none = [
        ValueLogOptions { medium_bytes: 300, ..CLASSES },
        ValueLogOptions { large_bytes: 64, ..CLASSES },
        ValueLogOptions::every_value(),
    ];
    for values in none {
        assert!(of(&values).iter().all(Option::is_none), "{values:?}");
    }
    assert_eq!(pointers_from(LEVEL_MAX, None), None);
}

/// Goal: with a value log of every value nothing but keys is in tables, whatever a value's length,
/// and what is written once stays where the log has it. Method: values of all lengths from none on,
/// alone and many in a batch; overwrites, a check, and an open in between.
#[test]
fn a_value_log_of_every_value_leaves_each_where_the_log_has_it() -> Result<()> {
    let every = Options { value_log: Some(ValueLogOptions::every_value()), ..small() };
    simulate(81, |env| {
        let text = |index: usize, round: usize| format!("{round}.{index}").repeat(index % 7);
        let store = open(env, &every)?;
        for round in 0..6 {
            for index in 0..300 {
                put(&store, &key(index), &text(index, round))?;
            }
            let mut batch = WriteBatch::new();
            for index in 300..600 {
                batch.put(key(index).as_bytes(), text(index, round).as_bytes())?;
            }
            store.write(&batch, &WriteOptions::default())?;
            if round == 0 {
                store.flush()?;
                let (files, all) = (values(&store), 600 * 20);
                assert!(files.in_log_count >= 1, "{files}");
                assert!(files.written_bytes < all, "little is copied: {files}");
            }
        }
        store.compact(&KeyRange::all())?;
        store.settle();
        assert_eq!(in_levels(&store)?, (0, 600));
        for index in 0..600 {
            assert_eq!(get(&store, &key(index))?, Some(text(index, 5)), "{index}");
        }
        store.close()?;
        let report = check_dir(env, Path::new(DIR), CheckDepth::Full, &mut |_, _| ())?;
        assert!(report.is_clean(), "{report:?}");
        let store = open(env, &every)?;
        for index in 0..600 {
            assert_eq!(get(&store, &key(index))?, Some(text(index, 5)), "{index}");
        }
        store.close()
    })
}
