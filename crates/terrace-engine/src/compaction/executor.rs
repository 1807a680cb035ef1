use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use terrace_base::{FileId, KeyRange, LevelNo, TableUid};
use terrace_env::SharedEnv;

use super::filter::{FilterOption, Filtered};
use super::{CompactionPlan, Retained, Retention};
use crate::iter::{ChainedStream, MergingStream, Stream};
use crate::merge::MergeOperators;
use crate::process::TableIo;
use crate::range_tombstone::Fragments;
use crate::table::{
    Heat, HotBlocks, KeptIn, OutputSpec, OutputTables, TableMeta, TableOptions, TableReader,
    TableShape,
};
use crate::version::{OpenTable, TableOpener};
use crate::vlog::{InPlace, Separator, ValueFileMeta, ValueSource};
use crate::yielder::Yielder;
use crate::{Error, Result};

/// What a job did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompactionOutcome {
    /// The tables that it wrote, sorted and disjoint, all durable.
    pub outputs: Vec<TableMeta>,
    /// The value files that it wrote, durable too.
    pub values: Vec<ValueFileMeta>,
    /// Entries that nobody could see any more.
    pub dropped_entries: u64,
    /// What the filter did.
    pub filtered: Filtered,
    /// Bytes of the values that came in place.
    pub in_place_bytes: u64,
    /// Bytes read of tables.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl CompactionOutcome {
    /// The outcome of this part of a compaction and of the next one, whose keys lie above.
    #[must_use]
    pub fn and(mut self, next: CompactionOutcome) -> CompactionOutcome {
        self.outputs.extend(next.outputs);
        self.values.extend(next.values);
        self.dropped_entries += next.dropped_entries;
        self.filtered = self.filtered.and(next.filtered);
        self.in_place_bytes += next.in_place_bytes;
        self.read_bytes += next.read_bytes;
        self.written_bytes += next.written_bytes;
        self
    }
}

/// Whether a job's work is wanted no more.
pub type IsCancelled<'a> = &'a (dyn Fn() -> bool + Sync);

/// The compaction executor seam: what does the work of a plan.
///
/// The local pool does it here; a storage node or a compactor will do it elsewhere.
pub trait CompactionExecutor: Send + Sync + fmt::Debug {
    /// Does the work. The outcome is durable, and part of no version yet. `is_cancelled` is asked
    /// every so often whether the work is still wanted.
    ///
    /// Errors: `Closed` if it is not; whatever reading and writing tables gives. After an error,
    /// the outputs written so far have been deleted where that was possible.
    fn run(
        &self,
        plan: &CompactionPlan,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<CompactionOutcome>;
}

/// Compacts in this process, on the calling thread.
#[derive(Debug)]
pub struct LocalExecutor {
    env: SharedEnv,
    opener: Arc<TableOpener>,
    operators: MergeOperators,
    filter: FilterOption,
    io: Option<TableIo>,
    hands_heat_on: bool,
    hands_blocks_on: bool,
}

/// How many entries go by between two looks whether the job is cancelled.
const ENTRIES_PER_LOOK: u32 = 1024;

impl LocalExecutor {
    /// Reads what `opener` opens, and writes tables into its store.
    #[must_use]
    pub fn new(env: &SharedEnv, opener: Arc<TableOpener>) -> LocalExecutor {
        let (operators, filter) = (MergeOperators::default(), FilterOption::default());
        LocalExecutor {
            env: Arc::clone(env),
            opener,
            operators,
            filter,
            io: None,
            hands_heat_on: true,
            hands_blocks_on: true,
        }
    }

    /// The same, with the merge operators that plans may name.
    #[must_use]
    pub fn with_operators(self, operators: MergeOperators) -> LocalExecutor {
        LocalExecutor { operators, ..self }
    }

    /// The same, with the filter that plans may call for.
    #[must_use]
    pub fn with_filter(self, filter: FilterOption) -> LocalExecutor {
        LocalExecutor { filter, ..self }
    }

    /// The same; if not `hands_heat_on`, nobody is told which blocks of outputs in the object store
    /// will be read: a baseline.
    #[must_use]
    pub fn with_heat(self, hands_heat_on: bool) -> LocalExecutor {
        LocalExecutor { hands_heat_on, ..self }
    }

    /// The same; if not `hands_blocks_on`, the block cache gets nothing of outputs on the local
    /// disk before it is read: a baseline.
    #[must_use]
    pub fn with_blocks(self, hands_blocks_on: bool) -> LocalExecutor {
        LocalExecutor { hands_blocks_on, ..self }
    }

    /// The same; what it writes obeys a limit.
    #[must_use]
    pub fn limited_by(self, io: TableIo) -> LocalExecutor {
        LocalExecutor { io: Some(io), ..self }
    }

    fn merge(
        &self,
        plan: &CompactionPlan,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<CompactionOutcome> {
        let mut streams: Vec<Box<dyn Stream + Send>> = Vec::new();
        let mut runs: BTreeMap<LevelNo, Vec<(KeyRange, OpenTable)>> = BTreeMap::new();
        let mut tombstones = Vec::new();
        // A table of a row is an input once for each interval in which it counts.
        let mut readers: BTreeMap<FileId, OpenTable> = BTreeMap::new();
        for input in &plan.inputs {
            let reader = match readers.entry(input.table.id) {
                Entry::Occupied(known) => known.get().clone(),
                Entry::Vacant(unknown) => unknown.insert(self.opener.open(&input.table)?).clone(),
            };
            let within = plan.slice.intersection(&input.table.clip);
            tombstones.push(reader.range_tombstones().clip(&within));
            match input.level {
                LevelNo(0) => streams.push(Box::new(reader.stream(&within)?)),
                level => runs.entry(level).or_default().push((within, reader)),
            }
        }
        for mut tables in runs.into_values() {
            tables.sort_by(|(a, _), (b, _)| a.start().cmp(b.start()));
            let tables = tables.into_iter();
            let opened = tables.map(|(within, reader)| reader.stream(&within));
            streams.push(Box::new(ChainedStream::new(opened)?));
        }
        let tombstones = Fragments::merge(&tombstones);
        let operator = plan.merge_operator.as_deref().and_then(|name| self.operators.find(name));
        let rules =
            Retention::new(plan.snapshots.clone(), plan.droppable.clone(), plan.now, tombstones)
                .with_operator(operator.cloned())
                .with_values(self.values_of(plan))
                .with_filter(self.filter.called(plan.filter.as_ref()));
        let surviving = rules.surviving_tombstones();
        let mut merged = MergingStream::new(streams);
        let mut retained = Retained::new(&mut merged, &rules)?;
        let mut separator = self.separator(plan);
        let mut in_place = self.in_place(plan);
        let shape = TableShape {
            table_bytes: plan.table_bytes,
            table: TableOptions {
                block_bytes: plan.block_bytes as usize,
                filter_bits_per_key: plan.filter_bits_per_key as u32,
                compression: plan.compression,
                trie: plan.trie,
            },
        };
        let spec = OutputSpec {
            level: plan.output_level,
            shape: &shape,
            slice: &plan.slice,
            tombstones: &surviving,
            expected_bytes: plan.input_bytes() + plan.in_place_bytes(),
            now: self.env.wall_time(),
        };
        let next_table = Box::new(self.ids_of(plan));
        let mut outputs = OutputTables::new(self.opener.store.as_ref(), spec, next_table)
            .limited_by(self.io.clone())
            .with_hot(self.hot_blocks(plan, &readers));
        let mut until_look = ENTRIES_PER_LOOK;
        let mut yielder = Yielder::new(self.env.as_ref());
        let mut brought = match &mut in_place {
            Some(in_place) => Some(in_place.bring(&mut retained, &is_cancelled)?),
            None => None,
        };
        let entries: &mut dyn Stream = match &mut brought {
            Some(brought) => brought,
            None => &mut retained,
        };
        while let Some(entry) = entries.entry() {
            let entry = match &mut separator {
                Some(separator) => separator.separated(entry)?,
                None => entry,
            };
            outputs.add(&entry)?;
            yielder.worked_on(&entry);
            entries.advance()?;
            until_look -= 1;
            if until_look == 0 {
                until_look = ENTRIES_PER_LOOK;
                if is_cancelled() {
                    return Err(Error::Closed);
                }
            }
        }
        let (dropped_entries, filtered) = (retained.dropped(), retained.filtered());
        let in_place_bytes = in_place.map_or(0, |in_place| in_place.bytes());
        let values = separator.map_or(Ok(Vec::new()), Separator::finish)?;
        let outputs = outputs.finish()?;
        self.opener.store.sync(plan.output_level)?;
        let written_bytes = outputs.iter().map(|table| table.bytes).sum();
        let read_bytes = plan.input_bytes();
        Ok(CompactionOutcome {
            outputs,
            values,
            dropped_entries,
            filtered,
            in_place_bytes,
            read_bytes,
            written_bytes,
        })
    }

    /// Which blocks of the outputs will be read, judged by what was read of the inputs.
    fn hot_blocks(
        &self,
        plan: &CompactionPlan,
        readers: &BTreeMap<FileId, OpenTable>,
    ) -> Option<Arc<HotBlocks>> {
        let blocks = || readers.values().filter_map(OpenTable::blocks);
        let far = &self.opener.far;
        if !far.takes(plan.output_level) {
            if !self.hands_blocks_on {
                return None;
            }
            let heat = Heat::of(blocks().flat_map(TableReader::cached_keys));
            return HotBlocks::of(heat, KeptIn::Cache(Arc::clone(&self.opener.cache)));
        }
        if !self.hands_heat_on || far.near().is_none() {
            return None;
        }
        // What is read most is served from memory, and goes from what is near meanwhile; and what
        // was local is all far from now on.
        let keys = |reader| [TableReader::near_keys(reader), TableReader::cached_keys(reader)];
        let heat = Heat::of(blocks().flat_map(keys).flatten());
        blocks().for_each(TableReader::age_near_blocks);
        HotBlocks::of(heat, KeptIn::Near)
    }

    /// The values that the inputs point to, if one may have to be read.
    fn values_of(&self, plan: &CompactionPlan) -> Option<Arc<ValueSource>> {
        let files = Some(plan.value_files.clone()).filter(|files| !files.is_empty())?;
        Some(Arc::new(ValueSource::new(Arc::clone(&self.opener), files)))
    }

    /// What brings values in place, if any may come.
    fn in_place(&self, plan: &CompactionPlan) -> Option<InPlace> {
        let pointers_from = plan.pointers_from.filter(|_| !plan.value_files.is_empty())?;
        Some(InPlace::new(&self.opener, pointers_from, &plan.value_files))
    }

    /// What takes large values out of the outputs, if anything does.
    fn separator(&self, plan: &CompactionPlan) -> Option<Separator<'static>> {
        let large_bytes = usize::try_from(plan.large_bytes?).unwrap_or(usize::MAX);
        let (store, id) = (&self.opener.store, plan.value_file_id());
        Some(Separator::new(&self.env, store, id, large_bytes, 0).limited_by(self.io.clone()))
    }

    /// Hands out the file ids of the plan.
    fn ids_of(
        &self,
        plan: &CompactionPlan,
    ) -> impl FnMut() -> Result<(FileId, TableUid)> + use<'_> {
        let first = plan.first_output;
        let count = plan.output_count_max;
        let mut taken = 0;
        move || {
            if taken == count {
                return Err(Error::Invalid(format!("a plan allows {count} outputs, not more")));
            }
            let id = FileId { epoch: first.epoch, counter: first.counter + taken };
            taken += 1;
            Ok((id, TableUid(self.env.random_u128())))
        }
    }

    /// Deletes what an interrupted job may have written.
    fn discard(&self, plan: &CompactionPlan) -> Result<()> {
        let counters = plan.first_output.counter..plan.first_output.counter + plan.id_count();
        for (id, location) in self.opener.store.list()? {
            if id.epoch == plan.first_output.epoch && counters.contains(&id.counter) {
                self.opener.store.delete(&location)?;
            }
        }
        Ok(())
    }
}

impl CompactionExecutor for LocalExecutor {
    fn run(
        &self,
        plan: &CompactionPlan,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<CompactionOutcome> {
        self.merge(plan, is_cancelled).inspect_err(|error| {
            if let Err(second) = self.discard(plan) {
                crate::program_log::warn!(%error, %second, "outputs of a failed compaction stay until the next open");
            }
        })
    }
}
