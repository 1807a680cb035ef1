use std::fmt;
use std::ops::Deref;

use terrace_base::KeyRange;
use terrace_engine::check::Severity;
use terrace_engine::repair::{Basis, LossKind};
use terrace_engine::store::StoreStats;
use terrace_engine::version::Repaired;

use crate::keyspace::split;

/// What a database has done since it was opened, and what it holds now. Dereferences to the
/// figures; `Display` shows them to people, `Serialize` to programs.
#[derive(Clone, Debug)]
pub struct Stats {
    figures: StoreStats,
}

impl Stats {
    pub(crate) fn new(figures: StoreStats) -> Stats {
        Stats { figures }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Stats {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Shown<'a> {
            #[serde(flatten)]
            figures: &'a StoreStats,
            write_amplification: f64,
        }
        let write_amplification = self.figures.write_amplification();
        Shown { figures: &self.figures, write_amplification }.serialize(serializer)
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

/// What a check read, and what it found. `Display` shows it to people, `Serialize` to programs.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckReport {
    /// Tables.
    pub table_count: u64,
    /// Bytes of these tables.
    pub table_bytes: u64,
    /// Entries in them.
    pub entry_count: u64,
    /// Value files, which hold the large values.
    pub value_file_count: u64,
    /// Bytes of these files.
    pub value_file_bytes: u64,
    /// Values in them that tables point to; each was read.
    pub pointer_count: u64,
    /// Edits of the manifest; none are counted for an open database.
    pub edit_count: u64,
    /// Segments of the log, likewise.
    pub segment_count: u64,
    /// Records in them.
    pub record_count: u64,
    /// Entries that the next open replays from the log.
    pub replay_entry_count: u64,
    /// Names in the directory that are not ours.
    pub foreign_count: u64,
    /// Whether the database had been closed cleanly, so that every byte can be judged; unknown for
    /// one that is open, or whose manifest is damaged.
    pub was_closed: Option<bool>,
    /// Whether the database came out of a repair.
    pub repaired: Option<Repaired>,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
}

/// One thing that a check found.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file.
    pub file: String,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// What is there.
    pub text: String,
    /// The keys that it concerns, where that is known.
    pub keys: Option<KeyInterval>,
    /// What to do about it.
    pub advice: &'static str,
}

/// An interval of keys across keyspaces, for reports. Keys are escaped as `\\xHH \\t \\n \\r \\\\`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct KeyInterval {
    /// The keyspace of the first key.
    pub keyspace: u16,
    /// From this key on; none for the end of the keyspace.
    pub from: Option<String>,
    /// The keyspace of the end; none for the end of all.
    pub to_keyspace: Option<u16>,
    /// Up to and without this key; none for the end of that keyspace.
    pub to: Option<String>,
}

impl KeyInterval {
    pub(crate) fn new(stored: &KeyRange) -> KeyInterval {
        let shown = |key: Option<&[u8]>| key.map(|key| key.escape_ascii().to_string());
        let (keyspace, from) = split(stored.start());
        let end = stored.end().map(split);
        KeyInterval {
            keyspace,
            from: shown(from),
            to_keyspace: end.map(|(keyspace, _)| keyspace),
            to: end.and_then(|(_, key)| shown(key)),
        }
    }
}

impl fmt::Display for KeyInterval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_keyspace = |f: &mut fmt::Formatter<'_>, keyspace: u16| match keyspace {
            0 => Ok(()),
            keyspace => write!(f, " in keyspace {keyspace}"),
        };
        match self.from.as_deref() {
            Some("") => f.write_str("from the first key")?,
            Some(from) => write!(f, "from '{from}'")?,
            None => f.write_str("from the end")?,
        }
        in_keyspace(f, self.keyspace)?;
        match (&self.to, self.to_keyspace) {
            (Some(to), Some(keyspace)) => {
                write!(f, " up to '{to}'")?;
                in_keyspace(f, keyspace)
            }
            (None, Some(keyspace)) => {
                f.write_str(" to the last key")?;
                in_keyspace(f, keyspace)
            }
            (_, None) => f.write_str(" to the last key of all"),
        }
    }
}

fn advice(severity: Severity) -> &'static str {
    match severity {
        Severity::Damage => {
            "copy the directory, then restore a backup, or salvage what is left with `terrace repair`"
        }
        Severity::Undecidable => {
            "nothing after a crash or a killed process: the next open goes on before it"
        }
        Severity::Harmless => "nothing: the next open deletes it",
    }
}

impl Finding {
    fn new(finding: terrace_engine::check::Finding) -> Finding {
        Finding {
            severity: finding.severity,
            file: finding.file.display().to_string(),
            offset: finding.offset,
            text: finding.text,
            keys: finding.keys.as_ref().map(KeyInterval::new),
            advice: advice(finding.severity),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} at offset {}: {}", self.severity, self.file, self.offset, self.text)?;
        match &self.keys {
            Some(keys) => write!(f, " (keys {keys})"),
            None => Ok(()),
        }
    }
}

impl CheckReport {
    /// Whether nothing is damaged. What cannot be decided after a crash, and what belongs to
    /// nothing, is no damage.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.findings.iter().any(|finding| finding.severity == Severity::Damage)
    }

    pub(crate) fn new(report: terrace_engine::check::CheckReport) -> CheckReport {
        CheckReport {
            table_count: report.table_count,
            table_bytes: report.table_bytes,
            entry_count: report.entry_count,
            value_file_count: report.value_file_count,
            value_file_bytes: report.value_file_bytes,
            pointer_count: report.pointer_count,
            edit_count: report.edit_count,
            segment_count: report.segment_count,
            record_count: report.record_count,
            replay_entry_count: report.replay_entry_count,
            foreign_count: report.foreign_count,
            was_closed: report.was_closed,
            repaired: report.repaired,
            findings: report.findings.into_iter().map(Finding::new).collect(),
        }
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "checked {} tables, {} bytes, {} entries; {} edits; {} log segments, {} records",
            self.table_count,
            self.table_bytes,
            self.entry_count,
            self.edit_count,
            self.segment_count,
            self.record_count
        )?;
        if self.value_file_count > 0 {
            writeln!(
                f,
                "checked {} value files, {} bytes, and {} values that tables point to",
                self.value_file_count, self.value_file_bytes, self.pointer_count
            )?;
        }
        match self.was_closed {
            Some(true) => writeln!(f, "the database was closed cleanly")?,
            Some(false) => writeln!(
                f,
                "the database was not closed; an open would replay {} entries of the log",
                self.replay_entry_count
            )?,
            None => {}
        }
        if let Some(repaired) = &self.repaired {
            let what = if repaired.is_incomplete { "with losses" } else { "completely" };
            writeln!(f, "the database was put together by a repair, {what}")?;
        }
        let mut last = None;
        for finding in &self.findings {
            writeln!(f, "{finding}")?;
            let next = Some(finding.advice);
            if last.is_some() && last != next {
                writeln!(f, "  to do: {}", last.unwrap_or_default())?;
            }
            last = next;
        }
        if let Some(advice) = last {
            writeln!(f, "  to do: {advice}")?;
        }
        f.write_str(if self.is_clean() { "no damage found" } else { "there is damage" })
    }
}

/// What a repair salvaged, and what it could not.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RepairReport {
    /// By what it was decided what counts: the manifest, or sequence numbers.
    pub basis: Basis,
    /// Tables that were whole.
    pub whole_table_count: u64,
    /// Tables that were written anew from what could be read.
    pub rewritten_table_count: u64,
    /// Tables of which nothing was left.
    pub lost_table_count: u64,
    /// Records of the log that were salvaged.
    pub record_count: u64,
    /// Entries in them.
    pub log_entry_count: u64,
    /// Values that lay in value files, and are in tables now.
    pub value_count: u64,
    /// Values that tables pointed to, and that could not be read.
    pub lost_value_count: u64,
    /// Whether nothing was lost.
    pub is_complete: bool,
    /// Keys whose newest values may be missing; where an older value was left, that shows.
    pub lost: Vec<KeyInterval>,
    /// Keys that had been deleted and may show again.
    pub may_reappear: Vec<KeyInterval>,
    /// What was lost where.
    pub losses: Vec<Loss>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

/// Something that could not be salvaged.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Loss {
    /// What it does to the keys.
    pub kind: LossKind,
    /// The keys that it may concern.
    pub keys: KeyInterval,
    /// The first and the last sequence number of what was lost, where that is known.
    pub numbers: Option<(u64, u64)>,
    /// The damaged file.
    pub file: String,
    /// Where in it, in bytes.
    pub offset: u64,
    /// What happened there.
    pub why: String,
}

impl RepairReport {
    pub(crate) fn new(report: terrace_engine::repair::RepairReport) -> RepairReport {
        let intervals = |kind| report.ranges(kind).iter().map(KeyInterval::new).collect::<Vec<_>>();
        let (lost, may_reappear) = (intervals(LossKind::Lost), intervals(LossKind::MayReappear));
        let losses = report.losses.iter().map(|loss| Loss {
            kind: loss.kind,
            keys: KeyInterval::new(&loss.keys),
            numbers: loss.numbers.map(|(first, last)| (first.0, last.0)),
            file: loss.file.display().to_string(),
            offset: loss.offset,
            why: loss.why.clone(),
        });
        RepairReport {
            basis: report.basis,
            whole_table_count: report.whole_table_count,
            rewritten_table_count: report.rewritten_table_count,
            lost_table_count: report.lost_table_count,
            record_count: report.record_count,
            log_entry_count: report.log_entry_count,
            value_count: report.value_count,
            lost_value_count: report.lost_value_count,
            is_complete: report.is_complete(),
            lost,
            may_reappear,
            losses: losses.collect(),
            notes: report.notes.clone(),
        }
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "salvaged {}: {} whole tables, {} written anew, {} lost; {} log records, {} entries",
            self.basis,
            self.whole_table_count,
            self.rewritten_table_count,
            self.lost_table_count,
            self.record_count,
            self.log_entry_count
        )?;
        if self.value_count + self.lost_value_count > 0 {
            writeln!(
                f,
                "brought {} values from value files into tables; {} could not be read",
                self.value_count, self.lost_value_count
            )?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        for loss in &self.losses {
            writeln!(f, "{} at offset {}: {}", loss.file, loss.offset, loss.why)?;
        }
        for keys in &self.lost {
            writeln!(f, "LOST, the newest values of keys {keys}")?;
        }
        for keys in &self.may_reappear {
            writeln!(f, "MAY REAPPEAR, deleted keys {keys}")?;
        }
        f.write_str(if self.is_complete { "nothing was lost" } else { "something was lost" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_shown_as_callers_know_them() {
        let all = KeyInterval::new(&KeyRange::all());
        assert_eq!(all.to_string(), "from the first key to the last key of all");
        let some = KeyRange::new([0, 0, 0, b'a'], Some(vec![0, 2, 0, b'\n']));
        let some = KeyInterval::new(&some);
        assert_eq!(some.to_string(), "from 'a' up to '\\n' in keyspace 2");
    }
}
