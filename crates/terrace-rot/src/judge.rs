//! Judges what a check, a repair and an open make of a damaged disk.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use terrace_engine::check::{CheckDepth, CheckReport, Severity, check_dir};
use terrace_engine::options::Options;
use terrace_engine::repair::{LossKind, RepairReport, repair};
use terrace_engine::store::{GetOptions, IterOptions, Store};
use terrace_engine::survey::{Piece, Pieces, SegmentSurvey};
use terrace_engine::{Error, Result};
use terrace_env::{DiskImage, SharedEnv, SimEnv, SimOptions};

use crate::dead::DeadBytes;
use crate::fault::{Change, changes};
use crate::history::Content;
use crate::specimen::{DIR, Ending, Specimen, files_of, open};

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
    /// The contents that the range may have: after each number of steps that may be the last.
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
            contents: specimen.history.contents(),
        };
        let seen = judge.look(&specimen.disk, Effort::Repair)?;
        let report = seen.check.as_ref().map_err(|error| format!("not checkable: {error}"))?;
        if !report.is_clean() || (specimen.ending == Ending::Closed && is_listed(report)) {
            return Err(format!("found in a whole range: {report}"));
        }
        let steps_min = match specimen.ending {
            Ending::Closed => specimen.history.steps.len(),
            Ending::Killed => specimen.history.steps_through(durable_seqno(&specimen.disk)),
        };
        judge.contents = judge.contents.split_off(specimen.history.steps.len());
        let mut violations = Vec::new();
        judge.judge_reads(&seen, false, &mut violations);
        judge.judge_repair(&seen, true, &mut violations);
        if let Some(violation) = violations.first() {
            return Err(format!("a whole range: {violation}"));
        }
        judge.contents = specimen.history.contents().split_off(steps_min);
        judge.dead = DeadBytes::of(&specimen.disk, report);
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
        self.judge_reads(&seen, !is_harmless, &mut violations);
        self.judge_repair(&seen, is_harmless, &mut violations);
        Verdict { outcome, violations }
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

    /// Whether a key may have this value, or none.
    fn is_right(&self, key: &[u8], value: Option<&Vec<u8>>) -> bool {
        self.contents.iter().any(|content| content.get(key) == value)
    }

    fn judge_reads(&self, seen: &Seen, may_refuse: bool, violations: &mut Vec<String>) {
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
                Ok(value) if self.is_right(key, value.as_ref()) => {}
                Ok(value) => {
                    let (key, found) = (key.escape_ascii(), value.is_some());
                    violations.push(format!("a get of {key} is wrong (a value: {found})"));
                }
                Err(error) if may_refuse && is_refusal(error) => {}
                Err(error) => violations.push(format!("a get fails: {error}")),
            }
        }
        match all {
            Ok(content) if self.contents.contains(content) => {
                let is_whole = self.contents.last() == Some(content);
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

    fn judge_repair(&self, seen: &Seen, must_be_complete: bool, violations: &mut Vec<String>) {
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
        let last = self.contents.last();
        for key in &self.keys {
            let found = content.get(key);
            if self.is_right(key, found) {
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

/// The greatest number that the log of a killed range says was durable: of the last record below
/// the greatest durable position that any record names.
fn durable_seqno(disk: &DiskImage) -> u64 {
    let mut durable = 0;
    let mut ends = Vec::new();
    for (path, _) in files_of(disk) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let id = name.strip_suffix(".log").and_then(terrace_base::FileId::parse);
        let (Some(id), Ok(bytes)) = (id, disk.read(&path)) else { continue };
        let survey = SegmentSurvey::of_file(id, &bytes);
        let Some(header) = survey.header() else { continue };
        if survey.begins_an_epoch() {
            durable = durable.max(header.base.0);
        }
        let offsets = survey.record_offsets();
        for piece in Pieces::new(&bytes, header.identity, offsets.clone()) {
            if let Piece::Record { offset, header: record, .. } = piece {
                durable = durable.max(record.durable.0);
                let end = header.base.0 + (offset - offsets.start) + record.padded_bytes();
                let last = record.first_seqno.0 + u64::from(record.seqno_count);
                ends.push((end, last.saturating_sub(1)));
            }
        }
    }
    let below = ends.into_iter().filter(|(end, _)| *end <= durable);
    below.map(|(_, seqno)| seqno).max().unwrap_or_default()
}
