//! Goal: a catch-up shows all that was acknowledged before it, each write with all that came
//! before, whatever the writer does meanwhile. Method: a writer of random batches that flushes,
//! compacts, ingests, dies and opens anew, and a follower beside it, under many schedules and
//! against a model of each state that there ever was.

use std::sync::Arc;
use std::time::Duration;

use terrace_base::{KeyRange, WallTime};
use terrace_env::{JobClass, Latch, SeededRng, SharedEnv, SimEnv, SimOptions};

use crate::options::{L0Options, Options};
use crate::store::tests::workload::{Change, Model, Shape, content, draw_options};
use crate::store::tests::*;
use crate::store::{Follower, IterOptions, Snapshot};
use crate::{Error, Result};

/// Schedules of a test.
const SEEDS: u64 = 60;
/// Batches and jobs of a writer.
const STEPS: u64 = 300;

/// What the writer has done so far.
#[derive(Default)]
struct History {
    /// The states that there were, each after one write more than the one before it; the last one
    /// may not be there yet.
    states: Vec<Arc<Model>>,
    /// Index of the last state that was acknowledged.
    acknowledged: usize,
    outcome: Option<Result<()>>,
}

type Shared = Arc<Latch<History>>;

/// Writes and works on the range.
struct Writer {
    env: SharedEnv,
    options: Options,
    store: Store,
    random: SeededRng,
    shape: Shape,
    history: Shared,
}

impl Writer {
    fn run(mut self) -> Result<()> {
        for _ in 0..STEPS {
            match self.random.below(40) {
                0..=2 => self.store.flush()?,
                3 => self.store.compact(&KeyRange::all())?,
                4 => self.store.settle(),
                5 => self.ingest()?,
                6 => self.begin_anew()?,
                _ => self.write()?,
            }
        }
        self.store.close()
    }

    fn write(&mut self) -> Result<()> {
        let now = self.env.wall_time();
        let count = 1 + self.random.below(6);
        let changes = self.shape.changes(&mut self.random, now, count);
        self.put(&changes, |store, changes| {
            store.write(&workload::batch_of(changes)?, &WriteOptions::default())
        })
    }

    fn ingest(&mut self) -> Result<()> {
        let mut keys: Vec<_> = (0..5).map(|_| self.shape.key(&mut self.random)).collect();
        keys.sort();
        keys.dedup();
        let value = self.random.next_u64().to_le_bytes().to_vec();
        let put = |key| Change::Put { key, value: value.clone(), expiry: None };
        let changes: Vec<_> = keys.into_iter().map(put).collect();
        self.put(&changes, |store, changes| {
            let mut ingest = store.begin_ingest()?;
            for change in changes {
                let Change::Put { key, value, .. } = change else { panic!("only puts") };
                ingest.add(key, value, None)?;
            }
            ingest.finish().map(|_| ())
        })
    }

    fn put(
        &mut self,
        changes: &[Change],
        write: impl FnOnce(&Store, &[Change]) -> Result<()>,
    ) -> Result<()> {
        let index = {
            let mut history = self.history.lock();
            let mut next =
                history.states.last().map_or_else(Model::default, |last| (**last).clone());
            changes.iter().for_each(|change| next.apply(change));
            history.states.push(Arc::new(next));
            history.states.len() - 1
        };
        write(&self.store, changes)?;
        self.history.lock().acknowledged = index;
        Ok(())
    }

    /// Closes the range, or lets go of it as a process does that is killed; and opens it again.
    fn begin_anew(&mut self) -> Result<()> {
        self.store.settle();
        if self.random.one_in(2) {
            self.store.close()?;
        } else {
            // The lock goes, and nothing else happens: there is no job left.
            drop(self.store.inner.held.lock().take());
        }
        self.store = open(&self.env, &self.options)?;
        Ok(())
    }
}

/// The state that a moment shows, if it is one of those it may show.
fn state_of(
    shown: &workload::Content,
    history: &Shared,
    from: usize,
    now: WallTime,
) -> Option<usize> {
    let states = history.lock().states[from..].to_vec();
    states.iter().position(|state| state.content(now) == *shown).map(|index| from + index)
}

/// What `read` finds while no time goes by, which lets values expire; and when that was.
fn at_one_time<T>(env: &SharedEnv, read: impl Fn() -> Result<T>) -> Result<(WallTime, T)> {
    loop {
        let now = env.wall_time();
        let found = read()?;
        if env.wall_time() == now {
            return Ok((now, found));
        }
    }
}

/// A moment that is kept while the follower goes on.
struct Kept {
    snapshot: Snapshot,
    index: usize,
}

/// How long a follower waits that found nothing new: twice as long each time.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(5);

fn follow(env: &SharedEnv, options: &Options, history: &Shared, seed: u64) -> Result<u64> {
    let mut random = SeededRng::new(seed ^ 0xf0110);
    let mut follower = Follower::open(&process(env)?, Path::new(DIR), options.clone())?;
    let (mut last, mut caught_up) = (0, 0);
    let mut kept: Option<Kept> = None;
    let mut pause = PAUSE_MIN;
    loop {
        let (from, is_over) = {
            let history = history.lock();
            (history.acknowledged, history.outcome.is_some())
        };
        // The owner deletes tables in the object store without asking whoever follows its
        // directory: that one catches up.
        let is_outdated =
            |error: &Error| options.cloud.is_some() && matches!(error, Error::Outdated(_));
        let is_new = match follower.catch_up() {
            Err(error) if is_outdated(&error) => continue,
            outcome => outcome?,
        };
        caught_up += u64::from(is_new);
        if is_new {
            pause = PAUSE_MIN;
        } else {
            // The writer may be waiting for time to go by, also for long.
            env.sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
        let (now, shown) = match at_one_time(env, || content(follower.store())) {
            Err(error) if is_outdated(&error) => continue,
            looked => looked?,
        };
        let Some(index) = state_of(&shown, history, from.max(last), now) else {
            let older = state_of(&shown, history, 0, now);
            panic!(
                "seed {seed}: after {from} acknowledged writes, and {last} that were seen, {older:?} is \
                 shown"
            );
        };
        last = index;
        if let Some(kept) = &kept {
            let walk = || workload::walk(kept.snapshot.iter(IterOptions::default())?);
            match at_one_time(env, walk) {
                Err(error) if is_outdated(&error) => {}
                looked => {
                    let (now, shown) = looked?;
                    let state = history.lock().states[kept.index].content(now);
                    let index = kept.index;
                    assert!(shown == state, "seed {seed}: the moment of write {index} has changed");
                }
            }
        }
        if kept.is_none() || random.one_in(8) {
            kept = Some(Kept { snapshot: follower.store().snapshot(), index });
        }
        if is_over {
            assert_eq!(index + 1, history.lock().states.len(), "seed {seed}: the end is not seen");
            return Ok(caught_up);
        }
    }
}

fn run(seed: u64) -> Result<u64> {
    let mut random = SeededRng::new(seed);
    let mut options = draw_options(&mut random);
    (options.l0, options.log_path) = (L0Options::PLAIN, None);
    options.log_volume = None;
    options.value_log = draw_value_log(&mut random);
    let shape = Shape::draw(&mut random);
    let sim = SimOptions {
        switch_one_in: [1, 2, 4, 16][random.below(4) as usize],
        switch_at_latches: random.one_in(4),
        mapped_logs: random.one_in(2),
        ..SimOptions::new(seed)
    };
    SimEnv::run(sim, |env| {
        let env: SharedEnv = env;
        let history = Shared::default();
        history.lock().states.push(Arc::default());
        let store = open(&env, &options)?;
        let writer = Writer {
            env: Arc::clone(&env),
            options: options.clone(),
            store,
            random,
            shape,
            history: Arc::clone(&history),
        };
        let own = Arc::clone(&history);
        let job = Box::new(move || {
            let outcome = writer.run();
            own.lock().outcome = Some(outcome);
        });
        let writer = env.spawn(JobClass::Client, "writer", job)?;
        let caught_up = follow(&env, &options, &history, seed)?;
        assert!(writer.join(), "seed {seed}: the writer panicked");
        let outcome = history.lock().outcome.take();
        outcome.unwrap_or(Err(Error::Closed))?;
        Ok(caught_up)
    })
}

#[test]
fn a_catch_up_shows_all_that_was_acknowledged_and_no_write_without_those_before() {
    let mut caught_up = 0;
    for seed in 0..SEEDS {
        caught_up += run(seed).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
    }
    assert!(caught_up > 5 * SEEDS, "there was something new {caught_up} times only");
}
