//! What a step costs until the store is at rest: processor time and bytes written, by two accounts.
//!
//! ```text
//! bytes given to the system   /proc/self/io, write_bytes            pages of files made dirty, and
//!                                                                   what is written past the cache
//! bytes by its own account    the store's counters                  log, tables, values
//! ```
//! A page that is written again before the system has put it on the disk counts once in the first
//! account and twice in the second; a file that is deleted before counts in both. So the first one
//! says what the machine saw, and the second one is the same on every machine.

use std::time::Duration;

use serde_json::json;
use terrace_bench::workload::Kind;
use terrace_bench::{Report, clock};

use super::Fields;
use crate::engines::Peer;

/// The field of a report with the bytes given to the system for each byte that was put.
pub const PROCESS_AMPLIFICATION: &str = "process_amplification";

/// The field of a report with the bytes by the store's own account for each byte that was put.
pub const STORE_AMPLIFICATION: &str = "store_amplification_to_rest";

/// The field of a report with the processor time of an operation and of what it caused.
pub const CPU_TO_REST: &str = "cpu_us_per_op_to_rest";

/// What this process has done so far.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    cpu: Duration,
    io: Option<Io>,
    store_bytes: Option<u64>,
}

/// What the system says that this process wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Io {
    given: u64,
    taken_back: u64,
}

impl Work {
    /// Until now.
    pub fn so_far(store: &dyn Peer) -> Work {
        let io = std::fs::read_to_string("/proc/self/io").ok();
        Work {
            cpu: clock::cpu_time(),
            io: io.as_deref().and_then(Io::parse),
            store_bytes: store.counters().map(|counters| counters.written_bytes),
        }
    }

    /// What was done since `earlier`, for so many operations that put so many bytes.
    pub fn fields_since(&self, earlier: &Work, operations: u64, put_bytes: f64) -> Fields {
        let since = |of: fn(&Work) -> Option<u64>| {
            of(self).zip(of(earlier)).map(|(after, before)| after.saturating_sub(before))
        };
        let given = since(|work| work.io.map(|io| io.given));
        let taken_back = since(|work| work.io.map(|io| io.taken_back));
        let by_store = since(|work| work.store_bytes);
        let per_byte = |bytes: Option<u64>| {
            bytes.filter(|_| put_bytes > 0.0).map(|bytes| bytes as f64 / put_bytes)
        };
        let cpu_us = self.cpu.saturating_sub(earlier.cpu).as_secs_f64() * 1e6;
        let fields = [
            ("put_bytes", json!(put_bytes)),
            ("process_bytes", json!(given)),
            ("process_bytes_taken_back", json!(taken_back)),
            ("store_bytes_to_rest", json!(by_store)),
            (PROCESS_AMPLIFICATION, json!(per_byte(given))),
            (STORE_AMPLIFICATION, json!(per_byte(by_store))),
            (CPU_TO_REST, json!(cpu_us / operations.max(1) as f64)),
        ];
        fields.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

impl Io {
    /// Of the text of `/proc/self/io`; `None` if it does not say.
    fn parse(text: &str) -> Option<Io> {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.strip_prefix(':')?.trim().parse().ok()
        };
        Some(Io { given: field("write_bytes")?, taken_back: field("cancelled_write_bytes")? })
    }
}

/// The bytes of keys and values that were put, where a pair has `pair_bytes` in the mean.
pub fn put_bytes(report: &Report, pair_bytes: f64) -> f64 {
    let puts = report.kinds.iter().map(|part| match part.kind {
        Kind::Insert | Kind::Update | Kind::Modify => part.operations,
        Kind::Pair | Kind::Transact => 2 * part.operations,
        Kind::Read | Kind::Scan => 0,
    });
    puts.sum::<u64>() as f64 * pair_bytes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    #[test]
    fn the_account_of_the_system_is_read() {
        let text = "rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4096\n\
                    cancelled_write_bytes: 512\n";
        assert_eq!(Io::parse(text), Some(Io { given: 4096, taken_back: 512 }));
        assert_eq!(Io::parse("rchar: 1\nwrite_bytes: 4096\n"), None);
        let own = std::fs::read_to_string("/proc/self/io").unwrap();
        assert!(Io::parse(&own).is_some(), "{own}");
    }

    #[test]
    fn what_was_done_is_told_for_each_byte_and_operation() {
        let at = |ms, given, store_bytes| Work {
            cpu: Duration::from_millis(ms),
            io: Some(Io { given, taken_back: 0 }),
            store_bytes,
        };
        let (before, after) = (at(10, 100, Some(50)), at(40, 1300, Some(850)));
        let fields: BTreeMap<String, Value> =
            after.fields_since(&before, 100, 400.0).into_iter().collect();
        assert_eq!(fields[PROCESS_AMPLIFICATION], 3.0);
        assert_eq!(fields[STORE_AMPLIFICATION], 2.0);
        assert_eq!(fields[CPU_TO_REST], 300.0);
        // Nothing was put, and a store that does not tell.
        let fields: BTreeMap<String, Value> =
            at(40, 1300, None).fields_since(&before, 100, 0.0).into_iter().collect();
        assert!(fields[PROCESS_AMPLIFICATION].is_null() && fields["store_bytes_to_rest"].is_null());
    }
}
