//! How the writes are spread over the dranges, and what each holds in memory.

use std::fmt;
use std::sync::Arc;

use crate::explain::text::bytes;
use crate::memtable::Memtable;
use crate::store::view::DrangeView;
use crate::store::{Inner, Store};

/// Widest bar of a drawing, in columns.
const BAR_COLUMNS: f64 = 30.0;

/// One drange. Of several duplicates each has the same keys, and each a share of its own.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DrangeStats {
    /// Its first key; empty for the first one, which begins at the first key of all.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped"))]
    pub start: Vec<u8>,
    /// How many dranges have its keys, itself among them: more than one if it holds a hot key.
    pub duplicates: u64,
    /// Entries written into it since the range was divided as it is: all versions.
    pub write_count: u64,
    /// Its share of all of these, from 0 to 1.
    pub share: f64,
    /// Its share of the writes that the last flushes met, by a sample, from 0 to 1; among
    /// duplicates taken to be even.
    pub sampled_share: f64,
    /// Bytes of its active memtable.
    pub active_bytes: u64,
    /// Number of versions in its active memtable.
    pub active_entries: u64,
    /// Number of keys in its active memtable.
    pub active_keys: u64,
    /// Memtables that hold keys of it and wait to be flushed, those of duplicates too.
    pub waiting_count: u64,
    /// Bytes of the one that was merged in memory.
    pub merged_bytes: u64,
}

/// All dranges of a range, in key order.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct DrangesReport {
    /// The dranges.
    pub dranges: Vec<DrangeStats>,
    /// Standard deviation of their shares of the writes since the range was divided as it is.
    pub imbalance: f64,
    /// Number of times since the open that a drange evened out with its neighbours.
    pub minor_reorganisations: u64,
    /// Number of times since the open that the whole range was divided anew.
    pub major_reorganisations: u64,
}

impl DrangesReport {
    /// How many dranges there are beyond one for each interval of keys.
    #[must_use]
    pub fn duplicate_count(&self) -> usize {
        self.dranges.windows(2).filter(|pair| pair[0].start == pair[1].start).count()
    }
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
        let active: Vec<&Arc<Memtable>> = view.active().collect();
        let frozen_counts = self.balance.write_counts(active.len());
        let counts = active.iter().map(|memtable| memtable.entry_count());
        let writes: Vec<u64> = counts.zip(frozen_counts).map(|(new, old)| new + old).collect();
        let all = writes.iter().sum::<u64>().max(1) as f64;
        let sampled = self.balance.shares(&view.boundaries);
        let own = view.dranges.iter().zip(sampled);
        let own = own.flat_map(|own| own.0.active().map(move |active| (own, active)));
        let drange =
            |(((own, sampled), active), write_count): (((&DrangeView, f64), &Arc<_>), _)| {
                let duplicates = own.active().count();
                let merged = own.frozen.iter().filter(|one| one.is_merged);
                DrangeStats {
                    start: own.keys.start().to_vec(),
                    duplicates: duplicates as u64,
                    write_count,
                    share: write_count as f64 / all,
                    sampled_share: sampled / duplicates as f64,
                    active_bytes: Memtable::used_bytes(active) as u64,
                    active_entries: Memtable::entry_count(active),
                    active_keys: Memtable::key_count(active),
                    waiting_count: own.frozen.iter().filter(|one| !one.is_merged).count() as u64,
                    merged_bytes: merged.map(|one| one.memtable.used_bytes() as u64).sum(),
                }
            };
        let dranges: Vec<DrangeStats> = own.zip(writes).map(drange).collect();
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

/// A line for each drange; one for a drange and its duplicates, with the bytes of all of them, and
/// what share each has on average.
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
        let mut index = 0;
        for duplicates in self.dranges.chunk_by(|one, other| one.start == other.start) {
            let drange = &duplicates[0];
            let share =
                duplicates.iter().map(|one| one.share).sum::<f64>() / duplicates.len() as f64;
            let columns = (share / widest * BAR_COLUMNS).round() as usize;
            let mut start = match index {
                0 => "(the first key)".to_string(),
                _ => drange.start.escape_ascii().to_string(),
            };
            if duplicates.len() > 1 {
                start += &format!(" ×{}", duplicates.len());
            }
            writeln!(
                f,
                "{index:>3} {start:<24} {:>10} {:>9} {:>7} {:>6.2} % {}",
                bytes(duplicates.iter().map(|one| one.active_bytes).sum()),
                bytes(drange.merged_bytes),
                drange.waiting_count,
                share * 100.0,
                "#".repeat(columns)
            )?;
            index += duplicates.len();
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
            duplicates: 1,
            write_count,
            share: write_count as f64 / 100.0,
            sampled_share: 0.0,
            active_bytes: 2048,
            active_entries: 9,
            active_keys: 3,
            waiting_count: 1,
            merged_bytes: 512,
        };
        let two = DrangeStats { duplicates: 2, ..drange("p", 20) };
        let more = DrangeStats { write_count: 5, share: 0.05, ..two.clone() };
        let dranges = vec![drange("", 50), drange("k\n", 25), two, more];
        let imbalance = deviation(dranges.iter().map(|drange| drange.share));
        let report = DrangesReport {
            dranges,
            imbalance,
            minor_reorganisations: 2,
            major_reorganisations: 1,
        };
        let drawn = "\
4 dranges; 1 major and 2 minor reorganisations since the open; imbalance 1.62e-1
   from                          active    merged  waiting   share of writes
  0 (the first key)             2.0 KiB     512 B       1  50.00 % ##############################
  1 k\\n                         2.0 KiB     512 B       1  25.00 % ###############
  2 p ×2                        4.0 KiB     512 B       1  12.50 % ########
";
        assert_eq!(report.to_string(), drawn);
        assert_eq!(report.duplicate_count(), 1);
    }
}
