//! Sealing again what mutation has broken: checksums are set right, everything else is left.

use terrace_base::{ByteReader, Checksum, TableUid};
use terrace_engine::table::format::footer::FOOTER_BYTES;
use terrace_engine::version::format as version;
use terrace_engine::vlog::format as vlog;
use terrace_engine::wal::format as wal;

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Sets the checksum in the last four bytes of a header of `header_bytes` that has its identity at
/// byte 16: of a log segment, a manifest, or `CURRENT`.
pub fn header(bytes: &mut [u8], header_bytes: usize) -> Option<u128> {
    header_at(bytes, 0, header_bytes)
}

/// As [`header`], of one that stands at `at` of its file.
fn header_at(bytes: &mut [u8], at: usize, header_bytes: usize) -> Option<u128> {
    let header = bytes.get_mut(at..at.checked_add(header_bytes)?)?;
    let identity = u128_at(header, 16)?;
    let (covered, stored) = header.split_at_mut(header_bytes - 4);
    let checksum = Checksum::at(identity, at as u64).bytes(covered).finish();
    stored.copy_from_slice(&checksum.to_le_bytes());
    Some(identity)
}

/// Sets the checksum of the record that begins at `at`, a checksum and a length of four bytes each
/// in front; returns where the next may begin.
fn record(bytes: &mut [u8], identity: u128, at: usize, least_bytes: usize) -> Option<usize> {
    let length = u32_at(bytes, at + 4)? as usize;
    let record = bytes.get_mut(at..at.checked_add(length)?)?;
    if length < least_bytes {
        return None;
    }
    let checksum = Checksum::at(identity, at as u64).bytes(&record[4..]).finish();
    record[..4].copy_from_slice(&checksum.to_le_bytes());
    Some(at + length.next_multiple_of(8))
}

/// Sets the checksums of a log segment: of its two headers and of every record up to the first
/// whose length cannot be.
pub fn segment(bytes: &mut [u8]) {
    let header_bytes = wal::SEGMENT_HEADER_BYTES as usize;
    let Some(identity) = header(bytes, header_bytes) else { return };
    let second = wal::SegmentHeader::second_offset(bytes.len() as u64) as usize;
    header_at(bytes, second, header_bytes);
    let mut at = header_bytes;
    while let Some(next) = record(bytes, identity, at, wal::RECORD_HEADER_BYTES) {
        at = next;
    }
}

/// Sets the checksum of a single log record at `offset` of a segment with this identity.
pub fn log_record(bytes: &mut [u8], identity: u128, offset: u64) {
    let length = u32_at(bytes, 4).unwrap_or(0) as usize;
    if let Some(record) = bytes.get_mut(..length)
        && length >= wal::RECORD_HEADER_BYTES
    {
        let checksum = Checksum::at(identity, offset).bytes(&record[4..]).finish();
        record[..4].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Sets the checksums of an object of the log in the store: of its records, up to the first whose
/// length cannot be, and of the whole.
pub fn log_object(bytes: &mut [u8], database: u128, number: u64) -> Option<()> {
    let content = bytes.len().checked_sub(4)?;
    let (chain, base) = (u64_at(bytes, 72).unwrap_or(0), u64_at(bytes, 80).unwrap_or(0));
    let mut at = 88;
    while let Some(length) = u32_at(&bytes[..content], at + 4)
        && length as usize >= wal::RECORD_HEADER_BYTES
        && let Some(record) = bytes[..content].get_mut(at..at + length as usize)
    {
        let position = base.wrapping_add(at as u64 - 88);
        let checksum = Checksum::at(u128::from(chain), position).bytes(&record[4..]).finish();
        record[..4].copy_from_slice(&checksum.to_le_bytes());
        at += (length as usize).next_multiple_of(8);
    }
    let (covered, stored) = bytes.split_last_chunk_mut::<4>()?;
    *stored = Checksum::at(database, number).bytes(covered).finish().to_le_bytes();
    Some(())
}

/// Sets the checksums of a manifest, as [`segment`] does those of a segment.
pub fn manifest(bytes: &mut [u8]) {
    let Some(identity) = header(bytes, version::HEADER_BYTES) else { return };
    let mut at = version::HEADER_BYTES;
    while let Some(next) = record(bytes, identity, at, version::RECORD_HEADER_BYTES) {
        at = next;
    }
}

/// Sets the checksums of a table: of the footer, of the parts that it names, and of the data blocks
/// that the index names; and the size of the file in the footer.
pub fn table(bytes: &mut [u8]) {
    let Some(footer_at) = bytes.len().checked_sub(FOOTER_BYTES) else { return };
    let file_bytes = bytes.len() as u64;
    bytes[footer_at + 16..footer_at + 24].copy_from_slice(&file_bytes.to_le_bytes());
    let uid = TableUid(u128_at(bytes, footer_at).unwrap_or(0));
    let mut parts = Vec::new();
    for part in 0..4 {
        let at = footer_at + 24 + 16 * part;
        let offset = u64_at(bytes, at).unwrap_or(u64::MAX);
        let length = u64_at(bytes, at + 8).unwrap_or(u64::MAX);
        frame(bytes, uid, offset, length);
        parts.push((offset, length));
    }
    // All names as if they were one frame: they are, where a table names little.
    let (tombstones_at, tombstones_bytes) = parts[2];
    let names_bytes = u64_at(bytes, footer_at + 100).unwrap_or(0);
    if names_bytes > 0 {
        frame(bytes, uid, tombstones_at.saturating_add(tombstones_bytes), names_bytes);
    }
    if let Some(frames) = index_frames(bytes, parts[1]) {
        for (offset, length) in frames {
            frame(bytes, uid, offset, length);
        }
    }
    let covered = &bytes[footer_at..footer_at + FOOTER_BYTES - 4];
    let checksum = Checksum::at(uid.0, footer_at as u64).bytes(covered).finish();
    bytes[footer_at + FOOTER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
}

/// Sets the checksums of a value file's ends: of header, directory and footer, whatever they say.
pub fn values(bytes: &mut [u8]) -> Option<()> {
    let identity = header(bytes, vlog::HEADER_BYTES)?;
    let footer_at = bytes.len().checked_sub(vlog::FOOTER_BYTES)?;
    let file_bytes = bytes.len() as u64;
    bytes[footer_at..footer_at + 16].copy_from_slice(&identity.to_le_bytes());
    bytes[footer_at + 16..footer_at + 24].copy_from_slice(&file_bytes.to_le_bytes());
    let directory = u64_at(bytes, footer_at + 32)?;
    let directory_bytes = (footer_at as u64).checked_sub(directory)?;
    frame(bytes, TableUid(identity), directory, directory_bytes);
    frame(bytes, TableUid(identity), footer_at as u64, vlog::FOOTER_BYTES as u64)
}

/// Sets the checksum of metadata in the persistent cache.
pub fn cached_metadata(bytes: &mut [u8], table: u128) -> Option<()> {
    let (covered, stored) = bytes.split_last_chunk_mut::<4>()?;
    *stored = Checksum::at(table, 0).bytes(covered).finish().to_le_bytes();
    Some(())
}

/// Sets the checksum of a frame, if it lies in the file.
fn frame(bytes: &mut [u8], uid: TableUid, offset: u64, length: u64) -> Option<()> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    let (covered, stored) = bytes.get_mut(start..end)?.split_last_chunk_mut::<4>()?;
    *stored = Checksum::at(uid.0, offset).bytes(covered).finish().to_le_bytes();
    Some(())
}

/// Where the data blocks lie, as far as the index can be read.
fn index_frames(bytes: &[u8], (offset, length): (u64, u64)) -> Option<Vec<(u64, u64)>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    let mut reader = ByteReader::new(bytes.get(start..end)?);
    let count = reader.varint().ok()?;
    let mut frames = Vec::new();
    let mut at = 0_u64;
    for _ in 0..count {
        let (Ok(frame_bytes), Ok(_), Ok(_)) = (reader.varint(), reader.varint(), reader.bytes())
        else {
            break;
        };
        frames.push((at, frame_bytes));
        at = at.checked_add(frame_bytes)?;
    }
    Some(frames)
}
