//! Goal: the parts of one compaction are installed together or not at all, whoever works on them.
//! Method: an executor that counts the plans it gets, and refuses some.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace_base::KeyRange;

use crate::Error;
use crate::compaction::{
    CompactionExecutor, CompactionOutcome, CompactionPlan, IsCancelled, LocalExecutor,
};
use crate::store::Seams;
use crate::store::tests::*;

/// Refuses every plan but the first `spared` ones; `usize::MAX` spares all.
#[derive(Debug)]
struct Choosy {
    inner: LocalExecutor,
    slices: terrace_env::Latch<Vec<KeyRange>>,
    spared: AtomicUsize,
}

impl CompactionExecutor for Choosy {
    fn run(
        &self,
        plan: &CompactionPlan,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<CompactionOutcome> {
        self.slices.lock().push(plan.slice.clone());
        let spared =
            |left: usize| if left == usize::MAX { Some(left) } else { left.checked_sub(1) };
        if self.spared.fetch_update(Ordering::AcqRel, Ordering::Acquire, spared).is_err() {
            return Err(Error::invalid("this plan is refused"));
        }
        self.inner.run(plan, is_cancelled)
    }
}

fn open_choosy(env: &SharedEnv, threads: usize) -> Result<(Store, Arc<Choosy>)> {
    let options = ProcessOptions { compaction_threads: threads, ..ProcessOptions::default() };
    let process = Process::start(Arc::clone(env), &options)?;
    // Nothing is due by itself, so that the test decides what is compacted.
    let options = Options { l0_rows_per_cut: 60, l0_rows_slow: 60, l0_rows_stop: 80, ..small() };
    let mut seams = Seams::local(&process, Path::new(DIR), &options);
    let inner = LocalExecutor::new(env, Arc::clone(&seams.opener));
    let slices = terrace_env::Latch::default();
    let executor = Arc::new(Choosy { inner, slices, spared: AtomicUsize::new(usize::MAX) });
    seams.executor = Arc::<Choosy>::clone(&executor);
    Ok((Store::open_with(&process, Path::new(DIR), options, seams)?, executor))
}

fn fill(store: &Store, round: u32) -> Result<()> {
    for index in 0..400 {
        put(store, &format!("{:04}", index * 7 % 400), &format!("{round}").repeat(150))?;
    }
    store.flush()
}

/// The tables in the store are those that the version names, and no others.
fn nothing_is_left_over(store: &Store) -> Result<()> {
    let version = store.inner.versions.current();
    let named: BTreeSet<_> = version.tables().map(|table| table.meta().id).collect();
    let there = store.inner.context.opener.store.list()?;
    let there: BTreeSet<_> = there.into_iter().map(|(id, _)| id).collect();
    assert_eq!(there, named);
    Ok(())
}

#[test]
fn one_compaction_runs_in_disjoint_parts_on_all_threads() -> Result<()> {
    for (threads, parts_max) in [(1, 1), (2, 2), (3, 3)] {
        simulate(31, |env| {
            let (store, executor) = open_choosy(env, threads)?;
            fill(&store, 1)?;
            fill(&store, 2)?;
            store.compact(&KeyRange::all())?;
            let mut slices = executor.slices.lock().clone();
            slices.sort_by(|a, b| a.start().cmp(b.start()));
            assert_eq!(slices.len(), parts_max, "{slices:?}");
            for pair in slices.windows(2) {
                assert_eq!(pair[0].end(), Some(pair[1].start()), "no gap, no overlap");
            }
            for index in 0..400 {
                assert_eq!(get(&store, &format!("{index:04}"))?, Some("2".repeat(150)));
            }
            store.settle();
            nothing_is_left_over(&store)?;
            assert!(store.check(&mut |_, _| ())?.is_clean());
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

#[test]
fn a_part_that_fails_takes_the_others_with_it() -> Result<()> {
    for seed in 0..20 {
        simulate(seed, |env| {
            let (store, executor) = open_choosy(env, 3)?;
            fill(&store, 1)?;
            fill(&store, 2)?;
            store.settle();
            let before = store.inner.versions.current().tables().count();
            executor.spared.store((seed % 3) as usize, Ordering::Release);
            let refused = store.compact(&KeyRange::all());
            assert!(matches!(refused, Err(Error::Invalid(_))), "seed {seed}: {refused:?}");
            assert_eq!(store.inner.versions.current().tables().count(), before);
            nothing_is_left_over(&store)?;
            executor.spared.store(usize::MAX, Ordering::Release);
            store.compact(&KeyRange::all())?;
            for index in 0..400 {
                assert_eq!(get(&store, &format!("{index:04}"))?, Some("2".repeat(150)));
            }
            store.settle();
            nothing_is_left_over(&store)
        })?;
    }
    Ok(())
}
