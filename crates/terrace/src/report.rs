use std::fmt;
use std::ops::Deref;

use serde::Serialize;
use terrace_engine::store::StoreStats;

/// What a database has done since it was opened, and what it holds now. Dereferences to the
/// figures; `Display` shows them to people, `Serialize` to programs.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    #[serde(flatten)]
    figures: StoreStats,
    write_amplification: f64,
}

impl Stats {
    pub(crate) fn new(figures: StoreStats) -> Stats {
        let write_amplification = figures.write_amplification();
        Stats { figures, write_amplification }
    }
}

impl Deref for Stats {
    type Target = StoreStats;

    fn deref(&self) -> &StoreStats {
        &self.figures
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figures.fmt(f)
    }
}

/// What a check read, and the damage that it found.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Tables read from front to back.
    pub table_count: u64,
    /// Bytes of these tables.
    pub table_bytes: u64,
    /// Entries in them.
    pub entry_count: u64,
    /// The damage, one line each; empty if all is well.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    pub(crate) fn new(report: terrace_engine::store::CheckReport) -> CheckReport {
        CheckReport {
            table_count: report.table_count,
            table_bytes: report.table_bytes,
            entry_count: report.entry_count,
            problems: report.findings.into_iter().map(|finding| finding.text).collect(),
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "checked {} tables, {} bytes, {} entries",
            self.table_count, self.table_bytes, self.entry_count
        )?;
        for problem in &self.problems {
            writeln!(f, "DAMAGED: {problem}")?;
        }
        f.write_str(if self.is_clean() { "no damage found" } else { "there is damage" })
    }
}
