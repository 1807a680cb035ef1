//! Goal: what was slow is kept with what it waited for, and the figures of the levels add up.
//! Method: small ranges whose reads and waits are known.

use crate::explain::{OperationKind, SAMPLE_EVERY, SlowOperation, Source, WaitCause};
use crate::options::{Durability, L0Kind};
use crate::store::tests::*;
use crate::store::{IterOptions, Update};
use terrace_base::KeyRange;

fn fill(store: &Store, keys: std::ops::Range<u32>) -> Result<()> {
    keys.into_iter().try_for_each(|key| put(store, &format!("k{key:04}"), &"v".repeat(100)))
}

fn of(store: &Store, kind: OperationKind) -> Vec<SlowOperation> {
    let mut slow = store.slow_operations();
    slow.retain(|operation| operation.kind == kind);
    slow
}

#[test]
fn what_waited_for_a_file_or_a_sync_is_kept() -> Result<()> {
    simulate(1, |env| {
        let store = open(env, &small())?;
        fill(&store, 0..100)?;
        store.close()?;
        drop(store);
        let store = open(env, &Options { durability: Durability::Sync, ..small() })?;
        store.flush()?;
        store.reset_slow_operations();
        assert!(get(&store, "k0050")?.is_some());
        let gets = of(&store, OperationKind::Get);
        let [slow] = gets.as_slice() else { panic!("{gets:?}") };
        assert_eq!((slow.key.as_slice(), slow.entry_count), (&b"k0050"[..], 1));
        assert!(!slow.is_sampled && slow.file_reads >= 1 && slow.file_bytes > 400, "{slow:?}");
        assert!(get(&store, "k0050")?.is_some());
        assert_eq!(of(&store, OperationKind::Get).len(), 1, "from the cache it waits for nothing");
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek_to_first()?;
        iter.next()?;
        drop(iter);
        let scans = of(&store, OperationKind::Scan);
        let [slow] = scans.as_slice() else { panic!("{scans:?}") };
        assert!(slow.entry_count == 2 && slow.file_reads >= 1, "{slow:?}");
        put(&store, "a", "1")?;
        let mut batch = WriteBatch::new();
        batch.put(b"b", b"2")?;
        store.update(&[b"b"], &WriteOptions::default(), |_| Ok(Update::Write(batch.clone())))?;
        let writes = of(&store, OperationKind::Write);
        let keys: Vec<_> = writes.iter().map(|slow| slow.key.as_slice()).collect();
        assert!(keys.contains(&b"a".as_slice()) && keys.contains(&b"b".as_slice()), "{writes:?}");
        let syncs = writes.iter().flat_map(|slow| &slow.waits);
        assert_eq!(syncs.filter(|wait| wait.cause == WaitCause::Sync).count(), 2, "{writes:?}");
        Ok(())
    })
}

#[test]
fn one_operation_in_so_many_is_kept_with_its_steps() -> Result<()> {
    simulate(2, |env| {
        let store = open(env, &small())?;
        put(&store, "a", "1")?;
        for _ in 0..4 * SAMPLE_EVERY {
            assert!(get(&store, "a")?.is_some());
        }
        let sampled = of(&store, OperationKind::Get);
        assert!((2..=8).contains(&sampled.len()), "{sampled:?}");
        let mut steps =
            sampled.iter().map(|slow| slow.explanation.as_ref().map(|it| it.steps.len()));
        assert!(steps.all(|steps| steps == Some(1)), "{sampled:?}");
        assert!(sampled.iter().all(|slow| slow.is_sampled && slow.waits.is_empty()));
        Ok(())
    })
}

/// If the distance between two that are timed were fixed, one kind would be timed always.
#[test]
fn gets_and_puts_that_take_turns_are_both_timed() -> Result<()> {
    simulate(5, |env| {
        let store = open(env, &small())?;
        for _ in 0..32 * SAMPLE_EVERY {
            put(&store, "a", "1")?;
            assert!(get(&store, "a")?.is_some());
        }
        for kind in [OperationKind::Get, OperationKind::Write] {
            let count = store.latencies(kind).sample_count();
            assert!((16..=48).contains(&count), "{count} of {kind:?}");
        }
        Ok(())
    })
}

/// The first get asks the tables themselves, the next ask the filters that it left in the list, and
/// what is explained asks the tables again, and is not counted.
#[test]
fn a_get_counts_what_it_asks_however_it_is_asked() -> Result<()> {
    simulate(3, |env| {
        let store = open(env, &in_pages(small(), L0Kind::Container, 128 << 10))?;
        for round in 0..4 {
            (round..80).step_by(4).try_for_each(|key| fill(&store, key..key + 1))?;
            store.flush()?;
        }
        let mut batch = WriteBatch::new();
        batch.delete_range(b"x", b"y")?;
        store.write(&batch, &WriteOptions::default())?;
        store.flush()?;
        assert_eq!(store.stats().levels[0].table_count, 5);
        let asked = |key: &str| -> Result<_> {
            let before = store.stats().levels[0];
            get(&store, key)?;
            let after = store.stats().levels[0];
            let filtered_out = after.filtered_out_count - before.filtered_out_count;
            Ok((filtered_out, after.searched() - before.searched()))
        };
        for (key, wanted) in [("k0040", (3, 1)), ("k0043", (0, 1)), ("k00751", (4, 0))] {
            assert_eq!(asked(key)?, wanted, "{key}");
            assert_eq!(asked(key)?, wanted, "{key}");
            let explained = store.explain_get(key.as_bytes())?;
            let at_tables =
                explained.steps.iter().filter(|step| matches!(step.source, Source::Table { .. }));
            assert!(at_tables.count() as u64 >= wanted.0 + wanted.1, "{explained}");
        }
        Ok(())
    })
}

#[test]
fn the_figures_of_the_levels_add_up() -> Result<()> {
    simulate(4, |env| {
        let store = open(env, &small())?;
        // Not in order, so that rows overlap and cuts have something to merge.
        (0..7).try_for_each(|part| {
            (part..600).step_by(7).try_for_each(|key| fill(&store, key..key + 1))
        })?;
        store.flush()?;
        store.settle();
        let before = store.stats();
        for key in 0..700 {
            assert_eq!(get(&store, &format!("k{key:04}"))?.is_some(), key < 600);
        }
        store
            .iter(IterOptions { range: KeyRange::all(), ..IterOptions::default() })?
            .seek_to_first()?;
        let stats = store.stats();
        assert_eq!((stats.get_count, stats.scan_count, stats.scanned_count), (700, 1, 1));
        let found: u64 = stats.levels.iter().map(|level| level.found_count).sum();
        assert_eq!(found, 600, "{stats}");
        let searched: u64 = stats.levels.iter().map(|level| level.searched()).sum();
        assert!((stats.read_amplification - searched as f64 / 700.0).abs() < 1e-9, "{stats}");
        let written: u64 = before.levels.iter().map(|level| level.written_bytes).sum();
        assert_eq!(written, before.flush_bytes + before.compaction_write_bytes, "{before}");
        let levels = before.levels.iter();
        let read: u64 = levels.skip(1).map(|l| l.taken_in_bytes + l.rewritten_bytes).sum();
        assert_eq!(read, before.compaction_read_bytes, "{before}");
        assert!(before.cut_count > 0 && before.cut_count <= before.compaction_count, "{before}");
        assert!(before.space_amplification >= 1.0, "{before}");
        let width = stats.to_string().lines().map(|line| line.chars().count()).max();
        assert!(width <= Some(100), "{stats}");
        Ok(())
    })
}
