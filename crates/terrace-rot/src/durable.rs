//! What a disk says of how far the log of a range was durable, wherever it says so.
//!
//! Read without the chain of segments: every record and every edit counts that passes its checksum
//! under an identity of the whole range. So an open that overlooks one of them is found out.

use std::collections::BTreeSet;

use terrace_base::{FileId, LogPosition};
use terrace_engine::survey::{ManifestSurvey, Piece, Pieces, SegmentSurvey};
use terrace_engine::wal::format::SegmentHeader;
use terrace_env::DiskImage;

use crate::specimen::files_of;

/// What the records of a whole range are.
#[derive(Clone, Debug, Default)]
pub struct Durable {
    /// The identities of its segments and manifests; those of another database are none.
    identities: BTreeSet<u128>,
    /// Where each record ends, and its last number.
    ends: Vec<(LogPosition, u64)>,
}

impl Durable {
    /// What a disk holds before it is damaged.
    #[must_use]
    pub fn of(disk: &DiskImage) -> Durable {
        let mut durable = Durable::default();
        for (id, bytes) in files_with(disk, ".log") {
            let survey = SegmentSurvey::of_file(id, &bytes);
            durable.identities.extend(survey.own_header().map(|header| header.identity));
            let Some(header) = survey.header() else { continue };
            let offsets = survey.record_offsets();
            for piece in Pieces::new(&bytes, header.identity, offsets.clone()) {
                if let Piece::Record { offset, header: record, .. } = piece {
                    let end = header.base.0 + (offset - offsets.start) + record.padded_bytes();
                    let next = record.first_seqno.0 + u64::from(record.seqno_count);
                    durable.ends.push((LogPosition(end), next.saturating_sub(1)));
                }
            }
        }
        for (_, bytes) in files_with(disk, ".manifest") {
            let header = ManifestSurvey::read(&bytes).header;
            durable.identities.extend(header.ok().map(|(identity, _)| identity));
        }
        durable
    }

    /// The greatest number that a disk, damaged or not, says was durable: of the last record below
    /// the greatest durable position that anything on it names.
    #[must_use]
    pub fn seqno_of(&self, disk: &DiskImage) -> u64 {
        let position = self.of_log(disk).max(self.of_manifests(disk));
        let below = self.ends.iter().filter(|(end, _)| *end <= position);
        below.map(|(_, seqno)| *seqno).max().unwrap_or_default()
    }

    fn of_log(&self, disk: &DiskImage) -> LogPosition {
        let mut durable = LogPosition(0);
        for (id, bytes) in files_with(disk, ".log") {
            let survey = SegmentSurvey::of_file(id, &bytes);
            let header =
                survey.header().filter(|header| self.identities.contains(&header.identity));
            durable = durable.max(header.map_or(LogPosition(0), SegmentHeader::durable_below));
            let known = |identity: &&u128| self.identities.contains(identity);
            for identity in survey.identities.iter().filter(known) {
                for piece in Pieces::new(&bytes, *identity, survey.record_offsets()) {
                    if let Piece::Record { header, .. } = piece {
                        durable = durable.max(header.durable);
                    }
                }
            }
        }
        durable
    }

    fn of_manifests(&self, disk: &DiskImage) -> LogPosition {
        let mut durable = LogPosition(0);
        for (_, bytes) in files_with(disk, ".manifest") {
            let survey = ManifestSurvey::read(&bytes);
            let is_ours = survey
                .header
                .as_ref()
                .is_ok_and(|(identity, _)| self.identities.contains(identity));
            let edits = survey.edits.iter().filter(|_| is_ours);
            for edit in edits.filter_map(|found| found.edit.as_ref().ok()) {
                let flushed = edit.log.memtables_flushed.iter().map(|(_, end)| *end);
                let start = edit.log.start.map(|start| start.position);
                let named = flushed.chain(start).chain(edit.log.closed).max();
                durable = durable.max(named.unwrap_or_default());
            }
        }
        durable
    }
}

/// The files whose names end so, with their ids.
fn files_with(disk: &DiskImage, ending: &str) -> Vec<(FileId, Vec<u8>)> {
    let read = |(path, _): (std::path::PathBuf, u64)| {
        let id = FileId::parse(path.file_name()?.to_str()?.strip_suffix(ending)?)?;
        Some((id, disk.read(&path).ok()?))
    };
    files_of(disk).into_iter().filter_map(read).collect()
}
