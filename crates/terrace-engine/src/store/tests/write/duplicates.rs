//! Several dranges of one interval: whichever of them a version lies in, the newest one counts.

use std::sync::Arc;

use terrace_env::{JobClass, JobHandle, SeededRng, SharedEnv};

use crate::explain::Source;
use crate::options::Options;
use crate::store::tests::workload::content;
use crate::store::tests::{delete, delete_range, get, merge, open, put, simulate, small};
use crate::store::{GetOptions, IterOptions, Store, Update, WriteOptions};
use crate::{Result, WriteBatch};

fn options() -> Options {
    Options { memtable_bytes: 64 << 10, log_bytes_max: 1 << 20, frozen_memtables_max: 8, ..small() }
}

/// A range of which the key `h` has three dranges.
fn open_hot(env: &SharedEnv) -> Result<Store> {
    let store = open(env, &options())?;
    make_hot(&store)?;
    Ok(store)
}

fn make_hot(store: &Store) -> Result<()> {
    store.divide_among(vec![b"h".to_vec(), b"h\0".to_vec()], &[1, 3, 1])
}

/// Entries of each active memtable.
fn entry_counts(store: &Store) -> Vec<u64> {
    store.inner.view.load().active().map(|memtable| memtable.entry_count()).collect()
}

#[test]
fn writes_of_a_hot_key_go_to_all_of_its_dranges_and_the_newest_is_read() -> Result<()> {
    simulate(41, |env| {
        let store = open_hot(env)?;
        for round in 0..30 {
            put(&store, "h", &format!("{round}"))?;
            put(&store, "g", "once")?;
            assert_eq!(get(&store, "h")?, Some(format!("{round}")));
            let many = store.multi_get(&[b"h", b"g", b"x"], &GetOptions::default())?;
            assert_eq!(many[0].as_deref(), Some(format!("{round}").as_bytes()));
        }
        let counts = entry_counts(&store);
        assert_eq!(counts.len(), 5);
        assert!(counts[1..4].iter().all(|count| (8..=12).contains(count)), "{counts:?}");
        delete(&store, "h")?;
        assert_eq!(get(&store, "h")?, None);
        // All three were asked, and say so.
        let explained = store.explain_get(b"h")?;
        assert_eq!((explained.drange, explained.duplicates, explained.drange_count), (1, 3, 5));
        let active = |source: &Source| matches!(source, Source::Memtable { is_active: true, .. });
        assert_eq!(explained.steps.iter().filter(|step| active(&step.source)).count(), 3);
        assert!(explained.to_string().contains("drange 2 of 5, ×3: from 'h'"), "{explained}");
        assert_eq!(store.explain_get(b"g")?.steps.len(), 1);
        Ok(())
    })
}

/// Goal: a batch goes to one of the dranges of an interval with all that it has for it, and a range
/// tombstone hides what lies in the others. Method: tombstones between versions, in every order.
#[test]
fn a_range_tombstone_hides_what_is_older_in_any_of_them() -> Result<()> {
    simulate(42, |env| {
        let store = open_hot(env)?;
        for round in 0..20 {
            for turn in 0..round % 4 {
                put(&store, "h", &format!("{round}-{turn}"))?;
            }
            delete_range(&store, "a", "z")?;
            assert_eq!(get(&store, "h")?, None, "round {round}");
            assert!(content(&store)?.is_empty());
            let mut batch = WriteBatch::new();
            batch.put(b"g", b"1")?;
            batch.put(b"h", b"2")?;
            batch.delete_range(b"h", b"i")?;
            batch.put(b"h", format!("{round}").as_bytes())?;
            store.write(&batch, &WriteOptions::default())?;
            assert_eq!(get(&store, "h")?, Some(format!("{round}")));
            assert_eq!(content(&store)?.len(), 2);
            if round % 7 == 6 {
                store.flush()?;
                assert_eq!(get(&store, "h")?, Some(format!("{round}")));
            }
            delete_range(&store, "h", "h\0")?;
            assert_eq!(get(&store, "h")?, None, "round {round}");
            assert_eq!(content(&store)?.len(), 1);
        }
        Ok(())
    })
}

/// Goal: merge operands count in the order of their numbers, each once, wherever they lie. Method:
/// operands and snapshots between divisions; nothing is flushed, then everything.
#[test]
fn operands_and_snapshots_keep_their_order_over_all_of_them() -> Result<()> {
    simulate(43, |env| {
        let store = open_hot(env)?;
        let mut expected = String::new();
        let mut snapshots = Vec::new();
        let turn = store.inner.turns.flush.lock();
        for round in 0..60 {
            if round % 17 == 11 {
                expected = format!("<{round}>");
                put(&store, "h", &expected)?;
            } else if round % 23 == 20 {
                expected.clear();
                delete_range(&store, "g", "i")?;
            }
            let operand = char::from(b'a' + (round % 26) as u8).to_string();
            merge(&store, "h", &operand)?;
            expected += &operand;
            assert_eq!(get(&store, "h")?.as_ref(), Some(&expected), "round {round}");
            snapshots.push((store.snapshot(), expected.clone()));
            match round {
                // All in one drange, then again in three, while the old sets wait.
                25 => store.divide_at(vec![b"k".to_vec()])?,
                35 => make_hot(&store)?,
                45 => store.divide_among(Vec::new(), &[4])?,
                _ => {}
            }
        }
        drop(turn);
        for is_flushed in [false, true] {
            if is_flushed {
                store.flush()?;
            }
            for (snapshot, seen) in &snapshots {
                let item = snapshot.get(b"h", &GetOptions::default())?;
                assert_eq!(item.map(|item| item.value).as_deref(), Some(seen.as_bytes()));
                let mut iter = snapshot.iter(IterOptions::default())?;
                iter.seek_back(None)?;
                assert_eq!(iter.entry().map(|entry| entry.value), Some(seen.as_bytes()));
                iter.seek_to_first()?;
                assert_eq!(iter.entry().map(|entry| entry.value), Some(seen.as_bytes()));
            }
        }
        Ok(())
    })
}

/// Goal: none of a set is flushed without the others: what stays in memory would hide it. Method: a
/// record larger than a flush takes lies in one of them, newer versions in the others.
#[test]
fn a_set_is_flushed_as_a_whole_however_large_it_is() -> Result<()> {
    simulate(44, |env| {
        let options = Options { memtable_bytes: 24 << 10, ..options() };
        let store = open(env, &options)?;
        make_hot(&store)?;
        for round in 0..9 {
            put(&store, "h", &"x".repeat(5 * options.memtable_bytes))?;
            for turn in 0..=round {
                put(&store, "h", &format!("{round}-{turn}"))?;
            }
            store.inner.freeze_all()?;
            assert!(store.inner.view.load().dranges[1].frozen.len() <= 3 * (round + 1));
            store.flush()?;
            assert_eq!(get(&store, "h")?, Some(format!("{round}-{round}")));
        }
        Ok(())
    })
}

/// Goal: writers of records that no memtable has room for come to an end. Method: two of them, and
/// one that keeps the others busy.
#[test]
fn large_records_find_room_in_one_of_them() -> Result<()> {
    for seed in 0..10 {
        simulate(seed, |env| {
            let store = open_hot(env)?;
            let clients: Vec<_> = (0..3)
                .map(|client| {
                    let store = store.clone();
                    let bytes =
                        [options().memtable_bytes, options().memtable_bytes / 2, 10][client];
                    let job = Box::new(move || {
                        for _ in 0..12 {
                            put(&store, "h", &"v".repeat(bytes)).unwrap();
                        }
                    });
                    env.spawn(JobClass::Client, &client.to_string(), job).unwrap()
                })
                .collect();
            assert!(clients.into_iter().all(JobHandle::join), "seed {seed}");
            assert!(get(&store, "h")?.is_some());
            store.close()
        })?;
    }
    Ok(())
}

/// Goal: a conditional write sees every other one, and every plain write, of the key. Method:
/// clients count one key up while others write beside it, delete all others, and divide the range;
/// and one writes the key itself, in steps that show in the sum.
#[test]
fn conditional_writes_of_a_hot_key_lose_nothing() {
    const ROUNDS: u64 = 40;
    const STEP: u64 = 1 << 32;
    for seed in 0..40 {
        let counted = simulate(seed, |env| -> Result<u64> {
            let store = open_hot(env)?;
            let count_up = |store: &Store, by: u64| {
                let counted = store.update(&[b"h"], &WriteOptions::default(), |old| {
                    let value = old[0].as_ref().map_or(0, |item| {
                        u64::from_le_bytes(item.value.as_slice().try_into().expect("eight bytes"))
                    });
                    let mut batch = WriteBatch::new();
                    batch.put(b"h", &(value + by).to_le_bytes())?;
                    Ok(Update::Write(batch))
                });
                counted.unwrap();
            };
            let job = |client: u64| -> Box<dyn FnOnce() + Send> {
                let store = store.clone();
                Box::new(move || {
                    let mut random = SeededRng::new(seed << 8 | client);
                    for round in 0..ROUNDS {
                        match client {
                            0 | 1 => count_up(&store, 1),
                            2 => count_up(&store, STEP),
                            // A write that changes nothing, behind everybody's back.
                            3 => {
                                delete_range(&store, "a", "h").unwrap();
                                put(&store, "i", &"x".repeat(random.below(300) as usize)).unwrap();
                            }
                            _ if round % 8 == 0 => {
                                let count = 1 + random.below(4) as usize;
                                store.divide_among(vec![b"h".to_vec()], &[1, count]).unwrap();
                            }
                            _ => assert!(get(&store, "a").unwrap().is_none()),
                        }
                    }
                })
            };
            let clients: Vec<_> = (0..5)
                .map(|id| env.spawn(JobClass::Client, &id.to_string(), job(id)).unwrap())
                .collect();
            assert!(clients.into_iter().all(JobHandle::join), "seed {seed}");
            let item = store.get(b"h", &GetOptions::default())?.expect("it was counted up");
            store.close()?;
            Ok(u64::from_le_bytes(item.value.as_slice().try_into().expect("eight bytes")))
        });
        let counted = counted.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(counted, 2 * ROUNDS + ROUNDS * STEP, "seed {seed}");
    }
}

/// Goal: plain writers of one hot key, each into a drange of its own, are seen in the order of
/// their numbers. Method: a reader beside them, which never sees a client's writes go back.
#[test]
fn readers_beside_writers_of_a_hot_key_never_go_back() {
    for seed in 0..40 {
        let outcome = simulate(seed, |env| -> Result<()> {
            let store = open_hot(env)?;
            let writer = |client: usize| -> Box<dyn FnOnce() + Send> {
                let store = store.clone();
                Box::new(move || {
                    for round in 0..60 {
                        put(&store, "h", &format!("{client}/{round:04}")).unwrap();
                        if round % 20 == 19 {
                            store.flush().unwrap();
                        }
                    }
                })
            };
            let clients: Vec<_> = (0..3)
                .map(|id| env.spawn(JobClass::Client, &id.to_string(), writer(id)).unwrap())
                .collect();
            let mut last = (terrace_base::SeqNo::ZERO, Vec::new());
            for step in 0..150 {
                let found = match step % 2 {
                    0 => store
                        .get(b"h", &GetOptions::default())?
                        .map(|item| (item.seqno, item.value)),
                    _ => {
                        let mut iter = store.iter(IterOptions::default())?;
                        iter.seek_back(None)?;
                        iter.entry().map(|entry| (entry.seqno, entry.value.to_vec()))
                    }
                };
                let Some(found) = found else { continue };
                assert!(found >= last, "seed {seed}: {found:?} after {last:?}");
                last = found;
                env.sleep(std::time::Duration::from_micros(50));
            }
            assert!(clients.into_iter().all(JobHandle::join), "seed {seed}");
            let newest = store.get(b"h", &GetOptions::default())?.expect("it was written");
            assert!(newest.seqno >= last.0, "seed {seed}");
            store.close()
        });
        outcome.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Goal: memtables of duplicates are merged in memory together. Method: a hot key under merging,
/// with a snapshot and operands.
#[test]
fn duplicates_are_merged_into_one_memtable() -> Result<()> {
    simulate(47, |env| {
        let store = open(env, &Options { memtable_merging: true, dranges: 1, ..options() })?;
        store.divide_among(vec![b"h".to_vec(), b"h\0".to_vec()], &[1, 3, 1])?;
        let mut seen = None;
        let mut last = String::new();
        for round in 0..100_000 {
            if store.stats().memtable_merge_count >= 6 {
                break;
            }
            last = format!("{round}-{}", "v".repeat(60));
            put(&store, "h", &last)?;
            if round == 750 {
                merge(&store, "h", "+")?;
                seen = Some((store.snapshot(), format!("{last}+")));
            }
            if round % 100 == 0 {
                assert_eq!(get(&store, "h")?.as_ref(), Some(&last));
            }
        }
        store.settle();
        let stats = store.stats();
        assert!(stats.memtable_merge_count >= 6 && stats.flush_count == 0, "{stats:?}");
        let view = store.inner.view.load_full();
        assert_eq!(view.dranges[1].frozen.len(), 1);
        assert!(view.dranges[1].frozen[0].is_merged);
        drop(view);
        assert_eq!(get(&store, "h")?, Some(last));
        let (snapshot, seen) = seen.expect("a snapshot was taken");
        let item = snapshot.get(b"h", &GetOptions::default())?;
        assert_eq!(item.map(|item| item.value), Some(seen.into_bytes()));
        assert_eq!(content(&store)?.len(), 1);
        Ok(())
    })
}

/// Goal: duplicates need nothing of the log or the manifest. Method: what they hold is replayed,
/// and read after a crash-like end.
#[test]
fn what_duplicates_held_is_replayed() -> Result<()> {
    simulate(48, |env| {
        let store = open_hot(env)?;
        for round in 0..50 {
            put(&store, "h", &format!("{round}"))?;
        }
        store.flush()?;
        for round in 50..100 {
            put(&store, "h", &format!("{round}"))?;
            merge(&store, "h2", "x")?;
        }
        let seqno = store.get(b"h", &GetOptions::default())?.map(|item| item.seqno);
        drop(store);
        let store = open(env, &options())?;
        let item = store.get(b"h", &GetOptions::default())?.expect("it was written");
        assert_eq!((Some(item.seqno), item.value.as_slice()), (seqno, &b"99"[..]));
        assert_eq!(get(&store, "h2")?.map(|value| value.len()), Some(50));
        let map = Arc::clone(&store.inner.dranges.load_full());
        assert!(!map.division().has_duplicates());
        Ok(())
    })
}
