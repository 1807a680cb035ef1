//! What a step asks of an object store.

use std::path::{Path, PathBuf};

use serde_json::json;
use terrace::{PriceSheet, RequestCounts, RequestKind};

use super::Fields;

/// The field of a report with the requests for each operation.
pub const REQUESTS_PER_OP: &str = "requests_per_op";

/// The field of a report with those that store something: objects, and parts of objects.
pub const PUTS_PER_OP: &str = "puts_per_op";

/// The field of a report with about what the requests of a million operations cost: an estimate.
pub const DOLLARS_PER_MILLION_OPS: &str = "request_dollars_per_million_ops";

/// The field of a report with the megabytes that were stored.
pub const MB_UP: &str = "object_mb_up";

/// The sheet of prices that all subjects are billed by.
pub const PRICES: &str = "s3";

/// The field of a report with the most megabytes that local files took at any look.
pub const LOCAL_MB_MOST: &str = "local_mb_most";

/// Where the directory is that stands in for an object store: beside that of the database, so that
/// it is not counted as local.
pub fn objects_dir(data: &Path) -> PathBuf {
    data.with_file_name("objects")
}

/// Where the directory is that stands in for a volume, likewise: it outlives the database's own.
pub fn volume_dir(data: &Path) -> PathBuf {
    data.with_file_name("volume")
}

/// What was asked for from one count to a later one, by so many operations.
pub fn fields(before: &RequestCounts, after: &RequestCounts, operations: u64) -> Fields {
    let mut fields: Fields = Vec::new();
    let (mut all, mut puts) = (0, 0);
    let asked = after.since(before);
    for kind in RequestKind::ALL {
        let of_kind = asked.of(kind);
        all += of_kind.requests;
        if matches!(kind, RequestKind::Put | RequestKind::UploadPart) {
            puts += of_kind.requests;
        }
        fields.push((format!("requests_{}", kind.name()), json!(of_kind.requests)));
        fields.push((format!("failures_{}", kind.name()), json!(of_kind.failures)));
    }
    let prices = PriceSheet::named(PRICES).expect("the sheet is built in");
    let dollars = prices.bill(&asked).total_dollars.per_million(operations);
    fields.push((DOLLARS_PER_MILLION_OPS.to_owned(), json!(dollars.to_f64())));
    let each = |count: u64| json!(count as f64 / operations.max(1) as f64);
    let sums = [
        ("requests", json!(all)),
        (REQUESTS_PER_OP, each(all)),
        (PUTS_PER_OP, each(puts)),
        ("object_bytes_up", json!(asked.bytes_up())),
        (MB_UP, json!(asked.bytes_up() as f64 / 1e6)),
        ("object_bytes_down", json!(asked.bytes_down())),
    ];
    fields.extend(sums.map(|(name, value)| (name.to_owned(), value)));
    fields
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;
    use terrace::RequestCount;

    use super::*;

    #[test]
    fn requests_of_a_step_are_told_by_kind_and_for_each_operation() {
        let of = |requests, bytes| RequestCount { requests, failures: 1, bytes };
        let before = RequestCounts { put: of(5, 100), ..RequestCounts::default() };
        let after = RequestCounts {
            put: of(25, 1100),
            upload_part: of(5, 50),
            get: of(75, 700),
            ..RequestCounts::default()
        };
        let fields: BTreeMap<String, Value> = fields(&before, &after, 50).into_iter().collect();
        assert_eq!((&fields["requests_put"], &fields["requests_get"]), (&20.into(), &75.into()));
        assert_eq!((&fields["failures_put"], &fields["failures_get"]), (&0.into(), &1.into()));
        assert_eq!((&fields[REQUESTS_PER_OP], &fields[PUTS_PER_OP]), (&2.0.into(), &0.5.into()));
        assert_eq!(fields["object_bytes_up"], 1050);
        assert_eq!(fields["object_bytes_down"], 700);
    }
}
