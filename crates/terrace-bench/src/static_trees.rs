//! Many trees side by side, each over a fixed share of the keys: what dranges are compared with.
//!
//! # Source
//! Nova-LSM (SIGMOD 2021), §8.3: `LevelDB*` and `RocksDB*`, 64 instances in one server.
//!
//! # Differs
//! The trees are databases of one process, so that they share the block cache and the background
//! threads; the memory of memtables is divided among them.

use std::path::Path;

use terrace::{Db, DiskProfile, Options};

use crate::CloudRequests;
use crate::records::Records;
use crate::store::{Counters, Delays, Store, StoreError};
use crate::terrace_store::TerraceStore;

/// Databases over neighbouring intervals of keys, as one store. A scan goes on from one to the
/// next.
pub struct StaticTrees {
    /// In key order; never empty.
    trees: Vec<TerraceStore>,
    /// The first key of each tree but the first.
    starts: Vec<Vec<u8>>,
}

/// The least memory that a memtable may have.
const MEMTABLE_BYTES_MIN: u64 = 16 << 10;

impl StaticTrees {
    /// Opens `count` databases (at least 1) in directories below `dir`, each for as many of the
    /// records as the others. `options` are for all of them together: each gets its share of
    /// `memtable_bytes`, 16 KiB at the least; `disk`: a slower disk that they share.
    ///
    /// Errors: as [`Db::open`].
    pub fn open(
        dir: &Path,
        options: &Options,
        disk: Option<DiskProfile>,
        records: &Records,
        count: u64,
    ) -> terrace::Result<StaticTrees> {
        let share = options.memtable_bytes / count;
        let options = options.clone().memtable_bytes(share.max(MEMTABLE_BYTES_MIN));
        let dir_of = |tree: u64| dir.join(format!("tree-{tree:03}"));
        let first = match disk {
            Some(profile) => options.open_on_disk(dir_of(0), profile)?,
            None => options.open(dir_of(0))?,
        };
        let beside = (1..count).map(|tree| options.open_beside(&first, dir_of(tree)));
        let beside = beside.collect::<terrace::Result<Vec<Db>>>()?;
        let start = |tree| {
            let mut key = Vec::new();
            let place = u128::from(records.count()) * u128::from(tree) / u128::from(count);
            let place = u64::try_from(place).expect("it is below the number of records");
            records.write_key(records.slot_in_order(place), &mut key);
            key
        };
        Ok(StaticTrees {
            trees: std::iter::once(first).chain(beside).map(TerraceStore::new).collect(),
            starts: (1..count).map(start).collect(),
        })
    }

    /// The databases, in key order; the caller closes them.
    pub fn dbs(&self) -> impl Iterator<Item = &Db> {
        self.trees.iter().map(TerraceStore::db)
    }

    /// The tree that a key belongs to.
    fn at(&self, key: &[u8]) -> usize {
        self.starts.partition_point(|start| start.as_slice() <= key)
    }
}

impl Store for StaticTrees {
    fn get(&self, key: &[u8]) -> Result<Option<usize>, StoreError> {
        self.trees[self.at(key)].get(key)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.trees[self.at(key)].put(key, value)
    }

    fn scan(&self, start: &[u8], count: u64) -> Result<u64, StoreError> {
        let mut found = 0;
        // What lies in the trees that follow is above `start` anyway.
        for tree in &self.trees[self.at(start)..] {
            found += tree.scan(start, count - found)?;
            if found == count {
                break;
            }
        }
        Ok(found)
    }

    fn counters(&self) -> Option<Counters> {
        let each = self.trees.iter().map(Store::counters);
        each.reduce(|sum, one| {
            let (sum, one) = (sum?, one?);
            Some(Counters {
                user_bytes: sum.user_bytes + one.user_bytes,
                written_bytes: sum.written_bytes + one.written_bytes,
            })
        })?
    }

    fn delays(&self) -> Option<Delays> {
        let each = self.trees.iter().map(Store::delays);
        each.reduce(|sum, one| Some(sum?.and(&one?)))?
    }

    fn cloud_requests(&self) -> Option<CloudRequests> {
        let each = self.trees.iter().map(Store::cloud_requests);
        each.reduce(|sum, one| Some(sum?.and(&one?)))?
    }

    fn memory_bytes(&self) -> Option<u64> {
        // One account for the process that they share.
        self.trees[0].memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: many trees hold what one would. Method: a workload whose reads and scans are counted.

    use super::*;
    use crate::{BenchOptions, Silent, run};
    use terrace::Layout;

    #[test]
    fn records_are_divided_evenly_and_scans_go_on_in_the_next_tree() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::new(1000, 16);
        let options = Options::new().memtable_bytes(8 << 20).layout(Layout::new().dranges(1));
        let store = StaticTrees::open(dir.path(), &options, None, &records, 7).unwrap();
        let load = |workload: &str| BenchOptions {
            workload: workload.to_owned(),
            records: 1000,
            operations: 500,
            ..BenchOptions::default()
        };
        run(&store, &load("load"), &Silent).unwrap();
        let shares: Vec<u64> = store.dbs().map(|db| db.admin().stats().write_count).collect();
        assert_eq!(shares.iter().sum::<u64>(), 1000);
        assert!(shares.iter().all(|share| (142..=143).contains(share)), "{shares:?}");
        let report = run(&store, &load("c"), &Silent).unwrap();
        assert_eq!((report.reads_not_found, report.load_ops_per_s), (0, None));
        let mut key = Vec::new();
        records.write_key(records.slot_in_order(100), &mut key);
        assert_eq!(store.scan(&key, 300).unwrap(), 300, "over three trees");
        assert_eq!(store.scan(&key, 1000).unwrap(), 900, "up to the last");
        let counters = store.counters().unwrap();
        let put: u64 = store.dbs().map(|db| db.admin().stats().write_bytes).sum();
        assert!(counters.user_bytes == put && put >= 1000 * (16 + 256), "{counters:?}");
        assert!(counters.written_bytes > counters.user_bytes);
        assert!(store.delays().is_some());
        store.dbs().for_each(|db| db.close().unwrap());
    }
}
