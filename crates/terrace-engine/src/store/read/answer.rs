//! What the newest entry of a key means: the one place where that is decided.
//!
//! Gets, conditional writes and iterators find the newest entry in ways of their own, and then ask
//! here. So does whoever goes on below a merge operand.

use terrace_base::{EntryKind, EntryRef, SeqNo, WallTime};

use crate::Error;
use crate::explain::Hidden;
use crate::store::read::pinned::Origin;

/// What a key holds, as its newest entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Answer {
    /// The value of the entry.
    Value,
    /// The value that the entry points to.
    Pointer,
    /// Nothing, for this reason.
    Hidden(Hidden),
    /// What this and older operands make of their base.
    Operands,
    /// Something that this version cannot answer from: to take it for nothing would be wrong.
    Refused(EntryKind),
}

/// What `newest` means at the moment that `now` tells, which is asked only if that matters. So is
/// `is_covered`: whether a range tombstone that the reader sees hides the entry.
#[inline]
pub(in crate::store) fn answer(
    newest: &EntryRef<'_>,
    is_covered: impl FnOnce() -> bool,
    now: impl FnOnce() -> WallTime,
) -> Answer {
    match newest.kind {
        EntryKind::Tombstone => Answer::Hidden(Hidden::Tombstone),
        _ if is_covered() => Answer::Hidden(Hidden::RangeTombstone),
        EntryKind::Value | EntryKind::ValuePointer => match newest.expiry {
            Some(expiry) if expiry.is_expired(now()) => Answer::Hidden(Hidden::Expired),
            _ if newest.kind == EntryKind::ValuePointer => Answer::Pointer,
            _ => Answer::Value,
        },
        EntryKind::MergeOperand => Answer::Operands,
        EntryKind::RangeTombstone => Answer::Refused(EntryKind::RangeTombstone),
    }
}

/// Whether a range tombstone with the number `covering`, if there is one, hides an entry.
#[inline]
pub(in crate::store) fn covers(covering: Option<SeqNo>, seqno: SeqNo) -> bool {
    covering.is_some_and(|covering| covering >= seqno)
}

/// The newest entry of a key, as a search through a view has found it.
pub(in crate::store) struct Newest<'a> {
    /// Where it lies.
    pub origin: Origin<'a>,
    /// The entry, of whatever kind.
    pub entry: EntryRef<'a>,
    /// The greatest number of a range tombstone over it.
    pub covering: Option<SeqNo>,
}

impl Newest<'_> {
    /// Whether a range tombstone hides it.
    #[inline]
    pub fn is_covered(&self) -> bool {
        covers(self.covering, self.entry.seqno)
    }

    /// What it means.
    #[inline]
    pub fn answer(&self, now: impl FnOnce() -> WallTime) -> Answer {
        answer(&self.entry, || self.is_covered(), now)
    }
}

/// The error for an entry that this version stores but cannot answer from.
pub(in crate::store) fn unsupported(kind: EntryKind) -> Error {
    Error::Unsupported(format!("an entry of kind {kind:?} was written by a later version"))
}

#[cfg(test)]
mod tests {
    use terrace_base::Expiry;

    use super::*;

    const KINDS: [EntryKind; 5] = [
        EntryKind::Value,
        EntryKind::Tombstone,
        EntryKind::RangeTombstone,
        EntryKind::MergeOperand,
        EntryKind::ValuePointer,
    ];

    fn entry(kind: EntryKind, expiry: Option<Expiry>) -> EntryRef<'static> {
        EntryRef { key: b"k", seqno: SeqNo(7), kind, expiry, value: b"v" }
    }

    /// Each kind by itself, and then under a range tombstone that is older, its own, or newer.
    #[test]
    fn each_kind_of_entry_has_one_meaning() {
        let never = || panic!("nobody asks for the time of what does not expire");
        let meanings = [
            Answer::Value,
            Answer::Hidden(Hidden::Tombstone),
            Answer::Refused(EntryKind::RangeTombstone),
            Answer::Operands,
            Answer::Pointer,
        ];
        for (kind, meaning) in KINDS.into_iter().zip(meanings) {
            for covering in [None, Some(SeqNo(6))] {
                let newest = Newest { origin: Origin::Folded, entry: entry(kind, None), covering };
                assert_eq!(newest.answer(never), meaning, "{kind:?} {covering:?}");
            }
            for covering in [SeqNo(7), SeqNo(8)] {
                let hidden = match kind {
                    EntryKind::Tombstone => meaning,
                    _ => Answer::Hidden(Hidden::RangeTombstone),
                };
                let (entry, covering) = (entry(kind, None), Some(covering));
                let newest = Newest { origin: Origin::Folded, entry, covering };
                assert_eq!(newest.answer(never), hidden, "{kind:?} {covering:?}");
            }
        }
    }

    #[test]
    fn a_value_is_hidden_from_the_moment_of_its_expiry_on() {
        let value = entry(EntryKind::Value, Some(Expiry::at(WallTime(100))));
        let at = |now| answer(&value, || false, || WallTime(now));
        assert_eq!(at(99), Answer::Value);
        assert_eq!(at(100), Answer::Hidden(Hidden::Expired));
        let covered = answer(&value, || true, || panic!("the time does not matter any more"));
        assert_eq!(covered, Answer::Hidden(Hidden::RangeTombstone));
    }
}
