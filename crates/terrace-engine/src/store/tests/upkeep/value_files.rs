//! Goal: value files stay few, and whatever becomes of them changes no value. Method: files are
//! made small, or damaged, and counted.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use terrace_base::{EntryKind, FileId, KeyRange};
use terrace_env::DiskImage;

use crate::Error;
use crate::iter::Stream;
use crate::options::ValueLogOptions;
use crate::process::PoolName;
use crate::store::health::Work;
use crate::store::tests::*;
use crate::store::turns::DamagedTables;
use crate::store::upkeep::values::living_of;
use crate::table::format::footer::Footer;
use crate::table::{NamesBySegment, ReadMode};
use crate::vlog::{Living, ValueHome, ValuePointer};

fn options() -> Options {
    let value_log = ValueLogOptions { large_bytes: 100, ..ValueLogOptions::default() };
    Options {
        memtable_bytes: 16 << 10,
        level_bytes_base: 1 << 20,
        value_log: Some(value_log),
        ..lazy()
    }
}

fn key(index: u64) -> String {
    format!("{index:04}")
}

fn value(index: u64, round: u64) -> String {
    format!("{index:04}/{round:04}/").repeat(32)
}

#[test]
fn the_files_of_small_flushes_become_one() -> Result<()> {
    simulate(23, |env| {
        let store = open(env, &options())?;
        let mut most = 0;
        for index in 0..120 {
            put(&store, &key(index), &value(index, 0))?;
            store.flush()?;
            store.settle();
            most = most.max(store.stats().value_log.file_count);
        }
        let stats = store.stats().value_log;
        let files_max = 16 + 4 * (stats.live_bytes / (16 << 10));
        assert!(most <= files_max, "{stats}, once {most}");
        assert!(stats.rewritten_bytes <= 2 * stats.live_bytes, "{stats}");
        assert_eq!(stats.segment_count, 120, "a value keeps its name");
        for index in 0..120 {
            assert_eq!(get(&store, &key(index))?, Some(value(index, 0)));
        }
        assert_eq!(files_with(env, ".values").len() as u64, stats.file_count, "none is left over");
        assert!(store.check(&mut |_, _| ())?.is_clean());
        store.close()?;
        let store = open(env, &options())?;
        assert_eq!(get(&store, &key(7))?, Some(value(7, 0)));
        store.close()
    })
}

/// Where the log's segments stay and are small, they become one, too; but never one of which more
/// values may be named.
#[test]
fn small_segments_of_the_log_become_one() -> Result<()> {
    simulate(24, |env| {
        let options =
            Options { memtable_bytes: 512 << 10, log_segment_bytes: 4 << 10, ..options() };
        let options = Options { log_bytes_max: 4 << 20, ..options };
        let store = open(env, &options)?;
        let round = |from: u64| -> Result<()> {
            (from..from + 400).try_for_each(|index| put(&store, &key(index), &value(index, 1)))?;
            store.flush()
        };
        round(0)?;
        store.settle();
        round(400)?;
        let most = store.stats().value_log;
        assert!(most.in_log_count > 16, "{most}");
        round(800)?;
        store.settle();
        let stats = store.stats().value_log;
        assert!(stats.file_count <= 16 + 1 && stats.rewritten_bytes > 0, "{stats}");
        for index in 0..1200 {
            assert_eq!(get(&store, &key(index))?, Some(value(index, 1)));
        }
        assert!(store.check(&mut |_, _| ())?.is_clean());
        store.close()
    })
}

/// Damages a value wherever it lies in a value file.
fn damage(disk: &mut DiskImage, value: &str) {
    let is_values = |path: &Path| path.extension().is_some_and(|one| one == "values");
    let files: Vec<_> = disk.files().into_iter().map(|(path, _)| path).collect();
    let mut found = 0;
    for path in files.into_iter().filter(|path| is_values(path)) {
        let bytes = disk.read(&path).expect("it is there");
        let places = bytes.windows(value.len()).enumerate();
        for (at, _) in places.filter(|(_, some)| *some == value.as_bytes()) {
            found += 1;
            disk.write(&path, at as u64, b"?").expect("it is there");
        }
    }
    assert!(found > 0, "the value lies in a file");
}

/// One damaged value keeps neither small files apart nor garbage elsewhere.
#[test]
fn a_damaged_value_stays_an_error_of_its_key_and_holds_nobody_up() -> Result<()> {
    const KEYS: u64 = 240;
    let mut image = killed(22, |env| {
        let store = open(env, &options())?;
        for index in 0..KEYS {
            put(&store, &key(index), &value(index, 0))?;
            if index % 12 == 0 {
                store.flush()?;
            }
        }
        store.close()?;
        Ok(store)
    });
    damage(&mut image, &value(40, 0));
    after_crash(image, |env| {
        let store = open(env, &options())?;
        let is_hot = |index: &u64| *index != 40 && !index.is_multiple_of(6);
        for round in 1..5 {
            for index in (0..KEYS).filter(is_hot) {
                put(&store, &key(index), &value(index, round))?;
            }
            store.compact(&KeyRange::all())?;
            env.sleep(Duration::from_secs(60));
            store.settle();
        }
        for index in 0..KEYS {
            match get(&store, &key(index)) {
                Err(Error::Corruption(_)) => assert_eq!(index, 40),
                found => {
                    let round = if is_hot(&index) { 4 } else { 0 };
                    assert_eq!(found?, Some(value(index, round)), "{index}");
                }
            }
        }
        let space = store.inner.versions.current().value_space();
        let allowed = store.inner.shape.values.garbage_bytes_max(&space).expect("it has a bound");
        let spared = 2 * (16 << 10);
        assert!(space.garbage_bytes() <= allowed + spared, "{space:?}, allowed {allowed}");
        Ok(())
    })
}

/// Goal: what a rewrite gathers is counted, and it ends when nobody wants it any more. Method:
/// values of segments of the log, which lie there in another order than that of their keys.
#[test]
fn a_rewrite_counts_what_it_gathers_and_can_be_cancelled() -> Result<()> {
    simulate(25, |env| {
        let options = Options { memtable_bytes: 4 << 20, log_segment_bytes: 1 << 20, ..options() };
        let options = Options { log_bytes_max: 16 << 20, ..options };
        let store = open(env, &options)?;
        let keys = || (0..6000).map(|index| index * 7919 % 6000);
        keys().try_for_each(|index| put(&store, &key(index), &value(index, 0)))?;
        store.flush()?;
        let version = store.inner.versions.current();
        let of_log = version.values().iter().filter(|file| file.meta().home == ValueHome::Log);
        let file = of_log.max_by_key(|file| file.meta().bytes).expect("one stays");
        let looks = Cell::new(0);
        let after = |count: u32| {
            looks.set(0);
            let looks = &looks;
            move || {
                looks.set(looks.get() + 1);
                looks.get() > count
            }
        };
        let is_closed = |error: Option<Error>| matches!(error, Some(Error::Closed));
        let living = |stop: &dyn Fn() -> bool| {
            living_of(&version, &[file], &mut DamagedTables::default(), stop)
        };
        assert!(is_closed(living(&after(0)).err()));
        let names = living(&|| false)?;
        let named: usize = names.values().map(Vec::len).sum();
        let walk = |stop: &dyn Fn() -> bool| Living::new(Arc::clone(file), &names, stop);
        assert!(is_closed(walk(&after(3)).err()));
        assert_eq!(looks.get(), 4, "of {named} values");
        let mut living = walk(&|| false)?;
        let mut before = Vec::new();
        let mut count = 0;
        while let Some((_, entry)) = living.current() {
            assert!(before.as_slice() < entry.key, "in the order of their keys");
            (before, count) = (entry.key.to_vec(), count + 1);
            living.advance()?;
        }
        assert_eq!(count, named);

        let jobs = store.inner.process.memory().pool(PoolName::Jobs);
        let before = jobs.peak_bytes();
        let half = || keys().filter(|index| index % 2 == 0);
        half().try_for_each(|index| put(&store, &key(index), &value(index, 1)))?;
        store.compact(&KeyRange::all())?;
        store.settle();
        assert!(store.stats().value_log.rewritten_bytes > 500 << 10, "{}", store.stats().value_log);
        assert!(jobs.peak_bytes() > before + (500 << 10), "{before}, then {}", jobs.peak_bytes());
        let used = jobs.used_bytes();
        assert!(used < 100 << 10, "{used} bytes are left");
        for index in half() {
            assert_eq!(get(&store, &key(index))?, Some(value(index, 1)));
        }
        store.close()
    })
}

/// What tables of a version name in all of its value files, by their lists and by their entries.
fn named_both_ways(store: &Store) -> Result<(NamesBySegment, NamesBySegment)> {
    let version = store.inner.versions.current();
    let files: Vec<_> = version.values().iter().collect();
    let mut damaged = DamagedTables::default();
    let listed = living_of(&version, &files, &mut damaged, &|| false)?;
    let mut pointed = NamesBySegment::new();
    for table in version.tables() {
        let mut stream = table.reader(ReadMode::BLOCK)?.stream(table.span())?;
        while let Some(entry) = stream.entry() {
            if entry.kind == EntryKind::ValuePointer {
                let name = ValuePointer::decode(entry.value).expect("a whole pointer").name;
                pointed.entry(name.segment).or_default().push(name.offset);
            }
            stream.advance()?;
        }
    }
    for offsets in pointed.values_mut() {
        offsets.sort_unstable();
        offsets.dedup();
    }
    Ok((listed, pointed))
}

/// Goal: of what a table says twice, either is enough. Method: one of both is damaged, then the
/// other, then both.
#[test]
fn entries_and_lists_of_a_table_stand_in_for_each_other() -> Result<()> {
    let image = killed(26, |env| {
        let store = open(env, &options())?;
        for index in 0..240 {
            put(&store, &key(index), &value(index, 0))?;
        }
        store.compact(&KeyRange::all())?;
        store.settle();
        let (listed, pointed) = named_both_ways(&store)?;
        assert!(!listed.is_empty() && listed == pointed, "{listed:?} {pointed:?}");
        store.close()?;
        Ok(store)
    });
    for part in ["entries", "lists", "both"] {
        let mut image = image.clone();
        damage_tables(&mut image, part != "lists", part != "entries");
        after_crash(image, |env| {
            let store = open(env, &options())?;
            let version = store.inner.versions.current();
            let files: Vec<_> = version.values().iter().collect();
            let mut damaged = DamagedTables::default();
            let outcome = living_of(&version, &files, &mut damaged, &|| false);
            match part {
                "both" => assert!(matches!(outcome, Err(Error::Corruption(_)))),
                _ => assert_eq!(outcome?.values().map(Vec::len).sum::<usize>(), 240, "{part}"),
            }
            assert_eq!(damaged.unreadable.len(), usize::from(part == "both"), "{part}");
            assert_eq!(damaged.lists_told.len(), usize::from(part != "entries"), "{part}");
            store.close()
        })?;
    }
    Ok(())
}

/// Damages the first block of entries of each table, or the first frame of its lists.
fn damage_tables(image: &mut DiskImage, entries: bool, lists: bool) {
    let is_table = |path: &Path| path.extension().is_some_and(|one| one == "table");
    let files: Vec<_> = image.files().into_iter().map(|(path, _)| path).collect();
    for path in files.into_iter().filter(|path| is_table(path)) {
        let bytes = image.read(&path).expect("it is there");
        let footer = Footer::decode(bytes.last_chunk().expect("it has one"), bytes.len() as u64);
        let footer = footer.expect("it is whole");
        assert!(!footer.names.is_none(), "{} has lists", path.display());
        for (is_hit, at) in [(entries, 40), (lists, footer.names.offset + 1)] {
            if is_hit {
                image.write(&path, at, &[bytes[at as usize] ^ 1]).expect("it is there");
            }
        }
    }
}

/// Goal: what a table cannot say keeps those files that it names, and no others. Method: a table
/// whose value files are mostly garbage is damaged; then keys that it does not have are
/// overwritten.
#[test]
fn a_damaged_table_keeps_the_garbage_of_no_files_but_its_own() -> Result<()> {
    let early = |index: u64| format!("a{index:04}");
    let late = |index: u64| format!("b{index:04}");
    let mut image = killed(26, |env| {
        let value_log = options().value_log.map(|one| ValueLogOptions { rewrites: false, ..one });
        let store = open(env, &Options { value_log, ..options() })?;
        (0..240).try_for_each(|index| put(&store, &early(index), &value(index, 0)))?;
        store.flush()?;
        let most = (0..240).filter(|index| index % 12 != 0);
        most.clone().try_for_each(|index| put(&store, &early(index), &value(index, 1)))?;
        store.compact(&KeyRange::all())?;
        store.settle();
        store.close()?;
        Ok(store)
    });
    damage_tables(&mut image, true, true);
    after_crash(image, |env| {
        let store = open(env, &options())?;
        let kept: BTreeSet<FileId> =
            store.inner.versions.current().values().iter().map(|file| file.meta().id).collect();
        for round in 1..8 {
            (0..240).try_for_each(|index| put(&store, &late(index), &value(index, round)))?;
            store.flush()?;
            let damage = store.compact(&KeyRange::new("b", Some(b"c".to_vec())));
            assert!(matches!(damage, Ok(()) | Err(Error::Corruption(_))), "{damage:?}");
            env.sleep(Duration::from_secs(60));
            store.settle();
        }
        let version = store.inner.versions.current();
        let files: BTreeSet<FileId> = version.values().iter().map(|file| file.meta().id).collect();
        assert!(files.is_superset(&kept), "what may live stays");
        let unreadable = store.inner.turns.values.lock().damaged_tables.unreadable.len();
        assert!(unreadable > 0, "the table was asked");
        assert!(store.inner.health.problem(Work::Values).is_none(), "it was told and is over");
        assert!(!store.inner.keep_values()?, "nothing more is due");
        let new = version.values().iter().filter(|file| !kept.contains(&file.meta().id));
        let new_bytes: u64 = new.map(|file| file.meta().bytes).sum();
        let live_bytes = 240 * value(0, 0).len() as u64;
        let floor = 8 * (16 << 10);
        assert!(new_bytes < 2 * live_bytes + floor, "{new_bytes} for {live_bytes}");
        for index in 0..240 {
            assert_eq!(get(&store, &late(index))?, Some(value(index, 7)));
        }
        store.close()
    })
}
