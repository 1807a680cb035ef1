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

/// The keys of several sources as one: at each key the newest entry of any source.
///
/// Sources may overlap in any way. A step costs one comparison a source, and moves only the
/// sources that stand on the current key.
pub struct MergingCursor {
    sources: Vec<Box<dyn Cursor + Send>>,
    direction: Direction,
    /// The source with the newest entry of the current key.
    current: Option<usize>,
    /// The current key, while sources are moved off it.
    key: Vec<u8>,
}

impl MergingCursor {
    /// Merges `sources`, all made for one read point.
    #[must_use]
    pub fn new(sources: Vec<Box<dyn Cursor + Send>>) -> MergingCursor {
        MergingCursor { sources, direction: Direction::Forward, current: None, key: Vec::new() }
    }

    /// Finds the source to show: the least key going forward, the greatest going backward, and
    /// among equal keys the newest entry.
    fn choose(&mut self) {
        let mut best: Option<(usize, EntryRef<'_>)> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(entry) = source.entry() else { continue };
            let better = best.as_ref().is_none_or(|(_, chosen)| {
                let order = match self.direction {
                    Direction::Forward => entry.key.cmp(chosen.key),
                    Direction::Backward => chosen.key.cmp(entry.key),
                };
                let newer = entry.seqno > chosen.seqno;
                let wins = newer != is_planted(PlantedBug::WrongMergeOrder);
                order == Ordering::Less || order == Ordering::Equal && wins
            });
            if better {
                best = Some((index, entry));
            }
        }
        self.current = best.map(|(index, _)| index);
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
        if !self.keep_key() {
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
        if !self.keep_key() {
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
