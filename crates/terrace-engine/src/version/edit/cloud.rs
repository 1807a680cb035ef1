use terrace_base::{ByteReader, CodecError, Epoch, LogPosition, SeqNo, put_varint};

use super::{FieldWriter, VersionEdit, field};
use crate::version::format::bounded;

/// The longest URL of an object store.
const URL_BYTES_MAX: usize = 1024;

/// The object store that a range is fed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudEdit {
    /// Who may have written there last.
    pub authors: FeedAuthors,
    /// The store's URL, without anything secret, so that whoever opens the directory finds it.
    /// Empty in what was written before it was kept.
    pub url: String,
}

/// Who may have written the newest content of the feed in the object store, if this directory was
/// the last to own it. Each open draws a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedAuthors {
    /// The open that wrote this.
    pub own: u128,
    /// Whose content that open had found, which stands there until the first of its own does; 0 if
    /// there was none.
    pub before: u128,
}

/// Where the log lies in the object store that goes on behind a moment of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreLog {
    /// Of the owner that writes it.
    pub epoch: Epoch,
    /// Which of that owner's chains of records it is; 0 if there is none.
    pub chain: u64,
    /// The objects that hold what is needed have this number, or a greater one.
    pub number: u64,
    /// Everything below is in tables, and nothing from here on.
    pub position: LogPosition,
}

/// Where the log goes on, on a volume that outlives the machine, behind a moment of the range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeLog {
    /// Of the owner that feeds the moment: the segments behind it are of this epoch, or of a later
    /// one.
    pub epoch: Epoch,
    /// Everything below is in tables, and nothing from here on.
    pub position: LogPosition,
    /// The greatest number in the moment: the record at the position has the next one, unless the
    /// range was changed beside its log in between.
    pub seqno: SeqNo,
}

/// What a moment of the range says of the log behind it, which outlives the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogBehind {
    /// There is none.
    None,
    /// It is in the object store.
    InStore(StoreLog),
    /// It is on a volume.
    OnVolume(VolumeLog),
}

impl StoreLog {
    /// There is none.
    pub const NONE: StoreLog =
        StoreLog { epoch: Epoch(0), chain: 0, number: 0, position: LogPosition(0) };

    fn put(&self, out: &mut Vec<u8>) {
        for number in [self.epoch.0, self.chain, self.number, self.position.0] {
            put_varint(out, number);
        }
    }

    fn read(reader: &mut ByteReader<'_>) -> Result<StoreLog, CodecError> {
        Ok(StoreLog {
            epoch: Epoch(bounded(reader)?),
            chain: bounded(reader)?,
            number: bounded(reader)?,
            position: LogPosition(bounded(reader)?),
        })
    }
}

impl LogBehind {
    /// What the newest of these edits that says anything of it says; nothing if there is none.
    pub fn newest_in(edits: &[VersionEdit]) -> Option<LogBehind> {
        let newest = edits.iter().filter_map(|edit| edit.range.log_behind).next_back();
        newest.filter(|log| *log != LogBehind::None)
    }

    /// Where it begins.
    pub fn position(&self) -> LogPosition {
        match self {
            LogBehind::None => LogPosition(0),
            LogBehind::InStore(log) => log.position,
            LogBehind::OnVolume(log) => log.position,
        }
    }

    /// That in the object store, if it is there.
    pub fn in_store(self) -> Option<StoreLog> {
        match self {
            LogBehind::InStore(log) => Some(log),
            LogBehind::None | LogBehind::OnVolume(_) => None,
        }
    }

    pub(super) fn put(&self, out: &mut FieldWriter<'_>) {
        match self {
            LogBehind::None => out.put(field::STORE_LOG, |v| StoreLog::NONE.put(v)),
            LogBehind::InStore(log) => out.put(field::STORE_LOG, |v| log.put(v)),
            LogBehind::OnVolume(log) => out.put(field::VOLUME_LOG, |v| {
                put_varint(v, log.epoch.0);
                put_varint(v, log.position.0);
                put_varint(v, log.seqno.0);
            }),
        }
    }

    pub(super) fn read_in_store(reader: &mut ByteReader<'_>) -> Result<LogBehind, CodecError> {
        let log = StoreLog::read(reader)?;
        Ok(if log == StoreLog::NONE { LogBehind::None } else { LogBehind::InStore(log) })
    }

    pub(super) fn read_on_volume(reader: &mut ByteReader<'_>) -> Result<LogBehind, CodecError> {
        Ok(LogBehind::OnVolume(VolumeLog {
            epoch: Epoch(bounded(reader)?),
            position: LogPosition(bounded(reader)?),
            seqno: SeqNo(bounded(reader)?),
        }))
    }
}

impl CloudEdit {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.authors.own.to_le_bytes());
        out.extend_from_slice(&self.authors.before.to_le_bytes());
        out.extend_from_slice(self.url.as_bytes());
    }

    pub(super) fn read(reader: &mut ByteReader<'_>) -> Result<CloudEdit, CodecError> {
        let authors = FeedAuthors { own: reader.u128()?, before: reader.u128()? };
        let error = reader.error("not the URL of an object store");
        let url = str::from_utf8(reader.take_rest()).map_err(|_| error)?;
        if url.len() > URL_BYTES_MAX {
            return Err(error);
        }
        Ok(CloudEdit { authors, url: url.to_string() })
    }
}
