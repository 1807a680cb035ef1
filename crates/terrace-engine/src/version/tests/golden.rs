//! Specimens of manifests and of `CURRENT`: what was written must stay readable for ever.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_env::{DiskImage, SharedEnv, SimEnv, SimOptions};

use super::*;
use crate::tests::specimens;
use crate::version::format::{HEADER_BYTES, encode_current, encode_manifest_header, encode_record};
use crate::version::{CloudEdit, FeedAuthors, FeedStore, LocalManifests, manifest_path};

const DIR: &str = "/db";
const IDENTITY: u128 = 0x1234_5678_9abc_def0_1122_3344_5566_7788;

/// What the manifest of version 2 holds.
fn edits() -> Vec<VersionEdit> {
    let flush = TreeEdit {
        rows_added: vec![RowMeta { id: RowId(4), tables: vec![table(4)] }],
        greatest_seqno: Some(SeqNo(1001)),
        ..TreeEdit::default()
    };
    vec![full_edit(), flush.into(), VersionEdit::default()]
}

/// What the manifest of version 1 holds: the fields that there were.
fn edits_of_version_1() -> Vec<VersionEdit> {
    let mut edits = edits();
    edits[0].tree.cuts.clear();
    edits[0].media = None;
    edits
}

/// The records behind a manifest's header.
fn records(edits: &[VersionEdit]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for edit in edits {
        bytes.extend(encode_record(IDENTITY, (HEADER_BYTES + bytes.len()) as u64, edit));
    }
    bytes
}

/// The edits that an open reads where `CURRENT` and a manifest hold these bytes.
fn loaded(current: &[u8], manifest: &[u8]) -> Vec<VersionEdit> {
    let mut disk = DiskImage::new();
    let dir = Path::new(DIR);
    for (path, bytes) in [(dir.join("CURRENT"), current), (manifest_path(dir, id(17)), manifest)] {
        disk.write(&path, 0, bytes).expect("the disk is whole");
    }
    SimEnv::run(SimOptions { disk, ..SimOptions::new(1) }, |env| {
        let env: SharedEnv = env;
        let feeds = LocalManifests { env: Arc::clone(&env), dir: PathBuf::from(DIR) };
        let loaded = feeds.load().expect("nothing is damaged").expect("there is a manifest");
        assert!(!loaded.is_torn);
        assert_eq!(loaded.end.id, id(17));
        assert_eq!(loaded.end.bytes, manifest.len() as u64);
        loaded.edits
    })
}

#[test]
fn a_manifest_of_version_2_is_read_and_written_as_ever() {
    let mut written = encode_manifest_header(IDENTITY, id(17)).to_vec();
    written.extend(records(&edits()));
    let manifest = specimens::assert_as_ever("version/testdata/v2.manifest", &written);
    let current = specimens::assert_as_ever("version/testdata/v1.current", &encode_current(id(17)));
    assert_eq!(loaded(&current, &manifest), edits());
}

/// A range with a value log has fields that are required, in the same version.
#[test]
fn a_manifest_with_a_value_log_is_read_and_written_as_ever() {
    let edits = [edits(), vec![values_edit()]].concat();
    let mut written = encode_manifest_header(IDENTITY, id(17)).to_vec();
    written.extend(records(&edits));
    let manifest = specimens::assert_as_ever("version/testdata/v2-values.manifest", &written);
    assert_eq!(loaded(&encode_current(id(17)), &manifest), edits);
}

/// Builds without decision 55 refuse it: the field is required.
#[test]
fn a_manifest_with_a_retired_segment_is_read_and_written_as_ever() {
    let edits = [edits(), vec![values_edit(), retired_edit()]].concat();
    let mut written = encode_manifest_header(IDENTITY, id(17)).to_vec();
    written.extend(records(&edits));
    let manifest = specimens::assert_as_ever("version/testdata/v2-retired.manifest", &written);
    assert_eq!(loaded(&encode_current(id(17)), &manifest), edits);
}

/// Builds without an object store refuse it: the field is required.
#[test]
fn a_manifest_of_a_range_with_a_store_is_read_and_written_as_ever() {
    let authors = FeedAuthors { own: IDENTITY, before: 1 << 100 };
    let specimens = [
        ("version/testdata/v2-cloud.manifest", ""),
        ("version/testdata/v2-cloud-url.manifest", "s3://bucket/prefix"),
    ];
    for (specimen, url) in specimens {
        let cloud = CloudEdit { authors, url: url.to_string() };
        let fed = RangeEdit { cloud: Some(cloud), ..RangeEdit::default() };
        let edits = [edits(), vec![fed.into()]].concat();
        let mut written = encode_manifest_header(IDENTITY, id(17)).to_vec();
        written.extend(records(&edits));
        let manifest = specimens::assert_as_ever(specimen, &written);
        assert_eq!(loaded(&encode_current(id(17)), &manifest), edits);
    }
}

/// Nothing writes this version any more; the fields stood in another order.
#[test]
fn a_manifest_of_version_1_is_read_as_ever() {
    let manifest = specimens::read("version/testdata/v1.manifest");
    assert_eq!(manifest[8..10], 1u16.to_le_bytes(), "the specimen is of version 1");
    let current = specimens::read("version/testdata/v1.current");
    assert_eq!(loaded(&current, &manifest), edits_of_version_1());
}
