//! Goal: `terrace shell` does what the single commands do, line by line, on a directory and on a
//! server. Method: run it with a pipe as standard input.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the test runs the program")]

mod common;

use common::{both_ways, fails, run, run_with_input, succeeds, terrace, text};
use tempfile::TempDir;

#[test]
fn lines_are_data_commands() {
    both_ways(|db| {
        succeeds(&run(db, "put DB before 1"));
        let lines = "\
# a comment, and a line of nothing

put a 1
put 'a key' \"it's a value\"
scan
get a before
use users --make
put k named --ttl 1h
scan --keys-only
count
use
count
delete a nope
get a\\x20key
exit
put never reached
";
        let output = run_with_input(db, "shell DB", lines.as_bytes());
        let expected = "\
a\t1
a key\tit's a value
before\t1
a\t1
before\t1
k
1
3
1
it's a value";
        assert_eq!(succeeds(&output), expected);
        assert_eq!(succeeds(&run(db, "get DB k --keyspace users")), "named");
        fails(&run(db, "get DB never"), 1);
    });
}

#[test]
fn a_line_that_fails_ends_a_script_unless_told_otherwise() {
    both_ways(|db| {
        succeeds(&run(db, "put DB a 1"));
        let lines = b"use nope\ndelete --all\nget a\n";
        let output = run_with_input(db, "shell DB", lines);
        assert!(fails(&output, 1).contains("there is no keyspace nope"), "{output:?}");
        assert_eq!(text(&output.stdout), "");
        assert_eq!(succeeds(&run(db, "get DB a")), "1");
        let lines = b"nonsense\nget 'a\nput x -\nimport --format tsv -\nscan --limit x\nget a\n";
        let output = run_with_input(db, "shell DB --keep-going", lines);
        let complaint = fails(&output, 2);
        for part in ["nonsense", "a ' is not closed", "standard input", "invalid value"] {
            assert!(complaint.contains(part), "{part}: {complaint}");
        }
        assert_eq!(text(&output.stdout), "1");
    });
}

#[test]
fn help_is_for_lines() {
    let dir = TempDir::new().unwrap();
    let db = ["--data", dir.path().to_str().unwrap()];
    succeeds(&run(&db, "put DB a 1"));
    let output = run_with_input(&db, "shell DB", b"help\nhelp scan\nget --help\n");
    let help = succeeds(&output);
    assert!(help.contains("Go on in another keyspace") && help.contains("--keys-only"), "{help}");
    assert!(help.contains("Usage: get"), "{help}");
    assert!(!help.contains("--connect"), "{help}");
}

#[test]
fn a_shell_needs_a_database_that_is_there() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing");
    let output = terrace().args(["shell", "--data"]).arg(&missing).output().unwrap();
    assert!(fails(&output, 3).contains("there is no database in"), "{output:?}");
    assert!(!missing.exists());
}

/// The server is gone between two lines, and another one is there.
#[test]
fn a_shell_outlives_a_restart_of_its_server() {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::Stdio;

    let dir = TempDir::new().unwrap();
    let server = common::Server::start(dir.path(), &mut terrace());
    let address = server.address.clone();
    let mut shell = terrace();
    shell.args(["shell", "--keep-going", "--connect", &address]);
    let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut shell = shell.spawn().unwrap();
    let (mut input, output) = (shell.stdin.take().unwrap(), shell.stdout.take().unwrap());
    let mut lines = BufReader::new(output).lines();
    let mut next = || lines.next().unwrap().unwrap();
    writeln!(input, "use users --make\nput k 1\ncount").unwrap();
    assert_eq!(next(), "1");
    assert_eq!(server.stop(), 0);
    let mut command = terrace();
    command.args(["serve", "--listen", &address, "--data", dir.path().to_str().unwrap()]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut listening = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut listening).unwrap();
    // One line finds that the connection has broken; the keyspace is the same after it.
    writeln!(input, "count\nput l 2\ncount").unwrap();
    assert_eq!(next(), "2");
    drop(input);
    assert_eq!(shell.wait().unwrap().code(), Some(3));
    server.kill().unwrap();
    server.wait().unwrap();
}
