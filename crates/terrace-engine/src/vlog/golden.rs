//! Specimens of the released format: what was written must stay readable for ever.

use std::path::Path;
use std::sync::Arc;

use terrace_base::{Epoch, FileId, SeqNo, TableUid};

use super::format::ValueEntry;
use super::{ValueFileWriter, ValueName};
use crate::survey::ValueSurvey;
use crate::table::{ByteInterval, MemoryTableFile, MemoryTableStore, TableFile, TableStore};
use crate::tests::specimens;

const UID: TableUid = TableUid(0x7e44_ace0_0000_0000_0000_0000_0000_0042);

fn id(counter: u64) -> FileId {
    FileId { epoch: Epoch(5), counter }
}

/// The values of the specimens: key, number and value.
fn values() -> Vec<(Vec<u8>, SeqNo, Vec<u8>)> {
    let value = |index: u64| {
        let bytes = [0, 1, 100, 1000][(index % 4) as usize];
        let value = (0..bytes).map(|at| b'a' + ((at / 9 + index) % 26) as u8).collect();
        let seqno = SeqNo(if index == 7 { 0 } else { 500 + index });
        (format!("user:{index:04}").into_bytes(), seqno, value)
    };
    (0..12).map(value).collect()
}

/// The bytes of a file that is written anew under names of two segments, or as it is first.
fn written(is_rewritten: bool) -> Vec<u8> {
    let store = MemoryTableStore::new();
    let (own, old) = (id(70), [id(8), id(9), id(10)]);
    let writer = match is_rewritten {
        false => ValueFileWriter::create(&store, own, UID, 0, None),
        true => ValueFileWriter::rewrite(&store, own, UID, 0, &old, None),
    };
    let mut writer = writer.expect("memory takes a file");
    for (index, (key, seqno, value)) in values().iter().enumerate() {
        let entry = ValueEntry { key, seqno: *seqno, value };
        match is_rewritten {
            false => writer.add(&entry).map(|_| ()),
            // Of the third segment no value is left.
            true => writer.add_moved(moved_name(index), &entry),
        }
        .expect("memory takes a value");
    }
    let meta = writer.finish().expect("memory takes a file");
    let file = store.open(&meta.location).expect("it was just written");
    let whole = ByteInterval { offset: 0, bytes: meta.bytes as usize };
    file.read(&[whole]).wait().expect("it is in memory").pop().expect("one interval")
}

/// The name under which a value of the rewritten specimen was written before.
fn moved_name(index: usize) -> ValueName {
    ValueName { segment: id(8 + index as u64 % 2), offset: 64 + 4000 - index as u64 * 300 }
}

#[test]
fn specimens_of_format_1_are_read_and_written_as_ever() {
    for (name, is_rewritten) in [("v1.values", false), ("v1-rewritten.values", true)] {
        let path = format!("vlog/testdata/{name}");
        let specimen = specimens::assert_as_ever(&path, &written(is_rewritten));
        let file: Arc<dyn TableFile> = Arc::new(MemoryTableFile::new(Path::new(name), specimen));
        let survey = ValueSurvey::read(&file, id(70), None).expect("it can be read");
        assert_eq!(survey.damage, [], "{name}");
        assert_eq!(survey.values.len(), values().len(), "{name}");
        for (index, (found, (key, seqno, value))) in survey.values.iter().zip(values()).enumerate()
        {
            let entry = ValueEntry { key: &key, seqno, value: &value };
            assert_eq!(survey.entry(found), Some(entry), "{name}");
            let offset = found.offset;
            let as_written = ValueName { segment: id(70), offset };
            let expected = if is_rewritten { moved_name(index) } else { as_written };
            assert_eq!(found.name, expected, "{name}");
        }
        let frame = survey.frame.expect("it is whole");
        assert_eq!((frame.uid, frame.id, frame.footer.is_rewritten), (UID, id(70), is_rewritten));
        let segments: Vec<_> = frame.segments.iter().map(|one| (one.id, one.count)).collect();
        match is_rewritten {
            false => assert_eq!(segments, [(id(70), 12)]),
            true => assert_eq!(segments, [(id(8), 6), (id(9), 6), (id(10), 0)]),
        }
    }
}
