//! Goal: a database that an earlier version left, by a crash, is opened and holds what it held.
//! Method: its directory, as files of this source tree.

use std::path::Path;

use terrace_base::{Expiry, KeyRange, WallTime};
use terrace_env::{CrashPolicy, DiskImage, SharedEnv, SimEnv, SimOptions};

use crate::check::{CheckDepth, check_dir};
use crate::options::{Durability, Options};
use crate::store::tests::{DIR, delete, get, merge, open, put, small};
use crate::store::{Store, WriteOptions};
use crate::tests::specimens;
use crate::{Result, WriteBatch};

const SPECIMEN: &str = "store/testdata/v1-database";

/// Expires long after every test.
const LATER: WallTime = WallTime(4_000_000_000_000);

fn options() -> Options {
    Options {
        log_segment_bytes: 4 << 10,
        log_bytes_max: 32 << 10,
        drange_boundaries: vec![b"k0040".to_vec()],
        durability: Durability::Sync,
        // No compaction but by hand.
        l0_rows_per_cut: 20,
        l0_rows_slow: 30,
        l0_rows_stop: 40,
        ..small()
    }
}

/// Leaves entries of every kind in a level, in rows of L0 and in the log.
fn write(store: &Store) -> Result<()> {
    for number in 0..80 {
        put(store, &format!("k{number:04}"), "in a level")?;
    }
    store.compact(&KeyRange::all())?;
    for number in (0..80).step_by(4) {
        put(store, &format!("k{number:04}"), "in a row")?;
        delete(store, &format!("k{:04}", number + 1))?;
    }
    merge(store, "operands", "a row's")?;
    store.flush()?;
    for number in (0..80).step_by(16) {
        put(store, &format!("k{number:04}"), "in the log")?;
    }
    merge(store, "operands", ", the log's")?;
    let mut batch = WriteBatch::new();
    batch.delete_range(b"k0030", b"k0050")?;
    batch.put_with_expiry(b"later", b"expires", Some(Expiry::at(LATER)))?;
    batch.put_with_expiry(b"past", b"has expired", Some(Expiry::at(WallTime(1))))?;
    batch.put(b"", b"the empty key")?;
    store.write(&batch, &WriteOptions::default())
}

/// What the key of this number holds.
fn expected(number: u32) -> Option<&'static str> {
    match number {
        30..50 => None,
        _ if number.is_multiple_of(16) => Some("in the log"),
        _ if number.is_multiple_of(4) => Some("in a row"),
        _ if number % 4 == 1 => None,
        _ => Some("in a level"),
    }
}

/// Writes the specimen where there is none; one that is there is never written again.
fn make() {
    let target = specimens::path_of(SPECIMEN);
    if !specimens::is_writing() || target.exists() {
        return;
    }
    let disk = SimEnv::run(SimOptions::new(1), |sim| {
        let env: SharedEnv = std::sync::Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &options()).expect("a new disk");
        write(&store).expect("nothing fails");
        sim.disk().crash(CrashPolicy::SyncedOnly, 0)
    });
    let all = std::env::temp_dir().join(format!("terrace-specimen-{}", std::process::id()));
    disk.copy_to(&all).expect("the machine's own disk can be written");
    std::fs::rename(all.join(DIR.trim_start_matches('/')), &target).expect("the same file system");
}

#[test]
fn a_database_of_the_first_release_is_opened() {
    make();
    let mut disk = DiskImage::new();
    disk.copy_from(&specimens::path_of(SPECIMEN), Path::new(DIR)).expect("the specimen is there");
    SimEnv::run(SimOptions { disk, ..SimOptions::new(2) }, |env| {
        let env: SharedEnv = env;
        let report = check_dir(&env, Path::new(DIR), CheckDepth::Full, &mut |_, _| ());
        let report = report.expect("it can be checked");
        assert!(report.damage().next().is_none(), "{report:?}");
        let store = open(&env, &options()).expect("it can be opened");
        assert!(!store.recovery().is_new && !store.recovery().was_closed);
        assert!(store.recovery().replayed_entries >= 10, "{:?}", store.recovery());
        let version = store.inner.versions.current();
        assert!(!version.l0().rows().is_empty());
        assert!(version.runs().any(|(_, run)| !run.tables().is_empty()));
        for number in 0..80 {
            let found = get(&store, &format!("k{number:04}")).expect("it can be read");
            assert_eq!(found.as_deref(), expected(number), "key {number}");
        }
        for (key, value) in [
            ("", Some("the empty key")),
            ("operands", Some("a row's, the log's")),
            ("later", Some("expires")),
            ("past", None),
        ] {
            assert_eq!(get(&store, key).expect("it can be read").as_deref(), value, "{key}");
        }
        put(&store, "new", "it goes on").expect("it can be written");
        store.close().expect("nothing fails");
    });
}
