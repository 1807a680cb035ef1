use terrace_base::limits::STORED_KEY_BYTES_MAX;
use terrace_base::{ByteReader, CodecError, Epoch, KeyRange, RangeId, put_bytes, put_varint};

use super::{CloudEdit, FieldWriter, LogBehind, field};
use crate::merge::is_operator_name;
use crate::options::DRANGES_MAX;
use crate::version::format::{bounded, put_range, read_range};

/// What an edit says of the range itself: whose it is, and what it keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeEdit {
    /// The database, drawn at random when it was created.
    pub database: Option<u128>,
    /// The range's id, and the keys that it owns.
    pub identity: Option<(RangeId, KeyRange)>,
    /// The owner's epoch. Edits of a lower epoch are refused.
    pub epoch: Option<Epoch>,
    /// The name of the range's merge operator, which it keeps.
    pub merge_operator: Option<String>,
    /// The range was put together by a repair.
    pub repaired: Option<Repaired>,
    /// Where memtables divide the keys from now on, ascending.
    pub drange_boundaries: Option<Vec<Vec<u8>>>,
    /// The range is fed to this object store.
    pub cloud: Option<CloudEdit>,
    /// Where the log is that outlives the machine, from this moment of the range on.
    pub log_behind: Option<LogBehind>,
    /// How many edits were installed with this one, since the range is fed to an object store. Of
    /// two moments of one owner the one with more is the later one; nothing else tells that of all
    /// edits: the ids of files are given out before the edits that name them are installed.
    pub edit_count: Option<u64>,
}

/// The stamp of a repair: what a range holds was salvaged from a damaged one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Repaired {
    /// When.
    pub at_ms: u64,
    /// The database that it was salvaged from; 0 if that could not be read. The repaired one has
    /// an identity of its own.
    pub source_database: u128,
    /// Whether the repair knew of something that it could not salvage.
    pub is_incomplete: bool,
}

impl RangeEdit {
    pub(super) fn put(&self, out: &mut FieldWriter<'_>) {
        if let Some(database) = self.database {
            out.put(field::DATABASE, |v| v.extend_from_slice(&database.to_le_bytes()));
        }
        if let Some((id, keys)) = &self.identity {
            out.put(field::RANGE, |v| {
                put_varint(v, id.0);
                put_range(v, keys);
            });
        }
        if let Some(epoch) = self.epoch {
            out.put(field::EPOCH, |v| put_varint(v, epoch.0));
        }
        if let Some(repaired) = self.repaired {
            out.put(field::REPAIRED, |v| put_repaired(v, repaired));
        }
        if let Some(boundaries) = &self.drange_boundaries {
            out.put(field::DRANGE_BOUNDARIES, |v| {
                boundaries.iter().for_each(|key| put_bytes(v, key));
            });
        }
        if let Some(cloud) = &self.cloud {
            out.put(field::CLOUD, |v| cloud.put(v));
        }
        if let Some(log) = &self.log_behind {
            log.put(out);
        }
        if let Some(count) = self.edit_count {
            out.put(field::EDIT_COUNT, |v| put_varint(v, count));
        }
        if let Some(name) = &self.merge_operator {
            out.put(field::MERGE_OPERATOR, |v| v.extend_from_slice(name.as_bytes()));
        }
    }

    /// Reads the field with this number, if it is one of the range's.
    pub(super) fn read(
        &mut self,
        number: u64,
        value: &mut ByteReader<'_>,
    ) -> Result<bool, CodecError> {
        match number {
            field::DATABASE => self.database = Some(value.u128()?),
            field::RANGE => {
                self.identity = Some((RangeId(value.varint()?), read_range(value)?));
            }
            field::EPOCH => self.epoch = Some(Epoch(bounded(value)?)),
            field::REPAIRED => self.repaired = Some(read_repaired(value)?),
            field::DRANGE_BOUNDARIES => self.drange_boundaries = Some(read_boundaries(value)?),
            field::MERGE_OPERATOR => self.merge_operator = Some(read_operator(value)?),
            field::CLOUD => self.cloud = Some(CloudEdit::read(value)?),
            field::STORE_LOG => self.log_behind = Some(LogBehind::read_in_store(value)?),
            field::EDIT_COUNT => self.edit_count = Some(value.varint()?),
            field::VOLUME_LOG => self.log_behind = Some(LogBehind::read_on_volume(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn put_repaired(out: &mut Vec<u8>, repaired: Repaired) {
    put_varint(out, repaired.at_ms);
    out.push(u8::from(repaired.is_incomplete));
    out.extend_from_slice(&repaired.source_database.to_le_bytes());
}

fn read_repaired(reader: &mut ByteReader<'_>) -> Result<Repaired, CodecError> {
    let at_ms = reader.varint()?;
    let is_incomplete = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return Err(reader.error("neither complete nor incomplete")),
    };
    Ok(Repaired { at_ms, source_database: reader.u128()?, is_incomplete })
}

/// The name of a merge operator: all of `reader`.
pub fn read_operator(reader: &mut ByteReader<'_>) -> Result<String, CodecError> {
    let bytes = reader.take_rest();
    match std::str::from_utf8(bytes) {
        Ok(name) if is_operator_name(name) => Ok(name.to_string()),
        _ => Err(reader.error("not the name of a merge operator")),
    }
}

fn read_boundaries(reader: &mut ByteReader<'_>) -> Result<Vec<Vec<u8>>, CodecError> {
    let mut boundaries: Vec<Vec<u8>> = Vec::new();
    while !reader.is_empty() {
        let key = reader.bytes()?;
        let ascends = boundaries.last().map_or(&[][..], Vec::as_slice) < key;
        if !ascends || key.len() > STORED_KEY_BYTES_MAX || boundaries.len() + 1 >= DRANGES_MAX {
            return Err(reader.error("boundaries of dranges that cannot be"));
        }
        boundaries.push(key.to_vec());
    }
    Ok(boundaries)
}
