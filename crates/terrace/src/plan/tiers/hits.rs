//! How often an LRU of blocks has what is asked for. Pure.
//!
//! ```text
//!   records by rank   ▇▅▃▂▂▁▁▁▁▁▁▁…     bins of ranks, each about 5 % wider than the one before
//!   a block           ▁▇▁▁              several records of unrelated ranks
//! ```
//! By Che's approximation a block is in the cache if it was asked for within the last `life`
//! operations, and `life` is such that as many blocks are as have room. Whether none of several
//! records of unrelated ranks was asked for is a product, so no block has to be looked at: with
//! `f(life)` the mean of `exp(-share × life)` over records, `f(life)ⁿ` of the blocks of n records
//! are not there. A block that a compaction replaces is gone before its life is over.
//!
//! *Source:* Che, Tung and Wang, "Hierarchical Web caching systems", JSAC 2002. *Differs:* a cache
//! in memory before one on the disk is taken for a single one as large as both.

/// Ranks up to this one have a bin of their own.
const EXACT_RANKS: f64 = 64.0;
/// A bin is so many times as wide as those before it.
const BIN_RATIO: f64 = 1.05;
/// Halvings of an interval in which something is looked for.
const HALVINGS: u32 = 48;

/// Records of about the same rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bin {
    /// How many there are.
    pub records: f64,
    /// The share of operations that is about one of them.
    pub share: f64,
}

/// How often each record is asked for, by ranks.
#[derive(Clone, Debug)]
pub(super) struct Popularity {
    pub bins: Vec<Bin>,
    pub records: f64,
}

impl Popularity {
    /// The record of rank r is asked for in proportion to 1 / r^`exponent`; 0 means all equally.
    pub fn zipf(records: u64, exponent: f64) -> Popularity {
        let records = records.max(1) as f64;
        let mut bins = Vec::new();
        let mut first = 1.0;
        while first <= records {
            let last = match first < EXACT_RANKS {
                true => first,
                false => (first * BIN_RATIO).floor().min(records),
            };
            let mass = match first == last {
                true => first.powf(-exponent),
                false => integral(first - 0.5, last + 0.5, exponent),
            };
            let count = last - first + 1.0;
            bins.push(Bin { records: count, share: mass / count });
            first = last + 1.0;
        }
        let all: f64 = bins.iter().map(|bin| bin.records * bin.share).sum();
        bins.iter_mut().for_each(|bin| bin.share /= all);
        Popularity { bins, records }
    }

    /// The sum over all records of what `of` says of a record with this share of the operations.
    pub fn sum(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.bins.iter().map(|bin| bin.records * of(bin.share)).sum()
    }

    /// How many records so many operations are about.
    pub fn distinct(&self, operations: f64) -> f64 {
        self.sum(|share| 1.0 - (-share * operations).exp())
    }

    /// How many operations are about so many records.
    pub fn operations_of(&self, distinct: f64) -> f64 {
        let distinct = distinct.min(self.records * 0.999);
        least(|operations| self.distinct(operations) >= distinct)
    }

    /// The share of operations that are about a record that none of the `operations` before was
    /// about.
    pub fn first_ones(&self, operations: f64) -> f64 {
        self.sum(|share| share * (-share * operations).exp())
    }
}

/// The integral of x^-exponent.
fn integral(from: f64, to: f64, exponent: f64) -> f64 {
    let power = 1.0 - exponent;
    match power.abs() < 1e-9 {
        true => (to / from).ln(),
        false => (to.powf(power) - from.powf(power)) / power,
    }
}

/// The least number for which `holds`, which holds for all above it; at most 10¹⁵.
fn least(holds: impl Fn(f64) -> bool) -> f64 {
    // By their logarithms.
    let (mut low, mut high) = (-7.0_f64, 34.5);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        match holds(middle.exp()) {
            true => high = middle,
            false => low = middle,
        }
    }
    high.exp()
}

/// The records of a level.
#[derive(Clone, Debug)]
pub(super) struct Held {
    /// How likely a record of each bin is served here.
    pub served: Vec<f64>,
    /// How many entries the level has, those included that newer ones above it hide.
    pub entries: f64,
    /// Whether it lies in the object store.
    pub is_far: bool,
    /// The share of its blocks that compactions replace, for each operation.
    pub replaced: f64,
}

impl Held {
    /// How long a block that would stay for `life` stays on average if it may be replaced.
    fn life(&self, life: f64) -> f64 {
        match self.replaced > 0.0 {
            true => (1.0 - (-self.replaced * life).exp()) / self.replaced,
            false => life,
        }
    }
}

/// What reads ask for, of levels whose blocks share a cache.
#[derive(Clone, Debug)]
pub(super) struct Reads<'a> {
    pub popularity: &'a Popularity,
    pub levels: &'a [Held],
    /// How many entries a block has.
    pub block_entries: f64,
    /// The share of operations that are gets.
    pub gets: f64,
    /// The share of operations that are scans.
    pub scans: f64,
    /// How many records a scan goes through.
    pub scan_records: f64,
}

/// Shares of gets, and of the blocks that scans read, of one level.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Misses {
    /// Of all gets, those that this level serves with a block that is not cached.
    pub gets: f64,
    /// Of the blocks that scans read of this level, those that are not cached.
    pub scanned: f64,
}

impl Reads<'_> {
    /// How many operations a block stays that nobody asks for again, if the blocks of the levels
    /// that `counts` names share a cache of `blocks`. Endless if all have room.
    pub fn life(&self, blocks: f64, counts: impl Fn(&Held) -> bool) -> f64 {
        let levels: Vec<&Held> = self.levels.iter().filter(|held| counts(held)).collect();
        let all: f64 = levels.iter().map(|held| self.cached_of(held, f64::INFINITY)).sum();
        if blocks >= all {
            return f64::INFINITY;
        }
        let cached = |life: f64| levels.iter().map(|held| self.cached_of(held, life)).sum::<f64>();
        match blocks > 0.0 {
            true => least(|life| cached(life) >= blocks),
            false => 0.0,
        }
    }

    /// How many blocks of a level are cached.
    pub fn cached_of(&self, held: &Held, life: f64) -> f64 {
        let blocks = held.entries / self.block_entries;
        let life = held.life(life);
        if life.is_infinite() {
            return blocks;
        }
        let by_gets = self.untouched_by_gets(held, life).powf(self.block_entries);
        let by_scans = self.untouched_by_scans(life).powf(self.reach(held));
        blocks * (1.0 - by_gets * by_scans)
    }

    /// What of the reads of a level is not cached.
    pub fn misses_of(&self, held: &Held, life: f64) -> Misses {
        let life = held.life(life);
        if life.is_infinite() || held.entries <= 0.0 {
            return Misses::default();
        }
        let by_gets = self.untouched_by_gets(held, life);
        let by_scans = self.untouched_by_scans(life);
        let reach = self.reach(held);
        let others = by_gets.powf(self.block_entries - 1.0) * by_scans.powf(reach);
        let served = self.popularity.bins.iter().zip(&held.served);
        let gets = served.map(|(bin, served)| {
            bin.records * served * bin.share * (-bin.share * self.gets * life).exp()
        });
        let starts = |share: f64| share * (-share * self.scans * life).exp();
        let others_scanned = by_gets.powf(self.block_entries) * by_scans.powf(reach - 1.0);
        Misses {
            gets: gets.sum::<f64>() * others,
            scanned: self.popularity.sum(starts) * others_scanned,
        }
    }

    /// The chance that no get has asked for an entry of the level.
    fn untouched_by_gets(&self, held: &Held, life: f64) -> f64 {
        let (mut served, mut untouched) = (0.0, 0.0);
        for (bin, here) in self.popularity.bins.iter().zip(&held.served) {
            served += bin.records * here;
            untouched += bin.records * here * (-bin.share * self.gets * life).exp();
        }
        // Nobody asks for an entry that is hidden.
        ((untouched + (held.entries - served).max(0.0)) / held.entries.max(1.0)).min(1.0)
    }

    /// The chance that no scan has begun at a record.
    fn untouched_by_scans(&self, life: f64) -> f64 {
        match self.scans > 0.0 {
            true => {
                let untouched = |share: f64| (-share * self.scans * life).exp();
                self.popularity.sum(untouched) / self.popularity.records
            }
            false => 1.0,
        }
    }

    /// From how many records on a scan comes by a block of the level.
    fn reach(&self, held: &Held) -> f64 {
        self.scan_records + self.block_entries * self.popularity.records / held.entries.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    //! Goal: what is computed is what a simulated LRU does. Method: fixed seeds.

    use std::collections::BTreeMap;

    use super::*;

    const RECORDS: usize = 20_000;
    const BLOCK_ENTRIES: usize = 4;

    /// A linear congruential generator: numbers from 0 up to 1.
    struct Random(u64);

    impl Random {
        fn fraction(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// The share of gets that a simulated LRU of so many blocks does not have, once it is warm.
    fn simulated(exponent: f64, blocks: usize) -> f64 {
        let mut random = Random(7);
        let mut place: Vec<usize> = (0..RECORDS).collect();
        for index in (1..RECORDS).rev() {
            place.swap(index, (random.fraction() * (index + 1) as f64) as usize);
        }
        let mut sums = Vec::with_capacity(RECORDS);
        let mut sum = 0.0;
        for rank in 1..=RECORDS {
            sum += (rank as f64).powf(-exponent);
            sums.push(sum);
        }
        let (mut by_time, mut time_of) = (BTreeMap::new(), BTreeMap::new());
        let (warm, gets) = (100_000, 200_000);
        let mut misses = 0;
        for time in 0..gets {
            let drawn = random.fraction() * sum;
            let rank = sums.partition_point(|sum| *sum < drawn).min(RECORDS - 1);
            let block = place[rank] / BLOCK_ENTRIES;
            match time_of.insert(block, time) {
                Some(before) => drop(by_time.remove(&before)),
                None => misses += usize::from(time >= warm),
            }
            by_time.insert(time, block);
            if by_time.len() > blocks
                && let Some((_, oldest)) = by_time.pop_first()
            {
                time_of.remove(&oldest);
            }
        }
        misses as f64 / (gets - warm) as f64
    }

    fn computed(exponent: f64, blocks: usize) -> f64 {
        let popularity = Popularity::zipf(RECORDS as u64, exponent);
        let served = vec![1.0; popularity.bins.len()];
        let levels = [Held { served, entries: RECORDS as f64, is_far: true, replaced: 0.0 }];
        let reads = Reads {
            popularity: &popularity,
            levels: &levels,
            block_entries: BLOCK_ENTRIES as f64,
            gets: 1.0,
            scans: 0.0,
            scan_records: 0.0,
        };
        reads.misses_of(&levels[0], reads.life(blocks as f64, |_| true)).gets
    }

    #[test]
    fn what_is_computed_is_what_an_lru_does() {
        for exponent in [0.0, 0.6, 0.99, 1.2] {
            for percent in [1, 5, 20, 50, 90] {
                let blocks = RECORDS / BLOCK_ENTRIES * percent / 100;
                let (should, is) = (simulated(exponent, blocks), computed(exponent, blocks));
                let name = format!("skew {exponent}, {percent} %: {should:.3}, {is:.3}");
                assert!((should - is).abs() < 0.03, "{name}");
            }
        }
        assert_eq!(computed(0.99, RECORDS), 0.0, "all have room");
        assert!((computed(0.99, 0) - 1.0).abs() < 1e-9, "nothing has");
    }

    #[test]
    fn shares_are_those_of_the_ranks() {
        for exponent in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let all: f64 = (1..=RECORDS).map(|rank| (rank as f64).powf(-exponent)).sum();
            let popularity = Popularity::zipf(RECORDS as u64, exponent);
            assert!((popularity.sum(|share| share) - 1.0).abs() < 1e-9);
            assert_eq!(popularity.sum(|_| 1.0), RECORDS as f64);
            assert!((popularity.bins[0].share - 1.0 / all).abs() < 0.001, "{exponent}");
            let last = popularity.bins.last().unwrap().share;
            let exact = (RECORDS as f64).powf(-exponent) / all;
            assert!((last / exact - 1.0).abs() < 0.05, "{exponent}: {last} {exact}");
            let half = popularity.operations_of(RECORDS as f64 / 2.0);
            assert!((popularity.distinct(half) / RECORDS as f64 - 0.5).abs() < 1e-6);
        }
    }

    #[test]
    fn scans_find_more_cached_where_they_begin_in_the_same_places() {
        let popularity = |exponent| Popularity::zipf(RECORDS as u64, exponent);
        let misses = |exponent: f64, blocks: f64| {
            let popularity = popularity(exponent);
            let served = vec![1.0; popularity.bins.len()];
            let levels = [Held { served, entries: RECORDS as f64, is_far: true, replaced: 0.0 }];
            let (gets, scans, scan_records) = (0.0, 1.0, 50.0);
            let popularity = &popularity;
            let levels = &levels;
            let block_entries = 4.0;
            let reads = Reads { popularity, levels, block_entries, gets, scans, scan_records };
            reads.misses_of(&levels[0], reads.life(blocks, |_| true)).scanned
        };
        // All alike, a fifth of the blocks is a fifth of the hits.
        assert!((misses(0.0, 1000.0) - 0.8).abs() < 0.02, "{}", misses(0.0, 1000.0));
        assert!(misses(0.99, 1000.0) < misses(0.0, 1000.0) - 0.1);
        assert!(misses(0.99, 2000.0) < misses(0.99, 1000.0));
    }
}
