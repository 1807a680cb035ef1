//! Counts of what a suite did, by kind.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// Counts by kind, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Tally {
    counts: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts one of `kind`.
    pub fn count(&mut self, kind: &str) {
        self.add(kind, 1);
    }

    /// Counts several of `kind`.
    pub fn add(&mut self, kind: &str, times: u64) {
        match self.counts.get_mut(kind) {
            Some(count) => *count += times,
            None => {
                self.counts.insert(kind.to_string(), times);
            }
        }
    }

    /// Takes over the counts of `other`.
    pub fn merge(&mut self, other: &Tally) {
        other.counts.iter().for_each(|(kind, times)| self.add(kind, *times));
    }

    /// How many of `kind`.
    #[must_use]
    pub fn of(&self, kind: &str) -> u64 {
        self.counts.get(kind).copied().unwrap_or(0)
    }

    /// How many in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Every kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(kind, count)| (kind.as_str(), *count))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, count)) in self.iter().enumerate() {
            write!(f, "{}{kind} {count}", if index > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}
