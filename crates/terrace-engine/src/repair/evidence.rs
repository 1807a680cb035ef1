//! What a damaged directory says of itself, and what of it is trusted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{
    Epoch, FileId, KeyRange, LogPosition, MemtableId, RangeId, RowId, SeqNo, TableUid,
};
use terrace_env::SharedEnv;

use super::values::SalvagedValues;
use crate::check::{mount_far, tables_of_dir};
use crate::l0::triangle::row::RowReader;
use crate::l0::{CutMap, Live};
use crate::placement::{ContainerPlace, Role, TableMedium};
use crate::survey::{Listing, ManifestSurvey, Piece, Pieces, SegmentSurvey};
use crate::table::format::footer::{FOOTER_BYTES, Footer};
use crate::table::{LocalTableStore, TableLocation};
use crate::version::format::decode_current;
use crate::version::{TableContext, TableMeta, Version, VersionEdit, fold, manifest_path};
use crate::vlog::ValueFileMeta;
use crate::wal::format::{ClosingBody, RecordKind, SEGMENT_HEADER_BYTES};
use crate::{Error, Result, read_ends, read_file};

/// What is known before anything is salvaged.
pub(super) struct Evidence {
    /// The version, if the manifest is whole and nothing contradicts it.
    pub version: Option<Version>,
    /// The database, if any manifest says.
    pub database: Option<u128>,
    /// The range and its keys.
    pub range: (RangeId, KeyRange),
    /// What readable edits say of tables, by id.
    pub metas: BTreeMap<FileId, TableMeta>,
    /// What readable edits say of value files, by id.
    value_metas: BTreeMap<FileId, ValueFileMeta>,
    /// The values in value files.
    pub values: Arc<SalvagedValues>,
    /// The tables of rows that readable edits added.
    rows: BTreeMap<RowId, Vec<FileId>>,
    /// What of those rows is consumed, as far as readable edits say.
    consumed: CutMap,
    /// Where the container of L0 is, as far as readable edits say.
    pub container: Option<ContainerPlace>,
    /// Tables and value files that a readable edit removed and none added again.
    pub removed: BTreeSet<FileId>,
    /// The segment that the log begins in, as far as readable edits say.
    pub log_segment: Option<FileId>,
    /// The log is needed from here on, as far as readable edits say.
    pub settled: LogPosition,
    /// Memtables whose entries are in tables, as far as readable edits say.
    pub flushed: BTreeMap<MemtableId, LogPosition>,
    /// The greatest number that tables hold, as far as readable edits say.
    pub greatest_seqno: SeqNo,
    /// The name of the range's merge operator, as far as readable edits say.
    pub merge_operator: Option<String>,
    /// The log was durable below this position, as far as readable edits say.
    pub durable: LogPosition,
    /// Which file holds the table with this identity, whatever its name says.
    pub by_uid: BTreeMap<TableUid, FileId>,
    /// The log segments, by what their headers say.
    pub segments: Vec<(FileId, SegmentSurvey)>,
    /// The tables of the directory.
    pub context: Arc<TableContext>,
    /// What there is to say.
    pub notes: Vec<String>,
}

impl Evidence {
    /// Reads `CURRENT`, every manifest, and the headers of segments and tables.
    pub fn gather(env: &SharedEnv, dir: &Path, listing: &Listing) -> Result<Evidence> {
        let mut evidence = Evidence {
            version: None,
            database: None,
            range: (RangeId(1), KeyRange::all()),
            metas: BTreeMap::new(),
            value_metas: BTreeMap::new(),
            values: Arc::default(),
            rows: BTreeMap::new(),
            consumed: CutMap::default(),
            container: None,
            removed: BTreeSet::new(),
            log_segment: None,
            settled: LogPosition(0),
            flushed: BTreeMap::new(),
            greatest_seqno: SeqNo::ZERO,
            merge_operator: None,
            durable: LogPosition(0),
            by_uid: uids(env, dir, listing)?,
            segments: segments(env, dir, listing)?,
            context: tables_of_dir(env, dir),
            notes: Vec::new(),
        };
        let named = named_manifest(env, dir, listing)?;
        let mut surveys = Vec::new();
        for (id, _) in &listing.manifests {
            let bytes = read_file(env.as_ref(), &manifest_path(dir, *id))?;
            surveys.push((*id, ManifestSurvey::read(&bytes)));
        }
        for (_, survey) in &surveys {
            evidence.take_hints(survey);
        }
        evidence.settle_database();
        let store = evidence.context.opener.store.as_ref();
        let values = SalvagedValues::find(dir.into(), listing, &evidence.value_metas, store)?;
        evidence.values = Arc::new(values);
        let newest_epoch = listing.newest_epoch_of_data();
        // The one that CURRENT names first, then from the newest.
        let mut order: Vec<_> = surveys.iter().rev().collect();
        order.sort_by_key(|(id, _)| Some(*id) != named);
        for (id, survey) in order {
            let why = evidence.distrust(env, dir, listing, *id, survey, newest_epoch)?;
            match why {
                Some(why) => evidence.notes.push(format!("manifest {id} is not trusted: {why}")),
                None => {
                    if named != Some(*id) {
                        evidence.notes.push(format!("CURRENT does not name manifest {id}"));
                    }
                    break;
                }
            }
        }
        if surveys.is_empty() {
            evidence.notes.push("there is no manifest".to_string());
        }
        Ok(evidence)
    }

    /// Why the version that a manifest comes to is not to be trusted; if it is, it is taken.
    fn distrust(
        &mut self,
        env: &SharedEnv,
        dir: &Path,
        listing: &Listing,
        id: FileId,
        survey: &ManifestSurvey,
        newest_epoch: Epoch,
    ) -> Result<Option<String>> {
        match &survey.header {
            Ok((_, named)) if *named == id => {}
            Ok(_) => return Ok(Some("its header names another".into())),
            Err(error) => return Ok(Some(format!("its header is damaged ({error})"))),
        }
        if let Some(hole) = survey.holes().next() {
            return Ok(Some(format!("it is damaged at offset {}", hole.offset)));
        }
        let mut edits: Vec<&VersionEdit> = Vec::new();
        for (index, found) in survey.edits.iter().enumerate() {
            match &found.edit {
                Ok(edit) if edit.is_snapshot == (index == 0) => edits.push(edit),
                Ok(_) => return Ok(Some("a snapshot is out of place".into())),
                Err(error) => return Ok(Some(format!("an edit does not decode ({error})"))),
            }
        }
        if edits.is_empty() {
            return Ok(Some("it holds no version".into()));
        }
        if newest_epoch > id.epoch {
            return Ok(Some(format!("there are files of epoch {newest_epoch}")));
        }
        let l0 = crate::check::l0_of(env, &self.context);
        let version = match fold(edits, l0.as_ref(), &self.context) {
            Ok(version) => version,
            Err((_, misfit)) => return Ok(Some(format!("an edit does not fit ({misfit})"))),
        };
        if self.database.is_some_and(|database| database != version.database()) {
            return Ok(Some("it belongs to another database".into()));
        }
        self.context.opener.rows.find(version.media().row_directory.as_deref(), version.database());
        if let Some(closing) = self.closing(env, dir, listing)?
            && closing.manifest == id
            && survey.good_end() < closing.manifest_bytes
        {
            return Ok(Some("the log was closed when it was longer".into()));
        }
        mount_far(env, &self.context, &version)?;
        if !self.has_all_files(env, dir, listing, &version)? {
            return Ok(Some("it is older than files that are there".into()));
        }
        self.open_rows(&version)?;
        self.version = Some(version);
        Ok(None)
    }

    /// Opens the rows in pages, as far as they do.
    fn open_rows(&mut self, version: &Version) -> Result<()> {
        let Some(place) = &version.media().container else { return Ok(()) };
        let container = &self.context.opener.container;
        let mut note = |error: Error| match error {
            Error::Corruption(damage) => {
                self.notes.push(damage.to_string());
                Ok(())
            }
            error => Err(error),
        };
        match container.open(place, version.database()) {
            Ok(true) => {}
            Ok(false) => {
                self.notes.push(format!("the container of L0, {}, is missing", place.path));
                return Ok(());
            }
            Err(error) => return note(error),
        }
        for live in version.l0().live() {
            container.open_row(live).or_else(&mut note)?;
        }
        Ok(())
    }

    /// The row in pages that a table of the version is, and the file that it lies in.
    pub fn row(&self, meta: &TableMeta) -> Result<(PathBuf, Arc<RowReader>)> {
        let container = &self.context.opener.container;
        let row = container.row(meta)?;
        let path = container.pages().map(|pages| pages.path().to_path_buf());
        Ok((path.unwrap_or_default(), row))
    }

    /// Where a table of the version's L0 counts.
    pub fn live_parts(&self, meta: &TableMeta) -> Vec<KeyRange> {
        let live = self.version.iter().flat_map(|version| version.l0().live());
        live.filter(|live| live.table.meta().id == meta.id)
            .flat_map(|live| live.parts().to_vec())
            .collect()
    }

    /// Whether nothing says that the manifest lost its last edits: tables that it names are gone
    /// while others are there that it does not name, or records that it does not know of.
    fn has_all_files(
        &self,
        env: &SharedEnv,
        dir: &Path,
        listing: &Listing,
        version: &Version,
    ) -> Result<bool> {
        let mut is_missing = false;
        for meta in version.tables().map(|table| table.meta()) {
            is_missing |= !meta.is_in_pages() && self.location(meta, listing)?.is_none();
        }
        let value_files = || version.values().iter().map(|file| file.meta().id);
        is_missing |= value_files().any(|id| !listing.has_values(id));
        let of_tables = version.tables().map(|table| table.meta().id);
        let named: BTreeSet<_> = of_tables.chain(value_files()).collect();
        // What the manifest itself removed waits to be deleted and proves nothing.
        let is_other = |id: &FileId| !named.contains(id) && !self.removed.contains(id);
        let mut data = listing.tables.iter().chain(&listing.values);
        let has_others = data.any(|(id, _)| is_other(id));
        let is_log_gone = match version.log_start().segment {
            Some(start) => {
                let is_there = self.segments.iter().any(|(id, _)| *id == start);
                !is_there && !listing.segments.is_empty() && has_others
            }
            None => {
                let mut has_records = false;
                for (_, segment) in &self.segments {
                    has_records |= has_records_in(env, dir, listing, segment)?;
                }
                has_records
            }
        };
        let is_table_gone = is_missing && has_others;
        Ok(!is_table_gone && !is_log_gone)
    }

    /// The closing record, if the youngest segment ends with one.
    fn closing(
        &self,
        env: &SharedEnv,
        dir: &Path,
        listing: &Listing,
    ) -> Result<Option<ClosingBody>> {
        let Some((_, segment)) = self.segments.last() else { return Ok(None) };
        let Some(header) = segment.own_header() else { return Ok(None) };
        let bytes = read_file(env.as_ref(), &listing.segment_path(dir, segment.id))?;
        let mut last = None;
        for piece in Pieces::new(&bytes, header.identity, segment.record_offsets()) {
            if let Piece::Record { header, body, .. } = piece {
                last = (header.kind == RecordKind::Closing).then(|| ClosingBody::decode(body).ok());
            }
        }
        Ok(last.flatten())
    }

    /// Decides which database this is, and lets go of the segments of others. The manifests say,
    /// but if no segment agrees with them, and no table that is there is one of theirs, then they
    /// are the strangers.
    fn settle_database(&mut self) {
        let of = |segment: &SegmentSurvey| segment.own_header().map(|header| header.database);
        let mut named: BTreeMap<u128, usize> = BTreeMap::new();
        for database in self.segments.iter().filter_map(|(_, segment)| of(segment)) {
            *named.entry(database).or_default() += 1;
        }
        let by_segments = named.iter().max_by_key(|(_, count)| **count).map(|(named, _)| *named);
        let owns_a_table = self.metas.values().any(|meta| self.by_uid.contains_key(&meta.uid));
        let is_confirmed = self.database.is_some_and(|database| {
            named.contains_key(&database) || owns_a_table || self.by_uid.is_empty()
        });
        if let (false, Some(database)) = (is_confirmed, by_segments) {
            self.database = Some(database);
            // What strangers say means nothing here, though ids may be the same.
            self.metas.clear();
            self.value_metas.clear();
            self.removed.clear();
            self.rows.clear();
            self.consumed = CutMap::default();
            self.container = None;
            self.flushed.clear();
            self.log_segment = None;
            (self.settled, self.durable) = (LogPosition(0), LogPosition(0));
            self.greatest_seqno = SeqNo::ZERO;
            self.merge_operator = None;
            self.range = (RangeId(1), KeyRange::all());
        }
        let Some(database) = self.database else { return };
        let (ours, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.segments)
            .into_iter()
            .partition(|(_, segment)| of(segment) == Some(database));
        self.segments = ours;
        for (_, segment) in others {
            self.notes.push(format!("log segment {} belongs to another database", segment.id));
        }
    }

    /// Takes in what the readable edits of a manifest say, whether it is trusted or not.
    fn take_hints(&mut self, survey: &ManifestSurvey) {
        for edit in survey.edits.iter().filter_map(|found| found.edit.as_ref().ok()) {
            self.database = edit.range.database.or(self.database);
            if edit.range.merge_operator.is_some() {
                self.merge_operator.clone_from(&edit.range.merge_operator);
            }
            if let Some(place) = edit.media.as_ref().and_then(|media| media.container.as_ref()) {
                self.container = Some(place.clone());
            }
            self.range = edit.range.identity.clone().unwrap_or_else(|| self.range.clone());
            let added = edit.tree.tables();
            for row in &edit.tree.rows_removed {
                self.removed.extend(self.rows.remove(row).unwrap_or_default());
            }
            for row in &edit.tree.rows_added {
                let tables = row.tables.iter().map(|table| table.id);
                self.rows.insert(row.id, tables.collect());
            }
            for cut in &edit.tree.cuts {
                self.consumed = self.consumed.after(cut);
            }
            self.removed.extend(edit.tree.tables_removed.iter().map(|(_, id)| *id));
            for table in added {
                self.removed.remove(&table.id);
                self.metas.insert(table.id, table.clone());
            }
            self.removed.extend(&edit.values.removed);
            for file in &edit.values.added {
                self.removed.remove(&file.id);
                self.value_metas.insert(file.id, file.clone());
            }
            self.flushed.extend(edit.log.memtables_flushed.iter().copied());
            let flushed = edit.log.memtables_flushed.iter().map(|(_, end)| *end).max();
            if let Some(start) = edit.log.start.filter(|start| start.position >= self.settled) {
                self.settled = start.position;
                self.log_segment = start.segment.or(self.log_segment);
            }
            self.durable = self
                .durable
                .max(self.settled)
                .max(flushed.unwrap_or_default())
                .max(edit.log.closed.unwrap_or_default());
            self.greatest_seqno =
                self.greatest_seqno.max(edit.tree.greatest_seqno.unwrap_or_default());
        }
    }

    /// Where a table counts, as far as readable edits say.
    pub fn live(&self, table: FileId) -> Live {
        let row = self.rows.iter().find(|(_, tables)| tables.contains(&table));
        match (row, self.metas.get(&table)) {
            (Some((row, _)), Some(meta)) if !meta.span().is_empty() => {
                self.consumed.live(*row, &meta.span())
            }
            _ => Live::Everywhere,
        }
    }

    /// The row in pages with this identity, if a readable edit added one.
    pub fn row_in_pages(&self, uid: TableUid) -> Option<&TableMeta> {
        self.metas.values().find(|meta| meta.uid == uid && meta.is_in_pages())
    }

    /// The file that holds a table, wherever it is.
    ///
    /// Errors: an object store does not say whether it has the table.
    pub fn location(&self, meta: &TableMeta, listing: &Listing) -> Result<Option<TableLocation>> {
        if meta.location.medium() == TableMedium::Rows {
            let is_there = self.context.opener.store.open(&meta.location).is_ok();
            return Ok(is_there.then(|| meta.location.clone()));
        }
        if meta.location.is_far() {
            // Without a version that names the store, the table counts as lost.
            let far = &self.context.opener.far;
            let is_there = far.is_mounted() && far.has(&meta.location)?;
            return Ok(is_there.then(|| meta.location.clone()));
        }
        let by_name = listing.table_bytes(meta.id).map(|_| meta.id);
        let id = self.by_uid.get(&meta.uid).copied().or(by_name);
        Ok(id.map(LocalTableStore::location_of))
    }
}

/// Adds to a listing the log segments that lie elsewhere, as far as readable edits say where.
pub(super) fn find_log(env: &SharedEnv, dir: &Path, listing: &mut Listing) -> Result<()> {
    let mut directories = BTreeSet::new();
    for (id, _) in &listing.manifests {
        let survey = ManifestSurvey::read(&read_file(env.as_ref(), &manifest_path(dir, *id))?);
        for edit in survey.edits.iter().filter_map(|found| found.edit.as_ref().ok()) {
            let named =
                edit.media.iter().flat_map(|media| &media.log_directories).map(PathBuf::from);
            let database = edit.range.database.unwrap_or_default();
            directories.extend(named.filter(|path| Role::Segments.is_of(path, database)));
        }
    }
    directories.iter().try_for_each(|path| listing.add_log_directory(env.as_ref(), path))
}

/// The manifest that `CURRENT` names, if it can be read.
fn named_manifest(env: &SharedEnv, dir: &Path, listing: &Listing) -> Result<Option<FileId>> {
    if !listing.has_current {
        return Ok(None);
    }
    let bytes = read_file(env.as_ref(), &dir.join("CURRENT"))?;
    Ok(decode_current(&bytes).ok())
}

/// Whether a record stands in a segment.
fn has_records_in(
    env: &SharedEnv,
    dir: &Path,
    listing: &Listing,
    segment: &SegmentSurvey,
) -> Result<bool> {
    let Some(header) = segment.header() else { return Ok(false) };
    let bytes = read_file(env.as_ref(), &listing.segment_path(dir, segment.id))?;
    let mut pieces = Pieces::new(&bytes, header.identity, segment.record_offsets());
    Ok(pieces.any(|piece| matches!(piece, Piece::Record { .. })))
}

/// The identities of the tables that have a footer.
fn uids(env: &SharedEnv, dir: &Path, listing: &Listing) -> Result<BTreeMap<TableUid, FileId>> {
    let mut uids = BTreeMap::new();
    for (id, _) in &listing.tables {
        let path = dir.join(format!("{id}.table"));
        let (bytes, _, last) = read_ends(env.as_ref(), &path, FOOTER_BYTES)?;
        if let Some(last) = last.first_chunk()
            && let Ok(footer) = Footer::decode(last, bytes)
        {
            uids.entry(footer.uid).or_insert(*id);
        }
    }
    Ok(uids)
}

/// The segments that have a header, by the id in it, oldest first. A recycled file that was not
/// begun anew still has the headers of its former use; then it counts as that, unless the segment
/// that it says to be is there too.
fn segments(
    env: &SharedEnv,
    dir: &Path,
    listing: &Listing,
) -> Result<Vec<(FileId, SegmentSurvey)>> {
    let mut segments: BTreeMap<FileId, SegmentSurvey> = BTreeMap::new();
    for (id, _) in &listing.segments {
        let path = listing.segment_path(dir, *id);
        let (bytes, first, last) = read_ends(env.as_ref(), &path, SEGMENT_HEADER_BYTES as usize)?;
        let survey = SegmentSurvey::read(*id, bytes, &first, &last);
        let Some(header) = survey.own_header() else { continue };
        let is_named = header.file_id == *id;
        if is_named || !segments.contains_key(&header.file_id) {
            segments.insert(header.file_id, survey);
        }
    }
    Ok(segments.into_iter().collect())
}
