//! Which records are asked for how often.

use std::fmt;
use std::str::FromStr;

use crate::random::Random;

/// The skew of the zipfian distributions: rank r is asked for in proportion to 1 / (r + 1)^0.99.
pub const ZIPFIAN_CONSTANT: f64 = 0.99;

/// Which records are asked for how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// All equally.
    Uniform,
    /// Few often, and those lie anywhere among the keys.
    Zipfian,
    /// Few often, and those lie side by side: rank is key order.
    ZipfianClustered,
    /// The newer, the more often.
    Latest,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Distribution; 4] = [
        Distribution::Uniform,
        Distribution::Zipfian,
        Distribution::ZipfianClustered,
        Distribution::Latest,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
            Distribution::ZipfianClustered => "zipfian-clustered",
            Distribution::Latest => "latest",
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Distribution, String> {
        let found = Distribution::ALL.into_iter().find(|distribution| distribution.name() == text);
        found.ok_or_else(|| {
            let names = Distribution::ALL.map(Distribution::name).join(", ");
            format!("'{text}' is none of {names}")
        })
    }
}

/// Draws ranks from 0 to `count` - 1 with the zipfian distribution, each in constant time.
///
/// Source: Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994, as
/// in YCSB. Ranks 0 and 1 have their exact probabilities, the rest those of a power law fitted to
/// the remaining mass.
#[derive(Clone, Debug)]
pub struct Zipfian {
    count: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    /// The mass of ranks 0 and 1, times zeta.
    first_two: f64,
}

impl Zipfian {
    /// Over `count` ranks, at least 1.
    #[must_use]
    pub fn new(count: u64) -> Zipfian {
        assert!(count > 0, "there is a rank to draw");
        let zeta = zeta(count);
        let half_power = 0.5_f64.powf(ZIPFIAN_CONSTANT);
        let first_two = 1.0 + half_power;
        let tail = (2.0 / count as f64).powf(1.0 - ZIPFIAN_CONSTANT);
        let eta = (1.0 - tail) / (1.0 - first_two / zeta);
        Zipfian { count, zeta, alpha: 1.0 / (1.0 - ZIPFIAN_CONSTANT), eta, first_two }
    }

    /// A rank; 0 is the commonest.
    pub fn next(&self, random: &mut Random) -> u64 {
        let fraction = random.fraction();
        let mass = fraction * self.zeta;
        if mass < 1.0 {
            return 0;
        }
        if mass < self.first_two {
            return 1.min(self.count - 1);
        }
        let base = self.eta * fraction - self.eta + 1.0;
        let rank = (self.count as f64 * base.powf(self.alpha)) as u64;
        rank.min(self.count - 1)
    }
}

/// How many terms of a zeta sum are added one by one.
const EXACT_TERMS: u64 = 100_000;

/// The sum of 1 / i^0.99 for i from 1 to `count`. Beyond the first terms it is taken by the
/// Euler-Maclaurin formula, whose error is far below that of floating point sums.
fn zeta(count: u64) -> f64 {
    let power = |x: f64| x.powf(-ZIPFIAN_CONSTANT);
    let exact = count.min(EXACT_TERMS);
    let sum: f64 = (1..=exact).rev().map(|i| power(i as f64)).sum();
    if exact == count {
        return sum;
    }
    let (first, last) = (exact as f64, count as f64);
    let integral_to = |x: f64| x.powf(1.0 - ZIPFIAN_CONSTANT) / (1.0 - ZIPFIAN_CONSTANT);
    let slope = |x: f64| -ZIPFIAN_CONSTANT * x.powf(-ZIPFIAN_CONSTANT - 1.0);
    sum + integral_to(last) - integral_to(first)
        + (power(last) - power(first)) / 2.0
        + (slope(last) - slope(first)) / 12.0
}

#[cfg(test)]
mod tests {
    //! Goal: the drawn frequencies are the stated ones. Method: fixed seeds, wide bounds.

    use super::*;

    #[test]
    fn zeta_is_the_sum_it_stands_for() {
        for count in [1, 2, 1000, EXACT_TERMS, EXACT_TERMS + 1, 3_000_000] {
            let sum: f64 = (1..=count).rev().map(|i| (i as f64).powf(-ZIPFIAN_CONSTANT)).sum();
            assert!((zeta(count) - sum).abs() < 1e-9, "{count}: {} {sum}", zeta(count));
        }
    }

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        let (count, draws) = (10_000_u64, 1_000_000);
        let zipfian = Zipfian::new(count);
        let mut random = Random::new(42, 0);
        let mut drawn = vec![0_u32; usize::try_from(count).unwrap()];
        for _ in 0..draws {
            drawn[usize::try_from(zipfian.next(&mut random)).unwrap()] += 1;
        }
        let expected = |ranks: std::ops::Range<u64>| {
            let mass: f64 = ranks.map(|rank| ((rank + 1) as f64).powf(-ZIPFIAN_CONSTANT)).sum();
            mass / zeta(count)
        };
        let found = |ranks: std::ops::Range<usize>| {
            f64::from(drawn[ranks].iter().sum::<u32>()) / f64::from(draws)
        };
        for (ranks, tolerance) in [(0..1, 0.02), (1..2, 0.05), (0..10, 0.1), (0..100, 0.05)] {
            let (found, expected) =
                (found(ranks.clone()), expected(ranks.start as u64..ranks.end as u64));
            assert!((found / expected - 1.0).abs() < tolerance, "{ranks:?}: {found} {expected}");
        }
        assert!((found(0..1000) / expected(0..1000) - 1.0).abs() < 0.03);
        assert!(found(9_000..10_000) > 0.0);
    }

    #[test]
    fn few_ranks_are_enough() {
        for count in 1..=3 {
            let zipfian = Zipfian::new(count);
            let mut random = Random::new(1, 1);
            let mut seen = [false; 3];
            (0..1000)
                .for_each(|_| seen[usize::try_from(zipfian.next(&mut random)).unwrap()] = true);
            let seen = seen.iter().filter(|seen| **seen).count();
            assert!(seen as u64 <= count && (count > 2 || seen as u64 == count));
        }
    }

    #[test]
    fn names_are_read_back() {
        for distribution in Distribution::ALL {
            assert_eq!(distribution.name().parse(), Ok(distribution));
        }
        assert!("gauss".parse::<Distribution>().unwrap_err().contains("uniform"));
    }
}
