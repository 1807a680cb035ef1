//! A proxy before an HTTP server, which spoils requests as it is told.

#![allow(dead_code, reason = "who includes this need not ask for all of it")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// A request on its way.
pub struct Request<'a> {
    /// `GET`, `PUT`, and so on.
    pub method: &'a str,
    /// The last part of the path.
    pub object: &'a str,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    /// Nothing.
    Pass,
    /// The answer is this status, and the server hears nothing of it.
    Refuse(u16),
    /// The connection ends, and the server hears nothing of it.
    Reset,
    /// The server does it, and the connection ends without an answer.
    LoseAnswer,
    /// The last bytes of the answer are missing.
    Truncate,
}

/// Starts a proxy before the server at `endpoint`, which runs as long as this process, and asks
/// `fate` about each request; its own endpoint.
pub fn start(
    endpoint: &str,
    fate: impl Fn(&Request<'_>) -> Fate + Send + Sync + 'static,
) -> String {
    let server: Arc<str> = endpoint.trim_start_matches("http://").trim_end_matches('/').into();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let fate = Arc::new(fate);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (server, fate) = (Arc::clone(&server), Arc::clone(&fate));
            std::thread::spawn(move || {
                // A client that goes away is no failure of the proxy.
                let _ = pass_on(client, &server, &*fate);
            });
        }
    });
    format!("http://{address}")
}

/// One request of a client and its answer.
fn pass_on(
    mut client: TcpStream,
    server: &str,
    fate: &(impl Fn(&Request<'_>) -> Fate + ?Sized),
) -> std::io::Result<()> {
    let request = read_message(&mut client, false)?;
    let line = String::from_utf8_lossy(request.split(|byte| *byte == b'\n').next().unwrap_or(&[]))
        .into_owned();
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let object = path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let fate = fate(&Request { method, object });
    match fate {
        Fate::Refuse(status) => {
            let answer =
                format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            return client.write_all(answer.as_bytes());
        }
        Fate::Reset => return Ok(()),
        Fate::Pass | Fate::LoseAnswer | Fate::Truncate => {}
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(&request)?;
    let answer = read_message(&mut upstream, method == "HEAD")?;
    match fate {
        Fate::LoseAnswer => Ok(()),
        Fate::Truncate => client.write_all(&answer[..answer.len().saturating_sub(100)]),
        _ => client.write_all(&answer),
    }
}

/// The head and the body of a request or an answer; without a body if it is the answer to a HEAD.
/// The connection is not used again, and an answer says so.
fn read_message(stream: &mut TcpStream, is_head: bool) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.trim().to_string())
    };
    if value("expect:").is_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let bytes: usize = value("content-length:").and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut body = Vec::new();
    if value("transfer-encoding:").is_some_and(|value| value == "chunked") {
        while !body.ends_with(b"0\r\n\r\n") {
            stream.read_exact(&mut byte)?;
            body.push(byte[0]);
        }
    } else if !is_head {
        body.resize(bytes, 0);
        stream.read_exact(&mut body)?;
    }
    if text.starts_with("http/") {
        head.truncate(head.len() - 2);
        head.extend(b"connection: close\r\n\r\n");
    }
    head.extend(body);
    Ok(head)
}
