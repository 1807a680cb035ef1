//! Goal: a real store keeps what the others keep, and what goes wrong on the way to it shows as the
//! seam says, without a secret. Method: the checks of all stores against the server that
//! `scripts/s3.sh` starts; then once more a few requests through a proxy that spoils those to
//! objects with the names of faults. A process reads the address of its server from its
//! environment, so the requests through the proxy are a second one.
//!
//! `TERRACE_S3_URL` says which store: `s3://BUCKET/PREFIX`.

#![allow(clippy::disallowed_methods, reason = "the proxy is no part of what is simulated")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

#[path = "../src/objects/contract.rs"]
mod contract;

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;

use terrace_env::{Env, EnvResult, ObjectName, ObjectStore, Put, RealEnv};

/// Says to a process that it is the one behind the proxy.
const BEHIND_PROXY: &str = "TERRACE_S3_BEHIND_PROXY";

fn main() {
    let Ok(url) = std::env::var("TERRACE_S3_URL") else {
        println!(
            "left out, as TERRACE_S3_URL names no store: run \
             `scripts/s3.sh cargo test -p terrace-env --features cloud --test s3`"
        );
        return;
    };
    let env = RealEnv::new();
    let url = format!("{}/{:016x}", url.trim_end_matches('/'), env.random_u64());
    let open = |name: &str| env.objects().open(&format!("{url}/{name}")).unwrap();
    if std::env::var_os(BEHIND_PROXY).is_some() {
        behind_a_proxy(&*open("faults"));
        return;
    }
    for (name, check) in contract::CHECKS {
        check(&*open(name));
        println!("{name}: ok");
    }
    many_names(&*open("many"));
    a_refusal_shows_no_secret(&*env, &url);
    run_behind_a_proxy();
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

fn many_names(store: &dyn ObjectStore) {
    for number in 0..1_003 {
        store.put(&name(&format!("a/{number:04}")), b"").unwrap();
    }
    let first = store.list("a/", None).unwrap();
    assert_eq!(first.len(), 1_000);
    let rest = store.list("a/", Some(&first[999].name)).unwrap();
    assert_eq!(rest.len(), 3);
    println!("lists come in pages: ok");
}

fn a_refusal_shows_no_secret(env: &dyn Env, url: &str) {
    let secrets =
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"].map(|key| std::env::var(key).unwrap());
    let nowhere = env.objects().open("s3://no-such-bucket-of-ours").unwrap();
    let store = env.objects().open(url).unwrap();
    let long = name(&"x".repeat(500));
    let texts = [
        format!("{nowhere:?}"),
        format!("{:?}", nowhere.get(&name("a"), None).unwrap_err()),
        nowhere.put(&name("a"), b"x").unwrap_err().to_string(),
        format!("{:?}", nowhere.list("", None).unwrap_err()),
        format!("{:?}", store.put(&long, b"x")),
        format!("{:?}", store.begin_upload(&name("a")).unwrap()),
    ];
    for text in texts {
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "a text shows a secret");
        assert!(!text.contains("Signature") && !text.contains("Authorization"), "{text}");
    }
    println!("no text shows a secret: ok");
}

/// Requests to objects that are named after what happens to them on the way.
fn behind_a_proxy(store: &dyn ObjectStore) {
    let kind = |result: EnvResult<Vec<u8>>| result.unwrap_err().source.kind();
    store.put(&name("plain"), b"0123456789").unwrap();
    assert_eq!(store.get(&name("plain"), None).unwrap(), b"0123456789");
    for (fault, expected, is_unknown) in [
        ("fault-500", ErrorKind::ConnectionAborted, true),
        ("fault-503", ErrorKind::ConnectionAborted, true),
        ("fault-429", ErrorKind::ResourceBusy, false),
        ("fault-403", ErrorKind::PermissionDenied, false),
        ("fault-reset", ErrorKind::ConnectionReset, true),
    ] {
        let object = name(fault);
        assert_eq!(kind(store.get(&object, None)), expected, "{fault}");
        let error = store.put(&object, b"x").unwrap_err();
        assert_eq!((error.source.kind(), error.is_unknown_outcome()), (expected, is_unknown));
        let error = store.put_if_absent(&object, b"x").unwrap_err();
        assert_eq!(error.source.kind(), expected, "{error}");
        assert_eq!(store.delete(&object).unwrap_err().source.kind(), expected, "{fault}");
    }
    store.put(&name("fault-truncate"), &[7; 5_000]).unwrap();
    assert_eq!(kind(store.get(&name("fault-truncate"), None)), ErrorKind::UnexpectedEof);
    assert_eq!(kind(store.get(&name("fault-truncate"), Some(9..4_000))), ErrorKind::UnexpectedEof);

    // The answer is lost: the put was done, once, and a repetition finds the name taken.
    let error = store.put_if_absent(&name("fault-lost"), b"mine").unwrap_err();
    assert!(error.is_unknown_outcome(), "{error}");
    let beside = name("fault-lost.seen");
    assert_eq!(store.put_if_absent(&beside, b"mine").unwrap(), Put::Created);
    let listed = store.list("fault-lost", None).unwrap();
    assert_eq!(listed.len(), 2, "the put whose answer was lost was done");
    println!("faults on the way show: ok");
}

fn run_behind_a_proxy() {
    let endpoint = std::env::var("AWS_ENDPOINT").unwrap();
    let server = Arc::new(endpoint.trim_start_matches("http://").trim_end_matches('/').to_string());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with this process.
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = Arc::clone(&server);
            std::thread::spawn(move || {
                // A client that goes away is no failure of the proxy.
                let _ = pass_on(client, &server);
            });
        }
    });
    let status = Command::new(std::env::current_exe().unwrap())
        .env(BEHIND_PROXY, "1")
        .env("AWS_ENDPOINT", format!("http://{address}"))
        .status()
        .unwrap();
    assert!(status.success(), "the process behind the proxy failed");
}

/// One request of a client and its answer, or what the name of its object says.
fn pass_on(mut client: TcpStream, server: &str) -> std::io::Result<()> {
    let request = read_message(&mut client, false)?;
    let line = String::from_utf8_lossy(request.split(|byte| *byte == b'\n').next().unwrap_or(&[]))
        .into_owned();
    let path = line.split(' ').nth(1).unwrap_or_default();
    let object = path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let status = object.strip_prefix("fault-").and_then(|fault| fault.parse::<u16>().ok());
    if let Some(status) = status {
        let answer =
            format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        return client.write_all(answer.as_bytes());
    }
    if object == "fault-reset" {
        return Ok(());
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(&request)?;
    let answer = read_message(&mut upstream, line.starts_with("HEAD"))?;
    if object == "fault-lost" {
        return Ok(());
    }
    let is_cut = object == "fault-truncate" && line.starts_with("GET");
    let end = answer.len() - if is_cut { 100 } else { 0 };
    client.write_all(&answer[..end])
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
