//! Goal: what a soak found stays found. Method: faults of the same kinds, each planted on purpose
//! in the place where it was found, in the databases of a few seeds. (What a seed draws changes
//! when the engine takes other steps, so the place is looked for and not drawn.)

use std::path::{Path, PathBuf};

use terrace_base::FileId;
use terrace_engine::survey::{Piece, Pieces, SegmentSurvey};
use terrace_engine::wal::format::SegmentHeader;
use terrace_env::DiskImage;
use terrace_rot::fault::changes;
use terrace_rot::judge::{Effort, Judge, Outcome};
use terrace_rot::specimen::{Ending, Medium, Specimen, files_of};

const SEEDS: [u64; 6] = [20_261_341, 20_262_001, 20_262_003, 20_262_012, 20_262_016, 20_262_044];

/// The last segment of a log that was begun.
struct LastSegment {
    path: PathBuf,
    bytes: Vec<u8>,
    header: SegmentHeader,
}

impl LastSegment {
    fn of(disk: &DiskImage) -> LastSegment {
        let begun = files_of(disk).into_iter().filter_map(|(path, _)| {
            let id = FileId::parse(path.file_name()?.to_str()?.strip_suffix(".log")?)?;
            let bytes = disk.read(&path).expect("it was just listed");
            let header = *SegmentSurvey::of_file(id, &bytes).header()?;
            Some(LastSegment { path, bytes, header })
        });
        begun.max_by_key(|segment| segment.header.file_id).expect("a log has a segment")
    }

    /// Where its second header stands.
    fn second(&self) -> usize {
        SegmentHeader::second_offset(self.bytes.len() as u64) as usize
    }

    /// The segment without its last record: there are zeros.
    fn without_last_record(&self) -> Vec<u8> {
        let survey = SegmentSurvey::of_file(self.header.file_id, &self.bytes);
        let pieces = Pieces::new(&self.bytes, self.header.identity, survey.record_offsets());
        let records = pieces.filter_map(|piece| match piece {
            Piece::Record { offset, .. } => Some(offset as usize),
            _ => None,
        });
        let last = records.last().expect("the last segment of a closed log has a record");
        let mut bytes = self.bytes.clone();
        bytes[last..self.second()].fill(0);
        bytes
    }
}

/// What becomes of a database whose last segment is as `damage` makes it.
fn outcomes_of(ending: Ending, damage: impl Fn(&LastSegment) -> Vec<u8>) -> Vec<Outcome> {
    outcomes_on(ending, |segment, disk| replace(disk, &segment.path, &damage(segment)))
}

/// What becomes of a database whose disk `damage` changes, for each of the seeds; nothing that was
/// promised may be broken.
fn outcomes_on(ending: Ending, damage: impl Fn(&LastSegment, &mut DiskImage)) -> Vec<Outcome> {
    let outcome_of = |seed: u64| {
        let specimen = Specimen::build(seed, ending, Medium::Disk).expect("the disk is whole");
        let judge = Judge::new(&specimen).expect("the range is whole");
        let mut damaged = specimen.disk.clone();
        damage(&LastSegment::of(&specimen.disk), &mut damaged);
        let changes = changes(&specimen.disk, &damaged);
        let verdict = judge.judge(&damaged, &changes, Effort::Repair);
        assert_eq!(verdict.violations, Vec::<String>::new(), "seed {seed}");
        verdict.outcome
    };
    SEEDS.map(outcome_of).to_vec()
}

fn is_told(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Undecidable | Outcome::Damage)
}

fn replace(disk: &mut DiskImage, path: &Path, bytes: &[u8]) {
    disk.truncate(path, 0).expect("the file is there");
    disk.write(path, 0, bytes).expect("the file is there");
}

/// Ids are the same in every database, so the second header names the id that it should.
#[test]
fn the_second_header_of_another_database_is_damage() {
    let outcomes = outcomes_of(Ending::Closed, |segment| {
        let mut bytes = segment.bytes.clone();
        let second = segment.second();
        let header = SegmentHeader {
            identity: !segment.header.identity,
            database: !segment.header.database,
            segment_bytes: bytes.len() as u64,
            ..segment.header
        };
        bytes[second..].copy_from_slice(&header.encode(second as u64));
        bytes
    });
    assert_eq!(outcomes, [Outcome::Damage; SEEDS.len()]);
}

/// A segment has its size before it is begun, and is cut with a header at its end: a short one
/// without it is no tail that a crash tore.
#[test]
fn a_short_last_segment_is_no_torn_tail() {
    for share in [3, 5, 7] {
        let outcomes = outcomes_of(Ending::Killed, |segment| {
            segment.bytes[..segment.bytes.len() * share / 8].to_vec()
        });
        assert_eq!(outcomes, [Outcome::Damage; SEEDS.len()], "{share} eighths of it");
    }
}

/// What stood on the page before held no second header: damage, if anything says that it was
/// durable, and else what a crash may leave.
#[test]
fn an_old_page_over_the_second_header_is_no_torn_tail() {
    let outcomes = outcomes_of(Ending::Killed, |segment| {
        let mut bytes = segment.bytes.clone();
        bytes[segment.second()..].fill(0);
        bytes
    });
    assert!(outcomes.iter().all(is_told), "{outcomes:?}");
    assert!(outcomes.contains(&Outcome::Damage), "{outcomes:?}");
}

/// Where only the records of the last segment said how far it was durable, and all of them are
/// gone, the disk is one that a crash before its first record leaves.
#[test]
fn a_last_segment_that_is_as_never_begun_is_undecidable() {
    let outcomes = outcomes_of(Ending::Killed, |segment| vec![0; segment.bytes.len()]);
    assert!(outcomes.iter().all(is_told), "{outcomes:?}");
    assert!(outcomes.contains(&Outcome::Undecidable), "{outcomes:?}");
}

/// The manifest says where a log ends that was closed.
#[test]
fn a_log_that_was_closed_and_lacks_its_closing_record_is_damage() {
    let outcomes = outcomes_of(Ending::Closed, LastSegment::without_last_record);
    assert_eq!(outcomes, [Outcome::Damage; SEEDS.len()]);
}

/// Without a manifest the log alone says whether it was closed, and its end is gone as well.
#[test]
fn a_repair_without_a_manifest_does_not_vouch_for_a_log_without_its_closing_record() {
    let outcomes = outcomes_on(Ending::Closed, |segment, disk| {
        replace(disk, &segment.path, &segment.without_last_record());
        for (path, bytes) in files_of(disk) {
            if path.extension().is_some_and(|ending| ending == "manifest") {
                replace(disk, &path, &vec![0; bytes as usize]);
            }
        }
    });
    assert_eq!(outcomes, [Outcome::Damage; SEEDS.len()]);
}
