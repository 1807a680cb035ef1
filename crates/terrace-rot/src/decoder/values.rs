//! Value files: as they are first, and rewritten.

use std::sync::Arc;

use terrace_base::{Epoch, FileId, SeqNo};
use terrace_engine::Result;
use terrace_engine::survey::ValueSurvey;
use terrace_engine::table::{
    ByteInterval, MemoryTableFile, MemoryTableStore, TableFile, TableStore as _,
};
use terrace_engine::vlog::format::ValueEntry;
use terrace_engine::vlog::{ValueFileWriter, ValueName};
use terrace_env::SeededRng;

use super::{Format, ID, uid};

/// How many values a specimen has: each bit costs a survey of the whole file.
const VALUES: usize = 24;

/// The specimen of a value file.
pub(super) fn value_file(name: &'static str, seed: u64, is_rewritten: bool) -> Result<Format> {
    let store = MemoryTableStore::new();
    let old = [3, 4].map(|counter| FileId { epoch: Epoch(2), counter });
    let mut writer = match is_rewritten {
        false => ValueFileWriter::create(&store, ID, uid(seed), 0, None)?,
        true => ValueFileWriter::rewrite(&store, ID, uid(seed), 0, &old, None)?,
    };
    let mut random = SeededRng::new(seed);
    for number in 0..VALUES {
        let (key, bytes) = (format!("key {number:04}"), random.index(90));
        let value: Vec<u8> = (0..bytes).map(|_| random.next_u64() as u8).collect();
        let entry = ValueEntry { key: key.as_bytes(), seqno: SeqNo(number as u64), value: &value };
        let name = ValueName { segment: old[number % 2], offset: 64 + number as u64 * 100 };
        match is_rewritten {
            false => writer.add(&entry).map(|_| ())?,
            true => writer.add_moved(name, &entry)?,
        }
    }
    let meta = writer.finish()?;
    let whole = ByteInterval { offset: 0, bytes: meta.bytes as usize };
    let bytes = store.open(&meta.location)?.read(&[whole]).wait()?.pop().unwrap_or_default();
    let found = survey(&bytes)?;
    let contents = contents_of(&found);
    let notices = move |bytes: &[u8], _: usize| {
        let Ok(found) = survey(bytes) else { return true };
        let left = contents_of(&found);
        let is_subset = left.iter().all(|value| contents.contains(value));
        assert!(is_subset, "damage was taken for a value");
        // What the directory says is lost with it; without it no value is found of other segments.
        let lost = contents.len() - left.len();
        assert!(lost <= 1 || found.frame.is_none(), "one value is damaged, the others are found");
        !found.damage.is_empty()
    };
    let notices_end = move |bytes: &[u8]| survey(bytes).is_err() || !is_whole(bytes);
    let (notices, notices_end) = (Box::new(notices), Box::new(notices_end));
    Ok(Format { name, bytes, dead: Vec::new(), notices, notices_end })
}

fn survey(bytes: &[u8]) -> Result<ValueSurvey> {
    let file: Arc<dyn TableFile> = Arc::new(MemoryTableFile::new("values", bytes.to_vec()));
    ValueSurvey::read(&file, ID, None)
}

fn is_whole(bytes: &[u8]) -> bool {
    survey(bytes).is_ok_and(|survey| survey.damage.is_empty())
}

fn contents_of(survey: &ValueSurvey) -> Vec<(ValueName, Vec<u8>)> {
    let content = |value| {
        let entry = survey.entry(value)?;
        Some((value.name, [entry.key, entry.value].concat()))
    };
    survey.values.iter().filter_map(content).collect()
}
