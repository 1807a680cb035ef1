//! How the writes are spread over the dranges, and what each holds in memory.

use std::fmt;

use serde::Serialize;

use super::{Inner, Store};
use crate::explain::text::{bytes, escaped};
use crate::memtable::Memtable;

/// Widest bar of a drawing, in columns.
const BAR_COLUMNS: f64 = 30.0;

/// One drange.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrangeStats {
    /// Its first key; empty for the first one, which begins at the first key of all.
    #[serde(serialize_with = "escaped")]
    pub start: Vec<u8>,
    /// Entries written into it since the range was divided as it is: all versions.
    pub write_count: u64,
    /// Its share of all of these, from 0 to 1.
    pub share: f64,
    /// Its share of the writes that the last flushes met, by a sample, from 0 to 1.
    pub sampled_share: f64,
    /// Bytes of its active memtable,
    pub active_bytes: u64,
    /// the versions in it,
    pub active_entries: u64,
    /// and their keys.
    pub active_keys: u64,
    /// Memtables that hold keys of it and wait to be flushed.
    pub waiting_count: u64,
    /// Bytes of the one that was merged in memory.
    pub merged_bytes: u64,
}

/// All dranges of a range, in key order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DrangesReport {
    /// The dranges.
    pub dranges: Vec<DrangeStats>,
    /// Standard deviation of their shares of the writes since the range was divided as it is.
    pub imbalance: f64,
    /// Since the open: how often a drange evened out with its neighbours,
    pub minor_reorganisations: u64,
    /// and how often everything was divided anew.
    pub major_reorganisations: u64,
}

impl Store {
    /// How the writes are spread over the dranges. Exact but for writes under way. Cheap enough to
    /// be asked every second.
    #[must_use]
    pub fn dranges(&self) -> DrangesReport {
        self.inner.drange_report()
    }
}

impl Inner {
    fn drange_report(&self) -> DrangesReport {
        let view = self.view.load_full();
        let frozen_counts = self.balance.write_counts(&view.boundaries);
        let sampled = self.balance.shares(&view.boundaries);
        let active = view.dranges.iter().map(|own| own.active.entry_count());
        let writes: Vec<u64> = active.zip(frozen_counts).map(|(new, old)| new + old).collect();
        let all = writes.iter().sum::<u64>().max(1) as f64;
        let dranges: Vec<DrangeStats> = view
            .dranges
            .iter()
            .zip(writes)
            .zip(sampled)
            .map(|((own, write_count), sampled_share)| DrangeStats {
                start: own.keys.start().to_vec(),
                write_count,
                share: write_count as f64 / all,
                sampled_share,
                active_bytes: own.active.used_bytes() as u64,
                active_entries: own.active.entry_count(),
                active_keys: Memtable::key_count(&own.active),
                waiting_count: own.frozen.iter().filter(|one| !one.is_merged).count() as u64,
                merged_bytes: own
                    .frozen
                    .iter()
                    .filter(|one| one.is_merged)
                    .map(|one| one.memtable.used_bytes() as u64)
                    .sum(),
            })
            .collect();
        let (minor_reorganisations, major_reorganisations) = self.balance.counts();
        let imbalance = deviation(dranges.iter().map(|drange| drange.share));
        DrangesReport { dranges, imbalance, minor_reorganisations, major_reorganisations }
    }
}

/// The standard deviation of shares that add up to 1.
fn deviation(shares: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = shares.len() as f64;
    (shares.map(|share| (share - 1.0 / count).powi(2)).sum::<f64>() / count).sqrt()
}

impl fmt::Display for DrangesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} dranges; {} major and {} minor reorganisations since the open; imbalance {:.2e}",
            self.dranges.len(),
            self.major_reorganisations,
            self.minor_reorganisations,
            self.imbalance
        )?;
        writeln!(
            f,
            "   from                          active    merged  waiting   share of writes"
        )?;
        let widest =
            self.dranges.iter().map(|drange| drange.share).fold(f64::MIN_POSITIVE, f64::max);
        for (index, drange) in self.dranges.iter().enumerate() {
            let start = drange.start.escape_ascii().to_string();
            let columns = (drange.share / widest * BAR_COLUMNS).round() as usize;
            writeln!(
                f,
                "{index:>3} {:<24} {:>10} {:>9} {:>7} {:>6.2} % {}",
                if index == 0 { "(the first key)" } else { &start },
                bytes(drange.active_bytes),
                bytes(drange.merged_bytes),
                drange.waiting_count,
                drange.share * 100.0,
                "#".repeat(columns)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_drawn() {
        let drange = |start: &str, write_count: u64| DrangeStats {
            start: start.into(),
            write_count,
            share: write_count as f64 / 100.0,
            sampled_share: 0.0,
            active_bytes: 2048,
            active_entries: 9,
            active_keys: 3,
            waiting_count: 1,
            merged_bytes: 512,
        };
        let dranges = vec![drange("", 50), drange("k\n", 25), drange("p", 25)];
        let imbalance = deviation(dranges.iter().map(|drange| drange.share));
        let report = DrangesReport {
            dranges,
            imbalance,
            minor_reorganisations: 2,
            major_reorganisations: 1,
        };
        let drawn = "\
3 dranges; 1 major and 2 minor reorganisations since the open; imbalance 1.18e-1
   from                          active    merged  waiting   share of writes
  0 (the first key)             2.0 KiB     512 B       1  50.00 % ##############################
  1 k\\n                         2.0 KiB     512 B       1  25.00 % ###############
  2 p                           2.0 KiB     512 B       1  25.00 % ###############
";
        assert_eq!(report.to_string(), drawn);
    }
}
