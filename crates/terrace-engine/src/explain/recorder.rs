//! What a thread notes while an operation of it is explained.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use terrace_base::{EntryKind, EntryRef, FileId, SeqNo};
use terrace_env::SharedEnv;

use super::get::{BlockRead, PagesSearch, Source, Step, StepAnswer, Verdict};
use super::scan::{Hidden, HiddenCounts, ScanEnd, ScanExplanation, SourceTally, by_level};
use super::totals::ReadTotals;
use crate::cloud::RequestCounts;
use crate::memtable::{Found, Memtable};
use crate::table::TableMeta;

thread_local! {
    /// Apart from the recorder, so that asking costs one load.
    static IS_RECORDING: Cell<bool> = const { Cell::new(false) };
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Whether this thread's operation is being explained.
#[inline]
pub(crate) fn is_recording() -> bool {
    IS_RECORDING.get()
}

/// Lets `take` note something if this thread's operation is being explained. Not under a latch.
#[inline]
pub(crate) fn note(take: impl FnOnce(&mut Recorder)) {
    if is_recording() {
        note_now(take);
    }
}

#[cold]
fn note_now(take: impl FnOnce(&mut Recorder)) {
    RECORDER.with_borrow_mut(|recorder| recorder.as_mut().map(take));
}

/// Explains what this thread does for as long as it lives. There is one at a time.
pub(crate) struct Recording(());

impl Recording {
    /// Begins. `None` if this thread's operation is being explained already.
    pub(crate) fn begin(env: &SharedEnv) -> Option<Recording> {
        if is_recording() {
            return None;
        }
        let now = env.now();
        let recorder = Recorder {
            env: env.clone(),
            began: now,
            mark: now,
            steps: Vec::new(),
            verdict: Verdict::Absent,
            sources: Vec::new(),
            first_source: 0,
            current: None,
            left: 0,
            hidden: HiddenCounts::default(),
            versions: 0,
            totals: ReadTotals::default(),
            is_near: false,
            requests: RequestCounts::default(),
        };
        RECORDER.set(Some(recorder));
        IS_RECORDING.set(true);
        Some(Recording(()))
    }

    /// Ends, and hands out what was noted.
    pub(crate) fn end(self) -> Recorder {
        IS_RECORDING.set(false);
        RECORDER.take().expect("it is there for as long as the recording lives")
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        IS_RECORDING.set(false);
        RECORDER.set(None);
    }
}

/// The notes.
pub(crate) struct Recorder {
    env: SharedEnv,
    began: Duration,
    /// Where the last step ended.
    mark: Duration,
    /// The steps of a get.
    pub(crate) steps: Vec<Step>,
    /// What a get came to.
    pub(crate) verdict: Verdict,
    /// The sources of a scan.
    pub(crate) sources: Vec<SourceTally>,
    /// Index of the first source of the current view; the later ones are of that view too.
    first_source: usize,
    /// Index of the source that works at present.
    current: Option<usize>,
    /// How often a source was moved off a key.
    left: u64,
    /// What a scan stepped over.
    pub(crate) hidden: HiddenCounts,
    /// The versions that tables stepped over.
    pub(crate) versions: u64,
    /// The filters, blocks and values of the read.
    totals: ReadTotals,
    /// Whether the block that is noted next comes from the persistent cache.
    is_near: bool,
    /// What the read asked of an object store.
    pub(crate) requests: RequestCounts,
}

/// Microseconds, to a tenth.
pub(super) fn in_us(time: Duration) -> f64 {
    (time.as_nanos() / 100) as f64 / 10.0
}

/// What a text calls an entry of this kind.
fn kind_word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Value => "value",
        EntryKind::Tombstone => "tombstone",
        EntryKind::RangeTombstone => "range tombstone",
        EntryKind::MergeOperand => "merge operand",
        EntryKind::ValuePointer => "value pointer",
    }
}

fn found(entry: &EntryRef<'_>) -> StepAnswer {
    StepAnswer::Found {
        seqno: entry.seqno.0,
        entry: kind_word(entry.kind),
        expiry_ms: entry.expiry.map(|expiry| expiry.time().0),
        value_bytes: entry.value.len() as u64,
    }
}

/// A table as an explanation names it.
fn table_source(level: u8, row: Option<u64>, table: &TableMeta) -> Source {
    let (id, entry_count) = (table.id.to_string(), table.entry_count);
    Source::Table { level, row, id, entry_count, is_far: table.location.is_far() }
}

fn memtable_source(memtable: &Memtable, is_active: bool) -> Source {
    let entry_count = memtable.entry_count();
    Source::Memtable { id: memtable.id().to_string(), is_active, entry_count }
}

impl Recorder {
    /// How long it has been recording, in microseconds.
    pub(crate) fn us(&self) -> f64 {
        in_us(self.mark.saturating_sub(self.began))
    }

    /// The time since the last mark, which is now.
    fn lap(&mut self) -> f64 {
        let now = self.env.now();
        in_us(now.saturating_sub(std::mem::replace(&mut self.mark, now)))
    }

    /// Everything up to now was worked on by the last step.
    pub(crate) fn finish(&mut self) {
        let us = self.lap();
        if let Some(step) = self.steps.last_mut() {
            step.us += us;
        }
    }

    fn step(&mut self, source: Source, answer: StepAnswer) {
        self.finish();
        self.steps.push(Step {
            source,
            was_opened: false,
            covering: None,
            answer,
            pages: None,
            blocks: Vec::new(),
            us: 0.0,
        });
    }

    /// A memtable was asked.
    pub(crate) fn memtable(
        &mut self,
        memtable: &Memtable,
        is_active: bool,
        covering: Option<SeqNo>,
        answer: &Found<'_>,
    ) {
        let source = memtable_source(memtable, is_active);
        let missing =
            || StepAnswer::Missing { is_false_positive: false, saw_newer: answer.saw_newer };
        self.step(source, answer.entry.as_ref().map_or_else(missing, found));
        self.covered(covering);
    }

    /// The lookup index excludes a memtable.
    pub(crate) fn memtable_excluded(&mut self, memtable: &Memtable, is_active: bool) {
        let source = memtable_source(memtable, is_active);
        self.step(source, StepAnswer::NotIndexed);
    }

    /// A range tombstone of the source that is being asked covers the key.
    pub(crate) fn covered(&mut self, covering: Option<SeqNo>) {
        if let Some(step) = self.steps.last_mut() {
            step.covering = covering.map(|seqno| seqno.0);
        }
    }

    /// None of a level's tables may hold the key.
    pub(crate) fn outside_level(&mut self, level: u8, table_count: usize) {
        let table_count = table_count as u64;
        self.step(Source::Level { level, table_count }, StepAnswer::OutsideKeys);
    }

    /// A table is asked. Until it answers, it stands as one that would have to wait.
    pub(crate) fn table(&mut self, level: u8, table: &TableMeta) {
        self.step(table_source(level, None, table), StepAnswer::NeedsIo);
    }

    fn answer(&mut self, answer: StepAnswer) {
        if let Some(step) = self.steps.last_mut() {
            step.answer = answer;
        }
    }

    /// The table is not searched.
    pub(crate) fn excluded(&mut self, level: u8, table: &TableMeta, why: StepAnswer) {
        self.table(level, table);
        self.answer(why);
    }

    /// The filter denies the key.
    pub(crate) fn filtered_out(&mut self) {
        self.totals.filters += 1;
        self.answer(StepAnswer::FilteredOut);
    }

    /// The trie denies the key.
    pub(crate) fn not_in_trie(&mut self) {
        self.answer(StepAnswer::NotInTrie);
    }

    /// The table was searched.
    pub(crate) fn searched(&mut self, has_filter: bool, entry: Option<EntryRef<'_>>) {
        self.totals.filters += u64::from(has_filter);
        let missing = StepAnswer::Missing { is_false_positive: has_filter, saw_newer: false };
        self.answer(entry.as_ref().map_or(missing, found));
    }

    /// The table that is being asked is a row in pages, which was searched so.
    pub(crate) fn searched_pages(&mut self, search: PagesSearch) {
        if let Some(step) = self.steps.last_mut() {
            step.pages = Some(search);
        }
    }

    /// The table that is being asked had to be opened.
    pub(crate) fn opened(&mut self) {
        if let (None, Some(step)) = (self.current, self.steps.last_mut()) {
            step.was_opened = true;
        }
    }

    /// The block that is noted next comes from the persistent cache.
    pub(crate) fn near(&mut self) {
        self.is_near = true;
    }

    /// A block was looked at.
    pub(crate) fn block(&mut self, mut block: BlockRead) {
        block.is_near = std::mem::take(&mut self.is_near) && !block.was_cached;
        let totals = &mut self.totals;
        *if block.was_cached { &mut totals.cached_blocks } else { &mut totals.file_blocks } += 1;
        match self.current {
            Some(source) => self.sources[source].block(&block),
            None => self.steps.last_mut().into_iter().for_each(|step| step.blocks.push(block)),
        }
    }

    /// This is the newest entry; `covering` is the newest range tombstone over it.
    pub(crate) fn newest(&mut self, entry: &EntryRef<'_>, covering: Option<SeqNo>) {
        let seqno = entry.seqno.0;
        let expiry_ms = entry.expiry.map(|expiry| expiry.time().0);
        let value_bytes = entry.value.len() as u64;
        self.verdict = match (covering, entry.kind) {
            (Some(by), _) if by >= entry.seqno => Verdict::RangeDeleted { by: by.0, seqno },
            (_, EntryKind::Tombstone) => Verdict::Deleted { seqno },
            (_, EntryKind::Value | EntryKind::ValuePointer) => {
                Verdict::Present { seqno, expiry_ms, value_bytes }
            }
            (_, kind) => Verdict::Unreadable { seqno, entry: kind_word(kind) },
        };
    }

    /// The newest entry points to a value, which was read from a value file. (What a scan fetches
    /// is no step of its own.)
    pub(crate) fn fetched(&mut self, file: FileId, value_bytes: u64) {
        self.totals.values += 1;
        if self.sources.is_empty() {
            self.step(
                Source::ValueFile { id: file.to_string() },
                StepAnswer::Value { value_bytes },
            );
        }
        if let Verdict::Present { value_bytes: pointer_bytes, .. } = &mut self.verdict {
            *pointer_bytes = value_bytes;
        }
    }

    /// The newest entry is a merge operand, and this is what the operands come to.
    pub(crate) fn merged(&mut self, entry: Option<EntryRef<'_>>) {
        self.verdict = match entry {
            Some(entry) => {
                Verdict::Merged { seqno: entry.seqno.0, value_bytes: entry.value.len() as u64 }
            }
            None => Verdict::Absent,
        };
    }

    /// The newest entry is hidden for this reason.
    pub(crate) fn hidden(&mut self, why: Hidden) {
        if let Verdict::Present { seqno, expiry_ms: Some(expiry_ms), .. } = self.verdict
            && why == Hidden::Expired
        {
            self.verdict = Verdict::Expired { seqno, expiry_ms };
        }
    }

    /// The sources of a scan follow.
    pub(crate) fn begin_sources(&mut self) {
        self.first_source = self.sources.len();
    }

    /// A memtable is the next source of a scan.
    pub(crate) fn memtable_source(&mut self, memtable: &Memtable, is_active: bool) {
        self.sources.push(SourceTally::new(memtable_source(memtable, is_active)));
    }

    /// The memtables of `drange_count` dranges are the next source of a scan.
    pub(crate) fn memtables_source(&mut self, drange_count: usize) {
        let drange_count = drange_count as u64;
        self.sources.push(SourceTally::new(Source::Memtables { drange_count }));
    }

    /// A table is the next source of a scan.
    pub(crate) fn table_source(&mut self, level: u8, row: Option<u64>, table: &TableMeta) {
        self.sources.push(SourceTally::new(table_source(level, row, table)));
    }

    /// A row of several tables is the next source of a scan.
    pub(crate) fn row_source(&mut self, row: u64, table_count: usize) {
        let table_count = table_count as u64;
        self.sources.push(SourceTally::new(Source::Row { row, table_count }));
    }

    /// A level is the next source of a scan.
    pub(crate) fn level_source(&mut self, level: u8, table_count: usize) {
        let table_count = table_count as u64;
        self.sources.push(SourceTally::new(Source::Level { level, table_count }));
    }

    /// Index of the first source of the current view.
    pub(super) fn first_source(&self) -> usize {
        self.first_source
    }

    /// A source begins to work.
    pub(super) fn enter(&mut self, source: usize) {
        self.lap();
        self.current = Some(source);
    }

    /// The source that works has ended: whether it stood on a key that it is off now, and whether
    /// it stands on one.
    pub(super) fn leave(&mut self, has_left: bool, has_met: bool) {
        self.left += u64::from(has_left);
        let us = self.lap();
        if let Some(source) = self.current.take() {
            self.sources[source].us += us;
            self.sources[source].met += u64::from(has_met);
        }
    }

    /// The scan came to a key whose newest entry this source of the current view has.
    pub(crate) fn came_to(&mut self, source: Option<usize>, hidden: Option<Hidden>) {
        if let Some(tally) = source.and_then(|at| self.sources.get_mut(self.first_source + at)) {
            tally.newest += 1;
        }
        hidden.into_iter().for_each(|why| self.hidden.add(why));
    }

    /// What the read has touched so far.
    pub(crate) fn totals(&self) -> ReadTotals {
        let mut totals = self.totals;
        self.steps.iter().for_each(|step| totals.add_step(step));
        self.sources.iter().for_each(|tally| totals.add_source(&tally.source));
        totals
    }

    /// The explanation of a scan, of which `rest` has what the notes do not.
    pub(crate) fn into_scan(self, rest: ScanExplanation) -> ScanExplanation {
        // Of the sources that were moved off a key, one had its newest entry. The scan was not
        // moved off the key that it stopped at.
        let newest: u64 = self.sources.iter().map(|tally| tally.newest).sum();
        let stands = rest.ended_by == ScanEnd::Limit && newest > 0;
        let moved_off = newest - u64::from(stands);
        ScanExplanation {
            hidden: self.hidden,
            shadowed: self.left.saturating_sub(moved_off),
            versions: self.versions,
            levels: by_level(&self.sources),
            totals: self.totals(),
            us: self.us(),
            sources: self.sources,
            ..rest
        }
    }

    /// A table stepped over versions of one key.
    pub(crate) fn versions(&mut self, count: usize) {
        self.versions += count as u64;
    }
}
