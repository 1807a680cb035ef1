//! Goal: what a soak once found stays repaired. Method: every case that it found, made small and
//! kept as `cases/SUITE.what-happened.txt`, runs in its suite again.

#![allow(clippy::disallowed_methods, reason = "cases are files")]

use std::path::Path;

use terrace_sim::run::Case;
use terrace_sim::suite::Suite;
use terrace_sim::tally::Tally;

#[test]
fn what_a_soak_found_stays_repaired() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut count = 0;
    for entry in std::fs::read_dir(dir).expect("the cases are there") {
        let path = entry.expect("the cases can be listed").path();
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let suite = name.split('.').next().and_then(Suite::parse);
        let suite = suite.unwrap_or_else(|| panic!("{name}: no suite of this name"));
        let text = std::fs::read_to_string(&path).expect("a case can be read");
        let case: Case = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        if let Err(failed) = suite.examine(&case, &mut Tally::default()) {
            panic!("{name}: {failed}");
        }
        count += 1;
    }
    assert!(count > 0);
}
