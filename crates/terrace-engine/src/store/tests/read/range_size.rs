//! Goal: what is said of the size of an interval is about right, wherever its keys lie.
//! Method: a known number of equal entries, in memtables, in L0 and below it.

use terrace_base::KeyRange;

use crate::options::Options;
use crate::store::tests::{open, simulate, small};
use crate::store::{RangeSize, Store, WriteOptions};
use crate::{Result, WriteBatch};

const KEYS: u32 = 4000;

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn fill(store: &Store) -> Result<()> {
    for first in (0..KEYS).step_by(100) {
        let mut batch = WriteBatch::new();
        for number in first..first + 100 {
            batch.put(&key(number), &[7; 40])?;
        }
        store.write(&batch, &WriteOptions::default())?;
    }
    Ok(())
}

fn size(store: &Store, from: u32, to: u32) -> Result<RangeSize> {
    store.range_size(&KeyRange::new(key(from), Some(key(to))))
}

/// Each interval has about as many entries as it has keys.
#[track_caller]
fn assert_about_right(store: &Store, when: &str) -> Result<()> {
    for (from, to) in [(0, KEYS), (1000, 1010), (1000, 1200), (500, 2500), (3000, KEYS)] {
        let size = size(store, from, to)?;
        let keys = u64::from(to - from);
        let slack = keys / 5 + 60;
        let range = keys.saturating_sub(slack)..=keys + slack;
        assert!(range.contains(&size.entry_count), "{when}, {from} to {to}: {size:?}");
        let bytes = size.table_bytes + size.memory_bytes;
        assert!((size.entry_count * 30..=size.entry_count * 90).contains(&bytes), "{size:?}");
    }
    assert_eq!(size(store, 7, 7)?, RangeSize::default());
    assert_eq!(store.range_size(&KeyRange::new(key(KEYS + 1), None))?, RangeSize::default());
    Ok(())
}

#[test]
fn the_size_of_an_interval_is_about_right_wherever_its_keys_lie() -> Result<()> {
    simulate(1, |env| {
        let roomy = Options { memtable_bytes: 1 << 20, log_bytes_max: 8 << 20, ..small() };
        let store = open(env, &Options { log_segment_bytes: 1 << 20, ..roomy })?;
        fill(&store)?;
        assert_about_right(&store, "in memory")?;
        assert_eq!(size(&store, 1000, 1010)?.entry_count, 10, "few keys are counted");
        store.flush()?;
        assert_eq!(size(&store, 0, KEYS)?.memory_bytes, 0);
        assert_about_right(&store, "in L0")?;
        store.compact(&KeyRange::all())?;
        assert_about_right(&store, "below")?;
        store.close()?;
        assert!(size(&store, 0, KEYS).is_err(), "it is closed");
        Ok(())
    })
}
