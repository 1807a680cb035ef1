//! Reads of keys whose newest entry is a merge operand: everything down to the base is gathered
//! and folded. See [`merge`](crate::merge) for what that means.

use std::sync::Arc;

use smallvec::SmallVec;
use terrace_base::{EntryKind, EntryRef, Expiry, SeqNo, WallTime};
use terrace_env::{PlantedBug, is_planted};

use crate::l0::Lookup;
use crate::memtable::Memtable;
use crate::merge::{self, MergeError};
use crate::store::Inner;
use crate::store::read::get::{newest_in_tables, unsupported};
use crate::store::view::View;
use crate::{Error, Result};

/// A value that no entry holds: what operands make of their base.
#[derive(Clone, Debug)]
pub(in crate::store) struct Merged {
    value: Vec<u8>,
    expiry: Option<Expiry>,
    /// The number of the newest operand.
    pub seqno: SeqNo,
}

impl Merged {
    /// The entry that would hold the value.
    #[inline]
    pub fn entry<'a>(&'a self, key: &'a [u8]) -> EntryRef<'a> {
        let (seqno, expiry) = (self.seqno, self.expiry);
        EntryRef { key, seqno, kind: EntryKind::Value, expiry, value: &self.value }
    }
}

/// What a key holds, from the newest entry down to its base.
#[derive(Default)]
pub(super) struct Gathered {
    newest: Option<SeqNo>,
    /// Newest first.
    operands: Vec<Vec<u8>>,
    base: Option<(Vec<u8>, Option<Expiry>)>,
}

impl Gathered {
    /// Adds the next older entry of the key; `true` if that was the last one that counts.
    pub fn take(&mut self, entry: &EntryRef<'_>) -> Result<bool> {
        self.newest = self.newest.or(Some(entry.seqno));
        match entry.kind {
            EntryKind::MergeOperand => {
                self.operands.push(entry.value.to_vec());
                return Ok(false);
            }
            EntryKind::Value => self.base = Some((entry.value.to_vec(), entry.expiry)),
            EntryKind::Tombstone => {}
            EntryKind::RangeTombstone | EntryKind::ValuePointer => {
                return Err(unsupported(entry.kind));
            }
        }
        Ok(true)
    }
}

impl Inner {
    /// What operands and their base come to at `now`; `None` if there are no operands and no value.
    ///
    /// Errors: `Merge`.
    pub(super) fn fold_gathered(
        &self,
        key: &[u8],
        gathered: Gathered,
        now: WallTime,
    ) -> Result<Option<Merged>> {
        let Some(seqno) = gathered.newest else { return Ok(None) };
        let base = gathered.base.filter(|(_, at)| at.is_none_or(|at| !at.is_expired(now)));
        if gathered.operands.is_empty() {
            return Ok(base.map(|(value, expiry)| Merged { value, expiry, seqno }));
        }
        let Some(operator) = &self.merge_operator else {
            let reason = "it was opened without a merge operator".to_string();
            let (key, operator) = (key.to_vec(), String::new());
            return Err(Error::Merge(Box::new(MergeError { key, operator, reason })));
        };
        let operands = gathered.operands.iter().map(Vec::as_slice);
        let under = base.as_ref().map(|(value, _)| value.as_slice());
        let value = merge::fold(operator.as_ref(), key, under, operands)?;
        Ok(Some(Merged { value, expiry: base.and_then(|(_, expiry)| expiry), seqno }))
    }

    /// The value that `lookup`, which has met nothing yet, finds in `view` at `now`.
    ///
    /// Cost: that of a get for each entry that lies in a table, a step for each in a memtable; all
    /// of them are copied. Errors: `Merge`, and those of a get.
    #[cold]
    pub(in crate::store) fn get_merged(
        &self,
        view: &View,
        mut lookup: Lookup<'_>,
        now: WallTime,
    ) -> Result<Option<Merged>> {
        let key = lookup.key;
        let mut gathered = Gathered::default();
        gather(view, &mut lookup, &mut gathered)?;
        self.fold_gathered(key, gathered, now)
    }
}

/// Gathers from the newest entry at or below the lookup's read point down to the base.
fn gather(view: &View, lookup: &mut Lookup<'_>, gathered: &mut Gathered) -> Result<()> {
    for set in view.drange_for(lookup.key).sets() {
        for memtable in &set {
            lookup.cover(memtable.newest_covering(lookup.key, lookup.read_point));
        }
        for entry in versions(&set, lookup.key, lookup.read_point) {
            let is_covered = lookup.covering.is_some_and(|covering| entry.seqno <= covering);
            if is_covered && !is_planted(PlantedBug::MergeUnderRangeTombstone) {
                return Ok(());
            }
            if gathered.take(&entry)? || !go_below(lookup, entry.seqno) {
                return Ok(());
            }
        }
    }
    loop {
        let found = newest_in_tables(&view.version, lookup, |_, entry| {
            (entry.seqno, gathered.take(&entry))
        })?;
        let Some((seqno, is_last)) = found else { return Ok(()) };
        if is_last? || !go_below(lookup, seqno) {
            return Ok(());
        }
    }
}

/// The versions of a key in a set of memtables, from the newest at or below the read point on.
fn versions<'a>(
    set: &[&'a Arc<Memtable>],
    key: &'a [u8],
    read_point: SeqNo,
) -> impl Iterator<Item = EntryRef<'a>> {
    let sources = set.iter().map(|memtable| memtable.versions(key, read_point).peekable());
    let mut sources: SmallVec<[_; 1]> = sources.collect();
    std::iter::from_fn(move || {
        let heads = sources.iter_mut().enumerate();
        let numbers = heads.filter_map(|(index, source)| Some((source.peek()?.seqno, index)));
        let (_, newest) = numbers.max()?;
        sources[newest].next()
    })
}

/// Sends a lookup on to what is older than `seqno`; `false` if nothing can be.
///
/// Range tombstones between the two numbers were noted already: they lie in the sources that were
/// asked, since nothing in a deeper source is newer than what was found.
fn go_below(lookup: &mut Lookup<'_>, seqno: SeqNo) -> bool {
    let below = seqno.0.checked_sub(1);
    lookup.read_point = SeqNo(below.unwrap_or_default());
    below.is_some()
}
