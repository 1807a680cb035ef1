use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use terrace_base::FileId;

use super::Gap;
use crate::table::{ByteInterval, TableFile};
use crate::vlog::format::{
    ENTRY_HEADER_BYTES, EntryHeader, HEADER_BYTES, RECORDS_PER_FRAME, ValueEntry, check_frame,
    decode_entry, frame_bytes, record_at,
};
use crate::vlog::{Frame, ValueFileMeta, ValueName};
use crate::{Error, Result};

/// What is left of a value file. It holds the bytes of the whole file in memory.
pub struct ValueSurvey {
    name: PathBuf,
    bytes: Vec<u8>,
    /// Header, footer and directory, if all three are whole.
    pub frame: Option<Frame>,
    /// The values that pass their checksums, in the order in which they lie there.
    pub values: Vec<SurveyedValue>,
    /// What is not what was written.
    pub damage: Vec<Gap>,
}

/// A value that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurveyedValue {
    /// The value's name.
    pub name: ValueName,
    /// Where its entry begins.
    pub offset: u64,
    /// Bytes of its entry.
    pub entry_bytes: usize,
}

impl ValueSurvey {
    /// Reads a file that is said to have this id; `meta` is what the manifest knows of it, if
    /// anything. Which segments a damaged directory named is known from there only: of a file that
    /// was rewritten no value is found without either.
    ///
    /// Errors: those that are no damage, `Unsupported` among them.
    pub fn read(
        file: &Arc<dyn TableFile>,
        id: FileId,
        meta: Option<&ValueFileMeta>,
    ) -> Result<ValueSurvey> {
        let whole = ByteInterval { offset: 0, bytes: file.bytes() as usize };
        let bytes = file.read(&[whole]).wait()?.pop().unwrap_or_default();
        let (frame, mut damage) = match Frame::read(file.as_ref()) {
            Ok(frame) => (Some(frame), Vec::new()),
            Err(Error::Corruption(found)) => {
                let end = bytes.len() as u64;
                (None, vec![Gap { offset: found.offset, end, what: found.detail }])
            }
            Err(error) => return Err(error),
        };
        let segments: Vec<FileId> = match (&frame, meta) {
            (Some(frame), _) => frame.segments.iter().map(|segment| segment.id).collect(),
            (None, Some(meta)) => meta.segments.iter().map(|segment| segment.id).collect(),
            (None, None) => vec![id],
        };
        let end = frame.as_ref().map_or(bytes.len() as u64, |frame| frame.footer.entries_end);
        let values = find_values(&bytes[..end as usize], &segments, &mut damage);
        let mut survey = ValueSurvey { name: file.name(), bytes, frame, values, damage };
        survey.judge_places();
        survey.damage.sort_by_key(|gap| gap.offset);
        Ok(survey)
    }

    /// What the file is called in an error.
    #[must_use]
    pub fn name(&self) -> &PathBuf {
        &self.name
    }

    /// The entry of a value that was found.
    #[must_use]
    pub fn entry(&self, value: &SurveyedValue) -> Option<ValueEntry<'_>> {
        let from = value.offset as usize;
        decode_entry(self.bytes.get(from..from + value.entry_bytes)?, value.name).ok()
    }

    /// Compares the places of a rewritten file, and the counts of the directory, to what is there.
    fn judge_places(&mut self) {
        let Some(Frame { uid, footer, segments, .. }) = &self.frame else { return };
        let by_name: BTreeMap<ValueName, u64> =
            self.values.iter().map(|value| (value.name, value.offset)).collect();
        let mut counts: BTreeMap<FileId, u64> = BTreeMap::new();
        by_name.keys().for_each(|name| *counts.entry(name.segment).or_default() += 1);
        let mut at = footer.entries_end;
        let mut damage = Vec::new();
        for segment in segments {
            let found = counts.get(&segment.id).copied().unwrap_or_default();
            if found > segment.count {
                let what = format!(
                    "segment {} has {found} values here, not {}",
                    segment.id, segment.count
                );
                damage.push(Gap { offset: footer.directory, end: footer.offset(), what });
            }
            let mut left = if footer.is_rewritten { segment.count as usize } else { 0 };
            while left > 0 {
                let records = left.min(RECORDS_PER_FRAME);
                let end = at + frame_bytes(records) as u64;
                let stored = self.bytes.get(at as usize..end as usize).unwrap_or_default();
                let what = match check_frame(stored, *uid, at) {
                    Err(error) => Some(error.what.to_string()),
                    Ok(checked) => (0..records).find_map(|index| {
                        let (offset, place) = record_at(checked, index)?;
                        let name = ValueName { segment: segment.id, offset };
                        // A value that is damaged is said to be so where it lies.
                        let is_wrong = by_name.get(&name).is_some_and(|found| *found != place);
                        is_wrong.then(|| format!("value {name:?} is not at {place}"))
                    }),
                };
                damage.extend(what.map(|what| Gap { offset: at, end, what }));
                (at, left) = (end, left - records);
            }
        }
        self.damage.append(&mut damage);
    }
}

/// How often the bytes of a file may be looked at to find the values behind damage. Only bytes that
/// were made to cost time need more than a few.
const LOOKS_MAX: usize = 64;

/// The values in `bytes`, which are those of a file up to the end of its entries. Behind damage the
/// next entry is found by trying: its checksum covers its name.
fn find_values(bytes: &[u8], segments: &[FileId], damage: &mut Vec<Gap>) -> Vec<SurveyedValue> {
    let mut values = Vec::new();
    let mut left = bytes.len().saturating_mul(LOOKS_MAX);
    let mut at = HEADER_BYTES.min(bytes.len());
    while at < bytes.len() {
        match value_at(bytes, at, segments, &mut left) {
            Ok(value) => {
                at += value.entry_bytes;
                values.push(value);
            }
            Err(what) => {
                let mut behind = at + 1..bytes.len();
                let next = behind.find(|at| value_at(bytes, *at, segments, &mut left).is_ok());
                let end = next.unwrap_or(bytes.len());
                damage.push(Gap { offset: at as u64, end: end as u64, what: what.to_string() });
                at = end;
            }
        }
    }
    values
}

/// The value whose entry begins at `at`, if one does. `left`: how many bytes may be looked at.
fn value_at(
    bytes: &[u8],
    at: usize,
    segments: &[FileId],
    left: &mut usize,
) -> std::result::Result<SurveyedValue, &'static str> {
    let rest = &bytes[at..];
    let Some(header) = rest.get(..ENTRY_HEADER_BYTES) else {
        return Err("the header of a value is cut");
    };
    let header = EntryHeader::decode(header).map_err(|error| error.what)?;
    let segment = segments.get(header.segment as usize);
    let segment = *segment.ok_or("a value says that it is of a segment that is not here")?;
    let name = ValueName { segment, offset: header.offset };
    let entry_bytes = header.entry_bytes() as usize;
    let stored = rest.get(..entry_bytes).ok_or("a value is cut")?;
    let after = left.checked_sub(entry_bytes).ok_or("too much that looks like a value is none")?;
    decode_entry(stored, name).map_err(|error| {
        *left = after;
        error.what
    })?;
    Ok(SurveyedValue { name, offset: at as u64, entry_bytes })
}

impl fmt::Debug for ValueSurvey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueSurvey")
            .field("name", &self.name)
            .field("values", &self.values.len())
            .field("damage", &self.damage)
            .finish_non_exhaustive()
    }
}
