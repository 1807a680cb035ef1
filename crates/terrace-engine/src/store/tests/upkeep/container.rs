//! Goal: a range whose L0 is a container says what an ordered map says, whatever is flushed, cut,
//! given back and opened again meanwhile. Method: single cases by hand; and random operation lists
//! over containers so small that rows run over into files, with snapshots and iterators that stay
//! open.

use std::time::Duration;

use terrace_base::{KeyRange, LevelNo};
use terrace_env::SharedEnv;

use crate::options::L0Kind;
use crate::store::tests::model::operations::{self, Run, check_walk};
use crate::store::tests::workload::{Content, Model, Shape};
use crate::store::tests::*;
use crate::store::{Iter, IterOptions, L0Report};

const MEMORY: &str = "/memory";

/// A container of `bytes` bytes in pages of 4 KiB; nothing is due by itself before it is full.
fn container(env: &SharedEnv, kind: L0Kind, bytes: u64) -> Result<Options> {
    env.fs().create_dir_all(MEMORY.as_ref())?;
    Ok(of_kind(small(), kind, MEMORY, bytes))
}

fn fill(store: &Store, keys: std::ops::Range<u32>, text: &str) -> Result<()> {
    keys.into_iter().try_for_each(|key| put(store, &format!("{key:04}"), text))
}

/// What happened: a row whose table nobody had opened went when the next one was flushed, and its
/// pages became the next one's. Whoever read it then was told of damage.
#[test]
fn a_row_that_nobody_read_stays_when_the_next_is_flushed() -> Result<()> {
    simulate(71, |env| {
        let options = container(env, L0Kind::Container, 256 << 10)?;
        let store = open(env, &options)?;
        for round in 0..3 {
            fill(&store, round * 50..round * 50 + 100, &format!("{round}"))?;
            store.flush()?;
        }
        for key in 0..200 {
            let expected = (key / 50).min(2).to_string();
            assert_eq!(get(&store, &format!("{key:04}"))?, Some(expected), "{key}");
        }
        store.close()?;
        drop(store);
        let store = open(env, &options)?;
        assert_eq!(get(&store, "0000")?.as_deref(), Some("0"));
        Ok(())
    })
}

/// Whoever opens a container says from when on it is cut.
#[test]
fn cuts_begin_at_the_fill_that_is_asked_for() -> Result<()> {
    simulate(73, |env| {
        let mut begun_at = Vec::new();
        for l0_start_percent in [60, 20] {
            let options = container(env, L0Kind::Container, 256 << 10)?;
            let options = Options { l0_start_percent, ..options };
            let dir = format!("/range-{l0_start_percent}");
            let store = Store::open(&process(env)?, dir.as_ref(), options)?;
            fill(&store, 0..1, "one row makes the container")?;
            store.flush()?;
            let L0Report { start, slow, stop, .. } = store.l0()?;
            assert_eq!(start, stop / 100 * l0_start_percent);
            assert_eq!(slow, start + (stop - start) / 4);
            let mut most = 0;
            for round in 0.. {
                if store.stats().l0.cuts > 0 {
                    break;
                }
                most = most.max(store.stats().l0.bytes);
                fill(&store, round % 10 * 20..round % 10 * 20 + 20, &"x".repeat(100))?;
                store.flush()?;
                store.settle();
            }
            begun_at.push(most);
        }
        let [high, low] = begun_at[..] else { unreachable!("two runs") };
        assert!(low < high / 2, "a cut was due at {low} and at {high} bytes");
        Ok(())
    })
}

/// An iterator that is open while its snapshot's rows are cut, and what it showed.
struct Held {
    iter: Iter,
    content: Content,
}

/// What the runs came to, so that they do not pass by what they are for.
#[derive(Debug, Default)]
struct Met {
    cuts: u64,
    /// Number of rows that lie in pages and in files.
    divided_rows: u64,
    /// Number of rows that cuts took something of.
    cut_rows: u64,
}

impl Met {
    fn look(&mut self, store: &Store, report: &L0Report) {
        self.cuts += store.stats().l0.cuts;
        let divided = |pages: u64, tables: u64| pages > 0 && pages < tables;
        for row in &report.rows {
            self.divided_rows += u64::from(divided(row.page_table_count, row.table_count));
            self.cut_rows += u64::from(row.page_table_count > 0 && row.live_bytes < row.bytes);
        }
    }
}

fn hold(run: &Run, env: &SharedEnv, store: &Store) -> Result<Option<Held>> {
    let now = env.wall_time();
    let iter = store.iter(IterOptions::default())?;
    let content = run.model.content(now);
    Ok((env.wall_time() == now).then_some(Held { iter, content }))
}

fn let_go(run: &mut Run, held: &mut Vec<Held>) -> Result<()> {
    if held.is_empty() {
        return Ok(());
    }
    let index = run.random.below(held.len() as u64) as usize;
    let mut one = held.swap_remove(index);
    let content: Vec<_> = one.content.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    check_walk(&mut run.random, &mut one.iter, &content)
}

fn draw_options(env: &SharedEnv, random: &mut SeededRng) -> Result<Options> {
    let kind = [L0Kind::Container, L0Kind::Container, L0Kind::Matrix][random.below(3) as usize];
    let bytes = [64, 96, 128, 512][random.below(4) as usize] << 10;
    env.fs().create_dir_all(MEMORY.as_ref())?;
    Ok(of_kind(operations::options(random), kind, MEMORY, bytes))
}

fn run(seed: u64, steps: u32, met: &mut Met) -> Result<()> {
    simulate(seed, |env| {
        let mut random = SeededRng::new(seed);
        let mut options = draw_options(env, &mut random)?;
        let shape = Shape::draw(&mut random);
        let mut run = Run { random, shape, model: Model::default(), snapshots: Vec::new() };
        let mut held: Vec<Held> = Vec::new();
        let mut store = open(env, &options)?;
        for _ in 0..steps {
            match run.random.below(100) {
                0..56 => run.write(env, &store)?,
                56..65 => run.check_key(env, &store)?,
                65..67 => run.check_keys(env, &store)?,
                67..71 => run.check_scan(env, &store)?,
                71..73 => run.snapshots.push((store.snapshot(), run.model.clone())),
                73..75 => drop(run.snapshots.pop()),
                75..78 => held.extend(hold(&run, env, &store)?),
                78..81 => let_go(&mut run, &mut held)?,
                81..88 => store.flush()?,
                88..93 => {
                    let key = run.shape.key(&mut run.random);
                    let end = [&key[..], &[0]].concat();
                    store.inner.force(LevelNo(0), &KeyRange::new(key, Some(end)))?;
                }
                93 if run.random.one_in(3) => store.compact(&run.range())?,
                94..96 => env.sleep(Duration::from_millis(run.random.below(3000))),
                96 => met.look(&store, &store.l0()?),
                97 if run.random.one_in(2) => {
                    run.snapshots.clear();
                    held.clear();
                    if run.random.one_in(2) {
                        store.close()?;
                    }
                    drop(store);
                    if run.random.one_in(2) {
                        let kind = [L0Kind::Plain, L0Kind::Container, L0Kind::Matrix]
                            [run.random.below(3) as usize];
                        let bytes = [64, 96, 256][run.random.below(3) as usize] << 10;
                        options = of_kind(options, kind, MEMORY, bytes);
                    }
                    store = open(env, &options)?;
                }
                _ => {}
            }
        }
        run.check_scan(env, &store)?;
        met.look(&store, &store.l0()?);
        while !held.is_empty() {
            let_go(&mut run, &mut held)?;
        }
        let report = store.check(&mut |_, _| ())?;
        assert!(report.is_clean(), "{report}");
        run.snapshots.clear();
        check_pages_go(&store, options.l0_kind())
    })
}

/// Nobody holds anything, and everything is below L0: but for the last row, which is kept until the
/// next one is flushed, every page is free.
fn check_pages_go(store: &Store, kind: L0Kind) -> Result<()> {
    store.compact(&KeyRange::all())?;
    store.settle();
    put(store, "k", "v")?;
    store.flush()?;
    store.inner.force(LevelNo(0), &KeyRange::all())?;
    store.settle();
    let stats = store.stats().l0;
    assert_eq!((stats.rows, stats.bytes), (0, 0), "{stats:?}");
    let used = stats.pages_total - stats.pages_free;
    assert!(!kind.has_container() || used <= 4, "{stats:?}");
    Ok(())
}

#[test]
fn a_container_equals_an_ordered_map_over_random_operations() {
    let mut met = Met::default();
    for seed in 0..60 {
        if let Err(error) = run(seed, 500, &mut met) {
            panic!("seed {seed}: {error}");
        }
    }
    assert!(met.cuts > 0 && met.divided_rows > 0 && met.cut_rows > 0, "{met:?}");
}
