//! Failing calls: a workload runs once to count its calls of the environment, and then once for
//! each single call and each way in which it can fail.
//!
//! What must hold: no panic and no hang; nothing is seen that was not written; what was refused is
//! not there; and what was acknowledged survives a killed process and, if it was synced, a power
//! cut. A sync that is tried again after it failed loses data here, because the layer that lets it
//! fail drops the pages as a kernel does.

use std::sync::Arc;
use std::time::Duration;

use terrace_base::WallTime;
use terrace_engine::options::Durability;
use terrace_env::{
    CrashPolicy, Fault, FaultEffect, FaultErrno, FaultPlan, InjectedFault, Operation, SeededRng,
};

use crate::crash::{Allowed, name_of, recover};
use crate::failed::Failed;
use crate::oracle::{Model, Order, Tolerance, Violation, judge, model_of, orders, promise_at};
use crate::run::{Case, Run, Scene, run};
use crate::tally::Tally;

/// The ways in which a call fails, with a name each. Long delays are no failures, but what waits
/// for them must not be harmed.
pub const EFFECTS: &[(&str, FaultEffect)] = &[
    ("EIO", FaultEffect::Error(FaultErrno::Io)),
    ("ENOSPC", FaultEffect::Error(FaultErrno::NoSpace)),
    ("EINTR", FaultEffect::Error(FaultErrno::Interrupted)),
    ("EMFILE", FaultEffect::Error(FaultErrno::TooManyFiles)),
    ("short write, EIO", FaultEffect::ShortWrite(FaultErrno::Io)),
    ("short write, ENOSPC", FaultEffect::ShortWrite(FaultErrno::NoSpace)),
    ("delay of 3 s", FaultEffect::Delay(Duration::from_secs(3))),
];

/// What the faults of a run excuse.
#[must_use]
pub fn tolerance_of(injected: &[InjectedFault]) -> Tolerance {
    let mut tolerance = Tolerance::default();
    for fault in injected {
        let errno = match fault.effect {
            FaultEffect::Delay(_) => continue,
            FaultEffect::Error(errno) | FaultEffect::ShortWrite(errno) => errno,
        };
        tolerance.io = true;
        tolerance.no_space |= errno == FaultErrno::NoSpace;
        tolerance.poisoned |= match fault.operation {
            Operation::Sync | Operation::SyncDir => true,
            Operation::Write => fault.path.extension().is_some_and(|kind| kind == "log"),
            _ => false,
        };
    }
    tolerance
}

/// The commit orders in which everything that the clients of a run saw could be so, each with the
/// model after it. `base` was there before. At least one.
///
/// Errors: what is wrong with the last order that was tried.
pub fn judged<'a>(
    done: &'a Run,
    base: &Model,
    tolerance: Tolerance,
) -> Result<Vec<(Order<'a>, Model)>, Violation> {
    let mut wrong = None;
    let mut right = Vec::new();
    for order in orders(&done.record, base.seqno(), None)? {
        let model = model_of(base, &order);
        match judge(&done.record, &order, &model, tolerance) {
            Ok(()) => right.push((order, model)),
            Err(violation) => wrong = Some(violation),
        }
    }
    match wrong {
        Some(violation) if right.is_empty() => Err(violation),
        _ => Ok(right),
    }
}

/// Runs a case with faults, judges it, stops the machine at its end in two ways, and judges what
/// is left.
pub fn run_with(case: &Case, faults: &FaultPlan) -> Result<Run, Failed> {
    let failed =
        |violation: Violation| Failed { faults: faults.clone(), ..Failed::new(case, violation) };
    let scene = Scene { faults: faults.clone(), with_fault_layer: true, ..Scene::default() };
    let done = run(case, scene).map_err(failed)?;
    judge_end(case, &done).map_err(failed)?;
    Ok(done)
}

fn judge_end(case: &Case, done: &Run) -> Result<(), Violation> {
    let found = judged(done, &Model::default(), tolerance_of(&done.injected))?;
    let mut random = SeededRng::stream(case.seed, 54);
    for policy in [CrashPolicy::ProcessKill, CrashPolicy::SyncedOnly] {
        let storage = done.storage.crash(policy, random.next_u64());
        let seed = random.next_u64();
        let mut last = Ok(());
        for (order, model) in &found {
            let of_class = lasting_class(case, done);
            let promise = promise_at(&done.record, order, 0, of_class, u64::MAX, done.at);
            let ends = order.iter().map(|placed| placed.last);
            let boundaries: Vec<u64> = std::iter::once(0).chain(ends).collect();
            let is_kill = policy == CrashPolicy::ProcessKill;
            let least = if is_kill { promise.kill } else { promise.cut };
            let allowed = Allowed { model, boundaries: &boundaries, least, most: promise.begun };
            last = recover(&case.setup, storage.clone(), done.wall, &allowed, seed).map(|_| ());
            if last.is_ok() {
                break;
            }
        }
        last.map_err(|violation| violation.within(&format!("{} at the end", name_of(policy))))?;
    }
    Ok(())
}

/// The class whose promises a run can keep: a failed or late sync ends what was promised for
/// intervals.
#[must_use]
pub fn lasting_class(case: &Case, done: &Run) -> Durability {
    match case.setup.options.durability {
        Durability::Interval(_) if !done.injected.is_empty() => Durability::Buffered,
        class => class,
    }
}

/// Fails each `stride`-th call of a case in each way, beginning with the `first`-th of them. Counts
/// the runs by the way and by the call.
pub fn sweep(case: &Case, first: u64, stride: u64, tally: &mut Tally) -> Result<(), Failed> {
    let calls = run_with(case, &FaultPlan::default())?.calls;
    for nth in (1 + first % stride.max(1)..=calls).step_by(stride.max(1) as usize) {
        let mut is_write = true;
        for (name, effect) in EFFECTS {
            // Only a write can be short; to other calls it is an error like any.
            if !is_write && matches!(effect, FaultEffect::ShortWrite(_)) {
                continue;
            }
            let done = run_with(case, &FaultPlan::one(Fault::any(nth, *effect)))?;
            for fault in &done.injected {
                is_write = fault.operation == Operation::Write;
                tally.count(&format!("{:?} with {name}", fault.operation));
            }
        }
    }
    Ok(())
}

/// The wall clock so long after the start of a run.
#[must_use]
pub fn wall_at(done: &Run, at: Duration) -> WallTime {
    let passed = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
    WallTime(done.wall_start.0.saturating_add(passed))
}

/// A case of one client that restarts, flushes and compacts, small enough to run for each call.
#[must_use]
pub fn case(seed: u64) -> Case {
    let mut case = crate::crash::random(seed);
    if seed.is_multiple_of(2) {
        let mut one = Vec::new();
        case.clients.iter_mut().for_each(|operations| one.append(operations));
        case.clients = vec![one];
    }
    let mut setup = crate::setup::Setup::clone(&case.setup);
    setup.mapped_logs = false;
    case.setup = Arc::new(setup);
    case
}
