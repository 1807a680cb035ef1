use terrace_base::{LogPosition, SeqNo};
use terrace_env::Latch;

use super::Memtable;

/// Where the log has a large value that is in a memtable too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggedValue {
    /// The number of its entry.
    pub seqno: SeqNo,
    /// Where its key begins, behind which the value stands.
    pub at: LogPosition,
}

impl LoggedValue {
    /// What noting one takes of a memtable's arena, in bytes.
    pub const BYTES: usize = size_of::<LoggedValue>();
}

/// Where the log has the large values of a memtable, in no order: a flush may leave them there.
///
/// It lies beside the arena, and is charged to it all the same. It grows by pieces of one size, so
/// that no writer waits while a long list moves.
#[derive(Debug, Default)]
pub(super) struct LoggedValues(Latch<Vec<Vec<LoggedValue>>>);

/// Places in a piece of the list: 4 KiB.
const PIECE_LEN: usize = 256;

impl LoggedValues {
    pub(super) fn add(&self, values: impl IntoIterator<Item = LoggedValue>) {
        let mut pieces = self.0.lock();
        for value in values {
            match pieces.last_mut().filter(|piece| piece.len() < PIECE_LEN) {
                Some(piece) => piece.push(value),
                None => {
                    let mut piece = Vec::with_capacity(PIECE_LEN);
                    piece.push(value);
                    pieces.push(piece);
                }
            }
        }
    }

    pub(super) fn list(&self) -> Vec<LoggedValue> {
        self.0.lock().concat()
    }
}

/// Where the log has the large values of some memtables, by the numbers of their entries.
///
/// A flush asks for each of its values, in the order of the keys, so the places are laid out by
/// number where most numbers have one: a look is one access then, and a binary search else.
#[derive(Clone, Debug)]
pub struct LoggedByNumber(Places);

#[derive(Clone, Debug)]
enum Places {
    /// From this number on, the place of each number; `NOWHERE` where there is none.
    Dense(SeqNo, Vec<u64>),
    /// Ascending by number.
    Sparse(Vec<LoggedValue>),
}

/// No place in the log.
const NOWHERE: u64 = u64::MAX;

/// Places are laid out by number if there is at least one in so many numbers: then that takes no
/// more than twice the memory.
const NUMBERS_PER_PLACE_MAX: u64 = 4;

impl LoggedByNumber {
    /// Those of these memtables.
    #[must_use]
    pub fn of<'a>(memtables: impl IntoIterator<Item = &'a Memtable>) -> LoggedByNumber {
        memtables.into_iter().flat_map(Memtable::logged).collect()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Places::Sparse(values) if values.is_empty())
    }

    /// Where the log has the value of the entry with this number. Cost: see [`LoggedByNumber`].
    #[must_use]
    #[inline]
    pub fn get(&self, seqno: SeqNo) -> Option<LogPosition> {
        match &self.0 {
            Places::Dense(first, places) => {
                let index = seqno.0.checked_sub(first.0)?;
                let at = *places.get(usize::try_from(index).ok()?)?;
                (at != NOWHERE).then_some(LogPosition(at))
            }
            Places::Sparse(values) => {
                let index = values.binary_search_by_key(&seqno, |one| one.seqno).ok()?;
                Some(values[index].at)
            }
        }
    }
}

impl Default for LoggedByNumber {
    fn default() -> LoggedByNumber {
        LoggedByNumber(Places::Sparse(Vec::new()))
    }
}

impl FromIterator<LoggedValue> for LoggedByNumber {
    fn from_iter<I: IntoIterator<Item = LoggedValue>>(values: I) -> LoggedByNumber {
        let mut values: Vec<_> = values.into_iter().collect();
        let numbers = || values.iter().map(|one| one.seqno);
        let (Some(first), Some(last)) = (numbers().min(), numbers().max()) else {
            return LoggedByNumber::default();
        };
        let count = last.0 - first.0 + 1;
        if count / NUMBERS_PER_PLACE_MAX <= values.len() as u64 {
            let mut places = vec![NOWHERE; count as usize];
            for one in values {
                places[(one.seqno.0 - first.0) as usize] = one.at.0;
            }
            return LoggedByNumber(Places::Dense(first, places));
        }
        values.sort_unstable();
        LoggedByNumber(Places::Sparse(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(numbers: &[u64]) -> LoggedByNumber {
        let value = |seqno: &u64| LoggedValue { seqno: SeqNo(*seqno), at: LogPosition(seqno * 10) };
        numbers.iter().map(value).collect()
    }

    #[test]
    fn places_are_found_by_number_however_they_are_laid_out() {
        let (dense, sparse) = ([9, 3, 5, 12, 4], [9, 300, 5, 12_000, 4]);
        assert!(matches!(logged(&dense).0, Places::Dense(SeqNo(3), _)));
        assert!(matches!(logged(&sparse).0, Places::Sparse(_)));
        for numbers in [dense.as_slice(), &sparse, &[7], &[]] {
            let places = logged(numbers);
            assert_eq!(places.is_empty(), numbers.is_empty());
            for seqno in (0..400).chain([11_999, 12_000, 12_001, u64::MAX]) {
                let wanted =
                    numbers.contains(&seqno).then_some(LogPosition(seqno.wrapping_mul(10)));
                assert_eq!(places.get(SeqNo(seqno)), wanted, "{seqno} of {numbers:?}");
            }
        }
    }

    #[test]
    fn a_list_is_given_back_whole_over_several_pieces() {
        let list = LoggedValues::default();
        let all: Vec<_> = (0..2 * PIECE_LEN as u64 + 3)
            .map(|seqno| LoggedValue { seqno: SeqNo(seqno), at: LogPosition(seqno) })
            .collect();
        for some in all.chunks(7) {
            list.add(some.iter().copied());
        }
        assert_eq!(list.list(), all);
    }
}
