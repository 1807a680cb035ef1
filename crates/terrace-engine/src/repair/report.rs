use std::fmt;
use std::path::PathBuf;

use terrace_base::{KeyRange, SeqNo};

/// By what a repair decided which tables and records count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Basis {
    /// By the manifest, which is whole: levels are kept.
    #[default]
    Manifest,
    /// By sequence number, over every table, row in pages and log segment that was found.
    Number,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Basis::Manifest => "by the manifest",
            Basis::Number => "by sequence number",
        })
    }
}

/// What a loss does to the keys that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum LossKind {
    /// Values are missing; where an older one was left, that is shown.
    Lost,
    /// Deletions are missing: keys that were deleted may show again.
    MayReappear,
}

/// Something that could not be salvaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What it does.
    pub kind: LossKind,
    /// Every stored key that it may concern.
    pub keys: KeyRange,
    /// The first and the last sequence number of what was lost, where that is known.
    pub numbers: Option<(SeqNo, SeqNo)>,
    /// The damaged file.
    pub file: PathBuf,
    /// Where in it.
    pub offset: u64,
    /// What happened there.
    pub why: String,
}

/// What a repair did, and what it could not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// By what it went.
    pub basis: Basis,
    /// Tables that were whole: copied as they are, or merged.
    pub whole_table_count: u64,
    /// Tables that were written anew from what could be read.
    pub rewritten_table_count: u64,
    /// Tables of which nothing was left.
    pub lost_table_count: u64,
    /// Records of the log that were salvaged.
    pub record_count: u64,
    /// Entries in these records.
    pub log_entry_count: u64,
    /// Values that lay in value files, and are in tables now.
    pub value_count: u64,
    /// Values that tables pointed to, and that could not be read.
    pub lost_value_count: u64,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// What else there is to say.
    pub notes: Vec<String>,
}

impl RepairReport {
    /// Whether nothing was lost.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.losses.is_empty()
    }

    /// The key intervals of a kind of loss, sorted, those that touch joined.
    #[must_use]
    pub fn ranges(&self, kind: LossKind) -> Vec<KeyRange> {
        let of_kind = self.losses.iter().filter(|loss| loss.kind == kind);
        let mut ranges: Vec<KeyRange> = of_kind.map(|loss| loss.keys.clone()).collect();
        ranges.sort_by(|a, b| a.start().cmp(b.start()));
        let mut joined: Vec<KeyRange> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if last.end().is_none_or(|end| range.start() <= end) => {
                    *last = last.hull(&range);
                }
                _ => joined.push(range),
            }
        }
        joined
    }

    /// Whether `key` is among what the report says was lost or may be wrong.
    #[must_use]
    pub fn covers(&self, key: &[u8]) -> bool {
        self.losses.iter().any(|loss| loss.keys.contains(key))
    }

    /// Without what was said twice.
    pub(super) fn tidied(mut self) -> RepairReport {
        let mut seen: Vec<Loss> = Vec::new();
        for loss in self.losses {
            if !seen.contains(&loss) {
                seen.push(loss);
            }
        }
        self.losses = seen;
        self
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "salvaged {}: {} whole tables, {} written anew, {} lost; {} log records; {} values of \
             value files, {} lost",
            self.basis,
            self.whole_table_count,
            self.rewritten_table_count,
            self.lost_table_count,
            self.record_count,
            self.value_count,
            self.lost_value_count
        )?;
        for loss in &self.losses {
            let (file, offset, why) = (loss.file.display(), loss.offset, &loss.why);
            writeln!(f, "{:?} {:?}: {file} at offset {offset}: {why}", loss.kind, loss.keys)?;
        }
        f.write_str(if self.is_complete() { "nothing was lost" } else { "something was lost" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(start: &str, end: Option<&str>) -> Loss {
        Loss {
            kind: LossKind::Lost,
            keys: KeyRange::new(start, end.map(|end| end.as_bytes().to_vec())),
            numbers: None,
            file: PathBuf::new(),
            offset: 0,
            why: String::new(),
        }
    }

    #[test]
    fn intervals_that_touch_are_joined() {
        let losses =
            vec![loss("m", Some("p")), loss("a", Some("c")), loss("b", Some("d")), loss("p", None)];
        let report = RepairReport { losses, ..RepairReport::default() };
        let expected = vec![KeyRange::new("a", Some(b"d".to_vec())), KeyRange::new("m", None)];
        assert_eq!(report.ranges(LossKind::Lost), expected);
        assert!(report.ranges(LossKind::MayReappear).is_empty());
        assert!(report.covers(b"zz") && !report.covers(b"e"));
    }
}
