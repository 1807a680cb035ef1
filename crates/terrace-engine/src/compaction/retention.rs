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
use std::collections::VecDeque;
use std::sync::Arc;

use terrace_base::{Corruption, Entry, EntryKind, EntryRef, KeyRange, SeqNo, WallTime};
use terrace_env::{PlantedBug, is_planted};

use crate::Result;
use crate::compaction::filter::{ActiveFilter, Filtered};
use crate::iter::Stream;
use crate::merge::MergeOperator;
use crate::range_tombstone::{Fragments, RangeTombstone};
use crate::vlog::ValueSource;

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
    /// Folds operands; without it they stay as they are.
    pub(super) operator: Option<Arc<dyn MergeOperator>>,
    /// Has the values that entries point to; without it operands stay above them.
    pub(super) values: Option<Arc<ValueSource>>,
    /// Is asked what becomes of values; without it they stay.
    pub(super) filter: Option<ActiveFilter>,
    /// Whether every entry stays, seen or not.
    keeps_all: bool,
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
        Retention {
            snapshots,
            droppable,
            now,
            tombstones,
            operator: None,
            values: None,
            filter: None,
            keeps_all: false,
        }
    }

    /// The same, and operands are folded by `operator` where no read can tell.
    #[must_use]
    pub fn with_operator(self, operator: Option<Arc<dyn MergeOperator>>) -> Retention {
        Retention { operator, ..self }
    }

    /// The same, and the values that entries point to can be had from `values`.
    #[must_use]
    pub fn with_values(self, values: Option<Arc<ValueSource>>) -> Retention {
        Retention { values, ..self }
    }

    /// The same, and a filter is asked about values.
    #[must_use]
    pub(super) fn with_filter(self, filter: Option<ActiveFilter>) -> Retention {
        Retention { filter, ..self }
    }

    /// The same, but every entry stays as it is, also those that no reader can see: a baseline.
    #[must_use]
    pub fn keeping_all(self) -> Retention {
        Retention { operator: None, keeps_all: true, ..self }
    }

    /// The stripe of a number: how many read points lie below it.
    pub(super) fn stripe(&self, seqno: SeqNo) -> usize {
        self.snapshots.partition_point(|snapshot| *snapshot < seqno)
    }

    /// Whether nothing older than what this job sees can exist at `key`.
    pub(super) fn may_drop_at(&self, key: &[u8]) -> bool {
        if is_planted(PlantedBug::DropTombstoneEarly) {
            return true;
        }
        let index = self.droppable.partition_point(|range| range.is_before(key));
        self.droppable.get(index).is_some_and(|range| range.contains(key))
    }

    pub(super) fn is_deletion(&self, entry: &EntryRef<'_>) -> bool {
        entry.kind == EntryKind::Tombstone
            || entry.expiry.is_some_and(|expiry| expiry.is_expired(self.now))
    }

    /// Whether some range tombstone of the entry's own stripe hides it from every reader.
    fn is_covered(&self, entry: &EntryRef<'_>) -> bool {
        let covering = self.newest_covering(entry.key, self.stripe(entry.seqno));
        covering.is_some_and(|covering| covering > entry.seqno)
    }

    /// The newest range tombstone over `key` that the readers of a stripe see.
    fn newest_covering(&self, key: &[u8], stripe: usize) -> Option<SeqNo> {
        if self.tombstones.is_empty() {
            return None;
        }
        let reader = self.snapshots.get(stripe).copied().unwrap_or(SeqNo::MAX);
        self.tombstones.newest_covering(key, reader)
    }

    /// Whether a range tombstone of this very stripe covers `key`: what survives of the stripe is
    /// above it, and has nothing under it.
    pub(super) fn is_cleared(&self, key: &[u8], stripe: usize) -> bool {
        let covering = self.newest_covering(key, stripe);
        covering.is_some_and(|covering| self.stripe(covering) == stripe)
    }

    /// The range tombstones that survive: one number a stripe and fragment, and none where it has
    /// nothing left to hide. Neighbouring fragments with the same number are one tombstone again.
    /// Cost: O(log² n) for each fragment and stripe that survives, however the tombstones overlap.
    #[must_use]
    pub fn surviving_tombstones(&self) -> Fragments {
        let mut kept: Vec<RangeTombstone<'_>> = Vec::new();
        // Those of `kept` that end where the present fragment starts, the newest first.
        let mut open: Vec<usize> = Vec::new();
        let mut next = self.tombstones.iter().next().map(|first| first.start);
        while let Some(start) = next {
            let fragment = self.tombstones.around(start, SeqNo::MAX);
            next = fragment.end;
            let Some(end) = next else { break };
            let mut still_open = Vec::new();
            let mut newest = fragment.newest;
            while let Some(seqno) = newest {
                let stripe = self.stripe(seqno);
                let has_no_use = stripe == 0 && self.may_drop_interval(start, end);
                if !has_no_use {
                    let before = open.iter().copied().find(|index| kept[*index].seqno == seqno);
                    let index = before.unwrap_or(kept.len());
                    match before {
                        Some(index) => kept[index].end = end,
                        None => kept.push(RangeTombstone { start, end, seqno }),
                    }
                    still_open.push(index);
                }
                // The next one is the newest that the read points below this stripe see.
                let below = stripe.checked_sub(1).map(|index| self.snapshots[index]);
                newest = below.and_then(|point| self.tombstones.newest_covering(start, point));
            }
            open = still_open;
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
    pub(super) input: &'a mut dyn Stream,
    pub(super) rules: &'a Retention,
    /// The key of the last entries seen.
    pub(super) key: Vec<u8>,
    /// The number of the last entry seen, if there was one.
    last: Option<SeqNo>,
    /// Whether that entry was the first of its key.
    is_newest: bool,
    /// The stripe of the last entry of that key that hides older ones of its stripe.
    pub(super) hidden_stripe: Option<usize>,
    /// How many entries were dropped.
    pub(super) dropped: u64,
    /// What the filter did.
    pub(super) filtered: Filtered,
    /// What became of a stack of operands, or what the filter made of an entry: shown before the
    /// entry that the input stands on, which is not judged yet while there is any.
    pub(super) folded: VecDeque<Entry>,
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No reader can see it.
    Hidden,
    /// It deletes its key, and nothing is left to delete.
    Spent,
    /// It stays.
    Stays,
}

impl<'a> Retained<'a> {
    /// Stands on the first entry of `input` that survives.
    pub fn new(input: &'a mut dyn Stream, rules: &'a Retention) -> Result<Retained<'a>> {
        let mut retained = Retained {
            input,
            rules,
            key: Vec::new(),
            last: None,
            is_newest: false,
            hidden_stripe: None,
            dropped: 0,
            filtered: Filtered::default(),
            folded: VecDeque::new(),
        };
        retained.skip_dropped()?;
        Ok(retained)
    }

    /// How many entries were dropped so far.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What the filter did so far.
    #[must_use]
    pub fn filtered(&self) -> Filtered {
        self.filtered
    }

    fn skip_dropped(&mut self) -> Result<()> {
        while let Some(verdict) = self.judge()? {
            if verdict != Verdict::Stays {
                self.dropped += 1;
                self.input.advance()?;
            } else if self.show_staying()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Shows what becomes of the entry that the input stands on, which was judged to stay, with
    /// the operands under it; `false` if nothing does.
    fn show_staying(&mut self) -> Result<bool> {
        let is_asked = self.is_newest && self.rules.filter.is_some();
        if self.input.entry().map(|entry| entry.kind) == Some(EntryKind::MergeOperand) {
            self.fold()?;
            return if is_asked { self.filter_folded() } else { Ok(true) };
        }
        if is_asked { self.filter_here() } else { Ok(true) }
    }

    /// Judges the entry that the input stands on, once; `None` at the end.
    /// Errors: `Corruption`, if it does not come after the one before: checksums do not vouch for
    /// what was written wrongly, and no table must be made of it.
    pub(super) fn judge(&mut self) -> Result<Option<Verdict>> {
        let Some(entry) = self.input.entry() else { return Ok(None) };
        let order = self.last.map(|last| (self.key.as_slice().cmp(entry.key), last));
        self.is_newest = !matches!(order, Some((Ordering::Equal, _)));
        match order {
            Some((Ordering::Equal, last)) if entry.seqno < last => {}
            // The same entry from two sources, which hold it alike.
            Some((Ordering::Equal, last)) if entry.seqno == last => {
                return Ok(Some(Verdict::Hidden));
            }
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
        if self.rules.keeps_all {
            return Ok(Some(Verdict::Stays));
        }
        let stripe = self.rules.stripe(entry.seqno);
        if self.hidden_stripe == Some(stripe) || self.rules.is_covered(&entry) {
            return Ok(Some(Verdict::Hidden));
        }
        let expired = entry.expiry.is_some_and(|expiry| expiry.is_expired(self.rules.now));
        if expired && stripe == 0 && is_planted(PlantedBug::ResurrectExpired) {
            return Ok(Some(Verdict::Hidden));
        }
        // An operand needs what lies under it; every other kind hides it from its stripe.
        if entry.kind != EntryKind::MergeOperand {
            self.hidden_stripe = Some(stripe);
        }
        let is_spent =
            stripe == 0 && self.rules.is_deletion(&entry) && self.rules.may_drop_at(entry.key);
        Ok(Some(if is_spent { Verdict::Spent } else { Verdict::Stays }))
    }
}

impl Stream for Retained<'_> {
    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        match self.folded.front() {
            None => self.input.entry(),
            Some(entry) => Some(entry.as_ref()),
        }
    }

    fn advance(&mut self) -> Result<()> {
        if self.folded.is_empty() {
            self.input.advance()?;
        } else {
            self.folded.pop_front();
            if !self.folded.is_empty() {
                return Ok(());
            }
        }
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
    fn a_baseline_keeps_what_no_reader_can_see() {
        let entries = || {
            vec![
                entry("a", 9, EntryKind::MergeOperand, None),
                entry("a", 8, EntryKind::MergeOperand, None),
                value("a", 7),
                value("a", 6),
                entry("b", 5, EntryKind::Tombstone, None),
                entry("b", 4, EntryKind::Value, Some(99)),
                value("c", 2),
                value("c", 2),
            ]
        };
        let rules = || rules(&[], vec![KeyRange::all()], &[("b", "d", 9)]);
        assert_eq!(survivors(entries(), &rules()), ["a9", "a8", "a7"]);
        let all = ["a9", "a8", "a7", "a6", "b5", "b4", "c2"];
        assert_eq!(survivors(entries(), &rules().keeping_all()), all, "the same one stays once");
    }

    #[test]
    fn operands_keep_what_lies_under_them() {
        let operand = |seqno| entry("k", seqno, EntryKind::MergeOperand, None);
        let entries = vec![operand(9), operand(8), value("k", 7), value("k", 6)];
        assert_eq!(survivors(entries, &rules(&[], vec![], &[])), ["k9", "k8", "k7"]);
    }

    /// As `survivors`, with values: operands and values are appended.
    fn folded(entries: &[(u64, &str)], rules: Retention) -> String {
        let entries = entries.iter().map(|&(seqno, text)| {
            let (kind, text, expiry) = match (text.strip_prefix('+'), text.split_once('@')) {
                (Some(operand), _) => (EntryKind::MergeOperand, operand, None),
                (None, Some((value, at))) => (EntryKind::Value, value, at.parse().ok()),
                (None, None) if text == "-" => (EntryKind::Tombstone, "", None),
                (None, None) => (EntryKind::Value, text, None),
            };
            Entry { value: text.into(), ..entry("k", seqno, kind, expiry) }
        });
        let rules = rules.with_operator(Some(Arc::new(crate::merge::Append)));
        let count = entries.len();
        let mut input = VecStream::new(entries.chain([value("z", 1)]).collect());
        let mut retained = Retained::new(&mut input, &rules).expect("in memory");
        let mut seen = Vec::new();
        while let Some(entry) = retained.entry() {
            let mark = match entry.kind {
                EntryKind::MergeOperand => "+",
                EntryKind::Tombstone => "-",
                _ => "",
            };
            seen.push(format!("{}{mark}{}", entry.seqno.0, entry.value.escape_ascii()));
            retained.advance().expect("in memory");
        }
        assert_eq!(seen.pop().as_deref(), Some("1"), "what follows the key stays");
        assert_eq!(retained.dropped(), (count - seen.len()) as u64);
        seen.join(" ")
    }

    #[test]
    fn a_stack_is_folded_over_what_is_known_to_lie_under_it() {
        let bottom = || vec![KeyRange::all()];
        let stack = [(9, "+c"), (8, "+b"), (7, "a"), (6, "old")];
        assert_eq!(folded(&stack, rules(&[], vec![], &[])), "9abc");
        assert_eq!(folded(&stack[..2], rules(&[], vec![], &[])), "9+bc", "a value may lie below");
        assert_eq!(folded(&stack[..2], rules(&[], bottom(), &[])), "9bc");
        let deleted = [(9, "+c"), (8, "+b"), (7, "-"), (6, "old")];
        assert_eq!(folded(&deleted, rules(&[], vec![], &[])), "9bc");
        assert_eq!(folded(&deleted, rules(&[], bottom(), &[])), "9bc");
        let cleared = rules(&[], vec![], &[("a", "y", 8)]);
        assert_eq!(folded(&[(9, "+c"), (7, "+b"), (6, "a")], cleared), "9c");
        let twice = [(9, "+c"), (9, "+c"), (8, "+b"), (8, "+b"), (7, "a"), (7, "a")];
        assert_eq!(folded(&twice, rules(&[], vec![], &[])), "9abc");
    }

    #[test]
    fn a_stack_is_never_folded_across_a_read_point() {
        let bottom = || vec![KeyRange::all()];
        let stack = [(9, "+e"), (8, "+d"), (6, "+c"), (5, "+b"), (2, "a")];
        assert_eq!(folded(&stack, rules(&[6], vec![], &[])), "9+de 6abc");
        assert_eq!(folded(&stack, rules(&[8, 5], vec![], &[])), "9+e 8+cd 5ab");
        assert_eq!(folded(&stack[..4], rules(&[6], bottom(), &[])), "9+de 6bc");
        // The range tombstone is another stripe's: a reader at 7 sees what it covers.
        let covered = rules(&[4, 7], vec![], &[("a", "y", 3)]);
        assert_eq!(folded(&[(9, "+c"), (6, "+b"), (2, "a")], covered), "9+c 6+b");
        let covered = rules(&[2, 7], vec![], &[("a", "y", 3)]);
        assert_eq!(folded(&[(9, "+c"), (6, "+b"), (2, "a")], covered), "9+c 6b 2a");
    }

    #[test]
    fn operands_over_a_value_that_expires_later_stay_operands() {
        let stack = [(9, "+c"), (8, "+b"), (7, "a@101")];
        assert_eq!(folded(&stack, rules(&[], vec![KeyRange::all()], &[])), "9+bc 7a");
        let stack = [(9, "+c"), (8, "+b"), (7, "a@100")];
        assert_eq!(folded(&stack, rules(&[], vec![], &[])), "9bc");
        assert_eq!(folded(&stack, rules(&[7], vec![], &[])), "9+bc 7a");
    }

    #[test]
    fn operands_that_cannot_be_folded_stay_as_they_are() {
        let operand = |seqno, value: &str| Entry {
            value: value.into(),
            ..entry("k", seqno, EntryKind::MergeOperand, None)
        };
        let number = Entry { value: b"7".to_vec(), ..value("k", 1) };
        let entries = vec![operand(4, "1"), operand(3, "x"), operand(2, "1"), number];
        let rules = rules(&[], vec![KeyRange::all()], &[]);
        let rules = rules.with_operator(Some(Arc::new(crate::merge::AddI64)));
        assert_eq!(survivors(entries, &rules), ["k4", "k3", "k2", "k1"]);
    }

    #[test]
    fn a_stack_that_takes_too_much_memory_is_folded_in_parts() {
        let large =
            |seqno, kind| Entry { value: vec![b'x'; 3 << 20], ..entry("k", seqno, kind, None) };
        let mut entries: Vec<Entry> =
            (2..=4).rev().map(|seqno| large(seqno, EntryKind::MergeOperand)).collect();
        entries.push(large(1, EntryKind::Value));
        let rules = rules(&[], vec![], &[]).with_operator(Some(Arc::new(crate::merge::Append)));
        assert_eq!(survivors(entries, &rules), ["k4", "k2"], "two parts, the lower one a value");
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
        let several = [("a", "f", 9), ("d", "m", 7), ("d", "k", 3), ("x", "z", 8)];
        assert_eq!(shown(&rules(&[], vec![], &several)), ["a-f#9", "f-m#7", "x-z#8"]);
        let split = ["a-f#9", "d-k#3", "f-m#7", "x-z#8"];
        assert_eq!(shown(&rules(&[5], vec![], &several)), split);
        let half = vec![KeyRange::new("a", Some(b"f".to_vec()))];
        assert_eq!(shown(&rules(&[], half, &list)), ["a-m#9"]);
    }

    /// As a queue deletes its front again and again: each tombstone covers all before it.
    #[test]
    fn of_many_nested_range_tombstones_few_survive() {
        let keys: Vec<String> = (0..=10_000).map(|key| format!("{key:05}")).collect();
        let nested = (1..=10_000).map(|count| RangeTombstone {
            start: keys[0].as_bytes(),
            end: keys[count].as_bytes(),
            seqno: SeqNo(count as u64),
        });
        let tombstones = Fragments::new(nested);
        let survivors = |snapshots: &[u64]| {
            let snapshots = snapshots.iter().copied().map(SeqNo).collect();
            let rules = Retention::new(snapshots, vec![], WallTime(0), tombstones.clone());
            rules.surviving_tombstones().len()
        };
        assert_eq!(survivors(&[]), 1);
        assert_eq!(survivors(&[10, 5000]), 3);
    }
}
