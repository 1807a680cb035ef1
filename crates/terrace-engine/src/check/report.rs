use std::fmt;
use std::path::{Path, PathBuf};

use terrace_base::{Corruption, KeyRange};

use crate::version::Repaired;

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Severity {
    /// Bytes are not what was written, or something is missing.
    Damage,
    /// May be damage, or what a crash left of something that was never promised to last.
    Undecidable,
    /// Belongs to nothing; no read ever comes here.
    Harmless,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Damage => "DAMAGED",
            Severity::Undecidable => "undecidable",
            Severity::Harmless => "harmless",
        })
    }
}

/// One thing that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file.
    pub file: PathBuf,
    /// Where in the file.
    pub offset: u64,
    /// What is there.
    pub text: String,
    /// The stored keys that it concerns, where that is known.
    pub keys: Option<KeyRange>,
}

impl Finding {
    /// A finding at `offset` of `file`.
    #[must_use]
    pub fn at(severity: Severity, file: &Path, offset: u64, text: impl Into<String>) -> Finding {
        Finding { severity, file: file.to_path_buf(), offset, text: text.into(), keys: None }
    }

    /// Damage that a reader complained about.
    #[must_use]
    pub fn of(corruption: Corruption) -> Finding {
        let Corruption { file, offset, detail } = corruption;
        Finding { severity: Severity::Damage, file, offset, text: detail, keys: None }
    }

    /// The finding with the keys that it concerns.
    #[must_use]
    pub fn with_keys(mut self, keys: Option<KeyRange>) -> Finding {
        self.keys = keys;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (severity, file) = (self.severity, self.file.display());
        write!(f, "{severity}: {file} at offset {}: {}", self.offset, self.text)
    }
}

/// What a check looked at, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Tables.
    pub table_count: u64,
    /// Bytes of these tables.
    pub table_bytes: u64,
    /// Entries in them.
    pub entry_count: u64,
    /// Value files.
    pub value_file_count: u64,
    /// Bytes of these files.
    pub value_file_bytes: u64,
    /// Pointers of tables that were followed to their values.
    pub pointer_count: u64,
    /// Edits of the manifest.
    pub edit_count: u64,
    /// Segments of the log.
    pub segment_count: u64,
    /// Records in them.
    pub record_count: u64,
    /// Entries that the next open would replay from the log; none is counted if the manifest cannot
    /// say where it begins.
    pub replay_entry_count: u64,
    /// Names that are not ours.
    pub foreign_count: u64,
    /// Whether the range had been closed cleanly, so that every byte can be judged; unknown for a
    /// range that is open, or whose manifest is damaged.
    pub was_closed: Option<bool>,
    /// The stamp of the repair that the range came out of, if it did.
    pub repaired: Option<Repaired>,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damage().next().is_none()
    }

    /// The findings that are damage.
    pub fn damage(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.severity == Severity::Damage)
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "checked {} tables, {} bytes, {} entries; {} value files, {} bytes, {} pointers; {} \
             edits; {} segments, {} records",
            self.table_count,
            self.table_bytes,
            self.entry_count,
            self.value_file_count,
            self.value_file_bytes,
            self.pointer_count,
            self.edit_count,
            self.segment_count,
            self.record_count
        )?;
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
        }
        write!(f, "{}", if self.is_clean() { "no damage found" } else { "there is damage" })
    }
}
