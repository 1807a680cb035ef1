//! What survives a flush or a compaction.
//!
//! The read points that must be served divide the numbers into stripes: two versions of a key in
//! one stripe cannot be told apart by any reader, so only the newer one stays.
//!
//! ```text
//!   number      1    2    3    4    5    6    7    8
//!   read points           3              6
//!   stripes   [ 1  …   3 ][ 4  …   6 ][ 7  …
//!   versions    v1   v2        v4   v5        v7
//!   kept             v2             v5        v7
//! ```

use std::cmp::Ordering;

use terrace_base::{Corruption, EntryKind, EntryRef, KeyRange, SeqNo, WallTime};
use terrace_env::{PlantedBug, is_planted};

use crate::Result;
use crate::iter::Stream;
use crate::range_tombstone::{Fragments, RangeTombstone};

/// The rules of one job; pure data.
#[derive(Clone, Debug)]
pub struct Retention {
    /// Read points that must be served, ascending.
    snapshots: Vec<SeqNo>,
    /// Where nothing older can exist below: tombstones may go there. Sorted and disjoint.
    droppable: Vec<KeyRange>,
    /// Expired at this moment means deleted.
    now: WallTime,
    /// The range tombstones of the job's inputs.
    tombstones: Fragments,
}

impl Retention {
    /// Rules for a job. `snapshots` and `droppable` may come in any order.
    #[must_use]
    pub fn new(
        mut snapshots: Vec<SeqNo>,
        mut droppable: Vec<KeyRange>,
        now: WallTime,
        tombstones: Fragments,
    ) -> Retention {
        snapshots.sort_unstable();
        snapshots.dedup();
        droppable.sort_by(|a, b| a.start().cmp(b.start()));
        Retention { snapshots, droppable, now, tombstones }
    }

    /// The stripe of a number: how many read points lie below it.
    fn stripe(&self, seqno: SeqNo) -> usize {
        self.snapshots.partition_point(|snapshot| *snapshot < seqno)
    }

    /// Whether nothing older than what this job sees can exist at `key`.
    fn may_drop_at(&self, key: &[u8]) -> bool {
        if is_planted(PlantedBug::DropTombstoneEarly) {
            return true;
        }
        let index = self.droppable.partition_point(|range| range.is_before(key));
        self.droppable.get(index).is_some_and(|range| range.contains(key))
    }

    fn is_deletion(&self, entry: &EntryRef<'_>) -> bool {
        entry.kind == EntryKind::Tombstone
            || entry.expiry.is_some_and(|expiry| expiry.is_expired(self.now))
    }

    /// Whether some range tombstone of the entry's own stripe hides it from every reader.
    fn is_covered(&self, entry: &EntryRef<'_>) -> bool {
        if self.tombstones.is_empty() {
            return false;
        }
        let stripe_end = self.snapshots.get(self.stripe(entry.seqno)).copied();
        let reader = stripe_end.unwrap_or(SeqNo::MAX);
        let covering = self.tombstones.newest_covering(entry.key, reader);
        covering.is_some_and(|covering| covering > entry.seqno)
    }

    /// The range tombstones that survive: one number a stripe and fragment, and none where it has
    /// nothing left to hide.
    #[must_use]
    pub fn surviving_tombstones(&self) -> Fragments {
        let mut kept = Vec::new();
        let fragments = self.tombstones.to_fragments();
        for (keys, seqnos) in &fragments {
            let end = keys.end().expect("a range tombstone has an end");
            let mut last = None;
            for &seqno in seqnos {
                let stripe = self.stripe(seqno);
                let is_hidden = last == Some(stripe);
                last = Some(stripe);
                let has_no_use = stripe == 0 && self.may_drop_interval(keys.start(), end);
                if !is_hidden && !has_no_use {
                    kept.push(RangeTombstone { start: keys.start(), end, seqno });
                }
            }
        }
        Fragments::new(kept)
    }

    fn may_drop_interval(&self, start: &[u8], end: &[u8]) -> bool {
        let index = self.droppable.partition_point(|range| range.is_before(start));
        self.droppable.get(index).is_some_and(|range| {
            range.contains(start) && range.end().is_none_or(|range_end| end <= range_end)
        })
    }
}

/// The entries of a merged stream that survive, in internal order.
pub struct Retained<'a> {
    input: &'a mut dyn Stream,
    rules: &'a Retention,
    /// The key of the last entries seen.
    key: Vec<u8>,
    /// The number of the last entry seen, if there was one.
    last: Option<SeqNo>,
    /// The stripe of the last entry of that key that hides older ones of its stripe.
    hidden_stripe: Option<usize>,
    /// How many entries were dropped.
    dropped: u64,
}

impl<'a> Retained<'a> {
    /// Stands on the first entry of `input` that survives.
    pub fn new(input: &'a mut dyn Stream, rules: &'a Retention) -> Result<Retained<'a>> {
        let mut retained =
            Retained { input, rules, key: Vec::new(), last: None, hidden_stripe: None, dropped: 0 };
        retained.skip_dropped()?;
        Ok(retained)
    }

    /// How many entries were dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn skip_dropped(&mut self) -> Result<()> {
        while !self.current_survives()? {
            self.dropped += 1;
            self.input.advance()?;
        }
        Ok(())
    }

    /// Judges the entry that the input stands on; at the end there is nothing to drop.
    /// Errors: `Corruption`, if it does not come after the one before: checksums do not vouch for
    /// what was written wrongly, and no table must be made of it.
    fn current_survives(&mut self) -> Result<bool> {
        let Some(entry) = self.input.entry() else { return Ok(true) };
        let order = self.last.map(|last| (self.key.as_slice().cmp(entry.key), last));
        match order {
            Some((Ordering::Equal, last)) if entry.seqno < last => {}
            // The same entry: a crash came between two flushes of one batch, and the replay put the
            // whole batch into memtables again.
            Some((Ordering::Equal, last)) if entry.seqno == last => return Ok(false),
            Some((Ordering::Equal | Ordering::Greater, _)) => {
                let detail = "entries that are merged are out of order";
                return Err(Corruption::new("(the inputs of a merge)", 0, detail).into());
            }
            Some((Ordering::Less, _)) | None => {
                self.key.clear();
                self.key.extend_from_slice(entry.key);
                self.hidden_stripe = None;
            }
        }
        self.last = Some(entry.seqno);
        let stripe = self.rules.stripe(entry.seqno);
        if self.hidden_stripe == Some(stripe) || self.rules.is_covered(&entry) {
            return Ok(false);
        }
        let expired = entry.expiry.is_some_and(|expiry| expiry.is_expired(self.rules.now));
        if expired && stripe == 0 && is_planted(PlantedBug::ResurrectExpired) {
            return Ok(false);
        }
        // An operand needs what lies under it; every other kind hides it from its stripe.
        if entry.kind != EntryKind::MergeOperand {
            self.hidden_stripe = Some(stripe);
        }
        let goes =
            stripe == 0 && self.rules.is_deletion(&entry) && self.rules.may_drop_at(entry.key);
        Ok(!goes)
    }
}

impl Stream for Retained<'_> {
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.input.entry()
    }

    fn advance(&mut self) -> Result<()> {
        self.input.advance()?;
        self.skip_dropped()
    }
}

impl std::fmt::Debug for Retained<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Retained, {} dropped", self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iter::VecStream;
    use terrace_base::{Entry, Expiry};

    fn entry(key: &str, seqno: u64, kind: EntryKind, expiry: Option<u64>) -> Entry {
        let expiry = expiry.map(|at| Expiry::at(WallTime(at)));
        Entry { key: key.into(), seqno: SeqNo(seqno), kind, expiry, value: Vec::new() }
    }

    fn value(key: &str, seqno: u64) -> Entry {
        entry(key, seqno, EntryKind::Value, None)
    }

    fn survivors(entries: Vec<Entry>, rules: &Retention) -> Vec<String> {
        let mut input = VecStream::new(entries);
        let mut retained = Retained::new(&mut input, rules).expect("in memory");
        let mut seen = Vec::new();
        while let Some(entry) = retained.entry() {
            seen.push(format!("{}{}", entry.key.escape_ascii(), entry.seqno));
            retained.advance().expect("in memory");
        }
        seen
    }

    fn rules(
        snapshots: &[u64],
        droppable: Vec<KeyRange>,
        tombstones: &[(&'static str, &'static str, u64)],
    ) -> Retention {
        let tombstone = |&(start, end, seqno): &(&'static str, &'static str, u64)| RangeTombstone {
            start: start.as_bytes(),
            end: end.as_bytes(),
            seqno: SeqNo(seqno),
        };
        let tombstones = Fragments::new(tombstones.iter().map(tombstone));
        let snapshots = snapshots.iter().copied().map(SeqNo).collect();
        Retention::new(snapshots, droppable, WallTime(100), tombstones)
    }

    #[test]
    fn the_newest_version_of_each_stripe_survives() {
        let versions: Vec<_> = [7, 5, 4, 2, 1].map(|seqno| value("k", seqno)).into();
        assert_eq!(survivors(versions.clone(), &rules(&[3, 6], vec![], &[])), ["k7", "k5", "k2"]);
        assert_eq!(survivors(versions.clone(), &rules(&[], vec![], &[])), ["k7"]);
        assert_eq!(survivors(versions, &rules(&[7, 1], vec![], &[])), ["k7", "k1"]);
    }

    #[test]
    fn a_tombstone_goes_only_where_nothing_older_can_be_and_no_read_point_lies_under_it() {
        let deleted = || vec![entry("k", 5, EntryKind::Tombstone, None), value("k", 2)];
        let bottom = || vec![KeyRange::all()];
        assert_eq!(survivors(deleted(), &rules(&[], vec![], &[])), ["k5"]);
        assert!(survivors(deleted(), &rules(&[], bottom(), &[])).is_empty());
        assert_eq!(survivors(deleted(), &rules(&[3], bottom(), &[])), ["k5", "k2"]);
        assert!(survivors(deleted(), &rules(&[5], bottom(), &[])).is_empty());
        let elsewhere = vec![KeyRange::new("a", Some(b"k".to_vec()))];
        assert_eq!(survivors(deleted(), &rules(&[], elsewhere, &[])), ["k5"]);
    }

    #[test]
    fn an_expired_entry_is_a_tombstone_with_its_own_number() {
        let expired = || vec![entry("k", 5, EntryKind::Value, Some(99)), value("k", 2)];
        assert_eq!(survivors(expired(), &rules(&[], vec![], &[])), ["k5"]);
        assert!(survivors(expired(), &rules(&[], vec![KeyRange::all()], &[])).is_empty());
        let alive = vec![entry("k", 5, EntryKind::Value, Some(101))];
        assert_eq!(survivors(alive, &rules(&[], vec![KeyRange::all()], &[])), ["k5"]);
    }

    #[test]
    fn a_range_tombstone_hides_older_entries_of_its_stripe_only() {
        let entries = || vec![value("a", 1), value("b", 2), value("b", 1), value("z", 1)];
        assert_eq!(survivors(entries(), &rules(&[], vec![], &[("a", "c", 9)])), ["z1"]);
        let kept = survivors(entries(), &rules(&[4], vec![], &[("a", "c", 9)]));
        assert_eq!(kept, ["a1", "b2", "z1"], "a reader at 4 still sees them");
        let kept =
            survivors(vec![value("b", 12), value("b", 2)], &rules(&[], vec![], &[("a", "c", 9)]));
        assert_eq!(kept, ["b12"]);
    }

    #[test]
    fn operands_keep_what_lies_under_them() {
        let operand = |seqno| entry("k", seqno, EntryKind::MergeOperand, None);
        let entries = vec![operand(9), operand(8), value("k", 7), value("k", 6)];
        assert_eq!(survivors(entries, &rules(&[], vec![], &[])), ["k9", "k8", "k7"]);
    }

    #[test]
    fn range_tombstones_survive_once_a_stripe_and_go_at_the_bottom() {
        let shown = |rules: &Retention| -> Vec<String> {
            let kept = rules.surviving_tombstones();
            kept.iter()
                .map(|t| format!("{}-{}#{}", t.start.escape_ascii(), t.end.escape_ascii(), t.seqno))
                .collect()
        };
        let list = [("a", "m", 9), ("a", "m", 8), ("a", "m", 2)];
        assert_eq!(shown(&rules(&[], vec![], &list)), ["a-m#9"]);
        assert_eq!(shown(&rules(&[5], vec![], &list)), ["a-m#9", "a-m#2"]);
        assert!(shown(&rules(&[], vec![KeyRange::all()], &list)).is_empty());
        assert_eq!(shown(&rules(&[5], vec![KeyRange::all()], &list)), ["a-m#9"]);
        let half = vec![KeyRange::new("a", Some(b"f".to_vec()))];
        assert_eq!(shown(&rules(&[], half, &list)), ["a-m#9"]);
    }
}
