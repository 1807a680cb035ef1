//! Goal: the section Cloud of INFO has the object store and about what it costs, in plain numbers.
//! Method: servers over a directory as a store, with prices and without a store.
#![allow(clippy::unwrap_used)]

mod common;

use common::TestServer;
use terrace::{CloudOptions, Layout, Options, PriceSheet};
use terrace_server::ServerOptions;
use terrace_server::protocol::Value;

/// The fields of a section.
fn section(server: &TestServer, name: &str) -> Vec<(String, String)> {
    let Value::Bulk(text) = server.connect().say(&format!("INFO {name}")) else {
        panic!("INFO is a bulk")
    };
    let text = String::from_utf8(text).unwrap();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(field, value)| (field.to_owned(), value.to_owned())).collect()
}

#[test]
fn info_has_a_section_of_the_object_store() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file://{}", dir.path().join("store").display());
    let prices = PriceSheet::named("s3");
    let cloud = CloudOptions { prices, ..CloudOptions::new(url, 64 << 20) };
    let options = Options::new().layout(Layout::new().cloud(cloud));
    let server = TestServer::start_over(ServerOptions::default(), &options, &[b"key"]);
    let fields = section(&server, "cloud");
    let value = |name: &str| {
        let found = fields.iter().find(|(field, _)| field == name);
        found.unwrap_or_else(|| panic!("no {name} in {fields:?}")).1.as_str()
    };
    assert_eq!((value("cloud_enabled"), value("cloud_bill_prices")), ("1", "s3"));
    assert!(value("cloud_url").starts_with("file://"));
    assert!(value("cloud_requests_put_requests").parse::<u64>().unwrap() > 0);
    let total = value("cloud_bill_total_dollars");
    assert!(total.parse::<f64>().unwrap() > 0.0 && !total.contains('e'), "{total}");
    let of_terrace = section(&server, "terrace");
    assert!(of_terrace.iter().all(|(field, _)| !field.starts_with("cloud")), "{of_terrace:?}");
    let all = section(&server, "all");
    let urls = all.iter().filter(|(field, _)| field == "cloud_url");
    assert_eq!(urls.count(), 1);
}

#[test]
fn without_a_store_the_section_says_so() {
    let server = TestServer::start(ServerOptions::default());
    assert_eq!(section(&server, "cloud"), [("cloud_enabled".to_owned(), "0".to_owned())]);
}
