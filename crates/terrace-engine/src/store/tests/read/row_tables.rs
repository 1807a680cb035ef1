//! Goal: a row of L0 that has several tables is read as one, and no key of it is missed.
//! Method: an ingest over a row that was flushed before becomes such a row; all its keys, and keys
//! beside them, are read one by one, scanned from each of them, both ways, and explained.

use std::collections::BTreeMap;

use terrace_base::{KeyRange, LevelNo};

use crate::Result;
use crate::explain::Source;
use crate::options::Options;
use crate::store::tests::{open, put, simulate, small};
use crate::store::{GetOptions, IterOptions, Store};

const KEYS: u32 = 300;

fn key(number: u32) -> String {
    format!("a key of some length {number:04}")
}

/// What the store has: of each third key nothing, of each fifth one an older version in a row that
/// has one table.
fn fill(store: &Store) -> Result<BTreeMap<String, String>> {
    let mut model = BTreeMap::new();
    for number in (0..KEYS).step_by(5) {
        put(store, &key(number), "flushed")?;
        model.insert(key(number), "flushed".to_owned());
    }
    store.flush()?;
    let mut ingest = store.begin_ingest()?;
    for number in (0..KEYS).filter(|number| number % 3 != 0) {
        let value = format!("ingested {number:0>90}");
        ingest.add(key(number).as_bytes(), value.as_bytes(), None)?;
        model.insert(key(number), value);
    }
    assert_eq!(ingest.finish()?.level, LevelNo(0), "something older lies in L0");
    Ok(model)
}

/// The keys that a scan from `start` on shows, at most `count`.
fn scanned(store: &Store, start: &str, count: usize, reverse: bool) -> Result<Vec<String>> {
    let mut iter = store.iter(IterOptions::default())?;
    match reverse {
        false => iter.seek(start.as_bytes())?,
        true => iter.seek_back(Some(start.as_bytes()))?,
    }
    let mut keys = Vec::new();
    while keys.len() < count
        && let Some(entry) = iter.entry()
    {
        keys.push(String::from_utf8_lossy(entry.key).into_owned());
        if reverse { iter.prev()? } else { iter.next()? }
    }
    Ok(keys)
}

#[test]
fn a_row_of_several_tables_is_read_as_one() -> Result<()> {
    simulate(1, |env| {
        let rows = Options { l0_rows_per_cut: 50, l0_rows_slow: 60, l0_rows_stop: 70, ..small() };
        let store = open(env, &rows)?;
        let model = fill(&store)?;
        for number in 0..=KEYS {
            let key = key(number);
            let item = store.get(key.as_bytes(), &GetOptions::default())?;
            let value = item.map(|item| String::from_utf8_lossy(&item.value).into_owned());
            assert_eq!(value, model.get(&key).cloned(), "{key}");
            let behind: Vec<String> =
                model.range(key.clone()..).map(|(key, _)| key.clone()).collect();
            assert_eq!(scanned(&store, &key, usize::MAX, false)?, behind, "from {key} on");
            let before = model.range(..key.clone()).rev().map(|(key, _)| key.clone());
            assert_eq!(scanned(&store, &key, 40, true)?, before.take(40).collect::<Vec<_>>());
        }
        let explained = store.explain_scan(KeyRange::all(), 10, false)?;
        let rows = explained.sources.iter().filter_map(|tally| match tally.source {
            Source::Row { table_count, .. } => Some(table_count),
            _ => None,
        });
        let table_counts: Vec<u64> = rows.collect();
        assert!(matches!(table_counts[..], [several] if several > 2), "{explained}");
        store.close()
    })
}
