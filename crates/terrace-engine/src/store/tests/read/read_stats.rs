//! Goal: the averages of reads are those of the reads that there were. Method: one read of a small
//! tree again and again, and its explanation.

use terrace_base::KeyRange;

use crate::explain::{ReadTotals, SAMPLE_EVERY};
use crate::options::ValueLogOptions;
use crate::store::report::slow::SCAN_WEIGHT;
use crate::store::tests::*;
use crate::store::{GetOptions, IterOptions, ReadStats};

fn fill(store: &Store, keys: impl Iterator<Item = u32>) -> Result<()> {
    keys.into_iter().try_for_each(|key| put(store, &format!("k{key:04}"), &"v".repeat(100)))
}

/// A level, two rows of L0 over it, the older one of several tables, and something in memory.
fn tree(env: &SharedEnv, options: Options) -> Result<Store> {
    let store = open(env, &options)?;
    fill(&store, 0..100)?;
    store.compact(&KeyRange::all())?;
    fill(&store, (0..300).step_by(2))?;
    store.flush()?;
    fill(&store, (0..100).step_by(10))?;
    store.flush()?;
    put(&store, "k0002", "new")?;
    Ok(store)
}

/// The figures of so many gets of `key` and nothing else.
fn of_gets(store: &Store, key: &str, count: u32) -> Result<ReadStats> {
    (0..count).try_for_each(|_| get(store, key).map(|_| ()))?;
    Ok(store.stats().reads)
}

fn assert_near(average: f64, wanted: u64) {
    assert!((average - wanted as f64).abs() < 1e-9, "{average} in place of {wanted}");
}

#[test]
fn a_get_touches_on_average_what_its_explanation_says() -> Result<()> {
    // Newest in memory; in the second row, past a filter; in the level, past two filters; nowhere,
    // and no filter is asked.
    let wanted =
        [("k0002", [1, 0, 0, 0, 0]), ("k0004", [1, 2, 0, 2, 1]), ("k0005", [1, 2, 1, 3, 1])];
    for (key, [memtables, l0_sources, levels, filters, blocks]) in wanted {
        simulate(1, |env| {
            let store = tree(env, lazy())?;
            // Its blocks are in the cache from now on.
            get(&store, key)?;
            let explained = store.explain_get(key.as_bytes())?;
            let totals = explained.totals;
            let wanted = ReadTotals {
                memtables,
                l0_sources,
                levels,
                filters,
                cached_blocks: blocks,
                ..ReadTotals::default()
            };
            assert_eq!(totals, wanted, "{explained}");
            let reads = of_gets(&store, key, 8 * SAMPLE_EVERY)?;
            assert!((4..=16).contains(&reads.sampled_get_count), "{reads:?}");
            assert_near(reads.sources_per_get, totals.sources());
            assert_near(reads.filters_per_get, filters);
            assert_near(reads.blocks_per_get, blocks);
            assert_near(reads.file_blocks_per_get, 0);
            assert_eq!(reads.sampled_gets.blocks(), blocks * reads.sampled_get_count);
            assert_eq!(reads.sampled_scan_count, 0, "nobody has scanned");
            let asked: u64 = store.stats().levels.iter().map(|level| level.asked()).sum();
            let gets = store.stats().get_count;
            assert!((reads.tables_per_get - asked as f64 / gets as f64).abs() < 1e-9, "{reads:?}");
            Result::Ok(())
        })?;
    }
    Ok(())
}

/// What the cache does not keep comes from a file each time.
#[test]
fn files_and_values_are_counted_apart() -> Result<()> {
    simulate(2, |env| {
        let value_log = ValueLogOptions { large_bytes: 40, ..ValueLogOptions::default() };
        let store = tree(env, Options { value_log: Some(value_log), ..lazy() })?;
        let options = GetOptions { fill_cache: false, ..GetOptions::default() };
        for _ in 0..4 * SAMPLE_EVERY {
            assert!(store.get(b"k0005", &options)?.is_some());
        }
        let reads = store.stats().reads;
        assert!(reads.sampled_get_count > 0, "{reads:?}");
        assert_near(reads.file_blocks_per_get, 1);
        assert_near(reads.values_per_get, 1);
        let explained = store.explain_get(b"k0005")?;
        let totals = explained.totals;
        assert_eq!((totals.file_blocks, totals.cached_blocks, totals.values), (1, 0, 1));
        assert!(
            explained.to_string().contains("read 1 block from files, 1 value from value files")
        );
        let scan =
            store.explain_scan(KeyRange::new("k0000", Some(b"k0010".to_vec())), 99, false)?;
        assert_eq!(scan.totals.values, 9, "all but the one in memory: {scan}");
        Ok(())
    })
}

#[test]
fn a_scan_merges_on_average_what_its_explanation_says() -> Result<()> {
    let mut counts = Vec::new();
    for boundaries in [vec![], vec![b"k0050".to_vec()]] {
        for (start, end) in [("", "z"), ("k0011", "k0012"), ("k0200", "k0300"), ("x", "z")] {
            simulate(3, |env| {
                let options = Options { drange_boundaries: boundaries.clone(), ..lazy() };
                let store = tree(env, options)?;
                let range = KeyRange::new(start, Some(end.as_bytes().to_vec()));
                let explained = store.explain_scan(range.clone(), 3, false)?;
                for _ in 0..8 * SAMPLE_EVERY / SCAN_WEIGHT {
                    let options = IterOptions { range: range.clone(), ..IterOptions::default() };
                    let mut iter = store.iter(options)?;
                    iter.seek_to_first()?;
                    for _ in 1..explained.key_count {
                        iter.next()?;
                    }
                }
                let reads = store.stats().reads;
                assert!((4..=16).contains(&reads.sampled_scan_count), "{reads:?}");
                assert_near(reads.sources_per_scan, explained.sources.len() as u64);
                assert_eq!(explained.totals.sources(), explained.sources.len() as u64);
                assert_near(reads.shown_per_scan, explained.key_count);
                assert_near(reads.hidden_per_scan, 0);
                counts.push(explained.totals.l0_sources);
                Result::Ok(())
            })?;
        }
    }
    counts.dedup();
    assert!(counts.len() > 2, "intervals with more and with fewer sources: {counts:?}");
    Ok(())
}
