//! The large values of a write. The log is their first home: a flush may leave them where their
//! record has them, if it knows where that is.

use smallvec::SmallVec;
use terrace_base::{EntryKind, LogPosition, SeqNo};

use crate::memtable::{LoggedValue, Memtable, Reservation};
use crate::store::write::routing::Placement;
use crate::vlog::format::entry_bytes;
use crate::wal::format::EntryReader;

/// Those of one batch. As a rule there is none, or one; neither needs an allocation.
#[derive(Debug, Default)]
pub(super) struct LargeValues {
    /// What they all would take in a value file, in bytes.
    pub bytes: u64,
    found: SmallVec<[Large; 1]>,
}

#[derive(Debug)]
struct Large {
    /// The place of its drange among those of the batch.
    place: u8,
    /// Its number less the first one.
    seqno: u32,
    /// Where its key begins in the entries of the batch.
    key_at: u32,
}

impl LargeValues {
    /// The values of `large_bytes` and more in a batch. Cost: nothing if none is so long; else a
    /// look at each entry.
    pub fn of(placement: &Placement<'_>, large_bytes: usize) -> LargeValues {
        let mut large = LargeValues::default();
        if placement.longest_value < large_bytes {
            return large;
        }
        let mut reader = EntryReader::new(&placement.body, SeqNo::ZERO);
        let mut index = 0;
        while let Some(entry) = reader.next() {
            let entry = entry.expect("the entries were encoded by a batch");
            if entry.kind == EntryKind::Value && entry.value.len() >= large_bytes {
                let bytes = entry.key.len() + entry.value.len();
                large.bytes += entry_bytes(entry.key.len(), entry.value.len());
                large.found.push(Large {
                    place: placement.places.get(index).copied().unwrap_or_default(),
                    seqno: entry.seqno.0 as u32,
                    key_at: (reader.offset() - bytes) as u32,
                });
            }
            index += 1;
        }
        large
    }

    /// What [`LargeValues::note`] takes of the memtable at a place among the batch's, in bytes.
    pub fn noted_bytes(&self, place: usize) -> usize {
        self.of_place(place).count() * LoggedValue::BYTES
    }

    /// Tells the memtables where the log has the values that they hold. `first`: the batch's first
    /// number; `entries_at`: where its entries begin in the log.
    pub fn note(
        &self,
        targets: &[&Memtable],
        reservations: &mut [Reservation<'_>],
        first: SeqNo,
        entries_at: LogPosition,
    ) {
        for (place, (memtable, reservation)) in targets.iter().zip(reservations).enumerate() {
            let mut logged = self
                .of_place(place)
                .map(|one| LoggedValue {
                    seqno: SeqNo(first.0 + u64::from(one.seqno)),
                    at: LogPosition(entries_at.0 + u64::from(one.key_at)),
                })
                .peekable();
            if logged.peek().is_some() {
                memtable.note_logged(reservation, logged);
            }
        }
    }

    fn of_place(&self, place: usize) -> impl Iterator<Item = &Large> {
        self.found.iter().filter(move |one| usize::from(one.place) == place)
    }
}
