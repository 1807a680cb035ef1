//! A segment of the log as a value file: whether it is one, and whether every record in it is what
//! was written.
//!
//! The manifest knows no hash of it, for nobody read it when it became a value file. Its records
//! have checksums, which start from the segment's identity; they stand one behind the other from
//! the header on, up to the length that the manifest gives.

use std::sync::Arc;

use terrace_base::{Corruption, PreambleError};

use super::ValueFileMeta;
use crate::table::{ByteInterval, TableFile};
use crate::wal::format::{RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader};
use crate::{Error, Result};

/// The first header of a file, if it is a log segment by the looks of it.
///
/// Errors: `Unsupported` if a later version wrote it, and what reading gives, but for damage.
pub fn log_segment_header(file: &dyn TableFile) -> Result<Option<SegmentHeader>> {
    let bytes = SEGMENT_HEADER_BYTES as usize;
    let stored = match file.read(&[ByteInterval { offset: 0, bytes }]).wait() {
        Ok(stored) => stored,
        Err(Error::Corruption(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    match stored.first().map(|stored| SegmentHeader::decode(stored, 0)) {
        Some(Ok(header)) => Ok(Some(header)),
        Some(Err(PreambleError::Unsupported)) if SegmentHeader::has_magic(&stored[0]) => {
            let name = file.name();
            Err(Error::Unsupported(format!("{} was written by a later version", name.display())))
        }
        Some(Err(_)) | None => Ok(None),
    }
}

/// Whether a file is the log segment that `meta` describes, as far as its length and its header
/// tell. Errors: `Corruption` if it is not, and those of [`log_segment_header`].
pub(super) fn judge_segment(file: &Arc<dyn TableFile>, meta: &ValueFileMeta) -> Result<()> {
    let damage = |what: &str| Err(Corruption::new(file.name(), 0, what).into());
    if file.bytes() < meta.bytes {
        return damage("the log segment is shorter than the manifest says");
    }
    match log_segment_header(file.as_ref())? {
        Some(header) if is_of(&header, meta) => Ok(()),
        Some(_) => damage("this is another log segment than the manifest names"),
        None => damage("the header of the log segment is damaged"),
    }
}

/// Whether a header is that of the segment which `meta` describes.
fn is_of(header: &SegmentHeader, meta: &ValueFileMeta) -> bool {
    (header.file_id, header.identity) == (meta.id, meta.uid.0)
}

/// Checks the bytes of a log segment as they come, front to back.
///
/// Cost: what is read is copied once, and a record is held until it is whole.
#[derive(Debug)]
pub struct SegmentVerifier {
    meta: ValueFileMeta,
    /// Where the bytes that are held begin in the file: at the header, or at a record.
    offset: u64,
    held: Vec<u8>,
}

/// What is wrong with a segment, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentDamage {
    /// The offset in the file.
    pub offset: u64,
    /// What is wrong there.
    pub what: &'static str,
}

impl SegmentVerifier {
    /// For the segment that `meta` describes.
    #[must_use]
    pub fn new(meta: &ValueFileMeta) -> SegmentVerifier {
        SegmentVerifier { meta: meta.clone(), offset: 0, held: Vec::new() }
    }

    /// Takes the next bytes. Errors: the first damage; what follows is not looked at.
    pub fn add(&mut self, bytes: &[u8]) -> std::result::Result<(), SegmentDamage> {
        self.held.extend_from_slice(bytes);
        let mut from = 0;
        while let Some(unit_bytes) = self.unit(from)? {
            from += unit_bytes;
        }
        self.held.drain(..from);
        self.offset += from as u64;
        Ok(())
    }

    /// Errors: the segment ends before it should.
    pub fn finish(self) -> std::result::Result<(), SegmentDamage> {
        let is_whole = self.offset == self.meta.bytes && self.held.is_empty();
        let what = "the log segment ends within a record";
        if is_whole { Ok(()) } else { Err(SegmentDamage { offset: self.offset, what }) }
    }

    /// Checks what begins at `from` of what is held, and says how long it is; `None` if it is not
    /// there as a whole yet.
    fn unit(&self, from: usize) -> std::result::Result<Option<usize>, SegmentDamage> {
        let (offset, held) = (self.offset + from as u64, &self.held[from..]);
        let damage = |what| Err(SegmentDamage { offset, what });
        if offset == 0 {
            let bytes = SEGMENT_HEADER_BYTES as usize;
            let Some(stored) = held.get(..bytes) else { return Ok(None) };
            return match SegmentHeader::decode(stored, 0) {
                Ok(header) if is_of(&header, &self.meta) => Ok(Some(bytes)),
                _ => damage("the header of the log segment is not the one that was written"),
            };
        }
        if held.len() < RECORD_HEADER_BYTES {
            return Ok(None);
        }
        let length = RecordHeader::padded_length_in(held);
        if length < RECORD_HEADER_BYTES as u64 || length > self.meta.bytes.saturating_sub(offset) {
            return damage("a record's length is out of bounds");
        }
        let Some(stored) = held.get(..length as usize) else { return Ok(None) };
        match RecordHeader::decode(stored, self.meta.uid.0, offset) {
            Ok(_) => Ok(Some(length as usize)),
            Err(error) => damage(error.what),
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_base::{Epoch, FileId, LogPosition, SeqNo, TableUid};

    use super::*;
    use crate::placement::TableLocation;
    use crate::vlog::ValueHome;
    use crate::wal::format::RecordKind;

    const IDENTITY: u128 = 77;

    /// A segment of records with bodies of these lengths.
    fn segment(bodies: &[usize]) -> (ValueFileMeta, Vec<u8>) {
        let file_id = FileId { epoch: Epoch(3), counter: 9 };
        let header = SegmentHeader {
            identity: IDENTITY,
            file_id,
            predecessor: None,
            base: LogPosition(640),
            database: 5,
            segment_bytes: 1 << 20,
            durable: LogPosition(0),
        };
        let mut bytes = header.encode(0).to_vec();
        for length in bodies {
            let body = vec![*length as u8; *length];
            let header = RecordHeader {
                bytes: (RECORD_HEADER_BYTES + length) as u32,
                first_seqno: SeqNo(1),
                durable: LogPosition(0),
                seqno_count: 1,
                entry_count: 1,
                kind: RecordKind::Batch,
            };
            let offset = bytes.len() as u64;
            bytes.extend_from_slice(&header.encode(IDENTITY, offset, &[&body]));
            bytes.extend_from_slice(&body);
            bytes.resize((offset + header.padded_bytes()) as usize, 0);
        }
        let meta = ValueFileMeta {
            id: file_id,
            uid: TableUid(IDENTITY),
            bytes: bytes.len() as u64,
            home: ValueHome::Log,
            location: TableLocation::new(b"9.values"),
            hash: 0,
            segments: Vec::new(),
        };
        (meta, bytes)
    }

    fn verify(meta: &ValueFileMeta, bytes: &[u8], piece: usize) -> std::result::Result<(), u64> {
        let mut verifier = SegmentVerifier::new(meta);
        for piece in bytes.chunks(piece) {
            verifier.add(piece).map_err(|damage| damage.offset)?;
        }
        verifier.finish().map_err(|damage| damage.offset)
    }

    #[test]
    fn a_segment_is_whole_however_it_comes() {
        let (meta, bytes) = segment(&[5, 300, 0, 64, 1000]);
        for piece in [1, 7, 31, 32, 128, 129, 500, 5000] {
            assert_eq!(verify(&meta, &bytes, piece), Ok(()), "{piece}");
        }
        assert_eq!(verify(&segment(&[]).0, &segment(&[]).1, 50), Ok(()));
    }

    #[test]
    fn damage_is_found_wherever_it_is_and_told_with_the_unit_that_it_hits() {
        let (meta, bytes) = segment(&[5, 300, 0, 61]);
        let starts = [0, 128, 128 + 40, 128 + 40 + 336, 128 + 40 + 336 + 32];
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 0x40;
            let unit = *starts.iter().rfind(|start| **start <= index).expect("the first is 0");
            let is_padding = (165..168).contains(&index)
                || (500..504).contains(&index)
                || index + 3 >= bytes.len();
            let found = verify(&meta, &damaged, 97);
            match is_padding {
                true => assert_eq!(found, Ok(()), "{index}"),
                false => assert_eq!(found.map_err(|offset| offset as usize), Err(unit), "{index}"),
            }
        }
        for length in 0..bytes.len() {
            assert!(verify(&meta, &bytes[..length], 97).is_err(), "cut to {length}");
        }
        let other = ValueFileMeta { uid: TableUid(IDENTITY + 1), ..meta };
        assert_eq!(verify(&other, &bytes, 97), Err(0));
    }
}
