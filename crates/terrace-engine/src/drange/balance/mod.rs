//! When and how the dranges of a range are divided anew. Pure: from a sample of the writes.
//!
//! ```text
//!   sample       a a a a a a a b c d e f g h i j k l m n o p
//!   too much     |      0      |  1  |  2  |     3       |     share of 3 over 1/4 + ε
//!   minor        |      0      |  1  |    2   |   3      |     2 and 3 divide theirs
//!   major        |     0     |1 |   2  |   3   |               all is divided, and a is a point
//! ```
//! *Source:* Nova-LSM §4.1 and the triggers of its code: a drange is unfair when its share is off
//! by more than a fifth of the fair one; a *major* reorganisation divides everything when more than
//! 30 % of the dranges are unfair, else a *minor* one evens out the worst with its neighbours.
//! *Differs:* the paper counts writes by tiny range and looks at them every so many writes. Here
//! each flush takes a sample of the versions that it meets anyway, in key order, so the keys in it
//! are the borders of tiny ranges of equal weight, as many a drange as [`SAMPLES_PER_DRANGE`].

use super::Boundaries;

/// Keys of a sample for each drange, at least: the borders of tiny ranges.
pub const SAMPLES_PER_DRANGE: usize = 32;

/// Below so many writes a drange, a share is left to chance.
const WRITES_PER_DRANGE: u64 = 400;

/// A drange is unfair when its share is off by more than this part of the fair one.
const UNFAIR: f64 = 0.2;

/// Everything is divided anew when more than this part of the dranges are unfair.
const UNFAIR_FOR_MAJOR: f64 = 0.3;

/// So much of the fair share is worth a drange.
const ENOUGH: f64 = 0.75;

/// A minor reorganisation is worth its while if it takes this part of the fair share off the worst, a
/// major one if it takes this part off the unfairness of all.
const GAIN: f64 = 0.1;

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reorganisation {
    /// A drange evens out with its neighbours.
    Minor(Boundaries),
    /// Everything is divided anew.
    Major(Boundaries),
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

/// How the range is to be divided from now on, if it should be otherwise than at `current`: into
/// `wanted` dranges, from a `sample`, ascending, that was taken out of so many `writes`.
#[must_use]
pub fn judge(
    current: &Boundaries,
    sample: &[&[u8]],
    writes: u64,
    wanted: usize,
) -> Option<Reorganisation> {
    let enough = sample.len() >= wanted * SAMPLES_PER_DRANGE / 2;
    if wanted <= 1 || !enough || writes < WRITES_PER_DRANGE * wanted as u64 {
        return None;
    }
    if current.keys().len() + 1 != wanted {
        return anew(current, sample, wanted);
    }
    let unfair = unfairness(current, sample);
    let count = unfair.iter().filter(|unfair| **unfair > UNFAIR).count();
    if count as f64 > UNFAIR_FOR_MAJOR * wanted as f64 {
        return anew(current, sample, wanted);
    }
    let (worst, most) =
        unfair.iter().enumerate().max_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|_| count > 0)?;
    let evened = even_out(current, worst, sample);
    let left = unfairness(&evened, sample);
    let around = worst.saturating_sub(1)..(worst + 2).min(left.len());
    let is_better = left[around].iter().all(|left| *left < most - GAIN);
    is_better.then_some(Reorganisation::Minor(evened))
}

/// Everything divided anew, if that is any better.
#[must_use]
pub fn anew(current: &Boundaries, sample: &[&[u8]], wanted: usize) -> Option<Reorganisation> {
    let divided = Boundaries::new(divide(sample, wanted));
    gains(current, &divided, sample).then_some(Reorganisation::Major(divided))
}

/// Whether dividing at `divided` leaves dranges with less unfairness, on the whole, than now.
fn gains(current: &Boundaries, divided: &Boundaries, sample: &[&[u8]]) -> bool {
    if current.keys().len() != divided.keys().len() {
        return true;
    }
    let sum = |boundaries| unfairness(boundaries, sample).iter().sum::<f64>();
    sum(divided) < (1.0 - GAIN) * sum(current)
}

/// How far each drange's share is off the fair one, as a part of the fair one. A drange whose one
/// key is more than a fair share has what it has: it is never unfair, and the fair share is what the
/// others have on average.
fn unfairness(boundaries: &Boundaries, sample: &[&[u8]]) -> Vec<f64> {
    let count = boundaries.keys().len() + 1;
    let is_point =
        |part: &[&[u8]]| part.len() * count > sample.len() && part.first() == part.last();
    let others = || parts(boundaries, sample).filter(|part| !is_point(part));
    let fair = others().map(<[_]>::len).sum::<usize>() as f64 / others().count().max(1) as f64;
    let off = |part: &[&[u8]]| match is_point(part) {
        true => 0.0,
        false => (part.len() as f64 - fair).abs() / fair.max(1.0),
    };
    parts(boundaries, sample).map(off).collect()
}

/// The boundaries after a drange has divided its keys and its neighbours' evenly among them.
fn even_out(current: &Boundaries, index: usize, sample: &[&[u8]]) -> Boundaries {
    let keys = current.keys();
    let (first, last) = (index.saturating_sub(1), (index + 1).min(keys.len()));
    let below = |at: usize| sample.partition_point(|key| *key < keys[at].as_slice());
    let from = first.checked_sub(1).map_or(0, below);
    let to = if last < keys.len() { below(last) } else { sample.len() };
    let inner = divide(&sample[from..to], last - first + 1);
    if inner.len() != last - first {
        return current.clone();
    }
    let outer = (keys[..first].iter().cloned(), keys[last..].iter().cloned());
    let all: Vec<_> = outer.0.chain(inner).chain(outer.1).collect();
    match all.is_sorted_by(|a, b| a < b) {
        true => Boundaries::new(all),
        false => current.clone(),
    }
}

/// Keys that divide the sampled writes into `parts` of about equal weight, fewer if the sample does
/// not have them. A key that is more than a fair part by itself becomes a drange of its own, and what
/// is fair to the others is counted without it.
fn divide(sample: &[&[u8]], parts: usize) -> Vec<Vec<u8>> {
    let runs: Vec<&[&[u8]]> = sample.chunk_by(|a, b| a == b).collect();
    let (heavy, mut weight, mut left) = heavy_runs(&runs, parts);
    let mut keys: Vec<Vec<u8>> = Vec::with_capacity(parts);
    let mut next = 0;
    while keys.len() + 1 < parts && next < runs.len() {
        // What is left is fair to what is left.
        let fair = weight as f64 / left as f64;
        let mut taken = 0;
        while let Some(run) = runs.get(next).filter(|run| run.len() < heavy) {
            let (with, without) = ((taken + run.len()) as f64 - fair, fair - taken as f64);
            if taken > 0 && with > without {
                break;
            }
            taken += run.len();
            next += 1;
        }
        weight -= taken;
        let Some(run) = runs.get(next) else { break };
        // Too little for a drange of its own goes to the heavy key behind it.
        let boundary = if run.len() >= heavy && (taken == 0 || (taken as f64) < ENOUGH * fair) {
            next += 1;
            [run[0], &[0]].concat()
        } else {
            left = (left - 1).max(1);
            run[0].to_vec()
        };
        if !boundary.is_empty() && keys.last().is_none_or(|last| *last < boundary) {
            keys.push(boundary);
        }
    }
    keys
}

/// From how many samples on a key is a part by itself; the weight of all lighter ones, and the parts
/// that are left for them.
fn heavy_runs(runs: &[&[&[u8]]], parts: usize) -> (usize, usize, usize) {
    let mut heavy = usize::MAX;
    loop {
        let lighter = || runs.iter().map(|run| run.len()).filter(|len| *len < heavy);
        let weight: usize = lighter().sum();
        let left = parts.saturating_sub(runs.len() - lighter().count()).max(1);
        let fair = weight.div_ceil(left).max(2);
        // Without the heavy ones less is fair, which may make heavy what was not.
        if lighter().all(|len| len < fair) {
            return (heavy, weight, left);
        }
        heavy = fair;
    }
}

#[cfg(test)]
mod tests;
