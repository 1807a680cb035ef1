use std::fmt;
use std::sync::Arc;

use terrace_base::{EntryRef, KeyRange, SeqNo};

use super::{Approach, Cursor, Direction, lesser_bound};
use crate::Result;

/// A cursor that shows only the keys within some intervals, and goes past what lies between them
/// without a look at it.
pub struct PartsCursor<C> {
    inner: C,
    /// Ascending, disjoint, not empty.
    parts: Arc<[KeyRange]>,
    /// The interval whose key the inner cursor stands on.
    part: Option<usize>,
    /// What the inner cursor has yet to arrive at: a key of this interval or of one behind it.
    approached: Option<(usize, Direction)>,
}

impl<C: Cursor> PartsCursor<C> {
    /// Shows what `inner` shows within `parts`, which ascend, are disjoint and not empty.
    #[must_use]
    pub fn new(inner: C, parts: Arc<[KeyRange]>) -> PartsCursor<C> {
        PartsCursor { inner, parts, part: None, approached: None }
    }

    /// Takes the cursor off its place.
    fn lift(&mut self) {
        self.part = None;
        self.approached = None;
    }

    /// Goes on to the first key of an interval, if the inner cursor does not stand on one.
    /// `index` is of one that it has not passed.
    fn settle_forward(&mut self, mut index: usize) -> Result<bool> {
        while let Some(entry) = self.inner.entry() {
            let behind = |part: &&KeyRange| part.is_before(entry.key);
            index += self.parts[index..].iter().take_while(behind).count();
            let Some(part) = self.parts.get(index) else { break };
            if part.start() <= entry.key {
                self.part = Some(index);
                return Ok(true);
            }
            self.inner.seek(part.start())?;
        }
        Ok(false)
    }

    /// Goes back to the last key of an interval, if the inner cursor does not stand on one. The
    /// interval at `count` and later ones it has passed.
    fn settle_back(&mut self, mut count: usize) -> Result<bool> {
        while let Some(entry) = self.inner.entry() {
            let behind = |part: &&KeyRange| part.start() > entry.key;
            count -= self.parts[..count].iter().rev().take_while(behind).count();
            let Some(index) = count.checked_sub(1) else { break };
            if self.parts[index].contains(entry.key) {
                self.part = Some(index);
                return Ok(true);
            }
            self.inner.seek_back(self.parts[index].end())?;
        }
        Ok(false)
    }
}

impl<C: Cursor> Cursor for PartsCursor<C> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.approach(key)?;
        self.arrive()
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        self.approach_back(bound)?;
        self.arrive()
    }

    fn approach(&mut self, key: &[u8]) -> Result<Approach> {
        self.lift();
        let index = self.parts.partition_point(|part| part.is_before(key));
        let Some(part) = self.parts.get(index) else { return Ok(Approach::Nowhere) };
        let approach = self.inner.approach(key.max(part.start()))?;
        if let Approach::Near(_) = approach {
            self.approached = Some((index, Direction::Forward));
            return Ok(approach);
        }
        self.settle_forward(index).map(Approach::done)
    }

    fn approach_back(&mut self, bound: Option<&[u8]>) -> Result<Approach> {
        self.lift();
        let below = |part: &KeyRange| bound.is_none_or(|bound| part.start() < bound);
        let count = self.parts.partition_point(below);
        let Some(last) = count.checked_sub(1) else { return Ok(Approach::Nowhere) };
        let approach = self.inner.approach_back(lesser_bound(bound, self.parts[last].end()))?;
        if let Approach::Near(_) = approach {
            self.approached = Some((last, Direction::Backward));
            return Ok(approach);
        }
        self.settle_back(count).map(Approach::done)
    }

    fn arrive(&mut self) -> Result<bool> {
        let Some((index, direction)) = self.approached.take() else {
            return Ok(self.part.is_some());
        };
        self.inner.arrive()?;
        match direction {
            Direction::Forward => self.settle_forward(index),
            Direction::Backward => self.settle_back(index + 1),
        }
    }

    fn next(&mut self) -> Result<bool> {
        let Some(index) = self.part.take() else { return Ok(false) };
        self.inner.next()?;
        self.settle_forward(index)
    }

    fn prev(&mut self) -> Result<bool> {
        let Some(index) = self.part.take() else { return Ok(false) };
        self.inner.prev()?;
        self.settle_back(index + 1)
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        if self.part.is_some() { self.inner.entry() } else { None }
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        if self.part.is_some() { self.inner.key() } else { None }
    }

    fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
        self.inner.older(seqno)
    }

    fn renew(&mut self, read_point: SeqNo) -> bool {
        self.lift();
        self.inner.renew(read_point)
    }
}

impl<C> fmt::Debug for PartsCursor<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartsCursor within {:?}", self.parts)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the cursor shows the keys of the intervals and no others, whichever way it goes.
    //! Method: random keys and intervals, beside a list.

    use terrace_base::EntryKind;
    use terrace_env::SeededRng;

    use super::*;

    /// A cursor over sorted keys.
    struct Keys {
        keys: Vec<Vec<u8>>,
        at: Option<usize>,
    }

    impl Keys {
        fn go(&mut self, at: Option<usize>) -> Result<bool> {
            self.at = at.filter(|at| *at < self.keys.len());
            Ok(self.at.is_some())
        }
    }

    impl Cursor for Keys {
        fn seek(&mut self, key: &[u8]) -> Result<bool> {
            self.go(Some(self.keys.partition_point(|other| other.as_slice() < key)))
        }

        fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
            let below = |key: &Vec<u8>| bound.is_none_or(|bound| key.as_slice() < bound);
            self.go(self.keys.partition_point(below).checked_sub(1))
        }

        fn next(&mut self) -> Result<bool> {
            self.go(self.at.map(|at| at + 1))
        }

        fn prev(&mut self) -> Result<bool> {
            self.go(self.at.and_then(|at| at.checked_sub(1)))
        }

        fn entry(&self) -> Option<EntryRef<'_>> {
            self.at.map(|at| EntryRef {
                key: &self.keys[at],
                seqno: SeqNo(1),
                kind: EntryKind::Value,
                expiry: None,
                value: b"",
            })
        }

        fn older(&mut self, _: SeqNo) -> Result<Option<EntryRef<'_>>> {
            Ok(None)
        }
    }

    #[test]
    fn only_keys_of_the_intervals_show_in_both_directions() -> Result<()> {
        for seed in 0..400 {
            let mut random = SeededRng::new(seed);
            let keys: Vec<Vec<u8>> =
                (b'a'..=b'z').filter(|_| random.below(3) > 0).map(|key| vec![key]).collect();
            let mut bounds: Vec<u8> = (b'a'..=b'z').filter(|_| random.below(4) == 0).collect();
            if bounds.len() % 2 == 1 {
                bounds.pop();
            }
            let mut parts: Vec<KeyRange> = bounds
                .chunks(2)
                .map(|pair| KeyRange::new(vec![pair[0]], Some(vec![pair[1]])))
                .collect();
            if random.below(3) == 0 {
                parts.push(KeyRange::new("z", None));
            }
            let shown: Vec<Vec<u8>> = keys
                .iter()
                .filter(|key| parts.iter().any(|part| part.contains(key)))
                .cloned()
                .collect();
            let mut model = Keys { keys: shown, at: None };
            let mut cursor = PartsCursor::new(Keys { keys, at: None }, parts.clone().into());
            for step in 0..40 {
                let key = vec![b'a' + random.below(26) as u8];
                let (found, expected) = match random.below(5) {
                    0 => (cursor.seek(&key)?, model.seek(&key)?),
                    1 => (cursor.seek_back(Some(&key))?, model.seek_back(Some(&key))?),
                    2 => (cursor.seek_back(None)?, model.seek_back(None)?),
                    3 if model.at.is_some() => (cursor.next()?, model.next()?),
                    _ if model.at.is_some() => (cursor.prev()?, model.prev()?),
                    _ => continue,
                };
                assert_eq!(found, expected, "seed {seed}, step {step}: {parts:?}");
                let at = |entry: Option<EntryRef<'_>>| entry.map(|entry| entry.key.to_vec());
                assert_eq!(at(cursor.entry()), at(model.entry()), "seed {seed}, step {step}");
            }
        }
        Ok(())
    }
}
