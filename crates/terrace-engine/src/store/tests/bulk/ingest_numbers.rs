//! Goal: the number that an ingest takes is spent, also if nothing was written after it. Method:
//! the machine dies right after the ingest, in every way, and the next write is looked at.

use terrace_base::{KeyRange, LevelNo, SeqNo};
use terrace_env::{CrashPolicy, DiskImage, SharedEnv, SimEnv, SimOptions};

use crate::store::tests::workload::walk;
use crate::store::tests::*;
use crate::store::{GetOptions, IterOptions};

/// What a crash leaves right behind an ingest of `key 010` to `key 029`, and the ingest's number.
/// With `is_above`, older entries lie where it goes.
fn after_ingest(policy: CrashPolicy, is_above: bool) -> (DiskImage, SeqNo) {
    SimEnv::run(SimOptions::new(51), |sim| {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let store = open(&env, &lazy()).expect("a new disk");
        let old = if is_above { "key 015" } else { "before" };
        put_synced(&store, old, "old").expect("put");
        store.flush().expect("flush");
        let mut ingest = store.begin_ingest().expect("begin");
        for index in 10..30 {
            ingest.add(format!("key {index:03}").as_bytes(), b"ingested", None).expect("sorted");
        }
        let report = ingest.finish().expect("ingest");
        let place = if is_above { report.level == LevelNo(0) } else { report.level > LevelNo(0) };
        assert!(place, "{report:?}");
        (sim.disk().crash(policy, 0), report.seqno)
    })
}

#[test]
fn the_first_write_after_an_ingest_and_a_crash_is_newer_than_the_ingest() -> Result<()> {
    for (policy, is_above) in CrashPolicy::ALL.into_iter().flat_map(|p| [(p, false), (p, true)]) {
        let context = format!("{policy:?}, above older entries: {is_above}");
        let (disk, number) = after_ingest(policy, is_above);
        after_crash(disk, |env| -> Result<()> {
            let store = open(env, &lazy())?;
            assert_eq!(get(&store, "key 015")?.as_deref(), Some("ingested"), "{context}");
            let before = store.snapshot();
            assert!(before.seqno() >= number, "{context}: {:?}", before.seqno());
            let mut batch = WriteBatch::new();
            batch.put(b"key 015", b"new")?;
            let written = store.write_numbered(&batch, &WriteOptions::default())?;
            assert!(written > number, "{context}: {written:?} is not above {number:?}");
            let seen = before.get(b"key 015", &GetOptions::default())?.expect("it is there");
            assert_eq!(seen.value, b"ingested", "{context}: a snapshot from before the write");
            assert_eq!(get(&store, "key 015")?.as_deref(), Some("new"), "{context}");
            let shown = |iter| -> Result<Vec<u8>> {
                let all = walk(iter)?;
                let own = all.into_iter().find(|(key, _)| key == b"key 015");
                Ok(own.expect("it is there").1)
            };
            assert_eq!(shown(before.iter(IterOptions::default())?)?, b"ingested", "{context}");
            assert_eq!(shown(store.iter(IterOptions::default())?)?, b"new", "{context}");
            store.compact(&KeyRange::all())?;
            assert_eq!(get(&store, "key 015")?.as_deref(), Some("new"), "{context}");
            assert_eq!(shown(before.iter(IterOptions::default())?)?, b"ingested", "{context}");
            Ok(())
        })?;
    }
    Ok(())
}
