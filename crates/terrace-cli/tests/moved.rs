//! Goal: a copy of a database leaves the original's log on another medium alone, and a database
//! that was moved takes it along. Method: the real binary, and the files copied one by one.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "a copy is made of the files of the machine")]

mod common;

use std::path::Path;
use std::process::Output;

use common::terrace;
use tempfile::TempDir;

fn run(words: &[&str], data: &Path) -> Output {
    terrace().args(words).arg("--data").arg(data).output().unwrap()
}

#[track_caller]
fn succeeds(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap()
}

#[track_caller]
fn fails(output: &Output) -> &str {
    assert!(!output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn a_copy_is_refused_and_a_moved_database_is_adopted() {
    let dir = TempDir::new().unwrap();
    let [medium, original, copy, other] =
        ["medium", "original", "copy", "other"].map(|name| dir.path().join(name));
    std::fs::create_dir(&medium).unwrap();
    let log_path = Some(medium.to_str().unwrap().into());
    let mut options = terrace::Db::options();
    options.layout.log_path = log_path;
    let db = options.open(&original).unwrap();
    db.put(b"fruit", b"apple").unwrap();
    db.close().unwrap();
    drop(db);
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(&original).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    assert!(fails(&run(&["get", "fruit"], &copy)).contains("terrace adopt --data"));
    assert_eq!(succeeds(&run(&["get", "fruit"], &original)), "apple");
    std::fs::remove_dir_all(&original).unwrap();
    assert!(succeeds(&run(&["adopt"], &copy)).contains("copy's now"));
    assert_eq!(succeeds(&run(&["get", "fruit"], &copy)), "apple");
    succeeds(&run(&["put", "fruit", "pear"], &other));
    assert!(succeeds(&run(&["adopt"], &other)).contains("nothing on another medium"));
    assert!(fails(&run(&["adopt"], &dir.path().join("nowhere"))).contains("no database"));
}
