//! The baselines that papers are compared with: what Terrace does otherwise, done as others do it.
//!
//! A claim such as "fewer stalls" means something only beside what it is fewer than, so the
//! baselines are compiled, tested and measured like the rest. None of them is of use besides, and a
//! program that embeds the library meets them only with the feature `research`.

use std::time::Duration;

use super::{L0Kind, L0Medium, L0Options, Options, require};
use crate::{Error, Result};

/// Which baselines a range is opened with; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Research {
    /// A scan opens the memtables of all dranges at once, and not those of the drange that it
    /// stands in. *Beside:* the range index of Nova-LSM (SIGMOD 2021), section 4.1.2.
    pub scan_all_memtables: bool,
    /// A flush writes every version of every key, also those that no read can ask for. *Beside:*
    /// the memtables of Nova-LSM (SIGMOD 2021), section 4.2. It cannot be used with
    /// `memtable_merging`.
    pub flush_all_versions: bool,
    /// A cut takes all rows of plain tables at once and is not divided among threads, and writers
    /// are slowed down and stopped at as many tables as in RocksDB, or with `pmem_memtables` as in
    /// LevelDB. *Beside:* the cuts of TriangleKV (TPDS 2022), section 3.2.
    pub l0_cut_all: bool,
    /// Columns are cut out of a set of rows in the container, and rows that come meanwhile wait for
    /// the next set (MatrixKV). *Beside:* the triangle of TriangleKV (TPDS 2022), section 3.1.
    pub l0_matrix: bool,
    /// Two memtables of half of these bytes each lie on this medium, and are flushed to plain
    /// tables in the range's own directory (NoveLSM). They are mutable where they are, and the log
    /// brings them back after a crash. *Beside:* TriangleKV (TPDS 2022), section 5.
    pub pmem_memtables: Option<L0Medium>,
    /// A compaction hands nothing on of what was read of its inputs in the object store: the
    /// persistent cache only drops it, as in RocksMash (TACO 2022), section 3.2. *Beside:* blocks
    /// of its outputs that are kept as they are written.
    pub near_drops: bool,
    /// What is written anew on the local disk comes into the block cache when it is read, and not
    /// as it is written where its keys were read before. *Beside:* blocks that are handed on.
    pub cache_drops: bool,
    /// What is kept on the local disk of tables in the object store beside their metadata.
    /// *Beside:* the data cache of RocksMash (TACO 2022), section 3.2.
    pub near: NearDesign,
    /// A read that has to ask the object store for a block keeps that block alone on the local
    /// disk, as in RocksMash (TACO 2022), section 3.2. *Beside:* those around it, while there is
    /// room.
    pub near_alone: bool,
    /// A scan asks the object store for a block when it comes to it, and a read of several keys for
    /// one after the other, as in RocksMash (TACO 2022), section 3.2. *Beside:* all that they will
    /// wait for, at once.
    pub far_one_by_one: bool,
    /// Bytes of a bucket of blocks on the local disk, if not 8 MiB: at least 64 KiB. *Beside:* 40
    /// and 120 MB in RocksMash (TACO 2022), figure 20.
    pub near_bucket_bytes: Option<u64>,
    /// The metadata of tables in the object store are kept neither on the local disk nor in memory:
    /// each look into a table fetches them. *Beside:* the metadata cache of RocksMash (TACO 2022),
    /// section 3.2; "no metadata cache" in figures 17a and b.
    pub near_meta_none: bool,
    /// What scans have to spend on rows of L0 before a cut is made for them, in percent of what the
    /// cut costs; with 0 each of them pays for one. *Beside:* 100, and compactions that heed no
    /// read, as in LevelDB, if it is very large.
    pub scan_price_percent: Option<u32>,
    /// How long nobody has written when rows of L0 go down though few of them share a key, if not
    /// two seconds. *Beside:* rows that stay for as long as nobody writes, as in RocksDB, with
    /// [`Duration::MAX`].
    pub rest: Option<Duration>,
    /// Tables in the object store have a filter and an index, as those on the local disk have.
    /// *Beside:* the tries of RocksMash (TACO 2022), section 3.3.
    pub far_filters: bool,
    /// Tables below L0 on the local disk have tries too, as those in the object store: the other
    /// side of the same comparison, without a store.
    pub local_tries: bool,
    /// The log gets as long as it gets: its length calls for no flush and for no moment in the
    /// object store, and stops nobody. With a mirror that never comes, whoever takes the range over
    /// replays all of it: the basic recovery of RocksMash (TACO 2022), section 4.5. *Beside:*
    /// moments, which bound what is replayed.
    pub log_unbounded: bool,
}

/// What is kept on the local disk of tables in an object store, beside their metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NearDesign {
    /// Blocks that were read, in buckets of which each has orders of last reads: no baseline.
    #[default]
    Buckets,
    /// Nothing: the block cache in memory is the only one.
    None,
    /// Blocks that were read, in files in the order of their arrival, of which the one that was
    /// used longest ago goes as a whole: RocksDB's persistent cache.
    FileLru,
    /// Whole tables, those that are read most often for their size (Mutant).
    WholeTables,
}

/// A baseline as benchmarks name it.
#[derive(Clone, Copy, Debug)]
pub struct Baseline {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
    choose: fn(&mut Research, &mut L0Options) -> Result<()>,
}

impl PartialEq for Baseline {
    fn eq(&self, other: &Baseline) -> bool {
        self.name == other.name
    }
}

impl Baseline {
    /// All of them.
    pub const ALL: &[Baseline] = &[
        Baseline {
            name: "scan-all-memtables",
            meaning: "scans open the memtables of all dranges at once (Nova-LSM without range index)",
            choose: |research, _| {
                research.scan_all_memtables = true;
                Ok(())
            },
        },
        Baseline {
            name: "scans-pay-nothing",
            meaning: "however often rows of L0 are scanned, nothing is compacted for that (LevelDB and its kin)",
            choose: |research, _| {
                research.scan_price_percent = Some(u32::MAX);
                Ok(())
            },
        },
        Baseline {
            name: "rows-never-rest",
            meaning: "rows of L0 stay where they are for as long as nobody writes (RocksDB)",
            choose: |research, _| {
                research.rest = Some(Duration::MAX);
                Ok(())
            },
        },
        Baseline {
            name: "flush-all-versions",
            meaning: "tables of new data hold every version of a key, not only the newest (Nova-LSM)",
            choose: |research, _| {
                research.flush_all_versions = true;
                Ok(())
            },
        },
        Baseline {
            name: "l0-cut-all",
            meaning: "all of a plain L0 is compacted at once, by one thread, from four tables on (RocksDB)",
            choose: |research, _| {
                research.l0_cut_all = true;
                Ok(())
            },
        },
        Baseline {
            name: "l0-matrix",
            meaning: "a container of L0 is cut by columns of a set of rows (MatrixKV)",
            choose: |research, _| {
                research.l0_matrix = true;
                Ok(())
            },
        },
        Baseline {
            name: "near-drops",
            meaning: "what was read of tables in the object store is dropped when they are compacted (RocksMash)",
            choose: |research, _| {
                research.near_drops = true;
                Ok(())
            },
        },
        Baseline {
            name: "cache-drops",
            meaning: "blocks that are written anew are cached when they are read (RocksDB)",
            choose: |research, _| {
                research.cache_drops = true;
                Ok(())
            },
        },
        Baseline {
            name: "near-none",
            meaning: "nothing but metadata is kept near of tables in the object store",
            choose: |research, _| {
                research.near = NearDesign::None;
                Ok(())
            },
        },
        Baseline {
            name: "near-file-lru",
            meaning: "blocks kept near lie in files in the order of arrival, which go whole (RocksDB)",
            choose: |research, _| {
                research.near = NearDesign::FileLru;
                Ok(())
            },
        },
        Baseline {
            name: "near-whole-tables",
            meaning: "tables in the object store that are read often are kept near whole (Mutant)",
            choose: |research, _| {
                research.near = NearDesign::WholeTables;
                Ok(())
            },
        },
        Baseline {
            name: "near-alone",
            meaning: "a block of the object store comes near alone, also while there is room (RocksMash)",
            choose: |research, _| {
                research.near_alone = true;
                Ok(())
            },
        },
        Baseline {
            name: "far-one-by-one",
            meaning: "a scan asks the object store for a block when it comes to it (RocksMash)",
            choose: |research, _| {
                research.far_one_by_one = true;
                Ok(())
            },
        },
        Baseline {
            name: "near-buckets-40",
            meaning: "blocks kept near lie in buckets of 40 MB (RocksMash, figure 20)",
            choose: |research, _| {
                research.near_bucket_bytes = Some(40_000_000);
                Ok(())
            },
        },
        Baseline {
            name: "near-buckets-120",
            meaning: "blocks kept near lie in buckets of 120 MB (RocksMash, figure 20)",
            choose: |research, _| {
                research.near_bucket_bytes = Some(120_000_000);
                Ok(())
            },
        },
        Baseline {
            name: "near-meta-none",
            meaning: "metadata of tables in the object store are fetched for each look (RocksMash, figure 17)",
            choose: |research, _| {
                research.near_meta_none = true;
                Ok(())
            },
        },
        Baseline {
            name: "far-filters",
            meaning: "tables in the object store have filter and index, not a trie of their keys (RocksDB)",
            choose: |research, _| {
                research.far_filters = true;
                Ok(())
            },
        },
        Baseline {
            name: "local-tries",
            meaning: "tables on the local disk have a trie of their keys too (RocksMash, figure 21)",
            choose: |research, _| {
                research.local_tries = true;
                Ok(())
            },
        },
        Baseline {
            name: "log-unbounded",
            meaning: "the log's length calls for no flush and no moment (RocksMash, figure 23)",
            choose: |research, _| {
                research.log_unbounded = true;
                Ok(())
            },
        },
        Baseline {
            name: "pmem-memtables",
            meaning: "two memtables take the medium that a plain L0 is given, by half each (NoveLSM)",
            choose: |research, l0| match l0 {
                L0Options::Plain { medium } if medium.is_some() => {
                    research.pmem_memtables = medium.take();
                    Ok(())
                }
                _ => Err(Error::invalid(
                    "the baseline pmem-memtables needs a plain L0 with a path and bytes",
                )),
            },
        },
    ];

    /// The baseline of this name. Errors: `Invalid`; the text lists the names.
    pub fn named(name: &str) -> Result<Baseline> {
        let found = Baseline::ALL.iter().find(|baseline| baseline.name == name).copied();
        found.ok_or_else(|| {
            let names: Vec<_> = Baseline::ALL.iter().map(|baseline| baseline.name).collect();
            Error::invalid(format!("unknown baseline \"{name}\"; use {}", names.join(", ")))
        })
    }

    /// Adds it to those that are chosen. One that is made of what `l0` says takes it from there.
    ///
    /// Errors: `Invalid` if that is missing.
    pub fn choose(&self, research: &mut Research, l0: &mut L0Options) -> Result<()> {
        (self.choose)(research, l0)
    }
}

/// The number of tables over one key at which LevelDB compacts L0, slows writers down and stops
/// them; NoveLSM is made of it.
const ROWS_OF_LEVELDB: [usize; 3] = [4, 8, 12];
/// The same for RocksDB.
const ROWS_OF_ROCKSDB: [usize; 3] = [4, 20, 36];

impl Research {
    /// The number of rows over one key at which plain tables are cut, slow writers down and stop
    /// them, if a baseline decides that.
    #[must_use]
    pub fn l0_rows(&self) -> Option<[usize; 3]> {
        match (self.l0_cut_all, &self.pmem_memtables) {
            (false, _) => None,
            (true, Some(_)) => Some(ROWS_OF_LEVELDB),
            (true, None) => Some(ROWS_OF_ROCKSDB),
        }
    }

    /// What L0 is under these baselines.
    pub(super) fn l0_kind(&self, l0: &L0Options) -> L0Kind {
        match l0 {
            L0Options::Plain { .. } if self.pmem_memtables.is_some() => L0Kind::PmemMemtable,
            L0Options::Plain { .. } => L0Kind::Plain,
            L0Options::Container { .. } if self.l0_matrix => L0Kind::Matrix,
            L0Options::Container { .. } => L0Kind::Container,
        }
    }

    /// Says what does not fit together, and what would.
    pub(super) fn validate(&self, options: &Options) -> Result<()> {
        let is_plain = matches!(options.l0, L0Options::Plain { .. });
        require(
            !(self.flush_all_versions && options.memtable_merging),
            "flush_all_versions and memtable_merging cannot be used together",
        )?;
        require(!self.l0_cut_all || is_plain, "l0_cut_all needs a plain L0")?;
        require(!self.l0_matrix || !is_plain, "l0_matrix needs an L0 in a container")?;
        require(
            self.near_bucket_bytes.is_none_or(|bytes| (64 << 10..=4 << 30).contains(&bytes)),
            "near_bucket_bytes must be 64 KiB to 4 GiB",
        )?;
        let Some(medium) = &self.pmem_memtables else {
            return Ok(());
        };
        medium.validate()?;
        require(
            options.l0 == L0Options::PLAIN,
            "pmem_memtables needs a plain L0 in the range's own directory",
        )?;
        require(
            (32 << 10..=4 << 30).contains(&medium.bytes) && options.memtables_kept == 0,
            "with pmem_memtables, l0_bytes must be 32 KiB to 4 GiB and memtables_kept must be 0",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_baseline_is_found_by_its_name_and_changes_something() {
        for baseline in Baseline::ALL {
            let (mut research, mut l0) =
                (Research::default(), L0Options::on_medium("/pmem", 1 << 20));
            let named = Baseline::named(baseline.name).expect("it is listed");
            named.choose(&mut research, &mut l0).expect("there is a medium");
            assert_ne!(research, Research::default(), "{}", baseline.name);
        }
        let unknown = Baseline::named("novel").expect_err("no such baseline").to_string();
        assert!(unknown.contains("use scan-all-memtables, scans-pay-nothing"), "{unknown}");
        let (mut research, mut l0) = (Research::default(), L0Options::PLAIN);
        let memtables = Baseline::named("pmem-memtables").expect("it is listed");
        assert!(memtables.choose(&mut research, &mut l0).is_err(), "there is no medium");
    }

    #[test]
    fn baselines_that_do_not_fit_together_are_refused() {
        let medium = |bytes| Some(L0Medium { path: "/pmem".into(), bytes });
        let wrong = [
            Options {
                memtable_merging: true,
                research: Research { flush_all_versions: true, ..Research::default() },
                ..Options::default()
            },
            Options {
                l0: L0Options::container("/pmem", 1 << 20),
                research: Research { l0_cut_all: true, ..Research::default() },
                ..Options::default()
            },
            Options {
                research: Research { l0_matrix: true, ..Research::default() },
                ..Options::default()
            },
            Options {
                research: Research { near_bucket_bytes: Some(4096), ..Research::default() },
                ..Options::default()
            },
            Options {
                memtables_kept: 1,
                research: Research { pmem_memtables: medium(1 << 20), ..Research::default() },
                ..Options::default()
            },
            Options {
                research: Research { pmem_memtables: medium(8 << 30), ..Research::default() },
                ..Options::default()
            },
            Options {
                l0: L0Options::on_medium("/pmem", 1 << 20),
                research: Research { pmem_memtables: medium(1 << 20), ..Research::default() },
                ..Options::default()
            },
        ];
        for options in wrong {
            assert!(matches!(options.validate(), Err(Error::Invalid(_))), "{options:?}");
        }
    }
}
