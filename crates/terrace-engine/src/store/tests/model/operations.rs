//! The store equals a `BTreeMap` over random operation lists with restarts, snapshots, expiry and
//! both scan directions.

use std::time::Duration;

use terrace_base::KeyRange;
use terrace_env::{SeededRng, SharedEnv};

use crate::options::{Durability, Options};
use crate::store::tests::workload::{Model, Shape};
use crate::store::tests::{draw_l0, draw_value_log, open, simulate, small};
use crate::store::{GetOptions, Iter, IterOptions, Snapshot, Store};
use crate::table::Compression;
use crate::{Error, Result};

pub fn options(random: &mut SeededRng) -> Options {
    let mut options = small();
    options.durability = match random.below(3) {
        0 => Durability::Buffered,
        1 => Durability::Interval(Duration::from_millis(50)),
        _ => Durability::Sync,
    };
    options.table.compression =
        [Compression::None, Compression::Lz4, Compression::Zstd][random.below(3) as usize];
    options.table.block_bytes = [64, 512, 4096][random.below(3) as usize];
    // None, one that runs over, one that does not.
    options.lookup_index_bytes = [0, 256, 64 << 10][random.below(3) as usize];
    options.memtables_kept = random.below(2) as usize;
    options.research.scan_all_memtables = random.one_in(3);
    match random.below(4) {
        0 | 1 => options.memtable_merging = true,
        2 => options.research.flush_all_versions = true,
        _ => {}
    }
    options.cut_bytes = [1, 4 << 10, 12 << 10, 0][random.below(4) as usize];
    if random.one_in(3) {
        options.drange_boundaries = vec![b"common/q".to_vec(), b"k00100".to_vec()];
    } else {
        options.dranges = [1, 2, 4][random.below(3) as usize];
    }
    options.value_log = draw_value_log(random);
    draw_l0(options, random)
}

pub struct Run {
    pub random: SeededRng,
    pub shape: Shape,
    pub model: Model,
    pub snapshots: Vec<(Snapshot, Model)>,
}

impl Run {
    pub fn write(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let count = if self.random.one_in(4) { self.random.below(12) + 1 } else { 1 };
        let now = env.wall_time();
        self.model.write(store, &self.shape.changes(&mut self.random, now, count))
    }

    pub fn check_key(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let key = self.shape.key(&mut self.random);
        let now = env.wall_time();
        let expected = self.model.get(&key, now).map(<[u8]>::to_vec);
        let found = match store
            .get(&key, &GetOptions { wait: self.random.one_in(2), ..GetOptions::default() })
        {
            Err(Error::NeedsIo) => store.get(&key, &GetOptions::default())?,
            found => found?,
        };
        if env.wall_time() == now {
            assert_eq!(
                found.map(|item| item.value),
                expected,
                "{:?}",
                key.escape_ascii().to_string()
            );
        }
        Ok(())
    }

    /// Goal: many at once, and by reference, say what one get by one says.
    pub fn check_keys(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let count = self.random.below(40);
        let keys: Vec<Vec<u8>> = (0..count).map(|_| self.shape.key(&mut self.random)).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let now = env.wall_time();
        let found = match store
            .multi_get(&keys, &GetOptions { wait: self.random.one_in(2), ..GetOptions::default() })
        {
            Err(Error::NeedsIo) => store.multi_get(&keys, &GetOptions::default())?,
            found => found?,
        };
        if env.wall_time() == now {
            let found: Vec<Option<&[u8]>> = found.iter().map(Option::as_deref).collect();
            let expected: Vec<_> = keys.iter().map(|key| self.model.get(key, now)).collect();
            assert_eq!(found, expected);
        }
        Ok(())
    }

    pub fn range(&mut self) -> KeyRange {
        match self.random.below(3) {
            0 => KeyRange::all(),
            1 => KeyRange::new(self.shape.key(&mut self.random), None),
            _ => {
                let (a, b) = (self.shape.key(&mut self.random), self.shape.key(&mut self.random));
                KeyRange::new(a.clone().min(b.clone()), Some(a.max(b)))
            }
        }
    }

    pub fn check_scan(&mut self, env: &SharedEnv, store: &Store) -> Result<()> {
        let range = self.range();
        let options = IterOptions { range: range.clone(), ..IterOptions::default() };
        let now = env.wall_time();
        let which = self.random.below(self.snapshots.len() as u64 + 1) as usize;
        let (mut iter, model) = match self.snapshots.get(which) {
            Some((snapshot, model)) => (snapshot.iter(options)?, model.clone()),
            None => (store.iter(options)?, self.model.clone()),
        };
        if env.wall_time() != now {
            return Ok(());
        }
        let expected: Vec<_> =
            model.alive(now).into_iter().filter(|(key, _)| range.contains(key)).collect();
        check_walk(&mut self.random, &mut iter, &expected)
    }
}

/// Walks `iter` forward, backward, and to and fro, over what it should show.
pub fn check_walk(
    random: &mut SeededRng,
    iter: &mut Iter,
    expected: &[(&[u8], &[u8])],
) -> Result<()> {
    let shown = |iter: &Iter| iter.entry().map(|entry| (entry.key.to_vec(), entry.value.to_vec()));
    let at = |index: usize| expected.get(index).map(|(k, v)| (k.to_vec(), v.to_vec()));
    iter.seek_to_first()?;
    for index in 0..=expected.len() {
        assert_eq!(shown(iter), at(index), "forward at {index}");
        if index < expected.len() {
            iter.next()?;
        }
    }
    iter.seek_back(None)?;
    for index in (0..expected.len()).rev() {
        assert_eq!(shown(iter), at(index), "backward at {index}");
        iter.prev()?;
    }
    assert_eq!(shown(iter), None, "before the first");
    if expected.is_empty() {
        return Ok(());
    }
    let mut index = random.below(expected.len() as u64) as usize;
    iter.seek(expected[index].0)?;
    for _ in 0..20 {
        assert_eq!(shown(iter), at(index), "to and fro at {index}");
        if random.one_in(2) && index > 0 {
            index -= 1;
            iter.prev()?;
        } else if index + 1 < expected.len() {
            index += 1;
            iter.next()?;
        }
    }
    Ok(())
}

fn run(seed: u64, steps: u32) -> Result<()> {
    simulate(seed, |env| {
        let mut random = SeededRng::new(seed);
        let options = options(&mut random);
        let shape = Shape::draw(&mut random);
        let mut run = Run { random, shape, model: Model::default(), snapshots: Vec::new() };
        let mut store = open(env, &options)?;
        if seed.is_multiple_of(3) {
            store.divide_among(Vec::new(), &[3])?;
        }
        for _ in 0..steps {
            match run.random.below(100) {
                0..70 => run.write(env, &store)?,
                70..82 => run.check_key(env, &store)?,
                82..85 => run.check_keys(env, &store)?,
                85..90 => run.check_scan(env, &store)?,
                90..92 => run.snapshots.push((store.snapshot(), run.model.clone())),
                92..94 => drop(run.snapshots.pop()),
                94 => store.flush()?,
                95 if run.random.one_in(2) => {
                    let count = run.random.below(4);
                    let mut keys: Vec<_> =
                        (0..count).map(|_| run.shape.key(&mut run.random)).collect();
                    keys.retain(|key| !key.is_empty());
                    keys.sort();
                    keys.dedup();
                    let most = if run.random.one_in(2) { 4 } else { 1 };
                    let duplicates: Vec<_> =
                        (0..=keys.len()).map(|_| 1 + run.random.below(most) as usize).collect();
                    store.divide_among(keys, &duplicates)?;
                }
                95 if run.random.one_in(2) => store.compact(&run.range())?,
                96..98 => env.sleep(Duration::from_millis(run.random.below(3000))),
                98 if run.random.one_in(2) => {
                    run.snapshots.clear();
                    if run.random.one_in(2) {
                        store.close()?;
                    }
                    drop(store);
                    store = open(env, &options)?;
                }
                _ => {}
            }
        }
        run.check_scan(env, &store)?;
        let report = store.check(&mut |_, _| ())?;
        assert!(report.is_clean(), "{report}");
        Ok(())
    })
}

#[test]
fn the_store_equals_an_ordered_map_over_random_operations() {
    for seed in 0..60 {
        if let Err(error) = run(seed, 600) {
            panic!("seed {seed}: {error}");
        }
    }
}
