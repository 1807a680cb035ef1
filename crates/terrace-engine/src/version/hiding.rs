//! How much of what a version names in value files newer entries may hide. Pure, and no I/O.

use std::sync::Arc;

use terrace_base::{LEVEL_MAX, LevelNo};

use super::{Table, Version};
use crate::vlog::ValueSpace;

/// What the tables of one row or level hide at most, all together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HidingLevel {
    /// The level; 0 for all rows.
    pub level: LevelNo,
    /// Bytes of values in value files.
    pub bytes: u64,
}

/// Judges what tables of a version hide.
///
/// A table hides nothing but what older tables name at its keys, and for each of its entries one
/// value. What its entries are is not known: one may be a value as large as the one that it hides,
/// or a deletion. So a table is taken to hide as much as it names, or as an entry of the version
/// names on average for each that it has, whichever is more. What range tombstones hide is not
/// counted.
#[derive(Debug)]
pub struct Hiding<'a> {
    version: &'a Version,
    /// Bytes that all tables name, and the number of their entries.
    named_bytes: u64,
    entry_count: u64,
}

impl<'a> Hiding<'a> {
    /// The judge of a version. Cost: O(tables).
    #[must_use]
    pub fn of(version: &'a Version) -> Hiding<'a> {
        let metas = || version.tables().map(|table| table.meta());
        let named_bytes = metas().map(|meta| meta.named.bytes()).sum();
        let entry_count = metas().map(|meta| meta.entry_count).sum();
        Hiding { version, named_bytes, entry_count }
    }

    /// The level with all that it hides, for each level from L0 on. Cost: O(tables · log tables)
    /// where most tables lie in the deepest level.
    pub fn levels(&self) -> impl Iterator<Item = HidingLevel> {
        let rows = self.version.l0().rows();
        let of_rows = rows.iter().enumerate().flat_map(|(index, row)| {
            row.tables.iter().map(move |table| self.by_table_of_row(table, index))
        });
        let of_rows = HidingLevel { level: LevelNo(0), bytes: of_rows.sum() };
        let of_levels = self.version.runs().map(|(level, run)| {
            let bytes = run.tables().iter().map(|table| self.by_table(table, level)).sum();
            HidingLevel { level, bytes }
        });
        std::iter::once(of_rows).chain(of_levels)
    }

    /// What a table of a level hides at most, in bytes of values.
    #[must_use]
    pub fn by_table(&self, table: &Arc<Table>, level: LevelNo) -> u64 {
        let weight = self.weight(table);
        self.in_levels_below(table, level, weight).min(weight)
    }

    /// The same of a table of the row that has this place in the list of rows. What of the table is
    /// consumed counts too: it keeps the values that it names from being given back.
    #[must_use]
    pub fn by_table_of_row(&self, table: &Arc<Table>, index: usize) -> u64 {
        let weight = self.weight(table);
        let mut below = self.in_levels_below(table, LevelNo(0), weight);
        for older in self.version.l0().rows()[index + 1..].iter().rev() {
            if below >= weight {
                break;
            }
            let met = older.tables.iter().filter(|other| other.span().overlaps(table.span()));
            below += met.map(|other| other.meta().named.bytes()).sum::<u64>();
        }
        below.min(weight)
    }

    fn weight(&self, table: &Table) -> u64 {
        let meta = table.meta();
        let entries = u128::from(self.named_bytes) * u128::from(meta.entry_count)
            / u128::from(self.entry_count.max(1));
        meta.named.bytes().max(u64::try_from(entries).unwrap_or(u64::MAX))
    }

    /// What the levels below `level` name at the keys of a table; some of it if that is `enough`.
    fn in_levels_below(&self, table: &Table, level: LevelNo, enough: u64) -> u64 {
        let mut bytes = 0;
        for deeper in (level.0 + 1..=LEVEL_MAX.0).rev() {
            for met in self.version.run(LevelNo(deeper)).overlapping(table.span()) {
                bytes += met.meta().named.bytes();
                if bytes >= enough {
                    return bytes;
                }
            }
        }
        bytes
    }
}

impl Version {
    /// What the value files hold, and how much of it may be dead. Worked out once for a version.
    /// Cost: at the first call as [`Version::liveness`] and [`Hiding::levels`].
    #[must_use]
    pub fn value_space(&self) -> ValueSpace {
        if self.values().is_empty() {
            return ValueSpace::default();
        }
        if let Some(known) = self.known_space().get() {
            return *known;
        }
        let liveness = self.liveness();
        let files = || self.values().iter().map(|file| file.meta());
        let space = ValueSpace {
            entry_bytes: files().map(|file| file.entry_bytes()).sum(),
            overhead_bytes: files().map(|file| file.overhead_bytes()).sum(),
            named_bytes: files().map(|file| liveness.live_bytes(file)).sum(),
            hidden_bytes_max: Hiding::of(self).levels().map(|one| one.bytes).sum(),
        };
        *self.known_space().get_or_set(space)
    }
}
