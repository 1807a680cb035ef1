//! The manifest, its edits, and `CURRENT`.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{
    Epoch, FileId, KeyRange, LevelNo, LogPosition, MemtableId, RangeId, RowId, SeqNo, TableUid,
    WallTime,
};
use terrace_engine::FileIds;
use terrace_engine::cache::BlockCache;
use terrace_engine::l0::triangle::Container;
use terrace_engine::l0::{CutInterval, L0, PlainL0, PlainOptions};
use terrace_engine::placement::{FarTables, RowDirectory};
use terrace_engine::process::MemoryPool;
use terrace_engine::table::TableShape;
use terrace_engine::table::{MemoryTableStore, TableLocation, TableOptions, TableStore};
use terrace_engine::version::format::{
    HEADER_BYTES, decode_current, decode_edit, decode_manifest_header, encode_current, encode_edit,
    encode_manifest_header, encode_record,
};
use terrace_engine::version::{
    FeedStore, LocalManifests, LogEdit, RangeEdit, ReclaimQueue, RowMeta, TableContext, TableMeta,
    TableOpener, TreeEdit, ValuesEdit, Version, VersionEdit, manifest_path,
};
use terrace_engine::vlog::{HeldSegment, NamedBytes, NamedSegments, ValueFileMeta, ValueHome};
use terrace_engine::wal::LogStart;
use terrace_env::{DiskImage, SharedEnv, SimOptions};

use super::Target;
use super::simulation::simulate;
use crate::notes::{note, note_result, note_size};
use crate::seal;

/// Whole manifests, loaded and applied. The first byte says whether the rest is sealed again.
pub const MANIFEST: Target = Target {
    name: "manifest",
    about: "whole manifests: header, records, edits, the versions that they make",
    run: manifest,
    seeds: manifest_seeds,
    words: &[b"terrmani", b"a", b"m"],
    executions: 60_000,
    memory_fixed_bytes: 1 << 20,
    memory_per_byte: 512,
    ..Target::DEFAULT
};

/// Single version edits.
pub const EDIT: Target = Target {
    name: "edit",
    about: "version edits, the tables in them",
    run: edit,
    seeds: || sample_edits().iter().map(encode_edit).collect(),
    executions: 1_500_000,
    ..Target::DEFAULT
};

/// The content of `CURRENT`, and the names of files. The first byte says whether it is sealed
/// again.
pub const CURRENT: Target = Target {
    name: "current",
    about: "CURRENT, and the names of files",
    run: current,
    seeds: || {
        let content = encode_current(id(1));
        vec![
            [&[0], &content[..]].concat(),
            [&[1], &content[..]].concat(),
            [&[2], id(70_000).to_string().as_bytes()].concat(),
        ]
    },
    words: &[b"terrcurr", b"-", b"000007-00000012"],
    executions: 3_000_000,
    bytes_max: 256,
    ..Target::DEFAULT
};

const DIR: &str = "/db";

fn id(counter: u64) -> FileId {
    FileId { epoch: Epoch(7), counter }
}

fn edit(data: &[u8]) {
    let decoded = decode_edit(data);
    note_result("edit", &decoded);
    if let Ok(decoded) = decoded {
        note_size("rows", decoded.tree.rows_added.len());
        note_size("cuts", decoded.tree.cuts.len());
        note_size("tables", decoded.tree.tables_added.len());
        // Fields that are new to this version are left out, so the bytes may differ once.
        let encoded = encode_edit(&decoded);
        assert_eq!(decode_edit(&encoded).as_ref(), Ok(&decoded));
        assert_eq!(decode_edit(&encoded).map(|again| encode_edit(&again)), Ok(encoded));
    }
}

fn current(data: &[u8]) {
    let &[choice, ref content @ ..] = data else { return };
    let mut content = content.to_vec();
    if choice % 4 == 1 {
        seal::header(&mut content, HEADER_BYTES);
    }
    match choice % 4 {
        0 | 1 => {
            let decoded = decode_current(&content);
            note(&format!("{decoded:?}"));
            if let Ok(id) = decoded {
                // The versions in front may be a later writer's.
                let again = encode_current(id);
                assert_eq!(content[16..60], again[16..60], "CURRENT has one coding");
            }
            if let Ok((identity, id)) = decode_manifest_header(&content) {
                note("a header");
                let again = encode_manifest_header(identity, id);
                assert_eq!(content[16..60], again[16..60], "a header has one coding");
            }
        }
        _ => {
            let Ok(name) = std::str::from_utf8(&content) else { return };
            let parsed = FileId::parse(name);
            note(if parsed.is_some() { "a name" } else { "no name" });
            if let Some(id) = parsed {
                assert_eq!(id.to_string(), name, "a name prints back to itself");
                let path = manifest_path(Path::new(DIR), id);
                assert_eq!(path.parent(), Some(Path::new(DIR)), "no name leads elsewhere");
            }
        }
    }
}

/// The image of a disk with this manifest on it.
fn manifest(data: &[u8]) {
    let &[choice, ref file @ ..] = data else { return };
    let mut file = file.to_vec();
    if choice % 2 == 1 {
        seal::manifest(&mut file);
    }
    let mut disk = DiskImage::new();
    let dir = Path::new(DIR);
    let written = disk
        .write(&dir.join("CURRENT"), 0, &encode_current(id(1)))
        .and_then(|()| disk.write(&manifest_path(dir, id(1)), 0, &file));
    written.expect("an image takes any bytes");
    simulate(SimOptions { disk, ..SimOptions::new(1) }, |env| load(&(env as SharedEnv)));
}

fn load(env: &SharedEnv) {
    let feeds = LocalManifests { env: Arc::clone(env), dir: DIR.into() };
    let loaded = feeds.load();
    note_result("load", &loaded.as_ref().map_err(ToString::to_string));
    let Ok(Some(loaded)) = loaded else { return };
    note_size("edits", loaded.edits.len());
    let epoch = loaded.edits.iter().filter_map(|edit| edit.range.epoch).max().unwrap_or_default();
    note_result("epoch", &feeds.next_epoch(epoch));
    let tables: Arc<dyn TableStore> = Arc::new(MemoryTableStore::new());
    let ids = Arc::new(FileIds::new(Epoch(7), 0));
    let options = PlainOptions {
        rows_per_cut: 2,
        rows_slow: 6,
        rows_stop: 12,
        room: None,
        takes_all: false,
        shape: TableShape { table_bytes: u64::MAX, table: TableOptions::default() },
    };
    let l0: Arc<dyn L0> = Arc::new(PlainL0::new(env, Arc::clone(&tables), ids, options));
    let cache = Arc::new(BlockCache::new(0));
    let context = Arc::new(TableContext {
        far_metadata_stay: true,
        opener: Arc::new(TableOpener {
            store: tables,
            cache,
            container: Container::new(env, Path::new("/")),
            rows: RowDirectory::new(env),
            far: FarTables::new(env),
        }),
        reclaim: ReclaimQueue::default(),
        memory: MemoryPool::default(),
    });
    let mut version = Version::empty(l0.as_ref());
    for edit in &loaded.edits {
        match version.apply(edit, &context) {
            Ok(next) => version = next,
            Err(misfit) => return note(&misfit),
        }
    }
    note("a version");
    // A new manifest begins with a snapshot, which makes the same version.
    let snapshot = version.to_snapshot();
    assert_eq!(decode_edit(&encode_edit(&snapshot)).as_ref(), Ok(&snapshot));
    let again = Version::empty(l0.as_ref()).apply(&snapshot, &context);
    let again = again.expect("the snapshot of a version fits");
    assert_eq!(again.to_snapshot(), snapshot, "the snapshot makes the same version");
}

/// A table as edits and plans name it.
pub(super) fn sample_table(counter: u64) -> TableMeta {
    let bound = |offset: u64| format!("{:04}", counter * 10 + offset).into_bytes();
    TableMeta {
        id: id(counter),
        location: TableLocation::new(id(counter).to_string()),
        uid: TableUid(u128::from(counter) << 64 | 5),
        bytes: 4096,
        hash: 1 << 100,
        least_seqno: SeqNo(5),
        greatest_seqno: SeqNo(900),
        bounds: KeyRange::new(bound(0), Some(bound(9))),
        clip: if counter.is_multiple_of(2) {
            KeyRange::all()
        } else {
            KeyRange::new(bound(1), None)
        },
        shared: counter.is_multiple_of(3),
        entry_count: 10,
        tombstone_count: 2,
        range_tombstone_count: 1,
        raw_bytes: 3000,
        tombstone_run: counter % 2 * 2,
        expired_from: counter.is_multiple_of(5).then_some(WallTime(counter)),
        named: NamedSegments::default(),
    }
}

/// A table that names values of segment 50, and the file that holds them.
pub(super) fn sample_values(counter: u64) -> (TableMeta, ValueFileMeta) {
    let named = NamedBytes { segment: id(50), count: 2, bytes: 2400 };
    let named = NamedSegments::new(vec![named]).expect("it is one");
    let held = |counter, bytes| HeldSegment { id: id(counter), count: bytes / 1000, bytes };
    let file = ValueFileMeta {
        id: id(60),
        location: TableLocation::new(format!("{}.values", id(60))),
        uid: TableUid(60),
        bytes: 9000,
        hash: 1 << 90,
        segments: vec![held(50, 4000), held(51, 3000), held(52, 0)],
        home: ValueHome::File,
    };
    (TableMeta { named, ..sample_table(counter) }, file)
}

/// The edits of a short life: creation, flushes, a cut, compactions, a close.
fn sample_edits() -> Vec<VersionEdit> {
    let start = LogStart { segment: Some(id(2)), position: LogPosition(0) };
    let memtable = |counter| MemtableId { epoch: Epoch(7), counter };
    let row = |id, tables: &[u64]| RowMeta {
        id: RowId(id),
        tables: tables.iter().map(|table| sample_table(*table)).collect(),
    };
    // A part of the first row and of a table of the second.
    let cut_slice = KeyRange::new("0035", Some(b"0045".to_vec()));
    let of_tree = |tree: TreeEdit| VersionEdit::from(tree);
    let nothing = TreeEdit::default;
    vec![
        VersionEdit {
            is_snapshot: true,
            range: RangeEdit {
                database: Some(3),
                identity: Some((RangeId(1), KeyRange::all())),
                epoch: Some(Epoch(7)),
                ..RangeEdit::default()
            },
            tree: TreeEdit {
                next_row: Some(RowId(1)),
                greatest_seqno: Some(SeqNo(0)),
                ..nothing()
            },
            log: LogEdit { start: Some(start), ..LogEdit::default() },
            ..VersionEdit::default()
        },
        VersionEdit {
            tree: TreeEdit {
                rows_added: vec![row(1, &[3])],
                greatest_seqno: Some(SeqNo(900)),
                ..nothing()
            },
            log: LogEdit {
                memtables_flushed: vec![(memtable(1), LogPosition(1 << 20))],
                start: Some(LogStart { position: LogPosition(1 << 20), ..start }),
                settled: Some(LogPosition(1 << 21)),
                closed: None,
            },
            ..VersionEdit::default()
        },
        of_tree(TreeEdit { rows_added: vec![row(2, &[4, 6])], ..nothing() }),
        of_tree(TreeEdit {
            cuts: vec![CutInterval { slice: cut_slice, through: RowId(2) }],
            ..nothing()
        }),
        of_tree(TreeEdit {
            rows_removed: vec![RowId(1)],
            tables_added: vec![(LevelNo(1), sample_table(8)), (LevelNo(2), sample_table(9))],
            ..nothing()
        }),
        of_tree(TreeEdit {
            tables_removed: vec![(LevelNo(1), id(8))],
            tables_added: vec![(LevelNo(2), sample_table(8))],
            ..nothing()
        }),
        VersionEdit {
            tree: TreeEdit { tables_added: vec![(LevelNo(3), sample_values(10).0)], ..nothing() },
            values: ValuesEdit { removed: vec![], added: vec![sample_values(10).1] },
            ..VersionEdit::default()
        },
        LogEdit { closed: Some(LogPosition(1 << 21)), ..LogEdit::default() }.into(),
    ]
}

/// The bytes of a manifest with the first `count` of these edits.
fn manifest_bytes(count: usize) -> Vec<u8> {
    let identity = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;
    let mut file = encode_manifest_header(identity, id(1)).to_vec();
    for edit in &sample_edits()[..count] {
        let record = encode_record(identity, file.len() as u64, edit);
        file.extend_from_slice(&record);
    }
    file
}

fn manifest_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![];
    for count in [1, 4, 7] {
        seeds.push([&[1], &manifest_bytes(count)[..]].concat());
    }
    seeds.push([&[0], &manifest_bytes(5)[..]].concat());
    seeds
}
