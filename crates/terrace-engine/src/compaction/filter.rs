//! Compaction filters: what a program wants dropped or changed as compactions come by it.
//!
//! A filter is asked about an entry only where its answer cannot be told from a write that happens
//! at a moment of nobody's choosing:
//!
//! ```text
//!   what a job meets, newest first        is the filter asked?
//!   the first entry of its key             yes, if it is a value that has not expired
//!     … above a number that a snapshot     yes
//!       holds, below it none               no: the snapshot would see it vanish
//!   operands, folded into one value        yes, about that value
//!   operands that stay operands            no
//!   any older entry of the key             no
//!   tombstones, range tombstones           no
//! ```
//!
//! An answer keeps the number of its entry. What is dropped becomes a tombstone with that number,
//! so that no older version comes back and a transaction still finds that something was written;
//! where nothing older can exist and no reader stands below, nothing stays of it.
//!
//! Flushes, merges of rows within L0 and moves ask nobody: only what is written into a level below
//! L0 is filtered.
//!
//! # Beside readers
//! A job may install what a filter did only while no snapshot is held that sees one of those
//! entries, and none may be taken until the view has changed; `store/upkeep/filtering.rs` sees to
//! it, and decision 50 has the argument. So it does not matter for safety which entries a job asks
//! about; [`PlanFilter::above`] spares it those that it could not install.
//!
//! *Source:* compaction filters as in RocksDB, SlateDB and fjall.
//! *Differs:* snapshots, iterators and transactions stay repeatable; RocksDB gives that up.

use std::fmt;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::Arc;

use terrace_base::limits::VALUE_BYTES_MAX;
use terrace_base::{Entry, EntryKind, EntryRef, Expiry, SeqNo};

use super::retention::{Retained, Retention};
use crate::merge::is_operator_name;
use crate::{Error, Result};

/// What is asked about the values of a range. Its keys are those that the range stores.
///
/// It is asked by background jobs, many at once, and may be asked about an entry several times, or
/// never. It must not block or call the store. A panic fails the job, and loses nothing.
pub trait CompactionFilter: Send + Sync + fmt::Debug {
    /// The name by which plans call for it: at most 64 bytes of printable ASCII without spaces.
    fn name(&self) -> &str;

    /// What has to be known of the value of `key`.
    fn wants(&self, key: &[u8]) -> Wants;

    /// What becomes of `key`, whose value is shown if it was wanted, and empty if not.
    fn decide(&self, key: &[u8], value: &[u8]) -> Decision;

    /// Who was asked about `key`, for errors: a filter may stand for several.
    fn name_at(&self, key: &[u8]) -> String {
        let _ = key;
        self.name().to_string()
    }
}

/// What a filter has to know of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wants {
    /// It is not asked: the entry stays.
    Nothing,
    /// It decides by the key, and is shown an empty value. A value in the value log is not read.
    Key,
    /// It decides by key and value. A value in the value log is read from there.
    Value,
}

/// What becomes of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Decision {
    /// It stays as it is.
    Keep,
    /// The key is deleted. Older versions do not come back.
    Drop,
    /// The key gets this value, of at most 64 MiB, and keeps its expiry.
    Change(Vec<u8>),
}

/// A filter could not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterFailure {
    /// The filter.
    pub filter: String,
    /// The key that it was asked about, as the range stores it.
    pub key: Vec<u8>,
    /// What happened.
    pub reason: String,
}

impl FilterFailure {
    /// The failure as it is told to a caller that knows the key by this name.
    pub fn show(&self, key: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the compaction filter {} failed at the key \"{}\" ({}); nothing is lost, but tables \
             around this key are not compacted; open the database with the filter mended, or \
             without it",
            self.filter,
            key.escape_ascii(),
            self.reason
        )
    }
}

impl fmt::Display for FilterFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(&self.key, f)
    }
}

/// The filter of a range, if it has one.
#[derive(Clone, Default)]
pub struct FilterOption(pub Option<Arc<dyn CompactionFilter>>);

/// A panic elsewhere leaves no answer half-way: each is given by one call.
impl UnwindSafe for FilterOption {}
impl RefUnwindSafe for FilterOption {}

impl FilterOption {
    /// This filter.
    #[must_use]
    pub fn of(filter: impl CompactionFilter + 'static) -> FilterOption {
        FilterOption(Some(Arc::new(filter)))
    }

    /// Errors: `Invalid`, if the filter's name is out of bounds.
    pub(crate) fn validate(&self) -> Result<()> {
        match self.0.as_ref().map(|filter| filter.name()) {
            Some(name) if !is_operator_name(name) => Err(Error::invalid(format!(
                "{name:?} cannot name a compaction filter: use 1 to 64 printable characters of \
                 ASCII without spaces"
            ))),
            _ => Ok(()),
        }
    }

    /// The filter that a plan calls for, if it is this one.
    pub(super) fn called(&self, plan: Option<&PlanFilter>) -> Option<ActiveFilter> {
        let (filter, plan) = (self.0.as_ref()?, plan?);
        let is_called = filter.name() == plan.name;
        is_called.then(|| ActiveFilter { filter: Arc::clone(filter), above: plan.above })
    }
}

impl fmt::Debug for FilterOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_ref().map_or("none", |filter| filter.name()))
    }
}

/// How a plan calls for a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFilter {
    /// Its name. Whoever does the work and does not know it filters nothing.
    pub name: String,
    /// Only entries with a greater number are shown to it: a snapshot was held at this one.
    pub above: SeqNo,
}

/// The filter of a job.
#[derive(Clone, Debug)]
pub(super) struct ActiveFilter {
    filter: Arc<dyn CompactionFilter>,
    above: SeqNo,
}

/// What filters did in a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Number of values that were dropped.
    pub dropped: u64,
    /// Number of values that were changed.
    pub changed: u64,
    /// The least number of these entries.
    pub least: Option<SeqNo>,
    /// Number of jobs that were done again without their filter, since a snapshot was in its way.
    pub set_aside: u64,
}

impl Filtered {
    /// What was done in two parts of a job.
    #[must_use]
    pub fn and(self, other: Filtered) -> Filtered {
        Filtered {
            dropped: self.dropped + other.dropped,
            changed: self.changed + other.changed,
            least: self.least.into_iter().chain(other.least).min(),
            set_aside: self.set_aside + other.set_aside,
        }
    }
}

impl Retention {
    /// What the filter says to an entry that is the newest of its key in this job.
    fn ask(&self, active: &ActiveFilter, entry: &EntryRef<'_>) -> Result<Decision> {
        let is_whole = matches!(entry.kind, EntryKind::Value | EntryKind::ValuePointer);
        if !is_whole || entry.seqno <= active.above || self.is_deletion(entry) {
            return Ok(Decision::Keep);
        }
        let filter = active.filter.as_ref();
        let wants = guarded(filter, entry.key, || filter.wants(entry.key))?;
        let fetched;
        let value = match wants {
            Wants::Nothing => return Ok(Decision::Keep),
            Wants::Key => &[],
            Wants::Value if entry.kind == EntryKind::Value => entry.value,
            Wants::Value => {
                let Some(value) = self.fetch_for_filter(entry)? else { return Ok(Decision::Keep) };
                fetched = value;
                fetched.as_slice()
            }
        };
        let decision = guarded(filter, entry.key, || filter.decide(entry.key, value))?;
        match &decision {
            Decision::Change(value) if value.len() > VALUE_BYTES_MAX => {
                let reason = format!("its value of {} bytes is longer than 64 MiB", value.len());
                Err(failure(filter, entry.key, reason))
            }
            _ => Ok(decision),
        }
    }

    /// The value that an entry points to; none if it is damaged, or cannot be had here.
    fn fetch_for_filter(&self, entry: &EntryRef<'_>) -> Result<Option<Vec<u8>>> {
        let Some(values) = &self.values else { return Ok(None) };
        match values.fetch(entry.key, entry.value) {
            Ok(value) => Ok(Some(value)),
            // Readers are told; here nothing may be lost.
            Err(Error::Corruption(error)) => {
                crate::program_log::warn!(%error, "a damaged value is not shown to the filter");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn failure(filter: &dyn CompactionFilter, key: &[u8], reason: String) -> Error {
    // What panicked once may do so when it is asked for a name.
    let name = catch_unwind(AssertUnwindSafe(|| filter.name_at(key)));
    let filter = name.unwrap_or_else(|_| "(no name)".to_string());
    Error::Filter(Box::new(FilterFailure { filter, key: key.to_vec(), reason }))
}

/// Calls a filter. A panic of it is an error of the job, and not of the thread that works on it.
fn guarded<T>(filter: &dyn CompactionFilter, key: &[u8], call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        failure(filter, key, format!("it panicked: {}", text.unwrap_or("without a text")))
    })
}

impl Retained<'_> {
    /// Shows the entry on which the input stands, which was judged to stay and is the newest of its
    /// key, to the filter. `false` if nothing is left of it: the input then stands behind it.
    pub(super) fn filter_here(&mut self) -> Result<bool> {
        let rules = self.rules;
        let (Some(active), Some(entry)) = (&rules.filter, self.input.entry()) else {
            return Ok(true);
        };
        let (seqno, expiry) = (entry.seqno, entry.expiry);
        match rules.ask(active, &entry)? {
            Decision::Keep => Ok(true),
            decision => {
                self.input.advance()?;
                Ok(self.obey(decision, seqno, expiry))
            }
        }
    }

    /// Shows what a stack was folded into to the filter, if that is a value; as
    /// [`Retained::filter_here`].
    pub(super) fn filter_folded(&mut self) -> Result<bool> {
        let rules = self.rules;
        let (Some(active), 1, Some(folded)) =
            (&rules.filter, self.folded.len(), self.folded.front())
        else {
            return Ok(true);
        };
        let (seqno, expiry) = (folded.seqno, folded.expiry);
        match rules.ask(active, &folded.as_ref())? {
            Decision::Keep => Ok(true),
            decision => {
                self.folded.clear();
                Ok(self.obey(decision, seqno, expiry))
            }
        }
    }

    /// Shows what a decision makes of the entry of the present key with this number, behind which
    /// the input stands; `false` if that is nothing.
    fn obey(&mut self, decision: Decision, seqno: SeqNo, expiry: Option<Expiry>) -> bool {
        let done = match decision {
            Decision::Keep => return true,
            Decision::Drop => Filtered { dropped: 1, ..Filtered::default() },
            Decision::Change(_) => Filtered { changed: 1, ..Filtered::default() },
        };
        self.filtered = self.filtered.and(Filtered { least: Some(seqno), ..done });
        let key = self.key.clone();
        if let Decision::Change(value) = decision {
            self.folded.push_back(Entry { key, seqno, kind: EntryKind::Value, expiry, value });
            return true;
        }
        if self.rules.stripe(seqno) == 0 && self.rules.may_drop_at(&key) {
            self.dropped += 1;
            return false;
        }
        let (kind, value) = (EntryKind::Tombstone, Vec::new());
        self.folded.push_back(Entry { key, seqno, kind, expiry: None, value });
        true
    }
}
