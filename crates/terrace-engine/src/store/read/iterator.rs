//! Iterators: the live keys of an interval at one read point, in both directions.
//!
//! An iterator registers its number for as long as it lives, but pins a view only briefly: when a
//! newer view has let go of something that the pinned one keeps alive, the iterator goes on in the
//! newer one, at its own number, from its own key. A close counts as such a change: the iterator
//! then lets go of all it holds. Only what a filter did is not shown to an iterator that began
//! before: it then stays in the view that it has.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_base::{EntryRef, KeyRange, SeqNo, WallTime};
use terrace_env::{PlantedBug, is_planted};

use crate::explain::{Hidden, ScanWatch, is_recording, note, waits};
use crate::iter::{Cursor, Direction, lesser_bound};
use crate::store::read::ahead::{AskAhead, Stretch};
use crate::store::read::answer::{Answer, answer, covers, unsupported};
use crate::store::read::asking::ask_for_scan;
use crate::store::read::open_scan::{HeldScan, OpenScan};
use crate::store::read::operands::{Gathered, Merged};
use crate::store::read::sources::{Covering, coverings};
use crate::store::read::values::{Fetched, Values};
use crate::store::read_points::ReadPoint;
use crate::store::view::View;
use crate::store::{Inner, Store};
use crate::table::ReadMode;
use crate::vlog::ValueWindows;
use crate::{Error, Result};

/// What an iterator shows.
#[derive(Clone, Debug)]
pub struct IterOptions {
    /// The keys.
    pub range: KeyRange,
    /// How blocks are read. If steps may not wait for the disk, they answer [`Error::NeedsIo`]
    /// where they would, and the iterator then stands nowhere.
    pub mode: ReadMode,
}

impl Default for IterOptions {
    fn default() -> IterOptions {
        IterOptions { range: KeyRange::all(), mode: ReadMode::BLOCK }
    }
}

/// Steps that an iterator takes at least before it goes on in a newer view.
const STEPS_PER_VIEW: u32 = 64;

/// A position among the live keys of an interval, at one read point and one moment of expiry. A
/// new iterator stands nowhere until it is told to seek. After an error it stands nowhere too, but
/// for one case: where the operands of a key cannot be folded, or its entry is of a kind that this
/// version cannot answer from, that is an error of the key. The iterator shows nothing then, and
/// the next step, either way, goes on from that key.
pub struct Iter {
    inner: Arc<Inner>,
    point: ReadPoint,
    /// The moment by which expiry is judged.
    moment: WallTime,
    range: KeyRange,
    mode: ReadMode,
    scan: HeldScan,
    /// What the operands of the cursor's key were folded into, if its newest entry is one.
    merged: Option<Box<Merged>>,
    /// What the newest entry of the cursor's key points to, if it is a pointer.
    fetched: Option<Fetched>,
    shows_keys_only: bool,
    /// What was read ahead of value files.
    windows: ValueWindows,
    ahead: AskAhead,
    /// How many keys it had shown when it last sought one, where that matters.
    began_at: Option<u64>,
    tombstones: Vec<Covering>,
    steps: u32,
    stands: Stands,
    watch: ScanWatch,
}

/// What an iterator begins with.
enum Begin {
    /// A view, of which it has nothing open.
    In(Arc<View>),
    /// What an earlier one had open.
    From(Box<OpenScan>),
}

/// Where an iterator stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// Nowhere: a step has nothing to go on from.
    Nowhere,
    /// On a live key.
    OnKey,
    /// On a key that has entries and no answer: the last move told so.
    OnRefused,
}

impl Store {
    /// The keys and values of an interval, as they are now.
    pub fn iter(&self, options: IterOptions) -> Result<Iter> {
        let now = self.inner.env.wall_time();
        let point = self.inner.read_points.register_iterator(&self.inner.sequencer, now);
        Iter::new(&self.inner, point, options)
    }
}

impl Iter {
    pub(in crate::store) fn at(
        store: &Store,
        held: &ReadPoint,
        options: IterOptions,
    ) -> Result<Iter> {
        let now = store.inner.env.wall_time();
        let point = store.inner.read_points.register_iterator_at(held, now);
        Iter::new(&store.inner, point, options)
    }

    fn new(inner: &Arc<Inner>, point: ReadPoint, options: IterOptions) -> Result<Iter> {
        let open = |scan| Iter::open(inner, point, scan, options);
        match inner.take_spare_scan() {
            Some(spare) => open(Begin::From(spare)),
            None => open(Begin::In(inner.view.load_full())),
        }
    }

    fn open(
        inner: &Arc<Inner>,
        point: ReadPoint,
        begin: Begin,
        options: IterOptions,
    ) -> Result<Iter> {
        inner.check_open()?;
        let moment = point.moment().expect("the read point of an iterator has a moment");
        let mut watch = inner.watch_scan();
        waits::begin();
        let began = watch.is_sampled.then(|| inner.env.now());
        let IterOptions { range, mode } = options;
        let range_index = !inner.options.research.scan_all_memtables;
        let scan = match begin {
            Begin::In(view) => {
                Box::new(OpenScan::new(view, &range, point.seqno(), mode, range_index)?)
            }
            Begin::From(mut spare) => {
                spare.go_on(&range, point.seqno(), mode, range_index)?;
                spare
            }
        };
        let tombstones = coverings(&scan.view, &range, mode)?;
        if let Some(began) = began {
            watch.busy += inner.env.now().saturating_sub(began);
        }
        if waits::has_waited() {
            watch.waits.add(&waits::take());
        }
        Ok(Iter {
            inner: Arc::clone(inner),
            point,
            moment,
            range,
            mode,
            scan: HeldScan::new(scan),
            merged: None,
            fetched: None,
            shows_keys_only: false,
            windows: ValueWindows::default(),
            ahead: AskAhead::default(),
            began_at: None,
            tombstones,
            steps: 0,
            stands: Stands::Nowhere,
            watch,
        })
    }

    /// Another iterator over the same interval, at the same read point and moment of expiry: it
    /// shows the same keys and values.
    pub fn twin(&self) -> Result<Iter> {
        let point = self.point.twin();
        let options = IterOptions { range: self.range.clone(), mode: self.mode };
        let current = self.inner.view.load_full();
        let view = if self.may_show(&current) { current } else { Arc::clone(&self.scan.view) };
        let mut twin = Iter::open(&self.inner, point, Begin::In(view), options)?;
        twin.shows_keys_only = self.shows_keys_only;
        Ok(twin)
    }

    /// From the next move on, values that lie in the value log are not read, and show as empty
    /// ones: for whoever wants nothing but keys.
    pub fn show_keys_only(&mut self) {
        self.shows_keys_only = true;
    }

    /// The number that the iterator reads at.
    #[must_use]
    pub fn seqno(&self) -> SeqNo {
        self.point.seqno()
    }

    /// Goes to the first live key at or above `key` (and within the interval).
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.watched(|iter| {
            iter.stands = Stands::Nowhere;
            iter.ahead = AskAhead::default();
            iter.renew_view()?;
            iter.begin_stretch(Some(key), Direction::Forward);
            iter.scan.cursor.merged().seek(key.max(iter.range.start()))?;
            iter.watch_place();
            iter.settle(true)
        })
    }

    /// Goes to the first live key of the interval.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.seek(b"")
    }

    /// Goes to the last live key below `bound` (and within the interval); to the last of the
    /// interval if there is no bound.
    pub fn seek_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.watched(|iter| iter.place_back(bound))
    }

    fn place_back(&mut self, bound: Option<&[u8]>) -> Result<()> {
        self.stands = Stands::Nowhere;
        self.ahead = AskAhead::default();
        self.renew_view()?;
        self.begin_stretch(bound, Direction::Backward);
        self.scan.cursor.merged().seek_back(lesser_bound(bound, self.range.end()))?;
        self.watch_place();
        self.settle(false)
    }

    /// Begins to go on from what is sought: where tables lie in an object store, it is asked at
    /// once for what the iterator will probably come to.
    #[inline]
    fn begin_stretch(&mut self, sought: Option<&[u8]>, direction: Direction) {
        if self.inner.cloud.is_some() {
            self.end_stretch();
            self.ask_far(sought, direction);
        }
    }

    #[cold]
    fn ask_far(&mut self, sought: Option<&[u8]>, direction: Direction) {
        // What may not wait ends where it would have to, which says nothing of how long it is.
        if !self.mode.waits || self.inner.options.research.far_one_by_one {
            return;
        }
        self.began_at = Some(self.watch.shown);
        let (start, end) = (self.range.start(), self.range.end());
        let (start, end) = match direction {
            Direction::Forward => (sought.map_or(start, |key| key.max(start)), end),
            Direction::Backward => (start, lesser_bound(sought, end)),
        };
        let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
        ask_for_scan(&self.scan.view, &range, self.inner.scan_length.expected(), direction);
    }

    /// Tells how many keys came since it began to go on, if it did.
    #[inline]
    fn end_stretch(&mut self) {
        if let Some(before) = self.began_at.take() {
            self.inner.scan_length.showed(self.watch.shown - before);
        }
    }

    /// Notes where a seek has come to, if the iterator is timed.
    #[inline]
    fn watch_place(&mut self) {
        if self.watch.is_sampled {
            self.watch.place = self.scan.cursor.entry().map(|entry| Box::from(entry.key));
        }
    }

    /// Goes to the next live key; past the last one the iterator stands nowhere.
    ///
    /// Errors: `Merge` and `Unsupported` are of one key, and the next step goes on from it;
    /// `Invalid` if the iterator stands nowhere.
    #[expect(clippy::should_implement_trait, reason = "the word for it in every ordered store")]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if !self.is_usual() {
            return self.watched(|iter| iter.step(true));
        }
        if self.scan.cursor.walk_on() {
            self.steps = self.steps.saturating_add(1);
            self.watch.shown += 1;
            return Ok(());
        }
        self.step_usually(true)
    }

    /// Goes to the previous live key; before the first one the iterator stands nowhere. Errors: as
    /// [`Iter::next`].
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        self.scan.cursor.end_walk();
        if self.is_usual() {
            self.step_usually(false)
        } else {
            self.watched(|iter| iter.step(false))
        }
    }

    /// Whether the iterator stands on an entry.
    #[must_use]
    #[inline]
    pub fn is_on_entry(&self) -> bool {
        self.stands == Stands::OnKey
    }

    /// The entry that the iterator stands on: a value, never a tombstone or a merge operand.
    #[must_use]
    #[inline]
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        if self.stands != Stands::OnKey {
            return None;
        }
        let entry = self.scan.cursor.entry()?;
        match (&self.merged, &self.fetched) {
            (None, None) => Some(entry),
            (Some(merged), _) => Some(merged.entry(entry.key)),
            (None, Some(fetched)) => Some(fetched.entry(entry.key)),
        }
    }

    /// Moves the iterator by `act`, and notes how long that took if it is timed or had to wait.
    #[inline]
    fn watched(&mut self, act: impl FnOnce(&mut Iter) -> Result<()>) -> Result<()> {
        waits::begin();
        let began = self.watch.is_sampled.then(|| self.inner.env.now());
        let outcome = act(self);
        if let Some(began) = began {
            self.watch.busy += self.inner.env.now().saturating_sub(began);
        }
        if waits::has_waited() {
            self.take_waits();
        }
        outcome
    }

    /// Whether a step begins on a key and has only to move: nobody times it, and the view holds
    /// nothing up.
    #[inline]
    fn is_usual(&self) -> bool {
        self.stands == Stands::OnKey && !self.watch.is_sampled && !self.holds_up()
    }

    /// A step that [is usual](Iter::is_usual), with no walk on: most often it ends on a plain
    /// value, and then nobody has to ask anything.
    #[inline]
    fn step_usually(&mut self, forward: bool) -> Result<()> {
        waits::begin();
        self.stands = Stands::Nowhere;
        self.steps = self.steps.saturating_add(1);
        let moved = self.scan.cursor.step(forward);
        if waits::has_waited() {
            self.take_waits();
        }
        if moved? && self.is_on_plain_value(forward) {
            self.stands = Stands::OnKey;
            self.watch.shown += 1;
            if forward {
                self.scan.cursor.begin_walk(self.range.end());
            }
            return Ok(());
        }
        self.watched(|iter| iter.settle(forward))
    }

    /// Whether the cursor stands on a value of the interval that nothing hides, which needs no
    /// [answer](Iter::answer): no range tombstone counts, it does not expire, and it lies here.
    #[inline]
    fn is_on_plain_value(&self, forward: bool) -> bool {
        let is_bare = self.merged.is_none() && self.fetched.is_none();
        let has_rest = !self.tombstones.is_empty() || !is_bare || is_recording();
        let is_within = |key| !self.is_past_end(key, forward);
        !has_rest && self.scan.cursor.plain_key().is_some_and(is_within)
    }

    #[cold]
    fn take_waits(&mut self) {
        self.watch.waits.add(&waits::take());
    }

    fn step(&mut self, forward: bool) -> Result<()> {
        if self.stands == Stands::Nowhere {
            self.inner.check_open()?;
            return Err(Error::invalid("the iterator stands nowhere: seek first"));
        }
        self.stands = Stands::Nowhere;
        if self.holds_up() && !self.step_held_up(forward)? {
            return self.settle(forward);
        }
        self.steps = self.steps.saturating_add(1);
        self.move_cursor(forward)?;
        self.settle(forward)
    }

    #[inline]
    fn move_cursor(&mut self, forward: bool) -> Result<bool> {
        let merged = self.scan.cursor.merged();
        if forward { merged.next() } else { merged.prev() }
    }

    /// Sees to what the pinned view holds up; `false` as in [`Iter::step_into_view`].
    #[cold]
    fn step_held_up(&mut self, forward: bool) -> Result<bool> {
        self.check_open()?;
        let stays = self.steps < STEPS_PER_VIEW || !self.may_show(&self.inner.view.load());
        if stays { Ok(true) } else { self.step_into_view(forward) }
    }

    /// Errors: `Closed`; the iterator holds nothing of the range's files then.
    fn check_open(&mut self) -> Result<()> {
        let outcome = self.inner.check_open();
        if outcome.is_err() {
            (self.merged, self.fetched) = (None, None);
            *self.scan = OpenScan::nothing(self.inner.view.load_full());
            self.tombstones = Vec::new();
        }
        outcome
    }

    /// Goes on in the current view; `false` if the cursor is not where it was any more, but beyond
    /// it on its way.
    #[cold]
    fn step_into_view(&mut self, forward: bool) -> Result<bool> {
        let key = self.scan.cursor.entry().map(|entry| entry.key.to_vec()).unwrap_or_default();
        self.renew_view()?;
        if !forward {
            self.scan.cursor.merged().seek_back(Some(&key))?;
            return Ok(false);
        }
        self.scan.cursor.merged().seek(&key)?;
        Ok(self.scan.cursor.entry().is_some_and(|entry| entry.key == key))
    }

    /// Whether the pinned view keeps alive what is wanted gone.
    fn holds_up(&self) -> bool {
        self.scan.removals != self.inner.removals.load(Ordering::Acquire)
    }

    /// Whether the iterator would show the same in `view` as in its own.
    fn may_show(&self, view: &View) -> bool {
        view.filterings == self.scan.view.filterings
            || is_planted(PlantedBug::IteratorSeesTheFilter)
    }

    /// Goes on in the current view if the pinned one keeps alive what is wanted gone.
    fn renew_view(&mut self) -> Result<()> {
        if !self.holds_up() {
            return Ok(());
        }
        self.check_open()?;
        let view = self.inner.view.load_full();
        if !self.may_show(&view) {
            return Ok(());
        }
        let range_index = !self.inner.options.research.scan_all_memtables;
        let tombstones = coverings(&view, &self.range, self.mode)?;
        let point = self.point.seqno();
        *self.scan = OpenScan::new(view, &self.range, point, self.mode, range_index)?;
        self.tombstones = tombstones;
        self.steps = 0;
        Ok(())
    }

    /// Steps over what is hidden until the cursor stands on a live key of the interval, or past
    /// its end.
    fn settle(&mut self, forward: bool) -> Result<()> {
        (self.merged, self.fetched) = (None, None);
        while let Some(entry) = self.scan.cursor.entry() {
            if self.is_past_end(entry.key, forward) {
                return Ok(());
            }
            // Cost: in each arm by itself, a note keeps no answer waiting.
            match self.answer(&entry) {
                Answer::Value => self.note_key(None),
                Answer::Hidden(why) => {
                    self.note_key(Some(why));
                    self.watch.hidden += 1;
                    self.move_cursor(forward)?;
                    continue;
                }
                Answer::Pointer => {
                    self.note_key(None);
                    if self.shows_keys_only {
                        self.fetched = Some(Fetched::without_value(&entry));
                    } else {
                        let values = Values::of(&self.scan.view.version, self.mode);
                        let before = waits::so_far_for_files();
                        let fetched = values.fetch_on(&entry, &mut self.windows);
                        self.fetched = Some(fetched.map_err(|error| self.refuse_damaged(error))?);
                        let waited = waits::so_far_for_files().saturating_sub(before);
                        if let Some(stretch) = self.ahead.fetched(waited) {
                            self.ask_ahead(stretch, forward);
                        }
                    }
                }
                Answer::Operands => {
                    self.note_key(None);
                    self.merged = self.fold_here()?.map(Box::new);
                }
                Answer::Refused(kind) => {
                    self.note_key(None);
                    return Err(self.refuse(unsupported(kind)));
                }
            }
            self.stands = Stands::OnKey;
            self.watch.shown += 1;
            return Ok(());
        }
        Ok(())
    }

    /// Asks for the values of the keys that follow, as many as `stretch` says.
    #[cold]
    fn ask_ahead(&mut self, stretch: Stretch, forward: bool) {
        if !self.mode.waits || is_recording() {
            return;
        }
        let mut asked = 0;
        // An error is not told here: whoever comes to what cannot be read meets it there.
        let _ = self.ask_for_following(stretch, forward, &mut asked);
        self.ahead.asked(asked);
        self.inner.meters.counters.values_asked_ahead(asked.into());
    }

    fn ask_for_following(
        &self,
        mut stretch: Stretch,
        forward: bool,
        asked: &mut u32,
    ) -> Result<()> {
        let Some(entry) = self.scan.cursor.entry() else { return Ok(()) };
        let mut cursor = self.scan.another_cursor(&self.range, self.point.seqno())?;
        let cursor = cursor.merged();
        let values = Values::of(&self.scan.view.version, self.mode);
        let mut is_on_key = match forward {
            true => cursor.seek(entry.key)? && cursor.next()?,
            false => cursor.seek_back(Some(entry.key))?,
        };
        while is_on_key && stretch.take_key() {
            let Some(entry) = cursor.entry() else { break };
            if self.is_past_end(entry.key, forward) {
                break;
            }
            if self.answer(&entry) == Answer::Pointer {
                stretch.take_value(values.ask_for(&entry)?);
                *asked += 1;
            }
            is_on_key = if forward { cursor.next()? } else { cursor.prev()? };
        }
        Ok(())
    }

    /// Notes that the cursor has come to a key, which is hidden for this reason if it is.
    #[inline]
    fn note_key(&self, hidden: Option<Hidden>) {
        note(|notes| notes.came_to(self.scan.cursor.source(), hidden));
    }

    /// Whether a key lies beyond the interval, on the way of the cursor, which began within it.
    #[inline]
    fn is_past_end(&self, key: &[u8], forward: bool) -> bool {
        if forward { self.range.is_before(key) } else { key < self.range.start() }
    }

    /// Stays on the cursor's key, which has no answer but this error.
    #[cold]
    fn refuse(&mut self, error: Error) -> Error {
        self.stands = Stands::OnRefused;
        error
    }

    /// Stays on the cursor's key if its value is damaged: the values of others are not.
    #[cold]
    fn refuse_damaged(&mut self, error: Error) -> Error {
        if matches!(error, Error::Corruption(_)) { self.refuse(error) } else { error }
    }

    /// What the operands of the cursor's key come to. The cursor stays where it is, if what lies
    /// under them can be read.
    #[cold]
    fn fold_here(&mut self) -> Result<Option<Merged>> {
        let Some(key) = self.scan.cursor.entry().map(|entry| entry.key.to_vec()) else {
            return Ok(None);
        };
        let covering = self.newest_covering(&key);
        let mut gathered = Gathered::new(self.moment());
        let OpenScan { view, cursor, .. } = &mut *self.scan;
        let values = Values::of(&view.version, self.mode);
        let Some(entry) = cursor.entry() else { return Ok(None) };
        let mut taken = gathered.take(&entry, false, values);
        let mut seqno = entry.seqno;
        while let Ok(false) = taken {
            let Some(older) = cursor.merged().older(seqno)? else { break };
            seqno = older.seqno;
            taken = gathered.take(&older, covers(covering, seqno), values);
        }
        let folded = taken.and_then(|_| self.inner.fold_gathered(&key, gathered));
        folded.map_err(|error| self.refuse(error))
    }

    /// The newest range tombstone over a key that the iterator sees.
    fn newest_covering(&self, key: &[u8]) -> Option<SeqNo> {
        let point = self.point.seqno();
        let some = self.tombstones.iter().filter(|some| some.counts_at(key));
        some.filter_map(|some| some.fragments.newest_covering(key, point)).max()
    }

    /// The moment by which expiry is judged.
    fn moment(&self) -> WallTime {
        if is_planted(PlantedBug::IteratorForgetsItsMoment) {
            return self.inner.env.wall_time();
        }
        self.moment
    }

    /// Whether the iterator walks through a block of one source.
    #[cfg(test)]
    pub(in crate::store) fn is_walking(&self) -> bool {
        self.scan.cursor.is_walking()
    }

    /// How many range tombstones the iterator asks about each key.
    pub(in crate::store) fn range_tombstone_count(&self) -> usize {
        self.tombstones.iter().map(|some| some.fragments.len()).sum()
    }

    /// What the newest entry of a key means to the iterator.
    #[inline]
    fn answer(&self, entry: &EntryRef<'_>) -> Answer {
        let is_covered = || {
            self.tombstones.iter().any(|some| {
                let covering = some.fragments.newest_covering(entry.key, self.point.seqno());
                covers(covering, entry.seqno) && some.counts_at(entry.key)
            })
        };
        answer(entry, is_covered, || self.moment())
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        // A thread that panics may hold what a call of the environment must not meet.
        if !std::thread::panicking() {
            self.end_stretch();
            self.inner.scan_ended(&self.watch, self.scan.cursor.source_count(), self.range.start());
            if let Some(scan) = self.scan.take() {
                self.inner.leave_spare_scan(scan, self.point.seqno());
            }
        }
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter over {:?} at {:?}", self.range, self.seqno())
    }
}
