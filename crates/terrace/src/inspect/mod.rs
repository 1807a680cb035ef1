//! Single files in readable form, without the engine opened: for whoever wants to see what is in a
//! file, or what is left of a damaged one.
//!
//! A file becomes [`Line`]s, front to back, each with the offset of what it shows. What is damaged
//! becomes a line too, and what is readable behind it follows.

mod cached;
mod values;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use terrace_base::{EntryRef, FileId, KeyRange, LogPosition, PreambleError};
use terrace_engine::survey::{
    Gap, ManifestSurvey, Name, Piece, Pieces, SegmentSurvey, TableSurvey,
};
use terrace_engine::table::MemoryTableFile;
use terrace_engine::version::format::decode_current;
use terrace_engine::version::{TableMeta, VersionEdit};
use terrace_engine::wal::format::{
    BatchBody, ClosingBody, RecordHeader, RecordKind, SEGMENT_HEADER_BYTES, SegmentHeader,
};
use terrace_env::{Env as _, RealEnv};

use crate::report::KeyInterval;
use crate::{Error, Result};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// `CURRENT`, which names the manifest that counts.
    Current,
    /// A manifest: the edits whose sum is the tree.
    Manifest,
    /// A log segment.
    Log,
    /// A table.
    Table,
    /// A value file.
    Values,
    /// Blocks of tables in an object store that the local disk keeps.
    CachedBlocks,
    /// The metadata of a table in an object store that the local disk keeps.
    CachedMetadata,
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileKind::Current => "current",
            FileKind::Manifest => "manifest",
            FileKind::Log => "log segment",
            FileKind::Table => "table",
            FileKind::Values => "value file",
            FileKind::CachedBlocks => "cached blocks",
            FileKind::CachedMetadata => "cached metadata",
        })
    }
}

impl FileKind {
    /// What a file is, by what it says of itself at its beginning or its end, whatever it is
    /// called; by its name if that is damaged. `None` for what is none of these.
    ///
    /// Errors: `Io`.
    pub fn of(path: impl AsRef<Path>) -> Result<Option<FileKind>> {
        let path = path.as_ref();
        let env = RealEnv::new();
        let failed = |error: terrace_env::EnvError| Error::from(terrace_engine::Error::from(error));
        let file = env.fs().open(path).map_err(failed)?;
        let part = |from: u64| {
            let mut bytes = [0; SIGN_BYTES];
            file.read_at(from, &mut bytes).map_err(failed)?;
            Ok::<_, Error>(bytes)
        };
        let (head, tail) = (part(0)?, part(file.bytes().saturating_sub(SIGN_BYTES as u64))?);
        let by_signs = SIGNS.iter().find(|(sign, is_at_end, _)| match is_at_end {
            false => head.starts_with(*sign),
            true => tail.windows(sign.len()).any(|bytes| bytes == *sign),
        });
        if let Some((_, _, kind)) = by_signs {
            return Ok(Some(*kind));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(match Name::parse(&name) {
            Name::Current | Name::Switch(_) => Some(FileKind::Current),
            Name::Manifest(_) => Some(FileKind::Manifest),
            Name::Segment(_) => Some(FileKind::Log),
            Name::Table(_) => Some(FileKind::Table),
            Name::Values(_) => Some(FileKind::Values),
            Name::Lock | Name::Container | Name::Foreign => None,
        })
    }
}

/// How much is looked at of either end of a file.
const SIGN_BYTES: usize = 128;

/// What files say of themselves, and whether they say it at their end; drawn beside their codecs.
const SIGNS: [(&[u8; 8], bool, FileKind); 7] = [
    (b"terrcurr", false, FileKind::Current),
    (b"terrmani", false, FileKind::Manifest),
    (b"terrlog\0", false, FileKind::Log),
    (b"terrvals", false, FileKind::Values),
    (b"terr.bkt", false, FileKind::CachedBlocks),
    (b"terr.mtc", false, FileKind::CachedMetadata),
    // Cached metadata hold the end of a table too, so this one comes last.
    (b"terr.tbl", true, FileKind::Table),
];

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// What it is.
    pub what: &'static str,
    /// Whether the bytes here are not what was written.
    pub is_damage: bool,
    /// What it says, in an order that reads well.
    pub fields: Vec<(&'static str, Value)>,
}

/// A field of a [`Line`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A number; units are in the field's name.
    Number(u64),
    /// Text. Keys are stored ones, keyspace and type tag in front, escaped.
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

impl From<FileId> for Value {
    fn from(id: FileId) -> Value {
        Value::Text(id.to_string())
    }
}

impl From<&KeyRange> for Value {
    fn from(keys: &KeyRange) -> Value {
        Value::Text(KeyInterval::new(keys).to_string())
    }
}

impl From<&[u8]> for Value {
    fn from(key: &[u8]) -> Value {
        Value::Text(key.escape_ascii().to_string())
    }
}

impl Line {
    fn new(offset: u64, what: &'static str) -> Line {
        Line { offset, what, is_damage: false, fields: Vec::new() }
    }

    fn damage(offset: u64, why: impl fmt::Display) -> Line {
        let fields = vec![("why", Value::Text(why.to_string()))];
        Line { offset, what: "DAMAGED", is_damage: true, fields }
    }

    fn gap(gap: &Gap) -> Line {
        Line::damage(gap.offset, &gap.what).with("bytes", gap.end.saturating_sub(gap.offset))
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Line {
        self.fields.push((name, value.into()));
        self
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10}  {}", self.offset, self.what)?;
        for (name, value) in &self.fields {
            match value {
                Value::Number(number) => write!(f, "  {name}={number}")?,
                Value::Text(text) if text.contains(' ') => write!(f, "  {name}=\"{text}\"")?,
                Value::Text(text) => write!(f, "  {name}={text}")?,
            }
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Line {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("offset", &self.offset)?;
        map.serialize_entry("what", self.what)?;
        map.serialize_entry("damaged", &self.is_damage)?;
        for (name, value) in &self.fields {
            match value {
                Value::Number(number) => map.serialize_entry(name, number)?,
                Value::Text(text) => map.serialize_entry(name, text)?,
            }
        }
        map.end()
    }
}

/// What becomes of a file.
struct View<'a> {
    show: &'a mut dyn FnMut(Line) -> bool,
    with_entries: bool,
    has_damage: bool,
    is_over: bool,
}

impl View<'_> {
    fn show(&mut self, line: Line) {
        self.has_damage |= line.is_damage;
        if !self.is_over {
            self.is_over = !(self.show)(line);
        }
    }
}

/// Shows a file line by line; with its entries if wanted. `show` ends it by `false`. Returns
/// whether something in it is damaged, so far.
///
/// Cost: reads the file into memory. Errors: `Io`, `Unsupported` (written by a later version).
pub fn inspect(
    kind: FileKind,
    path: impl AsRef<Path>,
    with_entries: bool,
    show: &mut dyn FnMut(Line) -> bool,
) -> Result<bool> {
    let path = path.as_ref();
    let bytes = read(path)?;
    let mut view = View { show, with_entries, has_damage: false, is_over: false };
    match kind {
        FileKind::Current => current(&bytes, &mut view),
        FileKind::Manifest => manifest(&bytes, &mut view),
        FileKind::Log => log(path, &bytes, &mut view),
        FileKind::Table => table(path, bytes, &mut view)?,
        FileKind::Values => values::values(path, bytes, &mut view)?,
        FileKind::CachedBlocks => cached::blocks(&bytes, &mut view),
        FileKind::CachedMetadata => cached::metadata(&bytes, &mut view),
    }
    Ok(view.has_damage)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let env = RealEnv::new();
    let opened = |error: terrace_env::EnvError| Error::from(terrace_engine::Error::from(error));
    let file = env.fs().open(path).map_err(opened)?;
    let mut bytes = vec![0; file.bytes() as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(filled as u64, &mut bytes[filled..]).map_err(opened)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn preamble(error: &PreambleError) -> String {
    match error {
        PreambleError::Unsupported => "written by a later version of Terrace".to_string(),
        PreambleError::Codec(error) => error.to_string(),
    }
}

fn current(bytes: &[u8], view: &mut View<'_>) {
    match decode_current(bytes) {
        Ok(id) => view.show(Line::new(0, "current").with("manifest", id)),
        Err(error) => view.show(Line::damage(0, preamble(&error))),
    }
}

fn manifest(bytes: &[u8], view: &mut View<'_>) {
    let survey = ManifestSurvey::read(bytes);
    match &survey.header {
        Ok((identity, id)) => {
            let identity = format!("{identity:032x}");
            view.show(Line::new(0, "header").with("manifest", *id).with("identity", identity));
        }
        Err(error) => view.show(Line::damage(0, preamble(error))),
    }
    let mut gaps = survey.gaps.iter().peekable();
    for found in &survey.edits {
        while let Some(gap) = gaps.next_if(|gap| gap.offset < found.offset) {
            view.show(Line::gap(gap));
        }
        match &found.edit {
            Ok(shown) => edit(found.offset, found.bytes, shown, view),
            Err(error) => view.show(Line::damage(found.offset, error)),
        }
    }
    gaps.for_each(|gap| view.show(Line::gap(gap)));
}

fn edit(offset: u64, bytes: u64, edit: &VersionEdit, view: &mut View<'_>) {
    let what = if edit.is_snapshot { "snapshot" } else { "edit" };
    let mut line = Line::new(offset, what).with("bytes", bytes);
    if let Some(database) = edit.range.database {
        line = line.with("database", format!("{database:032x}"));
    }
    if let Some((id, keys)) = &edit.range.identity {
        line = line.with("range", id.0).with("keys", keys);
    }
    if let Some(epoch) = edit.range.epoch {
        line = line.with("epoch", epoch.0);
    }
    if let Some(row) = edit.tree.next_row {
        line = line.with("next_row", row.0);
    }
    if let Some(start) = edit.log.start {
        let segment = start.segment.map_or("none".to_string(), |id| id.to_string());
        line = line.with("log_segment", segment).with("log_position", start.position.0);
    }
    if let Some(seqno) = edit.tree.greatest_seqno {
        line = line.with("greatest_seqno", seqno.0);
    }
    if let Some(end) = edit.log.closed {
        line = line.with("closed_at", end.0);
    }
    if let Some(operator) = &edit.range.merge_operator {
        line = line.with("merge_operator", operator.clone());
    }
    if let Some(repaired) = edit.range.repaired {
        line = line.with("repaired_at_ms", repaired.at_ms);
    }
    view.show(line);
    for row in &edit.tree.rows_removed {
        view.show(Line::new(offset, "  row removed").with("row", row.0));
    }
    for cut in &edit.tree.cuts {
        let line = Line::new(offset, "  rows consumed").with("through", cut.through.0);
        view.show(line.with("keys", &cut.slice));
    }
    for row in &edit.tree.rows_added {
        for table in &row.tables {
            let line = Line::new(offset, "  row added").with("row", row.id.0);
            view.show(with_table(line, table));
        }
    }
    for (level, id) in &edit.tree.tables_removed {
        let line = Line::new(offset, "  table removed").with("level", u64::from(level.0));
        view.show(line.with("table", *id));
    }
    for (level, table) in &edit.tree.tables_added {
        let line = Line::new(offset, "  table added").with("level", u64::from(level.0));
        view.show(with_table(line, table));
    }
    for (id, end) in &edit.log.memtables_flushed {
        let line = Line::new(offset, "  memtable flushed").with("memtable", format!("{id:?}"));
        view.show(line.with("log_end", end.0));
    }
}

fn with_table(line: Line, table: &TableMeta) -> Line {
    line.with("table", table.id)
        .with("bytes", table.bytes)
        .with("entries", table.entry_count)
        .with("tombstones", table.tombstone_count)
        .with("range_tombstones", table.range_tombstone_count)
        .with("least_seqno", table.least_seqno.0)
        .with("greatest_seqno", table.greatest_seqno.0)
        .with("keys", &table.span())
        .with("hash", format!("{:032x}", table.hash))
}

fn log(path: &Path, bytes: &[u8], view: &mut View<'_>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A segment that is a value file has the name of one, and ends behind its last record.
    let (by_name, is_retired) = match Name::parse(&name) {
        Name::Segment(id) => (Some(id), false),
        Name::Values(id) => (Some(id), true),
        _ => (None, false),
    };
    let nothing = FileId { epoch: terrace_base::Epoch(0), counter: 0 };
    let survey = SegmentSurvey::of_file(by_name.unwrap_or(nothing), bytes);
    let second = SegmentHeader::second_offset(bytes.len() as u64);
    let show_header = |offset: u64, index: usize, view: &mut View<'_>| match &survey.headers[index]
    {
        Ok(header) => view.show(
            Line::new(offset, "header")
                .with("segment", header.file_id)
                .with("predecessor", header.predecessor.unwrap_or(nothing))
                .with("base", header.base.0)
                .with("bytes", header.segment_bytes)
                .with("database", format!("{:032x}", header.database))
                .with("identity", format!("{:032x}", header.identity)),
        ),
        Err(error) => view.show(Line::damage(offset, preamble(error))),
    };
    show_header(0, 0, view);
    if let Some(header) = survey.own_header() {
        let offsets = match is_retired {
            true => SEGMENT_HEADER_BYTES..bytes.len() as u64,
            false => survey.record_offsets(),
        };
        for piece in Pieces::new(bytes, header.identity, offsets.clone()) {
            if view.is_over {
                return;
            }
            match piece {
                Piece::Record { offset, header: record, body } => {
                    let at = header.base.0 + (offset - SEGMENT_HEADER_BYTES);
                    log_record(offset, LogPosition(at), &record, body, view);
                }
                // Most often nothing was ever written there.
                Piece::Gap(gap) if gap.end == offsets.end => {
                    let line = Line::new(gap.offset, "no record up to the end");
                    view.show(line.with("bytes", gap.end - gap.offset));
                }
                Piece::Gap(gap) => view.show(Line::gap(&gap)),
            }
        }
    }
    if !is_retired {
        show_header(second, 1, view);
    }
}

fn log_record(
    offset: u64,
    position: LogPosition,
    header: &RecordHeader,
    body: &[u8],
    view: &mut View<'_>,
) {
    let what = match header.kind {
        RecordKind::Batch => "batch",
        RecordKind::Closing => "closing",
    };
    let line = Line::new(offset, what)
        .with("bytes", u64::from(header.bytes))
        .with("position", position.0)
        .with("durable", header.durable.0);
    match header.kind {
        RecordKind::Closing => match ClosingBody::decode(body) {
            Ok(closing) => view.show(
                line.with("manifest", closing.manifest)
                    .with("manifest_bytes", closing.manifest_bytes),
            ),
            Err(error) => view.show(Line::damage(offset, error)),
        },
        RecordKind::Batch => {
            let line = line
                .with("first_seqno", header.first_seqno.0)
                .with("seqnos", u64::from(header.seqno_count))
                .with("entries", u64::from(header.entry_count));
            view.show(line);
            let entries = match BatchBody::decode(header, body) {
                Ok(batch) => batch.entries().collect::<std::result::Result<Vec<_>, _>>(),
                Err(error) => Err(error),
            };
            match entries {
                Ok(entries) if view.with_entries => {
                    for (memtable, found) in entries {
                        let line = entry(offset, &found);
                        view.show(line.with("memtable", format!("{memtable:?}")));
                    }
                }
                Ok(_) => {}
                Err(error) => view.show(Line::damage(offset, error)),
            }
        }
    }
}

fn entry(offset: u64, entry: &EntryRef<'_>) -> Line {
    let line = Line::new(offset, "  entry")
        .with("key", entry.key)
        .with("seqno", entry.seqno.0)
        .with("kind", format!("{:?}", entry.kind))
        .with("value_bytes", entry.value.len() as u64);
    match entry.expiry {
        Some(expiry) => line.with("expires_ms", expiry.time().0),
        None => line,
    }
}

fn table(path: &Path, bytes: Vec<u8>, view: &mut View<'_>) -> Result<()> {
    let file = Arc::new(MemoryTableFile::new(path, bytes));
    let survey = TableSurvey::open(file, None)?;
    let mut damage = survey.damage.clone();
    damage.sort_by_key(|(_, gap)| gap.offset);
    let mut damage = damage.into_iter().peekable();
    let show_damage = |part: terrace_engine::survey::TablePart, gap: &Gap, view: &mut View<'_>| {
        view.show(Line::gap(gap).with("part", part.to_string()));
    };
    for block in &survey.blocks {
        if view.is_over {
            return Ok(());
        }
        while let Some((part, gap)) = damage.next_if(|(_, gap)| gap.offset < block.handle.offset) {
            show_damage(part, &gap, view);
        }
        let offset = block.handle.offset;
        let entries = survey.block(block)?.and_then(|content| content.entries());
        let line = match &entries {
            Ok(entries) => Line::new(offset, "block").with("entries", entries.len() as u64),
            Err(error) => Line::damage(offset, error),
        };
        let line = line.with("block", block.index as u64).with("bytes", block.handle.bytes);
        view.show(match &block.keys {
            Some(keys) => line.with("keys", keys),
            None => line,
        });
        if view.with_entries {
            for found in entries.iter().flatten() {
                view.show(entry(offset, &found.as_ref()));
            }
        }
    }
    damage.for_each(|(part, gap)| show_damage(part, &gap, view));
    table_parts(&survey, view);
    Ok(())
}

fn table_parts(survey: &TableSurvey, view: &mut View<'_>) {
    let footer = survey.footer.as_ref();
    let at = |handle: Option<u64>| handle.unwrap_or_default();
    if let Some(filter) = &survey.filter {
        let offset = at(footer.map(|footer| footer.filter.offset));
        view.show(Line::new(offset, "filter").with("bytes", filter.memory_bytes() as u64));
    }
    if let Some((bytes, keys)) = survey.index {
        let offset = at(footer.map(|footer| footer.index.offset));
        let line = Line::new(offset, if keys.is_some() { "trie" } else { "index" });
        let line = line.with("bytes", bytes).with("blocks", survey.blocks.len() as u64);
        view.show(match keys {
            Some(keys) => line.with("keys", keys),
            None => line,
        });
    }
    if let Some(properties) = survey.properties.as_ref().filter(|one| !one.lists.is_empty()) {
        view.show(
            Line::new(at(footer.map(|footer| footer.names.offset)), "names")
                .with("segments", properties.named.iter().count() as u64)
                .with("values", properties.named.iter().map(|one| one.count).sum::<u64>())
                .with("frames", properties.lists.len() as u64),
        );
    }
    if let Some(properties) = &survey.properties {
        view.show(
            Line::new(at(footer.map(|footer| footer.properties.offset)), "properties")
                .with("entries", properties.entry_count)
                .with("keys", properties.key_count)
                .with("tombstones", properties.tombstone_count)
                .with("range_tombstones", properties.range_tombstone_count)
                .with("raw_key_bytes", properties.raw_key_bytes)
                .with("raw_value_bytes", properties.raw_value_bytes)
                .with("least_seqno", properties.least_seqno.0)
                .with("greatest_seqno", properties.greatest_seqno.0)
                .with("smallest", properties.smallest.as_slice())
                .with("largest", properties.largest.as_slice())
                .with("created_ms", properties.created.0),
        );
    }
    if let Some(footer) = footer {
        view.show(
            Line::new(footer.offset(), "footer")
                .with("uid", format!("{:?}", footer.uid))
                .with("data_bytes", footer.data_bytes)
                .with("filter_bytes", footer.filter.bytes)
                .with("index_bytes", footer.index.bytes)
                .with("range_tombstones_bytes", footer.range_tombstones.bytes)
                .with("names_bytes", footer.names.bytes)
                .with("properties_bytes", footer.properties.bytes),
        );
    }
}
