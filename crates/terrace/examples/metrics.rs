//! The figures of a database for Prometheus, as the answer to a scrape, which the program serves
//! itself: the library listens nowhere.
//!
//! ```text
//! HTTP/1.1 200 OK
//! terrace_written_entries_total 3
//! ```

#![allow(clippy::disallowed_methods, reason = "the program has threads of its own")]

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use terrace::Db;

/// Answers one scrape.
fn answer(db: &Db, mut client: TcpStream) -> io::Result<()> {
    // The request ends with an empty line; whatever it asks for, it gets the figures.
    let mut request = BufReader::new(client.try_clone()?).lines();
    while request.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let figures = db.admin().metrics().to_string();
    let bytes = figures.len();
    let kind = "text/plain; version=0.0.4";
    write!(client, "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {bytes}\r\n\r\n")?;
    client.write_all(figures.as_bytes())
}

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = tempfile::tempdir()?;
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| temporary.path().join("db").into());
    let db = Db::open(dir)?;
    for number in 0..3_u64 {
        db.put(number.to_be_bytes(), "a value")?;
    }

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || answer(&db, listener.accept()?.0));

    // What Prometheus does every few seconds.
    let mut scrape = TcpStream::connect(address)?;
    scrape.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut text = String::new();
    scrape.read_to_string(&mut text)?;
    for line in text.lines() {
        if line.starts_with("HTTP") || line.starts_with("terrace_written_entries") {
            println!("{line}");
        }
    }
    server.join().map_err(|_| "the server panicked")??;
    Ok(())
}
