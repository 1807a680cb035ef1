//! Finding the frames of a table when nothing says where they lie.
//!
//! Frames lie back to back, and each ends with a checksum of all its bytes and its place. So the
//! end of a frame is where the checksum of what came before stands next. One place in 2^32 looks
//! like an end by chance; what stands there must also decode as what it claims to be.

use terrace_base::{Checksum, TableUid};

use super::Gap;
use crate::table::BlockIndex;
use crate::table::format::block::{self, BlockView};
use crate::table::format::filter::Filter;
use crate::table::format::footer::Handle;
use crate::table::format::frame::{self, Compression, TRAILER_BYTES};
use crate::table::format::names::are_lists;
use crate::table::format::properties::TableProperties;
use crate::table::format::{BLOCK_BYTES_MAX, FormatError, range_tombstones};
use crate::table::{decode_frame, decompress_frame};

/// The frames that a scan found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The data blocks, in their order.
    pub blocks: Vec<Handle>,
    /// The index.
    pub index: Option<Handle>,
    /// The filter.
    pub filter: Option<Handle>,
    /// The range tombstones.
    pub range_tombstones: Option<Handle>,
    /// The properties.
    pub properties: Option<Handle>,
    /// What is none of these.
    pub gaps: Vec<Gap>,
    /// Why blocks cannot be told from gaps: they are compressed, and the codec is not built in.
    pub no_codec: Option<String>,
}

/// Scans `bytes`, the front of a table, for frames.
pub fn scan(bytes: &[u8], uid: TableUid) -> Scan {
    let mut scan = Scan::default();
    let mut offset = 0;
    while offset < bytes.len() {
        let handle = frame_at(bytes, uid, offset);
        if let Some(handle) = handle.filter(|&handle| scan.take(bytes, uid, handle)) {
            offset += handle.bytes as usize;
            continue;
        }
        let next = (offset + 1..bytes.len()).find(|&at| plain_block_at(bytes, uid, at).is_some());
        let end = next.unwrap_or(bytes.len());
        let what = "no block of the table".to_string();
        scan.gaps.push(Gap { offset: offset as u64, end: end as u64, what });
        offset = end;
    }
    scan
}

impl Scan {
    /// Takes a frame in as what it decodes to; `false` if that is nothing.
    fn take(&mut self, bytes: &[u8], uid: TableUid, handle: Handle) -> bool {
        let frame = &bytes[handle.offset as usize..(handle.offset + handle.bytes) as usize];
        let is_past_data = self.index.is_some() || self.filter.is_some();
        if !is_past_data && self.decodes_as_block(frame, uid, handle.offset) {
            self.blocks.push(handle);
            return true;
        }
        let Ok(payload) = frame::open_plain(frame, uid, handle.offset) else { return false };
        let data_bytes = self.blocks.last().map_or(0, |last| last.offset + last.bytes);
        let slot = if self.index.is_none() && BlockIndex::decode_either(payload, data_bytes).is_ok()
        {
            &mut self.index
        } else if self.properties.is_none() && TableProperties::decode(payload).is_ok() {
            &mut self.properties
        } else if self.range_tombstones.is_none() && range_tombstones::decode(payload).is_ok() {
            &mut self.range_tombstones
        } else if self.filter.is_none() && Filter::decode(payload).is_ok() {
            &mut self.filter
        } else {
            // Entries say what a list of names does.
            return is_past_data && are_lists(payload);
        };
        *slot = Some(handle);
        true
    }

    /// Whether a frame holds a data block.
    fn decodes_as_block(&mut self, frame: &[u8], uid: TableUid, offset: u64) -> bool {
        let Ok((compression, payload)) = decode_frame(frame, uid, offset) else { return false };
        match decompress_frame(compression, payload, BLOCK_BYTES_MAX) {
            Ok(block) => BlockView::parse(&block).is_ok_and(|view| view.check_layout().is_ok()),
            Err(FormatError::Damaged(_)) => false,
            Err(FormatError::Unsupported(text)) => {
                self.no_codec = Some(text);
                false
            }
        }
    }
}

/// The frame that begins at `offset`, if one does.
fn frame_at(bytes: &[u8], uid: TableUid, offset: usize) -> Option<Handle> {
    if let Some(handle) = plain_block_at(bytes, uid, offset) {
        return Some(handle);
    }
    let rest = &bytes[offset..];
    let mut checksum = Checksum::at(uid.0, offset as u64);
    for end in 0..rest.len().saturating_sub(4).min(BLOCK_BYTES_MAX) {
        checksum = checksum.bytes(&rest[end..=end]);
        let is_end = Compression::from_stored(rest[end]).is_some()
            && rest[end + 1..].first_chunk() == Some(&checksum.finish().to_le_bytes());
        if is_end {
            return Some(Handle { offset: offset as u64, bytes: (end + 5) as u64 });
        }
    }
    None
}

/// The frame of a block that is not compressed and says how long it is.
fn plain_block_at(bytes: &[u8], uid: TableUid, offset: usize) -> Option<Handle> {
    let rest = &bytes[offset..];
    let frame_bytes = block::stored_bytes(rest)?.checked_add(TRAILER_BYTES)?;
    let frame = rest.get(..frame_bytes)?;
    let opened = frame::open(frame, uid, offset as u64);
    let is_plain = matches!(opened, Ok((Compression::None, _)));
    is_plain.then_some(Handle { offset: offset as u64, bytes: frame_bytes as u64 })
}
