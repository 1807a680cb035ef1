//! Goal: a get of a key that is not in the store reads nothing, whatever else the tables hold.
//! Method: a range whose levels all lie in the store, its tables with tries, and the same with
//! filters and indexes.

use terrace_base::KeyRange;

use super::{CloudOptions, fill, in_store, value};
use crate::options::Research;
use crate::store::GetOptions;
use crate::store::tests::*;

/// A range in the store that keeps nothing of data blocks near.
fn uncached() -> Options {
    let options = in_store(small(), 1);
    let bare = |cloud| CloudOptions { local_bytes: None, cache_bytes: Some(0), ..cloud };
    Options { cloud: options.cloud.map(bare), ..options }
}

fn with_filters(options: &Options) -> Options {
    let research = Research { far_filters: true, ..Research::default() };
    Options { research, ..options.clone() }
}

fn gets_asked(store: &Store) -> Result<u64> {
    Ok(store.inner.cloud.as_ref().expect("it has one").store()?.counts().get.requests)
}

/// Compacts until everything lies in the store.
fn come_to_rest(store: &Store) -> Result<()> {
    store.flush()?;
    store.compact(&KeyRange::all())?;
    store.settle();
    Ok(())
}

/// Whether a get of a key between two others says that a trie does not have it. The key may also
/// lie between two tables.
fn some_trie_denies(store: &Store) -> Result<bool> {
    for key in [b"0120x", b"0121x"] {
        if store.explain_get(key)?.to_string().contains("trie: no") {
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn a_key_that_is_not_there_costs_no_request_and_is_explained() -> Result<()> {
    simulate(97, |env| {
        let options = uncached();
        let store = open(env, &options)?;
        fill(&store, 0..2)?;
        come_to_rest(&store)?;
        let before = gets_asked(&store)?;
        for key in 0..400 {
            // Behind each key, and in front of it.
            assert_eq!(get(&store, &format!("{key:04}x"))?, None);
            assert_eq!(get(&store, &format!("{key:04}")[..3])?, None);
        }
        assert_eq!(gets_asked(&store)? - before, 0, "tries have no false positives");
        assert!(some_trie_denies(&store)?);
        for key in 0..400 {
            assert_eq!(get(&store, &format!("{key:04}"))?, Some(value(1)), "{key}");
        }
        store.close()
    })
}

#[test]
fn tables_change_from_filters_to_tries_and_back_as_they_are_compacted() -> Result<()> {
    simulate(98, |env| {
        let options = uncached();
        let opened = [with_filters(&options), options.clone(), with_filters(&options)];
        for (round, options) in (0..).zip(opened) {
            let store = open(env, &options)?;
            fill(&store, round..round + 1)?;
            delete_range(&store, "0100", "0110")?;
            come_to_rest(&store)?;
            assert_eq!(some_trie_denies(&store)?, round == 1);
            for key in 0..400 {
                let expected = (!(100..110).contains(&key)).then(|| value(round));
                assert_eq!(get(&store, &format!("{key:04}"))?, expected, "{key}");
            }
            store.close()?;
        }
        Ok(())
    })
}

#[test]
fn versions_of_one_key_over_many_blocks_are_found_at_each_read_point() -> Result<()> {
    simulate(99, |env| {
        let store = open(env, &uncached())?;
        let mut snapshots = Vec::new();
        for round in 0..60 {
            put(&store, "0200", &value(round))?;
            if round % 3 == 0 {
                snapshots.push((store.snapshot(), round));
            }
        }
        fill(&store, 60..61)?;
        come_to_rest(&store)?;
        for (snapshot, round) in &snapshots {
            let found = snapshot.get(b"0200", &GetOptions::default())?;
            assert_eq!(found.as_ref().map(|item| &item.value[..]), Some(value(*round).as_bytes()));
            assert!(snapshot.get(b"0199", &GetOptions::default())?.is_none(), "{round}");
        }
        assert_eq!(get(&store, "0200")?, Some(value(60)));
        drop(snapshots);
        store.close()
    })
}
