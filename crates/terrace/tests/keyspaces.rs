//! Keyspaces by name: made, dropped, renamed, made again; merge operators and expiry of each.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "it compares with the clock of the machine")]

use std::time::Duration;

use terrace::{Batch, Db, ErrorKind, KeyspaceOptions, Options, Prefix, Result, merge};

fn open(dir: &tempfile::TempDir) -> Db {
    Db::open(dir.path()).expect("it opens")
}

/// The keys of a keyspace, as text.
fn keys(db: &Db, name: &str) -> Vec<String> {
    let keyspace = db.keyspace(name).expect("it opens");
    let keys = keyspace
        .iter()
        .keys()
        .map(|key| String::from_utf8(key?.into_vec()).map_err(|_| unreachable!()));
    keys.collect::<Result<_>>().expect("they can be read")
}

#[test]
fn keyspaces_are_kept_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    assert_eq!(db.keyspaces().unwrap(), ["default"]);
    for name in ["users", "by_email", "7", "ä b"] {
        let keyspace = db.keyspace(name).unwrap();
        keyspace.put("k", name).unwrap();
        assert_eq!(keyspace.name(), name);
    }
    let names = ["7", "by_email", "default", "users", "ä b"];
    assert_eq!(db.keyspaces().unwrap(), names);
    db.close().unwrap();
    let db = open(&dir);
    assert_eq!(db.keyspaces().unwrap(), names);
    for name in ["users", "by_email", "7", "ä b"] {
        assert!(db.keyspace(name).unwrap().get("k").unwrap().unwrap() == name);
    }
    assert!(db.get("k").unwrap().is_none());
    assert_eq!(db.keyspace("0").unwrap().name(), "default");
    for there in ["default", "0", "1", "1023", "users", "ä b"] {
        assert!(db.contains_keyspace(there).unwrap(), "{there}");
    }
    for missing in ["01", "+1", "1024", "65535", "Users", "", "a\nb"] {
        assert!(!db.contains_keyspace(missing).unwrap(), "{missing:?}");
    }
    for wrong in ["", "a\nb", &"x".repeat(256)] {
        assert_eq!(db.keyspace(wrong).unwrap_err().kind(), ErrorKind::Invalid, "{wrong:?}");
    }
}

#[test]
fn a_dropped_keyspace_is_gone_with_all_that_it_held() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let users = db.keyspace("users").unwrap();
    users.put("1", "Ada").unwrap();
    let before = db.snapshot();
    assert!(db.drop_keyspace("users").unwrap());
    assert!(!db.drop_keyspace("users").unwrap());
    assert_eq!(db.keyspaces().unwrap(), ["default"]);
    let mut batch = Batch::new();
    batch.put(&users, "2", "Grace").put(&db, "2", "Grace");
    for refused in [
        users.put("2", "Grace").unwrap_err(),
        users.delete("1").unwrap_err(),
        users.clear().unwrap_err(),
        users.ingest().unwrap_err(),
        db.write(&batch).unwrap_err(),
        users.update("1", |_| Some(Vec::new())).unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::NotFound);
        assert!(refused.to_string().contains("users was dropped"), "{refused}");
    }
    assert!(db.get("2").unwrap().is_none(), "a batch is written as a whole or not at all");
    // What a snapshot of before shows is what there was; a new one of the name shows nothing of it.
    assert!(users.at(&before).get("1").unwrap().is_some());
    let anew = db.keyspace("users").unwrap();
    assert!(anew.get("1").unwrap().is_none());
    assert!(anew.at(&before).get("1").unwrap().is_none());
    anew.put("3", "Mary").unwrap();
    db.close().unwrap();
    let db = open(&dir);
    assert_eq!(keys(&db, "users"), ["3"]);
}

#[test]
fn numbers_of_dropped_keyspaces_are_used_again_by_a_later_opening_and_begin_empty() {
    let dir = tempfile::tempdir().unwrap();
    let mut db = open(&dir);
    for round in 0..3 {
        for name in ["a", "b"] {
            let keyspace = db.keyspace(name).unwrap();
            assert!(keyspace.first().unwrap().is_none(), "round {round}");
            keyspace.put(round.to_string(), name).unwrap();
        }
        assert!(db.drop_keyspace("a").unwrap() && db.drop_keyspace("b").unwrap());
        db.close().unwrap();
        db = open(&dir);
        assert_eq!(db.keyspaces().unwrap(), ["default"]);
    }
}

#[test]
fn a_keyspace_is_renamed_with_its_content_and_its_handles() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let old = db.keyspace_with("old", KeyspaceOptions::new().merge_operator(merge::MAX)).unwrap();
    old.put("k", "v").unwrap();
    db.keyspace("taken").unwrap();
    assert_eq!(db.rename_keyspace("none", "new").unwrap_err().kind(), ErrorKind::NotFound);
    for (from, to) in [("old", "taken"), ("default", "new"), ("old", "7")] {
        assert_eq!(db.rename_keyspace(from, to).unwrap_err().kind(), ErrorKind::Invalid);
    }
    db.rename_keyspace("old", "new").unwrap();
    old.merge("k", "w").unwrap();
    assert_eq!(db.keyspaces().unwrap(), ["default", "new", "taken"]);
    assert!(db.drop_keyspace("new").unwrap());
    assert_eq!(old.put("k", "v").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_exists_always_is_neither_dropped_nor_renamed() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    for name in ["default", "0", "1", "1023"] {
        let error = db.drop_keyspace(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("clear it"), "{error}");
    }
    let seven = db.keyspace("7").unwrap();
    assert_eq!(db.keyspaces().unwrap(), ["default"], "an empty one is not listed");
    seven.put("k", "v").unwrap();
    seven.clear().unwrap();
    assert_eq!(db.keyspaces().unwrap(), ["default"]);
    // A number that does not exist always is a name like any other.
    db.keyspace("4711").unwrap().put("k", "v").unwrap();
    assert_eq!(db.keyspaces().unwrap(), ["4711", "default"]);
    assert!(db.drop_keyspace("4711").unwrap());
}

#[test]
fn a_read_only_opening_makes_no_keyspace_and_reads_those_there_are() {
    let dir = tempfile::tempdir().unwrap();
    open(&dir).keyspace("users").unwrap().put("1", "Ada").unwrap();
    let db = Db::options().read_only().open(dir.path()).unwrap();
    assert!(db.keyspace("users").unwrap().contains_key("1").unwrap());
    assert!(db.keyspace("7").unwrap().first().unwrap().is_none());
    let error = db.keyspace("others").unwrap_err();
    assert!(error.to_string().contains("opened for reading only"), "{error}");
}

#[test]
fn each_keyspace_merges_in_its_own_way() {
    let dir = tempfile::tempdir().unwrap();
    let with = |name: &str| KeyspaceOptions::new().merge_operator(name);
    let db = open(&dir);
    let counts = db.keyspace_with("counts", with(merge::ADD_I64)).unwrap();
    let texts = db.keyspace_with("texts", with(merge::APPEND)).unwrap();
    for operand in ["1", "2"] {
        counts.merge("k", operand).unwrap();
        texts.merge("k", operand).unwrap();
    }
    let check = |db: &Db| {
        let get = |name: &str| db.keyspace(name).unwrap().get("k").unwrap().unwrap().into_vec();
        assert_eq!((get("counts"), get("texts")), (b"3".to_vec(), b"12".to_vec()));
    };
    check(&db);
    let error = db.merge("k", "1").unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Invalid, Some(&b"k"[..])));
    assert!(error.to_string().contains("keyspace has no merge operator"), "{error}");
    let error = counts.merge("k", "many").unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Invalid, Some(&b"k"[..])));
    let error = db.keyspace_with("counts", with(merge::MAX)).unwrap_err();
    assert!(error.to_string().contains("merges with add-i64, not with max"), "{error}");
    let error = db.keyspace_with("other", with("none")).unwrap_err();
    assert!(error.to_string().contains("there is no merge operator none"), "{error}");
    // A replay, a flush and a compaction fold, or keep what they cannot fold yet.
    drop((counts, texts));
    drop(db);
    let db = open(&dir);
    check(&db);
    db.admin().flush().unwrap();
    check(&db);
    let counts = db.keyspace("counts").unwrap();
    db.admin().compact(&counts, ..).unwrap();
    db.admin().compact(&db.keyspace("texts").unwrap(), ..).unwrap();
    check(&db);
}

#[test]
fn a_default_expiry_holds_unless_the_write_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let hour = Duration::from_secs(3600);
    let db = open(&dir);
    let sessions = db.keyspace_with("sessions", KeyspaceOptions::new().ttl(hour)).unwrap();
    let write = terrace::WriteOptions::new();
    sessions.put("default", "").unwrap();
    sessions.put_with("longer", "", &write.ttl(2 * hour)).unwrap();
    sessions.put_with("for ever", "", &write.no_expiry()).unwrap();
    let mut batch = Batch::new();
    batch.put(&sessions, "batch", "").put_ttl(&sessions, "batch longer", "", 2 * hour);
    batch.put_until(&sessions, "batch for ever", "", None);
    db.write(&batch).unwrap();
    // Rounded, as some time has passed since.
    let in_hours = |key: &str| {
        let expires_at = sessions.get(key).unwrap().unwrap().expires_at()?;
        let left = expires_at.duration_since(std::time::SystemTime::now()).unwrap();
        Some((left.as_secs_f64() / 3600.0).round() as u64)
    };
    assert_eq!([in_hours("default"), in_hours("batch")], [Some(1); 2]);
    assert_eq!([in_hours("longer"), in_hours("batch longer")], [Some(2); 2]);
    assert_eq!([in_hours("for ever"), in_hours("batch for ever")], [None; 2]);
    drop(sessions);
    drop(db);
    let db = open(&dir);
    let sessions = db.keyspace("sessions").unwrap();
    sessions.put("kept", "").unwrap();
    assert!(sessions.get("kept").unwrap().unwrap().expiry().is_some());
    let sessions =
        db.keyspace_with("sessions", KeyspaceOptions::new().ttl(Duration::ZERO)).unwrap();
    sessions.put("no more", "").unwrap();
    assert!(sessions.get("no more").unwrap().unwrap().expiry().is_none());
}

#[test]
fn a_batch_spans_keyspaces_of_one_database_only() {
    let (dir, other_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (db, other) = (open(&dir), open(&other_dir));
    let users = db.keyspace("users").unwrap();
    let mut batch = Batch::new();
    batch.put(&users, "1", "Ada").put(&db, "Ada", "1").delete_range(&users, Prefix("2"));
    let number = db.write(&batch).unwrap();
    assert_eq!(db.get("Ada").unwrap().unwrap().seqno().0 + 1, number.0);
    assert!(users.get("1").unwrap().unwrap().seqno() < number);
    let error = other.write(&batch).unwrap_err();
    assert!(error.to_string().contains("belongs to another database"), "{error}");
    batch.clear();
    batch.put(&db, vec![0; 70_000], "").put(&db, "fine", "");
    let error = db.write(&batch).unwrap_err();
    assert!(error.to_string().contains("at most 65536"), "{error}");
    assert_eq!(batch.take_refused().unwrap().kind(), ErrorKind::Invalid);
    db.write(&batch).unwrap();
    assert!(db.contains_key("fine").unwrap());
}

#[test]
fn a_new_database_may_be_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let create = |create| Options::new().create(create).open(dir.path());
    let error = create(terrace::Create::Never).unwrap_err();
    assert!(error.to_string().contains("holds no database"), "{error}");
    drop(create(terrace::Create::New).unwrap());
    let error = create(terrace::Create::New).unwrap_err();
    assert!(error.to_string().contains("holds a database already"), "{error}");
    drop(create(terrace::Create::IfMissing).unwrap());
}
