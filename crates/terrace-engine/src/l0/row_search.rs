use terrace_base::SeqNo;

use super::SearchTrail;
use crate::Result;
use crate::table::PinnedEntry;

/// A row that is searched for one key after newer rows were: these told where the key stands in it,
/// and it tells where the key stands in older ones.
///
/// Usual cost: a search among the few elements that the newer rows left open.
pub trait RowSearch {
    /// The newest entry of `key` at or below `read_point`, tombstones and expired entries included.
    /// Range tombstones are not applied, and the filter is not asked. `trail` is what the search
    /// for this key has met in newer rows.
    fn search_key(
        &self,
        key: &[u8],
        read_point: SeqNo,
        trail: &mut SearchTrail,
    ) -> Result<Option<PinnedEntry>>;
}
