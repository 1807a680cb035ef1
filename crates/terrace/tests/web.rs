//! The example `web` is run, and asked as any client would.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]
#![allow(clippy::disallowed_methods, reason = "it runs a program, and talks to it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Status and body of the answer to one request.
fn ask(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let bytes = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-length: {bytes}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

#[test]
fn the_example_serves_notes() {
    let own = std::env::current_exe().unwrap();
    let program = own.parent().unwrap().with_file_name("examples").join("web");
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_string();
    let ask = |method: &str, path: &str, body: &str| ask(&address, method, path, body);
    assert_eq!(ask("GET", "/notes/1", "").0, 404);
    assert_eq!(ask("PUT", "/notes/1", "buy milk").0, 204);
    assert_eq!(ask("PUT", "/notes/2", "ride").0, 204);
    assert_eq!(ask("GET", "/notes/1", ""), (200, "buy milk".into()));
    assert_eq!(ask("DELETE", "/notes/1", "").0, 204);
    assert_eq!(ask("GET", "/notes", ""), (200, "2\tride\n".into()));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}
