//! Goal: backups are made, listed, restored, verified and deleted, and one that was left half-way
//! is none. Method: a real directory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use super::*;
use crate::{Batch, ErrorKind, KeyspaceOptions, merge};

fn fill(db: &Db, from: u32, to: u32) {
    let mut batch = Batch::new();
    for number in from..to {
        batch.put(db, number.to_be_bytes(), [7; 100]);
    }
    db.write(&batch).unwrap();
}

#[test]
fn backups_are_made_listed_restored_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db")).unwrap();
    let counting = KeyspaceOptions::new().merge_operator(merge::ADD_I64);
    let hits = db.keyspace_with("hits", counting).unwrap();
    hits.merge("page", "1").unwrap();
    fill(&db, 0, 10_000);
    let backups = Backups::open(dir.path().join("backups")).unwrap();
    assert_eq!(backups.list().unwrap(), []);
    assert_eq!(backups.restore(1, dir.path().join("x")).unwrap_err().kind(), ErrorKind::NotFound);
    let first = backups.create(&db).unwrap();
    assert_eq!((first.backup.number, first.shared_table_count), (1, 0));
    assert!(first.copied_bytes > 1_000_000, "{first:?}");
    fill(&db, 10_000, 10_010);
    hits.merge("page", "1").unwrap();
    let second = backups.create(&db).unwrap();
    assert!(second.shared_table_count > 0 && second.copied_bytes < 100_000, "{second:?}");
    let full = backups.create_with(&db, &BackupOptions::new().full(), |_, _| true).unwrap();
    assert!(full.shared_table_count == 0 && full.copied_bytes > 1_000_000, "{full:?}");
    let linked = BackupOptions::new().full().link();
    let linked = backups.create_with(&db, &linked, |_, _| true).unwrap();
    assert!(linked.copied_bytes == 0 && linked.shared_table_count > 0, "{linked:?}");

    let listed = backups.list().unwrap();
    let made = [&first, &second, &full, &linked].map(|report| report.backup.clone());
    assert_eq!(listed, made);
    assert!(listed.is_sorted_by_key(|backup| (backup.number, backup.seqno)));
    for (index, backup) in listed.iter().enumerate() {
        assert!(backups.verify(backup.number).unwrap().is_clean());
        let target = dir.path().join(format!("restored {index}"));
        backups.restore(backup.number, &target).unwrap();
        let restored = Db::open(target).unwrap();
        let (count, page) = if index == 0 { (10_000, "1") } else { (10_010, "2") };
        assert_eq!(restored.iter().keys().count(), count);
        let hits = restored.keyspace("hits").unwrap();
        assert!(hits.get("page").unwrap().unwrap() == page);
        // It goes on by itself.
        hits.merge("page", "5").unwrap();
        restored.admin().compact(&restored, ..).unwrap();
    }
    backups.delete(1).unwrap();
    assert!(backups.verify(2).unwrap().is_clean(), "it keeps what it shared");
    assert_eq!(backups.keep_newest(1).unwrap(), 2);
    assert_eq!(backups.list().unwrap(), made[3..]);
    assert_eq!(backups.delete(1).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(std::fs::read_dir(dir.path().join("backups")).unwrap().count(), 1);
}

#[test]
fn a_backup_that_was_cut_short_is_none_and_goes_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("db")).unwrap();
    fill(&db, 0, 1000);
    let backups = Backups::open(dir.path().join("backups")).unwrap();
    let cut = backups.create_with(&db, &BackupOptions::new(), |_, _| false).unwrap_err();
    assert_eq!(cut.kind(), ErrorKind::Cancelled);
    // As a killed process would leave it.
    let half = dir.path().join("backups").join(name::of(9, 1));
    std::fs::create_dir(&half).unwrap();
    std::fs::write(half.join("000001-00000001.table"), "half").unwrap();
    // What is named otherwise is somebody else's.
    std::fs::write(dir.path().join("backups/notes"), "mine").unwrap();
    assert_eq!(backups.list().unwrap(), []);
    assert_eq!(backups.delete(9).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(backups.create(&db).unwrap().backup.number, 10);
    assert!(!half.exists());
    assert!(dir.path().join("backups/notes").exists());
}
