//! Merge operators that a program brings, and databases from before keyspaces had names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use terrace::{Db, ErrorKind, KeyspaceOptions, MergeFailure, MergeOperator, Options};
use terrace_engine::WriteBatch;
use terrace_engine::options::{FormatOptions, Options as EngineOptions, ProcessOptions};
use terrace_engine::process::Process;
use terrace_engine::store::{Store, WriteOptions};
use terrace_env::RealEnv;

/// Keeps the key in front of the operands. It takes no empty ones, nor any for the key "closed",
/// and finds out too late that it cannot read "bad".
#[derive(Debug)]
struct Labelled;

impl MergeOperator for Labelled {
    fn name(&self) -> &'static str {
        "labelled"
    }

    fn check(&self, key: &[u8], operand: &[u8]) -> Result<(), MergeFailure> {
        match operand {
            _ if key == b"closed" => Err(MergeFailure::new("this key is closed")),
            b"" => Err(MergeFailure::new("an empty operand")),
            _ => Ok(()),
        }
    }

    fn full(
        &self,
        key: &[u8],
        _: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Vec<u8>, MergeFailure> {
        if operands.contains(&&b"bad"[..]) {
            return Err(MergeFailure::new("a bad operand"));
        }
        Ok([key, b":", &operands.concat()].concat())
    }
}

#[test]
fn an_operator_of_the_program_sees_keys_as_the_program_does() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().merge_operator(Labelled).open(dir.path()).unwrap();
    let labelled = KeyspaceOptions::new().merge_operator("labelled");
    let other = db.keyspace_with("other", labelled).unwrap();
    other.merge("k", "a").unwrap();
    other.merge("k", "b").unwrap();
    assert_eq!(other.get("k").unwrap().as_deref(), Some(&b"k:ab"[..]));
    let error = other.merge("bad", "").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let said = "the merge operator of the keyspace refuses an operand for the key \"bad\" (an empty operand)";
    assert!(error.to_string().starts_with(said), "{error}");
    let error = other.merge("closed", "a").unwrap_err();
    assert!(error.to_string().contains("for the key \"closed\" (this key"), "{error}");
    assert!(other.get("bad").unwrap().is_none());
    other.merge("bad", "bad").unwrap();
    let error = other.get("bad").unwrap_err();
    assert_eq!((error.kind(), error.key()), (ErrorKind::Merge, Some(&b"bad"[..])));
    assert!(error.to_string().contains("of the key \"bad\" (a bad operand)"), "{error}");
    other.delete("bad").unwrap();
    assert!(other.get("bad").unwrap().is_none());
}

#[test]
fn without_its_operator_a_keyspace_is_refused_and_the_others_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().merge_operator(Labelled).open(dir.path()).unwrap();
    let labelled = KeyspaceOptions::new().merge_operator("labelled");
    db.keyspace_with("other", labelled).unwrap().merge("k", "a").unwrap();
    db.put("k", "v").unwrap();
    drop(db);
    let db = Db::open(dir.path()).unwrap();
    assert!(db.contains_key("k").unwrap());
    let other = db.keyspace("other").unwrap();
    for error in [other.get("k").unwrap_err(), other.merge("k", "b").unwrap_err()] {
        assert!(error.to_string().contains("labelled, which this program does not"), "{error}");
    }
    // Flushes and compactions keep what they cannot fold.
    db.admin().flush().unwrap();
    db.admin().compact(&other, ..).unwrap();
    drop(other);
    drop(db);
    let db = Options::new().merge_operator(Labelled).open(dir.path()).unwrap();
    let other = db.keyspace("other").unwrap();
    assert_eq!(other.get("k").unwrap().as_deref(), Some(&b"k:a"[..]));
    let twice = Options::new().merge_operator(Labelled).merge_operator(Labelled);
    assert!(twice.validate().is_err(), "two have one name");
}

/// As a version that knew keyspaces by numbers alone, and one operator for all, left a database.
fn old_database(dir: &std::path::Path, operator: Option<&str>) {
    let process = Process::start(RealEnv::new(), &ProcessOptions::default()).unwrap();
    let format = FormatOptions { merge_operator: operator.map(str::to_string) };
    let options = EngineOptions { format, ..EngineOptions::default() };
    let store = Store::open(&process, dir, options).unwrap();
    let mut batch = WriteBatch::new();
    for number in [0_u16, 3, 1024, 65534] {
        let prefix = [&number.to_be_bytes()[..], &[0]].concat();
        batch.put(&[&prefix[..], b"k"].concat(), b"1").unwrap();
        if operator.is_some() {
            batch.merge(&[&prefix[..], b"k"].concat(), b"2").unwrap();
        }
    }
    store.write(&batch, &WriteOptions::default()).unwrap();
    store.close().unwrap();
}

#[test]
fn a_database_of_numbered_keyspaces_opens_and_new_names_take_other_numbers() {
    let dir = tempfile::tempdir().unwrap();
    old_database(dir.path(), None);
    let db = Db::open(dir.path()).unwrap();
    assert_eq!(db.keyspaces().unwrap(), ["1024", "3", "65534", "default"]);
    let users = db.keyspace("users").unwrap();
    assert!(users.first().unwrap().is_none(), "it got a number that has data");
    users.put("k", "new").unwrap();
    for name in ["default", "3", "1024", "65534"] {
        let value = db.keyspace(name).unwrap().get("k").unwrap();
        assert_eq!(value.as_deref(), Some(&b"1"[..]), "{name}");
    }
    assert_eq!(db.keyspaces().unwrap(), ["1024", "3", "65534", "default", "users"]);
    assert!(db.drop_keyspace("1024").unwrap());
    assert_eq!(db.keyspaces().unwrap(), ["3", "65534", "default", "users"]);
}

#[test]
fn a_number_that_is_listed_can_be_found_renamed_and_dropped_without_being_opened() {
    let dir = tempfile::tempdir().unwrap();
    old_database(dir.path(), None);
    let db = Db::open(dir.path()).unwrap();
    for name in db.keyspaces().unwrap() {
        assert!(db.contains_keyspace(&name).unwrap(), "{name}");
    }
    assert!(!db.contains_keyspace("1025").unwrap());
    let taken = db.rename_keyspace("65534", "1024").unwrap_err();
    assert!(taken.to_string().contains("there is a keyspace 1024 already"), "{taken}");
    db.rename_keyspace("65534", "last").unwrap();
    assert_eq!(db.keyspaces().unwrap(), ["1024", "3", "default", "last"]);
    assert!(!db.contains_keyspace("65534").unwrap());
    assert!(db.drop_keyspace("1024").unwrap());
    assert!(!db.contains_keyspace("1024").unwrap());
    assert!(!db.drop_keyspace("1024").unwrap());
    db.close().unwrap();
    let db = Db::open(dir.path()).unwrap();
    assert_eq!(db.keyspaces().unwrap(), ["3", "default", "last"]);
    assert_eq!(db.keyspace("last").unwrap().get("k").unwrap().as_deref(), Some(&b"1"[..]));
}

#[test]
fn the_operator_of_an_old_database_serves_keyspaces_that_have_none_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    old_database(dir.path(), Some("add-i64"));
    let db = Db::open(dir.path()).unwrap();
    for name in ["default", "3", "1024"] {
        let keyspace = db.keyspace(name).unwrap();
        keyspace.merge("k", "4").unwrap();
        assert_eq!(keyspace.get("k").unwrap().as_deref(), Some(&b"7"[..]), "{name}");
    }
    let appending = KeyspaceOptions::new().merge_operator("append");
    let texts = db.keyspace_with("texts", appending).unwrap();
    texts.merge("k", "a").unwrap();
    texts.merge("k", "b").unwrap();
    assert_eq!(texts.get("k").unwrap().as_deref(), Some(&b"ab"[..]));
    drop((texts, db));
    let db = Db::options().merge_operator(Labelled).open(dir.path()).unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"7"[..]));
}
