//! Checking a range: every byte that its version names is read and judged.

use std::fmt;

use super::{Inner, Store};
use crate::version::Table;
use crate::{Error, Result};

/// One piece of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What is damaged, and where.
    pub text: String,
}

/// What a check looked at, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Tables read from front to back.
    pub table_count: u64,
    /// Bytes of these tables.
    pub table_bytes: u64,
    /// Entries in them.
    pub entry_count: u64,
    /// The damage; empty if all is well.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "checked {} tables, {} bytes, {} entries",
            self.table_count, self.table_bytes, self.entry_count
        )?;
        for finding in &self.findings {
            writeln!(f, "DAMAGED: {}", finding.text)?;
        }
        write!(f, "{}", if self.is_clean() { "no damage found" } else { "there is damage" })
    }
}

impl Store {
    /// Reads every table of the current version from front to back: checksums, order, filters,
    /// properties, and that each file is the one that the manifest describes. The manifest and
    /// the log were read and judged when the range was opened; damage there refuses the open.
    ///
    /// `progress` is called with (bytes checked, bytes in all) after each table. Errors: those that
    /// are no damage, such as a failing disk; damage is in the report.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport> {
        self.inner.check(progress)
    }
}

impl Inner {
    fn check(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport> {
        let version = self.versions.current();
        let tables: Vec<_> = version.tables().cloned().collect();
        let total = tables.iter().map(|table| table.meta().bytes).sum();
        let mut report = CheckReport::default();
        for table in &tables {
            judge(table, &mut report)?;
            progress(report.table_bytes, total);
        }
        Ok(report)
    }
}

fn judge(table: &Table, report: &mut CheckReport) -> Result<()> {
    let meta = table.meta();
    report.table_count += 1;
    report.table_bytes += meta.bytes;
    report.entry_count += meta.entry_count;
    match table.verify() {
        Ok(()) => Ok(()),
        Err(Error::Corruption(corruption)) => {
            report.findings.push(Finding { text: corruption.to_string() });
            Ok(())
        }
        Err(error) => Err(error),
    }
}
