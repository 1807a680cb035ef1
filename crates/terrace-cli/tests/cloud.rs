//! Goal: an operator reads a database in an object store from anywhere, keeps a moment of it, makes
//! a database out of that, and learns who needs an object. Method: the real binary, and a directory
//! as the object store.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the test looks at files of the program")]

mod common;

use std::path::Path;
use std::process::Output;

use common::{fails, run, run_with_input, succeeds, text};
use tempfile::TempDir;

/// Imports entries into a database that mirrors itself in the store, and closes it.
fn import(dir: &Path, url: &str, entries: &str) {
    succeeds(&import_into(&dir.join("owner"), url, "", entries));
}

fn import_into(data: &Path, url: &str, options: &str, entries: &str) -> Output {
    let line = format!(
        "import DB --format tsv --cloud-url {url} --local-bytes 16M --cloud-mirror 1s {options} -"
    );
    run_with_input(&["--data", data.to_str().unwrap()], &line, entries.as_bytes())
}

#[test]
fn another_directory_goes_on_with_it() {
    let dir = TempDir::new().unwrap();
    let url = format!("file://{}", dir.path().join("store").display());
    let [owner, elsewhere] = ["owner", "elsewhere"].map(|name| dir.path().join(name));
    succeeds(&import_into(&owner, &url, "", "apple\tred\n"));
    let taken = import_into(&elsewhere, &url, "", "banana\tyellow\n");
    succeeds(&taken);
    assert!(text(&taken.stderr).contains("goes on here"), "{taken:?}");
    let count = |data: &Path| {
        let output = run(&["--data", data.to_str().unwrap()], "count DB");
        succeeds(&output).trim().parse::<u32>().unwrap()
    };
    assert_eq!(count(&elsewhere), 2);

    // The first directory has fallen behind.
    let refused = import_into(&owner, &url, "", "cherry\tred\n");
    assert!(fails(&refused, 3).contains("--take-over"), "{refused:?}");
    let back = import_into(&owner, &url, "--take-over", "cherry\tred\n");
    succeeds(&back);
    assert!(text(&back.stderr).contains("set-aside-"), "{back:?}");
    assert_eq!(count(&owner), 3);
    let refused = import_into(&elsewhere, &url, "", "damson\tblue\n");
    assert!(fails(&refused, 3).contains("older copy"));
    let asked = format!("--cloud-database {:032x}", 7);
    let refused = import_into(&dir.path().join("new"), &url, &asked, "damson\tblue\n");
    assert!(fails(&refused, 3).contains("holds no database"));
}

#[test]
fn what_is_kept_near_is_shown() {
    let dir = TempDir::new().unwrap();
    let url = format!("file://{}", dir.path().join("store").display());
    let owner = dir.path().join("owner");
    // More than may stay here, so that the last level goes to the store.
    let mut state = 7_u64;
    let mut entries = String::new();
    for key in 0..24_000 {
        entries.push_str(&format!("{key:05}\t"));
        for _ in 0..60 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            entries.push_str(&format!("{:016x}", state ^ (state >> 29)));
        }
        entries.push('\n');
    }
    succeeds(&import_into(&owner, &url, "", &entries));
    let data = ["--data", owner.to_str().unwrap()];
    succeeds(&run(&data, "compact DB"));
    assert_eq!(succeeds(&run(&data, "count DB")).trim(), "24000");
    let cache = owner.join("cache");
    let shown = run(&data, "stats DB cache");
    let shown = succeeds(&shown);
    assert!(shown.contains("blocks in memory") && shown.contains("--connect"), "{shown}");
    let files = succeeds(&run(&[], &format!("inspect {}", cache.display()))).to_owned();
    assert!(files.contains(".meta: cached metadata\n"), "{files}");
    assert!(files.contains("metadata  table="), "{files}");
    let meta = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
    let meta = meta.into_iter().find(|path| path.extension().is_some_and(|name| name == "meta"));
    let meta = meta.unwrap();
    let mut bytes = std::fs::read(&meta).unwrap();
    bytes[50] ^= 1;
    std::fs::write(&meta, bytes).unwrap();
    let damaged = run(&[], &format!("inspect cached-metadata {}", meta.display()));
    assert!(!damaged.status.success(), "{damaged:?}");
    assert!(text(&damaged.stdout).contains("checksum"), "{damaged:?}");
}

#[test]
fn a_database_in_an_object_store() {
    let dir = TempDir::new().unwrap();
    let url = format!("file://{}", dir.path().join("store").display());
    import(dir.path(), &url, "apple\tred\nbanana\tyellow\n");
    let store = ["--data", url.as_str()];
    assert_eq!(succeeds(&run(&store, "get DB apple")), "red");
    assert_eq!(succeeds(&run(&store, "count DB")).trim(), "2");
    assert_eq!(succeeds(&run(&store, "scan DB --keys-only")), "apple\nbanana\n");
    assert!(succeeds(&run(&store, "keyspaces DB")).contains("default"));
    let explained = run(&store, "explain DB get apple");
    assert!(succeeds(&explained).contains("apple"), "{explained:?}");
    assert!(succeeds(&run(&store, "stats DB")).contains("object store"));

    succeeds(&run(&store, "cloud DB checkpoint monday"));
    import(dir.path(), &url, "apple\tgreen\n");
    assert_eq!(succeeds(&run(&store, "get DB apple")), "green");
    assert_eq!(succeeds(&run(&store, "get DB --checkpoint monday apple")), "red");
    assert!(succeeds(&run(&store, "cloud DB checkpoints")).starts_with("monday"));

    let ids = run(&store, "cloud DB databases");
    let id = succeeds(&ids).trim();
    assert_eq!(id.len(), 32);
    let named = ["--data", url.as_str(), "--database", id];
    for (out, checkpoint, color) in [("new", "", "green"), ("old", "--checkpoint monday", "red")] {
        let out = dir.path().join(out);
        let out = out.to_str().unwrap();
        succeeds(&run(&named, &format!("clone DB {checkpoint} {out}")));
        assert_eq!(succeeds(&run(&["--data", out], "get DB apple")), color);
        fails(&run(&named, &format!("clone DB {out}")), 3);
    }
    let why = run(&store, "why-live DB feed/00000000000000000001");
    assert!(succeeds(&why).contains("is not there") || succeeds(&why).contains("feed"));
    succeeds(&run(&store, "cloud DB remove monday"));
    fails(&run(&store, "cloud DB remove monday"), 1);
    assert_eq!(succeeds(&run(&store, "cloud DB checkpoints")), "");
}

#[test]
fn what_is_not_possible_there_is_said() {
    let dir = TempDir::new().unwrap();
    let url = format!("file://{}", dir.path().join("store").display());
    let store = ["--data", url.as_str()];
    assert!(fails(&run(&store, "get DB apple"), 3).contains("holds no database"));
    for line in
        ["put DB apple red", "compact DB", "check DB", "checkpoint DB --out out", "ingest DB -"]
    {
        let said = run(&store, line);
        let said = fails(&said, 2);
        assert!(said.contains("only read there"), "{line}: {said}");
    }
    let data = dir.path().join("data");
    let here = ["--data", data.to_str().unwrap()];
    assert!(fails(&run(&here, "cloud DB checkpoints"), 2).contains("no URL"));
    assert!(fails(&run(&here, "get DB --checkpoint monday apple"), 2).contains("--data URL"));
    assert!(fails(&run(&store, "get DB --database ab apple"), 2).contains("32"));
}

#[test]
fn an_earlier_state_is_read_and_cloned_out_of_the_archive() {
    let dir = TempDir::new().unwrap();
    let url = format!("file://{}", dir.path().join("store").display());
    let owner = dir.path().join("owner");
    let read = |line: &str| run(&["--data", &url], line);
    let archiving = "--cloud-log 5ms --cloud-archive 1h";
    succeeds(&import_into(&owner, &url, archiving, "apple\tred\n"));
    let listed = succeeds(&read("cloud DB checkpoints")).to_owned();
    let newest = listed.lines().last().unwrap();
    assert!(newest.starts_with("archive-"), "{listed}");
    let number = newest.split("number ").nth(1).unwrap().split(' ').next().unwrap();
    succeeds(&import_into(&owner, &url, archiving, "apple\tgreen\nbanana\tyellow\n"));

    let at = format!("--at-number {number}");
    assert_eq!(succeeds(&read("get DB apple")).trim(), "green");
    assert_eq!(succeeds(&read(&format!("get DB {at} apple"))).trim(), "red");
    assert_eq!(succeeds(&read(&format!("count DB {at}"))).trim(), "1");
    let copy = dir.path().join("copy");
    let cloned = read(&format!("clone DB {at} {}", copy.display()));
    succeeds(&cloned);
    assert!(text(&cloned.stderr).contains(&format!("number {number}")), "{cloned:?}");
    let copied = run(&["--data", copy.to_str().unwrap()], "get DB apple");
    assert_eq!(succeeds(&copied).trim(), "red");

    let refused = read("get DB --at 2h apple");
    assert!(fails(&refused, 3).contains("ask for a later state"), "{refused:?}");
    let refused = read("get DB --at 2999-01-01T00:00:00Z apple");
    assert!(fails(&refused, 3).contains("lies in the future"), "{refused:?}");
    let refused = read("get DB --at yesterday apple");
    assert!(fails(&refused, 2).contains("such as 10m"), "{refused:?}");
    let refused = run(&["--data", owner.to_str().unwrap()], "get DB --at 1s apple");
    assert!(fails(&refused, 2).contains("--data URL"), "{refused:?}");
    let no_log = import_into(&owner, &url, "--cloud-archive 1h", "");
    assert!(fails(&no_log, 2).contains("--cloud-log"), "{no_log:?}");
}
