//! The space that a store's files take while a step runs, over the bytes that live in it.
//!
//! ```text
//! share of the step   0 ......... 0.45 ....... 0.55 ....... 0.65 ......... 1
//!                     apart        a reader     what it kept     apart
//!                                  holds        is given back
//! ```
//! All files below the store's directory count with their blocks: logs, tables, values, what is
//! about to be deleted, what is kept for later.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use terrace_bench::StoreError;

use super::Fields;
use crate::engines::{Held, Peer};
use crate::footprint;

/// The field of a report with the most bytes at any look, for each byte that lives.
pub const MOST: &str = "space_ratio_most";

/// The field of a report with the median of all looks.
pub const MEDIAN: &str = "space_ratio_median";

/// The field of a report with the most at a look at which no reader had anything to do with it.
pub const MOST_APART: &str = "space_ratio_most_apart";

/// The field of a report with where the step was at a look, and what there was for each byte that
/// lives.
pub const SAMPLES: &str = "space_samples";

/// How often the files are counted.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// The most samples that a report has.
const SAMPLES_MAX: usize = 250;

/// From where to where in a step a reader holds a snapshot.
const HELD: [f64; 2] = [0.45, 0.55];

/// Until where what it kept may still be there.
const GIVEN_BACK: f64 = 0.65;

/// Where a step is: the part of its operations that is done.
#[derive(Debug, Default)]
pub struct Course(AtomicU64);

impl Course {
    /// Says that `done` of `total` operations are done.
    pub fn set(&self, done: u64, total: u64) {
        self.0.store((done as f64 / total.max(1) as f64).to_bits(), Ordering::Relaxed);
    }

    fn share(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// One look.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Where the step was.
    share: f64,
    /// The bytes of all files.
    bytes: u64,
    /// Whether a snapshot was held, or what one had kept may have been there.
    is_readers: bool,
}

/// Runs `work`, and looks meanwhile how much space `dir` takes. If there is a `reader`, a snapshot
/// of that store is held for the middle tenth of the course.
///
/// Errors: the files cannot be counted; the store has no snapshots.
pub fn watch<T>(
    dir: &Path,
    reader: Option<&dyn Peer>,
    course: &Course,
    work: impl FnOnce() -> T,
) -> Result<(T, Vec<Sample>), StoreError> {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| look(dir, reader, course, &is_done));
        let outcome = work();
        is_done.store(true, Ordering::Release);
        looking.thread().unpark();
        let samples = looking.join().map_err(|_| "the watch over the files panicked")??;
        Ok((outcome, samples))
    })
}

fn look(
    dir: &Path,
    reader: Option<&dyn Peer>,
    course: &Course,
    is_done: &AtomicBool,
) -> Result<Vec<Sample>, StoreError> {
    let mut samples = Vec::new();
    let mut held: Option<Box<dyn Held + '_>> = None;
    loop {
        let is_last = is_done.load(Ordering::Acquire);
        let share = course.share();
        if let Some(store) = reader {
            let wants = (HELD[0]..HELD[1]).contains(&share);
            if !wants {
                held = None;
            } else if held.is_none() {
                held = Some(store.hold()?);
            }
        }
        let bytes = footprint::bytes_below(dir)?;
        let may_be_kept = (HELD[0]..GIVEN_BACK).contains(&share);
        samples.push(Sample { share, bytes, is_readers: reader.is_some() && may_be_kept });
        if is_last {
            return Ok(samples);
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// The most bytes at any look, if there was one.
pub fn most_bytes(samples: &[Sample]) -> Option<u64> {
    samples.iter().map(|sample| sample.bytes).max()
}

/// What the samples come to, given the bytes that live.
pub fn fields(samples: &[Sample], live_bytes: f64) -> Fields {
    let ratio = |sample: &Sample| sample.bytes as f64 / live_bytes;
    let most = |is_readers: Option<bool>| {
        let those = samples.iter().filter(|one| is_readers.is_none_or(|is| one.is_readers == is));
        those.map(ratio).reduce(f64::max)
    };
    let mut sorted: Vec<f64> = samples.iter().map(ratio).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let every = samples.len().div_ceil(SAMPLES_MAX).max(1);
    // The most of those that are left out stands for them.
    let drawn: Vec<(f64, f64)> = samples
        .chunks(every)
        .map(|those| (those[0].share, those.iter().map(ratio).fold(0.0, f64::max)))
        .collect();
    let fields = [
        ("live_bytes", json!(live_bytes)),
        (MOST, json!(most(None))),
        (MOST_APART, json!(most(Some(false)))),
        ("space_ratio_most_with_reader", json!(most(Some(true)))),
        (MEDIAN, json!(sorted.get(sorted.len() / 2))),
        (SAMPLES, json!(drawn)),
    ];
    fields.map(|(name, value)| (name.to_owned(), value)).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    fn told(samples: &[Sample], live_bytes: f64) -> BTreeMap<String, Value> {
        fields(samples, live_bytes).into_iter().collect()
    }

    #[test]
    fn what_a_reader_keeps_is_told_apart() {
        let sample = |share, bytes, is_readers| Sample { share, bytes, is_readers };
        let all = [
            sample(0.0, 100, false),
            sample(0.5, 400, true),
            sample(0.6, 300, true),
            sample(0.7, 120, false),
            sample(1.0, 110, false),
        ];
        let fields = told(&all, 100.0);
        assert_eq!((&fields[MOST], &fields[MOST_APART]), (&4.0.into(), &1.2.into()));
        assert_eq!(fields["space_ratio_most_with_reader"], 4.0);
        assert_eq!(fields[MEDIAN], 1.2);
        assert_eq!(fields[SAMPLES][1], json!([0.5, 4.0]));
        let nobody = told(&all[..1], 100.0);
        assert!(nobody["space_ratio_most_with_reader"].is_null());
        assert!(told(&[], 1.0)[MEDIAN].is_null());
    }

    #[test]
    fn many_samples_become_few_and_the_highest_stays() {
        let high = |at| if at == 777 { 9 } else { 1 };
        let sample = |at| Sample { share: at as f64 / 1e3, bytes: high(at), is_readers: false };
        let all: Vec<Sample> = (0..1000).map(sample).collect();
        let fields = told(&all, 1.0);
        let drawn = fields[SAMPLES].as_array().unwrap();
        assert!(drawn.len() <= SAMPLES_MAX && drawn.len() > SAMPLES_MAX / 2);
        assert_eq!(drawn.iter().filter(|point| point[1] == 9.0).count(), 1);
    }

    #[test]
    fn a_watch_sees_files_of_every_kind() {
        let dir = std::env::temp_dir().join(format!("terrace-space-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        let course = Course::default();
        let work = || {
            course.set(1, 2);
            std::fs::write(dir.join("below/file"), vec![1; 100_000]).unwrap();
            7
        };
        let (seven, samples) = watch(&dir, None, &course, work).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(seven, 7);
        let last = samples.last().unwrap();
        assert!(last.bytes >= 100_000 && !last.is_readers, "{last:?}");
        assert!((last.share - 0.5).abs() < 1e-9);
    }
}
