//! What a read touched, in sum.

use std::fmt;

use super::get::{Source, Step, StepAnswer};
use super::text;

/// How much one read touched, or several together: what it cost, whatever it came to. `Display`
/// shows it to people in a line, `Serialize` to programs.
///
/// A source that was left out for its keys, for its numbers or by the lookup index is not counted;
/// one that was asked twice is counted twice, as of a key with merge operands may happen. How many
/// cache lines that came to is not told: it depends on where keys lie in nodes and blocks and on
/// what they have in common, and nothing that is counted anyway says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ReadTotals {
    /// Memtables that were asked. Those of several dranges that a scan goes through one after the
    /// other are one.
    pub memtables: u64,
    /// Sources in L0 that were asked, whether or not their filters denied the key.
    pub l0_sources: u64,
    /// Levels below L0 that were asked: a get asks one table of each, a scan goes through all.
    pub levels: u64,
    /// Filters that were asked. Scans ask none.
    pub filters: u64,
    /// Blocks of tables that the block cache had. Rows in pages have no blocks.
    pub cached_blocks: u64,
    /// Blocks of tables that were read from files.
    pub file_blocks: u64,
    /// Values that were fetched from value files.
    pub values: u64,
}

impl ReadTotals {
    /// Everything that was asked.
    #[must_use]
    pub fn sources(&self) -> u64 {
        self.memtables + self.l0_sources + self.levels
    }

    /// All blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.cached_blocks + self.file_blocks
    }

    /// Adds another read.
    pub(crate) fn add(&mut self, other: &ReadTotals) {
        self.memtables += other.memtables;
        self.l0_sources += other.l0_sources;
        self.levels += other.levels;
        self.filters += other.filters;
        self.cached_blocks += other.cached_blocks;
        self.file_blocks += other.file_blocks;
        self.values += other.values;
    }

    /// Adds a source that was asked.
    pub(super) fn add_source(&mut self, source: &Source) {
        match source {
            Source::Memtable { .. } | Source::Memtables { .. } => self.memtables += 1,
            Source::Table { level: 0, .. }
            | Source::Level { level: 0, .. }
            | Source::Row { .. } => {
                self.l0_sources += 1;
            }
            Source::Table { .. } | Source::Level { .. } => self.levels += 1,
            // What is fetched from it is counted as a value.
            Source::ValueFile { .. } => {}
        }
    }

    /// Adds the source of a step, if it was asked.
    pub(super) fn add_step(&mut self, step: &Step) {
        match step.answer {
            StepAnswer::OutsideKeys | StepAnswer::TooNew { .. } | StepAnswer::NotIndexed => {}
            _ => self.add_source(&step.source),
        }
    }
}

impl fmt::Display for ReadTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "asked {}", text::count(self.sources(), "source", "sources"))?;
        let kinds = [
            (self.memtables, text::count(self.memtables, "memtable", "memtables")),
            (self.l0_sources, format!("{} in L0", self.l0_sources)),
            (self.levels, text::count(self.levels, "level", "levels")),
        ];
        let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
        let kinds: Vec<String> = kinds.map(|(_, kind)| kind).collect();
        if !kinds.is_empty() {
            write!(f, " ({})", kinds.join(", "))?;
        }
        if self.filters > 0 {
            write!(f, ", {}", text::count(self.filters, "filter", "filters"))?;
        }
        let blocks = text::count(self.blocks(), "block", "blocks");
        match (self.cached_blocks, self.file_blocks) {
            (0, 0) => write!(f, "; read no block")?,
            (_, 0) => write!(f, "; read {blocks} from the cache")?,
            (0, _) => write!(f, "; read {blocks} from files")?,
            (cached, _) => write!(f, "; read {blocks}, {cached} of them cached")?,
        }
        match self.values {
            0 => Ok(()),
            values => write!(f, ", {} from value files", text::count(values, "value", "values")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_what_there_was_and_leaves_out_the_rest() {
        let none = ReadTotals::default();
        assert_eq!(none.to_string(), "asked 0 sources; read no block");
        let one = ReadTotals { memtables: 1, ..none };
        assert_eq!(one.to_string(), "asked 1 source (1 memtable); read no block");
        let mut all = ReadTotals {
            memtables: 2,
            l0_sources: 3,
            levels: 1,
            filters: 4,
            cached_blocks: 1,
            file_blocks: 2,
            values: 1,
        };
        assert_eq!(
            all.to_string(),
            "asked 6 sources (2 memtables, 3 in L0, 1 level), 4 filters; read 3 blocks, 1 of them \
             cached, 1 value from value files"
        );
        all.add(&all.clone());
        let doubled = ReadTotals {
            memtables: 4,
            l0_sources: 6,
            levels: 2,
            filters: 8,
            cached_blocks: 2,
            file_blocks: 4,
            values: 2,
        };
        assert_eq!(all, doubled);
        let cached = ReadTotals { levels: 1, cached_blocks: 1, ..none };
        assert_eq!(cached.to_string(), "asked 1 source (1 level); read 1 block from the cache");
    }
}
