use std::time::Duration;

use terrace_base::KeyRange;

/// What scans have spent on the rows of L0, by the keys at which they began.
///
/// About as exact as it has to be, and bounded: some hundred intervals of keys, each with what
/// was spent by scans that began within it. When there would be more, neighbours of which little is
/// known become one.
#[derive(Debug, Default)]
pub struct ScanCosts {
    /// Ascending.
    intervals: Vec<Interval>,
}

#[derive(Debug)]
struct Interval {
    /// The first key; the interval ends where the next one starts.
    start: Box<[u8]>,
    spent: Duration,
}

/// Number of intervals at most.
const INTERVALS_MAX: usize = 512;

impl ScanCosts {
    /// A scan that began at `key` has spent so much.
    ///
    /// Cost: O(log n) for n intervals; O(n) for a key at which none begins.
    pub fn add(&mut self, key: &[u8], spent: Duration) {
        match self.intervals.binary_search_by(|own| (*own.start).cmp(key)) {
            Ok(at) => self.intervals[at].spent += spent,
            Err(at) => {
                self.intervals.insert(at, Interval { start: key.into(), spent });
                if self.intervals.len() > INTERVALS_MAX {
                    self.join_small();
                }
            }
        }
    }

    /// What scans have spent that began within `keys`, about.
    #[must_use]
    pub fn within(&self, keys: &KeyRange) -> Duration {
        let first = self.intervals.partition_point(|own| *own.start < *keys.start());
        let within = self.intervals[first..].iter().take_while(|own| !keys.is_before(&own.start));
        within.map(|own| own.spent).sum()
    }

    /// Nothing has been spent within `keys` any more.
    pub fn forget(&mut self, keys: &KeyRange) {
        self.intervals.retain(|own| !keys.contains(&own.start));
    }

    /// Whether nothing has been spent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// Joins neighbours that have spent little, so that half of the intervals are left at most.
    fn join_small(&mut self) {
        let all: Duration = self.intervals.iter().map(|own| own.spent).sum();
        // Two neighbours that stay apart have more than this together.
        let enough = all / (INTERVALS_MAX as u32 / 4);
        self.intervals.dedup_by(|next, last| {
            let both = last.spent + next.spent;
            let joins = both <= enough;
            if joins {
                last.spent = both;
            }
            joins
        });
    }
}

#[cfg(test)]
mod tests {
    //! Goal: nothing that was spent is lost, and it is found about where it was spent. Method:
    //! random keys, some far more often than others, beside a list.

    use terrace_env::SeededRng;

    use super::*;

    #[test]
    fn what_was_spent_is_found_where_it_was_spent() {
        for seed in 0..50 {
            let mut random = SeededRng::new(seed);
            let mut costs = ScanCosts::default();
            let mut list: Vec<(Vec<u8>, Duration)> = Vec::new();
            for _ in 0..3_000 {
                let number = random.below(100_000) / (1 + random.below(100));
                let key = number.to_be_bytes().to_vec();
                let spent = Duration::from_micros(1 + random.below(50));
                costs.add(&key, spent);
                list.push((key, spent));
                assert!(costs.intervals.len() <= INTERVALS_MAX, "seed {seed}");
            }
            let all: Duration = list.iter().map(|(_, spent)| *spent).sum();
            assert_eq!(costs.within(&KeyRange::all()), all, "seed {seed}");
            for _ in 0..20 {
                let mut ends = [0; 2].map(|_| random.below(100_000));
                ends.sort_unstable();
                let [start, end] = ends.map(|end| end.to_be_bytes().to_vec());
                let keys = KeyRange::new(start, Some(end));
                let inside = list.iter().filter(|(key, _)| keys.contains(key));
                let inside: Duration = inside.map(|(_, spent)| *spent).sum();
                // At either end of the range one interval may have been counted to the other side.
                let off = all / (INTERVALS_MAX as u32 / 16);
                assert!(costs.within(&keys).abs_diff(inside) <= off, "seed {seed}, {keys:?}");
            }
            let keys = KeyRange::new(1_000_u64.to_be_bytes(), None);
            costs.forget(&keys);
            assert_eq!(costs.within(&keys), Duration::ZERO, "seed {seed}");
        }
    }
}
