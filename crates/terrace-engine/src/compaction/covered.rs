//! Which inputs of a compaction need not even be read. Pure.

use terrace_base::SeqNo;

use crate::range_tombstone::Fragments;
use crate::version::TableMeta;

/// After this number of fragments a table counts as not covered: a user that has deleted it in more
/// pieces has it read.
const FRAGMENTS_MAX: usize = 64;

/// Whether nothing of a table survives beside `tombstones`: they cover all its keys, are newer
/// than anything in it, and no read point (`snapshots`, ascending) tells the two apart.
///
/// The retention of a job would drop each entry and each range tombstone of it one by one.
#[must_use]
pub fn is_covered(table: &TableMeta, tombstones: &Fragments, snapshots: &[SeqNo]) -> bool {
    let span = table.span();
    let mut key = span.start().to_vec();
    for _ in 0..FRAGMENTS_MAX {
        let around = tombstones.around(&key, SeqNo::MAX);
        let Some(newest) = around.newest else { return false };
        let first_above = snapshots.partition_point(|point| *point < table.least_seqno);
        let tells_apart = snapshots.get(first_above).is_some_and(|point| *point < newest);
        if newest <= table.greatest_seqno || tells_apart {
            return false;
        }
        match around.end {
            None => return true,
            Some(end) if span.is_before(end) => return true,
            Some(end) => key = end.to_vec(),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use terrace_base::KeyRange;

    use super::*;
    use crate::range_tombstone::RangeTombstone;

    fn table(least: u64, greatest: u64) -> TableMeta {
        TableMeta {
            least_seqno: SeqNo(least),
            greatest_seqno: SeqNo(greatest),
            bounds: KeyRange::new("c", Some(b"m".to_vec())),
            ..TableMeta::sample(1)
        }
    }

    fn covered(table: &TableMeta, list: &[(&str, &str, u64)], snapshots: &[u64]) -> bool {
        let tombstones = list.iter().map(|(start, end, seqno)| RangeTombstone {
            start: start.as_bytes(),
            end: end.as_bytes(),
            seqno: SeqNo(*seqno),
        });
        let snapshots: Vec<SeqNo> = snapshots.iter().copied().map(SeqNo).collect();
        is_covered(table, &Fragments::new(tombstones), &snapshots)
    }

    #[test]
    fn newer_range_tombstones_over_all_keys_cover_a_table() {
        assert!(covered(&table(3, 5), &[("a", "z", 9)], &[]));
        assert!(covered(&table(3, 5), &[("c", "m", 6)], &[]), "exactly");
        assert!(covered(&table(3, 5), &[("a", "f", 9), ("f", "z", 7)], &[]), "two neighbours");
        assert!(!covered(&table(3, 5), &[("a", "f", 9), ("g", "z", 7)], &[]), "a gap");
        assert!(!covered(&table(3, 5), &[("d", "z", 9)], &[]), "not the first key");
        assert!(!covered(&table(3, 5), &[("a", "l", 9)], &[]), "not the last keys");
        assert!(!covered(&table(3, 5), &[("a", "z", 5)], &[]), "not newer");
        assert!(!covered(&table(3, 5), &[], &[]));
    }

    #[test]
    fn a_read_point_between_keeps_a_table() {
        assert!(!covered(&table(3, 5), &[("a", "z", 9)], &[7]));
        assert!(!covered(&table(3, 5), &[("a", "z", 9)], &[3]), "it sees the oldest entry");
        assert!(covered(&table(3, 5), &[("a", "z", 9)], &[2]), "it sees neither");
        assert!(covered(&table(3, 5), &[("a", "z", 9)], &[9, 12]), "it sees the delete");
    }
}
