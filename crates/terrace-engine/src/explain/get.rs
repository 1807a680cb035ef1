//! What one get met.
//!
//! ```text
//!   GET user:42 at number 1200                                        nothing
//!   ├─ memtable 1.9, active               no entry                    0.2 us
//!   ├─ memtable 1.8, frozen               no entry                    0.2 us
//!   │    range tombstone 1100 covers the key
//!   ├─ L0 row 3, table 000001-00000013    filter: no                  0.1 us
//!   ├─ L1 table 000001-00000007           value of 256 bytes, ...   212.0 us
//!   │    block 17 from its file: 1.9 KiB there, 4.0 KiB decoded
//!   ├─ not asked: L2, L6
//!   ├─ asked 4 sources (2 memtables, 1 in L0, 1 level), 2 filters; read 1 block from files
//!   └─ hidden: range tombstone 1100 covers number 912
//! ```

use std::fmt;
use std::ops::Range;

use super::text::{self, Key};
use super::totals::ReadTotals;
use crate::cloud::CloudCost;

/// Everything that one get met, in order, and why it answered as it did. `Display` shows it to
/// people as a tree, `Serialize` to programs; there, keys are escaped as `\xHH \t \n \r \\ \' \"`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct GetExplanation {
    /// The key.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped"))]
    pub key: Vec<u8>,
    /// The number that it was read at.
    pub read_point: u64,
    /// Number of the key's drange, counted from 0; the first of its duplicates.
    pub drange: usize,
    /// Number of dranges.
    pub drange_count: usize,
    /// Number of duplicates of the drange, itself counted.
    pub duplicates: usize,
    /// The first key of that drange.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped"))]
    pub drange_start: Vec<u8>,
    /// The first key behind it, if there is one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::explain::text::escaped_bound"))]
    pub drange_end: Option<Vec<u8>>,
    /// The sources that were searched, in order.
    pub steps: Vec<Step>,
    /// The levels with tables that the read did not come to, because it had found its answer.
    pub unasked_levels: Vec<u8>,
    /// What the steps come to.
    pub totals: ReadTotals,
    /// What the read asked of the object store, and about what that costs; `None` if it asked
    /// nothing. What another read had asked for ahead is not in it.
    pub cloud: Option<CloudCost>,
    /// What came of it.
    pub verdict: Verdict,
    /// How long all of it took, in microseconds.
    pub us: f64,
}

/// One memtable, table or level that was asked.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Step {
    /// The source.
    pub source: Source,
    /// Whether the table had to be opened first.
    pub was_opened: bool,
    /// The number of its newest range tombstone that covers the key.
    pub covering: Option<u64>,
    /// What the source answered.
    pub answer: StepAnswer,
    /// How its elements were searched, if it is a row in pages.
    pub pages: Option<PagesSearch>,
    /// The blocks that were looked at.
    pub blocks: Vec<BlockRead>,
    /// How long it took, in microseconds.
    pub us: f64,
}

/// A place that is asked for a key, or gives entries to a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Source {
    /// A memtable.
    Memtable {
        /// Its name in the log.
        id: String,
        /// Whether it takes entries; else it waits to be flushed.
        is_active: bool,
        /// How many entries it holds.
        entry_count: u64,
    },
    /// The memtables of all dranges that a scan goes through, one drange after the other.
    Memtables {
        /// How many dranges.
        drange_count: u64,
    },
    /// A table.
    Table {
        /// Its level.
        level: u8,
        /// Its row, in L0.
        row: Option<u64>,
        /// Its id.
        id: String,
        /// How many entries it holds.
        entry_count: u64,
        /// Whether it lies in the object store, so that what is not cached of it costs requests.
        is_far: bool,
    },
    /// A row of L0 that has several tables, which a scan reads as one.
    Row {
        /// Its number.
        row: u64,
        /// How many of its tables the scan may come to.
        table_count: u64,
    },
    /// A level as a whole.
    Level {
        /// Its number.
        level: u8,
        /// How many tables it has.
        table_count: u64,
    },
    /// A file of the value log, from which the value was read that a table points to.
    ValueFile {
        /// Its id.
        id: String,
    },
}

/// What a step came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum StepAnswer {
    /// The key lies outside of what it holds; it was not searched.
    OutsideKeys,
    /// All of it is newer than the read point; it was not searched.
    TooNew {
        /// The least number that it holds.
        least_seqno: u64,
    },
    /// The lookup index says that it has no entry of the key; it was not searched.
    NotIndexed,
    /// Its filter says that the key is not there.
    FilteredOut,
    /// The key is not among its keys, as its trie knows, which is in the place of filter and index.
    NotInTrie,
    /// It was searched, and has no entry of the key that the read may see.
    Missing {
        /// Whether it has a filter, which said that the key may be there: a false positive, unless
        /// `saw_newer`.
        is_false_positive: bool,
        /// Whether it has entries of the key above the read point; not known of tables.
        saw_newer: bool,
    },
    /// It has this entry.
    Found {
        /// Its number.
        seqno: u64,
        /// What it says: `value`, `tombstone`, ...
        entry: &'static str,
        /// When it expires, in milliseconds since 1970.
        expiry_ms: Option<u64>,
        /// The length of its value.
        value_bytes: u64,
    },
    /// It has the value that the entry before points to.
    Value {
        /// Its length in bytes.
        value_bytes: u64,
    },
    /// The answer needs the disk, and the caller did not want to wait.
    NeedsIo,
}

/// One block of a table that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BlockRead {
    /// Its index in the table.
    pub index: u64,
    /// Whether the block cache had it; else it was read from its file.
    pub was_cached: bool,
    /// Whether it was read from the persistent cache, and not from the object store in which its
    /// table lies.
    pub is_near: bool,
    /// Its bytes in the file.
    pub file_bytes: u64,
    /// Its bytes when decoded.
    pub bytes: u64,
    /// Whether it is compressed in the file.
    pub is_compressed: bool,
}

/// The search in a row that lies in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PagesSearch {
    /// The first of the elements among which the key was sought.
    pub first: u64,
    /// Number of elements among which the key was sought: all of the row, unless hints of newer
    /// rows said more.
    pub searched_count: u64,
    /// How many elements the row has.
    pub element_count: u64,
}

impl PagesSearch {
    /// A search in these elements of all that the row has.
    #[must_use]
    pub fn new(within: &Range<usize>, element_count: usize) -> PagesSearch {
        PagesSearch {
            first: within.start as u64,
            searched_count: within.len() as u64,
            element_count: element_count as u64,
        }
    }
}

/// Why a get answered as it did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Verdict {
    /// The key is there.
    Present {
        /// The number of its entry.
        seqno: u64,
        /// When it expires, in milliseconds since 1970.
        expiry_ms: Option<u64>,
        /// The length of its value.
        value_bytes: u64,
    },
    /// The newest entry is a merge operand, and the operands come to a value.
    Merged {
        /// The number of the newest operand.
        seqno: u64,
        /// The length of the value.
        value_bytes: u64,
    },
    /// The newest entry is a tombstone.
    Deleted {
        /// Its number.
        seqno: u64,
    },
    /// A range tombstone covers the newest entry.
    RangeDeleted {
        /// The number of the range tombstone.
        by: u64,
        /// The number of the entry.
        seqno: u64,
    },
    /// The newest entry has expired.
    Expired {
        /// Its number.
        seqno: u64,
        /// When it expired, in milliseconds since 1970.
        expiry_ms: u64,
    },
    /// No memtable and no table has an entry of the key.
    Absent,
    /// The newest entry is of a kind that this version cannot answer from.
    Unreadable {
        /// Its number.
        seqno: u64,
        /// Its kind.
        entry: &'static str,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Memtable { id, is_active, .. } => {
                write!(f, "memtable {id}, {}", if *is_active { "active" } else { "frozen" })
            }
            Source::Memtables { drange_count } => {
                write!(f, "memtables of {}", text::count(*drange_count, "drange", "dranges"))
            }
            Source::Table { level, row: Some(row), id, .. } => {
                write!(f, "L{level} row {row}, table {id}")
            }
            Source::Table { level, row: None, id, is_far, .. } => {
                write!(f, "L{level} table {id}{}", if *is_far { ", in the store" } else { "" })
            }
            Source::ValueFile { id } => write!(f, "value file {id}"),
            Source::Row { row, table_count } => {
                write!(f, "L0 row {row}, {}", text::count(*table_count, "table", "tables"))
            }
            Source::Level { level, table_count } => {
                write!(f, "L{level}, {}", text::count(*table_count, "table", "tables"))
            }
        }
    }
}

impl fmt::Display for StepAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepAnswer::OutsideKeys => f.write_str("key is outside"),
            StepAnswer::TooNew { least_seqno } => write!(f, "all newer: {least_seqno} and up"),
            StepAnswer::NotIndexed => f.write_str("lookup index: no"),
            StepAnswer::FilteredOut => f.write_str("filter: no"),
            StepAnswer::NotInTrie => f.write_str("trie: no"),
            StepAnswer::Missing { saw_newer: true, .. } => f.write_str("only newer entries"),
            StepAnswer::Missing { is_false_positive: true, .. } => {
                f.write_str("no entry; filter: maybe (wrong)")
            }
            StepAnswer::Missing { .. } => f.write_str("no entry"),
            StepAnswer::Found { seqno, entry: "value", value_bytes, .. } => {
                write!(f, "number {seqno}: value, {}", text::bytes(*value_bytes))
            }
            StepAnswer::Found { seqno, entry, .. } => write!(f, "number {seqno}: {entry}"),
            StepAnswer::Value { value_bytes } => {
                write!(f, "the value, {}", text::bytes(*value_bytes))
            }
            StepAnswer::NeedsIo => f.write_str("needs the disk"),
        }
    }
}

impl fmt::Display for BlockRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match (self.was_cached, self.is_near) {
            (true, _) => "cache",
            (false, true) => "persistent cache",
            (false, false) => "file",
        };
        write!(f, "block {} from {from}, {}", self.index, text::bytes(self.bytes))?;
        if self.is_compressed {
            write!(f, " ({} compressed)", text::bytes(self.file_bytes))?;
        }
        Ok(())
    }
}

impl fmt::Display for PagesSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PagesSearch { first, searched_count, element_count } = *self;
        let all = text::count(element_count, "element", "elements");
        if searched_count == element_count {
            return write!(f, "row in pages, searched whole: {all}");
        }
        write!(f, "row in pages, hint: {searched_count} of {all}")?;
        match searched_count {
            0 => write!(f, ", at {first}"),
            _ => write!(f, ", from {first} on"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Present { seqno, expiry_ms, value_bytes } => {
                write!(f, "there: number {seqno}, a value of {}", text::bytes(*value_bytes))?;
                match expiry_ms {
                    Some(at) => write!(f, ", which expires at {at} ms"),
                    None => Ok(()),
                }
            }
            Verdict::Merged { seqno, value_bytes } => {
                let bytes = text::bytes(*value_bytes);
                write!(f, "there: operand {seqno} is the newest entry, merged a value of {bytes}")
            }
            Verdict::Deleted { seqno } => {
                write!(f, "hidden: tombstone {seqno} is the newest entry")
            }
            Verdict::RangeDeleted { by, seqno } => {
                write!(f, "hidden: range tombstone {by} covers number {seqno}, the newest entry")
            }
            Verdict::Expired { seqno, expiry_ms } => {
                write!(f, "hidden: number {seqno}, the newest entry, expired at {expiry_ms} ms")
            }
            Verdict::Absent => {
                f.write_str("absent: no memtable and no table has an entry of the key")
            }
            Verdict::Unreadable { seqno, entry } => {
                write!(f, "unreadable: number {seqno}, the newest entry, is a {entry}")
            }
        }
    }
}

impl fmt::Display for GetExplanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GET {} at number {}", Key(&self.key), self.read_point)?;
        writeln!(f, "; {}", text::time(self.us).trim_start())?;
        if self.drange_count > 1 {
            write!(f, "├─ drange {} of {}", self.drange + 1, self.drange_count)?;
            if self.duplicates > 1 {
                write!(f, ", ×{}", self.duplicates)?;
            }
            write!(f, ": from ")?;
            write!(f, "'{}'", Key(&self.drange_start))?;
            match &self.drange_end {
                Some(end) => writeln!(f, " up to '{}'", Key(end))?,
                None => writeln!(f, " on")?,
            }
        }
        let shown: Vec<_> =
            self.steps.iter().map(|s| (s.source.to_string(), s.answer.to_string())).collect();
        let source_width = shown.iter().map(|(source, _)| source.len()).max().unwrap_or(0);
        let answer_width = shown.iter().map(|(_, answer)| answer.len()).max().unwrap_or(0);
        for (step, (source, answer)) in self.steps.iter().zip(&shown) {
            let us = text::time(step.us);
            writeln!(f, "├─ {source:source_width$}  {answer:answer_width$}  {us}")?;
            if step.was_opened {
                writeln!(f, "│    the table was opened for this")?;
            }
            if let Some(covering) = step.covering {
                writeln!(f, "│    range tombstone {covering} covers the key")?;
            }
            if let Some(pages) = step.pages {
                writeln!(f, "│    {pages}")?;
            }
            for block in &step.blocks {
                writeln!(f, "│    {block}")?;
            }
        }
        if !self.unasked_levels.is_empty() {
            let levels: Vec<_> = self.unasked_levels.iter().map(|l| format!("L{l}")).collect();
            writeln!(f, "├─ not asked: {}", levels.join(", "))?;
        }
        writeln!(f, "├─ {}", self.totals)?;
        if let Some(cloud) = &self.cloud {
            writeln!(f, "├─ object store: {cloud}")?;
        }
        write!(f, "└─ {}", self.verdict)
    }
}
