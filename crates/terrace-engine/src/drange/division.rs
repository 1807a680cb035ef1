use std::ops::Range;
use std::sync::Arc;

use super::Boundaries;

/// How the keys of a range are divided: at boundaries into intervals, each of which has one drange
/// or, if it holds a hot key, several *duplicates*.
///
/// ```text
///   boundaries            h          h\0        p
///   intervals       0     |     1     |    2    |    3
///   dranges         0     |   1 2 3   |    4    |    5         h is hot: its drange stands ×3
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    boundaries: Arc<Boundaries>,
    /// The first drange of each interval, and behind them how many there are. `Invariant:` empty if
    /// each interval has one, so that nothing is looked up then.
    firsts: Vec<usize>,
}

impl From<Boundaries> for Division {
    /// One drange an interval.
    fn from(boundaries: Boundaries) -> Division {
        Division { boundaries: Arc::new(boundaries), firsts: Vec::new() }
    }
}

impl Division {
    /// Intervals between `boundaries`, each with a number of dranges, at least one.
    #[must_use]
    pub fn new(boundaries: Boundaries, duplicates: &[usize]) -> Division {
        assert_eq!(duplicates.len(), boundaries.keys().len() + 1, "one number an interval");
        assert!(duplicates.iter().all(|count| *count > 0), "each interval has a drange");
        let mut division = Division::from(boundaries);
        if duplicates.iter().any(|count| *count > 1) {
            let after = duplicates.iter().scan(0, |sum, count| {
                *sum += count;
                Some(*sum)
            });
            division.firsts = std::iter::once(0).chain(after).collect();
        }
        division
    }

    /// Where the keys are divided.
    #[must_use]
    pub fn boundaries(&self) -> &Arc<Boundaries> {
        &self.boundaries
    }

    /// How many intervals there are.
    #[must_use]
    pub fn interval_count(&self) -> usize {
        self.boundaries.keys().len() + 1
    }

    /// How many dranges there are, each duplicate counted.
    #[must_use]
    pub fn drange_count(&self) -> usize {
        self.firsts.last().copied().unwrap_or_else(|| self.interval_count())
    }

    /// Whether any interval has several dranges.
    #[must_use]
    #[inline]
    pub fn has_duplicates(&self) -> bool {
        !self.firsts.is_empty()
    }

    /// Indexes of the dranges of an interval.
    #[must_use]
    #[inline]
    pub fn dranges_of(&self, interval: usize) -> Range<usize> {
        match self.firsts.get(interval..interval + 2) {
            Some(ends) => ends[0]..ends[1],
            None => interval..interval + 1,
        }
    }

    /// How many dranges each interval has.
    pub fn duplicates(&self) -> impl Iterator<Item = usize> {
        (0..self.interval_count()).map(|interval| self.dranges_of(interval).len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_stand_side_by_side() {
        let boundaries = || Boundaries::new(vec![b"h".into(), b"h\0".into(), b"p".into()]);
        let plain = Division::from(boundaries());
        assert_eq!((plain.interval_count(), plain.drange_count()), (4, 4));
        assert_eq!(plain.dranges_of(3), 3..4);
        assert!(!plain.has_duplicates());
        assert_eq!(Division::new(boundaries(), &[1, 1, 1, 1]), plain);
        let hot = Division::new(boundaries(), &[1, 3, 1, 2]);
        assert_eq!((hot.interval_count(), hot.drange_count()), (4, 7));
        let dranges: Vec<_> = (0..4).map(|interval| hot.dranges_of(interval)).collect();
        assert_eq!(dranges, [0..1, 1..4, 4..5, 5..7]);
        assert_eq!(hot.duplicates().collect::<Vec<_>>(), [1, 3, 1, 2]);
    }
}
