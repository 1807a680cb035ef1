use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

use crate::Operation;

/// Which calls of an environment fail, and how. The default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The faults. Each counts its matching calls by itself, from when the plan was set.
    pub faults: Vec<Fault>,
}

impl FaultPlan {
    /// A plan of one fault.
    #[must_use]
    pub fn one(fault: Fault) -> FaultPlan {
        FaultPlan { faults: vec![fault] }
    }
}

/// One reason for calls to fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The calls that match; all if `None`.
    pub operation: Option<Operation>,
    /// Only calls match whose path contains this; all if `None`. The path of a thread that is
    /// started is its name.
    pub path_contains: Option<String>,
    /// Which of the matching calls fails, from 1.
    pub nth: u64,
    /// Whether every matching call after that one fails too.
    pub and_later: bool,
    /// What happens.
    pub effect: FaultEffect,
}

impl Fault {
    /// The `nth` call of all fails with `effect`.
    #[must_use]
    pub fn any(nth: u64, effect: FaultEffect) -> Fault {
        Fault { operation: None, path_contains: None, nth, and_later: false, effect }
    }

    /// The `nth` call of `operation` fails with `effect`.
    #[must_use]
    pub fn nth(operation: Operation, nth: u64, effect: FaultEffect) -> Fault {
        Fault { operation: Some(operation), ..Fault::any(nth, effect) }
    }

    /// Every call of `operation` from the `nth` on fails with `effect`.
    #[must_use]
    pub fn from_nth(operation: Operation, nth: u64, effect: FaultEffect) -> Fault {
        Fault { and_later: true, ..Fault::nth(operation, nth, effect) }
    }

    /// The same for paths that contain `part` only.
    #[must_use]
    pub fn on(self, part: &str) -> Fault {
        Fault { path_contains: Some(part.to_string()), ..self }
    }

    fn matches(&self, operation: Operation, path: &Path) -> bool {
        self.operation.is_none_or(|wanted| wanted == operation)
            && self.path_contains.as_ref().is_none_or(|part| path.to_string_lossy().contains(part))
    }
}

/// What a fault does to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultEffect {
    /// The call does nothing and fails.
    Error(FaultErrno),
    /// The first half of the bytes of a write is written before it fails. Other calls do nothing
    /// and fail.
    ShortWrite(FaultErrno),
    /// The call begins only after this time, and succeeds.
    Delay(Duration),
}

/// With what a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultErrno {
    /// `EIO`: the device failed.
    Io,
    /// `ENOSPC`: the device is full.
    NoSpace,
    /// `EINTR`: the call was interrupted by a signal.
    Interrupted,
    /// `EAGAIN`: a limit was reached, of threads for example.
    Again,
    /// `EMFILE`: the process has too many files open.
    TooManyFiles,
    /// `EXDEV`: the two names of a link lie on different file systems.
    CrossDevice,
}

impl FaultErrno {
    pub(super) fn error(self) -> io::Error {
        let errno = match self {
            FaultErrno::Io => Errno::IO,
            FaultErrno::NoSpace => Errno::NOSPC,
            FaultErrno::Interrupted => Errno::INTR,
            FaultErrno::Again => Errno::AGAIN,
            FaultErrno::TooManyFiles => Errno::MFILE,
            FaultErrno::CrossDevice => Errno::XDEV,
        };
        errno.into()
    }
}

/// A fault that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InjectedFault {
    /// The call's number among all calls, from 1.
    pub call: u64,
    /// What was called.
    pub operation: Operation,
    /// On what.
    pub path: PathBuf,
    /// What happened.
    pub effect: FaultEffect,
}

/// A plan at work.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    plan: FaultPlan,
    /// Matching calls so far, for each fault of the plan.
    matched: Vec<u64>,
    calls: u64,
    counts: BTreeMap<Operation, u64>,
    injected: Vec<InjectedFault>,
}

/// What is to happen to one call: a delay, then a failure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub delay: Duration,
    pub failure: Option<FaultErrno>,
    /// Whether the first half of a write happens before the failure.
    pub is_short_write: bool,
}

impl Ledger {
    pub fn set_plan(&mut self, plan: FaultPlan) {
        self.matched = vec![0; plan.faults.len()];
        self.plan = plan;
    }

    /// Counts a call and decides what happens to it. Delays add up; of several failures the first
    /// in the plan counts.
    pub fn judge(&mut self, operation: Operation, path: &Path) -> Verdict {
        self.calls += 1;
        *self.counts.entry(operation).or_default() += 1;
        let mut verdict = Verdict::default();
        for (fault, matched) in self.plan.faults.iter().zip(&mut self.matched) {
            if !fault.matches(operation, path) {
                continue;
            }
            *matched += 1;
            if *matched != fault.nth && !(fault.and_later && *matched > fault.nth) {
                continue;
            }
            match fault.effect {
                FaultEffect::Delay(delay) => verdict.delay += delay,
                FaultEffect::Error(_) | FaultEffect::ShortWrite(_) if verdict.failure.is_some() => {
                    continue;
                }
                FaultEffect::Error(failure) => verdict.failure = Some(failure),
                FaultEffect::ShortWrite(failure) => {
                    verdict.failure = Some(failure);
                    verdict.is_short_write = operation == Operation::Write;
                }
            }
            self.injected.push(InjectedFault {
                call: self.calls,
                operation,
                path: path.to_path_buf(),
                effect: fault.effect,
            });
        }
        verdict
    }

    pub fn counts(&self) -> &BTreeMap<Operation, u64> {
        &self.counts
    }

    pub fn calls(&self) -> u64 {
        self.calls
    }

    pub fn injected(&self) -> &[InjectedFault] {
        &self.injected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_counts_the_calls_that_match_it() {
        let mut ledger = Ledger::default();
        let faults = vec![
            Fault::nth(Operation::Write, 2, FaultEffect::Error(FaultErrno::NoSpace)).on("log"),
            Fault::any(4, FaultEffect::Delay(Duration::from_secs(1))),
            Fault::from_nth(Operation::Write, 3, FaultEffect::ShortWrite(FaultErrno::Io)),
        ];
        ledger.set_plan(FaultPlan { faults });
        let mut judge = |operation, path: &str| {
            let verdict = ledger.judge(operation, Path::new(path));
            (verdict.delay.as_secs(), verdict.failure, verdict.is_short_write)
        };
        assert_eq!(judge(Operation::Write, "/log"), (0, None, false));
        assert_eq!(judge(Operation::Write, "/table"), (0, None, false));
        assert_eq!(judge(Operation::Sync, "/log"), (0, None, false));
        assert_eq!(judge(Operation::Write, "/log"), (1, Some(FaultErrno::NoSpace), false));
        assert_eq!(judge(Operation::Write, "/log"), (0, Some(FaultErrno::Io), true));
        assert_eq!(ledger.calls(), 5);
        assert_eq!(ledger.counts()[&Operation::Write], 4);
        let calls: Vec<u64> = ledger.injected().iter().map(|fault| fault.call).collect();
        assert_eq!(calls, [4, 4, 5]);
    }
}
