use std::collections::BTreeMap;
use std::fmt;

/// What workloads must reach now and then, by name, and how often they did.
///
/// A generator that is too narrow finds nothing, and looks as green as one that finds nothing
/// because there is nothing. So each suite counts the shapes it reached, and its test fails if one
/// of those it promised stayed at zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Counts a point.
    pub fn reach(&mut self, point: &'static str) {
        self.add(point, 1);
    }

    /// Counts a point if `holds`.
    pub fn reach_if(&mut self, holds: bool, point: &'static str) {
        self.add(point, u64::from(holds));
    }

    /// Counts a point several times, or none.
    pub fn add(&mut self, point: &'static str, times: u64) {
        *self.counts.entry(point).or_default() += times;
    }

    /// Takes over the counts of `other`.
    pub fn merge(&mut self, other: &Coverage) {
        for (point, times) in &other.counts {
            self.add(point, *times);
        }
    }

    /// How often a point was reached.
    #[must_use]
    pub fn count(&self, point: &str) -> u64 {
        self.counts.get(point).copied().unwrap_or(0)
    }

    /// Those of `points` that were never reached.
    #[must_use]
    pub fn missing<'a>(&self, points: &[&'a str]) -> Vec<&'a str> {
        points.iter().copied().filter(|point| self.count(point) == 0).collect()
    }

    /// Every point with its count, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(point, count)| (*point, *count))
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (point, count)) in self.iter().enumerate() {
            write!(f, "{}{point}: {count}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// Shapes of operations, which a generator reaches by itself.
pub const SHAPES: &[&str] = &[
    "empty key",
    "key that is a prefix of another",
    "key of 0xff only",
    "key longer than a block",
    "empty value",
    "value above a log segment",
    "batch without a change",
    "batch with the same key twice",
    "batch that puts and deletes one key",
    "batch that deletes an interval and puts into it",
    "range delete of nothing",
    "range delete of everything",
    "put that is expired at once",
    "put that expires later",
    "merge",
    "empty operand",
    "batch that merges twice into one key",
    "synced write",
    "write that may not wait",
    "condition that asks for a value",
    "transaction that walks",
    "transaction that writes an interval",
    "scan backward with bounds",
    "scan in a snapshot",
    "iterator that turns round",
    "ingest",
    "checkpoint",
];
