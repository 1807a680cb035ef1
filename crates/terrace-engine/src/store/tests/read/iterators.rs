//! Iterators beside flushes and compactions: they show their own moment, and they let files go.

use terrace_base::KeyRange;

use crate::store::IterOptions;
use crate::store::tests::*;

#[test]
fn an_iterator_survives_flushes_and_compactions_and_lets_files_go() -> Result<()> {
    simulate(10, |env| {
        let store = open(env, &small())?;
        for index in 0..400 {
            put(&store, &format!("{index:04}"), "old")?;
        }
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek_to_first()?;
        for index in 0..400 {
            let entry = iter.entry().expect("still there");
            assert_eq!((entry.key, entry.value), (format!("{index:04}").as_bytes(), &b"old"[..]));
            if index % 100 == 50 {
                for index in 0..400 {
                    put(&store, &format!("{index:04}"), "new")?;
                }
                store.compact(&KeyRange::all())?;
            }
            iter.next()?;
        }
        assert!(iter.entry().is_none());
        Ok(())
    })
}

#[test]
fn an_iterator_lets_go_of_what_a_flush_after_a_freeze_replaced() -> Result<()> {
    simulate(4, |env| {
        let store = open(env, &small())?;
        for index in 0..400 {
            put(&store, &format!("{index:04}"), "old")?;
        }
        store.flush()?;
        store.settle();
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek_to_first()?;
        for index in 0..400 {
            put(&store, &format!("{index:04}"), &"new".repeat(40))?;
        }
        store.compact(&KeyRange::all())?;
        store.settle();
        for index in 0..200 {
            assert_eq!(iter.entry().expect("still there").key, format!("{index:04}").as_bytes());
            iter.next()?;
        }
        store.inner.reclaim()?;
        let files = store.inner.context.opener.store.list()?.len();
        assert_eq!(files, store.inner.versions.current().tables().count());
        Ok(())
    })
}
