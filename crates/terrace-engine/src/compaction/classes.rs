//! At which level the values of a class stand in the tables. Pure.
//!
//! A value is *small*, *medium* or *large*. A small one stands in its table at every level, a large
//! one at none. A medium one is taken out by the flush, so that the upper levels move pointers, and
//! comes in place in the last level:
//!
//! ```text
//!                  small      medium                    large
//!   L0             in place   pointer ─► value file     pointer ─► value file, or the log
//!   …              in place   pointer ─► value file     pointer
//!   last level     in place   in place                  pointer
//! ```
//!
//! A pointer saves most where an entry is written again most often for each byte that stays there,
//! which is above the last level; and there about a tenth of the data lie, so that value files
//! hold little of the medium values. In the last level, where nine tenths lie, what a pointer saves
//! is spent by reads and scans that take a second step, and by the work on garbage.
//!
//! *Source:* the placement of Parallax, as told in Tebis (EuroSys 2022), section 2: "until the
//! last, one or two, level(s)". *Differs:* there a level goes down as a whole, and with it the log
//! of its medium values. Here a compaction takes some tables, and a file shrinks by what was named.

use terrace_base::{LEVEL_MAX, LevelNo};

use crate::options::ValueLogOptions;
use crate::table::TableMeta;
use crate::vlog::NamedBytes;
use crate::vlog::format::ENTRY_HEADER_BYTES;

/// In so many levels, counted from the last, medium values stand in the tables. With two, whatever
/// is written again in the last level but one would be as large as without the class.
const LEVELS_IN_PLACE: u8 = 1;

/// Pointers to values of this many bytes and more stay pointers in what a job writes into a level;
/// those to shorter ones become values. None if all of them stay.
#[must_use]
pub fn pointers_from(level: LevelNo, values: Option<&ValueLogOptions>) -> Option<u64> {
    let values = values.filter(|values| values.has_medium())?;
    (level.0 + LEVELS_IN_PLACE > LEVEL_MAX.0).then_some(values.large_bytes as u64)
}

/// About how many bytes the values have that a table points to and that are shorter than
/// `pointers_from`. Values of one class share segments, so that their mean tells.
#[must_use]
pub fn short_value_bytes(table: &TableMeta, pointers_from: u64) -> u64 {
    let key_bytes = table.raw_bytes / table.entry_count.max(1);
    let is_short = |one: &&NamedBytes| {
        let beside = (ENTRY_HEADER_BYTES as u64).saturating_add(key_bytes);
        one.bytes / one.count.max(1) < pointers_from.saturating_add(beside)
    };
    let value_bytes =
        |one: &NamedBytes| one.bytes.saturating_sub(one.count * ENTRY_HEADER_BYTES as u64);
    table.named.iter().filter(is_short).map(value_bytes).sum()
}

/// The most bytes that the values that a table points to and that are shorter than `pointers_from`
/// may have.
#[must_use]
pub fn short_value_bytes_max(table: &TableMeta, pointers_from: u64) -> u64 {
    let most = |one: &NamedBytes| one.bytes.min(one.count.saturating_mul(pointers_from));
    table.named.iter().map(most).fold(0, u64::saturating_add)
}
