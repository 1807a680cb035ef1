use std::cmp::Ordering;

use smallvec::SmallVec;
use terrace_base::{EntryRef, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::head::Head;
use super::{Approach, Cursor, Direction};
use crate::Result;

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
/// comparison for a source that stays ahead. A comparison looks at the first bytes of the keys,
/// kept beside the sources, and asks these only if keys are long and alike.
///
/// A source may be no more than near its key ([`Approach`]). It is in the order by what is known of
/// the key, before all that may share it, and arrives when it comes to the front: what stands in
/// front, and what shares its key, has arrived. So a scan of few keys looks at the entries of few
/// sources.
///
/// Where one source is left there is nothing to merge: a step is that source's own. While the
/// source in front stays before the second one, a step is its own and one comparison. `C` is the
/// kind of the sources: where all are of one type, or of an enumeration of the common ones, their
/// steps are compiled into those of the merge.
pub struct MergingCursor<C = Box<dyn Cursor + Send>> {
    sources: Vec<MergedCursor<C>>,
    direction: Direction,
    /// The sources that stand on a key, as drawn above.
    order: SmallVec<[usize; 8]>,
    /// How many of them share the current key.
    sharing: usize,
}

struct MergedCursor<C> {
    cursor: C,
    /// Of the entry that the cursor stands on, or is near to.
    head: Head,
    /// Whether the cursor has yet to arrive there.
    is_near: bool,
}

impl<C: Cursor> MergedCursor<C> {
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

impl<C: Cursor> MergingCursor<C> {
    /// Merges `sources`, all made for one read point.
    #[must_use]
    pub fn new(sources: impl IntoIterator<Item = C>) -> MergingCursor<C> {
        let mut merging = MergingCursor {
            sources: Vec::new(),
            direction: Direction::Forward,
            order: SmallVec::new(),
            sharing: 0,
        };
        sources.into_iter().for_each(|source| merging.add(source));
        merging
    }

    /// Takes one more source, made for the same read point. The cursor stands nowhere then.
    pub fn add(&mut self, cursor: C) {
        self.order.clear();
        self.sharing = 0;
        self.sources.push(MergedCursor { cursor, head: Head::default(), is_near: false });
    }

    /// How many sources are merged.
    #[must_use]
    pub fn source_count(&self) -> usize {
        self.sources.len()
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

    /// How two sources compare in the order.
    #[inline]
    fn compare(&self, one: usize, other: usize) -> Ordering {
        let (this, that) = (&self.sources[one], &self.sources[other]);
        if this.is_near || that.is_near {
            let order = self.direction.of(this.head.compare_bytes(&that.head));
            return order.then(that.is_near.cmp(&this.is_near));
        }
        self.direction.of(self.compare_keys(one, other)).then_with(|| {
            let newer = that.head.seqno.cmp(&this.head.seqno);
            if is_planted(PlantedBug::WrongMergeOrder) { newer.reverse() } else { newer }
        })
    }

    /// Moves the source at `place` of the order back to where it belongs, if the ones behind it are
    /// in order.
    #[inline]
    fn sink(&mut self, mut place: usize) {
        let own = self.order[place];
        while let Some(next) = self.order.get(place + 1).copied()
            && self.compare(own, next).is_gt()
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

    #[cold]
    fn turn_forward(&mut self) -> Result<bool> {
        let Some(key) = self.current_key() else { return Ok(false) };
        self.seek(&key)?;
        self.step()
    }

    #[cold]
    fn turn_back(&mut self) -> Result<bool> {
        let Some(key) = self.current_key() else { return Ok(false) };
        self.seek_back(Some(&key))
    }

    /// A step where the source with this index is the only one that stands on a key: it has
    /// arrived, and shares the key with nobody. Nobody asks for its head before all sources are
    /// placed anew.
    #[inline]
    fn step_alone(&mut self, index: usize) -> Result<bool> {
        let stands = self.move_on(index)?;
        if !stands {
            self.order.clear();
            self.sharing = 0;
        }
        Ok(stands)
    }

    /// Moves the sources that share the current key off it, in the direction in which all stand.
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
        self.arrive_in_front()
    }

    /// Lets those in front arrive, until one that has is in front. None that has yet to arrive
    /// shares its key: it would stand before it.
    #[inline]
    fn arrive_in_front(&mut self) -> Result<bool> {
        while let Some(first) = self.order.first()
            && let source = &mut self.sources[*first]
            && source.is_near
        {
            source.is_near = false;
            match source.cursor.arrive() {
                Ok(true) => {
                    source.look();
                    self.sink(0);
                }
                Ok(false) => {
                    self.order.remove(0);
                }
                Err(error) => {
                    self.order.clear();
                    self.sharing = 0;
                    return Err(error);
                }
            }
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
        mut place: impl FnMut(&mut C) -> Result<Approach>,
    ) -> Result<bool> {
        self.direction = direction;
        self.sharing = 0;
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        for (index, source) in self.sources.iter_mut().enumerate() {
            let approach = place(&mut source.cursor)?;
            source.is_near = matches!(approach, Approach::Near(_));
            match approach {
                Approach::Nowhere => continue,
                Approach::Stands => source.look(),
                Approach::Near(bytes) => source.head = Head::near(bytes),
            }
            order.push(index);
        }
        order.sort_by(|one, other| self.compare(*one, *other));
        self.order = order;
        self.arrive_in_front()
    }

    fn current_key(&self) -> Option<Vec<u8>> {
        self.entry().map(|entry| entry.key.to_vec())
    }
}

impl<C: Cursor> Cursor for MergingCursor<C> {
    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.place_all(Direction::Forward, |source| source.approach(key))
    }

    fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
        self.place_all(Direction::Backward, |source| source.approach_back(bound))
    }

    #[inline]
    fn next(&mut self) -> Result<bool> {
        if self.direction == Direction::Backward {
            return self.turn_forward();
        }
        if let [only] = *self.order {
            return self.step_alone(only);
        }
        self.step()
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        if self.direction == Direction::Forward {
            return self.turn_back();
        }
        if let [only] = *self.order {
            return self.step_alone(only);
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

impl<C> std::fmt::Debug for MergingCursor<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MergingCursor of {} sources", self.sources.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use terrace_base::EntryKind;
    use terrace_env::SeededRng;

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
        MergingCursor::new(sources.iter().map(letters))
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

    /// Puts off what it can, and knows of a key no more than that it is at or behind another one.
    struct Vague {
        letters: Letters,
        off_by: u8,
        approached: Option<usize>,
        arrivals: Arc<AtomicUsize>,
    }

    impl Vague {
        fn put_off(&mut self, stands: bool, direction: Direction) -> Approach {
            self.approached = self.letters.at.take();
            let Some(at) = self.approached.filter(|_| stands) else { return Approach::Nowhere };
            let key = self.letters.entries[at].0;
            let near = match direction {
                Direction::Forward => key - self.off_by,
                Direction::Backward => key + self.off_by,
            };
            Approach::near([&[], &[near]], direction)
        }
    }

    impl Cursor for Vague {
        fn seek(&mut self, key: &[u8]) -> Result<bool> {
            self.letters.seek(key)
        }

        fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
            self.letters.seek_back(bound)
        }

        fn approach(&mut self, key: &[u8]) -> Result<Approach> {
            let stands = self.letters.seek(key)?;
            Ok(self.put_off(stands, Direction::Forward))
        }

        fn approach_back(&mut self, bound: Option<&[u8]>) -> Result<Approach> {
            let stands = self.letters.seek_back(bound)?;
            Ok(self.put_off(stands, Direction::Backward))
        }

        fn arrive(&mut self) -> Result<bool> {
            self.arrivals.fetch_add(1, Relaxed);
            self.letters.at = self.approached.take();
            Ok(self.letters.at.is_some())
        }

        fn next(&mut self) -> Result<bool> {
            self.letters.next()
        }

        fn prev(&mut self) -> Result<bool> {
            self.letters.prev()
        }

        fn entry(&self) -> Option<EntryRef<'_>> {
            self.letters.entry()
        }

        fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
            self.letters.older(seqno)
        }
    }

    #[test]
    fn sources_that_are_only_near_merge_as_those_that_stand() -> Result<()> {
        for seed in 0..600 {
            let mut rng = SeededRng::new(seed);
            let (mut standing, mut vague) = (Vec::new(), Vec::new());
            let mut number = 0;
            for _ in 0..=rng.index(6) {
                let letters = (b'c'..=b'x').filter(|_| rng.one_in(3)).collect::<Vec<u8>>();
                let mut count = || {
                    number += 1;
                    number
                };
                let entries: Vec<_> = letters.into_iter().map(|key| (key, count())).collect();
                let off_by = rng.index(3) as u8;
                let letters = Letters { entries: entries.clone(), at: None };
                standing.push(Box::new(letters) as Box<dyn Cursor + Send>);
                let letters = Letters { entries, at: None };
                let put_off = Vague { letters, off_by, approached: None, arrivals: Arc::default() };
                vague.push(Box::new(put_off) as Box<dyn Cursor + Send>);
            }
            let (mut model, mut cursor) = (MergingCursor::new(standing), MergingCursor::new(vague));
            for step in 0..60 {
                let key = [b'b' + rng.index(24) as u8];
                let (found, expected) = match rng.index(6) {
                    0 => (cursor.seek(&key)?, model.seek(&key)?),
                    1 => (cursor.seek_back(Some(&key))?, model.seek_back(Some(&key))?),
                    2 => (cursor.seek_back(None)?, model.seek_back(None)?),
                    3 | 4 if model.entry().is_some() => (cursor.next()?, model.next()?),
                    _ if model.entry().is_some() => (cursor.prev()?, model.prev()?),
                    _ => continue,
                };
                let context = format!("seed {seed}, step {step}");
                assert_eq!(found, expected, "{context}");
                assert_eq!(shown(&cursor), shown(&model), "{context}");
                let below = SeqNo(rng.index(number as usize + 2) as u64);
                let older = cursor.older(below)?.map(|entry| entry.seqno);
                assert_eq!(older, model.older(below)?.map(|entry| entry.seqno), "{context}");
            }
        }
        Ok(())
    }

    #[test]
    fn who_never_comes_to_the_front_never_arrives() -> Result<()> {
        let arrivals: Vec<Arc<AtomicUsize>> = (0..3).map(|_| Arc::default()).collect();
        let source = |(letter, arrivals): (u8, &Arc<AtomicUsize>)| {
            let letters = Letters { entries: vec![(letter, 1)], at: None };
            let arrivals = Arc::clone(arrivals);
            Box::new(Vague { letters, off_by: 0, approached: None, arrivals })
                as Box<dyn Cursor + Send>
        };
        let mut cursor = MergingCursor::new((b'e'..).zip(&arrivals).map(source));
        cursor.seek(b"a")?;
        cursor.next()?;
        let counts: Vec<usize> = arrivals.iter().map(|count| count.load(Relaxed)).collect();
        assert_eq!((shown(&cursor).as_str(), counts.as_slice()), ("f1", [1, 1, 0].as_slice()));
        Ok(())
    }
}
