//! The value files, and the pointers of tables into them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::{EntryKind, EntryRef, FileId, KeyRange};
use xxhash_rust::xxh3::Xxh3;

use super::tables::unless_damaged;
use super::{Check, CheckDepth, CheckReport, Finding, Severity};
use crate::iter::Stream;
use crate::survey::{Gap, Piece, Pieces, ValueSurvey};
use crate::table::{ByteInterval, LocalTableStore, ReadMode, TableFile};
use crate::version::{Table, TableContext, Version};
use crate::vlog::{
    Frame, SegmentVerifier, ValueFile, ValueFileMeta, ValueHome, ValuePointer, log_segment_header,
};
use crate::wal::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Error, Result};

/// Bytes that are hashed at once.
const PIECE_BYTES: u64 = 1 << 20;

/// How many damaged values of a table are told of one by one; what is beyond is summed up.
const TOLD_MAX: usize = 100;

/// Checks the value files of a version: that each is there and the one that the manifest describes,
/// and, in a full check, every byte of it. `progress` is told the bytes of each. What cannot be
/// used is in the set that is returned.
///
/// Errors: those that are no damage.
pub(crate) fn check_value_files(
    context: &TableContext,
    version: &Version,
    depth: CheckDepth,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64),
) -> Result<BTreeSet<FileId>> {
    let mut unusable = BTreeSet::new();
    for file in version.values().iter() {
        let meta = file.meta();
        report.value_file_count += 1;
        report.value_file_bytes += meta.bytes;
        if !check_value_file(context, meta, depth, report)? {
            unusable.insert(meta.id);
        }
        progress(meta.bytes);
    }
    Ok(unusable)
}

/// Checks one value file; whether it opens, so that values can be read from it.
fn check_value_file(
    context: &TableContext,
    meta: &ValueFileMeta,
    depth: CheckDepth,
    report: &mut CheckReport,
) -> Result<bool> {
    let Some(file) = unless_damaged(context.opener.open_values(meta), None, report)? else {
        return Ok(false);
    };
    let is_usable = unless_damaged(ValueFile::judge(&file, meta), None, report)?.is_some();
    if meta.home == ValueHome::Log {
        if depth == CheckDepth::Full {
            check_segment(file.as_ref(), meta, report)?;
        }
        // Values are found by their pointers, whatever the headers say.
        return Ok(true);
    }
    if depth == CheckDepth::Quick || hash_of(file.as_ref())? == Some(meta.hash) {
        return Ok(is_usable);
    }
    // What is at the ends of the file was found already.
    let known: BTreeSet<u64> = report.findings.iter().map(|finding| finding.offset).collect();
    let (name, survey) = (file.name(), ValueSurvey::read(&file, meta.id, Some(meta))?);
    for gap in survey.damage.iter().filter(|gap| is_usable || !known.contains(&gap.offset)) {
        report.findings.push(Finding::at(Severity::Damage, &name, gap.offset, gap.what.clone()));
    }
    if is_usable && survey.damage.is_empty() {
        let text = "the hash of the value file is not the one that the manifest has";
        report.findings.push(Finding::at(Severity::Damage, &name, 0, text));
    }
    Ok(is_usable)
}

/// Checks the records of a log segment that is a value file.
fn check_segment(
    file: &dyn TableFile,
    meta: &ValueFileMeta,
    report: &mut CheckReport,
) -> Result<()> {
    let mut verifier = SegmentVerifier::new(meta);
    let mut is_whole = true;
    let is_read = read_through(file, meta.bytes, &mut |piece| {
        is_whole = is_whole && verifier.add(piece).is_ok();
    })?;
    if is_read && is_whole && verifier.finish().is_ok() {
        return Ok(());
    }
    // What is damaged is read as a whole, to find all that is.
    let found = gaps_of(file, meta.uid.0, meta.bytes)?;
    report.findings.extend(found.into_iter().map(|gap| damage_at(file, gap)));
    Ok(())
}

/// What in the first `bytes` bytes of a log segment is no record.
fn gaps_of(file: &dyn TableFile, identity: u128, bytes: u64) -> Result<Vec<Gap>> {
    let whole = ByteInterval { offset: 0, bytes: bytes as usize };
    let stored = match file.read(&[whole]).wait() {
        Ok(mut read) => read.pop().unwrap_or_default(),
        Err(Error::Corruption(_)) => Vec::new(),
        Err(error) => return Err(error),
    };
    let pieces = Pieces::new(&stored, identity, SEGMENT_HEADER_BYTES..bytes);
    let gap = |piece| match piece {
        Piece::Gap(gap) => Some(gap),
        Piece::Record { .. } => None,
    };
    Ok(pieces.filter_map(gap).collect())
}

fn damage_at(file: &dyn TableFile, gap: Gap) -> Finding {
    Finding::at(Severity::Damage, &file.name(), gap.offset, gap.what)
}

/// The hash of all bytes of a file; `None` if it is cut while it is read.
fn hash_of(file: &dyn TableFile) -> Result<Option<u128>> {
    let mut hash = Xxh3::new();
    let is_read = read_through(file, file.bytes(), &mut |piece| hash.update(piece))?;
    Ok(is_read.then(|| hash.digest128()))
}

/// Shows the first `bytes` bytes of a file, front to back; whether it has as many.
fn read_through(file: &dyn TableFile, bytes: u64, visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
    let mut offset = 0;
    while offset < bytes {
        let interval = ByteInterval { offset, bytes: (bytes - offset).min(PIECE_BYTES) as usize };
        match file.read(&[interval]).wait() {
            Ok(pieces) => pieces.iter().for_each(|piece| visit(piece)),
            Err(Error::Corruption(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
        offset += interval.bytes as u64;
    }
    Ok(true)
}

/// Follows every pointer that counts to its value: each leads to a value of the same key. Those
/// into files that are `unusable`, and those of a table beyond a hundred damaged ones, are one
/// finding for each table and file. `dir`: where the range is; `go_on` is asked before each table
/// whether the check is still wanted.
///
/// Cost: every value that is named is read. Errors: those that are no damage.
pub(crate) fn check_pointers(
    dir: &Path,
    version: &Version,
    unusable: &BTreeSet<FileId>,
    report: &mut CheckReport,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut walk = PointerWalk { dir, version, unusable, report, told: 0 };
    let names_any = |table: &Table| !table.meta().named.is_empty();
    // What of a row is consumed counts no more, and what it names may be gone already.
    for live in version.l0().live().iter().filter(|live| names_any(&live.table)) {
        go_on()?;
        walk.table(&live.table, live.parts())?;
    }
    for table in version.runs().flat_map(|(_, run)| run.tables()).filter(|table| names_any(table)) {
        go_on()?;
        walk.table(table, std::slice::from_ref(&table.meta().clip))?;
    }
    Ok(())
}

struct PointerWalk<'a> {
    dir: &'a Path,
    version: &'a Version,
    unusable: &'a BTreeSet<FileId>,
    report: &'a mut CheckReport,
    /// How many values of the present table are told of one by one.
    told: usize,
}

impl PointerWalk<'_> {
    fn table(&mut self, table: &Arc<Table>, parts: &[KeyRange]) -> Result<()> {
        let mut lost = Lost::default();
        self.told = 0;
        for part in parts {
            match self.part(table, part, &mut lost) {
                // The table itself is damaged, which the check of tables says.
                Err(Error::Corruption(_)) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        for (id, keys, count) in lost.files {
            let text = format!(
                "{count} values that table {} names in this file cannot be read",
                table.meta().id
            );
            let finding = Finding::at(Severity::Damage, &path_of(self.dir, id), 0, text);
            self.report.findings.push(finding.with_keys(Some(keys)));
        }
        Ok(())
    }

    /// Follows the pointers in a part of a table.
    fn part(&mut self, table: &Arc<Table>, part: &KeyRange, lost: &mut Lost) -> Result<()> {
        let mut stream = table.reader(ReadMode::BLOCK)?.stream(part)?;
        while let Some(entry) = stream.entry() {
            if entry.kind == EntryKind::ValuePointer {
                self.pointer(table, &entry, lost)?;
            }
            stream.advance()?;
        }
        Ok(())
    }

    fn pointer(&mut self, table: &Table, entry: &EntryRef<'_>, lost: &mut Lost) -> Result<()> {
        self.report.pointer_count += 1;
        let keys = || KeyRange::new(entry.key, Some([entry.key, &[0]].concat()));
        let here = |text: String| {
            let path = self.dir.join(format!("{}.table", table.meta().id));
            Finding::at(Severity::Damage, &path, 0, text).with_keys(Some(keys()))
        };
        let pointer = match ValuePointer::decode(entry.value) {
            Ok(pointer) => pointer,
            Err(error) => {
                let text = format!("what should be a pointer to a value is none: {}", error.what);
                self.report.findings.push(here(text));
                return Ok(());
            }
        };
        let Some(file) = self.version.values().of_segment(pointer.name.segment) else {
            let text = format!("it names value {:?}, and no file holds it", pointer.name);
            self.report.findings.push(here(text));
            return Ok(());
        };
        if self.unusable.contains(&file.meta().id) {
            lost.add(file.meta().id, keys());
            return Ok(());
        }
        match file.read(entry.key, &pointer, ReadMode { fills_cache: false, ..ReadMode::BLOCK }) {
            Ok(_) => Ok(()),
            Err(Error::Corruption(_)) if self.told >= TOLD_MAX => {
                lost.add(file.meta().id, keys());
                Ok(())
            }
            Err(Error::Corruption(damage)) => {
                self.told += 1;
                let text = format!(
                    "value {:?}, which table {} names: {}",
                    pointer.name,
                    table.meta().id,
                    damage.detail
                );
                let finding = Finding::at(Severity::Damage, &damage.file, damage.offset, text);
                self.report.findings.push(finding.with_keys(Some(keys())));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn path_of(dir: &Path, id: FileId) -> PathBuf {
    dir.join(format!("{id}.values"))
}

/// What a table names in files and cannot be read, and is not told one by one: the file, between
/// which keys, and how many.
#[derive(Default)]
struct Lost {
    files: Vec<(FileId, KeyRange, u64)>,
}

impl Lost {
    fn add(&mut self, file: FileId, keys: KeyRange) {
        match self.files.iter_mut().find(|(id, ..)| *id == file) {
            Some((_, known, count)) => (*known, *count) = (known.hull(&keys), *count + 1),
            None => self.files.push((file, keys, 1)),
        }
    }
}

impl Check<'_> {
    /// The value files of a version, those that it does not name, and what its tables point to.
    pub(super) fn values_of(&mut self, version: &Version) -> Result<()> {
        let (context, depth) = (Arc::clone(&self.context), self.depth);
        let mut read_bytes = Vec::new();
        let report = &mut self.report;
        let unusable = check_value_files(&context, version, depth, report, &mut |bytes| {
            read_bytes.push(bytes);
        })?;
        read_bytes.into_iter().for_each(|bytes| self.advance(bytes));
        let liveness = version.liveness();
        for file in version.values().iter().filter(|file| !liveness.names_any(file.meta())) {
            let text = "no table names a value of it: the next upkeep deletes it";
            let path = path_of(self.dir, file.meta().id);
            self.find(Severity::Harmless, &path, 0, text);
        }
        for (id, bytes) in self.listing.values.clone() {
            if version.values().get(id).is_none() {
                let path = path_of(self.dir, id);
                let text = "belongs to nothing: left by an interrupted job";
                self.find(Severity::Harmless, &path, 0, text);
                self.advance(bytes);
            }
        }
        if depth == CheckDepth::Full {
            check_pointers(self.dir, version, &unusable, &mut self.report, &mut || Ok(()))?;
        }
        Ok(())
    }

    /// Without a manifest: each value file by itself.
    pub(super) fn values_alone(&mut self) -> Result<()> {
        for (id, bytes) in self.listing.values.clone() {
            let location = LocalTableStore::location_of_values(id);
            let file = self.context.opener.store.open(&location)?;
            self.report.value_file_count += 1;
            self.report.value_file_bytes += bytes;
            if let Some(header) = log_segment_header(file.as_ref())? {
                self.segment_alone(file.as_ref(), &header)?;
            } else if self.depth == CheckDepth::Full {
                let survey = ValueSurvey::read(&file, id, None)?;
                for gap in &survey.damage {
                    self.damage(survey.name(), gap.offset, gap.what.clone());
                }
            } else {
                unless_damaged(Frame::read(file.as_ref()), None, &mut self.report)?;
            }
            self.advance(bytes);
        }
        Ok(())
    }

    /// A log segment that is a value file. Nothing says where its records end, or which of its
    /// values are wanted: what lies between two records is damage.
    fn segment_alone(&mut self, file: &dyn TableFile, header: &SegmentHeader) -> Result<()> {
        if self.depth == CheckDepth::Full {
            let bytes = file.bytes();
            let found = gaps_of(file, header.identity, bytes)?;
            let within = found.into_iter().filter(|gap| gap.end < bytes);
            self.report.findings.extend(within.map(|gap| damage_at(file, gap)));
        }
        Ok(())
    }
}
