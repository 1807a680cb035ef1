//! Which dranges the entries of a batch go to.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::{SmallVec, smallvec};
use terrace_base::{EntryKind, EntryRef, KeyRange, SeqNo};

use crate::batch::WriteBatch;
use crate::drange::{DrangeMap, DuplicateChoice};
use crate::memtable::Memtable;
use crate::wal::format::{EntryReader, put_entry};
use crate::{Error, Result};

/// The most bytes that a batch takes in memtables. A batch that deletes no intervals takes less
/// than half of it by the bounds of [`WriteBatch`]; one deletion of the longest keys, divided over
/// the greatest number of dranges, takes 32 MiB. A log record is shorter than what it takes here,
/// so its length fits 32 bits.
const PLACED_BYTES_MAX: usize = 1 << 30;

/// One of something for each drange that a batch touches: as a rule one, which needs no allocation.
pub type PerDrange<T> = SmallVec<[T; 1]>;

/// What `make` gives for each of `items`; nearly always there is one, which costs no loop.
#[inline]
pub fn for_each<'a, T, U>(items: &'a [T], mut make: impl FnMut(&'a T) -> U) -> PerDrange<U> {
    match items {
        [only] => SmallVec::from_buf([make(only)]),
        several => several.iter().map(make).collect(),
    }
}

/// A batch divided over dranges: what its log record and its memtables are made from.
///
/// A range tombstone that spans several dranges becomes one entry in each, clipped to it, all with
/// one sequence number.
#[derive(Debug)]
pub struct Placement<'a> {
    /// Indexes of the touched dranges, ascending.
    pub dranges: PerDrange<usize>,
    /// The entries in the coding of the log.
    pub body: Cow<'a, [u8]>,
    /// For each entry the place of its drange in `dranges`; empty if there is only one.
    pub places: Vec<u8>,
    /// How many sequence numbers the entries take.
    pub seqno_count: u32,
    /// How many entries there are.
    pub entry_count: u32,
    /// Bytes of the longest value of the batch.
    pub longest_value: usize,
    /// For each touched drange the bytes that its memtable needs.
    pub memtable_bytes: PerDrange<usize>,
}

impl<'a> Placement<'a> {
    /// Whether [`Placement::of`] may place `batch`.
    ///
    /// Errors: `Invalid` if its deletions of key ranges grow too large over the dranges.
    #[inline]
    pub fn check(batch: &WriteBatch, map: &DrangeMap) -> Result<()> {
        if batch.has_range_tombstones() { check_placed_bytes(batch, map) } else { Ok(()) }
    }

    /// Places `batch`, which was checked: what goes to one interval goes to one of its dranges, by
    /// the write's `turn`. A range with one drange, and a batch that fits one, cost nothing.
    pub fn of(batch: &'a WriteBatch, map: &DrangeMap, turn: &mut DuplicateChoice) -> Placement<'a> {
        let touched = touched_by(batch, map);
        if touched.len() == 1 {
            return Placement {
                dranges: smallvec![map.choose(touched.start, turn)],
                body: Cow::Borrowed(batch.body()),
                places: Vec::new(),
                seqno_count: batch.len() as u32,
                entry_count: batch.len() as u32,
                longest_value: batch.longest_value(),
                memtable_bytes: smallvec![batch.memtable_bytes()],
            };
        }
        divide(batch, map, touched, turn)
    }

    /// The entries that go to the drange at `place`, numbered from `first`.
    pub fn entries_at(&self, place: usize, first: SeqNo) -> impl Iterator<Item = EntryRef<'_>> {
        let entries = EntryReader::new(&self.body, first).enumerate();
        entries.filter_map(move |(index, entry)| {
            let goes_there = self.places.get(index).is_none_or(|at| usize::from(*at) == place);
            goes_there.then(|| entry.expect("the entries were encoded by a batch"))
        })
    }
}

/// The intervals from the first to the last that the batch touches.
fn touched_by(batch: &WriteBatch, map: &DrangeMap) -> Range<usize> {
    if map.division().interval_count() == 1 {
        return 0..1;
    }
    let mut touched: Option<Range<usize>> = None;
    for entry in batch.entries(SeqNo::ZERO) {
        let at = intervals_of(&entry, map);
        touched = Some(match touched {
            Some(range) => range.start.min(at.start)..range.end.max(at.end),
            None => at,
        });
    }
    touched.unwrap_or(0..1)
}

fn intervals_of(entry: &EntryRef<'_>, map: &DrangeMap) -> Range<usize> {
    if entry.kind == EntryKind::RangeTombstone {
        return map.intervals_of(&KeyRange::new(entry.key, Some(entry.value.to_vec())));
    }
    let interval = map.interval_of(entry.key);
    interval..interval + 1
}

/// Whether the batch stays within [`PLACED_BYTES_MAX`] when its range tombstones are clipped to
/// each drange that they touch, found out before memory is taken for it.
fn check_placed_bytes(batch: &WriteBatch, map: &DrangeMap) -> Result<()> {
    let mut placed_bytes = 0;
    for entry in batch.entries(SeqNo::ZERO) {
        for interval in intervals_of(&entry, map) {
            let (key, value) = clipped(&entry, map, interval);
            placed_bytes += Memtable::space_for(key.len(), value.len());
        }
        if placed_bytes > PLACED_BYTES_MAX {
            return Err(Error::invalid(format!(
                "the batch's deletions of key ranges touch up to {} parts of the database and would \
                 take more than {} MiB in them; delete fewer ranges in one batch",
                map.division().interval_count(),
                PLACED_BYTES_MAX >> 20
            )));
        }
    }
    Ok(())
}

/// Key and value of an entry as they go to an interval: a range tombstone's are clipped to it.
fn clipped<'a>(entry: &EntryRef<'a>, map: &'a DrangeMap, interval: usize) -> (&'a [u8], &'a [u8]) {
    if entry.kind != EntryKind::RangeTombstone {
        return (entry.key, entry.value);
    }
    let keys = map.keys_of(interval);
    (entry.key.max(keys.start()), keys.end().map_or(entry.value, |end| entry.value.min(end)))
}

fn divide(
    batch: &WriteBatch,
    map: &DrangeMap,
    touched: Range<usize>,
    turn: &mut DuplicateChoice,
) -> Placement<'static> {
    let first = touched.start;
    let chosen: Vec<usize> = touched.map(|interval| map.choose(interval, turn)).collect();
    let mut body = Vec::with_capacity(batch.body().len() + 64);
    let mut at: Vec<usize> = Vec::with_capacity(batch.len());
    let mut needs = vec![0; map.list().len()];
    for entry in batch.entries(SeqNo::ZERO) {
        for (copy, interval) in intervals_of(&entry, map).enumerate() {
            let (key, value) = clipped(&entry, map, interval);
            put_entry(&mut body, entry.kind, copy > 0, entry.expiry, key, value);
            let index = chosen[interval - first];
            at.push(index);
            needs[index] += Memtable::space_for(key.len(), value.len());
        }
    }
    let dranges: PerDrange<usize> = (0..needs.len()).filter(|index| needs[*index] > 0).collect();
    let place = |index: &usize| {
        let place = dranges.binary_search(index).expect("every drange of an entry is touched");
        u8::try_from(place).expect("there are at most 255 dranges")
    };
    Placement {
        places: if dranges.len() > 1 { at.iter().map(place).collect() } else { Vec::new() },
        memtable_bytes: dranges.iter().map(|index| needs[*index]).collect(),
        seqno_count: batch.len() as u32,
        entry_count: at.len() as u32,
        longest_value: batch.longest_value(),
        dranges,
        body: Cow::Owned(body),
    }
}
