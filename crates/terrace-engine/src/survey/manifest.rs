use terrace_base::{CodecError, FileId, PreambleError};

use super::Gap;
use crate::version::VersionEdit;
use crate::version::format::{
    HEADER_BYTES, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, decode_edit, decode_manifest_header,
    decode_record,
};

/// What is left of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestSurvey {
    /// The identity and the id in the header, or what is wrong with it.
    pub header: Result<(u128, FileId), PreambleError>,
    /// The edits whose records are good, in the order of the file.
    pub edits: Vec<SurveyedEdit>,
    /// What stands between and behind them.
    pub gaps: Vec<Gap>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// An edit in a good record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedEdit {
    /// Where its record begins.
    pub offset: u64,
    /// Bytes of the record.
    pub bytes: u64,
    /// The edit; an error if it was written wrongly, or by a later version.
    pub edit: Result<VersionEdit, CodecError>,
}

impl ManifestSurvey {
    /// Whether a readable edit says where the log begins: the range has been open. What is left of
    /// one whose creation was interrupted says nothing of a log.
    #[must_use]
    pub fn knows_of_log(&self) -> bool {
        let edits = self.edits.iter().filter_map(|found| found.edit.as_ref().ok());
        edits.filter_map(|edit| edit.log.start).any(|start| start.segment.is_some())
    }

    /// Surveys the bytes of a manifest. Cost: linear in them, unless they were forged.
    #[must_use]
    pub fn read(bytes: &[u8]) -> ManifestSurvey {
        let header = decode_manifest_header(bytes);
        let mut survey = ManifestSurvey {
            header,
            edits: Vec::new(),
            gaps: Vec::new(),
            bytes: bytes.len() as u64,
        };
        let Some(identity) = survey.identity(bytes) else { return survey };
        let mut offset = HEADER_BYTES.min(bytes.len());
        while offset < bytes.len() {
            match decode_record(&bytes[offset..], identity, offset as u64) {
                Ok((edit, taken)) => {
                    survey.edits.push(SurveyedEdit {
                        offset: offset as u64,
                        bytes: taken as u64,
                        edit: decode_edit(edit),
                    });
                    offset += taken;
                }
                Err(error) => {
                    let end = next_record(bytes, identity, offset).unwrap_or(bytes.len());
                    survey.gaps.push(Gap {
                        offset: offset as u64,
                        end: end as u64,
                        what: error.what.to_string(),
                    });
                    offset = end;
                }
            }
        }
        survey
    }

    /// The identity that records are checked with. If the header is damaged, what stands in its
    /// place is tried: a record that passes proves it.
    fn identity(&self, bytes: &[u8]) -> Option<u128> {
        match &self.header {
            Ok((identity, _)) => Some(*identity),
            Err(PreambleError::Unsupported) => None,
            Err(PreambleError::Codec(_)) => {
                let stored = bytes.get(16..32)?.first_chunk()?;
                let identity = u128::from_le_bytes(*stored);
                let first =
                    decode_record(bytes.get(HEADER_BYTES..)?, identity, HEADER_BYTES as u64);
                first.is_ok().then_some(identity)
            }
        }
    }

    /// Where the good records from the first one on end.
    #[must_use]
    pub fn good_end(&self) -> u64 {
        self.gaps.first().map_or(self.bytes, |gap| gap.offset)
    }

    /// The gap that reaches to the end of the file: what a crash may have torn, since each record
    /// was durable before the next was written.
    #[must_use]
    pub fn tail(&self) -> Option<&Gap> {
        self.gaps.last().filter(|gap| gap.end == self.bytes)
    }

    /// The gaps with a good record behind them: damage in any case.
    pub fn holes(&self) -> impl Iterator<Item = &Gap> {
        self.gaps.iter().filter(|gap| gap.end < self.bytes)
    }
}

/// The first good record behind a damaged one.
fn next_record(bytes: &[u8], identity: u128, damaged: usize) -> Option<usize> {
    let later = (damaged + RECORD_ALIGNMENT..bytes.len()).step_by(RECORD_ALIGNMENT);
    later.into_iter().find(|&at| {
        let plausible = bytes.get(at + 4..at + RECORD_HEADER_BYTES) != Some(&[0; 4]);
        plausible && decode_record(&bytes[at..], identity, at as u64).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::{Epoch, SeqNo};

    use crate::version::TreeEdit;
    use crate::version::format::{encode_manifest_header, encode_record};

    fn manifest() -> Vec<u8> {
        let id = FileId { epoch: Epoch(1), counter: 1 };
        let mut bytes = encode_manifest_header(7, id).to_vec();
        for number in 0..5 {
            let is_snapshot = number == 0;
            let greatest_seqno = Some(SeqNo(number));
            let tree = TreeEdit { greatest_seqno, ..TreeEdit::default() };
            let edit = VersionEdit { is_snapshot, tree, ..VersionEdit::default() };
            bytes.extend(encode_record(7, bytes.len() as u64, &edit));
        }
        bytes
    }

    #[test]
    fn what_is_behind_a_gap_is_found() {
        let whole = manifest();
        let survey = ManifestSurvey::read(&whole);
        assert_eq!((survey.edits.len(), survey.gaps.len()), (5, 0));
        let third = survey.edits[2].offset;
        let mut holed = whole.clone();
        holed[third as usize + 9] ^= 1;
        let survey = ManifestSurvey::read(&holed);
        assert_eq!((survey.edits.len(), survey.holes().count()), (4, 1));
        assert_eq!((survey.good_end(), survey.tail()), (third, None));
        let mut torn = whole.clone();
        torn.truncate(whole.len() - 3);
        let survey = ManifestSurvey::read(&torn);
        assert_eq!((survey.edits.len(), survey.holes().count()), (4, 0));
        assert_eq!(survey.tail().map(|gap| gap.end), Some(torn.len() as u64));
    }

    #[test]
    fn records_prove_the_identity_of_a_damaged_header() {
        let mut bytes = manifest();
        bytes[40] ^= 1;
        let survey = ManifestSurvey::read(&bytes);
        assert!(survey.header.is_err());
        assert_eq!(survey.edits.len(), 5);
        bytes[20] ^= 1;
        assert!(ManifestSurvey::read(&bytes).edits.is_empty(), "the identity itself is damaged");
        assert!(ManifestSurvey::read(&bytes[..10]).edits.is_empty());
    }
}
