//! Judges what a check, a repair and an open make of a damaged disk.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use terrace_engine::check::{CheckDepth, CheckReport, Severity, check_dir};
use terrace_engine::options::Options;
use terrace_engine::repair::{LossKind, RepairReport, repair};
use terrace_engine::store::{GetOptions, IterOptions, Store};
use terrace_engine::{Error, Result};
use terrace_env::{DiskImage, SharedEnv, SimEnv, SimOptions};

use crate::dead::DeadBytes;
use crate::durable::Durable;
use crate::fault::{Change, changes};
use crate::history::Content;
use crate::specimen::{DIR, Ending, Specimen, files_of, on, open};

/// Where a repair puts the new range.
const OUT: &str = "/out";

/// What is done with a damaged disk, beside checking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Nothing.
    Check,
    /// It is opened, and everything is read.
    Read,
    /// And it is repaired, and the new range is read.
    Repair,
}

/// What became of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It made no difference: the bytes were the same before.
    Unchanged,
    /// The check names it as damage.
    Damage,
    /// The check lists it as what a crash may have left as well.
    Undecidable,
    /// Only the mark of the clean close is gone: the range is as if it had been killed just then.
    CloseMark,
    /// No reader comes to these bytes, for this reason.
    Dead(&'static str),
    /// Nothing was said, and the bytes are not dead. Always a violation, too.
    Missed,
}

/// A judgement.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What became of the fault.
    pub outcome: Outcome,
    /// What was promised and not kept; empty if all is well.
    pub violations: Vec<String>,
}

/// What is known of a specimen before it is damaged.
pub struct Judge<'a> {
    specimen: &'a Specimen,
    dead: DeadBytes,
    written: BTreeSet<(Vec<u8>, Vec<u8>)>,
    keys: BTreeSet<Vec<u8>>,
    durable: Durable,
    /// How many steps are the fewest that may be left, by what the whole disk says was durable.
    steps_min: usize,
    /// The content after each number of steps.
    contents: Vec<Content>,
}

/// What an open answered.
enum Opened {
    Refused(Error),
    Read { keys: BTreeMap<Vec<u8>, Result<Option<Vec<u8>>>>, all: Result<Content> },
}

/// What a repair made.
struct Repaired {
    report: RepairReport,
    content: Result<Content>,
    check: Result<CheckReport>,
}

/// What came of everything.
struct Seen {
    check: Result<CheckReport>,
    repaired: Option<Result<Repaired>>,
    opened: Option<Opened>,
    is_source_written: bool,
}

impl<'a> Judge<'a> {
    /// Errors: the specimen is not whole before it is damaged; the text says why.
    pub fn new(specimen: &'a Specimen) -> std::result::Result<Judge<'a>, String> {
        let keys = specimen.history.written().into_iter().map(|(key, _)| key).collect();
        let mut judge = Judge {
            specimen,
            dead: DeadBytes::default(),
            written: specimen.history.written(),
            keys,
            durable: Durable::of(&specimen.disk),
            steps_min: specimen.history.steps.len(),
            contents: specimen.history.contents(),
        };
        let seen = judge.look(&specimen.disk, Effort::Repair)?;
        let report = seen.check.as_ref().map_err(|error| format!("not checkable: {error}"))?;
        if !report.is_clean() || (specimen.ending == Ending::Closed && is_listed(report)) {
            return Err(format!("found in a whole range: {report}"));
        }
        let mut violations = Vec::new();
        let whole = &judge.contents[judge.steps_min..];
        judge.judge_reads(&seen, whole, false, &mut violations);
        judge.judge_repair(&seen, whole, true, &mut violations);
        if let Some(violation) = violations.first() {
            return Err(format!("a whole range: {violation}"));
        }
        if specimen.ending == Ending::Killed {
            judge.steps_min = judge.steps_of(&specimen.disk);
        }
        judge.dead = DeadBytes::of(specimen, report);
        Ok(judge)
    }

    /// Which bytes of the specimen are dead.
    #[must_use]
    pub fn dead(&self) -> &DeadBytes {
        &self.dead
    }

    /// Judges a damaged disk of which `changes` say what is different.
    #[must_use]
    pub fn judge(&self, disk: &DiskImage, changes: &[Change], effort: Effort) -> Verdict {
        if changes.is_empty() {
            return Verdict { outcome: Outcome::Unchanged, violations: Vec::new() };
        }
        let seen = match self.look(disk, effort) {
            Ok(seen) => seen,
            Err(panic) => return Verdict { outcome: Outcome::Missed, violations: vec![panic] },
        };
        let mut violations = Vec::new();
        let outcome = self.outcome(&seen, changes);
        if outcome == Outcome::Missed {
            violations.push("the check says nothing of it".to_string());
        }
        if seen.is_source_written {
            violations.push("a check or a repair wrote in the damaged range".to_string());
        }
        let is_harmless = matches!(outcome, Outcome::Dead(_) | Outcome::CloseMark);
        let allowed = self.allowed(outcome, disk);
        self.judge_reads(&seen, allowed, !is_harmless, &mut violations);
        self.judge_repair(&seen, allowed, is_harmless, &mut violations);
        Verdict { outcome, violations }
    }

    fn steps_of(&self, disk: &DiskImage) -> usize {
        self.specimen.history.steps_through(self.durable.seqno_of(disk))
    }

    /// The contents that a damaged range may have.
    ///
    /// What was durable when it was killed must be there, and where damage is proven, nothing less
    /// will do. But each record says only how far the log was durable before it: where the bytes
    /// that said so are gone, and nothing proves damage, the disk is one that a crash at an earlier
    /// moment could have left, and no reader can do better than what the rest of it says.
    fn allowed(&self, outcome: Outcome, disk: &DiskImage) -> &[Content] {
        let is_open = self.specimen.ending == Ending::Killed && outcome == Outcome::Undecidable;
        let steps_min = if is_open { self.steps_of(disk) } else { self.steps_min };
        &self.contents[steps_min.min(self.steps_min)..]
    }

    fn outcome(&self, seen: &Seen, changes: &[Change]) -> Outcome {
        let report = match &seen.check {
            Ok(report) => report,
            // What cannot be checked is not taken for whole.
            Err(_) => return Outcome::Damage,
        };
        if !report.is_clean() {
            return Outcome::Damage;
        }
        let why = |change: &Change| match &change.offsets {
            Some(offsets) => self.dead.why(&change.path, offsets),
            // Another size: dead only if the whole file is.
            None => self.dead.why(&change.path, &[0, u64::MAX - 1]),
        };
        let mut reasons = changes.iter().map(why);
        if let Some(Some(first)) = reasons.next()
            && reasons.all(|reason| reason.is_some())
        {
            return Outcome::Dead(first);
        }
        if is_listed(report) {
            return Outcome::Undecidable;
        }
        match (self.specimen.ending, report.was_closed) {
            (Ending::Closed, Some(false)) => Outcome::CloseMark,
            _ => Outcome::Missed,
        }
    }

    /// Looks at a disk in every way. Errors: something panicked.
    fn look(&self, disk: &DiskImage, effort: Effort) -> std::result::Result<Seen, String> {
        let sim = SimOptions {
            disk: disk.clone(),
            try_read_miss_one_in: 0,
            switch_one_in: 0,
            ..SimOptions::new(self.specimen.seed ^ 0x5eed)
        };
        let looked = catch_unwind(AssertUnwindSafe(|| {
            SimEnv::run(sim, |sim| {
                let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
                self.look_in(&env, &|| sim.disk(), disk, effort)
            })
        }));
        looked.map_err(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
            format!("a panic: {}", text.unwrap_or_default())
        })
    }

    fn look_in(
        &self,
        env: &SharedEnv,
        now: &dyn Fn() -> DiskImage,
        disk: &DiskImage,
        effort: Effort,
    ) -> Seen {
        let (dir, out) = (Path::new(DIR), Path::new(OUT));
        let options = Options { create_if_missing: false, ..self.specimen.options.clone() };
        let check = check_dir(env, dir, CheckDepth::Full, &mut |_, _| ());
        let repaired = (effort >= Effort::Repair).then(|| {
            let options = on(self.specimen.medium, OUT, options.clone());
            let report = repair(env, dir, out, &options, &mut |_, _| true)?;
            let check = check_dir(env, out, CheckDepth::Full, &mut |_, _| ());
            let content = open(env, out, &options).and_then(|store| content_of(&store));
            Ok(Repaired { report, content, check })
        });
        let is_source_written =
            !changes(disk, &now()).is_empty() || files_of(disk).len() != files_of(&now()).len();
        let opened = (effort >= Effort::Read).then(|| match open(env, dir, &options) {
            Err(error) => Opened::Refused(error),
            Ok(store) => {
                let get = |key: &Vec<u8>| {
                    let item = store.get(key, &GetOptions::default());
                    (key.clone(), item.map(|item| item.map(|item| item.value)))
                };
                let keys = self.keys.iter().map(get).collect();
                Opened::Read { keys, all: content_of(&store) }
            }
        });
        Seen { check, repaired, opened, is_source_written }
    }

    fn judge_reads(
        &self,
        seen: &Seen,
        allowed: &[Content],
        may_refuse: bool,
        violations: &mut Vec<String>,
    ) {
        let (keys, all) = match &seen.opened {
            None => return,
            Some(Opened::Refused(error)) => {
                let is_found = seen.check.as_ref().is_ok_and(|report| !report.is_clean());
                if !may_refuse || !is_refusal(error) {
                    violations.push(format!("the open fails: {error}"));
                } else if !is_found && seen.check.is_ok() {
                    violations.push(format!("the open fails, the check finds nothing: {error}"));
                }
                return;
            }
            Some(Opened::Read { keys, all }) => (keys, all),
        };
        for (key, value) in keys {
            match value {
                Ok(value) if is_right(allowed, key, value.as_ref()) => {}
                Ok(value) => {
                    let (key, found) = (key.escape_ascii(), value.is_some());
                    violations.push(format!("a get of {key} is wrong (a value: {found})"));
                }
                Err(error) if may_refuse && is_refusal(error) => {}
                Err(error) => violations.push(format!("a get fails: {error}")),
            }
        }
        match all {
            Ok(content) if allowed.contains(content) => {
                let is_whole = allowed.last() == Some(content);
                let is_said = seen.check.as_ref().map_or(true, is_listed);
                if !is_whole && !is_said {
                    violations.push("writes are gone, and the check lists nothing".to_string());
                }
            }
            Ok(_) => violations.push("a scan is no state that the range ever had".to_string()),
            Err(error) if may_refuse && is_refusal(error) => {}
            Err(error) => violations.push(format!("a scan fails: {error}")),
        }
    }

    fn judge_repair(
        &self,
        seen: &Seen,
        allowed: &[Content],
        must_be_complete: bool,
        violations: &mut Vec<String>,
    ) {
        let Repaired { report, content, check } = match &seen.repaired {
            None => return,
            Some(Ok(repaired)) => repaired,
            Some(Err(error)) => {
                violations.push(format!("the repair fails: {error}"));
                return;
            }
        };
        match check {
            Ok(check) if check.is_clean() && !is_listed(check) => {}
            Ok(check) => violations.push(format!("the repaired range is not whole: {check}")),
            Err(error) => violations.push(format!("the repaired range: {error}")),
        }
        let content = match content {
            Ok(content) => content,
            Err(error) => {
                violations.push(format!("the repaired range cannot be read: {error}"));
                return;
            }
        };
        if must_be_complete && !report.is_complete() {
            violations.push(format!("losses in a range that is whole: {report}"));
        }
        for (key, value) in content {
            if !self.written.contains(&(key.clone(), value.clone())) {
                let key = key.escape_ascii();
                violations.push(format!("the repair made a value up for {key}"));
            }
        }
        let last = allowed.last();
        for key in &self.keys {
            let found = content.get(key);
            if is_right(allowed, key, found) {
                continue;
            }
            let is_live = last.is_some_and(|last| last.contains_key(key));
            let kind = if is_live { LossKind::Lost } else { LossKind::MayReappear };
            let is_said =
                report.losses.iter().any(|loss| loss.kind == kind && loss.keys.contains(key));
            if !is_said {
                let key = key.escape_ascii();
                violations
                    .push(format!("the repair keeps silent about {key} ({kind:?}): {report}"));
            }
        }
    }
}

/// Whether a key may have this value, or none.
fn is_right(allowed: &[Content], key: &[u8], value: Option<&Vec<u8>>) -> bool {
    allowed.iter().any(|content| content.get(key) == value)
}

/// Whether a check lists anything that is not harmless.
fn is_listed(report: &CheckReport) -> bool {
    report.findings.iter().any(|finding| finding.severity != Severity::Harmless)
}

fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Corruption(_) | Error::Unsupported(_) | Error::Invalid(_))
}

/// Everything in a range.
///
/// Errors: the store's.
pub fn content_of(store: &Store) -> Result<Content> {
    let mut content = Content::new();
    let mut iter = store.iter(IterOptions::default())?;
    iter.seek_to_first()?;
    while let Some(entry) = iter.entry() {
        content.insert(entry.key.to_vec(), entry.value.to_vec());
        iter.next()?;
    }
    Ok(content)
}
