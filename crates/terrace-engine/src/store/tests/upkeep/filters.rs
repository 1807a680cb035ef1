//! Goal: what a filter does is seen by nobody who began before, wherever a reader comes in between.
//! Method: a filter by the first byte of the value, and jobs that are met at chosen places.

use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::KeyRange;
use terrace_env::JobClass;

use crate::Error;
use crate::compaction::filter::{CompactionFilter, Decision, FilterOption, Wants};
use crate::compaction::{
    CompactionExecutor, CompactionOutcome, CompactionPlan, IsCancelled, LocalExecutor,
};
use crate::options::ValueLogOptions;
use crate::store::tests::*;
use crate::store::{GetOptions, IterOptions, ReadSet, Seams, Snapshot};

/// Drops values that begin with `x`, changes the first byte of those that begin with `c` to `C`,
/// and panics at those that begin with `!`.
#[derive(Debug, Default)]
pub struct ByFirstByte {
    /// How often it was asked.
    asked: AtomicU64,
}

impl ByFirstByte {
    /// What becomes of a value that it is asked about.
    pub fn of(value: &[u8]) -> Option<Vec<u8>> {
        match value.first() {
            Some(b'x') => None,
            Some(b'c') => Some([b"C", &value[1..]].concat()),
            _ => Some(value.to_vec()),
        }
    }
}

impl CompactionFilter for Arc<ByFirstByte> {
    fn name(&self) -> &str {
        "by-first-byte"
    }

    fn wants(&self, _key: &[u8]) -> Wants {
        Wants::Value
    }

    fn decide(&self, _key: &[u8], value: &[u8]) -> Decision {
        self.asked.fetch_add(1, Ordering::Relaxed);
        assert!(value.first() != Some(&b'!'), "as planned");
        match ByFirstByte::of(value) {
            None => Decision::Drop,
            Some(same) if same == value => Decision::Keep,
            Some(changed) => Decision::Change(changed),
        }
    }
}

/// The same options, with the filter.
pub fn filtering(options: Options) -> (Options, Arc<ByFirstByte>) {
    let filter = Arc::new(ByFirstByte::default());
    let compaction_filter = FilterOption::of(Arc::clone(&filter));
    (Options { compaction_filter, ..options }, filter)
}

fn at(snapshot: &Snapshot, key: &str) -> Result<Option<String>> {
    let item = snapshot.get(key.as_bytes(), &GetOptions::default())?;
    Ok(item.map(|item| String::from_utf8(item.value).expect("text")))
}

fn shown(store: &Store) -> Result<String> {
    let mut iter = store.iter(IterOptions::default())?;
    iter.seek_to_first()?;
    let mut seen = Vec::new();
    while let Some(entry) = iter.entry() {
        seen.push(format!("{}={}", entry.key.escape_ascii(), entry.value.escape_ascii()));
        iter.next()?;
    }
    Ok(seen.join(" "))
}

#[test]
fn a_compaction_of_everything_asks_about_everything() -> Result<()> {
    simulate(1, |env| {
        let (options, filter) = filtering(lazy());
        let store = open(env, &options)?;
        put(&store, "a", "v")?;
        put(&store, "b", "v")?;
        store.compact(&KeyRange::all())?;
        for (key, value) in [("b", "x"), ("c", "c1"), ("d", "x")] {
            put(&store, key, value)?;
        }
        filter.asked.store(0, Ordering::Relaxed);
        store.flush()?;
        assert_eq!(filter.asked.load(Ordering::Relaxed), 0, "a flush asks nobody");
        assert_eq!(shown(&store)?, "a=v b=x c=c1 d=x");
        store.compact(&KeyRange::all())?;
        assert_eq!(shown(&store)?, "a=v c=C1", "and no older value of b");
        let stats = store.stats();
        assert_eq!((stats.filtered_dropped_count, stats.filtered_changed_count), (2, 1));
        let entries: u64 = stats.levels.iter().map(|level| level.entry_count).sum();
        assert_eq!(entries, 2, "nothing is left of them");
        assert!(stats.to_string().contains("2 values dropped, 1 changed"), "{stats}");
        drop(store);
        // What lies in the last level already is asked about too, by a filter that came later.
        let store = open(env, &lazy())?;
        for index in 0..300 {
            let value = if index % 3 == 0 { "x" } else { "v" };
            put(&store, &format!("k{index:03}"), &value.repeat(100))?;
        }
        store.compact(&KeyRange::all())?;
        drop(store);
        let (options, _) = filtering(lazy());
        let store = open(env, &options)?;
        store.compact(&KeyRange::new("k0", Some(b"k1".to_vec())))?;
        assert_eq!(get(&store, "k003")?, None);
        store.compact(&KeyRange::all())?;
        let left = shown(&store)?.split(' ').count();
        assert_eq!(left, 202);
        assert!(store.check(&mut |_, _| ())?.is_clean());
        Ok(())
    })
}

#[test]
fn what_a_snapshot_or_an_iterator_sees_stays() -> Result<()> {
    simulate(2, |env| {
        let (options, _) = filtering(lazy());
        let store = open(env, &options)?;
        put(&store, "a", "x1")?;
        put(&store, "b", "c1")?;
        let snapshot = store.snapshot();
        put(&store, "a", "x2")?;
        put(&store, "c", "x3")?;
        store.compact(&KeyRange::all())?;
        assert_eq!(shown(&store)?, "b=c1", "what came after the snapshot was asked about");
        assert_eq!(at(&snapshot, "a")?.as_deref(), Some("x1"));
        assert_eq!(at(&snapshot, "b")?.as_deref(), Some("c1"));
        assert_eq!(at(&snapshot, "c")?, None);
        drop(snapshot);
        put(&store, "a", "x4")?;
        let mut iter = store.iter(IterOptions::default())?;
        iter.seek_to_first()?;
        store.compact(&KeyRange::all())?;
        assert_eq!(shown(&store)?, "b=C1");
        // Far enough to go on in another view, and from the beginning.
        let twin = iter.twin()?;
        for mut iter in [iter, twin] {
            for _ in 0..200 {
                iter.seek(b"a")?;
                assert_eq!(iter.entry().map(|entry| entry.value.to_vec()), Some(b"x4".to_vec()));
                iter.next()?;
                assert_eq!(iter.entry().map(|entry| entry.value.to_vec()), Some(b"c1".to_vec()));
                iter.prev()?;
                assert_eq!(iter.entry().map(|entry| entry.key.to_vec()), Some(b"a".to_vec()));
            }
        }
        Ok(())
    })
}

/// Takes a snapshot when a job has filtered something and before that is installed.
#[derive(Debug)]
struct Intruder {
    inner: LocalExecutor,
    store: terrace_env::Latch<Option<Store>>,
    taken: terrace_env::Latch<Option<Snapshot>>,
    jobs: AtomicU64,
}

impl CompactionExecutor for Intruder {
    fn run(
        &self,
        plan: &CompactionPlan,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<CompactionOutcome> {
        self.jobs.fetch_add(1, Ordering::Relaxed);
        let outcome = self.inner.run(plan, is_cancelled)?;
        let store = self.store.lock().clone();
        if let Some(store) = store.filter(|_| outcome.filtered.least.is_some()) {
            let snapshot = store.snapshot();
            *self.taken.lock() = Some(snapshot);
        }
        Ok(outcome)
    }
}

#[test]
fn a_snapshot_that_comes_while_a_job_runs_sets_the_filter_aside() -> Result<()> {
    simulate(3, |env| {
        let (options, filter) = filtering(lazy());
        let process = process(env)?;
        let mut seams = Seams::local(&process, Path::new(DIR), &options);
        let inner = LocalExecutor::new(env, Arc::clone(&seams.opener))
            .with_operators(options.merge_operators.clone())
            .with_filter(options.compaction_filter.clone());
        let intruder = Arc::new(Intruder {
            inner,
            store: terrace_env::Latch::default(),
            taken: terrace_env::Latch::default(),
            jobs: AtomicU64::new(0),
        });
        seams.executor = Arc::<Intruder>::clone(&intruder);
        let store = Store::open_with(&process, Path::new(DIR), options, seams)?;
        put(&store, "a", "x1")?;
        put(&store, "b", "c1")?;
        *intruder.store.lock() = Some(store.clone());
        store.compact(&KeyRange::all())?;
        intruder.store.lock().take();
        let snapshot = intruder.taken.lock().take().expect("it came in between");
        assert!(filter.asked.load(Ordering::Relaxed) >= 2, "the filter was asked");
        assert_eq!(intruder.jobs.load(Ordering::Relaxed), 2, "the job was done once more");
        for _ in 0..2 {
            assert_eq!(at(&snapshot, "a")?.as_deref(), Some("x1"));
            assert_eq!(at(&snapshot, "b")?.as_deref(), Some("c1"));
            assert_eq!(shown(&store)?, "a=x1 b=c1");
            store.compact(&KeyRange::all())?;
        }
        let stats = store.stats();
        assert_eq!((stats.filtered_dropped_count, stats.filter_set_aside_count), (0, 1));
        let version = store.inner.versions.current();
        let there = store.inner.context.opener.store.list()?.len();
        assert_eq!(there, version.tables().count(), "nothing is left of the first attempt");
        drop(snapshot);
        store.compact(&KeyRange::all())?;
        assert_eq!(shown(&store)?, "b=C1");
        Ok(())
    })
}

#[test]
fn no_snapshot_is_taken_between_the_decision_and_the_view() -> Result<()> {
    for seed in 0..200 {
        simulate(seed, |env| {
            let (options, _) = filtering(lazy());
            let store = open(env, &options)?;
            for index in 0..8 {
                put(&store, &format!("k{index}"), if index % 2 == 0 { "x" } else { "c" })?;
            }
            store.flush()?;
            let reader = {
                let (store, env) = (store.clone(), Arc::clone(env));
                move || {
                    for _ in 0..40 {
                        let snapshot = store.snapshot();
                        let before: Vec<_> = (0..8)
                            .map(|index| at(&snapshot, &format!("k{index}")).expect("whole"))
                            .collect();
                        env.yield_now();
                        env.wall_time();
                        for (index, before) in before.iter().enumerate() {
                            let after = at(&snapshot, &format!("k{index}")).expect("whole");
                            assert_eq!(&after, before, "seed {seed}, k{index}");
                        }
                    }
                }
            };
            let reader = env.spawn(JobClass::Client, "reader", Box::new(reader))?;
            store.compact(&KeyRange::all())?;
            assert!(reader.join(), "seed {seed}: the reader panicked");
            store.compact(&KeyRange::all())?;
            assert_eq!(shown(&store)?, "k1=C k3=C k5=C k7=C", "seed {seed}");
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

#[test]
fn a_transaction_still_finds_what_was_written_and_filtered() -> Result<()> {
    simulate(5, |env| {
        let (options, _) = filtering(lazy());
        let store = open(env, &options)?;
        put(&store, "a", "v1")?;
        let mut reads = ReadSet::new(&store.snapshot());
        reads.note_key(b"a")?;
        reads.note_key(b"b")?;
        // Both are gone again before the commit, and a trace of each is left.
        put(&store, "b", "x")?;
        store.compact(&KeyRange::all())?;
        assert_eq!(get(&store, "b")?, None);
        let mut batch = WriteBatch::new();
        batch.put(b"c", b"v")?;
        let committed = store.write_if_unchanged(&reads, &batch, &WriteOptions::default());
        assert!(matches!(committed, Err(Error::Conflict(_))), "{committed:?}");
        drop(reads);
        // What was filtered before it began is no conflict.
        let mut reads = ReadSet::new(&store.snapshot());
        reads.note_key(b"b")?;
        store.compact(&KeyRange::all())?;
        store.write_if_unchanged(&reads, &batch, &WriteOptions::default())?;
        Ok(())
    })
}

#[test]
fn a_filter_that_panics_fails_the_job_and_nothing_else() -> Result<()> {
    simulate(6, |env| {
        let (options, _) = filtering(small());
        let store = open(env, &options)?;
        put(&store, "a", "v")?;
        put(&store, "b", "!")?;
        put(&store, "c", "x")?;
        let failed = store.compact(&KeyRange::all()).expect_err("it panics");
        let text = failed.to_string();
        assert!(matches!(failed, Error::Filter(_)), "{text}");
        assert!(text.contains("by-first-byte") && text.contains("as planned"), "{text}");
        assert_eq!(shown(&store)?, "a=v b=! c=x");
        // In the background, too; and whoever asks for the figures is told.
        for index in 0..60 {
            // Rows that overlap the key in question cannot go down as they are.
            put(&store, "a", &format!("v{index}"))?;
            put(&store, "d", &"v".repeat(500))?;
            store.flush()?;
            env.sleep(std::time::Duration::from_millis(20));
            if store.stats().failed_work.values().any(|work| work.count > 0) {
                break;
            }
        }
        let failed = store.stats().failed_work;
        let told = |work: &crate::store::FailedWorkStats| work.last_error.contains("by-first-byte");
        assert!(failed.values().any(told), "{failed:?}");
        store.close()?;
        drop(store);
        let store = open(env, &Options { compaction_filter: FilterOption::default(), ..options })?;
        store.compact(&KeyRange::all())?;
        assert!(shown(&store)?.contains(" b=! c=x d="));
        assert!(store.check(&mut |_, _| ())?.is_clean());
        Ok(())
    })
}

#[test]
fn large_values_are_shown_whole() -> Result<()> {
    simulate(7, |env| {
        let value_log = ValueLogOptions {
            large_bytes: 32,
            space_ratio_percent: 130,
            ..ValueLogOptions::default()
        };
        let (options, _) = filtering(Options { value_log: Some(value_log), ..lazy() });
        let store = open(env, &options)?;
        put(&store, "a", &"x".repeat(5000))?;
        put(&store, "b", &"v".repeat(5000))?;
        put(&store, "c", &format!("c{}", "v".repeat(5000)))?;
        store.compact(&KeyRange::all())?;
        let wanted = format!("b={} c=C{}", "v".repeat(5000), "v".repeat(5000));
        assert_eq!(shown(&store)?, wanted);
        store.settle();
        assert!(store.check(&mut |_, _| ())?.is_clean());
        Ok(())
    })
}
