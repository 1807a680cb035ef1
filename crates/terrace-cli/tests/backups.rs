//! Goal: an operator makes backups by the command line and gets the data back. Method: run it.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the test damages a file")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use common::{Random, Server, fails, run, run_with_input, succeeds, terrace, text};
use rustix::process::{Pid, Signal, kill_process};
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

#[test]
fn a_running_server_is_copied_backed_up_compacted_and_checked() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (data, operator) = (path("data"), path("operator"));
    let server = Server::start_with(data.as_ref(), &mut terrace(), &["--operator-dir", &operator]);
    let connect = ["--connect", &server.address];
    let run = |line: &str| run(&connect, line);
    let lines: String = (0..2000).map(|n| format!("key{n:05}\tvalue {n}\n")).collect();
    succeeds(&run_with_input(&connect, "import DB --format tsv -", lines.as_bytes()));
    let copied = run("checkpoint DB --out before");
    succeeds(&copied);
    assert!(text(&copied.stderr).contains("operator/checkpoints/before on the server"));
    let outside = run(&format!("checkpoint DB --out {}", path("elsewhere")));
    assert!(fails(&outside, 3).contains("is no name for files"), "{outside:?}");

    assert!(text(&run("backup create DB").stderr).contains("backup 1: "));
    succeeds(&run("put DB later value"));
    let second = run("backup create DB --rate 1G --full");
    assert!(text(&second.stderr).contains("backup 2: "), "{second:?}");
    let listed = run("backup list DB");
    let listed: Vec<&str> = succeeds(&listed).lines().collect();
    assert_eq!(listed.len(), 2);
    assert!(listed[0].starts_with("1\t20") && listed[0].contains(" UTC\t"), "{listed:?}");
    succeeds(&run("backup verify DB 2"));
    assert!(fails(&run("backup list DB --in weekly"), 3).contains("NOBACKUPS"));
    succeeds(&run("backup create DB --in weekly --link"));
    succeeds(&run("backup delete DB --in weekly 1"));
    let kept = run("backup create DB --keep 2");
    assert!(text(&kept.stderr).contains("1 older backups deleted"), "{kept:?}");

    succeeds(&run("delete DB --prefix key"));
    succeeds(&run("compact DB"));
    fails(&run("compact DB --keyspace nowhere"), 1);
    assert!(succeeds(&run("check DB")).contains("table"));
    let json: serde_json::Value =
        serde_json::from_str(succeeds(&run("check DB --output json"))).unwrap();
    assert_eq!(json["findings"].as_array().map(Vec::len), Some(0), "{json}");
    fails(&run("check DB --quick"), 2);
    let ingest = run_with_input(&connect, "ingest DB --format tsv -", lines.as_bytes());
    assert!(fails(&ingest, 2).contains("terrace import --connect"), "{ingest:?}");
    assert_eq!(server.stop(), 0);

    let restored = path("restored");
    let backups = format!("{operator}/backups/main");
    succeeds(&common::run(&[], &format!("restore --in {backups} --out {restored} 3")));
    let data = ["--data", &restored];
    assert_eq!(
        succeeds(&common::run(&data, "get DB key00777 later")),
        "key00777\tvalue 777\nlater\tvalue\n"
    );
}

#[test]
fn a_server_without_a_directory_for_operators_says_how_to_give_it_one() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path(), &mut terrace());
    let connect = ["--connect", &server.address];
    for line in ["backup create DB", "checkpoint DB --out x", "compact DB", "check DB"] {
        let refused = run(&connect, line);
        assert!(fails(&refused, 3).contains("--operator-dir DIR"), "{line}: {refused:?}");
    }
    let nowhere = run(&[], "backup list");
    assert!(fails(&nowhere, 2).contains("--in DIR"), "{nowhere:?}");
}

/// What the server says of the operation that runs.
fn operation_status(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"OPERATION STATUS\r\nQUIT\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[test]
fn ctrl_c_ends_a_backup_on_the_server() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (data, operator) = (path("data"), path("operator"));
    let server = Server::start_with(data.as_ref(), &mut terrace(), &["--operator-dir", &operator]);
    let connect = ["--connect", &server.address];
    // More than one piece of a copy, whatever compresses it.
    let mut random = Random(1);
    let line = |n| format!("key{n}\t{:016x}{:016x}\n", random.next(), random.next());
    let lines: String = (0..150_000).map(line).collect();
    succeeds(&run_with_input(&connect, "import DB --format tsv -", lines.as_bytes()));
    let mut command = terrace();
    command.args(["backup", "create", "--rate", "1"]).args(connect);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The command catches the signal before it asks the server. Whoever looks how far the server
    // is does not keep the backup from beginning, as another operation would.
    while !operation_status(&server.address).contains("backup") {
        assert_eq!(child.try_wait().unwrap(), None, "the backup ended before it was interrupted");
    }
    let id = i32::try_from(child.id()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(fails(&output, 130).contains("the server made no copy"), "{output:?}");
    succeeds(&run(&connect, "check DB"));
    assert_eq!(succeeds(&run(&connect, "backup list DB")), "");
}
