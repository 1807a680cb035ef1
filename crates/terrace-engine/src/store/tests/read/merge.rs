//! Goal: operands come to the same value wherever they lie. Method: small histories, spread over
//! memtables, rows and levels in every way.

use std::time::Duration;

use terrace_base::{Expiry, KeyRange, WallTime};
use terrace_env::SharedEnv;

use crate::options::{FormatOptions, Options};
use crate::store::tests::{delete, get, merge, open, put, simulate, small};
use crate::store::{GetOptions, Iter, IterOptions, Store, Update, WriteOptions};
use crate::{Error, Result, WriteBatch};

fn counting() -> Options {
    Options { format: FormatOptions { merge_operator: Some("add-i64".to_string()) }, ..small() }
}

fn shown(iter: &Iter) -> Option<(String, String)> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    iter.entry().map(|entry| (text(entry.key), text(entry.value)))
}

fn scan(store: &Store, backward: bool) -> Result<String> {
    walk(store.iter(IterOptions::default())?, backward)
}

fn walk(mut iter: Iter, backward: bool) -> Result<String> {
    if backward {
        iter.seek_back(None)?
    } else {
        iter.seek_to_first()?
    }
    let mut seen = Vec::new();
    while let Some((key, value)) = shown(&iter) {
        seen.push(format!("{key}={value}"));
        if backward { iter.prev()? } else { iter.next()? }
    }
    Ok(seen.join(" "))
}

/// One write, as a line of text.
fn act(store: &Store, line: &str) -> Result<()> {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["put", key, value] => put(store, key, value),
        ["merge", key, operand] => merge(store, key, operand),
        ["delete", key] => delete(store, key),
        ["clear"] => {
            let mut batch = WriteBatch::new();
            batch.delete_range(b"a", b"z")?;
            store.write(&batch, &WriteOptions::default())
        }
        other => panic!("{other:?} is no write"),
    }
}

/// Does `writes`, and after each of them nothing, a flush, or a compaction of everything, in every
/// combination; then the range must show `wanted`, also after it was opened anew. With snapshots,
/// each keeps what it saw.
fn comes_to(writes: &[&str], wanted: &str, with_snapshots: bool) {
    for way in 0..3u32.pow(writes.len() as u32) {
        let run = |env: &SharedEnv| -> Result<()> {
            let store = open(env, &small())?;
            let mut snapshots = Vec::new();
            let mut left = way;
            for line in writes {
                act(&store, line)?;
                if with_snapshots {
                    snapshots.push((store.snapshot(), scan(&store, false)?));
                }
                match left % 3 {
                    0 => {}
                    1 => store.flush()?,
                    _ => store.compact(&KeyRange::all())?,
                }
                left /= 3;
            }
            assert_eq!(scan(&store, false)?, wanted);
            for (snapshot, seen) in snapshots {
                let iter = || snapshot.iter(IterOptions::default());
                assert_eq!(walk(iter()?, false)?, seen, "at {:?}", snapshot.seqno());
                assert_eq!(walk(iter()?, true)?, seen, "at {:?}", snapshot.seqno());
                let key = snapshot.get(b"k", &GetOptions::default())?;
                let shown = key.map(|item| format!("k={}", item.value.escape_ascii()));
                assert_eq!(shown.unwrap_or_default(), seen, "at {:?}", snapshot.seqno());
            }
            store.compact(&KeyRange::all())?;
            assert_eq!(scan(&store, true)?, wanted);
            drop(store);
            let store = open(env, &small())?;
            let shown = get(&store, "k")?.map(|value| format!("k={value}"));
            assert_eq!(shown.unwrap_or_default(), wanted);
            Ok(())
        };
        if let Err(error) = simulate(u64::from(way), run) {
            panic!("{writes:?}, way {way}: {error}");
        }
    }
}

#[test]
fn operands_are_folded_wherever_they_lie() {
    let over_a_value = ["put k a", "merge k b", "merge k c", "merge k d"];
    comes_to(&over_a_value, "k=abcd", false);
    comes_to(&over_a_value, "k=abcd", true);
    let over_a_tombstone = ["put k a", "delete k", "merge k b", "merge k c"];
    comes_to(&over_a_tombstone, "k=bc", false);
    comes_to(&over_a_tombstone, "k=bc", true);
    let over_a_range_tombstone = ["put k a", "merge k b", "clear", "merge k c"];
    comes_to(&over_a_range_tombstone, "k=c", false);
    comes_to(&over_a_range_tombstone, "k=c", true);
    comes_to(&["merge k a", "merge k b", "delete k"], "", true);
    comes_to(&["merge k a", "put k b", "merge k c"], "k=bc", true);
}

#[test]
fn operands_outlive_the_value_under_them() -> Result<()> {
    for way in 0..9u32 {
        simulate(u64::from(way), |env| -> Result<()> {
            let store = open(env, &small())?;
            let expiry = Expiry::at(WallTime(env.wall_time().0 + 5000));
            let mut batch = WriteBatch::new();
            batch.put_with_expiry(b"k", b"a", Some(expiry))?;
            store.write(&batch, &WriteOptions::default())?;
            let settle = |way| match way % 3 {
                0 => Ok(()),
                1 => store.flush(),
                _ => store.compact(&KeyRange::all()),
            };
            settle(way)?;
            merge(&store, "k", "b")?;
            merge(&store, "k", "c")?;
            let snapshot = store.snapshot();
            settle(way / 3)?;
            let item = store.get(b"k", &GetOptions::default())?.expect("it is alive");
            assert_eq!((item.value.as_slice(), item.expiry), (&b"abc"[..], Some(expiry)));
            let early = store.iter(IterOptions::default())?;
            env.sleep(Duration::from_secs(6));
            merge(&store, "k", "d")?;
            assert_eq!(get(&store, "k")?.as_deref(), Some("bcd"), "way {way}");
            store.compact(&KeyRange::all())?;
            assert_eq!(walk(early, true)?, "k=abc", "it judges by the moment of its making");
            assert_eq!(scan(&store, false)?, "k=bcd");
            let item = snapshot.get(b"k", &GetOptions::default())?.expect("operands stay");
            assert_eq!((item.value.as_slice(), item.expiry), (&b"bc"[..], None));
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_compaction_leaves_one_value_of_a_stack() -> Result<()> {
    simulate(3, |env| {
        let store = open(env, &counting())?;
        for _ in 0..3000 {
            merge(&store, "k", "1")?;
        }
        assert_eq!(get(&store, "k")?.as_deref(), Some("3000"));
        store.compact(&KeyRange::all())?;
        let held = store.snapshot();
        merge(&store, "k", "1")?;
        merge(&store, "k", "1")?;
        store.compact(&KeyRange::all())?;
        let tables: u64 = store.stats().levels.iter().map(|level| level.entry_count).sum();
        assert_eq!(tables, 2, "the value that the snapshot sees, and one operand over it");
        let item = held.get(b"k", &GetOptions::default())?.expect("held");
        assert_eq!(item.value, b"3000");
        drop(held);
        store.compact(&KeyRange::all())?;
        assert_eq!(get(&store, "k")?.as_deref(), Some("3002"));
        Ok(())
    })
}

#[test]
fn a_conditional_write_sees_the_folded_value() -> Result<()> {
    simulate(4, |env| {
        let store = open(env, &small())?;
        put(&store, "k", "a")?;
        store.flush()?;
        merge(&store, "k", "b")?;
        store.update(&[b"k"], &WriteOptions::default(), |old| {
            assert_eq!(old[0].as_ref().map(|item| item.value.as_slice()), Some(&b"ab"[..]));
            let mut batch = WriteBatch::new();
            batch.merge(b"k", b"c")?;
            Ok(Update::Write(batch))
        })?;
        assert_eq!(get(&store, "k")?.as_deref(), Some("abc"));
        Ok(())
    })
}

#[test]
fn the_operator_is_kept_and_merges_without_one_are_refused() -> Result<()> {
    simulate(6, |env| {
        let without = Options { format: FormatOptions::default(), ..small() };
        let store = open(env, &without)?;
        put(&store, "k", "1")?;
        let refused = merge(&store, "k", "1");
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        let refused = store.update(&[b"k"], &WriteOptions::default(), |_| {
            let mut batch = WriteBatch::new();
            batch.merge(b"k", b"1")?;
            Ok(Update::Write(batch))
        });
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        drop(store);
        let store = open(env, &counting())?;
        merge(&store, "k", "1")?;
        drop(store);
        // The name is in the manifest: it need not be said again, and another one is refused.
        let store = open(env, &without)?;
        assert_eq!(get(&store, "k")?.as_deref(), Some("2"));
        drop(store);
        let refused = open(env, &small()).expect_err("another operator");
        assert!(refused.to_string().contains("add-i64, not with append"), "{refused}");
        Ok(())
    })
}

#[test]
fn a_failing_operator_loses_nothing() -> Result<()> {
    simulate(5, |env| {
        let store = open(env, &counting())?;
        put(&store, "a", "1")?;
        put(&store, "k", "many")?;
        merge(&store, "k", "2")?;
        merge(&store, "k", "3")?;
        put(&store, "z", "1")?;
        let refused = |store: &Store| {
            let outcome = get(store, "k");
            assert!(matches!(outcome, Err(Error::Merge(_))), "{outcome:?}");
            let outcome = scan(store, false);
            assert!(matches!(outcome, Err(Error::Merge(_))), "{outcome:?}");
            let update = store.update(&[b"k"], &WriteOptions::default(), |_| Ok(Update::Keep));
            assert!(matches!(update, Err(Error::Merge(_))), "{update:?}");
        };
        refused(&store);
        store.flush()?;
        refused(&store);
        store.compact(&KeyRange::all())?;
        refused(&store);
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek(b"a")?;
        assert!(iter.next().is_err());
        assert_eq!(shown(&iter), None);
        // A seek goes on behind the key.
        iter.seek(b"k\0")?;
        assert_eq!(shown(&iter), Some(("z".into(), "1".into())));
        let report = store.check(&mut |_, _| ())?;
        assert!(report.is_clean(), "{report}");
        put(&store, "k", "40")?;
        merge(&store, "k", "2")?;
        assert_eq!(scan(&store, true)?, "z=1 k=42 a=1");
        Ok(())
    })
}
