//! Surveys of the persistent cache's files. Nothing in them is ever missed: what does not fit its
//! checksum is fetched again.

use terrace_base::CodecError;

use crate::cache::persistent::format::{
    BucketShape, HEADER_BYTES, RECORD_BYTES, SlotRecord, checksum_of, decode_header,
};

/// A bucket of blocks, as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSurvey {
    /// The id of the database that it belongs to.
    pub database: u128,
    /// How it is divided.
    pub shape: BucketShape,
    /// The slots that were filled, in the order of the file.
    pub slots: Vec<SurveyedSlot>,
}

/// A slot that was filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurveyedSlot {
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// What its record says.
    pub record: SlotRecord,
    /// Whether its bytes are what the record says. They are not where a process ended between
    /// writing the one and the other.
    pub fits: bool,
}

impl BucketSurvey {
    /// Surveys the bytes of a bucket's file.
    ///
    /// Errors: its header is damaged, so that nothing in it is believed.
    pub fn read(file: &[u8]) -> Result<BucketSurvey, CodecError> {
        let Some((header, rest)) = file.split_first_chunk::<HEADER_BYTES>() else {
            return Err(CodecError { offset: 0, what: "a bucket shorter than its header" });
        };
        let (shape, database) = decode_header(header)?;
        let (records, _) = rest.as_chunks::<RECORD_BYTES>();
        let surveyed = |(slot, record)| {
            let record = SlotRecord::decode(record, shape.slot_bytes)?;
            let offset = shape.slot_at(slot);
            let begin = usize::try_from(offset).ok()?;
            let bytes = file.get(begin..begin.saturating_add(record.bytes as usize));
            let fits = bytes.is_some_and(|bytes| {
                checksum_of(record.table, record.offset, bytes) == record.checksum
            });
            Some(SurveyedSlot { offset, record, fits })
        };
        let slots = (0..shape.slot_count).zip(records).filter_map(surveyed).collect();
        Ok(BucketSurvey { database, shape, slots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::persistent::format::encode_header;

    #[test]
    fn slots_are_told_from_what_a_crash_left() {
        let shape = BucketShape { slot_bytes: 16, slot_count: 4 };
        let mut file = encode_header(shape, 7).to_vec();
        file.resize(shape.slot_at(4) as usize, 0);
        let mut put = |slot, bytes: &[u8], checksum| {
            let record = SlotRecord { table: 9, offset: 40, bytes: bytes.len() as u32, checksum };
            let (at, record_at) = (shape.slot_at(slot) as usize, shape.record_at(slot) as usize);
            file[record_at..record_at + RECORD_BYTES].copy_from_slice(&record.encode());
            file[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(1, b"as written", checksum_of(9, 40, b"as written"));
        put(3, b"torn", 5);
        let survey = BucketSurvey::read(&file).unwrap();
        assert_eq!((survey.database, survey.shape), (7, shape));
        let found: Vec<_> = survey.slots.iter().map(|slot| (slot.offset, slot.fits)).collect();
        assert_eq!(found, [(shape.slot_at(1), true), (shape.slot_at(3), false)]);
        let cut = BucketSurvey::read(&file[..shape.slot_at(1) as usize]).unwrap();
        assert!(cut.slots.iter().all(|slot| !slot.fits), "{cut:?}");
        file[60] ^= 1;
        assert!(BucketSurvey::read(&file).is_err());
        assert!(BucketSurvey::read(&file[..40]).is_err());
    }
}
