use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::{
    Epoch, FileId, KeyRange, LEVEL_MAX, LevelNo, LogPosition, MemtableId, RangeId, RowId, SeqNo,
};
use terrace_env::{PlantedBug, SetOnce, is_planted};

use super::{
    CloudEdit, LogBehind, LogEdit, RangeEdit, Repaired, RowMeta, Run, Table, TableContext,
    TableMeta, TreeEdit, ValueFiles, ValuesEdit, VersionEdit,
};
use crate::l0::{CutInterval, CutMap, L0, L0State, LiveRows, LiveTable, Row};
use crate::placement::{Media, TableMedium};
use crate::vlog::{Liveness, ValueSpace};
use crate::wal::{LogFacts, LogStart};

/// What the tree of a range consists of on its disk: immutable, shared by all readers.
#[derive(Clone, Debug)]
pub struct Version {
    database: u128,
    range: RangeId,
    keys: KeyRange,
    epoch: Epoch,
    l0: Arc<dyn L0State>,
    next_row: RowId,
    /// L1 and deeper: `levels[0]` is L1.
    levels: Vec<Run>,
    /// The tables that hold range tombstones, which every scan has to ask.
    with_range_tombstones: Vec<LiveTable>,
    flushed: BTreeMap<MemtableId, LogPosition>,
    log_start: LogStart,
    log_settled: LogPosition,
    greatest_seqno: SeqNo,
    closed: Option<LogPosition>,
    merge_operator: Option<String>,
    repaired: Option<Repaired>,
    drange_boundaries: Vec<Vec<u8>>,
    cloud: Option<CloudEdit>,
    log_behind: Option<LogBehind>,
    edit_count: u64,
    media: Media,
    values: ValueFiles,
    /// What the value files hold, once it was asked.
    space: SetOnce<ValueSpace>,
}

/// Why an edit does not fit the version that it is applied to: a damaged or foreign manifest, or
/// a bug.
pub type Misfit = String;

/// The version that edits come to, the first of which is a snapshot. Errors: which edit does not
/// fit, and why; the last one, if what all of them come to contradicts itself.
pub fn fold<'a>(
    edits: impl IntoIterator<Item = &'a VersionEdit>,
    l0: &dyn L0,
    context: &Arc<TableContext>,
) -> Result<Version, (usize, Misfit)> {
    let mut version = Version::empty(l0);
    let mut last = 0;
    for (index, edit) in edits.into_iter().enumerate() {
        version = version.apply(edit, context).map_err(|misfit| (index, misfit))?;
        last = index;
    }
    match version.contradiction() {
        Some(misfit) => Err((last, misfit)),
        None => Ok(version),
    }
}

impl Version {
    /// A version without a row or a table.
    #[must_use]
    pub fn empty(l0: &dyn L0) -> Version {
        Version::of(l0.empty())
    }

    /// A version of which only L0 is known.
    fn of(l0: Arc<dyn L0State>) -> Version {
        Version {
            database: 0,
            range: RangeId(0),
            keys: KeyRange::all(),
            epoch: Epoch(0),
            l0,
            next_row: RowId(1),
            levels: vec![Run::default(); usize::from(LEVEL_MAX.0)],
            with_range_tombstones: Vec::new(),
            flushed: BTreeMap::new(),
            log_start: LogStart::default(),
            log_settled: LogPosition(0),
            greatest_seqno: SeqNo::ZERO,
            closed: None,
            merge_operator: None,
            repaired: None,
            drange_boundaries: Vec::new(),
            cloud: None,
            log_behind: None,
            edit_count: 0,
            media: Media::default(),
            values: ValueFiles::default(),
            space: SetOnce::new(),
        }
    }

    /// The database, drawn at random when it was created.
    #[must_use]
    pub fn database(&self) -> u128 {
        self.database
    }

    /// The range's id, and the keys that it owns.
    #[must_use]
    pub fn range(&self) -> (RangeId, &KeyRange) {
        (self.range, &self.keys)
    }

    /// The owner's epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// L0.
    #[must_use]
    #[inline]
    pub fn l0(&self) -> &dyn L0State {
        self.l0.as_ref()
    }

    /// The id that the next row gets.
    #[must_use]
    pub fn next_row(&self) -> RowId {
        self.next_row
    }

    /// Memtables whose records may still stand in the log, but whose entries are in tables; with
    /// the position below which those records stand.
    #[must_use]
    pub fn flushed(&self) -> &BTreeMap<MemtableId, LogPosition> {
        &self.flushed
    }

    /// Where a replay of the log starts.
    #[must_use]
    pub fn log_start(&self) -> LogStart {
        self.log_start
    }

    /// How many edits were installed since the range is fed to an object store.
    #[must_use]
    pub fn edit_count(&self) -> u64 {
        self.edit_count
    }

    /// What the version says of a log that goes on behind it, of a machine that is lost.
    #[must_use]
    pub fn log_behind(&self) -> Option<LogBehind> {
        self.log_behind
    }

    /// Below this position of the log, all entries are in tables: at or behind its start.
    #[must_use]
    pub fn log_settled(&self) -> LogPosition {
        self.log_settled
    }

    /// The greatest number that tables hold.
    #[must_use]
    pub fn greatest_seqno(&self) -> SeqNo {
        self.greatest_seqno
    }

    /// Where the log ends, if the last edit was that of a clean close.
    #[must_use]
    pub fn closed(&self) -> Option<LogPosition> {
        self.closed
    }

    /// The name of the range's merge operator, if it has one.
    #[must_use]
    pub fn merge_operator(&self) -> Option<&str> {
        self.merge_operator.as_deref()
    }

    /// The stamp of the repair that the range came out of, if it did.
    #[must_use]
    pub fn repaired(&self) -> Option<Repaired> {
        self.repaired
    }

    /// The object store that the range is fed to, if there is one.
    #[must_use]
    pub fn cloud(&self) -> Option<&CloudEdit> {
        self.cloud.as_ref()
    }

    /// Where memtables divide the keys, ascending; none while the range has one drange.
    #[must_use]
    pub fn drange_boundaries(&self) -> &[Vec<u8>] {
        &self.drange_boundaries
    }

    /// Where data lies beside the range's own directory.
    #[must_use]
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// The files with the values that tables name.
    #[must_use]
    #[inline]
    pub fn values(&self) -> &ValueFiles {
        &self.values
    }

    /// How much of the value files the tables name. Cost: O(tables × segments that each names).
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        let counts = |table: &&Arc<Table>| {
            let forgets = is_planted(PlantedBug::JudgeLiveValuesDead);
            !forgets
                || self.runs().any(|(_, run)| run.tables().iter().any(|t| Arc::ptr_eq(t, table)))
        };
        Liveness::of(self.tables().filter(counts).map(|table| &table.meta().named))
    }

    /// Where it is kept what the value files hold.
    pub(super) fn known_space(&self) -> &SetOnce<ValueSpace> {
        &self.space
    }

    /// The version without its rows, tables and value files.
    #[must_use]
    pub fn without_tables(&self) -> Version {
        let emptied = Version::of(self.l0.with(LiveRows::default()));
        let Version { l0, levels, with_range_tombstones, values, space, .. } = emptied;
        Version { l0, levels, with_range_tombstones, values, space, ..self.clone() }
    }

    /// The run of a level, 1 or deeper.
    #[must_use]
    pub fn run(&self, level: LevelNo) -> &Run {
        &self.levels[usize::from(level.0) - 1]
    }

    /// The levels below L0 with their numbers, from the top.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = (LevelNo, &Run)> {
        (1..=LEVEL_MAX.0).map(LevelNo).zip(&self.levels)
    }

    /// Every table, those of L0 rows included.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.l0.tables().iter().chain(self.levels.iter().flat_map(|run| run.tables()))
    }

    /// Whether some of the rows lie in pages of the container.
    #[must_use]
    pub fn has_rows_in_pages(&self) -> bool {
        let tables = self.l0.tables().iter();
        tables.into_iter().any(|table| table.meta().is_in_pages())
    }

    /// Whether anything of a table is needed as it lies: of a row in pages nothing is when all of
    /// it is consumed, though other tables of the row are live.
    #[must_use]
    pub fn needs(&self, table: &Arc<Table>) -> bool {
        !table.meta().is_in_pages()
            || self.l0.live().iter().any(|live| Arc::ptr_eq(&live.table, table))
    }

    /// Whether some of the tables lie in L0's own directory.
    #[must_use]
    pub fn has_tables_in_row_directory(&self) -> bool {
        self.tables().any(|table| table.meta().location.medium() == TableMedium::Rows)
    }

    /// The tables, those of L0 rows included, that hold range tombstones, and where they count. The
    /// tables of levels are of row 0.
    #[must_use]
    pub fn tables_with_range_tombstones(&self) -> &[LiveTable] {
        &self.with_range_tombstones
    }

    /// The version after `edit`. Pure: nothing else knows of it before it is installed. Errors: the
    /// edit names what is not there, or makes a run overlap.
    pub fn apply(
        &self,
        edit: &VersionEdit,
        context: &Arc<TableContext>,
    ) -> Result<Version, Misfit> {
        let mut next = match edit.is_snapshot {
            true => Version::of(self.l0.with(LiveRows::default())),
            false => self.clone(),
        };
        next.space = SetOnce::new();
        next.apply_range(&edit.range)?;
        // A table that only changes its level keeps its open reader.
        let mut moved = BTreeMap::new();
        next.apply_rows(&edit.tree, context, &mut moved)?;
        next.apply_tables(&edit.tree, context, &mut moved)?;
        next.with_range_tombstones = next.list_range_tombstones();
        next.greatest_seqno = edit.tree.greatest_seqno.unwrap_or(next.greatest_seqno);
        next.apply_log(&edit.log);
        next.values = next.values.apply(&edit.values, context)?;
        if let Some(media) = &edit.media {
            next.media.clone_from(media);
        }
        Ok(next)
    }

    fn apply_range(&mut self, edit: &RangeEdit) -> Result<(), Misfit> {
        if let Some(epoch) = edit.epoch {
            if epoch < self.epoch {
                return Err(format!("epoch {epoch} after epoch {}", self.epoch));
            }
            self.epoch = epoch;
        }
        self.database = edit.database.unwrap_or(self.database);
        if let Some((range, keys)) = &edit.identity {
            self.range = *range;
            self.keys.clone_from(keys);
        }
        match (&self.merge_operator, &edit.merge_operator) {
            (Some(kept), Some(other)) if kept != other => {
                return Err(format!("merge operator {other} after {kept}"));
            }
            (None, Some(name)) => self.merge_operator = Some(name.clone()),
            _ => {}
        }
        self.repaired = edit.repaired.or(self.repaired);
        if let Some(cloud) = &edit.cloud {
            self.cloud = Some(cloud.clone());
        }
        self.edit_count = edit.edit_count.unwrap_or(self.edit_count);
        if let Some(log) = edit.log_behind {
            self.log_behind = (log != LogBehind::None).then_some(log);
        }
        if let Some(boundaries) = &edit.drange_boundaries {
            self.drange_boundaries.clone_from(boundaries);
        }
        Ok(())
    }

    fn apply_log(&mut self, edit: &LogEdit) {
        self.flushed.extend(edit.memtables_flushed.iter().copied());
        self.log_start = edit.start.unwrap_or(self.log_start);
        let settled = self.log_settled.max(edit.settled.unwrap_or_default());
        let settled = settled.max(self.log_start.position);
        self.log_settled = settled;
        self.flushed.retain(|_, end| *end > settled);
        self.closed = edit.closed;
    }

    fn apply_rows(
        &mut self,
        edit: &TreeEdit,
        context: &Arc<TableContext>,
        moved: &mut BTreeMap<FileId, Arc<Table>>,
    ) -> Result<(), Misfit> {
        let has_rows = !edit.rows_removed.is_empty() || !edit.rows_added.is_empty();
        if !has_rows && edit.cuts.is_empty() && edit.next_row.is_none() {
            return Ok(());
        }
        let mut rows: Vec<_> = self.l0.rows().to_vec();
        for id in &edit.rows_removed {
            let index = rows.iter().position(|row| row.meta.id == *id);
            let index = index.ok_or_else(|| format!("{id:?} is removed but not there"))?;
            let row = rows.remove(index);
            moved.extend(row.tables.iter().map(|table| (table.meta().id, Arc::clone(table))));
        }
        for meta in &edit.rows_added {
            let row = Arc::new(Row::new(meta.clone(), context));
            let place = rows.partition_point(|newer| newer.meta.id > meta.id);
            if edit.rows_removed.contains(&meta.id) {
                fits_between(&row, &edit.rows_removed, &rows)?;
            } else if place > 0 || rows.first().is_some_and(|newest| newest.meta.id == meta.id) {
                return Err(format!("{:?} is added below a newer row", meta.id));
            }
            rows.insert(place, row);
            self.next_row = self.next_row.max(RowId(meta.id.0 + 1));
        }
        self.next_row = edit.next_row.unwrap_or(self.next_row).max(self.next_row);
        let consumed = self.consumed_after(edit)?;
        let consumed = consumed.without_idle(|cut| {
            rows.iter()
                .filter(|row| row.meta.id <= cut.through)
                .any(|row| row.tables.iter().any(|table| table.span().overlaps(&cut.slice)))
        });
        let content = self.l0.content().with(rows, consumed);
        if let Some(row) = content.dead_row() {
            return Err(format!("{:?} is consumed everywhere but still there", row.meta.id));
        }
        self.l0 = self.l0.with(content);
        Ok(())
    }

    /// What is consumed after an edit. Errors: also a row that there never was.
    fn consumed_after(&self, edit: &TreeEdit) -> Result<CutMap, Misfit> {
        if let Some(cut) = edit.cuts.iter().find(|cut| cut.through >= self.next_row) {
            return Err(format!("{cut:?} consumes a row that there never was"));
        }
        Ok(self.consumed_with(&edit.cuts))
    }

    fn consumed_with(&self, cuts: &[CutInterval]) -> CutMap {
        cuts.iter().fold(self.l0.consumed().clone(), |map, cut| map.after(cut))
    }

    /// The rows that are consumed everywhere after these cuts.
    #[must_use]
    pub fn rows_consumed_by(&self, cuts: &[CutInterval]) -> Vec<RowId> {
        let consumed = self.consumed_with(cuts);
        let rows = self.l0.rows().iter().filter(|row| is_consumed(row, &consumed));
        rows.map(|row| row.meta.id).collect()
    }

    fn list_range_tombstones(&self) -> Vec<LiveTable> {
        let of_levels = self.levels.iter().flat_map(|run| run.tables());
        let has_some = |table: &Table| table.meta().range_tombstone_count > 0;
        let of_levels = of_levels.filter(|table| has_some(table));
        let of_levels = of_levels.map(|table| LiveTable::new(table, RowId(0), None));
        let of_rows = self.l0.live().iter().filter(|live| has_some(&live.table));
        of_rows.cloned().chain(of_levels).collect()
    }

    fn apply_tables(
        &mut self,
        edit: &TreeEdit,
        context: &Arc<TableContext>,
        moved: &mut BTreeMap<FileId, Arc<Table>>,
    ) -> Result<(), Misfit> {
        let mut levels: BTreeMap<LevelNo, Vec<Arc<Table>>> = BTreeMap::new();
        let touched = edit.tables_removed.iter().map(|(level, _)| *level);
        for level in touched.chain(edit.tables_added.iter().map(|(level, _)| *level)) {
            if level.0 == 0 || level > LEVEL_MAX {
                return Err(format!("there is no level {level}"));
            }
            levels.entry(level).or_insert_with(|| self.run(level).tables().to_vec());
        }
        for (level, id) in &edit.tables_removed {
            let tables = levels.entry(*level).or_default();
            let index = tables.iter().position(|table| table.meta().id == *id);
            let index = index.ok_or_else(|| format!("table {id} is not in {level:?}"))?;
            moved.insert(*id, tables.remove(index));
        }
        for (level, meta) in &edit.tables_added {
            let table = match moved.remove(&meta.id) {
                Some(table) if table.meta() == meta => table,
                _ => Arc::new(Table::new(meta.clone(), Arc::clone(context))),
            };
            levels.entry(*level).or_default().push(table);
        }
        for (level, tables) in levels {
            let run = Run::new(tables).ok_or_else(|| format!("tables of {level:?} overlap"))?;
            self.levels[usize::from(level.0) - 1] = run;
        }
        Ok(())
    }

    /// The version is the current one, after `before`: L0 may rest on it if it is another.
    pub(super) fn installed_after(&self, before: Option<&Version>) {
        if before.is_none_or(|before| !Arc::ptr_eq(&before.l0, &self.l0)) {
            self.l0.installed();
        }
    }

    /// What contradicts itself in a version: rows descend, the tables of a level are disjoint and
    /// ascend, and no number is greater than the greatest. Cost: O(tables).
    #[must_use]
    pub fn contradiction(&self) -> Option<Misfit> {
        let rows = self.l0.rows();
        if rows.windows(2).any(|pair| pair[0].meta.id <= pair[1].meta.id) {
            return Some(format!("rows are out of order: {rows:?}"));
        }
        if let Some(row) = rows.iter().find(|row| row.meta.id >= self.next_row) {
            return Some(format!("{:?} is not below the next one, {:?}", row.meta, self.next_row));
        }
        let are_apart = |pair: &[Arc<Table>]| {
            let (left, right) = (pair[0].span(), pair[1].span());
            left.is_empty() || right.is_empty() || left.is_before(right.start())
        };
        for (level, run) in self.runs() {
            if !run.tables().windows(2).all(are_apart) {
                return Some(format!("tables of {level:?} overlap"));
            }
        }
        let mut tables = self.tables().map(|table| table.meta());
        let greatest = self.greatest_seqno;
        let is_whole = |table: &TableMeta| {
            table.least_seqno <= table.greatest_seqno && table.greatest_seqno <= greatest
        };
        if let Some(table) = tables.find(|table| !is_whole(table)) {
            let detail = format!("the numbers of {table:?} are out of order, or above {greatest}");
            return Some(detail);
        }
        self.dangling()
    }

    /// A table that names values of a segment that no value file holds.
    fn dangling(&self) -> Option<Misfit> {
        self.tables().find_map(|table| {
            let meta = table.meta();
            let is_lost = |segment: &FileId| self.values.of_segment(*segment).is_none();
            let lost = meta.named.iter().map(|one| one.segment).find(is_lost)?;
            Some(format!("table {} names values of segment {lost}, which no file holds", meta.id))
        })
    }

    /// What the version knows of the log. A flush is installed only after the log was synced as far
    /// as the records of its memtables reach, and a clean close after all of it was.
    #[must_use]
    pub fn log_facts(&self) -> LogFacts {
        let flushed = self.flushed.values().copied().max().unwrap_or_default();
        let durable = self.log_settled.max(flushed).max(self.closed.unwrap_or_default());
        let directories = self.media.log_directories.iter().map(PathBuf::from).collect();
        let retired = self.values.retired_segments();
        // Once the local log has begun, it is the one that counts.
        let behind = self.log_behind.filter(|_| self.log_start.segment.is_none());
        let (database, start) = (self.database, self.log_start);
        let settled = match is_planted(PlantedBug::KeptLogReplayedTwice) {
            true => start.position,
            false => self.log_settled,
        };
        LogFacts {
            database,
            epoch: self.epoch,
            start,
            settled,
            durable,
            directories,
            retired,
            behind,
        }
    }

    /// The edit that makes this version out of nothing: the first one of a manifest.
    #[must_use]
    pub fn to_snapshot(&self) -> VersionEdit {
        let rows = self.l0.rows().iter().rev();
        let tables = self.runs().flat_map(|(level, run)| {
            run.tables().iter().map(move |table| (level, table.meta().clone()))
        });
        VersionEdit {
            is_snapshot: true,
            range: RangeEdit {
                database: Some(self.database),
                identity: Some((self.range, self.keys.clone())),
                epoch: Some(self.epoch),
                merge_operator: self.merge_operator.clone(),
                repaired: self.repaired,
                drange_boundaries: (!self.drange_boundaries.is_empty())
                    .then(|| self.drange_boundaries.clone()),
                cloud: self.cloud.clone(),
                log_behind: self.log_behind,
                edit_count: Some(self.edit_count).filter(|count| *count > 0),
            },
            tree: TreeEdit {
                rows_added: rows.map(|row| row.meta.clone()).collect::<Vec<RowMeta>>(),
                cuts: self.l0.consumed().intervals().to_vec(),
                next_row: Some(self.next_row),
                tables_added: tables.collect(),
                greatest_seqno: Some(self.greatest_seqno),
                ..TreeEdit::default()
            },
            log: LogEdit {
                memtables_flushed: self.flushed.iter().map(|(id, end)| (*id, *end)).collect(),
                start: Some(self.log_start),
                settled: Some(self.log_settled).filter(|at| *at > self.log_start.position),
                closed: None,
            },
            values: ValuesEdit { added: self.values.metas(), removed: Vec::new() },
            media: (self.media != Media::default()).then(|| self.media.clone()),
        }
    }
}

/// Whether nothing of a row is left that counts.
fn is_consumed(row: &Row, consumed: &CutMap) -> bool {
    let mut tables = row.tables.iter().filter(|table| !table.span().is_empty()).peekable();
    tables.peek().is_some() && !tables.any(|table| consumed.is_live(row.meta.id, table.span()))
}

/// Whether a row may take the place of the removed ones: its id is that of the newest of them, and
/// no row that stays lies between them in age and shares a key with it.
fn fits_between(row: &Row, removed: &[RowId], rows: &[Arc<Row>]) -> Result<(), Misfit> {
    let (Some(oldest), Some(newest)) = (removed.iter().min(), removed.iter().max()) else {
        return Err(format!("{:?} takes the place of no row", row.meta.id));
    };
    if row.meta.id != *newest {
        return Err(format!("{:?} takes the place of {newest:?}", row.meta.id));
    }
    let span = row.span();
    let between = |other: &&Arc<Row>| other.meta.id >= *oldest && other.meta.id <= *newest;
    match rows.iter().filter(between).find(|other| other.span().overlaps(&span)) {
        Some(other) => Err(format!("{:?} is merged past {:?}", row.meta.id, other.meta.id)),
        None => Ok(()),
    }
}
