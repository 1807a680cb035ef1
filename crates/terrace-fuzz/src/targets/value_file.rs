//! Whole value files: their ends, and what a survey finds in them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use terrace_base::{Epoch, FileId, SeqNo, TableUid};
use terrace_engine::survey::ValueSurvey;
use terrace_engine::table::{
    ByteInterval, MemoryTableFile, MemoryTableStore, TableFile, TableStore,
};
use terrace_engine::vlog::format::ValueEntry;
use terrace_engine::vlog::{Frame, ValueFileWriter, ValueName};

use super::Target;
use crate::notes::{note, note_result, note_size};
use crate::seal;

/// Whole value files. The first byte says whether their ends are sealed again.
pub const VALUES: Target = Target {
    name: "values",
    about: "whole value files: their ends, and every value that can be found",
    run: values,
    seeds,
    words: &[b"terrvals", b"user:"],
    executions: 300_000,
    memory_fixed_bytes: 1 << 20,
    memory_per_byte: 64,
    ..Target::DEFAULT
};

fn id(counter: u64) -> FileId {
    FileId { epoch: Epoch(2), counter }
}

fn values(data: &[u8]) {
    let &[choice, ref rest @ ..] = data else { return };
    let mut bytes = rest.to_vec();
    if choice % 2 == 1 {
        seal::values(&mut bytes);
    }
    let file_bytes = bytes.len();
    let file: Arc<dyn TableFile> = Arc::new(MemoryTableFile::new(Path::new("values"), bytes));
    let frame = Frame::read(file.as_ref());
    note_result("frame", &frame.as_ref().map_err(ToString::to_string));
    let survey = ValueSurvey::read(&file, id(1), None);
    note_result("survey", &survey.as_ref().map_err(ToString::to_string));
    let Ok(survey) = survey else { return };
    assert_eq!(survey.frame.is_some(), frame.is_ok(), "a survey takes what a reader takes");
    note_size("values", survey.values.len());
    let mut end = 0;
    for value in &survey.values {
        assert!(value.offset >= end, "values do not overlap");
        end = value.offset + value.entry_bytes as u64;
        assert!(end <= file_bytes as u64, "values lie in the file");
        let entry = survey.entry(value).expect("what a survey finds is whole");
        let parts = entry.key.len() + entry.value.len();
        assert!(parts < value.entry_bytes, "a value is smaller than its entry");
    }
    let names: BTreeSet<ValueName> = survey.values.iter().map(|value| value.name).collect();
    if survey.damage.is_empty() {
        note("whole");
        let frame = frame.expect("a whole file has a frame");
        assert!(names.iter().all(|name| frame.segments.iter().any(|one| one.id == name.segment)));
    }
}

fn written(is_rewritten: bool, count: usize, value_bytes: usize) -> Vec<u8> {
    let store = MemoryTableStore::new();
    let old = [id(3), id(5)];
    let writer = match is_rewritten {
        false => ValueFileWriter::create(&store, id(1), TableUid(77), 0, None),
        true => ValueFileWriter::rewrite(&store, id(1), TableUid(77), 0, &old, None),
    };
    let mut writer = writer.expect("memory takes a file");
    for index in 0..count {
        let (key, value) = (format!("user:{index:03}"), vec![b'v'; value_bytes]);
        let seqno = SeqNo(index as u64);
        let entry = ValueEntry { key: key.as_bytes(), seqno, value: &value };
        let name = ValueName { segment: old[index % 2], offset: 64 + index as u64 * 40 };
        match is_rewritten {
            false => writer.add(&entry).map(|_| ()),
            true => writer.add_moved(name, &entry),
        }
        .expect("memory takes a value");
    }
    let meta = writer.finish().expect("memory takes a file");
    let file = store.open(&meta.location).expect("just written");
    let whole = ByteInterval { offset: 0, bytes: meta.bytes as usize };
    let mut bytes = file.read(&[whole]).wait().expect("just written");
    bytes.pop().expect("one interval")
}

fn seeds() -> Vec<Vec<u8>> {
    let shapes = [(false, 3, 40), (true, 5, 24), (false, 0, 0), (true, 1, 300), (true, 0, 0)];
    let files = shapes.into_iter().flat_map(|(is_rewritten, count, value_bytes)| {
        let file = written(is_rewritten, count, value_bytes);
        [[&[0], &file[..]].concat(), [&[1], &file[..]].concat()]
    });
    files.collect()
}
