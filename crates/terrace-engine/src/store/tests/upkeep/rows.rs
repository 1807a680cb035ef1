//! Goal: what is done within L0 changes what reads cost and nothing else. Method: rows are made and
//! taken by hand, and the version is looked at.

use terrace_base::{KeyRange, LevelNo, RowId};

use crate::compaction::levels::LevelShape;
use crate::compaction::pick::{self, Compaction, Taken};
use crate::store::tests::*;
use crate::version::{RowMeta, TreeEdit};
use crate::vlog::SpaceBound;

/// Nothing is due by itself but what a test asks for.
fn options(rows_per_cut: usize) -> Options {
    Options { l0_rows_per_cut: rows_per_cut, level_bytes_base: 1 << 20, ..lazy() }
}

fn row(store: &Store, keys: impl IntoIterator<Item = u32>, text: &str) -> Result<()> {
    for key in keys {
        put(store, &format!("{key:04}"), text)?;
    }
    store.flush()
}

fn shape() -> LevelShape {
    LevelShape {
        scan_price_percent: 100,
        level_bytes_base: 1 << 20,
        level_ratio: 10,
        cut_bytes: 1 << 20,
        values: SpaceBound::NONE,
        l0_lacks_room: false,
    }
}

fn due(store: &Store, rows_per_cut: usize) -> Result<Option<Compaction>> {
    let shape = shape();
    let version = due_with_rows(store, rows_per_cut)?;
    Ok(pick::pick(&version, &shape, &Taken::default(), store.inner.served()))
}

fn ids(store: &Store) -> Vec<u64> {
    store.inner.versions.current().l0().rows().iter().map(|row| row.meta.id.0).collect()
}

/// Small rows above much data become one row in their place; what they say does not change.
#[test]
fn small_rows_above_much_are_merged_in_their_place() -> Result<()> {
    simulate(41, |env| {
        let store = open(env, &options(4))?;
        row(&store, 0..400, &"0".repeat(100))?;
        store.compact(&KeyRange::all())?;
        for round in 1..=3 {
            row(&store, (0..400).step_by(50), &format!("{round}"))?;
        }
        store.settle();
        assert_eq!(ids(&store).len(), 3);
        let newest = ids(&store)[0];
        let snapshot = store.snapshot();
        row(&store, (0..400).step_by(50), "4")?;
        store.settle();
        assert_eq!(ids(&store), [newest + 1], "four rows became one, which stands where they were");
        let stats = store.stats();
        assert!(stats.levels.iter().any(|level| level.level == 6 && level.entry_count == 400));
        for key in 0..400 {
            let name = format!("{key:04}");
            let expected = if key % 50 == 0 { "4".into() } else { "0".repeat(100) };
            assert_eq!(get(&store, &name)?, Some(expected));
            let item = snapshot.get(name.as_bytes(), &crate::store::GetOptions::default())?;
            let expected = if key % 50 == 0 { "3".into() } else { "0".repeat(100) };
            assert_eq!(item.map(|item| item.value), Some(expected.into_bytes()), "{name}");
        }
        assert!(store.check(&mut |_, _| ())?.is_clean());
        drop(snapshot);
        store.close()?;
        drop(store);
        let store = open(env, &options(4))?;
        assert_eq!(ids(&store), [newest + 1], "the manifest tells the same");
        assert_eq!(get(&store, "0050")?, Some("4".to_string()));
        Ok(())
    })
}

/// Rows that share no key go down as they are, each for itself.
#[test]
fn rows_that_share_no_key_are_moved_and_not_written_again() -> Result<()> {
    simulate(42, |env| {
        let store = open(env, &options(4))?;
        for part in 0..4 {
            row(&store, part * 100..part * 100 + 100, "x")?;
        }
        store.settle();
        let stats = store.stats();
        assert_eq!((stats.move_count, stats.compaction_count), (1, 0), "all four at once");
        assert_eq!(stats.l0_row_count, 0);
        assert!(store.check(&mut |_, _| ())?.is_clean());
        Ok(())
    })
}

/// A group of rows that share keys is cut without those beside it.
#[test]
fn a_cut_takes_a_group_and_leaves_the_rows_beside_it() -> Result<()> {
    simulate(43, |env| {
        let store = open(env, &options(50))?;
        row(&store, 0..100, "a")?;
        row(&store, 200..300, "b")?;
        row(&store, 50..150, "c")?;
        let cut = due(&store, 2)?.expect("two rows share keys");
        assert!(cut.is_move(), "the row that shares no key goes first: {cut:?}");
        row(&store, 250..260, "d")?;
        let cut = due(&store, 2)?.expect("two groups of two");
        let all = ids(&store);
        assert_eq!(cut.through, Some(RowId(all[0])));
        let version = store.inner.versions.current();
        let older = [all[1], all[3]].map(|id| {
            let row = version.l0().rows().iter().find(|row| row.meta.id == RowId(id));
            row.expect("it is there").tables[0].meta().id
        });
        let inputs: Vec<_> = cut.inputs.iter().map(|input| input.table.meta().id).collect();
        assert_eq!(inputs, older, "the first group, newest first");
        assert_eq!(cut.output_level, LevelNo(6));
        Ok(())
    })
}

/// Below L0 nothing may lie deeper than what is older: a cut ends where something lies.
#[test]
fn a_cut_goes_no_deeper_than_what_lies_in_its_slice() -> Result<()> {
    simulate(44, |env| {
        let store = open(env, &options(50))?;
        row(&store, 0..100, "old")?;
        row(&store, 50..60, "new")?;
        row(&store, 500..600, "beside")?;
        let version = store.inner.versions.current();
        let old = version.l0().rows().last().expect("three").clone();
        let edit = TreeEdit {
            rows_removed: vec![old.meta.id],
            tables_added: vec![(LevelNo(3), old.meta.tables[0].clone())],
            ..TreeEdit::default()
        };
        let context = &store.inner.context;
        let version = version.apply(&edit.into(), context).expect("it fits");
        let into = |first: u32| {
            let shape = shape();
            let key = format!("{first:04}").into_bytes();
            let range = KeyRange::new(key.clone(), Some([key, vec![0]].concat()));
            pick::forced(&version, &shape, LevelNo(0), &range).map(|cut| cut.output_level)
        };
        assert_eq!(into(55), Some(LevelNo(3)));
        assert_eq!(into(555), Some(LevelNo(6)));
        assert_eq!(into(300), None);
        Ok(())
    })
}

/// What a manifest could say that must not be believed.
#[test]
fn a_row_is_not_merged_past_one_that_shares_keys_with_it() -> Result<()> {
    simulate(45, |env| {
        let store = open(env, &options(50))?;
        for text in ["a", "b", "c"] {
            row(&store, 0..10, text)?;
        }
        row(&store, 500..510, "beside")?;
        let version = store.inner.versions.current();
        let rows = version.l0().rows();
        let [beside, c, b, a] = [0, 1, 2, 3].map(|index| rows[index].meta.clone());
        let apply = |removed: &[&RowMeta], id: RowId, tables: &RowMeta| {
            let edit = TreeEdit {
                rows_removed: removed.iter().map(|row| row.id).collect(),
                rows_added: vec![RowMeta { id, tables: tables.tables.clone() }],
                ..TreeEdit::default()
            };
            version
                .apply(&edit.into(), &store.inner.context)
                .map(|next| next.l0().rows().iter().map(|row| row.meta.id).collect::<Vec<_>>())
        };
        assert_eq!(apply(&[&a, &b], b.id, &b), Ok(vec![beside.id, c.id, b.id]));
        assert_eq!(apply(&[&c, &b, &a], c.id, &c), Ok(vec![beside.id, c.id]));
        assert!(apply(&[&a, &c], c.id, &c).is_err(), "b lies between");
        assert!(apply(&[&a, &b], a.id, &b).is_err(), "not the newest");
        assert!(apply(&[&a], b.id, &a).is_err(), "it is still there");
        assert!(apply(&[], c.id, &a).is_err(), "below a newer row");
        // The row beside shares no key with those around it.
        assert_eq!(apply(&[&b, &a], b.id, &b).map(|rows| rows.len()), Ok(3));
        Ok(())
    })
}
