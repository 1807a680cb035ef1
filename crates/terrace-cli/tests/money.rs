//! Goal: an operator says what the store charges, and sees about what it costs. Method: the binary
//! over a directory as a store.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "the tests write the files that the program reads")]

mod common;

use common::{fails, run, succeeds};
use tempfile::TempDir;

const SIZES: &str = "--records 20000 --operations 500 --value-bytes 500 --memtable-bytes 1M";

#[test]
fn a_benchmark_tells_requests_and_money() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (db, json) = (at("db"), at("report.json"));
    let db = ["--data", db.as_str()];
    let cloud = format!("--cloud-url file://{} --local-bytes 32M", at("store"));
    let output = run(&db, &format!("bench load DB {SIZES} {cloud} --prices s3 --json {json}"));
    let text = succeeds(&output);
    assert!(
        text.contains("(estimate, prices s3 of ") && text.contains("per million ops"),
        "{text}"
    );
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["cloud_prices"], "s3");
    assert!(report["cloud_requests"].as_u64().unwrap() > 0, "{report}");
    assert!(report["cloud_estimated_dollars_per_million_ops"].as_f64().unwrap() > 0.0, "{report}");
    // A directory costs nothing.
    let output = run(&db, &format!("bench c DB {SIZES} {cloud}"));
    let text = succeeds(&output);
    assert!(text.contains("object store") && !text.contains('$'), "{text}");
    assert!(!succeeds(&run(&db, "stats DB")).contains('$'));
}

#[test]
fn a_file_of_prices_is_read_and_a_wrong_one_is_named() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (data, file) = (at("db"), at("prices.toml"));
    let cloud = format!("--cloud-url file://{} --local-bytes 32M", at("store"));
    std::fs::write(&file, "[prices]\nname = \"ours\"\nput_per_thousand = 1000\n").unwrap();
    let options = format!("{cloud} --prices {file}");
    let options: Vec<&str> = options.split_whitespace().collect();
    let server = common::Server::start_with(data.as_ref(), &mut common::terrace(), &options);
    let connect = ["--connect", server.address.as_str()];
    let output = run(&connect, "stats DB");
    let text = succeeds(&output);
    assert!(text.contains("an estimate by the prices ours\n"), "{text}");
    assert!(text.contains(".00 for the requests, $0.00 a month for the tables there\n"), "{text}");
    assert_eq!(server.stop(), 0);
    let db = ["--data", data.as_str()];
    let refused = |prices: &str, why: &str| {
        let sizes = "--records 10 --operations 10";
        let output = run(&db, &format!("bench load DB {sizes} {cloud} --prices {prices}"));
        assert!(fails(&output, 2).contains(why), "{output:?}");
    };
    refused("s4", "neither a sheet of prices (s3, gcs, azure, ebs-gp3, ebs-gp2, none) nor a file");
    std::fs::write(&file, "[prices]\nget_per_thousand = 4e-4\n").unwrap();
    refused(&file, "line 2 of the prices: get_per_thousand must be a number of dollars");
    std::fs::write(&file, "#".repeat(70_000)).unwrap();
    refused(&file, "more than 65536 bytes");
    let output = run(&db, "bench load DB --records 10 --prices s3");
    assert!(fails(&output, 2).contains("--cloud-url"), "{output:?}");
}
