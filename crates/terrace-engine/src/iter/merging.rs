use std::cmp::Ordering;

use terrace_base::{EntryRef, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::Cursor;
use super::head::Head;
use crate::Result;

/// Which way the sources stand around the current key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// Every source stands on its first key at or above the current one.
    Forward,
    /// Every source stands on its last key at or below the current one.
    Backward,
}

impl Direction {
    /// How a key compares to those that come behind it.
    #[inline]
    fn ahead(self) -> Ordering {
        match self {
            Direction::Forward => Ordering::Less,
            Direction::Backward => Ordering::Greater,
        }
    }
}

/// The keys of several sources as one: at each key the newest entry of any source.
///
/// Sources may overlap in any way. Those that stand on something are kept in the order in which
/// their keys come, and of those that share a key the newest entry first:
///
/// ```text
///   order    [ 2      0      3      1 ]
///   key        c      c      f      k
///              ▲      ▲
///        current      shares the key, so that a step moves it too
/// ```
///
/// A step moves the sources that stand on the current key, and puts each back into the order: one
/// comparison for a source that stays ahead. A comparison looks at the first bytes of the keys, kept
/// beside the sources, and asks these only if keys are long and alike.
pub struct MergingCursor {
    sources: Vec<Source>,
    direction: Direction,
    /// The sources that stand on a key, as drawn above.
    order: Vec<usize>,
    /// How many of them share the current key.
    sharing: usize,
}

struct Source {
    cursor: Box<dyn Cursor + Send>,
    /// Of the entry that the cursor stands on, if it stands on one.
    head: Head,
}

impl Source {
    /// The key that the cursor stands on.
    fn key(&self) -> Option<&[u8]> {
        self.cursor.entry().map(|entry| entry.key)
    }

    /// Looks at what the cursor has come to.
    #[inline]
    fn look(&mut self) {
        if let Some(entry) = self.cursor.entry() {
            self.head = Head::of(&entry);
        }
    }
}

impl MergingCursor {
    /// Merges `sources`, all made for one read point.
    #[must_use]
    pub fn new(sources: Vec<Box<dyn Cursor + Send>>) -> MergingCursor {
        let source = |cursor| Source { cursor, head: Head::default() };
        let sources: Vec<_> = sources.into_iter().map(source).collect();
        let (direction, order) = (Direction::Forward, Vec::with_capacity(sources.len()));
        MergingCursor { sources, direction, order, sharing: 0 }
    }

    /// Index of the source that has the newest entry of the current key.
    #[must_use]
    pub fn source(&self) -> Option<usize> {
        self.order.first().copied()
    }

    /// How the keys compare on which two sources stand.
    #[inline]
    fn compare_keys(&self, one: usize, other: usize) -> Ordering {
        let (one, other) = (&self.sources[one], &self.sources[other]);
        one.head.compare(&other.head).unwrap_or_else(|| one.key().cmp(&other.key()))
    }

    /// Whether `one` comes after `other` in the order.
    #[inline]
    fn comes_after(&self, one: usize, other: usize) -> bool {
        let order = self.compare_keys(one, other);
        if order.is_ne() {
            return order != self.direction.ahead();
        }
        let is_older = self.sources[one].head.seqno < self.sources[other].head.seqno;
        is_older != is_planted(PlantedBug::WrongMergeOrder)
    }

    /// Moves the source at `place` of the order back to where it belongs, if the ones behind it are
    /// in order.
    #[inline]
    fn sink(&mut self, mut place: usize) {
        let own = self.order[place];
        while let Some(next) = self.order.get(place + 1).copied()
            && self.comes_after(own, next)
        {
            self.order[place] = next;
            place += 1;
        }
        self.order[place] = own;
    }

    #[inline]
    fn count_sharing(&mut self) {
        self.sharing = match self.order.split_first() {
            None => 0,
            Some((current, others)) => {
                let shares = |other: &&usize| self.compare_keys(*current, **other).is_eq();
                1 + others.iter().take_while(shares).count()
            }
        };
    }

    /// Moves the sources that share the current key off it, in the direction in which all stand.
    #[inline]
    fn step(&mut self) -> Result<bool> {
        // The last one first: what stands behind it is in order then.
        for place in (0..self.sharing).rev() {
            let index = self.order[place];
            if !self.move_on(index)? {
                self.order.remove(place);
                continue;
            }
            if self.order.len() == 1 {
                // Nobody asks for the head of the only one before all are placed anew.
                self.sharing = 1;
                return Ok(true);
            }
            self.sources[index].look();
            self.sink(place);
        }
        self.count_sharing();
        Ok(self.sharing > 0)
    }

    /// Moves one source by a step, in the direction in which all stand.
    #[inline]
    fn move_on(&mut self, index: usize) -> Result<bool> {
        let cursor = &mut self.sources[index].cursor;
        let stands = match self.direction {
            Direction::Forward => cursor.next(),
            Direction::Backward => cursor.prev(),
        };
        if stands.is_err() {
            self.order.clear();
            self.sharing = 0;
        }
        stands
    }

    /// Places every source by `place`, and puts them in order.
    fn place_all(
        &mut self,
        direction: Direction,
        mut place: impl FnMut(&mut (dyn Cursor + Send)) -> Result<bool>,
    ) -> Result<bool> {
        self.direction = direction;
        self.order.clear();
        self.sharing = 0;
        for index in 0..self.sources.len() {
            let source = &mut self.sources[index];
            match place(source.cursor.as_mut()) {
                Ok(true) => {
                    source.look();
                    self.order.insert(0, index);
                    self.sink(0);
                }
                Ok(false) => {}
                Err(error) => {
                    self.order.clear();
                    return Err(error);
                }
            }
        }
        self.count_sharing();
        Ok(self.sharing > 0)
    }

    fn current_key(&self) -> Option<Vec<u8>> {
        self.entry().map(|entry| entry.key.to_vec())
    }
}

impl Cursor for MergingCursor {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.place_all(Direction::Forward, |source| source.seek(key))
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        self.place_all(Direction::Backward, |source| source.seek_back(bound))
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        if self.direction == Direction::Backward {
            let Some(key) = self.current_key() else { return Ok(false) };
            self.seek(&key)?;
        }
        self.step()
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        if self.direction == Direction::Forward {
            let Some(key) = self.current_key() else { return Ok(false) };
            return self.seek_back(Some(&key));
        }
        self.step()
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.order.first().and_then(|index| self.sources[*index].cursor.entry())
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        let mut newest: Option<(usize, SeqNo)> = None;
        for index in &self.order[..self.sharing] {
            let older = self.sources[*index].cursor.older(seqno)?;
            let Some(older) = older.map(|entry| entry.seqno) else { continue };
            if newest.is_none_or(|(_, chosen)| older > chosen) {
                newest = Some((*index, older));
            }
        }
        match newest {
            Some((index, _)) => self.sources[index].cursor.older(seqno),
            None => Ok(None),
        }
    }
}

impl std::fmt::Debug for MergingCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MergingCursor of {} sources", self.sources.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::EntryKind;

    /// Keys of one letter with numbers, in order; a cursor for tests.
    struct Letters {
        entries: Vec<(u8, u64)>,
        at: Option<usize>,
    }

    impl Cursor for Letters {
        fn seek(&mut self, key: &[u8]) -> Result<bool> {
            let at = self.entries.partition_point(|(letter, _)| [*letter].as_slice() < key);
            self.at = (at < self.entries.len()).then_some(at);
            Ok(self.at.is_some())
        }

        fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
            let below = |letter: u8| bound.is_none_or(|bound| [letter].as_slice() < bound);
            self.at = self.entries.partition_point(|(letter, _)| below(*letter)).checked_sub(1);
            Ok(self.at.is_some())
        }

        fn next(&mut self) -> Result<bool> {
            self.at = self.at.map(|at| at + 1).filter(|at| *at < self.entries.len());
            Ok(self.at.is_some())
        }

        fn prev(&mut self) -> Result<bool> {
            self.at = self.at.and_then(|at| at.checked_sub(1));
            Ok(self.at.is_some())
        }

        fn entry(&self) -> Option<EntryRef<'_>> {
            let (letter, seqno) = &self.entries[self.at?];
            let key = std::slice::from_ref(letter);
            let (seqno, kind) = (SeqNo(*seqno), EntryKind::Value);
            Some(EntryRef { key, seqno, kind, expiry: None, value: b"" })
        }

        fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
            Ok(self.entry().filter(|entry| entry.seqno < seqno))
        }
    }

    fn merged(sources: &[&[(u8, u64)]]) -> MergingCursor {
        let letters = |entries: &&[(u8, u64)]| {
            Box::new(Letters { entries: entries.to_vec(), at: None }) as Box<dyn Cursor + Send>
        };
        MergingCursor::new(sources.iter().map(letters).collect())
    }

    fn shown(cursor: &MergingCursor) -> String {
        let entry = cursor.entry();
        entry.map_or("-".into(), |e| format!("{}{}", char::from(e.key[0]), e.seqno))
    }

    #[test]
    fn the_newest_entry_of_each_key_surfaces_in_both_directions() -> Result<()> {
        let mut cursor = merged(&[&[(b'a', 9), (b'c', 1)], &[(b'b', 5), (b'c', 7)], &[]]);
        let mut seen = Vec::new();
        cursor.seek(b"")?;
        while cursor.entry().is_some() {
            seen.push(shown(&cursor));
            cursor.next()?;
        }
        assert_eq!(seen, ["a9", "b5", "c7"]);
        seen.clear();
        cursor.seek_back(None)?;
        while cursor.entry().is_some() {
            seen.push(shown(&cursor));
            cursor.prev()?;
        }
        assert_eq!(seen, ["c7", "b5", "a9"]);
        Ok(())
    }

    #[test]
    fn turning_round_loses_and_repeats_nothing() -> Result<()> {
        let mut cursor = merged(&[&[(b'a', 1), (b'd', 1)], &[(b'b', 2), (b'd', 2)], &[(b'c', 3)]]);
        cursor.seek(b"b")?;
        assert_eq!(shown(&cursor), "b2");
        cursor.next()?;
        assert_eq!(shown(&cursor), "c3");
        cursor.prev()?;
        assert_eq!(shown(&cursor), "b2");
        cursor.prev()?;
        assert_eq!(shown(&cursor), "a1");
        cursor.next()?;
        assert_eq!(shown(&cursor), "b2");
        cursor.seek_back(Some(b"z"))?;
        assert_eq!(shown(&cursor), "d2");
        assert_eq!(cursor.older(SeqNo(2))?.map(|entry| entry.seqno), Some(SeqNo(1)));
        cursor.next()?;
        assert_eq!(shown(&cursor), "-");
        Ok(())
    }
}
