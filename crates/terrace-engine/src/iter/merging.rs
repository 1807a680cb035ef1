use std::cmp::Ordering;

use terrace_base::{EntryRef, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::Cursor;
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
    /// `Less` if `one` comes before `other` on the way.
    #[inline]
    fn order(self, one: &[u8], other: &[u8]) -> Ordering {
        match self {
            Direction::Forward => one.cmp(other),
            Direction::Backward => other.cmp(one),
        }
    }
}

/// The keys of several sources as one: at each key the newest entry of any source.
///
/// Sources may overlap in any way. A step moves only the sources that stand on the current key. While
/// one source stays ahead of all others it costs one comparison, with the second; else one a source.
pub struct MergingCursor {
    sources: Vec<Box<dyn Cursor + Send>>,
    direction: Direction,
    /// The source with the newest entry of the current key.
    current: Option<usize>,
    /// The source that comes next if the current one is moved beyond it; none if there is no other.
    /// Means something only while `is_alone`.
    second: Option<usize>,
    /// Whether only the current source stands on the current key.
    is_alone: bool,
    /// The current key, while sources are moved off it.
    key: Vec<u8>,
}

impl MergingCursor {
    /// Merges `sources`, all made for one read point.
    #[must_use]
    pub fn new(sources: Vec<Box<dyn Cursor + Send>>) -> MergingCursor {
        let direction = Direction::Forward;
        let (current, second, key) = (None, None, Vec::new());
        MergingCursor { sources, direction, current, second, is_alone: false, key }
    }

    /// Index of the source that has the newest entry of the current key.
    #[must_use]
    pub fn source(&self) -> Option<usize> {
        self.current
    }

    /// Finds the source to show: the least key going forward, the greatest going backward, and
    /// among equal keys the newest entry.
    fn choose(&mut self) {
        let mut best: Option<(usize, EntryRef<'_>)> = None;
        let mut second: Option<(usize, EntryRef<'_>)> = None;
        let mut is_alone = true;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(entry) = source.entry() else { continue };
            let Some((_, chosen)) = &best else {
                best = Some((index, entry));
                continue;
            };
            match self.direction.order(entry.key, chosen.key) {
                Ordering::Less => {
                    second = best.replace((index, entry));
                    is_alone = true;
                }
                Ordering::Equal => {
                    is_alone = false;
                    let newer = entry.seqno > chosen.seqno;
                    if newer != is_planted(PlantedBug::WrongMergeOrder) {
                        best = Some((index, entry));
                    }
                }
                Ordering::Greater => {
                    let is_nearer = second.as_ref().is_none_or(|(_, other)| {
                        self.direction.order(entry.key, other.key).is_lt()
                    });
                    if is_nearer {
                        second = Some((index, entry));
                    }
                }
            }
        }
        self.current = best.map(|(index, _)| index);
        self.second = second.map(|(index, _)| index);
        self.is_alone = is_alone;
    }

    /// Goes on in the current source as long as it stays ahead of the others; `false` if it is not so
    /// simple. Then nothing has moved.
    #[inline]
    fn step_alone(&mut self, direction: Direction) -> Result<bool> {
        let Some(index) = self.current.filter(|_| self.is_alone && self.direction == direction)
        else {
            return Ok(false);
        };
        // After an error the cursor stands nowhere.
        self.current = None;
        match direction {
            Direction::Forward => self.sources[index].next()?,
            Direction::Backward => self.sources[index].prev()?,
        }
        let second = self.second.map(|second| self.sources[second].entry());
        let stays_ahead = match (self.sources[index].entry(), second) {
            (Some(entry), Some(Some(other))) => direction.order(entry.key, other.key).is_lt(),
            (Some(_), None) => true,
            _ => false,
        };
        if stays_ahead {
            self.current = Some(index);
        } else {
            self.choose();
        }
        Ok(true)
    }

    /// Keeps the current key; `false` if there is none.
    fn keep_key(&mut self) -> bool {
        let Some(entry) = self.current.and_then(|index| self.sources[index].entry()) else {
            return false;
        };
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        true
    }

    fn move_off(&mut self, forward: bool) -> Result<()> {
        for source in &mut self.sources {
            if source.entry().is_some_and(|entry| entry.key == self.key.as_slice()) {
                if forward { source.next()? } else { source.prev()? }
            }
        }
        Ok(())
    }
}

impl Cursor for MergingCursor {
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.current = None;
        for source in &mut self.sources {
            source.seek(key)?;
        }
        self.direction = Direction::Forward;
        self.choose();
        Ok(())
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.current = None;
        for source in &mut self.sources {
            source.seek_back(bound)?;
        }
        self.direction = Direction::Backward;
        self.choose();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if self.step_alone(Direction::Forward)? || !self.keep_key() {
            return Ok(());
        }
        self.current = None;
        if self.direction == Direction::Backward {
            for source in &mut self.sources {
                source.seek(&self.key)?;
            }
            self.direction = Direction::Forward;
        }
        self.move_off(true)?;
        self.choose();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.step_alone(Direction::Backward)? || !self.keep_key() {
            return Ok(());
        }
        self.current = None;
        if self.direction == Direction::Forward {
            for source in &mut self.sources {
                source.seek_back(Some(&self.key))?;
            }
            self.direction = Direction::Backward;
        } else {
            self.move_off(false)?;
        }
        self.choose();
        Ok(())
    }

    fn entry(&self) -> Option<EntryRef<'_>> {
        self.current.and_then(|index| self.sources[index].entry())
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        if !self.keep_key() {
            return Ok(None);
        }
        let mut newest: Option<(usize, SeqNo)> = None;
        for (index, source) in self.sources.iter_mut().enumerate() {
            if source.entry().is_none_or(|entry| entry.key != self.key.as_slice()) {
                continue;
            }
            let Some(older) = source.older(seqno)?.map(|entry| entry.seqno) else { continue };
            if newest.is_none_or(|(_, chosen)| older > chosen) {
                newest = Some((index, older));
            }
        }
        match newest {
            Some((index, _)) => self.sources[index].older(seqno),
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
        fn seek(&mut self, key: &[u8]) -> Result<()> {
            let at = self.entries.partition_point(|(letter, _)| [*letter].as_slice() < key);
            self.at = (at < self.entries.len()).then_some(at);
            Ok(())
        }

        fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
            let below = |letter: u8| bound.is_none_or(|bound| [letter].as_slice() < bound);
            self.at = self.entries.partition_point(|(letter, _)| below(*letter)).checked_sub(1);
            Ok(())
        }

        fn next(&mut self) -> Result<()> {
            self.at = self.at.map(|at| at + 1).filter(|at| *at < self.entries.len());
            Ok(())
        }

        fn prev(&mut self) -> Result<()> {
            self.at = self.at.and_then(|at| at.checked_sub(1));
            Ok(())
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
