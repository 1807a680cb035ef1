//! The parts of one compaction, worked off by several threads of the process at once.
//!
//! Whoever began the compaction works too, and asks the pool for company: a thread of the pool that
//! comes takes the next part that nobody has, one that comes too late finds nothing and goes. So
//! the parts are done also where the pool has no free thread, and nobody ever waits for work that
//! nobody has begun.

use std::sync::Arc;

use terrace_base::KeyRange;
use terrace_env::{Env, JobClass, Latch, Signal};

use crate::compaction::pick::Input;
use crate::compaction::split::split_keys;
use crate::compaction::{CompactionOutcome, CompactionPlan};
use crate::store::Inner;
use crate::table::{ReadMode, Sample};
use crate::{Error, Result};

/// Keys of one table that are looked at when a compaction is divided.
const SAMPLES_PER_TABLE: usize = 32;

/// The parts, and how far they are.
struct Parts {
    plans: Vec<CompactionPlan>,
    progress: Latch<Progress>,
    /// Notified when a part has ended.
    ended: Signal,
}

#[derive(Default)]
struct Progress {
    /// Parts that somebody has taken.
    taken: usize,
    /// How those that have ended did, in any order, each with its place.
    outcomes: Vec<(usize, Result<CompactionOutcome>)>,
    /// Parts whose work ended in a panic.
    panicked: usize,
    /// Set when a part has failed: the others are of no use.
    has_failed: bool,
}

impl Parts {
    fn new(env: &dyn Env, plans: Vec<CompactionPlan>) -> Parts {
        Parts { plans, progress: Latch::default(), ended: env.waits().signal() }
    }

    /// The next part that nobody has taken; none if one has failed.
    fn take(&self) -> Option<Worker<'_>> {
        let mut progress = self.progress.lock();
        let index = progress.taken;
        if index == self.plans.len() || progress.has_failed {
            return None;
        }
        progress.taken += 1;
        Some(Worker { parts: self, index, outcome: None })
    }

    fn has_failed(&self) -> bool {
        self.progress.lock().has_failed
    }

    /// Blocks until no taken part is being worked on. Whoever calls has found none left to take.
    fn wait_ended(&self) {
        loop {
            let ticket = self.ended.ticket();
            let is_done = {
                let progress = self.progress.lock();
                progress.outcomes.len() + progress.panicked == progress.taken
            };
            if is_done {
                return;
            }
            self.ended.wait(ticket);
        }
    }
}

/// A part that one thread works on; when dropped, the part has ended.
struct Worker<'a> {
    parts: &'a Parts,
    index: usize,
    outcome: Option<Result<CompactionOutcome>>,
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        {
            let mut progress = self.parts.progress.lock();
            match self.outcome.take() {
                Some(outcome) => {
                    progress.has_failed |= outcome.is_err();
                    progress.outcomes.push((self.index, outcome));
                }
                // Unwinding: nobody may wait for this part for ever.
                None => {
                    progress.has_failed = true;
                    progress.panicked += 1;
                }
            }
        }
        self.parts.ended.notify();
    }
}

impl Inner {
    /// Divides `plan`, which reads `read_bytes` bytes of some of `inputs`, among the compaction
    /// threads, if that is enough to be worth it. Errors: an input cannot be opened.
    pub(in crate::store) fn parts_of(
        &self,
        plan: CompactionPlan,
        inputs: &[Input],
        read_bytes: u64,
    ) -> Result<Vec<CompactionPlan>> {
        let part_bytes = self.options.table_bytes;
        let fitting = usize::try_from(read_bytes / part_bytes).unwrap_or(usize::MAX);
        let part_count = self.process.pool().compaction_threads().min(fitting);
        if part_count < 2 {
            return Ok(vec![plan]);
        }
        let mut samples: Vec<Sample> = Vec::new();
        let is_read = |id| plan.inputs.iter().any(|input| input.table.id == id);
        for input in inputs.iter().filter(|input| is_read(input.table.meta().id)) {
            let parts: Vec<KeyRange> = input.parts_within(&plan.slice).collect();
            let reader = input.table.reader(ReadMode::BLOCK)?;
            let is_inside = |key: &[u8]| parts.iter().any(|part| part.contains(key));
            let inside = reader.samples(SAMPLES_PER_TABLE).into_iter();
            samples.extend(inside.filter(|(key, _)| is_inside(key)));
        }
        let keys = split_keys(samples, &plan.slice, part_count);
        Ok(plan.split(&keys, |count| self.ids.next_block(count)))
    }

    /// Does the work of all parts of one compaction, together with the threads of the pool that
    /// are free. After an error nothing of any part is left.
    pub(super) fn run_parts(&self, plans: Vec<CompactionPlan>) -> Result<CompactionOutcome> {
        let company = plans.len() - 1;
        let parts = Arc::new(Parts::new(self.env.as_ref(), plans));
        for _ in 0..company {
            let parts = Arc::clone(&parts);
            self.submit_helper(JobClass::Compaction, move |inner| inner.work_off(&parts));
        }
        self.work_off(&parts);
        parts.wait_ended();
        let (mut outcomes, panicked) = {
            let mut progress = parts.progress.lock();
            (std::mem::take(&mut progress.outcomes), progress.panicked)
        };
        assert!(panicked == 0, "a part of the compaction ended in a panic");
        outcomes.sort_by_key(|(index, _)| *index);
        let mut whole = CompactionOutcome::default();
        let mut failure: Option<Error> = None;
        for (_, outcome) in outcomes {
            match outcome {
                Ok(part) => whole = whole.and(part),
                // The others were told to end because of the first: their word is `Closed`.
                Err(Error::Closed) if failure.is_some() => {}
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            None => Ok(whole),
            Some(error) => {
                self.discard(&whole);
                Err(error)
            }
        }
    }

    fn work_off(&self, parts: &Parts) {
        while let Some(mut turn) = parts.take() {
            let is_cancelled = || self.jobs.is_cancelled() || parts.has_failed();
            turn.outcome = Some(self.executor.run(&parts.plans[turn.index], &is_cancelled));
        }
    }

    /// Deletes what was written, which no edit has named.
    pub(super) fn discard(&self, whole: &CompactionOutcome) {
        let tables = whole.outputs.iter().map(|table| (table.id, &table.location));
        let values = whole.values.iter().map(|file| (file.id, &file.location));
        for (file, location) in tables.chain(values) {
            if let Err(error) = self.context.opener.store.delete(location) {
                crate::program_log::warn!(%file, %error, "an output of a compaction that was not installed stays until the next open");
            }
        }
    }
}
