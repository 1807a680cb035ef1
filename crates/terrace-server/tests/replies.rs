//! Goal: every command replies as Redis does. Method: tables of requests and replies; the first
//! one holds for Redis 7.0 too, and is run against a real one if `TERRACE_TEST_REDIS` names its
//! address.
//!
//! ```text
//! === name          a new connection, and nothing stored
//! > SET a "1\x00"   a request; words may be quoted, with \xHH, \n, \r, \t, \\ and \" inside
//! < +OK             its reply: +simple -error :1 "bytes" (nil) [a, b] {k: v} ~[a] (text)"..."
//! <~ -ERR un        how its reply begins
//! ```
//! `TERRACE_WRITE_SPECIMENS=1` writes the replies that came into the file instead of comparing
//! them.

#![allow(clippy::disallowed_methods, reason = "the expected replies are a file")]
#![allow(clippy::unwrap_used)]

mod common;

use std::net::SocketAddr;
use std::path::Path;

use common::{Client, TestServer};
use terrace::{Durability, Options};
use terrace_server::ServerOptions;
use terrace_server::protocol::Value;

fn words(line: &str) -> Vec<Vec<u8>> {
    let mut bytes = line.bytes().peekable();
    let mut words = Vec::new();
    while let Some(&first) = bytes.peek() {
        if first == b' ' {
            bytes.next();
            continue;
        }
        let mut word = Vec::new();
        if first == b'"' {
            bytes.next();
            while let Some(byte) = bytes.next().filter(|&byte| byte != b'"') {
                word.push(if byte == b'\\' { escaped(&mut bytes) } else { byte });
            }
        } else {
            while let Some(byte) = bytes.next_if(|&byte| byte != b' ') {
                word.push(byte);
            }
        }
        words.push(word);
    }
    words
}

fn escaped(bytes: &mut impl Iterator<Item = u8>) -> u8 {
    match bytes.next().expect("something is escaped") {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'x' => {
            let mut digit = || char::from(bytes.next().unwrap()).to_digit(16).unwrap();
            u8::try_from(digit() * 16 + digit()).unwrap()
        }
        other => other,
    }
}

fn show(value: &Value) -> String {
    let list = |parts: &[Value]| parts.iter().map(show).collect::<Vec<_>>().join(", ");
    match value {
        Value::Simple(text) => format!("+{text}"),
        Value::Error(text) => format!("-{}", text.trim_end()),
        Value::Integer(number) => format!(":{number}"),
        Value::Bulk(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Value::Text(text) => format!("(text)\"{}\"", text.escape_default()),
        Value::Null => "(nil)".to_owned(),
        Value::Array(parts) => format!("[{}]", list(parts)),
        Value::Set(parts) => format!("~[{}]", list(parts)),
        Value::Map(pairs) => {
            let pair = |(key, value): &(Value, Value)| format!("{}: {}", show(key), show(value));
            format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

fn run_table(name: &str, address: SocketAddr) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata").join(name);
    let table = std::fs::read_to_string(&path).unwrap();
    let rewrite = std::env::var_os("TERRACE_WRITE_SPECIMENS").is_some();
    let mut client = Client::connect(address);
    let (mut section, mut reply) = (String::new(), String::new());
    let (mut failures, mut rewritten) = (Vec::new(), String::new());
    for (line, number) in table.lines().zip(1..) {
        let mut keep = line.to_owned();
        if let Some(title) = line.strip_prefix("=== ") {
            section = title.to_owned();
            client = Client::connect(address);
            assert_eq!(show(&client.say("FLUSHALL")), "+OK");
        } else if let Some(request) = line.strip_prefix("> ") {
            reply = show(&client.call(&words(request)));
        } else if let Some(start) = line.strip_prefix("<~ ") {
            if !reply.starts_with(start) {
                failures.push(format!("{name}:{number} ({section}): {reply}, not {start}..."));
            }
        } else if let Some(expected) = line.strip_prefix("< ") {
            if reply != expected.trim_end() {
                failures.push(format!("{name}:{number} ({section}): {reply}, not {expected}"));
            }
            keep = format!("< {reply}");
        } else {
            assert!(line.is_empty() || line.starts_with('#'), "{name}:{number}: {line}");
        }
        rewritten.push_str(&keep);
        rewritten.push('\n');
    }
    if rewrite {
        std::fs::write(&path, rewritten).unwrap();
    } else {
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

#[test]
fn replies_are_those_of_redis() {
    let server = TestServer::start(ServerOptions::default());
    let redis = std::env::var("TERRACE_TEST_REDIS").ok();
    let address = redis.map_or(server.address, |address| address.parse().unwrap());
    run_table("redis.txt", address);
}

#[test]
fn the_commands_of_our_own_reply_as_described() {
    let server = TestServer::start(ServerOptions::default());
    run_table("terrace.txt", server.address);
}

#[test]
fn the_timeout_is_told_as_it_was_set() {
    let idle_timeout = Some(std::time::Duration::from_secs(300));
    let server = TestServer::start(ServerOptions { idle_timeout, ..ServerOptions::default() });
    let reply = server.connect().say("CONFIG GET timeout");
    assert_eq!(show(&reply), "[\"timeout\", \"300\"]");
}

/// The same table with every command that writes moved to a thread that may wait.
#[test]
fn commands_that_have_to_wait_reply_the_same() {
    let synced = Options::new().durability(Durability::Sync);
    let server = TestServer::start_over(ServerOptions::default(), &synced, &[]);
    run_table("waiting.txt", server.address);
}
