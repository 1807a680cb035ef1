//! Damage to the value log: a check finds it and names the keys, a repair loses no other ones.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use terrace_base::{FileId, KeyRange};
use terrace_env::DiskImage;

use crate::check::{CheckDepth, CheckReport, Severity, check_dir};
use crate::options::ValueLogOptions;
use crate::repair::{RepairReport, repair};
use crate::store::CopyOptions;
use crate::store::tests::*;
use crate::survey::{Piece, Pieces, SegmentSurvey, ValueSurvey};
use crate::table::{LocalTableStore, TableFile, TableLocation, TableStore};
use crate::vlog::{Frame, log_segment_header};
use crate::wal::format::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES};

const KEYS: usize = 120;

fn separating() -> Options {
    let value_log = ValueLogOptions {
        large_bytes: 100,
        space_ratio_percent: 105,
        ..ValueLogOptions::default()
    };
    Options { value_log: Some(value_log), ..small() }
}

fn key(index: usize) -> String {
    format!("key {index:04}")
}

fn value(index: usize, round: usize) -> String {
    let bytes = if index.is_multiple_of(3) { 20 } else { 300 };
    format!("{index}.{round}.{}", "v".repeat(bytes))
}

/// The round in which a key was written last.
fn round_of(index: usize) -> usize {
    if index.is_multiple_of(2) { 4 } else { 0 }
}

/// A range whose values lie in files as they were written and in files that were rewritten.
fn closed_range(seed: u64) -> DiskImage {
    killed(seed, |env| {
        let store = open(env, &separating())?;
        (0..KEYS).try_for_each(|index| put(&store, &key(index), &value(index, 0)))?;
        store.flush()?;
        for round in 1..=4 {
            for index in (0..KEYS).filter(|index| index.is_multiple_of(2)) {
                put(&store, &key(index), &value(index, round))?;
            }
            store.compact(&KeyRange::all())?;
            store.settle();
        }
        // Some once more, so that they are in rows of L0; so few that they are copied.
        for index in (KEYS - 12..KEYS).filter(|index| index.is_multiple_of(2)) {
            put(&store, &key(index), &value(index, 4))?;
        }
        store.flush()?;
        store.settle();
        store.close()?;
        Ok(store)
    })
}

/// What a value file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A segment of the log.
    Segment,
    /// Written by a flush or a compaction.
    Written,
    /// Written anew.
    Rewritten,
}

const KINDS: [Kind; 3] = [Kind::Segment, Kind::Written, Kind::Rewritten];

/// The value files, and what they are.
fn value_files(env: &SharedEnv) -> Vec<(PathBuf, Kind)> {
    let names = files_with(env, ".values").into_iter().map(|(name, _)| name);
    let of = |name: String| {
        let file = file_named(env, &name);
        let kind = match log_segment_header(file.as_ref()).expect("it can be read").is_some() {
            true => Kind::Segment,
            false => {
                let frame = Frame::read(file.as_ref()).expect("it is whole");
                if frame.footer.is_rewritten { Kind::Rewritten } else { Kind::Written }
            }
        };
        (Path::new(DIR).join(name), kind)
    };
    names.map(of).collect()
}

fn check(env: &SharedEnv) -> Result<CheckReport> {
    check_dir(env, Path::new(DIR), CheckDepth::Full, &mut |_, _| ())
}

/// Repairs the range, and reads the new one: it has each key whose value is not lost, and no other
/// value. The keys that are lost.
fn repaired(env: &SharedEnv) -> Result<(RepairReport, BTreeSet<usize>)> {
    let out = Path::new("/out");
    let report = repair(env, Path::new(DIR), out, &separating(), &mut |_, _| true)?;
    let store = Store::open(&process(env)?, out, separating())?;
    let mut lost = BTreeSet::new();
    for index in 0..KEYS {
        match get(&store, &key(index))? {
            Some(found) if found == value(index, round_of(index)) => {}
            other => {
                assert!(report.covers(key(index).as_bytes()), "{index}: {other:?} is not told");
                lost.insert(index);
            }
        }
    }
    store.compact(&KeyRange::all())?;
    store.close()?;
    Ok((report, lost))
}

#[test]
fn a_whole_value_log_is_found_whole_and_repaired_completely() -> Result<()> {
    after_crash(closed_range(21), |env| {
        let files = value_files(env);
        for kind in KINDS {
            assert!(files.iter().any(|(_, found)| *found == kind), "{kind:?}: {files:?}");
        }
        let report = check(env)?;
        assert_eq!(report.findings, [], "{report}");
        assert_eq!(report.value_file_count, files.len() as u64);
        assert!(report.pointer_count >= KEYS as u64 / 2, "{report}");
        let (report, lost) = repaired(env)?;
        assert!(report.is_complete() && lost.is_empty(), "{report} {lost:?}");
        assert!(report.value_count > 0 && report.lost_value_count == 0, "{report}");
        Ok(())
    })
}

#[test]
fn without_a_manifest_every_value_is_found_again() -> Result<()> {
    after_crash(closed_range(22), |env| {
        env.fs().remove(&Path::new(DIR).join("CURRENT"))?;
        for (name, _) in files_with(env, ".manifest") {
            env.fs().remove(&Path::new(DIR).join(name))?;
        }
        assert!(!check(env)?.is_clean());
        let (report, lost) = repaired(env)?;
        assert!(lost.is_empty(), "{report} {lost:?}");
        assert_eq!(report.lost_value_count, 0, "{report}");
        Ok(())
    })
}

#[test]
fn a_lost_value_file_loses_the_keys_that_named_it() -> Result<()> {
    for kind in KINDS {
        after_crash(closed_range(23), |env| -> Result<()> {
            let all = value_files(env);
            let lost_file = all.iter().find(|(_, found)| *found == kind);
            let (path, _) = lost_file.expect("there is one of each");
            let held = if kind == Kind::Segment { (0..KEYS).collect() } else { keys_in(env, path) };
            env.fs().remove(path)?;
            let report = check(env)?;
            let named = report.damage().filter(|finding| finding.file == *path);
            let named: Vec<_> = named.collect();
            assert!(named.iter().any(|finding| finding.keys.is_some()), "{report}");
            let (report, lost) = repaired(env)?;
            assert!(lost.is_subset(&held), "{report} {lost:?} {held:?}");
            // Under what was copied last there is an older version with the same value.
            assert!(!lost.is_empty() || kind == Kind::Written, "{report}");
            assert!(report.lost_value_count >= lost.len().max(1) as u64);
            Ok(())
        })?;
    }
    Ok(())
}

fn file_named(env: &SharedEnv, name: &str) -> Arc<dyn TableFile> {
    let tables = LocalTableStore::new(Arc::clone(env), DIR.into());
    tables.open(&TableLocation::new(name)).expect("it is there")
}

fn keys_in(env: &SharedEnv, path: &Path) -> BTreeSet<usize> {
    let file = file_named(env, &path.file_name().unwrap_or_default().to_string_lossy());
    let id = Frame::read(file.as_ref()).expect("it is whole").id;
    let survey = ValueSurvey::read(&file, id, None).expect("it can be read");
    let index_of = |value| {
        let key = survey.entry(value).expect("it is whole").key.to_vec();
        String::from_utf8_lossy(&key[4..]).parse().expect("a number")
    };
    survey.values.iter().map(index_of).collect()
}

/// Which bytes of a value file anything rests on: in a log segment no padding, and nothing behind
/// the last record.
fn covered_of(kind: Kind, bytes: &[u8]) -> Vec<Range<u64>> {
    let end = bytes.len() as u64;
    if kind != Kind::Segment {
        return std::iter::once(0..end).collect();
    }
    let id = FileId { epoch: terrace_base::Epoch(1), counter: 1 };
    let survey = SegmentSurvey::of_file(id, bytes);
    let header = survey.own_header().expect("it is whole");
    let records = Pieces::new(bytes, header.identity, survey.record_offsets());
    let of = |piece: Piece<'_>| match piece {
        Piece::Record { offset, body, .. } => {
            Some(offset..offset + (RECORD_HEADER_BYTES + body.len()) as u64)
        }
        Piece::Gap(_) => None,
    };
    let header = std::iter::once(0..SEGMENT_HEADER_BYTES);
    records.filter_map(of).chain(header).collect()
}

/// One byte after the other of a value file is turned; what is a value's is lost alone, and what is
/// none is missed by nobody.
#[test]
fn a_byte_that_is_wrong_is_found_and_costs_one_value_at_most() -> Result<()> {
    let image = closed_range(24);
    let mut files = Vec::new();
    after_crash(image.clone(), |env| {
        files = value_files(env);
    });
    for (path, kind) in files {
        let bytes = image.read(&path).expect("it is there");
        let covered = covered_of(kind, &bytes);
        let places = (0..bytes.len()).step_by(bytes.len() / 40 + 1);
        for at in places.chain(bytes.len().saturating_sub(70)..bytes.len()) {
            if !covered.iter().any(|range| range.contains(&(at as u64))) {
                continue;
            }
            let mut damaged = image.clone();
            damaged.write(&path, at as u64, &[bytes[at] ^ 0x40]).expect("it is there");
            after_crash(damaged, |env| -> Result<()> {
                let report = check(env)?;
                let found = report.findings.iter().find(|finding| finding.file == path);
                let severity = found.map(|finding| finding.severity);
                assert_eq!(severity, Some(Severity::Damage), "byte {at} of {path:?}: {report}");
                let (report, lost) = repaired(env)?;
                assert!(lost.len() <= 1, "byte {at} of {path:?}: {report} {lost:?}");
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// A copy compares every byte that counts with what was written, also in a segment of the log,
/// whose hash nobody knows; and a check finds damage there without a manifest.
#[test]
fn a_damaged_segment_is_not_copied() -> Result<()> {
    let image = closed_range(25);
    let mut files = Vec::new();
    after_crash(image.clone(), |env| {
        files = value_files(env);
    });
    let segment = files.iter().find(|(_, kind)| *kind == Kind::Segment);
    let (path, kind) = segment.expect("there is one of each");
    let bytes = image.read(path).expect("it is there");
    let covered = covered_of(*kind, &bytes);
    for at in (0..bytes.len()).step_by(bytes.len() / 20 + 1) {
        let mut damaged = image.clone();
        damaged.write(path, at as u64, &[bytes[at] ^ 0x40]).expect("it is there");
        // What a later record shows to have been written: the last one may be a torn tail.
        let is_within =
            (0..2).all(|more| covered.iter().any(|one| one.contains(&(at as u64 + more * 700))));
        after_crash(damaged.clone(), |env| -> Result<()> {
            let options = ValueLogOptions {
                rewrites: false,
                ..separating().value_log.expect("there is one")
            };
            let options = Options { value_log: Some(options), ..separating() };
            let store = open(env, &options)?;
            let copied = CopyOptions { shares_source: false, ..CopyOptions::default() };
            let to = Path::new("/copy");
            let outcome = store.checkpoint_with(to, &copied, &mut |_, _| true);
            match covered.iter().any(|range| range.contains(&(at as u64))) {
                true => {
                    let error = outcome.expect_err("it is damaged");
                    assert!(matches!(error, crate::Error::Corruption(_)), "{at}: {error}");
                    let left = env.fs().list(to)?;
                    assert!(left.iter().all(|entry| entry.name == "LOCK"), "{left:?}");
                }
                false => assert!(outcome.is_ok(), "{at}: nothing rests on that byte"),
            }
            store.close()
        })?;
        if at >= SEGMENT_HEADER_BYTES as usize && is_within {
            after_crash(damaged, |env| -> Result<()> {
                env.fs().remove(&Path::new(DIR).join("CURRENT"))?;
                for (name, _) in files_with(env, ".manifest") {
                    env.fs().remove(&Path::new(DIR).join(name))?;
                }
                let report = check(env)?;
                assert!(report.damage().any(|finding| finding.file == *path), "{at}: {report}");
                Ok(())
            })?;
        }
    }
    Ok(())
}
