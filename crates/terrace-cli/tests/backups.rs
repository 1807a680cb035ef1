//! Goal: an operator makes backups by the command line and gets the data back. Method: run it.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the test damages a file")]

mod common;

use common::{fails, run, run_with_input, succeeds, text};
use tempfile::TempDir;

#[test]
fn backups_are_made_listed_verified_restored_and_deleted() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (data, backups) = (path("data"), path("backups"));
    let none = run(&[], &format!("backup list --in {backups}"));
    assert!(fails(&none, 3).contains("backup create"), "{none:?}");
    let lines: String = (0..2000).map(|n| format!("key{n:05}\tvalue {n}\n")).collect();
    let ingest = format!("ingest --data {data} --format tsv -");
    succeeds(&run_with_input(&[], &ingest, lines.as_bytes()));
    let create = format!("backup create --data {data} --in {backups}");
    assert!(text(&run(&[], &create).stderr).contains("backup 1: "));
    succeeds(&run(&[], &format!("put --data {data} later value")));
    let second = run(&[], &format!("{create} --rate 1G"));
    assert!(text(&second.stderr).contains("tables shared with what was there"), "{second:?}");
    let listed = run(&[], &format!("backup list --in {backups}"));
    let listed: Vec<&str> = succeeds(&listed).lines().collect();
    assert_eq!(listed.len(), 2);
    assert!(listed[0].starts_with("1\t20") && listed[0].contains(" UTC\t"), "{listed:?}");

    succeeds(&run(&[], &format!("delete --data {data} key00777")));
    let (first, newest) = (path("first"), path("newest"));
    succeeds(&run(&[], &format!("restore --in {backups} --out {first} 1")));
    succeeds(&run(&[], &format!("restore --in {backups} --out {newest}")));
    for restored in [&first, &newest] {
        assert_eq!(succeeds(&run(&[], &format!("get --data {restored} key00777"))), "value 777");
    }
    fails(&run(&[], &format!("get --data {first} later")), 1);
    assert_eq!(succeeds(&run(&[], &format!("get --data {newest} later"))), "value");
    let again = run(&[], &format!("restore --in {backups} --out {first}"));
    assert!(fails(&again, 3).contains("is not empty"), "{again:?}");
    let missing = run(&[], &format!("restore --in {backups} --out {} 9", path("x")));
    assert!(fails(&missing, 3).contains("there is no backup 9"), "{missing:?}");

    succeeds(&run(&[], &format!("backup verify --in {backups} 2")));
    let kept = run(&[], &format!("{create} --full --keep 1"));
    assert!(text(&kept.stderr).contains("2 older backups deleted"), "{kept:?}");
    fails(&run(&[], &format!("backup delete --in {backups} 2")), 3);

    // A byte of a table is not what it was.
    let backup = std::fs::read_dir(&backups).unwrap().next().unwrap().unwrap().path();
    let files = std::fs::read_dir(backup).unwrap().map(|file| file.unwrap().path());
    let mut tables = files.filter(|file| file.extension().is_some_and(|name| name == "table"));
    let table = tables.next().unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[200] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let verified = run(&[], &format!("backup verify --in {backups} 3"));
    assert!(fails(&verified, 1).contains("make a new one with --full"), "{verified:?}");
    let restored = run(&[], &format!("restore --in {backups} --out {}", path("damaged")));
    fails(&restored, 3);
    succeeds(&run(&[], &format!("backup delete --in {backups} 3")));
}
