//! The binary, and a server made of it.
#![allow(dead_code, clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the helpers run the program, and feed it")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

pub fn terrace() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    for variable in ["TERRACE_PASSWORD", "TERRACE_DATA", "TERRACE_CONNECT"] {
        command.env_remove(variable);
    }
    command
}

/// Runs `terrace` with these words, of which `DB` stands for where the database is.
pub fn run(database: &[&str], line: &str) -> Output {
    run_with_input(database, line, b"")
}

pub fn run_with_input(database: &[&str], line: &str, input: &[u8]) -> Output {
    run_in(terrace(), database, line, input)
}

/// As [`run_with_input`], by a command that may have an environment of its own.
pub fn run_in(mut command: Command, database: &[&str], line: &str, input: &[u8]) -> Output {
    for word in line.split_whitespace() {
        if word == "DB" {
            command.args(database)
        } else {
            command.arg(word)
        };
    }
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that fails need not read what it is given.
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    output
}

pub fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
pub fn succeeds(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

#[track_caller]
pub fn fails(output: &Output, code: i32) -> &str {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    text(&output.stderr)
}

/// Runs a test on a directory, then on a server.
pub fn both_ways(test: impl Fn(&[&str])) {
    let dir = TempDir::new().unwrap();
    test(&["--data", dir.path().join("db").to_str().unwrap()]);
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path(), &mut terrace());
    test(&["--connect", &server.address]);
    assert_eq!(server.stop(), 0);
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// A running `terrace serve`.
pub struct Server {
    pub child: Child,
    pub address: String,
}

impl Server {
    pub fn start(dir: &Path, command: &mut Command) -> Server {
        Server::start_with(dir, command, &[])
    }

    pub fn start_with(dir: &Path, command: &mut Command, options: &[&str]) -> Server {
        Server::try_start_with(dir, command, options).unwrap()
    }

    /// None if the server ends before it listens.
    pub fn try_start_with(dir: &Path, command: &mut Command, options: &[&str]) -> Option<Server> {
        let dir = dir.to_str().unwrap();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", dir]).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.trim().strip_prefix("listening on ") else {
            child.wait().unwrap();
            return None;
        };
        Some(Server { address: address.to_owned(), child })
    }

    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    pub fn stop(mut self) -> i32 {
        self.signal(Signal::TERM);
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
