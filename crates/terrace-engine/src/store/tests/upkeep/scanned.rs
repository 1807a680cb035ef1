//! Goal: rows are cut where scans have paid for it, there only, and what the scans show does not
//! change. Method: rows over the same keys that no cut is due for, charges by hand, and scans that
//! pay at once.

use std::time::Duration;

use terrace_base::{KeyRange, LevelNo};

use crate::compaction::levels::LevelShape;
use crate::compaction::pick;
use crate::compaction::{ScanCosts, pick::Taken};
use crate::l0::CutEnd;
use crate::store::IterOptions;
use crate::store::tests::*;

/// Few rows make no cut due, and slices are small.
fn options(percent: u32) -> Options {
    let mut options = Options { cut_bytes: 8 << 10, ..lazy() };
    options.memtable_bytes = 256 << 10;
    options.research.scan_price_percent = Some(percent);
    options
}

fn key(number: u32) -> String {
    format!("{number:04}")
}

fn rows_over(store: &Store, count: u32) -> Result<()> {
    for row in 0..count {
        for number in 0..300 {
            put(store, &key(number), &format!("{row}{}", "x".repeat(100)))?;
        }
        store.flush()?;
    }
    Ok(())
}

/// How many rows count at a key.
fn rows_at(store: &Store, number: u32) -> usize {
    let version = store.inner.versions.current();
    version.l0().content().live_at(key(number).as_bytes()).len()
}

/// The keys and values of ten keys from `number` on.
fn scan(store: &Store, number: u32) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let range = KeyRange::new(key(number), None);
    let mut iter = store.iter(IterOptions { range, ..IterOptions::default() })?;
    iter.seek_to_first()?;
    let mut shown = Vec::new();
    while let Some(entry) = iter.entry().filter(|_| shown.len() < 10) {
        shown.push((entry.key.to_vec(), entry.value.to_vec()));
        iter.next()?;
    }
    Ok(shown)
}

#[test]
fn a_slice_is_cut_once_scans_have_paid_its_price() -> Result<()> {
    simulate(61, |env| {
        let options = options(100);
        let store = open(env, &options)?;
        rows_over(&store, 3)?;
        // Only open tables say where their bytes lie.
        scan(&store, 0)?;
        let (shape, version) = (LevelShape::of(&options), store.inner.versions.current());
        let due = |costs: &ScanCosts| {
            let chosen = pick::of_scanned(&version, &shape, &Taken::default(), costs)?;
            assert_eq!(chosen.cut_end, Some(CutEnd::Scanned));
            Some(chosen)
        };
        let mut costs = ScanCosts::default();
        assert!(due(&costs).is_none(), "nobody has paid");
        costs.add(b"0150", Duration::from_micros(1));
        assert!(due(&costs).is_none(), "a microsecond reads a hundred bytes");
        costs.add(b"0020", Duration::from_millis(1));
        costs.add(b"0150", Duration::from_millis(2));
        let chosen = due(&costs).expect("a slice of 8 KiB costs some 80 microseconds");
        assert!(chosen.slice.contains(b"0150") && !chosen.slice.contains(b"0020"), "{chosen:?}");
        assert!(chosen.bytes_from(LevelNo(0)) < 24 << 10, "{chosen:?}");
        costs.forget(&chosen.slice);
        let chosen = due(&costs).expect("the other one has been paid for, too");
        assert!(chosen.slice.contains(b"0020"), "{chosen:?}");
        costs.forget(&chosen.slice);
        assert!(due(&costs).is_none());
        store.close()
    })
}

#[test]
fn what_is_scanned_goes_down_and_the_rest_stays() -> Result<()> {
    simulate(62, |env| {
        let store = open(env, &options(0))?;
        rows_over(&store, 3)?;
        store.settle();
        assert_eq!([20, 150, 280].map(|number| rows_at(&store, number)), [3; 3]);
        let before = scan(&store, 150)?;
        store.settle();
        assert_eq!([20, 150, 280].map(|number| rows_at(&store, number)), [3, 0, 3]);
        assert_eq!(scan(&store, 150)?, before);
        let cuts = store.compactions();
        assert_eq!(cuts.len(), 1, "{cuts:?}");
        assert_eq!(cuts[0].cut_end, Some(CutEnd::Scanned));
        // A scan that meets no row pays for nothing.
        scan(&store, 150)?;
        store.settle();
        assert_eq!(store.compactions().len(), 1);
        store.close()
    })
}

#[test]
fn scans_that_never_pay_leave_rows_alone() -> Result<()> {
    simulate(63, |env| {
        let store = open(env, &options(u32::MAX))?;
        rows_over(&store, 3)?;
        for _ in 0..300 {
            scan(&store, 150)?;
        }
        store.settle();
        assert_eq!(rows_at(&store, 150), 3);
        store.close()
    })
}
