//! Goal: a plan reads what a database does and has, says what came from where, and says what it
//! cannot know. Method: run it, on a directory and on a server, with a directory as the store.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the tests run the program")]

mod common;

use std::path::Path;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Random, Server, fails, run, run_with_input, succeeds, terrace};
use serde_json::Value;
use tempfile::TempDir;

/// Entries whose values have 800 digits that compress little.
fn entries(count: u32) -> String {
    let (mut random, mut text) = (Random(7), String::new());
    for key in 0..count {
        text.push_str(&format!("{key:05}\t"));
        (0..50).for_each(|_| text.push_str(&format!("{:016x}", random.next())));
        text.push('\n');
    }
    text
}

fn plan(from: &str, words: &str) -> Output {
    run(&[], &format!("plan --from {from} {words}"))
}

fn json(from: &str, words: &str) -> Value {
    serde_json::from_str(succeeds(&plan(from, &format!("{words} --output json")))).unwrap()
}

fn names(json: &Value, of: &str) -> Vec<String> {
    let names = json["sources"][of].as_array().unwrap().iter();
    names.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// A server with a mirrored database in a store that charges what S3 does.
fn mirrored_server(dir: &Path) -> Server {
    let url = format!("file://{}", dir.join("store").display());
    let options = ["--cloud-url", &url, "--local-bytes", "32M", "--cloud-mirror", "1s"];
    let options = [&options[..], &["--prices", "s3"]].concat();
    Server::start_with(&dir.join("db"), &mut terrace(), &options)
}

#[test]
fn a_directory_says_how_much_is_in_it_and_no_more() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("db").display().to_string();
    let db = ["--data", path.as_str()];
    succeeds(&run_with_input(&db, "import DB --format tsv -", entries(2000).as_bytes()));
    succeeds(&run(&db, "compact DB"));
    let complaint = plan(&path, "--local-bytes-max 1G");
    let complaint = fails(&complaint, 2);
    assert!(complaint.contains("has no counters of what is asked of it: say"), "{complaint}");
    assert!(complaint.contains("--memory-bytes BYTES, --rate N, --reads PERCENT,"), "{complaint}");
    let needs = "--memory-bytes 1G --rate 100 --reads 70 --local-bytes-max 1G";
    let of_it = json(&path, needs);
    assert_eq!(names(&of_it, "read"), ["data-bytes", "value-bytes"]);
    let given = ["memory-bytes", "rate", "reads", "local-bytes-max"];
    assert_eq!(names(&of_it, "given"), given);
    let needs_of = &of_it["needs"]["needs"];
    let number = |name: &str| needs_of[name].as_u64().unwrap();
    assert!((400_000..2_000_000).contains(&number("data_bytes")), "{needs_of}");
    assert!((200..900).contains(&number("value_bytes")), "{needs_of}");
    assert!(of_it["present"].is_null(), "it has no store");
    // What is said counts before what was read.
    let larger = json(&path, &format!("{needs} --data-bytes 5G"));
    assert_eq!(larger["needs"]["needs"]["data_bytes"], 5_u64 << 30);
    assert_eq!(names(&larger, "read"), ["value-bytes"]);
    let text = plan(&path, needs);
    let text = succeeds(&text);
    assert!(text.starts_with(&format!("read of {path}: data-bytes, value-bytes\n")), "{text}");
    assert!(text.contains("\nby default: scans, scan-length, cloud-prices\n"), "{text}");
}

#[test]
fn a_server_says_what_is_asked_of_it_and_what_that_costs() {
    let dir = TempDir::new().unwrap();
    let server = mirrored_server(dir.path());
    let db = ["--connect", server.address.as_str()];
    succeeds(&run_with_input(&db, "import DB --format tsv -", entries(3000).as_bytes()));
    for _ in 0..3 {
        assert_eq!(succeeds(&run(&db, "scan DB --limit 20 --keys-only")).lines().count(), 20);
    }
    let of_it = json(&server.address, "--for start");
    let read = names(&of_it, "read");
    for name in ["data-bytes", "memory-bytes", "rate", "reads", "scan-length", "cloud-prices"] {
        assert!(read.iter().any(|one| one == name), "{name}: {of_it}");
    }
    assert!(names(&of_it, "given").is_empty() && read.contains(&"local-bytes-max".to_owned()));
    let needs = &of_it["needs"];
    assert_eq!(
        (&needs["local_bytes_max"], &needs["store_prices"]["name"]),
        (&(32_u64 << 20).into(), &"s3".into())
    );
    assert!(needs["scans_share"].as_f64().unwrap() < 0.1, "nearly all were puts: {needs}");
    let present = &of_it["present"];
    assert_eq!(present["layout"]["mirror_ms"], 1000, "{present}");
    assert!(present["measured_requests"]["puts"].as_f64().unwrap() > 0.0, "{present}");
    assert!(present["measured_dollars"]["puts"].as_f64().unwrap() > 0.0, "{present}");
    // Nothing is asked within this time; then what the other flags say is enough.
    let idle = plan(&server.address, "--for 200ms");
    let idle = fails(&idle, 2);
    assert!(idle.contains("within 0.2 s: say --rate N, --reads PERCENT, or look longer"), "{idle}");
    let said = plan(&server.address, "--for 200ms --rate 50 --reads 60");
    let said = succeeds(&said);
    assert!(
        said.contains("given: rate, reads\n") && said.contains("nothing was measured"),
        "{said}"
    );
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_server_is_looked_at_for_a_while() {
    let dir = TempDir::new().unwrap();
    let server = mirrored_server(dir.path());
    let db = ["--connect", server.address.as_str()];
    succeeds(&run_with_input(&db, "import DB --format tsv -", entries(1000).as_bytes()));
    let done = AtomicBool::new(false);
    let text = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                succeeds(&run(&db, "get DB 00001 00002 00003"));
            }
        });
        let output = plan(&server.address, "--for 2s --lose 60s");
        done.store(true, Ordering::Relaxed);
        succeeds(&output).to_owned()
    });
    assert!(text.starts_with(&format!("read of {} within 2 s: ", server.address)), "{text}");
    assert!(text.contains(" operations a second: 100 % gets, 0 % scans, 0 % puts"), "{text}");
    assert!(
        text.contains("\npresent: all local, a mirror each 1s, 32 MiB of local disk"),
        "{text}"
    );
    assert!(text.contains("measured for 2"), "{text}");
    assert_eq!(server.stop(), 0);
}

#[test]
fn what_cannot_be_read_is_said() {
    let dir = TempDir::new().unwrap();
    let nowhere = dir.path().join("nowhere").display().to_string();
    assert!(fails(&plan(&nowhere, ""), 3).contains("there is no database in"));
    assert!(fails(&plan("127.0.0.1:1", ""), 3).contains("no server answers at 127.0.0.1:1"));
    for (line, why) in [
        ("plan --data-bytes 1T --memory-bytes 16G --for 3s", "--from"),
        ("plan --from db --l0-bytes 1G", "cannot be used with"),
        ("plan --from db --for never", "nor start"),
        ("plan --memory-bytes 16G", "--data-bytes"),
        ("plan --data db --data-bytes 1T --memory-bytes 16G", "say --from ADDR or --from DIR"),
    ] {
        let output = run(&[], line);
        assert!(fails(&output, 2).contains(why), "{line}: {output:?}");
    }
}
