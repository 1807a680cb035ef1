//! How models are run: every order of steps of two or three threads, and every value that a load
//! may return, on the code as it is. In builds with `--cfg terrace_loom` only.
//!
//! `scripts/models.sh` builds and runs them. Models have positive controls: the same model with
//! some order weakened, or with a flaw in it, which must fail; else it would show nothing.
//!
//! Most models bound the switches away from a thread that could go on; `TERRACE_MODELS_DEEPER=N`
//! allows N more, for a run that has hours.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use crate::atomic::weaken;

pub use crate::atomic::Weakened;

/// More switches than every model has.
pub const ALL: usize = usize::MAX;

fn deeper() -> usize {
    let text = std::env::var("TERRACE_MODELS_DEEPER").unwrap_or_default();
    if text.is_empty() { 0 } else { text.parse().expect("TERRACE_MODELS_DEEPER is a number") }
}

fn builder(preemptions_max: usize) -> loom::model::Builder {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = (preemptions_max != ALL).then_some(preemptions_max);
    builder
}

/// Runs `model` in every order that has at most `preemptions_max` switches away from a thread that
/// could go on ([`ALL`]: no bound), and prints how many those were.
pub fn explore(name: &str, preemptions_max: usize, model: impl Fn() + Send + Sync + 'static) {
    explore_weakened(name, Weakened::Nothing, preemptions_max, model);
}

/// As [`explore`], with some orders weakened that the model is not to need.
pub fn explore_weakened(
    name: &str,
    weakened: Weakened,
    preemptions_max: usize,
    model: impl Fn() + Send + Sync + 'static,
) {
    let executions = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    let preemptions_max = preemptions_max.saturating_add(deeper());
    weaken(weakened);
    builder(preemptions_max).check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        model();
    });
    weaken(Weakened::Nothing);
    let bound = match preemptions_max {
        ALL => "all".to_owned(),
        bound => format!("at most {bound} preemptions"),
    };
    println!("{name:<52} {:>8} executions: {bound}", executions.load(Ordering::Relaxed));
}

/// Checks that `model` fails with these orders weakened; or as it is, if it has a flaw.
pub fn must_fail(
    name: &str,
    weakened: Weakened,
    preemptions_max: usize,
    model: impl Fn() + Send + Sync + 'static,
) {
    let executions = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    weaken(weakened);
    let outcome = without_a_report(|| {
        builder(preemptions_max).check(move || {
            counter.fetch_add(1, Ordering::Relaxed);
            model();
        });
    });
    weaken(Weakened::Nothing);
    let executions = executions.load(Ordering::Relaxed);
    let what = match weakened {
        Weakened::Nothing => "its flaw".to_owned(),
        weakened => format!("{weakened:?} without effect"),
    };
    let Err(panic) = outcome else {
        panic!("{name}: {what} was not noticed in {executions} executions");
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    let text = text.lines().next().unwrap_or_default();
    println!("{name:<52} {executions:>8} executions until {what} was noticed: {text}");
}

thread_local! {
    static EXPECTS_PANIC: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, whose panics are what is wanted and no news.
fn without_a_report(work: impl FnOnce()) -> std::thread::Result<()> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !EXPECTS_PANIC.get() {
                usual(panic);
            }
        }));
    });
    EXPECTS_PANIC.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    EXPECTS_PANIC.set(false);
    outcome
}
