use std::cmp::Ordering;

use smallvec::SmallVec;
use terrace_base::{EntryRef, SeqNo};
use terrace_env::{PlantedBug, is_planted};

use super::head::{FirstBytes, Head};
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
    /// How many steps the source in front has taken alone.
    alone: u32,
}

struct MergedCursor<C> {
    cursor: C,
    /// Of the entry that the cursor stands on, or is near to.
    head: Head,
    /// Whether the cursor has yet to arrive there.
    is_near: bool,
}

impl<C: Cursor> MergedCursor<C> {
    /// Looks at what the cursor has come to.
    #[inline]
    fn look(&mut self) {
        if let Some((key, seqno)) = self.cursor.version() {
            self.head = Head::of(key, seqno);
        }
    }

    /// How this source and another one compare in the order.
    #[inline]
    fn compare(&self, other: &MergedCursor<C>, direction: Direction) -> Ordering {
        let by_bytes = direction.of(self.head.bytes.cmp(&other.head.bytes));
        if by_bytes.is_ne() { by_bytes } else { self.compare_alike(other, direction) }
    }

    /// The same where the first bytes of the keys are alike.
    #[inline(never)]
    fn compare_alike(&self, other: &MergedCursor<C>, direction: Direction) -> Ordering {
        if self.is_near || other.is_near {
            return other.is_near.cmp(&self.is_near);
        }
        direction.of(self.compare_keys_alike(other)).then_with(|| {
            let newer = other.head.seqno.cmp(&self.head.seqno);
            if is_planted(PlantedBug::WrongMergeOrder) { newer.reverse() } else { newer }
        })
    }

    /// Whether this source and another one stand on the same key.
    #[inline]
    fn shares_key(&self, other: &MergedCursor<C>) -> bool {
        self.head.bytes == other.head.bytes && self.compare_keys_alike(other).is_eq()
    }

    /// How the keys compare on which this source and another one stand, whose first bytes are
    /// alike.
    #[inline]
    fn compare_keys_alike(&self, other: &MergedCursor<C>) -> Ordering {
        let by_heads = self.head.compare_alike(&other.head);
        by_heads.unwrap_or_else(|| self.compare_long_keys(other))
    }

    #[inline(never)]
    fn compare_long_keys(&self, other: &MergedCursor<C>) -> Ordering {
        self.cursor.key().cmp(&other.cursor.key())
    }
}

impl<C: Cursor> MergingCursor<C> {
    /// Merges `sources`, all made for one read point.
    #[must_use]
    pub fn new(sources: impl IntoIterator<Item = C>) -> MergingCursor<C> {
        let sources = sources.into_iter();
        let mut merging = MergingCursor::with_room_for(sources.size_hint().0);
        sources.for_each(|source| merging.add(source));
        merging
    }

    /// Merges nothing, with room for so many sources.
    #[must_use]
    pub fn with_room_for(count: usize) -> MergingCursor<C> {
        MergingCursor {
            sources: Vec::with_capacity(count),
            direction: Direction::Forward,
            order: SmallVec::new(),
            sharing: 0,
            alone: 0,
        }
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

    /// How many steps the source in front has taken since it came there, or since it was said to
    /// have taken as many.
    #[inline]
    #[must_use]
    pub fn steps_alone(&self) -> u32 {
        self.alone
    }

    /// Counts the steps of the source in front from here on.
    pub fn count_alone_from(&mut self, steps: u32) {
        self.alone = steps;
    }

    /// The source that has the current key, if it has it alone and all go forward; and what the key
    /// of the next one begins with. It may be moved without the others as long as its keys stay
    /// below that.
    pub fn alone_in_front(&mut self) -> Option<(&mut C, Option<FirstBytes>)> {
        let (1, Some(first)) = (self.sharing, self.order.first()) else { return None };
        let next = self.order.get(1).map(|second| self.sources[*second].head.bytes);
        let source = &mut self.sources[*first].cursor;
        (self.direction == Direction::Forward).then_some((source, next))
    }

    /// Moves the source at `place` of the order back to where it belongs, if the ones behind it are
    /// in order.
    #[inline]
    fn sink(&mut self, mut place: usize) {
        let sources = self.sources.as_slice();
        let order = self.order.as_mut_slice();
        let own = order[place];
        while let Some(next) = order.get(place + 1).copied()
            && sources[own].compare(&sources[next], self.direction).is_gt()
        {
            order[place] = next;
            place += 1;
        }
        order[place] = own;
    }

    #[inline]
    fn count_sharing(&mut self) {
        self.sharing = match self.order.split_first() {
            None => 0,
            Some((current, others)) => {
                let current = &self.sources[*current];
                let shares = |other: &&usize| current.shares_key(&self.sources[**other]);
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

    /// A step in the direction in which all stand, which `move_on` takes a source.
    ///
    /// Where the source in front shares the current key with nobody it moves alone, and while it
    /// stays ahead of the second one nothing else has to be looked at. Not even its head is kept:
    /// whoever compares it with others looks first.
    #[inline]
    fn step_on(&mut self, move_on: impl FnOnce(&mut C) -> Result<bool>) -> Result<bool> {
        let (1, Some(first)) = (self.sharing, self.order.first()) else { return self.step() };
        let cursor = &mut self.sources[*first].cursor;
        match move_on(cursor) {
            Ok(true) => {
                self.alone = self.alone.wrapping_add(1);
                let Some(second) = self.order.get(1) else { return Ok(true) };
                let key = cursor.key().unwrap_or_default();
                let order = FirstBytes::of(key).cmp(&self.sources[*second].head.bytes);
                if self.direction.of(order).is_lt() { Ok(true) } else { self.step_back_in_line() }
            }
            Ok(false) => {
                self.order.remove(0);
                self.arrive_in_front()
            }
            Err(error) => {
                self.stand_nowhere();
                Err(error)
            }
        }
    }

    /// Puts the source in front, which has moved, back to where it belongs.
    #[inline(never)]
    fn step_back_in_line(&mut self) -> Result<bool> {
        let first = self.order[0];
        self.sources[first].look();
        self.sink(0);
        self.arrive_in_front()
    }

    #[cold]
    fn stand_nowhere(&mut self) {
        self.order.clear();
        self.sharing = 0;
    }

    /// Moves the sources that share the current key off it, in the direction in which all stand.
    #[inline(never)]
    fn step(&mut self) -> Result<bool> {
        // The last one first: what stands behind it is in order then.
        for place in (0..self.sharing).rev() {
            let index = self.order[place];
            if !self.move_on(index)? {
                self.order.remove(place);
                continue;
            }
            self.sources[index].look();
            self.sink(place);
        }
        self.arrive_in_front()
    }

    /// Lets those in front arrive, until one that has is in front. None that has yet to arrive
    /// shares its key: it would stand before it.
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
                    self.stand_nowhere();
                    return Err(error);
                }
            }
        }
        self.alone = 0;
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
            self.stand_nowhere();
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
        order.sort_by(|one, other| self.sources[*one].compare(&self.sources[*other], direction));
        self.order = order;
        self.arrive_in_front()
    }

    fn current_key(&self) -> Option<Vec<u8>> {
        self.key().map(<[u8]>::to_vec)
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
        match self.direction {
            Direction::Forward => self.step_on(C::next),
            Direction::Backward => self.turn_forward(),
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<bool> {
        match self.direction {
            Direction::Backward => self.step_on(C::prev),
            Direction::Forward => self.turn_back(),
        }
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        self.order.first().and_then(|index| self.sources[*index].cursor.entry())
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.order.first().and_then(|index| self.sources[*index].cursor.key())
    }

    #[inline]
    fn plain_key(&self) -> Option<&[u8]> {
        self.order.first().and_then(|index| self.sources[*index].cursor.plain_key())
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

    fn renew(&mut self, read_point: SeqNo) -> bool {
        self.stand_nowhere();
        self.alone = 0;
        self.sources.iter_mut().all(|source| source.cursor.renew(read_point))
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

    /// Keys of one letter, or which end with one, with numbers, in order; a cursor for tests.
    struct Letters {
        entries: Vec<(Vec<u8>, u64)>,
        at: Option<usize>,
    }

    impl Letters {
        /// Keys that are `before` and a letter each.
        fn behind(before: &[u8], entries: &[(u8, u64)]) -> Letters {
            let key = |letter: u8| [before, &[letter]].concat();
            let entries = entries.iter().map(|(letter, number)| (key(*letter), *number));
            Letters { entries: entries.collect(), at: None }
        }
    }

    impl Cursor for Letters {
        fn seek(&mut self, key: &[u8]) -> Result<bool> {
            let at = self.entries.partition_point(|(own, _)| own.as_slice() < key);
            self.at = (at < self.entries.len()).then_some(at);
            Ok(self.at.is_some())
        }

        fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<bool> {
            let below = |own: &[u8]| bound.is_none_or(|bound| own < bound);
            self.at = self.entries.partition_point(|(own, _)| below(own)).checked_sub(1);
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
            let (key, seqno) = &self.entries[self.at?];
            let (seqno, kind) = (SeqNo(*seqno), EntryKind::Value);
            Some(EntryRef { key, seqno, kind, expiry: None, value: b"" })
        }

        fn older(&mut self, seqno: SeqNo) -> Result<Option<EntryRef<'_>>> {
            Ok(self.entry().filter(|entry| entry.seqno < seqno))
        }
    }

    fn merged(sources: &[&[(u8, u64)]]) -> MergingCursor {
        let letters = |entries: &&[(u8, u64)]| {
            Box::new(Letters::behind(b"", entries)) as Box<dyn Cursor + Send>
        };
        MergingCursor::new(sources.iter().map(letters))
    }

    fn shown(cursor: &MergingCursor) -> String {
        let entry = cursor.entry();
        entry.map_or("-".into(), |e| format!("{}{}", e.key.escape_ascii(), e.seqno))
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
            let (letter, before) = self.letters.entries[at].0.split_last().expect("a letter");
            let near = match direction {
                Direction::Forward => letter - self.off_by,
                Direction::Backward => letter + self.off_by,
            };
            Approach::near([before, &[near]], direction)
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
            // What the letters stand behind may be all, or more than all, that a head has of a key.
            let before = vec![b'-'; [0, 3, 20, 31, 32, 40][rng.index(6)]];
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
                let letters = Letters::behind(&before, &entries);
                standing.push(Box::new(letters) as Box<dyn Cursor + Send>);
                let letters = Letters::behind(&before, &entries);
                let put_off = Vague { letters, off_by, approached: None, arrivals: Arc::default() };
                vague.push(Box::new(put_off) as Box<dyn Cursor + Send>);
            }
            let (mut model, mut cursor) = (MergingCursor::new(standing), MergingCursor::new(vague));
            for step in 0..60 {
                let key = [before.as_slice(), &[b'b' + rng.index(24) as u8]].concat();
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
            let letters = Letters::behind(b"", &[(letter, 1)]);
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
