//! Dead bytes: those that may change without anybody's noticing, because nobody reads them.
//!
//! | where | why nobody reads it |
//! |---|---|
//! | log segment, up to seven bytes behind a record | records are padded to a multiple of eight |
//! | log segment, from its last record to its second header | nothing was ever written there in this use of the file |
//! | a log segment that is a value file, behind its last record | its unused end is given back when the log lets it go |
//! | a log segment below the chain, or prepared and never begun | the next open deletes or reuses it |
//! | a manifest that `CURRENT` does not name, a switch of `CURRENT` that did not happen | the next open deletes it |
//! | a table that no version names | left by an interrupted job; the next open deletes it |
//! | a container of rows, its first page behind the header | nothing is there |
//! | a container, a page that no row has, or whose entries are all consumed | nothing live is in it |
//!
//! Everything else is covered by a checksum of its place, and tables by a hash of all their bytes
//! in the manifest besides. `LOCK` is empty.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::FileId;
use terrace_engine::Result;
use terrace_engine::check::{CheckReport, Severity};
use terrace_engine::l0::triangle::HEADER_BYTES;
use terrace_engine::options::Options;
use terrace_engine::store::{Seams, Store};
use terrace_engine::survey::{Piece, Pieces, SegmentSurvey};
use terrace_engine::wal::format::{SEGMENT_HEADER_BYTES, SegmentHeader};
use terrace_env::{DiskImage, SharedEnv, SimEnv, SimOptions};

use crate::specimen::{DIR, Specimen, files_of, process};

/// The dead bytes of a whole range, by file.
#[derive(Clone, Debug, Default)]
pub struct DeadBytes {
    ranges: BTreeMap<PathBuf, Vec<(Range<u64>, &'static str)>>,
}

impl DeadBytes {
    /// The dead bytes of a specimen that `report` found whole.
    #[must_use]
    pub fn of(specimen: &Specimen, report: &CheckReport) -> DeadBytes {
        let disk = &specimen.disk;
        let mut dead = DeadBytes::default();
        let harmless = report.findings.iter().filter(|found| found.severity == Severity::Harmless);
        for finding in harmless {
            let why = "a file that belongs to nothing";
            dead.ranges.insert(finding.file.clone(), vec![(0..u64::MAX, why)]);
        }
        for (path, _) in files_of(disk) {
            if dead.ranges.contains_key(&path) {
                continue;
            }
            if path.extension().is_some_and(|ending| ending == "rows") {
                dead.ranges.insert(path, of_container(specimen));
            } else if path.extension().is_some_and(|ending| ending == "values")
                && let Ok(bytes) = disk.read(&path)
            {
                dead.ranges.insert(path, of_value_file(&bytes));
            } else if let Some(id) = segment_id(&path)
                && let Ok(bytes) = disk.read(&path)
            {
                dead.ranges.insert(path, of_segment(id, &bytes));
            }
        }
        dead
    }

    /// Why bytes that changed are dead, if all of them are.
    #[must_use]
    pub fn why(&self, path: &Path, changed: &[u64]) -> Option<&'static str> {
        let ranges = self.ranges.get(path)?;
        let why = |offset: &u64| {
            let found = ranges.iter().find(|(range, _)| range.contains(offset));
            found.map(|(_, why)| *why)
        };
        let first = why(changed.first()?)?;
        changed.iter().all(|offset| why(offset).is_some()).then_some(first)
    }

    /// How many bytes of a disk are dead.
    #[must_use]
    pub fn count(&self, disk: &DiskImage) -> u64 {
        let sizes: BTreeMap<PathBuf, u64> = disk.files().into_iter().collect();
        let of_file = |(path, ranges): (&PathBuf, &Vec<(Range<u64>, &str)>)| {
            let bytes = sizes.get(path).copied().unwrap_or_default();
            let ranges = ranges.iter();
            ranges.map(|(range, _)| range.end.min(bytes).saturating_sub(range.start)).sum::<u64>()
        };
        self.ranges.iter().map(of_file).sum()
    }
}

fn segment_id(path: &Path) -> Option<FileId> {
    FileId::parse(path.file_name()?.to_str()?.strip_suffix(".log")?)
}

/// The dead bytes of the container that a specimen's rows lie in: all of it, if none does.
fn of_container(specimen: &Specimen) -> Vec<(Range<u64>, &'static str)> {
    let sim = SimOptions {
        disk: specimen.disk.clone(),
        try_read_miss_one_in: 0,
        ..SimOptions::new(specimen.seed)
    };
    let dead = SimEnv::run(sim, |sim| -> Result<Vec<(Range<u64>, &'static str)>> {
        let env: SharedEnv = Arc::<SimEnv>::clone(&sim);
        let options = Options { read_only: true, ..specimen.options.clone() };
        let process = process(&env)?;
        let seams = Seams::local(&process, Path::new(DIR), &options);
        let container = Arc::clone(&seams.opener.container);
        let _store = Store::open_with(&process, Path::new(DIR), options, seams)?;
        let Some(pages) = container.pages() else {
            return Ok(vec![(0..u64::MAX, "a container in which no row is")]);
        };
        // Nobody else writes, so what can be claimed is free.
        let numbers = (1..=pages.total_pages() as u32).filter(|page| pages.claim(*page).is_ok());
        let page = |number| pages.offset_of(number)..pages.offset_of(number + 1);
        let free = numbers.map(|number| (page(number), "a page of a container that no row has"));
        let behind_header = HEADER_BYTES as u64..pages.offset_of(1);
        Ok(free.chain([(behind_header, "what is behind the header of a container")]).collect())
    });
    dead.expect("the range is whole")
}

/// The dead bytes of a value file: none, unless it is a segment of the log.
fn of_value_file(bytes: &[u8]) -> Vec<(Range<u64>, &'static str)> {
    let Ok(header) = SegmentHeader::decode(bytes, 0) else { return Vec::new() };
    let end = bytes.len() as u64;
    let mut dead = of_records(bytes, header.identity, SEGMENT_HEADER_BYTES..end);
    dead.push((end..u64::MAX, "what is behind a log segment that is a value file"));
    dead
}

/// The dead bytes of a segment in use.
#[must_use]
pub fn of_segment(id: FileId, bytes: &[u8]) -> Vec<(Range<u64>, &'static str)> {
    let survey = SegmentSurvey::of_file(id, bytes);
    let Some(header) = survey.header() else { return Vec::new() };
    of_records(bytes, header.identity, survey.record_offsets())
}

fn of_records(
    bytes: &[u8],
    identity: u128,
    offsets: Range<u64>,
) -> Vec<(Range<u64>, &'static str)> {
    let mut dead = Vec::new();
    let end = offsets.end;
    for piece in Pieces::new(bytes, identity, offsets) {
        match piece {
            Piece::Record { offset, header, .. } => {
                let end = offset + u64::from(header.bytes);
                let padded = offset + header.padded_bytes();
                if end < padded {
                    dead.push((end..padded, "padding of a log record"));
                }
            }
            Piece::Gap(gap) if gap.end == end => {
                dead.push((gap.offset..gap.end, "the unused end of a log segment"));
            }
            Piece::Gap(_) => {}
        }
    }
    dead
}
