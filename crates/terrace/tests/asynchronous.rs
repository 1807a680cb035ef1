//! The database for programs on tokio: the same answers, on threads that may wait only where there
//! is something to wait for.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "it looks at real threads and files")]

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use terrace::asynchronous::{AsyncDb, Rows};
use terrace::{Batch, Cas, Db, Durability, Error, ErrorKind, Options, Result};

fn on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

/// What a future answers at once; none if it has to wait for something.
fn first_poll<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Whether a call asks for another thread: where there is no runtime, that is a panic.
fn wants_a_thread<T>(future: impl Future<Output = T>) -> bool {
    let polled = catch_unwind(AssertUnwindSafe(|| first_poll(future).is_some()));
    polled.map_or(true, |is_answered| {
        assert!(is_answered, "it waits for something else");
        false
    })
}

async fn keys(mut rows: Rows) -> Result<Vec<String>> {
    let mut keys = Vec::new();
    while let Some(row) = rows.next().await {
        keys.push(String::from_utf8(row?.0.into_vec()).unwrap());
    }
    Ok(keys)
}

/// A database with `count` keys in a table that nobody has opened yet.
fn on_disk(dir: &tempfile::TempDir, count: usize, value: &str) -> Db {
    let db = Db::open(dir.path()).unwrap();
    for number in 0..count {
        db.put(format!("key{number:05}"), value).unwrap();
    }
    db.admin().flush().unwrap();
    db.close().unwrap();
    drop(db);
    Db::open(dir.path()).unwrap()
}

#[test]
fn everything_answers_as_it_does_without_a_runtime() {
    let dir = tempfile::tempdir().unwrap();
    on(async {
        let db = AsyncDb::open(dir.path()).await.unwrap();
        let users = db.keyspace("users").await.unwrap();
        for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
            users.put(key, value).await.unwrap();
        }
        let before = db.snapshot();
        assert!(users.get("a").await.unwrap().unwrap() == "1");
        assert!(db.get("a").await.unwrap().is_none());
        users.delete("a").await.unwrap();
        assert!(!users.contains_key("a").await.unwrap());
        assert_eq!(keys(users.at(&before).iter()).await.unwrap(), ["a", "b", "c"]);
        assert_eq!(keys(users.range("b"..).rev()).await.unwrap(), ["c", "b"]);
        assert!(users.first().await.unwrap().unwrap().0 == "b");
        assert!(users.last().await.unwrap().unwrap().0 == "c");
        let many = users.get_many(&["b", "x"]).await.unwrap();
        assert!(many[0].as_ref().unwrap() == "2" && many[1].is_none());
        let taken = users.compare_and_swap("b", None, Some(b"9")).await.unwrap();
        assert!(matches!(taken, Cas::Mismatch(Some(value)) if value == "2"));
        let new = users.update("b", |old| Some([old.unwrap(), b"!"].concat())).await.unwrap();
        assert!(new.unwrap() == "2!");
        users.delete_range("c"..).await.unwrap();
        assert_eq!(keys(users.prefix("")).await.unwrap(), ["b"]);
        let refused = users.merge("b", "1").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);

        let mut batch = Batch::new();
        batch.put(users.blocking(), "x", "1").put(db.blocking(), "y", "2");
        db.write(batch).await.unwrap();
        let sum = db.transaction({
            let (db, users) = (db.blocking().clone(), users.blocking().clone());
            move |tx| {
                let found = [tx.get(&users, "x")?.is_some(), tx.get(&db, "y")?.is_some()];
                tx.put(&db, "z", "3");
                Ok::<_, Error>(found)
            }
        });
        assert_eq!(sum.await.unwrap(), [true, true]);
        assert!(db.get("z").await.unwrap().unwrap() == "3");
        db.sync().await.unwrap();
        db.close().await.unwrap();
        assert_eq!(db.put("k", "v").await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(keys(db.iter()).await.unwrap_err().kind(), ErrorKind::Closed);
    });
    assert!(Db::open(dir.path()).unwrap().get("z").unwrap().unwrap() == "3");
}

/// What is tried on the task's thread, and then done by one that may wait, counts once.
#[test]
fn a_call_that_has_to_wait_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let db = on_disk(&dir, 300, "value").asynchronous();
    on(async {
        assert_eq!(keys(db.iter()).await.unwrap().len(), 300);
        assert_eq!(keys(db.range("key00290"..)).await.unwrap().len(), 10);
        assert!(db.first().await.unwrap().is_some());
        assert!(db.get("key00007").await.unwrap().is_some());
        assert!(db.get("nothing").await.unwrap().is_none());
        assert!(db.get_many(&["key00008", "nothing"]).await.unwrap()[0].is_some());
        db.delete("key00007").await.unwrap();
        assert!(db.compare_and_swap("key00200", None, None).await.unwrap() != Cas::Swapped);
    });
    let stats = db.blocking().stats();
    assert_eq!((stats.scan_count, stats.seek_count, stats.scanned_count), (3, 3, 311));
    assert_eq!((stats.get_found_count, stats.get_missed_count), (1, 1));
    assert_eq!((stats.multi_get_count, stats.multi_get_missed_count), (1, 1));
    assert_eq!(stats.read_bytes, (311 + 1 + 1) * (8 + 5));
    assert_eq!((stats.conditional_write_count, stats.conditional_refused_count), (1, 1));
    assert_eq!((stats.delete_count, stats.write_bytes), (1, 8));
}

#[test]
fn what_is_in_memory_answers_without_another_thread() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap().asynchronous();
    // The first write may have to make room for itself.
    db.blocking().put("b", "2").unwrap();
    // There is no runtime here, so whatever wanted a thread would panic.
    first_poll(db.put("a", "1")).expect("a put at once").unwrap();
    first_poll(db.delete("b")).expect("a delete at once").unwrap();
    assert!(first_poll(db.get("a")).expect("a get at once").unwrap().is_some());
    assert!(first_poll(db.get("b")).expect("a get at once").unwrap().is_none());
    let rows = first_poll(keys(db.iter())).expect("a short walk at once");
    assert_eq!(rows.unwrap(), ["a"]);
}

#[test]
fn what_has_to_wait_keeps_no_task_from_running() {
    let dir = tempfile::tempdir().unwrap();
    let db = on_disk(&dir, 100, "value").asynchronous();
    assert!(wants_a_thread(db.get("key00042")), "the table is on the disk");
    on(async {
        assert!(db.get("key00042").await.unwrap().unwrap() == "value");
    });
    assert!(!wants_a_thread(db.get("key00042")), "now it is in memory");
    db.blocking().close().unwrap();
    let synced = Options::new().durability(Durability::Sync);
    let db = synced.open(dir.path()).unwrap().asynchronous();
    assert!(wants_a_thread(db.put("key", "other")), "a sync is waited for");
    on(async {
        let tasks: Vec<_> = (0..500)
            .map(|number| {
                let db = db.clone();
                tokio::spawn(async move { db.put(format!("task{number:03}"), "value").await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!(keys(db.prefix("task")).await.unwrap().len(), 500);
    });
}

#[test]
fn a_walk_over_much_is_whole_in_both_directions_and_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let db = on_disk(&dir, 5000, "value").asynchronous();
    on(async {
        let expected: Vec<String> = (0..5000).map(|number| format!("key{number:05}")).collect();
        assert_eq!(keys(db.iter()).await.unwrap(), expected);
        let backwards: Vec<String> = expected.iter().rev().cloned().collect();
        assert_eq!(keys(db.iter().rev()).await.unwrap(), backwards);
        let mut rows = db.iter();
        assert!(rows.next().await.unwrap().unwrap().0 == "key00000");
        db.clear().await.unwrap();
        let mut count = 1;
        while let Some(row) = rows.next().await {
            row.unwrap();
            count += 1;
        }
        assert_eq!(count, 5000);
        assert!(rows.next().await.is_none());
        assert!(keys(db.iter()).await.unwrap().is_empty());
    });
}

/// Whoever takes rows slowly has few of them waiting, whether they are many or long.
#[test]
fn a_walk_reads_ahead_a_little_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    for value_bytes in [10, 100_000] {
        let db = on_disk(&dir, 400, &"x".repeat(value_bytes)).asynchronous();
        on(async {
            let mut rows = db.iter();
            for taken in 0..400 {
                rows.next().await.unwrap().unwrap();
                // What is being read comes in, if there is room.
                tokio::task::yield_now().await;
                let text = format!("{rows:?}");
                let ready: usize =
                    text.split(&[' ', ')'][..]).rev().nth(2).unwrap().parse().unwrap();
                let most = if value_bytes == 10 { 2048 } else { 8 };
                assert!(ready <= most, "after {taken}: {text}");
            }
            assert!(rows.next().await.is_none());
            db.close().await.unwrap();
        });
    }
}

#[test]
fn futures_and_streams_that_are_dropped_leave_everything_usable() {
    let dir = tempfile::tempdir().unwrap();
    let synced = Options::new().durability(Durability::Sync);
    on_disk(&dir, 3000, "value").close().unwrap();
    let db = synced.open(dir.path()).unwrap().asynchronous();
    on(async {
        // More than may wait at a time, each dropped as soon as it has begun.
        for number in 0..300 {
            if let Some(answer) = first_poll(db.put(format!("dropped{number:03}"), "value")) {
                answer.unwrap();
            }
            let mut rows = db.iter();
            let waker = Waker::noop();
            let _ = Pin::new(&mut rows).poll_next(&mut Context::from_waker(waker));
        }
        // A value is there as it was written, or not at all.
        let mut rows = db.prefix("dropped");
        while let Some(row) = rows.next().await {
            assert!(row.unwrap().1 == "value");
        }
        db.put("key", "value").await.unwrap();
        assert!(db.get("key").await.unwrap().unwrap() == "value");
        db.close().await.unwrap();
    });
}

#[test]
fn a_panic_goes_on_in_the_task_that_waits() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap().asynchronous();
    on(async {
        let task = tokio::spawn({
            let db = db.clone();
            async move { db.run(|_| -> Result<()> { panic!("planted") }).await }
        });
        assert!(task.await.unwrap_err().is_panic());
        db.put("key", "value").await.unwrap();
    });
}

#[test]
fn handles_and_futures_may_be_sent() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path()).unwrap().asynchronous();
    drop(is_send(db.get("key")));
    drop(is_send(db.put("key", String::new())));
    drop(is_send(db.iter()));
    drop(is_send(db.transaction(|_| Ok::<_, Error>(()))));
    drop(is_send(db.delete_range("a".."b")));
}
