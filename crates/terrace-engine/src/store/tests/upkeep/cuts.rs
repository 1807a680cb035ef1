//! Goal: a cut takes its slice out of all rows and nothing else, and what it took is read below
//! from then on, by everything that reads. Method: rows over the same keys, cut slice by slice,
//! beside what was written.

use std::collections::BTreeMap;

use terrace_base::{FileId, KeyRange, LevelNo, RowId};
use terrace_env::{CrashPolicy, DiskImage};

use crate::Error;
use crate::compaction::levels::LevelShape;
use crate::compaction::pick::{self, Compaction, Taken};
use crate::l0::CutInterval;
use crate::store::tests::*;
use crate::store::{GetOptions, IterOptions, Snapshot};
use crate::version::format::{decode_manifest_header, encode_record};
use crate::version::{TreeEdit, Version, VersionEdit};

/// Slices are small.
fn options() -> Options {
    Options { memtable_bytes: 256 << 10, cut_bytes: 8 << 10, ..lazy() }
}

fn key(number: u32) -> String {
    format!("{number:04}")
}

fn one(number: u32) -> KeyRange {
    KeyRange::new(key(number), Some(format!("{}\0", key(number)).into_bytes()))
}

/// Writes all keys up to `count` and flushes them as one row.
fn row(store: &Store, count: u32, text: &str) -> Result<()> {
    for number in 0..count {
        put(store, &key(number), &format!("{text}{}", "x".repeat(100)))?;
    }
    store.flush()
}

fn version(store: &Store) -> Arc<Version> {
    store.inner.versions.current()
}

fn rows(store: &Store) -> Vec<RowId> {
    version(store).l0().rows().iter().map(|row| row.meta.id).collect()
}

fn consumed(store: &Store) -> Vec<CutInterval> {
    version(store).l0().consumed().intervals().to_vec()
}

/// Everything there is, by scans in both directions and by gets.
fn contents(store: &Store, keys: u32) -> Result<BTreeMap<String, String>> {
    let read = |iter: &crate::store::Iter| {
        iter.entry().map(|entry| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("tests write text");
            (text(entry.key), text(entry.value))
        })
    };
    let mut iter = store.iter(IterOptions::default())?;
    let (mut forward, mut backward) = (BTreeMap::new(), BTreeMap::new());
    iter.seek_to_first()?;
    while let Some((key, value)) = read(&iter) {
        assert_eq!(forward.insert(key, value), None, "no key shows twice");
        iter.next()?;
    }
    iter.seek_back(None)?;
    while let Some((key, value)) = read(&iter) {
        assert_eq!(backward.insert(key, value), None, "no key shows twice");
        iter.prev()?;
    }
    assert_eq!(forward, backward);
    for number in 0..keys {
        assert_eq!(get(store, &key(number))?, forward.get(&key(number)).cloned(), "{number}");
    }
    Ok(forward)
}

fn get_at(snapshot: &Snapshot, number: u32) -> Result<Option<String>> {
    let item = snapshot.get(key(number).as_bytes(), &GetOptions::default())?;
    Ok(item.map(|item| String::from_utf8(item.value).expect("tests write text")))
}

/// Takes the slice around a key out of L0.
fn cut(store: &Store, number: u32) -> Result<()> {
    store.inner.force(LevelNo(0), &one(number))
}

#[test]
fn a_row_that_is_cut_slice_by_slice_says_the_same_until_it_goes() -> Result<()> {
    simulate(51, |env| {
        let mut store = open(env, &options())?;
        for round in 0..3 {
            row(&store, 300, &format!("{round}-"))?;
        }
        let snapshot = store.snapshot();
        row(&store, 300, "3-")?;
        let expected = contents(&store, 300)?;
        assert_eq!(rows(&store).len(), 4);
        let mut slices = 0;
        for number in [150, 20, 290, 151, 60] {
            cut(&store, number)?;
            slices += 1;
            let at = version(&store).l0().consumed().through(key(number).as_bytes());
            assert_eq!(at, rows(&store)[0], "the newest row there is");
            assert_eq!(contents(&store, 300)?, expected, "after the cut at {number}");
            for number in 0..300 {
                let before = get_at(&snapshot, number)?.expect("written");
                assert!(before.starts_with("2-"), "{number}: {before}");
            }
        }
        assert_eq!(rows(&store).len(), 4, "each of them counts somewhere");
        assert!(store.check(&mut |_, _| ())?.is_clean());
        let map = consumed(&store);
        assert!(!map.is_empty() && map.len() <= slices, "{map:?}");
        drop(snapshot);
        store.close()?;
        drop(store);
        store = open(env, &options())?;
        assert_eq!(consumed(&store), map, "the manifest tells the same");
        assert_eq!(contents(&store, 300)?, expected);
        // What comes later counts where everything before was consumed.
        put(&store, &key(150), "new")?;
        delete(&store, &key(151))?;
        store.flush()?;
        assert_eq!(get(&store, &key(150))?.as_deref(), Some("new"));
        assert_eq!(get(&store, &key(151))?, None);
        cut(&store, 150)?;
        assert_eq!(get(&store, &key(150))?.as_deref(), Some("new"));
        assert_eq!(get(&store, &key(151))?, None);
        store.inner.force(LevelNo(0), &KeyRange::all())?;
        assert_eq!((rows(&store).len(), consumed(&store).len()), (0, 0), "nothing is left to say");
        assert_eq!(get(&store, &key(151))?, None);
        assert_eq!(contents(&store, 300)?.len(), 299);
        store.settle();
        store.inner.reclaim()?;
        let named = version(&store).tables().count();
        assert_eq!(store.inner.context.opener.store.list()?.len(), named, "the rows' files went");
        Ok(())
    })
}

/// A tombstone that was taken down and dropped there must not uncover what is left above it.
#[test]
fn what_is_consumed_does_not_come_back_when_a_newer_row_has_gone() -> Result<()> {
    simulate(52, |env| {
        let store = open(env, &options())?;
        row(&store, 300, "old-")?;
        for number in [150, 151, 152] {
            delete(&store, &key(number))?;
        }
        let mut batch = WriteBatch::new();
        batch.delete_range(key(153).as_bytes(), key(158).as_bytes())?;
        store.write(&batch, &WriteOptions::default())?;
        store.flush()?;
        let expected = contents(&store, 300)?;
        assert_eq!(expected.len(), 300 - 8);
        // The newer row goes as a whole, the older one stays.
        cut(&store, 150)?;
        cut(&store, 157)?;
        assert_eq!(rows(&store).len(), 1);
        assert_eq!(contents(&store, 300)?, expected);
        let bottom = version(&store);
        let bottom = bottom.run(LevelNo(6)).tables();
        assert!(!bottom.is_empty() && bottom.iter().all(|t| t.meta().tombstone_count == 0));
        assert!(bottom.iter().all(|t| t.meta().range_tombstone_count == 0));
        Ok(())
    })
}

#[test]
fn operands_count_once_wherever_their_rows_are_cut() -> Result<()> {
    simulate(53, |env| {
        let store = open(env, &options())?;
        for round in 0..4 {
            for number in 0..200 {
                merge(&store, &key(number), &format!("{round}{}", "y".repeat(60)))?;
            }
            store.flush()?;
            cut(&store, 40 * round + 10)?;
        }
        let expected: String = (0..4).map(|round| format!("{round}{}", "y".repeat(60))).collect();
        for at in [10, 100, 180, 199] {
            cut(&store, at)?;
            let found = contents(&store, 200)?;
            assert_eq!(found.len(), 200);
            for (key, value) in &found {
                assert_eq!(*value, expected, "{key} after the cut at {at}");
            }
        }
        Ok(())
    })
}

/// Range tombstones of a row reach over many slices; some of these hold nothing else.
#[test]
fn range_tombstones_are_cut_as_entries_are() -> Result<()> {
    simulate(54, |env| {
        let store = open(env, &options())?;
        row(&store, 300, "a-")?;
        store.compact(&KeyRange::all())?;
        let mut batch = WriteBatch::new();
        batch.delete_range(key(50).as_bytes(), key(250).as_bytes())?;
        store.write(&batch, &WriteOptions::default())?;
        put(&store, &key(299), "last")?;
        store.flush()?;
        let expected = contents(&store, 300)?;
        assert_eq!(expected.len(), 100);
        for number in [120, 60, 170] {
            cut(&store, number)?;
            assert_eq!(contents(&store, 300)?, expected, "after the cut at {number}");
            assert!(!consumed(&store).is_empty());
        }
        // Below them nothing is left of what they deleted.
        let live = version(&store);
        let below = live.run(LevelNo(6));
        assert_eq!(
            below.overlapping(&one(120)).iter().map(|t| t.meta().entry_count).sum::<u64>(),
            0
        );
        put(&store, &key(120), "back")?;
        assert_eq!(get(&store, &key(120))?.as_deref(), Some("back"));
        store.inner.force(LevelNo(0), &KeyRange::all())?;
        assert_eq!(rows(&store).len(), 0, "slices of tombstones alone are taken, too");
        assert_eq!(contents(&store, 300)?.len(), 101);
        Ok(())
    })
}

/// What would be picked next if three rows were enough, while these jobs run.
fn due(store: &Store, taken: &Taken) -> Result<Option<Compaction>> {
    let options = Options { level_bytes_base: 40 << 10, ..options() };
    let version = due_with_rows(store, 3)?;
    Ok(pick::pick(&version, &LevelShape::of(&options), taken, store.inner.served()))
}

#[test]
fn slices_are_bounded_and_run_beside_each_other() -> Result<()> {
    simulate(55, |env| {
        let store = open(env, &options())?;
        row(&store, 600, "0-")?;
        store.compact(&KeyRange::all())?;
        for round in 1..=3 {
            row(&store, 600, &format!("{round}-"))?;
        }
        assert!(contents(&store, 600)?.len() == 600, "the rows are open");
        let version = version(&store);
        let l0_bytes: u64 = version.l0().tables().iter().map(|table| table.meta().bytes).sum();
        let mut taken = Taken::default();
        let mut chosen: Vec<Compaction> = Vec::new();
        let mut tables: BTreeMap<FileId, usize> = BTreeMap::new();
        while let Some(next) = due(&store, &taken)? {
            assert_eq!(next.through, Some(rows(&store)[0]));
            let bytes = next.bytes_from(LevelNo(0)) + next.bytes_from(next.output_level);
            // A slice ends at a table of the level below, each of up to 8 KiB and a block.
            assert!(bytes <= (8 << 10) + 3 * (9 << 10) + (24 << 10), "{bytes} bytes in a slice");
            assert!(chosen.iter().all(|other| !other.slice.overlaps(&next.slice)));
            next.table_ids().for_each(|id| *tables.entry(id).or_default() += 1);
            taken.take(&next);
            chosen.push(next);
        }
        assert!(chosen.len() >= 5, "{} slices", chosen.len());
        assert!(tables.values().all(|count| *count == 1), "no table is in two of them");
        assert_eq!(tables.len(), version.run(LevelNo(6)).tables().len(), "all of them take part");
        let taken_bytes: u64 = chosen.iter().map(|one| one.bytes_from(LevelNo(0))).sum();
        assert!(taken_bytes > l0_bytes / 10 * 8 && taken_bytes <= l0_bytes, "{taken_bytes}");
        chosen.iter().for_each(|one| taken.give_back(one));
        assert!(taken.is_free(&chosen[0]));
        Ok(())
    })
}

/// A running cut keeps its rows from being merged, not those that came after it was picked.
#[test]
fn newer_rows_are_merged_while_a_cut_runs() -> Result<()> {
    simulate(56, |env| {
        let store = open(env, &options())?;
        for round in 0..3 {
            row(&store, 300, &format!("{round}-"))?;
        }
        assert!(contents(&store, 300)?.len() == 300, "the rows are open");
        let mut taken = Taken::default();
        while let Some(next) = due(&store, &taken)? {
            taken.take(&next);
        }
        let old = rows(&store);
        for round in 3..7 {
            row(&store, 300, &format!("{round}-"))?;
        }
        let merge = due(&store, &taken)?.expect("seven rows share keys");
        assert_eq!((merge.output_level, merge.through), (LevelNo(0), None));
        assert!(merge.rows.iter().all(|row| !old.contains(row)), "{:?}", merge.rows);
        assert!(merge.rows.len() >= 2);
        Ok(())
    })
}

/// Rows are merged in their place after slices of some of them were cut.
#[test]
fn rows_that_are_partly_consumed_are_merged_by_what_is_live() -> Result<()> {
    simulate(57, |env| {
        let store = open(env, &options())?;
        for round in 0..3 {
            for number in 0..200 {
                merge(&store, &key(number), &format!("{round}{}", "y".repeat(60)))?;
            }
            store.flush()?;
            cut(&store, 60 * round + 10)?;
        }
        let expected = contents(&store, 200)?;
        let version = version(&store);
        let all: Vec<_> = version.l0().rows().to_vec();
        let slice = all.iter().fold(one(0), |hull, row| hull.hull(&row.span()));
        let chosen = Compaction {
            slice,
            through: None,
            rows: all.iter().map(|row| row.meta.id).collect(),
            inputs: version.l0().live().iter().map(pick::Input::of_l0).collect(),
            output_level: LevelNo(0),
            rewrites: true,
            cut_end: None,
        };
        assert!(chosen.inputs.iter().any(|input| input.parts.is_some()));
        store.inner.compact(&chosen, &version, true)?;
        assert_eq!(rows(&store), [all[0].meta.id], "one row in the place of three");
        assert_eq!(contents(&store, 200)?, expected);
        cut(&store, 100)?;
        assert_eq!(contents(&store, 200)?, expected);
        store.compact(&KeyRange::all())?;
        assert_eq!(contents(&store, 200)?, expected);
        Ok(())
    })
}

/// Runs `test` on a store whose rows are partly consumed, and gives back what is on the disk after
/// a kill.
fn killed_in_the_middle(seed: u64, row_count: u32) -> (DiskImage, BTreeMap<String, String>) {
    SimEnv::run(SimOptions::new(seed), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &options()).expect("new");
        for round in 0..row_count {
            row(&store, 200, &format!("{round}-")).expect("room");
        }
        cut(&store, 20).expect("rows are there");
        cut(&store, 150).expect("rows are there");
        let expected = contents(&store, 200).expect("whole");
        (sim.disk().crash(CrashPolicy::ProcessKill, 0), expected)
    })
}

#[test]
fn a_checkpoint_and_a_repair_keep_what_is_consumed() -> Result<()> {
    let (disk, expected) = killed_in_the_middle(58, 3);
    after_crash(disk.clone(), |env| {
        let store = open(env, &options())?;
        let map = consumed(&store);
        assert_eq!(map.len(), 2);
        let target = Path::new("/copy");
        store.checkpoint(target, &mut |_, _| true)?;
        let copy = Store::open(&process(env)?, target, options())?;
        assert_eq!(consumed(&copy), map);
        assert_eq!(contents(&copy, 200)?, expected);
        Ok::<_, Error>(())
    })?;
    // By the manifest, and without it.
    for has_manifest in [true, false] {
        after_crash(disk.clone(), |env| {
            if !has_manifest {
                env.fs().remove(&Path::new(DIR).join("CURRENT")).map_err(Error::from)?;
            }
            let target = Path::new("/repaired");
            let source = Path::new(DIR);
            crate::repair::repair(env, source, target, &options(), &mut |_, _| true)?;
            let repaired = Store::open(&process(env)?, target, options())?;
            assert_eq!(contents(&repaired, 200)?, expected, "manifest: {has_manifest}");
            assert!(repaired.check(&mut |_, _| ())?.is_clean());
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

/// Each of these, in an edit with a valid checksum, would have rows read that do not count, or not
/// read that do.
#[test]
fn forged_cuts_of_a_manifest_are_refused() {
    let (disk, _) = killed_in_the_middle(59, 2);
    let manifest = disk.files().into_iter().map(|(path, _)| path);
    let mut manifest = manifest.filter(|path| path.extension().is_some_and(|e| e == "manifest"));
    let manifest = manifest.next_back().expect("one");
    let bytes = disk.read(&manifest).expect("listed");
    let (identity, id) = decode_manifest_header(&bytes).expect("just written");
    let record = bytes.len() as u64;
    let part = |through| CutInterval { slice: one(100), through: RowId(through) };
    let all = |through| CutInterval { slice: KeyRange::all(), through: RowId(through) };
    let with = |cuts: Vec<CutInterval>| VersionEdit::from(TreeEdit { cuts, ..TreeEdit::default() });
    let open_with = |edit: &VersionEdit| {
        let mut forged = disk.clone();
        forged.write(&manifest, record, &encode_record(identity, record, edit)).expect("room");
        after_crash(forged, |env| open(env, &options()).map(|store| consumed(&store)))
    };
    for edit in [
        with(vec![part(3)]),
        with(vec![part((1 << 62) + 7)]),
        with(vec![all(2)]),
        with(vec![part(1), part(2)]),
        with(vec![part(0)]),
    ] {
        let outcome = open_with(&edit);
        assert!(matches!(outcome, Err(Error::Corruption(_))), "{id} {edit:?}: {outcome:?}");
    }
    let fine = open_with(&with(vec![part(2)])).expect("rows 1 and 2 are there");
    assert_eq!(fine.len(), 3, "{fine:?}");
}

/// A manifest that the version before this one wrote: it knew of no cut map.
#[test]
fn a_manifest_of_the_version_before_is_read() -> Result<()> {
    let disk = SimEnv::run(SimOptions::new(60), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &options()).expect("new");
        row(&store, 20, "v").expect("room");
        sim.disk().crash(CrashPolicy::ProcessKill, 0)
    });
    let manifest = disk.files().into_iter().map(|(path, _)| path);
    let mut manifest = manifest.filter(|path| path.extension().is_some_and(|e| e == "manifest"));
    let manifest = manifest.next_back().expect("one");
    let bytes = disk.read(&manifest).expect("listed");
    assert_eq!(bytes[8..12], [2, 0, 2, 0], "written by version 2, for readers from 2 on");
    let with_version = |version: u8| {
        let mut header = bytes[..64].to_vec();
        (header[8], header[10]) = (version, version);
        let (identity, _) = decode_manifest_header(&bytes).expect("just written");
        let checksum = terrace_base::Checksum::at(identity, 0).bytes(&header[..60]).finish();
        header[60..].copy_from_slice(&checksum.to_le_bytes());
        let mut disk = disk.clone();
        disk.write(&manifest, 0, &header).expect("inside the file");
        disk
    };
    after_crash(with_version(1), |env| {
        let store = open(env, &options())?;
        assert_eq!(contents(&store, 20)?.len(), 20);
        cut(&store, 10)
    })?;
    let later = after_crash(with_version(3), |env| open(env, &options()).map(|_| ()));
    assert!(matches!(later, Err(Error::Unsupported(_))), "{later:?}");
    Ok(())
}
