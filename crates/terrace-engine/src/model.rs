//! How models are run: every order of steps of two or three threads, and every value that a load
//! may return, on the code as it is.
//!
//! `scripts/models.sh` builds with `--cfg terrace_loom` and runs them. Each model has a positive
//! control beside it: the same model with some order weakened, or with a flaw in it, which must
//! fail; else the model would show nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_env::atomic::{Weakened, weaken};

fn builder(preemptions_max: Option<usize>) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = preemptions_max;
    builder
}

/// Runs `model` in every order that has at most `preemptions_max` switches away from a thread that
/// could go on (no bound if none is given), and prints how many those were.
pub(crate) fn explore(
    name: &str,
    preemptions_max: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    let executions = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    builder(preemptions_max).check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let bound = preemptions_max.map_or("all".to_owned(), |bound| format!("{bound} preemptions"));
    println!("{name:<56} {:>8} executions ({bound})", executions.load(Ordering::Relaxed));
}

/// Checks that `model` fails with these orders weakened.
pub(crate) fn must_fail(
    name: &str,
    weakened: Weakened,
    preemptions_max: Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    let executions = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    weaken(weakened);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        builder(preemptions_max).check(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            model();
        });
    }));
    weaken(Weakened::Nothing);
    let executions = executions.load(Ordering::Relaxed);
    assert!(outcome.is_err(), "{name}: {weakened:?} was not noticed in {executions} executions");
    println!("{name:<56} {executions:>8} executions until {weakened:?} weakened was noticed");
}
