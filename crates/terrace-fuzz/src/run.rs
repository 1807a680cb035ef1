#![allow(clippy::disallowed_methods, reason = "an execution is timed")]

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::mutate::Mutator;
use crate::targets::Target;
use crate::{allocation, notes};

/// The most inputs that a pool holds.
const POOL_MAX: usize = 4096;

/// How many attempts are made to make a failing input smaller.
const REDUCTIONS_MAX: usize = 4000;

/// When a run is over.
#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// After this number of executions: the same run every time.
    Executions(u64),
    /// After about this time.
    Time(Duration),
}

/// What a run came to, without a failure.
#[derive(Clone, Debug)]
pub struct Report {
    /// The target's name.
    pub target: &'static str,
    /// How many inputs were given to it, the corpus among them.
    pub executions: u64,
    /// How many of these were the corpus.
    pub corpus: usize,
    /// How many different outcomes there were.
    pub outcomes: usize,
    /// The most bytes that one execution held; 0 if nobody counts, see [`allocation`].
    pub peak_bytes: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<16} {:>9} executions, {:>4} of them the corpus, {:>4} outcomes, {:>6} KiB at most",
            self.target,
            self.executions,
            self.corpus,
            self.outcomes,
            self.peak_bytes.div_ceil(1024),
        )
    }
}

/// An input that broke a promise.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The target's name.
    pub target: &'static str,
    /// The execution of the run.
    pub execution: u64,
    /// The input, made as small as was easy.
    pub input: Vec<u8>,
    /// What went wrong.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fails in execution {}: {}", self.target, self.execution, self.message)?;
        write!(f, "\nits input has {} bytes; to repeat it:\n  echo ", self.input.len())?;
        self.input.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(
            f,
            " | xxd -r -p > input && cargo run -p terrace-fuzz -- replay {} input",
            self.target
        )
    }
}

impl std::error::Error for Failure {}

/// Gives one input to a target. Errors: what went wrong.
pub fn replay(target: &Target, input: &[u8]) -> Result<(), String> {
    execute(target, input).map(|_| ())
}

/// The outcomes of an execution and its peak of memory, or what went wrong.
fn execute(target: &Target, input: &[u8]) -> Result<(BTreeSet<u64>, usize), String> {
    notes::begin();
    let (ended, peak_bytes) =
        allocation::peak_of(|| catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
    let outcomes = notes::end();
    ended.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        format!("it panics: {}", text.unwrap_or_else(|| "without a text".into()))
    })?;
    let allowed_bytes = target.memory_max(input.len());
    if peak_bytes > allowed_bytes {
        let bytes = input.len();
        return Err(format!("it holds {peak_bytes} bytes for an input of {bytes} bytes"));
    }
    Ok((outcomes, peak_bytes))
}

/// Gives `corpus` to a target, then mutations of it, until the budget is spent.
///
/// Errors: the first input that broke a promise.
pub fn run(
    target: &Target,
    corpus: Vec<Vec<u8>>,
    seed: u64,
    budget: Budget,
) -> Result<Report, Box<Failure>> {
    let begun = Instant::now();
    let corpus_len = corpus.len();
    let mut known = BTreeSet::new();
    let mut report = Report {
        target: target.name,
        executions: 0,
        corpus: corpus_len,
        outcomes: 0,
        peak_bytes: 0,
    };
    let mut pool = corpus.clone();
    let mut given = corpus.into_iter();
    if pool.is_empty() {
        pool.push(Vec::new());
    }
    let mut mutator = Mutator::new(seed, target.words, target.bytes_max);
    loop {
        let from_corpus = given.next();
        let is_over = match budget {
            Budget::Executions(executions) => report.executions >= executions,
            Budget::Time(time) => begun.elapsed() >= time,
        };
        if is_over && from_corpus.is_none() {
            break;
        }
        let is_mutated = from_corpus.is_none();
        let input = from_corpus.unwrap_or_else(|| mutator.mutate(&pool));
        report.executions += 1;
        match execute(target, &input) {
            Ok((outcomes, peak_bytes)) => {
                report.peak_bytes = report.peak_bytes.max(peak_bytes);
                let before = known.len();
                known.extend(outcomes);
                if known.len() > before && is_mutated && pool.len() < POOL_MAX {
                    pool.push(input);
                }
            }
            Err(message) => {
                let (input, message) = reduce(target, input, message);
                let execution = report.executions;
                return Err(Box::new(Failure { target: target.name, execution, input, message }));
            }
        }
    }
    report.outcomes = known.len();
    Ok(report)
}

/// Leaves parts of a failing input out for as long as it goes on to fail.
fn reduce(target: &Target, mut input: Vec<u8>, mut message: String) -> (Vec<u8>, String) {
    let mut attempts = 0;
    let mut part_bytes = input.len().div_ceil(2).max(1);
    while attempts < REDUCTIONS_MAX {
        let mut at = 0;
        let mut is_smaller = false;
        while at < input.len() && attempts < REDUCTIONS_MAX {
            attempts += 1;
            let end = input.len().min(at + part_bytes);
            let shorter = [&input[..at], &input[end..]].concat();
            match execute(target, &shorter) {
                Ok(_) => at = end,
                Err(other) => {
                    (input, message) = (shorter, other);
                    is_smaller = true;
                }
            }
        }
        if part_bytes > 1 {
            part_bytes = part_bytes.div_ceil(2);
        } else if !is_smaller {
            break;
        }
    }
    (input, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails_on_two_words(data: &[u8]) {
        notes::note_size("bytes", data.len());
        let holds = |word: &[u8]| data.windows(word.len()).any(|found| found == word);
        if holds(b"one") {
            notes::note("one");
            assert!(!holds(b"two"), "both words are there");
        }
    }

    fn fine(data: &[u8]) {
        notes::note_size("bytes", data.len());
    }

    fn target(run: fn(&[u8])) -> Target {
        Target { run, words: &[b"one", b"two"], ..Target::DEFAULT }
    }

    #[test]
    fn a_planted_failure_is_found_and_made_small() {
        let corpus = vec![vec![b'x'; 300]];
        let found = run(&target(fails_on_two_words), corpus, 1, Budget::Executions(100_000));
        let failure = found.expect_err("it is planted");
        // Both words; five bytes hold them if they share one.
        assert!((5..=6).contains(&failure.input.len()), "{failure}");
        assert!(failure.message.contains("both words"), "{failure}");
    }

    #[test]
    fn the_same_seed_is_the_same_run() {
        let report = |seed| {
            run(&target(fine), vec![b"abc".to_vec()], seed, Budget::Executions(500)).unwrap()
        };
        assert_eq!(format!("{:?}", report(3)), format!("{:?}", report(3)));
        assert_eq!(report(3).executions, 500);
    }
}
