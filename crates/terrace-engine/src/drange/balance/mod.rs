//! When and how the dranges of a range are divided anew. Pure: from a sample of the writes.
//!
//! ```text
//!   sample       a a a a a a a b c d e f g h i j k l m n o p
//!   too much     |      0      |  1  |  2  |     3       |     share of 3 over 1/4 + ε
//!   minor        |      0      |  1  |    2   |   3      |     2 and 3 divide theirs
//!   major        |     0 ×2  |     1     |    2     |         all is divided, and a has duplicates
//! ```
//! *Source:* Nova-LSM §4.1 and the triggers of its code: a drange is unfair when its share is off
//! by more than a fifth of the fair one; a *major* reorganisation divides everything when more than
//! 30 % of the dranges are unfair, else a *minor* one evens out the worst with its neighbours.
//! *Differs:* the paper counts writes by tiny range and looks at them after a fixed number of
//! writes. Here each flush takes a sample of the versions that it meets anyway, in key order, so
//! the keys in it are the borders of tiny ranges of equal weight, as many a drange as
//! [`SAMPLES_PER_DRANGE`]. The paper gives a key ⌈share · θ⌉ duplicates, later ones above 1.5 times
//! the fair share each and fewer below half of it. Here dranges are dealt out to hot keys and to
//! what lies between them as seats are to parties (`apportion`), so that the shares deviate as
//! little as they can, and are dealt out anew when another number of duplicates would be fairer by
//! `UNFAIR`.

use std::ops::Range;

use super::{Boundaries, Division};

/// Keys of a sample for each drange, at least: the borders of tiny ranges.
pub const SAMPLES_PER_DRANGE: usize = 32;

/// With fewer writes a drange than this, a share is left to chance.
const WRITES_PER_DRANGE: u64 = 400;

/// A drange is unfair when its share is off by more than this part of the fair one.
const UNFAIR: f64 = 0.2;

/// Everything is divided anew when more than this part of the dranges are unfair.
const UNFAIR_FOR_MAJOR: f64 = 0.3;

/// So much of the fair share is worth a drange.
const ENOUGH: f64 = 0.75;

/// A minor reorganisation is worth its while if it takes this part of the fair share off the worst,
/// a major one if it takes this part off the unfairness of all.
const GAIN: f64 = 0.1;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reorganisation {
    /// A drange evens out with its neighbours.
    Minor(Division),
    /// Everything is divided anew.
    Major(Division),
}

/// The sampled writes of each interval of `boundaries`. `sample` ascends.
fn parts<'s>(
    boundaries: &'s Boundaries,
    sample: &'s [&'s [u8]],
) -> impl Iterator<Item = &'s [&'s [u8]]> {
    let mut start = 0;
    let below = |key: &Vec<u8>| sample.partition_point(|at| *at < key.as_slice());
    let ends = boundaries.keys().iter().map(below).chain([sample.len()]);
    ends.map(move |end| &sample[std::mem::replace(&mut start, end)..end])
}

/// The share of each interval of `boundaries` in the sampled writes. `sample` ascends. All are 0 if
/// nothing was sampled.
#[must_use]
pub fn shares(boundaries: &Boundaries, sample: &[&[u8]]) -> Vec<f64> {
    let whole = sample.len().max(1) as f64;
    parts(boundaries, sample).map(|part| part.len() as f64 / whole).collect()
}

/// How the range is to be divided from now on, if it should be otherwise than as `current`: among
/// `wanted` dranges, from a `sample`, ascending, that was taken out of this number of `writes`.
#[must_use]
pub fn judge(
    current: &Division,
    sample: &[&[u8]],
    writes: u64,
    wanted: usize,
) -> Option<Reorganisation> {
    let enough = sample.len() >= wanted * SAMPLES_PER_DRANGE / 2;
    if wanted <= 1 || !enough || writes < WRITES_PER_DRANGE * wanted as u64 {
        return None;
    }
    if current.drange_count() != wanted {
        return anew(current, sample, wanted);
    }
    let intervals = unfairness(current, sample);
    let mut unfair: Vec<(usize, &Interval)> =
        intervals.iter().enumerate().filter(|(_, interval)| interval.off > UNFAIR).collect();
    let count: usize = unfair.iter().map(|(_, interval)| interval.duplicates).sum();
    if count as f64 > UNFAIR_FOR_MAJOR * wanted as f64 {
        return anew(current, sample, wanted);
    }
    unfair.sort_by(|(_, one), (_, other)| other.off.total_cmp(&one.off));
    let mut is_tried = false;
    unfair.into_iter().find_map(|(index, interval)| {
        // The drange for one duplicate more, or fewer, may be anywhere, not among the neighbours.
        let has_duplicates = interval.is_hot || interval.duplicates > 1;
        let all = if has_duplicates && !std::mem::replace(&mut is_tried, true) {
            anew(current, sample, wanted)
        } else {
            None
        };
        all.or_else(|| {
            let (evened, around) = even_out(current, index, sample)?;
            let left = unfairness(&evened, sample);
            let is_better = left[around].iter().all(|left| left.off < interval.off - GAIN);
            is_better.then_some(Reorganisation::Minor(evened))
        })
    })
}

/// Everything divided anew, if that is any better.
#[must_use]
pub fn anew(current: &Division, sample: &[&[u8]], wanted: usize) -> Option<Reorganisation> {
    let divided = divide(sample, wanted);
    gains(current, &divided, sample).then_some(Reorganisation::Major(divided))
}

/// Whether dividing as `divided` leaves dranges with less unfairness, on the whole, than now.
fn gains(current: &Division, divided: &Division, sample: &[&[u8]]) -> bool {
    if current.drange_count() != divided.drange_count() {
        return true;
    }
    let off = |interval: Interval| interval.off * interval.duplicates as f64;
    let sum = |division| unfairness(division, sample).into_iter().map(off).sum::<f64>();
    sum(divided) < (1.0 - GAIN) * sum(current)
}

/// An interval and its dranges.
#[derive(Clone, Copy, Debug)]
struct Interval {
    /// Sampled writes.
    writes: usize,
    duplicates: usize,
    /// Whether it has a key that is more than a fair share by itself.
    is_hot: bool,
    /// How far the share of each of its dranges is off the fair one, as a part of the fair one.
    off: f64,
}

/// How unfair each interval is to its dranges.
///
/// What is hot cannot be divided: it is off by what another number of duplicates would be nearer to
/// the fair share. Of the others the fair share is what they have on average, and each is off also
/// by what it would be if it had no duplicates, which it does not need.
fn unfairness(division: &Division, sample: &[&[u8]]) -> Vec<Interval> {
    let fair_of_all = (sample.len() as f64 / division.drange_count() as f64).max(1.0);
    let mut intervals: Vec<Interval> = parts(division.boundaries(), sample)
        .zip(division.duplicates())
        .map(|(part, duplicates)| {
            let heaviest = part.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0);
            let is_hot = heaviest as f64 > fair_of_all;
            Interval { writes: part.len(), duplicates, is_hot, off: 0.0 }
        })
        .collect();
    let others = || intervals.iter().filter(|interval| !interval.is_hot);
    let writes: usize = others().map(|interval| interval.writes).sum();
    let count: usize = others().map(|interval| interval.duplicates).sum();
    let fair = (writes as f64 / count.max(1) as f64).max(1.0);
    for interval in &mut intervals {
        let off = |duplicates: usize, fair: f64| {
            (interval.writes as f64 / duplicates as f64 / fair - 1.0).abs()
        };
        interval.off = if interval.is_hot {
            let fewest = (interval.writes as f64 / fair_of_all) as usize;
            let best = off(fewest.max(1), fair_of_all).min(off(fewest + 1, fair_of_all));
            off(interval.duplicates, fair_of_all) - best
        } else {
            off(interval.duplicates, fair).max(off(1, fair))
        };
    }
    intervals
}

/// The division after an interval has divided its keys, and its dranges, and those of its
/// neighbours evenly among them, and which intervals these are then; `None` if the sample does not
/// have the keys for it.
fn even_out(
    current: &Division,
    index: usize,
    sample: &[&[u8]],
) -> Option<(Division, Range<usize>)> {
    let keys = current.boundaries().keys();
    let (first, last) = (index.saturating_sub(1), (index + 1).min(keys.len()));
    let below = |at: usize| sample.partition_point(|key| *key < keys[at].as_slice());
    let from = first.checked_sub(1).map_or(0, below);
    let to = if last < keys.len() { below(last) } else { sample.len() };
    let duplicates: Vec<usize> = current.duplicates().collect();
    let wanted = duplicates[first..=last].iter().sum();
    let inner = divide(&sample[from..to], wanted);
    if inner.drange_count() != wanted {
        return None;
    }
    let inner_keys = inner.boundaries().keys().iter();
    let all: Vec<_> =
        keys[..first].iter().chain(inner_keys).chain(&keys[last..]).cloned().collect();
    let counts: Vec<_> = duplicates[..first]
        .iter()
        .copied()
        .chain(inner.duplicates())
        .chain(duplicates[last + 1..].iter().copied())
        .collect();
    let around = first..first + inner.interval_count();
    all.is_sorted_by(|a, b| a < b).then(|| (Division::new(Boundaries::new(all), &counts), around))
}

/// Sampled writes that follow each other and get dranges together: those of one hot key, and of
/// what was too little for a drange of its own beside it; or of what lies between hot keys.
#[derive(Debug)]
struct Segment {
    /// Its runs of equal keys.
    runs: Range<usize>,
    weight: usize,
    is_hot: bool,
}

/// The sampled writes divided evenly among `wanted` dranges, or fewer if the sample
/// does not have the keys for it.
fn divide(sample: &[&[u8]], wanted: usize) -> Division {
    let runs: Vec<&[&[u8]]> = sample.chunk_by(|a, b| a == b).collect();
    let segments = segments_of(&runs, wanted);
    let counts = apportion(segments.iter().map(Segment::claim), wanted);
    let (mut keys, mut duplicates): (Vec<Vec<u8>>, Vec<usize>) = Default::default();
    let mut was_hot = None;
    for (segment, count) in segments.into_iter().zip(counts) {
        let first = segment.runs.start;
        match was_hot {
            None => {}
            Some(false) => keys.push(runs[first][0].to_vec()),
            // An interval ends right behind its hot key.
            Some(true) => keys.push([runs[first - 1][0], &[0]].concat()),
        }
        was_hot = Some(segment.is_hot);
        if segment.is_hot {
            duplicates.push(count);
            continue;
        }
        let inner = split(&runs[segment.runs], count);
        duplicates.extend(std::iter::repeat_n(1, inner.len() + 1));
        keys.extend(inner);
    }
    match duplicates.is_empty() {
        true => Division::default(),
        false => Division::new(Boundaries::new(keys), &duplicates),
    }
}

/// The segments of sampled writes of which `wanted` dranges are to be made, at most `wanted` of
/// them.
fn segments_of(runs: &[&[&[u8]]], wanted: usize) -> Vec<Segment> {
    let (heavy, fair) = heavy_runs(runs, wanted);
    let mut next = 0;
    let together = runs.chunk_by(|a, b| a.len() < heavy && b.len() < heavy);
    let mut segments: Vec<Segment> = together
        .map(|some| {
            let runs = next..next + some.len();
            next = runs.end;
            let weight = some.iter().map(|run| run.len()).sum();
            Segment { runs, weight, is_hot: some[0].len() >= heavy }
        })
        .collect();
    // Too little for a drange of its own goes to the hot key behind it, the last of all to the one
    // before it.
    loop {
        let between = segments.iter().enumerate().filter(|(_, segment)| !segment.is_hot);
        let Some((index, least)) = between.min_by_key(|(_, segment)| segment.weight) else { break };
        let is_enough = least.weight as f64 >= ENOUGH * fair as f64 && segments.len() <= wanted;
        if segments.len() == 1 || is_enough {
            break;
        }
        let least = segments.remove(index);
        let hot = if index < segments.len() { index } else { index - 1 };
        let hot = &mut segments[hot];
        hot.weight += least.weight;
        hot.runs = hot.runs.start.min(least.runs.start)..hot.runs.end.max(least.runs.end);
    }
    segments
}

/// From how many samples on a key is hot, and what is a fair share of the writes to all lighter
/// ones.
fn heavy_runs(runs: &[&[&[u8]]], wanted: usize) -> (usize, usize) {
    let mut heavy = usize::MAX;
    loop {
        let lens = || runs.iter().map(|run| run.len());
        let lighter = || lens().filter(|len| *len < heavy);
        let weight: usize = lighter().sum();
        let hot = lens().filter(|len| *len >= heavy).map(|len| (len, usize::MAX));
        let left = apportion([(weight, lighter().count())].into_iter().chain(hot), wanted)[0];
        let fair = weight.div_ceil(left).max(2);
        // Without the hot ones less is fair, which may make hot what was not.
        if lighter().all(|len| len < fair) {
            return (heavy, fair);
        }
        heavy = fair;
    }
}

impl Segment {
    /// Its weight, and how many dranges can be made of it.
    fn claim(&self) -> (usize, usize) {
        (self.weight, if self.is_hot { usize::MAX } else { self.runs.len() })
    }
}

/// Deals `wanted` dranges out to claims (weight, most): at least one to each, and no more than that
/// where there is no weight. Each next one goes to where it lowers Σ weight²/count most, and with
/// it the deviation of the shares: this is the method of equal proportions, which deals out the
/// seats of a house among states (Huntington 1928). Fewer are dealt out if no claim takes more.
fn apportion(claims: impl Iterator<Item = (usize, usize)>, wanted: usize) -> Vec<usize> {
    let claims: Vec<(f64, usize)> = claims.map(|(weight, most)| (weight as f64, most)).collect();
    let mut counts = vec![1; claims.len()];
    let lowers = |index: usize, count: usize| {
        let weight = claims[index].0;
        weight * weight / (count * (count + 1)) as f64
    };
    for _ in claims.len()..wanted {
        let open = (0..claims.len()).filter(|index| counts[*index] < claims[*index].1);
        let best = open.max_by(|one, other| {
            lowers(*one, counts[*one]).total_cmp(&lowers(*other, counts[*other]))
        });
        let Some(best) = best.filter(|best| claims[*best].0 > 0.0) else { break };
        counts[best] += 1;
    }
    counts
}

/// Keys that divide `runs` into `count` parts of about equal weight, fewer if there are too few.
fn split(runs: &[&[&[u8]]], count: usize) -> Vec<Vec<u8>> {
    let mut weight: usize = runs.iter().map(|run| run.len()).sum();
    let mut keys = Vec::with_capacity(count);
    let mut next = 0;
    for left in (2..=count).rev() {
        // What is left is fair to what is left.
        let fair = weight as f64 / left as f64;
        let mut taken = 0;
        while let Some(run) = runs.get(next) {
            let (with, without) = ((taken + run.len()) as f64 - fair, fair - taken as f64);
            if taken > 0 && with > without {
                break;
            }
            taken += run.len();
            next += 1;
        }
        weight -= taken;
        let Some(run) = runs.get(next) else { break };
        keys.push(run[0].to_vec());
    }
    keys
}

#[cfg(test)]
mod tests;
