//! Compaction filters of keyspaces: whose filter is asked, about which keys, and what is said when
//! one fails.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use terrace::filter::{CompactionFilter, Decision, Wants};
use terrace::{Db, ErrorKind, KeyspaceOptions, Options, merge};

/// Drops values that are "old", makes "new" of "worn", and panics at "bad". Of keys that begin with
/// `@` it drops all without a look at the value. It expects keys as the program wrote them.
#[derive(Debug)]
struct Worn(&'static str);

impl CompactionFilter for Worn {
    fn name(&self) -> &str {
        self.0
    }

    fn wants(&self, key: &[u8]) -> Wants {
        if key.starts_with(b"@") { Wants::Key } else { Wants::Value }
    }

    fn decide(&self, key: &[u8], value: &[u8]) -> Decision {
        assert!(key.iter().all(u8::is_ascii_graphic), "a key with a prefix: {key:?}");
        match value {
            b"old" => Decision::Drop,
            b"worn" => Decision::Change(b"new".to_vec()),
            b"bad" => panic!("a bad value"),
            _ if key.starts_with(b"@") => {
                assert!(value.is_empty(), "it did not want to see the value");
                Decision::Drop
            }
            _ => Decision::Keep,
        }
    }
}

/// What a keyspace holds, on one line.
fn held(db: &Db, keyspace: &str) -> String {
    let keyspace = db.keyspace(keyspace).unwrap();
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let row = |row: terrace::Result<(terrace::Key, terrace::Value)>| {
        let (key, value) = row.unwrap();
        format!("{}={}", text(&key), text(&value))
    };
    keyspace.iter().map(row).collect::<Vec<_>>().join(" ")
}

fn fill(db: &Db, keyspace: &str) {
    let keyspace = db.keyspace(keyspace).unwrap();
    for (key, value) in [("a", "fine"), ("b", "old"), ("c", "worn"), ("@d", "fine")] {
        keyspace.put(key, value).unwrap();
    }
}

fn compact(db: &Db) -> terrace::Result<()> {
    for name in db.keyspaces()? {
        db.admin().compact(&db.keyspace(&name)?, ..)?;
    }
    Ok(())
}

const FILLED: &str = "@d=fine a=fine b=old c=worn";
const FILTERED: &str = "a=fine c=new";

#[test]
fn a_filter_serves_the_keyspace_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new()
        .compaction_filter("default", Worn("first"))
        .compaction_filter("users", Worn("second"))
        .open(dir.path())
        .unwrap();
    for name in ["default", "users", "others"] {
        fill(&db, name);
    }
    compact(&db).unwrap();
    assert_eq!(held(&db, "default"), FILTERED);
    assert_eq!(held(&db, "users"), FILTERED);
    assert_eq!(held(&db, "others"), FILLED, "it has no filter");
    let stats = db.admin().stats();
    assert_eq!((stats.filtered_dropped_count, stats.filtered_changed_count), (4, 2));
    let metrics = db.admin().metrics().to_string();
    assert!(metrics.contains("terrace_filtered_dropped_total 4\n"), "{metrics}");
    assert!(metrics.contains("terrace_filtered_changed_total 2\n"), "{metrics}");
    // The name counts, not the number.
    db.rename_keyspace("users", "people").unwrap();
    db.rename_keyspace("others", "users").unwrap();
    fill(&db, "people");
    compact(&db).unwrap();
    assert_eq!(held(&db, "people"), FILLED);
    assert_eq!(held(&db, "users"), FILTERED);
    // A keyspace that is made anew under the name.
    assert!(db.drop_keyspace("users").unwrap());
    fill(&db, "users");
    compact(&db).unwrap();
    assert_eq!(held(&db, "users"), FILTERED);
    db.close().unwrap();
    // Nothing of the filters was kept.
    let db = Db::open(dir.path()).unwrap();
    fill(&db, "users");
    compact(&db).unwrap();
    assert_eq!(held(&db, "users"), FILLED);
    db.close().unwrap();
    // The catalog of a database that exists is read before anything is asked.
    let db = Options::new().compaction_filter("users", Worn("late")).open(dir.path()).unwrap();
    compact(&db).unwrap();
    assert_eq!(held(&db, "users"), FILTERED);
    assert_eq!(held(&db, "people"), FILLED);
}

#[test]
fn a_transaction_and_a_snapshot_see_nothing_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().compaction_filter("default", Worn("worn")).open(dir.path()).unwrap();
    fill(&db, "default");
    let (snapshot, mut transaction) = (db.snapshot(), db.begin());
    assert!(transaction.get(&db, "b").unwrap().is_some_and(|value| value == "old"));
    compact(&db).unwrap();
    assert!(transaction.get(&db, "b").unwrap().is_some_and(|value| value == "old"));
    assert!(db.at(&snapshot).get("c").unwrap().is_some_and(|value| value == "worn"));
    transaction.put(&db, "e", "fine");
    transaction.commit().unwrap();
    drop(snapshot);
    compact(&db).unwrap();
    assert_eq!(held(&db, "default"), "a=fine c=new e=fine");
}

#[test]
fn what_operands_come_to_is_asked_about() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().compaction_filter("texts", Worn("texts")).open(dir.path()).unwrap();
    let appending = KeyspaceOptions::new().merge_operator(merge::APPEND);
    let texts = db.keyspace_with("texts", appending).unwrap();
    for (key, operands) in [("a", ["o", "ld"]), ("b", ["fi", "ne"]), ("c", ["old", "er"])] {
        operands.iter().for_each(|operand| texts.merge(key, operand).unwrap());
    }
    compact(&db).unwrap();
    assert_eq!(held(&db, "texts"), "b=fine c=older");
}

#[test]
fn a_filter_that_panics_is_named_and_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().compaction_filter("users", Worn("worn-out")).open(dir.path()).unwrap();
    fill(&db, "users");
    db.keyspace("users").unwrap().put("bad", "bad").unwrap();
    let error = compact(&db).unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Filter, Some(&b"bad"[..])));
    let said =
        "the compaction filter worn-out failed at the key \"bad\" (it panicked: a bad value)";
    assert!(error.to_string().starts_with(said), "{error}");
    assert!(!error.is_retryable());
    assert_eq!(held(&db, "users"), "@d=fine a=fine b=old bad=bad c=worn");
    db.put("k", "v").unwrap();
    db.close().unwrap();
    let db = Db::open(dir.path()).unwrap();
    compact(&db).unwrap();
    assert_eq!(held(&db, "users"), "@d=fine a=fine b=old bad=bad c=worn");
}

#[test]
fn options_that_cannot_be_meant_are_refused() {
    let refused = |options: Options, what: &str| {
        let error = options.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(what), "{error}");
    };
    let one = || Options::new().compaction_filter("default", Worn("one"));
    one().validate().unwrap();
    refused(one().compaction_filter("0", Worn("two")), "two compaction filters");
    refused(one().compaction_filter("", Worn("two")), "cannot name a keyspace");
    refused(one().compaction_filter("users", Worn("two words")), "cannot name a compaction filter");
}
