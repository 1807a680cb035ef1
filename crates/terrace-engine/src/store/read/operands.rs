//! Reads of keys whose newest entry is a merge operand: everything down to the base is gathered
//! and folded. See [`merge`](crate::merge) for what that means.

use std::sync::Arc;

use smallvec::SmallVec;
use terrace_base::{EntryKind, EntryRef, Expiry, SeqNo, WallTime};
use terrace_env::{PlantedBug, is_planted};

use crate::memtable::Memtable;
use crate::merge::{self, MergeError};
use crate::store::Inner;
use crate::store::read::answer::{Answer, answer, covers, unsupported};
use crate::store::read::get::newest_in_tables;
use crate::store::read::key_search::KeySearch;
use crate::store::read::values::Values;
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
pub(super) struct Gathered {
    /// The moment by which expiry is judged.
    now: WallTime,
    newest: Option<SeqNo>,
    /// Newest first.
    operands: Vec<Vec<u8>>,
    base: Option<(Vec<u8>, Option<Expiry>)>,
}

impl Gathered {
    /// Nothing yet.
    pub fn new(now: WallTime) -> Gathered {
        Gathered { now, newest: None, operands: Vec::new(), base: None }
    }

    /// Adds the next older entry of the key, which a range tombstone may cover; `true` if that was
    /// the last one that counts. Errors: `Unsupported`, and those of a value that is fetched.
    pub fn take(
        &mut self,
        entry: &EntryRef<'_>,
        is_covered: bool,
        values: Values<'_>,
    ) -> Result<bool> {
        match answer(entry, || is_covered, || self.now) {
            Answer::Operands => self.operands.push(entry.value.to_vec()),
            Answer::Value => self.base = Some((entry.value.to_vec(), entry.expiry)),
            Answer::Pointer => {
                let value = values.fetch(entry)?.value.bytes().to_vec();
                self.base = Some((value, entry.expiry));
            }
            Answer::Hidden(_) => return Ok(true),
            Answer::Refused(kind) => return Err(unsupported(kind)),
        }
        self.newest = self.newest.or(Some(entry.seqno));
        Ok(self.base.is_some())
    }
}

impl Inner {
    /// What operands and their base come to; `None` if there are no operands and no value.
    ///
    /// Errors: `Merge`.
    pub(super) fn fold_gathered(&self, key: &[u8], gathered: Gathered) -> Result<Option<Merged>> {
        let Some(seqno) = gathered.newest else { return Ok(None) };
        let base = gathered.base;
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

    /// The value that `search`, which has met nothing yet, finds in `view` at `now`.
    ///
    /// Cost: that of a get for each entry that lies in a table, a step for each in a memtable; all
    /// of them are copied. Errors: `Merge`, and those of a get.
    #[cold]
    pub(in crate::store) fn get_merged(
        &self,
        view: &View,
        mut search: KeySearch<'_>,
        now: WallTime,
    ) -> Result<Option<Merged>> {
        let key = search.key;
        let mut gathered = Gathered::new(now);
        gather(view, &mut search, &mut gathered)?;
        self.fold_gathered(key, gathered)
    }
}

/// Gathers from the newest entry at or below the search's read point down to the base.
fn gather(view: &View, search: &mut KeySearch<'_>, gathered: &mut Gathered) -> Result<()> {
    let values = Values::of(&view.version, search.mode);
    for set in view.drange_for(search.key).sets() {
        for memtable in &set {
            search.cover(memtable.newest_covering(search.key, search.read_point));
        }
        for entry in versions(&set, search.key, search.read_point) {
            let is_covered = covers(search.covering, entry.seqno)
                && !is_planted(PlantedBug::MergeUnderRangeTombstone);
            if gathered.take(&entry, is_covered, values)? || !go_below(search, entry.seqno) {
                return Ok(());
            }
        }
    }
    loop {
        let mut found = None;
        newest_in_tables(&view.version, search, |newest| {
            let is_last = gathered.take(&newest.entry, newest.is_covered(), values)?;
            found = Some((newest.entry.seqno, is_last));
            Ok(())
        })?;
        let Some((seqno, is_last)) = found else { return Ok(()) };
        if is_last || !go_below(search, seqno) {
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

/// Sends a search on to what is older than `seqno`; `false` if nothing can be.
///
/// Range tombstones between the two numbers were noted already: they lie in the sources that were
/// asked, since nothing in a deeper source is newer than what was found.
fn go_below(search: &mut KeySearch<'_>, seqno: SeqNo) -> bool {
    let below = seqno.0.checked_sub(1);
    search.read_point = SeqNo(below.unwrap_or_default());
    below.is_some()
}
