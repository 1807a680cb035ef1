//! Which operations are timed, and what becomes of the slow ones; the room `explain/` says why.

use std::time::Duration;

use terrace_base::SeqNo;

use crate::explain::{
    Ended, GetExplanation, OperationKind, Recording, ScanWatch, SlowOperation, waits,
};
use crate::store::read::key_search::KeySearch;
use crate::store::view::View;
use crate::store::{Inner, Store};
use crate::{Result, WriteBatch};

/// An iterator weighs as much as this number of gets when it is drawn which operations are timed.
pub(in crate::store) const SCAN_WEIGHT: u32 = 16;

impl Store {
    /// The slowest gets, scans and writes of the last minutes, the slowest first: at most some
    /// hundred. Most are known because they waited for something; others by chance.
    #[must_use]
    pub fn slow_operations(&self) -> Vec<SlowOperation> {
        self.inner.meters.slow.list(self.inner.env.now())
    }

    /// Forgets the slow operations so far.
    pub fn reset_slow_operations(&self) {
        self.inner.meters.slow.reset();
    }
}

/// What a get is for.
pub(in crate::store) enum GetPurpose<'e> {
    /// Its answer.
    Answer,
    /// What it meets on its way; the explanation is left there.
    Explanation(&'e mut Option<GetExplanation>),
}

/// What is found out about a get while it runs.
pub(in crate::store) enum GetWatch<'e> {
    /// How long it took, from its first wait on if there is one.
    Unsampled,
    /// How long it took, and what it met.
    Sampled {
        /// When it began.
        began: Duration,
        /// Nothing, if this thread's operation is being explained already.
        recording: Option<Recording>,
    },
    /// What it met, which is asked for.
    Explained(Recording, &'e mut Option<GetExplanation>),
}

/// Whether a write is timed from its beginning, and when it began then.
pub(in crate::store) struct WriteWatch(Option<Duration>);

impl Inner {
    /// A get begins. One that is to be answered is counted.
    #[inline]
    pub(in crate::store) fn watch_get<'a, 'e>(
        &'a self,
        purpose: GetPurpose<'e>,
        search: &mut KeySearch<'a>,
    ) -> Result<GetWatch<'e>> {
        if let GetPurpose::Explanation(into) = purpose {
            return Ok(GetWatch::Explained(self.begin_recording()?, into));
        }
        let counts = self.meters.counters.my_reads();
        counts.got();
        search.counts = Some(counts);
        waits::begin();
        Ok(if self.meters.slow.is_due(1) { self.sample_get() } else { GetWatch::Unsampled })
    }

    #[cold]
    fn sample_get<'e>(&self) -> GetWatch<'e> {
        GetWatch::Sampled { began: self.env.now(), recording: Recording::begin(&self.env) }
    }

    /// A get has ended; `was_found` if it did not fail. `what` was read: in which view, which key
    /// and at which number.
    #[inline]
    pub(in crate::store) fn get_ended<'v>(
        &self,
        watch: GetWatch<'_>,
        was_found: Option<bool>,
        what: impl FnOnce() -> (&'v View, &'v [u8], SeqNo),
    ) {
        if !matches!(watch, GetWatch::Unsampled) || waits::has_waited() {
            let (view, key, read_point) = what();
            self.tell_of_get(watch, was_found, view, key, read_point);
        }
    }

    /// Explains a get that was to be, or keeps it if it is one of the slowest.
    #[cold]
    fn tell_of_get(
        &self,
        watch: GetWatch<'_>,
        was_found: Option<bool>,
        view: &View,
        key: &[u8],
        read_point: SeqNo,
    ) {
        let explain = |notes| self.explanation(view, key, read_point, notes);
        match watch {
            GetWatch::Explained(recording, into) => *into = Some(explain(recording.end())),
            GetWatch::Unsampled => self.keep_get(key, was_found.unwrap_or(false), None),
            GetWatch::Sampled { began, recording } => {
                let Some(was_found) = was_found else { return };
                let notes = recording.map(Recording::end);
                if let Some(notes) = &notes {
                    self.meters.read_samples.got(&notes.totals());
                }
                let explain = || notes.map(explain);
                self.keep_get(key, was_found, Some((began, Box::new(explain))));
            }
        }
    }

    /// Keeps a get that has just ended, if it is one of the slowest. `sampled`: when it began and
    /// how to explain it, if that is known; else it is timed from its first wait on.
    fn keep_get(&self, key: &[u8], was_found: bool, sampled: Option<(Duration, Explain<'_>)>) {
        let waits = waits::take();
        let Some(began) = sampled.as_ref().map(|(began, _)| *began).or(waits.began()) else {
            return;
        };
        let now = self.env.now();
        let ended = Ended {
            kind: OperationKind::Get,
            took: now.saturating_sub(began),
            is_sampled: sampled.is_some(),
            key,
            entry_count: u64::from(was_found),
            hidden_count: 0,
            waits,
            explanation: None,
        };
        self.keep(ended, now, sampled.map(|(_, explain)| explain));
    }

    /// Keeps an operation that ended `now`, if it is one of the slowest; `explain` is asked only
    /// then.
    fn keep(&self, mut ended: Ended<'_>, now: Duration, explain: Option<Explain<'_>>) {
        if ended.is_sampled {
            self.meters.latencies.add(ended.kind, ended.took);
            self.meters.samples.read(ended.kind, ended.key, ended.entry_count);
        }
        if self.meters.slow.is_wanted(ended.kind, ended.took, now) {
            ended.explanation = explain.and_then(|explain| explain());
            self.meters.slow.offer(ended, now, self.env.wall_time());
        }
    }

    /// A write begins.
    #[inline]
    pub(in crate::store) fn watch_write(&self) -> WriteWatch {
        waits::begin();
        WriteWatch(self.meters.slow.is_due(1).then(|| self.env.now()))
    }

    /// A write has ended, of entries that `batch` holds.
    #[inline]
    pub(in crate::store) fn write_ended(&self, watch: &WriteWatch, batch: &WriteBatch) {
        if watch.0.is_some() || waits::has_waited() {
            if watch.0.is_some() {
                self.meters.samples.wrote(batch);
            }
            let key = batch.entries(SeqNo::ZERO).next().map_or(&b""[..], |entry| entry.key);
            self.keep_write(watch, key, batch.len());
        }
    }

    /// A conditional write of keys like these has ended.
    #[inline]
    pub(in crate::store) fn update_ended(&self, watch: &WriteWatch, keys: &[&[u8]]) {
        if watch.0.is_some() || waits::has_waited() {
            if watch.0.is_some() {
                self.meters.samples.updated(keys);
            }
            self.keep_write(watch, keys.first().copied().unwrap_or_default(), keys.len());
        }
    }

    /// Keeps a write that has just ended, if it is one of the slowest.
    #[cold]
    fn keep_write(&self, watch: &WriteWatch, key: &[u8], entry_count: usize) {
        let waits = waits::take();
        let Some(began) = watch.0.or(waits.began()) else { return };
        let now = self.env.now();
        let ended = Ended {
            kind: OperationKind::Write,
            took: now.saturating_sub(began),
            is_sampled: watch.0.is_some(),
            key,
            entry_count: entry_count as u64,
            hidden_count: 0,
            waits,
            explanation: None,
        };
        self.keep(ended, now, None);
    }

    /// An iterator begins.
    pub(in crate::store) fn watch_scan(&self) -> ScanWatch {
        let is_due = self.meters.slow.is_due(SCAN_WEIGHT);
        let is_sampled = is_due || self.shape.scan_price_percent == 0;
        ScanWatch { is_sampled, ..ScanWatch::default() }
    }

    /// An iterator over an interval from `start` on goes, which merged so many sources.
    pub(in crate::store) fn scan_ended(
        &self,
        watch: &ScanWatch,
        source_count: usize,
        start: &[u8],
    ) {
        self.meters.counters.my_reads().scanned(watch.shown, watch.hidden);
        self.dead_were_met(watch.hidden);
        if !watch.is_sampled && watch.waits.began().is_none() {
            return;
        }
        if watch.is_sampled {
            self.meters.read_samples.scanned(source_count as u64);
            self.charge_scan(watch);
        }
        let ended = Ended {
            kind: OperationKind::Scan,
            took: if watch.is_sampled { watch.busy } else { watch.waits.total() },
            is_sampled: watch.is_sampled,
            key: start,
            entry_count: watch.shown,
            hidden_count: watch.hidden,
            waits: watch.waits,
            explanation: None,
        };
        self.keep(ended, self.env.now(), None);
    }
}

/// Explains an operation, once.
type Explain<'a> = Box<dyn FnOnce() -> Option<GetExplanation> + 'a>;
