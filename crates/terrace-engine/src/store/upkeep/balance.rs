//! Reorganisations of dranges: each flush samples the writes that it meets, `drange/balance/`
//! judges them, and the next freeze divides the range anew. Writers are held up by nothing but that
//! freeze.

use std::collections::VecDeque;
use std::sync::Arc;

use terrace_env::Latch;

use crate::drange::balance::{Reorganisation, SAMPLES_PER_DRANGE, anew, judge, shares};
use crate::drange::{Boundaries, Division, Frozen, WriteSample};
use crate::store::{Inner, Store};
use crate::{Error, Result};

/// Reorganisations rest on the writes of this number of flushes at most, so that chance evens out
/// and what was hot long ago is forgotten.
const SAMPLES_KEPT: usize = 8;

/// What is known of how the writes are spread, and what is to be done about it.
#[derive(Debug, Default)]
pub struct Balance(Latch<State>);

#[derive(Debug, Default)]
struct State {
    /// The oldest first.
    samples: VecDeque<WriteSample>,
    /// How the range is to be divided at the next freeze.
    next: Option<Next>,
    minor_count: u64,
    major_count: u64,
    /// Whether the boundaries rest on more than the keys of one memtable.
    is_refined: bool,
    /// Entries of frozen memtables, by drange, since the range was divided as it is.
    writes: Vec<u64>,
}

#[derive(Debug)]
enum Next {
    Judged(Reorganisation),
    Asked(Division),
}

impl Balance {
    /// How a freeze divides the range, if not as before. Asked once for each freeze.
    pub fn take_next(&self, current: &Division) -> Option<Division> {
        let mut state = self.0.lock();
        let division = match state.next.take()? {
            Next::Asked(division) => division,
            Next::Judged(Reorganisation::Minor(division)) => {
                state.minor_count += 1;
                division
            }
            Next::Judged(Reorganisation::Major(division)) => {
                state.major_count += 1;
                // What was sampled before may be what the writes have turned away from.
                let old = state.samples.len().saturating_sub(1);
                state.samples.drain(..old);
                division
            }
        };
        (division != *current).then_some(division)
    }

    /// The range is divided anew: what was counted belongs to other dranges.
    pub fn begin_anew(&self) {
        self.0.lock().writes.clear();
    }

    /// Counts what was frozen, a memtable or none for each drange, in order.
    pub fn count(&self, frozen: &[Option<Arc<Frozen>>]) {
        let mut state = self.0.lock();
        state.writes.resize(frozen.len(), 0);
        for (writes, frozen) in state.writes.iter_mut().zip(frozen) {
            *writes += frozen.as_ref().map_or(0, |frozen| frozen.memtable.entry_count());
        }
    }

    /// For each of `dranges` dranges, the entries that were counted.
    pub fn write_counts(&self, dranges: usize) -> Vec<u64> {
        let mut writes = self.0.lock().writes.clone();
        writes.resize(dranges, 0);
        writes
    }

    /// How many minor and how many major reorganisations there have been since the open.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.minor_count, state.major_count)
    }

    /// The share of the sampled writes that each interval of `boundaries` had.
    pub fn shares(&self, boundaries: &Boundaries) -> Vec<f64> {
        // The latch is held for a sort of some thousand keys, by nobody that writers wait for.
        let state = self.0.lock();
        shares(boundaries, &WriteSample::merged(&state.samples))
    }
}

impl Store {
    /// Divides the range into dranges at `keys`, which ascend, from now on: all memtables are
    /// frozen. The range may divide itself otherwise later, as its writes ask for it.
    ///
    /// Errors: `Invalid` (the keys do not ascend, or one is empty, or there are more than 254),
    /// `ReadOnly`, `Closed`, `Poisoned`.
    pub fn divide_at(&self, keys: Vec<Vec<u8>>) -> Result<()> {
        let duplicates = vec![1; keys.len() + 1];
        self.divide_among(keys, &duplicates)
    }

    /// As [`Store::divide_at`], where each interval, from the one before the first of the keys to
    /// the one behind the last, gets as many dranges as `duplicates` says.
    ///
    /// Errors: as there, and `Invalid` if there is not a number for each interval, or one is 0, or
    /// they are more than 255 together.
    pub fn divide_among(&self, keys: Vec<Vec<u8>>, duplicates: &[usize]) -> Result<()> {
        let inner = &self.inner;
        inner.log()?;
        let _work = inner.begin_work()?;
        inner.check_healthy()?;
        let is_sound =
            keys.is_sorted_by(|a, b| a < b) && keys.first().is_none_or(|key| !key.is_empty());
        if !is_sound || keys.len() >= crate::options::DRANGES_MAX {
            return Err(Error::invalid(
                "a range is divided at ascending keys, none of them empty, at most 254",
            ));
        }
        let count = duplicates.iter().fold(0usize, |sum, count| sum.saturating_add(*count));
        let is_whole = duplicates.len() == keys.len() + 1 && !duplicates.contains(&0);
        if !is_whole || count > crate::options::DRANGES_MAX {
            return Err(Error::invalid(
                "each interval between the keys has a drange or more, 255 at most all together",
            ));
        }
        let division = Division::new(Boundaries::new(keys), duplicates);
        inner.balance.0.lock().next = Some(Next::Asked(division));
        inner.freeze_all()?;
        inner.schedule_flush();
        Ok(())
    }
}

impl Inner {
    /// How many writes in these memtables one key of a sample stands for.
    pub(super) fn sample_spacing(&self, batch: &[Arc<Frozen>]) -> u64 {
        let fresh = batch.iter().filter(|frozen| !frozen.is_merged);
        let writes: u64 = fresh.map(|frozen| frozen.memtable.entry_count()).sum();
        writes.div_ceil((self.wanted_dranges() * SAMPLES_PER_DRANGE) as u64).max(1)
    }

    /// Takes in what a flush has met: in these samples together, all writes from one freeze to
    /// another.
    pub(super) fn note_samples(&self, samples: Vec<WriteSample>) {
        if !self.options.drange_boundaries.is_empty() {
            return;
        }
        let sample = WriteSample::joined(samples);
        let wanted = self.wanted_dranges();
        let map = self.dranges.load();
        let mut state = self.balance.0.lock();
        state.samples.push_back(sample);
        if state.samples.len() > SAMPLES_KEPT {
            state.samples.pop_front();
        }
        if matches!(state.next, Some(Next::Asked(_))) {
            return;
        }
        let writes = state.samples.iter().map(|sample| sample.writes).sum();
        let is_first = !state.is_refined && state.samples.len() == SAMPLES_KEPT && wanted > 1;
        let merged = WriteSample::merged(&state.samples);
        let judged = match is_first {
            // Once, whether or not it is unfair: one memtable says little.
            true => anew(map.division(), &merged, wanted),
            false => judge(map.division(), &merged, writes, wanted),
        };
        drop(merged);
        state.is_refined |= is_first;
        state.next = judged.map(Next::Judged);
    }

    fn wanted_dranges(&self) -> usize {
        self.options.drange_count(self.env.parallelism())
    }
}
